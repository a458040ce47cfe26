//! Judging a model on data: every score of its task, an interval, and whether it is better than another by more than
//! chance.

use crate::raw;
use qkv_base::{Error, Key, Result, Task};
use qkv_data::Corpus;
use qkv_metric::{Comparison, Interval, Resampling};
use qkv_model::Precision;
use qkv_runs::Evaluation;
use qkv_tasks::{Metric, Scores, Writing};
use qkv_train::on_threads;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How a model is judged.
#[derive(Clone, Debug, Default)]
pub struct Evaluate {
    /// only these scores; empty: all of the task
    pub metrics: Vec<Metric>,
    /// which column of a table holds a field, where it has another name
    pub columns: BTreeMap<String, String>,
    /// examples at most; 0: all
    pub examples: usize,
    /// tokens of a row at most; 0: as the run had them, or as the network allows
    pub length: usize,
    /// what stands before every source
    pub prefix: String,
    /// how texts are written; as the verb would, unless something else is said
    pub writing: Writing,
    /// how many bits the model's matrices take; those of the other model are as its file has them
    pub weights: Precision,
    /// another model to compare with
    pub compare: Option<PathBuf>,
    /// threads; 0: one for each core
    pub threads: usize,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// where the model is
    pub model: PathBuf,
    /// what it was asked
    pub task: Task,
    /// every score, and every example with what was said
    pub scores: Scores,
    /// the number that the task is judged by
    pub main: &'static str,
    /// 95 % of it, by 1,000 draws
    pub interval: Option<Interval>,
    /// the other model's scores
    pub other: Option<Scores>,
    /// a paired test of the two
    pub compared: Option<Comparison>,
}

/// Judges the model (or run) at `path` on `data`: a file, or `builtin:NAME`, whose unseen test is taken.
pub fn evaluate(path: impl AsRef<Path>, data: &str, how: &Evaluate) -> Result<Evaluated> {
    let path = path.as_ref();
    on_threads(how.threads, || judge(path, data, how))?
}

fn judge(path: &Path, data: &str, how: &Evaluate) -> Result<Evaluated> {
    let trial = Evaluation::new(raw::load_packed(path, how.weights)?, path, how.length, &how.prefix)?;
    if !qkv_tasks::sheet::of(trial.task).writes() && how.writing != Writing::default() {
        let what = format!("is asked for, but {} is judged without writing a text", trial.task.name());
        return Err(Error::new("a chain or a beam", what, "leave out the flags of chain and beam"));
    }
    let corpus = trial.corpus(data, &how.columns, how.examples)?;
    let mut scores = trial.scores(&*corpus, &how.writing)?;
    how.metrics.iter().try_for_each(|m| scores.get(*m).map(|_| ()))?;
    if !how.metrics.is_empty() {
        scores.values.retain(|name, _| how.metrics.iter().any(|m| m.name() == name));
    }
    let n = scores.judged.len();
    let other = how.compare.as_ref().map(|path| rival(path, how, &trial, &*corpus, n)).transpose()?;
    let (task, counts) = (trial.task, rows(&scores));
    let value = |sum: &[f64]| Metric::of_counts(task, sum);
    let interval = match counts.is_empty() {
        true => None,
        false => Some(qkv_metric::interval(&counts, value, 1000, Key::new(12345, 0, 0))?),
    };
    let how = Resampling::Randomisation { trials: 10_000, seed: 12345 };
    let compared = match &other {
        Some(other) if !counts.is_empty() => Some(qkv_metric::compare(&counts, &rows(other), value, how)?),
        _ => None,
    };
    Ok(Evaluated { model: trial.model.path, task, scores, main: Metric::main(task).name(), interval, other, compared })
}

/// Examples whose source has so many words, and how they were answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LengthGroup {
    /// words of the shortest source
    pub from: usize,
    /// words of the longest source
    pub to: usize,
    /// how many examples
    pub examples: usize,
    /// the main score of the task on them
    pub score: f64,
    /// the share that was answered exactly, in percent; none for a language model, which is given nothing
    pub exact: Option<f64>,
}

impl Evaluated {
    /// The main score by the length of what was given, in up to `most` groups of about as many examples.
    pub fn by_length(&self, most: usize) -> Vec<LengthGroup> {
        let words = |j: &qkv_tasks::Judged| j.source.split_whitespace().count();
        let mut sorted: Vec<&qkv_tasks::Judged> = self.scores.judged.iter().filter(|j| !j.counts.is_empty()).collect();
        sorted.sort_by_key(|j| words(j));
        let (mut groups, mut rest): (Vec<LengthGroup>, &[&qkv_tasks::Judged]) = (vec![], &sorted);
        while let Some(first) = rest.first() {
            let left = most.max(1).saturating_sub(groups.len()).max(1);
            let last = words(rest[rest.len().div_ceil(left).min(rest.len()) - 1]);
            // Sources of one length stay together.
            let end = rest.partition_point(|j| words(j) <= last);
            let here = &rest[..end];
            let mut sum = vec![0.0; first.counts.len()];
            here.iter().for_each(|j| sum.iter_mut().zip(&j.counts).for_each(|(s, c)| *s += c));
            let right = here.iter().filter(|j| j.got == j.expected).count();
            let exact = (self.task != Task::NextToken).then(|| 100.0 * right as f64 / here.len() as f64);
            let score = Metric::of_counts(self.task, &sum);
            groups.push(LengthGroup { from: words(first), to: last, examples: here.len(), score, exact });
            rest = &rest[end..];
        }
        groups
    }
}

/// A row of counts for each example, whose sum gives the main score.
fn rows(scores: &Scores) -> Vec<Vec<f64>> {
    scores.judged.iter().map(|j| j.counts.clone()).collect()
}

/// The other model on the same examples; it must have been asked the same.
fn rival(path: &Path, how: &Evaluate, trial: &Evaluation, corpus: &dyn Corpus, n: usize) -> Result<Scores> {
    let other = Evaluation::new(raw::load(path)?, path, how.length, &how.prefix)?;
    let place = format!("--compare {}", path.display());
    if other.task != trial.task {
        let what = format!("it learnt {}, the first model {}", other.task.name(), trial.task.name());
        return Err(Error::new(place, what, "compare models of one task"));
    }
    let scores = other.scores(corpus, &how.writing)?;
    if scores.judged.len() != n {
        let what = format!("it was judged by {} rows, the first model by {n}", scores.judged.len());
        let hint = "language models are compared row by row: give both one tokenizer and one --length";
        return Err(Error::new(place, what, hint));
    }
    Ok(scores)
}
