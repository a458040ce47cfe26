//! Short notices about one of six subjects.
//!
//! Each sentence is about the subject, but some mention another one in passing ("while a song played"), and some words
//! serve several subjects (*score*, *season*, *table*): most notices can be told by their words, not all.

use super::draw::Draw;
use super::world::{FIRST, TOWNS};
use crate::Example;

/// The labels.
pub(super) const LABELS: [&str; 6] = ["cooking", "economy", "music", "science", "sport", "travel"];

struct Subject {
    adjectives: [&'static str; 6],
    nouns: [&'static str; 8],
    happenings: [&'static str; 6],
    /// said in a notice about something else
    aside: [&'static str; 3],
}

const SUBJECTS: [Subject; 6] = [
    Subject {
        adjectives: ["spicy", "fresh", "creamy", "roasted", "salty", "warm"],
        nouns: ["soup", "bread", "sauce", "oven", "recipe", "chef", "dough", "table"],
        happenings: [
            "needs an hour and a pinch of pepper",
            "was served with rice and butter",
            "won over the guests at dinner",
            "smelt of garlic and thyme",
            "goes well with a season of good tomatoes",
            "was stirred until it was smooth",
        ],
        aside: ["after a quick lunch", "over a plate of pasta", "while the soup was boiling"],
    },
    Subject {
        adjectives: ["weak", "steady", "rising", "public", "foreign", "annual"],
        nouns: ["market", "budget", "inflation", "tax", "company", "export", "share", "wage"],
        happenings: [
            "fell by two per cent in the last quarter",
            "surprised the investors on Monday",
            "will grow more slowly than expected",
            "depends on the price of oil",
            "was discussed by the ministers of finance",
            "reached its highest score since the crisis",
        ],
        aside: ["despite the falling prices", "as the shares rose", "paid by a large company"],
    },
    Subject {
        adjectives: ["quiet", "famous", "lively", "classical", "solemn", "electric"],
        nouns: ["violin", "orchestra", "song", "choir", "melody", "concert", "pianist", "score"],
        happenings: [
            "filled the hall with sound",
            "was recorded in a small studio",
            "opened the season at the opera",
            "moved the audience to tears",
            "kept the rhythm to the last note",
            "was sung in four voices",
        ],
        aside: ["while a song played on the radio", "to the sound of a piano", "before the evening concert"],
    },
    Subject {
        adjectives: ["tiny", "distant", "precise", "chemical", "unknown", "careful"],
        nouns: ["planet", "molecule", "experiment", "telescope", "theory", "cell", "sample", "table"],
        happenings: [
            "confirms what was measured years ago",
            "was observed in a laboratory",
            "bends light more than gravity predicts",
            "was described in a journal of physics",
            "reacts with oxygen at low temperature",
            "helps researchers to understand disease",
        ],
        aside: ["as researchers had predicted", "according to a new study", "measured with great precision"],
    },
    Subject {
        adjectives: ["fast", "young", "tired", "winning", "injured", "national"],
        nouns: ["team", "goalkeeper", "match", "runner", "coach", "league", "race", "score"],
        happenings: [
            "won the final in extra time",
            "missed a penalty before the break",
            "trained hard for the new season",
            "broke the record by a second",
            "lost against the champions at home",
            "climbed to the top of the table",
        ],
        aside: ["after the final whistle", "during the football match", "in front of cheering fans"],
    },
    Subject {
        adjectives: ["narrow", "sunny", "crowded", "remote", "ancient", "cheap"],
        nouns: ["train", "beach", "hotel", "island", "ferry", "passport", "road", "season"],
        happenings: [
            "leads through the mountains to the coast",
            "was fully booked in August",
            "is best reached by boat",
            "offers a view of the old harbour",
            "was delayed at the border",
            "waits for tourists behind the station",
        ],
        aside: ["on the way to the airport", "with a suitcase in hand", "at a hotel by the sea"],
    },
];

pub(super) fn example(draw: &mut Draw) -> Example {
    let label = draw.below(SUBJECTS.len());
    let n = draw.between(1, 3);
    let text = (0..n).map(|_| sentence(draw, label)).collect::<Vec<_>>().join(" ");
    Example::Labelled { text, label: LABELS[label].to_owned() }
}

fn sentence(draw: &mut Draw, label: usize) -> String {
    let subject = &SUBJECTS[label];
    let (adjective, noun, happening) =
        (draw.pick(&subject.adjectives), draw.pick(&subject.nouns), draw.pick(&subject.happenings));
    let aside = if draw.chance(35) {
        let other = (label + draw.between(1, SUBJECTS.len() - 1)) % SUBJECTS.len();
        format!(" {}", draw.pick(&SUBJECTS[other].aside))
    } else {
        String::new()
    };
    let form = draw.below(4);
    if form < 2 {
        draw.join(adjective, noun); // where both are said: a split follows from the text alone
    }
    match form {
        0 => format!("The {adjective} {noun} {happening}{aside}."),
        1 => format!("In {}, the {adjective} {noun} {happening}{aside}.", draw.pick(&TOWNS)),
        2 => format!("{} says that the {noun} {happening}{aside}.", draw.pick(&FIRST).0),
        // Only what it is about, and not what happens to it, tells.
        _ => format!("{} talked about the {noun}{aside}.", draw.pick(&FIRST).0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_subject_has_its_share() {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for example in Corpus::Topics.examples(1, Split::Train).take(3000) {
            *counts.entry(example.label().expect("a label").to_owned()).or_default() += 1;
        }
        assert_eq!(counts.len(), LABELS.len());
        assert!(counts.values().all(|n| (400..600).contains(n)), "{counts:?}");
    }
}
