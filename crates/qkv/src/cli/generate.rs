//! `qkv generate`: continues a text, token by token, streaming.

mod args;
mod form;

pub(crate) use args::Args;

use super::fail::Fail;
use super::flags::{tell, write_trace};
use super::input::{self, not_zero};
use super::signals::{catch_interrupts, interrupted};
use super::terminal::{progress, say, say_json, say_part, talk};
use qkv_decode::{Chain, Draft};
use qkv_tasks::TextModel;
use qkv_tasks::generate::{Generation, Search, Traced, Written};
use serde::Serialize;
use std::io::IsTerminal;
use std::time::Instant;

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    sequences: &'a [Written],
    prompt_tokens: usize,
    chain: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a Traced>,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    if args.chain.chain.as_deref() == Some("help") {
        return say(Chain::help());
    }
    not_zero(&[("n", args.n), ("batch", args.batch), ("max-tokens", args.max_tokens.unwrap_or(1))])?;
    let (path, texts) = input::resolve(&args.words)?;
    input::instead(&texts, "--ids", !args.ids.is_empty())?;
    input::instead(&texts, "--file", args.file.is_some())?;
    let prompt = input::only(texts)?;
    args.trace.iter().filter(|to| *to != "-").try_for_each(|to| qkv_base::must_be_free(to.as_ref(), args.force))?;
    let model = input::open(&path, args.load)?;
    let generation = args.generation(&model)?;
    let mut prompts = args.prompts(&model, prompt.as_deref())?;
    generation.fit("prompt", &mut prompts, args.truncate.is_some(), &mut |note| talk(format_args!("note: {note}")))?;
    if args.trace.is_some() && (prompts.len() > 1 || args.n > 1) {
        return Err(Fail::usage("--trace shows one continuation of one prompt", "give one prompt, and no --n"));
    }
    if !args.json {
        tell(&generation);
    }
    catch_interrupts();
    let began = Instant::now();
    let (mut said, mut guessed) = (0, (0, 0));
    // Where the answers go to the terminal, they are the progress.
    let bar = progress(if std::io::stdout().is_terminal() { 1 } else { prompts.len() }, "writing");
    for (b, batch) in prompts.chunks(args.batch).enumerate() {
        let (more, (offered, right)) = args.batch(&generation, batch, b * args.batch, prompts.len() > 1)?;
        said += more;
        guessed = (guessed.0 + offered, guessed.1 + right);
        bar.inc(batch.len() as u64);
        if interrupted() {
            return Err(Fail::interrupted());
        }
    }
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    talk(format_args!("{said} tokens in {seconds:.2} s ({:.1} tokens/s)", said as f64 / seconds.max(1e-9)));
    if args.draft != Draft::None {
        talk(format_args!("{} of {} guessed tokens were right", guessed.1, guessed.0));
    }
    Ok(())
}

impl Args {
    /// One batch; how many tokens were said, how many were guessed, and how many of those were right.
    fn batch(
        &self,
        generation: &Generation,
        prompts: &[Vec<u32>],
        first: usize,
        many: bool,
    ) -> Result<(usize, (usize, usize)), Fail> {
        let streams = !self.json && !many && self.n == 1 && generation.model.maybe_tokenizer().is_some();
        let mut hear = |_: usize, _: usize, text: &str| if streams { say_part(text) } else { Ok(()) };
        let (mut answers, traces) = generation.run(prompts, first as u64, &mut hear, &interrupted)?;
        let said = answers.iter().flatten().map(|a| a.ids.len()).sum();
        let guesses = answers.iter().flatten().filter_map(|a| a.guessed);
        let guessed = guesses.fold((0, 0), |sum, (offered, right)| (sum.0 + offered, sum.1 + right));
        if interrupted() && many {
            return Err(Fail::interrupted());
        }
        if !self.logprobs {
            answers.iter_mut().flatten().for_each(|a| a.logprobs = None);
        }
        for (prompt, answers) in prompts.iter().zip(&answers) {
            if self.json {
                let chain = generation.chain.to_string();
                let trace = traces.first();
                say_json(&Line { sequences: answers, prompt_tokens: prompt.len(), chain, trace })?;
                continue;
            }
            if streams && !matches!(generation.search, Search::Beam(_)) {
                say("")?;
            } else {
                answers.iter().try_for_each(|a| say(line(a, many || answers.len() > 1)))?;
            }
            if self.logprobs {
                answers.iter().for_each(|a| tell_logprobs(generation.model, a));
            }
        }
        if let (Some(to), false) = (&self.trace, self.json && self.trace.as_deref() == Some("-")) {
            write_trace(&traces, to)?;
        }
        Ok((said, guessed))
    }
}

/// An answer, as one line among others where there are others.
fn line(answer: &Written, one_line: bool) -> String {
    match &answer.text {
        Some(text) if one_line => text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r"),
        Some(text) => text.clone(),
        None => answer.ids.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    }
}

fn tell_logprobs(model: &TextModel, answer: &Written) {
    for (id, logprob) in answer.ids.iter().zip(answer.logprobs.iter().flatten()) {
        talk(format_args!("{logprob:>10.4}  {:.4}  {}", logprob.exp(), model.piece(*id).escape_debug()));
    }
}
