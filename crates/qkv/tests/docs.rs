//! The documentation is true: every path and link in it exists, every example is the tested example of the file it names,
//! and every `qkv inspect` prints today what the page says it prints.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The README and every page of `docs/`, of its lectures and its labs, with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    let files =
        |folder: &str| std::fs::read_dir(root().join(folder)).expect("a folder").map(|e| e.expect("a file").path());
    let docs = ["docs", "docs/lectures", "docs/labs"].into_iter().flat_map(files);
    let mut pages: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.sort();
    pages.push(root().join("README.md"));
    pages.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// The fenced blocks of a page in this language, each with the line before it.
fn blocks(text: &str, language: &str) -> Vec<(String, String)> {
    let (mut found, mut before, mut open) = (vec![], String::new(), None);
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(name)) => open = Some((name.to_string(), String::new())),
            (Some((name, body)), Some(_)) => {
                if name == language {
                    found.push((before.clone(), body.clone()));
                }
                open = None;
            }
            (Some((_, body)), None) => *body += &format!("{line}\n"),
            (None, None) => before = line.to_string(),
        }
    }
    found
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut seen = 0;
    for (page, text) in pages() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let target = link.0.split('#').next().unwrap_or("");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = page.parent().expect("a folder").join(target);
            assert!(path.exists(), "{} links to {target}, which does not exist", page.display());
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} links were found: is the search broken?");
}

#[test]
fn every_path_that_is_mentioned_exists() {
    let mut seen = 0;
    for (page, text) in pages() {
        for (at, _) in text.match_indices("crates/") {
            let path: String =
                text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || "/_.-".contains(*c)).collect();
            let path = path.trim_end_matches(['.', '/']);
            assert!(root().join(path).exists(), "{} mentions {path}, which does not exist", page.display());
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} paths were found: is the search broken?");
}

#[test]
fn the_map_names_every_page() {
    let [map, lectures, labs] =
        ["README.md", "lectures.md", "labs/README.md"].map(|name| root().join("docs").join(name));
    for (page, _) in pages() {
        let name = page.file_name().expect("a name").to_string_lossy().into_owned();
        let (list, link) = match page.parent().and_then(|p| p.file_name()).and_then(|p| p.to_str()) {
            Some("lectures") => (&lectures, format!("](lectures/{name})")),
            Some("labs") => (&labs, format!("]({name})")),
            _ => (&map, format!("]({name})")),
        };
        assert!(name == "README.md" || read(list).contains(&link), "{} does not name {name}", list.display());
    }
}

/// `<!-- from PATH -->` stands before every Rust block: the block is an example of that file, which `cargo test` runs.
#[test]
fn every_example_is_a_tested_one() {
    let plain = |line: &str| line.trim().trim_start_matches("//!").trim_start_matches("///").trim().to_string();
    let lines = |text: &str| text.lines().map(plain).filter(|l| !l.is_empty()).collect::<Vec<_>>();
    let mut seen = 0;
    for (page, text) in pages() {
        for (before, body) in blocks(&text, "rust") {
            let named = before.strip_prefix("<!-- from ").and_then(|rest| rest.strip_suffix(" -->"));
            let file = named.unwrap_or_else(|| panic!("{}: a block without its file:\n{body}", page.display()));
            let (source, block) = (lines(&read(&root().join(file))), lines(&body));
            let found = source.windows(block.len()).any(|window| window == block);
            assert!(found, "{}: no longer in {file}:\n{body}", page.display());
            seen += 1;
        }
    }
    assert!(seen > 10, "only {seen} examples were found: is the search broken?");
}

#[test]
fn what_inspect_prints_is_what_the_pages_say() {
    let mut seen = 0;
    for (page, text) in pages() {
        for (_, body) in blocks(&text, "console") {
            let Some(args) = body.strip_prefix("$ qkv inspect") else { continue };
            let (args, want) = args.split_once('\n').expect("a command and its output");
            let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
            let done = command.arg("inspect").args(args.split_whitespace()).output().expect("qkv");
            let got = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
            assert_eq!(got, want, "{}: qkv inspect{args}", page.display());
            seen += 1;
        }
    }
    assert!(seen > 5, "only {seen} outputs were found: is the search broken?");
}

/// The checks run what the README tells a reader to run.
#[test]
fn the_checks_run_the_commands_of_the_readme() {
    let (readme, checks) = (read(&root().join("README.md")), read(&root().join(".ci/run")));
    for command in ["cargo run --release -- train", "cargo test --release --workspace"] {
        let alone = |text: &str| text.lines().any(|line| line == command);
        assert!(alone(&readme) && alone(&checks), "`{command}` must stand in README.md and in .ci/run");
    }
}
