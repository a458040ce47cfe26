//! `qkv train` and its sisters as a person runs them: small runs of the real binary.

mod common;

use common::qkv;
use serde_json::Value;

/// A place with a small recipe that has a goal.
fn place() -> tempfile::TempDir {
    common::place("goal = 1.0\n")
}

#[test]
fn a_run_leaves_everything_behind_and_can_be_judged_again() {
    let dir = place();
    let (code, out, err) = qkv(dir.path(), &["train", "tiny.toml", "--json"]);
    assert_eq!(code, 0, "{err}");
    let answer: Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(answer["run"], "runs/tiny");
    let accuracy = answer["scores"]["test"]["accuracy"].as_f64().unwrap();
    assert_eq!(answer["pass"], accuracy >= 1.0);
    let run = dir.path().join("runs/tiny");
    for file in [
        "recipe.toml",
        "metrics.jsonl",
        "report.html",
        "scores.json",
        "model/config.json",
        "model/model.safetensors",
        "model/tokenizer.json",
        "checkpoints/latest",
        "checkpoints/best",
    ] {
        assert!(run.join(file).is_file(), "{file}");
    }
    let lines = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert!(lines.lines().all(|l| serde_json::from_str::<Value>(l).unwrap()["step"].is_u64()));
    assert!(err.contains("step 6/6") && err.contains("validation loss"), "{err}");
    assert!(err.contains("the best network is chosen by accuracy on the"), "{err}");
    assert!(lines.lines().any(|l| l.contains("valid_accuracy")), "{lines}");
    let (code, out, err) = qkv(dir.path(), &["runs", "--json"]);
    assert_eq!(code, 0, "{err}");
    let runs: Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(
        (&runs[0]["name"], runs[0]["score"].as_f64(), &runs[0]["step"]),
        (&"tiny".into(), Some(accuracy), &6.into())
    );
    let (code, out, _) = qkv(dir.path(), &["runs"]);
    assert!(code == 0 && out.contains("tiny  classify") && out.contains(&format!("accuracy {accuracy:.2}")), "{out}");
    // The newest run, and the same unseen examples: the same score.
    let (code, out, err) = qkv(dir.path(), &["evaluate", "--data", "builtin:reviews", "--examples", "10", "--json"]);
    assert_eq!(code, 0, "{err}");
    let again: Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(again["scores"]["accuracy"].as_f64(), Some(accuracy));
}

/// The usual words are settings of the recipe; what `--set` says counts last.
#[test]
fn the_usual_words_set_the_recipe() {
    let dir = place();
    let usual =
        ["train", "tiny.toml", "--epochs", "2.5", "--lr", "5e-4", "--batch", "7", "--warmup", "3", "--patience", "4"];
    let (code, out, err) = qkv(dir.path(), &[&usual[..], &["--set", "train.rows=9", "--print-recipe"]].concat());
    assert_eq!(code, 0, "{err}");
    for line in ["epochs = 2.5", "rate = 0.0005", "rows = 9", "tokens = 0", "warmup = 3", "patience = 4"] {
        assert!(out.lines().any(|l| l.starts_with(line)), "{line}: {out}");
    }
    let (code, _, err) = qkv(dir.path(), &["train", "tiny.toml", "--steps", "2", "--quiet", "--json", "--out", "q"]);
    assert!(code == 0 || code == 1, "{err}");
    assert!(!err.contains("step 2/2") && !err.contains("memory: "), "{err}");
    assert_eq!(qkv(dir.path(), &["train", "tiny.toml", "--steps", "2", "--epochs", "1"]).0, 2);
}

#[test]
fn what_cannot_be_is_said_before_the_first_step() {
    let dir = place();
    let say = |args: &[&str]| {
        let (code, _, err) = qkv(dir.path(), args);
        (code, err)
    };
    let (code, err) = say(&["train", "tiny.toml", "--set", "train.step=3"]);
    assert!(code == 2 && err.contains("there is no key `step`") && err.contains("did you mean `steps`?"), "{err}");
    let (code, err) = say(&["train", "translat"]);
    assert!(code == 2 && err.contains("did you mean `translate`?"), "{err}");
    std::fs::write(dir.path().join("file"), "").unwrap();
    let (code, err) = say(&["train", "tiny.toml", "--out", "file"]);
    assert!(code == 2 && err.contains("is a file, not a directory"), "{err}");
    let (code, err) = say(&["train", "--resume"]);
    assert!(code == 2 && err.contains("there is no run"), "{err}");
    let (code, err) = say(&["train", "tiny.toml", "--data", "absent.csv"]);
    assert!(code == 2 && err.contains("absent.csv"), "{err}");
    let (code, out, _) = qkv(dir.path(), &["train", "--print-recipe", "--set", "train.steps=77"]);
    assert!(code == 0 && out.contains("steps = 77 "), "{out}");
}

