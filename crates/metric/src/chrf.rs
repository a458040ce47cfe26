//! chrF (Popović 2015) and chrF++ (Popović 2017) as sacreBLEU computes them: the F-score of character n-grams, and for
//! chrF++ of word n-grams too.
//!
//! ```text
//! chrFβ = (1 + β²) · P·R / (β²·P + R)        P, R = means over the orders that both sides have
//! ```
//!
//! A row is `[said, wanted, matched]` for each order, characters before words.

use std::fmt;

use serde::Serialize;

use crate::{
    additive::{self, Additive, LetterCase, References, Resampling},
    words::{is_space, ngrams, overlap, split},
};

/// chrF and its choices; the default is sacreBLEU's chrF2.
///
/// ```
/// use qkv_metric::{Additive, Chrf};
/// assert_eq!(Chrf::default().sentence("abc", &["abc"])?.score, 100.0);
/// assert_eq!(Chrf::plus_plus().sentence("abc", &["xyz"])?.score, 0.0);
/// # Ok::<(), qkv_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chrf {
    /// the longest run of characters
    pub char_order: usize,
    /// the longest run of words: 0 for chrF, 2 for chrF++
    pub word_order: usize,
    /// how many times recall outweighs precision
    pub beta: u32,
    /// whether case counts
    pub case: LetterCase,
    /// keep spaces among the characters
    pub whitespace: bool,
    /// average F over all orders, an empty one counting ε, rather than P and R over the orders that both sides have
    pub eps_smoothing: bool,
}

impl Default for Chrf {
    fn default() -> Self {
        Self { char_order: 6, word_order: 0, beta: 2, case: LetterCase::Mixed, whitespace: false, eps_smoothing: false }
    }
}

const EPSILON: f64 = 1e-16;

impl Chrf {
    /// chrF++: words and pairs of words count as well.
    pub fn plus_plus() -> Self {
        Self { word_order: 2, ..Self::default() }
    }

    fn compare(&self, said: &Text, wanted: &Text) -> Vec<f64> {
        let letters = (1..=self.char_order).map(|n| counts(&said.letters, &wanted.letters, n));
        let words = (1..=self.word_order).map(|n| counts(&said.words, &wanted.words, n));
        letters.chain(words).flatten().collect()
    }

    fn f_score(&self, row: &[f64]) -> f64 {
        let factor = f64::from(self.beta).powi(2);
        let f = |p: f64, r: f64| (1.0 + factor) * p * r / (factor * p + r);
        let (mut precision, mut recall, mut smoothed, mut orders) = (0.0, 0.0, 0.0, 0.0);
        for count in row.chunks_exact(3) {
            let [said, wanted, matched] = [count[0], count[1], count[2]];
            let p = if said > 0.0 { matched / said } else { EPSILON };
            let r = if wanted > 0.0 { matched / wanted } else { EPSILON };
            smoothed += if factor * p + r > 0.0 { f(p, r) } else { EPSILON };
            if said > 0.0 && wanted > 0.0 {
                precision += p;
                recall += r;
                orders += 1.0;
            }
        }
        match (self.eps_smoothing, precision + recall) {
            (true, _) => 100.0 * smoothed / (self.char_order + self.word_order).max(1) as f64,
            (false, 0.0) => 0.0,
            (false, _) => 100.0 * f(precision / orders, recall / orders),
        }
    }
}

impl Additive for Chrf {
    type Score = ChrfScore;

    fn row(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let (said, wanted) = (self.case.of(hypothesis), references.iter().map(|r| self.case.of(r)));
        let said = Text::new(&said, self.whitespace);
        let rows = wanted.map(|wanted| self.compare(&said, &Text::new(&wanted, self.whitespace)));
        // The best reference counts; of two as good, the first.
        let best = rows.map(|row| (self.f_score(&row), row)).reduce(|a, b| if b.0 > a.0 { b } else { a });
        best.map_or_else(Vec::new, |(_, row)| row)
    }

    fn score(&self, sum: &[f64]) -> ChrfScore {
        ChrfScore { score: self.f_score(sum), name: format!("chrF{}{}", self.beta, "+".repeat(self.word_order)) }
    }

    fn value(&self, sum: &[f64]) -> f64 {
        self.f_score(sum)
    }

    fn signature(&self, references: References, resampling: Option<Resampling>) -> String {
        let (eff, space) = (additive::yes(!self.eps_smoothing), additive::yes(self.whitespace));
        let own = format!("case:{}|eff:{eff}|nc:{}|nw:{}|space:{space}", self.case, self.char_order, self.word_order);
        additive::signature(references, resampling, &own)
    }
}

/// A sentence as characters and as words.
struct Text<'a> {
    letters: Vec<char>,
    words: Vec<&'a str>,
}

impl<'a> Text<'a> {
    fn new(text: &'a str, whitespace: bool) -> Self {
        let letters = text.chars().filter(|c| whitespace || !is_space(*c)).collect();
        Self { letters, words: split(text).flat_map(apart).collect() }
    }
}

/// One mark at the end of a word, else one at its beginning, becomes a word of its own: `(hi)` gives `(hi` and `)`.
fn apart(word: &str) -> impl Iterator<Item = &str> {
    let mark = |c: Option<char>| c.is_some_and(|c| c.is_ascii_punctuation());
    // A mark is one byte long, so cutting beside it is safe.
    let (head, tail) = match word.chars().count() {
        0 | 1 => (word, ""),
        _ if mark(word.chars().next_back()) => word.split_at(word.len() - 1),
        _ if mark(word.chars().next()) => word.split_at(1),
        _ => (word, ""),
    };
    [head, tail].into_iter().filter(|part| !part.is_empty())
}

/// `[said, wanted, matched]`; where the reference has none of this order, what was said is not counted either.
fn counts<T: std::hash::Hash + Eq>(said: &[T], wanted: &[T], n: usize) -> [f64; 3] {
    let count = |tokens: &[T]| (tokens.len() + 1).saturating_sub(n) as f64;
    let [said_count, wanted_count] = [count(said), count(wanted)];
    let matched = overlap(&ngrams(said, n), &ngrams(wanted, n)) as f64;
    [if wanted_count > 0.0 { said_count } else { 0.0 }, wanted_count, matched]
}

/// A chrF score and the name of the variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChrfScore {
    /// 0 to 100
    pub score: f64,
    /// `chrF2`, `chrF2++`
    pub name: String,
}

impl fmt::Display for ChrfScore {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:.2}", self.score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ab` against `ac`: one letter of two matches, no pair: P = R = (1/2 + 0)/2.
    #[test]
    fn a_score_by_hand() {
        assert!((Chrf::default().sentence("ab", &["ac"]).unwrap().score - 25.0).abs() < 1e-12);
    }

    #[test]
    fn marks_stand_apart() {
        let words: Vec<&str> = Text::new("(hi) \"yes x, — . नमस्ते!", false).words;
        assert_eq!(words, ["(hi", ")", "\"", "yes", "x", ",", "—", ".", "नमस्ते", "!"]);
    }

    #[test]
    fn the_best_reference_counts() {
        let chrf = Chrf::plus_plus();
        let both = chrf.sentence("the cat", &["a dog", "the cat"]).unwrap();
        assert_eq!(both, chrf.sentence("the cat", &["the cat"]).unwrap());
        assert_eq!(both.name, "chrF2++");
    }
}
