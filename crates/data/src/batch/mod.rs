//! Batches: samples side by side in flat rows, padded, with everything a model asks for.

mod items;
mod lengths;
mod loader;
mod order;
mod part;
mod plan;

use crate::objective::{Aim, IGNORED, Sample};
use crate::{Error, Result};

pub use items::{Counts, Items, Keep};
pub use lengths::Lengths;
pub use loader::{Loader, Place, Policy, Stream};
pub use order::Order;
pub use plan::{Rows, Turn};

/// On which side of a short row the padding stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// before the text: for generating with a decoder, whose last place must be a real token
    Left,
    /// after the text
    #[default]
    Right,
}

/// Rows of equal length. Everything is row-major: the token at place t of row r is `ids[r · length + t]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// B
    pub rows: usize,
    /// T, of the input
    pub length: usize,
    /// what the (only or right-hand) stack reads, `[B, T]`
    pub ids: Vec<u32>,
    /// kinds `[B, T]`; empty where the family has none
    pub token_types: Vec<u32>,
    /// how many tokens of each row are real, `[B]`
    pub lengths: Vec<usize>,
    /// where the padding of the input stands; memory is always padded on the right
    pub side: Side,
    /// S, of the memory; 0 without one
    pub memory_length: usize,
    /// what the encoder of an encoder-decoder reads, `[B, S]`
    pub memory: Vec<u32>,
    /// how many tokens of each row of the memory are real, `[B]`; empty without one
    pub memory_lengths: Vec<usize>,
    /// how to read the targets
    pub aim: Aim,
    /// `[B, T]`, `[B]` or `[B, 2]` by aim; −100 where nothing is to be said
    pub targets: Vec<i64>,
    /// one for each target; 0 where it is ignored
    pub weights: Vec<f32>,
    /// how many times its weight each target counts in what is minimised: rare classes count more; empty: once
    pub times: Vec<f32>,
    /// which document of its row a token belongs to, from 1, 0 for padding, `[B, T]`; empty when rows are not packed
    pub documents: Vec<u32>,
    /// the place of a token in its document, 0 for padding, `[B, T]`
    pub positions: Vec<u32>,
    /// so many tokens of each row see each other both ways, `[B]`
    pub prefixes: Vec<usize>,
    /// normalised pictures `[B, C, H, W]`; empty for text
    pub pixels: Vec<f32>,
    /// C, H, W
    pub picture: [usize; 3],
    /// targets that count
    pub tokens: usize,
    /// the samples of each row, to name them when something goes wrong
    pub members: Vec<Vec<usize>>,
}

impl Batch {
    /// Puts samples side by side.
    ///
    /// ```
    /// use qkv_data::{Batch, Sample, batch::Side};
    /// let row = |input: Vec<u32>| Sample { target: vec![1; input.len()], weight: vec![1.0; input.len()], input, ..Sample::default() };
    /// let batch = Batch::new(&[row(vec![7, 8, 9]), row(vec![5])], 0, Side::Left)?;
    /// assert_eq!(batch.ids, [7, 8, 9, 0, 0, 5]);
    /// assert_eq!(batch.positions, [0, 1, 2, 0, 0, 0]);
    /// assert_eq!(batch.mask(), [true, true, true, false, false, true]);
    /// # Ok::<(), qkv_data::Error>(())
    /// ```
    pub fn new(samples: &[Sample], pad: u32, side: Side) -> Result<Self> {
        let first = samples.first().ok_or_else(|| Error::new("batch", "no rows", "give at least one sample"))?;
        let length = samples.iter().map(|s| s.input.len()).max().unwrap_or(0);
        let memory_length = samples.iter().filter_map(|s| s.memory.as_ref()).map(Vec::len).max().unwrap_or(0);
        let mut batch = Self { rows: samples.len(), length, memory_length, side, aim: first.aim, ..Self::default() };
        batch.picture = first.picture;
        let packed = samples.iter().any(|s| !s.documents.is_empty());
        for sample in samples {
            if !alike(first, sample) {
                let hint = "samples of one batch must come from one objective and pictures have one size";
                return Err(Error::new("batch", "rows of different token_types", hint));
            }
            batch.push(sample, pad, packed);
        }
        Ok(batch)
    }

