//! Adapters between PEFT and qkv. The files under `adapters/` were written by PEFT 0.21.2 (`adapters.py golden`), with the
//! scores that PEFT's model gives for the same input.

use burn::tensor::Device;
use qkv_data::Batch;
use qkv_model::{Pretrained, Transformer};
use qkv_nn::Cx;
use qkv_train::Trainable;
use qkv_train::adapter::{self, About};
use qkv_weights::Checkpoint;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn base(name: &str) -> Pretrained {
    Pretrained::load(&here("../../fixtures/tiny").join(name), &Device::flex().autodiff()).expect("a checkpoint")
}

/// The same ids as `adapters.py` gives: two rows of seven, five of each for a decoder that reads a memory.
fn scores(model: &Transformer) -> Vec<f32> {
    let vocabulary = model.spec().vocabulary().expect("text") as u32;
    let ids: Vec<u32> = (0..14).map(|i| i * 5 % (vocabulary - 8) + 5).collect();
    let pair = model.spec().encoder().is_some() && model.spec().decoder().is_some();
    let mut batch = Batch { rows: 2, length: 7, lengths: vec![7; 2], ids: ids.clone(), ..Batch::default() };
    if pair {
        batch.ids = ids.chunks(7).flat_map(|row| &row[..5]).copied().collect();
        (batch.length, batch.lengths) = (5, vec![5; 2]);
        (batch.memory, batch.memory_length, batch.memory_lengths) = (ids, 7, vec![7; 2]);
    }
    model.forward(&batch, &mut Cx::eval()).expect("scores").into_data().try_to_vec().expect("numbers")
}

fn farthest(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn an_adapter_of_pefts_says_here_what_it_says_there() {
    for name in ["bert-classify", "gpt2", "t5"] {
        let it = base(name);
        let dir = here("tests/adapters").join(name);
        let want: Vec<f32> = serde_json::from_slice(&std::fs::read(dir.join("logits.json")).unwrap()).unwrap();
        let adapted = adapter::load(&it, &dir).unwrap_or_else(|e| panic!("{name}: {e}; {}", e.hint));
        let off = farthest(&scores(&adapted), &want);
        assert!(off < 2e-5, "{name}: off by {off:e}");
        assert!(farthest(&scores(&it.model), &want) > 1e-2, "{name}: the adapter does something");
        let merged = farthest(&scores(&adapted.merge_lora()), &want);
        assert!(merged < 2e-5, "{name}: merged off by {merged:e}");
    }
}

/// PEFT finds tensors by name and shape: what is written here must be called what PEFT calls it.
#[test]
fn an_adapter_of_pefts_is_written_as_it_was_read() {
    for (name, rank) in [("bert-classify", 2), ("t5", 2)] {
        let it = base(name);
        let dir = here("tests/adapters").join(name);
        let model = adapter::load(&it, &dir).unwrap();
        let out = tempfile::tempdir().unwrap();
        let about = About { base: "base".into(), rank, alpha: 6.0, dropout: 0.1 };
        adapter::save(&it, &model, &about, out.path()).unwrap();
        let tensors = |dir: &Path| -> BTreeMap<String, Vec<f32>> {
            let file = Checkpoint::open(dir.join("adapter_model.safetensors")).unwrap();
            file.entries().iter().map(|e| (e.name.clone(), file.read_f32(&e.name).unwrap())).collect()
        };
        let adapters = |all: BTreeMap<String, Vec<f32>>| -> BTreeMap<_, _> {
            all.into_iter().filter(|(name, _)| name.contains(".lora_")).collect()
        };
        assert_eq!(adapters(tensors(out.path())), adapters(tensors(&dir)), "{name}");
        let config = |dir: &Path| -> Value {
            serde_json::from_slice(&std::fs::read(dir.join("adapter_config.json")).unwrap()).unwrap()
        };
        let (ours, theirs) = (config(out.path()), config(&dir));
        for key in ["peft_type", "r", "task_type", "bias", "fan_in_fan_out", "use_dora", "use_rslora", "lora_dropout"] {
            assert_eq!(ours[key], theirs[key], "{name}: {key}");
        }
        assert_eq!(ours["lora_alpha"].as_f64(), theirs["lora_alpha"].as_f64());
        let set = |v: &Value| -> BTreeSet<String> { serde_json::from_value(v.clone()).unwrap() };
        assert_eq!(set(&ours["target_modules"]), set(&theirs["target_modules"]), "{name}");
    }
}
