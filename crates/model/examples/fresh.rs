//! Writes a freshly drawn tiny checkpoint of every family as Hugging Face directories, with what it computes:
//! `cargo run --release --example fresh -- OUT`. `tests/check_with_transformers.py` loads them and compares.

use burn::tensor::Device;
use qkv_model::outputs::{Inputs, OutputOptions, forward_outputs};
use qkv_model::spec::{Head, Output, Pool, Spec};
use qkv_model::{Pretrained, families, presets};
use qkv_weights::Dtype;
use std::path::Path;

fn specs() -> Vec<(&'static str, &'static str, Spec)> {
    let preset = |name: &str| presets::find(name).expect("a preset").spec();
    let with = |name: &str, head: Head| Spec { head, ..preset(name) };
    let tanh = Pool::Dense(qkv_kernels::Activation::Tanh);
    let gelu = Pool::Dense(qkv_kernels::Activation::Gelu);
    vec![
        ("bert-mlm", "bert", preset("tiny-encoder")),
        ("bert-base", "bert", with("tiny-encoder", Head::Pool)),
        ("bert-classify", "bert", with("tiny-encoder", Head::Classify { labels: 3, pool: tanh })),
        ("bert-tag", "bert", with("tiny-encoder", Head::Tag { labels: 5 })),
        ("bert-answer", "bert", with("tiny-encoder", Head::Span)),
        ("gpt2", "gpt2", preset("tiny-decoder")),
        ("llama", "llama", preset("tiny-llama")),
        ("qwen3", "qwen3", preset("tiny-qwen3")),
        ("gemma2", "gemma2", preset("tiny-gemma2")),
        ("gemma3", "gemma3_text", preset("tiny-gemma3")),
        ("electra-mlm", "electra", preset("tiny-electra")),
        ("electra-detect", "electra", preset("tiny-detector")),
        ("electra-classify", "electra", with("tiny-electra", Head::Classify { labels: 3, pool: gelu })),
        ("t5", "t5", preset("tiny-t5")),
        ("bart", "bart", preset("tiny-bart")),
        ("marian", "marian", with("tiny-pair", Head::Language { output: Output::Tied, bias: true })),
        ("vit", "vit", preset("tiny-vit")),
    ]
}

fn inputs(spec: &Spec) -> (Inputs, serde_json::Value) {
    let json = match (spec.patches(), spec.encoder().is_some() && spec.decoder().is_some()) {
        (Some(_), _) => {
            let qkv_model::spec::Input::Patches { image, channels, .. } = spec.input else { unreachable!() };
            let pixel = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 50.0;
            let row = |c: usize, y: usize| (0..image).map(|x| pixel((c * image + y) * image + x)).collect::<Vec<_>>();
            let plane = |c: usize| (0..image).map(|y| row(c, y)).collect::<Vec<_>>();
            serde_json::json!({"pixel_values": [(0..channels).map(plane).collect::<Vec<_>>()]})
        }
        (None, true) => serde_json::json!({"input_ids": [[5, 6, 7, 8, 2]], "decoder_input_ids": [[1, 9, 10]]}),
        (None, false) => serde_json::json!({"input_ids": [[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16]]}),
    };
    (serde_json::from_value(json.clone()).expect("known inputs"), json)
}

fn main() {
    let out = std::env::args().nth(1).expect("where to write");
    for (name, family, spec) in specs() {
        let sheet = families::named(family).expect("a family");
        let it = Pretrained::new(sheet, &spec, None, 3, &Device::flex()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let dir = Path::new(&out).join(name);
        it.save(&dir, Dtype::F32, u64::MAX).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (inputs, json) = inputs(&spec);
        let outputs = forward_outputs(&it, &inputs, OutputOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let outputs: serde_json::Map<_, _> =
            outputs.into_iter().map(|(k, v)| (k, serde_json::to_value(v).expect("numbers"))).collect();
        let all = serde_json::json!({"inputs": json, "outputs": outputs});
        std::fs::write(dir.join("computed.json"), all.to_string()).expect("written");
        println!("{name}");
    }
}
