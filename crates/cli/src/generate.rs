//! `qkv generate`: continues a text, token by token, streaming.

use crate::decoding::{BeamArgs, ChainArgs, Speaker, catch_interrupts, ids, interrupted, lines};
use crate::fail::Fail;
use crate::model::{self, progress};
use crate::say;
use crate::speak::{Answer, Order, Search, Traced, write_trace};
use qkv_decode::{Chain, Pick, search::Contrastive};
use qkv_model::CausalLm;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  qkv generate \"Once upon a time\"    by the newest run\n  qkv generate runs/tale \"Once upon a time\" --temperature 0.8 --top-p 0.95\n  qkv generate MODEL --ids 5,6,7 --json\n  qkv generate MODEL \"Hello\" --chain \"dry 0.8, top_k 40, temperature 0.7\" --n 3 --seed 1\n  qkv generate MODEL --file prompts.txt --max-tokens 64 > answers.txt\n\nWithout flags of the chain the most probable token is said each time, unless the model's generation_config.json draws."
)]
pub(crate) struct Args {
    /// A model or a run, then what to continue; without a model the newest run
    #[arg(value_name = "MODEL] [PROMPT")]
    words: Vec<String>,
    /// What to continue, in ids: 5,6,7; may be repeated for a batch
    #[arg(long, value_name = "IDS", conflicts_with = "file")]
    ids: Vec<String>,
    /// Prompts, one a line; - is stdin. Answers come one a line, line breaks within them as \n
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many prompts of a file are continued together
    #[arg(long, value_name = "N", default_value_t = 8)]
    batch: usize,
    /// The most tokens to say
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Say N continuations of each prompt
    #[arg(long, value_name = "N", default_value_t = 1)]
    n: usize,
    /// Decides what is random: the same seed gives the same text
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Stop at this text, which is not said; may be repeated
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Contrastive search: of the K most probable tokens the one least like what was said
    #[arg(long, value_name = "K")]
    contrastive: Option<usize>,
    /// How much being unlike counts in contrastive search, 0 to 1
    #[arg(long, value_name = "A", default_value_t = 0.6, requires = "contrastive", allow_hyphen_values = true)]
    alpha: f64,
    /// Too long a prompt: refuse it, or drop its beginning
    #[arg(long, value_name = "SIDE", value_parser = ["left"])]
    truncate: Option<String>,
    /// Tell the log-probability of every token
    #[arg(long)]
    logprobs: bool,
    /// Show what every step did: in the terminal, or into a .html or .json file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    trace: Option<String>,
    /// One line of JSON for each prompt
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    chain: ChainArgs,
    #[command(flatten)]
    beam: BeamArgs,
}

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    sequences: &'a [Answer],
    prompt_tokens: usize,
    chain: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a Traced>,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.chain.chain.as_deref() == Some("help") {
        return say(Chain::help());
    }
    for (name, value) in [("n", args.n), ("batch", args.batch), ("max-tokens", args.max_tokens.unwrap_or(1))] {
        if value == 0 {
            return Err(Fail::usage(format!("--{name} must not be 0"), "use 1 or more"));
        }
    }
    let (path, texts) = model::resolve(&args.words)?;
    model::instead(&texts, "--ids", !args.ids.is_empty())?;
    model::instead(&texts, "--file", args.file.is_some())?;
    let prompt = model::only(texts)?;
    let speaker = Speaker::load(&path)?;
    let order = args.order(&speaker)?;
    let mut prompts = args.prompts(&speaker, prompt.as_deref())?;
    args.fit(&speaker, &mut prompts)?;
    if args.trace.is_some() && (prompts.len() > 1 || args.n > 1) {
        return Err(Fail::usage("--trace shows one continuation of one prompt", "give one prompt, and no --n"));
    }
    if !args.json {
        tell(&order, &speaker);
    }
    catch_interrupts();
    let began = Instant::now();
    let mut said = 0;
    // Where the answers go to the terminal, they are the progress.
    let bar = progress(if std::io::stdout().is_terminal() { 1 } else { prompts.len() }, "speaking");
    for (b, batch) in prompts.chunks(args.batch).enumerate() {
        said += args.batch(&order, batch, b * args.batch, prompts.len() > 1)?;
        bar.inc(batch.len() as u64);
        if interrupted() {
            return Err(Fail::interrupted());
        }
    }
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{said} tokens in {seconds:.2} s ({:.1} tokens/s)", said as f64 / seconds.max(1e-9));
    Ok(())
}

