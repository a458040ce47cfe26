//! Which words stand together in a sentence: an adjective with its noun, a verb with the noun of its object. Some of
//! these pairs are held out of training, for the compositional split.
//!
//! Read off the finished sentence, not noted while it is drawn: what is drawn and then put aside (an object that becomes
//! a question, a noun that gives way to another) is not said, and two ways to draw one text must lead to one split.

use super::{Ask, Clause, Np, Phrase, Predicate, Sentence, Where};

type Pair = (&'static str, &'static str);

/// The pairs of words that `sentence` says.
pub(super) fn said(sentence: &Sentence) -> Vec<Pair> {
    let mut pairs = Vec::new();
    match sentence {
        Sentence::One(clause) => of_clause(clause, &mut pairs),
        Sentence::Two(first, _, second) => {
            of_clause(first, &mut pairs);
            of_clause(second, &mut pairs);
        }
    }
    pairs
}

fn of_clause(clause: &Clause, pairs: &mut Vec<Pair>) {
    let subject = (clause.ask != Ask::Who).then_some(clause.subject); // who: nobody is named
    let mut phrases: Vec<Phrase> =
        [subject.and_then(noun), clause.place.and_then(place)].into_iter().flatten().collect();
    match clause.predicate {
        Predicate::Does(deed) => {
            let object = deed.object.and_then(noun);
            pairs.extend(object.map(|object| (deed.verb.en, object.noun.en)));
            phrases.extend([object, deed.recipient.and_then(noun), deed.goal.and_then(place)].into_iter().flatten());
        }
        Predicate::Is(adjective) => pairs.push((adjective.en, subject.and_then(noun).map_or("", |p| p.noun.en))),
        Predicate::IsLike(_) => {}
        Predicate::IsAt(at) | Predicate::Exists(at) => phrases.extend(place(at)),
        Predicate::Has(what) => {
            pairs.push(("have", what.noun.en));
            phrases.push(what);
        }
        Predicate::Likes(what) => {
            pairs.push(("like", what.noun.en));
            phrases.push(what);
        }
    }
    pairs.extend(phrases.iter().filter_map(|p| p.adjective.map(|adjective| (adjective.en, p.noun.en))));
}

fn noun(np: Np) -> Option<Phrase> {
    match np {
        Np::Phrase(phrase) => Some(phrase),
        Np::Pronoun(_) | Np::Name(_) | Np::Names(..) => None,
    }
}

fn place(at: Where) -> Option<Phrase> {
    match at {
        Where::At(p) | Where::On(p) | Where::Under(p) | Where::Near(p) | Where::Behind(p) | Where::Front(p) => Some(p),
        Where::City(_) => None,
        Where::With(whom) => noun(whom),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Corpus, Split};
    use std::collections::HashSet;

    #[test]
    fn no_text_is_in_two_splits() {
        let of = |split, count| -> HashSet<String> {
            Corpus::EnIt.examples(7, split).take(count).map(|example| example.row()[0].clone()).collect()
        };
        let train = of(Split::Train, 60_000);
        for split in [Split::Valid, Split::Test, Split::Compositional] {
            let shared: Vec<String> = of(split, 4_000).intersection(&train).cloned().collect();
            assert!(shared.is_empty(), "{} shares {shared:?} with train", split.name());
        }
    }
}
