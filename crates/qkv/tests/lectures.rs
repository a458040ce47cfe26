//! Every line of the page about the ancestors is run, one after the other as a reader would; trainings in small.

use std::path::Path;
use std::process::Command;

/// What makes a training a matter of a second.
const SMALL: &[&str] = &[
    "model.width=16",
    "model.layers=1",
    "train.steps=4",
    "data.examples=80",
    "data.valid=8",
    "data.test=6",
    "data.length=32",
    "schedule.warmup=2",
    "eval.batches=1",
    "eval.goal=0",
    "eval.samples=0",
];

/// The commands of the last table, in order.
fn commands() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lectures.md");
    let text = std::fs::read_to_string(page).expect("the page");
    let (_, ancestors) = text.split_once("## The ancestors, lived").expect("the section");
    ancestors.lines().filter_map(|line| Some(line.split_once("`qkv ")?.1.split_once('`')?.0.to_string())).collect()
}

/// Words as a shell parts them; double quotes hold words together.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    let split = |(i, part): (usize, &str)| match i % 2 {
        0 => part.split_whitespace().map(String::from).collect::<Vec<_>>(),
        _ => vec![part.to_string()],
    };
    parts.flat_map(split).collect()
}

#[test]
#[ignore = "slow: some twenty commands"]
fn every_command_about_the_ancestors_runs() {
    let dir = tempfile::tempdir().expect("a folder");
    let all = commands();
    assert!(all.len() >= 18, "only {} commands were found: is the search broken?", all.len());
    for command in all {
        let mut args = words(&command);
        let (verb, what) = (args[0].clone(), args.get(1).cloned().unwrap_or_default());
        let trains = verb == "train" || verb == "compare" && what != "gradients";
        if trains {
            SMALL.iter().for_each(|change| args.extend(["--set".into(), change.to_string()]));
        }
        if verb == "compare" && trains {
            args.extend(["--budget".into(), "3 steps".into()]);
        }
        let done = Command::new(env!("CARGO_BIN_EXE_qkv")).args(&args).current_dir(dir.path()).output().expect("qkv");
        assert!(done.status.success(), "qkv {command}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(!done.stdout.is_empty(), "qkv {command} says nothing");
    }
}
