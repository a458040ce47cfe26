//! What several tests of the binary need: running it as a person does, and a recipe that is done in a moment.
#![allow(dead_code)] // each test takes what it needs

use assert_cmd::Command;
use std::path::Path;

/// A recipe that is done in a moment; `--data` takes a file of a person's. It ends in `[eval]`.
pub(crate) const TINY: &str = r#"# A tiny reader of reviews
[data]
corpus = "builtin:reviews"
objective = "classify"
examples = 60
valid = 10
test = 10
length = 32
[tokenizer]
kind = "wordpiece"
vocab = 300
[model]
family = "bert"
width = 16
layers = 1
heads = 2
[train]
steps = 6
rows = 4
log = 2
[schedule]
warmup = 2
[checkpoint]
every = 2
[eval]
every = 3
metric = "accuracy"
samples = 1
"#;

/// The exit code, stdout and stderr of a command.
pub(crate) fn qkv(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    let out = command.current_dir(dir).args(args).env_remove("RAYON_NUM_THREADS").env("NO_COLOR", "1").output();
    let out = out.expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

/// stdout of a command that succeeds.
pub(crate) fn done(dir: &Path, args: &[&str]) -> String {
    let (code, out, err) = qkv(dir, args);
    assert_eq!(code, 0, "{args:?}\n{out}\n{err}");
    out
}

/// A directory with `tiny.toml` in it: [`TINY`], and more lines of its last section.
pub(crate) fn place(more: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("tiny.toml"), format!("{TINY}{more}")).expect("written");
    dir
}

/// Words as a shell parts them; double quotes hold words together.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut found, mut word, mut quoted, mut begun) = (vec![], String::new(), false, false);
    for c in line.chars() {
        match c {
            '"' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                if begun || !word.is_empty() {
                    found.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            c => word.push(c),
        }
    }
    if begun || !word.is_empty() {
        found.push(word);
    }
    found
}

/// What makes a training a matter of a second.
const SMALL: &[(&str, &str)] = &[
    ("model.width", "16"),
    ("model.layers", "1"),
    ("data.length", "32"),
    ("train.steps", "4"),
    ("data.examples", "80"),
    ("data.valid", "8"),
    ("data.test", "6"),
    ("schedule.warmup", "2"),
    ("eval.batches", "1"),
    ("eval.goal", "0"),
    ("eval.samples", "0"),
];

/// Makes a command that trains one of a moment: sizes and steps of its own are taken out, small ones put in.
pub(crate) fn in_small(args: &mut Vec<String>) {
    let (verb, what) = (args[0].clone(), args.get(1).cloned().unwrap_or_default());
    let trains = ["train", "finetune"].contains(&verb.as_str()) || verb == "compare" && what != "gradients";
    if !trains {
        return;
    }
    // A checkpoint has its sizes, and a picture has no length.
    let fits = |key: &str| match key {
        "model.width" | "model.layers" => verb != "finetune",
        "data.length" => verb != "finetune" && what != "vit",
        _ => true,
    };
    for (key, value) in SMALL.iter().filter(|(key, _)| fits(key)) {
        while let Some(at) = args.iter().position(|arg| arg.starts_with(&format!("{key}="))) {
            args.drain(at - 1..=at);
        }
        args.extend(["--set".to_string(), format!("{key}={value}")]);
    }
    if verb == "compare" {
        if let Some(at) = args.iter().position(|arg| arg == "--budget") {
            args.drain(at..=at + 1);
        }
        args.extend(["--budget".into(), "3 steps".into()]);
    }
}
