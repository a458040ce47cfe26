//! The documentation as a book: a page for each idea in the order of the lectures, its picture, and the labs. What the program
//! makes (formula, picture, output, the way through the book) is made anew and compared; `INSTA_UPDATE=always` writes it. What a
//! person wrote stands between two marks and stays.

mod common;

use common::words;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Runs the program at a place; what it prints.
fn qkv(at: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qkv"));
    command.args(args).current_dir(at).env("NO_COLOR", "1").env("COLUMNS", "100").env_remove("RAYON_NUM_THREADS");
    let done = command.output().expect("qkv");
    assert!(done.status.success(), "qkv {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("UTF-8")
}

fn updating() -> bool {
    std::env::var_os("INSTA_UPDATE").is_some_and(|v| v == "always")
}

/// A row of docs/lectures.md: topic, file, and the page that says more.
struct Idea {
    number: usize,
    topic: String,
    title: String,
    file: String,
    more: String,
}

impl Idea {
    fn name(&self) -> String {
        format!("{:02}-{}.md", self.number, self.topic)
    }
}

/// The target of the link in a cell.
fn link(cell: &str) -> String {
    cell.split_once("](").and_then(|(_, rest)| rest.split(')').next()).unwrap_or_default().to_string()
}

fn ideas() -> Vec<Idea> {
    let text = read(&root().join("docs/lectures.md"));
    let rows = text.lines().filter(|line| line.contains("`qkv explain ")).collect::<Vec<_>>();
    let idea = |(i, row): (usize, &&str)| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let topic = cells[2].trim_start_matches("`qkv explain ").trim_end_matches('`').to_string();
        let page: Value = serde_json::from_str(&qkv(&root(), &["explain", &topic, "--json"])).expect("JSON");
        let title = page["title"].as_str().expect("a title").to_string();
        let idea = Idea { number: i + 1, topic, title, file: link(cells[3]), more: link(cells[4]) };
        assert_eq!(link(cells[1]), format!("lectures/{}", idea.name()), "docs/lectures.md: {row}");
        idea
    };
    rows.iter().enumerate().map(idea).collect()
}

const BY_HAND: [&str; 2] = ["<!-- by hand -->\n", "<!-- made by the program: INSTA_UPDATE=always -->\n"];

/// The page of an idea around what a person wrote.
fn page(ideas: &[Idea], i: usize, by_hand: &str) -> String {
    let Idea { number, topic, title, file, more } = &ideas[i];
    let told: Value = serde_json::from_str(&qkv(&root(), &["explain", topic, "--json"])).expect("JSON");
    let blocks = told["blocks"].as_array().expect("blocks");
    let formula = blocks.iter().find_map(|b| b["formula"].as_str()).expect("a formula");
    let idea = told["idea"].as_str().expect("an idea");
    let printed = qkv(&root(), &["explain", topic]);
    let way = |j: Option<usize>, text: &dyn Fn(&Idea) -> String| {
        j.and_then(|j| ideas.get(j)).map(|other| format!("[{}]({})", text(other), other.name()))
    };
    let before = way(i.checked_sub(1), &|o| format!("← {}. {}", o.number, o.title));
    let after = way(Some(i + 1), &|o| format!("{}. {} →", o.number, o.title));
    let contents = Some("[contents](../lectures.md)".to_string());
    let ways: Vec<String> = [before, contents, after].into_iter().flatten().collect();
    let file_name = file.trim_start_matches("../");
    let [open, close] = BY_HAND;
    format!(
        "# {number}. {title}\n\n{idea}\n\n```text\n{formula}\n```\n\n![{title}](../images/explain-{topic}.svg)\n\n\
         {open}{by_hand}{close}\n\
         ## The numbers\n\n```console\n$ qkv explain {topic}\n{printed}```\n\n\
         ## Where it is\n\n* the idea in code: [{file_name}](../{file})\n* more about it: [{more}](../{more})\n\
         * the picture: `qkv explain {topic} --svg {topic}.svg`; the page for a browser: `qkv explain {topic} --html {topic}.html`\n\n\
         {}\n",
        ways.join(" · ")
    )
}

