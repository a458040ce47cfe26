//! Which samples make up which batch: a pure function of `(seed, epoch, counter)`.
//!
//! The samples of an epoch stand in the order of a keyed permutation. This order is cut into windows; inside a window,
//! samples are sorted by length (so that rows of like length meet, and little is padded) and cut into batches, whose
//! order is shuffled by another key. To find batch c one needs the lengths of its window only, and how many batches the
//! windows before it have.

use super::lengths::{Arrangement, Lengths};
use crate::Key;

/// How rows are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// so many rows a batch
    Fixed(usize),
    /// as many rows as keep `rows × longest row` within so many tokens, at least one
    Tokens(usize),
    /// rows of `length` tokens, each holding several whole samples with their document numbers, so many rows a batch
    Packed {
        /// tokens a row
        length: usize,
        /// rows a batch
        rows: usize,
    },
}

/// In which order samples come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// a new order every epoch; rows of like length are looked for among so many samples (1: not at all)
    Shuffled {
        /// samples a window
        window: usize,
    },
    /// as they stand in the file: for evaluation
    Straight,
}

/// One epoch.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    lengths: Lengths,
    rows: Rows,
    turn: Turn,
    key: Key,
    order: Arrangement,
    /// how many batches come before each window
    before: Vec<usize>,
}

/// A batch as rows of samples; a row holds one sample unless it is packed.
pub(crate) type Members = Vec<Vec<usize>>;

impl Plan {
    pub(crate) fn new(lengths: Lengths, rows: Rows, turn: Turn, seed: u64, epoch: u64) -> Self {
        let key = Key::new(seed, epoch, 0).named("order");
        let count = lengths.len();
        let order = lengths.order(key);
        let mut plan = Self { lengths, rows, turn, key, order, before: vec![0] };
        for window in 0..count.div_ceil(plan.window()) {
            let batches = match rows {
                // No need to look at lengths to count rows.
                Rows::Fixed(rows) => plan.range(window).len().div_ceil(rows.max(1)),
                _ => plan.batches_of(window).len(),
            };
            plan.before.push(plan.before.last().copied().unwrap_or(0) + batches);
        }
        plan
    }

    /// How many batches this epoch has.
    pub(crate) fn batches(&self) -> usize {
        self.before.last().copied().unwrap_or(0)
    }

    /// The window that holds batch `counter`, and its place there.
    pub(crate) fn locate(&self, counter: usize) -> (usize, usize) {
        let window = self.before.partition_point(|before| *before <= counter).saturating_sub(1);
        (window, counter - self.before.get(window).copied().unwrap_or(0))
    }

    /// The batches of a window in the order they are given out.
    pub(crate) fn batches_of(&self, window: usize) -> Vec<Members> {
        let mut members: Vec<usize> = self.range(window).map(|position| self.index(position)).collect();
        // Stable, so that samples of one length keep the order of the permutation. Straight data is not sorted.
        if self.sorts() {
            members.sort_by_key(|i| self.lengths.get(*i));
        }
        let mut batches = match self.rows {
            Rows::Fixed(rows) => members.chunks(rows.max(1)).map(singles).collect(),
            Rows::Tokens(budget) => self.by_budget(&members, budget),
            Rows::Packed { length, rows } => {
                self.pack(&members, length).chunks(rows.max(1)).map(<[Vec<usize>]>::to_vec).collect::<Vec<_>>()
            }
        };
        if self.sorts() {
            shuffle(&mut batches, self.key.named("batches").child(window as u64));
        }
        batches
    }

    fn sorts(&self) -> bool {
        matches!(self.turn, Turn::Shuffled { window } if window > 1)
    }

    /// Samples a window: a whole number of batches where rows are fixed, so that no batch is short but the last one.
    fn window(&self) -> usize {
        let wanted = match self.turn {
            Turn::Shuffled { window } if window > 1 => window,
            _ => 4096,
        };
        match self.rows {
            Rows::Fixed(rows) => wanted.next_multiple_of(rows.max(1)),
            _ => wanted,
        }
    }

    fn range(&self, window: usize) -> std::ops::Range<usize> {
        let size = self.window();
        window * size..((window + 1) * size).min(self.lengths.len())
    }

    fn index(&self, position: usize) -> usize {
        match self.turn {
            Turn::Shuffled { .. } => self.order.at(position as u64) as usize,
            Turn::Straight => position,
        }
    }

    fn by_budget(&self, members: &[usize], budget: usize) -> Vec<Members> {
        let mut batches: Vec<Members> = Vec::new();
        let mut longest = 0;
        for member in members {
            let length = self.lengths.get(*member) as usize;
            match batches.last_mut() {
                Some(batch) if (batch.len() + 1) * longest.max(length) <= budget => {
                    longest = longest.max(length);
                    batch.push(vec![*member]);
                }
                _ => {
                    longest = length;
                    batches.push(vec![vec![*member]]);
                }
            }
        }
        batches
    }

