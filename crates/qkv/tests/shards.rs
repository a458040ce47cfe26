//! `qkv data shard` as a person meets it: what it says, what it refuses, and what is left after a kill.

mod common;

use common::{done, qkv};
use insta::assert_snapshot;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn stories(dir: &Path, n: usize) {
    done(dir, &["data", "make", "builtin:stories", "--n", &n.to_string(), "--out", "stories.tsv"]);
}

/// Without what is never twice the same.
fn steady(text: &str) -> String {
    text.lines()
        .map(|line| match line.split_once(" s, ") {
            Some((_, rest)) if rest.contains("tokens/s") => "[TIME]".to_string(),
            _ => line.to_string(),
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn both(dir: &Path, args: &str) -> String {
    let (code, out, err) = qkv(dir, &args.split_whitespace().collect::<Vec<_>>());
    format!("{}--- stderr, exit code {code}\n{}", out, steady(&err))
}

/// Every file by name.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|e| e.expect("an entry").path());
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().to_string();
    let mut all = BTreeMap::new();
    for path in entries {
        match path.is_dir() {
            true => all.extend(files(&path).into_iter().map(|(inner, b)| (format!("{}/{inner}", name(&path)), b))),
            false => _ = all.insert(name(&path), std::fs::read(&path).expect("read")),
        }
    }
    all
}

#[test]
fn shards_are_made_looked_at_and_learnt_from() {
    let held = tempfile::tempdir().expect("a directory");
    let dir = held.path();
    stories(dir, 400);
    assert_snapshot!("shard", both(dir, "data shard stories.tsv --vocab 500 --shard-tokens 8000 -o shards"));
    assert_snapshot!("shard_again", both(dir, "data shard stories.tsv --vocab 500 --shard-tokens 8000 -o shards"));
    assert_snapshot!("check_shards", both(dir, "data check shards"));
    let json = done(dir, &["data", "check", "shards", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((value["whole"].as_bool(), value["documents"].as_u64()), (Some(true), Some(400)), "{json}");
    let train =
        "train gpt --data shards --set model.width=16 --set model.heads=2 --set data.length=32 --steps 4 --out run";
    let (code, out, err) = qkv(dir, &train.split_whitespace().collect::<Vec<_>>());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("test: ") && out.contains("perplexity"), "{out}");
    assert!(err.contains("rows of 32 tokens to learn from") && err.contains("that of the shards"), "{err}");
    // On texts, as any other run.
    let scores = done(dir, &["evaluate", "run", "--data", "stories.tsv", "--examples", "20", "--json"]);
    assert!(scores.contains("perplexity"), "{scores}");
    assert!(done(dir, &["score", "run", "The king is here."]).contains("log p"));
    let same = files(&dir.join("shards"));
    let one = "data shard stories.tsv --vocab 500 --shard-tokens 8000 --threads 1 --json -o one";
    done(dir, &one.split_whitespace().collect::<Vec<_>>());
    assert!(files(&dir.join("one")) == same);
}

#[test]
fn shards_are_refused_with_a_hint() {
    let held = tempfile::tempdir().expect("a directory");
    let dir = held.path();
    stories(dir, 60);
    std::fs::write(dir.join("latin.txt"), b"fine\n\ncaf\xe9\n").expect("written");
    std::fs::write(dir.join("empty.txt"), b"").expect("written");
    std::fs::write(dir.join("x.parquet"), b"PAR1").expect("written");
    done(dir, &"data shard stories.tsv --vocab 400 -o shards".split_whitespace().collect::<Vec<_>>());
    for (name, args) in [
        ("no_tokenizer", "data shard stories.tsv -o new"),
        ("both", "data shard stories.tsv --vocab 300 --tokenizer t.json -o new"),
        ("no_file", "data shard storys.tsv --vocab 300 -o new"),
        ("latin", "data shard latin.txt --tokenizer shards/tokenizer -o new1"),
        ("empty", "data shard empty.txt --tokenizer shards/tokenizer -o new2"),
        ("family", "data shard stories.tsv --vocab 300 --family gpt3 -o new"),
        ("pictures", "data shard stories.tsv --vocab 300 --family vit -o new"),
        ("other", "data shard latin.txt --vocab 400 -o shards"),
        ("taken", "data shard stories.tsv --vocab 400 -o shards/tokenizer"),
        ("check_task", "data check shards --task classify"),
        ("check_flag", "data check shards --skip-bad-rows"),
        ("masked", "train bert --data shards --out run"),
        ("twice", "train gpt --data shards --data stories.tsv --out run"),
    ] {
        let (code, _, err) = qkv(dir, &args.split_whitespace().collect::<Vec<_>>());
        assert_eq!(code, 2, "{args}: {err}");
        assert_snapshot!(format!("refuse_{name}"), err);
    }
    let (_, _, err) = qkv(dir, &["data", "shard", "x.parquet", "--tokenizer", "shards/tokenizer", "-o", "new3"]);
    let parquet = cfg!(feature = "parquet");
    assert!(err.contains(if parquet { "cannot be read as Parquet" } else { "without the feature `parquet`" }), "{err}");
    let mut bytes = std::fs::read(dir.join("shards/00000.ids")).expect("read");
    bytes[7] ^= 1;
    std::fs::write(dir.join("shards/00000.ids"), bytes).expect("written");
    let (code, _, err) = qkv(dir, &["data", "check", "shards"]);
    assert!(code == 2 && err.contains("the checksum is") && err.contains("hint: "), "{err}");
}

/// A limit on the size of files is met like a full disk: told, with exit code 1, and the work goes on with room again.
#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told_and_the_work_goes_on() {
    let held = tempfile::tempdir().expect("a directory");
    let dir = held.path();
    stories(dir, 3000);
    done(
        dir,
        &"tokenizer train --kind bpe --vocab 300 --data stories.tsv --out t.json"
            .split_whitespace()
            .collect::<Vec<_>>(),
    );
    let program = env!("CARGO_BIN_EXE_qkv");
    let limited = format!("trap '' XFSZ; ulimit -f 100; {program} data shard stories.tsv --tokenizer t.json -o shards");
    let out = Command::new("bash").current_dir(dir).args(["-c", &limited]).output().expect("bash");
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{err}");
    assert!(err.contains("too large") && err.contains("hint: make room and run the same command again"), "{err}");
    assert!(!files(&dir.join("shards")).keys().any(|name| name.ends_with(".part")), "its room is given back");
    done(dir, &["data", "shard", "stories.tsv", "--tokenizer", "t.json", "-o", "shards"]);
    done(dir, &["data", "shard", "stories.tsv", "--tokenizer", "t.json", "-o", "whole"]);
    assert!(files(&dir.join("shards")) == files(&dir.join("whole")));
}

/// Killed again and again at any moment, it comes to the bytes of a work that nobody disturbed.
#[test]
#[ignore = "slow: some hundred starts"]
fn killed_at_any_moment_it_goes_on() {
    let held = tempfile::tempdir().expect("a directory");
    let dir = held.path();
    stories(dir, 20_000);
    let text = std::fs::read_to_string(dir.join("stories.tsv")).expect("stories");
    let rows: String = text.lines().map(|line| format!("{}\n", serde_json::json!({ "text": line }))).collect();
    std::fs::write(dir.join("stories.jsonl"), rows).expect("written");
    let paragraphs: String = text.lines().map(|line| format!("{line}\n\n")).collect();
    std::fs::write(dir.join("stories.txt"), paragraphs).expect("written");
    assert!(Command::new("gzip").arg(dir.join("stories.txt")).status().expect("gzip").success());
    let args = |out: &str, threads: &str| {
        let line = format!(
            "data shard stories.tsv stories.jsonl stories.txt.gz --vocab 600 --shard-tokens 60000 --threads {threads} -o {out}"
        );
        line.split_whitespace().map(String::from).collect::<Vec<_>>()
    };
    let start = std::time::Instant::now();
    let whole: Vec<String> = args("whole", "2");
    done(dir, &whole.iter().map(String::as_str).collect::<Vec<_>>());
    let took = start.elapsed();
    let want = files(&dir.join("whole"));
    let mut kills = 0;
    for round in 0..6u64 {
        let out = format!("out{round}");
        for attempt in 0.. {
            let mut child = Command::new(env!("CARGO_BIN_EXE_qkv"))
                .current_dir(dir)
                .args(args(&out, if attempt % 2 == 0 { "1" } else { "2" }))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts");
            // Moments that spread over the whole work, and never the same.
            let wait = took.mul_f64(0.05 + ((attempt * 37 + round * 11) % 50) as f64 / 90.0);
            let since = std::time::Instant::now();
            let ended = loop {
                match child.try_wait().expect("a child") {
                    Some(status) => break Some(status),
                    None if since.elapsed() > wait => break None,
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            };
            if let Some(status) = ended {
                assert!(status.success(), "attempt {attempt}");
                break;
            }
            child.kill().expect("killed");
            child.wait().expect("gone");
            kills += 1;
            assert!(attempt < 200, "it never comes to an end");
        }
        assert!(files(&dir.join(&out)) == want, "round {round}");
    }
    assert!(kills > 6, "only {kills} kills: is the work too short?");
}
