//! Tagging: a tag a word, told on the first piece of the word; its other pieces and the special tokens are ignored.

use super::{Dropped, Frame, IGNORED, Labels, Made, Sample, wrong};
use crate::{Example, Result, Tokenize};
use std::sync::Arc;

/// The tagging objective.
#[derive(Clone)]
pub struct Tag {
    /// text to ids
    pub tokenizer: Arc<dyn Tokenize>,
    /// the special tokens around the words
    pub frame: Frame,
    /// the tags
    pub labels: Labels,
    /// tokens a row, special ones counted
    pub length: usize,
}

impl Tag {
    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        let Example::Tagged { words, tags } = example else { return Err(wrong(example, "tagging", "tagged words")) };
        let Some(tags) = tags.iter().map(|tag| self.labels.id(tag)).collect::<Option<Vec<u32>>>() else {
            return Ok(Made::Dropped(Dropped::UnknownLabel));
        };
        let pieces = self.tokenizer.encode(&words.join(" "))?;
        let owner = owners(words, &pieces.spans);
        let room = self.frame.room(self.length, self.frame.single_overhead())?;
        let kept = pieces.ids.len().min(room);
        if kept == 0 {
            return Ok(Made::Dropped(Dropped::Empty));
        }
        let first = |i: usize| i == 0 || owner[i] != owner[i - 1];
        let told = |i: usize| tags.get(owner[i]).filter(|_| first(i)).map_or(IGNORED, |tag| i64::from(*tag));
        let ignored = |n: usize| vec![IGNORED; n];
        let target = [ignored(self.frame.open.len()), (0..kept).map(told).collect(), ignored(self.frame.close.len())];
        let token_types = self.frame.single_token_types(kept);
        let sample = Sample { token_types, ..Sample::tokens(self.frame.single(&pieces.ids[..kept]), target.concat()) };
        Ok(Made::one(sample, pieces.ids.len() - kept))
    }
}

/// The word that each piece belongs to: the one its last byte stands in, for a piece may begin with the blank before it.
fn owners(words: &[String], spans: &[(usize, usize)]) -> Vec<usize> {
    let mut end = 0;
    let mut ends = Vec::with_capacity(words.len());
    for word in words {
        end += word.len();
        ends.push(end);
        end += 1;
    }
    spans.iter().map(|(_, to)| ends.partition_point(|end| end < to).min(words.len().saturating_sub(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Prepared;
    use super::*;
    use crate::tokenize::tests::Thirds;

    #[test]
    fn the_first_piece_carries_the_tag() {
        let pieces = Arc::new(Thirds::of("Ada Lovelace left Zürich"));
        let frame = Frame::bert(&*pieces).unwrap();
        let labels = Labels::new(["O", "B-PER", "I-PER", "B-LOC"]);
        let tag = Tag { tokenizer: pieces, frame, labels, length: 9 };
        let words = [("Ada", "B-PER"), ("Lovelace", "I-PER"), ("left", "O"), ("Zürich", "B-LOC")];
        let Made::Items { items, cut } = tag.prepare(&Example::tagged(words)).unwrap() else { panic!() };
        let [Prepared::Ready(sample)] = items.as_slice() else { panic!() };
        // [CLS] Ada Lov ela ce lef t Zür [SEP], and `ich` did not fit
        const I: i64 = IGNORED;
        assert_eq!(sample.target, [I, 1, 2, I, I, 0, I, 3, I]);
        assert_eq!((cut, sample.input.len(), sample.token_types.len()), (1, 9, 9));
        let unknown = tag.prepare(&Example::tagged([("Ada", "B-ORG")])).unwrap();
        assert_eq!(unknown, Made::Dropped(Dropped::UnknownLabel));
    }

    #[test]
    fn a_piece_that_begins_with_the_blank_belongs_to_the_word_after_it() {
        let words = ["ab".to_string(), "cd".to_string()];
        assert_eq!(owners(&words, &[(0, 1), (1, 2), (2, 4), (4, 5)]), [0, 0, 1, 1]);
    }
}
