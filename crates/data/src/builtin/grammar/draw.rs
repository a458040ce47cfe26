//! Draws a sentence that makes sense: who can do what to what, in which tense, where and when.
//!
//! Which of them training may see is decided afterwards, by the words that are said: see [`super::pairs`].

use super::super::draw::Draw;
use super::adjectives::{ADJECTIVES, Adjective};
use super::nouns::{At, CITIES, Kind, NAMES, NOUNS, Noun};
use super::verbs::{Frame, MANNERS, Mark, OFTEN, TIMES, VERBS, Verb};
use super::{
    Ask, Clause, Deed, Determiner, Link, Modal, Np, Often, Phrase, Predicate, Pronoun, Sentence, Tense, Where,
};
use std::sync::LazyLock;

/// The sentence that `draw` gives.
pub(in super::super) fn sentence(draw: &mut Draw) -> Sentence {
    if draw.chance(12) {
        let link = draw.weighted(&[(3, Link::And), (4, Link::But), (3, Link::Because)]);
        let first = half(draw);
        return Sentence::Two(first, link, beside(draw, &first));
    }
    Sentence::One(match draw.below(100) {
        0..68 => doing(draw, true),
        68..80 => being(draw),
        80..86 => existing(draw),
        86..93 => having(draw),
        _ => liking(draw),
    })
}

/// A short statement, to stand beside another.
fn half(draw: &mut Draw) -> Clause {
    let mut clause = if draw.chance(75) { doing(draw, false) } else { being(draw) };
    clause.ask = Ask::Nothing;
    // There is no room for "sir" here, and without it "you" is a friend: draw again.
    if polite(&clause.subject) {
        return half(draw);
    }
    clause
}

/// A short statement about the same time as `first`.
fn beside(draw: &mut Draw, first: &Clause) -> Clause {
    let second = half(draw);
    let time = |clause: &Clause| match clause.tense {
        Tense::Past | Tense::UsedTo | Tense::PastProgressive => -1,
        Tense::Present | Tense::Progressive => 0,
        Tense::Future => 1,
    };
    if time(&second) != time(first) {
        return beside(draw, first);
    }
    second
}

fn polite(subject: &Np) -> bool {
    matches!(subject, Np::Pronoun(Pronoun::Sir | Pronoun::Madam))
}

/// Nouns, adjectives and verbs by kind, looked up once.
struct Index {
    by_kind: Vec<(Kind, Vec<&'static Noun>)>,
    fitting: Vec<(Kind, Vec<&'static Adjective>)>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut by_kind: Vec<(Kind, Vec<&'static Noun>)> = Vec::new();
    for noun in NOUNS {
        match by_kind.iter_mut().find(|(kind, _)| *kind == noun.kind) {
            Some((_, nouns)) => nouns.push(noun),
            None => by_kind.push((noun.kind, vec![noun])),
        }
    }
    let fitting =
        by_kind.iter().map(|(kind, _)| (*kind, ADJECTIVES.iter().filter(|a| a.of.contains(kind)).collect())).collect();
    Index { by_kind, fitting }
});

fn nouns(kind: Kind) -> &'static [&'static Noun] {
    INDEX.by_kind.iter().find(|(of, _)| *of == kind).map_or(&[], |(_, nouns)| nouns)
}

fn adjectives(kind: Kind) -> &'static [&'static Adjective] {
    INDEX.fitting.iter().find(|(of, _)| *of == kind).map_or(&[], |(_, adjectives)| adjectives)
}

/// A noun of one of these kinds, every noun as likely.
fn any(draw: &mut Draw, kinds: &[Kind]) -> &'static Noun {
    let mut left = draw.below(kinds.iter().map(|&kind| nouns(kind).len()).sum());
    for &kind in kinds {
        let found = nouns(kind);
        if left < found.len() {
            return found[left];
        }
        left -= found.len();
    }
    &NOUNS[0]
}

/// People one can call one's own.
const OURS: [&str; 8] = ["friend", "teacher", "neighbour", "doctor", "driver", "guest", "cook", "tailor"];
/// Places that can be one's own.
const HOMES: [&str; 6] = ["house", "room", "office", "garden", "shop", "kitchen"];

