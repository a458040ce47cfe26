//! A grammar that the whole answer must follow: brackets within brackets, JSON of any depth, a programming language.
//!
//! A regular expression ([`crate::pattern`]) cannot count brackets; a grammar's rules call each other, and so themselves. Each rule
//! is a small automaton over bytes (`expr.rs`); a place within the grammar is a state of one of them with a stack of the states to
//! return to. Where a text can be read in several ways there are several places, and all are followed at once. A token stays if its
//! bytes lead from one of the places to another; an end token stays where a place is behind the last rule. Places are numbered
//! when they are first met, what follows a place is remembered, and a stack shares its lower part with others. A rule that calls
//! another as the last thing it does leaves nothing on the stack, so that lists of any length need no depth.
//!
//! ```
//! use qkv_decode::{Chain, History, Row, grammar::Grammar};
//! let tokens: Vec<Box<[u8]>> = ["", "(", ")", "x", "()"].iter().map(|t| t.as_bytes().into()).collect();
//! let grammar = Grammar::new(r#"root ::= "(" root ")" | "x""#, tokens.into())?;
//! let mut chain: Chain = "greedy".parse()?;
//! chain.steps.insert(0, grammar.into());
//! let mut row = Row::of(&[9.0, 1.0, 2.0, 5.0, 3.0])?;
//! let said = History { ends: &[0], generated: &[1, 3], ..History::default() }; // ( x
//! chain.apply(&mut row, &said)?;
//! assert_eq!(row.alive(), [2]); // ) and no end before it
//! # Ok::<(), qkv_base::Error>(())
//! ```

pub(crate) mod expr;
mod gbnf;

use crate::pattern::TokenBytes;
use crate::row::Row;
use crate::transform::{History, StepSheet, Transform};
use expr::{Expr, Node, Program};
use qkv_base::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes of a grammar.
const MOST_TEXT: usize = 1 << 18;
/// The most ways in which a text may be read at once.
const MOST_WAYS: usize = 1 << 10;
/// The most ways, stacks and moves that are remembered; a grammar that needs more allows nothing any more.
const MOST_KEPT: usize = 1 << 22;

/// A grammar for one vocabulary. Cloning is cheap.
#[derive(Clone)]
pub struct Grammar(Arc<Inner>);

struct Inner {
    text: String,
    program: Program,
    tokens: TokenBytes,
    /// the tokens that are text in the order of their bytes, each with how many bytes it shares with the one before
    sorted: Vec<(u32, usize)>,
    work: Mutex<Work>,
}

/// A state of a rule, and the stack below it.
type Way = (u32, u32);

#[derive(Default)]
struct Work {
    /// a state to return to and the stack below it; the number 0 is the empty stack
    stacks: Vec<Way>,
    stack_numbers: HashMap<Way, u32>,
    /// places: all ways in which a text can be read so far, and whether it may end there
    places: Vec<(Arc<[Way]>, bool)>,
    place_numbers: HashMap<Arc<[Way]>, u32>,
    moves: HashMap<(u32, u8), Option<u32>>,
    allowed: HashMap<u32, Arc<[u64]>>,
    kept: usize,
}

/// The sheet, for who prints a chain; a grammar is not written within one.
pub(crate) const SHEET: StepSheet = StepSheet {
    name: "grammar",
    aliases: &[],
    about: "the whole answer follows a grammar, or a JSON schema that refers to itself",
    off: "a grammar always does something",
    example: "grammar",
    parameters: &[],
};

impl Grammar {
    /// A grammar in llama.cpp's notation (GBNF) for a vocabulary.
    pub fn new(text: &str, tokens: TokenBytes) -> Result<Self> {
        if text.len() > MOST_TEXT {
            return Err(Error::new("grammar", format!("is {} bytes long", text.len()), "make it simpler"));
        }
        let (rules, names) = gbnf::parse(text)?;
        Self::of(text, &rules, &|rule| names.get(rule).cloned().unwrap_or_default(), tokens)
    }

    /// Rules by name, given as regular expressions, which may call each other; the first is the whole.
    pub(crate) fn of_patterns(named: &[(String, String)], tokens: TokenBytes) -> Result<Self> {
        let rules = named.iter().map(|(_, pattern)| Expr::of_regex(pattern)).collect::<Result<Vec<_>>>()?;
        let text: String = named.iter().map(|(_, pattern)| format!("{pattern}\n")).collect();
        Self::of(&text, &rules, &|rule| named.get(rule).map_or(String::new(), |(name, _)| format!("#{name}")), tokens)
    }

