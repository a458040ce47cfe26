//! Which noun does *it* mean? "The dog did not cross the street because it was too tired" means the dog, "too wide" the
//! street: only what can be tired or wide tells. The question is always the same; the answer is a noun of the context.
//!
//! In one sentence of four the two nouns differ in number, so that *it* and *they* tell by themselves. Which noun goes with
//! which quality is held out for the compositional part.

use super::draw::Draw;
use crate::Example;

/// Nouns of one sort, with their plurals, and what only they can be.
struct Sort {
    nouns: &'static [(&'static str, &'static str)],
    qualities: &'static [&'static str],
}

const ANIMAL: usize = 0;
const WAY: usize = 1;
const FOOD: usize = 2;
const VEHICLE: usize = 3;
const BOX: usize = 4;
const THING: usize = 5;

/// No quality stands in two rows: that is what decides.
const SORTS: [Sort; 6] = [
    Sort {
        nouns: &[
            ("animal", "animals"),
            ("dog", "dogs"),
            ("cat", "cats"),
            ("horse", "horses"),
            ("goat", "goats"),
            ("monkey", "monkeys"),
            ("duck", "ducks"),
            ("fox", "foxes"),
        ],
        qualities: &["tired", "hungry", "frightened", "sleepy", "lazy", "thirsty"],
    },
    Sort {
        nouns: &[
            ("street", "streets"),
            ("road", "roads"),
            ("bridge", "bridges"),
            ("path", "paths"),
            ("river", "rivers"),
            ("field", "fields"),
        ],
        qualities: &["wide", "icy", "steep", "slippery", "muddy", "crowded"],
    },
    Sort {
        nouns: &[
            ("soup", "soups"),
            ("cake", "cakes"),
            ("cheese", "cheeses"),
            ("pie", "pies"),
            ("sauce", "sauces"),
            ("salad", "salads"),
        ],
        qualities: &["spicy", "salty", "sour", "bitter", "stale", "greasy"],
    },
    Sort {
        nouns: &[
            ("car", "cars"),
            ("bus", "buses"),
            ("tractor", "tractors"),
            ("train", "trains"),
            ("cart", "carts"),
            ("van", "vans"),
        ],
        qualities: &["rusty", "slow", "noisy", "worn", "shaky"],
    },
    Sort {
        nouns: &[
            ("suitcase", "suitcases"),
            ("box", "boxes"),
            ("drawer", "drawers"),
            ("bag", "bags"),
            ("basket", "baskets"),
            ("cupboard", "cupboards"),
        ],
        qualities: &["small", "shallow", "tight", "full", "cramped"],
    },
    Sort {
        nouns: &[
            ("trophy", "trophies"),
            ("statue", "statues"),
            ("vase", "vases"),
            ("lamp", "lamps"),
            ("guitar", "guitars"),
            ("clock", "clocks"),
        ],
        qualities: &["big", "tall", "bulky", "long", "heavy"],
    },
];

/// Who does, what, to whom.
const FRAMES: [(usize, &str, usize); 10] = [
    (ANIMAL, "did not cross", WAY),
    (ANIMAL, "did not touch", FOOD),
    (ANIMAL, "would not sleep in", BOX),
    (ANIMAL, "could not pull", VEHICLE),
    (VEHICLE, "could not use", WAY),
    (VEHICLE, "could not carry", THING),
    (THING, "did not fit into", BOX),
    (BOX, "could not hold", THING),
    (FOOD, "did not stay in", BOX),
    (VEHICLE, "did not stop for", ANIMAL),
];

const LEADS: [&str; 6] = ["", "Yesterday ", "This morning ", "In the end ", "At noon ", "Last week "];

/// The question to which every context has the answer.
const QUESTION: &str = "Which word does the pronoun mean?";

pub(super) fn example(draw: &mut Draw) -> Example {
    let (first, verb, second) = draw.pick(&FRAMES);
    let meant = draw.below(2); // the first noun or the second
    let plural = draw.chance(40);
    // The other one is of the same number, but for a quarter.
    let other = plural != draw.chance(25);
    let numbers = if meant == 0 { [plural, other] } else { [other, plural] };
    let mut noun = |sort: usize, plural: bool| {
        let (one, many) = draw.pick(SORTS[sort].nouns);
        if plural { many } else { one }
    };
    let nouns = [noun(first, numbers[0]), noun(second, numbers[1])];
    let quality = draw.pick(SORTS[[first, second][meant]].qualities);
    draw.join(nouns[meant], quality);
    let it = if plural { "they were" } else { "it was" };
    let why = format!("{} {it} too {quality}", draw.pick(&["because", "since", "as"]));
    let lead = draw.pick(&LEADS);
    let mut context = String::new();
    let front = draw.chance(20);
    if front {
        context = format!("{}{}, ", why[..1].to_uppercase(), &why[1..]);
    }
    context += if front { "the " } else { lead };
    context += match (front, lead.is_empty()) {
        (true, _) => "",
        (_, true) => "The ",
        _ => "the ",
    };
    let mut start = [0; 2];
    for (place, noun) in nouns.iter().enumerate() {
        if place == 1 {
            context = format!("{context} {verb} the ");
        }
        start[place] = context.len();
        context += noun;
    }
    context += &if front { ".".to_owned() } else { format!(" {why}.") };
    Example::Question { context, question: QUESTION.to_owned(), answer: nouns[meant].to_owned(), start: start[meant] }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;

    /// Read as a person would: which noun can be so, and is of the pronoun's number.
    #[test]
    fn the_quality_or_the_number_tells_and_the_place_does_not() {
        let (mut first, mut fronted, mut by_number) = (0, 0, 0);
        for example in Corpus::Pronouns.examples(5, Split::Train).take(1000) {
            let Example::Question { context, answer, start, .. } = example else { panic!() };
            assert_eq!(&context[start..start + answer.len()], answer, "{context}");
            let sort_of = |noun: &str| SORTS.iter().position(|s| s.nouns.iter().any(|n| n.0 == noun || n.1 == noun));
            let words: Vec<&str> = context.split([' ', '.', ',']).collect();
            let nouns: Vec<&str> = words.iter().copied().filter(|w| sort_of(w).is_some()).collect();
            let quality = words[words.iter().position(|w| *w == "too").unwrap() + 1];
            let fits: Vec<&&str> =
                nouns.iter().filter(|n| SORTS[sort_of(n).unwrap()].qualities.contains(&quality)).collect();
            assert_eq!(fits, [&answer.as_str()], "{context}");
            let many = words.contains(&"they");
            assert_eq!(SORTS.iter().any(|s| s.nouns.iter().any(|n| n.1 == answer)), many, "{context}");
            let plurals = nouns.iter().filter(|n| SORTS.iter().any(|s| s.nouns.iter().any(|k| k.1 == **n))).count();
            first += usize::from(nouns[0] == answer);
            by_number += usize::from(plurals == 1);
            fronted += usize::from(context.find("too") < context.find(nouns[0]));
        }
        assert!((400..600).contains(&first), "the first noun is meant {first} times of 1000");
        assert!((150..350).contains(&by_number) && (120..280).contains(&fronted), "{by_number}, {fronted}");
    }

    #[test]
    fn no_quality_is_of_two_sorts() {
        let all: Vec<&str> = SORTS.iter().flat_map(|s| s.qualities).copied().collect();
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), all.len());
    }
}
