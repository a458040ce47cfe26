//! Top-a: a token stays if its probability is at least a · p_max².
//!
//! The square makes the bar high when the row is sure and nearly vanish when it is not. KoboldAI's definition.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Keeps tokens of at least a times the square of the best probability.
    TopA = "top_a" ["a"],
    about "keep tokens of at least a times the square of the best probability", off "0 keeps all tokens",
    example "top_a 0.2",
    { a: f64, in From(0.0, 1.0), "the factor before the square"; }
}

impl Transform for TopA {
    fn apply(&self, row: &mut Row, _: &History) {
        if !self.idle() {
            // p ≥ a·p_max² with p = w/Σ and p_max = 1/Σ.
            row.cut(1, |weight, total| weight >= self.a / total);
        }
    }

    fn idle(&self) -> bool {
        self.a == 0.0
    }

    fn keeps_best(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits, probabilities};
    use super::*;

    fn of(a: f64) -> TopA {
        TopA::new(a).unwrap()
    }

    #[test]
    fn by_hand() {
        let p: &[f64] = &[0.1, 0.2, 0.3, 0.4];
        // The bar is 0.16 a.
        probabilities(of(0.0), &[(p, p)]);
        probabilities(of(0.6), &[(p, p)]);
        probabilities(of(0.7), &[(p, &[0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0])]);
        probabilities(of(1.0), &[(p, &[0.0, 2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0]), (&[0.25; 4], &[0.25; 4]), (&[1.0], &[1.0])]);
        probabilities(of(0.2), &[(&[0.9, 0.09, 0.01], &[1.0, 0.0, 0.0])]); // bar 0.162
        logits(of(1.0), &History::default(), &[NO, 1.0], &[NO, 1.0]);
    }
}
