//! The tables and curves of a comparison.

use super::finding::{mean, range};
use super::{Entry, Finished};
use crate::Result;
use qkv_base::Error;
use qkv_insight::page::{Cell, Table};
use qkv_metric::human_bytes;
use qkv_report::{Chart, Sample, Series};
use qkv_runs::recipe as text;
use qkv_tasks::Metric;

/// The metric that all entries are judged by; they must be judged alike.
pub(super) fn metric_of(entries: &[Entry]) -> Result<Metric> {
    let mut found: Option<(Metric, &str)> = None;
    for entry in entries {
        let recipe = text::Recipe::read(&entry.label, entry.recipe.text())?;
        let metric = Metric::parse(&recipe.eval.metric)?;
        match found {
            Some((first, label)) if first != metric => {
                let what = format!("{label} is judged by {}, {} by {}", first.name(), entry.label, metric.name());
                return Err(Error::new("eval.metric", what, "add --set eval.metric=NAME"));
            }
            Some(_) => {}
            None => found = Some((metric, &entry.label)),
        }
    }
    match found {
        Some((metric, _)) => Ok(metric),
        None => Err(Error::new("compare", "there is nothing to compare", "name a recipe, and --over a key")),
    }
}

fn label(runs: &[Finished]) -> String {
    runs.first().map(|run| run.label.clone()).unwrap_or_default()
}

/// Score, loss, size and cost of every entry.
pub(super) fn scores(all: &[Vec<Finished>], metric: Metric) -> Table {
    let seeds = all.iter().map(Vec::len).max().unwrap_or(1);
    let mut columns = vec![metric.name().to_string()];
    if seeds > 1 {
        columns.push(format!("over {seeds} seeds"));
    }
    let loss = metric != Metric::Loss && all.iter().flatten().all(|run| run.score("test", Metric::Loss).is_some());
    columns.extend(loss.then(|| "loss".to_string()));
    columns.extend(["parameters", "steps", "seconds", "6·N·tokens", "memory"].map(String::from));
    let row = |runs: &Vec<Finished>| {
        let mut cells = vec![Cell::number(mean(runs, metric), 3)];
        if seeds > 1 {
            let (low, high) = range(runs, metric);
            cells.push(Cell::Text(format!("{low:.3} to {high:.3}")));
        }
        cells.extend(loss.then(|| Cell::number(mean(runs, Metric::Loss), 3)));
        let first = runs.first().cloned().unwrap_or_default();
        let seconds = runs.iter().map(|run| run.seconds).sum::<f64>() / runs.len() as f64;
        cells.push(Cell::Count(first.parameters));
        cells.push(Cell::Count(first.steps));
        cells.push(Cell::number(seconds, 1));
        cells.push(Cell::Text(format!("{:.1e}", 6.0 * first.parameters as f64 * tokens(&first))));
        cells.push(Cell::Text(human_bytes(first.memory)));
        (label(runs), cells)
    };
    Table::of("Side by side", "", &columns, all.iter().map(row).collect())
}

/// Tokens that a run has read.
fn tokens(run: &Finished) -> f64 {
    run.losses("tokens").ok().and_then(|points| points.last().map(|(tokens, _)| *tokens)).unwrap_or(f64::NAN)
}

/// The other unseen sides, where a corpus has them: combinations or lengths that training never shows.
pub(super) fn sides(all: &[Vec<Finished>], metric: Metric) -> Option<Table> {
    let names: Vec<String> = all.first()?.first()?.scores.keys().cloned().collect();
    if names.len() < 2 {
        return None;
    }
    let row = |runs: &Vec<Finished>| {
        let cell = |name: &String| {
            let scores: Vec<f64> = runs.iter().filter_map(|run| run.score(name, metric)).collect();
            Cell::number(scores.iter().sum::<f64>() / scores.len() as f64, 2)
        };
        (label(runs), names.iter().map(cell).collect())
    };
    let title = format!("{} on every unseen side", metric.name());
    Some(Table::of(&title, "", &names, all.iter().map(row).collect()))
}

