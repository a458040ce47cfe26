//! Idioms: *a piece of cake* is not *un pezzo di torta* but *un gioco da ragazzi*, unless somebody eats it.
//!
//! An idiom is a verb with a tail that is said of a person (*kick* + *the bucket*), or what something is (*is* + *a piece of
//! cake*); subject, tense, negation and question come from the grammar. Beside them stand sentences in which the same words
//! mean what they say (*to buy the beans*), and sentences of the grammar as they are. Held out: which idiom is said of whom.

use super::super::draw::Draw;
use super::Gender::{F, M};
use super::nouns::{Kind, Noun, noun};
use super::verbs::{Frame, Often, VERBS, Verb, verb};
use super::{Ask, Clause, Deed, Determiner, Np, Phrase, Predicate, Sentence, Tense, draw as plain};

/// What follows the verb, in both languages.
const fn tail(en: &'static str, it: &'static str) -> Often {
    Often { en, it, hi: "" }
}

const fn alone(en: &'static str, past: &'static str, it: &'static str) -> Verb {
    verb(en, past, it, "", Frame::Alone)
}

/// *Andare* takes *essere* in the past, as verbs with a goal do.
const fn going(en: &'static str, past: &'static str) -> Verb {
    verb(en, past, "andare", "", Frame::Goal)
}

/// What people do, in words that mean something else.
static DOING: [(Verb, Often); 16] = [
    (alone("kick", "", "tirare"), tail("the bucket", "le cuoia")),
    (alone("spill", "", "vuotare"), tail("the beans", "il sacco")),
    (going("hit", "hit"), tail("the sack", "a letto")),
    (alone("fly", "flew", "perdere"), tail("off the handle", "le staffe")),
    (alone("beat", "beat", "menare"), tail("around the bush", "il can per l'aia")),
    (alone("bite", "bit", "stringere"), tail("the bullet", "i denti")),
    (alone("throw", "threw", "gettare"), tail("in the towel", "la spugna")),
    (alone("sleep", "slept", "dormire"), tail("like a log", "come un ghiro")),
    (alone("eat", "ate", "mangiare"), tail("like a horse", "come un lupo")),
    (alone("drink", "drank", "bere"), tail("like a fish", "come una spugna")),
    (alone("walk", "", "toccare"), tail("on air", "il cielo con un dito")),
    (going("see", "saw"), tail("red", "su tutte le furie")),
    (alone("turn", "", "voltare"), tail("over a new leaf", "pagina")),
    (alone("play", "", "scherzare"), tail("with fire", "col fuoco")),
    (alone("smell", "", "sentire"), tail("a rat", "puzza di bruciato")),
    (alone("call", "", "finire"), tail("it a day", "di lavorare")),
];

/// What people are.
static BEING: [Often; 4] = [
    tail("over the moon", "al settimo cielo"),
    tail("all ears", "tutt'orecchi"),
    tail("under the weather", "giù di corda"),
    tail("in hot water", "nei guai"),
];

/// What a task is.
static TASK: [Often; 5] = [
    tail("a piece of cake", "un gioco da ragazzi"),
    tail("a pain in the neck", "una seccatura"),
    tail("the last straw", "la goccia che fa traboccare il vaso"),
    tail("up in the air", "in alto mare"),
    tail("a shot in the dark", "un salto nel buio"),
];

static TASKS: [Noun; 7] = [
    noun(Kind::Text, ("exam", "", "esame", M, "", "", M)),
    noun(Kind::Text, ("exercise", "", "esercizio", M, "", "", M)),
    noun(Kind::Text, ("lesson", "", "lezione", F, "", "", M)),
    noun(Kind::Text, ("question", "", "domanda", F, "", "", M)),
    noun(Kind::Text, ("job", "", "lavoro", M, "", "", M)),
    noun(Kind::Text, ("journey", "", "viaggio", M, "", "", M)),
    noun(Kind::Text, ("test", "", "prova", F, "", "", M)),
];

/// The words of the idioms as things that one can eat or buy.
static THINGS: [(&[&str], Noun); 8] = [
    (
        &["eat", "buy", "prepare", "choose"],
        noun(Kind::Food, ("piece of cake", "pieces of cake", "pezzo di torta", M, "pezzi di torta", "", M)),
    ),
    (&["eat", "buy", "cook", "wash"], noun(Kind::Food, ("bean", "", "fagiolo", M, "", "", M))),
    (&["buy", "wash", "clean", "lift"], noun(Kind::Thing, ("bucket", "", "secchio", M, "", "", M))),
    (&["buy", "wash", "hide", "take"], noun(Kind::Thing, ("towel", "", "asciugamano", M, "", "", M))),
    (&["buy", "hide", "take"], noun(Kind::Thing, ("bullet", "", "proiettile", M, "", "", M))),
    (&["choose", "take", "photograph"], noun(Kind::Thing, ("leaf", "leaves", "foglia", F, "", "", M))),
    (&["see", "follow", "catch"], noun(Kind::Animal, ("rat", "", "ratto", M, "", "", M))),
    (&["see", "buy", "catch"], noun(Kind::Animal, ("fish", "fishes", "pesce", M, "", "", M))),
];

/// A sentence, in seven of ten cases with an idiom.
pub(in super::super) fn sentence(draw: &mut Draw) -> Sentence {
    match draw.below(10) {
        0..4 => Sentence::One(doing(draw)),
        4 => Sentence::One(being(draw)),
        5..7 => Sentence::One(task(draw)),
        7 => Sentence::One(word_by_word(draw)),
        _ => super::sentence(draw),
    }
}

