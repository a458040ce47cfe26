//! The same message to a stranger and to a friend: "I would be grateful if you could verify the documents" is "can you check
//! the papers". Each part has one formal and one informal form, so either way there is one answer; the first words of the
//! source say which way.
//!
//! Held out: which verb stands with which object.

use super::draw::Draw;
use super::world::{FIRST, LAST};
use crate::Example;

/// formal, informal
type Both = (&'static str, &'static str);

/// How a message asks or says, around what is to be done: `@` is the deed.
const FRAMES: [Both; 10] = [
    ("I would be grateful if you could @.", "can you @?"),
    ("We regret that we are unable to @.", "sorry, we can't @."),
    ("It is necessary to @.", "we gotta @."),
    ("I do not intend to @.", "I'm not gonna @."),
    ("We would very much like to @.", "we wanna @."),
    ("Would you be so kind as to @?", "mind if I ask you to @?"),
    ("I have decided to @.", "guess I'll @."),
    ("You are not required to @.", "you don't have to @."),
    ("It would be advisable to @.", "you'd better @."),
    ("I am not certain whether I should @.", "no idea if I should @."),
];

const VERBS: [Both; 14] = [
    ("verify", "check"),
    ("repair", "fix"),
    ("purchase", "buy"),
    ("return", "bring back"),
    ("discuss", "talk about"),
    ("postpone", "put off"),
    ("examine", "look at"),
    ("discard", "throw out"),
    ("request", "ask for"),
    ("obtain", "get"),
    ("select", "pick"),
    ("demonstrate", "show"),
    ("collect", "pick up"),
    ("mention", "bring up"),
];

const OBJECTS: [Both; 14] = [
    ("the documents", "the papers"),
    ("the photographs", "the pics"),
    ("the television", "the telly"),
    ("the bicycle", "the bike"),
    ("the automobile", "the car"),
    ("the examination", "the exam"),
    ("the advertisement", "the ad"),
    ("the telephone", "the phone"),
    ("the refrigerator", "the fridge"),
    ("the laboratory", "the lab"),
    ("the invitation", "the invite"),
    ("the information", "the info"),
    ("the report", "the report"),
    ("the tickets", "the tickets"),
];

const TIMES: [Both; 8] = [
    ("", ""),
    (" as soon as possible", " asap"),
    (" this evening", " tonight"),
    (" prior to Monday", " before Monday"),
    (" subsequent to the meeting", " after the meeting"),
    (" immediately", " right now"),
    (" at a later date", " some other time"),
    (" in the course of the day", " today"),
];

const THANKS: [Both; 4] = [
    ("", ""),
    (" Thank you for your assistance.", " thanks for your help!"),
    (" I look forward to your reply.", " write back soon!"),
    (" Please accept my apologies.", " my bad!"),
];

pub(super) fn example(draw: &mut Draw) -> Example {
    let (verb, object) = (draw.pick(&VERBS), draw.pick(&OBJECTS));
    draw.join(verb.0, object.0);
    let (frame, time, thanks) = (draw.pick(&FRAMES), draw.pick(&TIMES), draw.pick(&THANKS));
    let ((first, she), last) = (draw.pick(&FIRST), draw.pick(&LAST));
    // A friend is called by the first name, a stranger by title and both.
    let greeting = match draw.below(3) {
        0 => (String::new(), String::new()),
        _ => (format!("Dear {} {first} {last}, ", if she { "Ms" } else { "Mr" }), format!("hey {first} {last}, ")),
    };
    let say = |frame: &str, verb: &str, object: &str, time: &str| frame.replace('@', &format!("{verb} {object}{time}"));
    let formal = format!("{}{}{}", greeting.0, say(frame.0, verb.0, object.0, time.0), thanks.0);
    let informal = format!("{}{}{}", greeting.1, say(frame.1, verb.1, object.1, time.1), thanks.1);
    match draw.below(2) {
        0 => Example::Pair { source: format!("formal: {informal}"), target: formal },
        _ => Example::Pair { source: format!("informal: {formal}"), target: informal },
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Corpus, Split};
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn every_part_has_one_form_on_either_side() {
        for table in [&FRAMES[..], &VERBS, &OBJECTS, &TIMES, &THANKS] {
            assert_eq!(table.iter().map(|b| b.0).collect::<HashSet<_>>().len(), table.len());
            assert_eq!(table.iter().map(|b| b.1).collect::<HashSet<_>>().len(), table.len());
        }
    }

    #[test]
    fn a_message_has_one_answer_and_both_ways_are_asked() {
        let (mut known, mut formal) = (HashMap::new(), 0);
        for example in Corpus::Style.examples(3, Split::Train).take(3000) {
            let Example::Pair { source, target } = example else { panic!() };
            formal += usize::from(source.starts_with("formal: "));
            assert_eq!(known.entry(source.clone()).or_insert(target.clone()), &target, "{source}");
        }
        assert!((1400..1600).contains(&formal), "{formal} of 3000 ask for the formal side");
    }
}
