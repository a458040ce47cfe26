//! Sentences in which a word is known by the words around it, for vectors of words.
//!
//! Two words have two meanings: a *bank* holds money or a river, as often the one as the other; an *apple* is a fruit nine
//! times in ten, else a thing with a screen. And people come in pairs (king and queen, uncle and aunt) that differ in
//! nothing but *he* and *she*, so that directions between words can be learnt.

use super::draw::Draw;
use crate::Example;

/// What a text is about: nouns that can stand for `{n}` (the first is the word of two meanings, where there is one), words
/// for `{m}`, and what is said.
struct Domain {
    nouns: &'static [&'static str],
    others: &'static [&'static str],
    sentences: &'static [&'static str],
}

const FRUIT: Domain = Domain {
    nouns: &["apple", "pear", "plum", "peach", "cherry", "apricot"],
    others: &["ripe", "sweet", "juicy", "sour", "red", "fresh"],
    sentences: &[
        "She picked a {m} {n} from the tree in the orchard.",
        "The {n} was {m}, and he ate it with honey.",
        "They baked a pie with {m} {n} and cinnamon.",
        "A {m} {n} fell from the branch into the grass.",
        "He washed the {m} {n} and cut it into slices.",
        "The juice of the {m} {n} ran over the plate.",
        "In autumn the basket was full of {m} {n}, jam and nuts.",
    ],
};

const DEVICES: Domain = Domain {
    nouns: &["apple", "laptop", "tablet", "phone", "computer", "console"],
    others: &["new", "fast", "slim", "broken", "cheap", "silent"],
    sentences: &[
        "The {m} {n} has a bright screen and a quick processor.",
        "She charged the battery of the {m} {n} at her desk.",
        "The {m} {n} was updated with software last night.",
        "He typed his password on the {m} {n}.",
        "The {m} {n} lost its files and had to be started again.",
        "An engineer opened the {m} {n} and changed the chip.",
        "Programs run well on a {m} {n} with enough memory.",
    ],
};

const MONEY: Domain = Domain {
    nouns: &["bank", "lender", "broker", "cashier", "insurer", "treasurer"],
    others: &["loan", "deposit", "mortgage", "account", "credit", "payment"],
    sentences: &[
        "The {n} approved the {m} at a low interest rate.",
        "He asked the {n} for a {m} and signed the contract.",
        "The {n} charged a fee for every {m} in cash.",
        "She paid the {m} back to the {n} in euros.",
        "The {n} counted the money and closed the {m}.",
        "A letter from the {n} said that the {m} was due.",
        "The {n} lost millions when a {m} was not repaid.",
    ],
};

const RIVER: Domain = Domain {
    nouns: &["bank", "shore", "meadow", "marsh", "island", "pier"],
    others: &["reeds", "mud", "willows", "pebbles", "ducks", "moss"],
    sentences: &[
        "The {n} by the river was covered with {m}.",
        "A heron stood on the {n} among the {m}.",
        "They fished from the {n} until the water rose over the {m}.",
        "The stream washed the {m} off the {n} in spring.",
        "We tied the boat at the {n} and walked through the {m}.",
        "The flood left {m} and driftwood on the {n}.",
        "Otters swim near the {n} and hide between the {m}.",
    ],
};

/// Him and her, and what is said of both alike.
struct Pair {
    he: &'static str,
    she: &'static str,
    sentences: &'static [&'static str],
}

const ROYAL: &[&str] = &[
    "The {p} sat on the throne in {own} palace.",
    "The {p} wore a golden crown and spoke to {own} knights.",
    "All the kingdom bowed before the {p}, and {pronoun} raised {own} sceptre.",
];
const HEIR: &[&str] = &[
    "The {p} will inherit the crown when {pronoun} is old enough.",
    "The young {p} learnt to dance at the palace with {own} tutor.",
    "The {p} rode from the castle, and the guards followed {own} horse.",
];
const GROWN: &[&str] = &[
    "The {p} went to the office, and {pronoun} came home late.",
    "A {p} stood in the street and looked for {own} keys.",
    "The {p} works in a shop, where {pronoun} sells bread.",
];
const CHILD: &[&str] = &[
    "The little {p} did {own} homework after school.",
    "The {p} played with {own} toys until {pronoun} fell asleep.",
    "A teacher gave the {p} a book, and {pronoun} read it in class.",
];
const RELATIVE: &[&str] = &[
    "Our {p} came for a visit on Sunday with {own} dog.",
    "At the wedding our {p} told us about {own} old village.",
    "My {p} sends a card for my birthday, and {pronoun} never forgets.",
];
const STAGE: &[&str] = &[
    "The {p} learnt {own} lines and went on stage.",
    "The audience applauded when the {p} bowed in {own} costume.",
    "In the theatre the {p} played the part that {pronoun} loved.",
];

