//! The samples of a corpus by number, after the step that is the same in every epoch: what was cut, what was dropped and
//! how long each sample is are known before the first batch.

use super::{Lengths, Order};
use crate::objective::{Borders, Dropped, Made, NextToken, Objective, Packed, Prepared, Sample, shifted};
use crate::shards::ShardRows;
use crate::{Corpus, Error, Key, Result};
use rayon::prelude::*;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;

/// What is kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// the tokens of every sample (4 to 16 bytes a token): an epoch costs no tokenising
    #[default]
    Tokens,
    /// nothing but 12 bytes a sample: tokenise again whenever a sample is asked for. Pictures are always treated so
    Nothing,
}

/// What became of the examples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// examples in the corpus
    pub examples: usize,
    /// samples made of them
    pub samples: usize,
    /// examples that were too long and lost tokens
    pub cut: usize,
    /// tokens they lost
    pub tokens_cut: usize,
    /// examples that gave no sample: empty, label unknown, answer not in its context, too long
    pub dropped: [usize; Dropped::ALL.len()],
}

impl Counts {
    /// Why examples were dropped: `3 too long, 1 empty`.
    fn reasons(&self) -> String {
        let reasons = Dropped::ALL.iter().zip(self.dropped).filter(|(_, n)| *n > 0);
        reasons.map(|(why, n)| format!("{n} {}", why.name())).collect::<Vec<_>>().join(", ")
    }

    /// How many examples gave no sample.
    pub fn all_dropped(&self) -> usize {
        self.dropped.iter().sum()
    }

    fn add(&mut self, made: &Made) {
        self.examples += 1;
        match made {
            Made::Items { items, cut } => {
                self.samples += items.len();
                self.cut += usize::from(*cut > 0);
                self.tokens_cut += cut;
            }
            Made::Dropped(why) => {
                let at = Dropped::ALL.iter().position(|w| w == why);
                at.and_then(|at| self.dropped.get_mut(at)).into_iter().for_each(|n| *n += 1);
            }
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} examples, {} samples", self.examples, self.samples)?;
        if self.cut > 0 {
            write!(f, "; {} cut ({} tokens lost)", self.cut, self.tokens_cut)?;
        }
        if self.all_dropped() > 0 {
            write!(f, "; {} dropped: {}", self.all_dropped(), self.reasons())?;
        }
        Ok(())
    }
}

enum Store {
    Kept(Vec<Prepared>),
    Nothing,
    Packed(Packed),
    Shards(Arc<ShardRows>),
}

/// Samples by number.
pub struct Items {
    corpus: Arc<dyn Corpus>,
    objective: Objective,
    store: Store,
    /// the example and which of its samples; empty when packed
    origin: Vec<(u32, u32)>,
    lengths: Lengths,
    counts: Counts,
    /// how often each class (or tag) is a target; empty where there are none
    classes: Vec<u64>,
}

/// So many examples are prepared at a time, over all threads.
const AT_ONCE: usize = 4096;

impl Items {
    /// Prepares every example once. `seed` decides the order in which documents are packed.
    pub fn new(corpus: Arc<dyn Corpus>, objective: Objective, keep: Keep, seed: u64) -> Result<Self> {
        let items = match &objective {
            Objective::NextToken(next @ NextToken { packing: Some(borders), .. }) => {
                let (packed, counts) = pack(&*corpus, next, *borders, seed)?;
                let lengths =
                    (0..packed.rows()).map(|row| packed.row(row).map_or(0, |s| s.input.len() as u32)).collect();
                let lengths = Lengths::Each(lengths);
                Self {
                    corpus,
                    objective,
                    store: Store::Packed(packed),
                    origin: Vec::new(),
                    lengths,
                    counts,
                    classes: vec![],
                }
            }
            _ => Self::prepare(corpus, objective, keep)?,
        };
        if items.lengths.is_empty() {
            let what = format!(
                "0 examples after filtering ({} dropped: {})",
                items.counts.all_dropped(),
                items.counts.reasons()
            );
            return Err(Error::new(
                "data",
                what,
                "check the task, the columns and the length: qkv data check FILE --task TASK",
            ));
        }
        Ok(items)
    }

