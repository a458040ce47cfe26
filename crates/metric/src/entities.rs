//! Entity F1 as seqeval: an entity counts when its type and both its ends are right.
//!
//! `Scheme::Conll` reads tags as the CoNLL script does, forgiving an entity that starts with `I-`; it knows `B I E S O`, and
//! `L` and `U` of BILOU as other letters for `E` and `S`, which seqeval does not (it joins two `U-` that touch).
//! `Scheme::StrictIob2` is seqeval's strict mode: an entity starts with `B-` and goes on with `I-` of the same type.

use std::collections::{BTreeMap, BTreeSet};

use qkv_base::{Error, Result};
use serde::Serialize;

use crate::{
    additive::same_length,
    classify::{Averages, LabelScore},
};

/// How tags make entities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// as conlleval, seqeval's default
    #[default]
    Conll,
    /// seqeval's `mode="strict", scheme=IOB2`
    StrictIob2,
}

/// An entity: the tokens `start..end` of one sentence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// its type
    pub kind: String,
    /// its first token
    pub start: usize,
    /// one past its last token
    pub end: usize,
}

/// The scores of a tagger, from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EntityScores {
    /// micro (the F1 that papers report), macro and weighted
    pub averages: Averages,
    /// each type's own, sorted by name
    pub kinds: BTreeMap<String, LabelScore>,
}

/// The entities of one sentence's tags.
///
/// ```
/// use qkv_metric::{Scheme, entities};
/// let found = entities(&["B-PER", "I-PER", "O", "I-LOC"], Scheme::Conll)?;
/// assert_eq!(found.iter().map(|e| (&e.kind[..], e.start, e.end)).collect::<Vec<_>>(), [("PER", 0, 2), ("LOC", 3, 4)]);
/// assert_eq!(entities(&["I-LOC"], Scheme::StrictIob2)?, []);
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub fn entities<T: AsRef<str>>(tags: &[T], scheme: Scheme) -> Result<Vec<Span>> {
    let tags =
        tags.iter().enumerate().map(|(i, tag)| Tag::read(tag.as_ref(), i, scheme)).collect::<Result<Vec<_>>>()?;
    let mut open: Option<(usize, Tag)> = None;
    let mut found = vec![];
    let mut before = Tag { mark: 'O', kind: String::new() };
    for (i, tag) in tags.into_iter().chain([Tag::read("O", 0, scheme)?]).enumerate() {
        let (ends, starts) = match scheme {
            Scheme::Conll => (tag.ends_after(&before), tag.starts_after(&before)),
            Scheme::StrictIob2 => (!(tag.mark == 'I' && tag.kind == before.kind), tag.mark == 'B'),
        };
        if ends && let Some((start, first)) = open.take() {
            // conlleval names an entity by its last tag; inside an entity all tags have one type.
            let kind = if scheme == Scheme::Conll { before.kind.clone() } else { first.kind };
            found.push(Span { kind, start, end: i });
        }
        if starts {
            open = Some((i, tag.clone()));
        }
        before = tag;
    }
    Ok(found)
}

/// Compares two taggings of the same sentences.
pub fn score_entities<A: AsRef<str>, B: AsRef<str>>(
    truth: &[Vec<A>],
    predicted: &[Vec<B>],
    scheme: Scheme,
) -> Result<EntityScores> {
    same_length("predicted sentences", predicted.len(), truth.len())?;
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for (i, (truth, predicted)) in truth.iter().zip(predicted).enumerate() {
        let place = |error: Error| Error { place: format!("sentence {}, {}", i + 1, error.place), ..error };
        same_length("tags", predicted.len(), truth.len()).map_err(place)?;
        let truth: BTreeSet<Span> = entities(truth, scheme).map_err(place)?.into_iter().collect();
        let predicted: BTreeSet<Span> = entities(predicted, scheme).map_err(place)?.into_iter().collect();
        let mut count = |span: &Span, what: usize| counts.entry(span.kind.clone()).or_default()[what] += 1;
        truth.intersection(&predicted).for_each(|span| count(span, 0));
        predicted.iter().for_each(|span| count(span, 1));
        truth.iter().for_each(|span| count(span, 2));
    }
    let averages = Averages::new(&counts.values().copied().collect::<Vec<_>>());
    let kinds = counts.into_iter().map(|(kind, [a, b, c])| (kind, LabelScore::new(a, b, c))).collect();
    Ok(EntityScores { averages, kinds })
}