/// Who does it. Some verbs leave no room for animals.
pub(super) fn person(draw: &mut Draw) -> Np {
    match draw.below(100) {
        0..34 => Np::Pronoun(draw.weighted(&[
            (5, Pronoun::I),
            (4, Pronoun::You),
            (4, Pronoun::He),
            (4, Pronoun::She),
            (4, Pronoun::We),
            (2, Pronoun::All),
            (4, Pronoun::They),
            (1, Pronoun::Sir),
            (1, Pronoun::Madam),
        ])),
        34..46 => Np::Name(&NAMES[draw.below(NAMES.len())]),
        46..50 => {
            let first = draw.below(NAMES.len());
            let second = (first + 1 + draw.below(NAMES.len() - 1)) % NAMES.len();
            Np::Names(&NAMES[first], &NAMES[second])
        }
        50..62 => relative(draw, None),
        _ => {
            let noun = any(draw, &[Kind::Person]);
            Np::Phrase(phrase(draw, noun, None, 20))
        }
    }
}

/// Somebody's brother. `owner` is who is speaking of his own.
fn relative(draw: &mut Draw, owner: Option<Pronoun>) -> Np {
    let noun = any(draw, &[Kind::Kin, Kind::Elder]);
    let polite = owner.is_some_and(|own| polite(&Np::Pronoun(own)));
    let determiner = match (owner, draw.below(100)) {
        (Some(own), 0..60) => Determiner::Poss(own),
        (None, 0..75) => Determiner::Poss(draw.pick(&[
            Pronoun::I,
            Pronoun::I,
            Pronoun::You,
            Pronoun::He,
            Pronoun::She,
            Pronoun::We,
            Pronoun::They,
        ])),
        (_, 60..85) if !polite => Determiner::Poss(draw.pick(&[Pronoun::I, Pronoun::We])),
        _ => Determiner::Of(&NAMES[draw.below(NAMES.len())]),
    };
    let plural = noun.kind == Kind::Kin && draw.chance(20);
    Np::Phrase(Phrase { determiner, noun, adjective: None, plural })
}

/// A noun with a determiner that suits it and, `adjective` times in a hundred, an adjective.
fn phrase(draw: &mut Draw, noun: &'static Noun, owner: Option<Pronoun>, adjective: usize) -> Phrase {
    let determiner = determiner(draw, noun, owner);
    let plural = match determiner {
        Determiner::Count(_) | Determiner::Many => true,
        Determiner::A => false,
        _ if matches!(noun.kind, Kind::Mass | Kind::Drink) => false,
        Determiner::Bare => true,
        _ => draw.chance(if matches!(noun.kind, Kind::Place(_)) { 0 } else { 28 }),
    };
    let adjective = draw.chance(adjective).then(|| describe(draw, noun)).flatten();
    Phrase { determiner, noun, adjective, plural }
}

fn describe(draw: &mut Draw, noun: &Noun) -> Option<&'static Adjective> {
    let fitting = adjectives(noun.kind);
    if fitting.is_empty() {
        return None;
    }
    let adjective = draw.pick(fitting);
    Some(adjective)
}

fn determiner(draw: &mut Draw, noun: &Noun, owner: Option<Pronoun>) -> Determiner {
    let mine = [Determiner::Poss(Pronoun::I), Determiner::Poss(Pronoun::We)];
    match (noun.kind, draw.below(100)) {
        (Kind::Place(_), 0..70) => Determiner::The,
        (Kind::Place(_), 70..80) => Determiner::This,
        (Kind::Place(_), 80..84) => Determiner::A,
        (Kind::Place(_), _) => match owner {
            Some(own) if HOMES.contains(&noun.en) => Determiner::Poss(own),
            _ => Determiner::The,
        },
        (Kind::Mass | Kind::Drink, 0..50) => Determiner::Bare,
        (Kind::Mass | Kind::Drink, 50..88) => Determiner::The,
        (Kind::Mass | Kind::Drink, _) => Determiner::This,
        (Kind::Person, 0..12) if OURS.contains(&noun.en) => owner.map_or(draw.pick(&mine), Determiner::Poss),
        (Kind::Person | Kind::Animal, 0..55) => Determiner::The,
        (Kind::Person | Kind::Animal, 55..72) => Determiner::A,
        (Kind::Person | Kind::Animal, 72..80) => Determiner::This,
        (Kind::Person | Kind::Animal, 80..88) => Determiner::That,
        (Kind::Fruit | Kind::Food, 0..14) => Determiner::Bare,
        (Kind::Tree | Kind::Opening, 0..14) => Determiner::The,
        (_, 0..14) => owner.map_or(Determiner::The, Determiner::Poss),
        (_, 14..44) => Determiner::The,
        (_, 44..70) => Determiner::A,
        (_, 70..77) => Determiner::This,
        (_, 77..84) => Determiner::That,
        (Kind::Tree | Kind::Opening | Kind::Person, 84..90) => Determiner::The,
        (_, 84..90) => Determiner::Of(&NAMES[draw.below(NAMES.len())]),
        (_, 90..97) => Determiner::Count(draw.between(2, 5)),
        _ => Determiner::Many,
    }
}

