//! Short stories: somebody wants something, it goes wrong, it is looked for, somebody helps, and all ends in some way.
//!
//! What is said first stays true: the hero keeps name and pronoun, the thing its name, the helper helps with that thing
//! in that place. A language model has to carry these along to go on well.

use super::draw::Draw;
use super::world::FIRST;
use crate::Example;

/// A person in a story, with the words that take them up.
#[derive(Clone, Copy)]
struct Person {
    name: &'static str,
    she: bool,
}

impl Person {
    fn subject(self) -> &'static str {
        if self.she { "she" } else { "he" }
    }
    fn start(self) -> &'static str {
        if self.she { "She" } else { "He" }
    }
    fn object(self) -> &'static str {
        if self.she { "her" } else { "him" }
    }
    fn own(self) -> &'static str {
        if self.she { "her" } else { "his" }
    }
}

const TRAITS: [&str; 8] = ["curious", "quiet", "brave", "cheerful", "shy", "clever", "stubborn", "kind"];
const HOMES: [&str; 8] = [
    "in a small village",
    "in an old house by the river",
    "in a tall tower",
    "in a busy town",
    "on a farm",
    "in a cottage near the sea",
    "in a house full of books",
    "on a boat",
];
const THINGS: [&str; 12] = [
    "red kite",
    "wooden flute",
    "silver key",
    "blue lantern",
    "little drum",
    "green umbrella",
    "toy boat",
    "old map",
    "glass marble",
    "woollen hat",
    "yellow bell",
    "paper crown",
];
const GIVERS: [&str; 4] = ["grandmother", "uncle", "best friend", "teacher"];
const PLACES: [&str; 10] = [
    "in the garden",
    "under the bridge",
    "by the well",
    "at the market",
    "behind the barn",
    "in the tall grass",
    "near the mill",
    "on the beach",
    "under the old oak",
    "in the attic",
];
const WEATHER: [&str; 6] = ["sunny", "windy", "rainy", "cold", "foggy", "warm"];
const ANIMALS: [&str; 8] = ["crow", "goat", "fox", "hedgehog", "cat", "duck", "squirrel", "dog"];

pub(super) fn example(draw: &mut Draw) -> Example {
    let (hero, friend) = draw.two(&FIRST);
    let [hero, friend] = [hero, friend].map(|(name, she)| Person { name, she });
    let thing = draw.pick(&THINGS);
    draw.join(hero.name, thing);
    let (lost, found) = draw.two(&PLACES);
    let mut story = opening(draw, hero, thing);
    let animal = draw.pick(&ANIMALS);
    story.extend(trouble(draw, hero, thing, lost, animal));
    story.extend(search(draw, hero, friend, thing, found, lost));
    story.extend(ending(draw, hero, friend, thing, found, animal));
    Example::Text(story.join(" "))
}

fn opening(draw: &mut Draw, hero: Person, thing: &str) -> Vec<String> {
    let (name, he) = (hero.name, hero.start());
    let (home, nature) = (draw.pick(&HOMES), draw.pick(&TRAITS));
    let mut out = vec![match draw.below(3) {
        0 => format!(
            "Once there was a {nature} {} called {name} who lived {home}.",
            if hero.she { "girl" } else { "boy" }
        ),
        1 => format!("{name} lived {home}."),
        _ => format!("Far away, {home}, lived a {nature} {} named {name}.", if hero.she { "girl" } else { "boy" }),
    }];
    let giver = draw.pick(&GIVERS);
    out.push(match draw.below(3) {
        0 => format!("{he} had {} {thing} that {} {giver} had given {}.", a(thing), hero.own(), hero.object()),
        1 => format!("{he} loved {} {thing} more than anything.", hero.own()),
        _ => format!(
            "On {} birthday {} got {} {thing} from {} {giver}.",
            hero.own(),
            hero.subject(),
            a(thing),
            hero.own()
        ),
    });
    if draw.chance(40) {
        out.push(format!("Every morning {name} took the {thing} along."));
    }
    out
}

/// *an* old map, *a* red kite
fn a(thing: &str) -> &'static str {
    if thing.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

