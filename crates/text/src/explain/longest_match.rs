//! WordPiece by the book: the longest piece with which the word begins, then the longest with which the rest begins, with `##`
//! before it. Greedy: what was taken is never taken back, and a rest that fits nothing makes the whole word unknown.

use serde_json::Value;
use std::fmt;

/// The search for one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchStep {
    /// what was tried, longest first; the last one is what was found, if anything was
    pub tried: Vec<String>,
    /// the piece
    pub found: Option<String>,
}

impl fmt::Display for MatchStep {
    /// `lowest ✗ · lowes ✗ · lowe ✗ · low ✓`; of many tries the first and the last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ENDS: usize = 3;
        if self.tried.is_empty() {
            return write!(f, "the word is longer than any that is cut");
        }
        let last = self.tried.len() - 1;
        let mut all: Vec<String> = vec![];
        for (i, piece) in self.tried.iter().enumerate() {
            if self.tried.len() > 2 * ENDS + 1 && i == ENDS {
                all.push(format!("{} shorter ones ✗", self.tried.len() - 2 * ENDS));
            }
            if self.tried.len() <= 2 * ENDS + 1 || i < ENDS || i + ENDS > last {
                let fits = i == last && self.found.is_some();
                all.push(format!("{piece} {}", if fits { '✓' } else { '✗' }));
            }
        }
        write!(f, "{}", all.join(" · "))
    }
}

/// The vocabulary of a WordPiece model.
pub(super) struct LongestMatch<'a> {
    vocab: Option<&'a serde_json::Map<String, Value>>,
    prefix: &'a str,
    longest: usize,
    pub(super) unknown: &'a str,
}

impl<'a> LongestMatch<'a> {
    pub(super) fn new(model: &'a Value) -> Self {
        let text = |key: &str| model.get(key).and_then(Value::as_str).unwrap_or("");
        Self {
            vocab: model.get("vocab").and_then(Value::as_object),
            prefix: text("continuing_subword_prefix"),
            longest: model.get("max_input_chars_per_word").and_then(Value::as_u64).unwrap_or(100) as usize,
            unknown: text("unk_token"),
        }
    }

    /// One step for each piece; the last one found nothing where the word is unknown.
    pub(super) fn run(&self, word: &str) -> Vec<MatchStep> {
        if word.chars().count() > self.longest {
            return vec![MatchStep { tried: vec![], found: None }];
        }
        let (mut steps, mut start) = (vec![], 0);
        while start < word.len() {
            let rest = &word[start..];
            let prefix = if start > 0 { self.prefix } else { "" };
            let mut step = MatchStep { tried: vec![], found: None };
            for (at, letter) in rest.char_indices().rev() {
                let piece = format!("{prefix}{}", &rest[..at + letter.len_utf8()]);
                let fits = self.vocab.is_some_and(|v| v.contains_key(&piece));
                step.tried.push(piece.clone());
                if fits {
                    step.found = Some(piece);
                    start += at + letter.len_utf8();
                    break;
                }
            }
            let stuck = step.found.is_none();
            steps.push(step);
            if stuck {
                break;
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_longest_first_and_never_taken_back() {
        let model = json!({
            "vocab": {"[UNK]": 0, "low": 1, "##e": 2, "##st": 3, "lower": 4, "##es": 5},
            "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 8,
        });
        let table = LongestMatch::new(&model);
        let steps = table.run("lowest");
        let lines: Vec<String> = steps.iter().map(MatchStep::to_string).collect();
        // `##es` is longer than `##e`, so `##st` is never reached and the word is unknown.
        assert_eq!(lines, ["lowest ✗ · lowes ✗ · lowe ✗ · low ✓", "##est ✗ · ##es ✓", "##t ✗"]);
        assert_eq!(steps.last().and_then(|s| s.found.clone()), None);
        assert_eq!(table.run("lowerlower")[0].to_string(), "the word is longer than any that is cut");
        let many = MatchStep { tried: (0..9).map(|i| i.to_string()).collect(), found: Some("8".into()) };
        assert_eq!(many.to_string(), "0 ✗ · 1 ✗ · 2 ✗ · 3 shorter ones ✗ · 6 ✗ · 7 ✗ · 8 ✓");
    }
}
