//! Our own paths, one for each task: `/v1/classify`, `/v1/tag`, `/v1/answer`, `/v1/fill`, `/v1/image`, `/v1/score`,
//! `/v1/translate`, `/tokenize` and `/detokenize`. Places in texts are counted in characters.

use super::ask::{Ask, Prompt, ids};
use super::session::Session;
use super::{Answer, reply};
use crate::adapters::Adapter;
use crate::app::App;
use crate::body::Call;
use crate::engine_thread::{Work, WorkEvent};
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::served::Served;
use base64::Engine as _;
use qkv_base::Task;
use qkv_decode::score::PromptScoring;
use qkv_decode::{align, hard};
use qkv_tasks::answer::AnswerOptions;
use qkv_tasks::classify::{ClassifyInput, Label};
use qkv_tasks::likelihood::{TextOrIds, likelihood};
use qkv_tasks::tag::TaggedSpan;
use qkv_tasks::{Silent, TextModel};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;

/// The names under which texts are given.
const INPUT: &[&str] = &["input", "inputs", "text"];

fn does<'a>(app: &'a App, fields: &Fields, task: Task, does: &str) -> ApiResult<&'a Served> {
    app.model(fields.text("model")?.as_deref(), |m| m.task() == Some(task), does)
}

fn list(served: &Served, data: impl IntoIterator<Item = Value>) -> Value {
    let numbered = |(index, mut value): (usize, Value)| {
        value["index"] = json!(index);
        value
    };
    json!({"object": "list", "model": served.name, "data": data.into_iter().enumerate().map(numbered).collect::<Vec<_>>()})
}

/// How many characters stand before a byte.
pub fn character(text: &str, byte: usize) -> usize {
    text.get(..byte).map_or(0, |before| before.chars().count())
}

/// The classes of texts or pairs.
pub async fn classes(served: &Served, inputs: &[ClassifyInput]) -> ApiResult<Vec<Vec<Label>>> {
    let ask = |model: &TextModel, batch: &[ClassifyInput]| {
        qkv_tasks::classify::classify(model, batch, batch.len(), &mut Silent)
    };
    served.ask_each(inputs, ask).await
}

/// Answers `/v1/classify`.
pub async fn classify(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = does(&app, &fields, Task::Classify, "classifies texts")?;
    let inputs: Vec<ClassifyInput> = match fields.value("pairs") {
        Some(Value::Array(pairs)) if !pairs.is_empty() && pairs.len() <= app.limits.inputs => {
            let pair = |v: &Value| match (v[0].as_str(), v[1].as_str(), v.as_array().map(Vec::len)) {
                (Some(a), Some(b), Some(2)) => Ok(ClassifyInput::Pair(a.into(), b.into())),
                _ => Err(ApiError::field("pairs", "must be a list of lists of two strings")),
            };
            pairs.iter().map(pair).collect::<ApiResult<_>>()?
        }
        Some(_) => return Err(ApiError::field("pairs", "must be a list of lists of two strings")),
        None => fields.inputs(INPUT, app.limits.inputs)?.0.into_iter().map(ClassifyInput::Text).collect(),
    };
    let top = fields.count("top", 1..=1 << 20)?.unwrap_or(usize::MAX);
    let ignored = fields.finish(app.strict)?;
    let found = classes(served, &inputs).await?;
    let one = |labels: &Vec<Label>| json!({"labels": labels[..labels.len().min(top)]});
    Ok(reply(&list(served, found.iter().map(one)), &ignored))
}

/// Words or entities, places in characters.
pub async fn spans(served: &Served, texts: &[String], words: bool) -> ApiResult<Vec<Vec<TaggedSpan>>> {
    let ask = move |model: &TextModel, batch: &[String]| match words {
        true => qkv_tasks::tag::words(model, batch, batch.len(), &mut Silent),
        false => qkv_tasks::tag::entities(model, batch, batch.len(), &mut Silent),
    };
    let mut all = served.ask_each(texts, ask).await?;
    for (spans, text) in all.iter_mut().zip(texts) {
        for span in spans {
            (span.start, span.end) = (character(text, span.start), character(text, span.end));
        }
    }
    Ok(all)
}

