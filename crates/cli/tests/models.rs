//! The verbs that load a model: what they print for the reference checkpoints, and how they refuse.

use assert_cmd::Command;
use insta::assert_snapshot;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny").join(name).display().to_string()
}

fn qkv(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command.args(args).env("NO_COLOR", "1").env_remove("RAYON_NUM_THREADS").current_dir(std::env::temp_dir());
    command
}

fn answer(args: &[&str]) -> String {
    let done = qkv(args).assert().success();
    String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8").replace(&fixture(""), "")
}

fn refusal(args: &[&str]) -> String {
    let done = qkv(args).assert().code(2).stdout("");
    String::from_utf8(done.get_output().stderr.clone()).expect("UTF-8").replace(&fixture(""), "")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one line of JSON")
}

#[test]
fn logits_under_the_names_of_the_reference() {
    for name in ["bert-answer", "gpt2", "marian", "vit"] {
        let dir = fixture(name);
        let reference: Value = json(&std::fs::read_to_string(Path::new(&dir).join("reference.json")).expect("a file"));
        let file = tempfile::NamedTempFile::new().expect("a place");
        std::fs::write(file.path(), reference["inputs"].to_string()).expect("written");
        let path = file.path().display().to_string();
        let got = json(&answer(&["logits", &dir, "--inputs", &path, "--hidden", "--attentions"]));
        for (key, want) in reference["outputs"].as_object().expect("an object") {
            if want.as_array().is_some_and(|a| a.is_empty()) {
                continue;
            }
            let shape = |v: &Value| {
                let mut shape = vec![];
                let mut v = v;
                while let Some(list) = v.as_array() {
                    shape.push(list.len());
                    v = &list[0];
                }
                shape
            };
            assert_eq!(shape(&got[key]), shape(want), "{name}: {key}");
        }
    }
    let one = json(&answer(&["logits", &fixture("gpt2"), "--ids", "5,6,7", "--json"]));
    assert_eq!(one["logits"][0].as_array().map(Vec::len), Some(3));
    let pair = json(&answer(&["logits", &fixture("t5"), "--ids", "5,6,7"]));
    assert_eq!(pair["logits"][0].as_array().map(Vec::len), Some(1)); // the start token alone
}

#[test]
fn inspect_shows_what_is_on_disk() {
    assert_snapshot!("inspect_llama_fixture", answer(&["inspect", &fixture("llama"), "--depth", "1"]));
    assert_snapshot!(
        "diff_bert_roberta",
        answer(&["inspect", &fixture("bert-mlm"), "--diff", &fixture("roberta-mlm")])
    );
    assert_snapshot!("diff_presets", answer(&["inspect", "--preset", "gpt2", "--diff", "bert-base"]));
    let all = json(&answer(&["inspect", &fixture("vit"), "--json"]));
    assert_eq!(all["family"], "vit");
    assert_eq!(all["network"]["parameters"].as_u64(), all["types"]["F32"][1].as_u64().map(|b| b / 4));
}

#[test]
fn convert_goes_round() {
    let dir = tempfile::tempdir().expect("a place");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let logits = |model: &str| json(&answer(&["logits", model, "--ids", "5,6,7", "--json"]));
    let want = logits(&fixture("llama"));
    answer(&["convert", &fixture("llama"), &at("a.gguf")]);
    answer(&["convert", &at("a.gguf"), &at("back")]);
    assert_eq!(logits(&at("a.gguf")), want);
    assert_eq!(logits(&at("back")), want);
    answer(&["convert", &fixture("llama"), &at("half"), "--dtype", "bf16"]);
    let small =
        |name: &str| std::fs::metadata(PathBuf::from(at(name)).join("model.safetensors")).expect("a file").len();
    assert!(small("half") < small("back") * 6 / 10);
    assert!(refusal(&["convert", &fixture("llama"), &at("half")]).contains("exists already"));
    assert!(refusal(&["convert", &fixture("llama"), &at("new"), "--dtype", "q8_0"]).contains("f32, f16 or bf16"));
    assert!(refusal(&["convert", &fixture("vit"), &at("new.gguf")]).contains("supported in GGUF: llama, gpt2, bert"));
}

#[test]
fn refusals_say_what_to_do() {
    assert_snapshot!("refuse_no_model", refusal(&["logits", "nowhere", "--ids", "1"]));
    assert_snapshot!("refuse_id_outside", refusal(&["logits", &fixture("gpt2"), "--ids", "1,97"]));
    assert_snapshot!("refuse_wrong_head", refusal(&["classify", &fixture("bert-mlm"), "text"]));
    assert_snapshot!("refuse_no_tokenizer", refusal(&["fill", &fixture("bert-mlm"), "a [MASK]"]));
    assert_snapshot!("refuse_no_run", refusal(&["embed", "just a text"]));
    assert_snapshot!("refuse_diff_unknown", refusal(&["inspect", "--preset", "gpt2", "--diff", "brt-base"]));
}