    fn push(&mut self, sample: &Sample, pad: u32, packed: bool) {
        let (n, length, side) = (sample.input.len(), self.length, self.side);
        fill(&mut self.ids, &sample.input, length, pad, side);
        if !sample.token_types.is_empty() {
            fill(&mut self.token_types, &sample.token_types, length, 0, side);
        }
        if sample.positions.is_empty() {
            let positions: Vec<u32> = (0..n as u32).collect();
            fill(&mut self.positions, &positions, length, 0, side);
        } else {
            fill(&mut self.positions, &sample.positions, length, 0, side);
        }
        if packed && sample.documents.is_empty() {
            fill(&mut self.documents, &vec![1; n], length, 0, side);
        } else if packed {
            fill(&mut self.documents, &sample.documents, length, 0, side);
        }
        if let Some(memory) = &sample.memory {
            fill(&mut self.memory, memory, self.memory_length, pad, Side::Right);
            self.memory_lengths.push(memory.len());
        }
        match sample.aim {
            Aim::Tokens => {
                fill(&mut self.targets, &sample.target, length, IGNORED, side);
                fill(&mut self.weights, &sample.weight, length, 0.0, side);
            }
            Aim::Span => {
                // Places move with the padding.
                let shift = if side == Side::Left { length - n } else { 0 } as i64;
                self.targets.extend(sample.target.iter().map(|at| at + shift));
                self.weights.extend(&sample.weight);
            }
            Aim::Class => {
                self.targets.extend(&sample.target);
                self.weights.extend(&sample.weight);
            }
        }
        self.lengths.push(n);
        self.prefixes.push(sample.prefix);
        self.pixels.extend(&sample.pixels);
        self.tokens += sample.weight.iter().filter(|weight| **weight > 0.0).count();
    }

    /// Which places of the input are real, `[B, T]`.
    pub fn mask(&self) -> Vec<bool> {
        mask(&self.lengths, self.length, self.side)
    }

    /// What the loss that is minimised is divided by: the weights, each as many times as it counts.
    pub fn minimised(&self) -> f64 {
        let times = |i: usize| self.times.get(i).copied().unwrap_or(1.0);
        self.weights.iter().enumerate().map(|(i, weight)| f64::from(*weight) * f64::from(times(i))).sum()
    }

    /// Which places of the memory are real, `[B, S]`.
    pub fn memory_mask(&self) -> Vec<bool> {
        mask(&self.memory_lengths, self.memory_length, Side::Right)
    }

    /// Are all ids and targets ones that the model has a row for? Asked before any embedding is looked up.
    pub fn within(&self, vocab: usize, classes: usize) -> Result<()> {
        let hint = "the tokenizer and the model do not belong together, or the labels are not those it was made with";
        let bad = |what: String| Err(Error::new("batch", what, hint));
        if let Some(id) = self.ids.iter().chain(&self.memory).find(|id| **id as usize >= vocab) {
            return bad(format!("token id {id} but the vocabulary ends at {vocab}"));
        }
        let limit = match self.aim {
            Aim::Tokens | Aim::Class => classes,
            Aim::Span => self.length,
        };
        match self.targets.iter().find(|t| **t != IGNORED && usize::try_from(**t).map_or(true, |t| t >= limit)) {
            Some(target) => bad(format!("target {target} but there are {limit} to choose from")),
            None => Ok(()),
        }
    }
}

/// One row of a batch, padded.
fn fill<T: Copy>(out: &mut Vec<T>, row: &[T], length: usize, pad: T, side: Side) {
    let missing = length.saturating_sub(row.len());
    if side == Side::Left {
        out.extend(std::iter::repeat_n(pad, missing));
    }
    out.extend(row);
    if side == Side::Right {
        out.extend(std::iter::repeat_n(pad, missing));
    }
}

fn mask(lengths: &[usize], width: usize, side: Side) -> Vec<bool> {
    let mut mask = Vec::with_capacity(lengths.len() * width);
    lengths.iter().for_each(|n| fill(&mut mask, &vec![true; *n], width, false, side));
    mask
}

