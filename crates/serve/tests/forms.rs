//! Answers of a form beyond patterns: grammars, schemas that refer to themselves, calls of tools.

mod common;

use common::Running;
use serde_json::{Value, json};

fn text(value: &Value) -> String {
    value["choices"][0]["text"].as_str().unwrap_or_else(|| panic!("{value}")).to_string()
}

/// Whether brackets are closed in their order around an x.
fn balanced(text: &str) -> bool {
    let n = text.len() / 2;
    text.trim() == format!("{}x{}", "[".repeat(n), "]".repeat(n)) || text.trim() == "x"
}

#[test]
fn grammars_hold_any_search() {
    let server = Running::all();
    for seed in 0..6 {
        for more in [json!({"seed": seed}), json!({"beam": 2}), json!({"temperature": 0})] {
            let mut body = json!({"model": "llama", "prompt": "the fox", "max_tokens": 40,
                "grammar": "root ::= \"[\" root \"]\" | \"x\"", "logit_bias": {}});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let value = server.ok("/v1/completions", body);
            let said = text(&value);
            match value["choices"][0]["finish_reason"].as_str() {
                Some("stop") => assert!(balanced(&said), "{said}"),
                _ => assert!(said.trim_start().chars().all(|c| c == '['), "cut off: {said}"),
            }
        }
        let body = json!({"model": "llama", "prompt": "the fox", "max_tokens": 20, "seed": seed, "guided_choice": ["fox", "lazy dog"]});
        assert!(["fox", "lazy dog"].contains(&text(&server.ok("/v1/completions", body)).as_str()));
    }
    for bad in ["root ::= root \"a\" | \"a\"", "root ::= (", "nothing", "root ::= \"a\"{1000}{1000}"] {
        let (status, message) =
            server.refused("/v1/completions", json!({"model": "llama", "prompt": "a", "grammar": bad}));
        assert!(status == 400, "{bad}: {status} {message}");
    }
    let both = json!({"model": "llama", "prompt": "a", "grammar": "root ::= \"a\"", "regex": "a"});
    assert!(server.refused("/v1/completions", both).1.contains("cannot both"));
}

#[test]
fn a_schema_may_refer_to_itself() {
    let server = Running::all();
    let schema = json!({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"const": 7}]}, "maxItems": 2});
    let mut whole = 0;
    for seed in 0..12 {
        let body = json!({"model": "llama", "prompt": "a", "max_tokens": 60, "seed": seed,
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}});
        let value = server.ok("/v1/completions", body);
        if value["choices"][0]["finish_reason"] == "stop" {
            let made: Value = serde_json::from_str(&text(&value)).unwrap();
            assert!(made.as_array().unwrap().len() <= 2, "{made}");
            whole += 1;
        }
    }
    assert!(whole > 3, "only {whole} of 12 came to an end");
}

/// Schemas that would come to more than anybody can hold are refused within a moment, and others are served meanwhile.
#[test]
fn schemas_that_explode_are_refused() {
    let server = Running::all();
    let mut nested = json!({"type": "string", "maxLength": 1000});
    for _ in 0..12 {
        nested = json!({"type": "array", "items": nested, "minItems": 10, "maxItems": 1000});
    }
    let optional: serde_json::Map<String, Value> =
        (0..400).map(|i| (format!("p{i}"), json!({"type": "string", "maxLength": 900}))).collect();
    let mut doubled = json!({"$ref": "#/$defs/d0"});
    doubled["$defs"] = (0..24)
        .map(|i| (format!("d{i}"), json!({"anyOf": vec![json!({"$ref": format!("#/$defs/d{}", i + 1)}); 8]})))
        .chain([("d24".to_string(), json!({"const": "the quick brown fox"}))])
        .collect::<serde_json::Map<_, _>>()
        .into();
    let deep = (0..120).fold(json!({"type": "null"}), |inner, _| json!({"type": "array", "items": inner}));
    let wide = json!({"enum": (0..60_000).map(|i| format!("choice number {i}")).collect::<Vec<_>>()});
    for (name, schema) in [
        ("nested", nested),
        ("optional", json!({"type": "object", "properties": optional})),
        ("doubled", doubled),
        ("deep", deep),
        ("wide", wide),
        ("itself", json!({"$ref": "#"})),
        ("no schema", json!([1, 2])),
        ("elsewhere", json!({"$ref": "other.json"})),
    ] {
        let began = std::time::Instant::now();
        let body = json!({"model": "llama", "prompt": "a", "max_tokens": 2, "json_schema": schema});
        let (status, message) = server.refused("/v1/completions", body);
        assert!(status == 400, "{name}: {status} {message}");
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{name}: {:?}", began.elapsed());
    }
    assert_eq!(server.get("/health").status, 200);
}

