//! What strangers and slips of the hand bring to the door of the program: each is answered with a sentence and a hint, at
//! once and within a bounded memory. The numbers are those of the list in docs/reliability.md.
#![cfg(unix)]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The exit code (−1: killed), stdout and stderr. Whatever is asked is answered soon.
fn qkv(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let since = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command.current_dir(dir).env_remove("RAYON_NUM_THREADS").env("NO_COLOR", "1").stdin(Stdio::null());
    let out = command.args(args).output().unwrap();
    assert!(since.elapsed() < Duration::from_secs(60), "{args:?} took {:?}", since.elapsed());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

/// stderr of a command that is refused: exit 2, nothing on stdout, a hint, and no panic.
fn refused(dir: &Path, args: &[&str]) -> String {
    let (code, out, err) = qkv(dir, args);
    assert!(code == 2 && out.is_empty(), "{args:?}: exit {code}, {out:?}, {err}");
    assert!(err.contains("error: ") && !err.contains("panicked"), "{args:?}: {err}");
    err
}

/// A reference checkpoint with a tokenizer of its 97 tokens beside it.
fn speaking(family: &str) -> (tempfile::TempDir, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let held = tempfile::tempdir().unwrap();
    let dir = held.path().join("model");
    std::fs::create_dir(&dir).unwrap();
    for name in ["config.json", "generation_config.json", "model.safetensors"] {
        let from = root.join("../../fixtures/tiny").join(family).join(name);
        if from.exists() {
            std::fs::copy(from, dir.join(name)).unwrap();
        }
    }
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(root.join("tests/data").join(name), dir.join(name)).unwrap();
    }
    let place = held.path().to_path_buf();
    (held, place)
}

fn edit(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    change(&mut value);
    std::fs::write(file, value.to_string()).unwrap();
}