fn trouble(draw: &mut Draw, hero: Person, thing: &str, lost: &str, animal: &str) -> Vec<String> {
    let name = hero.name;
    let mut out = vec![format!("One {} day {name} was playing {lost}.", draw.pick(&WEATHER))];
    out.push(match draw.below(3) {
        0 => format!("A {animal} came, took the {thing} and ran away."),
        1 => format!("Suddenly the {thing} was gone, and only a {animal} was there."),
        _ => format!(
            "When {} heard a {animal}, {} dropped the {thing} and lost sight of it.",
            hero.subject(),
            hero.subject()
        ),
    });
    if draw.chance(50) {
        out.push(format!("{} was very {}.", hero.start(), draw.pick(&["sad", "worried", "upset"])));
    }
    out
}

fn search(draw: &mut Draw, hero: Person, friend: Person, thing: &str, found: &str, lost: &str) -> Vec<String> {
    let mut out = Vec::new();
    if draw.chance(60) {
        let mut elsewhere = draw.pick(&PLACES);
        while elsewhere == found || elsewhere == lost {
            elsewhere = draw.pick(&PLACES);
        }
        out.push(format!("{} looked {elsewhere}, but the {thing} was not there.", hero.start()));
    }
    out.push(format!("Then {} met {}.", hero.subject(), friend.name));
    if draw.chance(50) {
        out.push(format!("\"Have you seen my {thing}?\" asked {}.", hero.name));
        if draw.chance(50) {
            out.push(format!("\"No, but I will help you,\" said {}.", friend.name));
        }
    } else {
        out.push(format!("{} offered to help {}.", friend.name, hero.object()));
    }
    out
}

fn ending(draw: &mut Draw, hero: Person, friend: Person, thing: &str, found: &str, animal: &str) -> Vec<String> {
    let mut out = vec![match draw.below(3) {
        0 => format!("Together they found the {thing} {found}."),
        1 => format!("It was {} who saw the {thing} {found}.", friend.name),
        _ => format!("At last they came upon the {animal}, and beside it, {found}, lay the {thing}."),
    }];
    out.push(match draw.below(4) {
        0 => format!("{} thanked {} and went home happy.", hero.name, friend.name),
        1 => format!("From that day on {} and {} were friends.", hero.name, friend.name),
        2 => {
            format!("{} was so glad that {} let {} keep the {thing} for a day.", hero.name, hero.subject(), friend.name)
        }
        _ => format!("{} never left {} {thing} alone again.", hero.name, hero.own()),
    });
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn stories_are_five_to_twelve_sentences_about_one_thing() {
        for example in Corpus::Stories.examples(1, Split::Train).take(1000) {
            let Example::Text(text) = example else { panic!() };
            let sentences = text.matches('.').count();
            assert!((5..=12).contains(&sentences), "{sentences}: {text}");
            let things: Vec<_> = THINGS.iter().filter(|thing| text.contains(**thing)).collect();
            assert_eq!(things.len(), 1, "{text}");
            let people = FIRST
                .iter()
                .filter(|(name, _)| text.contains(&format!("{name} ")) || text.contains(&format!("{name}.")));
            assert!(people.count() >= 1, "{text}");
        }
    }

    #[test]
    fn pronouns_are_the_heros() {
        for example in Corpus::Stories.examples(3, Split::Train).take(1000) {
            let Example::Text(text) = example else { panic!() };
            let words: HashSet<&str> = text.split([' ', '.', ',', '"', '?']).collect();
            let told = FIRST.iter().filter(|(name, _)| words.contains(name));
            let (women, men) = told.fold((0, 0), |(w, m), (_, she)| if *she { (w + 1, m) } else { (w, m + 1) });
            let she = ["she", "She", "her"].iter().any(|word| words.contains(word));
            let he = ["he", "He", "him", "his"].iter().any(|word| words.contains(word));
            assert!(!(she && he), "two kinds of pronouns: {text}");
            assert!(!she || women > 0, "{text}");
            assert!(!he || men > 0, "{text}");
        }
    }
}
