//! `POST /v1/chat/completions`: the next turn of a conversation, rendered by the model's own chat template, which also tells the
//! model of the tools that it may call.

use super::ask::{Ask, Prompt};
use super::completions::{streaming, usage};
use super::format::Format;
use super::logprobs::{chat, of_choice};
use super::session::{Said, Session};
use super::stream::{self, Dialect, Part};
use super::tools::{Tools, calls, plain_calls};
use super::{Answer, reply, with_ignored};
use crate::app::{App, now};
use crate::body::Call;
use crate::error::{ApiError, ApiResult};
use crate::fields::missing;
use crate::served::Served;
use serde_json::{Value, json};
use std::sync::Arc;

/// Answers.
pub async fn answer(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let (served, adapter) = app.writer(fields.text("model")?.as_deref(), "writes text")?;
    let tools = Tools::of(&fields, served)?;
    let prompt = prompt(served, fields.value("messages"), tools.as_ref())?;
    let has_form = Format::is_asked(&fields);
    let mut ask = Ask { adapter, ..Ask::of(&fields, served, &app)? };
    ask.otherwise = 1024;
    if let Some(tools) = &tools {
        tools.hold(&mut ask.chain, served, &ask.ends, has_form)?;
    }
    let (told, top) = (fields.flag("logprobs")?.unwrap_or(false), fields.count("top_logprobs", 0..=20)?);
    if top.is_some() && !told {
        return Err(ApiError::field("top_logprobs", "wants `logprobs` to be true"));
    }
    ask.logprobs = told.then(|| top.unwrap_or(0));
    let (streams, usage) = streaming(&fields)?;
    let ignored = fields.finish(app.strict)?;
    if streams {
        stream::check(&ask)?;
    }
    let shape = Shape {
        app: app.clone(),
        id: app.id("chatcmpl"),
        created: now(),
        model: served.called(ask.adapter.as_deref()),
        usage,
        ids: ask.ids,
        tools,
        written: vec![(String::new(), 0); ask.n],
    };
    let session = Session::begin(app.clone(), served, ask, vec![prompt], call.arrived)?;
    if streams {
        return Ok(with_ignored(stream::respond(session, shape), &ignored));
    }
    let (session, said) = session.finish().await?;
    Ok(reply(&shape.whole(&session, &said), &ignored))
}

/// The messages of a conversation as one prompt.
pub fn prompt(served: &Served, messages: Option<Value>, tools: Option<&Tools>) -> ApiResult<Prompt> {
    let wrong = |what: &str| ApiError::field("messages", what);
    let list = match messages {
        None => return Err(missing("messages")),
        Some(Value::Array(list)) if list.is_empty() => return Err(wrong("is an empty list")),
        Some(Value::Array(list)) if list.len() > 4096 => {
            return Err(crate::fields::too_many("messages", list.len(), 4096));
        }
        Some(Value::Array(list)) => list,
        Some(_) => return Err(wrong("must be a list of objects with `role` and `content`")),
    };
    let chat = served.chat.as_ref().map_err(|e| served.error(e.clone()).of("messages").code("no_chat_template"))?;
    let mut plain = vec![];
    for message in list {
        let Value::Object(mut message) = message else {
            return Err(wrong("must be a list of objects with `role` and `content`"));
        };
        if !message.get("role").is_some_and(Value::is_string) {
            return Err(wrong("has one without a `role`"));
        }
        let content = match message.remove("content") {
            Some(Value::String(text)) => text,
            None | Some(Value::Null) => String::new(),
            Some(Value::Array(parts)) => {
                let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_string);
                let texts: Option<Vec<String>> = parts.iter().map(text).collect();
                texts.ok_or_else(|| wrong("has a part that is no text; this model reads text alone"))?.concat()
            }
            Some(_) => return Err(wrong("has one whose `content` is neither a text nor a list of texts")),
        };
        message.insert("content".into(), content.into());
        plain_calls(&mut message);
        plain.push(Value::Object(message));
    }
    let tools = tools.map(|tools| tools.json.to_string());
    let others: Vec<(&str, &str)> = tools.iter().map(|tools| ("tools", tools.as_str())).collect();
    let text = chat.render_json(&Value::from(plain).to_string(), true, &others);
    let text = text.map_err(|e| served.error(e).of("messages"))?;
    let most = served.context().saturating_mul(64).max(4096);
    if text.len() > most {
        let what = format!("come to {} bytes; a context of {} tokens cannot hold them", text.len(), served.context());
        return Err(ApiError::field("messages", what).code("context_length_exceeded"));
    }
    // The template has put the special tokens into the text itself.
    let tokenizer = served.model.tokenizer().map_err(|e| served.error(e))?;
    let ids = tokenizer.encode(&text, false).map_err(|e| served.error(e).of("messages"))?.ids;
    match ids.is_empty() {
        true => Err(wrong("come to no tokens")),
        false => Ok(Prompt { ids, text }),
    }
}

