//! Logistic regression: the class of a row from a weighted sum of its features.
//!
//! ```text
//! two classes    p = σ(x·w + b)                  one column
//! more           p = softmax(x·W + b)            a column each
//! least of       C · Σ −ln p(right) + ½·‖W‖²     b is not held back
//! ```
//! The same objective as scikit-learn's `LogisticRegression` (C = 1), and the same kind of minimiser ([L-BFGS]); a golden
//! compares the weights.
//!
//! [L-BFGS]: https://doi.org/10.1007/BF01589116

use crate::lbfgs::{Until, minimise};
use crate::sparse::{Columns, SparseRow};
use qkv_base::{Error, Result};
use rayon::prelude::*;

/// How it is learnt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogisticOptions {
    /// C: how much the data count beside small weights
    pub c: f64,
    /// the largest part of the gradient at the end
    pub tolerance: f64,
    /// steps of the minimiser at most
    pub steps: usize,
}

impl Default for LogisticOptions {
    fn default() -> Self {
        Self { c: 1.0, tolerance: 1e-4, steps: 500 }
    }
}

/// A learnt classifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Logistic {
    labels: Vec<String>,
    width: usize,
    /// `[width + 1, K]`, the last row is b; K = 1 for two classes
    weights: Vec<f64>,
    /// whether the minimiser reached its tolerance
    pub converged: bool,
}

