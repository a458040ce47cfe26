//! Free architectures and comparisons, as a person meets them: trained, asked, inspected, put side by side.

use std::path::Path;
use std::process::{Command, Output};

fn qkv(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_qkv")).args(args).current_dir(dir).output().expect("qkv")
}

/// What is printed, if all went well: stdout, stderr.
fn said(dir: &Path, args: &[&str]) -> (String, String) {
    let done = qkv(dir, args);
    let [out, err] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(done.status.success(), "{args:?}: {err}");
    (out, err)
}

/// A refusal: its first line and its hint.
fn refused(dir: &Path, args: &[&str]) -> String {
    let done = qkv(dir, args);
    assert_eq!(done.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stderr).into_owned()
}

const SMALL: &[&str] = &[
    "model.width=16",
    "model.layers=1",
    "data.examples=60",
    "data.valid=8",
    "data.test=6",
    "data.length=24",
    "schedule.warmup=2",
    "eval.batches=1",
];

fn with_small<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut all = args.to_vec();
    SMALL.iter().for_each(|change| all.extend(["--set", change]));
    all
}

#[test]
fn a_network_that_no_family_knows_lives_by_the_same_verbs() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = dir.path();
    let train = ["train", "char-gpt", "--out", "free", "--set", "model.position=alibi", "--set", "model.norm=none"];
    let args = with_small(&train);
    let args: Vec<&str> =
        args.into_iter().chain(["--set", "train.steps=4", "--set", "eval.goal=0", "--quiet"]).collect();
    said(at, &args);
    let shown = said(at, &["inspect", "free"]).0;
    assert!(shown.contains("qkv-transformer") && shown.contains("ALiBi") && shown.contains("gpt2"), "{shown}");
    let greedy = said(at, &["generate", "free", "Once upon", "--greedy", "--max-tokens", "8"]).0;
    assert_eq!(greedy, said(at, &["generate", "free", "Once upon", "--beam", "1", "--max-tokens", "8"]).0);
    assert!(said(at, &["score", "free", "Once upon a time", "--json"]).0.contains("perplexity"));
    let gguf = refused(at, &["convert", "free", "free.gguf", "--to", "gguf"]);
    assert!(gguf.contains("qkv-transformer"), "{gguf}");
}

#[test]
fn variations_are_run_once_and_put_side_by_side() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = dir.path();
    let ask = ["compare", "char-gpt", "--over", "model.position=none,rope", "--budget", "4 steps", "--seeds", "2"];
    let args = with_small(&ask);
    let args: Vec<&str> = args.into_iter().chain(["--out", "both"]).collect();
    let (first, _) = said(at, &args);
    for word in ["none", "rope", "loss", "over 2 seeds", "parameters", "is best with"] {
        assert!(first.contains(word), "{word}: {first}");
    }
    let html = std::fs::read_to_string(at.join("both/compare.html")).expect("a page");
    assert!(
        html.contains("Training loss over seconds") && html.contains("rope") && !html.contains("<script"),
        "a page"
    );
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(at.join("both/compare.json")).expect("a file")).expect("JSON");
    assert_eq!(json["blocks"][0]["rows"][1]["label"], "rope");
    let (again, told) = said(at, &args);
    assert_eq!(first, again, "what was run is not run again");
    assert_eq!(told.matches("is there already").count(), 4, "{told}");
    let csv: Vec<&str> = args.iter().copied().chain(["--csv"]).collect();
    assert!(said(at, &csv).0.contains("none,"));
}

#[test]
fn families_are_compared_under_any_budget() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = dir.path();
    let ask = ["compare", "translate", "--over", "model.family=seq2seq,marian", "--quiet", "--json"];
    for (budget, out) in [("3 steps", "steps"), ("0.5s", "seconds"), ("40k parameters", "parameters")] {
        let args = with_small(&ask);
        let args: Vec<&str> =
            args.into_iter().chain(["--budget", budget, "--out", out, "--set", "train.steps=3"]).collect();
        let page: serde_json::Value = serde_json::from_str(&said(at, &args).0).expect("JSON");
        let (table, columns) = (&page["blocks"][0], &page["blocks"][0]["columns"]);
        let column = |name: &str| columns.as_array().expect("columns").iter().position(|c| c == name).expect(name);
        for row in 0..2 {
            let cell = |name: &str| table["rows"][row]["cells"][column(name)]["value"].as_f64().expect("a number");
            match out {
                "steps" => assert_eq!(cell("steps"), 3.0),
                "seconds" => assert!(cell("seconds") > 0.05 && cell("seconds") < 20.0, "{table}"),
                _ => assert!((cell("parameters") / 40_000.0 - 1.0).abs() < 0.35, "{table}"),
            }
        }
    }
}

