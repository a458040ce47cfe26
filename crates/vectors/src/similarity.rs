//! Do vectors think as people do? Pairs of words with the mean of what people said (WordSim-353, SimLex-999), compared by
//! rank; and questions of the form *Athens is to Greece as Oslo to …*.
//!
//! Spearman's ρ is the correlation of the ranks, equal values sharing the mean of theirs. Pairs with a word that was not
//! seen are left out and counted, as gensim does.

use crate::word_vectors::WordVectors;
use qkv_base::{Error, Result};
use rayon::prelude::*;
use serde::Serialize;

/// A pair of words and how similar people find them.
type Pair = (String, String, f64);

/// How well cosines follow what people say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairScores {
    /// correlation of ranks, −1 to 1
    pub spearman: f64,
    /// pairs that were compared
    pub pairs: usize,
    /// pairs with a word that has no vector
    pub unseen: usize,
}

/// How many questions were answered right.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnalogyScores {
    /// right at the first guess
    pub right: usize,
    /// questions that could be asked
    pub asked: usize,
    /// questions with a word that has no vector, or a rare one
    pub unseen: usize,
}

/// Reads pairs: two words and a number on each line, with blanks, tabs or commas between; `#` begins a remark, and a first
/// line without a number is taken for names of columns.
pub fn read_pairs(text: &str, place: &str) -> Result<Vec<Pair>> {
    let mut pairs = vec![];
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#')) {
        let parts: Vec<&str> = line.split([' ', '\t', ',']).filter(|p| !p.is_empty()).collect();
        let number = parts.get(2).and_then(|n| n.parse::<f64>().ok()).filter(|n| n.is_finite());
        match (&parts[..], number) {
            ([a, b, ..], Some(n)) => pairs.push((a.to_string(), b.to_string(), n)),
            _ if pairs.is_empty() && i == 0 => {}
            _ => {
                let what = format!("`{line}` is not two words and a number");
                return Err(Error::new(format!("{place}, line {}", i + 1), what, "write: tiger cat 7.35"));
            }
        }
    }
    Ok(pairs)
}

/// Compares cosines with what people said.
pub fn score_pairs(vectors: &WordVectors, pairs: &[Pair]) -> Result<PairScores> {
    let known = |(a, b, said): &Pair| Some((vectors.cosine(a, b).ok()?, *said));
    let (cosines, said): (Vec<f64>, Vec<f64>) = pairs.iter().filter_map(known).unzip();
    let unseen = pairs.len() - said.len();
    if said.len() < 2 {
        let what = format!("{} of {} pairs have vectors for both words", said.len(), pairs.len());
        return Err(Error::new("pairs", what, "two are needed to compare ranks: learn from more text"));
    }
    Ok(PairScores { spearman: spearman(&cosines, &said), pairs: said.len(), unseen })
}

/// Spearman's ρ.
///
/// ```
/// assert_eq!(qkv_vectors::spearman(&[1.0, 2.0, 3.0], &[10.0, 100.0, 1000.0]), 1.0);
/// assert_eq!(qkv_vectors::spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0);
/// ```
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let along = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let size = (along(&a, &a) * along(&b, &b)).sqrt();
    if size == 0.0 { 0.0 } else { along(&a, &b) / size }
}

/// From 1; equal values share the mean of their ranks.
fn ranks(x: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|i, j| x[*i].total_cmp(&x[*j]));
    let mut ranks = vec![0.0; x.len()];
    let mut at = 0;
    for equal in order.chunk_by(|i, j| x[*i] == x[*j]) {
        equal.iter().for_each(|i| ranks[*i] = at as f64 + (equal.len() as f64 + 1.0) / 2.0);
        at += equal.len();
    }
    ranks
}

/// Reads questions: four words on each line; a line that begins with `:` names a section.
pub fn read_analogies(text: &str, place: &str) -> Result<Vec<[String; 4]>> {
    let lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with([':', '#']));
    lines
        .map(|(i, line)| {
            let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
            words.try_into().map_err(|_| {
                let what = format!("`{line}` is not four words");
                Error::new(format!("{place}, line {}", i + 1), what, "write: Athens Greece Oslo Norway")
            })
        })
        .collect()
}

/// Asks every question *a is to b as c is to …* among the 30,000 most frequent words, as gensim does.
pub fn score_analogies(vectors: &WordVectors, questions: &[[String; 4]]) -> AnalogyScores {
    const FREQUENT: usize = 30_000;
    let among = vectors.words().len().min(FREQUENT);
    let ask = |question: &[String; 4]| -> Option<bool> {
        let find = |i: usize| vectors.find(&question[i]).ok().filter(|n| *n < among);
        let (a, b, c, d) = (find(0)?, find(1)?, find(2)?, find(3)?);
        let found = vectors.nearest_to(&[(1.0, b), (-1.0, a), (1.0, c)], among, 1);
        Some(found.first().is_some_and(|n| n.word == vectors.words()[d]))
    };
    let answers: Vec<Option<bool>> = questions.par_iter().map(ask).collect();
    let asked = answers.iter().flatten().count();
    AnalogyScores { right: answers.iter().flatten().filter(|r| **r).count(), asked, unseen: questions.len() - asked }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_ranks() {
        assert_eq!(ranks(&[10.0, 20.0, 20.0, 5.0]), [2.0, 3.5, 3.5, 1.0]);
        // scipy.stats.spearmanr([1, 2, 2, 4, 5], [5, 6, 7, 8, 7]) = 0.76315789…
        let rho = spearman(&[1.0, 2.0, 2.0, 4.0, 5.0], &[5.0, 6.0, 7.0, 8.0, 7.0]);
        assert!((rho - 0.763_157_894_736_842_1).abs() < 1e-12, "{rho}");
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
    }

    #[test]
    fn pairs_are_read_and_mistakes_named() {
        let text = "# remark\nword1\tword2\tmean\n";
        assert!(read_pairs(text, "f").is_err()); // names of columns stand on the first line only
        assert_eq!(read_pairs("a,b,score\nx y 3\n", "f").unwrap(), [("x".into(), "y".into(), 3.0)]);
        let error = read_pairs("x y 3\nx y\n", "f").unwrap_err();
        assert_eq!(error.to_string(), "f, line 2: `x y` is not two words and a number");
        assert!(read_pairs("x y 3\nx y nan\n", "f").is_err());
        assert!(read_analogies(": capitals\na b c\n", "f").is_err());
    }

    #[test]
    fn what_was_not_seen_is_counted() {
        let vectors = WordVectors::new(["a", "b", "c"].map(String::from).to_vec(), 1, vec![1.0, 0.5, -1.0]).unwrap();
        let pairs = read_pairs("a b 9\na c 1\na z 5\n", "f").unwrap();
        let scores = score_pairs(&vectors, &pairs).unwrap();
        assert_eq!((scores.spearman, scores.pairs, scores.unseen), (1.0, 2, 1));
        assert!(score_pairs(&vectors, &pairs[2..]).is_err());
        let questions = read_analogies("a b c z\n", "f").unwrap();
        assert_eq!(score_analogies(&vectors, &questions), AnalogyScores { right: 0, asked: 0, unseen: 1 });
    }
}
