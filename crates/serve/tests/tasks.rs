//! Every task over HTTP, in our own shapes and in those of others: what the library answers, the server answers.

mod common;

use base64::Engine as _;
use common::Running;
use qkv_tasks::Silent;
use serde_json::{Value, json};

fn close(a: &Value, b: f64) {
    assert!((a.as_f64().unwrap() - b).abs() < 1e-6, "{a} is not {b}");
}

#[test]
fn encoders_answer_what_the_library_answers() {
    let server = Running::all();
    let model = |name: &str| server.app.models.iter().find(|m| m.name == name).unwrap().model.clone();
    let texts = ["the fox", "Ada è here?"];

    let value = server.ok("/v1/classify", json!({"input": texts}));
    let inputs = texts.map(Into::into);
    let labels = qkv_tasks::classify::classify(&model("bert-classify"), &inputs, 2, &mut Silent).unwrap();
    close(&value["data"][1]["labels"][0]["score"], labels[1][0].score);
    assert_eq!(value["data"][1]["labels"].as_array().unwrap().len(), 3);
    let pair = server.ok("/v1/classify", json!({"pairs": [["the fox", "the dog"]], "top": 1}));
    assert_eq!(pair["data"][0]["labels"].as_array().unwrap().len(), 1);

    let value = server.ok("/v1/tag", json!({"input": "Ada è here", "words": true}));
    let words = value["data"][0]["words"].as_array().unwrap();
    // Places are counted in characters: è is one.
    assert_eq!((&words.last().unwrap()["end"], &words[0]["start"]), (&json!(10), &json!(0)));

    let ask = json!({"question": "who?", "context": "the quick brown fox", "top": 2});
    let value = server.ok("/v1/answer", ask);
    let found = &value["answers"][0];
    let (start, end) = (found["start"].as_u64().unwrap() as usize, found["end"].as_u64().unwrap() as usize);
    assert_eq!(&"the quick brown fox"[start..end], found["text"].as_str().unwrap());
    assert_eq!(value["answers"].as_array().unwrap().len(), 2);

    let value = server.ok("/v1/fill", json!({"input": "the f[MASK]x", "top": 3}));
    let gaps = qkv_tasks::fill::fill(&model("bert-mlm"), &["the f[MASK]x"], 3, 1, &mut Silent).unwrap();
    close(&value["data"][0]["gaps"][0][0]["probability"], gaps[0][0][0].probability);
    assert!(server.refused("/v1/fill", json!({"input": "no gap"})).1.contains("has no gap"));

    let mut png = std::io::Cursor::new(vec![]);
    image::RgbImage::from_fn(20, 20, |x, y| image::Rgb([x as u8 * 9, y as u8 * 9, 7]))
        .write_to(&mut png, image::ImageFormat::Png)
        .unwrap();
    let raw = server.send("POST", "/v1/image", "content-type: image/png\r\n", png.get_ref()).json();
    let base64 = base64::engine::general_purpose::STANDARD.encode(png.get_ref());
    let coded = server.ok("/v1/image", json!({"image": format!("data:image/png;base64,{base64}")}));
    assert_eq!((raw["labels"].as_array().unwrap().len(), &raw["labels"]), (7, &coded["labels"]));
    let hub = server.send("POST", "/models/vit", "content-type: image/png\r\n", png.get_ref()).json();
    assert_eq!(hub, coded["labels"]);
    assert_eq!(server.ok("/models/vit", json!({"inputs": base64})), coded["labels"]);
}

