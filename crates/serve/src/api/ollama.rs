//! Ollama's paths, so that its clients and the pages made for it work: `/api/generate`, `/api/chat`, `/api/embed`, `/api/tags`,
//! `/api/show`, `/api/ps`, `/api/version`. Streams are lines of JSON; times are in nanoseconds.

use super::ask::{Ask, Prompt};
use super::format::Format;
use super::session::Session;
use super::stream::{self, Dialect, Part};
use super::{Answer, embeddings, reply, with_ignored};
use crate::app::{App, now};
use crate::body::Call;
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::served::Served;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Instant;

/// Ollama's name of an option, and ours.
const OPTIONS: &[(&str, &str)] = &[
    ("num_predict", "max_tokens"),
    ("repeat_penalty", "repetition_penalty"),
    ("temperature", "temperature"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("seed", "seed"),
    ("stop", "stop"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
];

/// The options of a request under our names, and those that change nothing here.
fn options(fields: &Fields) -> ApiResult<(Fields, Vec<String>)> {
    let given = match fields.value("options") {
        None => Map::new(),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(ApiError::field("options", "must be an object")),
    };
    let (mut ours, mut ignored) = (Map::new(), vec![]);
    for (name, value) in given {
        match OPTIONS.iter().find(|(theirs, _)| *theirs == name) {
            // Less than nothing is Ollama's way to say: as many as there is room for.
            Some((_, "max_tokens")) if value.as_i64().is_some_and(|n| n < 0) => {}
            Some((_, own)) => drop(ours.insert(own.to_string(), value)),
            None => ignored.push(format!("options.{name}")),
        }
    }
    Ok((Fields::of(Value::Object(ours))?, ignored))
}

/// Answers `/api/generate`.
pub async fn generate(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = app.model(Some(&fields.needed_text("model")?), |m| m.writes(), "writes text")?;
    let text = fields.text("prompt")?.unwrap_or_default();
    let system = fields.text("system")?;
    let raw = fields.flag("raw")?.unwrap_or(false);
    let prompt = match &served.chat {
        // An empty prompt asks Ollama to load the model, which it is.
        _ if text.is_empty() => None,
        Ok(_) if !raw => {
            let system = system.map(|s| json!({"role": "system", "content": s}));
            let messages: Vec<Value> = system.into_iter().chain([json!({"role": "user", "content": text})]).collect();
            Some(super::chat::prompt(served, Some(messages.into()), None)?)
        }
        _ if system.is_some() => {
            return Err(ApiError::field("system", "wants a model with a chat template, and no `raw`"));
        }
        _ => Some(Prompt { ids: served.encode("prompt", &text)?, text }),
    };
    written(app.clone(), call.arrived, fields, served, prompt, false).await
}

/// Answers `/api/chat`.
pub async fn chat(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = app.model(Some(&fields.needed_text("model")?), |m| m.writes(), "writes text")?;
    let messages = fields.value("messages").unwrap_or(json!([]));
    let prompt = match messages.as_array().is_some_and(Vec::is_empty) {
        true => None,
        false => Some(super::chat::prompt(served, Some(messages), None)?),
    };
    written(app.clone(), call.arrived, fields, served, prompt, true).await
}

async fn written(
    app: Arc<App>,
    arrived: Instant,
    fields: Fields,
    served: &Served,
    prompt: Option<Prompt>,
    is_chat: bool,
) -> Answer {
    let streams = fields.flag("stream")?.unwrap_or(true);
    let format = match fields.value("format") {
        None => None,
        Some(Value::String(word)) if word.is_empty() => None,
        Some(Value::String(word)) if word == "json" => Some(Format::AnyObject),
        Some(schema @ Value::Object(_)) => Some(Format::Schema(schema)),
        Some(_) => return Err(ApiError::field("format", "must be `json` or a JSON schema")),
    };
    if fields.value("think").is_some_and(|t| t == true) {
        return Err(ApiError::field("think", "is not supported here").code("unsupported_parameter"));
    }
    let (options, mut ignored) = options(&fields)?;
    let mut ask = Ask { otherwise: 1024, ..Ask::of(&options, served, &app)? };
    if let Some(format) = format {
        format.hold("format", &mut ask.chain, served, &ask.ends)?;
    }
    options.finish(app.strict)?;
    ignored.extend(fields.finish(app.strict)?);
    let mut shape = Shape { model: served.name.clone(), is_chat, arrived, began: None, reason: "load" };
    let Some(prompt) = prompt else {
        return Ok(reply(&shape.last(0, 0), &ignored));
    };
    let session = Session::begin(app.clone(), served, ask, vec![prompt], arrived)?;
    if streams {
        return Ok(with_ignored(stream::respond(session, shape), &ignored));
    }
    let (session, said) = session.finish().await?;
    let choice = said.into_iter().flat_map(|s| s.choices).next();
    let (text, n) = choice.as_ref().map_or(("", 0), |c| (c.text.as_str(), c.ids.len()));
    shape.reason = choice.as_ref().map_or("stop", |c| c.finish_reason());
    let mut value = shape.last(session.prompt_tokens(), n);
    shape.put(&mut value, text);
    Ok(reply(&value, &ignored))
}

/// What all lines of an answer say.
struct Shape {
    model: String,
    is_chat: bool,
    arrived: Instant,
    began: Option<Instant>,
    reason: &'static str,
}

impl Shape {
    fn put(&self, value: &mut Value, text: &str) {
        match self.is_chat {
            true => value["message"] = json!({"role": "assistant", "content": text}),
            false => value["response"] = json!(text),
        }
    }

    fn last(&self, prompt: usize, completion: usize) -> Value {
        let whole = self.arrived.elapsed();
        let reading = self.began.map_or(whole, |began| began - self.arrived);
        let mut value = json!({"model": self.model, "created_at": timestamp(now()), "done": true,
            "done_reason": self.reason, "total_duration": whole.as_nanos() as u64, "load_duration": 0,
            "prompt_eval_count": prompt, "prompt_eval_duration": reading.as_nanos() as u64,
            "eval_count": completion, "eval_duration": (whole - reading).as_nanos() as u64});
        self.put(&mut value, "");
        value
    }
}

impl Dialect for Shape {
    fn part(&mut self, _: usize, part: Part) -> Option<Value> {
        match part {
            Part::Begin => None,
            Part::Text { text, .. } => {
                self.began.get_or_insert_with(Instant::now);
                let mut value = json!({"model": self.model, "created_at": timestamp(now()), "done": false});
                self.put(&mut value, text);
                Some(value)
            }
            Part::End(reason) => {
                self.reason = reason;
                None
            }
            Part::Usage { prompt, completion, .. } => Some(self.last(prompt, completion)),
        }
    }

    fn is_sse(&self) -> bool {
        false
    }
}

/// Answers `/api/embed`, and `/api/embeddings` as it was before.
pub async fn embed(app: Arc<App>, mut call: Call) -> Answer {
    let old = call.path().ends_with("embeddings");
    let fields = call.fields(&app.limits).await?;
    let served = app.model(Some(&fields.needed_text("model")?), |m| m.embeds(), "embeds")?;
    let (texts, _) = fields.inputs(if old { &["prompt"] } else { &["input"] }, app.limits.inputs)?;
    let (_, mut ignored) = options(&fields)?;
    // Texts are cut to what the model reads, as Ollama does unless told otherwise.
    if fields.flag("truncate")? == Some(false) {
        for text in &texts {
            let n = served.encode("input", text)?.len();
            if n > served.model.longest() {
                let what = format!("has {n} tokens, but the model reads {}", served.model.longest());
                return Err(ApiError::field("input", what).code("context_length_exceeded"));
            }
        }
    }
    ignored.extend(fields.finish(app.strict)?);
    let (vectors, tokens) = embeddings::vectors(served, &texts).await?;
    let value = match old {
        true => json!({"embedding": vectors.first()}),
        false => json!({"model": served.name, "embeddings": vectors, "prompt_eval_count": tokens,
            "total_duration": call.arrived.elapsed().as_nanos() as u64, "load_duration": 0}),
    };
    Ok(reply(&value, &ignored))
}

/// Answers `/api/tags` and `/api/ps`: every model is loaded.
pub async fn tags(app: Arc<App>, _: Call) -> Answer {
    let one = |served: &Served| {
        let digest = blake3::hash(format!("{}{}", served.name, served.weight_bytes).as_bytes()).to_hex().to_string();
        json!({"name": served.name, "model": served.name, "modified_at": timestamp(served.created),
            "size": served.weight_bytes, "size_vram": 0, "expires_at": timestamp(4_102_444_800), "digest": digest,
            "details": details(served)})
    };
    Ok(reply(&json!({"models": app.models.iter().map(one).collect::<Vec<_>>()}), &[]))
}

fn details(served: &Served) -> Value {
    let parameters = qkv_base::format::scaled(served.parameters as f64, 1000.0, &["", "K", "M", "B"]);
    let family = served.model.network.sheet.name;
    json!({"parent_model": "", "format": "safetensors", "family": family, "families": [family],
        "parameter_size": parameters, "quantization_level": "F32"})
}

/// Answers `/api/show`.
pub async fn show(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let (_, name) = fields.any(&["model", "name"])?;
    let name = name.as_str().ok_or_else(|| ApiError::field("model", "must be a string"))?;
    let served = app.model(Some(name), |_| true, "")?;
    fields.flag("verbose")?;
    let ignored = fields.finish(app.strict)?;
    let (family, spec) = (served.model.network.sheet.name, served.model.spec());
    let template = served.model.maybe_tokenizer().and_then(|t| t.chat_template(None)).unwrap_or_default();
    let mut capabilities = vec![];
    if served.writes() {
        capabilities.push("completion");
    }
    if served.embeds() {
        capabilities.push("embedding");
    }
    let layers = spec.decoder().or(spec.encoder()).map(|stack| stack.layers);
    let value = json!({"modelfile": format!("FROM {}", served.name), "parameters": "", "template": template,
        "details": details(served), "modified_at": timestamp(served.created), "capabilities": capabilities,
        "model_info": {"general.architecture": family, "general.parameter_count": served.parameters,
            format!("{family}.context_length"): served.context(), format!("{family}.block_count"): layers,
            format!("{family}.embedding_length"): spec.width}});
    Ok(reply(&value, &ignored))
}

/// Answers `/api/version`: that of Ollama's API which is spoken here.
pub async fn version(_: Arc<App>, _: Call) -> Answer {
    Ok(reply(&json!({"version": "0.12.0", "qkv": env!("CARGO_PKG_VERSION")}), &[]))
}

/// Seconds since 1970 as `2026-01-31T12:00:00Z` (days to a date as Hinnant counts them: the year begins in March).
pub fn timestamp(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let (date, month) = (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::timestamp;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(timestamp(1_767_225_599), "2025-12-31T23:59:59Z");
    }
}
