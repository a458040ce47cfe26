//! `qkv translate`: reads a text and writes it in another way, line by line.
//!
//! Lines come from the arguments, from a file, or from stdin, and answers keep their order and their blank lines.

use crate::decoding::{BeamArgs, ChainArgs, Speaker, catch_interrupts, ids, interrupted, lines};
use crate::fail::Fail;
use crate::generate::tell;
use crate::model::{self, progress};
use crate::say;
use crate::speak::{Alignment, Answer, Order, Search, Traced, write_trace};
use qkv_decode::{Pick, align, hard};
use qkv_model::{CausalLm, Seq2Seq};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  qkv translate \"Good morning\"                    by the newest run\n  qkv translate runs/de-en \"Guten Morgen\"\n  qkv translate MODEL --file in.txt --beam 5 --length-penalty 0.6 > out.txt\n  qkv translate MODEL --n-best 3 --alignments < in.txt\n  qkv translate MODEL --ids 5,6,7,2 --beam 4 --json\n\nPlain output: one line for each line read; with --n-best, --score or --alignments, tab-separated: number of the line, score,\ntext, and pairs `source-target` counted from 0."
)]
pub(crate) struct Args {
    /// A model or a run, then the texts; without a model the newest run, without a text lines from stdin
    #[arg(value_name = "MODEL] [TEXT")]
    words: Vec<String>,
    /// A source in ids: 5,6,7; may be repeated
    #[arg(long, value_name = "IDS", conflicts_with = "file")]
    ids: Vec<String>,
    /// Lines of a file; - is stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many lines are translated together
    #[arg(long, value_name = "N", default_value_t = 16)]
    batch: usize,
    /// The most tokens to say
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Too long a source: refuse it, or drop its beginning
    #[arg(long, value_name = "SIDE", value_parser = ["left"])]
    truncate: Option<String>,
    /// Tell the score of each translation
    #[arg(long)]
    score: bool,
    /// Tell which source tokens each target token looked at
    #[arg(long)]
    alignments: bool,
    /// Show the tree of the search: in the terminal, or into a .html or .json file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    trace: Option<String>,
    /// One line of JSON for each source
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
    source_tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a Traced>,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    for (name, value) in [("batch", args.batch), ("max-tokens", args.max_tokens.unwrap_or(1))] {
        if value == 0 {
            return Err(Fail::usage(format!("--{name} must not be 0"), "use 1 or more"));
        }
    }
    let (path, texts) = model::resolve(&args.words)?;
    model::instead(&texts, "--ids", !args.ids.is_empty())?;
    model::instead(&texts, "--file", args.file.is_some())?;
    let speaker = Speaker::load(&path)?;
    if !speaker.is_pair() {
        let what = format!("{}: this model does not read a source", speaker.path.display());
        return Err(Fail::usage(
            what,
            "use `qkv generate`, or choose a model with an encoder and a decoder (t5, bart, marian)",
        ));
    }
    let order = args.order(&speaker)?;
    let sources = args.sources(&speaker, &texts)?;
    if args.trace.is_some() && sources.iter().flatten().count() != 1 {
        return Err(Fail::usage("--trace shows the search of one source", "give one source"));
    }
    if !args.json {
        tell(&order, &speaker);
    }
    catch_interrupts();
    let began = Instant::now();
    let bar = progress(sources.len(), "translating");
    let (mut written, mut said) = (0, 0);
    for batch in sources.chunks(args.batch) {
        said += args.batch(&order, batch, written)?;
        written += batch.len();
        bar.set_position(written as u64);
        if interrupted() {
            return Err(Fail::interrupted());
        }
    }
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    let speed = said as f64 / seconds.max(1e-9);
    eprintln!("{written} lines, {said} tokens in {seconds:.2} s ({speed:.1} tokens/s)");
    Ok(())
}

