//! Classification without a head that classifies: a language model says how probable each label is as what comes next,
//! `P(label | text)`, and the probabilities are compared with each other. Nothing is learnt for it.
//!
//! A prompt puts text and label into a sentence: `{text} It was {label}.` The label's own tokens are scored, and what stands
//! behind them.

use crate::classify::{Label, ranked};
use crate::likelihood::{TextOrIds, likelihood};
use crate::{Listener, TextModel};
use qkv_base::{Error, Kind, Result};

/// What stands around text and label, where nothing else is said.
pub const PROMPT: &str = "{text} {label}";

/// Every label of each text, most probable first.
pub fn zero_shot(
    model: &TextModel,
    texts: &[String],
    labels: &[String],
    prompt: &str,
    listener: &mut dyn Listener,
) -> Result<Vec<Vec<Label>>> {
    if labels.len() < 2 || labels.iter().any(|label| label.trim().is_empty()) {
        let what = format!("{} labels are no choice", labels.iter().filter(|l| !l.trim().is_empty()).count());
        return Err(Error::new("zero-shot", what, "give two or more: good,bad"));
    }
    let Some((before, behind)) = prompt.split_once("{label}").filter(|(before, _)| before.contains("{text}")) else {
        let what = format!("`{prompt}` does not name a text and then a label");
        return Err(Error::new("prompt", what, format!("write as in \"{PROMPT}\"")));
    };
    let mut all = vec![];
    for (done, text) in texts.iter().enumerate() {
        if listener.is_cancelled() {
            return Err(Error::new("zero-shot", "was interrupted", "").of_kind(Kind::Interrupted));
        }
        let before = before.replace("{text}", text);
        let score = |label: &String| logprob(model, &before, &format!("{label}{behind}")).map(|p| p as f32);
        let scores: Vec<f32> = labels.iter().map(score).collect::<Result<_>>()?;
        all.push(ranked(&scores, labels)); // a softmax of log-probabilities: their shares
        listener.progress(done + 1, texts.len());
    }
    Ok(all)
}

/// log P(what | before), natural.
fn logprob(model: &TextModel, before: &str, what: &str) -> Result<f64> {
    if model.is_pair() {
        let source = TextOrIds::Text(before.trim_end().into());
        return Ok(likelihood(model, &TextOrIds::Text(what.into()), Some(&source))?.logprob);
    }
    let whole = format!("{before}{what}");
    // What the beginning alone is cut into may end otherwise: only tokens that both share are given.
    let (given, all) = (model.encode(before)?, model.encode(&whole)?);
    let shared = given.iter().zip(&all).take_while(|(a, b)| a == b).count();
    let scores = likelihood(model, &TextOrIds::Text(whole), None)?.tokens;
    // The first token has a score only where a start token stands before it.
    let asked = all.len().saturating_sub(shared).min(scores.len());
    Ok(scores[scores.len() - asked..].iter().map(|token| token.logprob).sum())
}
