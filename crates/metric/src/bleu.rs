//! BLEU (Papineni et al. 2002), number for number as sacreBLEU computes it (Post 2018).
//!
//! ```text
//! BLEU = BP · exp(1/N · Σₙ log pₙ)        pₙ = clipped matches of n-grams / n-grams said
//! BP   = exp(1 − r/c) if c < r, else 1    c = words said, r = words of the closest reference
//! ```
//!
//! A row is `[c, r, matches₁…matches_N, said₁…said_N]`.

use std::{collections::HashMap, fmt, str::FromStr};

use qkv_base::{Error, Result, nearest};
use serde::Serialize;

use crate::{
    additive::{self, Additive, LetterCase, References, Resampling},
    tokenize::Tokenize,
    words::{ngrams, overlap, split, trim_end},
};

/// BLEU and its choices; the default is sacreBLEU's.
///
/// ```
/// use qkv_metric::{Additive, Bleu};
/// let bleu = Bleu::default().corpus(&["The dog bit the man."], &[vec!["The dog bit the man.", "The dog had bit the man."]])?;
/// assert!((bleu.score - 100.0).abs() < 1e-9);
/// # Ok::<(), qkv_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bleu {
    /// how words are told apart
    pub tokenize: Tokenize,
    /// what an n-gram order without a match counts
    pub smooth: Smooth,
    /// whether case counts
    pub case: LetterCase,
    /// the longest n-gram
    pub order: usize,
    /// leave out the orders that are longer than the hypothesis; wanted for single sentences
    pub effective_order: bool,
}

impl Default for Bleu {
    fn default() -> Self {
        Self {
            tokenize: Tokenize::V13a,
            smooth: Smooth::Exp,
            case: LetterCase::Mixed,
            order: 4,
            effective_order: false,
        }
    }
}

impl Bleu {
    /// The choices for scoring one sentence at a time: a hypothesis of three words has no 4-gram to lose.
    pub fn for_sentences() -> Self {
        Self { effective_order: true, ..Self::default() }
    }

    fn words(&self, text: &str) -> String {
        self.tokenize.apply(trim_end(&self.case.of(text)))
    }

    fn precisions(&self, correct: &[f64], total: &[f64]) -> (Vec<f64>, usize) {
        let mut precisions = vec![0.0; self.order];
        let (mut halving, mut used) = (1.0, self.order);
        for n in 0..self.order {
            let (mut matched, mut said) = (correct[n], total[n]);
            if let (Smooth::AddK(k), true) = (self.smooth, n > 0) {
                matched += k;
                said += k;
            }
            if said == 0.0 {
                break;
            }
            if self.effective_order {
                used = n + 1;
            }
            precisions[n] = match self.smooth {
                _ if matched != 0.0 => 100.0 * matched / said,
                Smooth::Exp => {
                    halving *= 2.0;
                    100.0 / (halving * said)
                }
                Smooth::Floor(floor) => 100.0 * floor / said,
                Smooth::AddK(_) | Smooth::None => 0.0,
            };
        }
        (precisions, used)
    }
}

impl Additive for Bleu {
    type Score = BleuScore;

    fn row(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let said = self.words(hypothesis);
        let said: Vec<&str> = split(&said).collect();
        let wanted: Vec<String> = references.iter().map(|r| self.words(r)).collect();
        let wanted: Vec<Vec<&str>> = wanted.iter().map(|r| split(r).collect()).collect();

        let mut row = vec![said.len() as f64, closest(said.len(), wanted.iter().map(Vec::len)) as f64];
        row.extend((1..=self.order).map(|n| overlap(&ngrams(&said, n), &most(&wanted, n)) as f64));
        row.extend((1..=self.order).map(|n| (said.len() + 1).saturating_sub(n) as f64));
        row
    }

    fn score(&self, sum: &[f64]) -> BleuScore {
        let (said, wanted) = (sum[0], sum[1]);
        let (correct, total) = sum[2..].split_at(self.order);
        let brevity = match said {
            _ if said >= wanted => 1.0,
            0.0 => 0.0,
            _ => (1.0 - wanted / said).exp(),
        };
        let mut score = BleuScore {
            score: 0.0,
            precisions: vec![0.0; self.order],
            brevity,
            hypothesis_words: said as usize,
            reference_words: wanted as usize,
        };
        if correct.iter().any(|c| *c != 0.0) {
            let (precisions, used) = self.precisions(correct, total);
            let logs: f64 = precisions[..used].iter().map(|p| if *p == 0.0 { -9_999_999_999.0 } else { p.ln() }).sum();
            score.score = brevity * (logs / used as f64).exp();
            score.precisions = precisions;
        }
        score
    }

