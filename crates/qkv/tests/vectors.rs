//! `qkv vectors` prints today what docs/vectors.md says it prints.

use std::path::Path;
use std::process::Command;

/// The commands of a console block with what follows each.
fn commands(page: &str) -> Vec<(String, String)> {
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let each = |block: &str| {
        let one = |part: &str| part.split_once('\n').map(|(command, output)| (command.to_string(), output.to_string()));
        format!("\n{block}").split("\n$ ").skip(1).filter_map(|part| one(&format!("{part}\n"))).collect::<Vec<_>>()
    };
    blocks.flat_map(each).collect()
}

/// A command line in words; quotes keep blanks.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    parts
        .flat_map(|(i, part)| match i % 2 {
            0 => part.split_whitespace().map(str::to_string).collect(),
            _ => vec![part.to_string()],
        })
        .collect()
}

#[test]
fn the_page_about_vectors_is_true() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vectors.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    let all = commands(&page);
    assert!(all.len() >= 8, "only {} commands were found", all.len());
    for (command, want) in all {
        let args = words(&command);
        assert_eq!(args[0], "qkv");
        let mut run = Command::new(env!("CARGO_BIN_EXE_qkv"));
        let done = run.args(&args[1..]).current_dir(folder.path()).output().expect("qkv");
        let said = if done.status.success() { &done.stdout } else { &done.stderr };
        assert_eq!(String::from_utf8_lossy(said).trim_end(), want.trim_end(), "{command}");
    }
}

#[test]
fn files_that_will_not_do_are_refused_with_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |args: &[&str], text: &str| {
        std::fs::write(folder.path().join("v.txt"), text).expect("a file");
        let mut run = Command::new(env!("CARGO_BIN_EXE_qkv"));
        let done = run.arg("vectors").args(args).current_dir(folder.path()).output().expect("qkv");
        assert_eq!(done.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or_default().to_string()
    };
    let near = ["near", "v.txt", "a"];
    assert_eq!(refused(&near, "1 2\na 0.5 nan\n"), "error: v.txt, line 2: number 2 of `a` is NaN");
    assert_eq!(refused(&near, "2 1\na 0.5\na 1\n"), "error: v.txt: `a` stands twice: words 1 and 2");
    let train = ["train", "--data", "v.txt", "--out", "new.txt"];
    let one_word = "error: corpus: 1 of the 1 different words come 5 times or more: nothing to learn from";
    assert_eq!(refused(&train, "word word word word word word\n"), one_word);
    let named = ["train", "--kind", "tfidf", "--data", "v.txt", "--out", "new.txt"];
    assert_eq!(refused(&named, "some text\n"), "error: new.txt: not the name of such a file");
    let other = ["classify", "--data", "builtin:stories"];
    assert_eq!(refused(&other, ""), "error: builtin:stories: is for another task: next-token");
    let sum = ["analogy", "v.txt", "a", "-"];
    assert_eq!(refused(&sum, "1 1\na 1\n"), "error: `a -` is not a sum of words");
}
