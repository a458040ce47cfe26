//! Words with the names among them tagged: PER, LOC, ORG and DATE, each as B (begins) and I (goes on).
//!
//! Words alone do not tell. *Reading* is a town or what one does, *Rose* and *Mark* are people or a flower and a stain,
//! *April* and *May* are months or women, and *Rossi* is a person where *Rossi & Sons* is a firm. The compositional
//! split has family names that training never shows: they are built from syllables, and some are kept.

use super::draw::Draw;
use super::world::{FIRST, LAST, TOWNS};
use crate::Example;

/// The tags.
pub(super) const TAGS: [&str; 9] = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-DATE", "I-DATE"];

/// Sentences with places for names: {P} a person, {L} a town, {O} a firm, {D} a date. Plain words only otherwise.
const SENTENCES: [&str; 34] = [
    "{P} moved from {L} to {L} {D} .",
    "{P} works for {O} in {L} .",
    "{D} {O} opened an office in {L} .",
    "{O} has named {P} as its new director .",
    "According to {P} , {O} lost money {D} .",
    "{P} and {P} met in {L} {D} .",
    "The mayor of {L} thanked {O} {D} .",
    "{L} is quiet in winter .",
    "{L} lies by the sea .",
    "Trains to {L} were late {D} .",
    "Yesterday {P} flew to {L} with {P} .",
    "{O} sued {O} {D} .",
    "Workers of {O} went on strike in {L} .",
    "{P} , who was born in {L} , now leads {O} .",
    "I wrote to {P} {D} but got no answer .",
    "Did {P} visit {L} {D} ?",
    "{P} said that {O} would leave {L} .",
    "Nobody at {O} had heard of {P} .",
    "Heavy rain fell on {L} {D} .",
    "{P} bought a house near {L} .",
    "Reading calms {P} .",
    "Reading a book takes time , said {P} .",
    "Mark the date : {P} comes {D} .",
    "Nice weather is rare in {L} .",
    "A nice letter came from {P} {D} .",
    "The hill behind {L} is steep .",
    "The baker in {L} sold bread to {P} .",
    "{P} may go to {L} {D} .",
    "May I speak to {P} ?",
    "Snow fell in {L} {D} .",
    "Young people leave {L} , says {O} .",
    "We split the cost with {O} .",
    "A rose from {P} stood on the table .",
    "Prices rose in {L} {D} .",
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const TRADES: [&str; 8] = ["Bank", "Motors", "Foods", "Airlines", "Press", "Energy", "Hospital", "University"];

pub(super) fn example(draw: &mut Draw) -> Example {
    let mut out = Tagged::default();
    for word in draw.pick(&SENTENCES).split(' ') {
        match word {
            "{P}" => person(draw, &mut out),
            "{L}" => out.name("LOC", &[draw.pick(&TOWNS)]),
            "{O}" => firm(draw, &mut out),
            "{D}" => date(draw, &mut out),
            plain => out.plain(plain),
        }
    }
    Example::Tagged { words: out.words, tags: out.tags }
}

#[derive(Default)]
struct Tagged {
    words: Vec<String>,
    tags: Vec<String>,
}

impl Tagged {
    /// A word that is not a name; a sentence starts with a capital.
    fn plain(&mut self, word: &str) {
        let mut letters = word.chars();
        let word = match letters.next() {
            Some(first) if self.words.is_empty() => first.to_uppercase().chain(letters).collect(),
            _ => word.to_owned(),
        };
        self.words.push(word);
        self.tags.push("O".to_owned());
    }

    fn name(&mut self, kind: &str, words: &[&str]) {
        for (i, word) in words.iter().enumerate() {
            self.words.push((*word).to_owned());
            self.tags.push(format!("{}-{kind}", if i == 0 { 'B' } else { 'I' }));
        }
    }
}

fn person(draw: &mut Draw, out: &mut Tagged) {
    let (first, _) = draw.pick(&FIRST);
    match draw.below(10) {
        0..3 => out.name("PER", &[first]),
        3..8 => {
            let last = family(draw);
            out.name("PER", &[first, &last]);
        }
        _ => {
            out.plain(draw.pick(&["Dr", "Mr", "Mrs", "Professor"]));
            let last = family(draw);
            out.name("PER", &[&last]);
        }
    }
}

/// A known family name, or one of syllables.
fn family(draw: &mut Draw) -> String {
    const STARTS: [&str; 14] =
        ["Bar", "Cal", "Dor", "Fen", "Gal", "Hol", "Kar", "Lin", "Mor", "Nev", "Pel", "Ros", "Tor", "Val"];
    const MIDDLES: [&str; 10] = ["", "an", "en", "ing", "ov", "am", "el", "it", "or", "ut"];
    const ENDS: [&str; 12] = ["berg", "dale", "ham", "ini", "kin", "man", "ova", "sen", "ski", "ton", "well", "wick"];
    if draw.chance(40) {
        return draw.pick(&LAST).to_owned();
    }
    let name = format!("{}{}{}", draw.pick(&STARTS), draw.pick(&MIDDLES), draw.pick(&ENDS));
    draw.join("family", &name);
    name
}

fn firm(draw: &mut Draw, out: &mut Tagged) {
    match draw.below(4) {
        0 => {
            let last = family(draw);
            out.name("ORG", &[&last, "&", draw.pick(&["Sons", "Daughters", "Partners"])]);
        }
        1 => out.name("ORG", &[draw.pick(&TOWNS), draw.pick(&TRADES)]),
        2 => {
            let last = family(draw);
            out.name("ORG", &[&last, draw.pick(&TRADES)]);
        }
        _ => out.name("ORG", &["University", "of", draw.pick(&TOWNS)]),
    }
}

fn date(draw: &mut Draw, out: &mut Tagged) {
    let month = draw.pick(&MONTHS);
    let year = draw.between(1950, 2029).to_string();
    match draw.below(4) {
        0 => {
            out.plain("on");
            out.name("DATE", &[draw.pick(&DAYS)]);
        }
        1 => {
            out.plain("in");
            out.name("DATE", &[month]);
        }
        2 => {
            out.plain("in");
            out.name("DATE", &[month, &year]);
        }
        _ => {
            out.plain("on");
            let day = draw.between(1, 28).to_string();
            out.name("DATE", &[&day, month, &year]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn tagged(split: Split, n: usize) -> Vec<(Vec<String>, Vec<String>)> {
        let each = Corpus::Entities.examples(1, split).take(n);
        each.map(|example| match example {
            Example::Tagged { words, tags } => (words, tags),
            other => panic!("{other:?}"),
        })
        .collect()
    }

    #[test]
    fn tags_are_known_and_i_follows_its_own_kind() {
        for split in Split::ALL {
            for (words, tags) in tagged(split, 500) {
                assert_eq!(words.len(), tags.len());
                let mut before = "O";
                for tag in &tags {
                    assert!(TAGS.contains(&tag.as_str()));
                    if let Some(kind) = tag.strip_prefix("I-") {
                        assert!(before.ends_with(kind), "{words:?} {tags:?}");
                    }
                    before = tag;
                }
            }
        }
    }

    #[test]
    fn a_word_can_have_several_tags() {
        let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (words, tags) in tagged(Split::Train, 5000) {
            words.into_iter().zip(tags).for_each(|(word, tag)| {
                seen.entry(word).or_default().insert(tag);
            });
        }
        for word in ["Reading", "Mark", "Nice", "May", "April", "Snow", "Young", "Rossi"] {
            assert!(seen[word].len() > 1, "{word}: {:?}", seen[word]);
        }
    }

    #[test]
    fn the_compositional_split_has_names_that_training_lacks() {
        let known: BTreeSet<String> = tagged(Split::Train, 8000).into_iter().flat_map(|(words, _)| words).collect();
        for (words, tags) in tagged(Split::Compositional, 300) {
            let unseen = |(word, tag): (&String, &String)| tag != "O" && !known.contains(word);
            assert!(words.iter().zip(&tags).any(unseen), "{words:?}");
        }
    }
}
