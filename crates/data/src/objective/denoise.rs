//! Denoising (BART): the encoder reads a spoilt text, the decoder is to say the whole text. The kinds of noise are a
//! list, done in its order.
//!
//! ```text
//! text       A B C . D E .
//! permute    D E . A B C .          sentences in another order
//! infill     D _ . A _ C .          spans of Poisson(3) tokens, none included, behind one mask each
//! delete     D . A C .              tokens gone without a mark
//! rotate     A C . D .              begun at another token
//! ```

use super::{Made, Sample, Seq2Seq, shuffled, wrong};
use crate::tokenize::{Role, Tokenize, need};
use crate::{Example, Key, Pieces, Result};
use std::sync::Arc;

/// One way to spoil a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// `share` of the tokens in spans of Poisson(`mean`) tokens, each span behind one mask; a span of no token puts a mask
    /// between two tokens
    Infill {
        /// how much of the text
        share: f32,
        /// tokens a span, on average
        mean: f32,
    },
    /// sentences in another order
    Permute,
    /// each token gone with this chance
    Delete {
        /// the chance
        share: f32,
    },
    /// with this chance, the text begins at another token
    Rotate {
        /// the chance
        share: f32,
    },
}

/// The BART objective.
#[derive(Clone)]
pub struct Denoise {
    /// text to ids
    pub tokenizer: Arc<dyn Tokenize>,
    /// the special tokens of the family
    pub family: Seq2Seq,
    /// what is done, in this order
    pub noise: Vec<Noise>,
    mask: u32,
    /// tokens of text a row
    room: usize,
}

impl Denoise {
    /// What the large BART was trained with: sentences permuted, 30 % infilled with spans of Poisson(3); rows of `length`
    /// tokens, special ones counted.
    pub fn bart(tokenizer: Arc<dyn Tokenize>, family: Seq2Seq, length: usize) -> Result<Self> {
        let mask = need(&*tokenizer, Role::Mask, "denoising")?;
        let room = family.source.room(length, family.overhead())?;
        let noise = vec![Noise::Permute, Noise::Infill { share: 0.3, mean: 3.0 }];
        Ok(Self { tokenizer, family, noise, mask, room })
    }

    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        let Example::Text(text) = example else { return Err(wrong(example, "denoising", "texts")) };
        let pieces = self.tokenizer.encode(text)?;
        Ok(Made::raw(&pieces.ids, &sentence_starts(text, &pieces), self.room))
    }

    pub(super) fn sample(&self, ids: &[u32], starts: &[bool], key: Key) -> Sample {
        let mut spoilt = ids.to_vec();
        for (i, noise) in self.noise.iter().enumerate() {
            let key = key.child(i as u64);
            spoilt = match noise {
                // The marks of sentences hold for the text as it was: permute before anything else.
                Noise::Permute if spoilt.len() == starts.len() => permute(&spoilt, starts, key),
                Noise::Permute => spoilt,
                Noise::Infill { share, mean } => infill(&spoilt, *share, *mean, self.mask, key),
                Noise::Delete { share } => delete(&spoilt, *share, key),
                Noise::Rotate { share } => rotate(spoilt, *share, key),
            };
        }
        self.family.teach(&spoilt, ids)
    }
}

/// A sentence begins with the text and after a full stop, question or exclamation mark or danda that a blank follows.
fn sentence_starts(text: &str, pieces: &Pieces) -> Vec<bool> {
    let ended = |at: usize| {
        let before = text.get(..at).unwrap_or_default();
        let words = before.trim_end();
        let blank =
            words.len() < before.len() || text.get(at..).is_some_and(|rest| rest.starts_with(char::is_whitespace));
        words.is_empty() || (blank && words.ends_with(['.', '?', '!', '।', '…', '。', '؟']))
    };
    pieces.spans.iter().map(|(start, _)| ended(*start)).collect()
}

fn permute(ids: &[u32], starts: &[bool], key: Key) -> Vec<u32> {
    let begins: Vec<usize> = (0..ids.len()).filter(|i| *i == 0 || starts[*i]).collect();
    let sentence = |i: usize| &ids[begins[i]..begins.get(i + 1).copied().unwrap_or(ids.len())];
    shuffled(begins.len(), key).into_iter().flat_map(sentence).copied().collect()
}

/// Spans start at random places and take tokens that are not taken yet, until the share is reached. The text never gets
/// longer: a span of no token is passed over when nothing has been saved yet to make room for its mask.
fn infill(ids: &[u32], share: f32, mean: f32, mask: u32, key: Key) -> Vec<u32> {
    let n = ids.len();
    let wanted = (n as f32 * share).round() as usize;
    let mut taken = vec![false; n];
    let mut masks = vec![false; n]; // a mask stands before this token
    let (mut hidden, mut saved) = (0, 0);
    for (draw, start) in shuffled(n, key.named("starts")).into_iter().enumerate() {
        if hidden >= wanted {
            break;
        }
        // Spans keep a token between them, so that two masks never stand side by side.
        let near = |i: usize| taken.get(i).is_some_and(|t| *t) || masks.get(i).is_some_and(|m| *m);
        if near(start) || start.checked_sub(1).is_some_and(near) || near(start + 1) {
            continue;
        }
        let length = poisson(mean, key.named("lengths").uniform(draw as u64)).min(wanted - hidden);
        if length == 0 {
            if saved > 0 {
                saved -= 1;
                masks[start] = true;
            }
            continue;
        }
        let mut end = start + 1;
        while end < (start + length).min(n) && !near(end + 1) {
            end += 1;
        }
        masks[start] = true;
        taken[start..end].fill(true);
        hidden += end - start;
        saved += end - start - 1;
    }
    let mut out = Vec::with_capacity(n);
    for i in 0..n {
        if masks[i] {
            out.push(mask);
        }
        if !taken[i] {
            out.push(ids[i]);
        }
    }
    out
}