impl Logistic {
    /// Learns from rows of `width` features and their labels.
    ///
    /// ```
    /// use qkv_vectors::{Logistic, LogisticOptions};
    /// let rows = [vec![(0, 1.0)], vec![(1, 1.0)], vec![(0, 2.0)]];
    /// let model = Logistic::learn(&rows, &["good", "bad", "good"], 2, LogisticOptions::default())?;
    /// assert_eq!(model.predict(&vec![(0, 1.0)]), "good");
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn learn<S: AsRef<str>>(rows: &[SparseRow], labels: &[S], width: usize, how: LogisticOptions) -> Result<Self> {
        if rows.len() != labels.len() {
            return Err(Error::internal("logistic", format!("{} rows, {} labels", rows.len(), labels.len())));
        }
        let mut names: Vec<String> = labels.iter().map(|l| l.as_ref().to_string()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() < 2 {
            let what =
                format!("{} rows with {} label{}", rows.len(), names.len(), if names.len() == 1 { "" } else { "s" });
            return Err(Error::new("labels", what, "a classifier needs examples of two classes or more"));
        }
        if !(how.c > 0.0 && how.c.is_finite()) {
            return Err(Error::new("C", format!("{} is not a positive number", how.c), "1 is customary"));
        }
        let k = if names.len() == 2 { 1 } else { names.len() };
        let right: Vec<usize> = labels.iter().map(|l| names.partition_point(|n| n.as_str() < l.as_ref())).collect();
        let columns = Columns::of(rows, width);
        let until = Until { gradient: how.tolerance, steps: how.steps };
        let mut residue = vec![0.0; rows.len() * k];
        let (weights, converged) = minimise(vec![0.0; (width + 1) * k], &until, |weights, gradient| {
            let losses: Vec<f64> = residue
                .par_chunks_mut(k)
                .zip(rows.par_iter().zip(&right))
                .with_min_len(64)
                .map(|(residue, (row, right))| {
                    residue.copy_from_slice(&scores(weights, row, k));
                    loss_and_residue(residue, *right)
                })
                .collect();
            let (inner, bias) = gradient.split_at_mut(width * k);
            columns.times(&residue, k, inner);
            for (j, bias) in bias.iter_mut().enumerate() {
                *bias = how.c * residue.iter().skip(j).step_by(k).sum::<f64>();
            }
            inner.iter_mut().zip(weights).for_each(|(g, w)| *g = how.c * *g + w);
            how.c * losses.iter().sum::<f64>() + 0.5 * weights[..width * k].iter().map(|w| w * w).sum::<f64>()
        });
        Ok(Self { labels: names, width, weights, converged })
    }

    /// The classes, in alphabetical order.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// How probable each class is.
    pub fn probabilities(&self, row: &SparseRow) -> Vec<f64> {
        let mut scores = scores(&self.weights, row, self.columns());
        if scores.len() == 1 {
            let p = 1.0 / (1.0 + (-scores[0]).exp());
            return vec![1.0 - p, p];
        }
        let top = scores.iter().copied().fold(f64::MIN, f64::max);
        scores.iter_mut().for_each(|s| *s = (*s - top).exp());
        let sum: f64 = scores.iter().sum();
        scores.into_iter().map(|s| s / sum).collect()
    }

    /// The most probable class; the first of equals.
    pub fn predict(&self, row: &SparseRow) -> &str {
        let p = self.probabilities(row);
        let best = (0..p.len()).fold(0, |best, i| if p[i] > p[best] { i } else { best });
        &self.labels[best]
    }

    /// What a feature adds to the score of a class; of two classes the first has the second's weight turned around.
    pub fn weight(&self, feature: usize, class: usize) -> f64 {
        let row = &self.weights[feature.min(self.width) * self.columns()..][..self.columns()];
        match (row, class) {
            ([w], 0) => -w,
            ([w], _) => *w,
            (row, class) => row[class],
        }
    }

    /// What every row starts with for a class.
    pub fn bias(&self, class: usize) -> f64 {
        self.weight(self.width, class)
    }

    fn columns(&self) -> usize {
        if self.labels.len() == 2 { 1 } else { self.labels.len() }
    }
}

/// `x·W + b`
fn scores(weights: &[f64], row: &SparseRow, k: usize) -> Vec<f64> {
    let mut sum = weights[weights.len() - k..].to_vec();
    for (feature, value) in row {
        let weights = &weights[*feature as usize * k..][..k];
        sum.iter_mut().zip(weights).for_each(|(sum, w)| *sum += value * w);
    }
    sum
}

/// Scores become p − 1 at the right class and p elsewhere; returns −ln p(right).
fn loss_and_residue(scores: &mut [f64], right: usize) -> f64 {
    if let [score] = scores {
        // −ln σ(±s) = ln(1 + e^∓s), without overflow on either side
        let signed = if right == 1 { *score } else { -*score };
        let loss = (-signed.abs()).exp().ln_1p() + (-signed).max(0.0);
        *score = 1.0 / (1.0 + (-*score).exp()) - right as f64;
        return loss;
    }
    let top = scores.iter().copied().fold(f64::MIN, f64::max);
    let sum: f64 = scores.iter().map(|s| (s - top).exp()).sum();
    let loss = top + sum.ln() - scores[right];
    scores.iter_mut().for_each(|s| *s = (*s - top).exp() / sum);
    scores[right] -= 1.0;
    loss
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_class_is_refused() {
        let error = Logistic::learn(&[vec![(0, 1.0)]], &["a"], 1, LogisticOptions::default()).unwrap_err();
        assert_eq!(error.to_string(), "labels: 1 rows with 1 label");
        let zero = LogisticOptions { c: 0.0, ..LogisticOptions::default() };
        assert!(Logistic::learn(&[vec![], vec![]], &["a", "b"], 1, zero).is_err());
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let h = 1e-6;
        for right in 0..3 {
            let at = [0.3, -1.2, 0.8];
            let mut residue = at;
            loss_and_residue(&mut residue, right);
            for i in 0..3 {
                let shifted = |by: f64| {
                    let mut s = at;
                    s[i] += by;
                    loss_and_residue(&mut s, right)
                };
                assert!(((shifted(h) - shifted(-h)) / (2.0 * h) - residue[i]).abs() < 1e-8);
            }
        }
        for (score, right) in [(0.7, 0), (0.7, 1), (-800.0, 1), (800.0, 1)] {
            let loss = loss_and_residue(&mut [score], right);
            assert!(loss.is_finite() && loss >= 0.0, "{score} {right}: {loss}");
        }
    }

    #[test]
    fn three_classes_sum_to_one() {
        let rows = [vec![(0, 1.0)], vec![(1, 1.0)], vec![(2, 1.0)]];
        let model = Logistic::learn(&rows, &["x", "y", "z"], 3, LogisticOptions::default()).unwrap();
        for (row, label) in rows.iter().zip(["x", "y", "z"]) {
            assert_eq!(model.predict(row), label);
            assert!((model.probabilities(row).iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        assert!(model.converged && model.weight(0, 0) > 0.0 && model.weight(0, 1) < 0.0);
    }
}
