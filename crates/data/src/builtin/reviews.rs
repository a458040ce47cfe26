//! Reviews that praise or blame.
//!
//! A third of the sentences say plainly what they mean. The others turn a word around: by *not*, by denial ("nobody
//! would call it dull"), by a hope that was or was not met, or by a contrast in which only one side is the verdict. Words
//! of both kinds thus stand under both labels, and counting words is not enough.

use super::draw::Draw;
use crate::Example;

/// The labels.
pub(super) const LABELS: [&str; 2] = ["negative", "positive"];

/// Something to review: what it is called, and what one can say of its parts, as (part, good words, bad words).
struct Subject {
    name: &'static str,
    parts: [(&'static str, [&'static str; 4], [&'static str; 4]); 4],
}

const SUBJECTS: [Subject; 6] = [
    Subject {
        name: "film",
        parts: [
            ("plot", ["clever", "gripping", "original", "moving"], ["dull", "confusing", "predictable", "silly"]),
            ("acting", ["superb", "convincing", "natural", "fine"], ["wooden", "weak", "forced", "poor"]),
            ("music", ["beautiful", "rich", "subtle", "memorable"], ["loud", "annoying", "bland", "repetitive"]),
            (
                "ending",
                ["satisfying", "surprising", "perfect", "touching"],
                ["rushed", "absurd", "flat", "disappointing"],
            ),
        ],
    },
    Subject {
        name: "book",
        parts: [
            ("story", ["gripping", "clever", "moving", "original"], ["dull", "confusing", "slow", "predictable"]),
            ("style", ["elegant", "clear", "lively", "witty"], ["clumsy", "dry", "pompous", "tiring"]),
            ("hero", ["believable", "charming", "funny", "brave"], ["boring", "irritating", "unbelievable", "shallow"]),
            (
                "last chapter",
                ["satisfying", "surprising", "perfect", "tender"],
                ["rushed", "absurd", "flat", "forgettable"],
            ),
        ],
    },
    Subject {
        name: "hotel",
        parts: [
            ("room", ["clean", "spacious", "quiet", "bright"], ["dirty", "cramped", "noisy", "dark"]),
            ("breakfast", ["delicious", "fresh", "generous", "excellent"], ["stale", "cold", "tasteless", "meagre"]),
            ("staff", ["friendly", "helpful", "polite", "attentive"], ["rude", "careless", "unfriendly", "slow"]),
            ("bed", ["comfortable", "soft", "warm", "perfect"], ["hard", "lumpy", "uncomfortable", "broken"]),
        ],
    },
    Subject {
        name: "restaurant",
        parts: [
            ("soup", ["delicious", "tasty", "fresh", "excellent"], ["salty", "cold", "tasteless", "watery"]),
            ("service", ["quick", "friendly", "attentive", "perfect"], ["slow", "rude", "careless", "chaotic"]),
            ("menu", ["varied", "tempting", "original", "reasonable"], ["short", "overpriced", "boring", "confusing"]),
            ("dessert", ["heavenly", "delicious", "light", "memorable"], ["dry", "stale", "sickly", "disappointing"]),
        ],
    },
    Subject {
        name: "phone",
        parts: [
            ("screen", ["sharp", "bright", "excellent", "clear"], ["dim", "blurry", "fragile", "poor"]),
            ("battery", ["reliable", "strong", "impressive", "excellent"], ["weak", "unreliable", "terrible", "poor"]),
            ("camera", ["superb", "fast", "sharp", "impressive"], ["blurry", "slow", "useless", "mediocre"]),
            ("sound", ["rich", "clear", "pleasant", "full"], ["tinny", "faint", "harsh", "distorted"]),
        ],
    },
    Subject {
        name: "game",
        parts: [
            ("world", ["huge", "beautiful", "lively", "original"], ["empty", "ugly", "lifeless", "tiny"]),
            (
                "control",
                ["smooth", "precise", "intuitive", "natural"],
                ["clumsy", "awkward", "imprecise", "frustrating"],
            ),
            ("puzzle design", ["clever", "fair", "inventive", "fun"], ["unfair", "tedious", "obvious", "boring"]),
            ("tutorial", ["clear", "short", "helpful", "funny"], ["endless", "confusing", "useless", "tiring"]),
        ],
    },
];

const DEGREES: [&str; 8] = ["", "", "very ", "really ", "quite ", "truly ", "rather ", "extremely "];

pub(super) fn example(draw: &mut Draw) -> Example {
    let subject = &SUBJECTS[draw.below(SUBJECTS.len())];
    let good = draw.chance(50);
    let opening =
        draw.pick(&["", "", "We tried it last week. ", "My sister told me about it. ", "This was my first time. "]);
    let mut text = format!("{opening}{}", sentence(draw, subject, good));
    if draw.chance(45) {
        text.push(' ');
        text.push_str(&verdict(draw, subject, good));
    }
    Example::Labelled { text, label: LABELS[usize::from(good)].to_owned() }
}

/// A part and a word that praises or blames it.
fn quality(draw: &mut Draw, subject: &Subject, good: bool) -> (&'static str, &'static str) {
    let part = draw.below(subject.parts.len());
    said_of(draw, subject, part, good)
}

fn said_of(draw: &mut Draw, subject: &Subject, part: usize, good: bool) -> (&'static str, &'static str) {
    let (part, praise, blame) = &subject.parts[part];
    let word = draw.pick(if good { praise } else { blame });
    draw.join(part, word);
    (part, word)
}

/// Two parts, the first as `first` says, the second the other way.
fn opposed(draw: &mut Draw, subject: &Subject, first: bool) -> [(&'static str, &'static str); 2] {
    let (one, two) = draw.two(&[0, 1, 2, 3]);
    [said_of(draw, subject, one, first), said_of(draw, subject, two, !first)]
}

fn sentence(draw: &mut Draw, subject: &Subject, good: bool) -> String {
    let name = subject.name;
    let degree = draw.pick(&DEGREES);
    match draw.below(9) {
        0..3 => {
            let (part, word) = quality(draw, subject, good);
            format!("The {part} of this {name} was {degree}{word}.")
        }
        3 | 4 => {
            let (part, word) = quality(draw, subject, !good);
            let not = draw.pick(&["was not", "was never", "was not at all", "was by no means"]);
            format!("The {part} {not} {word}.")
        }
        5 => {
            let (part, word) = quality(draw, subject, !good);
            let denial = draw.pick(&["Nobody would say that", "I cannot agree that", "It is simply not true that"]);
            format!("{denial} the {part} was {word}.")
        }
        6 => {
            let [(hoped, before), (part, after)] = opposed(draw, subject, !good);
            format!(
                "I expected the {hoped} to be {before} and the {part} to be {after}, but it was the other way round: a {} {name}.",
                draw.pick(if good { &["good", "fine"] } else { &["bad", "poor"] })
            )
        }
        7 => {
            let [(aside, word), (main, verdict)] = opposed(draw, subject, !good);
            let although = draw.pick(&["Although", "Even though", "While"]);
            let matters = draw.pick(&["what counts is that", "in the end", "for me"]);
            let main = format!("the {main} was {degree}{verdict}");
            let comma = if matters.ends_with("that") { "" } else { "," };
            format!("{although} the {aside} was {word}, {matters}{comma} {main}.")
        }
        _ => {
            let [(aside, word), (main, verdict)] = opposed(draw, subject, !good);
            format!("The {aside} was {word}, but the {main} was {degree}{verdict}.")
        }
    }
}

/// What follows from it. Every word here is used under both labels.
fn verdict(draw: &mut Draw, subject: &Subject, good: bool) -> String {
    let name = subject.name;
    match (draw.below(4), good) {
        (0, true) => format!("I would not hesitate to recommend this {name}."),
        (0, false) => format!("I would hesitate to recommend this {name}."),
        (1, true) => "I do not regret the money.".to_owned(),
        (1, false) => "I do regret the money.".to_owned(),
        (2, true) => "You will not be sorry.".to_owned(),
        (2, false) => "You will be sorry.".to_owned(),
        (_, true) => format!("Do not miss this {name}."),
        (_, false) => format!("You may well miss this {name}."),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    fn reviews(split: Split, n: usize) -> Vec<(String, bool)> {
        let each = Corpus::Reviews.examples(1, split).take(n);
        each.map(|example| match example {
            Example::Labelled { text, label } => (text, label == LABELS[1]),
            other => panic!("{other:?}"),
        })
        .collect()
    }

    #[test]
    fn labels_are_balanced_and_texts_have_one_label() {
        let train = reviews(Split::Train, 4000);
        let good = train.iter().filter(|(_, good)| *good).count();
        assert!((1800..2200).contains(&good), "{good} of 4000");
        assert_eq!(train.iter().map(|(text, _)| text).collect::<HashSet<_>>().len(), 4000);
    }

    /// Naive Bayes over single words, the best that counting does: better than chance, far from right.
    #[test]
    fn counting_words_is_not_enough() {
        let mut counts: BTreeMap<String, [f64; 2]> = BTreeMap::new();
        for (text, good) in reviews(Split::Train, 8000) {
            for word in text.split(' ').collect::<HashSet<_>>() {
                counts.entry(word.to_owned()).or_insert([1.0; 2])[usize::from(good)] += 1.0;
            }
        }
        let test = reviews(Split::Test, 500);
        let right = test.iter().filter(|(text, good)| {
            let words: HashSet<_> = text.split(' ').collect();
            let score: f64 = words.iter().filter_map(|word| counts.get(*word)).map(|c| (c[1] / c[0]).ln()).sum();
            (score > 0.0) == *good
        });
        let share = right.count() as f64 / 500.0;
        assert!((0.5..0.85).contains(&share), "counting words gets {share} right");
    }
}