/// Up to four groups of test examples by the length of their source, each with so many of them.
fn groups(all: &[Vec<Finished>]) -> Vec<(usize, usize)> {
    let mut words: Vec<usize> = all.iter().flatten().flat_map(|run| run.examples.iter().map(|e| e.words)).collect();
    words.sort_unstable();
    let (Some(least), Some(most)) = (words.first().copied(), words.last().copied()) else { return vec![] };
    let mut ends: Vec<usize> = (1..4).map(|i| words[words.len() * i / 4]).filter(|end| *end < most).collect();
    ends.push(most);
    ends.dedup();
    let mut from = least;
    ends.into_iter().map(|to| (std::mem::replace(&mut from, to + 1), to)).collect()
}

/// How the score goes with the length of what was given.
pub(super) fn by_length(all: &[Vec<Finished>], metric: Metric) -> Option<(Table, Chart)> {
    let groups = groups(all);
    let sources = all.iter().flatten().all(|run| run.samples.iter().any(|[_, right, _]| !right.is_empty()));
    if groups.len() < 2 || metric != Metric::Exact && metric != Metric::Bleu || !sources {
        return None;
    }
    let value = |runs: &[Finished], (from, to): (usize, usize)| {
        let inside = || runs.iter().flat_map(|run| &run.examples).filter(|e| (from..=to).contains(&e.words));
        if metric == Metric::Exact {
            return 100.0 * inside().filter(|e| e.exact).count() as f64 / inside().count() as f64;
        }
        let mut sum: Vec<f64> = vec![];
        for example in inside() {
            sum.resize(sum.len().max(example.counts.len()), 0.0);
            sum.iter_mut().zip(&example.counts).for_each(|(s, c)| *s += c);
        }
        Metric::of_counts(qkv_base::Task::Translate, &sum)
    };
    let names: Vec<String> = groups.iter().map(|(from, to)| format!("{from} to {to} words")).collect();
    let row = |runs: &Vec<Finished>| {
        (label(runs), groups.iter().map(|group| Cell::number(value(runs, *group), 1)).collect::<Vec<Cell>>())
    };
    let title = format!("{} by the length of the source", metric.name());
    let table = Table::of(&title, "", &names, all.iter().map(row).collect());
    let points = |runs: &Vec<Finished>| {
        groups.iter().map(|group| ((group.0 + group.1) as f64 / 2.0, value(runs, *group))).collect()
    };
    let series = all.iter().map(|runs| Series { name: label(runs), points: points(runs) }).collect();
    Some((table, Chart { title, series, across: "words".into(), ..Chart::default() }))
}

/// The training loss over steps, seconds and arithmetic.
pub(super) fn curves(all: &[Vec<Finished>]) -> Result<Vec<Chart>> {
    let mut charts = vec![];
    for (across, key) in [("step", "step"), ("seconds", "seconds"), ("6·N·tokens", "tokens")] {
        let mut series = vec![];
        for runs in all {
            let Some(run) = runs.first() else { continue };
            let scale = if key == "tokens" { 6.0 * run.parameters as f64 } else { 1.0 };
            let points = run.losses(key)?.into_iter().map(|(x, y)| (x * scale, y)).collect();
            series.push(Series { name: run.label.clone(), points });
        }
        let title = format!("Training loss over {across}{}", if across == "step" { "s" } else { "" });
        charts.push(Chart { title, series, across: across.into(), ..Chart::default() });
    }
    Ok(charts)
}

/// What each says to the same.
pub(super) fn samples(all: &[Vec<Finished>]) -> Vec<Sample> {
    let firsts: Vec<&Finished> = all.iter().filter_map(|runs| runs.first()).collect();
    let most = firsts.iter().map(|run| run.samples.len()).min().unwrap_or(0);
    let one = |i: usize| {
        let source = firsts.first().and_then(|run| run.samples.get(i)).cloned().unwrap_or_default();
        let right = Some(source[1].as_str()).filter(|right| !right.is_empty());
        let sign = |said: &str| right.map_or("", |right| if right == said { "✓ " } else { "✗ " });
        let said = firsts.iter().map(|run| format!("{}{}: {}", sign(&run.samples[i][2]), run.label, run.samples[i][2]));
        let lines: Vec<String> = right.map(|right| format!("expected: {right}")).into_iter().chain(said).collect();
        // Several answers are neither right nor wrong as one: each has its own sign.
        Sample { source: source[0].clone(), expected: None, got: lines.join("\n") }
    };
    (0..most).map(one).collect()
}
