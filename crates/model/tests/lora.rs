//! LoRA on whole networks: at first nothing has changed, only the adapters learn, and merged is the same as unmerged.

mod common;

use burn::tensor::Device;
use common::*;
use qkv_model::Transformer;
use qkv_nn::{Cx, LoraSize};
use qkv_optim::reach::reached;
use qkv_optim::{Optimizer, Settings, refuse_unreached};
use qkv_testkit::{max_diff, values};

fn base(name: &str) -> Transformer {
    lively(&spec(name), &Device::flex().autodiff())
}

fn logits(model: &Transformer, given: &Given) -> Vec<f32> {
    values(run(model, given, &mut Cx::eval()).inner())
}

/// Dropout is on in training and must be no part of an answer.
const SIZE: LoraSize = LoraSize { rank: 4, alpha: 8.0, dropout: 0.1 };

/// A network and the layers to adapt, by the ends of their paths, and how many that are.
const ADAPTED: &[(&str, &[&str], usize)] = &[
    ("tiny-decoder", &["q", "v"], 4),
    ("tiny-llama", &["q", "k", "v", "attention.out", "gate", "up", "down"], 14),
    ("tiny-llama", &["head.out"], 1),
    ("tiny-t5", &["cross.q", "encoder.layers.0.ffn.up"], 3),
    ("tiny-encoder", &["v", "head.dense"], 3),
    ("tiny-vit", &["project", "q"], 3),
];

#[test]
fn at_first_nothing_has_changed_to_the_bit() {
    for (name, targets, _) in ADAPTED {
        let given = Given::random(&spec(name), 2, 8);
        let adapted = base(name).with_lora(targets, SIZE, 3).unwrap();
        assert_eq!(logits(&adapted, &given), logits(&base(name), &given), "{name} with {targets:?}");
    }
}

#[test]
fn only_adapters_learn_and_merged_equals_unmerged() {
    for (name, targets, count) in ADAPTED {
        let what = format!("{name} with {targets:?}");
        let given = Given::random(&spec(name), 2, 8);
        let mut model = base(name).with_lora(targets, SIZE, 3).unwrap();
        let (before, first) = (parameters(&model), logits(&model, &given));
        let mut optimizer = Optimizer::new(Settings::default());
        for step in 0..5 {
            let grads = loss(&model, &given, &mut Cx::train(1, step)).backward();
            assert_eq!(refuse_unreached(&model, &grads), Ok(()), "{what}");
            let found = reached(&model, &grads);
            assert_eq!(found.len(), 2 * count, "{what}: {found:?}");
            for r in found {
                // While B is zero nothing comes through to A.
                let zero = step == 0 && r.path.ends_with(".lora.a");
                assert_eq!(r.norm == Some(0.0), zero, "{what}: {} in step {step}", r.path);
            }
            model = optimizer.step(model, grads, 0.01).0;
        }
        for (path, value) in parameters(&model) {
            assert_eq!(value != before[&path], path.contains(".lora."), "{what}: {path}");
        }
        let unmerged = logits(&model, &given);
        assert!(max_diff(&unmerged, &first) > 1e-3, "{what}: learnt something");
        let merged = model.merge_lora();
        assert!(parameters(&merged).keys().all(|path| !path.contains("lora")), "{what}");
        let off = max_diff(&logits(&merged, &given), &unmerged);
        assert!(off <= 1e-5, "{what}: off by {off:e}");
    }
}

#[test]
fn adapters_depend_on_the_seed_and_their_place() {
    let draw = |seed| parameters(&base("tiny-decoder").with_lora(&["q"], SIZE, seed).unwrap());
    let a = |i| format!("decoder.layers.{i}.attention.q.lora.a");
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1)[&a(0)], draw(2)[&a(0)]);
    assert_ne!(draw(1)[&a(0)], draw(1)[&a(1)]);
}
