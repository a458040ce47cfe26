//! A run as it is seen on stderr: a picture that moves on a terminal, plain lines elsewhere.

use qkv_base::{Error, printable};
use qkv_metric::{Eta, Status, curve};
use qkv_runs::memory;
use qkv_runs::observe::{Event, Observer, StepReport};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shows a run. A closed stderr is not a reason to stop learning: what cannot be written is not written.
pub(crate) struct Show {
    telling: Telling,
    eta: Eta,
    losses: Vec<(f64, f64)>,
    valid: Option<String>,
    samples: Vec<String>,
    /// lines of the picture that stand on the screen
    drawn: usize,
    last: Option<Instant>,
}

/// How much is told, and how.
#[derive(Clone, Copy, PartialEq)]
enum Telling {
    /// a picture that is drawn over itself
    Live,
    /// a line at a time
    Lines,
    /// warnings only
    Quiet,
}

impl Show {
    /// One that tells all, or warnings only.
    pub(crate) fn new(quiet: bool) -> Self {
        let live = std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        Self::telling(match (quiet, live) {
            (true, _) => Telling::Quiet,
            (_, true) => Telling::Live,
            (_, false) => Telling::Lines,
        })
    }

    fn telling(telling: Telling) -> Self {
        let (losses, samples) = (vec![], vec![]);
        Self { telling, eta: Eta::default(), losses, valid: None, samples, drawn: 0, last: None }
    }

    fn status(&self, t: &StepReport) -> Status {
        Status {
            step: t.step,
            steps: Some(t.steps),
            loss: t.mean_loss.into(),
            learning_rate: t.rate.into(),
            gradient_norm: Some(t.norm.into()),
            speed: Some(t.step_tokens as f64 / t.took.max(1e-9)),
            memory: memory::resident(),
            eta: self.eta.left(t.steps - t.step),
        }
    }

    /// Puts lines above the picture.
    pub(crate) fn line(&mut self, line: &str) {
        let wipe = self.wipe();
        let _ = writeln!(std::io::stderr().lock(), "{wipe}{}", printable(line));
    }

    /// What takes the picture off the screen.
    fn wipe(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            n => format!("\x1b[{n}A\x1b[J"),
        }
    }

    fn draw(&mut self, t: &StepReport) {
        let lines = self.picture(t, size());
        let text = format!("{}{}\n", self.wipe(), lines.join("\n"));
        let _ = write!(std::io::stderr().lock(), "{text}");
        self.drawn = lines.len();
    }

    /// The curve, the numbers, and what the network says now: never wider or higher than the screen, where a line too
    /// many would push the picture off it.
    fn picture(&self, t: &StepReport, [width, height]: [usize; 2]) -> Vec<String> {
        let below = 1 + usize::from(self.valid.is_some());
        let samples = self.samples.len().min(height.saturating_sub(below + 5));
        let high = height.saturating_sub(below + samples + 1).clamp(3, 10);
        let mut lines = curve(&self.losses, width.clamp(20, 100), high);
        lines.push(self.status(t).line(width));
        lines.extend(self.valid.clone());
        lines.extend(self.samples.iter().take(samples).cloned());
        lines.into_iter().map(|line| printable(&line).chars().take(width).collect()).collect()
    }

    /// The picture stays where it is; what comes is written below it.
    pub(crate) fn end(&mut self) {
        self.drawn = 0;
    }
}

/// Columns and rows of the terminal, the last column left free: a full line would break.
fn size() -> [usize; 2] {
    let from = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok()).filter(|n| *n > 0);
    let told = rustix::termios::tcgetwinsize(std::io::stderr()).ok().filter(|w| w.ws_col > 0 && w.ws_row > 0);
    let (columns, rows) = match told {
        Some(size) => (size.ws_col.into(), size.ws_row.into()),
        None => (from("COLUMNS").unwrap_or(100), from("LINES").unwrap_or(40)),
    };
    [columns.saturating_sub(1).max(20), rows]
}

