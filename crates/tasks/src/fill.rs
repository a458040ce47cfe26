//! Filling gaps: what a masked language model would put where a word is missing.

use crate::TextModel;
use crate::batches::{Listener, encode, finite, in_batches, largest, softmax};
use crate::language;
use crate::metric::Metric;
use crate::sheet::{self, Given, ObjectiveParts, TaskSheet, Wants};
use qkv_base::{Error, Result, Task};
use qkv_data::Objective;
use qkv_data::objective::Masked;
use qkv_model::Encoder;
use qkv_model::spec::Head;
use qkv_nn::Cx;
use serde::Serialize;

/// The sheet.
pub const SHEET: TaskSheet = TaskSheet {
    task: Task::Masked,
    verb: Some(("fill", Given::Words("\"TEXT with a [MASK]\""))),
    metrics: &[Metric::Loss, Metric::Perplexity, Metric::Accuracy],
    main: Metric::Loss,
    wants: Wants::Reader,
    head: sheet::own_head,
    objective,
    judge: language::judge,
    of_counts: sheet::mean,
};

fn objective(parts: &ObjectiveParts) -> Result<Objective> {
    Ok(Objective::Masked(Masked::bert(parts.source()?, parts.frame()?, parts.length)?))
}

/// What may stand in a gap.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// as text
    pub text: String,
    /// as a token
    pub id: u32,
    /// how probable it is
    pub probability: f64,
}

/// The texts with the model's own mask token where `[MASK]` stands.
pub fn with_mask<S: AsRef<str>>(model: &TextModel, texts: &[S]) -> Result<Vec<String>> {
    let tokenizer = model.tokenizer()?;
    let Some(mask) = tokenizer.special().mask else {
        let place = model.path.display().to_string();
        return Err(Error::new(place, "the tokenizer has no mask token", "use another model"));
    };
    let word = tokenizer.piece(mask).unwrap_or_default();
    Ok(texts.iter().map(|t| t.as_ref().replace("[MASK]", &word)).collect())
}

/// The `top` candidates for each gap of each text: `[text][gap][candidate]`, best first. `[MASK]` is understood for every
/// model.
pub fn fill<S: AsRef<str>>(
    model: &TextModel,
    texts: &[S],
    top: usize,
    rows: usize,
    listener: &mut dyn Listener,
) -> Result<Vec<Vec<Vec<Candidate>>>> {
    model.needs(matches!(model.spec().head, Head::Masked { .. }), "fill", "a masked-language head")?;
    let texts = with_mask(model, texts)?;
    let tokenizer = model.tokenizer()?;
    let mask = tokenizer.special().mask.unwrap_or_default();
    let encodings = encode(tokenizer, &texts, model.longest(), listener)?;
    if let Some(i) = encodings.iter().position(|e| !e.ids.contains(&mask)) {
        let word = tokenizer.piece(mask).unwrap_or_default();
        let what = format!("has no gap: `{}`", texts[i]);
        return Err(Error::new(format!("text {}", i + 1), what, format!("write {word} where a word is missing")));
    }
    let name = |id: u32| -> Result<String> {
        let shown = tokenizer.decode(&[id], false)?;
        Ok(if shown.is_empty() { tokenizer.piece(id).unwrap_or_default() } else { shown })
    };
    in_batches(&encodings, rows, listener, |batch, tokens| {
        let logits = model.network.model.answer(&tokens, &mut Cx::eval())?;
        let [_, t, v] = logits.dims();
        let values = finite(logits, "fill", model)?;
        let gap = |b: usize, at: usize| -> Result<Vec<Candidate>> {
            let p = softmax(&values[(b * t + at) * v..][..v]);
            // A table is often padded beyond the tokenizer: what has no name is not a candidate.
            let named = largest(&p, v).into_iter().filter(|id| tokenizer.piece(*id as u32).is_some()).take(top);
            named.map(|id| Ok(Candidate { text: name(id as u32)?, id: id as u32, probability: p[id] })).collect()
        };
        let row = |(b, i): (usize, &usize)| -> Result<Vec<Vec<Candidate>>> {
            let gaps = encodings[*i].ids.iter().enumerate().filter(|(_, id)| **id == mask);
            gaps.map(|(at, _)| gap(b, at)).collect()
        };
        batch.iter().enumerate().map(row).collect()
    })
}
