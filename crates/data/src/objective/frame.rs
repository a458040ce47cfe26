//! The special tokens that a family puts around its texts.
//!
//! | | one text | two texts | decoder begins with |
//! |---|---|---|---|
//! | BERT | `[CLS] a [SEP]` | `[CLS] a [SEP] b [SEP]`, token types 0 and 1 | |
//! | RoBERTa | `<s> a </s>` | `<s> a </s></s> b </s>` | |
//! | T5, Marian | `a </s>` | | `<pad>` |
//! | BART | `<s> a </s>` | | `</s>` |

use crate::tokenize::{Role, Tokenize, need};
use crate::{Error, Result};
use qkv_text::Tokenizer;

/// What stands before, between and after texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// before the first text
    pub open: Vec<u32>,
    /// between two texts
    pub between: Vec<u32>,
    /// after the last text
    pub close: Vec<u32>,
    /// does the family tell the first text from the second by token types?
    pub token_types: bool,
}

impl Frame {
    /// What a tokenizer itself puts around one text and around two, by its own post-processor; nothing where it has none.
    /// A checkpoint brings it along, so what is learnt and what is asked are framed alike.
    pub fn of_tokenizer(tokenizer: &Tokenizer) -> Result<Option<Self>> {
        let one = tokenizer.encode("a", true)?;
        let before = one.special_mask.iter().take_while(|special| **special).count();
        let after = one.special_mask.iter().skip(before).rev().take_while(|special| **special).count();
        let (open, close) = (one.ids[..before].to_vec(), one.ids[one.len() - after..].to_vec());
        if open.is_empty() && close.is_empty() {
            return Ok(None);
        }
        // A tokenizer with two vocabularies takes no pairs: then a text's end stands between two.
        let Ok(two) = tokenizer.encode_pair("a", "a", true) else {
            return Ok(Some(Self { open, between: close.clone(), close, token_types: false }));
        };
        let inner = |i: &usize| two.special_mask[*i] && *i >= before && *i < two.len() - after;
        let between = (0..two.len()).filter(inner).map(|i| two.ids[i]).collect();
        Ok(Some(Self { open, between, close, token_types: two.type_ids.iter().any(|kind| *kind != 0) }))
    }

    /// `[CLS] a [SEP] b [SEP]` with token types.
    ///
    /// ```
    /// use qkv_data::{objective::Frame, tokenize::Words};
    /// let frame = Frame::bert(&Words::of(["x"]))?;
    /// assert_eq!(frame.pair(&[107], &[107]), (vec![4, 107, 5, 107, 5], vec![0, 0, 0, 1, 1]));
    /// # Ok::<(), qkv_data::Error>(())
    /// ```
    pub fn bert(tokenizer: &dyn Tokenize) -> Result<Self> {
        let (cls, sep) = (need(tokenizer, Role::Cls, "BERT")?, need(tokenizer, Role::Sep, "BERT")?);
        Ok(Self { open: vec![cls], between: vec![sep], close: vec![sep], token_types: true })
    }

    /// `<s> a </s></s> b </s>` without token types. RoBERTa calls the same two tokens cls and sep, or bos and eos.
    pub fn roberta(tokenizer: &dyn Tokenize) -> Result<Self> {
        let either = |a, b| tokenizer.role(a).map_or_else(|| need(tokenizer, b, "RoBERTa"), Ok);
        let (bos, eos) = (either(Role::Cls, Role::Bos)?, either(Role::Sep, Role::Eos)?);
        Ok(Self { open: vec![bos], between: vec![eos, eos], close: vec![eos], token_types: false })
    }

    /// `a </s>`.
    pub fn ended(tokenizer: &dyn Tokenize) -> Result<Self> {
        let eos = need(tokenizer, Role::Eos, "the end of a text")?;
        Ok(Self { between: vec![eos], close: vec![eos], ..Self::default() })
    }

    /// One text in its frame.
    pub fn single(&self, text: &[u32]) -> Vec<u32> {
        [&self.open, text, &self.close].concat()
    }

    /// The token types of one text in its frame; empty where the family has none.
    pub fn single_token_types(&self, text: usize) -> Vec<u32> {
        if self.token_types { vec![0; text + self.single_overhead()] } else { Vec::new() }
    }

