//! BPE by the book: of all neighbours that can be joined, join the pair that was learnt first; again, until none can.

use serde_json::Value;
use std::collections::HashMap;
use std::fmt;

/// One merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeStep {
    /// which merge of the vocabulary: 0 was learnt first; none for the start
    pub rank: Option<usize>,
    /// the pieces after it
    pub pieces: Vec<String>,
}

impl fmt::Display for MergeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = self.rank.map_or("start".to_string(), |r| format!("merge {r}"));
        write!(f, "{rank:>12}  {}", self.pieces.join(" · "))
    }
}

/// The merges of a BPE model, by pair.
pub(super) struct Merges<'a> {
    rank: HashMap<(&'a str, &'a str), usize>,
    vocab: Option<&'a serde_json::Map<String, Value>>,
    prefix: &'a str,
    suffix: &'a str,
    ignore: bool,
    byte_fallback: bool,
}

impl<'a> Merges<'a> {
    pub(super) fn new(model: &'a Value) -> Self {
        let pair = |m: &'a Value| match m {
            Value::String(line) => line.split_once(' '),
            _ => Some((m.get(0)?.as_str()?, m.get(1)?.as_str()?)),
        };
        let merges = model.get("merges").and_then(Value::as_array).into_iter().flatten();
        let text = |key: &str| model.get(key).and_then(Value::as_str).unwrap_or("");
        let flag = |key: &str| model.get(key).and_then(Value::as_bool).unwrap_or(false);
        Self {
            rank: merges.enumerate().filter_map(|(i, m)| Some((pair(m)?, i))).collect(),
            vocab: model.get("vocab").and_then(Value::as_object),
            prefix: text("continuing_subword_prefix"),
            suffix: text("end_of_word_suffix"),
            ignore: flag("ignore_merges"),
            byte_fallback: flag("byte_fallback"),
        }
    }

    fn knows(&self, piece: &str) -> bool {
        self.vocab.is_some_and(|v| v.contains_key(piece))
    }

    /// The word in its smallest parts: characters, or the bytes of one without a piece.
    fn parts(&self, word: &str) -> Vec<String> {
        let last = word.chars().count().saturating_sub(1);
        let part = |(i, c): (usize, char)| {
            let prefix = if i > 0 { self.prefix } else { "" };
            let suffix = if i == last { self.suffix } else { "" };
            let whole = format!("{prefix}{c}{suffix}");
            let bytes: Vec<String> = c.to_string().bytes().map(|b| format!("<0x{b:02X}>")).collect();
            let fall = self.byte_fallback && !self.knows(&whole) && bytes.iter().all(|b| self.knows(b));
            if fall { bytes } else { vec![whole] }
        };
        word.chars().enumerate().flat_map(part).collect()
    }

    /// The pieces after each merge, from the smallest parts on.
    pub(super) fn run(&self, word: &str) -> Vec<MergeStep> {
        if self.ignore && self.knows(word) {
            return vec![MergeStep { rank: None, pieces: vec![word.to_owned()] }];
        }
        let mut pieces = self.parts(word);
        let mut steps = vec![MergeStep { rank: None, pieces: pieces.clone() }];
        loop {
            let ranked = pieces
                .windows(2)
                .enumerate()
                .filter_map(|(at, pair)| Some((*self.rank.get(&(pair[0].as_str(), pair[1].as_str()))?, at)));
            let Some((rank, at)) = ranked.min() else { break };
            let right = pieces.remove(at + 1);
            pieces[at].push_str(right.strip_prefix(self.prefix).unwrap_or(&right));
            steps.push(MergeStep { rank: Some(rank), pieces: pieces.clone() });
        }
        steps
    }
}
