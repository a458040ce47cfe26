//! A context about two or three people, a question about one of them, and the answer as a span of the context.
//!
//! Every person has facts of the same kinds with different values, so that the kind of answer does not give it away: one
//! has to find the right person, often behind a pronoun.

use super::draw::Draw;
use super::example::Example;
use super::world::{FIRST, TOWNS};

/// A kind of fact: how it is told of a name or pronoun, how it is asked, and what can fill it.
struct Kind {
    told: &'static [&'static str],
    asked: &'static str,
    values: &'static [&'static str],
}

const KINDS: [Kind; 7] = [
    Kind { told: &["{} lives in @.", "{} has a flat in @."], asked: "Where does {} live?", values: &TOWNS },
    Kind {
        told: &["{} works as a @.", "{} earns a living as a @."],
        asked: "What is {}'s job?",
        values: &["baker", "pilot", "nurse", "teacher", "farmer", "lawyer", "tailor", "painter", "waiter", "plumber"],
    },
    Kind {
        told: &["{} owns a @.", "{} keeps a @ at home."],
        asked: "Which animal does {} have?",
        values: &["grey cat", "small dog", "parrot", "white rabbit", "tortoise", "black cat", "brown dog", "goldfish"],
    },
    Kind {
        told: &["{} likes to eat @.", "{} could eat @ every day."],
        asked: "What does {} like to eat?",
        values: &["noodles", "mushroom soup", "fried rice", "apple pie", "lentils", "goat cheese", "dumplings", "figs"],
    },
    Kind {
        told: &["{} plays the @.", "{} has learned the @."],
        asked: "Which instrument does {} play?",
        values: &["violin", "piano", "flute", "guitar", "drums", "cello", "trumpet", "harp"],
    },
    Kind {
        told: &["{} was born in @.", "{} came into the world in @."],
        asked: "When was {} born?",
        values: &["1961", "1968", "1974", "1979", "1983", "1988", "1992", "1995", "1999", "2003"],
    },
    Kind {
        told: &["{} goes to work by @.", "{} gets around by @."],
        asked: "How does {} go to work?",
        values: &["bus", "tram", "bicycle", "boat", "train", "car"],
    },
];

pub(super) fn example(draw: &mut Draw) -> Example {
    let people = people(draw);
    let mut kinds: Vec<usize> = (0..KINDS.len()).collect();
    shuffle(draw, &mut kinds);
    kinds.truncate(draw.between(2, 3));
    let (asked_of, asked) = (draw.below(people.len()), draw.pick(&kinds));
    let values: Vec<Vec<&'static str>> =
        kinds.iter().map(|&kind| distinct(draw, KINDS[kind].values, people.len())).collect();
    let (mut context, mut answer, mut start) = (String::new(), "", 0);
    for (who, &(name, she)) in people.iter().enumerate() {
        for (place, &kind) in kinds.iter().enumerate() {
            let value = values[place][who];
            let subject = match (place, she) {
                (0, _) => name,
                (_, true) => "She",
                (_, false) => "He",
            };
            let told = draw.pick(KINDS[kind].told).replace("{}", subject);
            let (before, after) = told.split_once('@').unwrap_or((&told, ""));
            if !context.is_empty() {
                context.push(' ');
            }
            context.push_str(before);
            if (who, kind) == (asked_of, asked) {
                (answer, start) = (value, context.len());
                draw.join(name, value);
            }
            context.push_str(value);
            context.push_str(after);
        }
    }
    let question = KINDS[asked].asked.replace("{}", people[asked_of].0);
    Example::Question { context, question, answer: answer.to_owned(), start }
}

/// Two or three people with different names.
fn people(draw: &mut Draw) -> Vec<(&'static str, bool)> {
    let count = draw.between(2, 3);
    distinct(draw, &FIRST, count)
}

/// `n` different ones of `choices`.
fn distinct<T: Copy>(draw: &mut Draw, choices: &[T], n: usize) -> Vec<T> {
    let mut order: Vec<T> = choices.to_vec();
    shuffle(draw, &mut order);
    order.truncate(n);
    order
}

/// Fisher and Yates.
fn shuffle<T>(draw: &mut Draw, items: &mut [T]) {
    for i in (1..items.len()).rev() {
        items.swap(i, draw.below(i + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;

    #[test]
    fn the_answer_stands_where_it_says_and_only_there() {
        for split in Split::ALL {
            for example in Corpus::Facts.examples(2, split).take(500) {
                let Example::Question { context, question, answer, start } = example else { panic!() };
                assert_eq!(context.get(start..start + answer.len()), Some(answer.as_str()), "{context} {question}");
                let name = FIRST.iter().find(|(name, _)| question.contains(name)).unwrap().0;
                // The last name before the answer is the one that is asked about.
                let last = FIRST.iter().filter_map(|(n, _)| Some((context[..start].rfind(n)?, *n))).max().unwrap();
                assert_eq!(last.1, name, "{context} {question} {answer}");
            }
        }
    }

    #[test]
    fn every_kind_is_asked() {
        let asked = |kind: &Kind| {
            let end = kind.asked.split("{}").last().unwrap_or("");
            Corpus::Facts.examples(2, Split::Train).take(300).any(|e| e.row()[1].ends_with(end))
        };
        assert!(KINDS.iter().all(asked));
    }
}