    fn of(text: &str, rules: &[Expr], names: &dyn Fn(usize) -> String, tokens: TokenBytes) -> Result<Self> {
        let program = Program::new(rules)?;
        program.check(names)?;
        let mut ids: Vec<u32> = (0..tokens.len() as u32).filter(|id| !tokens[*id as usize].is_empty()).collect();
        ids.sort_unstable_by(|a, b| tokens[*a as usize].cmp(&tokens[*b as usize]));
        let mut before: &[u8] = &[];
        let mut sorted = Vec::with_capacity(ids.len());
        for id in ids {
            let bytes = &tokens[id as usize];
            sorted.push((id, bytes.iter().zip(before).take_while(|(a, b)| a == b).count()));
            before = bytes;
        }
        let work = Mutex::new(Work { stacks: vec![(0, 0)], ..Work::default() });
        let made = Self(Arc::new(Inner { text: text.into(), program, tokens, sorted, work }));
        if made.0.allowed(&[]).is_none_or(|(tokens, end)| !end && tokens.iter().all(|bits| *bits == 0)) {
            let what = "no text of this vocabulary begins as it says";
            return Err(Error::new("grammar", what, "does the vocabulary have the characters?"));
        }
        Ok(made)
    }

    /// The grammar as it was written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl Inner {
    /// What may follow these tokens, by bits, and whether the text may end; none where nothing can be said any more.
    fn allowed(&self, said: &[u32]) -> Option<(Arc<[u64]>, bool)> {
        let mut held = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let work = &mut *held;
        let start = *self.program.starts.first()?;
        let mut place = work.place(&self.program, vec![(start, 0)])?;
        for id in said {
            for byte in self.tokens.get(*id as usize)?.iter() {
                place = work.step(&self.program, place, *byte)?;
            }
        }
        let end = work.places[place as usize].1;
        if let Some(known) = work.allowed.get(&place) {
            return Some((known.clone(), end));
        }
        let bits = self.follow(work, place);
        work.kept += bits.len() / 2;
        work.allowed.insert(place, bits.clone());
        Some((bits, end))
    }

    /// Which tokens lead on from a place. They are walked in the order of their bytes: what a token shares with the one before it
    /// is not walked again.
    fn follow(&self, work: &mut Work, from: u32) -> Arc<[u64]> {
        let mut bits = vec![0u64; self.tokens.len().div_ceil(64)];
        let mut path = vec![from];
        for (id, shared) in &self.sorted {
            let bytes = &self.tokens[*id as usize];
            path.truncate(shared + 1);
            // Shorter than what is shared: the token before died there, and so does this one.
            while path.len() > *shared && path.len() <= bytes.len() {
                match path.last().and_then(|place| work.step(&self.program, *place, bytes[path.len() - 1])) {
                    Some(next) => path.push(next),
                    None => break,
                }
            }
            if path.len() == bytes.len() + 1 {
                bits[*id as usize / 64] |= 1 << (id % 64);
            }
        }
        bits.into()
    }
}

impl Work {
    /// The place behind a byte; none where the grammar allows no such byte, or has grown too large.
    fn step(&mut self, program: &Program, from: u32, byte: u8) -> Option<u32> {
        if let Some(known) = self.moves.get(&(from, byte)) {
            return *known;
        }
        let ways = self.places[from as usize].0.clone();
        let mut next = vec![];
        for (state, stack) in ways.iter() {
            if let Node::Byte(low, high, to) = program.nodes[*state as usize]
                && (low..=high).contains(&byte)
            {
                next.push((to, *stack));
            }
        }
        let found = if next.is_empty() { None } else { self.place(program, next) };
        self.kept += 1;
        if self.kept < MOST_KEPT {
            self.moves.insert((from, byte), found);
        }
        found
    }

    /// The number of the place where some ways lead without reading a byte.
    fn place(&mut self, program: &Program, mut todo: Vec<Way>) -> Option<u32> {
        let (mut seen, mut reading, mut ends) = (HashSet::new(), vec![], false);
        while let Some(way) = todo.pop() {
            if !seen.insert(way) {
                continue;
            }
            if seen.len() > MOST_WAYS || self.kept > MOST_KEPT {
                return None;
            }
            let (state, stack) = way;
            match &program.nodes[state as usize] {
                Node::Byte(..) => reading.push(way),
                Node::Split(ways) => todo.extend(ways.iter().map(|to| (*to, stack))),
                Node::Return if stack == 0 => ends = true,
                Node::Return => todo.push(self.stacks[stack as usize]),
                Node::Call(rule, next) => {
                    // What comes behind the call is the end of this rule: there is nothing to return to.
                    let last = matches!(program.nodes[*next as usize], Node::Return);
                    let below = if last { stack } else { self.push((*next, stack)) };
                    todo.push((program.starts[*rule as usize], below));
                }
            }
        }
        reading.sort_unstable();
        // Whether a text may end belongs to the place: two with the same ways may differ in it.
        if ends {
            reading.push((0, 0)); // the state 0 is the end of a rule, and below it is nothing
        }
        let ways: Arc<[Way]> = reading.into();
        if let Some(known) = self.place_numbers.get(&ways) {
            return Some(*known);
        }
        let number = self.places.len() as u32;
        self.kept += ways.len();
        self.places.push((ways.clone(), ends));
        self.place_numbers.insert(ways, number);
        Some(number)
    }

    /// The number of a stack.
    fn push(&mut self, top: Way) -> u32 {
        let next = self.stacks.len() as u32;
        let number = *self.stack_numbers.entry(top).or_insert(next);
        if number == next {
            self.stacks.push(top);
            self.kept += 1;
        }
        number
    }
}

