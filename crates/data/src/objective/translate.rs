//! Text to text with teacher forcing: the encoder reads the source, the decoder reads the target one to the right and is
//! to say the target. With a prefix ("translate English to Italian: ") every task becomes this one, as in T5.

use super::{Dropped, Made, Seq2Seq, cut, wrong};
use crate::{Example, Result, Tokenize};
use std::borrow::Cow;
use std::sync::Arc;

/// The translation objective.
#[derive(Clone)]
pub struct Translate {
    /// source text to ids
    pub source: Arc<dyn Tokenize>,
    /// target text to ids; the same one where the vocabulary is shared
    pub target: Arc<dyn Tokenize>,
    /// the special tokens of the family
    pub family: Seq2Seq,
    /// what every source begins with; empty for a model of one task
    pub prefix: String,
    /// tokens of a source, special ones counted
    pub source_length: usize,
    /// tokens of a target, special ones counted
    pub target_length: usize,
}

impl Translate {
    /// One vocabulary, no prefix, the same length for both.
    pub fn new(tokenizer: Arc<dyn Tokenize>, family: Seq2Seq, length: usize) -> Self {
        let (source, target) = (tokenizer.clone(), tokenizer);
        Self { source, target, family, prefix: String::new(), source_length: length, target_length: length }
    }

    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        let Some((source, target)) = texts(example) else {
            return Err(wrong(example, "text to text", "pairs, labelled texts and questions"));
        };
        let mut source = self.source.encode(&[&self.prefix, &*source].concat())?.ids;
        let mut target = self.target.encode(&target)?.ids;
        if source.is_empty() || target.is_empty() {
            return Ok(Made::Dropped(Dropped::Empty));
        }
        let room = |frame: &super::Frame, length| frame.room(length, frame.single_overhead());
        let lost = cut(&mut source, room(&self.family.source, self.source_length)?)
            + cut(&mut target, room(&self.family.target, self.target_length)?);
        Ok(Made::one(self.family.teach(&source, &target), lost))
    }
}

/// An example as two texts: a class is said by its name, a question is asked before its context.
fn texts(example: &Example) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    Some(match example {
        Example::Pair { source, target } => (source.into(), target.into()),
        Example::Labelled { text, label } => (text.into(), label.into()),
        Example::LabelledPair { first, second, label } => {
            (format!("sentence1: {first} sentence2: {second}").into(), label.into())
        }
        Example::Question { context, question, answer, .. } => {
            let answer = if answer.is_empty() { "unanswerable" } else { answer };
            (format!("question: {question} context: {context}").into(), answer.into())
        }
        Example::Tagged { .. } | Example::Text(_) | Example::Image { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Prepared;
    use super::*;
    use crate::tokenize::Words;

    fn sample(objective: &Translate, example: &Example) -> (super::super::Sample, usize) {
        match objective.prepare(example).unwrap() {
            Made::Items { mut items, cut } => match items.remove(0) {
                Prepared::Ready(sample) => (sample, cut),
                Prepared::Raw { .. } => panic!("no noise here"),
            },
            Made::Dropped(why) => panic!("{why:?}"),
        }
    }

    #[test]
    fn the_decoder_reads_what_it_said_before() {
        let words = Arc::new(Words::of(["a b c x y z"]));
        let family = Seq2Seq::t5(&*words, &*words).unwrap();
        let mut objective = Translate::new(words, family, 4);
        let (got, cut) = sample(&objective, &Example::pair("a b c", "x y z"));
        assert_eq!(got.memory, Some(vec![107, 108, 109, 3]));
        assert_eq!((got.input, got.target), (vec![0, 110, 111, 112], vec![110, 111, 112, 3]));
        assert_eq!((got.weight, cut), (vec![1.0; 4], 0));
        objective.prefix = "c ".into();
        let (got, cut) = sample(&objective, &Example::pair("a b c", "x"));
        assert_eq!((got.memory, cut), (Some(vec![109, 107, 108, 3]), 1), "cut, counted, and still ended");
    }

    #[test]
    fn other_tasks_become_texts() {
        let words = Arc::new(Words::of(["fine film good question: who context: Ada"]));
        let objective = Translate::new(words.clone(), Seq2Seq::t5(&*words, &*words).unwrap(), 16);
        let encode = |text: &str| words.encode(text).unwrap().ids;
        let (got, _) = sample(&objective, &Example::labelled("fine film", "good"));
        assert_eq!(got.memory.unwrap(), [encode("fine film"), vec![3]].concat());
        let (got, _) = sample(&objective, &Example::question("Ada", "who", "Ada"));
        assert_eq!(got.memory.unwrap(), [encode("question: who context: Ada"), vec![3]].concat());
        assert!(objective.prepare(&Example::Text("fine".into())).is_err());
    }
}
