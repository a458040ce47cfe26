//! Objectives: from an example to `{input, memory, target, weight}`, one file each.
//!
//! Making a sample has two steps. [`Objective::prepare`] tokenises, frames and cuts, which is the same in every epoch and
//! so can be kept. [`Objective::sample`] adds the noise, which is new in every epoch: hidden words, spans, a prefix. All
//! of its randomness comes from one key, made of `(seed, epoch, index)`.
//!
//! | shape of the model | `input` | `memory` | `target` |
//! |---|---|---|---|
//! | encoder | the text | – | a token each, one class, or start and end |
//! | decoder | the text | – | the same text one to the left |
//! | encoder and decoder | the target one to the right | the source | the target |

mod answer;
pub mod class_weights;
mod classify;
mod denoise;
mod frame;
mod image;
mod masked;
mod next_token;
mod prefix;
mod span_corruption;
mod tag;
mod translate;

use crate::{Error, Example, Key, Result, Tokenize};
use std::sync::Arc;

pub use answer::Answer;
pub use class_weights::ClassWeights;
pub use classify::{Classify, Labels};
pub use denoise::{Denoise, Noise};
pub use frame::{Frame, Seq2Seq};
pub use image::{Normalisation, Pictures};
pub use masked::Masked;
pub use next_token::{Borders, NextToken, Packed, shifted};
pub use prefix::{Prefix, PrefixSplit};
pub use span_corruption::{SpanCorruption, corrupt};
pub use tag::Tag;
pub use translate::Translate;

/// A target that is not counted; its weight is 0.
pub const IGNORED: i64 = -100;

/// What a model is to say, and so how wide a row of targets is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    /// a token at every place of the input
    #[default]
    Tokens,
    /// one class
    Class,
    /// two places of the input: where the answer starts and where its last token stands
    Span,
}

/// One row, ready for a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// what the (only or right-hand) stack reads
    pub input: Vec<u32>,
    /// the kind of each token (first text, second text); empty where the family has none
    pub token_types: Vec<u32>,
    /// what the encoder of an encoder-decoder reads
    pub memory: Option<Vec<u32>>,
    /// how to read `target`
    pub aim: Aim,
    /// as many as the aim wants; [`IGNORED`] where nothing is to be said
    pub target: Vec<i64>,
    /// how much each target counts; 0 exactly where it is ignored
    pub weight: Vec<f32>,
    /// so many tokens at the beginning see each other both ways (prefix language model)
    pub prefix: usize,
    /// which document of the row each token belongs to, from 1; empty when the row is one document
    pub documents: Vec<u32>,
    /// the place of each token in its document; empty when the row is one document
    pub positions: Vec<u32>,
    /// from which byte to which byte of the example's context each token comes; only for answers, else empty
    pub spans: Vec<(u32, u32)>,
    /// a picture as `[C, H, W]`, normalised; empty for text
    pub pixels: Vec<f32>,
    /// channels, height and width of the picture
    pub picture: [usize; 3],
}

impl Sample {
    /// `input` with a target at each place; weight 1 wherever there is one.
    fn tokens(input: Vec<u32>, target: Vec<i64>) -> Self {
        let weight = target.iter().map(|t| if *t == IGNORED { 0.0 } else { 1.0 }).collect();
        Self { input, target, weight, ..Self::default() }
    }

    /// `input` with one class.
    fn class(input: Vec<u32>, token_types: Vec<u32>, class: u32) -> Self {
        Self { input, token_types, aim: Aim::Class, target: vec![class.into()], weight: vec![1.0], ..Self::default() }
    }

    /// The longer of what the two stacks read: what a batch must have room for.
    pub fn length(&self) -> usize {
        self.input.len().max(self.memory.as_ref().map_or(0, Vec::len))
    }
}

/// An example after the step that is the same in every epoch.
#[derive(Clone, Debug, PartialEq)]
pub enum Prepared {
    /// there is no noise to add
    Ready(Box<Sample>),
    /// tokens, before the noise; `starts` marks where a word (or a sentence) begins
    Raw {
        /// the tokens, unframed
        ids: Vec<u32>,
        /// does a unit of the noise begin here?
        starts: Vec<bool>,
    },
}

/// Why an example gives no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dropped {
    /// there is nothing to read or to say
    Empty,
    /// the label was not among those the model knows
    UnknownLabel,
    /// the answer does not stand where it is said to
    AnswerNotInContext,
    /// the text leaves no room: a question as long as the row
    TooLong,
}

