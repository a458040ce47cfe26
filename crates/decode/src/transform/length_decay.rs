//! Exponential decay of the length: from a given length on, ending becomes exponentially more attractive.
//!
//! After `start` new tokens, for each end token x ← x + |x| · (factor^(new − start) − 1), as in transformers'
//! `exponential_decay_length_penalty`.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Makes the end likelier with each token beyond a length.
    LengthDecay = "length_decay" ["exponential_decay_length_penalty"],
    about "make the end tokens likelier with each new token beyond a length", off "factor 1 changes nothing",
    example "length_decay 15 factor=1.05",
    {
        start: usize, in Whole(0), "new tokens before it begins";
        factor: f64 = "1", in Above(0.0, f64::INFINITY), "what each further token multiplies with";
    }
}

impl Transform for LengthDecay {
    fn apply(&self, row: &mut Row, said: &History) {
        let over = said.generated.len().saturating_sub(self.start);
        if over == 0 || self.idle() {
            return;
        }
        let growth = self.factor.powf(over as f64) - 1.0;
        let raise = |x: f32| (x.abs() as f64 * growth).min(f32::MAX as f64 / 4.0) as f32;
        for (i, id) in said.ends.iter().enumerate() {
            if !said.ends[..i].contains(id) {
                row.shift([(*id, raise(row.logit(*id)))]);
            }
        }
    }

    fn idle(&self) -> bool {
        self.factor == 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    #[test]
    fn by_hand() {
        let said = |generated| History { prompt: &[5, 5], generated, ends: &[0, 1, 2, 2], ..History::default() };
        let x = [4.0, NO, -4.0, 1.0];
        let decay = LengthDecay::new(1, 2.0).unwrap();
        logits(decay.clone(), &said(&[3]), &x, &x);
        logits(decay.clone(), &said(&[3, 3]), &x, &[8.0, NO, 0.0, 1.0]);
        logits(decay, &said(&[3, 3, 3]), &x, &[16.0, NO, 8.0, 1.0]);
        logits(LengthDecay::new(0, 1.0).unwrap(), &said(&[3]), &x, &x);
        // A long text at a high factor: still numbers.
        let long = vec![3; 5000];
        let mut row = Row::of(&x).unwrap();
        LengthDecay::new(0, 2.0).unwrap().apply(&mut row, &said(&long));
        assert!(row.logit(0) > 1e37 && row.logit(0).is_finite());
    }
}