impl Args {
    fn order<'a>(&self, speaker: &'a Speaker) -> Result<Order<'a>, Fail> {
        let chain = self.chain.chain(&speaker.defaults)?;
        chain.check(CausalLm::vocabulary(&speaker.net.model))?;
        let drawn = chain.pick != Pick::Greedy;
        let search = match self.beam.search(speaker, if drawn { 1 } else { 4 })? {
            Some(_) if drawn => {
                let what = format!("a beam compares, but `{}` draws at random", chain.pick);
                return Err(Fail::usage(what, "leave out --beam, or let the chain end in `greedy`"));
            }
            Some(beam) => Search::Beam(beam),
            None => Search::Sample { n: 1 },
        };
        Ok(Order {
            speaker,
            chain,
            search,
            max_tokens: self.max_tokens,
            otherwise: 256,
            seed: 0,
            stops: vec![],
            traced: self.trace.is_some(),
        })
    }

    /// The ids of every source; none for a blank line.
    fn sources(&self, speaker: &Speaker, texts: &[String]) -> Result<Vec<Option<Vec<u32>>>, Fail> {
        let texts = match (&self.file, texts) {
            _ if !self.ids.is_empty() => vec![],
            (Some(file), _) => lines(file)?,
            (None, []) => lines(Path::new("-"))?,
            (None, texts) => texts.to_vec(),
        };
        let encode = |text: &String| match text.trim() {
            "" => Ok(None),
            _ => speaker.encode(text).map(Some),
        };
        let mut sources: Vec<Option<Vec<u32>>> = texts.iter().map(encode).collect::<Result<_, _>>()?;
        for list in &self.ids {
            sources.push(Some(ids(list)?).filter(|ids| !ids.is_empty()));
        }
        if sources.iter().all(Option::is_none) {
            return Err(Fail::usage(
                "there is nothing to translate",
                "give a text, --ids 5,6,7, --file in.txt, or lines on stdin",
            ));
        }
        let (vocabulary, context) = (CausalLm::vocabulary(&speaker.net.model), Seq2Seq::context(&speaker.net.model));
        for (i, source) in sources.iter_mut().enumerate() {
            let Some(source) = source else { continue };
            if let Some(id) = source.iter().find(|id| **id as usize >= vocabulary) {
                let what = format!("line {}: id {id} is outside the vocabulary of {vocabulary}", i + 1);
                return Err(Fail::usage(what, format!("ids go from 0 to {}", vocabulary.saturating_sub(1))));
            }
            let Some(context) = context.filter(|context| source.len() > *context) else { continue };
            if self.truncate.is_none() {
                let what = format!("line {} is {} tokens long, but the model reads {context}", i + 1, source.len());
                return Err(Fail::usage(what, "split it, or let --truncate left drop its beginning"));
            }
            eprintln!(
                "note: line {}: the first {} of {} tokens are dropped",
                i + 1,
                source.len() - context,
                source.len()
            );
            source.drain(..source.len() - context);
        }
        Ok(sources)
    }

    /// One batch; how many tokens were said.
    fn batch(&self, order: &Order, sources: &[Option<Vec<u32>>], first: usize) -> Result<usize, Fail> {
        let real: Vec<Vec<u32>> = sources.iter().flatten().cloned().collect();
        let (answers, traces) = match real.is_empty() {
            true => (vec![], vec![]),
            false => order.answer(&real, first as u64, &mut |_, _, _| Ok(()))?,
        };
        if interrupted() {
            return Err(Fail::interrupted());
        }
        let mut answers = answers.into_iter();
        let mut said = 0;
        for (i, source) in sources.iter().enumerate() {
            let Some(source) = source else {
                say(if self.json { r#"{"sequences":[]}"# } else { "" })?;
                continue;
            };
            let mut found = answers.next().unwrap_or_default();
            said += found.iter().map(|a| a.ids.len()).sum::<usize>();
            for answer in &mut found {
                answer.logprobs = None;
                if self.alignments {
                    let soft = align(&order.speaker.net.model, source, &order.speaker.start()?, &answer.ids)?;
                    answer.alignment = Some(Alignment { hard: hard(&soft), soft });
                }
            }
            if self.json {
                let line = Line { sequences: &found, source_tokens: source.len(), trace: traces.first() };
                say(serde_json::to_string(&line).map_err(|e| Fail::failed("json", e, ""))?)?;
            } else {
                found.iter().try_for_each(|answer| say(self.line(answer, first + i, found.len())))?;
            }
        }
        if let (Some(to), false) = (&self.trace, self.json && self.trace.as_deref() == Some("-")) {
            write_trace(&traces, to)?;
        }
        Ok(said)
    }

    fn line(&self, answer: &Answer, number: usize, of: usize) -> String {
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
