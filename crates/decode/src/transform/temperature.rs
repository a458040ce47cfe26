//! Temperature: x ← x / T. Below 1 the likely become likelier, above 1 the distribution flattens, at 1 nothing happens.
//!
//! T → 0 is greedy, and T = 0 is taken at its word: only the best token stays (as in llama.cpp; transformers refuses 0).

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Divides all logits by T.
    Temperature = "temperature" ["temp", "t"],
    about "divide the logits by T: below 1 sharper, above 1 flatter", off "1 changes nothing, 0 keeps only the best token",
    example "temperature 0.7",
    { temperature: f64, in From(0.0, f64::INFINITY), "the temperature T"; }
}

impl Transform for Temperature {
    fn apply(&self, row: &mut Row, _: &History) {
        cool(row, self.temperature);
    }

    fn idle(&self) -> bool {
        self.temperature == 1.0
    }

    fn keeps_best(&self) -> bool {
        true
    }
}

/// Divides all logits by `t`.
pub(super) fn cool(row: &mut Row, t: f64) {
    let high = row.highest();
    let divided = |x: f32| (x as f64 / t) as f32;
    if t == 0.0 {
        let best = row.best();
        row.keep(|id, _| Some(id) == best);
    } else if divided(high).is_finite() {
        row.change(|_, x| divided(x));
    } else {
        // A tiny T throws even the best logit out of f32; only distances from it matter to a softmax.
        row.change(|_, x| divided(x - high));
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits, probabilities};
    use super::*;

    fn at(t: f64) -> Temperature {
        Temperature::new(t).unwrap()
    }

    #[test]
    fn by_hand() {
        logits(at(2.0), &History::default(), &[4.0, -2.0, NO], &[2.0, -1.0, NO]);
        logits(at(1.0), &History::default(), &[4.0, -2.0], &[4.0, -2.0]);
        // p^(1/T): squares at T = 1/2, 0.16 : 0.09 : 0.04 : 0.01 of 0.3.
        let squares: &[f64] = &[0.16 / 0.3, 0.09 / 0.3, 0.04 / 0.3, 0.01 / 0.3];
        probabilities(at(0.5), &[(&[0.4, 0.3, 0.2, 0.1], squares)]);
        // llama.cpp's own table: T = 0 leaves the best one.
        probabilities(at(0.0), &[(&[0.1, 0.2, 0.3, 0.4], &[0.0, 0.0, 0.0, 1.0])]);
        probabilities(at(0.0), &[(&[0.25; 4], &[1.0, 0.0, 0.0, 0.0]), (&[1.0], &[1.0])]);
    }

    #[test]
    fn towards_zero_is_greedy_and_never_nan() {
        for t in [1e-3, 1e-30, 1e-300, f64::MIN_POSITIVE] {
            logits_best(t, &[3.0, 5.0, 4.0]);
            logits_best(t, &[-3e30, -1e30, -2e30]);
            logits_best(t, &[1e30, 3e30, 2e30]);
        }
    }

    fn logits_best(t: f64, before: &[f32]) {
        let mut row = Row::of(before).unwrap();
        at(t).apply(&mut row, &History::default());
        let scale = row.scale();
        assert!(scale.probability(row.logit(1)) > 0.999_999, "T = {t}: {:?}", row.logits());
    }

    #[test]
    fn only_numbers_from_zero() {
        for bad in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(Temperature::new(bad).unwrap_err().what.contains("must be a number from 0"));
        }
    }
}
