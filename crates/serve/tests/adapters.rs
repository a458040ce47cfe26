//! Adapters named by requests, side by side in one batch: each says what it says alone, and what its network says elsewhere.

mod common;

use burn::tensor::Device;
use common::Running;
use qkv_base::Key;
use qkv_decode::{Adapted, Decoder, PassInput, PassOutput};
use qkv_model::adapt::LoraLayers;
use qkv_model::{Pretrained, count, pretrained::fill};
use qkv_nn::{LoraSize, RowCache};
use qkv_serve::adapters::Adapters;
use qkv_serve::{Access, AdapterDirectory, App, Limits, Metrics, Served};
use qkv_tasks::TextModel;
use qkv_text::Shape;
use qkv_train::adapter::{About, load_low_rank, save};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

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
    let mut adapters: Vec<(String, LoraLayers)> = vec![];
    for (adapter, rank, targets) in [("shy", 2, &["q", "v"][..]), ("bold", 3, &["q", "up", "down"][..])] {
        let out = dir.join(format!("{name}-{adapter}"));
        std::fs::create_dir_all(&out).unwrap();
        write(&path, &out, rank, rank as u64, targets);
        let mut alone = TextModel::load(&path).unwrap();
        alone.network.model = qkv_train::adapter::load(&alone.network, &out).unwrap();
        models.push(Served::new(format!("{adapter}-alone"), Arc::new(alone), &limits, metrics.clone()));
        adapters.push((adapter.into(), load_low_rank(&model().network, &out).unwrap().lora_layers().unwrap()));
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
    assert!(head.lora_layers().unwrap_err().hint.contains("merge"));
    let marian = Arc::new(TextModel::load(&common::model_dir("marian", Shape::Marian)).unwrap());
    let one =
        marian.network.model.clone().with_lora(&["q"], LoraSize { rank: 2, alpha: 2.0, dropout: 0.0 }, 1).unwrap();
    let one = one.lora_layers().unwrap();
    let refused = Served::with_adapters("m", marian, vec![("h".into(), one)], &limits, metrics);
    assert!(refused.err().unwrap().what.contains("no source"));
}

/// A network that takes its time.
struct Slow(Arc<Adapted>);

impl Decoder for Slow {
    fn vocabulary(&self) -> usize {
        self.0.vocabulary()
    }
    fn context(&self) -> Option<usize> {
        self.0.context()
    }
    fn adapters(&self) -> usize {
        self.0.adapters()
    }
    fn forward(&self, input: &PassInput, rows: &mut RowCache) -> qkv_base::Result<PassOutput> {
        std::thread::sleep(Duration::from_millis(4));
        self.0.forward(input, rows)
    }
}

/// A server over one model, which takes its time, and a directory of adapters.
fn loading(dir: &Path) -> (Running, std::path::PathBuf) {
    let path = common::model_dir("llama", Shape::Llama);
    for (name, rank, targets) in [("shy", 2, &["q", "v"][..]), ("bold", 3, &["q", "up", "down"][..])] {
        let out = dir.join(name);
        std::fs::create_dir_all(&out).unwrap();
        write(&path, &out, rank, rank as u64, targets);
    }
    let (limits, metrics) = (Limits { adapters: 3, ..Limits::default() }, Arc::new(Metrics::default()));
    let model = Arc::new(TextModel::load(&path).unwrap());
    let network = Arc::new(Adapted::new(model.network.model.answering()));
    let (adapters, slow) = (Some(Adapters::new(network.clone())), Arc::new(Slow(network)));
    let served = Served { adapters, ..Served::with_decoder("base", model, Some(slow), &limits, metrics.clone()) };
    let app = App::new(vec![served], limits, metrics, Access::open(true), false);
    (Running::of(app.with_adapters(Some(AdapterDirectory::new(dir).unwrap()))), path)
}

const LOAD: &str = "/v1/load_lora_adapter";
const UNLOAD: &str = "/v1/unload_lora_adapter";

