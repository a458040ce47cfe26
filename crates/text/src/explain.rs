//! How a text became these pieces: every piece with its id and place, and for BPE the merges of each word, in order.
//!
//! The merges are found by running the algorithm again, by the book: of all neighbours that can be joined, join the
//! pair that was learnt first; again, until none can.

use crate::tokenizer::{Encoding, Tokenizer, TokenizerEngine};
use qkv_base::{Error, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use tokenizers::{OffsetReferential, OffsetType, PreTokenizer};

/// One piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainRow {
    /// its id
    pub id: u32,
    /// as the vocabulary writes it
    pub piece: String,
    /// from–to in bytes of the text
    pub bytes: (usize, usize),
    /// that part of the text
    pub text: String,
    /// put there by the post-processor
    pub special: bool,
}

/// One word of the pre-tokenizer and how it was put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordMerges {
    /// the word as the model sees it
    pub word: String,
    /// the pieces after each merge; the first entry is the word in its smallest parts
    pub steps: Vec<MergeStep>,
}

/// One merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeStep {
    /// which merge of the vocabulary: 0 was learnt first; none for the start
    pub rank: Option<usize>,
    /// the pieces after it
    pub pieces: Vec<String>,
}

/// A text explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explain {
    /// the pieces in order
    pub rows: Vec<ExplainRow>,
    /// for BPE: the words in order
    pub words: Vec<WordMerges>,
}

impl Tokenizer {
    /// Explains how a text is cut.
    pub fn explain(&self, text: &str, add_special: bool) -> Result<Explain> {
        let encoding = self.encode(text, add_special)?;
        let rows = (0..encoding.len()).map(|i| row(&encoding, i, text)).collect();
        Ok(Explain { rows, words: self.merges_of(text)? })
    }

    /// The merges of each word; none if the model is not BPE.
    fn merges_of(&self, text: &str) -> Result<Vec<WordMerges>> {
        let TokenizerEngine::Plain(engine) = &self.engine else { return Ok(Vec::new()) };
        let tokenizers::models::ModelWrapper::BPE(model) = engine.get_model() else { return Ok(Vec::new()) };
        let fail = |e: String| Error::new(&self.place, e, "the tokenizer is damaged");
        let model = serde_json::to_value(model).map_err(|e| fail(e.to_string()))?;
        let table = Merges::new(&model);
        let words = crate::validate::guard(&self.place, || {
            let mut words = engine.get_added_vocabulary().extract_and_normalize(engine.get_normalizer(), text);
            if let Some(pre) = engine.get_pre_tokenizer() {
                pre.pre_tokenize(&mut words)?;
            }
            let splits = words.get_splits(OffsetReferential::Original, OffsetType::Byte);
            // A split with tokens is an added token, found whole.
            let words = splits.into_iter().filter(|(word, _, tokens)| tokens.is_none() && !word.is_empty());
            Ok(words.map(|(word, _, _)| word.to_string()).collect::<Vec<_>>())
        })?;
        Ok(words.into_iter().map(|word| table.run(word)).collect())
    }
}

fn row(encoding: &Encoding, i: usize, text: &str) -> ExplainRow {
    let bytes = encoding.bytes[i];
    let special = encoding.special_mask[i];
    let part = if special { "" } else { text.get(bytes.0..bytes.1).unwrap_or("") };
    ExplainRow { id: encoding.ids[i], piece: encoding.pieces[i].clone(), bytes, text: part.to_string(), special }
}

/// The merges of a BPE model, by pair.
struct Merges<'a> {
    rank: HashMap<(&'a str, &'a str), usize>,
    vocab: Option<&'a serde_json::Map<String, Value>>,
    prefix: &'a str,
    suffix: &'a str,
    ignore: bool,
    byte_fallback: bool,
}

impl<'a> Merges<'a> {
    fn new(model: &'a Value) -> Self {
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

    fn run(&self, word: String) -> WordMerges {
        if self.ignore && self.knows(&word) {
            let steps = vec![MergeStep { rank: None, pieces: vec![word.clone()] }];
            return WordMerges { word, steps };
        }
        let mut pieces = self.parts(&word);
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
        WordMerges { word, steps }
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|r| r.piece.chars().count()).max().unwrap_or(0).max(5);
        writeln!(f, "{:>7}  {:<width$}  {:>11}  text", "id", "piece", "bytes")?;
        for row in &self.rows {
            let place = if row.special { "special".to_string() } else { format!("{}..{}", row.bytes.0, row.bytes.1) };
            writeln!(f, "{:>7}  {:<width$}  {place:>11}  {:?}", row.id, row.piece, row.text)?;
        }
        for word in self.words.iter().filter(|w| w.steps.len() > 1) {
            writeln!(f, "\n{}", word.word)?;
            for step in &word.steps {
                let rank = step.rank.map_or("start".to_string(), |r| format!("merge {r}"));
                writeln!(f, "  {rank:>12}  {}", step.pieces.join(" · "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, TrainSpec, train};
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static BPE: LazyLock<Tokenizer> = LazyLock::new(|| {
        let lines = (0..60).map(|i| format!("lower newest widest low {} città बिल्ली", "ab".repeat(i % 7)));
        let spec = TrainSpec { vocab_size: 330, ..TrainSpec::new(Kind::Bpe) };
        train(lines, &spec, &mut |_| {}).unwrap().tokenizer
    });

    #[test]
    fn a_word_step_by_step() {
        let explain = BPE.explain("low", false).unwrap();
        let word = &explain.words[0];
        assert_eq!(word.steps[0].pieces, ["l", "o", "w"]);
        assert_eq!(word.steps.last().unwrap().pieces, explain.rows.iter().map(|r| r.piece.clone()).collect::<Vec<_>>());
        let text = explain.to_string();
        assert!(text.contains("l · o · w") && text.contains("merge"), "{text}");
    }

    proptest! {
        /// Our merging ends in the engine's pieces.
        #[test]
        fn merges_end_in_the_same_pieces(text in "(low|est|wid|ab|cit|tà|बि|ल्ली|new| |\n|\\PC){0,12}") {
            let explain = BPE.explain(&text, false).unwrap();
            let ours: Vec<String> = explain.words.iter().flat_map(|w| w.steps.last().unwrap().pieces.clone()).collect();
            let theirs: Vec<String> = explain.rows.iter().map(|r| r.piece.clone()).collect();
            prop_assert_eq!(ours, theirs);
        }
    }
}
