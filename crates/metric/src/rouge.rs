//! ROUGE (Lin 2004) as the package rouge-score computes it.
//!
//! ```text
//! ROUGE-N: overlap of n-grams            ROUGE-L: longest common subsequence
//! ROUGE-Lsum: per sentence of the reference, the union of its common subsequences with every sentence said
//! precision = hits / words said          recall = hits / words wanted          F = 2PR / (P + R)
//! ```

use std::{collections::HashMap, fmt, str::FromStr};

use qkv_base::{Error, Result, nearest};
use serde::Serialize;

use crate::{
    additive::same_length,
    porter::stem,
    words::{ngrams, overlap},
};

/// ROUGE and its one choice.
///
/// ```
/// use qkv_metric::{Rouge, RougeKind};
/// let rouge = Rouge { stemmer: true };
/// let score = rouge.score("the dogs jumped", "the dog jumps", RougeKind::N(1));
/// assert_eq!(score.f1, 1.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rouge {
    /// compare the stems of words longer than three letters
    pub stemmer: bool,
}

/// Which ROUGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RougeKind {
    /// runs of this many words
    N(usize),
    /// the longest common subsequence of the whole text
    L,
    /// the same sentence by sentence; sentences are lines
    Lsum,
}

impl FromStr for RougeKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let digits = name.strip_prefix("rouge").and_then(|n| n.parse().ok());
        match (name, digits) {
            ("rougeL", _) => Ok(Self::L),
            ("rougeLsum", _) => Ok(Self::Lsum),
            (_, Some(n @ 1..=9)) => Ok(Self::N(n)),
            _ => {
                let near = nearest(name, ["rouge1", "rouge2", "rougeL", "rougeLsum"]).unwrap_or_default();
                Err(Error::new("ROUGE", format!("no score is called `{name}`"), format!("did you mean `{near}`?")))
            }
        }
    }
}

impl fmt::Display for RougeKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::N(n) => write!(f, "rouge{n}"),
            Self::L => f.write_str("rougeL"),
            Self::Lsum => f.write_str("rougeLsum"),
        }
    }
}

/// Precision, recall and their harmonic mean, each from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RougeScore {
    /// hits per word said
    pub precision: f64,
    /// hits per word wanted
    pub recall: f64,
    /// 2PR / (P + R)
    pub f1: f64,
}

impl RougeScore {
    fn new(hits: usize, said: usize, wanted: usize) -> Self {
        let [precision, recall] = [said, wanted].map(|n| hits as f64 / n.max(1) as f64);
        let sum = precision + recall;
        Self { precision, recall, f1: if sum > 0.0 { 2.0 * precision * recall / sum } else { 0.0 } }
    }
}

impl Rouge {
    /// One prediction against one reference.
    pub fn score(&self, reference: &str, prediction: &str, kind: RougeKind) -> RougeScore {
        if kind == RougeKind::Lsum {
            return self.summary(reference, prediction);
        }
        let (wanted, said) = (self.words(reference), self.words(prediction));
        match kind {
            RougeKind::N(n) => {
                let count = |words: &[String]| (words.len() + 1).saturating_sub(n.max(1));
                RougeScore::new(overlap(&ngrams(&wanted, n), &ngrams(&said, n)), count(&said), count(&wanted))
            }
            _ => RougeScore::new(lcs(&wanted, &said).len(), said.len(), wanted.len()),
        }
    }

    /// The reference with the best F counts; of two as good, the first.
    pub fn score_best<R: AsRef<str>>(&self, references: &[R], prediction: &str, kind: RougeKind) -> RougeScore {
        let scores = references.iter().map(|reference| self.score(reference.as_ref(), prediction, kind));
        scores.reduce(|a, b| if b.f1 > a.f1 { b } else { a }).unwrap_or_default()
    }

    /// The means over a corpus, and the score of every example (rows of `[f1, 1]` feed [`crate::interval`]).
    pub fn corpus<H: AsRef<str>, R: AsRef<str>>(
        &self,
        predictions: &[H],
        references: &[Vec<R>],
        kind: RougeKind,
    ) -> Result<(RougeScore, Vec<RougeScore>)> {
        same_length("predictions", predictions.len(), references.len())?;
        let pairs = predictions.iter().zip(references);
        let each: Vec<RougeScore> = pairs.map(|(said, wanted)| self.score_best(wanted, said.as_ref(), kind)).collect();
        let mean = |part: fn(&RougeScore) -> f64| each.iter().map(part).sum::<f64>() / each.len().max(1) as f64;
        let mean = RougeScore { precision: mean(|s| s.precision), recall: mean(|s| s.recall), f1: mean(|s| s.f1) };
        Ok((mean, each))
    }