/// What all parts of an answer say.
struct Shape {
    app: Arc<App>,
    id: String,
    created: u64,
    model: String,
    usage: bool,
    ids: bool,
    tools: Option<Tools>,
    /// what was written of each continuation, where calls may be in it, and how much of that was told
    written: Vec<(String, usize)>,
}

impl Shape {
    fn with(&self, object: &str, choices: Value) -> Value {
        json!({"id": self.id, "object": object, "created": self.created, "model": self.model,
            "system_fingerprint": concat!("qkv-", env!("CARGO_PKG_VERSION")), "choices": choices})
    }

    fn whole(&self, session: &Session, said: &[Said]) -> Value {
        let served = session.served();
        let all = said.iter().flat_map(|s| &s.choices);
        let one = |(index, choice): (usize, &super::session::Choice)| {
            let logprobs = session.ask.logprobs.map(|_| chat(&of_choice(served, choice)));
            let mut value = json!({"index": index, "logprobs": logprobs, "finish_reason": choice.finish_reason(),
                "message": {"role": "assistant", "content": choice.text, "refusal": null}});
            if let Some((text, found)) = self.tools.as_ref().map(|tools| tools.find(&choice.text))
                && !found.is_empty()
            {
                value["message"]["content"] = if text.is_empty() { Value::Null } else { text.into() };
                value["message"]["tool_calls"] = calls(&self.app, &found, false);
                value["finish_reason"] = "tool_calls".into();
            }
            if self.ids {
                value["token_ids"] = json!(choice.ids);
            }
            value
        };
        let mut whole = self.with("chat.completion", all.clone().enumerate().map(one).collect());
        whole["usage"] =
            usage(session.prompt_tokens(), all.map(|c| c.ids.len()).sum(), said.iter().map(|s| s.cached).sum());
        whole
    }
}

impl Dialect for Shape {
    fn part(&mut self, index: usize, part: Part) -> Option<Value> {
        let mut choice = json!({"index": index, "delta": {}, "logprobs": null, "finish_reason": null});
        match part {
            Part::Begin => choice["delta"] = json!({"role": "assistant", "content": ""}),
            Part::Text { text, pieces, ids } => {
                choice["delta"] = match self.tools.as_ref().zip(self.written.get_mut(index)) {
                    None => json!({"content": text}),
                    // What may become a call is held back until it is one, or none.
                    Some((tools, (written, told))) => {
                        written.push_str(text);
                        let certain = tools.certain(written).max(*told);
                        let new = written.get(*told..certain).unwrap_or_default().to_string();
                        *told = certain;
                        if new.is_empty() { json!({}) } else { json!({"content": new}) }
                    }
                };
                if choice["delta"] == json!({}) && pieces.is_none() && !self.ids {
                    return None;
                }
                choice["logprobs"] = json!(pieces.map(chat));
                if self.ids {
                    choice["token_ids"] = json!(ids);
                }
            }
            Part::End(reason) => {
                choice["finish_reason"] = json!(reason);
                if let Some((tools, (written, told))) = self.tools.as_ref().zip(self.written.get(index)) {
                    let (_, found) = tools.find(written);
                    let rest = written.get(*told..).unwrap_or_default();
                    if !found.is_empty() {
                        choice["delta"] = json!({"tool_calls": calls(&self.app, &found, true)});
                        choice["finish_reason"] = "tool_calls".into();
                    } else if !rest.is_empty() {
                        choice["delta"] = json!({"content": rest});
                    }
                }
            }
            Part::Usage { prompt, completion, cached } => {
                return self.usage.then(|| {
                    let mut value = self.with("chat.completion.chunk", json!([]));
                    value["usage"] = usage(prompt, completion, cached);
                    value
                });
            }
        }
        let mut value = self.with("chat.completion.chunk", json!([choice]));
        if self.usage {
            value["usage"] = Value::Null;
        }
        Some(value)
    }
}
