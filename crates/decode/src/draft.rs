//! Drafts: the next tokens are guessed from what stands there already, and all guesses are checked in one pass. A network reads
//! its weights once for a pass, so that several tokens in it cost little more than one; a text that repeats itself (code, a
//! correction, an answer that quotes its question) is then written several tokens at a time.
//!
//! Nothing changes but the time. Behind each guess the search chooses its token as it would have, from the same logits and the
//! same randomness (a function of seed and step); the guess counts only if it is that token, and what was computed behind a wrong
//! one is forgotten. Only searches of one row can have drafts, and only networks whose past can be cut (a recurrent state cannot).
//!
//! ```
//! use qkv_decode::draft::guess;
//! // "… 7 8 9 4 … 7 8" : behind 7 8 there was 9 4
//! assert_eq!(guess(&[&[1, 7, 8, 9, 4, 2, 7, 8]], 2), [9, 4]);
//! assert!(guess(&[&[1, 2, 3]], 4).is_empty()); // nothing comes twice
//! ```

use qkv_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Where guesses come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draft {
    /// nowhere: one token at a time
    #[default]
    None,
    /// the prompt and what was said: what came behind the last few tokens before
    Ngram,
    /// the source, where there is one, and what was said: for corrections, which copy most of it
    Source,
}

impl Draft {
    /// Every kind with its name.
    pub const ALL: [(&'static str, Self); 3] = [("none", Self::None), ("ngram", Self::Ngram), ("source", Self::Source)];
}

impl FromStr for Draft {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, draft)| *draft).ok_or_else(|| {
            let hint = format!("one of {}", Self::ALL.map(|(name, _)| name).join(", "));
            Error::new("draft", format!("there is no draft `{name}`"), hint)
        })
    }
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, draft)| draft == self).map_or("none", |(name, _)| name))
    }
}

/// The fewest tokens that must have come before in the same order.
const LEAST: usize = 2;
/// More than so many are not compared: a longer match says no more.
const ENOUGH: usize = 8;
/// The most guesses in a pass. With the token before them they are eight queries, which attention still takes row by row: a
/// product over more would round in another order, and the text would be the same but for the last bit of its probabilities.
const MOST: usize = 7;
/// How many guesses a request begins with.
const FIRST: usize = 3;
/// After so many passes in which no guess was right, a request rests.
const PATIENCE: usize = 2;
/// How long it rests at first, in tokens; twice as long each time.
const REST: usize = 16;

/// Up to `most` tokens that may come next: those which came behind the longest repetition of the last tokens, the latest of
/// equals. The texts are looked through in their order; the last one is what is being written.
pub fn guess(texts: &[&[u32]], most: usize) -> Vec<u32> {
    let Some(written) = texts.last() else { return vec![] };
    let mut best: Option<(usize, &[u32])> = None;
    for text in texts {
        for end in (1..text.len()).rev() {
            // `text[..end]` ends as the written text does; what follows is the guess.
            let alike =
                text[..end].iter().rev().zip(written.iter().rev()).take(ENOUGH).take_while(|(a, b)| a == b).count();
            if alike >= LEAST && best.is_none_or(|(n, _)| alike > n) {
                best = Some((alike, &text[end..]));
                if alike == ENOUGH {
                    break;
                }
            }
        }
    }
    best.map_or(vec![], |(_, next)| next[..next.len().min(most)].to_vec())
}

/// How the guesses of one request have done, and how many it may make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drafting {
    pub(crate) offered: usize,
    pub(crate) accepted: usize,
    length: usize,
    wrong: usize,
    rest: usize,
    next_rest: usize,
}

impl Drafting {
    pub(crate) fn new() -> Self {
        Self { offered: 0, accepted: 0, length: FIRST, wrong: 0, rest: 0, next_rest: REST }
    }

    /// How many guesses the next pass may have.
    pub(crate) fn length(&mut self) -> usize {
        if self.rest > 0 {
            self.rest -= 1;
            return 0;
        }
        self.length
    }

    /// Of `offered` guesses the first `accepted` were right.
    pub(crate) fn learn(&mut self, offered: usize, accepted: usize) {
        self.offered += offered;
        self.accepted += accepted;
        if accepted == offered {
            self.length = (2 * self.length).min(MOST);
        } else {
            self.length = accepted.max(1);
        }
        if accepted > 0 {
            (self.wrong, self.rest, self.next_rest) = (0, 0, REST);
            return;
        }
        self.wrong += 1;
        if self.wrong >= PATIENCE {
            (self.wrong, self.rest, self.next_rest) = (0, self.next_rest, 2 * self.next_rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_repetition_wins_and_then_the_latest() {
        let text = [5, 1, 2, 3, 40, 9, 2, 3, 41, 9, 2, 3, 42, 1, 2, 3];
        assert_eq!(guess(&[&text], 2), [40, 9]); // 1 2 3 comes once, 2 3 often
        assert_eq!(guess(&[&text[4..]], 1), [42]);
        assert_eq!(guess(&[&[7, 8, 9, 10], &[1, 7, 8]], 8), [9, 10]); // a source
        assert!(guess(&[], 3).is_empty() && guess(&[&[]], 3).is_empty());
        assert_eq!(guess(&[&[4, 4, 4, 4]], 3), [4]);
    }

    #[test]
    fn who_guesses_wrong_rests_longer_and_longer() {
        let mut drafting = Drafting::new();
        let mut passes = 0;
        for _ in 0..1000 {
            let length = drafting.length();
            if length > 0 {
                passes += 1;
                drafting.learn(length, 0);
            }
        }
        assert!(passes <= 14, "{passes} of 1000 passes had a wrong guess");
        drafting.learn(1, 1);
        drafting.learn(2, 2);
        drafting.learn(4, 4);
        assert_eq!((drafting.length(), drafting.next_rest), (MOST, REST));
    }
}
