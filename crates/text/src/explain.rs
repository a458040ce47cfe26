//! How a text became these pieces: every piece with its id and place, and how each word was cut: the merges of BPE in order,
//! the pieces that WordPiece tries, the best ways through Unigram's lattice.
//!
//! All of it is found by running the algorithm again, by the book; tests hold the outcome against the engine's own pieces.

mod lattice;
mod longest_match;
mod merges;

pub use lattice::Segmentation;
pub use longest_match::MatchStep;
pub use merges::MergeStep;

use crate::tokenizer::{Encoding, Tokenizer, TokenizerEngine};
use lattice::Lattice;
use longest_match::LongestMatch;
use merges::Merges;
use qkv_base::{Error, Result};
use serde_json::{Value, json};
use std::fmt;
use tokenizers::models::ModelWrapper;
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

/// One word of the pre-tokenizer and how it was cut.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedWord {
    /// the word as the model sees it
    pub word: String,
    /// how it became pieces
    pub cut: Cut,
}

/// How a word became pieces.
#[derive(Clone, Debug, PartialEq)]
pub enum Cut {
    /// BPE: the pieces after each merge; the first entry is the word in its smallest parts
    Merges(Vec<MergeStep>),
    /// WordPiece: the longest piece that fits, then the longest that fits the rest; the last step of a word that cannot be
    /// cut found nothing
    Matches {
        /// one step for each piece
        steps: Vec<MatchStep>,
        /// what stands for the whole word where nothing fits
        unknown: String,
    },
    /// Unigram: the likeliest ways to cut it, best first
    Lattice(Vec<Segmentation>),
}

/// A text explained.
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// the pieces in order
    pub rows: Vec<ExplainRow>,
    /// the words in order, for models that cut words
    pub words: Vec<ExplainedWord>,
}

impl Tokenizer {
    /// Explains how a text is cut.
    pub fn explain(&self, text: &str, add_special: bool) -> Result<Explain> {
        let encoding = self.encode(text, add_special)?;
        let rows = (0..encoding.len()).map(|i| row(&encoding, i, text)).collect();
        Ok(Explain { rows, words: self.cut(text)? })
    }

    /// How each word is cut; nothing for models of whole words.
    fn cut(&self, text: &str) -> Result<Vec<ExplainedWord>> {
        let (engine, text) = match &self.engine {
            TokenizerEngine::Plain(engine) => (&**engine, text),
            TokenizerEngine::Marian(marian) => marian.source_and_text(text),
        };
        let fail = |e: String| Error::new(&self.place, e, "the tokenizer is damaged");
        let model = serde_json::to_value(engine.get_model()).map_err(|e| fail(e.to_string()))?;
        let cut: Box<dyn Fn(&str) -> Cut> = match engine.get_model() {
            ModelWrapper::BPE(_) => {
                let table = Merges::new(&model);
                Box::new(move |word| Cut::Merges(table.run(word)))
            }
            ModelWrapper::WordPiece(_) => {
                let table = LongestMatch::new(&model);
                Box::new(move |word| Cut::Matches { steps: table.run(word), unknown: table.unknown.into() })
            }
            ModelWrapper::Unigram(_) => {
                let table = Lattice::new(&model);
                Box::new(move |word| Cut::Lattice(table.best(word)))
            }
            ModelWrapper::WordLevel(_) => return Ok(Vec::new()),
        };
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
        Ok(words.into_iter().map(|word| ExplainedWord { cut: cut(&word), word }).collect())
    }
}

fn row(encoding: &Encoding, i: usize, text: &str) -> ExplainRow {
    let bytes = encoding.bytes[i];
    let special = encoding.special_mask[i];
    let part = if special { "" } else { text.get(bytes.0..bytes.1).unwrap_or("") };
    ExplainRow { id: encoding.ids[i], piece: encoding.pieces[i].clone(), bytes, text: part.to_string(), special }
}

impl ExplainedWord {
    /// The pieces that it ends in.
    pub fn pieces(&self) -> Vec<String> {
        match &self.cut {
            Cut::Merges(steps) => steps.last().map(|step| step.pieces.clone()).unwrap_or_default(),
            Cut::Matches { steps, unknown } => {
                let found: Option<Vec<String>> = steps.iter().map(|step| step.found.clone()).collect();
                found.unwrap_or_else(|| vec![unknown.clone()])
            }
            Cut::Lattice(ways) => ways.first().map(|way| way.pieces.clone()).unwrap_or_default(),
        }
    }

