//! The numbers a task is judged by, and what came of a judgement.
//!
//! Every example leaves a row of counts, and the score is a function of the sum of the rows: so intervals and comparisons
//! draw from the rows, and no network is asked twice.

use crate::sheet;
use qkv_base::{Error, Result, Task, nearest};
use serde::Serialize;
use std::collections::BTreeMap;

/// What one number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// the mean loss of a target in nats; lower is better
    Loss,
    /// `exp(loss)`: per token, lower is better
    Perplexity,
    /// the same per byte of text, which compares networks of different tokenizers
    BytePerplexity,
    /// bits per byte of text
    BitsPerByte,
    /// sacreBLEU's BLEU
    Bleu,
    /// chrF
    Chrf,
    /// translation edit rate; lower is better
    Ter,
    /// ROUGE-1
    Rouge1,
    /// ROUGE-2
    Rouge2,
    /// ROUGE-L
    RougeL,
    /// share of right answers (of tokens, for language models), in percent
    Accuracy,
    /// macro F1 of classes, F1 of entities, or of the words of answers, in percent
    F1,
    /// F1 over all classes together, in percent
    MicroF1,
    /// whole outputs or answers that are right, in percent
    Exact,
    /// programs that do what they should when they are run, in percent
    Runs,
    /// tags that are closed in their turn, in percent of those that had to be
    Closed,
}

impl Metric {
    const ALL: [(&'static str, Metric); 16] = [
        ("loss", Metric::Loss),
        ("perplexity", Metric::Perplexity),
        ("byte-perplexity", Metric::BytePerplexity),
        ("bits-per-byte", Metric::BitsPerByte),
        ("bleu", Metric::Bleu),
        ("chrf", Metric::Chrf),
        ("ter", Metric::Ter),
        ("rouge-1", Metric::Rouge1),
        ("rouge-2", Metric::Rouge2),
        ("rouge-l", Metric::RougeL),
        ("accuracy", Metric::Accuracy),
        ("f1", Metric::F1),
        ("micro-f1", Metric::MicroF1),
        ("exact", Metric::Exact),
        ("runs", Metric::Runs),
        ("closed", Metric::Closed),
    ];

    /// The metric of this name.
    ///
    /// ```
    /// use qkv_tasks::Metric;
    /// assert_eq!(Metric::parse("bleu")?, Metric::Bleu);
    /// assert!(Metric::parse("belu").unwrap_err().hint.contains("`bleu`"));
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn parse(name: &str) -> Result<Self> {
        let names = Self::ALL.map(|(name, _)| name);
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, m)| m).ok_or_else(|| {
            let near = nearest(name, names).unwrap_or_default();
            let hint = format!("did you mean `{near}`? there are {}", names.join(", "));
            Error::new("eval.metric", format!("there is no metric `{name}`"), hint)
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, m)| *m == self).map_or("", |(name, _)| name)
    }

    /// Whether `score` is as good as `goal`.
    pub fn reaches(self, score: f64, goal: f64) -> bool {
        if self.is_cost() { score <= goal } else { score >= goal }
    }

    /// Whether less is better.
    pub fn is_cost(self) -> bool {
        matches!(self, Self::Loss | Self::Ter | Self::Perplexity | Self::BytePerplexity | Self::BitsPerByte)
    }

    /// The complaint that a task is not judged by this metric, but by those.
    pub fn missing<'a>(self, place: &str, there: impl Iterator<Item = &'a str>) -> Error {
        let hint = format!("it has {}", there.collect::<Vec<_>>().join(", "));
        Error::new(place, format!("the task has no `{}`", self.name()), hint)
    }

    /// What a task can be judged by.
    pub fn of(task: Task) -> &'static [Self] {
        sheet::of(task).metrics
    }

    /// The one number that a task is judged by: the one whose interval is drawn.
    pub fn main(task: Task) -> Self {
        sheet::of(task).main
    }

    /// The main score of a task from the sum of the counts of its examples.
    pub fn of_counts(task: Task, sum: &[f64]) -> f64 {
        (sheet::of(task).of_counts)(sum)
    }
}

/// One example with what the network made of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Judged {
    /// what it was given
    pub source: String,
    /// what is right; empty for a language model, which is judged by the text itself
    pub expected: String,
    /// what it said
    pub got: String,
    /// how good that is, more is better: chrF of a sentence, F1 of an answer, the share of right tags, the logarithm of
    /// the probability of the right class or (per token) of the text
    pub score: f64,
    /// where one class was chosen: how probable each was
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub probabilities: BTreeMap<String, f64>,
    /// what the main score of the task adds up
    #[serde(skip)]
    pub counts: Vec<f64>,
}

/// What came of a judgement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// each metric of the task
    pub values: BTreeMap<String, f64>,
    /// every example (for a language model, every row of its text)
    #[serde(skip)]
    pub judged: Vec<Judged>,
    /// examples that could not be judged, and why
    pub left_out: BTreeMap<String, usize>,
    /// how the main score was computed
    pub signature: Option<String>,
    /// a table of classes
    #[serde(skip)]
    pub table: Option<String>,
}

impl Scores {
    /// The value of a metric, an error where the task has no such one.
    pub fn get(&self, metric: Metric) -> Result<f64> {
        self.values
            .get(metric.name())
            .copied()
            .ok_or_else(|| metric.missing("eval.metric", self.values.keys().map(String::as_str)))
    }

    pub(crate) fn put<const N: usize>(&mut self, values: [(Metric, f64); N]) {
        self.values.extend(values.map(|(metric, value)| (metric.name().to_string(), value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_good_when_it_is_small() {
        assert!(Metric::Loss.reaches(1.8, 1.9) && !Metric::Loss.reaches(2.0, 1.9) && Metric::Bleu.reaches(91.0, 90.0));
    }

    #[test]
    fn counts_give_the_main_score() {
        assert_eq!(Metric::of_counts(Task::Classify, &[3.0, 4.0]), 75.0);
        assert_eq!(Metric::of_counts(Task::Tag, &[2.0, 4.0, 4.0]), 50.0);
        assert_eq!(Metric::of_counts(Task::Tag, &[0.0, 0.0, 0.0]), 0.0);
        assert_eq!(Metric::of_counts(Task::NextToken, &[6.0, 3.0]), 2.0);
    }
}
