//! `POST /v1/see`: what a model does with a text or a picture: attention maps, what each layer would say, what the answer hangs
//! on; and what each step of a chain does to each token (`trace`). The same views as `qkv see` and `qkv generate --trace`.
//!
//! It is computed beside the model's own thread, so that nobody who waits for tokens waits for a picture, and one at a time: the
//! maps of all heads are as large as the text is long, squared.

use super::ask::{Ask, Prompt, ids};
use super::tasks::decode_picture;
use super::{Answer, reply};
use crate::app::App;
use crate::body::Call;
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::served::Served;
use qkv_decode::{Engine, EngineConfig, SearchTrace};
use qkv_insight::see;
use qkv_insight::see::view::Options;
use qkv_insight::see::{Seen, View};
use qkv_tasks::TextModel;
use qkv_tasks::generate::detokenizer;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;

/// The most numbers of maps that are computed, and that are told.
const COMPUTED: usize = 1 << 26;
const TOLD: usize = 1 << 21;

/// The most tokens for gradients, which take a pass for each of their steps.
const GRADIENTS: usize = 128;

/// The most tokens that are traced.
const TRACED: usize = 64;

/// What is looked at, as the views take it. A text is always given as ids: as a text it could be taken for the name of a file.
enum Looked {
    Ids(Vec<u32>, Option<Vec<u32>>),
    Picture(Vec<u8>),
}

/// Answers.
pub async fn answer(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = app.model(fields.text("model")?.as_deref(), |_| true, "")?;
    let mut names = fields.texts("views", 16)?.unwrap_or_else(|| vec!["maps".into(), "heads".into()]);
    let traced = names.iter().position(|name| name == "trace").map(|at| names.remove(at)).is_some();
    let views = views(&names, served)?;
    let looked = looked(&fields, served)?;
    let options = options(&fields, views, served, &looked)?;
    let trace = if traced { Some(request(&fields, served, &app, &looked)?) } else { None };
    let ignored = fields.finish(app.strict)?;
    let busy = || ApiError::overloaded("somebody else is looking; one at a time", 2);
    let permit = app.looking.clone().try_acquire_owned().map_err(|_| busy())?;
    let model = served.model.clone();
    let work = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let trace = trace.map(|request| run_trace(&model, request)).transpose()?;
        let seen = if options.views.is_empty() { None } else { Some(run_see(&model, looked, &options)?) };
        Ok((seen, trace))
    });
    let broken = |_| ApiError::internal("the computation broke off");
    let (seen, trace) = work.await.map_err(broken)?.map_err(|e: qkv_base::Error| served.error(e))?;
    let mut value = match seen {
        Some(seen) => told(seen)?,
        None => json!({}),
    };
    value["object"] = json!("look");
    value["model"] = json!(served.name);
    if let Some(trace) = trace {
        value["trace"] = serde_json::to_value(trace).map_err(|e| ApiError::internal(e.to_string()))?;
    }
    Ok(reply(&value, &ignored))
}

/// The views of a model by their names.
pub fn names(served: &Served) -> Vec<String> {
    // A recurrent network has no heads to look at.
    let fits = |view: &&View| served.model.spec().recurrence().is_none() && view.fits(&served.model);
    let mut can: Vec<String> = View::ALL.iter().filter(fits).map(|view| view.name().to_string()).collect();
    can.extend(served.writes().then(|| "trace".to_string()));
    can
}

fn views(names: &[String], served: &Served) -> ApiResult<Vec<View>> {
    let can = self::names(served);
    let one = |name: &String| match View::parse(name).filter(|_| can.contains(name)) {
        Some(view) => Ok(view),
        None => {
            let shown: String = name.chars().take(40).collect();
            let what = format!("names `{}`; this model can be looked at by {}", shown.escape_debug(), can.join(", "));
            Err(ApiError::field("views", what))
        }
    };
    names.iter().map(one).collect()
}

fn looked(fields: &Fields, served: &Served) -> ApiResult<Looked> {
    if served.model.spec().patches().is_some() {
        return Ok(Looked::Picture(decode_picture("image", &fields.needed_text("image")?)?));
    }
    let read = |name: &str, value: Option<Value>| -> ApiResult<Option<Vec<u32>>> {
        let found = match value {
            None => return Ok(None),
            Some(Value::String(text)) => served.encode(name, &text)?,
            Some(list @ Value::Array(_)) => ids(name, &list, served.context())?,
            Some(_) => return Err(ApiError::field(name, "must be a text or a list of token ids")),
        };
        if found.is_empty() || found.iter().any(|id| *id as usize >= served.vocabulary()) {
            return Err(ApiError::field(name, "has no tokens, or an id outside the vocabulary"));
        }
        if found.len() > served.context() {
            let what = format!("has {} tokens, but this model's context holds {}", found.len(), served.context());
            return Err(ApiError::field(name, what).code("context_length_exceeded"));
        }
        Ok(Some(found))
    };
    let first = read("input", fields.value("input"))?.ok_or_else(|| crate::fields::missing("input"))?;
    let second = match fields.value("target") {
        Some(_) if !served.model.is_pair() => {
            return Err(ApiError::field("target", "is for models that read a source and write a target"));
        }
        target => read("target", target)?,
    };
    Ok(Looked::Ids(first, second))
}