/// Says what will be done: the chain in force, and what of it does nothing.
pub(crate) fn tell(order: &Order, speaker: &Speaker) {
    match &order.search {
        Search::Sample { .. } => eprintln!("chain: {}", order.chain),
        Search::Beam(beam) if order.chain.steps.is_empty() => eprintln!("beam of {}", beam.width),
        Search::Beam(beam) => {
            let steps: Vec<String> = order.chain.steps.iter().map(ToString::to_string).collect();
            eprintln!("beam of {}, chain: {}", beam.width, steps.join(", "));
        }
        Search::Contrastive(how) => eprintln!("contrastive search, k {}, α {}", how.k, how.alpha),
    }
    order.chain.effects().iter().for_each(|effect| eprintln!("note: {effect}"));
    if speaker.defaults.ends.is_empty() {
        eprintln!("note: nothing says which token ends a text; only --max-tokens and --stop do");
    }
}

impl Args {
    fn order<'a>(&self, speaker: &'a Speaker) -> Result<Order<'a>, Fail> {
        let chain = self.chain.chain(&speaker.defaults)?;
        chain.check(CausalLm::vocabulary(&speaker.net.model))?;
        let asked = self.beam.beam.is_some();
        if self.contrastive.is_some() && (asked || self.n > 1) {
            let what = "contrastive search follows one continuation; it has no beams and no --n";
            return Err(Fail::usage(what, "leave out --beam and --n, or --contrastive"));
        }
        let drawn = chain.pick != Pick::Greedy;
        let beam = if self.contrastive.is_some() || (drawn || self.n > 1) && !asked {
            None
        } else {
            self.beam.search(speaker, 1)?
        };
        let search = match (self.contrastive, beam) {
            (Some(k), _) => Search::Contrastive(Contrastive { k, alpha: self.alpha }),
            (None, Some(_)) if drawn => {
                let what = format!("a beam compares, but `{}` draws at random", chain.pick);
                return Err(Fail::usage(what, "leave out --beam, or let the chain end in `greedy`"));
            }
            (None, Some(_)) if self.n > 1 => {
                return Err(Fail::usage(
                    "--n draws continuations, but a beam finds its best",
                    "use --n-best with --beam",
                ));
            }
            (None, Some(_)) if !self.stop.is_empty() => {
                return Err(Fail::usage(
                    "--stop cannot end a beam",
                    "search without --beam, or cut the text afterwards",
                ));
            }
            (None, Some(beam)) => Search::Beam(beam),
            (None, None) => Search::Sample { n: self.n },
        };
        if self.n > 1 && !drawn && matches!(search, Search::Sample { .. }) {
            let hint = "draw with --temperature 0.8, or find several with --beam 4 --n-best 4";
            return Err(Fail::usage(format!("--n {}: greedy says the same every time", self.n), hint));
        }
        if !self.stop.is_empty() {
            speaker.tokenizer()?;
        }
        Ok(Order {
            speaker,
            chain,
            search,
            max_tokens: self.max_tokens,
            otherwise: 128,
            seed: self.seed,
            stops: self.stop.clone(),
            traced: self.trace.is_some(),
        })
    }

    fn prompts(&self, speaker: &Speaker, prompt: Option<&str>) -> Result<Vec<Vec<u32>>, Fail> {
        let empty = || Fail::usage("there is nothing to continue", "give a text, --ids 5,6,7, or --file prompts.txt");
        let prompts: Vec<Vec<u32>> = if !self.ids.is_empty() {
            self.ids.iter().map(|list| ids(list)).collect::<Result<_, _>>()?
        } else if let Some(file) = &self.file {
            lines(file)?.iter().map(|line| speaker.encode(line)).collect::<Result<_, _>>()?
        } else if let Some(prompt) = prompt {
            vec![speaker.encode(prompt)?]
        } else {
            return Err(empty());
        };
        match prompts.iter().position(Vec::is_empty) {
            _ if prompts.is_empty() => Err(empty()),
            Some(0) if prompts.len() == 1 => {
                Err(Fail::usage("the prompt is empty", "give at least one token to continue"))
            }
            Some(at) => Err(Fail::usage(format!("prompt {} is empty", at + 1), "give at least one token to continue")),
            None => Ok(prompts),
        }
    }

    /// Refuses what is outside the vocabulary, and what is too long unless its beginning may be dropped.
    fn fit(&self, speaker: &Speaker, prompts: &mut [Vec<u32>]) -> Result<(), Fail> {
        let model = &speaker.net.model;
        let vocabulary = CausalLm::vocabulary(model);
        for (i, prompt) in prompts.iter_mut().enumerate() {
            if let Some(id) = prompt.iter().find(|id| **id as usize >= vocabulary) {
                let what = format!("prompt {}: id {id} is outside the vocabulary of {vocabulary}", i + 1);
                return Err(Fail::usage(what, format!("ids go from 0 to {}", vocabulary.saturating_sub(1))));
            }
            let Some(context) = CausalLm::context(model) else { continue };
            let more = if speaker.is_pair() { 0 } else { self.max_tokens.unwrap_or(1) };
            let room = context.saturating_sub(more).max(1);
            if prompt.len() > room && self.truncate.is_some() {
                eprintln!(
                    "note: prompt {}: the first {} of {} tokens are dropped",
                    i + 1,
                    prompt.len() - room,
                    prompt.len()
                );
                prompt.drain(..prompt.len() - room);
            } else if prompt.len() > room {
                let what = format!(
                    "prompt {} is {} tokens long; with {more} more the context of {context} overflows",
                    i + 1,
                    prompt.len()
                );
                return Err(Fail::usage(what, "shorten it, or let --truncate left drop its beginning"));
            }
        }
        Ok(())
    }

    /// One batch; how many tokens were said.
    fn batch(&self, order: &Order, prompts: &[Vec<u32>], first: usize, many: bool) -> Result<usize, Fail> {
        let streams = !self.json && !many && self.n == 1 && order.speaker.tokenizer.is_some();
        let mut out = std::io::stdout();
        let mut hear = |_: usize, _: usize, text: &str| match streams {
            true => write!(out, "{text}").and_then(|()| out.flush()).map_err(Fail::stdout),
            false => Ok(()),
        };
        let (mut answers, traces) = order.answer(prompts, first as u64, &mut hear)?;
        let said = answers.iter().flatten().map(|a| a.ids.len()).sum();
        if interrupted() && many {
            return Err(Fail::interrupted());
        }
        if !self.logprobs {
            answers.iter_mut().flatten().for_each(|a| a.logprobs = None);
        }
        for (prompt, answers) in prompts.iter().zip(&answers) {
            if self.json {
                let chain = order.chain.to_string();
                let line = Line { sequences: answers, prompt_tokens: prompt.len(), chain, trace: traces.first() };
                say(serde_json::to_string(&line).map_err(|e| Fail::failed("json", e, ""))?)?;
                continue;
            }
            if streams && !matches!(order.search, Search::Beam(_)) {
                say("")?;
            } else {
                answers.iter().try_for_each(|a| say(self.line(a, many || answers.len() > 1)))?;
            }
            if self.logprobs {
                answers.iter().for_each(|a| tell_logprobs(order.speaker, a));
            }
        }
        if let (Some(to), false) = (&self.trace, self.json && self.trace.as_deref() == Some("-")) {
            write_trace(&traces, to)?;
        }
        Ok(said)
    }

    /// An answer as one line among others.
    fn line(&self, answer: &Answer, one_line: bool) -> String {
        match &answer.text {
            Some(text) if one_line => text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r"),
            Some(text) => text.clone(),
            None => answer.ids.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        }
    }
}

fn tell_logprobs(speaker: &Speaker, answer: &Answer) {
    for (id, logprob) in answer.ids.iter().zip(answer.logprobs.iter().flatten()) {
        eprintln!("{logprob:>10.4}  {:.4}  {}", logprob.exp(), speaker.piece(*id).escape_debug());
    }
}
