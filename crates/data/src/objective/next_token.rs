//! The next token: `input = x₀ … xₙ₋₁`, `target = x₁ … xₙ`.
//!
//! Per document, a text is a sample (a long one several, each taking up where the last left off). Packed, the documents
//! of the corpus stand one after the other, each ended by its end token, and the stream is cut into rows of one length,
//! so that no place is wasted on padding:
//!
//! ```text
//! documents   1 1 1 1 2 2 2 | 2 2 3 3 3 3 4 | …      positions   0 1 2 3 0 1 2 | 3 4 0 1 2 3 0 | …
//! ```

use super::{Dropped, IGNORED, Made, Prepared, Sample, wrong};
use crate::tokenize::{Role, Tokenize, need};
use crate::{Example, Result};
use std::sync::Arc;

/// The next-token objective.
#[derive(Clone)]
pub struct NextToken {
    /// text to ids
    pub tokenizer: Arc<dyn Tokenize>,
    /// what ends a document
    pub end: u32,
    /// what begins one, where the family has such a token (LLaMA)
    pub begin: Option<u32>,
    /// tokens a row
    pub length: usize,
    /// one document after the other in rows of one length, or a row each
    pub packing: Option<Borders>,
}

/// What a packed row says about the border between two documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Borders {
    /// documents do not see each other: they carry numbers, positions restart, and the first token of a document is no
    /// target
    Closed,
    /// one stream of text, as GPT-2 was trained
    Open,
}

impl NextToken {
    /// Documents ended by the tokenizer's end token, begun by nothing.
    pub fn new(tokenizer: Arc<dyn Tokenize>, length: usize, packing: Option<Borders>) -> Result<Self> {
        let end = need(&*tokenizer, Role::Eos, "the end of a document")?;
        Ok(Self { tokenizer, end, begin: None, length: length.max(1), packing })
    }

    /// The tokens of a document, with its end.
    pub fn document(&self, example: &Example) -> Result<Vec<u32>> {
        let text = match example {
            Example::Text(text) => text,
            other => return Err(wrong(other, "next-token prediction", "texts")),
        };
        let mut ids: Vec<u32> = self.begin.into_iter().collect();
        ids.extend(self.tokenizer.encode(text)?.ids);
        ids.push(self.end);
        Ok(ids)
    }

    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        let ids = self.document(example)?;
        if ids.len() < 2 {
            return Ok(Made::Dropped(Dropped::Empty));
        }
        let starts = (0..ids.len() - 1).step_by(self.length);
        let window = |from: usize| &ids[from..(from + self.length + 1).min(ids.len())];
        let items = starts.map(|from| Prepared::Ready(shifted(window(from)).into())).collect();
        Ok(Made::Items { items, cut: 0 })
    }
}

/// `input` and `target` of n + 1 tokens, n each.
///
/// ```
/// let row = qkv_data::objective::shifted(&[5, 6, 7]);
/// assert_eq!((row.input, row.target), (vec![5, 6], vec![6, 7]));
/// ```
pub fn shifted(ids: &[u32]) -> Sample {
    let n = ids.len().saturating_sub(1);
    Sample::tokens(ids[..n].to_vec(), ids[ids.len() - n..].iter().map(|id| i64::from(*id)).collect())
}

/// The corpus as one stream of tokens, four bytes each, cut into rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    stream: Vec<u32>,
    /// where each document ends in the stream
    ends: Vec<u64>,
    length: usize,
    borders: Borders,
}

impl Packed {
    /// Packs documents in the order given.
    ///
    /// ```
    /// use qkv_data::objective::{Borders, Packed};
    /// let packed = Packed::new([vec![5, 6, 1], vec![7, 1]], 4, Borders::Closed);
    /// let row = packed.row(0).unwrap();
    /// assert_eq!(row.input, [5, 6, 1, 7]);
    /// assert_eq!(row.target, [6, 1, -100, 1]); // the end of one document does not foretell the next
    /// assert_eq!((row.documents, row.positions), (vec![1, 1, 1, 2], vec![0, 1, 2, 0]));
    /// assert_eq!(packed.rows(), 1);
    /// ```
    pub fn new(documents: impl IntoIterator<Item = Vec<u32>>, length: usize, borders: Borders) -> Self {
        let (mut stream, mut ends) = (Vec::new(), Vec::new());
        for document in documents {
            stream.extend(document);
            ends.push(stream.len() as u64);
        }
        Self { stream, ends, length: length.max(1), borders }
    }

