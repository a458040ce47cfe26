//! `qkv finetune`, `evaluate` and two recipes in a row, as a person runs them: networks of a few thousand numbers, a few
//! steps, on files of the formats that people have.

mod common;

use common::{done, qkv};
use qkv_base::Task;
use qkv_tasks::Metric;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;

fn json(dir: &Path, args: &[&str]) -> Value {
    let out = done(dir, &[args, &["--json"]].concat());
    serde_json::from_str(out.trim()).unwrap_or_else(|e| panic!("{e}: {out}"))
}

/// A recipe of a few steps.
fn recipe(corpus: &str, objective: &str, family: &str, kind: &str, more: &str) -> String {
    format!(
        "[data]\ncorpus = \"{corpus}\"\nobjective = \"{objective}\"\nexamples = 40\nvalid = 8\ntest = 8\nlength = 48\n\
         [tokenizer]\nkind = \"{kind}\"\nvocab = 300\n\
         [model]\nfamily = \"{family}\"\nwidth = 16\nlayers = 1\nheads = 2\n{}\
         [train]\nsteps = 3\nrows = 4\n[schedule]\nwarmup = 1\n[eval]\nevery = 0\nsamples = 1\n{more}",
        if family == "vit" { "patch = 8\n" } else { "" }
    )
}

/// A directory with a recipe that was run.
fn trained(name: &str, text: &str) -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join(format!("{name}.toml")), text).expect("a file");
    done(dir.path(), &["train", &format!("{name}.toml"), "--out", name]);
    dir
}

const SMALL: [&str; 10] = [
    "--set",
    "train.steps=3",
    "--set",
    "train.rows=4",
    "--set",
    "data.length=48",
    "--set",
    "eval.samples=1",
    "--set",
    "eval.every=0",
];

fn finetune(dir: &Path, model: &str, task: &str, data: &str, out: &str, more: &[&str]) -> (i32, String, String) {
    let start = ["finetune", model, "--task", task, "--data", data, "--out", out];
    qkv(dir, &[&start[..], &SMALL, more].concat())
}

/// Snapshots are in `snapshots/`; set `INSTA_UPDATE=always` to write them anew.
#[test]
fn help_teaches_by_example() {
    for verb in ["train", "finetune", "evaluate", "merge"] {
        let help = done(Path::new("."), &[verb, "--help"]);
        insta::assert_snapshot!(format!("help_{verb}"), help);
    }
}

