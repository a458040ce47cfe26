//! The paths of Hugging Face's text-embeddings-inference: `/embed`, `/predict`, `/similarity`, `/rerank` with `texts`, `/info`.

use super::embeddings::vectors;
use super::tasks::classes;
use super::{Answer, reply};
use crate::app::App;
use crate::body::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use qkv_base::Task;
use qkv_tasks::classify::{ClassifyInput, Label};
use qkv_tasks::embed::cosine;
use serde_json::{Value, json};
use std::sync::Arc;

/// What changes no answer here: texts that are too long are always cut, scores always between 0 and 1.
const PASSED_OVER: &[&str] = &["truncate", "truncation_direction", "raw_scores", "prompt_name"];

fn passed_over(fields: &Fields) {
    PASSED_OVER.iter().for_each(|name| drop(fields.value(name)));
}

/// Answers `/embed`: a list of vectors and nothing else.
pub async fn embed(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = app.model(fields.text("model")?.as_deref(), |m| m.embeds(), "embeds")?;
    let (texts, _) = fields.inputs(&["inputs"], app.limits.inputs)?;
    let normalize = fields.flag("normalize")?.unwrap_or(true);
    passed_over(&fields);
    let ignored = fields.finish(app.strict)?;
    let (mut all, _) = vectors(served, &texts).await?;
    if normalize {
        for vector in &mut all {
            let length = vector.iter().map(|v| *v as f64 * *v as f64).sum::<f64>().sqrt().max(1e-12);
            vector.iter_mut().for_each(|v| *v = (*v as f64 / length) as f32);
        }
    }
    Ok(reply(&json!(all), &ignored))
}

/// Answers `/predict`: the classes of a text, or of each of several.
pub async fn predict(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let can = |m: &crate::served::Served| m.task() == Some(Task::Classify);
    let served = app.model(fields.text("model")?.as_deref(), can, "classifies texts")?;
    let (texts, one) = fields.inputs(&["inputs"], app.limits.inputs)?;
    passed_over(&fields);
    let ignored = fields.finish(app.strict)?;
    let inputs: Vec<ClassifyInput> = texts.into_iter().map(ClassifyInput::Text).collect();
    let told = |labels: &Vec<Label>| -> Value { json!(labels) };
    let mut all: Vec<Value> = classes(served, &inputs).await?.iter().map(told).collect();
    Ok(reply(&if one { all.remove(0) } else { json!(all) }, &ignored))
}

/// Answers `/similarity`: how near each of some texts is to one.
pub async fn similarity(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = app.model(fields.text("model")?.as_deref(), |m| m.embeds(), "embeds")?;
    let inputs = fields.object("inputs")?.ok_or_else(|| crate::fields::missing("inputs"))?;
    let source = inputs.needed_text("source_sentence")?;
    let (sentences, _) = inputs.inputs(&["sentences"], app.limits.inputs)?;
    drop(fields.value("parameters"));
    let ignored = fields.finish(app.strict)?;
    let all: Vec<String> = std::iter::once(source).chain(sentences).collect();
    let (vectors, _) = vectors(served, &all).await?;
    let (first, rest) = vectors.split_first().ok_or_else(|| crate::fields::missing("inputs"))?;
    Ok(reply(&json!(rest.iter().map(|v| cosine(first, v)).collect::<Vec<f64>>()), &ignored))
}

/// Answers `/rerank`: with `texts` as text-embeddings-inference does, with `documents` as `/v1/rerank`.
pub async fn rerank(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    if !fields.has("texts") {
        return super::embeddings::reranked(app, fields).await;
    }
    let served = app.model(fields.text("model")?.as_deref(), |m| m.embeds(), "embeds")?;
    let query = fields.needed_text("query")?;
    let (texts, _) = fields.inputs(&["texts"], app.limits.inputs)?;
    let told = fields.flag("return_text")?.unwrap_or(false);
    passed_over(&fields);
    let ignored = fields.finish(app.strict)?;
    let all: Vec<String> = std::iter::once(query).chain(texts.iter().cloned()).collect();
    let (vectors, _) = vectors(served, &all).await?;
    let (query, rest) = vectors.split_first().ok_or_else(|| crate::fields::missing("query"))?;
    let mut scores: Vec<(usize, f64)> = rest.iter().map(|v| cosine(query, v)).enumerate().collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let one = |(index, score): &(usize, f64)| match told {
        true => json!({"index": index, "score": score, "text": texts[*index]}),
        false => json!({"index": index, "score": score}),
    };
    Ok(reply(&json!(scores.iter().map(one).collect::<Vec<Value>>()), &ignored))
}

/// Answers `/info`: what is served, and how much of it at once.
pub async fn info(app: Arc<App>, _: Call) -> Answer {
    let first = app.models.first().ok_or_else(|| ApiError::internal("no model"))?;
    let value = json!({"model_id": first.name, "model_dtype": "float32", "version": env!("CARGO_PKG_VERSION"),
        "max_input_length": first.context(), "max_client_batch_size": app.limits.inputs,
        "max_concurrent_requests": first.rows.saturating_add(app.limits.queue), "models": app.names()});
    Ok(reply(&value, &[]))
}
