"""Real clients against `qkv serve`. Usage: clients.py URL KEY QKV MODEL

QKV is the program, and MODEL the directory of the model that is served as `gpt2`: what it says of a text alone is compared with
what the server says."""

import json
import struct
import subprocess
import sys
import urllib.request
import zlib

URL, KEY, QKV, MODEL = sys.argv[1:5]


def png():
    """A picture of 20 x 20 pixels."""
    rows = b"".join(b"\0" + bytes(v for x in range(20) for v in (9 * x, 9 * y, 7)) for y in range(20))
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    head = struct.pack(">IIBBBBB", 20, 20, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def with_openai():
    import openai

    client = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0)
    assert "gpt2" in [m.id for m in client.models.list()]
    assert client.models.retrieve("llama").id == "llama"
    ask = dict(model="gpt2", prompt="the fox", max_tokens=12, seed=3)
    whole = client.completions.create(**ask)
    assert whole.choices[0].finish_reason in ("length", "stop") and whole.usage.completion_tokens <= 12
    stream = client.completions.create(**ask, stream=True, stream_options={"include_usage": True})
    parts = list(stream)
    assert "".join(p.choices[0].text for p in parts if p.choices) == whole.choices[0].text
    assert parts[-1].usage.total_tokens == whole.usage.total_tokens
    told = client.completions.create(model="gpt2", prompt=[5, 6, 7], max_tokens=1, temperature=0, logprobs=2, echo=True)
    logprobs = told.choices[0].logprobs
    assert len(logprobs.token_logprobs) == 4 and logprobs.token_logprobs[0] is None
    assert max(logprobs.top_logprobs[3].values()) == logprobs.token_logprobs[3]
    two = client.completions.create(model="gpt2", prompt=["the", "fox"], n=2, max_tokens=3)
    assert [c.index for c in two.choices] == [0, 1, 2, 3]

    messages = [{"role": "user", "content": "the fox"}]
    chat = dict(model="llama", messages=messages, max_tokens=8, seed=1, logprobs=True, top_logprobs=3)
    whole = client.chat.completions.create(**chat)
    assert len(whole.choices[0].logprobs.content[0].top_logprobs) == 3
    parts = list(client.chat.completions.create(**chat, stream=True))
    said = "".join(p.choices[0].delta.content or "" for p in parts)
    assert said == whole.choices[0].message.content and parts[0].choices[0].delta.role == "assistant"

    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    format = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    held = client.chat.completions.create(model="llama", messages=messages, max_tokens=40, response_format=format)
    assert isinstance(json.loads(held.choices[0].message.content)["n"], int)

    number = {"type": "object", "required": ["n"], "properties": {"n": {"enum": [1, 2]}}}
    tools = [{"type": "function", "function": {"name": "add", "parameters": number}}]
    asked = dict(model="llama", messages=messages, max_tokens=50, tools=tools, tool_choice="required")
    called = client.chat.completions.create(**asked).choices[0]
    call = called.message.tool_calls[0].function
    assert called.finish_reason == "tool_calls" and call.name == "add" and json.loads(call.arguments)["n"] in (1, 2)
    parts = [p.choices[0].delta.tool_calls for p in client.chat.completions.create(**asked, stream=True) if p.choices]
    assert [p[0].function.name for p in parts if p] == ["add"]
    grammar = {"grammar": 'root ::= "[" root "]" | "x"'}
    held = client.completions.create(model="llama", prompt="a", max_tokens=40, temperature=0, extra_body=grammar)
    assert set(held.choices[0].text.strip()) <= set("[x]") and held.usage.prompt_tokens_details.cached_tokens == 0

    floats = client.embeddings.create(model="bert-mlm", input=["the fox", "the dog"], encoding_format="float")
    coded = client.embeddings.create(model="bert-mlm", input=["the fox", "the dog"])  # base64 on the wire
    assert len(coded.data) == 2
    assert max(abs(a - b) for a, b in zip(floats.data[1].embedding, coded.data[1].embedding)) < 1e-6

    for kind, wrong in [
        (openai.NotFoundError, lambda: client.completions.create(model="nobody", prompt="a")),
        (openai.BadRequestError, lambda: client.completions.create(model="gpt2", prompt="a", temperature=-1)),
        (openai.AuthenticationError, lambda: openai.OpenAI(base_url=URL + "/v1", api_key="x").models.list()),
    ]:
        try:
            wrong()
        except kind as error:
            assert error.body["message"], error
        else:
            raise AssertionError(f"no {kind.__name__}")


