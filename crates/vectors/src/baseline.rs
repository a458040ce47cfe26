//! The baseline: logistic regression on what words a text holds. Whatever a network learns of a task must be put beside it.
//!
//! ```
//! let train = [("a fine film", "good"), ("a dull film", "bad"), ("fine music", "good"), ("dull music", "bad")];
//! let scores = qkv_vectors::baseline(&train, &[("a fine story", "good"), ("a dull story", "bad")])?;
//! assert_eq!((scores.accuracy(), scores.majority), (1.0, 0.5));
//! # Ok::<(), qkv_base::Error>(())
//! ```

use crate::bag::{Bag, Weighting};
use crate::logistic::{Logistic, LogisticOptions};
use crate::sparse::SparseRow;
use crate::word_vectors::WordVectors;
use crate::words::running_words;
use qkv_base::{Error, Result};
use qkv_metric::Classification;
use rayon::prelude::*;
use serde::Serialize;

/// What a text is seen as.
#[derive(Clone, Debug)]
pub enum Features {
    /// the words that it holds
    Bag(Bag),
    /// the mean of the vectors of its words, brought to length 1
    Mean(WordVectors),
}

impl Features {
    /// How many numbers a text becomes.
    pub fn width(&self) -> usize {
        match self {
            Self::Bag(bag) => bag.words().len(),
            Self::Mean(vectors) => vectors.width(),
        }
    }

    /// A text in numbers.
    pub fn row(&self, text: &str) -> SparseRow {
        match self {
            Self::Bag(bag) => bag.row(text),
            Self::Mean(vectors) => mean(vectors, text),
        }
    }
}

/// Words that have no vector are left out; of a text without any, all is 0.
fn mean(vectors: &WordVectors, text: &str) -> SparseRow {
    let mut sum = vec![0.0; vectors.width()];
    for vector in running_words(text).filter_map(|word| vectors.get(&word)) {
        sum.iter_mut().zip(vector).for_each(|(sum, v)| *sum += f64::from(*v));
    }
    let length = sum.iter().map(|v| v * v).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    (0u32..).zip(sum).map(|(i, v)| (i, v / length)).collect()
}

/// A classifier of texts.
#[derive(Clone, Debug)]
pub struct Baseline {
    features: Features,
    model: Logistic,
}

/// How well a baseline does on texts that it has not seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BaselineScores {
    /// accuracy, precision, recall and F1
    pub scores: Classification,
    /// the accuracy of always saying the most frequent class of the training part
    pub majority: f64,
    /// texts that it was learnt from
    pub train: usize,
    /// texts that it was judged by
    pub valid: usize,
}

impl BaselineScores {
    /// The share of right answers, from 0 to 1.
    pub fn accuracy(&self) -> f64 {
        self.scores.accuracy
    }
}

impl Baseline {
    /// Learns from texts and their labels.
    pub fn learn<T: AsRef<str> + Sync, L: AsRef<str>>(
        train: &[(T, L)],
        features: Features,
        how: LogisticOptions,
    ) -> Result<Self> {
        let texts: Vec<&T> = train.iter().map(|(text, _)| text).collect();
        let labels: Vec<&str> = train.iter().map(|(_, label)| label.as_ref()).collect();
        let rows: Vec<SparseRow> =
            texts.par_iter().with_min_len(64).map(|text| features.row((**text).as_ref())).collect();
        let model = Logistic::learn(&rows, &labels, features.width(), how)?;
        Ok(Self { features, model })
    }

    /// The classifier itself.
    pub fn model(&self) -> &Logistic {
        &self.model
    }

    /// The classes of a text, the most probable first.
    pub fn classify(&self, text: &str) -> Vec<(&str, f64)> {
        let p = self.model.probabilities(&self.features.row(text));
        let mut all: Vec<(&str, f64)> = self.model.labels().iter().map(String::as_str).zip(p).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    /// The `top` words that speak most for a class, where words are the features.
    pub fn telling(&self, class: usize, top: usize) -> Vec<(&str, f64)> {
        let Features::Bag(bag) = &self.features else { return vec![] };
        let mut words: Vec<(&str, f64)> =
            bag.words().iter().enumerate().map(|(i, w)| (w.as_str(), self.model.weight(i, class))).collect();
        words.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        words.truncate(top);
        words
    }

    /// Judges it by texts that it has not seen; `train` tells what the most frequent class was.
    pub fn judge<T: AsRef<str> + Sync, L: AsRef<str>, U: AsRef<str>, M: AsRef<str>>(
        &self,
        train: &[(T, L)],
        valid: &[(U, M)],
    ) -> Result<BaselineScores> {
        if valid.is_empty() {
            return Err(Error::new("validation", "there is nothing to judge by", "give texts with their labels"));
        }
        let truth: Vec<&str> = valid.iter().map(|(_, label)| label.as_ref()).collect();
        let said: Vec<&str> = valid.iter().map(|(t, _)| self.model.predict(&self.features.row(t.as_ref()))).collect();
        let count = |of: &str| train.iter().filter(|(_, label)| label.as_ref() == of).count();
        let counts: Vec<usize> = self.model.labels().iter().map(|label| count(label)).collect();
        let most = (0..counts.len()).fold(0, |best, i| if counts[i] > counts[best] { i } else { best });
        let majority = truth.iter().filter(|label| **label == self.model.labels()[most]).count();
        Ok(BaselineScores {
            scores: Classification::new(&truth, &said)?,
            majority: majority as f64 / valid.len() as f64,
            train: train.len(),
            valid: valid.len(),
        })
    }
}

/// TF-IDF and logistic regression with the customary settings: learnt from `train`, judged by `valid`.
pub fn baseline<T: AsRef<str> + Sync, L: AsRef<str>, U: AsRef<str>, M: AsRef<str>>(
    train: &[(T, L)],
    valid: &[(U, M)],
) -> Result<BaselineScores> {
    let texts: Vec<&str> = train.iter().map(|(text, _)| text.as_ref()).collect();
    let features = Features::Bag(Bag::learn(&texts, Weighting::TfIdf)?);
    Baseline::learn(train, features, LogisticOptions::default())?.judge(train, valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn films() -> Vec<(String, &'static str)> {
        let kinds = [("fine", "good"), ("dull", "bad")];
        let film = |i: usize| (format!("the {} film number n{i}", kinds[i % 2].0), kinds[i % 2].1);
        (0..16).map(film).collect()
    }

    #[test]
    fn the_telling_words_are_the_ones_that_differ() {
        let texts: Vec<String> = films().iter().map(|(t, _)| t.clone()).collect();
        let bag = Bag::learn(&texts, Weighting::TfIdf).unwrap();
        let learnt = Baseline::learn(&films(), Features::Bag(bag), LogisticOptions::default()).unwrap();
        assert_eq!((learnt.telling(0, 1)[0].0, learnt.telling(1, 1)[0].0), ("dull", "fine"));
        assert_eq!(learnt.classify("a fine thing")[0].0, "good");
    }

    #[test]
    fn vectors_of_words_serve_too() {
        let vectors = WordVectors::new(vec!["fine".into(), "dull".into()], 2, vec![1.0, 0.2, -1.0, 0.2]).unwrap();
        let learnt = Baseline::learn(&films(), Features::Mean(vectors), LogisticOptions::default()).unwrap();
        assert_eq!(learnt.classify("dull")[0].0, "bad");
        assert_eq!(learnt.telling(0, 3), []);
        assert!(learnt.judge(&films(), &[] as &[(&str, &str)]).is_err());
    }
}
