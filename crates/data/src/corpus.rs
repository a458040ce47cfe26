//! Examples by number: what every objective and batch asks of the data, whether it lies in memory, in an indexed file
//! or is made on the spot.

use crate::{Example, Result};
use std::sync::Arc;

/// Examples that one can ask for in any order.
pub trait Corpus: Send + Sync {
    /// How many.
    fn len(&self) -> usize;

    /// The `index`-th; an error when the file under it has changed or the index is past the end.
    fn get(&self, index: usize) -> Result<Example>;

    /// None at all?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tokens of the `index`-th example, where the corpus holds rows of tokens (shards): a row is read as it stands, and
    /// its last token is only foretold.
    fn tokens(&self, _index: usize) -> Result<Option<Vec<u32>>> {
        Ok(None)
    }

    /// All answers to the `index`-th question that are right, as people wrote them down; none where it has no answer.
    fn answers(&self, index: usize) -> Result<Vec<String>> {
        Ok(match self.get(index)? {
            Example::Question { answer, .. } if !answer.is_empty() => vec![answer],
            _ => vec![],
        })
    }

    /// Where the `index`-th example comes from, as a person would look it up.
    fn place(&self, index: usize) -> String {
        format!("example {}", index + 1)
    }
}

/// The examples of a corpus, first to last.
pub struct Examples<'a> {
    corpus: &'a dyn Corpus,
    next: usize,
}

impl<'a> dyn Corpus + 'a {
    /// The examples, first to last.
    ///
    /// ```
    /// use qkv_data::{Corpus, Example};
    /// let rows = vec![Example::Text("one".into()), Example::Text("two".into())];
    /// let corpus: &dyn Corpus = &rows;
    /// assert_eq!(corpus.examples().count(), 2);
    /// ```
    pub fn examples(&'a self) -> Examples<'a> {
        Examples { corpus: self, next: 0 }
    }
}

impl Iterator for Examples<'_> {
    type Item = Result<Example>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.next;
        (index < self.corpus.len()).then(|| {
            self.next += 1;
            self.corpus.get(index)
        })
    }
}

/// The error of asking past the end.
pub(crate) fn past_end(index: usize, len: usize) -> crate::Error {
    crate::Error::new(
        "corpus",
        format!("example {index} of {len} asked for"),
        "count from 0 to one less than the length",
    )
}

impl Corpus for Vec<Example> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn get(&self, index: usize) -> Result<Example> {
        self.as_slice().get(index).cloned().ok_or_else(|| past_end(index, Vec::len(self)))
    }
}

/// Some of the examples of a corpus: one side of a split, the first thousand.
pub struct Subset {
    whole: Arc<dyn Corpus>,
    chosen: Vec<u32>,
}

impl Subset {
    /// The examples at `chosen`, in that order.
    pub fn new(whole: Arc<dyn Corpus>, chosen: Vec<u32>) -> Self {
        Self { whole, chosen }
    }
}

impl Corpus for Subset {
    fn len(&self) -> usize {
        self.chosen.len()
    }

    fn get(&self, index: usize) -> Result<Example> {
        let chosen = self.chosen.get(index).ok_or_else(|| past_end(index, self.chosen.len()))?;
        self.whole.get(*chosen as usize)
    }

    fn tokens(&self, index: usize) -> Result<Option<Vec<u32>>> {
        let chosen = self.chosen.get(index).ok_or_else(|| past_end(index, self.chosen.len()))?;
        self.whole.tokens(*chosen as usize)
    }

    fn answers(&self, index: usize) -> Result<Vec<String>> {
        let chosen = self.chosen.get(index).ok_or_else(|| past_end(index, self.chosen.len()))?;
        self.whole.answers(*chosen as usize)
    }

    fn place(&self, index: usize) -> String {
        self.chosen.get(index).map_or_else(|| format!("example {}", index + 1), |i| self.whole.place(*i as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_is_a_corpus_of_its_own() {
        let rows: Vec<Example> = ["a", "b", "c"].map(|t| Example::Text(t.into())).into();
        let subset = Subset::new(Arc::new(rows), vec![2, 0]);
        let got: Vec<Example> = (&subset as &dyn Corpus).examples().collect::<Result<_>>().unwrap();
        assert_eq!(got, [Example::Text("c".into()), Example::Text("a".into())]);
        assert_eq!(subset.place(0), "example 3");
        assert!(subset.get(2).is_err());
    }
}
