//! From the fields of a request to what the engine is asked: chain, search, limits.
//!
//! `temperature 0` is greedy. Where a request says nothing, the model's own `generation_config.json` does, and where that says
//! nothing, tokens are drawn at temperature 1, as OpenAI's clients expect. The order of the steps is transformers':
//! rules of the model, logit bias, penalties, temperature, top-k, top-p, min-p. `chain` says all of it in another order.

use super::format::Format;
use crate::adapters::Adapter;
use crate::app::App;
use crate::engine_thread::{Work, WorkEvent};
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::served::Served;
use qkv_decode::score::PromptScoring;
use qkv_decode::{Chain, Pick, Request, Search};
use qkv_tasks::chain::BeamOptions;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

/// The longest list of stop strings.
const STOPS: usize = 16;

/// How to go on with prompts.
#[derive(Clone, Debug)]
pub struct Ask {
    /// how rows of logits are bent
    pub chain: Chain,
    /// which continuations come out of the engine
    pub search: Search,
    /// how many are told of those
    pub n: usize,
    /// the most tokens, where it was said
    pub max_tokens: Option<usize>,
    /// the most tokens where nothing says it
    pub otherwise: usize,
    /// decides what is random
    pub seed: u64,
    /// the number of the first prompt
    pub number: u64,
    /// texts that end an answer
    pub stop: Vec<String>,
    /// ids that end an answer
    pub ends: Vec<u32>,
    /// how many of the most probable tokens are told beside each, if log-probabilities are told
    pub logprobs: Option<usize>,
    /// whether the prompt is told, too
    pub echo: bool,
    /// whether ids are told
    pub ids: bool,
    /// which adapter of the model's, if any
    pub adapter: Option<Arc<Adapter>>,
}

/// A prompt in ids, and as the text that it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// the ids
    pub ids: Vec<u32>,
    /// the text
    pub text: String,
}

impl Ask {
    /// Takes the fields that every way to write has in common.
    pub fn of(fields: &Fields, served: &Served, app: &App) -> ApiResult<Self> {
        let most = served.rows;
        let n = fields.count("n", 1..=most)?.unwrap_or(1);
        let best_of = fields.count("best_of", 1..=most)?;
        let beam = beam(fields, served, n)?;
        let mut chain = chain(fields, served, beam.is_some())?;
        let search = match (beam, best_of) {
            (Some(_), Some(_)) => {
                return Err(ApiError::field("best_of", "draws, but `beam` compares; give one of them"));
            }
            (Some(beam), None) => Search::Beam(beam),
            (None, Some(best_of)) if best_of < n => {
                return Err(ApiError::field("best_of", format!("is {best_of}, but must be at least `n`, {n}")));
            }
            (None, best_of) => Search::Sample { n: best_of.unwrap_or(n) },
        };
        let asked = fields.count("max_completion_tokens", 0..=1 << 30)?;
        let asked = asked.or(fields.count("max_tokens", 0..=1 << 30)?);
        let stop = fields.texts("stop", STOPS)?.unwrap_or_default();
        if stop.iter().any(String::is_empty) {
            return Err(ApiError::field("stop", "must not be empty"));
        }
        if let Some(long) = stop.iter().find(|s| s.len() > 1024) {
            return Err(ApiError::field("stop", format!("has a text of {} bytes; at most 1024 are taken", long.len())));
        }
        let mut ends = match fields.flag("ignore_eos")? {
            Some(true) => vec![],
            _ => served.model.defaults.ends.clone(),
        };
        if let Some(more) = fields.value("stop_token_ids") {
            ends.extend(ids("stop_token_ids", &more, STOPS)?);
        }
        if let Some((name, format)) = Format::of(fields)? {
            format.hold(name, &mut chain, served, &ends)?;
        }
        // Without a seed every request draws anew.
        let seed = fields.seed("seed")?;
        let number = if seed.is_some() { 0 } else { app.number() << 16 };
        Ok(Self {
            chain,
            search,
            n,
            max_tokens: asked,
            otherwise: 16,
            seed: seed.unwrap_or(0),
            number,
            stop,
            ends,
            logprobs: None,
            echo: false,
            ids: fields.flag("return_token_ids")?.unwrap_or(false),
            adapter: None,
        })
    }

    /// Whether texts can be told as they come: a beam and the best of several are known only in the end.
    pub fn can_stream(&self) -> bool {
        matches!(self.search, Search::Sample { n } if n == self.n)
    }

