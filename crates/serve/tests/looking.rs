//! Looking inside over HTTP, and the runs of a directory.

mod common;

use common::Running;
use qkv_serve::{Access, App, Limits, Metrics};
use serde_json::json;
use std::sync::Arc;

#[test]
fn maps_lens_and_gradients_are_told() {
    let server = Running::all();
    let value =
        server.ok("/v1/see", json!({"model": "llama", "input": "the fox", "views": ["maps", "heads", "lens", "loss"]}));
    let tokens = value["tokens"].as_array().unwrap().len();
    let weights = &value["maps"][0]["weights"][0][0];
    assert_eq!(weights.as_array().unwrap().len(), tokens);
    for row in weights.as_array().unwrap() {
        let sum: f64 = row.as_array().unwrap().iter().map(|w| w.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-4, "{sum}");
    }
    assert_eq!(value["model"], "llama"); // and no path
    assert!(value["tables"].as_array().unwrap().len() >= 3);
    let gradients =
        server.ok("/v1/see", json!({"model": "bert-classify", "input": "the fox", "views": ["gradients"], "steps": 8}));
    assert!(gradients["attribution"]["integrated"].is_array());
    let pair = json!({"model": "marian", "input": "the fox", "target": "dog", "views": ["align"], "kind": "cross"});
    assert!(server.ok("/v1/see", pair)["grids"][0][1]["values"].is_array());
}

#[test]
fn what_the_chain_did_is_told_step_by_step() {
    let server = Running::all();
    let body = json!({"model": "llama", "input": "the fox", "views": ["trace"], "chain": "top_k 5, temperature 0.8", "max_tokens": 3, "seed": 4});
    let value = server.ok("/v1/see", body);
    let tokens = value["trace"]["tokens"].as_array().unwrap();
    assert_eq!(tokens.len(), 3);
    assert_eq!(tokens[0]["stages"][1]["left"], 5);
    // The same tokens that a completion of the same fields says.
    let body = json!({"model": "llama", "prompt": "the fox", "chain": "top_k 5, temperature 0.8", "max_tokens": 3, "seed": 4, "return_token_ids": true});
    let said = &server.ok("/v1/completions", body)["choices"][0]["token_ids"];
    let traced: Vec<_> = tokens.iter().map(|t| t["picked"]["id"].clone()).collect();
    assert_eq!(*said, json!(traced));
}

#[test]
fn what_cannot_be_looked_at_is_refused() {
    let server = Running::all();
    for (body, word) in [
        (json!({"model": "llama", "input": "a", "views": ["patches"]}), "looked at by"),
        (json!({"model": "llama"}), "input"),
        (json!({"model": "llama", "input": [9999]}), "vocabulary"),
        (json!({"model": "llama", "input": "a", "layer": 99}), ""),
        (json!({"model": "llama", "input": "a", "kind": "sideways"}), "kind"),
        (json!({"model": "llama", "input": "a", "target": "b"}), "target"),
        (json!({"model": "bert-tag", "input": "a", "views": ["trace"]}), "trace"),
        (json!({"model": "vit", "input": "/etc/passwd"}), "image"),
        (json!({"model": "vit", "image": "/etc/passwd"}), "base64"),
    ] {
        let (status, message) = server.refused("/v1/see", body.clone());
        assert!(status == 400 && message.contains(word) && !message.contains("/tmp"), "{body}: {status} {message}");
    }
}

#[test]
fn runs_are_listed_with_their_curves() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("first");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("recipe.toml"), qkv_runs::recipe::find("translate").unwrap().0).unwrap();
    std::fs::write(
        run.join("metrics.jsonl"),
        "{\"step\": 1, \"loss\": 5.0}\n{\"step\": 2, \"loss\": 4.0}\n{\"step\": 2, \"valid_loss\": 4.5}\n",
    )
    .unwrap();
    let app = App::new(vec![], Limits::default(), Arc::new(Metrics::default()), Access::open(true), false);
    let server = Running::of(app.with_runs(dir.path()));
    let list = server.get("/v1/runs").json();
    assert_eq!(
        (list["data"][0]["name"].as_str(), list["data"][0]["live"].as_bool()),
        (Some("first"), Some(true)),
        "{list}"
    );
    let one = server.get("/v1/runs/first");
    assert_eq!(one.json()["curves"], json!({"loss": [[1, 5.0], [2, 4.0]], "valid_loss": [[2, 4.5]]}));
    assert!(!one.text().contains(dir.path().to_str().unwrap()), "no path of the machine");
    // Names of runs open nothing else.
    for name in ["..", "%2e%2e%2ffirst", "nothing", "first%2f..%2ffirst"] {
        assert_eq!(server.get(&format!("/v1/runs/{name}")).error().0, 404, "{name}");
    }
}
