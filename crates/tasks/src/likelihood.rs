//! Likelihood: how probable a text is, token by token, by the product rule `P(y₁ … y_T) = Π P(y_t | y_<t)`.

use crate::TextModel;
use qkv_base::{Error, Result};
use qkv_decode::{TextScore, score, score_pair};

/// What is scored: text, or ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextOrIds {
    /// as text
    Text(String),
    /// as ids
    Ids(Vec<u32>),
}

/// The scores of `text`, after `source` where the model reads one.
pub fn likelihood(model: &TextModel, text: &TextOrIds, source: Option<&TextOrIds>) -> Result<TextScore> {
    let network = &model.network.model;
    if !model.is_pair() {
        if source.is_some() {
            return Err(Error::new("source", "this model reads none", "leave it out"));
        }
        let ids = match text {
            TextOrIds::Text(text) => {
                let ids = model.encode(text)?;
                // With a start token before it even the first token has a score.
                let bos = model.defaults.bos.filter(|bos| ids.first() != Some(bos));
                bos.into_iter().chain(ids).collect()
            }
            TextOrIds::Ids(ids) => ids.clone(),
        };
        return checked(model, score(network, &ids)?);
    }
    let source = match source {
        Some(TextOrIds::Text(text)) => model.encode(text)?,
        Some(TextOrIds::Ids(ids)) => ids.clone(),
        None => {
            return Err(Error::new("source", "this model scores a text that follows a source", "add --source TEXT"));
        }
    };
    let target = match text {
        TextOrIds::Text(text) => model.tokenizer()?.encode_target(text, true)?.ids,
        TextOrIds::Ids(ids) => ids.clone(),
    };
    checked(model, score_pair(network, &source, &model.start()?, &target)?)
}

/// A score that is not a number is none.
fn checked(model: &TextModel, score: TextScore) -> Result<TextScore> {
    match score.tokens.iter().position(|t| t.logprob.is_nan()) {
        Some(at) => Err(model.not_finite("score", format!("token {} has no probability", at + 1))),
        None => Ok(score),
    }
}
