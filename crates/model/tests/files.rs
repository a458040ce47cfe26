//! Checkpoints that are not as they should be: told all at once, by name, and never with a panic.

use burn::tensor::Device;
use proptest::prelude::*;
use qkv_model::Pretrained;
use qkv_model::families::{self, Config, Files};
use qkv_weights::{Checkpoint, Dtype, Tensor, save_safetensors};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name)
}

fn config(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(name).join("config.json")).expect("a file")).expect("JSON")
}

/// A fixture with another configuration, or other tensors.
fn altered(
    name: &str,
    config: &Value,
    tensors: impl Fn(&str, Vec<f32>) -> Option<(String, Vec<f32>)>,
) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a place");
    let file = Checkpoint::open(fixture(name)).expect("a checkpoint");
    let made: Vec<(String, Vec<usize>, Vec<f32>)> = file
        .entries()
        .iter()
        .filter_map(|e| {
            let (name, values) = tensors(&e.name, file.read_f32(&e.name).expect("numbers"))?;
            Some((name, e.shape.clone(), values))
        })
        .collect();
    let list: Vec<Tensor> = made.iter().map(|(n, s, v)| Tensor::values(n, s.clone(), v)).collect();
    save_safetensors(dir.path(), &list, Dtype::F32, u64::MAX).expect("written");
    std::fs::write(dir.path().join("config.json"), config.to_string()).expect("written");
    dir
}

fn same(name: &str, values: Vec<f32>) -> Option<(String, Vec<f32>)> {
    Some((name.to_string(), values))
}

fn load(dir: &Path) -> Result<Pretrained, qkv_model::Error> {
    Pretrained::load(dir, &Device::flex())
}

#[test]
fn fault_06_every_mismatch_is_told_at_once() {
    let mut wide = config("bert-tag");
    wide["intermediate_size"] = json!(64);
    let error = load(altered("bert-tag", &wide, same).path()).unwrap_err();
    assert!(error.what.starts_with("6 tensors are not as the configuration says"), "{error}");
    assert!(
        error.what.contains("misshapen: bert.encoder.layer.1.output.dense.weight is [32, 128], but must be [32, 64]")
    );
    assert_eq!(error.hint, "do config.json and the weights belong together?");

    let rename = |name: &str, values| Some((name.replace("query", "qwery"), values));
    let error = load(altered("bert-tag", &config("bert-tag"), rename).path()).unwrap_err();
    let near = "missing: bert.encoder.layer.0.attention.self.query.weight (nearest: bert.encoder.layer.0.attention.self.qwery.weight)";
    assert!(error.what.contains(near), "{error}");
    assert!(error.what.contains("unused: bert.encoder.layer.1.attention.self.qwery.bias"), "{error}");
}

#[test]
fn fault_07_values_that_are_no_numbers_are_counted() {
    let poison = |name: &str, mut values: Vec<f32>| {
        if name.ends_with("layer.1.output.dense.bias") {
            (values[3], values[5]) = (f32::NAN, f32::INFINITY);
        }
        same(name, values)
    };
    let it = load(altered("bert-tag", &config("bert-tag"), poison).path()).expect("loads");
    let want =
        "2 values are not finite (1 NaN, 1 infinite), the first at index 3 of `bert.encoder.layer.1.output.dense.bias`";
    assert_eq!(it.report.warnings, [want]);
}

#[test]
fn tensors_that_do_not_matter_are_told_apart_from_those_that_nobody_wants() {
    let dir = tempfile::tempdir().expect("a place");
    let it = load(&fixture("bert-mlm")).expect("loads");
    it.save(dir.path(), Dtype::F32, u64::MAX).expect("written");
    let file = Checkpoint::open(dir.path()).expect("a checkpoint");
    let mut list = file.tensors();
    list.push(Tensor::values("bert.pooler.dense.bias", [1], &[0.0]));
    list.push(Tensor::values("something.else", [1], &[0.0]));
    let more = tempfile::tempdir().expect("a place");
    save_safetensors(more.path(), &list, Dtype::F32, u64::MAX).expect("written");
    std::fs::copy(dir.path().join("config.json"), more.path().join("config.json")).expect("copied");
    let it = load(more.path()).expect("loads");
    assert_eq!(it.report.ignored, [("bert.pooler.dense.bias".to_string(), "this head does without the pooler")]);
    assert_eq!(it.report.unused, ["something.else"]);
}

#[test]
fn fault_14_bad_configurations_are_refused_with_the_key() {
    let say = |key: &str, value: Value| {
        let mut changed = config("gpt2");
        changed[key] = value;
        load(altered("gpt2", &changed, same).path()).unwrap_err().to_string()
    };
    assert!(say("n_head", json!(5)).contains("5 heads cannot share a width of 32"));
    assert!(say("n_layer", json!(0)).contains("decoder.layers: must not be 0"));
    assert!(say("n_layer", json!(1e9 as u64)).contains("n_layer: 1000000000 is absurdly large"));
    assert!(say("vocab_size", json!(1_000_000)).contains("misshapen: transformer.wte.weight"));
    assert!(say("vocab_size", json!(-3)).contains("vocab_size: -3 is not a whole number"));
    assert!(say("model_type", json!("gpt3")).contains("`gpt3` is not supported (did you mean `gpt2`?)"));
    assert!(say("scale_attn_by_inverse_layer_idx", json!(true)).contains("true is not supported"));
}