/// The number whose cumulative chance first passes `u`; at most ten times the mean and ten.
fn poisson(mean: f32, u: f32) -> usize {
    let mut chance = (-f64::from(mean)).exp();
    let mut sum = chance;
    let mut k = 0;
    while sum <= f64::from(u) && k < 10 * (mean as usize + 1) {
        k += 1;
        chance *= f64::from(mean) / k as f64;
        sum += chance;
    }
    k
}

/// Deletes tokens, but never all.
fn delete(ids: &[u32], share: f32, key: Key) -> Vec<u32> {
    let kept: Vec<u32> = (0u64..).zip(ids).filter(|(i, _)| key.uniform(*i) >= share).map(|(_, id)| *id).collect();
    if kept.is_empty() { ids.to_vec() } else { kept }
}

fn rotate(mut ids: Vec<u32>, share: f32, key: Key) -> Vec<u32> {
    if key.uniform(0) < share && !ids.is_empty() {
        let by = key.below(1, ids.len());
        ids.rotate_left(by);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::Words;

    const MASK: u32 = 6;

    #[test]
    fn sentences_are_permuted_whole() {
        let text = "a b . c d e ? f !";
        let words = Words::of([text]);
        let pieces = words.encode(text).unwrap();
        let starts = sentence_starts(text, &pieces);
        assert_eq!(starts, [true, false, false, true, false, false, false, true, false]);
        let orders: std::collections::BTreeSet<Vec<u32>> =
            (0..100).map(|i| permute(&pieces.ids, &starts, Key::new(1, i, 0))).collect();
        assert_eq!(orders.len(), 6, "three sentences, each order met");
    }

    #[test]
    fn a_point_inside_a_word_ends_nothing() {
        let text = "at 3.14 he left. She stayed";
        let starts = sentence_starts(text, &Words::of([text]).encode(text).unwrap());
        assert_eq!(starts, [true, false, false, false, true, false]);
    }

    /// 30 % of the tokens go; what is left keeps its order; masks stand apart; the text never grows.
    #[test]
    fn infilling_hides_its_share_behind_single_masks() {
        let ids: Vec<u32> = (100..300).collect();
        let (mut masks, mut hidden, mut inserted) = (0, 0, 0);
        for epoch in 0..200 {
            let out = infill(&ids, 0.3, 3.0, MASK, Key::new(5, epoch, 0));
            let left: Vec<u32> = out.iter().copied().filter(|id| *id != MASK).collect();
            assert!(left.is_sorted());
            assert_eq!(ids.len() - left.len(), 60, "30 %");
            assert!(out.windows(2).all(|two| two != [MASK, MASK]));
            assert!(out.len() <= ids.len());
            masks += out.iter().filter(|id| **id == MASK).count();
            hidden += 60;
            let whole = |two: &[u32]| two[0] != MASK && two[1] == MASK;
            inserted += out.windows(3).filter(|w| whole(&w[..2]) && w[0] + 1 == w[2]).count();
        }
        assert!(inserted > 0, "spans of no token are drawn too");
        let mean = hidden as f64 / masks as f64;
        assert!((2.0..3.2).contains(&mean), "tokens a mask: {mean}");
        for n in 0..8 {
            assert!(infill(&ids[..n], 1.0, 3.0, MASK, Key::new(1, 0, 0)).len() <= n);
        }
    }

    /// P(0) = e⁻³ = 0.0498, P(≤ 1) = 4 e⁻³ = 0.199, P(≤ 3) = 13 e⁻³ = 0.647.
    #[test]
    fn poisson_inverts_its_distribution() {
        assert_eq!([0.0, 0.049, 0.051, 0.198, 0.21, 0.64, 0.65].map(|u| poisson(3.0, u)), [0, 0, 1, 1, 2, 3, 4]);
        assert!(poisson(3.0, 0.999_999_9) < 31);
        let mean = (0..10_000).map(|i| poisson(3.0, i as f32 / 10_000.0)).sum::<usize>() as f64 / 10_000.0;
        assert!((mean - 3.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn deletion_and_rotation() {
        let ids: Vec<u32> = (0..1000).collect();
        let left = delete(&ids, 0.2, Key::new(1, 0, 0)).len();
        assert!((750..850).contains(&left), "{left}");
        assert_eq!(delete(&ids[..3], 1.0, Key::new(1, 0, 0)), [0, 1, 2]);
        let turned = rotate(ids.clone(), 1.0, Key::new(1, 0, 0));
        assert_eq!((turned[0] + 1) % 1000, turned[1]);
        assert_ne!(turned[0], 0);
        assert_eq!(rotate(ids.clone(), 0.0, Key::new(1, 0, 0)), ids);
    }

    #[test]
    fn the_decoder_says_the_whole_text() {
        let words = Arc::new(Words::of(["a b c d"]));
        let family = Seq2Seq::bart(&*words).unwrap();
        let objective = Denoise::bart(words, family, 16).unwrap();
        let sample = objective.sample(&[107, 108, 109, 110], &[true, false, false, false], Key::new(1, 0, 0));
        assert_eq!(sample.target, [2, 107, 108, 109, 110, 3]);
        assert!(sample.memory.unwrap().contains(&MASK));
    }
}