#[test]
fn vectors_as_numbers_and_as_base64() {
    let server = Running::all();
    let floats = server.ok("/v1/embeddings", json!({"model": "bert-mlm", "input": ["the fox", "the dog"]}));
    let numbers = |v: &Value| v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect::<Vec<f32>>();
    let vector = numbers(&floats["data"][0]["embedding"]);
    let coded =
        server.ok("/v1/embeddings", json!({"model": "bert-mlm", "input": "the fox", "encoding_format": "base64"}));
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(coded["data"][0]["embedding"].as_str().unwrap()).unwrap();
    let decoded: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    // Alone or beside another text: within rounding the same.
    assert!(vector.len() == decoded.len() && vector.iter().zip(&decoded).all(|(a, b)| (a - b).abs() < 1e-5));
    let cut = server.ok("/v1/embeddings", json!({"model": "bert-mlm", "input": "the fox", "dimensions": 4}));
    let cut = numbers(&cut["data"][0]["embedding"]);
    assert!(cut.len() == 4 && (cut.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    assert_eq!(floats["usage"]["prompt_tokens"].as_u64().unwrap() % 2, 0);
    for (bad, what) in [(json!(""), "empty text"), (json!([]), "empty list"), (json!(5), "must be a string")] {
        assert!(server.refused("/v1/embeddings", json!({"model": "bert-mlm", "input": bad})).1.contains(what));
    }
    assert!(server.refused("/v1/embeddings", json!({"model": "gpt2", "input": "a"})).1.contains("not one that embeds"));
    let ranked = server.ok(
        "/v1/rerank",
        json!({"model": "bert-mlm", "query": "the fox", "documents": ["0123", "the fox"], "return_documents": true}),
    );
    assert_eq!(ranked["results"][0]["document"]["text"], "the fox");
    close(&ranked["results"][0]["relevance_score"], 1.0);
    let old = server.ok("/api/embed", json!({"model": "bert-mlm", "input": ["the fox"]}));
    assert_eq!(numbers(&old["embeddings"][0]).len(), vector.len());
}

#[test]
fn scores_translations_and_tokens() {
    let server = Running::all();
    let value = server.ok("/v1/score", json!({"model": "llama", "input": "the fox"}));
    let llama = server.app.models.iter().find(|m| m.name == "llama").unwrap();
    let want = qkv_tasks::likelihood::likelihood(
        &llama.model,
        &qkv_tasks::likelihood::TextOrIds::Text("the fox".into()),
        None,
    )
    .unwrap();
    assert!((value["data"][0]["logprob"].as_f64().unwrap() - want.logprob).abs() < 1e-4);
    assert_eq!(value["data"][0]["tokens"].as_array().unwrap().len(), want.tokens.len());

    let ask = json!({"input": ["the fox", "", "Ada"], "n": 2, "alignments": true, "max_tokens": 6});
    let value = server.ok("/v1/translate", ask);
    let first = &value["data"][0];
    assert_eq!((first["translations"].as_array().unwrap().len(), &value["data"][1]["translations"]), (2, &json!([])));
    let (soft, ids) = (&first["translations"][0]["alignment"]["soft"], &first["translations"][0]["ids"]);
    assert_eq!(soft.as_array().unwrap().len(), ids.as_array().unwrap().len());
    assert_eq!(soft[0].as_array().unwrap().len(), first["source_tokens"].as_array().unwrap().len());
    let libre = server.ok("/translate", json!({"q": "the fox", "source": "en", "target": "it", "alternatives": 1}));
    assert!(libre["translatedText"].is_string() && libre["alternatives"].as_array().unwrap().len() == 1);
    assert_eq!(server.get("/languages").json(), json!([]));

    let tokens = server.ok("/tokenize", json!({"model": "gpt2", "content": "the fox"}));
    let back = server.ok("/detokenize", json!({"model": "gpt2", "tokens": tokens["tokens"]}));
    assert_eq!(back["content"], "the fox");
    assert_eq!(server.refused("/detokenize", json!({"model": "gpt2", "tokens": [9999]})).0, 400);
}

#[test]
fn huggingface_shapes() {
    let server = Running::all();
    let classes = server.ok("/models/bert-classify", json!({"inputs": "the fox", "parameters": {"top_k": 2}}));
    assert_eq!(classes[0].as_array().unwrap().len(), 2);
    assert!(server.ok("/models/bert-tag", json!({"inputs": "the fox"})).is_array());
    let answer = server.ok("/models/bert-answer", json!({"inputs": {"question": "who?", "context": "the fox"}}));
    assert!(answer["answer"].is_string() && answer["score"].is_number());
    let filled = server.ok("/models/bert-mlm", json!({"inputs": "the f[MASK]x"}));
    assert!(filled[0]["token_str"].is_string() && filled[0]["sequence"].is_string());
    assert!(server.ok("/models/marian", json!({"inputs": "the fox"}))[0]["translation_text"].is_string());
    let text = server.ok("/", json!({"inputs": "the fox", "parameters": {"max_new_tokens": 4}}));
    assert!(text[0]["generated_text"].is_string());
    assert_eq!(
        text,
        server.ok("/", json!({"inputs": "the fox", "parameters": {"max_new_tokens": 4, "do_sample": false}}))
    );
}

#[test]
fn ollama_shapes() {
    let server = Running::all();
    let ask = json!({"model": "gpt2:latest", "prompt": "the fox", "options": {"temperature": 0, "num_predict": 9, "num_ctx": 4096}});
    let mut whole = ask.clone();
    whole["stream"] = json!(false);
    let whole = server.post("/api/generate", whole);
    assert_eq!(whole.header("x-qkv-ignored"), Some("options.num_ctx"));
    let whole = whole.json();
    let lines: Vec<Value> =
        server.post("/api/generate", ask).text().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let (last, rest) = lines.split_last().unwrap();
    let text: String = rest.iter().map(|l| l["response"].as_str().unwrap()).collect();
    assert_eq!((text.as_str(), &last["done"]), (whole["response"].as_str().unwrap(), &json!(true)));
    assert_eq!((&last["eval_count"], &whole["eval_count"]), (&json!(9), &json!(9)));
    let chat = json!({"model": "llama", "messages": [{"role": "user", "content": "hi"}], "stream": false, "options": {"num_predict": 3}});
    assert_eq!(server.ok("/api/chat", chat)["message"]["role"], "assistant");
    assert_eq!(server.get("/api/tags").json()["models"].as_array().unwrap().len(), 8);
    assert_eq!(server.ok("/api/show", json!({"model": "bert-mlm"}))["capabilities"], json!(["embedding"]));
    assert!(server.get("/api/version").json()["version"].is_string());
}

#[test]
fn the_server_tells_what_it_is() {
    let server = Running::all();
    let models = server.get("/v1/models").json();
    let all: Vec<(&str, &str)> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m["id"].as_str().unwrap(), m["task"].as_str().unwrap()))
        .collect();
    assert_eq!(all[..3], [("gpt2", "next-token"), ("llama", "next-token"), ("marian", "translate")]);
    let props = server.get("/props").json();
    assert_eq!((&props["models"][0]["context"], &props["models"][0]["vocabulary"]), (&json!(64), &json!(97)));
    let paths = server.get("/openapi.json").json()["paths"].clone();
    assert!(paths.as_object().unwrap().len() > 25);
    assert!(server.metric("qkv_panics_total") == 0);
    // A chat that a model cannot have is refused with a reason.
    let none = server
        .refused("/v1/chat/completions", json!({"model": "bert-mlm", "messages": [{"role": "user", "content": "hi"}]}));
    assert_eq!(none.0, 400);
    for bad in [
        json!([]),
        json!("hi"),
        json!([{"content": "x"}]),
        json!([{"role": "user", "content": [{"type": "image_url"}]}]),
    ] {
        assert_eq!(server.refused("/v1/chat/completions", json!({"model": "llama", "messages": bad})).0, 400);
    }
}