/// Answers `/v1/tag`.
pub async fn tag(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = does(&app, &fields, Task::Tag, "tags words")?;
    let (texts, _) = fields.inputs(INPUT, app.limits.inputs)?;
    let words = fields.flag("words")?.unwrap_or(false);
    let ignored = fields.finish(app.strict)?;
    let name = if words { "words" } else { "entities" };
    let found = spans(served, &texts, words).await?;
    Ok(reply(&list(served, found.iter().map(|spans| json!({name: spans}))), &ignored))
}

/// The best answers to a question.
pub async fn answers(served: &Served, question: String, context: String, top: usize) -> ApiResult<Vec<Value>> {
    let ask = move |model: &TextModel| {
        let options = AnswerOptions { top, ..AnswerOptions::default() };
        let found = qkv_tasks::answer::answer(model, &question, &context, options, &mut Silent)?;
        let place = |byte: usize| character(&context, byte);
        let one = |f: qkv_tasks::answer::Found| json!({"text": f.text, "score": f.score, "start": place(f.start), "end": place(f.end)});
        Ok(found.into_iter().map(one).collect())
    };
    served.ask(ask).await
}

/// Answers `/v1/answer`.
pub async fn answer(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = does(&app, &fields, Task::Answer, "answers questions")?;
    let (question, context) = (fields.needed_text("question")?, fields.needed_text("context")?);
    let top = fields.count("top", 1..=100)?.unwrap_or(1);
    let ignored = fields.finish(app.strict)?;
    let found = answers(served, question, context, top).await?;
    Ok(reply(&json!({"object": "answer", "model": served.name, "answers": found}), &ignored))
}

/// Candidates for the gaps of texts.
pub async fn candidates(
    served: &Served,
    texts: &[String],
    top: usize,
) -> ApiResult<Vec<Vec<Vec<qkv_tasks::fill::Candidate>>>> {
    let ask =
        move |model: &TextModel, batch: &[String]| qkv_tasks::fill::fill(model, batch, top, batch.len(), &mut Silent);
    served.ask_each(texts, ask).await
}

/// Answers `/v1/fill`.
pub async fn fill(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = does(&app, &fields, Task::Masked, "fills gaps")?;
    let (texts, _) = fields.inputs(INPUT, app.limits.inputs)?;
    let top = fields.count("top", 1..=1000)?.unwrap_or(5);
    let ignored = fields.finish(app.strict)?;
    let found = candidates(served, &texts, top).await?;
    Ok(reply(&list(served, found.iter().map(|gaps| json!({"gaps": gaps}))), &ignored))
}

/// The classes of a picture given as bytes of a PNG or JPEG file.
pub async fn picture(served: &Served, bytes: Vec<u8>) -> ApiResult<Vec<Label>> {
    let ask = move |model: &TextModel| {
        let io = |e: std::io::Error| qkv_base::Error::write("a temporary file", &e, "");
        let mut file = tempfile::NamedTempFile::new().map_err(io)?;
        file.write_all(&bytes).map_err(io)?;
        let found = qkv_tasks::image::classify(model, &[file.path()], 1, &mut Silent);
        // The place is a file of this machine, which is nobody's business.
        let named = |e: qkv_base::Error| qkv_base::Error { place: "image".into(), ..e };
        Ok(found.map_err(named)?.into_iter().next().unwrap_or_default())
    };
    served.ask(ask).await
}

/// Base64, or a `data:` URL of it. Nothing is fetched from anywhere.
pub fn decode_picture(name: &str, text: &str) -> ApiResult<Vec<u8>> {
    let plain =
        text.split_once(";base64,").filter(|(head, _)| head.starts_with("data:")).map_or(text, |(_, data)| data);
    let wrong = |_| ApiError::field(name, "must be the base64 of a PNG or JPEG file; addresses are not fetched");
    base64::engine::general_purpose::STANDARD.decode(plain.trim()).map_err(wrong)
}

/// Answers `/v1/image`: the bytes of a picture, or JSON with its base64.
pub async fn image(app: Arc<App>, mut call: Call) -> Answer {
    let json = call.header("content-type").is_some_and(|t| t.starts_with("application/json"));
    let bytes = call.bytes(&app.limits).await?;
    let fields = match json {
        true => Fields::of(
            serde_json::from_slice(&bytes).map_err(|e| ApiError::bad(format!("the body is not JSON: {e}")))?,
        )?,
        false => Fields::of(json!({}))?,
    };
    let served = does(&app, &fields, Task::Image, "sees pictures")?;
    let bytes = if json { decode_picture("image", &fields.needed_text("image")?)? } else { bytes.to_vec() };
    let top = fields.count("top", 1..=1 << 20)?.unwrap_or(usize::MAX);
    let ignored = fields.finish(app.strict)?;
    let labels = picture(served, bytes).await?;
    let value = json!({"object": "image", "model": served.name, "labels": labels[..labels.len().min(top)]});
    Ok(reply(&value, &ignored))
}