    /// How it was cut, a line for each step or way; none where there was nothing to decide.
    pub fn lines(&self) -> Vec<String> {
        match &self.cut {
            Cut::Merges(steps) if steps.len() > 1 => steps.iter().map(MergeStep::to_string).collect(),
            Cut::Matches { steps, .. } if steps.len() > 1 || steps.iter().any(|s| s.found.is_none()) => {
                steps.iter().map(MatchStep::to_string).collect()
            }
            Cut::Lattice(ways) if ways.len() > 1 => ways.iter().map(Segmentation::to_string).collect(),
            _ => Vec::new(),
        }
    }

    /// The same for a program: `steps` of a merge or a match, `ways` of a lattice.
    pub fn json(&self) -> Value {
        match &self.cut {
            Cut::Merges(steps) => {
                let step = |s: &MergeStep| json!({"rank": s.rank, "pieces": s.pieces});
                json!({"word": self.word, "steps": steps.iter().map(step).collect::<Vec<_>>()})
            }
            Cut::Matches { steps, .. } => {
                let step = |s: &MatchStep| json!({"tried": s.tried, "found": s.found});
                json!({"word": self.word, "steps": steps.iter().map(step).collect::<Vec<_>>()})
            }
            Cut::Lattice(ways) => {
                let way = |w: &Segmentation| json!({"pieces": w.pieces, "logprob": w.logprob, "share": w.share});
                json!({"word": self.word, "ways": ways.iter().map(way).collect::<Vec<_>>()})
            }
        }
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
        for word in &self.words {
            let lines = word.lines();
            if !lines.is_empty() {
                writeln!(f, "\n{}", word.word)?;
            }
            for line in lines {
                writeln!(f, "  {line}")?;
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

    fn learnt(kind: Kind, vocab_size: usize) -> Tokenizer {
        let lines = (0..60).map(|i| format!("lower newest widest low {} città बिल्ली", "ab".repeat(i % 7)));
        train(lines, &TrainSpec { vocab_size, ..TrainSpec::new(kind) }, &mut |_| {}).unwrap().tokenizer
    }

    static BPE: LazyLock<Tokenizer> = LazyLock::new(|| learnt(Kind::Bpe, 330));
    static WORD_PIECE: LazyLock<Tokenizer> = LazyLock::new(|| learnt(Kind::WordPiece, 80));
    static UNIGRAM: LazyLock<Tokenizer> = LazyLock::new(|| learnt(Kind::Unigram, 220));

    #[test]
    fn a_word_step_by_step() {
        let explain = BPE.explain("low", false).unwrap();
        let Cut::Merges(steps) = &explain.words[0].cut else { panic!() };
        assert_eq!(steps[0].pieces, ["l", "o", "w"]);
        assert_eq!(explain.words[0].pieces(), explain.rows.iter().map(|r| r.piece.clone()).collect::<Vec<_>>());
        let text = explain.to_string();
        assert!(text.contains("l · o · w") && text.contains("merge"), "{text}");
    }

    /// Our cutting ends in the engine's pieces.
    fn ends_in_the_same(tokenizer: &Tokenizer, text: &str) {
        let explain = tokenizer.explain(text, false).unwrap();
        let ours: Vec<String> = explain.words.iter().flat_map(ExplainedWord::pieces).collect();
        let theirs: Vec<String> = explain.rows.iter().map(|r| r.piece.clone()).collect();
        assert_eq!(ours, theirs, "{text:?}");
    }

    #[test]
    fn what_is_explained_is_what_the_engine_does_in_files_of_others() {
        let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        for name in ["bert", "t5", "gpt2", "marian"] {
            let tokenizer = Tokenizer::load(data.join(name)).unwrap();
            let text = std::fs::read_to_string(data.join(name).join("expected.json")).unwrap();
            let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
            let texts = rows.iter().filter_map(|row| row["text"].as_str());
            // Added tokens are found whole and are no words; a language code is put there by Marian itself.
            for text in texts.filter(|t| !t.contains('<') && !t.contains('[')) {
                ends_in_the_same(&tokenizer, text);
            }
        }
    }

    proptest! {
        #[test]
        fn every_cutting_ends_in_the_same_pieces(text in "(low|est|wid|ab|cit|tà|बि|ल्ली|new| |\n|\\PC){0,12}") {
            for tokenizer in [&BPE, &WORD_PIECE, &UNIGRAM] {
                ends_in_the_same(tokenizer, &text);
            }
        }
    }
}
