"""Real clients against `qkv serve`. Usage: clients.py URL KEY"""

import json
import struct
import sys
import zlib

URL, KEY = sys.argv[1], sys.argv[2]


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
    vectors = OpenAIEmbeddings(model="bert-mlm", base_url=URL + "/v1", api_key=KEY, check_embedding_ctx_length=False)
    assert len(vectors.embed_documents(["the fox", "the dog"])) == 2


for client in (with_openai, with_ollama, with_huggingface_hub, with_langchain):
    client()
    print(client.__name__.replace("with_", "").replace("_", "-"), "ok")
