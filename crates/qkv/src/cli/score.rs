//! `qkv score`: how probable a text is, token by token, by the product rule.

use super::fail::Fail;
use super::input;
use super::terminal::{say, say_json};
use qkv_base::format::significant;
use qkv_tasks::chain::ids;
use qkv_tasks::likelihood::{TextOrIds, likelihood};
use serde::Serialize;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  qkv score MODEL \"The cat sat on the mat.\"\n  qkv score MODEL --ids 5,6,7 --json\n  qkv score runs/de-en \"Good morning\" --source \"Guten Morgen\"\n\nP(y1 … yT) = Π P(yt | y before t): the log-probabilities of the tokens add up to that of the text."
)]
pub(crate) struct Args {
    /// A model or a run, then the text; without a model the newest run
    #[arg(value_name = "MODEL] [TEXT")]
    words: Vec<String>,
    /// The text in ids: 5,6,7
    #[arg(long, value_name = "IDS")]
    ids: Option<String>,
    /// What a translation model reads
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// The same in ids
    #[arg(long, value_name = "IDS", conflicts_with = "source")]
    source_ids: Option<String>,
    /// One line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: input::LoadArgs,
}

/// A token in JSON.
#[derive(Serialize)]
struct Token {
    id: u32,
    text: Option<String>,
    logprob: f64,
    probability: f64,
    rank: usize,
    entropy: f64,
}

#[derive(Serialize)]
struct Report {
    tokens: Vec<Token>,
    logprob: f64,
    perplexity: f64,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let (path, texts) = input::resolve(&args.words)?;
    input::instead(&texts, "--ids", args.ids.is_some())?;
    let given = |text: Option<String>, list: &Option<String>| -> Result<Option<TextOrIds>, Fail> {
        Ok(match (text, list) {
            (Some(text), _) => Some(TextOrIds::Text(text)),
            (None, Some(list)) => Some(TextOrIds::Ids(ids(list)?)),
            (None, None) => None,
        })
    };
    let Some(text) = given(input::only(texts)?, &args.ids)? else {
        return Err(Fail::usage("there is nothing to score", "give a text, or --ids 5,6,7"));
    };
    let source = given(args.source.clone(), &args.source_ids)?;
    let model = input::open(&path, args.load)?;
    let scores = likelihood(&model, &text, source.as_ref())?;
    if args.json {
        let text = |id| model.maybe_tokenizer().map(|_| model.piece(id));
        let token = |t: &qkv_decode::TokenScore| Token {
            id: t.id,
            text: text(t.id),
            logprob: t.logprob,
            probability: t.logprob.exp(),
            rank: t.rank,
            entropy: t.entropy,
        };
        let tokens = scores.tokens.iter().map(token).collect();
        return say_json(&Report { tokens, logprob: scores.logprob, perplexity: scores.perplexity });
    }
    say(format!("{:>10} {:>10} {:>6} {:>8} {:>10}  token", "log p", "p", "rank", "entropy", "sum"))?;
    let mut sum = 0.0;
    for token in &scores.tokens {
        sum += token.logprob;
        let (p, name) = (token.logprob.exp(), model.piece(token.id).escape_debug().to_string());
        say(format!("{:>10.4} {p:>10.4} {:>6} {:>8.3} {sum:>10.4}  {name}", token.logprob, token.rank, token.entropy))?;
    }
    let n = scores.tokens.len();
    let perplexity = significant(scores.perplexity, 4);
    say(format!("log-probability {:.4}, perplexity {perplexity}, {n} tokens", scores.logprob))
}
