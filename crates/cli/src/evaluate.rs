//! `qkv evaluate`: the scores of a checkpoint on data, by what its head can answer.

use crate::fail::Fail;
use crate::say;
use qkv_base::{Error, Key};
use qkv_metric::{Additive, Bleu, Resampling};
use qkv_train::recipe::Goal;
use qkv_train::score::{Metric, Scores};
use qkv_train::trial::Trial;
use qkv_train::{home, on_threads};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv evaluate --data builtin:en-it                        the newest run, on unseen sentences
  qkv evaluate runs/sentiment --data reviews.csv --metric accuracy,f1
  qkv evaluate A --data test.tsv --compare B               is the difference more than chance?")]
pub(crate) struct Args {
    /// A model directory or a run; the newest run if left out
    model: Option<PathBuf>,
    /// What it is judged on: a file, or builtin:NAME (its unseen test)
    #[arg(long, value_name = "FILE")]
    data: String,
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
    let model = args.model.clone().map_or_else(home::newest, Ok)?;
    on_threads(args.threads, || {
        let trial = Trial::load(&model, args.length, &args.prefix)?;
        let corpus = trial.corpus(&args.data, args.examples)?;
        let mut scores = trial.scores(&*corpus)?;
        wanted.iter().try_for_each(|m| scores.get(*m).map(|_| ()))?;
        if let Some(path) = &args.each {
            let lines: Vec<String> = scores.judged.iter().filter_map(|j| serde_json::to_string(j).ok()).collect();
            qkv_weights::write_atomically(path, (lines.join("\n") + "\n").as_bytes())?;
        }
        if !wanted.is_empty() {
            scores.values.retain(|name, _| wanted.iter().any(|m| m.name() == name));
        }
        let other = args.compare.as_ref().map(|path| Trial::load(path, args.length, &args.prefix)).transpose()?;
        let other = other.map(|o| o.scores(&*corpus)).transpose()?;
        answer(args, &trial, &scores, other.as_ref())
    })?
}

/// A row of counts for each example, whose sum gives the main score.
fn rows(goal: Goal, scores: &Scores) -> Vec<Vec<f64>> {
    let row = |j: &qkv_train::score::Judged| match goal {
        Goal::Translate => Bleu::default().row(&j.got, &[&j.expected]),
        _ => vec![f64::from(u8::from(j.got == j.expected)), 1.0],
    };
    scores.judged.iter().map(row).collect()
}

fn value(goal: Goal, sum: &[f64]) -> f64 {
    match (goal, sum) {
        (Goal::Translate, sum) => Bleu::default().value(sum),
        (_, [right, all, ..]) => 100.0 * right / all,
        _ => f64::NAN,
    }
}

fn answer(args: &Args, trial: &Trial, scores: &Scores, other: Option<&Scores>) -> Result<(), Fail> {
    let goal = trial.goal;
    let main = if goal == Goal::Translate { "bleu" } else { "right" };
    let counts = rows(goal, scores);
    let interval = match counts.is_empty() {
        true => None,
        false => Some(qkv_metric::interval(&counts, |s| value(goal, s), 1000, Key::new(12345, 0, 0))?),
    };
    let compared = match other {
        Some(other) if !counts.is_empty() => {
            let how = Resampling::Randomisation { trials: 10_000, seed: 12345 };
            Some(qkv_metric::compare(&counts, &rows(goal, other), |s| value(goal, s), how)?)
        }
        _ => None,
    };
    if args.json {
        let line = serde_json::json!({
            "model": trial.path.display().to_string(), "data": args.data, "examples": scores.judged.len(),
            "scores": scores.values, "signature": scores.signature,
            "interval": interval.map(|i| serde_json::json!({"of": main, "low": i.low, "high": i.high})),
            "compare": compared, "other": other.map(|o| &o.values),
        });
        return say(line);
    }
    for (name, value) in &scores.values {
        say(format!("{name:<12} {value:>9.3}"))?;
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
    for j in scores.judged.iter().filter(|j| j.got != j.expected).take(args.worst) {
        say(format!("✗ {}\n  → {}\n  = {}", j.source, j.got, j.expected))?;
    }
    if let Some(c) = compared {
        let verdict = if c.p < 0.05 { "more than chance" } else { "may be chance" };
        say(format!("{main}: {:.2} here, {:.2} there, p = {:.4} by randomisation: {verdict}", c.base, c.other, c.p))?;
    }
    Ok(())
}
