//! One label per example: accuracy, precision, recall and F1 of every label and their three averages, and who is taken
//! for whom.
//!
//! ```text
//! precision = right / predicted        recall = right / present        F1 = 2·right / (predicted + present)
//! micro: counts of all labels together (here the accuracy)  ·  macro: mean over labels  ·  weighted: by presence
//! ```
//! An empty denominator gives 0, as in scikit-learn.

use qkv_base::{Error, Result};
use serde::Serialize;

use crate::additive::same_length;

/// Precision, recall and F1, each from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LabelScore {
    /// right of those predicted
    pub precision: f64,
    /// right of those present
    pub recall: f64,
    /// their harmonic mean
    pub f1: f64,
    /// how many are present
    pub support: usize,
}

impl LabelScore {
    /// From the counts of right, predicted and present.
    pub(crate) fn new(right: usize, predicted: usize, present: usize) -> Self {
        let over = |a: usize, b: usize| if b == 0 { 0.0 } else { a as f64 / b as f64 };
        Self {
            precision: over(right, predicted),
            recall: over(right, present),
            f1: over(2 * right, predicted + present),
            support: present,
        }
    }
}

/// The averages of several labels' scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Averages {
    /// of all counts together
    pub micro: LabelScore,
    /// every label alike
    pub macro_: LabelScore,
    /// every label by its support
    pub weighted: LabelScore,
}

impl Averages {
    /// From `[right, predicted, present]` of each label.
    pub(crate) fn new(counts: &[[usize; 3]]) -> Self {
        let total = |i: usize| counts.iter().map(|count| count[i]).sum::<usize>();
        let scores: Vec<LabelScore> = counts.iter().map(|[a, b, c]| LabelScore::new(*a, *b, *c)).collect();
        let mean = |weight: &dyn Fn(&LabelScore) -> f64| {
            let whole: f64 = scores.iter().map(weight).sum();
            let part = |value: fn(&LabelScore) -> f64| {
                if whole == 0.0 { 0.0 } else { scores.iter().map(|s| weight(s) * value(s)).sum::<f64>() / whole }
            };
            LabelScore {
                precision: part(|s| s.precision),
                recall: part(|s| s.recall),
                f1: part(|s| s.f1),
                support: total(2),
            }
        };
        Self {
            micro: LabelScore::new(total(0), total(1), total(2)),
            macro_: mean(&|_| 1.0),
            weighted: mean(&|s| s.support as f64),
        }
    }
}

/// How often each label (row) was taken for each (column).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Confusion {
    /// the labels, sorted
    pub labels: Vec<String>,
    /// `counts[present][predicted]`
    pub counts: Vec<Vec<usize>>,
}

/// All scores of a classifier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Classification {
    /// right of all
    pub accuracy: f64,
    /// micro, macro and weighted
    pub averages: Averages,
    /// each label's own, in the order of `confusion.labels`
    pub labels: Vec<LabelScore>,
    /// who is taken for whom
    pub confusion: Confusion,
}

impl Classification {
    /// Compares predictions with the truth, example by example.
    ///
    /// ```
    /// let scores = qkv_metric::Classification::new(&["cat", "dog", "cat"], &["cat", "cat", "cat"])?;
    /// assert_eq!(scores.accuracy, 2.0 / 3.0);
    /// assert_eq!(scores.labels[0].recall, 1.0);
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn new<A: AsRef<str>, B: AsRef<str>>(truth: &[A], predicted: &[B]) -> Result<Self> {
        same_length("predictions", predicted.len(), truth.len())?;
        if truth.is_empty() {
            return Err(Error::new("predictions", "nothing to score", "give at least one example"));
        }
        let confusion = Confusion::new(truth, predicted);
        let n = confusion.labels.len();
        let counts: Vec<[usize; 3]> = (0..n).map(|i| confusion.counts_of(i)).collect();
        Ok(Self {
            accuracy: (0..n).map(|i| confusion.counts[i][i]).sum::<usize>() as f64 / truth.len() as f64,
            averages: Averages::new(&counts),
            labels: counts.iter().map(|[a, b, c]| LabelScore::new(*a, *b, *c)).collect(),
            confusion,
        })
    }
}

impl Confusion {
    fn new<A: AsRef<str>, B: AsRef<str>>(truth: &[A], predicted: &[B]) -> Self {
        let all = truth.iter().map(AsRef::as_ref).chain(predicted.iter().map(AsRef::as_ref));
        let mut labels: Vec<String> = all.map(str::to_string).collect();
        labels.sort_unstable();
        labels.dedup();
        let mut counts = vec![vec![0; labels.len()]; labels.len()];
        let place = |label: &str| labels.binary_search_by(|probe| probe.as_str().cmp(label));
        for (present, predicted) in truth.iter().zip(predicted) {
            if let (Ok(i), Ok(j)) = (place(present.as_ref()), place(predicted.as_ref())) {
                counts[i][j] += 1;
            }
        }
        Self { labels, counts }
    }

    /// `[right, predicted, present]` of a label.
    fn counts_of(&self, i: usize) -> [usize; 3] {
        [self.counts[i][i], self.counts.iter().map(|row| row[i]).sum(), self.counts[i].iter().sum()]
    }

    /// A table for the terminal: rows are what is present, columns what was predicted.
    ///
    /// ```
    /// let scores = qkv_metric::Classification::new(&["cat", "dog", "cat"], &["cat", "cat", "cat"])?;
    /// assert_eq!(scores.confusion.render(), "present ↓  predicted → cat dog\ncat                      2   0\ndog                      1   0\n");
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn render(&self) -> String {
        let width = |text: &str| text.chars().count();
        let head = "present ↓  predicted →";
        let first = self.labels.iter().map(|l| width(l)).chain([width(head)]).max().unwrap_or(0);
        let columns: Vec<usize> = (0..self.labels.len())
            .map(|j| self.counts.iter().map(|row| row[j].to_string().len()).chain([width(&self.labels[j])]).max())
            .map(|widest| widest.unwrap_or(0))
            .collect();
        let line = |name: &str, cells: &[String]| {
            let cells = cells.iter().zip(&columns).map(|(cell, w)| format!(" {cell:>w$}"));
            format!("{name:<first$}{}\n", cells.collect::<String>())
        };
        let rows = self.labels.iter().zip(&self.counts);
        let rows = rows.map(|(name, row)| line(name, &row.iter().map(usize::to_string).collect::<Vec<_>>()));
        line(head, &self.labels) + &rows.collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_by_hand() {
        let scores = Classification::new(&["a", "a", "b", "c"], &["a", "b", "b", "a"]).unwrap();
        assert_eq!(scores.accuracy, 0.5);
        assert_eq!(scores.averages.micro.f1, 0.5);
        assert_eq!(scores.labels[1], LabelScore { precision: 0.5, recall: 1.0, f1: 2.0 / 3.0, support: 1 });
        assert_eq!(scores.labels[2], LabelScore { support: 1, ..LabelScore::default() });
        assert!((scores.averages.macro_.f1 - (0.5 + 2.0 / 3.0) / 3.0).abs() < 1e-15);
        assert!((scores.averages.weighted.f1 - (2.0 * 0.5 + 2.0 / 3.0) / 4.0).abs() < 1e-15);
        assert_eq!(scores.confusion.counts, [[1, 1, 0], [0, 1, 0], [1, 0, 0]]);
    }

    #[test]
    fn lists_that_do_not_match_are_refused() {
        assert!(Classification::new(&["a"], &["a", "b"]).is_err());
        assert!(Classification::new::<&str, &str>(&[], &[]).is_err());
    }
}