    /// The rows of shards. They hold what one objective reads: texts one behind the other, framed as it frames them.
    pub fn of_shards(rows: Arc<ShardRows>, objective: Objective) -> Result<Self> {
        let index = rows.shards().index();
        let place = rows.shards().dir().display().to_string();
        let Objective::NextToken(next @ NextToken { packing: Some(Borders::Open), .. }) = &objective else {
            let what = "shards hold texts one behind the other, for next-token prediction alone";
            return Err(Error::new(place, what, "train from the text files for any other objective"));
        };
        if (next.begin, next.end) != (index.tokenizer.begin, index.tokenizer.end) {
            let named = |begin: Option<u32>, end: u32| match begin {
                Some(begin) => format!("begin with token {begin} and end with {end}"),
                None => format!("begin with nothing and end with token {end}"),
            };
            let (is, want) = (named(index.tokenizer.begin, index.tokenizer.end), named(next.begin, next.end));
            let what = format!("its documents {is}, but those of this family {want}");
            return Err(Error::new(
                place,
                what,
                "make shards for it: qkv data shard FILE --vocab 8000 --family NAME -o DIR",
            ));
        }
        let documents = usize::try_from(index.documents).unwrap_or(usize::MAX);
        let counts = Counts { examples: documents, samples: rows.len(), ..Counts::default() };
        let lengths = rows.lengths();
        let (store, origin, classes) = (Store::Shards(rows.clone()), Vec::new(), Vec::new());
        Ok(Self { corpus: rows, objective, store, origin, lengths, counts, classes })
    }

