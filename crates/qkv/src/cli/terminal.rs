//! What reaches the person: data on stdout, talk and progress on stderr. All of it goes through here, where what would
//! act on a terminal (control characters of a label, a tensor's name, a generated text) is shown instead of obeyed.

use super::fail::Fail;
use super::signals::interrupted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use qkv_base::{Error, printable};
use qkv_insight::render::terminal::Style;
use qkv_tasks::Listener;
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// Prints a line to stdout; a closed pipe (`| head`) ends the program quietly instead of with a panic.
pub(crate) fn say(line: impl std::fmt::Display) -> Result<(), Fail> {
    Ok(say_part(format!("{line}\n"))?)
}

/// Prints a text that is not a whole line yet, at once. A file or a pipe gets the very bytes; a terminal what it can show.
pub(crate) fn say_part(text: impl std::fmt::Display) -> Result<(), Error> {
    let (text, mut out) = (text.to_string(), std::io::stdout().lock());
    let shown = if out.is_terminal() { printable(&text) } else { text.as_str().into() };
    out.write_all(shown.as_bytes()).and_then(|()| out.flush()).map_err(Fail::stdout_error)
}

/// Prints lines that were painted for a terminal: colours stay, and everything else that a terminal would obey is shown.
pub(crate) fn say_painted(text: &str) -> Result<(), Fail> {
    let mut out = String::with_capacity(text.len());
    for (i, part) in text.split('\u{1b}').enumerate() {
        // `[1;38;5;17m` behind an escape is a colour.
        let colour = part.strip_prefix('[').and_then(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
            rest[end..].starts_with('m').then_some(end + 2)
        });
        match (i, colour) {
            (0, _) => out.push_str(&printable(part)),
            (_, Some(end)) => {
                out.push('\u{1b}');
                out.push_str(&part[..end]);
                out.push_str(&printable(&part[end..]));
            }
            (_, None) => out.push_str(&printable(&format!("\u{1b}{part}"))),
        }
    }
    out.push('\n');
    let mut stdout = std::io::stdout().lock();
    Ok(stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush()).map_err(Fail::stdout_error)?)
}

/// Tells a line on stderr. A closed stderr (a terminal that is gone) hears nothing, and that is no reason to stop.
pub(crate) fn talk(line: impl std::fmt::Display) {
    talk_part(format!("{line}\n"));
}

/// Tells a text on stderr that is not a whole line.
pub(crate) fn talk_part(text: impl std::fmt::Display) {
    let _ = std::io::stderr().lock().write_all(printable(&text.to_string()).as_bytes());
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
        self.bar.suspend(|| talk(format_args!("note: {note}")));
    }

    fn is_cancelled(&self) -> bool {
        interrupted()
    }
}
