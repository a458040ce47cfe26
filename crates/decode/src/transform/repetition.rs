//! Repetition penalty (Keskar et al. 2019, CTRL): what was said becomes less likely, whatever the times it was said.
//!
//! x ← x / θ if x > 0, x · θ if not (dividing a negative logit would make it likelier). The twin for encoders, as in
//! transformers, makes what the *source* says likelier with the same rule and 1/θ, against answers out of thin air.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Makes what was said less likely.
    Repetition = "repetition_penalty" ["rep_pen", "repeat_penalty", "repetition"],
    about "divide the positive logits of what was said by the penalty, multiply the negative ones", off "1 changes nothing",
    example "repetition_penalty 1.1",
    {
        penalty: f64, in Above(0.0, f64::INFINITY), "above 1 less likely, below 1 likelier";
        window: usize = "0", in Whole(0), "how many of the last tokens count; 0: all, the prompt included";
    }
}

step! {
    /// Makes what the source says likelier.
    EncoderRepetition = "encoder_repetition_penalty" ["encoder_repetition"],
    about "make the tokens of the encoder's input likelier, by the same rule turned around", off "1 changes nothing",
    example "encoder_repetition_penalty 1.2",
    { penalty: f64, in Above(0.0, f64::INFINITY), "above 1 likelier, below 1 less likely"; }
}

impl Transform for Repetition {
    fn apply(&self, row: &mut Row, said: &History) {
        if !self.idle() {
            row.tally(said.last(self.window), |x, _| penalised(x, self.penalty));
        }
    }

    fn idle(&self) -> bool {
        self.penalty == 1.0
    }
}

impl Transform for EncoderRepetition {
    fn apply(&self, row: &mut Row, said: &History) {
        if !self.idle() {
            row.tally(said.source().iter().copied(), |x, _| penalised(x, 1.0 / self.penalty));
        }
    }

    fn idle(&self) -> bool {
        self.penalty == 1.0
    }
}

/// The result stays finite: an extreme penalty makes a token as unlikely as can be said, not impossible.
fn penalised(x: f32, penalty: f64) -> f32 {
    let y = if x < 0.0 { x as f64 * penalty } else { x as f64 / penalty };
    y.clamp(-(f32::MAX as f64), f32::MAX as f64) as f32
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    #[test]
    fn by_hand() {
        let said = History { prompt: &[0, 1], generated: &[2, 2], ..History::default() };
        let of = |penalty, window| Repetition::new(penalty, window).unwrap();
        logits(of(2.0, 0), &said, &[4.0, -3.0, 0.0, 4.0], &[2.0, -6.0, 0.0, 4.0]);
        logits(of(0.5, 0), &said, &[4.0, -3.0, 1.0, 4.0], &[8.0, -1.5, 2.0, 4.0]);
        // The last three: the 1 and twice the 2, which counts once.
        logits(of(2.0, 3), &said, &[4.0, -3.0, 8.0, 4.0], &[4.0, -6.0, 4.0, 4.0]);
        logits(of(2.0, 99), &said, &[4.0, NO, 8.0, 4.0], &[2.0, NO, 4.0, 4.0]);
        logits(of(1.0, 0), &said, &[4.0, -3.0, 8.0, 4.0], &[4.0, -3.0, 8.0, 4.0]);
        logits(of(2.0, 0), &History::default(), &[4.0, -3.0], &[4.0, -3.0]);
    }

    #[test]
    fn the_encoders_twin_lifts() {
        let of = EncoderRepetition::new(2.0).unwrap();
        let said = History { prompt: &[0], encoder: Some(&[1, 2, 99]), ..History::default() };
        logits(of.clone(), &said, &[4.0, -3.0, 4.0], &[4.0, -1.5, 8.0]);
        logits(of, &History { prompt: &[0], ..History::default() }, &[4.0, -3.0], &[8.0, -3.0]);
    }

    #[test]
    fn extreme_penalties_stay_finite() {
        let said = History { prompt: &[0, 1], ..History::default() };
        logits(Repetition::new(1e300, 0).unwrap(), &said, &[4.0, -3.0], &[0.0, -f32::MAX]);
        logits(Repetition::new(1e-300, 0).unwrap(), &said, &[4.0, -3.0], &[f32::MAX, 0.0]);
        assert!(Repetition::new(0.0, 0).is_err() && Repetition::new(-1.0, 0).is_err());
    }
}