#[test]
fn a_reader_learns_to_classify_to_tag_and_to_answer_from_files() {
    let dir = trained("base", &recipe("builtin:stories", "masked", "bert", "wordpiece", ""));
    let dir = dir.path();
    let csv: String = (0..40).map(|i| format!("\"Nice, number {i}\",{}\n", ["good", "bad", "odd"][i % 3])).collect();
    std::fs::write(dir.join("mine.csv"), format!("text,label\n{csv}")).unwrap();
    let conll: String = (0..40).map(|i| format!("Ada B-PER\nsaw O\nRome B-LOC\n{i} O\n\n")).collect();
    std::fs::write(dir.join("mine.conll"), conll).unwrap();
    let line = |i: usize| {
        format!("{{\"context\": \"Ada lives in Rome {i}.\", \"question\": \"Where is Ada?\", \"answer\": \"Rome\"}}\n")
    };
    std::fs::write(dir.join("mine.jsonl"), (0..40).map(line).collect::<String>()).unwrap();
    for (task, data, metric) in
        [("classify", "mine.csv", "accuracy"), ("tag", "mine.conll", "f1"), ("answer", "mine.jsonl", "exact")]
    {
        let (code, out, err) = finetune(dir, "base", task, data, task, &["--json"]);
        assert_eq!(code, 0, "{task}: {err}");
        let answer: Value = serde_json::from_str(out.trim()).unwrap();
        assert!(answer["scores"]["test"][metric].is_f64(), "{task}: {answer}");
        assert_eq!(answer["pass"], Value::Null, "nothing was asked for");
        let judged = json(dir, &["evaluate", task, "--data", data]);
        assert_eq!(judged["examples"], 40, "{task}");
        assert!(judged["scores"][metric].is_f64() && judged["interval"]["of"].is_string(), "{task}: {judged}");
    }
    // The labels are those of the file, in the model that is left behind.
    let config = std::fs::read_to_string(dir.join("classify/model/config.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let mut labels: Vec<&str> = config["id2label"].as_object().unwrap().values().filter_map(Value::as_str).collect();
    labels.sort();
    assert_eq!(labels, ["bad", "good", "odd"]);
    // What no run has learnt is counted, not judged.
    std::fs::write(dir.join("other.csv"), "text,label\nfine,good\nfine,superb\n").unwrap();
    let out = done(dir, &["evaluate", "classify", "--data", "other.csv"]);
    assert!(out.contains("left out: 1 examples (label unknown)"), "{out}");
    // An adapter carries what the base does not have, be it frozen: merged, it is the run's own model.
    let small = ["--lora", "2", "--targets", "q,v,out", "--freeze", "head.dense"];
    let (code, _, err) = finetune(dir, "base", "classify", "mine.csv", "few", &small);
    assert!(code == 0 && err.contains("learn ("), "{err}");
    let merged = json(dir, &["merge", "base", "few/adapter", "merged"]);
    assert!(merged["merging_error"].as_f64().unwrap() < 1e-5, "{merged}");
    let read = |place: &str| std::fs::read(dir.join(place).join("model.safetensors")).unwrap();
    assert!(read("merged") == read("few/model"), "the run's own model is the merged one");
    let (code, _, err) =
        finetune(dir, "base", "classify", "mine.csv", "no0", &["--lora", "2", "--targets", "head.out"]);
    assert!(code == 2 && err.contains("`head.out` is new and learns whole"), "{err}");
    // Rows longer than the network has positions are cut, and that is said.
    let long = ["--set", "data.length=100"];
    let (code, _, err) = finetune(dir, "base", "classify", "mine.csv", "long", &long);
    assert!(code == 0 && err.contains("rows are cut to 48 tokens"), "{err}");
    // A table with names of its own, and what cannot be meant.
    std::fs::write(dir.join("stars.csv"), format!("text,stars\n{csv}")).unwrap();
    let (code, _, err) = finetune(dir, "base", "classify", "stars.csv", "no1", &[]);
    assert!(code == 2 && err.contains("no column `label`") && err.contains("--column label="), "{err}");
    assert!(!dir.join("no1").exists(), "what is refused leaves nothing behind");
    let named = ["--column", "label=stars"];
    let (code, _, err) = finetune(dir, "base", "classify", "stars.csv", "named", &named);
    assert_eq!(code, 0, "{err}");
    let judged = json(dir, &[&["evaluate", "named", "--data", "stars.csv"][..], &named].concat());
    assert_eq!(judged["examples"], 40);
    std::fs::write(dir.join("one.csv"), (0..40).map(|i| format!("word {i},good\n")).collect::<String>()).unwrap();
    let (code, _, err) = finetune(dir, "base", "classify", "one.csv", "no3", &[]);
    assert!(code == 2 && err.contains("there is one label only: `good`"), "{err}");
    std::fs::write(dir.join("two.csv"), "fine,good\npoor,bad\n").unwrap();
    let (code, _, err) = finetune(dir, "base", "classify", "two.csv", "no4", &[]);
    assert!(code == 2 && err.contains("2 rows are too few"), "{err}");
    let (code, _, err) = finetune(dir, "base", "classify", "mine.csv", "no5", &["--lora", "0"]);
    assert!(code == 2 && err.contains("rank 0 learns nothing"), "{err}");
    let (code, _, err) = finetune(dir, "base", "generate", "builtin:stories", "no6", &[]);
    assert!(code == 2 && err.contains("this task wants a decoder, which continues a text"), "{err}");
    let (code, _, err) = finetune(dir, "nowhere", "classify", "mine.csv", "no7", &[]);
    assert!(code == 2 && err.contains("there is no such model"), "{err}");
    let (code, _, err) = finetune(dir, "base", "translate", "builtin:copy", "no", &[]);
    assert!(code == 2 && err.contains("this task wants an encoder with a decoder"), "{err}");
    let (code, _, err) = finetune(dir, "base", "tag", "mine.csv", "no2", &[]);
    assert!(code == 2 && err.contains("hint: "), "{err}");
}

/// Adapters with less than a fiftieth of the parameters do as well as all of them, within a point.
#[test]
#[ignore = "slow tier: reads four corpora, then learns a task twice"]
fn adapters_learn_as_well_as_all_weights() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    json(dir, &["train", "bert", "--out", "base"]);
    let learn = |out: &str, more: &[&str]| {
        let start = ["finetune", "base", "--task", "classify", "--data", "builtin:reviews", "--out", out, "--json"];
        let (code, said, err) = qkv(dir, &[&start[..], &["--set", "train.rows=32"], more].concat());
        assert_eq!(code, 0, "{err}");
        let answer: Value = serde_json::from_str(said.trim()).unwrap();
        (answer["scores"]["test"]["accuracy"].as_f64().unwrap(), err)
    };
    let (all, _) = learn("all", &["--set", "train.steps=1000", "--set", "optim.rate=3e-4"]);
    let few = ["--lora", "4", "--targets", "q,k,v,out,up,down", "--freeze", "head.dense"];
    let (adapted, err) = learn("adapted", &[&few[..], &["--set", "train.steps=3000"]].concat());
    let share = err.split_once("learn (").unwrap().1.split(' ').next().unwrap().parse::<f64>().unwrap();
    println!("all weights {all}, adapters {adapted} with {share} % of the parameters");
    assert!(share < 2.0 && adapted >= all - 1.0 && adapted > 95.0, "{adapted} beside {all} with {share} %");
}

#[test]
fn writers_learn_pairs_and_texts_from_files() {
    let dir = trained("pair", &recipe("builtin:copy", "translate", "marian", "unigram", ""));
    let dir = dir.path();
    let pairs: String = (0..40).map(|i| format!("a b {i}\tb a {i}\n")).collect();
    std::fs::write(dir.join("mine.tsv"), pairs).unwrap();
    let (code, _, err) = finetune(dir, "pair", "translate", "mine.tsv", "fine", &["--lora", "2", "--dropout", "0.1"]);
    assert_eq!(code, 0, "{err}");
    let text = std::fs::read_to_string(dir.join("fine/adapter/adapter_config.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["lora_dropout"], 0.1);
    let args = ["evaluate", "fine", "--data", "mine.tsv", "--compare", "pair", "--each", "said.jsonl"];
    let judged = json(dir, &args);
    for metric in ["bleu", "chrf", "ter", "rouge-1", "rouge-2", "rouge-l", "exact", "perplexity", "byte-perplexity"] {
        assert!(judged["scores"][metric].is_f64(), "{metric}: {judged}");
    }
    assert!(judged["signature"].as_str().unwrap().starts_with("nrefs:1|case:mixed|"), "{judged}");
    assert!(judged["compare"]["p"].as_f64().unwrap() <= 1.0);
    let said = std::fs::read_to_string(dir.join("said.jsonl")).unwrap();
    let lines: Vec<Value> = said.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(lines.len() == 40 && lines.iter().all(|l| l["source"].is_string() && l["score"].is_f64()), "{said}");

    std::fs::write(dir.join("gpt.toml"), recipe("builtin:stories", "next-token", "gpt2", "bpe", "")).unwrap();
    done(dir, &["train", "gpt.toml", "--out", "gpt"]);
    let book: String = (0..200).map(|i| format!("line {i} of a book\n")).collect();
    std::fs::write(dir.join("book.txt"), book).unwrap();
    let (code, _, err) = finetune(dir, "gpt", "generate", "book.txt", "wrote", &[]);
    assert_eq!(code, 0, "{err}");
    let judged = json(dir, &["evaluate", "wrote", "--data", "book.txt", "--metric", "perplexity,bits-per-byte"]);
    let values = judged["scores"].as_object().unwrap();
    assert_eq!(values.len(), 2, "{judged}");
    assert!(values["perplexity"].as_f64().unwrap() > 1.0 && values["bits-per-byte"].as_f64().unwrap() > 0.0);
    let (code, _, err) = qkv(dir, &["evaluate", "wrote", "--data", "book.txt", "--compare", "pair"]);
    assert!(code == 2 && err.contains("compare models of one task"), "{err}");
    let (code, _, err) = qkv(dir, &["evaluate", "wrote", "--data", "book.txt", "--metric", "bleu"]);
    assert!(code == 2 && err.contains("the task has no `bleu`"), "{err}");
}

/// What a recipe may ask for before a run is what is there after it.
#[test]
fn every_task_has_the_scores_that_it_promises() {
    let dir = tempfile::tempdir().unwrap();
    for (goal, corpus, family, kind) in [
        (Task::Translate, "programs", "marian", "unigram"),
        (Task::NextToken, "markup", "gpt2", "bpe"),
        (Task::Masked, "stories", "bert", "wordpiece"),
        (Task::SpanCorruption, "stories", "t5", "unigram"),
        (Task::Denoise, "stories", "bart", "bpe"),
        (Task::Classify, "reviews", "bert", "wordpiece"),
        (Task::Tag, "entities", "bert", "wordpiece"),
        (Task::Answer, "facts", "bert", "wordpiece"),
        (Task::Image, "shapes", "vit", "char"),
    ] {
        let name = serde_json::to_value(goal).unwrap();
        let text = recipe(&format!("builtin:{corpus}"), name.as_str().unwrap(), family, kind, "");
        std::fs::write(dir.path().join("r.toml"), text).unwrap();
        let told = json(dir.path(), &["train", "r.toml", "--out", name.as_str().unwrap()]);
        let there: BTreeSet<&str> = told["scores"]["test"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(there, Metric::of(goal).iter().map(|m| m.name()).collect(), "{name}");
    }
    let (code, _, err) = qkv(dir.path(), &["train", "--set", "eval.metric=accuracy"]);
    assert!(code == 2 && err.contains("eval.metric: the task has no `accuracy`"), "{err}");
    assert!(!dir.path().join("runs").exists(), "refused before the first step");
}

/// A run can be named wherever a model can, and the newest one need not be named.
#[test]
fn a_run_is_asked_as_the_end_of_its_training_says() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let pair = recipe("builtin:copy", "translate", "marian", "unigram", "");
    let text = recipe("builtin:stories", "next-token", "gpt2", "bpe", "");
    for (name, recipe, verb) in [("pair", pair, "translate"), ("gpt", text, "generate")] {
        std::fs::write(dir.join("r.toml"), recipe).unwrap();
        let out = done(dir, &["train", "r.toml", "--out", &format!("runs/{name}")]);
        assert!(out.lines().last().unwrap().starts_with(&format!("ask it: qkv {verb} runs/{name} ")), "{out}");
        let few = ["--max-tokens", "4"];
        let by_run = done(dir, &[&[verb, &format!("runs/{name}"), "one two"], &few[..]].concat());
        let by_model = done(dir, &[&[verb, &format!("runs/{name}/model"), "one two"], &few[..]].concat());
        let (code, newest, err) = qkv(dir, &[&[verb, "one two"], &few[..]].concat());
        assert_eq!((code, &by_run, &newest), (0, &by_model, &by_model), "{err}");
        assert!(err.contains(&format!("model: runs/{name}, the newest run")), "{err}");
        let (code, _, err) = qkv(dir, &[verb, "runs/none", "one two"]);
        assert!(code == 2 && err.contains("runs/none: there is no such model"), "{err}");
        let (code, _, err) = qkv(dir, &[verb, &format!("runs/{name}"), "one", "--ids", "5"]);
        assert!(code == 2 && err.contains("both --ids and a text are given: one"), "{err}");
        assert!(done(dir, &["inspect", &format!("runs/{name}")]).contains("parameters"));
        let copy = format!("copy-{name}");
        done(dir, &["convert", &format!("runs/{name}"), &copy]);
        assert!(dir.join(copy).join("tokenizer.json").exists(), "the tokenizer of a run goes with its model");
    }
    assert!(done(dir, &["score", "one two"]).contains("log p"));
    let (code, _, err) = qkv(dir, &["generate", "one", "two"]);
    assert!(code == 2 && err.contains("hint: put quotes around it"), "{err}");
}

#[test]
fn pictures_are_learnt_and_frozen_parts_stay() {
    let dir = trained("see", &recipe("builtin:shapes", "image", "vit", "char", ""));
    let dir = dir.path();
    let more =
        ["--set", "data.examples=40", "--set", "data.valid=8", "--set", "data.test=8", "--freeze", "patches,encoder"];
    let (code, _, err) = finetune(dir, "see", "image", "builtin:shapes", "fine", &more);
    assert_eq!(code, 0, "{err}");
    let read = |place: &str, name: &str| {
        let file = qkv_weights::Checkpoint::open(dir.join(place).join("model/model.safetensors")).unwrap();
        file.read_f32(name).unwrap()
    };
    let frozen = "vit.embeddings.patch_embeddings.projection.weight";
    assert_eq!(read("see", frozen), read("fine", frozen));
    assert_ne!(read("see", "classifier.weight"), read("fine", "classifier.weight"));
    let out = done(dir, &["evaluate", "fine", "--data", "builtin:shapes", "--examples", "16"]);
    assert!(out.contains("accuracy") && out.contains("micro-f1") && out.contains("95 % between"), "{out}");
    let (code, _, err) = finetune(dir, "see", "image", "builtin:shapes", "no", &["--freeze", "encodr"]);
    assert!(code == 2 && err.contains("no parameter's path starts with `encodr`"), "{err}");
    let (code, _, err) = finetune(dir, "see", "classify", "builtin:reviews", "no2", &[]);
    assert!(code == 2 && err.contains("hint: "), "{err}");
}

/// A recipe that starts from another one runs it first, in the same place, with one tokenizer for both.
#[test]
fn a_recipe_can_start_from_another() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("first.toml"), recipe("builtin:stories", "span-corruption", "t5", "unigram", "")).unwrap();
    let second = "[data]\ncorpus = \"\"\nmix = { \"builtin:reverse\" = \"turn: \", \"builtin:copy\" = \"say: \" }\n\
         objective = \"translate\"\nexamples = 20\nvalid = 6\ntest = 6\nlength = 48\n\
         [model]\nfrom = \"recipe:first.toml\"\n[train]\nsteps = 2\nrows = 4\n[eval]\nmetric = \"chrf\"\ngoal = 101.0\n";
    std::fs::write(dir.join("second.toml"), second).unwrap();
    let (code, out, err) = qkv(dir, &["train", "second.toml", "--out", "r"]);
    // No chrF is above 100: the goal is missed, and that is a failure.
    assert_eq!(code, 1, "{err}");
    assert!(out.contains("FAIL: chrf") && err.contains("error: goal: FAIL: chrf"), "{out}{err}");
    assert!(out.contains("\nturn: ") && out.contains("\nsay: "), "each task has its own line: {out}");
    assert!(err.contains("first: the recipe first"), "{err}");
    let bytes = |place: &str| std::fs::read(dir.join(place)).unwrap();
    assert_eq!(bytes("r/before/model/tokenizer.json"), bytes("r/model/tokenizer.json"));
    // The first recipe is not run again.
    let (code, _, err) = qkv(dir, &["train", "--resume", "--out", "r"]);
    assert!(code == 1 && !err.contains("first: the recipe"), "{err}");
    // A file of a person's takes the place of the mixture, and has no goal to miss.
    let pairs: String = (0..40).map(|i| format!("uno {i}\tdue {i}\n")).collect();
    std::fs::write(dir.join("mine.tsv"), pairs).unwrap();
    let out = done(dir, &["train", "second.toml", "--data", "mine.tsv", "--out", "own"]);
    assert!(!out.contains("FAIL") && !out.contains("turn:"), "{out}");
    let judged = json(dir, &["evaluate", "r", "--data", "builtin:copy", "--prefix", "say: ", "--examples", "5"]);
    assert_eq!(judged["examples"], 5);
}