/// What animals do, too.
const ANIMAL_VERBS: [&str; 8] = ["sleep", "run", "jump", "eat", "drink", "see", "follow", "fear"];

/// Somebody does something.
fn doing(draw: &mut Draw, whole: bool) -> Clause {
    let verb = &VERBS[draw.below(VERBS.len())];
    deed(draw, verb, whole)
}

/// Somebody does this.
pub(super) fn deed(draw: &mut Draw, verb: &'static Verb, whole: bool) -> Clause {
    let subject = if ANIMAL_VERBS.contains(&verb.en) && draw.chance(25) {
        let noun = any(draw, &[Kind::Animal]);
        Np::Phrase(phrase(draw, noun, None, 25))
    } else {
        person(draw)
    };
    let owner = subject.owner();
    let modal = (!verb.stative && owner.is_some() && draw.chance(15))
        .then(|| draw.pick(&[Modal::Want, Modal::Can, Modal::Should]));
    let tense = if modal.is_some() { Tense::Present } else { tense(draw, verb) };
    let negative = draw.chance(18);
    let ask = if whole { ask(draw, verb, &subject, modal) } else { Ask::Nothing };
    let negative = negative && matches!(ask, Ask::Nothing | Ask::Whether);
    let object = if ask == Ask::What { None } else { object(draw, verb, &subject) };
    let recipient = matches!(verb.frame, Frame::Gift(_)).then(|| recipient(draw, &subject));
    let goal = if ask == Ask::Where { None } else { goal(draw, verb, owner) };
    let often = (tense == Tense::Present && modal.is_none() && !verb.stative && !negative && draw.chance(15))
        .then(|| &OFTEN[draw.below(OFTEN.len())]);
    let plain = matches!(ask, Ask::Nothing | Ask::Whether) && !negative && often.is_none();
    let manner = if plain { manner(draw, verb, tense) } else { None };
    let mut clause = Clause {
        subject,
        predicate: Predicate::Does(Deed { verb, object, recipient, goal, modal, often, manner }),
        tense,
        negative,
        ask,
        time: None,
        place: None,
    };
    if whole {
        let short = recipient.is_none() && manner.is_none();
        let free = ask != Ask::Where && !verb.stative && goal.is_none() && short && verb.en != "travel";
        clause.place = (free && draw.chance(28)).then(|| place(draw, verb, &subject));
        let timely = ask != Ask::When && often.is_none() && modal.is_none() && !verb.stative;
        clause.time = (timely && draw.chance(35)).then(|| time(draw, tense)).flatten();
    }
    // "They read it" is now or then: only a time tells.
    if verb.past == verb.en && tense == Tense::Past && clause.time.is_none() {
        if ask == Ask::When {
            clause.ask = Ask::Whether;
        }
        clause.time = time(draw, tense);
    }
    clause
}

fn tense(draw: &mut Draw, verb: &Verb) -> Tense {
    if verb.stative {
        return draw.weighted(&[(3, Tense::Present), (1, Tense::UsedTo)]);
    }
    // One does not say "is seeing".
    let senses = matches!(verb.en, "see" | "hear");
    draw.weighted(&[
        (if senses { 15 } else { 8 }, Tense::Present),
        (if senses { 0 } else { 5 }, Tense::Progressive),
        (8, Tense::Past),
        (6, Tense::Future),
        (3, Tense::UsedTo),
        (if senses { 0 } else { 2 }, Tense::PastProgressive),
    ])
}

