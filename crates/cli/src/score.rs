//! `qkv score`: how probable a text is, token by token, by the product rule.

use crate::decoding::{Speaker, ids};
use crate::fail::Fail;
use crate::{model, say};
use qkv_base::format::significant;
use qkv_decode::{TextScore, score, score_pair};
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
    let (path, texts) = model::resolve(&args.words)?;
    model::instead(&texts, "--ids", args.ids.is_some())?;
    let given = model::only(texts)?;
    let speaker = Speaker::load(&path)?;
    let scores = args.scores(&speaker, given.as_deref())?;
    let text = |id| speaker.tokenizer.as_ref().map(|_| speaker.piece(id));
    if args.json {
        let token = |t: &qkv_decode::TokenScore| Token {
            id: t.id,
            text: text(t.id),
            logprob: t.logprob,
            probability: t.logprob.exp(),
            rank: t.rank,
            entropy: t.entropy,
        };
        let tokens = scores.tokens.iter().map(token).collect();
        let report = Report { tokens, logprob: scores.logprob, perplexity: scores.perplexity };
        return say(serde_json::to_string(&report).map_err(|e| Fail::failed("json", e, ""))?);
    }
    say(format!("{:>10} {:>10} {:>6} {:>8} {:>10}  token", "log p", "p", "rank", "entropy", "sum"))?;
    let mut sum = 0.0;
    for token in &scores.tokens {
        sum += token.logprob;
        let (p, name) = (token.logprob.exp(), speaker.piece(token.id).escape_debug().to_string());
        say(format!("{:>10.4} {p:>10.4} {:>6} {:>8.3} {sum:>10.4}  {name}", token.logprob, token.rank, token.entropy))?;
    }
    say(format!(
        "log-probability {:.4}, perplexity {}, {} tokens",
        scores.logprob,
        significant(scores.perplexity, 4),
        scores.tokens.len()
    ))
}

impl Args {
    fn scores(&self, speaker: &Speaker, text: Option<&str>) -> Result<TextScore, Fail> {
        let model = &speaker.net.model;
        let nothing = || Fail::usage("there is nothing to score", "give a text, or --ids 5,6,7");
        if !speaker.is_pair() {
            if self.source.is_some() || self.source_ids.is_some() {
                return Err(Fail::usage("this model reads no source", "leave out --source"));
            }
            let text = match (text, &self.ids) {
                (Some(text), _) => {
                    let text = speaker.encode(text)?;
                    // With a start token before it even the first token has a score.
                    let bos = speaker.defaults.bos.filter(|bos| text.first() != Some(bos));
                    bos.into_iter().chain(text).collect()
                }
                (None, Some(list)) => ids(list)?,
                (None, None) => return Err(nothing()),
            };
            return Ok(score(model, &text)?);
        }
        let source = match (&self.source, &self.source_ids) {
            (Some(text), _) => speaker.encode(text)?,
            (None, Some(list)) => ids(list)?,
            (None, None) => {
                return Err(Fail::usage("this model scores a text that follows a source", "add --source TEXT"));
            }
        };
        let target = match (text, &self.ids) {
            (Some(text), _) => speaker.tokenizer()?.encode_target(text, true)?.ids,
            (None, Some(list)) => ids(list)?,
            (None, None) => return Err(nothing()),
        };
        Ok(score_pair(model, &source, &speaker.start()?, &target)?)
    }
}
