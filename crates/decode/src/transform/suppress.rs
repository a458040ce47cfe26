//! Suppressed tokens: never said, or not said at the beginning.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// Forbids tokens everywhere.
    Suppress = "suppress" ["suppress_tokens"],
    about "tokens that are never said", off "an empty list forbids nothing", example "suppress 3|4|5",
    { ids: Vec<u32>, in Ids, "the tokens"; }
}

step! {
    /// Forbids tokens at the beginning of the answer.
    SuppressBegin = "suppress_begin" ["begin_suppress_tokens", "suppress_at_begin"],
    about "tokens that do not begin the answer", off "an empty list forbids nothing", example "suppress_begin 3|4|5",
    {
        ids: Vec<u32>, in Ids, "the tokens";
        after: usize = "0", in Whole(0), "new tokens that follow a lone start token before the beginning: 1 with a forced_bos";
    }
}

impl Transform for Suppress {
    fn apply(&self, row: &mut Row, _: &History) {
        row.forbid(self.ids.iter().copied());
    }

    fn idle(&self) -> bool {
        self.ids.is_empty()
    }
}

impl Transform for SuppressBegin {
    fn apply(&self, row: &mut Row, said: &History) {
        let after = if said.prompt.len() == 1 { self.after } else { 0 };
        if said.generated.len() == after {
            row.forbid(self.ids.iter().copied());
        }
    }

    fn idle(&self) -> bool {
        self.ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    #[test]
    fn by_hand() {
        let said = |generated| History { prompt: &[0], generated, ..History::default() };
        let x = [1.0, 2.0, NO];
        logits(Suppress::new(vec![0, 2, 77]).unwrap(), &said(&[1]), &x, &[NO, 2.0, NO]);
        logits(Suppress::new(vec![]).unwrap(), &said(&[]), &x, &x);
        let begin = |after| SuppressBegin::new(vec![0], after).unwrap();
        logits(begin(0), &said(&[]), &x, &[NO, 2.0, NO]);
        logits(begin(0), &said(&[1]), &x, &x);
        logits(begin(1), &said(&[]), &x, &x);
        logits(begin(1), &said(&[1]), &x, &[NO, 2.0, NO]);
        // A longer prompt has its forced_bos, if any, behind it.
        logits(begin(1), &History { prompt: &[0, 0], ..History::default() }, &x, &[NO, 2.0, NO]);
    }
}