fn ask(draw: &mut Draw, verb: &Verb, subject: &Np, modal: Option<Modal>) -> Ask {
    if *subject == Np::Pronoun(Pronoun::I) {
        return Ask::Nothing; // nobody asks what he does himself
    }
    let pronoun = matches!(subject, Np::Pronoun(_));
    let alone = matches!(verb.frame, Frame::Alone | Frame::Goal);
    let asked = draw.weighted(&[
        (76, Ask::Nothing),
        (12, Ask::Whether),
        (3, Ask::Who),
        (3, Ask::What),
        (3, Ask::Where),
        (3, Ask::When),
    ]);
    match asked {
        Ask::Who if polite(subject) || modal.is_some() => Ask::Whether,
        // Things only, and only where Hindi leaves them unmarked.
        Ask::What if !matches!(verb.frame, Frame::Object(kinds) if things(kinds)) || verb.mark != Mark::Object => {
            Ask::Nothing
        }
        // A subject after a long object is heavy in Italian.
        Ask::Where | Ask::When if verb.stative || !(alone || pronoun) => Ask::Nothing,
        other => other,
    }
}

fn things(kinds: &[Kind]) -> bool {
    !kinds.iter().any(|kind| matches!(kind, Kind::Person | Kind::Kin | Kind::Elder | Kind::Animal))
}

fn object(draw: &mut Draw, verb: &'static Verb, subject: &Np) -> Option<Np> {
    let (Frame::Object(kinds) | Frame::Gift(kinds)) = verb.frame else { return None };
    let owner = subject.owner();
    if kinds.contains(&Kind::Person) && draw.chance(22) {
        return Some(other(draw, subject));
    }
    let noun = any(draw, kinds);
    if matches!(noun.kind, Kind::Kin | Kind::Elder) {
        return Some(relative(draw, owner.or(Some(Pronoun::I))));
    }
    Some(Np::Phrase(phrase(draw, noun, owner, 38)))
}

/// Somebody else than the subject, by name or pronoun.
fn other(draw: &mut Draw, subject: &Np) -> Np {
    let name = &NAMES[draw.below(NAMES.len())];
    let free: &[Pronoun] = match subject {
        Np::Pronoun(Pronoun::I | Pronoun::We) => &[Pronoun::You, Pronoun::He, Pronoun::She, Pronoun::They],
        Np::Pronoun(Pronoun::You | Pronoun::All | Pronoun::Sir | Pronoun::Madam) => {
            &[Pronoun::I, Pronoun::He, Pronoun::She, Pronoun::We, Pronoun::They]
        }
        _ => &[Pronoun::I, Pronoun::You, Pronoun::He, Pronoun::She, Pronoun::We, Pronoun::They],
    };
    let named = match subject {
        Np::Name(a) => a.en == name.en,
        Np::Names(a, b) => a.en == name.en || b.en == name.en,
        _ => false,
    };
    if named || draw.chance(70) { Np::Pronoun(draw.pick(free)) } else { Np::Name(name) }
}

fn recipient(draw: &mut Draw, subject: &Np) -> Np {
    match draw.below(100) {
        0..50 => other(draw, subject),
        50..65 => relative(draw, subject.owner()),
        _ => {
            let noun = any(draw, &[Kind::Person]);
            Np::Phrase(phrase(draw, noun, subject.owner(), 8))
        }
    }
}

/// Towns and places, but not roofs and beaches.
fn goal(draw: &mut Draw, verb: &Verb, owner: Option<Pronoun>) -> Option<Where> {
    if verb.frame != Frame::Goal {
        return None;
    }
    if verb.en != "arrive" && draw.chance(30) {
        return Some(Where::City(&CITIES[draw.below(CITIES.len())]));
    }
    let kinds = [At::Room, At::House, At::Fair, At::Stop].map(Kind::Place);
    let noun = any(draw, &kinds);
    Some(Where::At(phrase(draw, noun, owner, 12)))
}

/// How it is done. What is going on just now is not going on *a lot*.
fn manner(draw: &mut Draw, verb: &Verb, tense: Tense) -> Option<&'static Often> {
    let going_on = matches!(tense, Tense::Progressive | Tense::PastProgressive);
    let suits: &[usize] = match verb.en {
        "walk" | "swim" | "dance" => &[0, 1],
        "work" | "study" | "cry" => &[1, 2],
        "sleep" | "laugh" | "play" | "travel" | "run" => &[1],
        "rest" => &[2],
        _ => return None,
    };
    let manner = &MANNERS[draw.pick(suits)];
    (draw.chance(35) && !(going_on && manner.en == "a lot")).then_some(manner)
}

