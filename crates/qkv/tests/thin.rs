//! The binary is thin: a verb reads its arguments, calls the library and prints.

use std::path::{Path, PathBuf};

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|e| e.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn cli() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
    let name = |path: &Path| path.strip_prefix(&dir).expect("inside").display().to_string();
    files(&dir).iter().map(|path| (name(path), std::fs::read_to_string(path).expect("text"))).collect()
}

/// What every verb may use.
const SHARED: [&str; 9] = ["fail", "flags", "input", "report", "show", "signals", "terminal", "bench", "mod"];

#[test]
fn no_verb_is_longer_than_a_page_and_a_half() {
    for (name, text) in cli() {
        let shared = SHARED.iter().any(|s| name == format!("{s}.rs"));
        let lines = text.lines().count();
        assert!(shared || lines <= 150, "{name} has {lines} lines: has it taken over the library's work?");
    }
}

#[test]
fn no_verb_knows_another() {
    let verbs: Vec<String> = cli().into_iter().filter(|(name, _)| !name.contains('/')).map(|(name, _)| name).collect();
    let verbs: Vec<&str> = verbs.iter().filter_map(|n| n.strip_suffix(".rs")).filter(|n| !SHARED.contains(n)).collect();
    assert!(verbs.len() > 15, "{verbs:?}");
    for (name, text) in cli() {
        let own = name.split(['/', '.']).next().unwrap_or_default();
        for verb in verbs.iter().filter(|verb| **verb != own && name != "mod.rs") {
            // In a verb's own folder `super::` is that verb.
            let ways = if name.contains('/') { &["crate::cli::"][..] } else { &["crate::cli::", "super::"] };
            let used = ways.iter().any(|way| text.contains(&format!("{way}{verb}::")));
            assert!(!used, "{name} uses the verb {verb}");
        }
    }
}

/// What a terminal would obey (control characters of a label, a tensor's name, a text) is made harmless in one place.
#[test]
fn everything_that_is_printed_goes_through_one_place() {
    for (name, text) in cli().into_iter().filter(|(name, _)| !["terminal.rs", "show.rs"].contains(&name.as_str())) {
        for way in ["println!", "print!", "stderr().lock()", "io::stderr().write"] {
            assert!(!text.contains(way), "{name} uses {way}: use `say` or `talk` of terminal.rs");
        }
    }
}