    fn prepare(corpus: Arc<dyn Corpus>, objective: Objective, keep: Keep) -> Result<Self> {
        let keep = if matches!(objective, Objective::Pictures(_)) { Keep::Nothing } else { keep };
        let (mut kept, mut origin, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        let (mut counts, mut classes) = (Counts::default(), vec![0; objective.classes()]);
        for start in (0..corpus.len()).step_by(AT_ONCE) {
            let end = (start + AT_ONCE).min(corpus.len());
            // Collected in order: the same at any thread count.
            let made: Vec<Made> = (start..end)
                .into_par_iter()
                .map(|i| objective.prepare(&corpus.get(i)?).map_err(|error| at(&*corpus, i, error)))
                .collect::<Result<_>>()?;
            for (i, made) in (start as u32..).zip(made) {
                counts.add(&made);
                let Made::Items { items, .. } = made else { continue };
                for (window, item) in (0u32..).zip(items) {
                    count_classes(&item, &mut classes);
                    origin.push((i, window));
                    lengths.push(u32::try_from(objective.longest(&item)).unwrap_or(u32::MAX));
                    if keep == Keep::Tokens {
                        kept.push(item);
                    }
                }
            }
        }
        let store = if keep == Keep::Tokens { Store::Kept(kept) } else { Store::Nothing };
        let lengths = Lengths::Each(lengths.into());
        Ok(Self { corpus, objective, store, origin, lengths, counts, classes })
    }

    /// The sample with the noise of `key`.
    pub fn sample(&self, index: usize, key: Key) -> Result<Sample> {
        let gone = || crate::corpus::past_end(index, self.lengths.len());
        match &self.store {
            Store::Packed(packed) => packed.row(index).ok_or_else(gone),
            Store::Shards(rows) => Ok(shifted(&rows.ids(index)?)),
            Store::Kept(kept) => self.objective.sample(kept.get(index).ok_or_else(gone)?, key),
            Store::Nothing => {
                let (example, window) = *self.origin.get(index).ok_or_else(gone)?;
                match self.objective.prepare(&self.corpus.get(example as usize)?)? {
                    Made::Items { items, .. } => {
                        self.objective.sample(items.get(window as usize).ok_or_else(gone)?, key)
                    }
                    Made::Dropped(_) => Err(gone()),
                }
            }
        }
    }

    /// How long each sample can become.
    pub fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    /// What became of the examples.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How often each class (or tag) is a target; empty where the objective has none.
    pub fn class_counts(&self) -> &[u64] {
        &self.classes
    }

    /// The objective that made the samples.
    pub fn objective(&self) -> &Objective {
        &self.objective
    }

    /// The example that a sample was made of; `None` for a packed row, which is made of many.
    pub fn example(&self, index: usize) -> Option<usize> {
        self.origin.get(index).map(|(example, _)| *example as usize)
    }

    /// Where a sample comes from, as a person would look it up.
    pub fn place(&self, index: usize) -> String {
        match (&self.store, self.example(index)) {
            (Store::Shards(rows), _) => rows.place(index),
            (_, Some(example)) => self.corpus.place(example),
            (_, None) => format!("packed row {}", index + 1),
        }
    }
}

/// Adds the classes that a sample is to say; nothing where there are none.
fn count_classes(item: &Prepared, classes: &mut [u64]) {
    if let (Prepared::Ready(sample), false) = (item, classes.is_empty()) {
        let targets = sample.target.iter().filter_map(|target| usize::try_from(*target).ok());
        targets.for_each(|target| classes.get_mut(target).into_iter().for_each(|n| *n += 1));
    }
}

/// An error of the objective at the example it met.
fn at(corpus: &dyn Corpus, index: usize, error: Error) -> Error {
    Error { place: format!("{}: {}", corpus.place(index), error.place), ..error }
}

/// Documents in the order of the seed, one stream.
fn pack(corpus: &dyn Corpus, next: &NextToken, borders: Borders, seed: u64) -> Result<(Packed, Counts)> {
    let order = Order::new(corpus.len() as u64, Key::new(seed, 0, 0).named("pack"));
    let mut counts = Counts { examples: corpus.len(), ..Counts::default() };
    let documents: Vec<Vec<u32>> = (0..corpus.len())
        .into_par_iter()
        .map(|i| {
            let index = order.at(i as u64) as usize;
            let example = corpus.get(index)?;
            if example.is_empty() {
                return Ok(Vec::new());
            }
            next.document(&example).map_err(|error| at(corpus, index, error))
        })
        .collect::<Result<_>>()?;
    counts.dropped[0] = documents.iter().filter(|document| document.is_empty()).count();
    let packed = Packed::new(documents.into_iter().filter(|d| !d.is_empty()), next.length, borders);
    counts.samples = packed.rows();
    Ok((packed, counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::{Frame, Labels, Masked};
    use crate::{Example, tokenize::Words};

    #[test]
    fn keeping_nothing_gives_the_same_samples() {
        let rows: Vec<Example> = (0..50).map(|i| Example::Text("a b c d e ".repeat(i % 7))).collect();
        let words = Arc::new(Words::of(["a b c d e"]));
        let frame = Frame::bert(&*words).unwrap();
        let objective = Objective::Masked(Masked::bert(words, frame, 12).unwrap());
        let make = |keep| Items::new(Arc::new(rows.clone()), objective.clone(), keep, 1).unwrap();
        let (kept, nothing) = (make(Keep::Tokens), make(Keep::Nothing));
        assert_eq!(kept.lengths(), nothing.lengths());
        assert_eq!(kept.counts().to_string(), "50 examples, 84 samples; 8 dropped: 8 empty");
        for i in 0..kept.lengths().len() {
            let key = Key::new(1, 0, i as u64);
            assert_eq!(kept.sample(i, key), nothing.sample(i, key));
        }
        assert_eq!(kept.place(0), "example 2");
    }

    #[test]
    fn nothing_left_is_an_error_that_says_why() {
        let rows = vec![Example::labelled("", "x"), Example::labelled("a", "z")];
        let words = Arc::new(Words::of(["a"]));
        let objective = Objective::classify(words.clone(), Frame::bert(&*words).unwrap(), Labels::new(["x"]), 8);
        let error = Items::new(Arc::new(rows), objective, Keep::Tokens, 1).err().unwrap();
        assert_eq!(error.what, "0 examples after filtering (2 dropped: 1 empty, 1 label unknown)");
    }
}