impl Transform for Grammar {
    fn apply(&self, row: &mut Row, said: &History) {
        let allowed = self.0.allowed(said.generated);
        let stays = |id: u32| match &allowed {
            Some((_, end)) if said.ends.contains(&id) => *end,
            Some((bits, _)) => bits.get(id as usize / 64).is_some_and(|word| word >> (id % 64) & 1 == 1),
            None => false,
        };
        row.keep(|id, _| stays(id));
    }

    fn idle(&self) -> bool {
        false
    }
}

impl PartialEq for Grammar {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text && self.0.tokens == other.0.tokens
    }
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Grammar").field(&self.0.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every printable character as a token of its own, and some of several; 0 is the end.
    fn vocabulary() -> TokenBytes {
        let mut tokens: Vec<Box<[u8]>> = vec![Box::default()];
        tokens.extend((b' '..=b'~').map(|b| vec![b].into_boxed_slice()));
        tokens.extend(["((", "\": ", "é", "\n"].map(|t| t.as_bytes().into()));
        tokens.push([0xC3].into());
        tokens.push([0xA9].into());
        tokens.into()
    }

    /// Whether a text, letter by letter, is let through and may end there.
    pub(crate) fn takes(grammar: &Grammar, text: &str) -> bool {
        let tokens = &grammar.0.tokens;
        let mut said = vec![];
        for c in text.chars().map(Some).chain([None]) {
            let bytes = c.map_or(vec![], |c| c.to_string().into_bytes());
            let id = tokens.iter().position(|t| **t == *bytes).expect("a token of this character") as u32;
            let mut row = Row::of(&vec![0.0; tokens.len()]).unwrap();
            grammar.apply(&mut row, &History { generated: &said, ends: &[0], ..History::default() });
            if !row.alive().contains(&id) {
                return false;
            }
            said.push(id);
        }
        true
    }

    const JSON: &str = r#"
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws ::= [ \t\n]?
"#;

    #[test]
    fn json_of_any_depth_is_followed_and_nothing_else() {
        let json = Grammar::new(JSON, vocabulary()).unwrap();
        let deep = format!("{{\"a\": {}1{}}}", "[".repeat(60), "]".repeat(60));
        for good in ["{}", r#"{"a": [1, {"b": null}], "é": -2.5e3}"#, deep.as_str()] {
            assert!(takes(&json, good), "{good}");
            assert!(serde_json::from_str::<serde_json::Value>(good).is_ok());
        }
        let unequal = format!("{{\"a\": {}1{}}}", "[".repeat(9), "]".repeat(8));
        for bad in ["[]", "{", r#"{"a"}"#, r#"{"a": 1,}"#, r#"{"a": [1}"#, unequal.as_str()] {
            assert!(!takes(&json, bad), "{bad}");
        }
    }

    /// Tokens of several characters, and characters of several tokens.
    #[test]
    fn tokens_may_begin_and_end_anywhere() {
        let tokens = vocabulary();
        let id = |text: &[u8]| tokens.iter().position(|t| **t == *text).unwrap() as u32;
        let grammar = Grammar::new(r#"root ::= "(" root ")" | [é-ü]"#, tokens.clone()).unwrap();
        let alive = |said: &[u32]| {
            let mut row = Row::of(&vec![0.0; tokens.len()]).unwrap();
            grammar.apply(&mut row, &History { generated: said, ends: &[0], ..History::default() });
            row.alive().to_vec()
        };
        let (open, two, close) = (id(b"("), id(b"(("), id(b")"));
        let (whole, first, second) = (id("é".as_bytes()), id(&[0xC3]), id(&[0xA9]));
        assert_eq!(alive(&[]), [open, two, whole, first]);
        assert_eq!(alive(&[two, first]), [second]);
        assert_eq!(alive(&[two, first, second]), [close]);
        assert_eq!(alive(&[two, whole, close, close]), [0]);
        assert!(alive(&[close]).is_empty());
    }

    #[test]
    fn a_list_written_from_the_left_needs_no_depth() {
        let grammar = Grammar::new(r#"root ::= "a" root | "b""#, vocabulary()).unwrap();
        assert!(takes(&grammar, &format!("{}b", "a".repeat(500))));
        let work = grammar.0.work.lock().unwrap();
        assert!(work.places.len() < 8 && work.stacks.len() == 1, "{} places", work.places.len());
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let no = |text: &str| Grammar::new(text, vocabulary()).unwrap_err().to_string();
        assert!(no("root ::= root \"a\" | \"a\"").contains("begins with itself"));
        assert!(no("root ::= \"日\"").contains("vocabulary"));
        assert!(no("root ::= ((\"a\"{1000}){1000}){1000}").contains("states"));
        assert!(no(&"a".repeat(1 << 19)).contains("bytes long"));
        // Ambiguity without end: many ways at once, and no more than are followed.
        let many = Grammar::new(r#"root ::= ("a" | "a" root)* "b""#, vocabulary()).unwrap();
        let _ = takes(&many, &format!("{}b", "a".repeat(200)));
    }
}
