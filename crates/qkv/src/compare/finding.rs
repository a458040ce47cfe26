//! The one sentence: which is the best, by how much, and whether that is more than chance. It is made of the numbers alone.

use super::Finished;
use crate::Result;
use qkv_metric::{Resampling, compare};
use qkv_tasks::{Metric, sheet};

/// Below this the difference is called more than chance.
const LEVEL: f64 = 0.05;

/// The mean of a score over the seeds.
pub(super) fn mean(runs: &[Finished], metric: Metric) -> f64 {
    let scores: Vec<f64> = runs.iter().filter_map(|run| run.score("test", metric)).collect();
    scores.iter().sum::<f64>() / scores.len() as f64
}

/// Lowest and highest score over the seeds.
pub(super) fn range(runs: &[Finished], metric: Metric) -> (f64, f64) {
    let scores = || runs.iter().filter_map(|run| run.score("test", metric));
    (scores().fold(f64::INFINITY, f64::min), scores().fold(f64::NEG_INFINITY, f64::max))
}

/// Which is the best, and whether it is more than chance.
pub(super) fn sentence(all: &[Vec<Finished>], metric: Metric) -> Result<String> {
    let mut order: Vec<&Vec<Finished>> = all.iter().filter(|runs| mean(runs, metric).is_finite()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (mean(a, metric), mean(b, metric));
        if metric.is_cost() { a.total_cmp(&b) } else { b.total_cmp(&a) }
    });
    let label = |runs: &[Finished]| runs.first().map(|run| run.label.clone()).unwrap_or_default();
    let told = |runs: &[Finished]| format!("{} {:.3}", metric.name(), mean(runs, metric));
    Ok(match order[..] {
        [] => "No run has a score.".into(),
        [only] => format!("{} has {}.", label(only), told(only)),
        [first, second, ..] if mean(first, metric) == mean(second, metric) => {
            format!("{} and {} are equal: {}.", label(first), label(second), told(first))
        }
        [first, second, ..] => {
            let chance = chance(first, second, metric)?;
            let last = order.last().filter(|_| order.len() > 2);
            let last = last.map_or(String::new(), |l| format!(", and the last, {}, with {}", label(l), told(l)));
            format!(
                "{} is best with {}, before {} with {}{last}; {chance}.",
                label(first),
                told(first),
                label(second),
                told(second)
            )
        }
    })
}

/// Whether the first is ahead of the second by more than chance: by their seeds, or by their test examples.
fn chance(first: &[Finished], second: &[Finished], metric: Metric) -> Result<String> {
    if first.len() > 1 {
        let (a, b) = (range(first, metric), range(second, metric));
        let ahead = if metric.is_cost() { a.1 < b.0 } else { a.0 > b.1 };
        return Ok(match ahead {
            true => format!("every one of its {} seeds is ahead of every one of the other's", first.len()),
            false => "their seeds overlap, so that may be chance".into(),
        });
    }
    let ([a], [b]) = (first, second) else { return Ok("nothing was tested".into()) };
    let Some((rows, value)) = rows(metric, a, b) else {
        return Ok("one seed each, so whether that is chance is not known".into());
    };
    let how = Resampling::Randomisation { trials: 2000, seed: 12345 };
    let p = compare(&rows[0], &rows[1], value, how)?.p;
    let n = a.examples.len();
    Ok(match p < LEVEL {
        true => format!("on these {n} test examples that is more than chance (p = {p:.4}), though with one seed each"),
        false => format!("on these {n} test examples that may be chance (p = {p:.2})"),
    })
}

type Value = Box<dyn Fn(&[f64]) -> f64>;

/// What each test example adds to the score of either run, where the score is one that can be tested.
fn rows(metric: Metric, a: &Finished, b: &Finished) -> Option<([Vec<Vec<f64>>; 2], Value)> {
    if a.examples.is_empty() || a.examples.len() != b.examples.len() {
        return None;
    }
    if metric == Metric::Exact {
        let rows = |run: &Finished| run.examples.iter().map(|e| vec![f64::from(u8::from(e.exact)), 1.0]).collect();
        return Some(([rows(a), rows(b)], Box::new(|sum| sum[0] / sum[1])));
    }
    let task = qkv_runs::recipe::Recipe::read("recipe", &qkv_runs::session::recipe_of(&a.dir).ok()?).ok()?;
    let task = task.data.objective;
    let whole = a.examples.iter().chain(&b.examples).all(|e| !e.counts.is_empty());
    let rows = |run: &Finished| run.examples.iter().map(|e| e.counts.clone()).collect();
    (whole && sheet::of(task).main == metric)
        .then(|| ([rows(a), rows(b)], Box::new(move |sum: &[f64]| Metric::of_counts(task, sum)) as Value))
}
