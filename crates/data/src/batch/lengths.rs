//! How long each sample can become, and in which order samples come: one by one, or by shards.
//!
//! Samples of shards are so many that a list of them would not fit: their number in each shard says enough. An epoch
//! takes the shards in an order of its own, eight at a time, and the rows of those eight in an order of their own, so
//! that a batch is mixed from eight places of the corpus while the disk is read in eight places only.

use super::Order;
use crate::Key;
use std::sync::Arc;

/// How long samples are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// each as it is
    Each(Arc<[u32]>),
    /// all alike
    Shards {
        /// tokens a sample
        length: u32,
        /// where the samples of each shard end
        ends: Arc<[u64]>,
    },
}

impl Lengths {
    /// How many samples.
    pub fn len(&self) -> usize {
        match self {
            Self::Each(all) => all.len(),
            Self::Shards { ends, .. } => ends.last().copied().unwrap_or(0) as usize,
        }
    }

    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of a sample; 0 past the end.
    pub fn get(&self, index: usize) -> u32 {
        match self {
            Self::Each(all) => all.get(index).copied().unwrap_or(0),
            Self::Shards { length, .. } => *length,
        }
    }

    /// The longest.
    pub fn longest(&self) -> u32 {
        match self {
            Self::Each(all) => all.iter().copied().max().unwrap_or(0),
            Self::Shards { length, .. } => *length,
        }
    }

    /// All together.
    pub fn sum(&self) -> u64 {
        match self {
            Self::Each(all) => all.iter().map(|length| u64::from(*length)).sum(),
            Self::Shards { length, .. } => u64::from(*length) * self.len() as u64,
        }
    }

    /// The order of an epoch.
    pub(crate) fn order(&self, key: Key) -> Arrangement {
        match self {
            Self::Each(all) => Arrangement::Whole(Order::new(all.len() as u64, key)),
            Self::Shards { ends, .. } => Arrangement::Shards(ShardOrder::new(ends, key)),
        }
    }
}

/// The order of the samples of an epoch.
#[derive(Clone, Debug)]
pub(crate) enum Arrangement {
    Whole(Order),
    Shards(ShardOrder),
}

impl Arrangement {
    pub(crate) fn at(&self, position: u64) -> u64 {
        match self {
            Self::Whole(order) => order.at(position),
            Self::Shards(order) => order.at(position),
        }
    }
}

/// Shards that are read side by side.
const SIDE_BY_SIDE: usize = 8;

/// Shards in an order, and rows in an order among some shards.
#[derive(Clone, Debug)]
pub(crate) struct ShardOrder {
    /// for each shard in the order of the epoch: its first sample, and where its samples end in that order
    turns: Vec<(u64, u64)>,
    key: Key,
}

impl ShardOrder {
    fn new(ends: &[u64], key: Key) -> Self {
        let order = Order::new(ends.len() as u64, key.named("shards"));
        let mut end = 0;
        let turn = |i: u64| {
            let shard = order.at(i) as usize;
            let first = shard.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
            end += ends.get(shard).copied().unwrap_or(0) - first;
            (first, end)
        };
        Self { turns: (0..ends.len() as u64).map(turn).collect(), key }
    }

    fn at(&self, position: u64) -> u64 {
        let turn = self.turns.partition_point(|(_, end)| *end <= position);
        let group = turn / SIDE_BY_SIDE;
        let first = group * SIDE_BY_SIDE;
        let last = (first + SIDE_BY_SIDE).min(self.turns.len());
        let end_of = |turn: usize| self.turns.get(turn).map_or(0, |(_, end)| *end);
        let start = first.checked_sub(1).map_or(0, end_of);
        let rows = last.checked_sub(1).map_or(0, end_of) - start;
        let drawn = start + Order::new(rows, self.key.child(group as u64)).at(position - start);
        let turn = self.turns.partition_point(|(_, end)| *end <= drawn);
        let before = turn.checked_sub(1).map_or(0, end_of);
        self.turns.get(turn).map_or(0, |(first, _)| first + (drawn - before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_comes_once_and_eight_shards_are_read_side_by_side() {
        let counts: Vec<u64> = (0..37).map(|i| [0, 3, 100, 41, 7][i % 5]).collect();
        let ends: Vec<u64> = counts
            .iter()
            .scan(0, |sum, n| {
                *sum += n;
                Some(*sum)
            })
            .collect();
        let lengths = Lengths::Shards { length: 16, ends: ends.clone().into() };
        let order = |epoch| {
            let order = lengths.order(Key::new(1, epoch, 0));
            (0..lengths.len() as u64).map(|i| order.at(i)).collect::<Vec<u64>>()
        };
        let first = order(0);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..lengths.len() as u64).collect::<Vec<_>>());
        assert_ne!(first, order(1));
        let shard = |row: &u64| ends.partition_point(|end| end <= row);
        let mut near: Vec<usize> = first.iter().take(60).map(shard).collect();
        near.sort_unstable();
        near.dedup();
        assert!((2..=SIDE_BY_SIDE).contains(&near.len()), "{near:?}");
        assert_eq!((lengths.get(3), lengths.longest(), lengths.sum()), (16, 16, 16 * first.len() as u64));
    }
}
