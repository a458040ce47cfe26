//! The description of the API, made from the one table of paths. Requests are described by the fields that are read.

use crate::routes::ROUTES;
use hyper::Method;
use serde_json::{Map, Value, json};

/// The fields of a path's request: name, JSON type, whether it must be there, an example.
type Field = (&'static str, &'static str, bool, fn() -> Value);

const SAMPLING: &[Field] = &[
    ("max_tokens", "integer", false, || json!(16)),
    ("temperature", "number", false, || json!(0.8)),
    ("top_p", "number", false, || json!(0.95)),
    ("top_k", "integer", false, || json!(40)),
    ("min_p", "number", false, || json!(0.05)),
    ("n", "integer", false, || json!(1)),
    ("seed", "integer", false, || json!(1)),
    ("stop", "", false, || json!(["\n"])),
    ("presence_penalty", "number", false, || json!(0.0)),
    ("frequency_penalty", "number", false, || json!(0.0)),
    ("repetition_penalty", "number", false, || json!(1.1)),
    ("logit_bias", "object", false, || json!({"5": -100})),
    ("response_format", "object", false, || json!({"type": "text"})),
    ("regex", "string", false, || json!("[0-9]{4}")),
    ("grammar", "string", false, || json!("root ::= \"yes\" | \"no\"")),
    ("chain", "string", false, || json!("top_k 40, temperature 0.8")),
    ("beam", "integer", false, || json!(4)),
    ("stream", "boolean", false, || json!(false)),
];

const INPUT: &[Field] = &[("input", "", true, || json!("a text, or a list of them"))];

fn fields(path: &str) -> (&'static [Field], &'static [Field]) {
    match path {
        "/v1/completions" => (
            &[
                ("prompt", "", true, || json!("Once upon a time")),
                ("echo", "boolean", false, || json!(false)),
                ("logprobs", "integer", false, || json!(1)),
                ("best_of", "integer", false, || json!(1)),
            ],
            SAMPLING,
        ),
        "/v1/chat/completions" | "/chat/completions" => (
            &[
                ("messages", "array", true, || json!([{"role": "user", "content": "Hello"}])),
                ("logprobs", "boolean", false, || json!(true)),
                ("top_logprobs", "integer", false, || json!(5)),
                ("tools", "array", false, || json!([{"type": "function", "function": {"name": "now"}}])),
                ("tool_choice", "", false, || json!("auto")),
            ],
            SAMPLING,
        ),
        "/v1/embeddings" => (
            INPUT,
            &[("encoding_format", "string", false, || json!("float")), ("dimensions", "integer", false, || json!(16))],
        ),
        "/v1/rerank" | "/v2/rerank" | "/rerank" => (
            &[
                ("query", "string", true, || json!("a question")),
                ("documents", "array", true, || json!(["one text", "another"])),
                ("top_n", "integer", false, || json!(1)),
            ],
            &[],
        ),
        "/completion" | "/completions" => (
            &[("prompt", "", true, || json!("Once upon a time")), ("n_predict", "integer", false, || json!(16))],
            SAMPLING,
        ),
        "/apply-template" => (&[("messages", "array", true, || json!([{"role": "user", "content": "Hello"}]))], &[]),
        "/embed" | "/predict" => (&[("inputs", "", true, || json!("a text, or a list of them"))], &[]),
        "/similarity" => {
            (&[("inputs", "object", true, || json!({"source_sentence": "a text", "sentences": ["another"]}))], &[])
        }
        "/v1/classify" | "/v1/fill" => (INPUT, &[("top", "integer", false, || json!(5))]),
        "/v1/tag" => (INPUT, &[("words", "boolean", false, || json!(false))]),
        "/v1/answer" => (
            &[
                ("question", "string", true, || json!("Who?")),
                ("context", "string", true, || json!("A text that tells.")),
                ("top", "integer", false, || json!(1)),
            ],
            &[],
        ),
        "/v1/image" => (&[("image", "string", true, || json!("base64 of a PNG or JPEG file"))], &[]),
        "/v1/score" => (INPUT, &[("source", "string", false, || json!("what a translation model reads"))]),
        "/v1/translate" => (
            INPUT,
            &[
                ("beam", "integer", false, || json!(4)),
                ("n", "integer", false, || json!(1)),
                ("length_penalty", "number", false, || json!(1.0)),
                ("alignments", "boolean", false, || json!(false)),
            ],
        ),
        "/v1/see" => (
            INPUT,
            &[
                ("views", "array", false, || json!(["maps", "lens"])),
                ("target", "", false, || json!("what a translation model writes")),
                ("kind", "string", false, || json!("cross")),
                ("layer", "integer", false, || json!(0)),
                ("head", "integer", false, || json!(0)),
                ("image", "string", false, || json!("base64 of a PNG or JPEG file, for a model that sees")),
            ],
        ),
        "/v1/load_lora_adapter" => (
            &[
                ("lora_name", "string", true, || json!("shy")),
                ("lora_path", "string", false, || json!("a name in the directory of adapters; left out, lora_name")),
                ("load_inplace", "boolean", false, || json!(false)),
            ],
            &[],
        ),
        "/v1/unload_lora_adapter" => (&[("lora_name", "string", true, || json!("shy"))], &[]),
        "/tokenize" => (&[("content", "", true, || json!("a text"))], &[]),
        "/detokenize" => (&[("tokens", "array", true, || json!([5, 6, 7]))], &[]),
        "/translate" => (
            &[
                ("q", "", true, || json!("a text")),
                ("source", "string", false, || json!("en")),
                ("target", "string", false, || json!("it")),
                ("alternatives", "integer", false, || json!(0)),
            ],
            &[],
        ),
        "/api/generate" => (
            &[
                ("model", "string", true, || json!("name")),
                ("prompt", "string", false, || json!("Once upon a time")),
                ("stream", "boolean", false, || json!(true)),
                ("options", "object", false, || json!({"temperature": 0.8, "num_predict": 16})),
            ],
            &[],
        ),
        "/api/chat" => (
            &[
                ("model", "string", true, || json!("name")),
                ("messages", "array", true, || json!([{"role": "user", "content": "Hello"}])),
                ("stream", "boolean", false, || json!(true)),
                ("options", "object", false, || json!({"temperature": 0.8})),
            ],
            &[],
        ),
        "/api/embed" => (&[("model", "string", true, || json!("name")), ("input", "", true, || json!("a text"))], &[]),
        "/api/embeddings" => {
            (&[("model", "string", true, || json!("name")), ("prompt", "string", true, || json!("a text"))], &[])
        }
        "/api/show" => (&[("model", "string", true, || json!("name"))], &[]),
        "/" | "/models/{model}" => {
            (&[("inputs", "", true, || json!("a text")), ("parameters", "object", false, || json!({}))], &[])
        }
        _ => (&[], &[]),
    }
}

