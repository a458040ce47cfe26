//! A context about two or three people, a question about one of them, and the answer as a span of the context.
//!
//! In `facts` every person has facts of the same kinds with different values, so that the kind of answer does not give it
//! away: one has to find the right person, often behind a pronoun. A small network learns none of it in minutes, because
//! nothing on the way there is rewarded.
//!
//! In `people` each person has facts of his own, so the questions climb: where only one person has the kind that is asked
//! for, the kind gives the answer away (`What is Anna's job?`); `Who works as a baker?` needs the name that goes with a
//! fact; and where two people have a fact of the kind, one has to find the person of the question.

use super::draw::Draw;
use super::world::{FIRST, TOWNS};
use crate::Example;

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

/// Everybody has facts of the same kinds.
pub(super) fn example(draw: &mut Draw) -> Example {
    let people = people(draw);
    let kinds = kinds(draw, 2, 3);
    let (asked_of, asked) = (draw.below(people.len()), draw.pick(&kinds));
    let values: Vec<Vec<&'static str>> =
        kinds.iter().map(|&kind| distinct(draw, KINDS[kind].values, people.len())).collect();
    let (mut context, mut answer, mut start) = (String::new(), "", 0);
    for (who, &(name, she)) in people.iter().enumerate() {
        for (place, &kind) in kinds.iter().enumerate() {
            let value = values[place][who];
            let subject = if place == 0 { name } else { pronoun(she) };
            let at = tell(draw, &mut context, kind, subject, value);
            if (who, kind) == (asked_of, asked) {
                (answer, start) = (value, at);
                draw.join(name, value);
            }
        }
    }
    let question = KINDS[asked].asked.replace("{}", people[asked_of].0);
    Example::Question { context, question, answer: answer.to_owned(), start }
}

/// Questions that climb.
pub(super) fn climbing(draw: &mut Draw) -> Example {
    let people = people(draw);
    let values: Vec<Vec<&'static str>> = KINDS.iter().map(|kind| distinct(draw, kind.values, people.len())).collect();
    let facts: Vec<(usize, usize)> =
        (0..people.len()).flat_map(|who| kinds(draw, 1, 2).into_iter().map(move |kind| (who, kind))).collect();
    let asked = draw.below(facts.len());
    let (mut context, mut named) = (String::new(), 0); // `named`: where the last name stands
    let (mut question, mut answer, mut start) = (String::new(), "", 0);
    for (place, &(who, kind)) in facts.iter().enumerate() {
        let ((name, she), value) = (people[who], values[kind][who]);
        // At the first fact of a person the name, later the name again or a pronoun.
        let again = place > 0 && facts[place - 1].0 == who && draw.below(2) == 1;
        if !again {
            named = context.len() + usize::from(place > 0); // behind the space
        }
        let at = tell(draw, &mut context, kind, if again { pronoun(she) } else { name }, value);
        if place == asked {
            draw.join(name, value);
            (question, answer, start) = match draw.below(2) == 0 {
                true => (who_is_it(draw, kind, value), name, named),
                false => (KINDS[kind].asked.replace("{}", name), value, at),
            };
        }
    }
    Example::Question { context, question, answer: answer.to_owned(), start }
}

/// One more sentence; where the value stands in the context.
fn tell(draw: &mut Draw, context: &mut String, kind: usize, subject: &str, value: &str) -> usize {
    let told = draw.pick(KINDS[kind].told).replace("{}", subject);
    let (before, after) = told.split_once('@').unwrap_or((&told, ""));
    if !context.is_empty() {
        context.push(' ');
    }
    context.push_str(before);
    let at = context.len();
    context.push_str(value);
    context.push_str(after);
    at
}

fn pronoun(she: bool) -> &'static str {
    if she { "She" } else { "He" }
}

/// `Who lives in Cork?`
fn who_is_it(draw: &mut Draw, kind: usize, value: &str) -> String {
    let told = draw.pick(KINDS[kind].told).replace("{}", "Who").replace('@', value);
    format!("{}?", told.trim_end_matches('.'))
}

/// `low` to `high` different kinds of fact.
fn kinds(draw: &mut Draw, low: usize, high: usize) -> Vec<usize> {
    let mut kinds: Vec<usize> = (0..KINDS.len()).collect();
    shuffle(draw, &mut kinds);
    kinds.truncate(draw.between(low, high));
    kinds
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
    fn the_answer_stands_where_it_says_beside_what_is_asked() {
        for split in Split::ALL {
            let both = [Corpus::Facts, Corpus::People].map(|corpus| corpus.examples(2, split).take(500));
            for example in both.into_iter().flatten() {
                let Example::Question { context, question, answer, start } = example else { panic!() };
                assert_eq!(context.get(start..start + answer.len()), Some(answer.as_str()), "{context} {question}");
                // Which fact it is about: its value in the context, and the last name before it.
                let (name, value) = match FIRST.iter().find(|(name, _)| question.contains(name)) {
                    Some((name, _)) => (*name, start),
                    None => {
                        let asked = KINDS.iter().flat_map(|k| k.values).filter(|v| question.contains(**v));
                        let value = asked.max_by_key(|v| v.len()).unwrap();
                        (answer.as_str(), context.find(value).unwrap())
                    }
                };
                let last = FIRST.iter().filter_map(|(n, _)| Some((context[..value].rfind(n)?, *n))).max().unwrap();
                assert_eq!(last.1, name, "{context} {question} {answer}");
            }
        }
    }

    /// What can be got without reading whom a fact is about stays far from everything.
    #[test]
    fn questions_of_every_sort() {
        let (mut who, mut shared) = (0, 0);
        for example in Corpus::People.examples(2, Split::Test).take(1000) {
            let Example::Question { context, question, answer, .. } = example else { panic!() };
            who += usize::from(question.starts_with("Who "));
            let kind = KINDS.iter().find(|k| k.values.contains(&answer.as_str()));
            shared += usize::from(kind.is_some_and(|k| k.values.iter().filter(|v| context.contains(**v)).count() > 1));
        }
        assert!((450..550).contains(&who) && (100..200).contains(&shared), "{who} who, {shared} of a shared kind");
    }

    #[test]
    fn every_kind_is_asked() {
        let asked = |kind: &Kind| {
            let end = kind.asked.split("{}").last().unwrap_or("");
            Corpus::People.examples(2, Split::Train).take(600).any(|e| e.row()[1].ends_with(end))
        };
        assert!(KINDS.iter().all(asked));
    }
}
