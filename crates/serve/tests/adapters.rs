//! Adapters named by requests, side by side in one batch: each says what it says alone, and what its network says elsewhere.

mod common;

use burn::tensor::Device;
use common::Running;
use qkv_base::Key;
use qkv_model::{Pretrained, Transformer, count, pretrained::fill};
use qkv_nn::LoraSize;
use qkv_serve::{Access, App, Limits, Metrics, Served};
use qkv_tasks::TextModel;
use qkv_text::Shape;
use qkv_train::adapter::{About, load_low_rank, save};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// An adapter with numbers of its own, written in PEFT's format.
fn write(base: &Path, out: &Path, rank: usize, seed: u64, targets: &[&str]) {
    let it = Pretrained::load(base, &Device::flex().autodiff()).unwrap();
    let adapted = it.model.clone().with_lora(targets, LoraSize { rank, alpha: 4.0, dropout: 0.0 }, seed).unwrap();
    let key = Key::new(seed, 1, 0);
    let some = count::parameters(&adapted).into_iter().filter(|p| p.path.ends_with("lora.b"));
    let noise = some.map(|p| (p.path.clone(), key.named(&p.path).normals(p.elements() as usize))).collect();
    let about = About { base: "base".into(), rank, alpha: 4.0, dropout: 0.0 };
    save(&it, &fill(adapted, noise), &about, out).unwrap();
}

/// The model with two adapters, and each adapted network as a model of its own.
fn server(name: &str, shape: Shape, dir: &Path) -> Running {
    let path = common::model_dir(name, shape);
    let (limits, metrics) = (Limits::default(), Arc::new(Metrics::default()));
    let model = || Arc::new(TextModel::load(&path).unwrap());
    let mut models = vec![];
    let mut adapters: Vec<(String, Transformer)> = vec![];
    for (adapter, rank, targets) in [("shy", 2, &["q", "v"][..]), ("bold", 3, &["q", "up", "down"][..])] {
        let out = dir.join(format!("{name}-{adapter}"));
        std::fs::create_dir_all(&out).unwrap();
        write(&path, &out, rank, rank as u64, targets);
        let mut alone = TextModel::load(&path).unwrap();
        alone.network.model = qkv_train::adapter::load(&alone.network, &out).unwrap();
        models.push(Served::new(format!("{adapter}-alone"), Arc::new(alone), &limits, metrics.clone()));
        adapters.push((adapter.into(), load_low_rank(&model().network, &out).unwrap()));
    }
    models.push(Served::new("alone", model(), &limits, metrics.clone()));
    models.push(Served::with_adapters("base", model(), adapters, &limits, metrics.clone()).unwrap());
    Running::of(App::new(models, limits, metrics, Access::open(true), false))
}

fn ask(model: &str, seed: u64) -> Value {
    let mut body = json!({"model": model, "prompt": [5 + seed, 6, 7 + seed, 8], "max_tokens": 12, "ignore_eos": true,
        "logprobs": 2, "echo": true, "return_token_ids": true});
    if seed % 2 == 1 {
        body["seed"] = json!(seed);
    } else {
        body["temperature"] = json!(0);
    }
    body
}

fn said(value: &Value) -> (Vec<u64>, Vec<f64>) {
    let choice = &value["choices"][0];
    let ids = choice["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    let logprobs = choice["logprobs"]["token_logprobs"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    (ids, logprobs)
}

#[test]
fn each_row_of_a_mixed_batch_has_its_own_adapter() {
    let dir = tempfile::tempdir().unwrap();
    for (name, shape) in [("gpt2", Shape::Gpt2), ("llama", Shape::Llama)] {
        let server = server(name, shape, dir.path());
        let path = "/v1/completions";
        let names = ["base", "base+shy", "base+bold"];
        let mut alone = vec![];
        for seed in 0..4 {
            for (model, own) in names.iter().zip(["alone", "shy-alone", "bold-alone"]) {
                let found = said(&server.ok(path, ask(model, seed)));
                let (ids, logprobs) = said(&server.ok(path, ask(own, seed)));
                // The network with the adapter around its layers rounds otherwise, and says the same.
                assert_eq!(found.0, ids, "{name}, {model}, {seed}");
                assert!(found.1.iter().zip(&logprobs).all(|(a, b)| (a - b).abs() < 1e-4), "{name}, {model}");
                alone.push((model.to_string(), seed, found));
            }
        }
        // The adapters do something, each its own.
        assert!(alone[0].2 != alone[1].2 && alone[1].2 != alone[2].2);
        // All at once, in any order: to the bit.
        std::thread::scope(|scope| {
            for round in 0..3 {
                for (model, seed, want) in &alone {
                    let server = &server;
                    scope.spawn(move || {
                        let found = said(&server.ok(path, ask(model, *seed)));
                        assert_eq!(found, *want, "{name}, {model}, {seed}, round {round}");
                    });
                }
            }
        });
        let models = server.get("/v1/models").json();
        let ids: Vec<&str> = models["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
        assert_eq!(ids[3..], ["base", "base+shy", "base+bold"]);
        assert_eq!(server.get("/v1/models/base+shy").json()["parent"], "base");
        let (status, message) = server.refused(path, ask("base+loud", 0));
        assert!(status == 404 && message.contains("base+shy"), "{message}");
        assert_eq!(server.ok(path, ask("base+shy", 0))["model"], "base+shy");
    }
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = common::model_dir("llama", Shape::Llama);
    write(&path, dir.path(), 2, 1, &["q"]);
    let model = Arc::new(TextModel::load(&path).unwrap());
    let mut head = qkv_train::adapter::load(&model.network, dir.path()).unwrap();
    let lora = head.clone().with_lora(&["head.out"], LoraSize { rank: 2, alpha: 2.0, dropout: 0.0 }, 1);
    assert!(lora.is_err(), "an adapted network takes no second adapter");
    head = model
        .network
        .model
        .clone()
        .with_lora(&["head.out"], LoraSize { rank: 2, alpha: 2.0, dropout: 0.0 }, 1)
        .unwrap();
    let (limits, metrics) = (Limits::default(), Arc::new(Metrics::default()));
    let refused = Served::with_adapters("m", model, vec![("h".into(), head)], &limits, metrics.clone());
    assert!(refused.err().unwrap().hint.contains("merge"));
    let marian = Arc::new(TextModel::load(&common::model_dir("marian", Shape::Marian)).unwrap());
    let one =
        marian.network.model.clone().with_lora(&["q"], LoraSize { rank: 2, alpha: 2.0, dropout: 0.0 }, 1).unwrap();
    assert!(
        Served::with_adapters("m", marian, vec![("h".into(), one)], &limits, metrics)
            .err()
            .unwrap()
            .what
            .contains("no source")
    );
}
