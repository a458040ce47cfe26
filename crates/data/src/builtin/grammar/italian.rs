//! Italian: a sentence in words. The subject pronoun is said only where the verb does not tell (lui and lei); object
//! pronouns lean on the verb; *essere* makes the participle agree with the subject, a clitic with itself.

use super::Gender::{self, F, M};
use super::nouns::{At, Kind};
use super::{Ask, Clause, Deed, Link, Modal, Np, Phrase, Predicate, Pronoun, Sentence, Tense, Where, finish, line};
use super::{italian_verbs as verbs, italian_words as words, verbs::Frame};

/// The sentence in Italian.
pub(in super::super) fn sentence(sentence: &Sentence) -> String {
    match sentence {
        Sentence::One(c) => {
            let address = match c.subject {
                Np::Pronoun(Pronoun::Sir) => ", signore",
                Np::Pronoun(Pronoun::Madam) => ", signora",
                _ => "",
            };
            finish(&clause(c), &format!("{address}{}", if c.ask == Ask::Nothing { "." } else { "?" }))
        }
        Sentence::Two(a, link, b) => {
            let link = match link {
                Link::And => " e ",
                Link::But => ", ma ",
                Link::Because => " perché ",
            };
            finish(&format!("{}{link}{}", clause(a), clause(b)), ".")
        }
    }
}

fn clause(c: &Clause) -> String {
    let (time, place) = (c.time.map_or("", |t| t.it), c.place.map_or(String::new(), |p| at(&p)));
    let subject = subject(c);
    let not = if c.negative { "non" } else { "" };
    match &c.predicate {
        Predicate::Does(deed) => does(c, deed, &subject, &place, time),
        Predicate::Is(adjective) => {
            let (gender, plural) = agreement(&c.subject);
            line(&[&subject, not, &state(c, "essere"), &words::adjective(adjective, gender, plural), time])
        }
        Predicate::IsLike(what) => line(&[&subject, not, &state(c, "essere"), what.it, time]),
        Predicate::IsAt(place) => line(&[&subject, not, &state(c, "essere"), &at(place), time]),
        Predicate::Exists(place) => {
            let be = state(c, "essere");
            let there = if be.starts_with(['e', 'è']) { "c'" } else { "ci" };
            line(&[not, there, &be, &np("", &c.subject), &at(place), time])
        }
        Predicate::Has(what) => line(&[&subject, not, &state(c, "avere"), &words::phrase("", what), &place, time]),
        Predicate::Likes(what) => likes(c, what, not, time),
    }
}

/// *Essere* and *avere* as states: the past is the imperfect.
fn state(c: &Clause, verb: &str) -> String {
    let person = person(c);
    match c.tense {
        Tense::Present => verbs::present(verb, person),
        Tense::Future => verbs::future(verb, person),
        _ => verbs::imperfect(verb, person),
    }
}

/// What is liked is the subject; who likes it stands in the dative: mi piace, alla ragazza piacciono.
fn likes(c: &Clause, what: &Phrase, not: &str, time: &str) -> String {
    let person = if what.plural { 5 } else { 2 };
    let verb = match c.tense {
        Tense::Present => verbs::present("piacere", person),
        _ => verbs::imperfect("piacere", person),
    };
    let (to, clitic) = match &c.subject {
        Np::Pronoun(Pronoun::They) => ("a loro".to_owned(), ""),
        Np::Pronoun(p) => (String::new(), dative(*p)),
        other => (np("a", other), ""),
    };
    line(&[&to, not, clitic, &verb, &words::phrase("", what), time])
}

fn does(c: &Clause, deed: &Deed, subject: &str, place: &str, time: &str) -> String {
    let (clitic, object) = match deed.object {
        Some(Np::Pronoun(p)) => (accusative(p), String::new()),
        Some(ref other) => ("", np("", other)),
        None => ("", String::new()),
    };
    let (clitic, recipient) = match deed.recipient {
        Some(Np::Pronoun(p)) => (dative(p), String::new()),
        Some(ref other) => (clitic, np("a", other)),
        None => (clitic, String::new()),
    };
    let goal = match deed.goal {
        Some(Where::City(city)) => format!("a {}", city.it),
        Some(Where::At(place)) => {
            words::phrase(if place.noun.kind == Kind::Place(At::Room) { "in" } else { "a" }, &place)
        }
        _ => String::new(),
    };
    let group = group(c, deed, clitic);
    let often = deed.often.map_or("", |o| o.it);
    let manner = deed.manner.map_or("", |m| m.it);
    let rest = line(&[often, &object, &recipient, &goal, manner]);
    match c.ask {
        Ask::Nothing | Ask::Whether | Ask::Who => line(&[subject, &group, &rest, place, time]),
        Ask::What => line(&["che cosa", &group, subject, &rest, place, time]),
        Ask::Where if group.starts_with('è') => line(&["dov'", &group, &rest, subject, place, time]),
        Ask::Where => line(&["dove", &group, &rest, subject, place, time]),
        Ask::When => line(&["quando", &group, &rest, subject, place, time]),
    }
}

