//! Several tokenizers side by side on one text: how finely they cut, what they do not know, how rare words fall apart.

use crate::tokenizer::Tokenizer;
use qkv_base::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Words shown with their pieces.
const SHOWN: usize = 8;

/// One tokenizer on the text.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareRow {
    /// as it was given
    pub name: String,
    /// pieces it has
    pub vocab_size: usize,
    /// ids of the text
    pub tokens: usize,
    /// ids per word between spaces
    pub tokens_per_word: f64,
    /// ids per byte
    pub tokens_per_byte: f64,
    /// ids of the unknown piece
    pub unknown: usize,
    /// the longest pieces that the text used, longest first
    pub longest: Vec<String>,
    /// a rare word of the text, and its pieces
    pub rare: Vec<(String, Vec<String>)>,
}

/// The table.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenizerComparison {
    /// words between spaces
    pub words: usize,
    /// bytes of the text
    pub bytes: usize,
    /// one for each tokenizer, in their order
    pub rows: Vec<CompareRow>,
}

/// Cuts `text` with each tokenizer.
pub fn compare(tokenizers: &[(&str, &Tokenizer)], text: &str) -> Result<TokenizerComparison> {
    let words = text.split_whitespace().count();
    let rare = rare_words(text);
    let rows = tokenizers.iter().map(|(name, t)| row(name, t, text, words, &rare)).collect::<Result<_>>()?;
    Ok(TokenizerComparison { words, bytes: text.len(), rows })
}

/// The words that come least often, the longest of them first.
fn rare_words(text: &str) -> Vec<&str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    text.split_whitespace().for_each(|word| *counts.entry(word).or_default() += 1);
    let mut words: Vec<(&str, usize)> = counts.into_iter().collect();
    words.sort_by_key(|(word, n)| (*n, std::cmp::Reverse(word.chars().count()), *word));
    words.into_iter().take(SHOWN).map(|(word, _)| word).collect()
}

fn row(name: &str, tokenizer: &Tokenizer, text: &str, words: usize, rare: &[&str]) -> Result<CompareRow> {
    // Line by line, as texts are learnt and read; and no line is too long for a word-by-word cache.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let encodings = tokenizer.encode_batch(&lines, false)?;
    let tokens = encodings.iter().map(|e| e.len()).sum::<usize>();
    let unk = tokenizer.special().unk;
    let unknown = encodings.iter().flat_map(|e| &e.ids).filter(|id| Some(**id) == unk).count();
    let used: BTreeSet<&String> = encodings.iter().flat_map(|e| &e.pieces).collect();
    let mut longest: Vec<String> = used.into_iter().cloned().collect();
    longest.sort_by_key(|piece| std::cmp::Reverse(piece.chars().count()));
    longest.truncate(SHOWN);
    let cut = |word: &&str| -> Result<(String, Vec<String>)> {
        Ok((word.to_string(), tokenizer.encode(word, false)?.pieces))
    };
    let per = |n: usize| if n == 0 { 0.0 } else { tokens as f64 / n as f64 };
    Ok(CompareRow {
        name: name.to_string(),
        vocab_size: tokenizer.vocab_size(),
        tokens,
        tokens_per_word: per(words),
        tokens_per_byte: per(text.len()),
        unknown,
        longest,
        rare: rare.iter().map(cut).collect::<Result<_>>()?,
    })
}

impl fmt::Display for TokenizerComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|r| r.name.chars().count()).max().unwrap_or(0).max(9);
        writeln!(f, "{} words, {} bytes\n", self.words, self.bytes)?;
        writeln!(
            f,
            "{:<width$}  {:>8}  {:>9}  {:>7}  {:>7}  {:>7}",
            "tokenizer", "pieces", "tokens", "/word", "/byte", "unknown"
        )?;
        for r in &self.rows {
            let (name, size, tokens) = (&r.name, r.vocab_size, r.tokens);
            let (word, byte, unknown) = (r.tokens_per_word, r.tokens_per_byte, r.unknown);
            writeln!(f, "{name:<width$}  {size:>8}  {tokens:>9}  {word:>7.3}  {byte:>7.3}  {unknown:>7}")?;
        }
        for r in &self.rows {
            writeln!(f, "\n{}: longest {}", r.name, r.longest.join(" "))?;
            for (word, pieces) in &r.rare {
                writeln!(f, "  {word}  →  {}", pieces.join(" · "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, TrainSpec, train};

    #[test]
    fn numbers_by_hand() {
        let spec = TrainSpec { vocab_size: 20, ..TrainSpec::new(Kind::Char) };
        let chars = train(["abc abc".to_string()], &spec, &mut |_| {}).unwrap().tokenizer;
        let table = compare(&[("chars", &chars)], "ab xc").unwrap();
        let row = &table.rows[0];
        assert_eq!((table.words, table.bytes, row.tokens, row.unknown), (2, 5, 5, 1));
        assert_eq!((row.tokens_per_word, row.tokens_per_byte), (2.5, 1.0));
        assert_eq!(row.rare[0], ("ab".to_string(), vec!["a".to_string(), "b".to_string()]));
        assert!(table.to_string().contains("chars"));
    }
}
