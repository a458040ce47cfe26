//! What reaches the person: data on stdout, talk and progress on stderr.

use super::fail::Fail;
use super::signals::interrupted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use qkv_insight::render::terminal::Style;
use qkv_tasks::Listener;
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// Prints a line to stdout; a closed pipe (`| head`) ends the program quietly instead of with a panic.
pub(crate) fn say(line: impl std::fmt::Display) -> Result<(), Fail> {
    writeln!(std::io::stdout().lock(), "{line}").map_err(Fail::stdout)
}

/// Prints a value as one line of JSON.
pub(crate) fn say_json(value: &impl Serialize) -> Result<(), Fail> {
    say(serde_json::to_string(value).map_err(|e| Fail::failed("json", e, ""))?)
}

/// How stdout is to be written to: as wide as its window (or `COLUMNS`, or 100), in colour on a terminal that wants it.
pub(crate) fn style() -> Style {
    let terminal = std::io::stdout().is_terminal();
    let told = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    let asked = std::env::var("COLUMNS").ok().and_then(|n| n.parse().ok());
    let width = told.filter(|n| *n > 0).or(asked).unwrap_or(100);
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    Style::new(width, terminal && !set("NO_COLOR") && !dumb)
}

/// A bar on a terminal, when there is something to wait for.
pub(crate) fn progress(n: usize, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(n as u64), ProgressDrawTarget::stderr());
    if n < 2 || !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {per_sec} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.with_message(what)
}

/// Shows the progress of a task, and stops it at Ctrl-C.
pub(crate) struct Watch {
    bar: ProgressBar,
}

impl Watch {
    pub(crate) fn new(n: usize, what: &'static str) -> Self {
        Self { bar: progress(n, what) }
    }
}

impl Listener for Watch {
    fn progress(&mut self, done: usize, all: usize) {
        self.bar.set_position(done as u64);
        if done >= all {
            self.bar.finish_and_clear();
        }
    }

    fn note(&mut self, note: &str) {
        self.bar.suspend(|| eprintln!("note: {note}"));
    }

    fn is_cancelled(&self) -> bool {
        interrupted()
    }
}
