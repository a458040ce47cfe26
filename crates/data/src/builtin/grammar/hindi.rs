//! Hindi: a sentence in words. The verb comes last; what English says before a noun, Hindi says after it.
//!
//! In the perfective past of transitive verbs the subject takes ने and the verb agrees with the object, unless the
//! object is marked too: लड़के ने किताब पढ़ी, but लड़के ने लड़की को देखा. A verb made of a noun and करना agrees with that
//! noun: मदद की.

use super::Gender::{self, M};
use super::hindi_words::{self as words, Agreement, Case, NEUTRAL, agreement, direct, marked};
use super::nouns::{At, Kind};
use super::verbs::Mark;
use super::{Ask, Clause, Deed, Determiner, Link, Modal, Np, Phrase, Predicate, Pronoun, Sentence, Tense, Where, line};

/// The sentence in Hindi.
pub(in super::super) fn sentence(sentence: &Sentence) -> String {
    match sentence {
        Sentence::One(c) => {
            let address = match c.subject {
                Np::Pronoun(Pronoun::Sir) => "श्रीमान, ",
                Np::Pronoun(Pronoun::Madam) => "श्रीमती जी, ",
                _ => "",
            };
            format!("{address}{}{}", clause(c), if c.ask == Ask::Nothing { "।" } else { "?" })
        }
        Sentence::Two(a, link, b) => {
            let link = match link {
                Link::And => " और ",
                Link::But => ", लेकिन ",
                Link::Because => " क्योंकि ",
            };
            format!("{}{link}{}।", clause(a), clause(b))
        }
    }
}

fn clause(c: &Clause) -> String {
    let owner = c.subject.owner();
    let time = c.time.map_or("", |t| t.hi);
    let place = c.place.map_or(String::new(), |p| at(&p, owner));
    let whether = if c.ask == Ask::Whether { "क्या" } else { "" };
    let not = if c.negative { "नहीं" } else { "" };
    let subject = || direct(&c.subject, None);
    let said = match &c.predicate {
        Predicate::Does(deed) => does(c, deed, time, &place),
        Predicate::Is(adjective) => {
            let a = agreement(&c.subject);
            line(&[&subject(), time, &words::adjective(adjective, a.gender, a.plural), not, &be(c.tense, a)])
        }
        Predicate::IsLike(what) => line(&[&subject(), time, what.hi, not, &be(c.tense, agreement(&c.subject))]),
        Predicate::IsAt(place) => {
            line(&[&subject(), time, &at(place, owner), not, &be(c.tense, agreement(&c.subject))])
        }
        Predicate::Exists(place) => {
            line(&[time, &at(place, None), &subject(), not, &be(c.tense, agreement(&c.subject))])
        }
        Predicate::Has(what) => {
            let holder = marked(&c.subject, "के पास", None, (M, true));
            let thing = Np::Phrase(*what);
            line(&[&holder, time, &place, &direct(&thing, owner), not, &be(c.tense, agreement(&thing))])
        }
        Predicate::Likes(what) => {
            let who = marked(&c.subject, "को", None, (M, false));
            let thing = Np::Phrase(*what);
            line(&[&who, time, &direct(&thing, owner), "पसंद", not, &be(c.tense, agreement(&thing))])
        }
    };
    line(&[whether, &said])
}

/// होना as a state.
fn be(tense: Tense, a: Agreement) -> String {
    match tense {
        Tense::Present => words::is(a).to_owned(),
        Tense::Future => words::future("हो", a),
        _ => words::was(a).to_owned(),
    }
}

fn does(c: &Clause, deed: &Deed, time: &str, place: &str) -> String {
    let owner = c.subject.owner();
    let owned = (deed.verb.host.and_then(|host| host.gender).unwrap_or(M), false);
    let object = deed.object.map_or(String::new(), |o| match marking(&o, deed) {
        Some(postposition) => marked(&o, postposition, owner, owned),
        None => direct(&o, owner),
    });
    let recipient = deed.recipient.map_or(String::new(), |r| marked(&r, "को", owner, owned));
    let goal = deed.goal.map_or(String::new(), |g| goal(&g, owner));
    let (often, manner) = (deed.often.map_or("", |o| o.hi), deed.manner.map_or("", |m| m.hi));
    let host = deed.verb.host.map_or("", |host| host.word);
    let (subject, asked) = match c.ask {
        Ask::Who => (String::new(), who(c, deed)),
        Ask::What => (subject(c, deed), "क्या"),
        Ask::Where => (subject(c, deed), "कहाँ"),
        Ask::When => (subject(c, deed), "कब"),
        Ask::Nothing | Ask::Whether => (subject(c, deed), ""),
    };
    // What is asked for stands before the verb, and before an adjective that makes the verb, but after a noun that does.
    let noun_host = deed.verb.host.is_some_and(|host| host.gender.is_some() && c.ask == Ask::Who);
    let (asked, host) = if noun_host { (host, asked) } else { (asked, host) };
    let verb = verb(c, deed);
    line(&[&subject, time, often, place, &recipient, &object, &goal, manner, asked, host, &verb])
}