fn schema(path: &str) -> Value {
    let (own, more) = fields(path);
    let mut properties = Map::new();
    if path.starts_with("/v1/") || path.ends_with("tokenize") {
        properties.insert(
            "model".into(),
            json!({"type": "string", "description": "one of /v1/models; the first that can, where none is named"}),
        );
    }
    for (name, kind, _, example) in own.iter().chain(more) {
        let mut property = json!({"examples": [example()]});
        match *kind {
            "" => {}
            "array" => {
                property["type"] = json!("array");
                property["items"] = json!({});
            }
            kind => property["type"] = json!(kind),
        }
        properties.insert(name.to_string(), property);
    }
    let needed: Vec<&str> = own.iter().filter(|(_, _, needed, _)| *needed).map(|(name, ..)| *name).collect();
    json!({"type": "object", "properties": properties, "required": needed})
}

/// OpenAPI 3.1.
pub fn openapi() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let error = json!({"description": "what is wrong", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}});
        let mut operation =
            json!({"summary": route.about, "responses": {"200": {"description": "the answer"}, "default": error}});
        operation["operationId"] = json!(format!("{} {}", route.method, route.path));
        if route.method == Method::POST {
            operation["requestBody"] =
                json!({"required": true, "content": {"application/json": {"schema": schema(route.path)}}});
        }
        if let Some(name) = route.parameter() {
            operation["parameters"] =
                json!([{"name": name, "in": "path", "required": true, "schema": {"type": "string"}}]);
        }
        if !route.open {
            operation["security"] = json!([{"key": []}, {}]);
        }
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method.as_str().to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "qkv serve", "version": env!("CARGO_PKG_VERSION"),
            "description": "Models over HTTP: OpenAI's conventions where they exist, our own where nobody has any."},
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object",
                "required": ["message", "type"], "properties": {"message": {"type": "string"}, "type": {"type": "string"},
                    "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}}}}},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_that_reads_a_body_says_what_it_reads() {
        let value = openapi();
        for route in ROUTES.iter().filter(|r| r.method == Method::POST) {
            assert!(!fields(route.path).0.is_empty(), "{} has no fields in the description", route.path);
            assert!(value["paths"][route.path]["post"]["requestBody"].is_object());
        }
    }
}
