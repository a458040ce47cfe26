//! What `huggingface_hub.InferenceClient(model="http://…/models/NAME")` sends and expects: `{"inputs": …, "parameters": {…}}`,
//! or the bytes of a picture. The model's own task decides the shape. `POST /` asks the first model.

use super::ask::{Ask, Prompt};
use super::session::Session;
use super::stream::{self, Dialect, Part};
use super::tasks;
use super::{Answer, embeddings, reply, with_ignored};
use crate::app::App;
use crate::body::Call;
use crate::error::{ApiError, ApiResult};
use crate::fields::{Fields, missing};
use crate::served::Served;
use qkv_base::Task;
use qkv_tasks::classify::ClassifyInput;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;

/// Answers `POST /` and `POST /models/{model}`.
pub async fn answer(app: Arc<App>, mut call: Call) -> Answer {
    let name = match call.path() {
        "/" => None,
        path => Some(crate::routes::tail(path, "/models/")?),
    };
    let served = app.model(name.as_deref(), |_| true, "")?;
    let bytes = call.bytes(&app.limits).await?;
    let is_json = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    if served.task() == Some(Task::Image) && !is_json {
        return Ok(reply(&json!(tasks::picture(served, bytes.to_vec()).await?), &[]));
    }
    let fields = serde_json::from_slice(&bytes).map_err(|e| ApiError::bad(format!("the body is not JSON: {e}")))?;
    let fields = Fields::of(fields)?;
    let inputs = fields.value("inputs").ok_or_else(|| missing("inputs"))?;
    let parameters = fields.object("parameters")?.map_or_else(|| Fields::of(json!({})), Ok)?;
    let streams = fields.flag("stream")?.unwrap_or(false);
    fields.value("options");
    let mut ignored = fields.finish(app.strict)?;
    if served.writes() {
        return written(app.clone(), served, inputs, parameters, streams, ignored, call.arrived).await;
    }
    let value = match served.task() {
        Some(Task::Classify) => {
            let top = parameters.count("top_k", 1..=1 << 20)?.unwrap_or(usize::MAX);
            let texts: Vec<ClassifyInput> = texts(&inputs)?.into_iter().map(ClassifyInput::Text).collect();
            let mut found = tasks::classes(served, &texts).await?;
            found.iter_mut().for_each(|labels| labels.truncate(top));
            json!(found)
        }
        Some(Task::Tag) => {
            let words = parameters.text("aggregation_strategy")?.as_deref() == Some("none");
            let found = tasks::spans(served, &texts(&inputs)?, words).await?;
            let name = if words { "entity" } else { "entity_group" };
            let one = |s: &qkv_tasks::tag::TaggedSpan| json!({name: s.label, "score": s.score, "word": s.text, "start": s.start, "end": s.end});
            nest(found.iter().map(|spans| spans.iter().map(one).collect()).collect(), &inputs)
        }
        Some(Task::Answer) => {
            let field = |name: &str| inputs[name].as_str().map(str::to_string).ok_or_else(|| missing(name));
            let top = parameters.count("top_k", 1..=100)?.unwrap_or(1);
            let found = tasks::answers(served, field("question")?, field("context")?, top).await?;
            let one =
                |f: Value| json!({"answer": f["text"], "score": f["score"], "start": f["start"], "end": f["end"]});
            let mut found: Vec<Value> = found.into_iter().map(one).collect();
            if top == 1 && found.len() == 1 { found.remove(0) } else { Value::from(found) }
        }
        // A text without a gap can only be meant to be read: then its vector is wanted.
        Some(Task::Masked) if texts(&inputs).is_ok_and(|all| all.iter().any(|text| has_gap(served, text))) => {
            let top = parameters.count("top_k", 1..=1000)?.unwrap_or(5);
            let texts = texts(&inputs)?;
            let found = tasks::candidates(served, &texts, top).await?;
            nest(texts.iter().zip(found).map(|(text, gaps)| filled(served, text, gaps)).collect(), &inputs)
        }
        Some(Task::Image) => {
            let text = inputs.as_str().ok_or_else(|| ApiError::field("inputs", "must be the base64 of a picture"))?;
            let top = parameters.count("top_k", 1..=1 << 20)?.unwrap_or(usize::MAX);
            let mut labels = tasks::picture(served, tasks::decode_picture("inputs", text)?).await?;
            labels.truncate(top);
            json!(labels)
        }
        _ if inputs["source_sentence"].is_string() => {
            let sentences = texts(&inputs["sentences"])?;
            let source = inputs["source_sentence"].as_str().unwrap_or_default().to_string();
            let all: Vec<String> = std::iter::once(source).chain(sentences).collect();
            let (vectors, _) = embeddings::vectors(served, &all).await?;
            let scores = vectors.iter().skip(1).map(|v| qkv_tasks::embed::cosine(&vectors[0], v));
            json!(scores.collect::<Vec<_>>())
        }
        _ if served.embeds() => json!(embeddings::vectors(served, &texts(&inputs)?).await?.0),
        _ => return Err(ApiError::bad(format!("the model `{}` has no task to be asked", served.name))),
    };
    ignored.extend(parameters.finish(app.strict)?);
    Ok(reply(&value, &ignored))
}

