//! TER, translation edit rate (Snover et al. 2006), as sacreBLEU computes it: edits per word of the reference, lower is
//! better. `tercom.rs` finds the edits.
//!
//! A row is `[fewest edits to any reference, mean length of the references]`.

use std::{collections::HashMap, fmt, sync::LazyLock};

use regex::Regex;
use serde::Serialize;

use crate::{
    additive::{self, Additive, LetterCase, References, Resampling},
    tercom,
    tokenize::{WESTERN, rewrite},
    words::{split, trim_end},
};

/// TER and its choices; the default is sacreBLEU's: lower case, words at spaces, punctuation kept.
///
/// ```
/// use qkv_metric::{Additive, Ter};
/// let moved = Ter::default().sentence("on the mat sat the cat", &["the cat sat on the mat"])?;
/// assert_eq!(moved.edits, 2); // two words change places: two runs are moved
/// # Ok::<(), qkv_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ter {
    /// whether case counts
    pub case: LetterCase,
    /// separate punctuation as Tercom does
    pub normalise: bool,
    /// count punctuation
    pub punctuation: bool,
    /// extend `normalise` and `punctuation` to Chinese and Japanese: every ideograph is a word
    pub asian: bool,
}

impl Default for Ter {
    fn default() -> Self {
        Self { case: LetterCase::Lower, normalise: false, punctuation: true, asian: false }
    }
}

impl Ter {
    fn words(&self, text: &str) -> String {
        let mut text = self.case.of(trim_end(text));
        if text.is_empty() {
            return text;
        }
        if self.normalise {
            text = normalised(&text);
            if self.asian {
                text = ASIAN_WORDS.replace_all(&text, " $0 ").into_owned();
            }
        }
        if !self.punctuation {
            text.retain(|c| !".,?:;!\"()".contains(c));
            if self.asian {
                text = ASIAN_MARKS.replace_all(&text, "").into_owned();
            }
        }
        split(&text).collect::<Vec<_>>().join(" ")
    }
}

static ASIAN_MARKS: LazyLock<Regex> = LazyLock::new(|| {
    let marks = r"[\u{3001}\u{3002}\u{3008}-\u{3011}\u{3014}-\u{301f}\u{ff61}-\u{ff65}\u{30fb}\u{ff0e}\u{ff0c}\u{ff1f}\u{ff1a}\u{ff1b}\u{ff01}\u{ff02}\u{ff08}\u{ff09}]";
    Regex::new(marks).expect("a pattern of our own")
});

/// Ideographs, strokes, radicals, compatibility forms, enclosed letters, and the marks. Tercom's rules for kana ask for
/// the start of the line, where normalising has put a space: they never apply.
static ASIAN_WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"[\u{4e00}-\u{9fff}\u{3200}-\u{4dbf}\u{31c0}-\u{31ef}\u{2e80}-\u{2eff}\u{f900}-\u{faff}\u{fe30}-\u{fe4f}]";
    Regex::new(&format!("{pattern}|{}", ASIAN_MARKS.as_str())).expect("a pattern of our own")
});

fn normalised(text: &str) -> String {
    let text = text.replace("\n-", "").replace('\n', " ");
    let text = text.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    let (marks, rest) = WESTERN.split_at(1);
    let text = rewrite(marks, format!(" {text} "));
    rewrite(rest, text.replace("'s ", " 's "))
}

impl Additive for Ter {
    type Score = TerScore;

    fn row(&self, hypothesis: &str, references: &[&str]) -> Vec<f64> {
        let mut numbers = HashMap::new();
        let mut number = |text: &str| -> Vec<u32> {
            let words = split(text).map(str::to_string);
            words
                .map(|word| {
                    let next = numbers.len() as u32;
                    *numbers.entry(word).or_insert(next)
                })
                .collect()
        };
        let said = number(&self.words(hypothesis));
        // sacreBLEU splits references twice, which shows where the first splitting makes a new mark: so do we.
        let wanted: Vec<Vec<u32>> = references.iter().map(|r| number(&self.words(&self.words(r)))).collect();
        let fewest = wanted.iter().map(|wanted| tercom::edits(&said, wanted)).min().unwrap_or(0);
        let words: usize = wanted.iter().map(Vec::len).sum();
        vec![fewest as f64, words as f64 / wanted.len().max(1) as f64]
    }

    fn score(&self, sum: &[f64]) -> TerScore {
        TerScore { score: self.value(sum), edits: sum[0] as usize, reference_words: sum[1] }
    }

    fn value(&self, sum: &[f64]) -> f64 {
        let (edits, words) = (sum[0], sum[1]);
        match words > 0.0 {
            true => 100.0 * (edits / words),
            // Nothing was wanted: anything said is all wrong.
            false => 100.0 * f64::from(edits > 0.0),
        }
    }

    fn signature(&self, references: References, resampling: Option<Resampling>) -> String {
        let [norm, punct, asian] = [self.normalise, self.punctuation, self.asian].map(additive::yes);
        let own = format!("case:{}|tok:tercom|norm:{norm}|punct:{punct}|asian:{asian}", self.case);
        additive::signature(references, resampling, &own)
    }
}

/// A TER score with its parts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TerScore {
    /// edits per hundred words; 0 is perfect, above 100 is possible
    pub score: f64,
    /// all edits
    pub edits: usize,
    /// words of the references, averaged per segment
    pub reference_words: f64,
}

impl fmt::Display for TerScore {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:.2}", self.score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_sides() {
        let ter = |said: &str, wanted: &str| Ter::default().sentence(said, &[wanted]).unwrap().score;
        assert_eq!([ter("", ""), ter("a b", ""), ter("", "a b")], [0.0, 100.0, 100.0]);
    }

    #[test]
    fn choices_change_the_words() {
        let all = Ter { normalise: true, asian: true, ..Ter::default() };
        assert_eq!(all.words("It's 3.5, 漢字。"), "it 's 3.5 , 漢 字 。");
        assert_eq!(Ter { punctuation: false, ..all }.words("It's 3.5, 漢字。"), "it 's 35 漢 字");
        assert_eq!(Ter::default().words("It's  3.5, "), "it's 3.5,");
    }
}
