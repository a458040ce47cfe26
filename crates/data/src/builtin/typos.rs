//! Sentences with one to three slips, and the sentences meant.
//!
//! Slips of the finger: a neighbouring key, two letters swapped, one left out, one doubled. Slips of the ear: words
//! that sound alike. Only small letters of ASCII words are touched; a slip never makes the sentence right by chance.

use super::draw::Draw;
use crate::Example;

/// The rows of the keyboard; neighbours are beside each other.
const ROWS: [&[u8]; 3] = [b"qwertyuiop", b"asdfghjkl", b"zxcvbnm"];

/// Words that sound alike, as one might confuse them.
const ALIKE: [(&str, &str); 16] = [
    ("their", "there"),
    ("there", "their"),
    ("your", "you're"),
    ("two", "too"),
    ("to", "too"),
    ("flower", "flour"),
    ("see", "sea"),
    ("our", "are"),
    ("hear", "here"),
    ("wear", "where"),
    ("son", "sun"),
    ("new", "knew"),
    ("write", "right"),
    ("knows", "nose"),
    ("know", "no"),
    ("bear", "bare"),
];

/// `right`, and `right` with slips.
pub(super) fn pair(draw: &mut Draw, right: String) -> Example {
    let slips = draw.weighted(&[(6, 1), (3, 2), (1, 3)]);
    let mut wrong = right.clone();
    while wrong == right {
        wrong = (0..slips).fold(right.clone(), |text, _| slip(draw, &text));
    }
    Example::Pair { source: wrong, target: right }
}

fn slip(draw: &mut Draw, text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let alike: Vec<(usize, &str)> = words.iter().enumerate().filter_map(|(i, word)| Some((i, sound(word)?))).collect();
    if !alike.is_empty() && draw.chance(30) {
        let (place, other) = draw.pick(&alike);
        words[place] = other.to_owned();
    } else {
        let place = draw.below(words.len());
        words[place] = finger(draw, &words[place]);
    }
    words.join(" ")
}

fn sound(word: &str) -> Option<&'static str> {
    ALIKE.iter().find(|(right, _)| *right == word).map(|(_, other)| *other)
}

/// One slip of the finger in a word; short words are left alone.
fn finger(draw: &mut Draw, word: &str) -> String {
    let mut letters = word.as_bytes().to_vec();
    let small = letters.iter().filter(|b| b.is_ascii_lowercase()).count();
    if small < 3 || !word.is_ascii() {
        return word.to_owned();
    }
    let places: Vec<usize> = (0..letters.len()).filter(|&i| letters[i].is_ascii_lowercase()).collect();
    let at = draw.pick(&places);
    match draw.below(4) {
        0 => letters[at] = neighbour(draw, letters[at]),
        1 if at + 1 < letters.len() && letters[at + 1].is_ascii_lowercase() => letters.swap(at, at + 1),
        2 => letters.insert(at, letters[at]),
        _ => {
            letters.remove(at);
        }
    }
    letters.into_iter().map(char::from).collect()
}

fn neighbour(draw: &mut Draw, letter: u8) -> u8 {
    let around: Vec<u8> = ROWS
        .iter()
        .filter_map(|row| Some((row, row.iter().position(|&b| b == letter)?)))
        .flat_map(|(row, at)| [at.checked_sub(1), Some(at + 1)].map(|i| i.and_then(|i| row.get(i).copied())))
        .flatten()
        .collect();
    if around.is_empty() { letter } else { draw.pick(&around) }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;
    use qkv_base::Key;

    #[test]
    fn neighbours_are_on_the_same_row() {
        let mut draw = Draw::new(Key::new(1, 0, 0));
        for _ in 0..50 {
            assert!([b'q', b'e'].contains(&neighbour(&mut draw, b'w')));
            assert_eq!(neighbour(&mut draw, b'q'), b'w');
        }
    }

    #[test]
    fn slips_change_little_but_something() {
        let mut ears = 0;
        for example in Corpus::Typos.examples(4, Split::Train).take(500) {
            let Example::Pair { source, target } = example else { panic!() };
            assert_ne!(source, target);
            let (wrong, right): (Vec<&str>, Vec<&str>) = (source.split(' ').collect(), target.split(' ').collect());
            assert_eq!(wrong.len(), right.len());
            let changed: Vec<_> = wrong.iter().zip(&right).filter(|(a, b)| a != b).collect();
            assert!((1..=3).contains(&changed.len()), "{source}");
            ears += changed.iter().filter(|(a, b)| sound(b) == Some(a)).count();
        }
        assert!(ears > 20, "{ears} words that sound alike in 500 sentences");
    }
}