/// Answers `/v1/score`: how probable texts are, token by token.
pub async fn score(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let (served, adapter) = app.writer(fields.text("model")?.as_deref(), "writes text, and so scores it")?;
    let (texts, _) = fields.inputs(INPUT, app.limits.inputs)?;
    let source = fields.text("source")?;
    let ignored = fields.finish(app.strict)?;
    let mut data = vec![];
    for text in texts {
        let scored: Vec<(u32, f64)> = match served.model.is_pair() {
            true => {
                let (text, source) = (TextOrIds::Text(text), source.clone().map(TextOrIds::Text));
                let source = source.ok_or_else(|| crate::fields::missing("source"))?;
                let ask = move |model: &TextModel| likelihood(model, &text, Some(&source));
                served.ask(ask).await?.tokens.iter().map(|t| (t.id, t.logprob)).collect()
            }
            false if source.is_some() => return Err(ApiError::field("source", "is for models that read one")),
            false => scored(served, &text, adapter.clone()).await?,
        };
        let sum: f64 = scored.iter().map(|(_, p)| p).sum();
        let tokens: Vec<Value> =
            scored.iter().map(|(id, p)| json!({"id": id, "text": served.token_text(*id), "logprob": p})).collect();
        let perplexity = (-sum / scored.len().max(1) as f64).exp();
        data.push(json!({"logprob": sum, "perplexity": perplexity, "tokens": tokens}));
    }
    Ok(reply(&list(served, data), &ignored))
}

