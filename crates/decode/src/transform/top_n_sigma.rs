//! Top-nσ (Tang et al. 2024): a token stays if its logit lies within n standard deviations of the best one.
//!
//! x ≥ max − n·σ, σ the deviation of the logits that are left (those at −∞ do not count, as in llama.cpp). Temperature
//! scales x and σ alike, so it does not change who stays.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Keeps tokens whose logit lies within n deviations of the best.
    TopNSigma = "top_n_sigma" ["nsigma", "n_sigma"],
    about "keep tokens whose logit lies within n standard deviations of the best", off "0 keeps all tokens",
    example "top_n_sigma 1",
    { n: f64, in From(0.0, f64::INFINITY), "how many deviations"; }
}

impl Transform for TopNSigma {
    fn apply(&self, row: &mut Row, _: &History) {
        let count = row.alive().len() as f64;
        if self.idle() || count < 2.0 {
            return;
        }
        let mean = row.alive().iter().map(|id| row.logit(*id) as f64).sum::<f64>() / count;
        let square = row.alive().iter().map(|id| (row.logit(*id) as f64 - mean).powi(2)).sum::<f64>();
        let floor = row.highest() as f64 - self.n * (square / count).sqrt();
        row.keep(|_, x| x as f64 >= floor);
    }

    fn idle(&self) -> bool {
        self.n == 0.0
    }

    fn keeps_best(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    #[test]
    fn by_hand() {
        let of = |n| TopNSigma::new(n).unwrap();
        let said = History::default();
        // Mean 3, deviation √2 = 1.414: the bars are 5 − 1.414 and 5 − 2.828.
        logits(of(1.0), &said, &[1.0, 2.0, 3.0, 4.0, 5.0], &[NO, NO, NO, 4.0, 5.0]);
        logits(of(2.0), &said, &[1.0, 2.0, 3.0, 4.0, 5.0], &[NO, NO, 3.0, 4.0, 5.0]);
        // What is out does not count: the same row.
        logits(of(1.0), &said, &[NO, 1.0, 2.0, 3.0, 4.0, 5.0], &[NO, NO, NO, NO, 4.0, 5.0]);
        logits(of(0.0), &said, &[1.0, 5.0], &[1.0, 5.0]);
        logits(of(1.0), &said, &[2.0; 3], &[2.0; 3]);
        logits(of(1.0), &said, &[NO, 2.0], &[NO, 2.0]);
    }
}
