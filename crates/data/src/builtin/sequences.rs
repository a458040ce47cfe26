//! The smallest tasks: copy, reverse, sort, add. Letters stand apart so that any tokenizer sees one token each.
//!
//! The combinations held out here are lengths: training shows up to [`LONGEST`] letters or [`DIGITS`] digits, the
//! compositional split shows more.

use super::draw::Draw;
use crate::Example;

/// The most letters that training shows.
const LONGEST: usize = 16;
/// The most digits of a number that training shows.
const DIGITS: usize = 4;

pub(super) fn copy(draw: &mut Draw) -> Example {
    let letters = letters(draw);
    pair(&letters, &letters)
}

pub(super) fn reverse(draw: &mut Draw) -> Example {
    let letters = letters(draw);
    pair(&letters, &letters.iter().rev().copied().collect::<Vec<_>>())
}

pub(super) fn sort(draw: &mut Draw) -> Example {
    let letters = letters(draw);
    let mut sorted = letters.clone();
    sorted.sort_unstable();
    pair(&letters, &sorted)
}

pub(super) fn add(draw: &mut Draw) -> Example {
    let (a, b) = (number(draw), number(draw));
    Example::Pair { source: format!("{a} + {b}"), target: (a + b).to_string() }
}

/// 4 to 24 letters; one draw in ten is longer than training allows.
fn letters(draw: &mut Draw) -> Vec<u8> {
    draw.novel = draw.chance(10);
    let length = if draw.novel { draw.between(LONGEST + 1, LONGEST * 3 / 2) } else { draw.between(4, LONGEST) };
    (0..length).map(|_| b'a' + draw.below(26) as u8).collect()
}

/// A number of one to four digits, lengths being as likely but for the shortest; one in ten has five or six.
fn number(draw: &mut Draw) -> u64 {
    let long = draw.chance(10);
    draw.novel |= long;
    let digits =
        if long { draw.between(DIGITS + 1, DIGITS + 2) } else { draw.weighted(&[(1, 1), (3, 2), (6, 3), (6, 4)]) };
    let low = if digits == 1 { 0 } else { 10usize.pow(digits as u32 - 1) };
    draw.between(low, 10usize.pow(digits as u32) - 1) as u64
}

fn pair(source: &[u8], target: &[u8]) -> Example {
    let spaced = |letters: &[u8]| {
        let letters: Vec<String> = letters.iter().map(|&b| (b as char).to_string()).collect();
        letters.join(" ")
    };
    Example::Pair { source: spaced(source), target: spaced(target) }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;

    fn pairs(corpus: Corpus, split: Split) -> impl Iterator<Item = (String, String)> {
        corpus.examples(2, split).take(200).map(|example| match example {
            Example::Pair { source, target } => (source, target),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn targets_are_what_they_say() {
        for split in Split::ALL {
            assert!(pairs(Corpus::Copy, split).all(|(source, target)| source == target));
            for (source, target) in pairs(Corpus::Reverse, split) {
                assert_eq!(source.chars().rev().collect::<String>(), target);
            }
            for (source, target) in pairs(Corpus::Sort, split) {
                let mut letters: Vec<&str> = source.split(' ').collect();
                letters.sort_unstable();
                assert_eq!(letters.join(" "), target);
            }
            for (source, target) in pairs(Corpus::Add, split) {
                let (a, b) = source.split_once(" + ").unwrap();
                assert_eq!(a.parse::<u64>().unwrap() + b.parse::<u64>().unwrap(), target.parse::<u64>().unwrap());
            }
        }
    }

    #[test]
    fn only_the_compositional_split_is_long() {
        for split in Split::ALL {
            let long = |length| length > LONGEST;
            assert!(
                pairs(Corpus::Sort, split).all(|(s, _)| long(s.split(' ').count()) == (split == Split::Compositional))
            );
            let digits = |source: &str| source.split(" + ").map(str::len).max().unwrap();
            assert!(pairs(Corpus::Add, split).all(|(s, _)| (digits(&s) > DIGITS) == (split == Split::Compositional)));
        }
    }
}