/// Puts NaN into the last number of a safetensors file.
fn poison(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn fault_07_weights_that_are_no_numbers_are_warned_of_refused_and_shown() {
    let (_held, dir) = speaking("bert-classify");
    poison(&dir.join("model/model.safetensors"));
    let (_, _, err) = qkv(&dir, &["classify", "model", "the cat"]);
    assert!(err.contains("1 value is not finite (1 NaN, 0 infinite), the first at index"), "{err}");
    let strict = refused(&dir, &["classify", "model", "the cat", "--strict"]);
    assert!(strict.contains("not finite") && strict.contains("qkv inspect"), "{strict}");
    let (code, shown, _) = qkv(&dir, &["inspect", "model"]);
    assert!(code == 0 && shown.contains("1 value is not finite (1 NaN, 0 infinite)"), "{shown}");
    let (_, shown, _) = qkv(&dir, &["inspect", "model", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["values"]["nan"], shown["values"]["tensors"].as_array().unwrap().len()), (&json!(1), 1));
}

#[test]
fn contradictory_labels_are_told_and_heads_that_do_not_choose_refused() {
    let (_held, dir) = speaking("bert-classify");
    let config = dir.join("model/config.json");
    edit(&config, |c| {
        c["id2label"] = json!({"0": "bad", "1": "good", "2": "none"});
        c["label2id"] = json!({"bad": 1, "good": 0, "none": 2});
    });
    let (code, out, err) = qkv(&dir, &["classify", "model", "the cat"]);
    assert!(code == 0 && err.contains("label2id says that 1 is `bad`, id2label says `good`; id2label counts"), "{err}");
    assert!(out.contains("good") || out.contains("bad") || out.contains("none"), "{out}");
    for kind in ["multi_label_classification", "regression"] {
        edit(&config, |c| c["problem_type"] = json!(kind));
        assert!(refused(&dir, &["classify", "model", "the cat"]).contains(kind));
    }
}

#[test]
fn fault_14_files_that_are_no_files_are_refused_at_once() {
    let (_held, dir) = speaking("llama");
    let config = dir.join("model/config.json");
    std::fs::remove_file(&config).unwrap();
    assert!(Command::new("mkfifo").arg(&config).status().unwrap().success());
    assert!(refused(&dir, &["generate", "model", "the cat"]).contains("is not a regular file"));
    assert!(refused(&dir, &["train", "/dev/zero"]).contains("is not a regular file"));
    std::os::unix::fs::symlink("/dev/zero", dir.join("zero.csv")).unwrap();
    std::os::unix::fs::symlink(&config, dir.join("pipe.csv")).unwrap();
    for data in ["zero.csv", "pipe.csv"] {
        let err = refused(&dir, &["train", "sentiment", "--data", data, "--out", "r"]);
        assert!(err.contains("is a pipe or a device") && !dir.join("r").exists(), "{err}");
    }
}

#[test]
fn fault_15_a_template_that_takes_all_memory_or_the_stack_is_an_error() {
    let (_held, dir) = speaking("llama");
    let file = dir.join("model/tokenizer_config.json");
    let hungry = "{% set ns = namespace(x='0123456789abcdef') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
    let deep = format!("{{{{ 1{} }}}}", " + 1".repeat(30_000));
    for (template, says) in [(hungry, "too much memory"), (&deep, "far too long")] {
        edit(&file, |c| c["chat_template"] = json!(template));
        let mut child = Command::new(env!("CARGO_BIN_EXE_qkv"))
            .current_dir(&dir)
            .args(["chat", "model"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"hi\n"); // it may have ended before
        let out = child.wait_with_output().unwrap();
        let err = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && err.contains(says), "{:?}: {err}", out.status);
    }
}

#[test]
fn fault_28_what_no_memory_could_hold_is_refused_before_it_is_allocated() {
    let dir = tempfile::tempdir().unwrap();
    for setting in ["model.width=200000", "data.length=200000000"] {
        let since = Instant::now();
        let (code, _, err) =
            qkv(dir.path(), &["train", "gpt", "--set", setting, "--set", "data.examples=50", "--out", "r"]);
        assert!(code == 2 && err.contains("hint: "), "{setting}: {err}");
        assert!(since.elapsed() < Duration::from_secs(20), "{setting}: {:?}", since.elapsed());
        assert!(!dir.path().join("r").exists(), "{setting}");
    }
    let (_held, place) = speaking("llama");
    edit(&place.join("model/config.json"), |c| c["head_dim"] = json!(268_435_456));
    let since = Instant::now();
    assert!(refused(&place, &["generate", "model", "the cat"]).contains("absurdly"));
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
}

#[test]
fn fault_30_a_recipe_or_tokenizer_that_was_edited_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let small =
        ["model.width=16", "model.layers=1", "model.heads=2", "data.examples=200", "data.valid=8", "data.test=4"];
    let more =
        ["train.steps=4", "train.rows=4", "tokenizer.vocab=300", "eval.goal=0", "eval.samples=0", "data.length=24"];
    let set: Vec<&str> = small.iter().chain(&more).flat_map(|s| ["--set", *s]).collect();
    let (code, _, err) = qkv(dir.path(), &[&["train", "gpt", "--out", "r"], &set[..]].concat());
    assert_eq!(code, 0, "{err}");
    let recipe = dir.path().join("r/recipe.toml");
    let before = std::fs::read_to_string(&recipe).unwrap();
    let resume = ["train", "--resume", "--out", "r"];
    std::fs::write(&recipe, format!("# a remark\n{before}")).unwrap();
    assert_eq!(qkv(dir.path(), &resume).0, 0, "a remark changes nothing");
    std::fs::write(&recipe, before.replace("steps = 4", "steps = 6")).unwrap();
    let err = refused(dir.path(), &resume);
    assert!(err.contains("recipe.toml") && err.contains("train.steps: 4 → 6") && err.contains("--force"), "{err}");
    let (code, _, err) = qkv(dir.path(), &[&resume[..], &["--force"]].concat());
    assert!(code == 0 && err.contains("going on after step 4"), "{err}");
    let tokenizer = dir.path().join("r/tokenizer/tokenizer.json");
    let text = std::fs::read_to_string(&tokenizer).unwrap();
    std::fs::write(&tokenizer, text + "\n").unwrap();
    let err = refused(dir.path(), &resume);
    assert!(err.contains("tokenizer: is not the one that the run was begun with"), "{err}");
}

#[test]
fn fault_41_numbers_without_measure_are_refused_by_name() {
    let (_held, dir) = speaking("llama");
    let cases: [(&[&str], &str); 14] = [
        (&["--temperature", "-1"], "temperature"),
        (&["--temperature", "NaN"], "temperature"),
        (&["--top-p", "1.5"], "top_p"),
        (&["--top-k", "-3"], "top_k"),
        (&["--min-p", "nan"], "min_p"),
        (&["--repetition-penalty", "0"], "repetition_penalty"),
        (&["--chain", "logit_bias 99999=1"], "logit_bias"),
        (&["--max-tokens", "0"], "max-tokens"),
        (&["--max-tokens=-1"], "max-tokens"),
        (&["--n", "0"], "n"),
        (&["--n", "1000000", "--temperature", "1"], "n"),
        (&["--beam", "1000000"], "beam"),
        (&["--contrastive", "999999"], "contrastive"),
        (&["--beam", "4", "--length-penalty", "NaN"], "length penalty"),
    ];
    for (flags, name) in cases {
        let err = refused(&dir, &[&["generate", "model", "the cat"], flags].concat());
        assert!(err.contains(name), "{flags:?}: {err}");
    }
    let threads = ["train", "gpt", "--threads", "1000000", "--out", "r"];
    assert!(refused(&dir, &threads).contains("at most 1024"));
    for setting in ["train.accumulate=1000000000", "data.examples=1000000000000", "optim.beta2=2", "optim.momentum=5"] {
        let err = refused(&dir, &["train", "gpt", "--out", "r", "--set", setting]);
        assert!(err.contains(setting.split('=').next().unwrap()), "{err}");
    }
}