/// A tag taken apart: `B-PER` is the mark `B` and the type `PER`; a mark alone has the type `_`.
#[derive(Clone)]
struct Tag {
    mark: char,
    kind: String,
}

impl Tag {
    fn read(tag: &str, i: usize, scheme: Scheme) -> Result<Self> {
        let wrong = |what: String, hint: &str| Err(Error::new(format!("tag {}", i + 1), what, hint));
        let Some(mark) = tag.chars().next() else {
            return wrong("the tag is empty".into(), "say `O` for a token outside of every entity");
        };
        let rest = &tag[mark.len_utf8()..];
        // BILOU's last and unit are the end and the single one of BIOES.
        let mark = match (scheme, mark, rest.starts_with('-')) {
            (Scheme::Conll, 'L', true) => 'E',
            (Scheme::Conll, 'U', true) => 'S',
            _ => mark,
        };
        let kind = match scheme {
            Scheme::Conll => rest.split_once('-').map_or(rest, |(_, kind)| kind),
            Scheme::StrictIob2 if "BIO".contains(mark) => rest.trim_matches('-'),
            Scheme::StrictIob2 => return wrong(format!("`{tag}` is not an IOB2 tag"), "IOB2 tags are O, B-X and I-X"),
        };
        Ok(Self { mark, kind: if kind.is_empty() { "_".into() } else { kind.into() } })
    }

    fn ends_after(&self, before: &Tag) -> bool {
        let closed = matches!((before.mark, self.mark), ('E' | 'S', _) | ('B' | 'I', 'B' | 'S' | 'O'));
        closed || (!matches!(before.mark, 'O' | '.') && before.kind != self.kind)
    }

    fn starts_after(&self, before: &Tag) -> bool {
        let opened = matches!((before.mark, self.mark), (_, 'B' | 'S') | ('E' | 'S' | 'O', 'E' | 'I'));
        opened || (!matches!(self.mark, 'O' | '.') && before.kind != self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_is_right() {
        let truth = [vec!["O", "B-MISC", "I-MISC", "O"], vec!["B-PER", "I-PER", "O"]];
        let predicted = [vec!["B-MISC", "I-MISC", "I-MISC", "O"], vec!["B-PER", "I-PER", "O"]];
        let scores = score_entities(&truth, &predicted, Scheme::Conll).unwrap();
        assert_eq!(scores.averages.micro.f1, 0.5);
        assert_eq!(scores.kinds["PER"].f1, 1.0);
        assert_eq!(scores.kinds["MISC"], LabelScore { support: 1, ..LabelScore::default() });
    }

    #[test]
    fn last_and_unit_are_end_and_single() {
        let bilou =
            entities(&["U-LOC", "U-LOC", "O", "B-PER", "I-PER", "L-PER", "B-PER", "L-PER"], Scheme::Conll).unwrap();
        let bioes =
            entities(&["S-LOC", "S-LOC", "O", "B-PER", "I-PER", "E-PER", "B-PER", "E-PER"], Scheme::Conll).unwrap();
        assert_eq!(bilou, bioes);
        assert_eq!(bilou.len(), 4);
    }

    #[test]
    fn bad_tags_are_named() {
        let wrong = score_entities(&[vec!["O", "X-PER"]], &[vec!["O", "O"]], Scheme::StrictIob2).unwrap_err();
        assert_eq!(wrong.to_string(), "sentence 1, tag 2: `X-PER` is not an IOB2 tag");
        assert!(score_entities(&[vec![""]], &[vec!["O"]], Scheme::Conll).is_err());
        assert!(score_entities(&[vec!["O"]], &[vec!["O", "O"]], Scheme::Conll).is_err());
    }

    /// seqeval would start the second entity at the first token, where the last one started that it noticed.
    #[test]
    fn an_entity_that_never_started_is_none() {
        assert_eq!(entities(&["B", ".", "I", "O"], Scheme::Conll).unwrap().len(), 1);
    }

    #[test]
    fn nothing_to_find_scores_nothing() {
        let scores = score_entities(&[vec!["O"]], &[vec!["O"]], Scheme::Conll).unwrap();
        assert_eq!(scores.averages, Averages::default());
    }
}
