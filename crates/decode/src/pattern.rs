//! A pattern that the whole answer must match: every token that could not be followed by a way to the end is taken out.
//!
//! The pattern is a regular expression over bytes, walked as an automaton: the state after what was said is found by walking
//! the bytes of its tokens, and a token stays if its own bytes lead to a state from which a match can still be reached. An end
//! token stays where the text is a match already. States are built when they are first met, and what a state allows is
//! remembered. JSON schemas become such patterns ([`crate::schema`]).
//!
//! ```
//! use qkv_decode::{Chain, History, Row, pattern::Pattern};
//! let tokens: Vec<Box<[u8]>> = ["", "yes", "no", "maybe", "y", "es"].iter().map(|t| t.as_bytes().into()).collect();
//! let mut chain: Chain = "greedy".parse()?;
//! chain.steps.insert(0, Pattern::new("yes|no", tokens.into())?.into());
//! let mut row = Row::of(&[9.0, 1.0, 2.0, 5.0, 3.0, 0.0])?;
//! let said = History { ends: &[0], ..History::default() };
//! chain.apply(&mut row, &said)?;
//! assert_eq!(row.alive(), [1, 2, 4]); // no end yet, and nothing that begins otherwise
//! # Ok::<(), qkv_base::Error>(())
//! ```

use crate::row::Row;
use crate::transform::{History, StepSheet, Transform};
use qkv_base::{Error, Result};
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Anchored, Input, MatchKind};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes of a pattern, of its automaton before states are built, and of the states.
const MOST: [usize; 3] = [1 << 18, 16 << 20, 64 << 20];

/// Every token's bytes; a token that is no text has none.
pub type TokenBytes = Arc<[Box<[u8]>]>;

/// A pattern for one vocabulary. Cloning is cheap.
#[derive(Clone)]
pub struct Pattern(Arc<Matcher>);

struct Matcher {
    pattern: String,
    dfa: DFA,
    tokens: TokenBytes,
    work: Mutex<Work>,
}

struct Work {
    cache: Cache,
    /// by state: whether the text may end there, and which tokens may follow
    allowed: HashMap<LazyStateID, Arc<Allowed>>,
    /// by state that tells of a match: whether anything can follow
    goes_on: HashMap<LazyStateID, bool>,
}

struct Allowed {
    end: bool,
    tokens: Vec<bool>,
}

/// The sheet, for who prints a chain; a pattern is not written within one, because commas part its steps.
pub(crate) const SHEET: StepSheet = StepSheet {
    name: "pattern",
    aliases: &[],
    about: "the whole answer matches a pattern or a JSON schema",
    off: "a pattern always does something",
    example: "pattern",
    parameters: &[],
};

impl Pattern {
    /// The pattern for a vocabulary, unless it is no pattern or too large a one.
    pub fn new(pattern: &str, tokens: TokenBytes) -> Result<Self> {
        let wrong = |what: String| Error::new("pattern", what, "write a regular expression without look-around");
        if pattern.len() > MOST[0] {
            return Err(Error::new("pattern", format!("is {} bytes long", pattern.len()), "make it simpler"));
        }
        let config = DFA::config()
            .match_kind(MatchKind::All)
            .cache_capacity(MOST[2])
            .skip_cache_capacity_check(true)
            // States are remembered by number, so they are never thrown away: too many are an error instead.
            .minimum_cache_clear_count(Some(0))
            .minimum_bytes_per_state(None);
        let dfa = DFA::builder()
            .configure(config)
            .thompson(thompson::Config::new().nfa_size_limit(Some(MOST[1])))
            .build(pattern)
            .map_err(|e| wrong(reason(&e)))?;
        let cache = dfa.create_cache();
        let work = Mutex::new(Work { cache, allowed: HashMap::new(), goes_on: HashMap::new() });
        let made = Self(Arc::new(Matcher { pattern: pattern.to_string(), dfa, tokens, work }));
        if made.0.allowed(&[]).is_none_or(|a| !a.end && !a.tokens.contains(&true)) {
            return Err(wrong("no text of this vocabulary begins a match".into()));
        }
        Ok(made)
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0.pattern
    }
}