/// May these two stand in one batch?
fn alike(a: &Sample, b: &Sample) -> bool {
    a.aim == b.aim
        && a.memory.is_some() == b.memory.is_some()
        && a.token_types.is_empty() == b.token_types.is_empty()
        && a.picture == b.picture
        && (b.aim != Aim::Tokens || b.target.len() == b.input.len())
}

/// Several samples in one row: documents are numbered, positions restart.
fn join(samples: &[Sample]) -> Result<Sample> {
    let mut row = Sample::default();
    for (i, sample) in samples.iter().enumerate() {
        if sample.aim != Aim::Tokens || sample.memory.is_some() || sample.prefix > 0 || !sample.documents.is_empty() {
            let hint = "pack token objectives of one stack, or choose fixed rows or a token budget";
            return Err(Error::new("packing", "these samples cannot share a row", hint));
        }
        row.input.extend(&sample.input);
        row.token_types.extend(&sample.token_types);
        row.target.extend(&sample.target);
        row.weight.extend(&sample.weight);
        row.documents.extend(std::iter::repeat_n(i as u32 + 1, sample.input.len()));
        row.positions.extend(0..sample.input.len() as u32);
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: &[u32]) -> Sample {
        let target = input.iter().map(|id| i64::from(*id) + 1).collect();
        Sample { input: input.into(), target, weight: vec![1.0; input.len()], ..Sample::default() }
    }

    #[test]
    fn short_rows_are_padded_on_their_side() {
        let samples = [tokens(&[1, 2, 3]), tokens(&[4])];
        let right = Batch::new(&samples, 9, Side::Right).unwrap();
        assert_eq!(right.ids, [1, 2, 3, 4, 9, 9]);
        assert_eq!(right.targets, [2, 3, 4, 5, IGNORED, IGNORED]);
        assert_eq!(right.weights, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
        assert_eq!(right.tokens, 4);
        let left = Batch::new(&samples, 9, Side::Left).unwrap();
        assert_eq!(left.ids, [1, 2, 3, 9, 9, 4]);
        assert_eq!(left.targets, [2, 3, 4, IGNORED, IGNORED, 5]);
    }

    #[test]
    fn answers_move_with_the_padding() {
        let span = |input: &[u32]| Sample { aim: Aim::Span, target: vec![0, 1], weight: vec![1.0; 2], ..tokens(input) };
        let left = Batch::new(&[span(&[1, 2, 3, 4]), span(&[5, 6])], 0, Side::Left).unwrap();
        assert_eq!(left.targets, [0, 1, 2, 3]);
    }

    #[test]
    fn ids_outside_the_vocabulary_are_found_first() {
        let batch = Batch::new(&[tokens(&[1, 2, 30])], 0, Side::Right).unwrap();
        assert!(batch.within(32, 32).is_ok());
        assert_eq!(batch.within(30, 32).unwrap_err().what, "token id 30 but the vocabulary ends at 30");
        assert_eq!(batch.within(31, 31).unwrap_err().what, "target 31 but there are 31 to choose from");
        let mut negative = batch;
        negative.targets[0] = -7;
        assert_eq!(negative.within(32, 32).unwrap_err().what, "target -7 but there are 32 to choose from");
    }

    #[test]
    fn joined_samples_keep_apart() {
        let row = join(&[tokens(&[1, 2]), tokens(&[3, 4, 5])]).unwrap();
        assert_eq!((row.documents.clone(), row.positions.clone()), (vec![1, 1, 2, 2, 2], vec![0, 1, 0, 1, 2]));
        let batch = Batch::new(&[row, tokens(&[6])], 0, Side::Right).unwrap();
        assert_eq!(batch.documents, [1, 1, 2, 2, 2, 1, 0, 0, 0, 0]);
        assert!(join(&[Sample { aim: Aim::Class, ..tokens(&[1]) }]).is_err());
        assert!(Batch::new(&[], 0, Side::Right).is_err());
        assert!(Batch::new(&[tokens(&[1]), Sample { memory: Some(vec![1]), ..tokens(&[1]) }], 0, Side::Right).is_err());
    }
}