fn texts(inputs: &Value) -> ApiResult<Vec<String>> {
    let wrong = || ApiError::field("inputs", "must be a string or a list of strings");
    match inputs {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Array(list) if !list.is_empty() => {
            list.iter().map(|v| v.as_str().map(str::to_string).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}

fn has_gap(served: &Served, text: &str) -> bool {
    let mask = served.model.maybe_tokenizer().and_then(|t| t.piece(t.special().mask?));
    text.contains("[MASK]") || mask.is_some_and(|mask| text.contains(&mask))
}

/// A list for each text, or the one list of the one text.
fn nest(mut lists: Vec<Vec<Value>>, inputs: &Value) -> Value {
    if inputs.is_string() && lists.len() == 1 { Value::from(lists.remove(0)) } else { json!(lists) }
}

/// Candidates of the first gap, each with the text that it makes.
fn filled(served: &Served, text: &str, gaps: Vec<Vec<qkv_tasks::fill::Candidate>>) -> Vec<Value> {
    let tokenizer = served.model.maybe_tokenizer();
    let mask = tokenizer.and_then(|t| t.piece(t.special().mask?)).unwrap_or_else(|| "[MASK]".into());
    let text = text.replace("[MASK]", &mask);
    let one = |c: qkv_tasks::fill::Candidate| {
        let sequence = text.replacen(&mask, c.text.trim(), 1);
        json!({"score": c.probability, "token": c.id, "token_str": c.text, "sequence": sequence})
    };
    gaps.into_iter().next().unwrap_or_default().into_iter().map(one).collect()
}

/// Text generation, translation and summaries.
async fn written(
    app: Arc<App>,
    served: &Served,
    inputs: Value,
    parameters: Fields,
    streams: bool,
    mut ignored: Vec<String>,
    arrived: Instant,
) -> Answer {
    let text = inputs.as_str().ok_or_else(|| ApiError::field("inputs", "must be a string"))?.to_string();
    for (theirs, ours) in [("max_new_tokens", "max_tokens"), ("num_return_sequences", "n"), ("num_beams", "beam")] {
        if let Some(value) = parameters.value(theirs) {
            parameters.default(ours, value);
        }
    }
    let drawn = parameters.flag("do_sample")?;
    let shaped = ["temperature", "top_k", "top_p"].iter().any(|name| parameters.has(name));
    if drawn != Some(true) && !shaped && !served.model.defaults.sample {
        parameters.default("temperature", 0.0);
    }
    let is_pair = served.model.is_pair();
    if is_pair && drawn != Some(true) {
        parameters.default("beam", served.model.defaults.beams.unwrap_or(4).min(served.rows));
        parameters.value("temperature");
    }
    let whole = parameters.flag("return_full_text")?.unwrap_or(false);
    let otherwise = if is_pair { 256 } else { 20 };
    let ask = Ask { otherwise, ..Ask::of(&parameters, served, &app)? };
    for language in ["src_lang", "tgt_lang", "clean_up_tokenization_spaces", "details", "decoder_input_details"] {
        if parameters.value(language).is_some_and(|v| v != false) {
            ignored.push(language.into());
        }
    }
    ignored.extend(parameters.finish(app.strict)?);
    let prompt = Prompt { ids: served.encode("inputs", &text)?, text: text.clone() };
    if prompt.ids.is_empty() {
        return Err(ApiError::field("inputs", "has no tokens"));
    }
    if streams {
        stream::check(&ask)?;
        let session = Session::begin(app.clone(), served, ask, vec![prompt], arrived)?;
        return Ok(with_ignored(stream::respond(session, Tokens::default()), &ignored));
    }
    let (_, said) = Session::begin(app.clone(), served, ask, vec![prompt], arrived)?.finish().await?;
    let before = if whole && !is_pair { text.as_str() } else { "" };
    let one = |c: super::session::Choice| match is_pair {
        true => json!({"translation_text": c.text, "generated_text": c.text, "summary_text": c.text}),
        false => json!({"generated_text": format!("{before}{}", c.text)}),
    };
    let all: Vec<Value> = said.into_iter().flat_map(|s| s.choices).map(one).collect();
    Ok(reply(&json!(all), &ignored))
}

/// A stream as text-generation-inference writes it.
#[derive(Default)]
struct Tokens {
    text: String,
    n: usize,
}

impl Dialect for Tokens {
    fn part(&mut self, _: usize, part: Part) -> Option<Value> {
        match part {
            Part::Text { text, ids, .. } => {
                self.text.push_str(text);
                self.n += 1;
                let id = ids.first().copied().unwrap_or(0);
                let token = json!({"id": id, "text": text, "logprob": 0.0, "special": false});
                Some(json!({"index": self.n, "token": token, "generated_text": null, "details": null}))
            }
            Part::End(reason) => {
                let token = json!({"id": 0, "text": "", "logprob": 0.0, "special": true});
                let reason = if reason == "length" { "length" } else { "eos_token" };
                let details = json!({"finish_reason": reason, "generated_tokens": self.n, "seed": null});
                Some(json!({"index": self.n + 1, "token": token, "generated_text": self.text, "details": details}))
            }
            Part::Begin | Part::Usage { .. } => None,
        }
    }
}