    /// First fit, longest first (where the order may be changed): each sample goes into the first row with room for it.
    fn pack(&self, members: &[usize], length: usize) -> Members {
        let mut rows: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut put = |member: usize| {
            let size = (self.lengths.get(member) as usize).min(length);
            match rows.iter_mut().find(|(free, _)| *free >= size) {
                Some((free, row)) => {
                    *free -= size;
                    row.push(member);
                }
                None => rows.push((length - size, vec![member])),
            }
        };
        match self.sorts() {
            true => members.iter().rev().for_each(|member| put(*member)),
            false => members.iter().for_each(|member| put(*member)),
        }
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

fn singles(members: &[usize]) -> Members {
    members.iter().map(|member| vec![*member]).collect()
}

/// Fisher and Yates; a batch that is shorter than the others may come anywhere.
fn shuffle<T>(things: &mut [T], key: Key) {
    for i in (1..things.len()).rev() {
        things.swap(i, key.below(i as u64, i + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const SHUFFLED: Turn = Turn::Shuffled { window: 64 };

    fn lengths(n: usize) -> Arc<[u32]> {
        let key = Key::new(9, 9, 9);
        (0..n).map(|i| 1 + key.below(i as u64, 40) as u32).collect()
    }

    fn all(plan: &Plan) -> Vec<Members> {
        (0..plan.batches())
            .map(|counter| {
                let (window, place) = plan.locate(counter);
                plan.batches_of(window)[place].clone()
            })
            .collect()
    }

    #[test]
    fn every_sample_comes_once_an_epoch() {
        for n in [1, 63, 64, 65, 500] {
            let lengths = lengths(n);
            for rows in [Rows::Fixed(7), Rows::Tokens(100), Rows::Packed { length: 40, rows: 3 }] {
                for turn in [SHUFFLED, Turn::Shuffled { window: 1 }, Turn::Straight] {
                    let plan = Plan::new(Lengths::Each(lengths.clone()), rows, turn, 1, 0);
                    let mut seen: Vec<usize> = all(&plan).into_iter().flatten().flatten().collect();
                    if turn == Turn::Straight {
                        let packed = matches!(rows, Rows::Packed { .. });
                        assert!(packed || seen.is_sorted(), "straight data keeps its order");
                    }
                    seen.sort();
                    assert_eq!(seen, (0..n).collect::<Vec<_>>(), "{rows:?} {turn:?}");
                }
            }
        }
    }

    #[test]
    fn budgets_and_rows_are_kept() {
        let lengths = lengths(500);
        let longest = |row: &Vec<usize>| row.iter().map(|i| lengths[*i] as usize).sum::<usize>();
        for batch in all(&Plan::new(Lengths::Each(lengths.clone()), Rows::Tokens(200), SHUFFLED, 1, 0)) {
            assert!(batch.len() * batch.iter().map(longest).max().unwrap() <= 200);
        }
        let fixed = all(&Plan::new(Lengths::Each(lengths.clone()), Rows::Fixed(8), SHUFFLED, 1, 0));
        assert_eq!(fixed.iter().filter(|batch| batch.len() != 8).count(), 1, "only the last is short");
        let packed =
            all(&Plan::new(Lengths::Each(lengths.clone()), Rows::Packed { length: 40, rows: 4 }, SHUFFLED, 1, 0));
        assert!(packed.iter().flatten().all(|row| longest(row) <= 40));
    }

    /// Sorting inside windows saves padding, and packing saves nearly all of it.
    #[test]
    fn buckets_and_packing_save_padding() {
        let lengths = lengths(4000);
        let used: usize = lengths.iter().map(|l| *l as usize).sum();
        let waste = |rows, turn| {
            let padded: usize = all(&Plan::new(Lengths::Each(lengths.clone()), rows, turn, 1, 0))
                .iter()
                .map(|batch| {
                    let row = |row: &Vec<usize>| row.iter().map(|i| lengths[*i] as usize).sum::<usize>();
                    batch.len() * batch.iter().map(row).max().unwrap()
                })
                .sum();
            1.0 - used as f64 / padded as f64
        };
        let plain = waste(Rows::Fixed(16), Turn::Shuffled { window: 1 });
        let buckets = waste(Rows::Fixed(16), Turn::Shuffled { window: 1024 });
        let packed = waste(Rows::Packed { length: 128, rows: 8 }, Turn::Shuffled { window: 1024 });
        assert!(plain > 0.4 && buckets < 0.03 && packed < 0.03, "{plain} {buckets} {packed}");
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let lengths = lengths(300);
        let order =
            |seed, epoch| all(&Plan::new(Lengths::Each(lengths.clone()), Rows::Fixed(8), SHUFFLED, seed, epoch));
        assert_eq!(order(1, 0), order(1, 0));
        assert_ne!(order(1, 0), order(1, 1));
        assert_ne!(order(1, 0), order(2, 0));
    }
}
