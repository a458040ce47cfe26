//! Exact match and F1 of short answers, as SQuAD's two scripts compute them (Rajpurkar et al. 2016, 2018).
//!
//! Both sides are lower-cased and lose punctuation, the articles a, an, the, and double spaces; then EM asks for
//! equality and F1 compares bags of words. The best of a question's answers counts.

use std::collections::HashMap;

use qkv_base::{Error, Result};
use serde::Serialize;
use unicode_general_category::{GeneralCategory as G, get_general_category};

use crate::{additive::same_length, words::split};

/// Which script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SquadVersion {
    /// every question has an answer
    #[default]
    V1,
    /// a question without answers wants the empty answer
    V2,
}

/// The scores of one answer: 0 or 1, and 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Answered {
    /// whether it is exactly right
    pub exact: f64,
    /// how much of it is right
    pub f1: f64,
}

/// Means in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SquadScore {
    /// exact matches
    pub exact: f64,
    /// F1
    pub f1: f64,
    /// how many questions
    pub total: usize,
}

impl SquadScore {
    fn mean<'a>(scores: impl Iterator<Item = &'a Answered>) -> Option<Self> {
        let (exact, f1, total) = scores.fold((0.0, 0.0, 0), |(e, f, n), s| (e + s.exact, f + s.f1, n + 1));
        let percent = |sum: f64| 100.0 * sum / total as f64;
        (total > 0).then(|| Self { exact: percent(exact), f1: percent(f1), total })
    }
}

/// All scores of a reader: over everything, over questions with an answer, over those without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnswerScores {
    /// every question
    pub all: SquadScore,
    /// questions that have an answer
    pub has_answer: Option<SquadScore>,
    /// questions that have none
    pub no_answer: Option<SquadScore>,
    /// each question's own
    pub each: Vec<Answered>,
}

/// An answer as the scripts compare it.
///
/// ```
/// assert_eq!(qkv_metric::normalise_answer("The  Eiffel-Tower, a tower."), "eiffeltower tower");
/// ```
pub fn normalise_answer(text: &str) -> String {
    let bare: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    // An article is a whole run of letters and digits; a combining mark ends a run, as it does for Python's `\b`.
    let mut out = String::with_capacity(bare.len());
    let mut run = String::new();
    for c in bare.chars().map(Some).chain([None]) {
        match c {
            Some(c) if is_word(c) => run.push(c),
            _ => {
                out.push_str(if matches!(run.as_str(), "a" | "an" | "the") { " " } else { &run });
                run.clear();
                out.extend(c);
            }
        }
    }
    split(&out).collect::<Vec<_>>().join(" ")
}

/// Python's `\w`: letters and numbers (the underscore is gone with the punctuation).
fn is_word(c: char) -> bool {
    use G::*;
    matches!(
        get_general_category(c),
        UppercaseLetter
            | LowercaseLetter
            | TitlecaseLetter
            | ModifierLetter
            | OtherLetter
            | DecimalNumber
            | LetterNumber
            | OtherNumber
    )
}

/// One answer against the answers that are right; the best counts.
///
/// ```
/// use qkv_metric::{SquadVersion, score_answer};
/// let score = score_answer("in the year 1912", &["1912", "April 1912"], SquadVersion::V1);
/// assert_eq!((score.exact, score.f1), (0.0, 0.5));
/// assert_eq!(score_answer::<&str>("", &[], SquadVersion::V2).exact, 1.0);
/// ```
pub fn score_answer<R: AsRef<str>>(said: &str, right: &[R], version: SquadVersion) -> Answered {
    let said = normalise_answer(said);
    let mut right: Vec<String> = right.iter().map(|answer| normalise_answer(answer.as_ref())).collect();
    if version == SquadVersion::V2 {
        right.retain(|answer| !answer.is_empty());
        if right.is_empty() {
            right.push(String::new());
        }
    }
    let scores = right.iter().map(|right| Answered { exact: f64::from(said == *right), f1: f1(&said, right, version) });
    scores.fold(Answered::default(), |a, b| Answered { exact: a.exact.max(b.exact), f1: a.f1.max(b.f1) })
}

fn f1(said: &str, right: &str, version: SquadVersion) -> f64 {
    let (said, right): (Vec<&str>, Vec<&str>) = (split(said).collect(), split(right).collect());
    if version == SquadVersion::V2 && (said.is_empty() || right.is_empty()) {
        return f64::from(said == right);
    }
    let mut left = HashMap::new();
    right.iter().for_each(|word| *left.entry(*word).or_insert(0usize) += 1);
    let same =
        said.iter().filter(|word| left.get_mut(*word).is_some_and(|n| n.checked_sub(1).map(|m| *n = m).is_some()));
    match same.count() as f64 {
        0.0 => 0.0,
        same => {
            let (precision, recall) = (same / said.len() as f64, same / right.len() as f64);
            2.0 * precision * recall / (precision + recall)
        }
    }
}

/// A corpus: `right[i]` are the answers that question `i` takes.
pub fn score_answers<H: AsRef<str>, R: AsRef<str>>(
    said: &[H],
    right: &[Vec<R>],
    version: SquadVersion,
) -> Result<AnswerScores> {
    same_length("answers", said.len(), right.len())?;
    if let (SquadVersion::V1, Some(i)) = (version, right.iter().position(Vec::is_empty)) {
        let hint = "score questions without an answer by the rules of SQuAD 2";
        return Err(Error::new(format!("question {}", i + 1), "it has no right answer", hint));
    }
    let pairs = said.iter().zip(right);
    let each: Vec<Answered> = pairs.map(|(said, right)| score_answer(said.as_ref(), right, version)).collect();
    let part = |has: bool| {
        let chosen = each.iter().zip(right).filter(|(_, right)| right.is_empty() != has);
        SquadScore::mean(chosen.map(|(score, _)| score))
    };
    let empty = || Error::new("answers", "nothing to score", "give at least one question");
    Ok(AnswerScores {
        all: SquadScore::mean(each.iter()).ok_or_else(empty)?,
        has_answer: part(true),
        no_answer: part(false),
        each,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_are_whole_words() {
        assert_eq!(normalise_answer("A theatre, an ant & the-end"), "theatre ant theend");
        assert_eq!(normalise_answer("a\u{301} x"), "\u{301} x"); // the reference drops the letter under its accent too
        assert_eq!(normalise_answer("The!"), "");
    }

    #[test]
    fn the_two_scripts_differ_on_nothing() {
        let v1 = score_answer("the", &["a"], SquadVersion::V1);
        let v2 = score_answer("the", &["a"], SquadVersion::V2);
        assert_eq!((v1.exact, v1.f1, v2.f1), (1.0, 0.0, 1.0));
    }

    #[test]
    fn parts_add_up() {
        let right = [vec!["Paris"], vec![]];
        let scores = score_answers(&["paris", "rome"], &right, SquadVersion::V2).unwrap();
        assert_eq!(scores.all, SquadScore { exact: 50.0, f1: 50.0, total: 2 });
        assert_eq!(scores.has_answer.unwrap().exact, 100.0);
        assert_eq!(scores.no_answer.unwrap().exact, 0.0);
        assert!(score_answers(&["paris", "rome"], &right, SquadVersion::V1).is_err());
        assert!(score_answers::<&str, &str>(&[], &[], SquadVersion::V2).is_err());
    }
}
