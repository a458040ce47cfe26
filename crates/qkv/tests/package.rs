//! What goes out of the house: crates that can be packaged, licences that may be built in, a list of changes for the version, and
//! the verbs that make a program at home in a shell.

mod common;

use common::{done, place, qkv};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn crates() -> Vec<PathBuf> {
    let all = std::fs::read_dir(root().join("crates")).expect("crates").map(|e| e.expect("an entry").path());
    all.filter(|path| path.join("Cargo.toml").exists()).collect()
}

/// The strings of a list in a TOML file, one on each line.
fn list(text: &str, key: &str) -> Vec<String> {
    let start = text.find(&format!("{key} = [")).unwrap_or_else(|| panic!("no {key}"));
    let body = &text[start..start + text[start..].find(']').expect("an end")];
    let words = body.lines().skip(1).map(|line| line.trim().trim_end_matches(',').trim_matches('"').to_string());
    words.filter(|word| !word.is_empty()).collect()
}

/// Whether one of the alternatives of an SPDX expression is allowed whole.
fn allowed(expression: &str, list: &[String]) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], " ");
    // `(A OR B) AND C` is the only form with brackets that there is: every part of it must have an alternative.
    let part = |part: &str| part.split(" OR ").any(|one| list.iter().any(|known| known == one.trim()));
    expression.split(" AND ").all(part)
}

#[test]
fn a_choice_is_allowed_by_one_and_a_sum_by_all() {
    let list = ["MIT".to_string(), "Zlib".to_string()];
    assert!(allowed("Apache-2.0 OR MIT", &list) && allowed("Unlicense/MIT", &list) && allowed("MIT AND Zlib", &list));
    assert!(!allowed("GPL-3.0", &list) && !allowed("(MIT OR Apache-2.0) AND GPL-2.0", &list) && !allowed("", &list));
}