    /// Two texts in their frame, and their token types.
    pub fn pair(&self, first: &[u32], second: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let ids = [&self.open, first, &self.between, second, &self.close].concat();
        let left = self.open.len() + first.len() + self.between.len();
        let token_types = (0..ids.len()).map(|i| u32::from(i >= left)).collect();
        (ids, if self.token_types { token_types } else { Vec::new() })
    }

    /// The tokens around one text.
    pub fn single_overhead(&self) -> usize {
        self.open.len() + self.close.len()
    }

    /// The tokens around two texts.
    pub fn pair_overhead(&self) -> usize {
        self.single_overhead() + self.between.len()
    }

    /// The room that `length` leaves for the text, at least one token.
    pub(super) fn room(&self, length: usize, overhead: usize) -> Result<usize> {
        length.checked_sub(overhead).filter(|room| *room > 0).ok_or_else(|| {
            let what = format!("a length of {length} leaves no room beside {overhead} special tokens");
            Error::new("length", what, "allow more tokens")
        })
    }
}

/// The frames of an encoder-decoder family, and what its decoder begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seq2Seq {
    /// around the source
    pub source: Frame,
    /// around the target
    pub target: Frame,
    /// the decoder's first input: the target one to the right begins with it
    pub start: u32,
}

impl Seq2Seq {
    /// T5 and Marian: both texts end with `</s>`, the decoder begins with the pad token.
    pub fn t5(source: &dyn Tokenize, target: &dyn Tokenize) -> Result<Self> {
        let start = need(target, Role::Pad, "the decoder's start")?;
        Ok(Self { source: Frame::ended(source)?, target: Frame::ended(target)?, start })
    }

    /// BART: both texts stand between `<s>` and `</s>`, the decoder begins with `</s>`.
    pub fn bart(tokenizer: &dyn Tokenize) -> Result<Self> {
        let (bos, eos) = (need(tokenizer, Role::Bos, "BART")?, need(tokenizer, Role::Eos, "BART")?);
        let frame = Frame { open: vec![bos], between: vec![eos, eos], close: vec![eos], token_types: false };
        Ok(Self { source: frame.clone(), target: frame, start: eos })
    }

    /// As the paper of 2017 has it: the decoder begins with a token of its own.
    pub fn vanilla(source: &dyn Tokenize, target: &dyn Tokenize) -> Result<Self> {
        let start = need(target, Role::Bos, "the decoder's start")?;
        Ok(Self { source: Frame::ended(source)?, target: Frame::ended(target)?, start })
    }

    /// The tokens around either text, at most.
    pub fn overhead(&self) -> usize {
        self.source.single_overhead().max(self.target.single_overhead())
    }

    /// Teacher forcing: the decoder reads the target one to the right and is to say the target.
    pub(super) fn teach(&self, source: &[u32], target: &[u32]) -> super::Sample {
        let said = self.target.single(target);
        let mut input = Vec::with_capacity(said.len());
        input.push(self.start);
        input.extend(said.iter().take(said.len().saturating_sub(1)));
        let target = said.iter().map(|id| i64::from(*id)).collect();
        super::Sample { memory: Some(self.source.single(source)), ..super::Sample::tokens(input, target) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::Words;

    #[test]
    fn each_family_has_its_frame() {
        let words = Words::of(["a", "b"]); // pad 0, unk 1, bos 2, eos 3, cls 4, sep 5
        assert_eq!(Frame::roberta(&words).unwrap().pair(&[7], &[8]), (vec![4, 7, 5, 5, 8, 5], vec![]));
        let t5 = Seq2Seq::t5(&words, &words).unwrap().teach(&[7], &[8, 9]);
        assert_eq!((t5.memory.unwrap(), t5.input, t5.target), (vec![7, 3], vec![0, 8, 9], vec![8, 9, 3]));
        let bart = Seq2Seq::bart(&words).unwrap().teach(&[7], &[8]);
        assert_eq!((bart.memory.unwrap(), bart.input, bart.target), (vec![2, 7, 3], vec![3, 2, 8], vec![2, 8, 3]));
        let vanilla = Seq2Seq::vanilla(&words, &words).unwrap().teach(&[7], &[]);
        assert_eq!((vanilla.input, vanilla.target), (vec![2], vec![3]));
    }
}
