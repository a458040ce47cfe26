//! `qkv translate`: reads a text and writes it in another way, line by line.
//!
//! Lines come from the arguments, from a file, or from stdin, and answers keep their order and their blank lines.

mod args;

pub(crate) use args::Args;

use super::fail::Fail;
use super::flags::{tell, write_trace};
use super::input::{self, not_zero};
use super::signals::{catch_interrupts, interrupted};
use super::terminal::{progress, say, say_json, talk};
use qkv_tasks::generate::{Generation, Traced, Written};
use qkv_tasks::translate::translation;
use serde::Serialize;
use std::time::Instant;

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    sequences: &'a [Written],
    source_tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a Traced>,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    not_zero(&[("batch", args.batch), ("max-tokens", args.max_tokens.unwrap_or(1))])?;
    let (path, texts) = input::resolve(&args.words)?;
    input::instead(&texts, "--ids", !args.ids.is_empty())?;
    input::instead(&texts, "--file", args.file.is_some())?;
    args.trace.iter().filter(|to| *to != "-").try_for_each(|to| qkv_base::must_be_free(to.as_ref(), args.force))?;
    let model = input::open(&path, args.load)?;
    let chosen = translation(&model, &args.chain.options(), &args.beam.options(args.prefix.prefix()?))?;
    let generation = Generation { max_tokens: args.max_tokens, traced: args.trace.is_some(), ..chosen };
    let sources = args.sources(&generation, &texts)?;
    if args.trace.is_some() && sources.iter().filter(|s| !s.is_empty()).count() != 1 {
        return Err(Fail::usage("--trace shows the search of one source", "give one source"));
    }
    if !args.json {
        tell(&generation);
    }
    catch_interrupts();
    let began = Instant::now();
    let bar = progress(sources.len(), "translating");
    let (mut written, mut said) = (0, 0);
    for batch in sources.chunks(args.batch) {
        said += args.batch(&generation, batch, written)?;
        written += batch.len();
        bar.set_position(written as u64);
        if interrupted() {
            return Err(Fail::interrupted());
        }
    }
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    let speed = said as f64 / seconds.max(1e-9);
    talk(format_args!("{written} lines, {said} tokens in {seconds:.2} s ({speed:.1} tokens/s)"));
    Ok(())
}

impl Args {
    /// One batch; how many tokens were said.
    fn batch(&self, generation: &Generation, sources: &[Vec<u32>], first: usize) -> Result<usize, Fail> {
        let real: Vec<Vec<u32>> = sources.iter().filter(|s| !s.is_empty()).cloned().collect();
        let (answers, traces) = match real.is_empty() {
            true => (vec![], vec![]),
            false => generation.run(&real, first as u64, &mut |_, _, _| Ok(()), &interrupted)?,
        };
        if interrupted() {
            return Err(Fail::interrupted());
        }
        let mut answers = answers.into_iter();
        let mut said = 0;
        for (i, source) in sources.iter().enumerate() {
            if source.is_empty() {
                say(if self.json { r#"{"sequences":[]}"# } else { "" })?;
                continue;
            }
            let mut found = answers.next().unwrap_or_default();
            said += found.iter().map(|a| a.ids.len()).sum::<usize>();
            for answer in &mut found {
                answer.logprobs = None;
                if self.alignments {
                    answer.alignment = Some(generation.alignment(source, answer)?);
                }
            }
            if self.json {
                say_json(&Line { sequences: &found, source_tokens: source.len(), trace: traces.first() })?;
            } else {
                found.iter().try_for_each(|answer| say(self.line(answer, first + i, found.len())))?;
            }
        }
        if let (Some(to), false) = (&self.trace, self.json && self.trace.as_deref() == Some("-")) {
            write_trace(&traces, to)?;
        }
        Ok(said)
    }

    fn line(&self, answer: &Written, number: usize, of: usize) -> String {
        let plain = match &answer.text {
            Some(text) => text.replace('\n', " "),
            None => answer.ids.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        };
        if of == 1 && !self.score && !self.alignments {
            return plain;
        }
        let mut line = format!("{}\t{:.4}\t{plain}", number + 1, answer.score);
        if let Some(alignment) = &answer.alignment {
            let pairs: Vec<String> = alignment.hard.iter().map(|(s, t)| format!("{s}-{t}")).collect();
            line.push_str(&format!("\t{}", pairs.join(" ")));
        }
        line
    }
}
