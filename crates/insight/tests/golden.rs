//! What `see` computes is what transformers (eager) and Captum compute on the same tiny checkpoints. The golden files and
//! the script that made them are in `golden/`.

use qkv_insight::see::gradients::attribute;
use qkv_insight::see::lens::{place, said};
use qkv_insight::see::{Ask, Given, Look};
use qkv_nn::device;
use qkv_tasks::TextModel;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name)
}

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Nested lists, flat.
fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(list) => list.iter().flat_map(flat).collect(),
        other => vec![other.as_f64().unwrap()],
    }
}

fn ids(value: &Value) -> Vec<u32> {
    flat(value).into_iter().map(|x| x as u32).collect()
}

fn close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    let worst = got.iter().zip(want).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
    assert!(worst <= tolerance, "{what}: {worst:.2e} apart");
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

fn given(model: &TextModel, g: &Value) -> Given {
    let second = g.get("target_ids").map(|t| Ask::Ids(ids(t)));
    Given::new(model, &Ask::Ids(ids(&g["ids"])), second.as_ref()).unwrap()
}

/// Integrated gradients and input × gradient, to a thousandth of the score that is shared out.
fn attributes(name: &str, given: impl Fn(&TextModel) -> Given) {
    let (g, model) = (golden(name), TextModel::load_on(&fixture(name), &device::trainable("cpu").unwrap()).unwrap());
    let found = attribute(&model, &given(&model), Some(g["place"].as_u64().unwrap() as usize), None, 64).unwrap();
    let whole = g["whole"].as_f64().unwrap();
    assert_eq!(u64::from(found.target), g["target"].as_u64().unwrap(), "{name}");
    let tolerance = 1e-3 * whole.abs().max(1.0);
    close(&format!("{name}, integrated"), &found.integrated, &flat(&g["integrated"]), tolerance);
    close(&format!("{name}, input × gradient"), &found.input_gradient, &flat(&g["input_gradient"]), tolerance);
    close(&format!("{name}, F(x) − F(0)"), &[found.score - found.baseline], &[whole], tolerance);
    // The corners of ReLU want more steps than smooth networks do; Captum's sum is off by as much.
    let place = Some(found.place);
    let fine = if name == "t5" { attribute(&model, &given(&model), place, None, 512).unwrap() } else { found };
    assert!(fine.relative_error < 0.01, "{name}: completeness off by {}", fine.relative_error);
}

#[test]
fn maps_are_those_of_transformers() {
    for name in ["gpt2", "llama", "bert-mlm", "bert-classify"] {
        let (g, model) = (golden(name), TextModel::load(&fixture(name)).unwrap());
        let look = Look::new(&model, &given(&model, &g)).unwrap();
        close(name, &wide(&look.maps[0].values.concat()), &flat(&g["attentions"]), 1e-4);
        assert!(look.maps[0].row_error() < 1e-5);
    }
    for name in ["t5", "marian"] {
        let (g, model) = (golden(name), TextModel::load(&fixture(name)).unwrap());
        let look = Look::new(&model, &given(&model, &g)).unwrap();
        for kind in ["encoder", "cross", "decoder"] {
            close(
                &format!("{name} {kind}"),
                &wide(&look.named(Some(kind)).unwrap().values.concat()),
                &flat(&g[kind]),
                1e-4,
            );
        }
    }
}

#[test]
fn the_lens_is_that_of_transformers() {
    for name in ["gpt2", "llama", "bert-mlm"] {
        let (g, model) = (golden(name), TextModel::load(&fixture(name)).unwrap());
        let look = Look::new(&model, &given(&model, &g)).unwrap();
        let width = look.width();
        for (layer, (want_p, want_id)) in
            g["lens"]["probability"].as_array().unwrap().iter().zip(g["lens"]["token"].as_array().unwrap()).enumerate()
        {
            let scores = said(&model, &look.states[layer].values).unwrap();
            let places: Vec<(u32, f64)> = scores.chunks(width).map(|row| place(row, None, 1).top[0]).collect();
            close(
                &format!("{name}, layer {layer}"),
                &places.iter().map(|p| p.1).collect::<Vec<_>>(),
                &flat(want_p),
                1e-4,
            );
            assert_eq!(places.iter().map(|p| p.0).collect::<Vec<_>>(), ids(want_id), "{name}, layer {layer}");
        }
    }
}

#[test]
fn attributions_are_those_of_captum() {
    for name in ["gpt2", "llama", "bert-mlm", "bert-classify", "t5", "marian"] {
        attributes(name, |model| given(model, &golden(name)));
    }
}

#[test]
fn a_picture_is_looked_at_as_transformers_and_captum_do() {
    let (g, model) = (golden("vit"), TextModel::load(&fixture("vit")).unwrap());
    let picture = || {
        let bytes = flat(&g["bytes"]);
        let pixels: Vec<f32> = bytes.iter().map(|b| ((b / 255.0 - 0.5) / 0.5) as f32).collect();
        let planes = g["bytes"].as_array().unwrap();
        let (channels, size) = (planes.len(), planes[0].as_array().unwrap().len());
        Given::Picture { pixels, size, channels, patch: 4, light: vec![0.5; size * size] }
    };
    let look = Look::new(&model, &picture()).unwrap();
    close("vit", &wide(&look.maps[0].values.concat()), &flat(&g["attentions"]), 1e-4);
    attributes("vit", |_| picture());
}
