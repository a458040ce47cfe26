//! Who watches a run: the loop tells what happens, observers write it down or show it. None of them can change it.

use crate::baseline::BaselineBeside;
use crate::cost::{CostCheck, Forecast};
use crate::hooks::ValidScore;
use crate::journal;
use crate::session::Beginning;
use qkv_base::{Error, Result};
use qkv_metric::EventFile;
use qkv_tasks::Judged;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// One step, as it is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// which, from 1
    pub step: u64,
    /// of how many
    pub steps: u64,
    /// the cross-entropy of the targets before the update, without smoothing: what a validation measures, too
    pub loss: f32,
    /// the mean of the losses since the last line of a log, this one with them: one batch says little
    pub mean_loss: f32,
    /// whether a line of a log is due: at every `train.log` steps, at the first and at the last
    pub logged: bool,
    /// what was minimised: the same, with label smoothing in it
    pub objective: f32,
    /// the learning rate
    pub rate: f32,
    /// the norm of the gradients before clipping
    pub norm: f32,
    /// tokens read so far
    pub tokens: u64,
    /// tokens read in this step
    pub step_tokens: u64,
    /// seconds that the step took
    pub took: f64,
    /// seconds of the whole run
    pub seconds: f64,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// a run begins
    Began(&'a Beginning),
    /// what the run will cost, measured before its first step; not of very short runs
    Forecast(&'a Forecast),
    /// something to be known
    Note(String),
    /// a step was done
    Step(StepReport),
    /// the validation side was looked at
    Valid {
        /// after which step
        step: u64,
        /// the mean loss
        loss: f64,
        /// the score that decides which network is the best, where it is not the loss
        score: Option<ValidScore>,
        /// whether none before was better
        best: bool,
    },
    /// examples with what the network says now
    Samples {
        /// after which step
        step: u64,
        /// some examples
        judged: &'a [Judged],
    },
    /// a step was skipped
    Skipped {
        /// which
        step: u64,
        /// why: the loss, the norm, the first bad parameter, and the batch
        why: String,
    },
    /// what counting words gets beside the network, at the end of a run that learnt classes of texts
    Baseline(&'a BaselineBeside),
    /// what the run cost, beside what was foretold
    Checked(&'a CostCheck),
    /// a checkpoint was written
    Saved {
        /// after which step
        step: u64,
    },
}

/// Somebody who watches.
pub trait Observer {
    /// Is told what happens.
    fn see(&mut self, event: &Event) -> Result<()>;
}

/// Nobody watches.
impl Observer for () {
    fn see(&mut self, _: &Event) -> Result<()> {
        Ok(())
    }
}

/// Any function can watch.
impl<F: FnMut(&Event) -> Result<()>> Observer for F {
    fn see(&mut self, event: &Event) -> Result<()> {
        self(event)
    }
}

/// `metrics.jsonl` (one object per logged step or validation) and `samples.jsonl`.
pub struct Journal {
    file: File,
    samples: File,
    /// the last step that was told
    step: u64,
}

impl Journal {
    /// Goes on with the journal of a run at `step`: what was written after it is forgotten, for it will be written again.
    pub fn open(dir: &Path, step: u64) -> Result<Self> {
        let open = |name: &str| {
            let path = dir.join(name);
            let fail = |e: std::io::Error| Error::write(path.display().to_string(), &e, "is it writable?");
            if path.exists() {
                let kept: String = BufReader::new(File::open(&path).map_err(fail)?)
                    .lines()
                    .map_while(std::result::Result::ok)
                    .filter(|line| step_of(line).is_some_and(|s| s <= step))
                    .map(|line| line + "\n")
                    .collect();
                qkv_weights::write_atomically(&path, kept.as_bytes())?;
            }
            OpenOptions::new().create(true).append(true).open(&path).map_err(fail)
        };
        Ok(Self { file: open(journal::FILE)?, samples: open("samples.jsonl")?, step })
    }

    fn put(file: &mut File, value: Value) -> Result<()> {
        // One write, so that a killed run leaves whole lines.
        file.write_all(format!("{value}\n").as_bytes())
            .map_err(|e| Error::write(journal::FILE, &e, "is the disk full?"))
    }
}

fn step_of(line: &str) -> Option<u64> {
    serde_json::from_str::<Value>(line).ok()?.get("step")?.as_u64()
}

impl Observer for Journal {
    fn see(&mut self, event: &Event) -> Result<()> {
        if let Event::Step(t) = event {
            self.step = t.step;
        }
        match event {
            Event::Forecast(forecast) => {
                let (seconds, memory) = (forecast.seconds(), forecast.memory);
                Self::put(
                    &mut self.file,
                    json!({"step": self.step, "forecast": {"seconds": seconds, "memory": memory}}),
                )
            }
            Event::Checked(checked) => Self::put(&mut self.file, json!({"step": self.step, "checked": checked})),
            Event::Step(t) if t.logged => {
                let speed = (t.step_tokens as f64 / t.took.max(1e-9)).round();
                let mut line = json!({
                    "step": t.step, "loss": t.mean_loss, "rate": t.rate, "norm": t.norm, "tokens": t.tokens,
                    "seconds": (t.seconds * 1e3).round() / 1e3, "tokens_per_s": speed,
                });
                if t.objective != t.loss {
                    line["objective"] = t.objective.into();
                }
                Self::put(&mut self.file, line)
            }
            Event::Valid { step, loss, score, best } => {
                let mut line = json!({"step": step, "valid_loss": loss, "best": best});
                if let Some(score) = score {
                    line[format!("valid_{}", score.metric.name())] = score.value.into();
                }
                Self::put(&mut self.file, line)
            }
            Event::Skipped { step, why } => Self::put(&mut self.file, json!({"step": step, "skipped": why})),
            Event::Samples { step, judged } => judged.iter().try_for_each(|j| {
                let line = json!({"step": step, "source": j.source, "expected": j.expected, "got": j.got});
                Self::put(&mut self.samples, line)
            }),
            _ => Ok(()),
        }
    }
}

/// TensorBoard's event file.
pub struct Board {
    file: EventFile,
}

impl Board {
    /// A new file in `dir`: TensorBoard reads all of a directory.
    pub fn create(dir: &Path) -> Result<Self> {
        Ok(Self { file: EventFile::create(dir, now(), "qkv")? })
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |t| t.as_secs_f64())
}

impl Observer for Board {
    fn see(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Step(t) if t.logged => {
                let speed = t.step_tokens as f64 / t.took.max(1e-9);
                let objective = (t.objective != t.loss).then_some(("train/objective", t.objective));
                let always = [
                    ("train/loss", t.mean_loss),
                    ("train/rate", t.rate),
                    ("train/norm", t.norm),
                    ("train/tokens_per_s", speed as f32),
                ];
                for (tag, value) in always.into_iter().chain(objective) {
                    self.file.scalar(t.step as i64, now(), tag, value)?;
                }
                Ok(())
            }
            Event::Valid { step, loss, score, .. } => {
                self.file.scalar(*step as i64, now(), "valid/loss", *loss as f32)?;
                if let Some(score) = score {
                    let tag = format!("valid/{}", score.metric.name());
                    self.file.scalar(*step as i64, now(), &tag, score.value as f32)?;
                }
                self.file.flush()
            }
            Event::Samples { step, judged } => {
                let text: Vec<String> = judged.iter().map(|j| format!("{} → {}", j.source, j.got)).collect();
                self.file.text(*step as i64, now(), "samples", &text.join("\n\n"))
            }
            Event::Saved { .. } => self.file.flush(),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(step: u64) -> Event<'static> {
        let (loss, objective, rate, norm) = (1.5, 1.75, 1e-3, 0.5);
        Event::Step(StepReport {
            step,
            steps: 9,
            loss,
            mean_loss: 1.25,
            logged: step == 1 || step.is_multiple_of(2),
            objective,
            rate,
            norm,
            tokens: 10,
            step_tokens: 10,
            took: 0.5,
            seconds: 1.0,
        })
    }

    #[test]
    fn a_journal_forgets_what_comes_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path(), 0).unwrap();
        (1..=6).for_each(|step| journal.see(&told(step)).unwrap());
        drop(journal);
        let mut journal = Journal::open(dir.path(), 4).unwrap();
        journal.see(&told(6)).unwrap();
        let text = std::fs::read_to_string(dir.path().join("metrics.jsonl")).unwrap();
        let steps: Vec<u64> = text.lines().filter_map(step_of).collect();
        assert_eq!(steps, [1, 2, 4, 6]);
        let checked = CostCheck { forecast: 2.0, seconds: 3.0, forecast_memory: 5, memory: Some(6) };
        journal.see(&Event::Checked(&checked)).unwrap();
        let last =
            std::fs::read_to_string(dir.path().join("metrics.jsonl")).unwrap().lines().last().unwrap().to_string();
        assert_eq!(step_of(&last), Some(6), "{last}");
        assert!(last.contains(r#""seconds":3.0"#) && last.contains(r#""forecast_memory":5"#), "{last}");
        assert!(text.contains(r#""loss":1.25"#) && text.contains(r#""objective":1.75"#), "{text}");
    }

    #[test]
    fn the_board_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut board = Board::create(dir.path()).unwrap();
        board.see(&told(1)).unwrap();
        board.see(&Event::Valid { step: 1, loss: 2.0, score: None, best: true }).unwrap();
        let path = board.file.path().to_path_buf();
        drop(board);
        assert_eq!(qkv_metric::read_events(&path).unwrap().iter().filter(|e| e.step == 1).count(), 6);
    }
}