/// The subject as the verb wants it: with ने, with को, or plain.
fn subject(c: &Clause, deed: &Deed) -> String {
    match subject_mark(c, deed) {
        Some(postposition) => marked(&c.subject, postposition, None, (M, false)),
        None => direct(&c.subject, None),
    }
}

fn subject_mark(c: &Clause, deed: &Deed) -> Option<&'static str> {
    match deed.modal {
        Some(Modal::Should) => Some("को"),
        Some(_) => None,
        None => (c.tense == Tense::Past && deed.verb.ergative).then_some("ने"),
    }
}

fn who(c: &Clause, deed: &Deed) -> &'static str {
    match subject_mark(c, deed) {
        Some("ने") => "किसने",
        Some(_) => "किसे",
        None => "कौन",
    }
}

/// The postposition of the object: people have को, animals when one knows which, things never.
fn marking(object: &Np, deed: &Deed) -> Option<&'static str> {
    match (deed.verb.mark, object) {
        (Mark::With(postposition), _) => Some(postposition),
        (Mark::Object, Np::Phrase(p)) => match p.noun.kind {
            Kind::Person | Kind::Kin | Kind::Elder => Some("को"),
            Kind::Animal if definite(p) => Some("को"),
            _ => None,
        },
        (Mark::Object, _) => Some("को"),
    }
}

fn definite(p: &Phrase) -> bool {
    !matches!(p.determiner, Determiner::A | Determiner::Bare | Determiner::Count(_) | Determiner::Many)
}

/// What a perfective verb or an infinitive agrees with when the subject is marked.
fn patient(deed: &Deed, asked: Ask) -> Agreement {
    if let Some(gender) = deed.verb.host.and_then(|host| host.gender) {
        return Agreement { gender, ..NEUTRAL };
    }
    match deed.object {
        Some(object) if asked != Ask::What && marking(&object, deed).is_none() => agreement(&object),
        _ => NEUTRAL,
    }
}

/// नहीं and the verb in its tense.
fn verb(c: &Clause, deed: &Deed) -> String {
    let stem = deed.verb.hi;
    let not = if c.negative { "नहीं" } else { "" };
    let a = if c.ask == Ask::Who { NEUTRAL } else { agreement(&c.subject) };
    let habit = |stem: &str| words::participle(&format!("{stem}ता"), a);
    let now = words::is(a);
    match (deed.modal, c.tense) {
        (Some(Modal::Want), _) => line(&[&format!("{stem}ना"), not, &habit("चाह"), now]),
        (Some(Modal::Can), _) => line(&[not, stem, &habit("सक"), now]),
        (Some(Modal::Should), _) => {
            line(&[not, &words::participle(&format!("{stem}ना"), patient(deed, c.ask)), "चाहिए"])
        }
        (None, Tense::Present) => line(&[not, &habit(stem), now]),
        (None, Tense::UsedTo) => line(&[not, &habit(stem), words::was(a)]),
        (None, Tense::Progressive) => line(&[not, stem, &words::participle("रहा", a), now]),
        (None, Tense::PastProgressive) => line(&[not, stem, &words::participle("रहा", a), words::was(a)]),
        (None, Tense::Future) => line(&[not, &words::future(stem, a)]),
        (None, Tense::Past) => {
            let ruler = if deed.verb.ergative { patient(deed, c.ask) } else { a };
            line(&[not, &words::perfective(stem, ruler)])
        }
    }
}

/// Where one goes: a house or town stands alone in the oblique, a room takes में.
fn goal(goal: &Where, owner: Option<Pronoun>) -> String {
    match goal {
        Where::At(p) => {
            let inside = if p.noun.kind == Kind::Place(At::Room) { "में" } else { "" };
            line(&[&words::phrase(p, Case::Oblique, owner), inside])
        }
        other => match other {
            Where::City(city) => city.hi.to_owned(),
            _ => at(other, owner),
        },
    }
}

fn at(place: &Where, owner: Option<Pronoun>) -> String {
    let of = |p: &Phrase, postposition: &str| marked(&Np::Phrase(*p), postposition, owner, (Gender::M, true));
    match place {
        Where::At(p) => match p.noun.kind {
            Kind::Place(At::Stop | At::Open) => of(p, "पर"),
            _ => of(p, "में"),
        },
        Where::On(p) => of(p, "पर"),
        Where::Under(p) => of(p, "के नीचे"),
        Where::Near(p) => of(p, "के पास"),
        Where::Behind(p) => of(p, "के पीछे"),
        Where::Front(p) => of(p, "के सामने"),
        Where::City(city) => line(&[city.hi, "में"]),
        Where::With(whom) => marked(whom, "के साथ", owner, (Gender::M, true)),
    }
}
