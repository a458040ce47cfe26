//! The baseline beside a classifier: TF-IDF and logistic regression, learnt in seconds from the same rows and judged by the
//! same test, so that a person sees whether the network is worth its time.

use crate::corpus::Splits;
use qkv_base::{Error, Result, Task};
use qkv_data::{Corpus, Example};
use qkv_tasks::{Metric, Scores};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The most rows that the baseline learns from: with more it would take longer than seconds, and gains nothing.
pub(crate) const MOST: usize = 100_000;

/// What counting words gets, beside what the network gets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaselineBeside {
    /// right answers of the baseline in percent
    pub accuracy: f64,
    /// its macro F1 in percent
    pub f1: f64,
    /// always saying the most frequent class, in percent
    pub majority: f64,
    /// right answers of the network in percent
    pub network: f64,
    /// rows of the test
    pub examples: usize,
    /// rows that it learnt from
    pub learnt_from: usize,
    /// how long it took
    #[serde(serialize_with = "seconds", rename = "seconds")]
    pub took: Duration,
}

fn seconds<S: serde::Serializer>(took: &Duration, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_f64(took.as_secs_f64())
}

impl BaselineBeside {
    /// The baseline of a plan whose network scored `test`; none for tasks that are not about classes of texts.
    pub fn of(task: Task, splits: &Splits, test: &Scores) -> Result<Option<Self>> {
        if !matches!(task, Task::Classify | Task::ClassifyPair) {
            return Ok(None);
        }
        let start = Instant::now();
        let train = rows(&*splits.train, MOST)?;
        let judged = rows(&*splits.test, usize::MAX)?;
        let scores = qkv_vectors::baseline(&train, &judged)?;
        Ok(Some(Self {
            accuracy: 100.0 * scores.accuracy(),
            f1: 100.0 * scores.scores.averages.macro_.f1,
            majority: 100.0 * scores.majority,
            network: test.get(Metric::Accuracy)?,
            examples: scores.valid,
            learnt_from: scores.train,
            took: start.elapsed(),
        }))
    }

    /// Two deviations of the difference of two shares of so many examples, in points: what chance alone can do.
    fn chance(&self) -> f64 {
        let p = (self.accuracy + self.network) / 200.0;
        200.0 * (2.0 * p * (1.0 - p) / self.examples.max(1) as f64).sqrt()
    }
}

impl std::fmt::Display for BaselineBeside {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Self { accuracy, majority, network, examples, took, .. } = self;
        let points = network - accuracy;
        let verdict = match points {
            p if p.abs() <= self.chance() => {
                format!("the network, {network:.2}, is not different by more than chance on {examples} examples")
            }
            p if p > 0.0 => format!("the network, {network:.2}, is better by {p:.1} points"),
            p => format!(
                "the network, {network:.2}, is worse by {:.1} points: counting words is the better classifier",
                -p
            ),
        };
        write!(
            f,
            "baseline: counting words (TF-IDF, logistic regression) gets {accuracy:.2} in {:.1} s, always the most frequent class \
             {majority:.2}; {verdict}",
            took.as_secs_f64()
        )
    }
}

/// How long the baseline takes with these rows; none for tasks that are not about classes of texts, and where it cannot be learnt,
/// which the run will say.
pub(crate) fn seconds_of(task: Task, splits: &Splits) -> Result<Option<f64>> {
    if !matches!(task, Task::Classify | Task::ClassifyPair) {
        return Ok(None);
    }
    let start = Instant::now();
    let (train, judged) = (rows(&*splits.train, MOST)?, rows(&*splits.test, usize::MAX)?);
    Ok(qkv_vectors::baseline(&train, &judged).ok().map(|_| start.elapsed().as_secs_f64()))
}

/// Texts with their classes; of a pair both texts, one behind the other.
fn rows(corpus: &dyn Corpus, most: usize) -> Result<Vec<(String, String)>> {
    let row = |example: Result<Example>| match example? {
        Example::Labelled { text, label } => Ok((text, label)),
        Example::LabelledPair { first, second, label } => Ok((format!("{first} {second}"), label)),
        other => Err(Error::internal("baseline", format!("a row without a label: {}", other.text()))),
    };
    corpus.examples().take(most).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Data;

    #[test]
    fn both_scores_are_told_with_which_is_better() {
        let data = Data {
            corpus: "builtin:topics".into(),
            objective: Task::Classify,
            examples: 400,
            test: 100,
            ..Data::default()
        };
        let splits = Splits::open(&data, 1).expect("a corpus");
        let mut test = Scores::default();
        test.values.insert("accuracy".into(), 10.0);
        let low = BaselineBeside::of(Task::Classify, &splits, &test).expect("a baseline").expect("classes of texts");
        assert!(low.accuracy > 80.0 && low.majority < 40.0, "{low:?}");
        assert!(low.to_string().contains("is worse by") && low.to_string().contains("10.00"), "{low}");
        let same = BaselineBeside { network: low.accuracy + 0.5, ..low.clone() };
        assert!(same.to_string().contains("not different by more than chance on 100 examples"), "{same}");
        let high = BaselineBeside { network: 99.0, accuracy: 75.0, ..low };
        assert!(high.to_string().ends_with("the network, 99.00, is better by 24.0 points"), "{high}");
        assert_eq!(BaselineBeside::of(Task::Tag, &splits, &test).expect("nothing to do"), None);
    }
}
