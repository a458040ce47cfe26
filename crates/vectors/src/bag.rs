//! A text as a bag of words: each word of the vocabulary is an axis.
//!
//! ```text
//! one-hot   a word is 1 on its own axis; a text is 1 on the axis of every word that it holds
//! TF-IDF    count(word in text) · idf(word), the row brought to length 1
//!           idf(word) = ln((1 + texts) / (1 + texts that hold the word)) + 1
//! ```
//! The formula and the words are those of scikit-learn's `TfidfVectorizer` with its defaults; a golden holds them to 1e-6.
//!
//! ```
//! use qkv_vectors::{Bag, Weighting};
//! let bag = Bag::learn(&["the cat", "the dog"], Weighting::TfIdf)?;
//! assert_eq!(bag.words(), ["cat", "dog", "the"]);
//! // `the` is in both texts: idf ln(3/3) + 1 = 1; `cat` in one: ln(3/2) + 1 = 1.405.
//! let row = bag.row("the cat");
//! assert!((row[0].1 / row[1].1 - (1.5f64.ln() + 1.0)).abs() < 1e-12);
//! # Ok::<(), qkv_base::Error>(())
//! ```

use crate::sparse::SparseRow;
use crate::words::bag_words;
use qkv_base::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::HashMap;

/// What a word weighs in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weighting {
    /// 1 where the word is
    OneHot,
    /// how often it is in the text, and how rare in others
    TfIdf,
}

/// The vocabulary of a set of texts, and what its words weigh.
#[derive(Clone, Debug, PartialEq)]
pub struct Bag {
    weighting: Weighting,
    /// in alphabetical order (of code points)
    words: Vec<String>,
    /// for each word; all 1 for one-hot
    idf: Vec<f64>,
    index: HashMap<String, u32>,
}

impl Bag {
    /// Learns the vocabulary of texts.
    pub fn learn<S: AsRef<str> + Sync>(texts: &[S], weighting: Weighting) -> Result<Self> {
        let mut in_texts: BTreeMap<String, usize> = BTreeMap::new();
        for text in texts {
            let mut words: Vec<String> = bag_words(text.as_ref()).collect();
            words.sort_unstable();
            words.dedup();
            words.into_iter().for_each(|word| *in_texts.entry(word).or_default() += 1);
        }
        if in_texts.is_empty() {
            let what = format!("there is no word of two letters or more in {} texts", texts.len());
            return Err(Error::new("corpus", what, "give texts: one on each line, or a table with a column of them"));
        }
        let idf = |count: &usize| match weighting {
            Weighting::OneHot => 1.0,
            Weighting::TfIdf => ((1.0 + texts.len() as f64) / (1.0 + *count as f64)).ln() + 1.0,
        };
        let idf = in_texts.values().map(idf).collect();
        Self::from_parts(weighting, in_texts.into_keys().collect(), idf)
    }

    /// A bag from what was stored of one.
    pub(crate) fn from_parts(weighting: Weighting, words: Vec<String>, idf: Vec<f64>) -> Result<Self> {
        let wrong = |what: String| {
            Error::new(
                "bag",
                what,
                "make the file again with `qkv vectors train --kind tfidf --data FILE --out bag.json`",
            )
        };
        if words.len() != idf.len() || words.is_empty() {
            return Err(wrong(format!("{} words and {} weights", words.len(), idf.len())));
        }
        if let Some(at) = idf.iter().position(|w| !w.is_finite()) {
            return Err(wrong(format!("the weight of `{}` is not a number", words[at])));
        }
        if let Some(pair) = words.windows(2).find(|pair| pair[0] >= pair[1]) {
            let fault = if pair[0] == pair[1] { "stands twice" } else { "is out of order" };
            return Err(wrong(format!("the word `{}` {fault}", pair[1])));
        }
        let index = words.iter().zip(0..).map(|(word, i)| (word.clone(), i)).collect();
        Ok(Self { weighting, words, idf, index })
    }

    /// How words weigh.
    pub fn weighting(&self) -> Weighting {
        self.weighting
    }

    /// The vocabulary, in order.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The idf of each word.
    pub fn idf(&self) -> &[f64] {
        &self.idf
    }

    /// The axis of a word.
    pub fn axis(&self, word: &str) -> Option<usize> {
        self.index.get(word).map(|i| *i as usize)
    }

    /// A text as a row. Words that were not seen are left out; of a text without known words nothing is left.
    pub fn row(&self, text: &str) -> SparseRow {
        let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
        for axis in bag_words(text).filter_map(|word| self.index.get(&word).copied()) {
            *counts.entry(axis).or_default() += 1.0;
        }
        let weigh = |(axis, count): (u32, f64)| match self.weighting {
            Weighting::OneHot => (axis, 1.0),
            Weighting::TfIdf => (axis, count * self.idf[axis as usize]),
        };
        let mut row: SparseRow = counts.into_iter().map(weigh).collect();
        if self.weighting == Weighting::TfIdf {
            let length = row.iter().map(|(_, w)| w * w).sum::<f64>().sqrt();
            row.iter_mut().for_each(|(_, w)| *w /= length);
        }
        row
    }

    /// Texts as rows.
    pub fn rows<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Vec<SparseRow> {
        texts.par_iter().with_min_len(64).map(|text| self.row(text.as_ref())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hot_says_whether_and_not_how_often() {
        let bag = Bag::learn(&["one two two", "three"], Weighting::OneHot).unwrap();
        assert_eq!(bag.row("two two one unseen"), [(0, 1.0), (2, 1.0)]);
        assert_eq!(bag.row("unseen"), []);
        assert_eq!(bag.axis("three"), Some(1));
    }

    #[test]
    fn rows_have_length_one() {
        let bag = Bag::learn(&["aa bb", "bb cc cc"], Weighting::TfIdf).unwrap();
        for text in ["aa", "aa bb cc", "cc cc cc bb"] {
            let length: f64 = bag.row(text).iter().map(|(_, w)| w * w).sum();
            assert!((length - 1.0).abs() < 1e-12, "{text}");
        }
    }

    #[test]
    fn no_words_no_bag() {
        let error = Bag::learn(&["", "a b c !"], Weighting::TfIdf).unwrap_err();
        assert_eq!(error.to_string(), "corpus: there is no word of two letters or more in 2 texts");
        let two = |a: &str, b: &str| Bag::from_parts(Weighting::OneHot, vec![a.into(), b.into()], vec![1.0; 2]);
        assert!(two("a", "a").unwrap_err().what.contains("stands twice"));
        assert!(two("b", "a").unwrap_err().what.contains("out of order"));
    }
}
