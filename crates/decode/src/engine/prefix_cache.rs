//! Prompts of requests that have ended, kept for those who begin alike: a bound in bytes, and who was not asked for longest goes
//! first.
//!
//! What is kept are the keys and values of the prompt's tokens alone: what was said is read with the prompt of the next turn. Who
//! begins with kept tokens says the same as who does not; the last bits of its log-probabilities may differ, as they do with
//! whoever else is in a pass, because products of few rows and of many are summed in different orders.

use qkv_nn::RowPrefix;
use std::collections::VecDeque;

/// Prompts that were read.
#[derive(Debug, Default)]
pub struct PrefixCache {
    /// the most bytes of all
    most: u64,
    bytes: u64,
    /// who was asked for last stands last
    kept: VecDeque<Kept>,
}

#[derive(Debug)]
struct Kept {
    ids: Vec<u32>,
    /// with another adapter the same tokens have other keys
    adapter: Option<u32>,
    rows: RowPrefix,
}

impl PrefixCache {
    /// Keeps up to so many bytes; 0: nothing.
    pub fn new(most: u64) -> Self {
        Self { most, ..Self::default() }
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many prompts are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many of the first tokens of a prompt somebody had read.
    pub(super) fn shared(&self, prompt: &[u32], adapter: Option<u32>) -> usize {
        self.best(prompt, adapter).map_or(0, |(_, n)| n)
    }

    /// Their keys and values; whose they are has been asked for now.
    pub(super) fn take(&mut self, prompt: &[u32], adapter: Option<u32>) -> Option<&RowPrefix> {
        let (at, _) = self.best(prompt, adapter)?;
        let found = self.kept.remove(at)?;
        self.kept.push_back(found);
        self.kept.back().map(|kept| &kept.rows)
    }

    fn best(&self, prompt: &[u32], adapter: Option<u32>) -> Option<(usize, usize)> {
        let same = |kept: &Kept| kept.ids.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let mine = self.kept.iter().enumerate().filter(|(_, kept)| kept.adapter == adapter);
        mine.map(|(at, kept)| (at, same(kept))).filter(|(_, n)| *n > 0).max_by_key(|(_, n)| *n)
    }

    /// Keeps the first tokens of a prompt, of which `copy(n)` gives the first n.
    pub(super) fn keep(
        &mut self,
        prompt: &[u32],
        adapter: Option<u32>,
        copy: impl FnOnce(usize) -> Option<RowPrefix>,
        bytes_per_token: u64,
    ) {
        let fits = usize::try_from(self.most / bytes_per_token.max(1)).unwrap_or(usize::MAX);
        let ids = &prompt[..prompt.len().min(fits)];
        if ids.is_empty() {
            return;
        }
        if let Some(at) = self.kept.iter().position(|kept| kept.adapter == adapter && kept.ids.starts_with(ids)) {
            self.kept.remove(at).into_iter().for_each(|found| self.kept.push_back(found));
            return;
        }
        // What is the beginning of this one is in it.
        self.kept.retain(|kept| kept.adapter != adapter || !ids.starts_with(&kept.ids));
        self.count();
        let more = bytes_per_token.saturating_mul(ids.len() as u64);
        while self.bytes + more > self.most && self.kept.pop_front().is_some() {
            self.count();
        }
        if let Some(rows) = copy(ids.len()) {
            self.kept.push_back(Kept { ids: ids.to_vec(), adapter, rows });
            self.count();
        }
    }

    fn count(&mut self) {
        self.bytes = self.kept.iter().map(|kept| kept.rows.bytes()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder, Observe, PassInput};
    use qkv_model::{Transformer, presets};
    use qkv_nn::RowCache;

    #[test]
    fn a_bound_in_bytes_and_the_least_recently_asked_goes() {
        let spec = presets::find("tiny-decoder").unwrap().spec();
        let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex()).unwrap();
        let mut rows = RowCache::new(8);
        rows.admit(None);
        rows.begin(&[(0, 8)]);
        let ids = [1, 2, 3, 4, 5, 6, 7, 8];
        model.forward(&PassInput { ids: &ids, answers: &[7], observe: Observe::default() }, &mut rows).unwrap();
        rows.advance();
        let each = rows.copy_prefix(0, 1).unwrap().bytes();
        let mut cache = PrefixCache::new(10 * each + each / 2);
        let keep = |cache: &mut PrefixCache, ids: &[u32], adapter| {
            cache.keep(ids, adapter, |n| rows.copy_prefix(0, n), each);
        };
        keep(&mut cache, &[1, 2, 3], None);
        keep(&mut cache, &[1, 2, 3, 4, 5], None); // has the first one in it
        assert_eq!((cache.len(), cache.bytes()), (1, 5 * each));
        keep(&mut cache, &[1, 2], None); // is in it
        keep(&mut cache, &[1, 2, 9], Some(1));
        assert_eq!((cache.len(), cache.bytes()), (2, 8 * each));
        assert_eq!(cache.shared(&[1, 2, 3, 7], None), 3);
        assert_eq!((cache.shared(&[1, 2, 9], Some(1)), cache.shared(&[1, 2, 9], Some(2))), (3, 0));
        assert!(cache.take(&[1, 2, 3], None).is_some()); // now the other one is older
        keep(&mut cache, &[8, 8, 8, 8], None);
        assert_eq!((cache.len(), cache.bytes()), (2, 9 * each));
        assert_eq!(cache.shared(&[1, 2, 9], Some(1)), 0);
        // A prompt that is longer than everything is kept as far as it goes.
        let mut small = PrefixCache::new(2 * each);
        keep(&mut small, &ids, None);
        assert_eq!((small.bytes(), small.shared(&ids, None)), (2 * each, 2));
        let mut off = PrefixCache::new(0);
        keep(&mut off, &ids, None);
        assert!(off.is_empty());
    }
}
