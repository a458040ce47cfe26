//! A program outside the workspace, with nothing in its manifest but `qkv`, builds and does what the examples do.

use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) -> String {
    let done = command.output().expect("a program");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{command:?}\n{}{}", text(&done.stdout), text(&done.stderr));
    text(&done.stdout)
}

/// The part of the workspace's manifest that says how releases are built: with the same words, cargo builds nothing twice.
fn profiles(root: &Path) -> String {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("a manifest");
    let at = manifest.find("[profile.").expect("a profile");
    // What stands there about the workspace's own crates means nothing outside.
    let sections: Vec<&str> = manifest[at..].split("\n[").filter(|s| !s.contains("package.qkv")).collect();
    sections.join("\n[")
}

#[test]
#[ignore = "builds the library once more, outside the workspace"]
fn a_program_outside_the_workspace_does_the_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace");
    let place = tempfile::tempdir().expect("a directory");
    let at = |name: &str| place.path().join(name);
    std::fs::create_dir_all(at("src/bin")).expect("src");
    let path = root.join("crates/qkv").display().to_string();
    let manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nqkv = {{ path = {path:?} }}\n\n[workspace]\n\n{}",
        profiles(&root)
    );
    std::fs::write(at("Cargo.toml"), manifest).expect("a manifest");
    std::fs::copy(root.join("Cargo.lock"), at("Cargo.lock")).expect("the same versions");
    let names = ["translate_file", "finetune_classify", "stream", "embed_search", "observe"];
    for name in names {
        let file = format!("{name}.rs");
        std::fs::copy(root.join("crates/qkv/examples").join(&file), at("src/bin").join(&file)).expect("an example");
    }
    // Beside this test's own binary: the dependencies there are built already.
    let target: PathBuf = Path::new(env!("CARGO_BIN_EXE_qkv")).ancestors().nth(2).expect("target").into();
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release"]).current_dir(place.path()).env("CARGO_TARGET_DIR", &target);
    run(&mut build);
    let program = |name: &str| Command::new(target.join("release").join(name));

    let told = run(program("observe").arg("6").env("TMPDIR", place.path()));
    assert!(told.starts_with("gpt2 with ") && told.contains(" in 6 steps, best on validation "), "{told}");
    let dir = told.lines().find_map(|line| line.strip_prefix("kept in ")).expect("where it is kept");
    assert!(!run(program("stream").args([dir, "Once upon a time"])).trim().is_empty());
    names.iter().for_each(|name| drop(std::fs::remove_file(target.join("release").join(name))));
}
