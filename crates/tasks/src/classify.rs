//! Classification: which class a text (or a pair of texts) belongs to, `softmax(W·pool(h) + b)` over the classes.

use crate::TextModel;
use crate::batches::{Listener, encode, finite, in_batches, largest, softmax};
use qkv_base::{Error, Result};
use qkv_model::Encoder;
use qkv_model::spec::Head;
use qkv_nn::Cx;
use serde::Serialize;

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
pub enum Input {
    /// one text
    Text(String),
    /// two texts and how they relate
    Pair(String, String),
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

/// The classes of each input, most probable first. A text that is too long is cut, a pair refused.
pub fn classify(
    model: &TextModel,
    inputs: &[Input],
    rows: usize,
    listener: &mut dyn Listener,
) -> Result<Vec<Vec<Label>>> {
    let Head::Classify { labels, .. } = model.spec().head else {
        model.needs(false, "classify", "a head that classifies")?;
        return Ok(vec![]);
    };
    let reads = model.spec().vocabulary().is_some();
    model.needs(reads, "classify", "a model that reads text (for images: `qkv image`)")?;
    let (names, tokenizer, longest) = (model.labels(labels)?, model.tokenizer()?, model.longest());
    let mut encodings = vec![];
    for input in inputs {
        encodings.push(match input {
            Input::Text(text) => encode(tokenizer, &[text], longest, listener)?.remove(0),
            Input::Pair(a, b) => {
                let encoding = tokenizer.encode_pair(a, b, true)?;
                if encoding.len() > longest {
                    let what = format!("has {} tokens, but the model reads {longest}", encoding.len());
                    return Err(Error::new("a pair", what, "shorten the texts"));
                }
                encoding
            }
        });
    }
    in_batches(&encodings, rows, listener, |batch, tokens| {
        let logits = finite(model.network.model.answer(&tokens, &mut Cx::eval())?, "classify")?;
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
