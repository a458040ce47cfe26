//! Classification: which class a text (or a pair of texts) belongs to, `softmax(W·pool(h) + b)` over the classes.

use crate::TextModel;
use crate::batches::{Listener, encode, finite, in_batches, largest, softmax};
use crate::judge::Judging;
use crate::metric::{Judged, Metric};
use crate::sheet::{self, Given, ObjectiveParts, TaskSheet, Wants};
use qkv_base::{Error, Result, Task};
use qkv_data::{Example, Objective};
use qkv_metric::Classification;
use qkv_model::Encoder;
use qkv_model::spec::Head;
use qkv_nn::Cx;
use serde::Serialize;
use std::collections::BTreeMap;

/// The sheet for one text.
pub const SHEET: TaskSheet = TaskSheet {
    task: Task::Classify,
    verb: Some(("classify", Given::Text)),
    metrics: &[Metric::Loss, Metric::Accuracy, Metric::F1, Metric::MicroF1],
    main: Metric::Accuracy,
    wants: Wants::Reader,
    head: |labels, pool| Some(Head::Classify { labels, pool }),
    objective,
    judge,
    of_counts: sheet::share,
};

/// The sheet for two texts.
pub const PAIRS: TaskSheet =
    TaskSheet { task: Task::ClassifyPair, verb: Some(("classify", Given::Words("--pair TEXT TEXT"))), ..SHEET };

fn objective(parts: &ObjectiveParts) -> Result<Objective> {
    Ok(Objective::classify(parts.source()?, parts.frame()?, parts.labels.clone(), parts.length))
}

/// One class for each example, of texts or of pictures.
pub(crate) fn judge(on: &mut Judging) -> Result<()> {
    on.looks = on.judge.looks(on.ready)?;
    let mut judged = BTreeMap::new();
    for (r, look) in on.ready.iter().zip(&on.looks) {
        let Some((target, best)) = look.said.first() else { continue };
        let example = on.corpus.get(r.example)?;
        let source = match example {
            Example::Image { .. } => on.corpus.place(r.example),
            other => other.text().into_owned(),
        };
        let (expected, got) = (on.judge.label(*target), on.judge.label(*best as i64));
        let counts = vec![f64::from(u8::from(got == expected)), 1.0];
        let p = look.classes.iter().enumerate().map(|(i, p)| (on.judge.label(i as i64), *p));
        let (score, probabilities) = (-look.nats, p.collect());
        judged.insert(r.example, Judged { source, expected, got, score, probabilities, counts });
    }
    on.scores.judged = judged.into_values().collect();
    let column = |of: fn(&Judged) -> &String| on.scores.judged.iter().map(of).collect::<Vec<_>>();
    let table = Classification::new(&column(|j| &j.expected), &column(|j| &j.got))?;
    on.scores.put([
        (Metric::Accuracy, 100.0 * table.accuracy),
        (Metric::F1, 100.0 * table.averages.macro_.f1),
        (Metric::MicroF1, 100.0 * table.averages.micro.f1),
    ]);
    on.scores.table = Some(table.confusion.render());
    Ok(())
}

/// A class and how probable it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Label {
    /// its name
    pub label: String,
    /// its probability, 0 to 1
    pub score: f64,
}

/// Every class, most probable first; of equals the first.
pub(crate) fn ranked(logits: &[f32], names: &[String]) -> Vec<Label> {
    let p = softmax(logits);
    largest(&p, p.len()).into_iter().map(|i| Label { label: names[i].clone(), score: p[i] }).collect()
}

/// What is classified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassifyInput {
    /// one text
    Text(String),
    /// two texts and how they relate
    Pair(String, String),
}

impl From<&str> for ClassifyInput {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

/// Refuses a head whose numbers do not compete: a softmax over them would look right and mean nothing.
pub(crate) fn one_of_several(model: &TextModel, labels: usize) -> Result<()> {
    let config = &model.network.config;
    let kind = config.word("problem_type")?.unwrap_or("single_label_classification");
    let hint = "a model of one class among several is wanted: retrain it, or change the key if it is wrong";
    match (kind, labels) {
        ("single_label_classification", 2..) => Ok(()),
        ("single_label_classification", _) => {
            let what = "there is one label only: its probability would always be 1";
            Err(Error::new(config.place(), what, hint))
        }
        (other, _) => {
            let what = format!("problem_type is `{other}`: its numbers are not the probabilities of classes");
            Err(Error::new(config.place(), what, hint))
        }
    }
}

/// The classes of each input, most probable first. A text that is too long is cut, a pair refused.
pub fn classify(
    model: &TextModel,
    inputs: &[ClassifyInput],
    rows: usize,
    listener: &mut dyn Listener,
) -> Result<Vec<Vec<Label>>> {
    let Head::Classify { labels, .. } = model.spec().head else {
        model.needs(false, "classify", "a head that classifies")?;
        return Ok(vec![]);
    };
    let reads = model.spec().vocabulary().is_some();
    model.needs(reads, "classify", "a model that reads text (for images: `qkv image MODEL FILE`)")?;
    one_of_several(model, labels)?;
    let (names, tokenizer, longest) = (model.labels(labels)?, model.tokenizer()?, model.longest());
    let mut encodings = vec![];
    for input in inputs {
        encodings.push(match input {
            ClassifyInput::Text(text) => encode(tokenizer, &[text], longest, listener)?.remove(0),
            ClassifyInput::Pair(a, b) => {
                let encoding = tokenizer.encode_pair(a, b, true)?;
                if encoding.len() > longest {
                    let what = format!("has {} tokens, but the model reads {longest}", encoding.len());
                    return Err(Error::new("a pair", what, "shorten the texts"));
                }
                encoding
            }
        });
    }
    if !model.has_token_types() {
        encodings.iter_mut().for_each(|e| e.type_ids.fill(0));
    }
    in_batches(&encodings, rows, listener, |batch, tokens| {
        let logits = finite(model.network.model.answer(&tokens, &mut Cx::eval())?, "classify", model)?;
        Ok(logits.chunks(labels).take(batch.len()).map(|row| ranked(row, &names)).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_probable_class_comes_first() {
        let names = ["a", "b", "c"].map(String::from);
        let got = ranked(&[0.0, 2.0, 2.0], &names);
        assert_eq!(got.iter().map(|l| l.label.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
        assert!((got.iter().map(|l| l.score).sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