/// The pattern of a text that stands for itself.
pub fn escape(text: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$#&-~".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// What a chain of errors says in the end, where the reason stands.
fn reason(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_string()
}

impl Matcher {
    /// What may follow these tokens; none where the automaton has grown too large.
    fn allowed(&self, said: &[u32]) -> Option<Arc<Allowed>> {
        let mut held = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let work = &mut *held;
        let start = Input::new("").anchored(Anchored::Yes);
        let mut state = self.dfa.start_state_forward(&mut work.cache, &start).ok()?;
        for id in said {
            state = self.walk(work, state, self.tokens.get(*id as usize)?)?;
        }
        if let Some(known) = work.allowed.get(&state) {
            return Some(known.clone());
        }
        let end = self.dfa.next_eoi_state(&mut work.cache, state).ok()?.is_match();
        let follows = self.tokens.iter().map(|bytes| !bytes.is_empty() && self.walk(work, state, bytes).is_some());
        let tokens = follows.collect();
        let new = Arc::new(Allowed { end, tokens });
        work.allowed.insert(state, new.clone());
        Some(new)
    }

    /// The state behind some bytes; none where no match can be reached any more.
    fn walk(&self, work: &mut Work, from: LazyStateID, bytes: &[u8]) -> Option<LazyStateID> {
        let mut state = from;
        for byte in bytes {
            state = self.dfa.next_state(&mut work.cache, state, *byte).ok()?;
            if state.is_dead() || state.is_quit() || state.is_match() && !self.goes_on(work, state) {
                return None;
            }
        }
        Some(state)
    }

    /// Whether anything follows in a state that tells of a match. The automaton tells of one a byte late, so behind the last
    /// byte of the longest match stands a state that is not dead, but that nothing leads out of.
    fn goes_on(&self, work: &mut Work, state: LazyStateID) -> bool {
        if let Some(known) = work.goes_on.get(&state) {
            return *known;
        }
        let ends = self.dfa.next_eoi_state(&mut work.cache, state).is_ok_and(|next| next.is_match());
        let more = |byte: u8| self.dfa.next_state(&mut work.cache, state, byte).is_ok_and(|next| !next.is_dead());
        let found = ends || (0..=u8::MAX).any(more);
        work.goes_on.insert(state, found);
        found
    }
}

impl Transform for Pattern {
    fn apply(&self, row: &mut Row, said: &History) {
        let allowed = self.0.allowed(said.generated);
        let stays = |id: u32| match &allowed {
            Some(a) if said.ends.contains(&id) => a.end,
            Some(a) => a.tokens.get(id as usize).copied().unwrap_or(false),
            None => false,
        };
        row.keep(|id, _| stays(id));
    }

    fn idle(&self) -> bool {
        false
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.pattern == other.0.pattern && self.0.tokens == other.0.tokens
    }
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pattern").field(&self.0.pattern).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(pattern: &str, tokens: &[&str]) -> Result<Pattern> {
        Pattern::new(pattern, tokens.iter().map(|t| t.as_bytes().into()).collect())
    }

    fn alive(pattern: &Pattern, said: &[u32], vocabulary: usize) -> Vec<u32> {
        let mut row = Row::of(&vec![1.0; vocabulary]).unwrap();
        pattern.apply(&mut row, &History { generated: said, ends: &[0], ..History::default() });
        row.alive().to_vec()
    }

    #[test]
    fn tokens_may_end_anywhere_within_the_pattern() {
        let tokens = ["", "a", "ab", "abc", "bc", "c", "d", "é"];
        let p = pattern("(ab)+c|é{2}", &tokens).unwrap();
        assert_eq!(alive(&p, &[], 8), [1, 2, 3, 7]);
        assert_eq!(alive(&p, &[2], 8), [1, 2, 3, 5]);
        assert_eq!(alive(&p, &[1], 8), [4]); // a, then b and c
        assert_eq!(alive(&p, &[1, 4], 8), [0]); // whole: nothing but the end
        assert_eq!((alive(&p, &[7], 8), alive(&p, &[7, 7], 8)), (vec![7], vec![0]));
        assert_eq!(alive(&pattern("a*", &tokens).unwrap(), &[1], 8), [0, 1]);
    }

    #[test]
    fn what_is_no_pattern_or_too_large_a_one_is_refused() {
        for bad in ["(", "(?=a)", "x", "(((a{1000}){1000}){1000})"] {
            assert!(pattern(bad, &["", "a"]).is_err(), "{bad}");
        }
        assert!(pattern(&"a".repeat(1 << 19), &["a"]).is_err());
    }
}
