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