/// The log-probability of each token of a text, computed in chunks beside other requests.
async fn scored(served: &Served, text: &str, adapter: Option<Arc<Adapter>>) -> ApiResult<Vec<(u32, f64)>> {
    let ids = served.encode("input", text)?;
    // With a start token before it even the first token has a score.
    let bos = served.model.defaults.bos.filter(|bos| ids.first() != Some(bos));
    let ids: Vec<u32> = bos.into_iter().chain(ids).collect();
    if ids.len() < 2 || ids.len() > served.context() {
        let what = format!("has {} tokens; this model scores 2 to {}", ids.len(), served.context());
        return Err(ApiError::field("input", what).code("context_length_exceeded"));
    }
    let (events, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let _ticket = served.engine.begin(Work {
        request: None,
        score: Some(PromptScoring::new(ids, 0).adapted(adapter.as_ref().map(|a| a.number))),
        adapter,
        tag: 0,
        events,
    })?;
    while let Some((_, event)) = heard.recv().await {
        match event {
            WorkEvent::Scored(tokens) => return Ok(tokens.iter().map(|t| (t.id, t.logprob as f64)).collect()),
            WorkEvent::Failed(error) => return Err(error),
            _ => {}
        }
    }
    Err(ApiError::internal("the thread of this model has ended"))
}

/// Answers `/v1/translate`: by a beam of 4 unless something else is said.
pub async fn translate(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = does(&app, &fields, Task::Translate, "translates")?;
    let (texts, _) = fields.inputs(INPUT, app.limits.inputs)?;
    if !["temperature", "chain", "best_of"].iter().any(|name| fields.has(name)) {
        let own = served.model.defaults.beams.unwrap_or(4);
        let n = fields.count("n", 1..=served.rows)?.unwrap_or(1);
        fields.default("n", n);
        fields.default("beam", own.max(n).min(served.rows));
    }
    let ask = Ask { otherwise: 256, ..Ask::of(&fields, served, &app)? };
    let aligned = fields.flag("alignments")?.unwrap_or(false);
    let ignored = fields.finish(app.strict)?;
    let said = translations(app.clone(), served, ask, &texts, call.arrived).await?;
    let mut data = vec![];
    for (choices, source) in said {
        let mut told = vec![];
        for choice in choices {
            let mut value = json!({"text": choice.text, "score": choice.score, "ids": choice.ids,
                "logprob": choice.logprobs.iter().map(|p| *p as f64).sum::<f64>()});
            if aligned {
                let (source, target) = (source.clone(), choice.ids.clone());
                let ask = move |model: &TextModel| align(&model.network.model, &source, &model.start()?, &target);
                let soft = served.ask(ask).await?;
                let tokens: Vec<String> = choice.ids.iter().map(|id| served.token_text(*id)).collect();
                value["tokens"] = json!(tokens);
                value["alignment"] = json!({"hard": hard(&soft), "soft": soft});
            }
            told.push(value);
        }
        let sources: Vec<String> = source.iter().map(|id| served.token_text(*id)).collect();
        let mut value = json!({"translations": told});
        if aligned {
            value["source_tokens"] = json!(sources);
        }
        data.push(value);
    }
    Ok(reply(&list(served, data), &ignored))
}

/// The texts that sources become, with the ids of each source; a blank one becomes nothing.
pub async fn translations(
    app: Arc<App>,
    served: &Served,
    ask: Ask,
    texts: &[String],
    arrived: std::time::Instant,
) -> ApiResult<Vec<(Vec<super::session::Choice>, Vec<u32>)>> {
    let mut prompts = vec![];
    for text in texts.iter().filter(|t| !t.trim().is_empty()) {
        prompts.push(Prompt { ids: served.encode("input", text)?, text: text.clone() });
    }
    let mut said = vec![];
    if !prompts.is_empty() {
        let session = Session::begin(app, served, ask, prompts, arrived)?;
        let (session, all) = session.finish().await?;
        said = all.into_iter().zip(session.prompts).map(|(s, p)| (s.choices, p.ids)).collect();
    }
    let mut said = said.into_iter();
    let one = |text: &String| if text.trim().is_empty() { (vec![], vec![]) } else { said.next().unwrap_or_default() };
    Ok(texts.iter().map(one).collect())
}

/// Answers `/tokenize`.
pub async fn tokenize(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = app.model(fields.text("model")?.as_deref(), |m| m.model.maybe_tokenizer().is_some(), "reads text")?;
    let messages = fields.value("messages");
    let (texts, one) = match messages {
        Some(_) => (vec![super::chat::prompt(served, messages, None)?.text], true),
        None => fields.inputs(&["content", "prompt", "text", "input", "inputs"], app.limits.inputs)?,
    };
    let special = fields.flag("add_special")?.or(fields.flag("add_special_tokens")?).unwrap_or(true);
    // llama.cpp's shape: ids with their pieces.
    let paired = fields.flag("with_pieces")?.unwrap_or(false);
    let strings = fields.flag("return_token_strs")?.unwrap_or(false);
    let ignored = fields.finish(app.strict)?;
    let tokenizer = served.model.tokenizer().map_err(|e| served.error(e))?;
    let mut all = vec![];
    for text in &texts {
        let encoding = tokenizer.encode(text, special).map_err(|e| served.error(e))?;
        let spans: Vec<[usize; 2]> = encoding.chars.iter().map(|(a, b)| [*a, *b]).collect();
        let pair = |(id, piece): (&u32, &String)| json!({"id": id, "piece": piece});
        let tokens = match paired {
            true => json!(encoding.ids.iter().zip(&encoding.pieces).map(pair).collect::<Vec<_>>()),
            false => json!(encoding.ids),
        };
        let mut value = json!({"tokens": tokens, "pieces": encoding.pieces, "count": encoding.ids.len(), "spans": spans,
            "max_model_len": served.context()});
        if strings {
            value["token_strs"] = json!(encoding.pieces);
        }
        all.push(value);
    }
    let value = if one { all.remove(0) } else { list(served, all) };
    Ok(reply(&value, &ignored))
}

/// Answers `/detokenize`.
pub async fn detokenize(app: Arc<App>, mut call: Call) -> Answer {
    let fields = call.fields(&app.limits).await?;
    let served = app.model(fields.text("model")?.as_deref(), |m| m.model.maybe_tokenizer().is_some(), "reads text")?;
    let (name, value) = fields.any(&["tokens", "ids"])?;
    let ids = ids(name, &value, 1 << 20)?;
    let skip = fields.flag("skip_special")?.unwrap_or(false);
    let ignored = fields.finish(app.strict)?;
    let tokenizer = served.model.tokenizer().map_err(|e| served.error(e))?;
    let text = tokenizer.decode(&ids, skip).map_err(|e| served.error(e).of(name))?;
    Ok(reply(&json!({"content": text, "prompt": text}), &ignored))
}