#[test]
fn adapters_come_and_go_while_rows_run() {
    let dir = tempfile::tempdir().unwrap();
    let (server, _) = loading(dir.path());
    let path = "/v1/completions";
    let plain = said(&server.ok(path, ask("base", 1)));
    assert_eq!(server.refused(path, ask("base+shy", 1)).0, 404);
    let loaded = server.post(LOAD, json!({"lora_name": "shy", "lora_path": "shy"}));
    assert_eq!((loaded.status, loaded.text().as_str()), (200, "Success: LoRA adapter 'shy' added successfully."));
    let shy = said(&server.ok(path, ask("base+shy", 1)));
    assert_ne!(plain, shy);
    assert_eq!(shy, said(&server.ok(path, ask("shy", 1))), "its name alone will do");
    assert_eq!(plain, said(&server.ok(path, ask("base", 1))), "others notice nothing, to the bit");
    // Another name for another adapter; what the first says does not change by a bit.
    assert_eq!(server.post(LOAD, json!({"lora_name": "loud", "lora_path": "bold"})).status, 200);
    assert_eq!(shy, said(&server.ok(path, ask("base+shy", 1))));
    let ids = || -> Vec<String> {
        let models = server.get("/v1/models").json();
        models["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(ids(), ["base", "base+shy", "base+loud"]);
    assert!(server.get("/metrics").text().contains("qkv_adapters{model=\"base\"} 2"));
    // A row that runs ends with the adapter it began with, though that is taken out in its midst; beside it others go on.
    let long = |stream: bool| {
        json!({"model": "base+shy", "prompt": [5, 6, 7], "max_tokens": 60, "temperature": 0, "ignore_eos": true,
            "return_token_ids": true, "stream": stream})
    };
    let want = server.ok(path, long(false))["choices"][0]["token_ids"].clone();
    for round in 0..3 {
        let said_before = server.metric("qkv_completion_tokens_total");
        std::thread::scope(|scope| {
            let (long, server) = (&long, &server);
            let running = scope.spawn(move || server.post(path, long(true)).events());
            while server.metric("qkv_completion_tokens_total") < said_before + 5 {}
            assert_eq!(server.post(UNLOAD, json!({"lora_name": "shy"})).status, 200);
            assert_eq!(server.refused(path, ask("base+shy", 1)).0, 404);
            assert_eq!(server.post(LOAD, json!({"lora_name": "shy", "lora_path": "bold"})).status, 200);
            let spoken = server.metric("qkv_completion_tokens_total") - said_before;
            assert!(spoken < 60, "the row runs still: {spoken}");
            let events = running.join().unwrap();
            let ids = events.iter().filter_map(|event| event["choices"][0]["token_ids"].as_array().cloned());
            assert_eq!(json!(ids.flatten().collect::<Vec<_>>()), want, "round {round}");
        });
        // Put in again in the place of the other.
        let body = json!({"lora_name": "shy", "lora_path": "shy", "load_inplace": true});
        assert_eq!(server.post(LOAD, body).status, 200);
    }
    assert_eq!(shy, said(&server.ok(path, ask("base+shy", 1))));
    assert_eq!(server.post(UNLOAD, json!({"lora_name": "shy", "lora_int_id": 1})).status, 200);
    assert_eq!(server.post(UNLOAD, json!({"lora_name": "loud"})).status, 200);
    assert_eq!(ids(), ["base"]);
    assert_eq!(plain, said(&server.ok(path, ask("base", 1))));
    // Nobody has them any more, and so they are gone.
    assert_eq!(server.app.models[0].adapters.as_ref().unwrap().bytes(), 0);
}

#[test]
fn what_cannot_be_loaded_is_refused_and_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (server, base) = loading(dir.path());
    let load = |name: &str, path: &str| server.refused(LOAD, json!({"lora_name": name, "lora_path": path}));
    // Names that are none.
    for path in ["../shy", "/etc/passwd", "shy/..", "a/b", "", ".", "..", "shy\0"] {
        let (status, message) = load("x", path);
        assert_eq!(status, 400, "{path}: {message}");
    }
    assert_eq!(load("a+b", "shy").0, 400);
    let (status, message) = load("x", "nobody");
    assert!(status == 404 && !message.contains(&dir.path().display().to_string()), "{message}");
    assert_eq!(server.refused(LOAD, json!({})).0, 400);
    assert_eq!(server.refused(LOAD, json!({"lora_name": 5})).0, 400);
    assert_eq!(server.refused(LOAD, json!({"lora_name": "x", "lora_path": "shy", "model": "nobody"})).0, 404);
    assert_eq!(server.refused(UNLOAD, json!({"lora_name": "shy"})).0, 404);
    // Twice, and more than there is room for.
    for name in ["one", "two", "three"] {
        assert_eq!(server.post(LOAD, json!({"lora_name": name, "lora_path": "shy"})).status, 200);
    }
    assert_eq!(load("one", "shy").0, 400);
    assert!(load("four", "shy").1.contains("as many as it may"));
    assert_eq!(server.post(UNLOAD, json!({"lora_name": "three"})).status, 200);
    // Files that are not what they should be.
    let bad = |name: &str| {
        let to = dir.path().join(name);
        std::fs::create_dir_all(&to).unwrap();
        for file in ["adapter_config.json", "adapter_model.safetensors"] {
            std::fs::copy(dir.path().join("shy").join(file), to.join(file)).unwrap();
        }
        to
    };
    let cut = bad("cut").join("adapter_model.safetensors");
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let nan = bad("nan").join("adapter_model.safetensors");
    let mut with = bytes.clone();
    let end = with.len();
    with[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&nan, with).unwrap();
    std::fs::write(bad("mute").join("adapter_config.json"), "{").unwrap();
    // An adapter of another network has other widths.
    let other = common::model_dir("gpt2", Shape::Gpt2);
    std::fs::create_dir_all(dir.path().join("other")).unwrap();
    write(&other, &dir.path().join("other"), 2, 1, &["q"]);
    // The rank that its numbers have is not the one that its shapes say.
    let rank = bad("rank").join("adapter_model.safetensors");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let from = text.find("\"shape\":[").unwrap();
    let mut with = bytes.clone();
    with[from + 9] = b'9';
    std::fs::write(&rank, with).unwrap();
    for name in ["cut", "nan", "mute", "other", "rank"] {
        let (status, message) = load("x", name);
        assert!(status == 400, "{name}: {status} {message}");
        assert!(!message.contains(&dir.path().display().to_string()), "{message}");
    }
    assert!(load("x", "nan").1.contains("no number"));
    // Everything goes on.
    assert_eq!(server.ok("/v1/completions", ask("base+two", 1))["model"], "base+two");
    assert_eq!(server.app.metrics.panics.load(std::sync::atomic::Ordering::Relaxed), 0);
    // Without a directory nothing is read.
    let (limits, metrics) = (Limits::default(), Arc::new(Metrics::default()));
    let served = Served::new("base", Arc::new(TextModel::load(&base).unwrap()), &limits, metrics.clone());
    let closed = Running::of(App::new(vec![served], limits, metrics, Access::open(true), false));
    assert_eq!(closed.refused(LOAD, json!({"lora_name": "shy", "lora_path": "shy"})).0, 403);
}
