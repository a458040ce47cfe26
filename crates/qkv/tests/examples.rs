//! Every example of every help text is run, in a directory that holds what the examples name: whoever copies a line out of
//! `--help` gets an answer. Examples that would learn or measure for minutes are run with few steps.
//!
//! `cargo test --release -p qkv --test examples -- --ignored`
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Behind these beginnings stands what makes a run short. Nothing else is added to an example.
const SHORTER: &[(&str, &[&str])] = &[
    ("qkv train --resume", &[]),
    ("qkv finetune --resume", &[]),
    ("qkv train --list", &[]),
    ("qkv train gpt --print-recipe", &[]),
    ("qkv train", TINY),
    ("qkv finetune", &["--steps", "2", "--set", "data.test=4", "--set", "data.valid=4"]),
    ("qkv bench train", &["--steps", "1"]),
    ("qkv bench ops --only", &[]),
    ("qkv bench ops", &["--rounds", "1"]),
    ("qkv bench serve --url", &["--rounds", "1", "--tokens", "2", "--vocabulary", "90"]),
    ("qkv bench all --quick", &[]),
    ("qkv bench all", &["--quick"]),
    ("qkv bench", &["--rounds", "1"]),
    ("qkv vectors train", &[]),
    ("qkv see", &["--force"]),
];

const TINY: &[&str] = &[
    "--steps",
    "2",
    "--set",
    "model.width=16",
    "--set",
    "model.inner=16",
    "--set",
    "model.heads=2",
    "--set",
    "data.examples=200",
    "--set",
    "data.test=4",
    "--set",
    "data.valid=4",
    "--set",
    "tokenizer.vocab=300",
];

/// What a placeholder stands for, by the beginning of the example.
const MODELS: &[(&str, &str)] = &[
    ("qkv logits MODEL --ids 5,6,7 --decoder-ids", "t5"),
    ("qkv logits MODEL --inputs image", "vit"),
    ("qkv embed", "bert"),
    ("qkv fill", "bert"),
    ("qkv classify GPT", "gpt2"),
    ("qkv classify", "bert-classify"),
    ("qkv tag", "bert-tag"),
    ("qkv answer", "bert-answer"),
    ("qkv image", "vit"),
    ("qkv translate", "t5"),
    ("qkv finetune MODEL --task translate", "t5"),
    ("qkv finetune MODEL --task generate", "gpt2"),
    ("qkv finetune MODEL --task image", "vit"),
    ("qkv finetune", "bert"),
    ("qkv bench translate", "t5"),
    ("qkv bench encode", "bert"),
    ("qkv see VIT", "vit"),
    ("qkv merge", "tiny"),
    ("", "gpt2"),
];

/// Words of an example that a network of two layers and a class of three words cannot answer as they stand.
const SMALLER: &[(&str, &str)] = &[
    ("--layer 3 --head 5", "--layer 1 --head 1"),
    ("--layer 2 --head 1", "--layer 1 --head 1"),
    ("TEXT --view gradients", "'a longer TEXT' --view gradients"),
    ("--budget '300 steps' --seeds 3", "--budget '2 steps' --seeds 1"),
    ("--budget 2m", "--budget '2 steps'"),
    ("--budget 5m", "--budget '2 steps'"),
    ("--budget 30m", "--budget 8s"),
    ("--clients 1,4,16", "--clients 1,2"),
];

/// Examples that are not run, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("qkv convert old/pytorch_model.bin", "nothing here can write a pickled network"),
    ("qkv bench serve --url", "needs a server that runs already"),
];

