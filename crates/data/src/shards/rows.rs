//! Rows of one length out of shards, in three sides: most to learn from, some to validate and some to test by.
//!
//! A shard of n tokens has ⌈(n − 1)/L⌉ rows: row r reads ids rL … rL + L − 1 and foretells each next one, so every token of
//! a shard but its first is a target once. The rows that judge are drawn by a key from all shards and remembered by
//! number; the others are for training, and are found by counting, without a list of them.

use super::Shards;
use crate::batch::{Lengths, Order};
use crate::corpus::past_end;
use crate::{Corpus, Error, Example, Key, Result};
use qkv_text::Tokenizer;
use std::sync::Arc;

/// The sides of a corpus of shards.
pub struct ShardSides {
    /// what is learnt from
    pub train: Arc<ShardRows>,
    /// what settings are chosen by
    pub valid: Arc<ShardRows>,
    /// what the end is judged by
    pub test: Arc<ShardRows>,
}

/// Which rows of all belong to a side.
enum Chosen {
    /// these, by number
    Few(Vec<u64>),
    /// all but these
    AllBut(Arc<[u64]>),
}

/// One side.
pub struct ShardRows {
    shards: Arc<Shards>,
    tokenizer: Tokenizer,
    length: usize,
    /// where the rows of each shard end, all sides counted
    ends: Arc<[u64]>,
    /// where those of this side end
    own: Arc<[u64]>,
    chosen: Chosen,
}

impl ShardSides {
    /// Rows of `length` tokens; `valid` and `test` rows are kept apart (at most a tenth each), `most` are learnt from,
    /// the first ones, 0: all.
    pub fn new(
        shards: &Arc<Shards>,
        tokenizer: &Tokenizer,
        length: usize,
        [valid, test]: [usize; 2],
        most: usize,
        seed: u64,
    ) -> Result<Self> {
        let length = length.max(1);
        let rows = |tokens: u64| tokens.saturating_sub(1).div_ceil(length as u64);
        let ends = sums(shards.index().shards.iter().map(|shard| rows(shard.tokens)));
        let all = ends.last().copied().unwrap_or(0);
        let held = |wanted: usize| if wanted == 0 { 0 } else { (wanted as u64).min(all / 10).max(1) };
        let (valid, test) = (held(valid), held(test));
        if all <= valid + test {
            let what =
                format!("{all} rows of {length} tokens are too few: some are kept apart to validate and to test");
            return Err(Error::new(shards.dir().display().to_string(), what, "give more text, or shorten data.length"));
        }
        let order = Order::new(all, Key::new(seed, 0, 0).named("shard rows"));
        let mut drawn: Vec<u64> = (0..valid + test).map(|i| order.at(i)).collect();
        let mut test: Vec<u64> = drawn.split_off(valid as usize);
        drawn.sort_unstable();
        test.sort_unstable();
        let mut apart = [drawn.clone(), test.clone()].concat();
        apart.sort_unstable();
        let side = |chosen: Chosen| {
            let mut left = if most == 0 { u64::MAX } else { most as u64 };
            let own = (0..ends.len()).map(|shard| {
                let (from, to) = range(&ends, shard);
                let between =
                    |few: &[u64]| (few.partition_point(|r| *r < to) - few.partition_point(|r| *r < from)) as u64;
                match &chosen {
                    Chosen::Few(few) => between(few),
                    Chosen::AllBut(apart) => {
                        let rows = (to - from - between(apart)).min(left);
                        left -= rows;
                        rows
                    }
                }
            });
            let own = sums(own);
            let (shards, tokenizer, ends) = (shards.clone(), tokenizer.clone(), ends.clone());
            Arc::new(ShardRows { shards, tokenizer, length, ends, own, chosen })
        };
        let train = side(Chosen::AllBut(apart.into()));
        Ok(Self { train, valid: side(Chosen::Few(drawn)), test: side(Chosen::Few(test)) })
    }
}

/// Running sums.
fn sums(counts: impl Iterator<Item = u64>) -> Arc<[u64]> {
    let add = |sum: &mut u64, n: u64| {
        *sum += n;
        Some(*sum)
    };
    counts.scan(0, add).collect()
}

/// From where to where the rows of a shard go.
fn range(ends: &[u64], shard: usize) -> (u64, u64) {
    let end = |shard: usize| ends.get(shard).copied().unwrap_or(0);
    (shard.checked_sub(1).map_or(0, end), end(shard))
}

impl ShardRows {
    /// The shards that they are in.
    pub fn shards(&self) -> &Arc<Shards> {
        &self.shards
    }

    /// Tokens a row.
    pub fn length(&self) -> usize {
        self.length
    }

    /// How many there are in each shard, and how long they are.
    pub(crate) fn lengths(&self) -> Lengths {
        Lengths::Shards { length: u32::try_from(self.length).unwrap_or(u32::MAX), ends: self.own.clone() }
    }

    /// The number of a row among the rows of all sides.
    fn number(&self, index: usize) -> Option<u64> {
        let index = index as u64;
        let shard = self.own.partition_point(|end| *end <= index);
        let place = index - range(&self.own, shard).0;
        match &self.chosen {
            Chosen::Few(few) => few.get(index as usize).copied(),
            Chosen::AllBut(apart) => {
                let (from, to) = range(self.ends.get(..=shard)?, shard);
                let within = &apart[apart.partition_point(|r| *r < from)..apart.partition_point(|r| *r < to)];
                // Behind the i-th row that is kept apart stand i + 1 rows fewer than were counted.
                let passed = partition(within, |i, row| row - from - i as u64 <= place);
                Some(from + place + passed as u64)
            }
        }
    }

    /// The shard of a row, and its place there.
    fn find(&self, index: usize) -> Result<(usize, u64)> {
        let row = self.number(index).ok_or_else(|| past_end(index, self.len()))?;
        let shard = self.ends.partition_point(|end| *end <= row);
        Ok((shard, row - range(&self.ends, shard).0))
    }

    /// The ids of a row and the one behind it.
    pub fn ids(&self, index: usize) -> Result<Vec<u32>> {
        let (shard, row) = self.find(index)?;
        self.shards.ids(shard, row * self.length as u64, self.length + 1)
    }
}

/// How many of a list, from its beginning, fulfil what all behind the first failure do not.
fn partition(list: &[u64], holds: impl Fn(usize, u64) -> bool) -> usize {
    let (mut low, mut high) = (0, list.len());
    while low < high {
        let middle = (low + high) / 2;
        match list.get(middle).is_some_and(|value| holds(middle, *value)) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

impl Corpus for ShardRows {
    fn len(&self) -> usize {
        self.own.last().copied().unwrap_or(0) as usize
    }

    /// The row as text, for people to look at.
    fn get(&self, index: usize) -> Result<Example> {
        Ok(Example::Text(self.tokenizer.decode(&self.ids(index)?, true)?))
    }

    fn tokens(&self, index: usize) -> Result<Option<Vec<u32>>> {
        self.ids(index).map(Some)
    }

    fn place(&self, index: usize) -> String {
        let name = |shard: usize| self.shards.index().shards.get(shard).map_or("", |s| s.file.as_str());
        match self.find(index) {
            Ok((shard, row)) => format!("{}, row {}", self.shards.dir().join(name(shard)).display(), row + 1),
            Err(_) => format!("row {}", index + 1),
        }
    }
}