/// Where something happens.
fn place(draw: &mut Draw, verb: &Verb, subject: &Np) -> Where {
    let owner = subject.owner();
    let human = owner.is_some();
    match draw.below(100) {
        0..20 if human && verb.frame == Frame::Alone => match relative_or_friend(draw, owner) {
            Some(whom) => Where::With(whom),
            None => Where::City(&CITIES[draw.below(CITIES.len())]),
        },
        0..12 if human => Where::City(&CITIES[draw.below(CITIES.len())]),
        12..22 => Where::Under(the(&NOUNS[tree()])),
        22..30 => Where::Near(spot(draw, None, 0)),
        30..38 => Where::Behind(building(draw)),
        38..46 => Where::Front(building(draw)),
        _ => Where::At(spot(draw, owner, 14)),
    }
}

fn relative_or_friend(draw: &mut Draw, owner: Option<Pronoun>) -> Option<Np> {
    draw.chance(70).then(|| relative(draw, owner))
}

fn tree() -> usize {
    NOUNS.iter().position(|noun| noun.en == "tree").unwrap_or(0)
}

fn the(noun: &'static Noun) -> Phrase {
    Phrase { determiner: Determiner::The, noun, adjective: None, plural: false }
}

fn spot(draw: &mut Draw, owner: Option<Pronoun>, adjective: usize) -> Phrase {
    let noun = any(draw, &[At::Room, At::House, At::Fair, At::Stop, At::Open].map(Kind::Place));
    phrase(draw, noun, owner, adjective)
}

fn building(draw: &mut Draw) -> Phrase {
    let noun = any(draw, &[At::House, At::Fair].map(Kind::Place));
    the(noun)
}

fn time(draw: &mut Draw, tense: Tense) -> Option<&'static super::Time> {
    let suits = || TIMES.iter().filter(|time| time.tenses.contains(&tense));
    match suits().count() {
        0 => None,
        n => suits().nth(draw.below(n)),
    }
}

const STATES: [(usize, Tense); 3] = [(6, Tense::Present), (3, Tense::Past), (2, Tense::Future)];

fn statement(subject: Np, predicate: Predicate, tense: Tense) -> Clause {
    Clause { subject, predicate, tense, negative: false, ask: Ask::Nothing, time: None, place: None }
}

pub(super) fn whether(draw: &mut Draw, subject: &Np) -> Ask {
    if *subject != Np::Pronoun(Pronoun::I) && draw.chance(15) { Ask::Whether } else { Ask::Nothing }
}

/// Somebody or something is big, or somewhere.
fn being(draw: &mut Draw) -> Clause {
    let tense = draw.weighted(&STATES);
    let mut clause = if draw.chance(70) {
        let (subject, kind) = described(draw);
        let adjective = draw.pick(adjectives(kind));
        statement(subject, Predicate::Is(adjective), tense)
    } else {
        located(draw, tense)
    };
    clause.negative = draw.chance(18);
    clause.ask = whether(draw, &clause.subject);
    clause
}

/// A subject, and the kind whose adjectives suit it.
fn described(draw: &mut Draw) -> (Np, Kind) {
    if draw.chance(40) {
        let plain = match person(draw) {
            Np::Phrase(p) => Np::Phrase(Phrase { adjective: None, ..p }),
            other => other,
        };
        return (plain, Kind::Kin);
    }
    let kinds = [
        Kind::Animal,
        Kind::Fruit,
        Kind::Food,
        Kind::Mass,
        Kind::Drink,
        Kind::Text,
        Kind::Song,
        Kind::Cloth,
        Kind::Thing,
        Kind::Fragile,
        Kind::Furniture,
        Kind::Opening,
        Kind::Car,
        Kind::Ride,
        Kind::Tree,
        Kind::Place(At::Room),
        Kind::Place(At::House),
        Kind::Place(At::Fair),
    ];
    let noun = any(draw, &kinds);
    let speaker = Some(draw.pick(&[Pronoun::I, Pronoun::You, Pronoun::He, Pronoun::She, Pronoun::We, Pronoun::They]));
    let mut p = phrase(draw, noun, speaker, 0);
    if matches!(p.determiner, Determiner::A | Determiner::Bare | Determiner::Many) {
        p = Phrase { determiner: Determiner::The, plural: false, ..p };
    }
    (Np::Phrase(p), noun.kind)
}

