//! A vector for each word, and the questions that one asks of them: what is near, what is to *woman* as *king* is to *man*.
//!
//! ```text
//! near      cos(a, b) = a·b / (|a|·|b|)
//! analogy   nearest to  king/|king| − man/|man| + woman/|woman|, the three themselves left out   (3CosAdd)
//! ```

use qkv_base::{Error, Result, nearest};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::HashMap;

/// A word and how near it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbour {
    /// the word
    pub word: String,
    /// the cosine of the angle between
    pub cosine: f64,
}

/// Words, each with a vector of one width.
#[derive(Clone, Debug, PartialEq)]
pub struct WordVectors {
    words: Vec<String>,
    index: HashMap<String, u32>,
    width: usize,
    /// `[V, width]`
    values: Vec<f32>,
    /// length of each
    lengths: Vec<f32>,
}

impl WordVectors {
    /// Words with their vectors one behind the other. A word that stands twice and a value that is not a number are refused.
    pub fn new(words: Vec<String>, width: usize, values: Vec<f32>) -> Result<Self> {
        let wrong = |what: String, hint: &str| Err(Error::new("vectors", what, hint));
        if words.is_empty() || width == 0 || words.len() * width != values.len() {
            let what = format!("{} words of width {width} do not make {} numbers", words.len(), values.len());
            return wrong(what, "give every word a vector of the same width, of 1 or more");
        }
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            let what = format!("number {} of `{}` is {}", at % width + 1, words[at / width], values[at]);
            return wrong(what, "learn the vectors again, or take this word out");
        }
        let mut index = HashMap::with_capacity(words.len());
        for (word, i) in words.iter().zip(0u32..) {
            if let Some(before) = index.insert(word.clone(), i) {
                let what = format!("`{word}` stands twice: words {} and {}", before + 1, i + 1);
                return wrong(what, "take one of the two out");
            }
        }
        let length = |v: &[f32]| v.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32;
        let lengths = values.chunks_exact(width).map(length).collect();
        Ok(Self { words, index, width, values, lengths })
    }

    /// The words, in order.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// How many numbers a word has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The vector of the `i`-th word.
    pub fn vector(&self, i: usize) -> &[f32] {
        &self.values[i * self.width..][..self.width]
    }

    /// The vector of a word, if it has one.
    pub fn get(&self, word: &str) -> Option<&[f32]> {
        self.index.get(word).map(|i| self.vector(*i as usize))
    }

    /// The number of a word; as written, else in lower case. A word that was not seen is refused, with the one most like it.
    pub fn find(&self, word: &str) -> Result<usize> {
        let known = self.index.get(word).or_else(|| self.index.get(&word.to_lowercase()));
        known.map(|i| *i as usize).ok_or_else(|| {
            let meant = nearest(word, self.words.iter().map(String::as_str)).unwrap_or_default();
            let hint = format!("the most similar that was seen is `{meant}`; {} words have a vector", self.words.len());
            Error::new(format!("word `{word}`"), "was not seen when the vectors were learnt", hint)
        })
    }

    /// The cosine of two words.
    pub fn cosine(&self, a: &str, b: &str) -> Result<f64> {
        let (a, b) = (self.find(a)?, self.find(b)?);
        Ok(dot(self.vector(a), self.vector(b)) / (f64::from(self.lengths[a]) * f64::from(self.lengths[b])).max(1e-30))
    }

    /// The words nearest to one, itself left out.
    pub fn near(&self, word: &str, top: usize) -> Result<Vec<Neighbour>> {
        self.analogy(&[(1.0, word)], top)
    }

    /// The words nearest to a sum of unit vectors, those of the sum left out.
    pub fn analogy(&self, terms: &[(f32, &str)], top: usize) -> Result<Vec<Neighbour>> {
        let known: Vec<(f32, usize)> =
            terms.iter().map(|(sign, word)| Ok((*sign, self.find(word)?))).collect::<Result<_>>()?;
        Ok(self.nearest_to(&known, self.words.len(), top))
    }

    /// The same by numbers, among the first `among` words.
    pub(crate) fn nearest_to(&self, terms: &[(f32, usize)], among: usize, top: usize) -> Vec<Neighbour> {
        let mut query = vec![0f32; self.width];
        for (sign, i) in terms {
            let scale = sign / self.lengths[*i].max(1e-30);
            query.iter_mut().zip(self.vector(*i)).for_each(|(q, v)| *q += scale * v);
        }
        let length = dot(&query, &query).sqrt().max(1e-30);
        let cosine = |i: usize| dot(&query, self.vector(i)) / (length * f64::from(self.lengths[i]).max(1e-30));
        let others = (0..among).into_par_iter().with_min_len(1024).filter(|i| terms.iter().all(|(_, t)| t != i));
        let mut all: Vec<(usize, f64)> = others.map(|i| (i, cosine(i))).collect();
        let order = |a: &(usize, f64), b: &(usize, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if top < all.len() {
            all.select_nth_unstable_by(top, order);
            all.truncate(top);
        }
        all.sort_by(order);
        all.into_iter().map(|(i, cosine)| Neighbour { word: self.words[i].clone(), cosine }).collect()
    }
}

/// In an order that is the same on every machine.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    f64::from(crate::kernel::dot_any(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> WordVectors {
        let words = ["north", "east", "northeast", "south"].map(String::from).to_vec();
        WordVectors::new(words, 2, vec![0.0, 2.0, 3.0, 0.0, 1.0, 1.0, 0.0, -1.0]).unwrap()
    }

    #[test]
    fn near_is_by_angle_and_not_by_length() {
        let near = four().near("north", 9).unwrap();
        let words: Vec<&str> = near.iter().map(|n| n.word.as_str()).collect();
        assert_eq!(words, ["northeast", "east", "south"]);
        assert!((near[0].cosine - 0.5f64.sqrt()).abs() < 1e-6 && (near[2].cosine + 1.0).abs() < 1e-6);
        assert_eq!(four().near("North", 1).unwrap()[0].word, "northeast"); // lower case will do
    }

    #[test]
    fn a_word_that_was_not_seen_is_answered_with_the_nearest() {
        let error = four().near("nort", 1).unwrap_err();
        assert_eq!(error.to_string(), "word `nort`: was not seen when the vectors were learnt");
        assert_eq!(error.hint, "the most similar that was seen is `north`; 4 words have a vector");
    }

    #[test]
    fn what_is_not_a_vector_is_refused() {
        let two = |values: Vec<f32>| WordVectors::new(vec!["a".into(), "b".into()], 2, values);
        let error = two(vec![0.0, 1.0, f32::NAN, 0.0]).unwrap_err();
        assert_eq!(error.what, "number 1 of `b` is NaN");
        assert!(two(vec![0.0; 3]).is_err());
        let error = WordVectors::new(vec!["a".into(), "a".into()], 1, vec![0.0, 1.0]).unwrap_err();
        assert_eq!(error.what, "`a` stands twice: words 1 and 2");
    }

    #[test]
    fn a_vector_of_zeros_is_near_nothing() {
        let vectors = WordVectors::new(vec!["a".into(), "b".into()], 2, vec![0.0, 0.0, 1.0, 0.0]).unwrap();
        assert_eq!(vectors.near("a", 1).unwrap()[0].cosine, 0.0);
        assert_eq!(vectors.cosine("a", "b").unwrap(), 0.0);
    }
}