def with_ollama():
    import ollama

    client = ollama.Client(host=URL, headers={"Authorization": f"Bearer {KEY}"})
    assert "gpt2" in [m.model for m in client.list().models]
    options = {"temperature": 0, "num_predict": 9}
    whole = client.generate(model="gpt2", prompt="the fox", options=options)
    said = "".join(p.response for p in client.generate(model="gpt2", prompt="the fox", options=options, stream=True))
    assert said == whole.response and whole.done and whole.eval_count == 9
    chat = client.chat(model="llama", messages=[{"role": "user", "content": "hi"}], options=options)
    assert chat.message.role == "assistant"
    assert len(client.embed(model="bert-mlm", input=["the fox", "the dog"]).embeddings) == 2
    assert client.show("bert-mlm").capabilities == ["embedding"]
    try:
        client.generate(model="nobody", prompt="a")
    except ollama.ResponseError as error:
        assert error.status_code == 404
    else:
        raise AssertionError("no ResponseError")


def with_huggingface_hub():
    from huggingface_hub import InferenceClient

    at = lambda name: InferenceClient(model=f"{URL}/models/{name}", token=KEY)
    classes = at("bert-classify").text_classification("the fox")
    assert abs(sum(c.score for c in classes) - 1) < 1e-6
    assert isinstance(at("bert-tag").token_classification("Ada Lives In Rome"), list)
    answer = at("bert-answer").question_answering(question="who?", context="the quick brown fox")
    assert answer.answer in "the quick brown fox"
    filled = at("bert-mlm").fill_mask("the f[MASK]x")
    assert filled[0].score >= filled[1].score and filled[0].sequence
    assert isinstance(at("marian").translation("the fox").translation_text, str)
    assert isinstance(at("gpt2").text_generation("the fox", max_new_tokens=5), str)
    assert len(at("vit").image_classification(png())) >= 5
    assert at("bert-mlm").feature_extraction("the fox").shape[0] == 1
    assert len(at("bert-mlm").sentence_similarity("the fox", ["the fox", "0123"])) == 2
    chat = InferenceClient(base_url=URL + "/v1", api_key=KEY)
    said = chat.chat_completion([{"role": "user", "content": "hi"}], model="llama", max_tokens=4)
    assert said.choices[0].message.role == "assistant"


def with_langchain():
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    chat = ChatOpenAI(model="llama", base_url=URL + "/v1", api_key=KEY, max_tokens=6, temperature=0, max_retries=0)
    whole = chat.invoke("the fox").content
    assert "".join(part.content for part in chat.stream("the fox")) == whole
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    called = ChatOpenAI(model="llama", base_url=URL + "/v1", api_key=KEY, max_tokens=50, max_retries=0)
    assert called.bind_tools([tool], tool_choice="required").invoke("the fox").tool_calls[0]["name"] == "now"
    vectors = OpenAIEmbeddings(model="bert-mlm", base_url=URL + "/v1", api_key=KEY, check_embedding_ctx_length=False)
    assert len(vectors.embed_documents(["the fox", "the dog"])) == 2


def with_lm_eval_requests():
    """What lm-eval's `local-completions` sends for log-likelihoods, and what it reads of the answers, beside `qkv score`."""

    def post(path, body):
        headers = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
        request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
        return json.load(urllib.request.urlopen(request, timeout=60))

    texts = ["the quick brown fox", "the lazy dog jumps", "Ada Lives In Rome?"]
    ids = [post("/tokenize", {"model": "gpt2", "content": text})["tokens"] for text in texts]
    common = {"model": "gpt2", "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
    for prompts in (ids, texts):
        answer = post("/v1/completions", {"prompt": prompts, **common})
        for choice, tokens in zip(sorted(answer["choices"], key=lambda c: c["index"]), ids):
            begin = 4  # tokens of the context; the rest is what is judged
            logprobs = choice["logprobs"]["token_logprobs"]
            assert len(logprobs) == len(tokens) + 1
            listed = ",".join(map(str, tokens))
            done = subprocess.run([QKV, "score", MODEL, "--ids", listed, "--json"], capture_output=True, check=True, text=True)
            alone = [t["logprob"] for t in json.loads(done.stdout)["tokens"]][-(len(tokens) - begin):]
            served = logprobs[begin:-1]
            assert len(alone) == len(served) and abs(sum(alone) - sum(served)) < 1e-4, (alone, served)
            likeliest = [max(top.items(), key=lambda t: t[1])[0] for top in choice["logprobs"]["top_logprobs"][begin:-1]]
            assert len(likeliest) == len(served)


for client in (with_openai, with_ollama, with_huggingface_hub, with_langchain, with_lm_eval_requests):
    client()
    print(client.__name__.replace("with_", "").replace("_", "-"), "ok")