    /// How many rows: the last may be shorter, and the very last token has nothing to foretell.
    pub fn rows(&self) -> usize {
        self.stream.len().saturating_sub(1).div_ceil(self.length)
    }

    /// The `row`-th row, `None` past the end.
    pub fn row(&self, row: usize) -> Option<Sample> {
        let from = row.checked_mul(self.length).filter(|from| *from + 1 < self.stream.len())?;
        let ids = self.stream.get(from..(from + self.length + 1).min(self.stream.len()))?;
        let mut sample = shifted(ids);
        if self.borders == Borders::Closed {
            self.close(&mut sample, from);
        }
        Some(sample)
    }

    /// Numbers the documents of a row that begins at `from`, restarts positions, and takes away targets over a border.
    fn close(&self, sample: &mut Sample, from: usize) {
        let first = self.ends.partition_point(|end| *end <= from as u64);
        let mut document = first;
        for i in 0..sample.input.len() {
            let at = (from + i) as u64;
            while self.ends.get(document).is_some_and(|end| *end <= at) {
                document += 1;
            }
            let start = document.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
            // A document cut by the row's beginning starts anew here: what it saw before is out of sight.
            sample.positions.push((at - start.max(from as u64)) as u32);
            sample.documents.push((document - first + 1) as u32);
            if self.ends.get(document) == Some(&(at + 1)) {
                sample.target[i] = IGNORED;
                sample.weight[i] = 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::Words;

    #[test]
    fn a_long_document_is_read_whole() {
        let words = Arc::new(Words::of(["a b c d e"]));
        let objective = NextToken::new(words, 2, None).unwrap();
        let Made::Items { items, cut } = objective.prepare(&Example::Text("a b c d".into())).unwrap() else { panic!() };
        let rows: Vec<_> = items
            .iter()
            .map(|item| match item {
                Prepared::Ready(sample) => (sample.input.clone(), sample.target.clone()),
                Prepared::Raw { .. } => panic!(),
            })
            .collect();
        assert_eq!(rows, [(vec![107, 108], vec![108, 109]), (vec![109, 110], vec![110, 3])]);
        assert_eq!(cut, 0);
    }

    /// Every token but the first of the stream is a target exactly once when borders are open; when they are closed,
    /// every token but the first of each document.
    #[test]
    fn packing_loses_no_token() {
        let documents: Vec<Vec<u32>> = (1..8u32).map(|n| (0..n).map(|i| n * 10 + i).collect()).collect();
        let all: Vec<i64> = documents.iter().flatten().map(|id| i64::from(*id)).collect();
        for length in 1..12 {
            for borders in [Borders::Open, Borders::Closed] {
                let packed = Packed::new(documents.clone(), length, borders);
                let rows: Vec<Sample> = (0..packed.rows()).map(|row| packed.row(row).unwrap()).collect();
                let targets: Vec<i64> =
                    rows.iter().flat_map(|r| r.target.clone()).filter(|target| *target != IGNORED).collect();
                let want: Vec<i64> = match borders {
                    Borders::Open => all[1..].to_vec(),
                    Borders::Closed => all.iter().copied().filter(|id| id % 10 != 0).collect(),
                };
                assert_eq!(targets, want, "rows of {length}");
                assert!(packed.row(packed.rows()).is_none());
            }
        }
    }

    #[test]
    fn a_document_that_a_row_cuts_begins_again() {
        let packed = Packed::new([vec![1, 2, 3, 4, 5], vec![6, 7]], 3, Borders::Closed);
        let row = packed.row(1).unwrap();
        assert_eq!(row.input, [4, 5, 6]);
        assert_eq!((row.positions, row.documents), (vec![0, 1, 0], vec![1, 1, 2]));
        assert_eq!(row.target, [5, IGNORED, 7]);
    }
}