fn tools() -> Value {
    let one = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "parameters": parameters}});
    json!([
        one("add", json!({"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]})),
        one("now", json!({"type": "object", "properties": {}}))
    ])
}

fn chat(more: Value) -> Value {
    let mut body =
        json!({"model": "llama", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 50, "tools": tools()});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn calls_of_tools_are_made_and_found() {
    let server = Running::all();
    let path = "/v1/chat/completions";
    for seed in 0..4 {
        for (choice, name) in
            [(json!("required"), None), (json!({"type": "function", "function": {"name": "add"}}), Some("add"))]
        {
            let body = chat(json!({"tool_choice": choice, "seed": seed}));
            let value = server.ok(path, body.clone());
            let call = &value["choices"][0]["message"]["tool_calls"][0];
            assert_eq!(value["choices"][0]["finish_reason"], "tool_calls", "{value}");
            let made: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
            match call["function"]["name"].as_str() {
                Some("add") => assert!([1, 2].contains(&made["a"].as_i64().unwrap()), "{made}"),
                Some("now") if name.is_none() => assert_eq!(made, json!({})),
                other => panic!("{other:?}"),
            }
            // A stream tells the same call, and nothing of it as text.
            let mut streamed = body;
            streamed["stream"] = json!(true);
            let events = server.post(path, streamed).text();
            let parts: Vec<Value> =
                events.lines().filter_map(|l| serde_json::from_str(l.strip_prefix("data: ")?).ok()).collect();
            let deltas: Vec<&Value> = parts.iter().map(|p| &p["choices"][0]["delta"]).collect();
            assert!(deltas.iter().all(|d| d["content"].as_str().unwrap_or_default().is_empty()), "{events}");
            let told = deltas.iter().find(|d| d["tool_calls"].is_array()).expect("a call");
            assert_eq!(told["tool_calls"][0]["function"], call["function"]);
        }
    }
    // Where the model may choose, nonsense is no call.
    let free = server.ok(path, chat(json!({"seed": 1})));
    assert!(
        free["choices"][0]["message"]["tool_calls"].is_null() && free["choices"][0]["message"]["content"].is_string()
    );
    // The turns that follow a call.
    let turns = json!([{"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "9"}]);
    assert_eq!(server.post(path, chat(json!({"messages": turns, "max_tokens": 4}))).status, 200);
    for (more, word) in [
        (json!({"tool_choice": "maybe"}), "tool_choice"),
        (json!({"tool_choice": {"type": "function", "function": {"name": "rob"}}}), "none of `tools`"),
        (json!({"tools": [{"type": "web"}]}), "tools"),
        (json!({"tools": [], "tool_choice": "required"}), "no `tools`"),
        (json!({"tool_choice": "required", "regex": "a"}), "form"),
        (json!({"tools": [{"type": "function", "function": {"name": "a b"}}]}), "function.name"),
    ] {
        let (status, message) = server.refused(path, chat(more.clone()));
        assert!(status == 400 && message.contains(word), "{more}: {message}");
    }
    let (status, message) = server.refused(path, chat(json!({"model": "gpt2"})));
    assert!(status == 400 && message.contains("knows no tools"), "{message}");
}
