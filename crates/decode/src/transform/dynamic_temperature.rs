//! Dynamic temperature: sure rows stay cool, unsure rows get warm.
//!
//! T = min + (max − min) · (H / ln n)^exponent with the entropy H of the n tokens that are left: a sure row has H = 0 and
//! T = min, n equal tokens have H = ln n and T = max. This is llama.cpp's temperature with a range and KoboldCpp's.

use super::{History, Transform, sheet::step, temperature::cool};
use crate::row::Row;

step! {
    /// A temperature between two bounds that follows the entropy.
    DynamicTemperature = "dynamic_temperature" ["dynatemp", "dynamic_temp"],
    about "a temperature from min (sure rows) to max (unsure rows) by their entropy", off "1 with max 1 changes nothing",
    example "dynamic_temperature 0.5 max=1.5",
    {
        min: f64, in From(0.0, f64::INFINITY), "the temperature of a row that is sure";
        max: f64, in From(0.0, f64::INFINITY), "the temperature of a row of equals";
        exponent: f64 = "1", in Above(0.0, f64::INFINITY), "bends the way from min to max";
    }
}

impl Transform for DynamicTemperature {
    fn apply(&self, row: &mut Row, _: &History) {
        let n = row.alive().len();
        if n > 1 {
            let share = (row.entropy() / (n as f64).ln()).min(1.0);
            cool(row, self.min + (self.max - self.min) * share.powf(self.exponent));
        }
    }

    fn idle(&self) -> bool {
        self.min == 1.0 && self.max == 1.0
    }

    fn keeps_best(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits, probabilities};
    use super::*;

    fn between(min: f64, max: f64, exponent: f64) -> DynamicTemperature {
        DynamicTemperature::new(min, max, exponent).unwrap()
    }

    #[test]
    fn by_hand() {
        let said = History::default();
        // Equal tokens: H = ln 4, T = max = 2.
        logits(between(0.5, 2.0, 1.0), &said, &[3.0; 4], &[1.5; 4]);
        // One token left: nothing to do.
        logits(between(0.5, 2.0, 1.0), &said, &[NO, 3.0, NO], &[NO, 3.0, NO]);
        // 1/2, 1/4, 1/4: H = 1.5 ln 2 of ln 3, T = 0.5 + 1.5 · 0.946395 = 1.919592.
        let x = [2.0, 1.0, 1.0].map(|bits: f32| bits * 2f32.ln());
        logits(between(0.5, 2.0, 1.0), &said, &x, &x.map(|x| x / 1.919_592));
        // Squared: 0.5 + 1.5 · 0.895663 = 1.843495.
        logits(between(0.5, 2.0, 2.0), &said, &x, &x.map(|x| x / 1.843_495));
        // The least likely are not counted once they are out.
        logits(between(0.5, 2.0, 1.0), &said, &[3.0, 3.0, NO], &[1.5, 1.5, NO]);
    }

    #[test]
    fn from_zero_a_sure_row_is_greedy() {
        probabilities(between(0.0, 0.0, 1.0), &[(&[0.4, 0.6], &[0.0, 1.0])]);
        assert!(between(1.0, 1.0, 1.0).idle());
    }
}
