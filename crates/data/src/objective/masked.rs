//! Masked language modelling (BERT): 15 % of the tokens are to be told; of these 80 % are hidden behind the mask token,
//! 10 % replaced by any token, 10 % left as they are. Which ones is drawn anew in every epoch.

use super::{IGNORED, Made, Sample, shuffled, wrong};
use crate::tokenize::{Role, Tokenize, need};
use crate::{Example, Key, Result};
use std::sync::Arc;

use super::Frame;

/// The masked objective. Special tokens stand in the frame and are never hidden.
#[derive(Clone)]
pub struct Masked {
    /// text to ids
    pub tokenizer: Arc<dyn Tokenize>,
    /// the special tokens around the text
    pub frame: Frame,
    /// how much of the text is to be told
    pub share: f32,
    /// hide all pieces of a word or none
    pub whole_words: bool,
    mask: u32,
    /// tokens of text a row
    room: usize,
}

impl Masked {
    /// BERT's numbers: 15 %, single pieces; rows of `length` tokens, special ones counted.
    pub fn bert(tokenizer: Arc<dyn Tokenize>, frame: Frame, length: usize) -> Result<Self> {
        let mask = need(&*tokenizer, Role::Mask, "masked language modelling")?;
        let room = frame.room(length, frame.single_overhead())?;
        Ok(Self { tokenizer, frame, share: 0.15, whole_words: false, mask, room })
    }

    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        let Example::Text(text) = example else {
            return Err(wrong(example, "masked language modelling", "texts"));
        };
        let pieces = self.tokenizer.encode(text)?;
        Ok(Made::raw(&pieces.ids, &pieces.first_of_word, self.room))
    }

    pub(super) fn sample(&self, ids: &[u32], starts: &[bool], key: Key) -> Sample {
        let mut hidden = ids.to_vec();
        let mut target = vec![IGNORED; ids.len()];
        let draw = key.named("replace");
        for i in self.choose(starts, key.named("choose")) {
            target[i] = ids[i].into();
            hidden[i] = match draw.uniform(2 * i as u64) {
                u if u < 0.8 => self.mask,
                u if u < 0.9 => draw.below(2 * i as u64 + 1, self.tokenizer.vocab_size()) as u32,
                _ => ids[i],
            };
        }
        let (open, close) = (vec![IGNORED; self.frame.open.len()], vec![IGNORED; self.frame.close.len()]);
        let token_types = self.frame.single_token_types(ids.len());
        Sample { token_types, ..Sample::tokens(self.frame.single(&hidden), [open, target, close].concat()) }
    }

    /// The places to be told: units in random order until the share is reached, at least one token. A word that would
    /// lead past the share is passed over, unless it is the first.
    fn choose(&self, starts: &[bool], key: Key) -> Vec<usize> {
        let n = starts.len();
        let wanted = ((n as f32 * self.share).round() as usize).max(1);
        let begins: Vec<usize> = (0..n).filter(|i| !self.whole_words || *i == 0 || starts[*i]).collect();
        let mut chosen = Vec::new();
        for unit in shuffled(begins.len(), key) {
            let word = begins[unit]..begins.get(unit + 1).copied().unwrap_or(n);
            if chosen.is_empty() || chosen.len() + word.len() <= wanted {
                chosen.extend(word);
            }
            if chosen.len() >= wanted {
                break;
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::{Words, tests::Thirds};

    fn objective(whole_words: bool) -> Masked {
        let words = Arc::new(Words::of((0..200).map(|i| format!("w{i}"))));
        let frame = Frame::bert(&*words).unwrap();
        Masked { whole_words, ..Masked::bert(words, frame, 128).unwrap() }
    }

    /// 15 % exactly; of these 80/10/10 up to chance (20,000 draws: three deviations are under 1 %).
    #[test]
    fn shares_are_those_of_the_paper() {
        let objective = objective(false);
        let ids: Vec<u32> = (110..210).collect();
        let (mut told, mut mask, mut kept) = (0, 0, 0);
        for epoch in 0..1400 {
            let sample = objective.sample(&ids, &[true; 100], Key::new(1, epoch, 0));
            assert_eq!(sample.target.iter().filter(|t| **t != IGNORED).count(), 15);
            for (i, target) in sample.target.iter().enumerate().filter(|(_, t)| **t != IGNORED) {
                assert_eq!(*target, i64::from(ids[i - 1]), "the target is what stood there");
                told += 1;
                mask += usize::from(sample.input[i] == 6);
                kept += usize::from(sample.input[i] == ids[i - 1]);
            }
            assert_eq!((sample.input[0], sample.input[101]), (4, 5), "special tokens stay");
        }
        let share = |n: usize| n as f64 / told as f64;
        assert!((share(mask) - 0.8).abs() < 0.01, "{}", share(mask));
        assert!((share(kept) - 0.1).abs() < 0.01, "{}", share(kept));
    }

    #[test]
    fn what_is_hidden_changes_with_the_epoch_only() {
        let objective = objective(false);
        let ids: Vec<u32> = (110..210).collect();
        let sample = |epoch| objective.sample(&ids, &[true; 100], Key::new(1, epoch, 0));
        assert_eq!(sample(0), sample(0));
        assert_ne!(sample(0).target, sample(1).target);
    }

    #[test]
    fn whole_words_are_hidden_whole() {
        let text = "understanding unfortunately is nothing if not international cooperation";
        let pieces = Arc::new(Thirds::of(text));
        let frame = Frame::bert(&*pieces).unwrap();
        let objective = Masked { whole_words: true, share: 0.3, ..Masked::bert(pieces.clone(), frame, 64).unwrap() };
        let encoded = pieces.encode(text).unwrap();
        for epoch in 0..50 {
            let sample = objective.sample(&encoded.ids, &encoded.first_of_word, Key::new(3, epoch, 0));
            let told: Vec<bool> = sample.target[1..=encoded.ids.len()].iter().map(|t| *t != IGNORED).collect();
            for i in 1..told.len() {
                assert!(encoded.first_of_word[i] || told[i] == told[i - 1], "a word is cut at {i}");
            }
            assert!(told.iter().any(|t| *t) && told.iter().any(|t| !*t));
        }
    }
}
