//! One grammar, three languages: a sentence is drawn once, as meaning, and then said in English, Italian and Hindi.
//!
//! Because all three come from the same [`Sentence`], a pair is a translation by construction, and because every choice
//! that English leaves open is settled once (*you* is tu and तुम; only *sir* and *madam* are Lei and आप; the speaker is
//! a man; *his* in an object is the subject's own), an English sentence has exactly one reference.
//!
//! | | English | Italian | Hindi |
//! |---|---|---|---|
//! | order | subject verb object | subject verb object, clitics before the verb | subject object verb |
//! | past | ate | ha mangiato, è andata | लड़की ने सेब खाया |
//! | habit | used to eat | mangiava | खाती थी |

mod adjectives;
#[cfg(test)]
mod check;
mod draw;
mod english;
mod faults;
mod hindi;
mod hindi_words;
mod idioms;
mod italian;
mod italian_verbs;
mod italian_words;
mod nouns;
mod pairs;
mod verbs;

pub(super) use english::sentence as english;
pub(super) use faults::wrong;
pub(super) use hindi::sentence as hindi;
pub(super) use idioms::sentence as idiom;
pub(super) use italian::sentence as italian;

use super::draw::Draw;
use adjectives::Adjective;
use nouns::{Kind, Name, Noun};
use verbs::{Often, Time, Verb};

/// The sentence that `draw` gives; `draw` learns whether it combines words that are held out.
pub(super) fn sentence(draw: &mut Draw) -> Sentence {
    let sentence = draw::sentence(draw);
    for (a, b) in pairs::said(&sentence) {
        draw.join(a, b);
    }
    sentence
}

/// Grammatical gender; that of people is the same in both languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gender {
    M,
    F,
}

/// When, and seen from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tense {
    /// eats, mangia, खाता है
    Present,
    /// is eating, sta mangiando, खा रहा है
    Progressive,
    /// ate, ha mangiato, खाया
    Past,
    /// will eat, mangerà, खाएगा
    Future,
    /// used to eat, mangiava, खाता था
    UsedTo,
    /// was eating, stava mangiando, खा रहा था
    PastProgressive,
}

/// Who speaks, is spoken to, or spoken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pronoun {
    I,
    /// tu, तुम
    You,
    He,
    She,
    We,
    /// you all: voi, तुम सब
    All,
    They,
    /// you, sir: Lei, आप
    Sir,
    /// you, madam
    Madam,
}

impl Pronoun {
    fn gender(self) -> Gender {
        if matches!(self, Pronoun::She | Pronoun::Madam) { Gender::F } else { Gender::M }
    }
    fn plural(self) -> bool {
        matches!(self, Pronoun::We | Pronoun::All | Pronoun::They)
    }
}

/// What stands before a noun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Determiner {
    The,
    A,
    /// nothing: water, apples
    Bare,
    This,
    That,
    Poss(Pronoun),
    /// Maria's
    Of(&'static Name),
    /// two to five
    Count(usize),
    Many,
}

/// A noun with what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phrase {
    determiner: Determiner,
    noun: &'static Noun,
    adjective: Option<&'static Adjective>,
    plural: bool,
}

/// Somebody or something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Np {
    Pronoun(Pronoun),
    Name(&'static Name),
    Names(&'static Name, &'static Name),
    Phrase(Phrase),
}

impl Np {
    fn plural(&self) -> bool {
        match self {
            Np::Pronoun(p) => p.plural(),
            Np::Name(_) => false,
            Np::Names(..) => true,
            Np::Phrase(p) => p.plural,
        }
    }

    /// The pronoun that takes up this one: whose *his* or *her* it is. Animals own nothing here.
    fn owner(&self) -> Option<Pronoun> {
        let third = |gender| if gender == Gender::F { Pronoun::She } else { Pronoun::He };
        match self {
            Np::Pronoun(p) => Some(*p),
            Np::Name(name) => Some(third(name.gender)),
            Np::Names(..) => Some(Pronoun::They),
            Np::Phrase(p) if !matches!(p.noun.kind, Kind::Person | Kind::Kin | Kind::Elder) => None,
            Np::Phrase(p) if p.plural => Some(Pronoun::They),
            Np::Phrase(p) => Some(third(p.noun.it_gender)),
        }
    }
}

/// Where, and with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// in, at or on, as the place wants
    At(Phrase),
    On(Phrase),
    Under(Phrase),
    Near(Phrase),
    Behind(Phrase),
    Front(Phrase),
    City(&'static Name),
    With(Np),
}

/// What is said of a deed beside that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modal {
    Want,
    Can,
    Should,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deed {
    verb: &'static Verb,
    object: Option<Np>,
    recipient: Option<Np>,
    goal: Option<Where>,
    modal: Option<Modal>,
    often: Option<&'static Often>,
    manner: Option<&'static Often>,
}

/// What is said of the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predicate {
    Does(Deed),
    /// is big
    Is(&'static Adjective),
    /// is a piece of cake: said by a fixed phrase
    IsLike(&'static Often),
    /// is on the table
    IsAt(Where),
    /// there is … on the table
    Exists(Where),
    Has(Phrase),
    Likes(Phrase),
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Nothing,
    Whether,
    Who,
    What,
    Where,
    When,
}

/// One statement or question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    subject: Np,
    predicate: Predicate,
    tense: Tense,
    negative: bool,
    ask: Ask,
    time: Option<&'static Time>,
    place: Option<Where>,
}

/// How two statements hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    And,
    But,
    Because,
}

/// One clause, or two.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack for one sentence; a box would cost more")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sentence {
    One(Clause),
    Two(Clause, Link, Clause),
}

/// A line of words: a space between them, none after an apostrophe.
#[derive(Default)]
struct Line(String);

impl Line {
    fn say(&mut self, words: &str) -> &mut Self {
        if !words.is_empty() {
            if !self.0.is_empty() && !self.0.ends_with('\'') {
                self.0.push(' ');
            }
            self.0.push_str(words);
        }
        self
    }
}

/// Joins what is not empty.
fn line(words: &[&str]) -> String {
    let mut line = Line(String::with_capacity(96));
    words.iter().for_each(|word| {
        line.say(word);
    });
    line.0
}

/// With a capital first letter and a mark at the end.
fn finish(text: &str, end: &str) -> String {
    let mut letters = text.chars();
    let mut out = String::with_capacity(text.len() + end.len());
    out.extend(letters.next().into_iter().flat_map(char::to_uppercase));
    out.push_str(letters.as_str());
    out.push_str(end);
    out
}
