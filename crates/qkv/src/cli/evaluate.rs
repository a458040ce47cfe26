//! `qkv evaluate`: the scores of a checkpoint on data, by what its head can answer.

use super::fail::Fail;
use super::flags::{BeamArgs, ChainArgs};
use super::input::{columns, model_or_newest};
use super::terminal::say;
use qkv::{Evaluate, Evaluated, Judged, LengthGroup, Metric, Scores, Writing, evaluate};
use qkv_base::must_be_free;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv evaluate --data builtin:en-it                        the newest run, on unseen sentences
  qkv evaluate runs/sentiment --data reviews.csv --metric accuracy,f1,micro-f1
  qkv evaluate runs/gpt --data book.txt                    perplexity per token and per byte
  qkv evaluate runs/t5-tasks --data builtin:typos --prefix \"correct: \"
  qkv evaluate runs/entities --data test.conll --each said.jsonl --worst 10
  qkv evaluate runs/reverse --data builtin:reverse --by length
  qkv evaluate A --data test.tsv --compare B               is the difference more than chance?
  qkv evaluate A --data test.tsv --weights int8 --compare A    what eight bits cost")]
pub(crate) struct Args {
    /// A model directory or a run; the newest run if left out
    model: Option<PathBuf>,
    /// What it is judged on: a file, a pattern of files, or builtin:NAME (its unseen test)
    #[arg(long, visible_alias = "test", value_name = "FILE")]
    data: String,
    /// The column of a table that holds a field, where it has another name: label=stars
    #[arg(long, value_name = "FIELD=NAME")]
    column: Vec<String>,
    /// Only these scores
    #[arg(long, value_delimiter = ',')]
    metric: Vec<String>,
    /// Examples at most; 0: all
    #[arg(long, default_value_t = 0)]
    examples: usize,
    /// Tokens of a row at most; 0: as the network allows
    #[arg(long, default_value_t = 0)]
    length: usize,
    /// What stands before every source
    #[arg(long, default_value = "")]
    prefix: String,
    /// Write every example with what was said to this file, one JSON object a line: source, expected, got, score (more is better:
    /// the logarithm of the right class's probability, the share of right tags, F1 of an answer, chrF of a text), and the
    /// probabilities of all classes
    #[arg(long, value_name = "FILE")]
    each: Option<PathBuf>,
    /// Write over the file of --each
    #[arg(long, requires = "each")]
    force: bool,
    /// How many of the wrong answers are shown
    #[arg(long, default_value_t = 3)]
    worst: usize,
    /// The main score by this: length, the words of what was given
    #[arg(long, value_name = "WHAT", value_parser = ["length"])]
    by: Option<String>,
    /// How many bits the matrices take: stored (as the file has them), f32, bf16, f16, int8 or int4
    #[arg(long, value_name = "PRECISION", default_value_t, hide_default_value = true)]
    weights: qkv_model::Precision,
    /// Another model on the same data, with a paired test; its matrices are as its file has them
    #[arg(long, value_name = "MODEL")]
    compare: Option<PathBuf>,
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// One line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    chain: ChainArgs,
    #[command(flatten)]
    beam: BeamArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    args.each.iter().try_for_each(|path| must_be_free(path, args.force))?;
    let how = Evaluate {
        metrics: args.metric.iter().map(|m| Metric::parse(m)).collect::<Result<_, _>>()?,
        columns: columns(&args.column)?,
        examples: args.examples,
        length: args.length,
        prefix: args.prefix.clone(),
        writing: Writing { chain: args.chain.options(), beam: args.beam.options(None) },
        weights: args.weights,
        compare: args.compare.clone(),
        threads: args.threads,
    };
    let done = evaluate(model_or_newest(args.model.as_deref())?, &args.data, &how)?;
    if let Some(path) = &args.each {
        let lines: Vec<String> = done.scores.judged.iter().filter_map(|j| serde_json::to_string(j).ok()).collect();
        qkv_weights::write_atomically(path, (lines.join("\n") + "\n").as_bytes())?;
    }
    let groups = if args.by.is_some() { done.by_length(GROUPS) } else { vec![] };
    if args.json { as_json(&done, &args.data, &groups) } else { as_text(&done, args.worst, &groups) }
}

/// Groups of --by.
const GROUPS: usize = 5;

/// The examples that went worst, the worst first. What is right is not among them.
fn worst(scores: &Scores, n: usize) -> Vec<&Judged> {
    let mut all: Vec<&Judged> = scores.judged.iter().filter(|j| j.got != j.expected || j.got.is_empty()).collect();
    all.sort_by(|a, b| a.score.total_cmp(&b.score));
    all.truncate(n);
    all
}

fn as_json(done: &Evaluated, data: &str, groups: &[LengthGroup]) -> Result<(), Fail> {
    let interval = done.interval.as_ref().map(|i| serde_json::json!({"of": done.main, "low": i.low, "high": i.high}));
    say(serde_json::json!({
        "model": done.model.display().to_string(), "data": data, "examples": done.scores.judged.len(),
        "left_out": done.scores.left_out, "scores": done.scores.values, "signature": done.scores.signature,
        "interval": interval, "compare": done.compared, "other": done.other.as_ref().map(|o| &o.values), "by_length": groups,
    }))
}

fn as_text(done: &Evaluated, most: usize, groups: &[LengthGroup]) -> Result<(), Fail> {
    let (main, scores) = (done.main, &done.scores);
    for (name, value) in &scores.values {
        say(format!("{name:<16} {value:>9.3}"))?;
    }
    for (why, n) in &scores.left_out {
        say(format!("left out: {n} examples ({why})"))?;
    }
    if let Some(i) = &done.interval {
        say(format!("{main} {:.2}, 95 % between {:.2} and {:.2} (1000 draws)", i.score, i.low, i.high))?;
    }
    for LengthGroup { from, to, examples, score, exact } in groups {
        let exact = exact.map_or(String::new(), |share| format!(", {share:.1} % exact"));
        say(format!("{from} to {to} words: {main} {score:.2}{exact} ({examples} examples)"))?;
    }
    if let Some(signature) = &scores.signature {
        say(format!("BLEU {signature}"))?;
    }
    if let Some(table) = &scores.table {
        say(table.trim_end())?;
    }
    for j in worst(scores, most) {
        match (j.got.as_str(), j.expected.as_str()) {
            ("", "") => say(format!("✗ {:.3}  {}", -j.score, j.source.replace('\n', " ")))?,
            (got, expected) => say(format!("✗ {}\n  → {got}\n  = {expected}", j.source))?,
        }
    }
    if let Some(c) = &done.compared {
        let verdict = if c.p < 0.05 { "more than chance" } else { "may be chance" };
        say(format!("{main}: {:.2} here, {:.2} there, p = {:.4} by randomisation: {verdict}", c.base, c.other, c.p))?;
    }
    Ok(())
}
