//! From a person's file to a model, as a person does it: checkpoints by name, files to validate and test by, columns that are
//! not guessed, the baseline beside the network, what is left behind for others.

mod common;

use common::{done, place, qkv};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Rows `text<TAB>label` whose label hangs on one word.
fn rows(numbers: std::ops::Range<usize>) -> String {
    let row = |i: usize| format!("the {} film number {i}\t{}\n", ["fine", "dull"][i % 2], ["good", "bad"][i % 2]);
    format!("text\tlabel\n{}", numbers.map(row).collect::<String>())
}

fn loss(dir: &Path, model: &str) -> f64 {
    let out = done(dir, &["evaluate", model, "--data", "builtin:reviews", "--examples", "40", "--json"]);
    let value: Value = serde_json::from_str(out.trim()).expect("JSON");
    value["scores"]["loss"].as_f64().expect("a loss")
}

#[test]
fn a_checkpoint_is_named_wherever_a_model_is() {
    let dir = place("");
    let at = dir.path();
    done(at, &["train", "tiny.toml", "--quiet"]);
    let best = std::fs::read_to_string(at.join("runs/tiny/checkpoints/best")).expect("a best one");
    let step: u64 = best.trim().strip_prefix("ckpt-").and_then(|n| n.parse().ok()).expect("a step");
    let run = at.join("runs/tiny");
    let before = listed(&run);
    writable(&run, false);
    // The best is what the run has left behind; the last is that of its step.
    assert_eq!(loss(at, "runs/tiny@best"), loss(at, "runs/tiny"));
    assert_eq!(loss(at, &format!("runs/tiny@{step}")), loss(at, "runs/tiny"));
    assert_eq!(loss(at, "runs/tiny@last"), loss(at, "runs/tiny@6"));
    assert_ne!(loss(at, "runs/tiny@4"), loss(at, "runs/tiny@6"));
    assert!(done(at, &["classify", "runs/tiny@last", "a fine film"]).contains("positive"));
    done(at, &["convert", "runs/tiny@4", "four"]);
    assert_eq!(loss(at, "four"), loss(at, "runs/tiny@4"));
    assert!(done(at, &["inspect", "runs/tiny@4"]).contains("BertForSequenceClassification"));
    done(
        at,
        &[
            "finetune",
            "runs/tiny@last",
            "--task",
            "classify",
            "--data",
            "builtin:reviews",
            "--set",
            "data.examples=40",
            "--steps",
            "2",
            "--quiet",
            "--out",
            "on",
        ],
    );
    let (code, _, err) = qkv(at, &["evaluate", "runs/tiny@5", "--data", "builtin:reviews"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("there is no checkpoint of step 5") && err.contains("@4, @6") && err.contains("@best"),
        "{err}"
    );
    // Whoever asks a checkpoint writes nothing into the run, which may lie where nothing can be written.
    writable(&run, true);
    assert_eq!(listed(&run), before);
}

/// Every file and directory under a place, with its size.
fn listed(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut all = vec![];
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(listed(&path));
        }
        all.push((path.clone(), path.metadata().expect("there").len()));
    }
    all.sort();
    all
}

/// Lets the files and directories under a place be written, or not.
fn writable(dir: &Path, may: bool) {
    for path in listed(dir).into_iter().map(|(path, _)| path).chain([dir.to_path_buf()]) {
        let mut rights = path.metadata().expect("there").permissions();
        #[allow(clippy::permissions_set_readonly_false)] // only its owner had them before
        rights.set_readonly(!may);
        std::fs::set_permissions(&path, rights).expect("changed");
    }
}

#[test]
fn a_checkpoint_with_adapters_has_them_added_in() {
    let dir = place("");
    let at = dir.path();
    done(at, &["train", "tiny.toml", "--quiet"]);
    let lora = [
        "--set",
        "data.examples=40",
        "--lora",
        "2",
        "--steps",
        "4",
        "--set",
        "eval.every=4",
        "--lr",
        "1e-2",
        "--quiet",
        "--out",
        "ad",
    ];
    done(at, &[&["finetune", "runs/tiny", "--task", "classify", "--data", "builtin:reviews"], &lora[..]].concat());
    assert_eq!(loss(at, "ad@last"), loss(at, "ad"));
    assert_ne!(loss(at, "ad"), loss(at, "runs/tiny"));
    // Adapters of a checkpoint know which one it was.
    let of_four = [&lora[..lora.len() - 1], &["four"]].concat();
    done(at, &[&["finetune", "runs/tiny@4", "--task", "classify", "--data", "builtin:reviews"], &of_four[..]].concat());
    assert!((loss(at, "four/adapter") - loss(at, "four")).abs() < 1e-5);
    done(at, &["finetune", "--resume", "--out", "four", "--quiet"]);
}