    /// Runs of a–z and 0–9 of the lower-cased text.
    fn words(&self, text: &str) -> Vec<String> {
        let text = text.to_lowercase();
        let words = text.split(|c: char| !matches!(c, 'a'..='z' | '0'..='9')).filter(|word| !word.is_empty());
        words.map(|word| if self.stemmer && word.len() > 3 { stem(word) } else { word.to_string() }).collect()
    }

    fn summary(&self, reference: &str, prediction: &str) -> RougeScore {
        let sentences = |text: &str| -> Vec<Vec<String>> { text.split('\n').map(|line| self.words(line)).collect() };
        let (wanted, said) = (sentences(reference), sentences(prediction));
        let (mut left_wanted, mut left_said) = (counts(&wanted), counts(&said));
        let mut hits = 0;
        for sentence in &wanted {
            let mut union: Vec<usize> = said.iter().flat_map(|said| lcs(sentence, said)).collect();
            union.sort_unstable();
            union.dedup();
            for word in union.iter().map(|i| sentence[*i].as_str()) {
                // A word said once is found once, however many sentences want it.
                if let (Some(a @ 1..), Some(b @ 1..)) = (left_wanted.get_mut(word), left_said.get_mut(word)) {
                    *a -= 1;
                    *b -= 1;
                    hits += 1;
                }
            }
        }
        let length = |sentences: &[Vec<String>]| sentences.iter().map(Vec::len).sum::<usize>();
        RougeScore::new(hits, length(&said), length(&wanted))
    }
}

fn counts(sentences: &[Vec<String>]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    sentences.iter().flatten().for_each(|word| *counts.entry(word.as_str()).or_insert(0) += 1);
    counts
}

/// Where in `wanted` a longest common subsequence with `said` lies; which one, as the reference walks its table.
fn lcs(wanted: &[String], said: &[String]) -> Vec<usize> {
    let mut table = vec![vec![0u32; said.len() + 1]; wanted.len() + 1];
    for i in 1..=wanted.len() {
        for j in 1..=said.len() {
            let same = wanted[i - 1] == said[j - 1];
            table[i][j] = if same { table[i - 1][j - 1] + 1 } else { table[i - 1][j].max(table[i][j - 1]) };
        }
    }
    let (mut i, mut j, mut found) = (wanted.len(), said.len(), vec![]);
    while i > 0 && j > 0 {
        if wanted[i - 1] == said[j - 1] {
            (i, j) = (i - 1, j - 1);
            found.push(i);
        } else if table[i][j - 1] > table[i - 1][j] {
            j -= 1;
        } else {
            i -= 1;
        }
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_by_hand() {
        let rouge = Rouge::default();
        let score = |kind| rouge.score("a b c d", "a c d e f", kind);
        assert_eq!((score(RougeKind::N(1)).precision, score(RougeKind::N(1)).recall), (0.6, 0.75));
        assert!((score(RougeKind::N(1)).f1 - 2.0 / 3.0).abs() < 1e-15);
        assert_eq!(score(RougeKind::N(2)).recall, 1.0 / 3.0);
        assert_eq!(score(RougeKind::L).precision, 0.6);
        assert_eq!(rouge.score("", "a", RougeKind::L), RougeScore::default());
    }

    #[test]
    fn lines_are_sentences() {
        let rouge = Rouge::default();
        assert_eq!(rouge.score("a b\nc d", "c d\na b", RougeKind::Lsum).f1, 1.0);
        assert_eq!(rouge.score("a b\nc d", "c d\na b", RougeKind::L).f1, 0.5);
    }

    #[test]
    fn names_round_trip() {
        for name in ["rouge1", "rouge2", "rougeL", "rougeLsum"] {
            assert_eq!(name.parse::<RougeKind>().unwrap().to_string(), name);
        }
        assert!("rouge0".parse::<RougeKind>().is_err() && "rougeX".parse::<RougeKind>().is_err());
    }
}