fn doing(draw: &mut Draw) -> Clause {
    let (verb, tail) = &DOING[draw.below(DOING.len())];
    let mut clause = plain::deed(draw, verb, true);
    if let Predicate::Does(deed) = &mut clause.predicate {
        *deed = Deed {
            verb,
            manner: Some(tail),
            object: None,
            recipient: None,
            goal: None,
            modal: deed.modal,
            often: None,
        };
    }
    if !matches!(clause.ask, Ask::Nothing | Ask::Whether) {
        clause.ask = Ask::Nothing;
    }
    clause.place = None;
    said_of(draw, &clause.subject, tail.en);
    clause
}

fn being(draw: &mut Draw) -> Clause {
    let what = &BEING[draw.below(BEING.len())];
    let subject = match plain::person(draw) {
        Np::Phrase(p) => Np::Phrase(Phrase { adjective: None, ..p }),
        other => other,
    };
    said_of(draw, &subject, what.en);
    is(draw, subject, what)
}

fn task(draw: &mut Draw) -> Clause {
    let what = &TASK[draw.below(TASK.len())];
    let noun = &TASKS[draw.below(TASKS.len())];
    let determiner = draw.pick(&[Determiner::The, Determiner::The, Determiner::This, Determiner::That]);
    let subject = Np::Phrase(Phrase { determiner, noun, adjective: None, plural: draw.chance(30) });
    said_of(draw, &subject, what.en);
    is(draw, subject, what)
}

fn is(draw: &mut Draw, subject: Np, what: &'static Often) -> Clause {
    let tense = draw.weighted(&[(4, Tense::Present), (3, Tense::Past), (2, Tense::Future)]);
    let ask = plain::whether(draw, &subject);
    Clause {
        subject,
        predicate: Predicate::IsLike(what),
        tense,
        negative: draw.chance(20),
        ask,
        time: None,
        place: None,
    }
}

/// The same words, meaning what they say.
fn word_by_word(draw: &mut Draw) -> Clause {
    let (verbs, noun) = &THINGS[draw.below(THINGS.len())];
    let wanted = draw.pick(verbs);
    let verb = VERBS.iter().find(|v| v.en == wanted).unwrap_or(&VERBS[0]);
    let mut clause = plain::deed(draw, verb, true);
    let determiner = draw.pick(&[Determiner::The, Determiner::A, Determiner::This, Determiner::Count(2)]);
    let plural = matches!(determiner, Determiner::Count(_)) || determiner != Determiner::A && draw.chance(30);
    if let Predicate::Does(deed) = &mut clause.predicate {
        deed.object = Some(Np::Phrase(Phrase { determiner, noun, adjective: None, plural }));
    }
    if clause.ask == Ask::What {
        clause.ask = Ask::Whether;
    }
    draw.join(verb.en, noun.en);
    clause
}

/// Notes of whom an idiom is said.
fn said_of(draw: &mut Draw, subject: &Np, idiom: &str) {
    match subject {
        Np::Phrase(p) => draw.join(p.noun.en, idiom),
        Np::Name(name) => draw.join(name.en, idiom),
        Np::Pronoun(_) | Np::Names(..) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Corpus, Split};
    use super::*;
    use crate::Example;
    use std::collections::HashMap;

    #[test]
    fn every_literal_verb_is_one_of_the_grammar() {
        for (verbs, noun) in &THINGS {
            assert!(verbs.iter().all(|wanted| VERBS.iter().any(|v| v.en == *wanted)), "{}", noun.en);
        }
    }

    fn pairs(n: u64) -> impl Iterator<Item = (String, String)> {
        (0..n).map(|i| match Corpus::Idioms.example(1, Split::Train, i) {
            Example::Pair { source, target } => (source, target),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_sentence_has_one_translation_whether_it_is_an_idiom_or_not() {
        let mut known: HashMap<String, String> = HashMap::new();
        let (mut idiom, mut eaten) = (0, 0);
        for (source, target) in pairs(20_000) {
            assert_eq!(known.entry(source.clone()).or_insert_with(|| target.clone()), &target, "{source}");
            if source.contains("piece of cake") || source.contains("pieces of cake") {
                let figure = target.contains("gioco da ragazzi");
                assert!(figure || target.contains("di torta"), "{source}: {target}");
                idiom += u32::from(figure);
                eaten += u32::from(!figure);
            }
        }
        assert!(idiom > 200 && eaten > 50, "{idiom} and {eaten}");
    }

    #[test]
    fn the_verb_bends_and_the_tail_does_not() {
        let all: HashMap<String, String> = pairs(60_000).collect();
        for (english, italian) in [
            ("She kicked the bucket.", "Lei ha tirato le cuoia."),
            ("She hit the sack yesterday.", "Lei è andata a letto ieri."),
            ("I will spill the beans.", "Vuoterò il sacco."),
            ("The exam was a piece of cake.", "L'esame era un gioco da ragazzi."),
        ] {
            assert_eq!(all.get(english).map(String::as_str), Some(italian), "{english}");
        }
        for tail in DOING.iter().map(|(_, tail)| tail).chain(&BEING).chain(&TASK) {
            assert!(all.iter().any(|(s, t)| s.contains(tail.en) && t.contains(tail.it)), "{}", tail.en);
        }
    }
}