/// Every page of the book says what the program says today, and has something that a person wrote.
#[test]
fn the_pages_of_the_book_are_made_anew() {
    let ideas = ideas();
    assert_eq!(ideas.len(), 24);
    for (i, idea) in ideas.iter().enumerate() {
        let path = root().join("docs/lectures").join(idea.name());
        let kept = read(&path);
        let [open, close] = BY_HAND;
        let by_hand = kept.split_once(open).and_then(|(_, rest)| rest.split_once(close)).map(|(text, _)| text);
        let by_hand = by_hand.unwrap_or_else(|| panic!("{}: where is what a person wrote?", path.display()));
        assert!(by_hand.split_whitespace().count() > 25, "{}: a page wants a few sentences", path.display());
        let made = page(&ideas, i, by_hand);
        if updating() {
            std::fs::write(&path, &made).expect("written");
        }
        assert!(read(&path) == made, "{}: INSTA_UPDATE=always makes it anew", path.display());
    }
}

const GPT2: &str = "fixtures/tiny/gpt2 --ids 5,17,23,42,9,61";

/// The pictures of the pages are those that the program draws now.
#[test]
fn the_pictures_are_drawn_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = "fixtures/tiny/marian --ids 5,17,23,42 --target-ids 31,8,77";
    let seen = [
        ("see-head", format!("see {GPT2} --layer 1 --head 2 -o")),
        ("see-heads", format!("see {GPT2} --view maps -o")),
        ("see-rollout", format!("see {GPT2} --view rollout -o")),
        ("see-align", format!("see {pair} --view align -o")),
        ("see-pca", format!("see {GPT2} --view pca -o")),
    ];
    let explained = ideas().into_iter().map(|i| (format!("explain-{}", i.topic), format!("explain {} --svg", i.topic)));
    for (name, args) in seen.into_iter().map(|(name, args)| (name.to_string(), args)).chain(explained) {
        let drawn = folder.path().join(format!("{name}.svg"));
        let place = drawn.display().to_string();
        qkv(&root(), &args.split_whitespace().chain([place.as_str()]).collect::<Vec<_>>());
        is_kept(&name, &read(&drawn));
    }
}

/// That a picture of the documentation is this one.
fn is_kept(name: &str, got: &str) {
    let kept = root().join(format!("docs/images/{name}.svg"));
    if updating() {
        std::fs::write(&kept, got).expect("the picture is written");
    }
    // Levels of vector instructions differ in the last bits: what is drawn may differ by a rounding, not by more.
    let numbers = |text: &str| {
        text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
            .filter_map(|n| n.parse::<f64>().ok())
            .collect::<Vec<_>>()
    };
    // Everything that is neither a number nor a colour is the same.
    let frame = |text: &str| {
        let mut parts = text.split('#');
        let first = parts.next().unwrap_or_default().to_string();
        let rest = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
        let all = rest.fold(first, |all, part| all + "#" + part);
        all.chars().filter(|c| !(c.is_ascii_digit() || *c == '.')).collect::<String>()
    };
    let want = read(&kept);
    let (a, b) = (numbers(got), numbers(&want));
    let near = a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 0.11);
    assert!(near && frame(got) == frame(&want), "{name}: INSTA_UPDATE=always draws it anew");
}

/// The curve of docs/training.md: a language model of letters, small enough to be trained here.
#[test]
fn the_training_curve_is_trained_and_drawn_anew() {
    let dir = tempfile::tempdir().expect("a folder");
    let small = "model.width=32 model.layers=1 train.steps=240 train.log=4 data.examples=400 data.valid=8 data.test=4 data.length=32 \
                 eval.batches=1 eval.goal=0 eval.samples=0";
    let changes = small.split_whitespace().flat_map(|change| ["--set", change]);
    let args: Vec<&str> = ["train", "char-gpt", "--quiet", "--out", "run"].into_iter().chain(changes).collect();
    qkv(dir.path(), &args);
    let journal = qkv_runs::journal::read(&dir.path().join("run")).expect("a journal");
    let series = vec![qkv_report::Series { name: "training".into(), points: journal.points("step", "loss") }];
    assert!(series[0].points.len() > 30, "{:?}", series[0].points);
    let title = "loss of each letter: one layer of width 32 learns stories".into();
    is_kept("training-curve", &qkv_report::Chart { title, series, ..Default::default() }.svg());
}