    /// What the thread of the model is asked for a prompt.
    pub fn work(
        &self,
        served: &Served,
        prompt: &Prompt,
        tag: usize,
        events: &UnboundedSender<(usize, WorkEvent)>,
    ) -> ApiResult<Work> {
        let (context, is_pair, len) = (served.context(), served.model.is_pair(), prompt.ids.len());
        let too_long = |what: String| ApiError::bad(what).of("prompt").code("context_length_exceeded");
        if len > context || (!is_pair && len == context && self.max_tokens != Some(0)) {
            let what = format!("the prompt has {len} tokens, but this model's context holds {context}");
            return Err(too_long(what));
        }
        let start = if is_pair { served.model.start().map_err(|e| served.error(e))? } else { prompt.ids.clone() };
        let room = context.saturating_sub(start.len());
        let max_tokens = match self.max_tokens {
            // Longer than there is room is as long as there is room.
            Some(asked) => asked.min(room),
            None => served.model.max_tokens(None, start.len(), self.otherwise).map_err(|e| served.error(e))?.min(room),
        };
        let number = self.adapter.as_ref().map(|adapter| adapter.number);
        let request = (max_tokens > 0).then(|| Request {
            source: is_pair.then(|| prompt.ids.clone()),
            adapter: number,
            chain: self.chain.clone(),
            search: self.search.clone(),
            max_tokens,
            ends: self.ends.clone(),
            stop: self.stop.clone(),
            seed: self.seed,
            number: self.number + tag as u64,
            top_logprobs: self.logprobs.unwrap_or(0),
            ..Request::new(start)
        });
        let score = match self.logprobs {
            Some(_) if self.echo && is_pair => {
                return Err(ApiError::field("echo", "with `logprobs` is for models that read no source"));
            }
            Some(top) if self.echo => Some(PromptScoring::new(prompt.ids.clone(), top).adapted(number)),
            _ => None,
        };
        Ok(Work { request, score, adapter: self.adapter.clone(), tag, events: events.clone() })
    }
}

/// The chain of a request.
fn chain(fields: &Fields, served: &Served, is_beam: bool) -> ApiResult<Chain> {
    const SHAPE: [&str; 8] = [
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
    ];
    let given = SHAPE.iter().find(|name| fields.has(name));
    let number = |name: &str, range| fields.number(name, range);
    let temperature = number("temperature", 0.0..=100.0)?;
    // 0 and −1 are other servers' ways to say: all.
    let top_k = number("top_k", -1.0..=1e9)?;
    let top_p = number("top_p", 0.0..=1.0)?;
    let min_p = number("min_p", 0.0..=1.0)?;
    let penalties = [
        ("repetition_penalty", number("repetition_penalty", 0.01..=100.0)?.filter(|p| *p != 1.0)),
        ("presence_penalty", number("presence_penalty", -2.0..=2.0)?.filter(|p| *p != 0.0)),
        ("frequency_penalty", number("frequency_penalty", -2.0..=2.0)?.filter(|p| *p != 0.0)),
        ("min_new_tokens", fields.count("min_tokens", 0..=1 << 30)?.filter(|n| *n > 0).map(|n| n as f64)),
    ];
    let bias = logit_bias(fields, served)?;
    if let Some(text) = fields.text("chain")? {
        if let Some(name) = given {
            return Err(ApiError::field("chain", format!("says it all; leave out `{name}`")));
        }
        let mut chain: Chain = text.parse().map_err(|e| served.error(e).of("chain"))?;
        if is_beam && chain.pick != Pick::Greedy {
            if text.contains("random") {
                return Err(ApiError::field("chain", "draws, but a beam compares; end it in `greedy`"));
            }
            chain.pick = Pick::Greedy;
        }
        chain.check(served.vocabulary()).map_err(|e| served.error(e).of("chain"))?;
        return Ok(chain);
    }
    let own = &served.model.defaults;
    let name = |step: &str| step.split_whitespace().next().unwrap_or_default().to_string();
    let mut steps: Vec<String> = penalties.iter().filter_map(|(name, p)| Some(format!("{name} {}", (*p)?))).collect();
    let said: Vec<String> = steps.iter().map(|s| name(s)).collect();
    let rules = own.rules.iter().filter(|rule| !said.contains(&name(rule))).cloned();
    steps = rules.chain(bias).chain(steps).collect();
    let of_model = |name: &str| own.shape.iter().find_map(|s| s.strip_prefix(name)?.trim().parse::<f64>().ok());
    let temperature = temperature.or_else(|| of_model("temperature ")).unwrap_or(1.0);
    // So small a temperature is none, and dividing by it would overflow.
    if temperature < 1e-6 || is_beam {
        steps.push("greedy".into());
    } else {
        let all = [
            Some(("temperature", temperature)).filter(|(_, t)| *t != 1.0),
            top_k.or_else(|| of_model("top_k ")).filter(|k| *k >= 1.0).map(|k| ("top_k", k.trunc())),
            top_p.or_else(|| of_model("top_p ")).filter(|p| *p < 1.0).map(|p| ("top_p", p.max(1e-6))),
            min_p.or_else(|| of_model("min_p ")).filter(|p| *p > 0.0).map(|p| ("min_p", p)),
        ];
        steps.extend(all.into_iter().flatten().map(|(name, value)| format!("{name} {value}")));
    }
    let chain: Chain = steps.join(", ").parse().map_err(|e| served.error(e))?;
    chain.check(served.vocabulary()).map_err(|e| served.error(e))?;
    Ok(chain)
}

