//! A network that is a table: the logits depend on the last token, the state too.

use super::*;
use crate::{Chain, Decoder, Engine, EngineConfig, Finished, PassInput};
use qkv_base::Key;
use qkv_nn::RowCache;
use std::sync::Arc;

pub(crate) struct Fake {
    /// `table[last]` are the logits after `last`
    pub(crate) table: Vec<Vec<f32>>,
}

impl Fake {
    pub(crate) fn new(table: Vec<Vec<f32>>) -> Self {
        Self { table }
    }

    /// A table of `v` tokens drawn from `seed`.
    pub(crate) fn drawn(v: usize, seed: u64) -> Self {
        let row = |i| Key::new(seed, i, 0).normals(v).iter().map(|x| 2.0 * x).collect();
        Self::new((0..v as u64).map(row).collect())
    }

    pub(crate) fn engine(self) -> Engine {
        Engine::new(Arc::new(self), EngineConfig::default())
    }
}

impl Decoder for Fake {
    fn vocabulary(&self) -> usize {
        self.table.len()
    }
    fn context(&self) -> Option<usize> {
        Some(1000)
    }
    fn forward(&self, input: &PassInput, _: &mut RowCache) -> Result<PassOutput> {
        let logits = input.answers.iter().flat_map(|at| self.table[input.ids[*at] as usize].clone()).collect();
        let hidden = input.ids.iter().flat_map(|t| Key::new(9, *t as u64, 0).normals(4)).collect();
        Ok(PassOutput { logits, hidden, source: vec![] })
    }
}

/// A request of one prompt.
pub(crate) fn request(prompt: &[u32], chain: &str, ends: &[u32], max: usize, search: Search) -> Request {
    let chain: Chain = chain.parse().unwrap();
    Request { chain, ends: ends.to_vec(), max_tokens: max, search, seed: 7, ..Request::new(prompt.to_vec()) }
}

/// What comes of some prompts, numbered in their order.
pub(crate) fn run(fake: Fake, prompts: &[Vec<u32>], like: &Request) -> Vec<Finished> {
    let number = |(i, prompt): (usize, &Vec<u32>)| Request { prompt: prompt.clone(), number: i as u64, ..like.clone() };
    let requests = prompts.iter().enumerate().map(number).collect();
    fake.engine().run(requests, &mut |_, _| true).unwrap()
}
