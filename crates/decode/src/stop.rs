//! When to stop: an end token, the length, or a stop string, which may begin in one token and end in another.
//!
//! Text goes in as it is said; what can no longer be the beginning of a stop string comes out. The stop string itself and
//! what follows it never do.
//!
//! ```
//! use qkv_decode::StopText;
//! let mut stop = StopText::new(["\n\n"]);
//! assert_eq!(stop.push("one\n"), "one"); // the line break may be half of it
//! assert_eq!(stop.push("two\n"), "\ntwo");
//! assert_eq!(stop.push("\nthree"), "");
//! assert!(stop.is_met());
//! ```

use serde::Serialize;

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// by an end token, its last id
    Token,
    /// there was no more room
    Length,
    /// by a stop string
    Text,
    /// whoever watched said so
    Stopped,
}

/// Looks for stop strings in text that comes in pieces.
#[derive(Clone, Debug, Default)]
pub struct StopText {
    strings: Vec<String>,
    held: String,
    met: bool,
}

impl StopText {
    /// Looks for any of these; empty ones are nobody.
    pub fn new<S: Into<String>>(strings: impl IntoIterator<Item = S>) -> Self {
        let strings = strings.into_iter().map(Into::into).filter(|s: &String| !s.is_empty()).collect();
        Self { strings, ..Self::default() }
    }

    /// Whether a stop string was said.
    pub fn is_met(&self) -> bool {
        self.met
    }

    /// More text; what of it (and of what was held back) is certain to stay.
    pub fn push(&mut self, text: &str) -> String {
        if self.met {
            return String::new();
        }
        self.held.push_str(text);
        if let Some(at) = self.strings.iter().filter_map(|s| self.held.find(s.as_str())).min() {
            self.met = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let certain = self.held.len() - self.open();
        let rest = self.held.split_off(certain);
        std::mem::replace(&mut self.held, rest)
    }

    /// What was held back and came to nothing.
    pub fn finish(&mut self) -> String {
        if self.met { String::new() } else { std::mem::take(&mut self.held) }
    }

    /// The longest end of the held text that begins a stop string, in bytes.
    fn open(&self) -> usize {
        let begins = |n: &usize| {
            let tail = &self.held.as_bytes()[self.held.len() - n..];
            self.strings.iter().any(|s| s.as_bytes().starts_with(tail))
        };
        let longest = self.strings.iter().map(|s| s.len() - 1).max().unwrap_or(0).min(self.held.len());
        (1..=longest).rev().filter(|n| self.held.is_char_boundary(self.held.len() - n)).find(begins).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_stop_string_wins_and_the_rest_is_gone() {
        let mut stop = StopText::new(["END", "stop", ""]);
        assert_eq!(stop.push("a sto"), "a ");
        assert_eq!(stop.push("ve sEN"), "stove s");
        assert_eq!(stop.push("D stop"), "");
        assert_eq!((stop.is_met(), stop.push("more"), stop.finish()), (true, String::new(), String::new()));
        let mut open = StopText::new(["abc"]);
        assert_eq!((open.push("xab"), open.finish()), ("x".to_string(), "ab".to_string()));
    }

    proptest! {
        /// However the text is cut, what comes out is the text before the first stop string.
        #[test]
        fn pieces_are_as_good_as_the_whole(text in "[abé]{0,30}", stops in prop::collection::vec("[abé]{1,4}", 0..3), cut in 1usize..5) {
            let first = stops.iter().filter_map(|s| text.find(s.as_str())).min();
            let mut stop = StopText::new(stops.clone());
            let letters: Vec<char> = text.chars().collect();
            let mut out: String = letters.chunks(cut).map(|c| stop.push(&c.iter().collect::<String>())).collect();
            out.push_str(&stop.finish());
            // A stop string that ends first is met first, even if another began before it: cut by cut this can differ
            // only in what is still open, so compare with the earliest end.
            let ends = stops.iter().filter_map(|s| text.find(s.as_str()).map(|at| at + s.len())).min();
            prop_assert_eq!(stop.is_met(), first.is_some());
            match (first, ends) {
                (Some(first), Some(_)) => prop_assert!(text.starts_with(&out) && out.len() >= first),
                _ => prop_assert_eq!(out, text),
            }
        }
    }
}
