//! A family is known by its name in its own sheet alone. Everything else asks the sheet: so a new family is one new
//! file, and two places cannot disagree about an old one.

use qkv_model::families;
use std::path::{Path, PathBuf};

/// Where a family's name means something else, and what.
const OTHER_MEANINGS: &[(&str, &str)] = &[
    ("text/src/gguf.rs", "kinds of vocabulary and of splitting, as GGUF names them"),
    ("text/src/gguf_out.rs", "kinds of vocabulary and of splitting, as GGUF names them"),
    ("decode/src/preset.rs", "the program llama.cpp, whose defaults a preset has"),
    ("recipe.rs", "recipes, which are named by what they teach"),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The lines of a file that are neither comments nor tests: a file's tests are at its end.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let body = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = body.lines().enumerate().map(|(i, line)| (i + 1, line.trim_start()));
    lines.filter(|(_, line)| !line.starts_with("//"))
}

#[test]
fn no_family_is_known_by_name_outside_its_sheet() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = vec![];
    for entry in std::fs::read_dir(&crates).expect("the workspace") {
        let src = entry.expect("an entry").path().join("src");
        if src.is_dir() {
            sources(&src, &mut files);
        }
    }
    assert!(files.len() > 100, "{} files", files.len());
    let names: Vec<String> =
        families::ALL.iter().flat_map(|sheet| sheet.model_types).map(|name| format!("\"{name}\"")).collect();
    let mut said = vec![];
    for file in files {
        let place = file.display().to_string().replace('\\', "/");
        if place.contains("model/src/families/") || OTHER_MEANINGS.iter().any(|(end, _)| place.ends_with(end)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a source file");
        for (line, text) in code(&text).filter(|(_, text)| names.iter().any(|name| text.contains(name.as_str()))) {
            said.push(format!("{place}:{line}: {text}"));
        }
    }
    assert!(said.is_empty(), "ask the sheet instead:\n{}", said.join("\n"));
}

/// A sheet knows its own names and no other family's, but for families that are one sheet.
#[test]
fn sheets_do_not_know_each_other_by_name() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/families");
    for sheet in families::ALL {
        for other in families::ALL.iter().filter(|other| other.name != sheet.name) {
            let file = dir.join(format!("{}.rs", sheet.name.trim_start_matches("qkv-").trim_end_matches("_text")));
            let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            for (line, text) in code(&text) {
                for name in other.model_types {
                    assert!(!text.contains(&format!("\"{name}\"")), "{}:{line}: {text}", file.display());
                }
            }
        }
    }
}

/// Every family has a checkpoint of the reference to be compared with.
#[test]
fn every_family_has_a_reference_checkpoint() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny");
    let configs: Vec<families::Config> = std::fs::read_dir(fixtures)
        .expect("a directory")
        .map(|e| e.expect("an entry").path().join("config.json"))
        .filter(|path| path.is_file())
        .map(|path| families::Config::load(&path).expect("a configuration"))
        .collect();
    for sheet in families::ALL {
        let has = configs.iter().any(|config| families::of(config).is_ok_and(|s| s.name == sheet.name));
        assert!(has, "{} has no reference checkpoint", sheet.name);
    }
}
