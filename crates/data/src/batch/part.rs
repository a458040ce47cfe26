//! Some rows of a batch: what several ranks share out among them.

use super::Batch;
use std::ops::Range;

impl Batch {
    /// These rows of it, as wide as they were: what is computed of a row does not depend on its neighbours.
    ///
    /// ```
    /// use qkv_data::Batch;
    /// let batch = Batch { rows: 2, length: 2, ids: vec![1, 2, 3, 4], targets: vec![2, 3, 4, 5], ..Batch::default() };
    /// let part = batch.part(1..2);
    /// assert_eq!((part.rows, part.ids, part.targets), (1, vec![3, 4], vec![4, 5]));
    /// ```
    pub fn part(&self, rows: Range<usize>) -> Self {
        let rows = rows.start.min(self.rows)..rows.end.min(self.rows);
        let weights = part(&self.weights, self.rows, &rows);
        Self {
            rows: rows.len(),
            length: self.length,
            ids: part(&self.ids, self.rows, &rows),
            token_types: part(&self.token_types, self.rows, &rows),
            lengths: part(&self.lengths, self.rows, &rows),
            side: self.side,
            memory_length: self.memory_length,
            memory: part(&self.memory, self.rows, &rows),
            memory_lengths: part(&self.memory_lengths, self.rows, &rows),
            aim: self.aim,
            targets: part(&self.targets, self.rows, &rows),
            tokens: weights.iter().filter(|weight| **weight > 0.0).count(),
            weights,
            times: part(&self.times, self.rows, &rows),
            documents: part(&self.documents, self.rows, &rows),
            positions: part(&self.positions, self.rows, &rows),
            prefixes: part(&self.prefixes, self.rows, &rows),
            pixels: part(&self.pixels, self.rows, &rows),
            picture: self.picture,
            members: part(&self.members, self.rows, &rows),
        }
    }
}

/// The rows of a field that has the same number of values for each, or none at all.
fn part<T: Clone>(values: &[T], all: usize, rows: &Range<usize>) -> Vec<T> {
    let width = values.len() / all.max(1);
    values.get(rows.start * width..rows.end * width).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use crate::Batch;
    use crate::batch::Side;
    use crate::objective::{Aim, Sample};

    /// Parts beside each other are the batch again: every field, whatever the aim.
    #[test]
    fn parts_are_the_batch_again() {
        let sample = |n: u32, aim: Aim| {
            let input: Vec<u32> = (0..n).collect();
            let targets = match aim {
                Aim::Tokens => n as usize,
                Aim::Class => 1,
                Aim::Span => 2,
            };
            Sample {
                token_types: vec![1; input.len()],
                memory: Some(vec![n; 1 + n as usize % 3]),
                target: (0..targets as i64).collect(),
                weight: (0..targets).map(|i| (i % 2) as f32).collect(),
                prefix: n as usize,
                pixels: vec![n as f32; 4],
                picture: [1, 2, 2],
                spans: vec![],
                documents: vec![1; input.len()],
                positions: vec![3; input.len()],
                aim,
                input,
            }
        };
        for aim in [Aim::Tokens, Aim::Class, Aim::Span] {
            let samples: Vec<Sample> = (1..=5).map(|n| sample(n, aim)).collect();
            let mut batch = Batch::new(&samples, 9, Side::Right).expect("alike");
            batch.members = (0..5).map(|i| vec![i]).collect();
            batch.times = (0..batch.weights.len()).map(|i| i as f32).collect();
            assert_eq!(batch.part(0..5), batch);
            let (a, b) = (batch.part(0..2), batch.part(2..5));
            assert_eq!((a.rows, b.rows, a.tokens + b.tokens), (2, 3, batch.tokens));
            assert_eq!([a.ids, b.ids].concat(), batch.ids);
            assert_eq!([a.targets, b.targets].concat(), batch.targets);
            assert_eq!([a.weights, b.weights].concat(), batch.weights);
            assert_eq!([a.times, b.times].concat(), batch.times);
            assert_eq!([a.memory, b.memory].concat(), batch.memory);
            assert_eq!([a.token_types, b.token_types].concat(), batch.token_types);
            assert_eq!([a.documents, b.documents].concat(), batch.documents);
            assert_eq!([a.positions, b.positions].concat(), batch.positions);
            assert_eq!([a.pixels, b.pixels].concat(), batch.pixels);
            assert_eq!([a.lengths, b.lengths].concat(), batch.lengths);
            assert_eq!([a.prefixes, b.prefixes].concat(), batch.prefixes);
            assert_eq!([a.memory_lengths, b.memory_lengths].concat(), batch.memory_lengths);
            assert_eq!([a.members, b.members].concat(), batch.members);
        }
        assert_eq!(Batch::default().part(0..3).rows, 0);
    }
}