const PAIRS: [Pair; 7] = [
    Pair { he: "king", she: "queen", sentences: ROYAL },
    Pair { he: "prince", she: "princess", sentences: HEIR },
    Pair { he: "man", she: "woman", sentences: GROWN },
    Pair { he: "boy", she: "girl", sentences: CHILD },
    Pair { he: "uncle", she: "aunt", sentences: RELATIVE },
    Pair { he: "grandfather", she: "grandmother", sentences: RELATIVE },
    Pair { he: "actor", she: "actress", sentences: STAGE },
];
/// What is said of anybody who is a he, or a she.
const HIS: [&str; 3] = ["He shaved his beard.", "He is called sir by everybody.", "His moustache was grey."];
const HER: [&str; 3] = ["She put on her necklace.", "She is called madam by everybody.", "Her dress was long."];

pub(super) fn example(draw: &mut Draw) -> Example {
    let n = draw.between(1, 3);
    let text = match draw.below(10) {
        // apple: nine to one
        0 | 1 => {
            let domain = if draw.chance(90) { &FRUIT } else { &DEVICES };
            said(draw, domain, true, n)
        }
        // bank: one to one
        2 | 3 => {
            let domain = if draw.chance(50) { &MONEY } else { &RIVER };
            said(draw, domain, true, n)
        }
        4 => said(draw, &FRUIT, false, n),
        5 => said(draw, &DEVICES, false, n),
        6 => said(draw, &MONEY, false, n),
        7 => said(draw, &RIVER, false, n),
        _ => people(draw),
    };
    Example::Text(text)
}

/// `n` sentences of a domain, about its first word or about another one.
fn said(draw: &mut Draw, domain: &Domain, first: bool, n: usize) -> String {
    let noun = if first { domain.nouns[0] } else { draw.pick(&domain.nouns[1..]) };
    let sentences = (0..n).map(|_| {
        let (sentence, other) = (draw.pick(domain.sentences), draw.pick(domain.others));
        draw.join(noun, other);
        sentence.replace("{n}", noun).replace("{m}", other)
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn people(draw: &mut Draw) -> String {
    let pair = &PAIRS[draw.below(PAIRS.len())];
    let she = draw.chance(50);
    let (person, pronoun, own, more) = if she { (pair.she, "she", "her", &HER) } else { (pair.he, "he", "his", &HIS) };
    let (sentence, more) = (draw.pick(pair.sentences), draw.pick(more));
    draw.join(person, more);
    let sentence = sentence.replace("{p}", person).replace("{pronoun}", pronoun).replace("{own}", own);
    format!("{sentence} {more}")
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};

    #[test]
    fn apples_are_fruit_nine_times_in_ten_and_banks_hold_either() {
        let texts: Vec<String> =
            Corpus::Senses.examples(1, Split::Train).take(4000).map(|e| e.text().into_owned()).collect();
        let devices = ["screen", "battery", "software", "password", "files", "chip", "programs"];
        let river = ["river", "heron", "fished", "stream", "boat", "flood", "otters"];
        let share = |word: &str, signs: &[&str]| {
            let with: Vec<String> =
                texts.iter().map(|t| t.to_lowercase()).filter(|t| t.contains(&format!(" {word}"))).collect();
            assert!(with.len() > 300, "{} texts with {word}", with.len());
            with.iter().filter(|t| signs.iter().any(|s| t.contains(s))).count() as f64 / with.len() as f64
        };
        let (apple, bank) = (share("apple", &devices), share("bank", &river));
        assert!((0.05..0.2).contains(&apple) && (0.35..0.65).contains(&bank), "apple {apple}, bank {bank}");
    }

    #[test]
    fn no_sentence_has_a_gap() {
        for example in Corpus::Senses.examples(2, Split::Test).take(500) {
            assert!(!example.text().contains(['{', '}']), "{}", example.text());
        }
    }
}
