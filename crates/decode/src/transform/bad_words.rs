//! Bad words: the last token of a forbidden sequence is taken out where the rest of the sequence was just said.
//!
//! A forbidden word that is nothing but an end token is passed over, as in transformers: the text must be able to end.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Forbids sequences of tokens.
    BadWords = "bad_words" ["bad_words_ids"],
    about "forbid these sequences of tokens", off "an empty list forbids nothing", example "bad_words 5+7|9",
    { words: Vec<Vec<u32>>, in Sequences, "the sequences"; }
}

impl Transform for BadWords {
    fn apply(&self, row: &mut Row, said: &History) {
        row.forbid(self.words.iter().filter_map(|word| {
            let (last, before) = word.split_last()?;
            let end = before.is_empty() && said.ends.contains(last);
            (said.ends_with(before) && !end).then_some(*last)
        }));
    }

    fn idle(&self) -> bool {
        self.words.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    #[test]
    fn by_hand() {
        let words = BadWords::new(vec![vec![1], vec![0, 2], vec![3, 0, 3], vec![0], vec![9]]).unwrap();
        let said = |generated| History { generated, ends: &[0], ..History::default() };
        let x = [1.0, 2.0, 3.0, 4.0];
        logits(words.clone(), &said(&[]), &x, &[1.0, NO, 3.0, 4.0]);
        logits(words.clone(), &said(&[0]), &x, &[1.0, NO, NO, 4.0]);
        logits(words.clone(), &said(&[3, 0]), &x, &[1.0, NO, NO, NO]);
        logits(words.clone(), &said(&[0, 3]), &x, &[1.0, NO, 3.0, 4.0]);
        logits(words, &History::default(), &x, &[NO, NO, 3.0, 4.0]);
        logits(BadWords::new(vec![]).unwrap(), &said(&[0]), &x, &x);
        assert!(BadWords::new(vec![vec![]]).is_err());
    }
}