/// `logit_bias` as a step.
fn logit_bias(fields: &Fields, served: &Served) -> ApiResult<Option<String>> {
    let map = match fields.value("logit_bias") {
        None => return Ok(None),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(ApiError::field("logit_bias", "must be an object of token ids and numbers")),
    };
    if map.len() > 1024 {
        return Err(crate::fields::too_many("logit_bias", map.len(), 1024));
    }
    let mut biases = vec![];
    for (id, bias) in map {
        let number = id.parse::<usize>().ok().filter(|id| *id < served.vocabulary());
        let shown: String = id.chars().take(20).collect();
        let number = number.ok_or_else(|| {
            let what = format!("names `{shown}`, but ids go from 0 to {}", served.vocabulary().saturating_sub(1));
            ApiError::field("logit_bias", what)
        })?;
        let bias = bias.as_f64().filter(|b| (-100.0..=100.0).contains(b));
        let bias = bias.ok_or_else(|| ApiError::field("logit_bias", "takes numbers between -100 and 100"))?;
        biases.push(format!("{number}:{bias}"));
    }
    Ok((!biases.is_empty()).then(|| format!("logit_bias {}", biases.join("|"))))
}

/// The beam of a request.
fn beam(fields: &Fields, served: &Served, n: usize) -> ApiResult<Option<qkv_decode::Beam>> {
    let width = fields.count("beam", 1..=served.rows)?;
    let early_stopping = match fields.value("early_stopping") {
        None => None,
        Some(Value::Bool(yes)) => Some(yes.to_string()),
        Some(Value::String(word)) if ["true", "false", "never"].contains(&word.as_str()) => Some(word),
        Some(_) => return Err(ApiError::field("early_stopping", "must be true, false or \"never\"")),
    };
    let length_penalty = fields.number("length_penalty", -100.0..=100.0)?;
    let Some(width) = width else {
        return match (length_penalty.is_some(), early_stopping.is_some()) {
            (true, _) => Err(ApiError::field("length_penalty", "is for beam search; give `beam`")),
            (_, true) => Err(ApiError::field("early_stopping", "is for beam search; give `beam`")),
            _ => Ok(None),
        };
    };
    if n > width {
        return Err(ApiError::field("n", format!("is {n}, but a beam of {width} finds at most {width}")));
    }
    let options =
        BeamOptions { width: Some(width), n_best: Some(n), length_penalty, early_stopping, ..BeamOptions::default() };
    options.search(&served.model, width).map_err(|e| served.error(e).of("beam"))
}

/// A list of ids.
pub fn ids(name: &str, value: &Value, most: usize) -> ApiResult<Vec<u32>> {
    let wrong = || ApiError::field(name, "must be a list of token ids");
    let list = value.as_array().ok_or_else(wrong)?;
    if list.len() > most {
        return Err(crate::fields::too_many(name, list.len(), most));
    }
    list.iter().map(|v| v.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong)).collect()
}

/// The prompts of a request: a text, ids, or a list of either.
pub fn prompts(name: &str, value: Option<Value>, served: &Served, most: usize) -> ApiResult<Vec<Prompt>> {
    let of_text = |text: String| -> ApiResult<Prompt> {
        let ids = match text.as_str() {
            // OpenAI's own default prompt is the token that begins a text.
            "" => served.model.defaults.bos.into_iter().collect(),
            text => served.encode(name, text)?,
        };
        match ids.is_empty() {
            true => Err(ApiError::field(name, "has no tokens")),
            false => Ok(Prompt { ids, text }),
        }
    };
    let of_ids = |value: &Value| -> ApiResult<Prompt> {
        let ids = ids(name, value, 1 << 24)?;
        if ids.is_empty() {
            return Err(ApiError::field(name, "has no tokens"));
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= served.vocabulary()) {
            let what = format!("has id {id}, which is outside the vocabulary of {}", served.vocabulary());
            return Err(ApiError::field(name, what));
        }
        let text = served.model.decode(&ids).ok().flatten().unwrap_or_default();
        Ok(Prompt { ids, text })
    };
    match value {
        None => Err(crate::fields::missing(name)),
        Some(Value::String(text)) => Ok(vec![of_text(text)?]),
        Some(Value::Array(list)) if list.is_empty() => Err(ApiError::field(name, "is an empty list")),
        Some(value @ Value::Array(_)) if value[0].is_number() => Ok(vec![of_ids(&value)?]),
        Some(Value::Array(list)) if list.len() > most => Err(crate::fields::too_many(name, list.len(), most)),
        Some(Value::Array(list)) => {
            let one = |value: Value| match value {
                Value::String(text) => of_text(text),
                ids @ Value::Array(_) => of_ids(&ids),
                _ => Err(ApiError::field(name, "must be a string, a list of ids, or a list of those")),
            };
            list.into_iter().map(one).collect()
        }
        Some(_) => Err(ApiError::field(name, "must be a string, a list of ids, or a list of those")),
    }
}