/// Every licence of what a plain build takes is one that deny.toml allows.
#[test]
fn every_licence_that_is_built_in_is_allowed() {
    let deny = read(&root().join("deny.toml"));
    let licences = list(&deny, "allow");
    assert!(licences.len() > 3, "{licences:?}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = ["tree", "--workspace", "--locked", "--offline", "--edges", "normal,build", "--prefix", "none"];
    let out = Command::new(cargo).current_dir(root()).args(tree).args(["--format", "{l}|{p}"]).output().expect("cargo");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let (mut seen, mut wrong) = (0, vec![]);
    for (licence, package) in String::from_utf8_lossy(&out.stdout).lines().filter_map(|line| line.split_once('|')) {
        seen += 1;
        let name = package.split(' ').next().unwrap_or_default();
        let excepted = deny.contains(&format!("crate = \"{name}\", allow = [\"{licence}\"]"));
        if !excepted && !allowed(licence, &licences) {
            wrong.push(format!("{package}: {licence}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(seen > 100, "only {seen} packages were found: is the search broken?");
}

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()) {
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// What a crate includes is in it: a package has nothing else.
#[test]
fn nothing_is_included_from_outside_of_a_crate() {
    let mut seen = 0;
    for room in crates() {
        let (mut files, home) = (vec![], room.canonicalize().expect("a directory"));
        sources(&room.join("src"), &mut files);
        for file in files {
            let text = read(&file);
            for (at, _) in text.match_indices("include_str!(\"").chain(text.match_indices("include_bytes!(\"")) {
                let path = text[at..].split('"').nth(1).unwrap_or_default();
                let held = file.parent().expect("a directory").join(path).canonicalize();
                let held = held.unwrap_or_else(|e| panic!("{}: {path}: {e}", file.display()));
                assert!(held.starts_with(&home), "{} includes {path} from outside of its crate", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "only {seen} were found: is the search broken?");
}

/// What is published can only depend on what has a version.
#[test]
fn crates_name_each_other_by_version_and_say_what_they_are() {
    let workspace = read(&root().join("Cargo.toml"));
    let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    for line in workspace.lines().filter(|line| line.starts_with("qkv") && line.contains("path = ")) {
        // Only tests use it, and tests are not built from a package.
        let tests_only = line.starts_with("qkv-testkit");
        assert!(tests_only || line.contains(&version), "{line}");
    }
    for room in crates() {
        let text = read(&room.join("Cargo.toml"));
        assert!(text.contains("description = ") && text.contains("license.workspace = true"), "{}", room.display());
        let normal = text.split("[dev-dependencies]").next().unwrap_or_default();
        assert!(!normal.contains("qkv-testkit.") || room.ends_with("testkit"), "{} needs the testkit", room.display());
    }
}

#[test]
fn the_changes_of_this_version_are_told() {
    let changes = read(&root().join("CHANGELOG.md"));
    assert!(changes.contains(&format!("\n## {}", env!("CARGO_PKG_VERSION"))), "{changes}");
}

#[test]
fn every_shell_gets_verbs_flags_and_recipes() {
    let dir = place("");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = done(dir.path(), &["completions", shell]);
        assert!(script.contains("dry-run") && script.contains("finetune"), "{shell}");
        // The others complete no words of their own in the place of an argument.
        assert!(!["bash", "zsh"].contains(&shell) || script.contains("translate-bahdanau"), "{shell}");
    }
    let (code, _, err) = qkv(dir.path(), &["completions", "basch"]);
    assert!(code == 2 && err.contains("bash"), "{err}");
}

/// What bash would offer, by bash itself.
#[test]
#[cfg(unix)]
fn bash_completes_a_verb_a_flag_and_a_recipe() {
    let dir = place("");
    std::fs::write(dir.path().join("qkv.bash"), done(dir.path(), &["completions", "bash"])).expect("written");
    let offer = |words: &str| {
        let script = format!(
            "source qkv.bash; COMP_WORDS=(qkv {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _qkv qkv \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        let Ok(out) = Command::new("bash").current_dir(dir.path()).args(["-c", &script]).output() else { return None };
        Some(String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let Some(verbs) = offer("doc") else { return }; // no bash, nothing to ask
    assert_eq!(verbs.trim(), "doctor");
    assert!(offer("train --bud").is_some_and(|o| o.trim() == "--budget"));
    assert!(offer("train senti").is_some_and(|o| o.trim() == "sentiment"));
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let dir = place("");
    let page = done(dir.path(), &["man", "bench", "train"]);
    assert!(page.contains(".TH qkv-bench-train 1") && page.contains("--layers".replace('-', "\\-").as_str()), "{page}");
    let told = done(dir.path(), &["man", "--out", "man1"]);
    let pages = std::fs::read_dir(dir.path().join("man1")).expect("pages").count();
    assert!(pages > 35 && told.starts_with(&format!("{pages} pages")), "{told}");
    assert!(read(&dir.path().join("man1/qkv-train.1")).contains("Examples"));
    let (code, _, err) = qkv(dir.path(), &["man", "trian"]);
    assert!(code == 2 && err.contains("did you mean `train`?"), "{err}");
}

#[test]
fn a_doctor_measures_and_names_what_is_in_the_way() {
    let dir = place("");
    let out = done(dir.path(), &["doctor", "--json", "--threads", "64"]);
    let found: serde_json::Value = serde_json::from_str(&out).expect("one line of JSON");
    let levels = found["levels"].as_array().expect("levels");
    assert_eq!(levels.iter().filter(|level| level["used"] == true).count(), 1, "{out}");
    for level in levels {
        let products = level["products"].as_array().expect("products");
        assert!(
            products.len() == 4 && products.iter().all(|p| p["gflops"].as_f64().is_some_and(|g| g > 0.0)),
            "{level}"
        );
    }
    assert!(found["bandwidth"].as_f64().is_some_and(|b| b > 1e8) && found["disk"].as_f64().is_some_and(|b| b > 0.0));
    let cores = found["cores"].as_u64().expect("cores");
    let told = found["findings"].to_string();
    assert!(cores >= 64 || told.contains(&format!("64 threads share {cores} cores")), "{told}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1, "nothing is left behind");
}
