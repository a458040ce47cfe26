//! Reports of four to eight sentences, and what happened in one sentence.
//!
//! An event is drawn first: what, where, when, how bad, and what follows. The report tells it with details and with
//! asides that do not matter; the summary says what, where, when and the outcome, and nothing else.

use super::draw::Draw;
use super::world::{FIRST, LAST, TOWNS};
use crate::Example;

/// A kind of event: what it is, what the report says, and what comes of it in one of two ways.
struct Event {
    /// "a fire", and what it does in the summary
    what: &'static str,
    did: &'static str,
    /// what it happens to
    to: [&'static str; 6],
    /// the first sentence; {to} {town} {day} {time}
    report: [&'static str; 2],
    details: [&'static str; 4],
    /// (sentence in the report, end of the summary)
    outcomes: [(&'static str, &'static str); 3],
}

const EVENTS: [Event; 6] = [
    Event {
        what: "A fire",
        did: "damaged a {to} in {town}",
        to: ["school", "library", "theatre", "warehouse", "hotel", "bakery"],
        report: [
            "A fire broke out in a {to} in {town} on {day} {time}.",
            "On {day} {time} a {to} in {town} caught fire.",
        ],
        details: [
            "The flames started in the kitchen.",
            "It took {n} firefighters two hours to put out the blaze.",
            "Smoke could be seen from far away.",
            "The roof was badly damaged.",
        ],
        outcomes: [
            ("Nobody was hurt.", "but nobody was hurt"),
            ("{n} people were taken to hospital.", "and {n} people were hurt"),
            ("The building has to be pulled down.", "and it has to be pulled down"),
        ],
    },
    Event {
        what: "A storm",
        did: "hit the {to} of {town}",
        to: ["harbour", "airport", "market", "bridge", "campsite", "stadium"],
        report: [
            "A heavy storm hit the {to} of {town} on {day} {time}.",
            "The {to} of {town} was hit by a storm on {day} {time}.",
        ],
        details: [
            "The wind tore down {n} trees.",
            "Many streets were under water.",
            "The rain went on for hours.",
            "Power failed in parts of the town.",
        ],
        outcomes: [
            ("The {to} will stay closed for a week.", "and it will stay closed for a week"),
            ("By the evening it was open again.", "but it was open again by the evening"),
            ("{n} people had to be rescued.", "and {n} people had to be rescued"),
        ],
    },
    Event {
        what: "Thieves",
        did: "robbed a {to} in {town}",
        to: ["museum", "bank", "jewellery shop", "church", "post office", "gallery"],
        report: [
            "Thieves broke into a {to} in {town} on {day} {time}.",
            "A {to} in {town} was robbed on {day} {time}.",
        ],
        details: [
            "The thieves came through a window.",
            "The alarm did not work.",
            "A neighbour saw a white van.",
            "The police are looking at {n} hours of film.",
        ],
        outcomes: [
            ("The police caught the thieves the next day.", "and were caught the next day"),
            ("So far there is no trace of the thieves.", "and have not been found"),
            ("The thieves got away with {n} paintings.", "and took {n} paintings"),
        ],
    },
    Event {
        what: "The mayor",
        did: "opened a new {to} in {town}",
        to: ["park", "swimming pool", "tram line", "hospital", "playground", "concert hall"],
        report: [
            "In {town} the mayor opened a new {to} on {day} {time}.",
            "The people of {town} have a new {to}: the mayor opened it on {day} {time}.",
        ],
        details: [
            "The work took {n} years.",
            "A band played and children sang.",
            "The old one had been closed for a long time.",
            "The cost was higher than planned.",
        ],
        outcomes: [
            ("In the first week the visit is free.", "and it is free in the first week"),
            ("{n} hundred people came to see it.", "and {n} hundred people came"),
            ("Some neighbours protested against the noise.", "while neighbours protested"),
        ],
    },
    Event {
        what: "Workers",
        did: "went on strike at the {to} in {town}",
        to: ["car factory", "brewery", "steel mill", "dairy", "paper mill", "shipyard"],
        report: [
            "Workers went on strike at the {to} in {town} on {day} {time}.",
            "The workers of the {to} in {town} stopped work on {day} {time}.",
        ],
        details: [
            "They ask for higher wages.",
            "The gates were blocked for {n} hours.",
            "The managers called it a bad day.",
            "Talks had failed the week before.",
        ],
        outcomes: [
            ("The owners have agreed to talk.", "and the owners agreed to talk"),
            ("The owners refused to talk.", "but the owners refused to talk"),
            ("Their pay will now rise by {n} percent.", "and won {n} percent more pay"),
        ],
    },
    Event {
        what: "Scientists",
        did: "found a {to} near {town}",
        to: ["Roman coin", "dinosaur bone", "rare orchid", "sunken ship", "stone tool", "buried temple"],
        report: [
            "Scientists found a {to} near {town} on {day} {time}.",
            "A {to} was found by scientists near {town} on {day} {time}.",
        ],
        details: [
            "The search had lasted {n} years.",
            "A farmer had shown the place.",
            "The ground there is soft and wet.",
            "The team was surprised.",
        ],
        outcomes: [
            ("It will be shown in the museum.", "and it will be shown in the museum"),
            ("Its place is being kept secret.", "and keep the place secret"),
            ("It is the {n}th find of this kind.", "the {n}th find of its kind"),
        ],
    },
];

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const TIMES: [&str; 4] = ["morning", "afternoon", "evening", "night"];
const ASIDES: [&str; 6] = [
    "\"I have never seen anything like it,\" said {who}.",
    "{who}, who lives nearby, heard about it on the radio.",
    "The town has about {n} thousand inhabitants.",
    "It was the talk of the town.",
    "{who} took photographs for the newspaper.",
    "Last year something similar had happened.",
];

pub(super) fn example(draw: &mut Draw) -> Example {
    let event = &EVENTS[draw.below(EVENTS.len())];
    let (to, town, day, time) = (draw.pick(&event.to), draw.pick(&TOWNS), draw.pick(&DAYS), draw.pick(&TIMES));
    draw.join(to, town);
    let (told, end) = draw.pick(&event.outcomes);
    let count = draw.between(4, 19).to_string();
    let fill = |text: &str, n: &str, who: &str| {
        let slots = [("{to}", to), ("{town}", town), ("{day}", day), ("{time}", time), ("{n}", n), ("{who}", who)];
        slots.iter().fold(text.to_owned(), |text, (slot, word)| text.replace(slot, word))
    };
    let mut report = vec![fill(draw.pick(&event.report), "", "")];
    let mut rest: Vec<String> = Vec::new();
    let (one, two) = draw.two(&event.details);
    for detail in [one, two].into_iter().take(draw.between(1, 2)) {
        let n = draw.between(4, 19).to_string();
        rest.push(fill(detail, &n, ""));
    }
    let (one, two) = draw.two(&ASIDES);
    for aside in [one, two].into_iter().take(draw.between(1, 2)) {
        let who = format!("{} {}", draw.pick(&FIRST).0, draw.pick(&LAST));
        let n = draw.between(20, 90).to_string();
        rest.push(fill(aside, &n, &who));
    }
    // The outcome stands anywhere after the first sentence.
    let place = draw.below(rest.len() + 1);
    rest.insert(place, fill(told, &count, ""));
    report.extend(rest);
    let summary = format!("{} {} on {{day}} {{time}}, {end}.", event.what, event.did);
    Example::Pair { source: report.join(" "), target: fill(&summary, &count, "") }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;

    #[test]
    fn summaries_say_what_the_report_says() {
        for split in Split::ALL {
            for example in Corpus::Summaries.examples(1, split).take(500) {
                let Example::Pair { source, target } = example else { panic!() };
                let sentences = source.matches(". ").count() + 1;
                assert!((4..=8).contains(&sentences), "{source}");
                assert!(!source.contains(['{', '}']) && !target.contains(['{', '}']), "{source} {target}");
                for word in TOWNS.iter().chain(&DAYS).chain(&TIMES) {
                    assert!(!target.contains(word) || source.contains(word), "{word}: {source} → {target}");
                }
                let number = |c: char| c.is_ascii_digit();
                let numbers = target.split(|c| !number(c)).filter(|n| !n.is_empty());
                assert!(numbers.into_iter().all(|n| source.contains(n)), "{source} → {target}");
                assert!(target.len() < source.len() && target.matches('.').count() == 1, "{target}");
            }
        }
    }
}
