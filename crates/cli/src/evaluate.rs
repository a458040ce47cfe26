//! `qkv evaluate`: the scores of a checkpoint on data, by what its head can answer.

use crate::fail::Fail;
use crate::say;
use crate::train::fields;
use qkv_base::{Error, Key};
use qkv_data::Corpus;
use qkv_metric::Resampling;
use qkv_train::score::{Judged, Metric, Scores};
use qkv_train::trial::Evaluation;
use qkv_train::{on_threads, run_dir};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv evaluate --data builtin:en-it                        the newest run, on unseen sentences
  qkv evaluate runs/sentiment --data reviews.csv --metric accuracy,f1,micro-f1
  qkv evaluate runs/gpt --data book.txt                    perplexity per token and per byte
  qkv evaluate runs/t5-tasks --data builtin:typos --prefix \"correct: \"
  qkv evaluate runs/entities --data test.conll --each said.jsonl --worst 10
  qkv evaluate A --data test.tsv --compare B               is the difference more than chance?")]
pub(crate) struct Args {
    /// A model directory or a run; the newest run if left out
    model: Option<PathBuf>,
    /// What it is judged on: a file, or builtin:NAME (its unseen test)
    #[arg(long, value_name = "FILE")]
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
    /// Write every example with what was said to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    each: Option<PathBuf>,
    /// How many of the wrong answers are shown
    #[arg(long, default_value_t = 3)]
    worst: usize,
    /// Another model on the same data, with a paired test
    #[arg(long, value_name = "MODEL")]
    compare: Option<PathBuf>,
    /// Threads; 0: one for each core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let wanted: Vec<Metric> = args.metric.iter().map(|m| Metric::parse(m)).collect::<Result<_, Error>>()?;
    let model = args.model.clone().map_or_else(run_dir::newest, Ok)?;
    on_threads(args.threads, || {
        let trial = Evaluation::load(&model, args.length, &args.prefix)?;
        let corpus = trial.corpus(&args.data, &fields(&args.column)?, args.examples)?;
        let mut scores = trial.scores(&*corpus)?;
        wanted.iter().try_for_each(|m| scores.get(*m).map(|_| ()))?;
        if let Some(path) = &args.each {
            let lines: Vec<String> = scores.judged.iter().filter_map(|j| serde_json::to_string(j).ok()).collect();
            qkv_weights::write_atomically(path, (lines.join("\n") + "\n").as_bytes())?;
        }
        if !wanted.is_empty() {
            scores.values.retain(|name, _| wanted.iter().any(|m| m.name() == name));
        }
        let n = scores.judged.len();
        let other = args.compare.as_ref().map(|path| other(path, args, &trial, &*corpus, n)).transpose()?;
        answer(args, &trial, &scores, other.as_ref())
    })?
}

/// A row of counts for each example, whose sum gives the main score.
fn rows(scores: &Scores) -> Vec<Vec<f64>> {
    scores.judged.iter().map(|j| j.counts.clone()).collect()
}

/// The other model on the same examples; it must have been asked the same.
fn other(path: &Path, args: &Args, trial: &Evaluation, corpus: &dyn Corpus, n: usize) -> Result<Scores, Fail> {
    let other = Evaluation::load(path, args.length, &args.prefix)?;
    let place = || format!("--compare {}", path.display());
    if other.goal != trial.goal {
        let what = format!("{}: it learnt {:?}, the first model {:?}", place(), other.goal, trial.goal);
        return Err(Fail::usage(what, "compare models of one task"));
    }
    let scores = other.scores(corpus)?;
    if scores.judged.len() != n {
        let what = format!("{}: it was judged by {} rows, the first model by {n}", place(), scores.judged.len());
        let hint = "language models are compared row by row: give both one tokenizer and one --length";
        return Err(Fail::usage(what, hint));
    }
    Ok(scores)
}

/// The examples that went worst, the worst first. What is right is not among them.
fn worst(scores: &Scores, n: usize) -> Vec<&Judged> {
    let mut all: Vec<&Judged> = scores.judged.iter().filter(|j| j.got != j.expected || j.got.is_empty()).collect();
    all.sort_by(|a, b| a.score.total_cmp(&b.score));
    all.truncate(n);
    all
}

fn answer(args: &Args, trial: &Evaluation, scores: &Scores, other: Option<&Scores>) -> Result<(), Fail> {
    let goal = trial.goal;
    let main = Metric::main(goal).name();
    let value = |sum: &[f64]| Metric::of_counts(goal, sum);
    let counts = rows(scores);
    let interval = match counts.is_empty() {
        true => None,
        false => Some(qkv_metric::interval(&counts, value, 1000, Key::new(12345, 0, 0))?),
    };
    let compared = match other {
        Some(other) if !counts.is_empty() => {
            let how = Resampling::Randomisation { trials: 10_000, seed: 12345 };
            Some(qkv_metric::compare(&counts, &rows(other), value, how)?)
        }
        _ => None,
    };
    if args.json {
        let line = serde_json::json!({
            "model": trial.path.display().to_string(), "data": args.data, "examples": scores.judged.len(),
            "left_out": scores.left_out,
            "scores": scores.values, "signature": scores.signature,
            "interval": interval.map(|i| serde_json::json!({"of": main, "low": i.low, "high": i.high})),
            "compare": compared, "other": other.map(|o| &o.values),
        });
        return say(line);
    }
    for (name, value) in &scores.values {
        say(format!("{name:<16} {value:>9.3}"))?;
    }
    for (why, n) in &scores.left_out {
        say(format!("left out: {n} examples ({why})"))?;
    }
    if let Some(i) = interval {
        say(format!("{main} {:.2}, 95 % between {:.2} and {:.2} (1000 draws)", i.score, i.low, i.high))?;
    }
    if let Some(signature) = &scores.signature {
        say(format!("BLEU {signature}"))?;
    }
    if let Some(table) = &scores.table {
        say(table.trim_end())?;
    }
    for j in worst(scores, args.worst) {
        match (j.got.as_str(), j.expected.as_str()) {
            ("", "") => say(format!("✗ {:.3}  {}", -j.score, j.source.replace('\n', " ")))?,
            (got, expected) => say(format!("✗ {}\n  → {got}\n  = {expected}", j.source))?,
        }
    }
    if let Some(c) = compared {
        let verdict = if c.p < 0.05 { "more than chance" } else { "may be chance" };
        say(format!("{main}: {:.2} here, {:.2} there, p = {:.4} by randomisation: {verdict}", c.base, c.other, c.p))?;
    }
    Ok(())
}
