//! A task's sheet: which head it needs, how examples become rows, what it is judged by and how. One for each task, in the
//! file of that task; training, fine-tuning, evaluation and the verbs all read it.

use crate::judge::Judging;
use crate::metric::Metric;
use crate::{answer, classify, denoise, fill, image, language, tag, translate};
use qkv_base::{Error, Result, Task};
use qkv_data::objective::{Frame, Labels, Normalisation, Seq2Seq};
use qkv_data::{Objective, Side, Tokenize};
use qkv_model::families::{Framing, Sheet, TargetStart};
use qkv_model::spec::{Head, Input, Pool, Spec};
use qkv_text::Tokenizer;
use std::sync::Arc;

/// What one task is.
pub struct TaskSheet {
    /// which
    pub task: Task,
    /// the verb that asks a model that learnt it, and what a person gives it; none where no verb is made for it
    pub verb: Option<(&'static str, Given)>,
    /// what it can be judged by
    pub metrics: &'static [Metric],
    /// the one number it is judged by
    pub main: Metric,
    /// the network that it wants
    pub wants: Wants,
    /// the head that it needs, with so many labels, pooled as the family pools; none where the family's own will do
    pub head: fn(usize, Pool) -> Option<Head>,
    /// how its examples become rows
    pub objective: fn(&ObjectiveParts) -> Result<Objective>,
    /// judges: says of every row what the network thinks, and puts the scores
    pub(crate) judge: fn(&mut Judging) -> Result<()>,
    /// the main score from the sum of the counts of all examples
    pub(crate) of_counts: fn(&[f64]) -> f64,
}

/// What a person gives a verb besides the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// a text
    Text,
    /// something else, in the words of the help
    Words(&'static str),
}

/// The kind of network that a task wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// reads text
    Reader,
    /// continues a text
    Writer,
    /// reads one text and writes another
    Pair,
    /// looks at pictures
    Eyes,
}

impl Wants {
    /// The kind that a network is.
    pub fn of(spec: &Spec) -> Self {
        match (&spec.input, spec.encoder().is_some(), spec.decoder().is_some()) {
            (Input::Patches { .. }, ..) => Self::Eyes,
            (_, true, true) => Self::Pair,
            (_, true, false) => Self::Reader,
            _ => Self::Writer,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Reader => "an encoder, which reads text",
            Self::Writer => "a decoder, which continues a text",
            Self::Pair => "an encoder with a decoder, which reads one text and writes another",
            Self::Eyes => "a network that looks at pictures",
        }
    }
}

/// Every task's sheet.
pub const ALL: &[&TaskSheet] = &[
    &translate::SHEET,
    &language::SHEET,
    &fill::SHEET,
    &denoise::SPANS,
    &denoise::SHEET,
    &classify::SHEET,
    &classify::PAIRS,
    &tag::SHEET,
    &answer::SHEET,
    &image::SHEET,
];

/// The sheet of a task.
pub fn of(task: Task) -> &'static TaskSheet {
    // A test looks that every task has one.
    ALL.iter().copied().find(|sheet| sheet.task == task).unwrap_or(&translate::SHEET)
}

impl TaskSheet {
    /// Whether it reads a source and is judged by the text that it writes from it: a prefix can stand before the source, a beam
    /// can write, and a score takes as long as writing does.
    pub fn writes(&self) -> bool {
        self.task == Task::Translate
    }

    /// How examples become rows. A prefix is for tasks that read a source: elsewhere it would change nothing.
    pub fn rows(&self, parts: &ObjectiveParts) -> Result<Objective> {
        if !parts.prefix.is_empty() && !self.writes() {
            let what = format!("{} has no source that it could stand before", self.task.name());
            return Err(Error::new("prefix", what, "leave it out"));
        }
        (self.objective)(parts)
    }

    /// Refuses a network that cannot learn this, whatever its head.
    pub fn fits(&self, spec: &Spec, place: &str) -> Result<()> {
        let is = Wants::of(spec);
        if is == self.wants {
            return Ok(());
        }
        let what = format!("the network is {}; this task wants {}", is.name(), self.wants.name());
        Err(Error::new(place, what, "choose another of both"))
    }
}

/// What rows are made with.
pub struct ObjectiveParts<'a> {
    /// the family of the network
    pub family: &'static Sheet,
    /// text to ids; none for pictures
    pub tokenizer: Option<&'a Tokenizer>,
    /// classes or tags
    pub labels: &'a Labels,
    /// tokens of a row at most
    pub length: usize,
    /// what stands before every source
    pub prefix: &'a str,
    /// how pictures become numbers
    pub scale: Option<Normalisation>,
}

impl ObjectiveParts<'_> {
    /// The tokenizer; a task of text without one is refused.
    pub(crate) fn tokens(&self) -> Result<&Tokenizer> {
        let hint = "give one beside the model, or learn one";
        self.tokenizer.ok_or_else(|| Error::new("tokenizer", "this task reads text, and there is none", hint))
    }

    /// What is read.
    pub(crate) fn source(&self) -> Result<Arc<dyn Tokenize>> {
        Ok(Arc::new(Side::source(self.tokens()?)))
    }

    /// What is written.
    pub(crate) fn target(&self) -> Result<Arc<dyn Tokenize>> {
        Ok(Arc::new(Side::target(self.tokens()?)))
    }

    /// What stands around one text and two: what the tokenizer itself puts there, else what the family does. So a model is
    /// trained with the frame that it is asked with.
    pub(crate) fn frame(&self) -> Result<Frame> {
        let source = self.source()?;
        if let Some(frame) = Frame::of_tokenizer(self.tokens()?)? {
            // A tokenizer counts the kinds of tokens whether or not the family (DistilBERT) has a use for them.
            let none = matches!(self.family.framing, Framing::ClsSep { token_types: false });
            return Ok(Frame { token_types: frame.token_types && !none, ..frame });
        }
        match self.family.framing {
            Framing::ClsSep { token_types } => Ok(Frame { token_types, ..Frame::bert(&*source)? }),
            Framing::SeparatedTwice => Frame::roberta(&*source),
            Framing::Ended => Frame::ended(&*source),
        }
    }

    /// The frames of a family that writes one text from another.
    pub(crate) fn pair(&self) -> Result<Seq2Seq> {
        let (source, target) = (self.source()?, self.target()?);
        match self.family.target_start {
            Some(TargetStart::Eos) => Seq2Seq::bart(&*source),
            Some(TargetStart::Pad) => Seq2Seq::t5(&*source, &*target),
            None => {
                let what = format!("writes one text from another, which a {} network does not do", self.family.name);
                Err(Error::new("data.objective", what, "choose another model.family"))
            }
        }
    }
}

/// No head but the family's own.
pub(crate) fn own_head(_: usize, _: Pool) -> Option<Head> {
    None
}

/// `[right, all]`, in percent.
pub(crate) fn share(sum: &[f64]) -> f64 {
    match sum {
        [right, all] => 100.0 * right / all,
        _ => 0.0,
    }
}

/// `[nats, targets]`: the mean loss.
pub(crate) fn mean(sum: &[f64]) -> f64 {
    match sum {
        [nats, targets] => nats / targets,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_its_sheet() {
        for task in Task::ALL {
            let sheet = of(task);
            assert_eq!(sheet.task, task);
            assert!(sheet.metrics.contains(&sheet.main) && sheet.metrics.contains(&Metric::Loss));
        }
        assert_eq!(ALL.len(), Task::ALL.len());
    }
}
