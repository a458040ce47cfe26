//! Minimum length: the end tokens are out until the text is long enough.
//!
//! `min_length` counts prompt (or start token) and answer, `min_new_tokens` the answer alone, both as in transformers.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// No end before a total length.
    MinLength = "min_length" [],
    about "no end token before prompt and answer are this long", off "0 changes nothing", example "min_length 20",
    { length: usize, in Whole(0), "tokens of prompt and answer"; }
}

step! {
    /// No end before a number of new tokens.
    MinNewTokens = "min_new_tokens" ["min_tokens"],
    about "no end token before the answer is this long", off "0 changes nothing", example "min_new_tokens 5",
    { length: usize, in Whole(0), "tokens of the answer"; }
}

impl Transform for MinLength {
    fn apply(&self, row: &mut Row, said: &History) {
        if said.len() < self.length {
            row.forbid(said.ends.iter().copied());
        }
    }

    fn idle(&self) -> bool {
        self.length == 0
    }
}

impl Transform for MinNewTokens {
    fn apply(&self, row: &mut Row, said: &History) {
        if said.generated.len() < self.length {
            row.forbid(said.ends.iter().copied());
        }
    }

    fn idle(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    #[test]
    fn by_hand() {
        let said = |generated| History { prompt: &[7, 8], generated, ends: &[0, 2], ..History::default() };
        let (x, without) = ([1.0, 2.0, 3.0], [NO, 2.0, NO]);
        logits(MinLength::new(3).unwrap(), &said(&[]), &x, &without);
        logits(MinLength::new(3).unwrap(), &said(&[1]), &x, &x);
        logits(MinNewTokens::new(2).unwrap(), &said(&[1]), &x, &without);
        logits(MinNewTokens::new(2).unwrap(), &said(&[1, 1]), &x, &x);
        logits(MinNewTokens::new(0).unwrap(), &said(&[]), &x, &x);
        logits(MinLength::new(9).unwrap(), &History::default(), &x, &x);
    }
}
