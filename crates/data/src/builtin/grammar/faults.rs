//! Faults of grammar: a right sentence with one or two of the mistakes that learners make, each of which has one correction.
//!
//! | fault | wrong | right |
//! |---|---|---|
//! | agreement | the king work, you is, these dog | works, are, this |
//! | article | a apple | an apple |
//! | form after an auxiliary | did not works, wants to eats | work, eat |
//! | tense | she eats it yesterday | ate |
//!
//! Nothing that a correction would have to guess is made wrong: nouns keep their number, and a tense is only wrong where a
//! time says which one is right. One sentence in ten is right as it is.

use super::super::draw::Draw;
use super::english::{self, third_person};
use super::{Clause, Modal, Predicate, Sentence, Tense};

/// Words that depend on the number or the sound of a neighbour.
const AGREE: [(&str, &str); 9] = [
    ("is", "are"),
    ("are", "is"),
    ("was", "were"),
    ("were", "was"),
    ("am", "is"),
    ("does", "do"),
    ("do", "does"),
    ("has", "have"),
    ("have", "has"),
];
const DETERMINE: [(&str, &str); 6] =
    [("a", "an"), ("an", "a"), ("this", "these"), ("these", "this"), ("that", "those"), ("those", "that")];

/// The word at this place becomes that one.
type Edit = (usize, String);

/// The sentence with faults, or (one time in ten) as it is; `None` if nothing in it can be made wrong.
pub(in super::super) fn wrong(draw: &mut Draw, sentence: &Sentence) -> Option<String> {
    if draw.chance(10) {
        return Some(english::sentence(sentence));
    }
    let second = draw.chance(35);
    if let Some(text) = draw.chance(40).then(|| out_of_time(sentence)).flatten() {
        let edits = swaps(&text, &DETERMINE);
        return Some(if second { apply(draw, &text, edits, 1) } else { text });
    }
    let right = english::sentence(sentence);
    let mut edits = swaps(&right, &DETERMINE);
    edits.extend(swaps(&right, &AGREE));
    edits.extend(clauses(sentence).into_iter().filter_map(|c| verb(&right, c)));
    (!edits.is_empty()).then(|| apply(draw, &right, edits, 1 + usize::from(second)))
}

fn clauses(sentence: &Sentence) -> Vec<&Clause> {
    match sentence {
        Sentence::One(one) => vec![one],
        Sentence::Two(a, _, b) => vec![a, b],
    }
}

/// A deed of yesterday or tomorrow, told in the present.
fn out_of_time(sentence: &Sentence) -> Option<String> {
    let Sentence::One(c) = sentence else { return None };
    let Predicate::Does(deed) = &c.predicate else { return None };
    let told = c.time.is_some() && deed.modal.is_none() && matches!(c.tense, Tense::Past | Tense::Future);
    told.then(|| english::sentence(&Sentence::One(Clause { tense: Tense::Present, ..*c })))
}

/// The verb in the form of another person: works for work, work for works.
fn verb(text: &str, c: &Clause) -> Option<Edit> {
    let base = match &c.predicate {
        Predicate::Does(deed) => match (deed.modal, c.tense) {
            (Some(Modal::Want), _) => "want",
            (Some(_), _) | (None, Tense::Present | Tense::Future) => deed.verb.en,
            // Without an auxiliary the past shows itself; with one the verb stands plain.
            (None, Tense::Past) => deed.verb.en,
            _ => return None,
        },
        Predicate::Likes(_) => "like",
        _ => return None,
    };
    let third = third_person(base);
    // A noun of the same letters (the cook, the cooks) must not be taken for the verb.
    let mut found = words(text).enumerate().filter(|(_, word)| *word == base || *word == third);
    let (place, word) = found.next()?;
    if found.next().is_some() {
        return None;
    }
    Some((place, if word == base { third } else { base.to_owned() }))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').map(|word| word.trim_end_matches([',', '.', '?']))
}

fn swaps(text: &str, table: &[(&str, &str)]) -> Vec<Edit> {
    let of = |word: &str| table.iter().find(|(right, _)| word.eq_ignore_ascii_case(right)).map(|(_, other)| *other);
    words(text).enumerate().filter_map(|(place, word)| Some((place, of(word)?.to_owned()))).collect()
}

/// The text with `n` of the edits, at different places.
fn apply(draw: &mut Draw, text: &str, mut edits: Vec<Edit>, n: usize) -> String {
    let mut all: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for _ in 0..n {
        if edits.is_empty() {
            break;
        }
        let (place, new) = edits.swap_remove(draw.below(edits.len()));
        edits.retain(|(other, _)| *other != place);
        let old = &all[place];
        let end = &old[old.trim_end_matches([',', '.', '?']).len()..];
        let new = if old.starts_with(|c: char| c.is_uppercase()) { super::finish(&new, "") } else { new };
        all[place] = format!("{new}{end}");
    }
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::super::{Corpus, Split};
    use crate::Example;
    use std::collections::HashMap;

    #[test]
    fn a_wrong_sentence_has_one_correction_and_no_right_one_is_corrected() {
        let (mut known, mut same, mut late) = (HashMap::new(), 0, 0);
        let n = 20_000;
        let mut targets = std::collections::HashSet::new();
        for index in 0..n {
            let Example::Pair { source, target } = Corpus::Corrections.example(1, Split::Train, index) else {
                panic!()
            };
            same += u64::from(source == target);
            late += u64::from(source != target && target.contains("yesterday"));
            targets.insert(target.clone());
            assert_eq!(known.entry(source.clone()).or_insert_with(|| target.clone()), &target, "{source}");
        }
        for (source, target) in &known {
            assert!(source == target || !targets.contains(source), "right as it is: {source}, not {target}");
        }
        assert!((n / 15..n / 7).contains(&same), "{same} of {n} are right as they are");
        assert!(late > 50, "{late}");
    }

    #[test]
    fn every_fault_is_made() {
        let made = |wrong: &str, right: &str| {
            Corpus::Corrections.examples(1, Split::Train).take(4000).any(|example| {
                let Example::Pair { source, target } = example else { panic!() };
                let pairs = source.split(' ').zip(target.split(' ')).collect::<Vec<_>>();
                pairs.contains(&(wrong, right))
            })
        };
        for (wrong, right) in [
            ("is", "are"),
            ("these", "this"),
            ("a", "an"),
            ("have", "has"),
            ("wants", "want"),
            ("eats", "eat"),
            ("eat", "eats"),
        ] {
            assert!(made(wrong, right), "{wrong} for {right}");
        }
    }
}