#[test]
fn files_to_validate_and_test_by_and_the_baseline_beside() {
    let dir = place("");
    let at = dir.path();
    for (name, numbers) in [("a.tsv", 0..60), ("b.tsv", 60..80), ("valid.tsv", 100..110), ("test.tsv", 200..230)] {
        std::fs::write(at.join(name), rows(numbers)).expect("written");
    }
    let files = ["--data", "a.tsv", "--data", "b.tsv", "--valid", "valid.tsv", "--test", "test.tsv"];
    let (code, out, err) = qkv(at, &[&["train", "tiny.toml", "--json"], &files[..]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("split: 80 to learn from, 10 to validate, 30 to test, as the files say"), "{err}");
    assert!(err.contains("2 files as one corpus of 80 examples"), "{err}");
    let told: Value = serde_json::from_str(out.trim()).expect("JSON");
    assert_eq!(told["baseline"]["accuracy"], 100.0, "one word tells");
    assert_eq!(told["baseline"]["examples"], 30);
    let kept: Value =
        serde_json::from_slice(&std::fs::read(at.join("runs/tiny/scores.json")).expect("scores")).expect("JSON");
    assert_eq!(kept["baseline"]["accuracy"], 100.0);
    assert_eq!(kept["baseline"]["network"], kept["test"]["accuracy"]);
    // A pattern names the same files, and one file is split with a word about it.
    let (code, out, err) = qkv(at, &["train", "tiny.toml", "--data", "[ab].tsv", "--out", "one"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("split: 64 to learn from, 8 to validate, 8 to test, by a hash of the text: labels in proportion"),
        "{err}"
    );
    assert!(out.contains("baseline: counting words (TF-IDF, logistic regression) gets"), "{out}");
    let card = std::fs::read_to_string(at.join("one/model/README.md")).expect("a card");
    assert!(card.contains("pipeline_tag: text-classification") && card.contains("| test | accuracy |"), "{card}");
    let config: Value =
        serde_json::from_slice(&std::fs::read(at.join("one/model/tokenizer_config.json")).expect("there"))
            .expect("JSON");
    assert_eq!((&config["model_max_length"], &config["pad_token"]), (&32.into(), &"[PAD]".into()));
}

/// Tried by a person: `id` was read as the text and the review as its label, and "training can start".
#[test]
fn columns_that_are_not_understood_are_refused_by_train_and_check_alike() {
    let dir = place("");
    let at = dir.path();
    let row =
        |i: usize| format!("{i},the {} film number {i},{},2024-01-{:02}\n", ["fine", "dull"][i % 2], i % 2, 1 + i % 28);
    let table = format!("id,Review Body,Stars (0-1),date\n{}", (0..60).map(row).collect::<String>());
    std::fs::write(at.join("shop.csv"), table).expect("written");
    let asked = [
        &["data", "check", "shop.csv", "--task", "classify"][..],
        &["train", "tiny.toml", "--data", "shop.csv"],
        &["train", "tiny.toml", "--data", "shop.csv", "--dry-run"],
    ];
    for args in asked {
        let (code, _, err) = qkv(at, args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains("4 columns, and none is called `text` or `label`"), "{err}");
        assert!(err.contains("--column \"text=Review Body\" --column \"label=Stars (0-1)\""), "{err}");
        assert!(!at.join("runs/tiny").exists());
    }
    let said = ["--column", "text=Review Body", "--column", "label=Stars (0-1)"];
    let out = done(at, &[&["data", "check", "shop.csv", "--task", "classify"], &said[..]].concat());
    assert!(out.contains("training can start"), "{out}");
    done(at, &[&["train", "tiny.toml", "--data", "shop.csv", "--quiet"], &said[..]].concat());
}

#[test]
fn a_dry_run_writes_nothing_and_a_recipe_is_printed_whole() {
    let dir = place("");
    let at = dir.path();
    let out = done(at, &["train", "tiny.toml", "--dry-run"]);
    assert!(out.contains("bert from builtin:reviews in runs/tiny") && out.contains("6 steps"), "{out}");
    assert!(out.ends_with("nothing was written: --dry-run\n"), "{out}");
    assert!(!at.join("runs").exists());
    let whole = done(at, &["train", "tiny.toml", "--print-recipe"]);
    assert!(whole.starts_with("# A tiny reader of reviews\n"), "{whole}");
    for line in ["momentum = 0.9              # of sgd", "steps = 6", "looks = 0", "dropout = 0.1"] {
        assert!(whole.lines().any(|l| l.starts_with(line)), "{line}\n{whole}");
    }
    std::fs::write(at.join("whole.toml"), whole).expect("written");
    assert!(done(at, &["train", "whole.toml", "--dry-run"]).contains("6 steps"));
    assert!(done(at, &["train", "--list"]).lines().any(|l| l.trim_start().starts_with("sentiment ")));
}

#[test]
fn fine_tuning_is_taken_up_again_by_its_own_verb() {
    let dir = place("");
    let at = dir.path();
    done(at, &["train", "tiny.toml", "--quiet"]);
    let start = ["finetune", "runs/tiny", "--task", "classify", "--data", "builtin:reviews", "--steps", "4", "--quiet"];
    done(at, &[&start[..], &["--set", "data.examples=40", "--out", "ft"]].concat());
    let (code, _, err) = qkv(at, &["finetune", "--resume", "--out", "ft"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("going on after step 4"), "{err}");
    let (code, _, err) = qkv(at, &["finetune", "runs/tiny", "--resume", "--out", "ft"]);
    assert!(code == 2 && err.contains("MODEL is what a run begins with"), "{err}");
}

/// A folder of pictures as people have them: grey, and none of the size that the network reads, which is 12 × 12 in colour.
#[test]
fn pictures_are_brought_to_what_the_network_reads() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path();
    for i in 0..24u32 {
        let class = ["dark", "light"][i as usize % 2];
        std::fs::create_dir_all(at.join("pictures").join(class)).expect("made");
        let level = |x: u32, y: u32| (200 * (i % 2) + (3 * x + 5 * y + i) % 50) as u8;
        let picture = image::GrayImage::from_fn(10 + i % 3, 7, |x, y| image::Luma([level(x, y)]));
        picture.save(at.join(format!("pictures/{class}/{i}.png"))).expect("saved");
    }
    let vit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny/vit").display().to_string();
    let learn = ["--data", "pictures", "--steps", "30", "--batch", "8", "--lr", "3e-3", "--out", "run"];
    let (code, out, err) = qkv(at, &[&["finetune", &vit, "--task", "classify"], &learn[..]].concat());
    assert_eq!(code, 0, "{out}\n{err}");
    let said = "24 of 24 pictures are of another size or colour: they are brought to 12 × 12 pixels, colour";
    assert_eq!(err.matches(said).count(), 1, "{err}");
    let judged = done(at, &["evaluate", "run", "--data", "pictures", "--json"]);
    let judged: Value = serde_json::from_str(judged.trim()).expect("JSON");
    assert_eq!(judged["scores"]["accuracy"], 100.0, "{judged}");
    assert!(done(at, &["image", "run", "pictures/light/1.png"]).contains("light"));
    // A corpus of another size that qkv makes itself, too.
    let made = ["--data", "builtin:shapes", "--set", "data.examples=40", "--set", "data.test=20", "--steps", "2"];
    done(at, &[&["finetune", &vit, "--task", "image", "--quiet", "--out", "shapes"], &made[..]].concat());
    done(at, &["evaluate", "shapes", "--data", "builtin:shapes", "--examples", "20"]);
}

/// Nineteen of twenty rows have one label: the other counts more while it is learnt, which is said; even labels are left alone.
#[test]
fn rare_classes_count_more_and_it_is_said() {
    let dir = place("");
    let at = dir.path();
    let row = |i: usize| {
        let rare = i.is_multiple_of(20);
        format!(
            "the {} letter {i}\t{}\n",
            if rare { "odd" } else { "plain" },
            if rare { "quite rare" } else { "usual" }
        )
    };
    std::fs::write(at.join("uneven.tsv"), format!("text\tlabel\n{}", (0..200).map(row).collect::<String>()))
        .expect("written");
    std::fs::write(at.join("even.tsv"), rows(0..80)).expect("written");
    let learn = |data: &str, more: &[&str]| {
        let (code, out, err) =
            qkv(at, &[&["train", "tiny.toml", "--set", "data.examples=0", "--data", data], more].concat());
        assert_eq!(code, 0, "{out}\n{err}");
        err
    };
    let said = learn("uneven.tsv", &["--out", "a"]);
    assert!(said.contains("classes are uneven (`quite rare` is 4.44 % of 180, `usual` 95.6 %)"), "{said}");
    assert!(!learn("uneven.tsv", &["--out", "b", "--set", "train.class_weights=none"]).contains("uneven (`"));
    assert!(!learn("even.tsv", &["--out", "c"]).contains("uneven (`"));
    let weights = |run: &str| std::fs::read(at.join(run).join("model/model.safetensors")).expect("weights");
    assert_ne!(weights("a"), weights("b"), "they are not only said");
    let (code, _, err) = qkv(at, &["train", "gpt", "--set", "train.class_weights=root", "--dry-run"]);
    assert!(code == 2 && err.contains("train.class_weights") && err.contains("has no classes"), "{err}");
    let (code, _, err) = qkv(at, &["train", "tiny.toml", "--set", "train.class_weights=rot", "--dry-run"]);
    assert!(code == 2 && err.contains("balanced"), "{err}");
}

/// The files of sentence-transformers decide how `embed` pools, cuts and scales.
#[test]
fn vectors_are_made_as_the_files_beside_the_model_say() {
    let dir = place("");
    let at = dir.path();
    done(at, &["train", "tiny.toml", "--quiet"]);
    done(at, &["convert", "runs/tiny", "plain"]);
    assert!(!at.join("plain/modules.json").exists(), "a classifier is no embedder");
    let vector = |more: &[&str]| -> Vec<f64> {
        let out = done(at, &[&["embed", "plain", "what a fine film it was", "--json"], more].concat());
        let value: Value = serde_json::from_str(out.trim()).expect("JSON");
        value["embedding"].as_array().expect("a vector").iter().filter_map(Value::as_f64).collect()
    };
    let length = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let (mean, first, unit) = (vector(&[]), vector(&["--pooling", "cls"]), vector(&["--normalize"]));
    let write = |name: &str, text: &str| {
        let place = at.join("plain").join(name);
        std::fs::create_dir_all(place.parent().expect("a directory")).expect("made");
        std::fs::write(place, text).expect("written");
    };
    let module =
        |path: &str, kind: &str| format!(r#"{{"path": "{path}", "type": "sentence_transformers.models.{kind}"}}"#);
    let list = |more: &str| format!("[{}, {}{more}]", module("", "Transformer"), module("1_Pooling", "Pooling"));
    write("modules.json", &list(""));
    write("1_Pooling/config.json", r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#);
    assert_eq!(vector(&[]), first);
    assert_eq!(vector(&["--pooling", "mean"]), mean);
    write("modules.json", &list(&format!(", {}", module("2_Normalize", "Normalize"))));
    write("1_Pooling/config.json", r#"{"pooling_mode": "mean"}"#);
    assert_eq!(vector(&[]), unit);
    assert!((length(&unit) - 1.0).abs() < 1e-5, "{}", length(&unit));
    write("sentence_bert_config.json", r#"{"max_seq_length": 4, "do_lower_case": false}"#);
    assert_ne!(vector(&[]), unit, "four tokens are read and no more");
    write("1_Pooling/config.json", r#"{"pooling_mode_cls_token": true, "pooling_mode_max_tokens": true}"#);
    let (code, _, err) = qkv(at, &["embed", "plain", "a film"]);
    assert!(code == 2 && err.contains("2 modes of pooling"), "{err}");
    vector(&["--pooling", "mean"]);
    write("modules.json", &list(&format!(", {}", module("2_Dense", "Dense"))));
    let (code, _, err) = qkv(at, &["embed", "plain", "a film"]);
    assert!(code == 2 && err.contains("a Dense module is not supported"), "{err}");
}

/// SQuAD 2: a network that has learnt to say nothing is judged as such, and asked so by `--none`.
#[test]
fn questions_without_an_answer_are_learnt_judged_and_asked() {
    let dir = place("");
    let at = dir.path();
    let paragraph = |i: usize| {
        let asked =
            |id: &str, question: &str, rest: &str| format!(r#"{{"id": "{i}{id}", "question": "{question}", {rest}}}"#);
        let there = format!(r#""answers": [{{"text": "{i}", "answer_start": 5}}], "is_impossible": false"#);
        let questions =
            [asked("a", "which room", &there), asked("b", "who", r#""answers": [], "is_impossible": true"#)];
        format!(r#"{{"context": "room {i} is free", "qas": [{}]}}"#, questions.join(", "))
    };
    let all: Vec<String> = (100..180).map(paragraph).collect();
    let file = format!(r#"{{"version": "v2.0", "data": [{{"title": "t", "paragraphs": [{}]}}]}}"#, all.join(", "));
    std::fs::write(at.join("rooms.json"), file).expect("written");
    let learn = [
        "--data",
        "rooms.json",
        "--set",
        "data.objective=answer",
        "--set",
        "eval.metric=exact",
        "--set",
        "data.examples=0",
    ];
    let more = ["--steps", "150", "--lr", "3e-3", "--quiet", "--out", "run", "--set", "eval.every=50", "--batch", "16"];
    done(at, &[&["train", "tiny.toml"], &learn[..], &more[..]].concat());
    let judged = done(at, &["evaluate", "run", "--data", "rooms.json", "--each", "each.jsonl", "--json"]);
    let judged: Value = serde_json::from_str(judged.trim()).expect("JSON");
    let each = std::fs::read_to_string(at.join("each.jsonl")).expect("each");
    let rows: Vec<Value> = each.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(rows.iter().any(|r| r["expected"] == "" && r["got"] == "" && r["score"] == 1.0), "{judged} {each}");
    let ask = ["answer", "run", "--context", "room 123 is free", "--question", "who"];
    assert!(done(at, &[&ask[..], &["--none"]].concat()).contains("(no answer)"));
    assert!(!done(at, &ask).contains("(no answer)"));
}

/// What is read of a text when nothing is said: all of it, as far as the task is used to and the network can.
#[test]
fn fine_tuning_reads_whole_texts() {
    use qkv::{Recipe, Task};
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny/bert-classify");
    let config = std::fs::read_to_string(model.join("config.json")).expect("a configuration");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    let positions = config["max_position_embeddings"].as_u64().expect("positions");
    for (task, usual) in [(Task::Classify, 512), (Task::Tag, 512), (Task::Answer, 384), (Task::Translate, 128)] {
        let recipe = Recipe::finetune(&model, task, "x.json").expect("a recipe");
        let said = format!("length = {} ", positions.min(usual));
        assert!(recipe.text().contains(&said), "{said}: {}", recipe.text());
    }
}

/// Other programs hand every picture over in colour, so a new network reads colour, also where all it has seen is grey.
#[test]
fn a_new_network_reads_grey_pictures_as_others_hand_them_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = dir.path();
    for i in 0..40u32 {
        let class = ["dark", "light"][i as usize % 2];
        std::fs::create_dir_all(at.join("pictures").join(class)).expect("made");
        let picture = image::GrayImage::from_fn(8, 8, |x, y| image::Luma([(180 * (i % 2) + x + y + i) as u8]));
        picture.save(at.join(format!("pictures/{class}/{i}.png"))).expect("saved");
    }
    let small =
        ["--set", "model.width=16", "--set", "model.layers=1", "--set", "model.heads=2", "--set", "data.length=8"];
    let learn = ["train", "vit", "--data", "pictures", "--steps", "60", "--batch", "8", "--lr", "3e-3", "--out", "run"];
    let (code, out, err) = qkv(at, &[&learn[..], &small[..]].concat());
    assert_eq!(code, 0, "{out}\n{err}");
    assert_eq!(err.matches("grey pictures are read as colour").count(), 1, "{err}");
    let json = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(at.join("run/model").join(name)).expect("read")).expect("JSON")
    };
    assert_eq!(json("config.json")["num_channels"], 3);
    assert_eq!(json("preprocessor_config.json")["image_mean"].as_array().map(Vec::len), Some(3));
    let judged = done(at, &["evaluate", "run", "--data", "pictures", "--json"]);
    let judged: Value = serde_json::from_str(judged.trim()).expect("JSON");
    assert_eq!(judged["scores"]["accuracy"], 100.0, "{judged}");
}

/// DistilBERT has no kinds of tokens, whatever its tokenizer counts: it learns one text and two, and is asked so.
#[test]
fn a_family_without_token_types_learns_texts_and_pairs() {
    let dir = place("");
    let at = dir.path();
    done(at, &["train", "tiny.toml", "--set", "model.family=distilbert", "--quiet", "--out", "one"]);
    assert!(done(at, &["classify", "one", "a fine film"]).contains("positive"));
    let row = |i: usize| format!("room {i}\t{}\t{}\n", i + i % 2, ["yes", "no"][i % 2]);
    std::fs::write(at.join("pairs.tsv"), format!("first\tsecond\tlabel\n{}", (0..80).map(row).collect::<String>()))
        .expect("written");
    let learn = [
        "finetune",
        "one",
        "--task",
        "classify-pair",
        "--data",
        "pairs.tsv",
        "--steps",
        "2",
        "--quiet",
        "--out",
        "two",
    ];
    done(at, &learn);
    assert!(done(at, &["classify", "two", "--pair", "room 1", "2"]).contains("yes"));
}
