//! Prefix language model: a decoder whose first tokens see each other both ways; only what follows is to be told.
//!
//! ```text
//! tokens   p p p │ t t t          sight   the p's see all p's; each t sees the p's and the t's before it
//! target   – – t   t t ■
//! ```

use super::{Dropped, IGNORED, Made, Sample, cut, wrong};
use crate::tokenize::{Role, Tokenize, need};
use crate::{Example, Key, Result};
use std::sync::Arc;

/// Where the prefix ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixSplit {
    /// after the source of a pair: learning to answer a prompt
    Pairs,
    /// at a random place of a text, another in every epoch
    Random,
}

/// The prefix objective.
#[derive(Clone)]
pub struct Prefix {
    /// text to ids
    pub tokenizer: Arc<dyn Tokenize>,
    /// tokens a row
    pub length: usize,
    /// where the prefix ends
    pub split: PrefixSplit,
    /// do the tokens of the prefix see each other both ways? Not in a plain decoder such as GPT-2
    pub both_ways: bool,
    end: u32,
}

impl Prefix {
    /// With the tokenizer's end token.
    pub fn new(tokenizer: Arc<dyn Tokenize>, length: usize, split: PrefixSplit, both_ways: bool) -> Result<Self> {
        let end = need(&*tokenizer, Role::Eos, "the end of a text")?;
        Ok(Self { tokenizer, length: length.max(2), split, both_ways, end })
    }

    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        match (self.split, example) {
            (PrefixSplit::Pairs, Example::Pair { source, target }) => self.pair(source, target),
            (PrefixSplit::Random, Example::Text(text)) => {
                let pieces = self.tokenizer.encode(text)?;
                Ok(match pieces.ids.len() {
                    0 | 1 => Made::Dropped(Dropped::Empty),
                    _ => Made::raw(&pieces.ids, &pieces.first_of_word, self.length - 1),
                })
            }
            (PrefixSplit::Pairs, other) => Err(wrong(other, "a prefix language model of pairs", "pairs")),
            (PrefixSplit::Random, other) => Err(wrong(other, "a prefix language model", "texts")),
        }
    }

    /// The source is cut from its beginning when both do not fit: the end of a prompt is nearest to its answer.
    fn pair(&self, source: &str, target: &str) -> Result<Made> {
        let mut source = self.tokenizer.encode(source)?.ids;
        let mut target = self.tokenizer.encode(target)?.ids;
        if source.is_empty() || target.is_empty() {
            return Ok(Made::Dropped(Dropped::Empty));
        }
        let lost = cut(&mut target, self.length - 1);
        let drop = (source.len() + target.len()).saturating_sub(self.length).min(source.len() - 1);
        source.drain(..drop);
        Ok(Made::one(self.join(&source, &target), lost + drop))
    }

    pub(super) fn sample(&self, ids: &[u32], key: Key) -> Sample {
        let at = if ids.len() < 2 { ids.len() } else { 1 + key.below(0, ids.len() - 1) };
        self.join(&ids[..at], &ids[at..])
    }

    fn join(&self, source: &[u32], target: &[u32]) -> Sample {
        let input = [source, target].concat();
        let said = target.iter().chain([&self.end]).map(|id| i64::from(*id));
        let target = std::iter::repeat_n(IGNORED, source.len().saturating_sub(1)).chain(said).collect();
        let prefix = if self.both_ways { source.len() } else { 0 };
        Sample { prefix, ..Sample::tokens(input, target) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::Words;

    fn objective(length: usize, split: PrefixSplit) -> Prefix {
        Prefix::new(Arc::new(Words::of(["a b c x y"])), length, split, true).unwrap()
    }

    #[test]
    fn only_the_answer_is_to_be_told() {
        let made = objective(8, PrefixSplit::Pairs).prepare(&Example::pair("a b", "x y")).unwrap();
        let want = Sample { prefix: 2, ..Sample::tokens(vec![107, 108, 110, 111], vec![IGNORED, 110, 111, 3]) };
        assert_eq!(made, Made::one(want, 0));
        let Made::Items { cut, .. } = objective(3, PrefixSplit::Pairs).prepare(&Example::pair("a b c", "x y")).unwrap()
        else {
            panic!()
        };
        assert_eq!(cut, 2);
    }

    #[test]
    fn a_text_is_split_anywhere() {
        let objective = objective(16, PrefixSplit::Random);
        let ids: Vec<u32> = (200..210).collect();
        let prefixes: std::collections::BTreeSet<usize> =
            (0..300).map(|epoch| objective.sample(&ids, Key::new(1, epoch, 0)).prefix).collect();
        assert_eq!(prefixes, (1..10).collect());
        let sample = objective.sample(&ids, Key::new(1, 0, 0));
        assert_eq!(sample.input.len(), sample.target.len());
        assert_eq!(sample.target.iter().filter(|t| **t != IGNORED).count(), 10 - sample.prefix + 1);
    }
}
