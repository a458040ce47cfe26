//! Every line of the page about the ancestors is run, one after the other as a reader would; trainings in small.

mod common;

use common::{in_small, words};
use std::path::Path;
use std::process::Command;

/// The commands of the last table, in order.
fn commands() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lectures.md");
    let text = std::fs::read_to_string(page).expect("the page");
    let (_, ancestors) = text.split_once("## The ancestors, lived").expect("the section");
    ancestors.lines().filter_map(|line| Some(line.split_once("`qkv ")?.1.split_once('`')?.0.to_string())).collect()
}

#[test]
#[ignore = "slow: some twenty commands"]
fn every_command_about_the_ancestors_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let all = commands();
    assert!(all.len() >= 18, "only {} commands were found: is the search broken?", all.len());
    for command in all {
        let mut args = words(&command);
        in_small(&mut args);
        let done = Command::new(env!("CARGO_BIN_EXE_qkv")).args(&args).current_dir(dir.path()).output().expect("qkv");
        assert!(done.status.success(), "qkv {command}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(!done.stdout.is_empty(), "qkv {command} says nothing");
    }
}