/// A text on one line.
fn flat(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl Observer for Show {
    fn see(&mut self, event: &Event) -> Result<(), Error> {
        match event {
            _ if self.telling == Telling::Quiet && !matches!(event, Event::Skipped { .. }) => {}
            Event::Began(beginning) => {
                // One show may tell of several runs, one after the other: each begins with nothing behind it.
                *self = Self::telling(self.telling);
                beginning.lines().iter().for_each(|line| self.line(line));
            }
            Event::Forecast(forecast) => forecast.lines().iter().for_each(|line| self.line(line)),
            Event::Note(note) => self.line(note),
            Event::Step(t) => {
                self.eta.step(Duration::from_secs_f64(t.took.max(0.0)));
                self.losses.push((t.step as f64, t.loss.into()));
                let due = self.last.is_none_or(|at| at.elapsed() > Duration::from_millis(250)) || t.step == t.steps;
                let live = self.telling == Telling::Live;
                if live && due {
                    self.last = Some(Instant::now());
                    self.draw(t);
                } else if !live && t.logged {
                    let line = self.status(t).line(usize::MAX);
                    self.line(&line);
                }
            }
            Event::Valid { step, loss, score, best } => {
                let mark = if *best { ", the best so far" } else { "" };
                let score = score.map_or(String::new(), |s| format!(", {} {:.2}", s.metric.name(), s.value));
                let line = format!("step {step} · validation loss {loss:.4}{score}{mark}");
                if self.telling == Telling::Live { self.valid = Some(line) } else { self.line(&line) }
            }
            Event::Saved { .. } | Event::Baseline(_) | Event::Checked(_) => {}
            Event::Samples { judged, .. } => {
                // What is right is said, too, where it is short: a class, an answer.
                let right =
                    |j: &qkv::Judged| match j.got == j.expected || j.expected.is_empty() || j.expected.len() > 40 {
                        true => String::new(),
                        false => format!("   = {}", flat(&j.expected)),
                    };
                let told = judged
                    .iter()
                    .flat_map(|j| [format!("  {}", flat(&j.source)), format!("  → {}{}", flat(&j.got), right(j))]);
                self.samples = told.collect();
                if self.telling == Telling::Lines {
                    let samples = std::mem::take(&mut self.samples);
                    samples.iter().for_each(|s| self.line(s));
                }
            }
            Event::Skipped { step, why } => self.line(&format!("warning: step {step} was skipped: {why}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(step: u64) -> StepReport {
        let (loss, rate, norm) = (9.0 / step as f32, 1e-3, 0.5);
        StepReport {
            step,
            steps: 99,
            loss,
            mean_loss: loss / 2.0,
            logged: true,
            objective: loss,
            rate,
            norm,
            tokens: 10,
            step_tokens: 10,
            took: 0.5,
            seconds: 1.0,
        }
    }

    #[test]
    fn a_picture_fits_the_screen() {
        let mut show = Show::telling(Telling::Live);
        for step in 1..40 {
            show.losses.push((step as f64, 9.0 / step as f64));
        }
        show.valid = Some("validation".into());
        show.samples = (0..6).map(|i| format!("{i} {}", "long ".repeat(50))).collect();
        for [width, height] in [[79, 24], [20, 8], [200, 50], [40, 12]] {
            let lines = show.picture(&told(39), [width, height]);
            assert!(lines.len() < height, "{} lines on {height}", lines.len());
            assert!(lines.iter().all(|l| l.chars().count() <= width), "{lines:?}");
            assert!(lines.iter().any(|l| l.starts_with("step 39/99")), "{lines:?}");
        }
        assert_eq!(show.picture(&told(39), [79, 50]).len(), 10 + 1 + 1 + 6);
        assert_eq!(flat("a\nb\tc"), "a b c");
        assert_eq!(show.status(&told(3)).loss, 1.5, "the mean since the last line, not one batch");
    }
}