impl Dropped {
    /// Every reason, in the order of the messages.
    pub const ALL: [Dropped; 4] =
        [Dropped::Empty, Dropped::UnknownLabel, Dropped::AnswerNotInContext, Dropped::TooLong];

    /// For a message.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::Empty => "empty",
            Dropped::UnknownLabel => "label unknown",
            Dropped::AnswerNotInContext => "answer not in its context",
            Dropped::TooLong => "too long",
        }
    }
}

/// What became of one example.
#[derive(Clone, Debug, PartialEq)]
pub enum Made {
    /// samples (a long text gives several), and how many tokens were cut off
    Items {
        /// in the order of the text
        items: Vec<Prepared>,
        /// tokens that did not fit and are in none of them
        cut: usize,
    },
    /// nothing
    Dropped(Dropped),
}

impl Made {
    fn one(sample: Sample, cut: usize) -> Self {
        Made::Items { items: vec![Prepared::Ready(Box::new(sample))], cut }
    }

    fn raw(ids: &[u32], starts: &[bool], room: usize) -> Self {
        if ids.is_empty() {
            return Made::Dropped(Dropped::Empty);
        }
        let windows = ids.chunks(room.max(1)).zip(starts.chunks(room.max(1)));
        let items = windows.map(|(ids, starts)| Prepared::Raw { ids: ids.into(), starts: starts.into() }).collect();
        Made::Items { items, cut: 0 }
    }
}

/// What a model is to learn from an example.
#[derive(Clone)]
pub enum Objective {
    /// the next token
    NextToken(NextToken),
    /// hidden tokens (BERT)
    Masked(Masked),
    /// hidden spans (T5)
    SpanCorruption(SpanCorruption),
    /// the text before the noise (BART)
    Denoise(Denoise),
    /// the target text: translation, and every text-to-text task with its prefix
    Translate(Translate),
    /// the rest of a text whose beginning is seen both ways
    Prefix(Prefix),
    /// a class
    Classify(Classify),
    /// a tag a word
    Tag(Tag),
    /// where the answer stands
    Answer(Answer),
    /// the class of a picture
    Pictures(Pictures),
}

impl Objective {
    /// A class for each text (or pair of texts), framed as its family wants, at most `length` tokens.
    pub fn classify(tokenizer: Arc<dyn Tokenize>, frame: Frame, labels: Labels, length: usize) -> Self {
        Objective::Classify(Classify { tokenizer, frame, labels, length })
    }

    /// The step that is the same in every epoch: tokenise, frame, cut.
    pub fn prepare(&self, example: &Example) -> Result<Made> {
        if example.is_empty() {
            return Ok(Made::Dropped(Dropped::Empty));
        }
        match self {
            Objective::NextToken(o) => o.prepare(example),
            Objective::Masked(o) => o.prepare(example),
            Objective::SpanCorruption(o) => o.prepare(example),
            Objective::Denoise(o) => o.prepare(example),
            Objective::Translate(o) => o.prepare(example),
            Objective::Prefix(o) => o.prepare(example),
            Objective::Classify(o) => o.prepare(example),
            Objective::Tag(o) => o.prepare(example),
            Objective::Answer(o) => o.prepare(example),
            Objective::Pictures(o) => o.prepare(example),
        }
    }

    /// The step that is new in every epoch: the noise. `key` is that of `(seed, epoch, index)`.
    pub fn sample(&self, prepared: &Prepared, key: Key) -> Result<Sample> {
        let (ids, starts) = match prepared {
            Prepared::Ready(sample) => return Ok(Sample::clone(sample)),
            Prepared::Raw { ids, starts } => (ids, starts),
        };
        match self {
            Objective::Masked(o) => Ok(o.sample(ids, starts, key)),
            Objective::SpanCorruption(o) => o.sample(ids, key),
            Objective::Denoise(o) => Ok(o.sample(ids, starts, key)),
            Objective::Prefix(o) => Ok(o.sample(ids, key)),
            _ => Err(Error::new("objective", "has no noise to add", "give it what it prepared itself")),
        }
    }

