//! No repeated n-gram (Paulus et al. 2017): a token that would complete an n-gram already said is taken out.
//!
//! The twin for encoders takes out what would complete an n-gram of the *source*: against answers that copy.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Forbids every n-gram that was said before.
    NoRepeatNgram = "no_repeat_ngram" ["no_repeat_ngram_size"],
    about "take out tokens that would complete an n-gram already said", off "0 takes none", example "no_repeat_ngram 3",
    { n: usize, in Whole(0), "the length of the n-gram"; }
}

step! {
    /// Forbids every n-gram of the source.
    EncoderNoRepeatNgram = "encoder_no_repeat_ngram" ["encoder_no_repeat_ngram_size"],
    about "take out tokens that would complete an n-gram of the encoder's input", off "0 takes none",
    example "encoder_no_repeat_ngram 3",
    { n: usize, in Whole(0), "the length of the n-gram"; }
}

impl Transform for NoRepeatNgram {
    fn apply(&self, row: &mut Row, said: &History) {
        row.forbid(completions(self.n, said, said.len(), |i| said.at(i)));
    }

    fn idle(&self) -> bool {
        self.n == 0
    }
}

impl Transform for EncoderNoRepeatNgram {
    fn apply(&self, row: &mut Row, said: &History) {
        let source = said.source();
        row.forbid(completions(self.n, said, source.len(), |i| source.get(i).copied()));
    }

    fn idle(&self) -> bool {
        self.n == 0
    }
}

/// The ids that follow, somewhere in a text of `length` ids, the n − 1 ids said last.
fn completions(n: usize, said: &History, length: usize, text: impl Fn(usize) -> Option<u32>) -> impl Iterator<Item = u32> {
    let places = if n == 0 || said.len() + 1 < n || length < n { 0 } else { length + 1 - n };
    (0..places).filter_map(move |at| {
        let last = said.len() + 1 - n;
        let same = (0..n - 1).all(|i| text(at + i) == said.at(last + i));
        if same { text(at + n - 1) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    #[test]
    fn by_hand() {
        let of = |n| NoRepeatNgram::new(n).unwrap();
        let said = History { prompt: &[0, 1, 2], generated: &[0, 1, 3, 0, 1], ..History::default() };
        let x = [1.0, 2.0, 3.0, 4.0, 5.0];
        // After 0 1 came 2 and 3; after 1 the same.
        logits(of(3), &said, &x, &[1.0, 2.0, NO, NO, 5.0]);
        logits(of(2), &said, &x, &[1.0, 2.0, NO, NO, 5.0]);
        // 2 0 1 3: after 3 0 1 nothing came yet.
        logits(of(4), &said, &x, &x);
        logits(of(1), &said, &x, &[NO, NO, NO, NO, 5.0]);
        logits(of(0), &said, &x, &x);
        logits(of(9), &said, &x, &x);
        logits(of(2), &History::default(), &x, &x);
        logits(of(1), &History { prompt: &[77], ..History::default() }, &x, &x);
    }

    #[test]
    fn the_encoders_twin_looks_at_the_source() {
        let of = |n| EncoderNoRepeatNgram::new(n).unwrap();
        let said = History { prompt: &[4], generated: &[1], encoder: Some(&[0, 1, 2, 1, 3]), ..History::default() };
        let x = [1.0, 2.0, 3.0, 4.0, 5.0];
        logits(of(2), &said, &x, &[1.0, 2.0, NO, NO, 5.0]);
        logits(of(3), &said, &x, &x);
        logits(of(1), &said, &x, &[NO, NO, NO, NO, 5.0]);
        logits(of(4), &said, &x, &x);
        logits(of(0), &said, &x, &x);
    }
}
