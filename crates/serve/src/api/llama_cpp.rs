//! llama.cpp's own paths: `POST /completion` (and `/completions`) and `/apply-template`. `/tokenize` and `/detokenize` are in
//! [`tasks`](super::tasks).

use super::ask::{Ask, prompts};
use super::session::{Said, Session};
use super::stream::{self, Dialect, Part};
use super::{Answer, reply, with_ignored};
use crate::app::App;
use crate::body::Call;
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use qkv_decode::End;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Their names for our fields.
const NAMES: &[(&str, &str)] =
    &[("n_predict", "max_tokens"), ("repeat_penalty", "repetition_penalty"), ("return_tokens", "return_token_ids")];

/// What changes no answer here.
const PASSED_OVER: &[&str] =
    &["cache_prompt", "id_slot", "n_keep", "timings_per_token", "post_sampling_probs", "t_max_predict_ms"];

/// Answers `/completion`.
pub async fn completion(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let (served, adapter) = app.writer(fields.text("model")?.as_deref(), "writes text")?;
    renamed(&fields)?;
    let prompts = prompts("prompt", fields.value("prompt"), served, 1)?;
    let ask = Ask { adapter, otherwise: 1 << 20, ..Ask::of(&fields, served, &app)? };
    if ask.n > 1 {
        return Err(ApiError::field("n", "is 1 here; `/v1/completions` tells several"));
    }
    let streams = fields.flag("stream")?.unwrap_or(false);
    PASSED_OVER.iter().for_each(|name| drop(fields.value(name)));
    let ignored = fields.finish(app.strict)?;
    if streams {
        stream::check(&ask)?;
    }
    let (model, ends, ids) = (served.called(ask.adapter.as_deref()), ask.ends.clone(), ask.ids);
    let read = prompts.iter().map(|p| p.ids.len()).sum();
    let shape = Shape { model, ends, ids, read, last: None, predicted: 0, reason: "limit" };
    let session = Session::begin(app.clone(), served, ask, prompts, call.arrived)?;
    if streams {
        return Ok(with_ignored(stream::respond(session, shape), &ignored));
    }
    let (session, said) = session.finish().await?;
    Ok(reply(&shape.whole(&session, &said), &ignored))
}

/// Their fields by our names; −1 is their way to say: as it is usual.
fn renamed(fields: &Fields) -> ApiResult<()> {
    for (theirs, ours) in NAMES {
        if let Some(value) = fields.value(theirs) {
            fields.default(ours, value);
        }
    }
    for name in ["max_tokens", "seed"] {
        if let Some(value) = fields.value(name).filter(|value| *value != json!(-1)) {
            fields.default(name, value);
        }
    }
    if let Some(schema) = fields.value("json_schema") {
        fields.default(
            "response_format",
            json!({"type": "json_schema", "json_schema": {"name": "schema", "schema": schema}}),
        );
    }
    // Pairs of an id and a number, or false for a token that must not come.
    if let Some(bias) = fields.value("logit_bias") {
        let wrong = || ApiError::field("logit_bias", "must be a list of an id and a number each, or an object");
        let map = match bias {
            Value::Array(list) => {
                let pair = |pair: &Value| -> ApiResult<(String, Value)> {
                    let id = pair[0].as_u64().ok_or_else(wrong)?;
                    let bias = if pair[1] == json!(false) { json!(-100) } else { pair[1].clone() };
                    Ok((id.to_string(), bias))
                };
                Value::Object(list.iter().map(pair).collect::<ApiResult<Map<_, _>>>()?)
            }
            other => other,
        };
        fields.default("logit_bias", map);
    }
    match fields.value("n_probs") {
        Some(n) if n != json!(0) => Err(ApiError::field("n_probs", "is told by `/v1/completions`, as `logprobs`")),
        _ => Ok(()),
    }
}

/// What all parts of an answer say.
struct Shape {
    model: String,
    ends: Vec<u32>,
    ids: bool,
    /// tokens of the prompt
    read: usize,
    /// the last token that was said
    last: Option<u32>,
    predicted: usize,
    reason: &'static str,
}

impl Shape {
    fn part(&self, content: &str, ids: &[u32], stop: bool) -> Value {
        let ids = if self.ids { ids } else { &[] };
        json!({"index": 0, "content": content, "tokens": ids, "id_slot": 0, "stop": stop,
            "tokens_predicted": self.predicted, "tokens_evaluated": self.read})
    }

    fn end(&self, mut value: Value, cached: usize) -> Value {
        value["model"] = json!(self.model);
        value["stop_type"] = json!(self.reason);
        value["truncated"] = json!(false);
        value["tokens_cached"] = json!(cached);
        value["timings"] =
            json!({"prompt_n": self.read.saturating_sub(cached), "cache_n": cached, "predicted_n": self.predicted});
        value
    }

    fn whole(mut self, session: &Session, said: &[Said]) -> Value {
        let Some((one, choice)) = said.first().and_then(|one| Some((one, one.choices.first()?))) else {
            return json!({});
        };
        self.predicted = choice.ids.len();
        self.reason = match choice.end {
            End::Length => "limit",
            End::Token => "eos",
            End::Text | End::Stopped => "word",
        };
        let mut value = self.end(self.part(&choice.text, &choice.ids, true), one.cached);
        value["prompt"] = json!(session.prompts.first().map(|p| p.text.as_str()));
        value
    }
}

impl Dialect for Shape {
    fn part(&mut self, _: usize, part: Part) -> Option<Value> {
        match part {
            Part::Begin => None,
            Part::Text { text, ids, .. } => {
                self.last = ids.last().copied().or(self.last);
                self.predicted += ids.len();
                Some(Shape::part(self, text, ids, false))
            }
            Part::End(reason) => {
                let ended = self.last.is_some_and(|id| self.ends.contains(&id));
                self.reason = if reason == "length" {
                    "limit"
                } else if ended {
                    "eos"
                } else {
                    "word"
                };
                None
            }
            Part::Usage { completion, cached, .. } => {
                self.predicted = completion;
                Some(self.end(Shape::part(self, "", &[], true), cached))
            }
        }
    }
}

/// Answers `/apply-template`: a conversation as the model will read it.
pub async fn apply_template(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let (served, _) = app.writer(fields.text("model")?.as_deref(), "writes text")?;
    let tools = super::tools::Tools::of(&fields, served)?;
    let prompt = super::chat::prompt(served, fields.value("messages"), tools.as_ref())?;
    let ignored = fields.finish(app.strict)?;
    Ok(reply(&json!({"prompt": prompt.text}), &ignored))
}