fn qkv(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command
        .current_dir(dir)
        .args(args)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn made(dir: &Path, args: &[&str]) {
    let out = qkv(dir, args).output().expect("it starts");
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// The examples of a verb and of the verbs below it.
fn examples(verb: &[&str], into: &mut Vec<String>) {
    let out = qkv(Path::new("."), &[verb, &["--help"]].concat()).output().expect("it starts");
    let help = String::from_utf8(out.stdout).expect("text");
    let mut section = "";
    for line in help.lines() {
        if !line.starts_with(' ') && line.ends_with(':') {
            section = line;
        } else if let Some(example) = line.strip_prefix("  qkv ") {
            // What stands behind two blanks is a remark.
            let example = format!("qkv {}", example.split("  ").next().unwrap_or_default());
            if !into.contains(&example) {
                into.push(example);
            }
        } else if section == "Commands:" && line.starts_with("  ") && !line.starts_with("   ") {
            let name = line.split_whitespace().next().unwrap_or_default();
            if name != "help" {
                examples(&[verb, &[name]].concat(), into);
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(done.success(), "{} to {}", from.display(), to.display());
}

/// Everything that the examples name.
fn place() -> tempfile::TempDir {
    let held = tempfile::tempdir().expect("a place");
    let dir = held.path();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let model = |family: &str, name: &str| {
        copy(&root.join("../../fixtures/tiny").join(family), &dir.join(name));
        for file in ["tokenizer.json", "tokenizer_config.json"] {
            copy(&root.join("tests/data").join(file), &dir.join(name).join(file));
        }
    };
    for (family, name) in [
        ("bert-mlm", "roberta-like"),
        ("bert-classify", "bert-classify"),
        ("bert-tag", "bert-tag"),
        ("bert-tag", "models"),
        ("bert-answer", "bert-answer"),
        ("t5", "t5"),
        ("vit", "vit"),
        ("vit", "VIT"),
        ("gpt2", "tiny"),
    ] {
        model(family, name);
    }
    copy(&dir.join("models"), &dir.join("bert-tag-too"));
    copy(&dir.join("bert-tag-too"), &dir.join("models/bert-tag"));
    copy(&root.join("../train/tests/adapters/gpt2"), &dir.join("ADAPTER"));
    let picture = image::RgbImage::from_fn(9, 7, |x, y| image::Rgb([x as u8 * 20, y as u8 * 30, 7]));
    for name in ["cat.png", "a.jpg", "b.jpg"] {
        picture.save(dir.join(name)).expect("a picture");
    }
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("written");
    let lines = "the cat sat on the mat.\na dog ran away\nthe cat is here\n".repeat(20);
    for name in [
        "book.txt",
        "lines.txt",
        "in.txt",
        "prompts.txt",
        "corpus.txt",
        "sentences.txt",
        "page.txt",
        "reviews.txt",
        "train.de",
        "train.en",
    ] {
        write(name, &lines);
    }
    write("gaps.txt", "the [MASK] sat\n");
    write("ids.txt", "5 6 7\n8 9\n");
    let reviews: String = (0..60)
        .map(|i| format!("film number {i} was {},{}\n", ["good", "bad"][i % 2], ["pos", "neg"][i % 2]))
        .collect();
    write("reviews.csv", &format!("text,label\n{reviews}"));
    let twice: String =
        reviews.lines().map(|l| format!("{l},{}\n", l.rsplit(',').next().unwrap_or_default())).collect();
    write("train.csv", &format!("text,label,stars\n{twice}"));
    std::fs::create_dir(dir.join("reviews")).expect("a directory");
    write("reviews/a.csv", &format!("text,label\n{reviews}"));
    for name in ["valid.csv", "test.csv"] {
        write(name, "text,label,stars\na good day,pos,pos\na bad night,neg,neg\n");
    }
    std::fs::create_dir(dir.join("texts")).expect("a directory");
    let told: String = (0..60).map(|i| format!("{{\"text\": \"the cat sat {i} times\"}}\n")).collect();
    write("texts/a.jsonl", &told);
    let packed = Command::new("gzip").arg(dir.join("texts/a.jsonl")).status().expect("gzip");
    assert!(packed.success());
    let tabs = reviews.replace(',', "\t");
    write("reviews.tsv", &format!("text\tlabel\n{tabs}"));
    write("train.tsv", &format!("text\tlabel\n{tabs}"));
    write("test.tsv", "text\tlabel\ngood\tpos\nbad\tneg\n");
    let pairs: String = (0..60).map(|i| format!("the cat {i}\til gatto {i}\n")).collect();
    write("pairs.tsv", &pairs);
    let conll: String = (0..40).map(|i| format!("Ada B-PER\nsaw O\nRome{i} B-LOC\n\n")).collect();
    write("file.conll", &conll);
    let qa = |i: usize| {
        format!(
            r#"{{"context":"Ada{i} left Rome","qas":[{{"id":"{i}","question":"Who left?","answers":[{{"text":"Ada{i}","answer_start":0}}]}}]}}"#
        )
    };
    write(
        "squad.json",
        &format!(r#"{{"data":[{{"paragraphs":[{}]}}]}}"#, (0..40).map(qa).collect::<Vec<_>>().join(",")),
    );
    write("batch.json", r#"{"input_ids": [[5, 6, 7]], "attention_mask": [[1, 1, 1]]}"#);
    // Of the size and the colours that the network reads: a folder is not brought to them.
    for (class, light) in [("dark", 20), ("light", 200)] {
        std::fs::create_dir_all(dir.join("pictures").join(class)).expect("a directory");
        for i in 0..20 {
            let picture = image::RgbImage::from_pixel(12, 12, image::Rgb([light, light + i, light]));
            picture.save(dir.join(format!("pictures/{class}/{i}.png"))).expect("a picture");
        }
    }
    let row = vec![vec![0.5; 12]; 12];
    write("image.json", &serde_json::json!({"pixel_values": [[row, row, row]]}).to_string());
    write("test.conll", &conll);
    write("questions-words.txt", ": family\nking man queen woman\n");
    write("keys.txt", "a-key-that-is-long-enough-to-be-one\n");
    write("serve.toml", "[[models]]\nname = \"tale\"\npath = \"tiny\"\n");
    for name in ["t.json", "small.json", "large.json", "tokenizer.json"] {
        copy(&root.join("tests/data/tokenizer.json"), &dir.join(name));
    }
    held
}

/// Runs one example with its own copy of the place; what went wrong, if something did.
fn run(line: &str, from: &Path) -> Result<(), String> {
    let held = tempfile::tempdir().expect("a place");
    let dir = held.path().join("here");
    copy(from, &dir);
    let mut said = line.to_string();
    let model = MODELS.iter().find(|(start, _)| line.starts_with(start)).map_or("gpt2", |(_, model)| model);
    for (word, stands) in [
        (" MODEL", model),
        (" VIT", model),
        (" GPT", model),
        (" DIR", model),
        ("--model M ", &format!("--model {model} ")),
    ] {
        said = said.replace(word, &if word.ends_with(' ') { stands.to_string() } else { format!(" {stands}") });
    }
    SMALLER.iter().for_each(|(word, stands)| said = said.replace(word, stands));
    let more = SHORTER.iter().find(|(start, _)| line.starts_with(start)).map_or(&[][..], |(_, more)| more);
    let more = if line.starts_with("qkv see") && !line.contains(" -o ") { &[] } else { more };
    let words: Vec<&str> = said.split_whitespace().collect();
    let remove = |path: &str| {
        let path = dir.join(path);
        let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
    };
    // What an example writes is not there yet, and the newest run is one that it is for.
    if let Some(out) = words
        .iter()
        .position(|w| *w == "--out" || *w == "-o" && line.starts_with("qkv data"))
        .filter(|_| !line.contains("--resume"))
    {
        words.get(out + 1).into_iter().for_each(|path| remove(path.trim_end_matches('/')));
    }
    if line.starts_with("qkv finetune") && !line.contains("--resume") {
        std::fs::read_dir(dir.join("runs")).expect("runs").flatten().map(|e| e.file_name()).for_each(|name| {
            let name = name.to_string_lossy();
            if name.starts_with("finetune") {
                remove(&format!("runs/{name}"));
            }
        });
    }
    for (start, newest) in [
        ("qkv generate \"", "tale"),
        ("qkv translate \"", "translate"),
        ("qkv serve", "tale"),
        ("qkv evaluate --data", "translate"),
    ] {
        if line.starts_with(start) {
            copy(&dir.join("runs").join(newest), &dir.join("newest"));
            if !line.contains("runs/") {
                remove("runs");
                std::fs::create_dir(dir.join("runs")).expect("a directory");
                copy(&dir.join("newest"), &dir.join("runs").join(newest));
            }
        }
    }
    let serves = line.starts_with("qkv serve");
    // A server is asked to end after some seconds; everything else has an end of its own.
    let limit = if serves { 5 } else { 120 };
    let more = if said.contains(['|', '>', '<']) { &[] } else { more };
    // A number of epochs, a number of steps and a time for them are three words for one thing.
    let counted = ["--epochs", "train.steps", "train gpt --budget"].iter().any(|word| said.contains(word));
    let more = if counted { more.get(2..).unwrap_or(&[]) } else { more };
    let more: String = more.iter().map(|word| format!(" '{word}'")).collect();
    let program = env!("CARGO_BIN_EXE_qkv");
    let script = format!("qkv() {{ timeout -s TERM {limit} \"{program}\" \"$@\"; }}; {said}{more}");
    let mut shell = Command::new("bash");
    shell.current_dir(&dir).args(["-c", &script]).env("NO_COLOR", "1").stdin(Stdio::null());
    let since = Instant::now();
    let out = shell.output().expect("bash");
    println!("{:>6.1} s  {line}", since.elapsed().as_secs_f64());
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    // A goal that two steps do not reach is an exit of 1, and as it should be.
    let missed = error.contains("FAIL") || String::from_utf8_lossy(&out.stdout).contains("FAIL");
    match out.status.code() {
        Some(0 | 124) if serves && error.contains("listening on http://") => Ok(()),
        Some(0) if !serves => Ok(()),
        Some(1) if missed && (line.starts_with("qkv train") || line.starts_with("qkv finetune")) => Ok(()),
        code => Err(format!("{said}\n    exit {code:?}: {}", error.trim())),
    }
}

#[test]
#[ignore = "slow: some hundred commands"]
fn every_example_of_the_help_runs() {
    let mut all = vec![];
    examples(&[], &mut all);
    assert!(all.len() > 100, "only {} examples: is the search broken?", all.len());
    let held = place();
    let dir = held.path();
    // Real runs, so that "the newest run" is one, and adapters and vectors that were really learnt.
    let train = |recipe: &str, run: &str, more: &[&str]| {
        let out = format!("runs/{run}");
        made(dir, &[&["train", recipe, "--out", &out, "--set", "eval.goal=0"], TINY, more].concat());
    };
    for recipe in ["translate", "bert", "entities", "t5-tasks", "typos"] {
        train(recipe, recipe, &[]);
    }
    train("gpt", "gpt", &["--set", "data.length=128"]);
    train("sentiment", "sentiment", &["--data", "reviews.csv"]);
    for (from, to) in [
        ("runs/gpt", "runs/tale"),
        ("runs/typos", "runs/reverse"),
        ("runs/translate", "runs/de-en"),
        ("runs/sentiment", "A"),
        ("runs/sentiment", "B"),
        ("runs/gpt/model", "gpt2"),
        ("runs/bert/model", "bert"),
    ] {
        copy(&dir.join(from), &dir.join(to));
    }
    std::fs::write(dir.join("gpt2/chat_template.jinja"), "{% for m in messages %}{{ m.content }} {% endfor %}")
        .expect("written");
    made(dir, &["convert", "gpt2", "model.gguf"]);
    copy(&dir.join("model.gguf"), &dir.join("smollm2.gguf"));
    made(dir, &["finetune", "runs/bert", "--task", "classify", "--data", "reviews.csv", "--lora", "2", "--steps", "2"]);
    let vectors = |kind: &str, out: &str| {
        made(dir, &["vectors", "train", "--kind", kind, "--data", "builtin:senses", "--out", out, "--epochs", "1"])
    };
    made(dir, &["data", "shard", "book.txt", "--format", "lines", "--vocab", "280", "--out", "shards"]);
    vectors("skipgram", "senses.txt");
    vectors("cbow", "big.bin");
    let only = std::env::var("QKV_EXAMPLE").unwrap_or_default();
    let wrong: Vec<String> = all
        .iter()
        .filter(|e| e.contains(&only) && !NOT_RUN.iter().any(|(start, _)| e.starts_with(start)))
        .filter_map(|e| run(e, dir).err())
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}
