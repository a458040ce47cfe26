//! `qkv answer`: where in a text the answer to a question stands. Long texts are read in windows that overlap; the best
//! span of all windows wins.

use crate::fail::Fail;
use crate::model::{self, Model, in_batches, softmax};
use crate::say;
use qkv_model::Encoder;
use qkv_model::spec::Head;
use qkv_nn::Cx;
use qkv_text::{Encoding, Tokenizer};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv answer MODEL --context \"Ada was born in 1815.\" --question \"When was Ada born?\"
  qkv answer MODEL --context-file page.txt --question \"…\" --top 3 --json")]
pub(crate) struct Args {
    /// A model that answers with spans; left out, the newest run
    model: Option<String>,
    /// The text to look in
    #[arg(long, value_name = "TEXT", conflicts_with = "context_file", required_unless_present = "context_file")]
    context: Option<String>,
    /// A file with the text to look in
    #[arg(long, value_name = "FILE")]
    context_file: Option<PathBuf>,
    /// The question; may be given several times
    #[arg(long, value_name = "TEXT", required = true)]
    question: Vec<String>,
    /// How many answers
    #[arg(long, value_name = "N", default_value_t = 1)]
    top: usize,
    /// The longest answer in tokens
    #[arg(long, value_name = "N", default_value_t = 30)]
    longest: usize,
    /// How many tokens two windows share; 64 if left out, or half a window where that is less
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// One line of JSON for each question
    #[arg(long)]
    json: bool,
}

struct Found {
    from: usize,
    to: usize,
    score: f64,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let (path, rest) = model::resolve(&args.model.iter().cloned().collect::<Vec<_>>())?;
    if let Some(word) = rest.first() {
        return Err(Fail::usage(format!("{word}: there is no such model"), "give the path of a model directory"));
    }
    let model = Model::open(&path)?;
    model.needs(model.it.spec().head == Head::Span, "answer", "a head that answers with spans")?;
    let tokenizer = model.tokenizer()?;
    let context = match (&args.context, &args.context_file) {
        (Some(text), _) => text.clone(),
        (None, Some(file)) => model::texts(vec![], Some(file))?.join("\n"),
        (None, None) => return Err(Fail::usage("there is no text to look in", "give --context or --context-file")),
    };
    for question in &args.question {
        let found = look(&model, &tokenizer, question, &context, args)?;
        let part = |f: &Found| context.get(f.from..f.to).unwrap_or_default().to_string();
        if args.json {
            let answers: Vec<_> = found
                .iter()
                .map(|f| json!({"text": part(f), "start": f.from, "end": f.to, "score": f.score}))
                .collect();
            say(json!({"question": question, "answers": answers}))?;
            continue;
        }
        say(question)?;
        for f in &found {
            say(format!("  {:>6.2} %  {}", 100.0 * f.score, part(f)))?;
        }
    }
    Ok(())
}

/// A window: question and a part of the context, with where the context's tokens are.
fn windows(
    tokenizer: &Tokenizer,
    question: &str,
    context: &str,
    longest: usize,
    stride: Option<usize>,
) -> Result<Vec<Encoding>, Fail> {
    let whole = tokenizer.encode_pair(question, context, true)?;
    let inside: Vec<usize> =
        (0..whole.len()).filter(|i| whole.sequence_ids[*i] == Some(1) && !whole.special_mask[*i]).collect();
    let around = whole.len() - inside.len();
    if inside.is_empty() {
        return Err(Fail::usage("the text to look in has no tokens", "give a longer text"));
    }
    let room = longest.saturating_sub(around);
    let stride = stride.unwrap_or(64.min(room / 2));
    if room <= stride && whole.len() > longest {
        let what = format!(
            "the question takes {around} of {longest} tokens and leaves no room for windows that share {stride}"
        );
        return Err(Fail::usage(what, "shorten the question, or use a smaller --stride"));
    }
    let (first, n) = (inside[0], inside.len());
    let mut made = vec![];
    let mut from = 0;
    loop {
        let to = (from + room).min(n);
        let mut window = whole.clone();
        let keep: Vec<usize> = (0..whole.len()).filter(|i| *i < first + from || *i >= first + to).collect();
        let drop = |i: usize| keep.contains(&i) && i >= first && i < first + n;
        macro_rules! thin {
            ($($field:ident),*) => { $(
                let mut i = 0;
                window.$field.retain(|_| { i += 1; !drop(i - 1) });
            )* };
        }
        thin!(ids, pieces, bytes, chars, type_ids, special_mask, word_ids, sequence_ids);
        made.push(window);
        if to == n {
            return Ok(made);
        }
        from = to - stride;
    }
}

fn look(model: &Model, tokenizer: &Tokenizer, question: &str, context: &str, args: &Args) -> Result<Vec<Found>, Fail> {
    let windows = windows(tokenizer, question, context, model.longest(), args.stride)?;
    let bar = model::progress(windows.len(), "reading");
    let spans = in_batches(&windows, 8, &bar, |batch, tokens| {
        let answer = model.it.model.answer(&tokens, &mut Cx::eval())?;
        let t = answer.dims()[1];
        let values: Vec<f32> = answer.into_data().try_to_vec().unwrap_or_default();
        let row = |(b, i): (usize, &usize)| {
            let window = &windows[*i];
            let side = |s: usize| -> Vec<f32> { (0..window.len()).map(|at| values[(b * t + at) * 2 + s]).collect() };
            spans(window, &side(0), &side(1), args.longest)
        };
        Ok(batch.iter().enumerate().map(row).collect())
    })?;
    let mut found: Vec<Found> = spans.into_iter().flatten().collect();
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.from.cmp(&b.from)).then(a.to.cmp(&b.to)));
    let mut kept: Vec<Found> = vec![];
    for span in found {
        if kept.len() < args.top && kept.iter().all(|k| (k.from, k.to) != (span.from, span.to)) {
            kept.push(span);
        }
    }
    Ok(kept)
}

/// The best spans of a window: probability of the start times that of the end, both among the context's tokens.
fn spans(window: &Encoding, start: &[f32], end: &[f32], longest: usize) -> Vec<Found> {
    let inside: Vec<usize> =
        (0..window.len()).filter(|i| window.sequence_ids[*i] == Some(1) && !window.special_mask[*i]).collect();
    let (start, end) = (softmax(start), softmax(end));
    let mut found: Vec<Found> = vec![];
    for (n, from) in inside.iter().enumerate() {
        for to in inside[n..].iter().take(longest.max(1)) {
            let score = start[*from] * end[*to];
            found.push(Found { from: window.bytes[*from].0, to: window.bytes[*to].1, score });
        }
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score));
    found.truncate(20);
    found
}