/// non + clitic + verb.
fn group(c: &Clause, deed: &Deed, clitic: &str) -> String {
    let (verb, person) = (deed.verb.it, person(c));
    let form = match (deed.modal, c.tense) {
        (Some(Modal::Want), _) => line(&[&verbs::present("volere", person), verb]),
        (Some(Modal::Can), _) => line(&[&verbs::present("potere", person), verb]),
        (Some(Modal::Should), _) => line(&[verbs::should(person), verb]),
        (None, Tense::Present) => verbs::present(verb, person),
        (None, Tense::Future) => verbs::future(verb, person),
        (None, Tense::UsedTo) => verbs::imperfect(verb, person),
        (None, Tense::Progressive) => line(&[&verbs::present("stare", person), &verbs::gerund(verb)]),
        (None, Tense::PastProgressive) => line(&[&verbs::imperfect("stare", person), &verbs::gerund(verb)]),
        (None, Tense::Past) => return past(c, deed, clitic),
    };
    line(&[if c.negative { "non" } else { "" }, clitic, &form])
}

/// ho letto, è andata, l'ho vista
fn past(c: &Clause, deed: &Deed, clitic: &str) -> String {
    let not = if c.negative { "non" } else { "" };
    let essere = deed.verb.frame == Frame::Goal;
    let auxiliary = verbs::present(if essere { "essere" } else { "avere" }, person(c));
    let (gender, plural) = match (clitic, essere) {
        (_, true) if c.ask == Ask::Who => (M, false),
        (_, true) => agreement(&c.subject),
        ("la", _) => (F, false),
        ("li", _) => (M, true),
        _ => (M, false),
    };
    let clitic = if matches!(clitic, "lo" | "la") { "l'" } else { clitic };
    line(&[not, clitic, &auxiliary, &verbs::participle(deed.verb.it, gender, plural)])
}

/// io 0, tu 1, lui and lei 2, noi 3, voi 4, loro 5
fn person(c: &Clause) -> usize {
    match &c.subject {
        _ if c.ask == Ask::Who => 2,
        Np::Pronoun(Pronoun::I) => 0,
        Np::Pronoun(Pronoun::You) => 1,
        Np::Pronoun(Pronoun::We) => 3,
        Np::Pronoun(Pronoun::All) => 4,
        other if other.plural() => 5,
        _ => 2,
    }
}

fn subject(c: &Clause) -> String {
    match (&c.subject, c.ask) {
        (_, Ask::Who) => "chi".to_owned(),
        (Np::Pronoun(Pronoun::He), Ask::Nothing | Ask::Whether) => "lui".to_owned(),
        (Np::Pronoun(Pronoun::She), Ask::Nothing | Ask::Whether) => "lei".to_owned(),
        (Np::Pronoun(_), _) => String::new(),
        (other, _) => np("", other),
    }
}

/// Gender and number for what agrees; a mixed pair is masculine.
fn agreement(np: &Np) -> (Gender, bool) {
    let gender = match np {
        Np::Pronoun(p) => p.gender(),
        Np::Name(name) => name.gender,
        Np::Names(a, b) if a.gender == b.gender => a.gender,
        Np::Names(..) => M,
        Np::Phrase(p) => p.noun.it_gender,
    };
    (gender, np.plural())
}

fn np(preposition: &str, np: &Np) -> String {
    match np {
        // Pronouns are clitics or left out; after a preposition they stand in full.
        Np::Pronoun(p) => line(&[preposition, stressed(*p)]),
        Np::Name(name) => line(&[euphonic(preposition, name.it), name.it]),
        Np::Names(a, b) => {
            let again = if preposition == "a" { euphonic("a", b.it) } else { "" };
            line(&[euphonic(preposition, a.it), a.it, "e", again, b.it])
        }
        Np::Phrase(p) => words::phrase(preposition, p),
    }
}

/// ad Anna, but a Maria
fn euphonic<'a>(preposition: &'a str, next: &str) -> &'a str {
    if preposition == "a" && next.starts_with('A') { "ad" } else { preposition }
}

fn stressed(p: Pronoun) -> &'static str {
    match p {
        Pronoun::I => "me",
        Pronoun::You => "te",
        Pronoun::He => "lui",
        Pronoun::She | Pronoun::Sir | Pronoun::Madam => "lei",
        Pronoun::We => "noi",
        Pronoun::All => "voi",
        Pronoun::They => "loro",
    }
}

fn accusative(p: Pronoun) -> &'static str {
    match p {
        Pronoun::He => "lo",
        Pronoun::She | Pronoun::Sir | Pronoun::Madam => "la",
        Pronoun::They => "li",
        other => dative(other),
    }
}

fn dative(p: Pronoun) -> &'static str {
    match p {
        Pronoun::I => "mi",
        Pronoun::You => "ti",
        Pronoun::He | Pronoun::They => "gli",
        Pronoun::She | Pronoun::Sir | Pronoun::Madam => "le",
        Pronoun::We => "ci",
        Pronoun::All => "vi",
    }
}

fn at(place: &Where) -> String {
    match place {
        Where::At(p) => {
            let preposition = match p.noun.kind {
                Kind::Place(At::Stop | At::Fair) => "a",
                Kind::Place(At::Open) => "su",
                _ => "in",
            };
            words::phrase(preposition, p)
        }
        Where::On(p) => words::phrase("su", p),
        Where::Under(p) => words::phrase("sotto", p),
        Where::Near(p) => format!("vicino {}", words::phrase("a", p)),
        Where::Behind(p) => words::phrase("dietro", p),
        Where::Front(p) => format!("davanti {}", words::phrase("a", p)),
        Where::City(city) => format!("a {}", city.it),
        Where::With(whom) => np("con", whom),
    }
}
