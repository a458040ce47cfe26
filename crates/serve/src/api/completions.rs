//! `POST /v1/completions`: goes on with a text. A model that reads a source (T5, BART, Marian) takes the prompt for it.

use super::ask::{Ask, prompts};
use super::logprobs::{Piece, legacy, of_choice, of_prompt};
use super::session::{Said, Session};
use super::stream::{self, Dialect, Part};
use super::{Answer, reply, with_ignored};
use crate::app::{App, now};
use crate::body::Call;
use crate::error::ApiResult;
use crate::fields::Fields;
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers.
pub async fn answer(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let (served, adapter) = app.writer(fields.text("model")?.as_deref(), "writes text")?;
    let prompts = prompts("prompt", fields.value("prompt"), served, app.limits.inputs)?;
    let mut ask = Ask { adapter, ..Ask::of(&fields, served, &app)? };
    ask.logprobs = fields.count("logprobs", 0..=20)?;
    ask.echo = fields.flag("echo")?.unwrap_or(false);
    let (streams, usage) = streaming(&fields)?;
    let ignored = fields.finish(app.strict)?;
    if streams {
        stream::check(&ask)?;
    }
    let shape = Shape {
        id: app.id("cmpl"),
        created: now(),
        model: served.called(ask.adapter.as_deref()),
        logprobs: ask.logprobs,
        ids: ask.ids,
        usage,
        offsets: vec![0; prompts.len() * ask.n],
    };
    let session = Session::begin(app.clone(), served, ask, prompts, call.arrived)?;
    if streams {
        return Ok(with_ignored(stream::respond(session, shape), &ignored));
    }
    let (session, said) = session.finish().await?;
    Ok(reply(&shape.whole(&session, &said), &ignored))
}

/// Whether to stream, and whether to tell in the end how many tokens it was.
pub fn streaming(fields: &Fields) -> ApiResult<(bool, bool)> {
    let streams = fields.flag("stream")?.unwrap_or(false);
    let usage = match fields.object("stream_options")? {
        Some(options) => options.flag("include_usage")?.unwrap_or(false),
        None => false,
    };
    Ok((streams, usage))
}

/// OpenAI's `usage`.
pub fn usage(prompt: usize, completion: usize, cached: usize) -> Value {
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached}})
}

/// What all parts of an answer say.
struct Shape {
    id: String,
    created: u64,
    model: String,
    logprobs: Option<usize>,
    ids: bool,
    usage: bool,
    /// where in the text of each choice the next token begins
    offsets: Vec<usize>,
}

impl Shape {
    fn with(&self, choices: Value) -> Value {
        json!({"id": self.id, "object": "text_completion", "created": self.created, "model": self.model,
            "system_fingerprint": concat!("qkv-", env!("CARGO_PKG_VERSION")), "choices": choices})
    }

    fn whole(&self, session: &Session, said: &[Said]) -> Value {
        let (served, n) = (session.served(), session.ask.n);
        let mut choices = vec![];
        for (at, (one, prompt)) in said.iter().zip(&session.prompts).enumerate() {
            for (number, choice) in one.choices.iter().enumerate() {
                let mut pieces: Vec<Piece> = vec![];
                if let Some(scored) = &one.scored {
                    pieces = of_prompt(served, &prompt.ids, scored);
                }
                pieces.extend(of_choice(served, choice));
                let before = if session.ask.echo { prompt.text.as_str() } else { "" };
                let mut value = json!({"index": at * n + number, "text": format!("{before}{}", choice.text),
                    "logprobs": self.logprobs.map(|asked| legacy(&pieces, asked, 0)),
                    "finish_reason": choice.finish_reason()});
                if self.ids {
                    value["token_ids"] = json!(choice.ids);
                    value["prompt_token_ids"] = json!(prompt.ids);
                }
                if matches!(session.ask.search, qkv_decode::Search::Beam(_)) {
                    value["score"] = json!(choice.score);
                }
                choices.push(value);
            }
        }
        let completion = said.iter().flat_map(|s| &s.choices).map(|c| c.ids.len()).sum();
        let mut whole = self.with(choices.into());
        whole["usage"] = usage(session.prompt_tokens(), completion, said.iter().map(|s| s.cached).sum());
        whole
    }
}

impl Dialect for Shape {
    fn part(&mut self, index: usize, part: Part) -> Option<Value> {
        let mut choice = json!({"index": index, "text": "", "logprobs": null, "finish_reason": null});
        match part {
            Part::Begin => return None,
            Part::Text { text, pieces, ids } => {
                choice["text"] = json!(text);
                if let Some((pieces, asked)) = pieces.zip(self.logprobs) {
                    let value = legacy(pieces, asked, self.offsets[index]);
                    choice["logprobs"] = value;
                }
                self.offsets[index] += text.chars().count();
                if self.ids {
                    choice["token_ids"] = json!(ids);
                }
            }
            Part::End(reason) => choice["finish_reason"] = json!(reason),
            Part::Usage { prompt, completion, cached } => {
                return self.usage.then(|| {
                    let mut value = self.with(json!([]));
                    value["usage"] = usage(prompt, completion, cached);
                    value
                });
            }
        }
        let mut value = self.with(json!([choice]));
        if self.usage {
            value["usage"] = Value::Null;
        }
        Some(value)
    }
}