    fn value(&self, sum: &[f64]) -> f64 {
        self.score(sum).score
    }

    fn signature(&self, references: References, resampling: Option<Resampling>) -> String {
        let eff = additive::yes(self.effective_order);
        let own = format!("case:{}|eff:{eff}|tok:{}|smooth:{}", self.case, self.tokenize, self.smooth);
        additive::signature(references, resampling, &own)
    }
}

/// The reference length nearest to `said`; of two as near, the shorter.
fn closest(said: usize, wanted: impl Iterator<Item = usize>) -> usize {
    wanted.min_by_key(|len| (len.abs_diff(said), *len)).unwrap_or(0)
}

/// Each n-gram as often as the reference that has most of it.
fn most<'a>(references: &'a [Vec<&'a str>], n: usize) -> HashMap<&'a [&'a str], usize> {
    let mut most = HashMap::new();
    for (gram, count) in references.iter().flat_map(|reference| ngrams(reference, n)) {
        let best = most.entry(gram).or_insert(0);
        *best = count.max(*best);
    }
    most
}

/// A BLEU score with its parts; prints as sacreBLEU does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BleuScore {
    /// 0 to 100
    pub score: f64,
    /// per order, in percent, smoothed
    pub precisions: Vec<f64>,
    /// the brevity penalty
    pub brevity: f64,
    /// words said
    pub hypothesis_words: usize,
    /// words of the closest references
    pub reference_words: usize,
}

impl fmt::Display for BleuScore {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let precisions: Vec<String> = self.precisions.iter().map(|p| format!("{p:.1}")).collect();
        let (said, wanted) = (self.hypothesis_words, self.reference_words);
        let ratio = if wanted == 0 { 0.0 } else { said as f64 / wanted as f64 };
        write!(f, "{:.2} {} (BP = {:.3} ratio = {ratio:.3} ", self.score, precisions.join("/"), self.brevity)?;
        write!(f, "hyp_len = {said} ref_len = {wanted})")
    }
}

/// What an n-gram order without a match counts (Chen and Cherry 2014).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Smooth {
    /// nothing: the score is 0
    None,
    /// this many matches; sacreBLEU's default is 0.1
    Floor(f64),
    /// this many more matches and n-grams in every order but the first; sacreBLEU's default is 1
    AddK(f64),
    /// half of what the order without a match before counted
    Exp,
}

impl FromStr for Smooth {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "none" => Ok(Self::None),
            "floor" => Ok(Self::Floor(0.1)),
            "add-k" => Ok(Self::AddK(1.0)),
            "exp" => Ok(Self::Exp),
            _ => Err(unknown("smoothing", name, &["none", "floor", "add-k", "exp"])),
        }
    }
}

impl fmt::Display for Smooth {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Floor(value) => write!(f, "floor[{value:.2}]"),
            Self::AddK(k) => write!(f, "add-k[{k:.2}]"),
            Self::Exp => f.write_str("exp"),
        }
    }
}

pub(crate) fn unknown(what: &str, name: &str, known: &[&'static str]) -> Error {
    let near = nearest(name, known.iter().copied()).unwrap_or_default();
    Error::new("BLEU", format!("no {what} is called `{name}`"), format!("did you mean `{near}`? known: {known:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three of four words match, two of three pairs, one of two triples, no quadruple: p = 3/4, 2/3, 1/2, ½·1.
    #[test]
    fn a_score_by_hand() {
        let score = Bleu::default().sentence("a b c x", &["a b c d"]).unwrap();
        let expected = 100.0 * (0.75 * (2.0 / 3.0) * 0.5 * 0.5f64).powf(0.25);
        assert!((score.score - expected).abs() < 1e-12, "{} for {expected}", score.score);
        assert_eq!(score.to_string(), "59.46 75.0/66.7/50.0/50.0 (BP = 1.000 ratio = 1.000 hyp_len = 4 ref_len = 4)");
    }

    #[test]
    fn too_short_is_punished() {
        let score = Bleu::for_sentences().sentence("a b", &["a b c d"]).unwrap();
        assert!((score.score - 100.0 * (-1f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn smoothings_have_names() {
        assert_eq!("add-k".parse::<Smooth>().unwrap().to_string(), "add-k[1.00]");
        assert!("expo".parse::<Smooth>().unwrap_err().hint.contains("`exp`"));
    }
}
