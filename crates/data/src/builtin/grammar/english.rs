//! English: a sentence in words. Third person -s, do-support, irregular pasts, the progressive, a and an.

use super::nouns::{At, Kind};
use super::{
    Ask, Clause, Deed, Determiner, Link, Modal, Noun, Np, Phrase, Predicate, Pronoun, Sentence, Tense, Where, finish,
    line,
};

/// The sentence in English.
pub(in super::super) fn sentence(sentence: &Sentence) -> String {
    match sentence {
        Sentence::One(c) => {
            let address = match c.subject {
                Np::Pronoun(Pronoun::Sir) => ", sir",
                Np::Pronoun(Pronoun::Madam) => ", madam",
                _ => "",
            };
            finish(&clause(c), &format!("{address}{}", if c.ask == Ask::Nothing { "." } else { "?" }))
        }
        Sentence::Two(a, link, b) => {
            let link = match link {
                Link::And => ", and ",
                Link::But => ", but ",
                Link::Because => " because ",
            };
            finish(&format!("{}{link}{}", clause(a), clause(b)), ".")
        }
    }
}

fn clause(c: &Clause) -> String {
    let subject = np(&c.subject);
    let time = c.time.map_or("", |t| t.en);
    let place = c.place.map_or(String::new(), |p| at(&p));
    match &c.predicate {
        Predicate::Does(deed) => does(c, deed, &subject, &place, time),
        Predicate::Is(adjective) => order(c, &subject, be(c), &[adjective.en, time]),
        Predicate::IsLike(what) => order(c, &subject, be(c), &[what.en, time]),
        Predicate::IsAt(place) => order(c, &subject, be(c), &[&at(place), time]),
        Predicate::Exists(place) => order(c, "there", be(c), &[&subject, &at(place), time]),
        Predicate::Has(what) => order(c, &subject, plain(c, "have", "had"), &[&phrase(what), &place, time]),
        Predicate::Likes(what) => order(c, &subject, plain(c, "like", "liked"), &[&phrase(what), time]),
    }
}

fn does(c: &Clause, deed: &Deed, subject: &str, place: &str, time: &str) -> String {
    let mut group = match deed.modal {
        None => plain(c, deed.verb.en, deed.verb.past),
        Some(Modal::Can) => ("can", deed.verb.en.to_owned()),
        Some(Modal::Should) => ("should", deed.verb.en.to_owned()),
        Some(Modal::Want) => {
            let (aux, main) = plain(c, "want", "");
            (aux, format!("{main} to {}", deed.verb.en))
        }
    };
    if let Some(often) = deed.often {
        group.1 = format!("{} {}", often.en, group.1);
    }
    let object = deed.object.map_or(String::new(), |o| object(&o));
    let recipient = deed.recipient.map_or(String::new(), |r| format!("to {}", self::object(&r)));
    let goal = match deed.goal {
        Some(Where::City(city)) => format!("{} {}", deed.verb.en_prep, city.en),
        Some(Where::At(place)) => format!("{} {}", deed.verb.en_prep, phrase(&place)),
        _ => String::new(),
    };
    let particle = if deed.object.is_some() || c.ask == Ask::What { deed.verb.en_prep } else { "" };
    let manner = deed.manner.map_or("", |m| m.en);
    order(c, subject, group, &[particle, &object, &recipient, &goal, manner, place, time])
}

/// Puts the auxiliary where the kind of sentence wants it: before the subject in questions, with *not* after it.
fn order(c: &Clause, subject: &str, (aux, main): (&str, String), rest: &[&str]) -> String {
    let not = if c.negative { "not" } else { "" };
    let rest = line(rest);
    match c.ask {
        Ask::Nothing if aux == "can" && c.negative => line(&[subject, "cannot", &main, &rest]),
        Ask::Nothing => line(&[subject, aux, not, &main, &rest]),
        Ask::Who => line(&["who", aux, not, &main, &rest]),
        Ask::Whether => line(&[aux, subject, not, &main, &rest]),
        Ask::What => line(&["what", aux, subject, not, &main, &rest]),
        Ask::Where => line(&["where", aux, subject, not, &main, &rest]),
        Ask::When => line(&["when", aux, subject, not, &main, &rest]),
    }
}

/// Auxiliary and main verb. Without an auxiliary of its own a verb takes *do* in questions and with *not*.
fn plain(c: &Clause, base: &str, past: &str) -> (&'static str, String) {
    let asked = !matches!(c.ask, Ask::Nothing | Ask::Who);
    let third = c.ask == Ask::Who || !(c.subject.plural() || addressed(&c.subject));
    let supported = asked || c.negative;
    match c.tense {
        Tense::Present if supported => (if third { "does" } else { "do" }, base.to_owned()),
        Tense::Present => ("", if third { third_person(base) } else { base.to_owned() }),
        Tense::Past if supported => ("did", base.to_owned()),
        Tense::Past => ("", if past.is_empty() { regular_past(base) } else { past.to_owned() }),
        Tense::Future => ("will", base.to_owned()),
        Tense::UsedTo if supported => ("did", format!("use to {base}")),
        Tense::UsedTo => ("", format!("used to {base}")),
        Tense::Progressive | Tense::PastProgressive => (be(c).0, progressive(base)),
    }
}

fn addressed(subject: &Np) -> bool {
    matches!(subject, Np::Pronoun(Pronoun::I | Pronoun::You | Pronoun::Sir | Pronoun::Madam))
}

