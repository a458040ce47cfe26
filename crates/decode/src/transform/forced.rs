//! Forced tokens: at a given position nothing but the given token is possible, even if an earlier step took it out.
//!
//! Translation models begin with the target language (`forced_bos`) and, at the length limit, end properly (`forced_eos`);
//! `forced_prefix` starts every answer alike, `forced_tokens` is transformers' `forced_decoder_ids`.

use super::{History, Transform, sheet::step};
use crate::row::Row;

step! {
    /// The token after the start token.
    ForcedBos = "forced_bos" ["forced_bos_token_id"],
    about "the token right after the start token", off "there is no value that turns it off; leave it out",
    example "forced_bos 250004",
    { ids: Vec<u32>, in Ids, "the token"; }
}

step! {
    /// The last token the length limit has room for.
    ForcedEos = "forced_eos" ["forced_eos_token_id"],
    about "the last token for which the length limit has room", off "there is no value that turns it off; leave it out",
    example "forced_eos 2",
    { ids: Vec<u32>, in Ids, "the token, or several of which one is chosen"; }
}

step! {
    /// The first tokens of the answer.
    ForcedPrefix = "forced_prefix" ["prefix"],
    about "the first tokens of the answer", off "an empty list forces nothing", example "forced_prefix 8|15|3",
    { ids: Vec<u32>, in Ids, "the tokens in their order"; }
}

step! {
    /// Tokens at positions.
    ForcedTokens = "forced_tokens" ["forced_decoder_ids"],
    about "tokens at positions, counted from the prompt's first as 0", off "an empty list forces nothing",
    example "forced_tokens 1:42|2:43",
    { places: Vec<(usize, u32)>, in Places, "position and token"; }
}

impl Transform for ForcedBos {
    fn apply(&self, row: &mut Row, said: &History) {
        if said.len() == 1 && !self.idle() {
            row.force(&self.ids);
        }
    }

    fn idle(&self) -> bool {
        self.ids.is_empty()
    }
}

impl Transform for ForcedEos {
    fn apply(&self, row: &mut Row, said: &History) {
        if said.limit == Some(said.len() + 1) && !self.idle() {
            row.force(&self.ids);
        }
    }

    fn idle(&self) -> bool {
        self.ids.is_empty()
    }
}

impl Transform for ForcedPrefix {
    fn apply(&self, row: &mut Row, said: &History) {
        if let Some(id) = self.ids.get(said.generated.len()) {
            row.force(&[*id]);
        }
    }

    fn idle(&self) -> bool {
        self.ids.is_empty()
    }
}

impl Transform for ForcedTokens {
    fn apply(&self, row: &mut Row, said: &History) {
        if let Some((_, id)) = self.places.iter().find(|(place, _)| *place == said.len()) {
            row.force(&[*id]);
        }
    }

    fn idle(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{NO, logits};
    use super::*;

    #[test]
    fn by_hand() {
        let x = [1.0, NO, 3.0];
        let said = |prompt, generated| History { prompt, generated, limit: Some(4), ..History::default() };
        let bos = ForcedBos::new(vec![1]).unwrap();
        logits(bos.clone(), &said(&[0], &[]), &x, &[NO, 0.0, NO]);
        logits(bos.clone(), &said(&[0], &[2]), &x, &x);
        logits(bos, &said(&[0, 0], &[]), &x, &x);
        let eos = ForcedEos::new(vec![0, 1]).unwrap();
        logits(eos.clone(), &said(&[0], &[2, 2]), &x, &[0.0, 0.0, NO]);
        logits(eos.clone(), &said(&[0], &[2]), &x, &x);
        logits(eos, &History { limit: None, ..said(&[0], &[2, 2]) }, &x, &x);
        let prefix = ForcedPrefix::new(vec![2, 1]).unwrap();
        logits(prefix.clone(), &said(&[0, 0], &[]), &x, &[NO, NO, 0.0]);
        logits(prefix.clone(), &said(&[0, 0], &[2]), &x, &[NO, 0.0, NO]);
        logits(prefix, &said(&[0, 0], &[2, 1]), &x, &x);
        let tokens = ForcedTokens::new(vec![(2, 0), (3, 1)]).unwrap();
        logits(tokens.clone(), &said(&[0, 0], &[]), &x, &[0.0, NO, NO]);
        logits(tokens.clone(), &said(&[0, 0], &[2]), &x, &[NO, 0.0, NO]);
        logits(tokens, &said(&[0], &[]), &x, &x);
        logits(ForcedBos::new(vec![]).unwrap(), &said(&[0], &[]), &x, &x);
    }
}
