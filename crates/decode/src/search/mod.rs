//! Searches: which of all continuations is said. Each takes a [`Network`] that has read its prompts, and an [`Ask`].
//!
//! | search | idea | file |
//! |---|---|---|
//! | greedy, sampling | one token at a time, by a chain | [`sample`](mod@sample) |
//! | beam | the best few continuations side by side | [`beam`](mod@beam) |
//! | contrastive | probable, but unlike what was said | [`contrastive`](mod@contrastive) |

pub mod beam;
pub mod contrastive;
pub mod sample;
pub mod tree;

pub use beam::{Beam, Constraint, EarlyStopping, LengthPenalty, beam};
pub use contrastive::{Contrastive, contrastive};
pub use sample::{Heard, Said1, sample};
pub use tree::{Fate, Node, Tree};

use crate::stop::End;
use crate::{Chain, Network};
use qkv_base::{Error, Key, Result};
use serde::Serialize;

/// What is asked for, whatever the search.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// what stands before the first token of each row: the prompt, or the start of the target
    pub prompts: &'a [Vec<u32>],
    /// what the encoder read for each row, where there is one
    pub sources: Option<&'a [Vec<u32>]>,
    /// the steps that each row of logits goes through
    pub chain: &'a Chain,
    /// ids that end a sequence
    pub ends: &'a [u32],
    /// the most tokens to say
    pub max: usize,
    /// decides what is random
    pub seed: u64,
    /// the number of the first row within the whole run: with it, batches draw what singles draw
    pub first: u64,
}

impl Ask<'_> {
    /// Refuses what no search can do.
    fn check(&self, net: &dyn Network) -> Result<()> {
        self.chain.check(net.vocabulary())?;
        if self.max == 0 {
            return Err(Error::new("max tokens", "is 0", "ask for at least one token"));
        }
        if let Some(id) = self.ends.iter().find(|id| **id as usize >= net.vocabulary()) {
            let what = format!("end token {id} is outside the vocabulary of {}", net.vocabulary());
            return Err(Error::new("ends", what, "look at eos_token_id in generation_config.json"));
        }
        if net.room() + 1 < self.max {
            let what = format!("{} tokens are asked for, but there is room for {}", self.max, net.room() + 1);
            return Err(Error::new("max tokens", what, "make the engine with more room"));
        }
        Ok(())
    }

    /// What was said in a row, for the chain.
    fn said<'s>(&'s self, row: usize, generated: &'s [u32], key: Key) -> crate::History<'s> {
        let prompt = self.prompts.get(row).map_or(&[][..], Vec::as_slice);
        crate::History {
            prompt,
            generated,
            encoder: self.sources.and_then(|s| s.get(row)).map(Vec::as_slice),
            ends: self.ends,
            limit: Some(prompt.len() + self.max),
            key,
        }
    }
}

/// One continuation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sequence {
    /// what was said, without the prompt, with the end token if it came to one
    pub ids: Vec<u32>,
    /// what sequences are compared by: the log-probability, or what a beam search makes of it
    pub score: f64,
    /// the model's own log-probability of each token, before any step of the chain
    pub logprobs: Vec<f32>,
    /// why it ended
    pub end: End,
}

impl Sequence {
    /// The log-probability of the whole: the product rule, Σ log p(token | tokens before).
    pub fn logprob(&self) -> f64 {
        self.logprobs.iter().map(|p| *p as f64).sum()
    }
}

/// ln Σ e^logit of a row: a logit less this is a log-probability.
pub fn log_sum(logits: &[f32]) -> f64 {
    let mut high = [f32::NEG_INFINITY; 8];
    for chunk in logits.chunks(8) {
        high.iter_mut().zip(chunk).for_each(|(h, x)| *h = if *x > *h { *x } else { *h });
    }
    let high = high.into_iter().fold(f32::NEG_INFINITY, f32::max);
    if high == f32::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let mut total = 0f64;
    // Partial sums in f32 of 512 numbers at most, in eight lanes: fast, in a fixed order, and exact enough.
    for block in logits.chunks(512) {
        let mut lanes = [0f32; 8];
        for chunk in block.chunks(8) {
            lanes.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += crate::row::exp(*x - high));
        }
        total += lanes.into_iter().map(f64::from).sum::<f64>();
    }
    high as f64 + total.ln()
}

#[cfg(test)]
pub(crate) mod fake {
    //! A network that is a table: the logits depend on the last token (and on how many were said).
    use super::*;

    pub(crate) struct Fake {
        /// `table[last]` are the logits after `last`
        pub(crate) table: Vec<Vec<f32>>,
        pub(crate) last: Vec<u32>,
        pub(crate) said: usize,
        pub(crate) room: usize,
        states: Vec<Vec<f32>>,
    }

    impl Fake {
        pub(crate) fn new(table: Vec<Vec<f32>>, prompts: &[Vec<u32>], room: usize) -> Self {
            let last: Vec<u32> = prompts.iter().map(|p| *p.last().expect("a prompt")).collect();
            let mut fake = Self { table, last, said: 0, room, states: vec![] };
            fake.look();
            fake
        }

        /// A table of `v` tokens drawn from `seed`.
        pub(crate) fn drawn(v: usize, seed: u64, prompts: &[Vec<u32>], room: usize) -> Self {
            let row = |i| Key::new(seed, i, 0).normals(v).iter().map(|x| 2.0 * x).collect();
            Self::new((0..v as u64).map(row).collect(), prompts, room)
        }

        fn look(&mut self) {
            self.states = self.last.iter().map(|t| Key::new(9, *t as u64, 0).normals(4)).collect();
        }
    }

    impl Network for Fake {
        fn vocabulary(&self) -> usize {
            self.table.len()
        }
        fn rows(&self) -> usize {
            self.last.len()
        }
        fn room(&self) -> usize {
            self.room - self.said
        }
        fn logits(&self, row: usize) -> &[f32] {
            &self.table[self.last[row] as usize]
        }
        fn say(&mut self, tokens: &[u32]) -> Result<()> {
            assert_eq!(tokens.len(), self.last.len());
            self.said += 1;
            assert!(self.said <= self.room, "no room");
            self.last = tokens.to_vec();
            self.look();
            Ok(())
        }
        fn reorder(&mut self, rows: &[usize]) -> Result<()> {
            self.last = rows.iter().map(|r| self.last[*r]).collect();
            Ok(())
        }
        fn seen(&self, row: usize) -> &[f32] {
            &self.states[row]
        }
    }

    #[test]
    fn log_sums_follow_the_exact_ones() {
        let logits: Vec<f32> = Key::new(1, 2, 3).normals(5000).iter().map(|x| x * 5.0).collect();
        let exact = logits.iter().map(|x| (*x as f64).exp()).sum::<f64>().ln();
        assert!((log_sum(&logits) - exact).abs() < 1e-6);
        assert_eq!(log_sum(&[f32::NEG_INFINITY; 3]), f64::NEG_INFINITY);
    }
}
