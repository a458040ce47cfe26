//! `qkv tokenizer train`: a tokenizer from files, or from a corpus that qkv makes itself.

pub(crate) use super::flags::Args;

use super::flags::spec;
use super::source::lines;
use crate::cli::fail::Fail;
use crate::cli::terminal::{say, talk};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use qkv::inspect::numbers::{bytes, grouped};
use qkv_base::Error;
use qkv_base::must_be_free;
use qkv_runs::memory;
use qkv_text::{Kind, Progress, TrainSpec, Trained, train};
use serde_json::json;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Instant;

pub(super) fn run(args: &Args) -> Result<(), Fail> {
    let start = Instant::now();
    // What would fail at the end is found before the work.
    door(&args.out, args.force)?;
    let lines = lines(args)?;
    let spec = spec(args);
    let mut failed = None;
    let lines = lines.map_while(|line| line.map_err(|error| failed = Some(error)).ok());
    let bar = bar();
    let trained = train(lines, &spec, &mut |progress| bar.set_message(said(progress)));
    bar.finish_and_clear();
    if let Some(error) = failed {
        return Err(error.into());
    }
    let trained = trained?;
    save(&trained, &args.out)?;
    tell(args, &spec, &trained, start.elapsed().as_secs_f64())
}

fn is_file(out: &Path) -> bool {
    out.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"))
}

/// Refuses to write over something, or where nothing can be written.
fn door(out: &Path, force: bool) -> Result<(), Fail> {
    let file = if is_file(out) { out.to_path_buf() } else { out.join("tokenizer.json") };
    must_be_free(&file, force)?;
    let parent = if is_file(out) { out.parent() } else { Some(out) }.filter(|p| !p.as_os_str().is_empty());
    let Some(parent) = parent else { return Ok(()) };
    let cannot = |e: std::io::Error| {
        Error::write(parent.display().to_string(), &e, "name a directory that can be made and written to")
    };
    Ok(std::fs::create_dir_all(parent).map_err(cannot)?)
}

fn save(trained: &Trained, out: &Path) -> Result<(), Fail> {
    if !is_file(out) {
        return Ok(trained.tokenizer.save(out)?);
    }
    let cannot = |e: std::io::Error| Error::write(out.display().to_string(), &e, "is the disk full?");
    Ok(std::fs::write(out, trained.tokenizer.to_json()?).map_err(cannot)?)
}

fn tell(args: &Args, spec: &TrainSpec, trained: &Trained, seconds: f64) -> Result<(), Fail> {
    let (pieces, out) = (trained.tokenizer.vocab_size(), args.out.display());
    if pieces < args.vocab {
        let few = format!("note: {} pieces of {}: ", grouped(pieces), grouped(args.vocab));
        talk(format_args!("{few}the text has no more that come {} times or more", spec.min_frequency.max(1)));
    }
    if args.json {
        return say(json!({
            "out": args.out, "pieces": pieces, "lines": trained.lines, "bytes": trained.bytes, "kept": trained.kept,
            "words": trained.words, "seconds": seconds, "memory": memory::peak(),
        }));
    }
    let drawn = if trained.kept < trained.lines { format!("{} of ", grouped(trained.kept)) } else { String::new() };
    let (lines, read, words) = (grouped(trained.lines), bytes(trained.bytes), grouped(trained.words));
    let most = memory::peak().map_or(String::new(), |n| format!(", {} of memory at most", bytes(n)));
    let unit = if spec.kind == Kind::Char { "characters" } else { "words" };
    talk(format_args!("learnt from {drawn}{lines} lines, {read}, {words} different {unit}, in {seconds:.1} s{most}"));
    say(format!("{out}: {} pieces", grouped(pieces)))
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

fn said(progress: Progress) -> String {
    let held = memory::resident().map_or(String::new(), |n| format!("; {} of memory", bytes(n)));
    match progress {
        Progress::Reading { lines, bytes: n } => format!("reading: {} lines, {}{held}", grouped(lines), bytes(n)),
        Progress::Counted { words } => format!("counted {} different words{held}", grouped(words)),
        Progress::Learning { pieces, goal } => {
            format!("learning: {} pieces of {}{held}", grouped(pieces), grouped(goal))
        }
    }
}