#[test]
fn a_run_is_not_written_over_and_a_changed_recipe_is_refused() {
    let dir = place();
    let (code, _, err) = qkv(dir.path(), &["train", "tiny.toml", "--out", "r"]);
    assert_eq!(code, 0, "{err}");
    let (code, _, err) = qkv(dir.path(), &["train", "tiny.toml", "--out", "r"]);
    assert!(code == 2 && err.contains("holds a run already") && err.contains("--resume"), "{err}");
    let (code, _, err) = qkv(dir.path(), &["train", "--resume", "--out", "r", "--set", "optim.rate=0.5"]);
    assert!(code == 2 && err.contains("optim.rate: 0.001 → 0.5") && err.contains("--force"), "{err}");
    let (code, _, err) = qkv(dir.path(), &["train", "--resume", "--out", "r"]);
    assert!(code == 0 && err.contains("going on after step 6"), "{err}");
}

#[test]
fn fault_29_a_rate_without_measure_ends_with_a_word_about_it() {
    let dir = place();
    let more = ["--set", "optim.rate=1e30", "--set", "schedule.warmup=0", "--set", "optim.clip=0", "--out", "r"];
    let (code, _, err) = qkv(dir.path(), &[&["train", "tiny.toml"][..], &more].concat());
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("three steps in a row without a number") && err.contains("lower optim.rate"), "{err}");
    assert!(err.contains("first bad: ") && err.contains("batch: example "), "{err}");
}

#[test]
fn adapters_are_learnt_saved_and_merged() {
    let dir = place();
    let (code, _, err) = qkv(dir.path(), &["train", "tiny.toml", "--out", "base"]);
    assert_eq!(code, 0, "{err}");
    let small =
        ["--set", "train.steps=4", "--set", "data.examples=40", "--set", "data.length=32", "--set", "data.valid=10"];
    let start = ["finetune", "base", "--task", "classify", "--data", "builtin:reviews", "--lora", "2", "--out", "fine"];
    let more = ["--set", "data.test=10", "--set", "schedule.warmup=1"];
    let (code, _, err) = qkv(dir.path(), &[&start[..], &small, &more].concat());
    assert_eq!(code, 0, "{err}");
    assert!(dir.path().join("fine/adapter/adapter_model.safetensors").is_file());
    let (code, out, err) = qkv(dir.path(), &["merge", "base", "fine/adapter", "merged", "--json"]);
    assert_eq!(code, 0, "{err}");
    let answer: Value = serde_json::from_str(out.trim()).unwrap();
    assert!(answer["merging_error"].as_f64().unwrap() < 1e-5, "{answer}");
    let read = |place: &str| std::fs::read(dir.path().join(place).join("model.safetensors")).unwrap();
    assert!(read("merged") == read("fine/model"), "the run's own model is the merged one");
}

/// A run that is refused leaves no directory behind, which would be the newest run for every other verb; and takes nothing
/// away that was there before.
#[test]
fn what_is_refused_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("empty.tsv"), "").unwrap();
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_qkv"));
    let done = command.current_dir(dir.path()).args(["train", "--data", "empty.tsv"]).assert().code(2);
    assert!(String::from_utf8_lossy(&done.get_output().stderr).contains("the file is empty"));
    assert!(!dir.path().join("runs/translate").exists());
    std::fs::create_dir(dir.path().join("mine")).unwrap();
    std::fs::write(dir.path().join("mine/thesis.txt"), "years of work").unwrap();
    let (code, ..) = qkv(dir.path(), &["train", "--data", "empty.tsv", "--out", "mine"]);
    assert_eq!(code, 2);
    let left: Vec<_> = std::fs::read_dir(dir.path().join("mine")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["thesis.txt"]);
}

/// What only prints trains nothing, also where a run would go on.
#[test]
fn a_recipe_that_is_printed_is_not_run() {
    let dir = place();
    let dir = dir.path();
    let (code, _, err) = qkv(dir, &["train", "tiny.toml", "--out", "r"]);
    assert_eq!(code, 0, "{err}");
    let journal = || std::fs::read(dir.join("r/metrics.jsonl")).unwrap();
    let before = journal();
    let more = ["--set", "train.steps=60", "--force"];
    let (code, out, err) = qkv(dir, &[&["train", "--resume", "--out", "r", "--print-recipe"], &more[..]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("steps = 60") && journal() == before, "{out}");
}