fn options(fields: &Fields, views: Vec<View>, served: &Served, looked: &Looked) -> ApiResult<Options> {
    let spec = served.model.spec();
    let stacks = [spec.encoder(), spec.decoder()].into_iter().flatten();
    let heads: usize = stacks.map(|stack| stack.layers * stack.heads).sum();
    let tokens = match looked {
        Looked::Ids(first, second) => first.len().max(second.as_ref().map_or(0, Vec::len)),
        Looked::Picture(_) => 0,
    };
    if heads.saturating_mul(tokens).saturating_mul(tokens) > COMPUTED {
        let most = (COMPUTED / heads.max(1)).isqrt();
        let what = format!("has {tokens} tokens; the maps of {heads} heads are computed for up to {most}");
        return Err(ApiError::field("input", what).code("context_length_exceeded"));
    }
    let steps = fields.count("steps", 1..=256)?.unwrap_or(32);
    if views.contains(&View::Gradients) && tokens > GRADIENTS {
        let what = format!("has {tokens} tokens; gradients are taken of up to {GRADIENTS}");
        return Err(ApiError::field("input", what).code("context_length_exceeded"));
    }
    let count = |name: &str| fields.count(name, 0..=1 << 20);
    let kind = fields.text("kind")?;
    if let Some(kind) = kind.as_deref().filter(|kind| !["attention", "encoder", "decoder", "cross"].contains(kind)) {
        let shown: String = kind.chars().take(40).collect();
        return Err(ApiError::field("kind", format!("is `{}`, not encoder, decoder or cross", shown.escape_debug())));
    }
    let (layer, head, row, place) = (count("layer")?, count("head")?, count("row")?, count("at")?);
    Ok(Options { views, kind, layer, head, row, window: None, steps, place })
}

/// What is traced: the continuation that the other fields ask for.
fn request(fields: &Fields, served: &Served, app: &App, looked: &Looked) -> ApiResult<qkv_decode::Request> {
    let Looked::Ids(first, _) = looked else {
        return Err(ApiError::field("views", "has `trace`, but this model writes nothing"));
    };
    if !served.writes() {
        return Err(ApiError::field("views", "has `trace`, but this model writes nothing"));
    }
    let mut ask = Ask::of(fields, served, app)?;
    ask.max_tokens = Some(ask.max_tokens.unwrap_or(16).clamp(1, TRACED));
    let (events, _) = tokio::sync::mpsc::unbounded_channel();
    let prompt = Prompt { ids: first.clone(), text: String::new() };
    let request = ask.work(served, &prompt, 0, &events)?.request;
    let request = request.ok_or_else(|| ApiError::field("max_tokens", "leaves no token to trace"))?;
    Ok(qkv_decode::Request { trace: Some(8), ..request })
}

fn run_trace(model: &TextModel, request: qkv_decode::Request) -> qkv_base::Result<Option<SearchTrace>> {
    let mut engine = Engine::new(Arc::new(model.network.model.answering()), EngineConfig::default());
    if let Some(tokenizer) = model.shared_tokenizer() {
        engine = engine.with_text(detokenizer(tokenizer));
    }
    let found = engine.run(vec![request], &mut |_, _| true)?;
    let mut trace = found.into_iter().next().and_then(|finished| finished.trace);
    match &mut trace {
        Some(SearchTrace::Chain(trace)) => trace.name(|id| model.token_text(id)),
        Some(SearchTrace::Beam(tree)) => tree.name(|id| model.token_text(id)),
        None => {}
    }
    Ok(trace)
}

fn run_see(model: &TextModel, looked: Looked, options: &Options) -> qkv_base::Result<Seen> {
    let tracked = || TextModel::load_on(&model.path, &qkv_nn::device::trainable("cpu")?);
    match looked {
        Looked::Ids(first, second) => {
            let second = second.map(see::Ask::Ids);
            see::see(model, &see::Ask::Ids(first), second.as_ref(), options, &tracked)
        }
        Looked::Picture(bytes) => {
            let io = |e: std::io::Error| qkv_base::Error::write("a temporary file", &e, "");
            let mut file = tempfile::Builder::new().suffix(".png").tempfile().map_err(io)?;
            file.write_all(&bytes).map_err(io)?;
            let path = file.path().display().to_string();
            // The place is a file of this machine, which is nobody's business.
            let named = |e: qkv_base::Error| qkv_base::Error { place: "image".into(), ..e };
            see::see(model, &see::Ask::Text(path), None, options, &tracked).map_err(named)
        }
    }
}

/// What was seen as JSON; maps that are too large are left out, and that is said.
fn told(mut seen: Seen) -> ApiResult<Value> {
    let size = |maps: &see::Maps| maps.layers * maps.heads * maps.queries.len() * maps.keys.len();
    let numbers: usize = seen.maps.iter().map(size).sum();
    if numbers > TOLD {
        seen.maps.clear();
        seen.notes.push(format!(
            "the maps of all heads would be {numbers} numbers and are left out; name a layer and a head"
        ));
    }
    let mut value = serde_json::to_value(&seen).map_err(|e| ApiError::internal(e.to_string()))?;
    if let Some(picture) = &seen.picture {
        value["picture"] = json!(picture);
    }
    Ok(value)
}
