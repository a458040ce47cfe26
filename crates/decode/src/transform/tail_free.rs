//! Tail-free sampling: cut where the curve of the sorted probabilities has become flat.
//!
//! Of the probabilities p_1 ≥ p_2 ≥ … take the second differences |(p_i − p_{i+1}) − (p_{i+1} − p_{i+2})| and scale them
//! to the sum 1. The first i whose running sum exceeds z ends the list: the i − 1 tokens before it stay, one at least. The
//! definition is KoboldCpp's (llama.cpp once had it too); rows of one or two tokens are left alone.
//!
//! The bends need the whole order, so this is the one step that sorts all that is left: put a `top_k` before it.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Cuts the flat tail of the sorted probabilities.
    TailFree = "tail_free" ["tfs", "tfs_z"],
    about "cut where the curve of the sorted probabilities becomes flat", off "1 keeps all tokens", example "tail_free 0.95",
    { z: f64, in From(0.0, 1.0), "the share of the curve's bends that stays"; }
}

impl Transform for TailFree {
    fn apply(&self, row: &mut Row, _: &History) {
        let n = row.alive().len();
        if self.idle() || n < 3 {
            return;
        }
        let scale = row.scale();
        let p = |row: &mut Row, i: usize| scale.probability(row.at(i));
        let bend = |row: &mut Row, i: usize| (p(row, i) - 2.0 * p(row, i + 1) + p(row, i + 2)).abs();
        row.ranked(n);
        let total: f64 = (0..n - 2).map(|i| bend(row, i)).sum();
        let mut sum = 0.0;
        let cut = (0..n - 2).find(|&i| {
            // A row without bends: each counts the same.
            sum += if total > 1e-6 { bend(row, i) / total } else { 1.0 / (n - 2) as f64 };
            sum > self.z && i >= 1
        });
        row.keep_best(cut.unwrap_or(n));
    }

    fn idle(&self) -> bool {
        self.z == 1.0
    }

    fn keeps_best(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits, probabilities};
    use super::*;

    fn of(z: f64) -> TailFree {
        TailFree::new(z).unwrap()
    }

    #[test]
    fn by_hand() {
        // Sorted 0.5, 0.2, 0.15, 0.1, 0.05: differences 0.3, 0.05, 0.05, 0.05; bends 0.25, 0, 0; sums 1, 1, 1.
        let p: &[f64] = &[0.05, 0.5, 0.2, 0.15, 0.1];
        probabilities(of(0.9), &[(p, &[0.0, 1.0, 0.0, 0.0, 0.0])]);
        probabilities(of(1.0), &[(p, p)]);
        // Sorted 0.4, 0.3, 0.25, 0.05: differences 0.1, 0.05, 0.2; bends 0.05, 0.15; sums 0.25, 1.
        let p: &[f64] = &[0.3, 0.4, 0.05, 0.25];
        probabilities(of(0.0), &[(p, &[0.0, 1.0, 0.0, 0.0])]);
        probabilities(of(0.5), &[(p, &[0.0, 1.0, 0.0, 0.0])]);
        // Sorted 0.3, 0.28, 0.22, 0.11, 0.09: differences 0.02, 0.06, 0.11, 0.02; bends 0.04, 0.05, 0.09; sums 2/9, 1/2, 1.
        let p: &[f64] = &[0.3, 0.28, 0.22, 0.11, 0.09];
        probabilities(of(0.45), &[(p, &[1.0, 0.0, 0.0, 0.0, 0.0])]);
        probabilities(of(0.95), &[(p, &[30.0 / 58.0, 28.0 / 58.0, 0.0, 0.0, 0.0])]);
    }

    #[test]
    fn rows_without_bends() {
        // Five equals, three bends of 1/3 each, sums 1/3, 2/3, 1: 0.6 is passed at the second.
        probabilities(of(0.6), &[(&[0.2; 5], &[1.0, 0.0, 0.0, 0.0, 0.0])]);
        probabilities(of(0.9), &[(&[0.2; 5], &[0.5, 0.5, 0.0, 0.0, 0.0])]);
        logits(of(0.1), &History::default(), &[NO, 1.0, 0.0], &[NO, 1.0, 0.0]);
        logits(of(0.1), &History::default(), &[NO, 1.0, NO], &[NO, 1.0, NO]);
    }
}
