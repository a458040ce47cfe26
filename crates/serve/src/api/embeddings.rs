//! `POST /v1/embeddings` and `/v1/rerank`: a vector for each text, and which texts a query is nearest to.

use super::ask::ids;
use super::{Answer, reply};
use crate::app::App;
use crate::body::Call;
use crate::error::{ApiError, ApiResult};
use crate::fields::{Fields, missing, too_many};
use crate::served::Served;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use qkv_tasks::Silent;
use qkv_tasks::embed::{EmbedOptions, cosine, embed};
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers `/v1/embeddings`.
pub async fn answer(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = app.model(fields.text("model")?.as_deref(), |m| m.embeds(), "embeds")?;
    let texts = texts("input", fields.value("input"), served, app.limits.inputs)?;
    let base64 = match fields.text("encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err(ApiError::field("encoding_format", "must be `float` or `base64`")),
    };
    let width = served.model.spec().width;
    let dimensions = fields.count("dimensions", 1..=width)?;
    let ignored = fields.finish(app.strict)?;
    let (vectors, tokens) = vectors(served, &texts).await?;
    let one = |(index, vector): (usize, Vec<f32>)| {
        let vector = cut(vector, dimensions);
        let embedding = match base64 {
            true => Value::from(STANDARD.encode(vector.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())),
            false => json!(vector),
        };
        json!({"object": "embedding", "index": index, "embedding": embedding})
    };
    let data: Vec<Value> = vectors.into_iter().enumerate().map(one).collect();
    let value = json!({"object": "list", "data": data, "model": served.name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens}});
    Ok(reply(&value, &ignored))
}

/// The vectors of texts, and how many tokens they are.
pub async fn vectors(served: &Served, texts: &[String]) -> ApiResult<(Vec<Vec<f32>>, usize)> {
    let mut tokens = 0;
    for (i, text) in texts.iter().enumerate() {
        if text.trim().is_empty() {
            return Err(ApiError::field("input", format!("has an empty text at place {i}")));
        }
        tokens += served.encode("input", text)?.len().min(served.model.longest());
    }
    let ask = |model: &qkv_tasks::TextModel, batch: &[String]| {
        embed(model, batch, EmbedOptions::default(), batch.len(), &mut Silent)
    };
    Ok((served.ask_each(texts, ask).await?, tokens))
}

/// The first numbers of a vector, of length 1 again, as models that were made for it (Matryoshka) want it.
fn cut(mut vector: Vec<f32>, dimensions: Option<usize>) -> Vec<f32> {
    let Some(n) = dimensions else { return vector };
    vector.truncate(n);
    let length = vector.iter().map(|v| *v as f64 * *v as f64).sum::<f64>().sqrt().max(1e-12);
    vector.iter().map(|v| (*v as f64 / length) as f32).collect()
}

/// Texts, or ids of this model's own tokenizer, which are read back as text.
fn texts(name: &str, value: Option<Value>, served: &Served, most: usize) -> ApiResult<Vec<String>> {
    let of_ids = |value: &Value| -> ApiResult<String> {
        let tokenizer = served.model.tokenizer().map_err(|e| served.error(e))?;
        tokenizer.decode(&ids(name, value, 1 << 20)?, true).map_err(|e| served.error(e).of(name))
    };
    match value {
        None => Err(missing(name)),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(Value::Array(list)) if list.is_empty() => Err(ApiError::field(name, "is an empty list")),
        Some(value @ Value::Array(_)) if value[0].is_number() => Ok(vec![of_ids(&value)?]),
        Some(Value::Array(list)) if list.len() > most => Err(too_many(name, list.len(), most)),
        Some(Value::Array(list)) => {
            let one = |value: Value| match value {
                Value::String(text) => Ok(text),
                ids @ Value::Array(_) => of_ids(&ids),
                _ => Err(ApiError::field(name, "must be a string, a list of ids, or a list of those")),
            };
            list.into_iter().map(one).collect()
        }
        Some(_) => Err(ApiError::field(name, "must be a string, a list of ids, or a list of those")),
    }
}

/// Answers `/v1/rerank`: documents by the cosine of their vectors with the query's, nearest first.
pub async fn rerank(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    reranked(app, fields).await
}

/// The same of fields that were read.
pub async fn reranked(app: Arc<App>, fields: Fields) -> Answer {
    let served = app.model(fields.text("model")?.as_deref(), |m| m.embeds(), "embeds")?;
    let query = fields.needed_text("query")?;
    let (name, documents) = fields.any(&["documents", "texts"])?;
    let Value::Array(list) = documents else { return Err(ApiError::field(name, "must be a list of strings")) };
    if list.is_empty() || list.len() > app.limits.inputs {
        return Err(ApiError::field(name, format!("must have 1 to {} items", app.limits.inputs)));
    }
    let text = |v: &Value| v.as_str().or_else(|| v["text"].as_str()).map(str::to_string);
    let texts: Option<Vec<String>> = list.iter().map(text).collect();
    let texts = texts.ok_or_else(|| ApiError::field(name, "must be strings, or objects with a `text`"))?;
    let top = fields.count("top_n", 1..=1 << 20)?.unwrap_or(texts.len());
    let told = fields.flag("return_documents")?.unwrap_or(false);
    let ignored = fields.finish(app.strict)?;
    let all: Vec<String> = std::iter::once(query).chain(texts.iter().cloned()).collect();
    let (vectors, tokens) = vectors(served, &all).await?;
    let (query, rest) = vectors.split_first().ok_or_else(|| missing("query"))?;
    let mut scores: Vec<(usize, f64)> = rest.iter().map(|v| cosine(query, v)).enumerate().collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let one = |(index, score): &(usize, f64)| {
        let mut value = json!({"index": index, "relevance_score": score});
        if told {
            value["document"] = json!({"text": texts[*index]});
        }
        value
    };
    let results: Vec<Value> = scores.iter().take(top).map(one).collect();
    let value = json!({"id": app.id("rerank"), "model": served.name, "results": results,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens}});
    Ok(reply(&value, &ignored))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_vector_that_is_cut_has_length_1_again() {
        assert_eq!(super::cut(vec![3.0, 4.0, 9.0], Some(2)), [0.6, 0.8]);
        assert_eq!(super::cut(vec![3.0], None), [3.0]);
    }
}