    /// How long a sample of this can become, in any epoch: what buckets and budgets count.
    pub fn longest(&self, prepared: &Prepared) -> usize {
        match (self, prepared) {
            (_, Prepared::Ready(sample)) => sample.length(),
            (Objective::Masked(o), Prepared::Raw { ids, .. }) => o.frame.single_overhead() + ids.len(),
            (Objective::SpanCorruption(o), Prepared::Raw { ids, .. }) => o.longest(ids.len()),
            (Objective::Denoise(o), Prepared::Raw { ids, .. }) => o.family.overhead() + ids.len(),
            (_, Prepared::Raw { ids, .. }) => ids.len() + 1,
        }
    }

    /// How many classes (or tags) there are to say; 0 where something else is said.
    pub fn classes(&self) -> usize {
        match self {
            Objective::Classify(o) => o.labels.len(),
            Objective::Tag(o) => o.labels.len(),
            Objective::Pictures(o) => o.labels.len(),
            _ => 0,
        }
    }

    /// The ids a model must have room for, where the input is text.
    pub fn vocab_size(&self) -> Option<usize> {
        let tokenizer = match self {
            Objective::NextToken(o) => &o.tokenizer,
            Objective::Masked(o) => &o.tokenizer,
            Objective::SpanCorruption(o) => &o.tokenizer,
            Objective::Denoise(o) => &o.tokenizer,
            Objective::Prefix(o) => &o.tokenizer,
            Objective::Classify(o) => &o.tokenizer,
            Objective::Tag(o) => &o.tokenizer,
            Objective::Answer(o) => &o.tokenizer,
            Objective::Translate(o) => return Some(o.source.vocab_size().max(o.target.vocab_size())),
            Objective::Pictures(_) => return None,
        };
        Some(tokenizer.vocab_size())
    }

    /// What fills up a row of the input.
    pub fn pad(&self) -> u32 {
        use crate::Role::Pad;
        let pad = match self {
            Objective::NextToken(o) => o.tokenizer.role(Pad),
            Objective::Masked(o) => o.tokenizer.role(Pad),
            Objective::SpanCorruption(o) => o.tokenizer.role(Pad),
            Objective::Denoise(o) => o.tokenizer.role(Pad),
            Objective::Prefix(o) => o.tokenizer.role(Pad),
            Objective::Classify(o) => o.tokenizer.role(Pad),
            Objective::Tag(o) => o.tokenizer.role(Pad),
            Objective::Answer(o) => o.tokenizer.role(Pad),
            Objective::Translate(o) => o.target.role(Pad),
            Objective::Pictures(_) => None,
        };
        // A vocabulary without a pad token (GPT-2): padding is masked out, so any id will do.
        pad.unwrap_or(0)
    }
}

/// The error of an example that is not for this objective.
fn wrong(example: &Example, objective: &str, wants: &str) -> Error {
    let kind = match example {
        Example::Pair { .. } => "a pair",
        Example::Labelled { .. } => "a labelled text",
        Example::LabelledPair { .. } => "a labelled pair",
        Example::Tagged { .. } => "tagged words",
        Example::Question { .. } => "a question",
        Example::Text(_) => "a text",
        Example::Image { .. } => "a picture",
    };
    let hint = "read the file for the task that this objective belongs to";
    Error::new("objective", format!("{objective} learns from {wants}, not from {kind}"), hint)
}

/// Cuts `ids` to `room` and says how many were lost.
fn cut(ids: &mut Vec<u32>, room: usize) -> usize {
    let lost = ids.len().saturating_sub(room);
    ids.truncate(room);
    lost
}

/// `0..n` in an order drawn from `key`: Fisher and Yates.
fn shuffled(n: usize, key: Key) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, key.below(i as u64, i + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::Words;

    #[test]
    fn the_wrong_kind_of_example_is_named() {
        let words = Arc::new(Words::of(["a"]));
        let frame = Frame::bert(&*words).unwrap();
        let objective = Objective::Masked(Masked::bert(words, frame, 8).unwrap());
        let error = objective.prepare(&Example::pair("a", "a")).unwrap_err();
        assert_eq!(error.what, "masked language modelling learns from texts, not from a pair");
        assert_eq!(objective.prepare(&Example::Text(" ".into())), Ok(Made::Dropped(Dropped::Empty)));
    }

    #[test]
    fn a_shuffle_is_a_permutation_of_its_key() {
        let key = Key::new(1, 2, 3);
        let mut order = shuffled(100, key);
        assert_eq!(order, shuffled(100, key));
        assert_ne!(order, shuffled(100, key.child(1)));
        order.sort();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
