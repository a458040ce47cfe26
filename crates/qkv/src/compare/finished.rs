//! One run of a comparison, as it is kept beside its model: what is needed to put it side by side with others later.

use crate::{Outcome, Result};
use qkv_base::{Error, MOST_TEXT, read_text};
use qkv_tasks::Metric;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What came of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// which of the entries
    pub label: String,
    /// where it is kept
    pub dir: PathBuf,
    /// the seed of this one
    pub seed: u64,
    /// the scores on each unseen side, by metric
    pub scores: BTreeMap<String, BTreeMap<String, f64>>,
    /// numbers of the network
    pub parameters: u64,
    /// steps that were asked for
    pub steps: u64,
    /// seconds of training
    pub seconds: f64,
    /// bytes of weights, gradients, moments and a pass
    pub memory: u64,
    /// every example of the test
    pub examples: Vec<OneExample>,
    /// some texts: what was given, what is right, what was said
    pub samples: Vec<[String; 3]>,
}

/// One example of the test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OneExample {
    /// words that were given
    pub words: usize,
    /// whether what was said is what is right
    pub exact: bool,
    /// what the main score of the task adds up
    pub counts: Vec<f64>,
}

const FILE: &str = "finished.json";

impl Finished {
    /// Of a run that has come to its end.
    pub(super) fn of(label: &str, seed: u64, parameters: u64, steps: u64, outcome: &Outcome) -> Self {
        let example = |j: &qkv_tasks::Judged| OneExample {
            words: j.source.split_whitespace().count(),
            exact: j.got == j.expected,
            counts: j.counts.clone(),
        };
        let sample = |j: &qkv_tasks::Judged| [j.source.clone(), j.expected.clone(), j.got.clone()];
        let judged = outcome.scores.first().map(|(_, scores)| scores.judged.as_slice()).unwrap_or_default();
        Self {
            label: label.into(),
            dir: outcome.dir.clone(),
            seed,
            scores: outcome.scores.iter().map(|(side, s)| (side.clone(), s.values.clone())).collect(),
            parameters,
            steps,
            seconds: outcome.seconds,
            memory: 0,
            examples: judged.iter().map(example).collect(),
            samples: outcome.samples.iter().take(3).map(sample).collect(),
        }
    }

    /// Writes it down beside its model.
    pub(super) fn save(&self) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|e| Error::internal(FILE, e.to_string()))?;
        qkv_weights::write_atomically(&self.dir.join(FILE), &text)
    }

    /// What was written down in `dir`, if that run came to its end.
    pub(super) fn load(dir: &Path) -> Option<Self> {
        let text = read_text(&dir.join(FILE), MOST_TEXT, "").ok()?;
        let held: Self = serde_json::from_str(&text).ok()?;
        Some(Self { dir: dir.to_path_buf(), ..held })
    }

    /// A score on an unseen side.
    pub fn score(&self, side: &str, metric: Metric) -> Option<f64> {
        self.scores.get(side)?.get(metric.name()).copied()
    }

    /// (what stands under `across`, the loss) of every line of its journal.
    pub(super) fn losses(&self, across: &str) -> Result<Vec<(f64, f64)>> {
        Ok(qkv_runs::journal::read(&self.dir)?.points(across, "loss"))
    }
}
