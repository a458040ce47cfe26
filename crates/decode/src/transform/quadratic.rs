//! Quadratic smoothing: logits near the best come closer to it, logits far below fall further.
//!
//! With d = x − max: x ← max − k·f·d² + s·f·d³, k = (3 − curve)/2, s = (curve − 1)/2. At curve 1 that is the plain parabola
//! max − f·d². The formula is the one of KoboldCpp and text-generation-webui. Above curve 3 the parabola opens upwards and
//! near rivals can overtake the best token.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Bends the logits by a parabola around the best one.
    Quadratic = "quadratic" ["smoothing", "smoothing_factor"],
    about "bend the logits by a parabola: rivals of the best rise, the tail falls", off "0 changes nothing",
    example "quadratic 0.3",
    {
        factor: f64, in From(0.0, f64::INFINITY), "how much the parabola bends";
        curve: f64 = "1", in From(1.0, f64::INFINITY), "how much of a cubic is mixed in, from 1";
    }
}

impl Transform for Quadratic {
    fn apply(&self, row: &mut Row, _: &History) {
        if self.idle() || row.alive().len() < 2 {
            return;
        }
        let high = row.highest();
        let (k, s) = ((3.0 - self.curve) / 2.0, (self.curve - 1.0) / 2.0);
        row.change(|_, x| {
            let d = x as f64 - high as f64;
            (high as f64 + self.factor * d * d * (s * d - k)) as f32
        });
    }

    fn idle(&self) -> bool {
        self.factor == 0.0
    }

    fn keeps_best(&self) -> bool {
        self.curve <= 3.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    fn of(factor: f64, curve: f64) -> Quadratic {
        Quadratic::new(factor, curve).unwrap()
    }

    #[test]
    fn by_hand() {
        let said = History::default();
        // d = 0, −1, −3: 5 − 0.5·{0, 1, 9}.
        logits(of(0.5, 1.0), &said, &[5.0, 4.0, 2.0], &[5.0, 4.5, 0.5]);
        // Curve 3 is a pure cubic, k = 0 and s = 1: 5 + 0.5·{0, −1, −27}.
        logits(of(0.5, 3.0), &said, &[5.0, 4.0, 2.0], &[5.0, 4.5, -8.5]);
        // Curve 2 mixes half of each: 5 − 0.25·{0, 1, 9} + 0.25·{0, −1, −27}.
        logits(of(0.5, 2.0), &said, &[5.0, 4.0, 2.0], &[5.0, 4.5, -4.0]);
        logits(of(0.0, 2.0), &said, &[5.0, 4.0], &[5.0, 4.0]);
        logits(of(0.5, 1.0), &said, &[5.0, NO], &[5.0, NO]);
        logits(of(0.5, 1.0), &said, &[5.0, 5.0], &[5.0, 5.0]);
    }

    #[test]
    fn far_below_is_out_and_never_nan() {
        logits(of(1e6, 5.0), &History::default(), &[0.0, -1e30], &[0.0, NO]);
        logits(of(1.0, 4.0), &History::default(), &[0.0, -0.1], &[0.0, 0.5 * 0.01 - 1.5 * 0.001]);
        assert!(!of(1.0, 4.0).keeps_best() && of(1.0, 3.0).keeps_best());
    }
}
