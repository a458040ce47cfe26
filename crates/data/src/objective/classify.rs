//! Classification of a text, or of two: the model reads them in their frame and says one class.

use super::{Dropped, Frame, Made, Sample, cut, wrong};
use crate::{Corpus, Error, Example, Result, Tokenize};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The classes by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    names: Vec<String>,
}

impl Labels {
    /// These classes, in this order.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect() }
    }

    /// The classes (or tags) of a corpus: numbers in their order, then names in theirs.
    ///
    /// ```
    /// use qkv_data::{Example, objective::Labels};
    /// let rows: Vec<Example> = ["10", "9", "good"].map(|label| Example::labelled("x", label)).into();
    /// assert_eq!(Labels::from_examples(&rows)?.names(), ["9", "10", "good"]);
    /// # Ok::<(), qkv_data::Error>(())
    /// ```
    pub fn from_examples(corpus: &dyn Corpus) -> Result<Self> {
        let mut found = BTreeSet::new();
        for example in corpus.examples() {
            match example? {
                Example::Tagged { tags, .. } => found.extend(tags),
                other => found.extend(other.label().map(|label| label.trim().to_string())),
            }
        }
        let mut names: Vec<String> = found.into_iter().filter(|name| !name.is_empty()).collect();
        names.sort_by_key(|name| name.parse::<i64>().map_or((1, 0), |number| (0, number)));
        if names.is_empty() {
            return Err(Error::new("labels", "no example has one", "is the right column named as the label?"));
        }
        Ok(Self { names })
    }

    /// The number of a class.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.names.iter().position(|known| known == name.trim()).map(|i| i as u32)
    }

    /// The classes in their order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// The classification objective.
#[derive(Clone)]
pub struct Classify {
    /// text to ids
    pub tokenizer: Arc<dyn Tokenize>,
    /// the special tokens around the texts
    pub frame: Frame,
    /// the classes
    pub labels: Labels,
    /// tokens a row, special ones counted
    pub length: usize,
}

impl Classify {
    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        let (first, second, label) = match example {
            Example::Labelled { text, label } => (text, None, label),
            Example::LabelledPair { first, second, label } => (first, Some(second), label),
            other => return Err(wrong(other, "classification", "labelled texts")),
        };
        let Some(class) = self.labels.id(label) else { return Ok(Made::Dropped(Dropped::UnknownLabel)) };
        let mut first = self.tokenizer.encode(first)?.ids;
        if first.is_empty() {
            return Ok(Made::Dropped(Dropped::Empty));
        }
        let Some(second) = second else {
            let lost = cut(&mut first, self.frame.room(self.length, self.frame.single_overhead())?);
            let token_types = self.frame.single_token_types(first.len());
            return Ok(Made::one(Sample::class(self.frame.single(&first), token_types, class), lost));
        };
        let mut second = self.tokenizer.encode(second)?.ids;
        let lost = cut_longest(&mut first, &mut second, self.frame.room(self.length, self.frame.pair_overhead())?);
        let (ids, token_types) = self.frame.pair(&first, &second);
        Ok(Made::one(Sample::class(ids, token_types, class), lost))
    }
}

/// Takes tokens from the end of the longer text until both fit; at equal length from the second.
fn cut_longest(first: &mut Vec<u32>, second: &mut Vec<u32>, room: usize) -> usize {
    let lost = (first.len() + second.len()).saturating_sub(room);
    for _ in 0..lost {
        if first.len() > second.len() {
            first.pop()
        } else {
            second.pop()
        };
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::super::Prepared;
    use super::*;
    use crate::tokenize::Words;

    fn objective(length: usize) -> Classify {
        let words = Arc::new(Words::of(["a b c d e"]));
        let frame = Frame::bert(&*words).unwrap();
        Classify { tokenizer: words, frame, labels: Labels::new(["no", "yes"]), length }
    }

    #[test]
    fn one_class_for_a_text() {
        let made = objective(4).prepare(&Example::labelled("a b c", "yes")).unwrap();
        assert_eq!(made, Made::one(Sample::class(vec![4, 107, 108, 5], vec![0; 4], 1), 1));
        let unknown = objective(4).prepare(&Example::labelled("a", "perhaps")).unwrap();
        assert_eq!(unknown, Made::Dropped(Dropped::UnknownLabel));
        assert!(objective(2).prepare(&Example::labelled("a", "yes")).is_err(), "no room");
    }

    #[test]
    fn the_longer_of_two_is_cut() {
        let pair = Example::LabelledPair { first: "a b c d".into(), second: "e".into(), label: "no".into() };
        let Made::Items { items, cut } = objective(6).prepare(&pair).unwrap() else { panic!() };
        let want = Sample::class(vec![4, 107, 108, 5, 111, 5], vec![0, 0, 0, 0, 1, 1], 0);
        assert_eq!((items, cut), (vec![Prepared::Ready(want.into())], 2));
    }
}