fn located(draw: &mut Draw, tense: Tense) -> Clause {
    if draw.chance(50) {
        let subject = person(draw);
        let owner = subject.owner();
        return statement(subject, Predicate::IsAt(Where::At(spot(draw, owner, 10))), tense);
    }
    let noun = any(draw, &[Kind::Thing, Kind::Text, Kind::Print, Kind::Cloth, Kind::Fragile]);
    let p = phrase(draw, noun, Some(Pronoun::I), 20);
    let p = if matches!(p.determiner, Determiner::A | Determiner::Many) {
        Phrase { determiner: Determiner::The, plural: false, ..p }
    } else {
        p
    };
    statement(Np::Phrase(p), Predicate::IsAt(surface(draw)), tense)
}

fn surface(draw: &mut Draw) -> Where {
    let noun = any(draw, &[Kind::Furniture]);
    match (noun.en, draw.below(3)) {
        ("carpet", _) => Where::On(the(noun)),
        (_, 0) => Where::Under(the(noun)),
        _ => Where::On(the(noun)),
    }
}

/// There is something somewhere.
fn existing(draw: &mut Draw) -> Clause {
    let small = draw.chance(60);
    let noun = if small {
        any(draw, &[Kind::Thing, Kind::Text, Kind::Fragile, Kind::Fruit, Kind::Food, Kind::Cloth])
    } else {
        any(draw, &[Kind::Person, Kind::Animal])
    };
    let (determiner, plural) = match draw.below(10) {
        0..6 => (Determiner::A, false),
        6..9 => (Determiner::Count(draw.between(2, 5)), true),
        _ => (Determiner::Many, true),
    };
    let adjective = draw.chance(25).then(|| describe(draw, noun)).flatten();
    let place = if small { surface(draw) } else { Where::At(spot(draw, None, 10)) };
    let tense = draw.weighted(&STATES[..2]);
    let subject = Np::Phrase(Phrase { determiner, noun, adjective, plural });
    let mut clause = statement(subject, Predicate::Exists(place), tense);
    clause.ask = whether(draw, &clause.subject);
    clause
}

/// Somebody has something.
fn having(draw: &mut Draw) -> Clause {
    let subject = person(draw);
    let noun = any(
        draw,
        &[Kind::Thing, Kind::Text, Kind::Cloth, Kind::Car, Kind::Ride, Kind::Fruit, Kind::Food, Kind::Animal],
    );
    let (determiner, plural) = match draw.below(10) {
        0..6 => (Determiner::A, false),
        6..9 => (Determiner::Count(draw.between(2, 5)), true),
        _ => (Determiner::Many, true),
    };
    let adjective = draw.chance(35).then(|| describe(draw, noun)).flatten();
    let tense = draw.weighted(&STATES);
    let mut clause = statement(subject, Predicate::Has(Phrase { determiner, noun, adjective, plural }), tense);
    clause.negative = determiner == Determiner::A && draw.chance(15);
    clause.ask = whether(draw, &clause.subject);
    clause
}

/// Somebody likes something.
fn liking(draw: &mut Draw) -> Clause {
    let subject = person(draw);
    let kinds = [
        Kind::Text,
        Kind::Song,
        Kind::Cloth,
        Kind::Thing,
        Kind::Car,
        Kind::Fruit,
        Kind::Food,
        Kind::Drink,
        Kind::Animal,
    ];
    let noun = any(draw, &kinds);
    let mut what = phrase(draw, noun, subject.owner(), 30);
    if matches!(what.determiner, Determiner::A | Determiner::Bare | Determiner::Many | Determiner::Count(_)) {
        what.determiner = Determiner::The;
    }
    let tense = draw.weighted(&[(4, Tense::Present), (1, Tense::UsedTo)]);
    let mut clause = statement(subject, Predicate::Likes(what), tense);
    clause.negative = draw.chance(20);
    clause.ask = whether(draw, &clause.subject);
    clause
}
