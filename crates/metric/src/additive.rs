//! Metrics that add up: every segment yields a row of counts, and the score is a function of the sum of the rows.
//!
//! ```text
//! score(corpus) = f(Σᵢ row(hypothesisᵢ, referencesᵢ))
//! ```
//!
//! It follows that a resample of the corpus is scored by adding other rows, with no text read again: this is what makes
//! the bootstrap cheap.

use std::fmt;

use qkv_base::{Error, Result};

/// A corpus metric made of rows that add up.
pub trait Additive {
    /// What a score says.
    type Score;

    /// The counts of one segment.
    fn row(&self, hypothesis: &str, references: &[&str]) -> Vec<f64>;

    /// The score of a sum of rows.
    fn score(&self, sum: &[f64]) -> Self::Score;

    /// The one number of the score.
    fn value(&self, sum: &[f64]) -> f64;

    /// What is needed to compute the same number again, in sacreBLEU's form.
    fn signature(&self, references: References, resampling: Option<Resampling>) -> String;

    /// The rows of a corpus; `references[i]` are all the references of segment `i`.
    fn rows<H: AsRef<str>, R: AsRef<str>>(&self, hypotheses: &[H], references: &[Vec<R>]) -> Result<Vec<Vec<f64>>> {
        same_length("hypotheses", hypotheses.len(), references.len())?;
        let segments = hypotheses.iter().zip(references).enumerate();
        segments.map(|(i, (said, wanted))| self.checked_row(i, said.as_ref(), wanted)).collect()
    }

    /// The row of segment `i`, refused when nothing is there to compare with.
    #[doc(hidden)]
    fn checked_row<R: AsRef<str>>(&self, i: usize, hypothesis: &str, references: &[R]) -> Result<Vec<f64>> {
        if references.is_empty() {
            let hint = "give each segment one reference or more; an empty line is a reference too";
            return Err(Error::new(format!("segment {}", i + 1), "no reference", hint));
        }
        let references: Vec<&str> = references.iter().map(AsRef::as_ref).collect();
        Ok(self.row(hypothesis, &references))
    }

    /// The score of a whole corpus.
    fn corpus<H: AsRef<str>, R: AsRef<str>>(&self, hypotheses: &[H], references: &[Vec<R>]) -> Result<Self::Score> {
        let rows = self.rows(hypotheses, references)?;
        if rows.is_empty() {
            return Err(Error::new("hypotheses", "nothing to score", "give at least one segment"));
        }
        Ok(self.score(&sum(&rows)))
    }

    /// The score of one sentence.
    fn sentence<R: AsRef<str>>(&self, hypothesis: &str, references: &[R]) -> Result<Self::Score> {
        Ok(self.score(&self.checked_row(0, hypothesis, references)?))
    }
}

/// The sum of rows of one width.
pub(crate) fn sum(rows: &[Vec<f64>]) -> Vec<f64> {
    let mut total = vec![0.0; rows.first().map_or(0, Vec::len)];
    rows.iter().for_each(|row| add(&mut total, row));
    total
}

/// `total += row`.
pub(crate) fn add(total: &mut [f64], row: &[f64]) {
    total.iter_mut().zip(row).for_each(|(total, x)| *total += x);
}

/// Refuses two lists that do not go together.
pub(crate) fn same_length(place: &str, given: usize, wanted: usize) -> Result<()> {
    if given == wanted {
        return Ok(());
    }
    let hint = "both sides need one line per segment; look for lines that were lost or split";
    Err(Error::new(place, format!("{given} {place} but {wanted} references"), hint))
}

/// Whether case counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LetterCase {
    /// as written
    #[default]
    Mixed,
    /// lower-cased before comparing
    Lower,
}

impl LetterCase {
    /// The text in this case.
    pub(crate) fn of(self, text: &str) -> String {
        match self {
            Self::Mixed => text.to_string(),
            Self::Lower => text.to_lowercase(),
        }
    }
}

impl fmt::Display for LetterCase {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Mixed => "mixed",
            Self::Lower => "lc",
        })
    }
}

/// How many references a segment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum References {
    /// every segment has this many
    Each(usize),
    /// some have more than others
    Varying,
}

impl References {
    /// Counts them.
    pub fn of<R>(references: &[Vec<R>]) -> Self {
        let n = references.first().map_or(0, Vec::len);
        if references.iter().all(|r| r.len() == n) { Self::Each(n) } else { Self::Varying }
    }
}

impl fmt::Display for References {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Each(n) => write!(f, "{n}"),
            Self::Varying => f.write_str("var"),
        }
    }
}

/// How chance enters: which corpora are drawn beside the real one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resampling {
    /// as many segments as there are, drawn with replacement (Koehn 2004)
    Bootstrap {
        /// how many corpora
        samples: usize,
        /// names the draws
        seed: u64,
    },
    /// each segment's two outputs swapped by the toss of a coin (Riezler and Maxwell 2005)
    Randomisation {
        /// how many corpora
        trials: usize,
        /// names the draws
        seed: u64,
    },
}

/// `nrefs:1|…|version:qkv-0.1.0`: the metric's own pairs between what every metric shares.
pub(crate) fn signature(references: References, resampling: Option<Resampling>, own: &str) -> String {
    let drawn = match resampling {
        None => String::new(),
        Some(Resampling::Bootstrap { samples, seed }) => format!("bs:{samples}|seed:{seed}|"),
        Some(Resampling::Randomisation { trials, seed }) => format!("ar:{trials}|seed:{seed}|"),
    };
    format!("nrefs:{references}|{drawn}{own}|version:qkv-{}", env!("CARGO_PKG_VERSION"))
}

/// `yes` or `no`, as signatures say it.
pub(crate) fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bleu;

    #[test]
    fn what_does_not_go_together_is_refused() {
        let bleu = Bleu::default();
        let lost = bleu.corpus(&["a", "b"], &[vec!["a"]]).unwrap_err();
        assert_eq!(lost.what, "2 hypotheses but 1 references");
        assert_eq!(bleu.corpus(&["a"], &[Vec::<&str>::new()]).unwrap_err().place, "segment 1");
        assert!(bleu.corpus::<&str, &str>(&[], &[]).is_err());
        assert!(bleu.sentence::<&str>("a", &[]).is_err());
    }

    #[test]
    fn references_are_counted() {
        assert_eq!(References::of(&[vec!["a", "b"], vec!["c", "d"]]).to_string(), "2");
        assert_eq!(References::of(&[vec!["a", "b"], vec!["c"]]).to_string(), "var");
    }
}