/// The labs, in order.
fn labs() -> Vec<PathBuf> {
    let all = std::fs::read_dir(root().join("docs/labs")).expect("labs").map(|e| e.expect("a file").path());
    let mut all: Vec<PathBuf> = all.filter(|path| !path.ends_with("README.md")).collect();
    all.sort();
    all
}

/// A command of a page, and what it is to print; `None` where that depends on what was trained.
type Step = (String, Option<String>);

/// The commands of a page in order: `console` blocks with their output, lines of `sh` blocks without.
fn steps(text: &str) -> Vec<Step> {
    let mut found: Vec<Step> = vec![];
    for block in text.split("\n```").skip(1) {
        let (language, body) = block.split_once('\n').unwrap_or((block, ""));
        for line in body.lines() {
            let command = match language {
                "console" => line.strip_prefix("$ qkv ").map(|c| (c.to_string(), Some(String::new()))),
                "sh" => line.strip_prefix("qkv ").map(|c| (c.to_string(), None)),
                _ => None,
            };
            match (command, found.last_mut()) {
                (Some(step), _) => found.push(step),
                (None, Some((_, Some(want)))) if language == "console" => *want += &format!("{line}\n"),
                _ => {}
            }
        }
    }
    found
}

/// A folder as a reader has it who stands in the project.
fn desk() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(root().join("fixtures"), dir.path().join("fixtures")).expect("a link");
    dir
}

/// Whether `got` holds the parts of `want` in order; `…` stands for lines left out.
fn holds(got: &str, want: &str) -> Result<(), String> {
    let mut rest = got;
    for part in want.split("…\n").filter(|part| !part.is_empty()) {
        let at = rest.find(part).ok_or_else(|| part.to_string())?;
        rest = &rest[at + part.len()..];
    }
    Ok(())
}

/// Every command of a lab whose output is shown prints what the page says.
#[test]
fn the_labs_show_what_the_program_prints() {
    let mut ran = 0;
    for lab in labs() {
        let dir = desk();
        for (command, want) in steps(&read(&lab)) {
            let Some(want) = want else { continue };
            let args = words(&command);
            let got = qkv(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
            if let Err(part) = holds(&got, &want) {
                panic!("{}: `{command}` no longer prints:\n{part}\nbut\n{got}", lab.display());
            }
            ran += 1;
        }
    }
    assert!(ran >= 12, "only {ran} commands were found");
}

/// Every lab from its first command to its last, trainings in small.
#[test]
#[ignore = "slow: some thirty commands, trainings among them"]
fn the_labs_can_be_done() {
    let mut ran = 0;
    for lab in labs() {
        let (dir, steps) = (desk(), steps(&read(&lab)));
        if steps.iter().all(|(_, want)| want.is_some()) {
            continue; // the default tier has done it
        }
        for (command, _) in steps {
            let mut args = words(&command);
            common::in_small(&mut args);
            let told = qkv(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(!told.is_empty(), "{}: qkv {command} says nothing", lab.display());
            ran += 1;
        }
    }
    assert!(ran >= 15, "only {ran} commands were found");
}

/// A page to hand out has all its parts.
#[test]
fn every_lab_has_its_parts_and_its_row() {
    let contents = read(&root().join("docs/labs/README.md"));
    let all = labs();
    assert!(all.len() >= 10, "{} labs", all.len());
    for lab in all {
        let (text, name) = (read(&lab), lab.file_name().expect("a name").to_string_lossy().into_owned());
        for part in ["## Do\n", "## Ask yourself\n", "## What one should see\n"] {
            assert!(text.contains(part), "{name} has no `{}`", part.trim());
        }
        assert!(contents.contains(&format!("({name})")), "docs/labs/README.md does not name {name}");
    }
}