#[test]
fn scores_go_by_length_and_labels_need_no_head() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = dir.path();
    let args =
        with_small(&["train", "reverse", "--out", "pair", "--set", "train.steps=3", "--set", "eval.goal=0", "--quiet"]);
    said(at, &args);
    let told =
        said(at, &["evaluate", "pair", "--data", "builtin:reverse", "--examples", "40", "--by", "length", "--json"]).0;
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let groups = told["by_length"].as_array().expect("groups");
    let sum: u64 = groups.iter().map(|g| g["examples"].as_u64().expect("a count")).sum();
    assert!(groups.len() > 2 && sum == told["examples"].as_u64().expect("a count"), "{told}");
    assert!(groups.windows(2).all(|two| two[0]["to"].as_u64() < two[1]["from"].as_u64()), "{told}");
    let args =
        with_small(&["train", "char-gpt", "--out", "lm", "--set", "train.steps=3", "--set", "eval.goal=0", "--quiet"]);
    said(at, &args);
    let ask =
        ["classify", "lm", "a day of rain", "--zero-shot", "good,bad", "--prompt", "{text} was {label}.", "--json"];
    let told: serde_json::Value = serde_json::from_str(&said(at, &ask).0).expect("JSON");
    let share = |i: usize| told["labels"][i]["score"].as_f64().expect("a share");
    assert!((share(0) + share(1) - 1.0).abs() < 1e-6 && share(0) >= share(1), "{told}");
    // The same by hand: what the whole sentence has more than its beginning.
    let whole = |label: &str| {
        let text = format!("a day of rain was {label}.");
        let told: serde_json::Value =
            serde_json::from_str(&said(at, &["score", "lm", &text, "--json"]).0).expect("JSON");
        told["logprob"].as_f64().expect("a score")
    };
    let odds = (whole("good") - whole("bad")).exp();
    let good = if told["labels"][0]["label"] == "good" { share(0) } else { share(1) };
    assert!((good - odds / (1.0 + odds)).abs() < 1e-4, "{good} {odds}");
    assert!(refused(at, &["classify", "lm", "x", "--zero-shot", "good"]).contains("no choice"));
    assert!(
        refused(at, &["classify", "lm", "x", "--zero-shot", "good,bad", "--prompt", "x"]).contains("does not name")
    );
    let cost = said(at, &["inspect", "--preset", "gpt3", "--tokens", "300e9"]).0;
    assert!(cost.contains("3.1") && cost.contains("e23 operations") && cost.contains("years"), "{cost}");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = dir.path();
    assert!(said(at, &["compare"]).0.contains("bottleneck"));
    assert!(refused(at, &["compare", "gradient"]).contains("`gradients`"));
    assert!(refused(at, &["compare", "char-gpt"]).contains("nothing to be compared with"));
    assert!(refused(at, &["compare", "char-gpt", "--over", "model.positon=none"]).contains("`position`"));
    assert!(refused(at, &["compare", "char-gpt", "--over", "model.position"]).contains("is not a key with values"));
    assert!(refused(at, &["compare", "gradients", "--budget", "5m"]).contains("--budget says nothing"));
    assert!(refused(at, &["compare", "char-gpt", "--over", "model.norm=rms,none", "--budget", "5"]).contains("90s"));
    let apart = refused(at, &["compare", "char-gpt", "translate"]);
    assert!(apart.contains("judged by"), "{apart}");
    assert!(!at.join("runs").exists(), "nothing was run");
}

#[test]
fn the_gradients_of_the_lectures_are_measured() {
    let dir = tempfile::tempdir().expect("a folder");
    let (out, _) = said(dir.path(), &["compare", "gradients"]);
    assert!(out.contains("RNN") && out.contains("attention") && out.contains("63 back"), "{out}");
    assert!(dir.path().join("runs/compare-gradients/compare.html").exists());
}

#[test]
#[ignore = "slow: every comparison that is ready, in small"]
fn every_ready_comparison_ends_with_a_sentence() {
    let dir = tempfile::tempdir().expect("a folder");
    for name in ["bottleneck", "lineage", "cost", "norms", "leak", "positions"] {
        let trains = name != "cost";
        let args = if trains { with_small(&["compare", name, "--budget", "3 steps"]) } else { vec!["compare", name] };
        let (out, _) = said(dir.path(), &args);
        assert!(out.trim_end().ends_with('.'), "{name}: {out}");
        assert!(dir.path().join(format!("runs/compare-{name}/compare.html")).exists());
    }
}