/// What GGUF's readers would assume wrongly is refused, not written.
#[test]
fn a_gemma_that_gguf_cannot_say_is_refused() {
    let dir = tempfile::tempdir().expect("a place");
    let say = |name: &str| {
        let it = load(&fixture(name)).expect("loads");
        it.save_gguf(&dir.path().join("model.gguf"), Dtype::F32, |_| Ok(())).unwrap_err().to_string()
    };
    assert!(say("gemma2").contains("scores divided by √20, where readers assume √16"));
    assert!(say("gemma3").contains("another base of layers with a window"));
    assert!(say("electra-mlm").contains("`electra` is not supported"));
}

#[test]
fn layers_with_a_window_must_follow_a_pattern() {
    let read = |types: Value| {
        let mut map = config("gemma2").as_object().expect("an object").clone();
        map.insert("num_hidden_layers".into(), types.as_array().expect("a list").len().into());
        map.insert("layer_types".into(), types);
        let config = Config::parse("config.json", Value::Object(map).to_string().as_bytes()).expect("an object");
        (families::of(&config).expect("a family").read)(&config, &Files::default())
    };
    let (s, f) = ("sliding_attention", "full_attention");
    let window = |types| read(types).expect("a pattern").decoder().expect("a decoder").window;
    use qkv_model::spec::Window;
    assert_eq!(window(json!([s, f, s, f, s])), Window::Alternating { window: 4, full_every: 2 });
    assert_eq!(window(json!([s, s, f])), Window::Alternating { window: 4, full_every: 3 });
    assert_eq!(window(json!([f, f])), Window::None);
    assert_eq!(window(json!([s, s])), Window::Every(4));
    let error = read(json!([s, f, f])).unwrap_err();
    assert!(error.to_string().contains("layer_types: is not a repetition"), "{error}");
}

#[test]
fn a_file_without_its_configuration_says_so() {
    let dir = tempfile::tempdir().expect("a place");
    std::fs::copy(fixture("gpt2").join("model.safetensors"), dir.path().join("model.safetensors")).expect("copied");
    assert!(load(dir.path()).unwrap_err().to_string().contains("config.json"));
}

/// A Gemma that GGUF can say, which leaves the scale of scores and the pattern of windows to its readers.
fn new_gemma(preset: &str, family: &str, full_every: usize) -> Pretrained {
    let mut spec = qkv_model::presets::find(preset).expect("a preset").spec();
    spec.attention_scale = qkv_nn::Scale::InverseRoot;
    if let qkv_model::spec::Shape::Decoder(stack) = &mut spec.shape {
        stack.window = qkv_model::spec::Window::Alternating { window: 4, full_every };
        stack.layers = full_every + 1;
    }
    Pretrained::new(families::named(family).expect("a family"), &spec, None, 1, &Device::flex()).expect("a network")
}

/// GGUF and back: the same numbers, through neighbours and halves, stacked and apart, counted from one and from nothing.
#[test]
fn gguf_gives_back_what_it_was_given() {
    let fixtures = ["llama", "llama-tied", "qwen3", "gpt2"].map(|name| (name, load(&fixture(name)).expect("loads")));
    let gemmas = [("tiny-gemma2", "gemma2", 2), ("tiny-gemma3", "gemma3_text", 6)];
    let gemmas = gemmas.map(|(preset, family, every)| (family, new_gemma(preset, family, every)));
    for (name, it) in fixtures.into_iter().chain(gemmas) {
        let dir = tempfile::tempdir().expect("a place");
        let path = dir.path().join("model.gguf");
        it.save_gguf(&path, Dtype::F32, |_| Ok(())).unwrap_or_else(|e| panic!("{name}: {e}"));
        let back = load(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        let same_but_pad = |mut spec: qkv_model::Spec| {
            spec.dropout = Default::default();
            spec
        };
        assert_eq!(same_but_pad(back.spec().clone()), same_but_pad(it.spec().clone()), "{name}");
        let (a, b) = (qkv_model::pretrained::Values::of(&it.model), qkv_model::pretrained::Values::of(&back.model));
        for p in qkv_model::count::parameters(&it.model) {
            assert_eq!(a.read(&p.path), b.read(&p.path), "{name}: {}", p.path);
        }
    }
}

fn strange() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0u64..70).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        "[a-z_-]{0,8}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({"0": "a", "5": "b"})),
        Just(json!({"rope_type": "linear", "factor": -1})),
        Just(json!({"rope_type": "yarn", "factor": 1e300})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Whatever a configuration says, it is a network that can be counted, or an error.
    #[test]
    fn no_configuration_panics(family in 0usize..13, changes in prop::collection::vec((any::<prop::sample::Index>(), strange()), 1..4)) {
        let name = ["bert-tag", "roberta-mlm", "distilbert-mlm", "gpt2", "llama", "t5", "bart", "marian", "vit", "qwen3",
            "gemma2", "gemma3", "electra-detect"][family];
        let mut map = config(name).as_object().expect("an object").clone();
        for (index, value) in changes {
            let keys: Vec<String> = map.keys().cloned().collect();
            map.insert(index.get(&keys).clone(), value);
        }
        let config = Config::parse("config.json", Value::Object(map).to_string().as_bytes()).expect("an object");
        if let Ok(sheet) = families::of(&config)
            && let Ok(spec) = (sheet.read)(&config, &Files::default())
            && spec.check().is_ok()
        {
            let model = qkv_model::Transformer::new(&spec, 0, &Device::flex()).expect("a checked spec");
            let _ = (sheet.names)(&spec, &config).slots(&qkv_model::count::parameters(&model));
        }
    }
}