/// What llama.cpp's and text-embeddings-inference's own clients send, and what they read of the answers.
#[test]
fn other_servers_shapes_are_answered() {
    let server = Running::all();
    // llama.cpp
    let body = json!({"model": "gpt2", "prompt": "the fox", "n_predict": 6, "seed": -1, "temperature": 0, "cache_prompt": true,
        "repeat_penalty": 1.0, "ignore_eos": true, "return_tokens": true, "logit_bias": [[5, false]]});
    let whole = server.ok("/completion", body.clone());
    assert_eq!(
        (&whole["stop"], &whole["stop_type"], &whole["tokens_predicted"]),
        (&json!(true), &json!("limit"), &json!(6))
    );
    assert_eq!((whole["tokens"].as_array().unwrap().len(), &whole["prompt"]), (6, &json!("the fox")));
    assert!(!whole["tokens"].as_array().unwrap().contains(&json!(5)));
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let events = server.post("/completions", streamed).events();
    let text: String = events.iter().map(|e| e["content"].as_str().unwrap()).collect();
    assert_eq!(text, whole["content"].as_str().unwrap());
    let (last, parts) = events.split_last().unwrap();
    assert!(last["stop"] == true && last["stop_type"] == "limit" && parts.iter().all(|p| p["stop"] == false));
    assert_eq!(server.refused("/completion", json!({"model": "gpt2", "prompt": "a", "n_probs": 3})).0, 400);
    let chat = json!({"model": "llama", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2});
    assert_eq!(server.ok("/chat/completions", chat.clone())["object"], "chat.completion");
    assert_eq!(server.ok("/apply-template", chat)["prompt"], "user: hi>");
    let pieces = server.ok("/tokenize", json!({"model": "gpt2", "content": "ox", "with_pieces": true}));
    assert_eq!(pieces["tokens"][0]["piece"], "o");
    let asked = json!({"model": "llama", "messages": [{"role": "user", "content": "hi"}]});
    assert!(server.ok("/tokenize", asked)["count"].as_u64().unwrap() >= 9);
    // text-embeddings-inference
    let vectors = server.ok("/embed", json!({"inputs": ["the fox", "a dog"], "truncate": true, "model": "bert-mlm"}));
    let length: f64 = vectors[0].as_array().unwrap().iter().map(|v| v.as_f64().unwrap().powi(2)).sum();
    assert!(vectors.as_array().unwrap().len() == 2 && (length - 1.0).abs() < 1e-5, "{length}");
    let near = json!({"query": "the fox", "texts": ["a dog", "the fox"], "model": "bert-mlm", "return_text": true});
    let near = server.ok("/rerank", near);
    assert_eq!((&near[0]["index"], &near[0]["text"]), (&json!(1), &json!("the fox")));
    let documents = json!({"query": "the fox", "documents": ["a dog", "the fox"], "model": "bert-mlm"});
    assert_eq!(server.ok("/rerank", documents.clone())["results"][0]["index"], 1);
    assert_eq!(server.ok("/v2/rerank", documents)["results"][0]["index"], 1);
    let labels = server.ok("/predict", json!({"inputs": "the fox"}));
    assert!(labels[0]["label"].is_string() && labels[0]["score"].is_number());
    let inputs = json!({"source_sentence": "the fox", "sentences": ["the fox", "a dog"]});
    let scores = server.ok("/similarity", json!({"inputs": inputs, "model": "bert-mlm"}));
    assert!(scores[0].as_f64().unwrap() > 0.999 && scores.as_array().unwrap().len() == 2);
    for path in ["/info", "/version", "/ping", "/models", "/v1/health", "/health/"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert_eq!(server.send("HEAD", "/", "", b"").status, 200);
}