#[test]
fn fault_43_a_picture_of_many_pixels_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let vit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny/vit").display().to_string();
    let picture = image::GrayImage::new(8000, 8000);
    picture.save(dir.path().join("big.png")).unwrap();
    let since = Instant::now();
    let err = refused(dir.path(), &["image", &vit, "big.png"]);
    assert!(err.contains("8000 × 8000") && since.elapsed() < Duration::from_secs(2), "{err} {:?}", since.elapsed());
}

/// Fault 45 on a terminal: what a stranger's file says is shown, not obeyed.
#[test]
fn fault_45_control_characters_of_a_file_do_not_reach_the_terminal() {
    let (_held, dir) = speaking("llama");
    edit(&dir.join("model/config.json"), |c| c["model_type"] = json!("\u{1b}]0;owned\u{7}\u{9b}31m"));
    let err = refused(&dir, &["generate", "model", "the cat"]);
    assert!(err.contains("\\u{1b}]0;owned\\u{7}\\u{9b}31m"), "{err:?}");
    assert!(!err.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{err:?}");
    let err = refused(&dir, &["generate", "./\u{1b}[2J"]);
    assert!(!err.contains('\u{1b}'), "{err:?}");
}

#[test]
fn every_output_follows_one_rule() {
    let (_held, dir) = speaking("llama");
    let path = |name: &str| dir.join(name);
    std::fs::write(path("there.json"), "mine").unwrap();
    let generate = ["generate", "model", "the cat", "--max-tokens", "2", "--trace=there.json"];
    assert!(refused(&dir, &generate).contains("there.json: exists already"));
    let out = path("tokenizer/tokenizer.json");
    std::fs::create_dir(out.parent().unwrap()).unwrap();
    std::fs::write(&out, "mine").unwrap();
    let train = ["tokenizer", "train", "--kind", "char", "--data", "builtin:stories", "--out"];
    assert!(refused(&dir, &[&train[..], &["there.json"]].concat()).contains("exists already"));
    assert!(refused(&dir, &[&train[..], &["tokenizer"]].concat()).contains("exists already"));
    let make = ["data", "make", "builtin:en-it", "--n", "2", "--format", "jsonl", "--out", "there.json"];
    assert!(refused(&dir, &make).contains("exists already"));
    assert!(refused(&dir, &["convert", "model", "there.json", "--to", "gguf"]).contains("exists already"));
    assert!(refused(&dir, &["convert", "model", "tokenizer"]).contains("exists already"));
    assert!(refused(&dir, &["merge", "model", "model", "tokenizer"]).contains("exists already"));
    assert_eq!(std::fs::read_to_string(path("there.json")).unwrap(), "mine", "nothing was written");
    let (code, _, err) = qkv(&dir, &[&generate[..], &["--force"]].concat());
    assert!(code == 0 && std::fs::read_to_string(path("there.json")).unwrap().starts_with('{'), "{err}");
    let (code, _, err) = qkv(&dir, &[&make[..], &["--force"]].concat());
    assert!(code == 0 && std::fs::read_to_string(path("there.json")).unwrap().lines().count() == 2, "{err}");
}

/// The trace tells of the token that was chosen, however improbable it was.
#[test]
fn a_trace_lists_what_was_chosen() {
    let (_held, dir) = speaking("llama");
    let flags = ["--max-tokens", "12", "--temperature", "5", "--seed", "3", "--json", "--trace"];
    let (code, out, err) = qkv(&dir, &[&["generate", "model", "the cat"], &flags[..]].concat());
    assert_eq!(code, 0, "{err}");
    let said: Value = serde_json::from_str(&out).unwrap();
    let mut deep = 0;
    for token in said["trace"]["tokens"].as_array().unwrap() {
        for stage in token["stages"].as_array().unwrap() {
            let listed = stage["candidates"].as_array().unwrap();
            assert!(listed.iter().any(|c| c["id"] == token["picked"]["id"]), "{token}");
            deep += usize::from(listed.len() > 8);
        }
    }
    assert!(deep > 0, "a token beyond the first eight was drawn");
}