/// The form of *be*, as an auxiliary.
fn be(c: &Clause) -> (&'static str, String) {
    let who = c.ask == Ask::Who;
    let many = !who && (c.subject.plural() || (addressed(&c.subject) && c.subject != Np::Pronoun(Pronoun::I)));
    let first = !who && c.subject == Np::Pronoun(Pronoun::I);
    let form = match c.tense {
        Tense::Future => return ("will", "be".to_owned()),
        Tense::Present | Tense::Progressive if first => "am",
        Tense::Present | Tense::Progressive if many => "are",
        Tense::Present | Tense::Progressive => "is",
        _ if many => "were",
        _ => "was",
    };
    (form, String::new())
}

fn np(np: &Np) -> String {
    match np {
        Np::Pronoun(p) => match p {
            Pronoun::I => "I",
            Pronoun::You | Pronoun::Sir | Pronoun::Madam => "you",
            Pronoun::He => "he",
            Pronoun::She => "she",
            Pronoun::We => "we",
            Pronoun::All => "you all",
            Pronoun::They => "they",
        }
        .to_owned(),
        Np::Name(name) => name.en.to_owned(),
        Np::Names(a, b) => format!("{} and {}", a.en, b.en),
        Np::Phrase(p) => phrase(p),
    }
}

fn object(object: &Np) -> String {
    match object {
        Np::Pronoun(p) => match p {
            Pronoun::I => "me",
            Pronoun::He => "him",
            Pronoun::She => "her",
            Pronoun::We => "us",
            Pronoun::All => "you all",
            Pronoun::They => "them",
            Pronoun::You | Pronoun::Sir | Pronoun::Madam => "you",
        }
        .to_owned(),
        other => np(other),
    }
}

fn phrase(p: &Phrase) -> String {
    let adjective = p.adjective.map_or("", |a| a.en);
    let noun = if p.plural { plural(p.noun) } else { p.noun.en.to_owned() };
    let core = line(&[adjective, &noun]);
    let determiner = match p.determiner {
        Determiner::The => "the".to_owned(),
        Determiner::A => if core.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }.to_owned(),
        Determiner::Bare => String::new(),
        Determiner::This => if p.plural { "these" } else { "this" }.to_owned(),
        Determiner::That => if p.plural { "those" } else { "that" }.to_owned(),
        Determiner::Poss(who) => possessive(who).to_owned(),
        Determiner::Of(name) => format!("{}'s", name.en),
        Determiner::Count(n) => ["two", "three", "four", "five"][(n - 2) % 4].to_owned(),
        Determiner::Many => "many".to_owned(),
    };
    line(&[&determiner, &core])
}

fn possessive(who: Pronoun) -> &'static str {
    match who {
        Pronoun::I => "my",
        Pronoun::You | Pronoun::Sir | Pronoun::Madam | Pronoun::All => "your",
        Pronoun::He => "his",
        Pronoun::She => "her",
        Pronoun::We => "our",
        Pronoun::They => "their",
    }
}

fn at(place: &Where) -> String {
    let (preposition, what) = match place {
        Where::At(p) => {
            let preposition = match p.noun.kind {
                Kind::Place(At::Stop | At::Fair) => "at",
                Kind::Place(At::Open) => "on",
                _ => "in",
            };
            (preposition, phrase(p))
        }
        Where::On(p) => ("on", phrase(p)),
        Where::Under(p) => ("under", phrase(p)),
        Where::Near(p) => ("near", phrase(p)),
        Where::Behind(p) => ("behind", phrase(p)),
        Where::Front(p) => ("in front of", phrase(p)),
        Where::City(city) => ("in", city.en.to_owned()),
        Where::With(whom) => ("with", object(whom)),
    };
    line(&[preposition, &what])
}

fn plural(noun: &Noun) -> String {
    match noun.en {
        _ if !noun.en_plural.is_empty() => noun.en_plural.to_owned(),
        en => third_person(en), // nouns in -y, -s, -ch grow just as verbs do
    }
}

pub(super) fn third_person(base: &str) -> String {
    match base {
        "have" => "has".to_owned(),
        "go" => "goes".to_owned(),
        _ if consonant_y(base) => format!("{}ies", &base[..base.len() - 1]),
        _ if ["s", "x", "sh", "ch"].iter().any(|end| base.ends_with(end)) => format!("{base}es"),
        _ => format!("{base}s"),
    }
}

fn regular_past(base: &str) -> String {
    match base {
        _ if base.ends_with('e') => format!("{base}d"),
        _ if consonant_y(base) => format!("{}ied", &base[..base.len() - 1]),
        _ => format!("{base}ed"),
    }
}

/// The verbs that double their last letter.
const DOUBLED: [&str; 4] = ["run", "swim", "travel", "hit"];

fn progressive(base: &str) -> String {
    match base {
        "see" => "seeing".to_owned(),
        _ if base.ends_with('e') => format!("{}ing", &base[..base.len() - 1]),
        _ if DOUBLED.contains(&base) => format!("{base}{}ing", &base[base.len() - 1..]),
        _ => format!("{base}ing"),
    }
}

/// story, but not boy
fn consonant_y(word: &str) -> bool {
    word.strip_suffix('y').is_some_and(|stem| !stem.ends_with(['a', 'e', 'o', 'u']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling() {
        for (base, third, past, ing) in [
            ("wash", "washes", "washed", "washing"),
            ("cry", "cries", "cried", "crying"),
            ("play", "plays", "played", "playing"),
            ("dance", "dances", "danced", "dancing"),
            ("see", "sees", "", "seeing"),
            ("run", "runs", "", "running"),
            ("push", "pushes", "pushed", "pushing"),
        ] {
            assert_eq!(third_person(base), third);
            assert!(past.is_empty() || regular_past(base) == past);
            assert_eq!(progressive(base), ing);
        }
    }
}
