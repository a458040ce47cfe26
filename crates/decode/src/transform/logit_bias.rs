//! Logit bias: adds a number to the logit of a token; for a sequence, to its last token where the rest was just said.
//!
//! One token is OpenAI's and llama.cpp's `logit_bias`, sequences are transformers' `sequence_bias`. −∞ forbids.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Adds to the logits of chosen tokens or sequences.
    LogitBias = "logit_bias" ["sequence_bias", "bias"],
    about "add a number to the logits of tokens, or of sequences at their last token", off "an empty list changes nothing",
    example "logit_bias 5:-1.5|5+7:2",
    { biases: Vec<(Vec<u32>, f64)>, in Biases, "what is added to what"; }
}

impl Transform for LogitBias {
    fn apply(&self, row: &mut Row, said: &History) {
        row.shift(self.biases.iter().filter_map(|(ids, bias)| {
            let (last, before) = ids.split_last()?;
            // A bias beyond f32 means as much as f32 can say, but never +∞.
            let bias = bias.min(f32::MAX as f64 / 2.0) as f32;
            said.ends_with(before).then_some((*last, bias))
        }));
    }

    fn idle(&self) -> bool {
        self.biases.iter().all(|(_, bias)| *bias == 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    #[test]
    fn by_hand() {
        let of = |biases: &[(&[u32], f64)]| LogitBias::new(biases.iter().map(|(a, b)| (a.to_vec(), *b)).collect());
        let said = History { prompt: &[5], generated: &[1], ..History::default() };
        let bias = of(&[(&[0], -1.5), (&[1, 0], 0.25), (&[5, 1, 2], 2.0), (&[0, 2], 9.0), (&[99], 1.0), (&[1], f64::NEG_INFINITY)]);
        logits(bias.unwrap(), &said, &[1.0, 1.0, 1.0, NO], &[-0.25, NO, 3.0, NO]);
        logits(of(&[(&[0], 5.0)]).unwrap(), &said, &[NO, 1.0], &[NO, 1.0]);
        logits(of(&[]).unwrap(), &said, &[1.0], &[1.0]);
        assert!(of(&[(&[0], f64::INFINITY)]).is_err() && of(&[(&[0], f64::NAN)]).is_err() && of(&[(&[], 1.0)]).is_err());
        // Even the greatest bias leaves numbers.
        let mut row = Row::of(&[1e38, 0.0]).unwrap();
        of(&[(&[0], f64::MAX)]).unwrap().apply(&mut row, &said);
        assert!(row.logit(0).is_finite());
    }
}
