//! What looking and judging take, by a part of it: some batches of the validation side, some examples of each unseen side.
//!
//! A network that has not learnt yet does not know when to stop writing. It is asked for as many tokens as the right answers
//! have, which is what a network that has learnt writes.

use crate::hooks::{chosen_by, judge, samples_of, text_model_within};
use crate::plan::Plan;
use qkv_base::{Kind, Result, Task};
use qkv_data::objective::{Made, Prepared};
use qkv_data::{Corpus, Example, Key, Subset};
use qkv_model::Transformer;
use qkv_tasks::Writing;
use qkv_train::step::mean_loss;
use std::sync::Arc;
use std::time::Instant;

/// Batches of the validation side that are looked at.
const BATCHES: u64 = 4;
/// Examples that are judged: two batches of them, or four of beams.
const EXAMPLES: usize = 64;
/// Bytes of text that are judged, where examples are documents.
const TEXT: usize = 100_000;
/// Rows that the baseline is measured by.
const ROWS: usize = 2000;

/// Seconds of a look at the validation side: the loss, the score where one is taken, the samples.
pub(super) fn look(plan: &Plan, network: &Transformer) -> Result<f64> {
    let (all, asked) = (plan.valid.batches(0), plan.recipe.eval.batches);
    let n = if asked == 0 { all } else { asked.min(all) };
    let few = n.min(BATCHES);
    let begun = Instant::now();
    mean_loss(network, (0..few).map(|i| plan.valid.batch(i * n / few.max(1))))?;
    let loss = begun.elapsed().as_secs_f64() * n as f64 / few.max(1) as f64;
    let score = match chosen_by(plan)? {
        Some(_) => judged(plan, network, &plan.splits.valid, &Writing::greedy())?,
        None => 0.0,
    };
    Ok(loss + score + shown(plan, network)?)
}

/// Seconds of showing some examples.
fn shown(plan: &Plan, network: &Transformer) -> Result<f64> {
    let length = written(plan, &plan.splits.valid, &spread(plan.splits.valid.len(), plan.recipe.eval.samples))?;
    let model = text_model_within(plan, network, length)?;
    let begun = Instant::now();
    samples_of(plan, &model)?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Seconds of everything behind the last step: every unseen side, what is shown of them, and the baseline.
pub(super) fn end(plan: &Plan, network: &Transformer) -> Result<f64> {
    let parts = plan.splits.parts.iter().map(|(_, part)| part);
    let mut seconds = 0.0;
    for side in [&plan.splits.test].into_iter().chain(&plan.splits.compositional).chain(parts) {
        seconds += judged(plan, network, side, &Writing::default())?;
    }
    // A language model goes on with twelve texts, one after the other.
    let shows = plan.recipe.eval.samples.min(plan.splits.valid.len());
    if plan.recipe.data.objective == Task::NextToken && shows > 0 {
        seconds += shown(plan, network)? * 12.0 / shows as f64;
    }
    // The mean of the last checkpoints is looked at once more.
    if plan.recipe.checkpoint.average_last > 0 {
        seconds += look(plan, network)?;
    }
    Ok(seconds + baseline(plan)?)
}

/// Seconds of judging a side, by a part of it.
fn judged(plan: &Plan, network: &Transformer, side: &Arc<dyn Corpus>, writing: &Writing) -> Result<f64> {
    if side.is_empty() {
        return Ok(0.0);
    }
    let chosen = spread(side.len(), EXAMPLES);
    let (part, times): (Arc<dyn Corpus>, f64) = match plan.recipe.data.objective {
        Task::NextToken => documents(side)?,
        _ => (Arc::new(Subset::new(side.clone(), chosen.clone())), side.len() as f64 / chosen.len() as f64),
    };
    let model = text_model_within(plan, network, written(plan, side, &chosen)?)?;
    let begun = Instant::now();
    match judge(plan, &model, writing).scores(&*part) {
        // A network that says no numbers, or a part without a target: nothing can be said, and the run will say why.
        Err(error) if error.kind == Kind::Failed || error.place == "data" => Ok(0.0),
        done => done.map(|_| begun.elapsed().as_secs_f64() * times),
    }
}

/// Up to `n` numbers below `of`, evenly.
fn spread(of: usize, n: usize) -> Vec<u32> {
    let n = n.min(of);
    (0..n).map(|i| (i * of / n) as u32).collect()
}

/// Some text of a side of documents, and how many times it is in the whole.
fn documents(side: &Arc<dyn Corpus>) -> Result<(Arc<dyn Corpus>, f64)> {
    let (mut part, mut taken, mut all) = (vec![], 0, 0);
    for example in side.examples() {
        let example = example?;
        let text = example.text();
        all += text.len();
        if taken < TEXT {
            let end = (0..=(TEXT - taken).min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            taken += end;
            part.push(Example::Text(text[..end].to_string()));
        }
    }
    Ok((Arc::new(part), all as f64 / taken.max(1) as f64))
}

/// How many tokens right answers have on average, where answers are written.
fn written(plan: &Plan, side: &Arc<dyn Corpus>, chosen: &[u32]) -> Result<Option<usize>> {
    if !matches!(plan.recipe.data.objective, Task::Translate | Task::SpanCorruption | Task::Denoise) {
        return Ok(None);
    }
    let (mut tokens, mut n) = (0, 0);
    for i in chosen {
        let Made::Items { items, .. } = plan.objective.prepare(&side.get(*i as usize)?)? else { continue };
        for item in &items {
            let sample = match item {
                Prepared::Ready(sample) => sample.clone(),
                raw => Box::new(plan.objective.sample(raw, Key::new(0, 0, u64::from(*i)).named("length"))?),
            };
            (tokens, n) = (tokens + sample.target.len(), n + 1);
        }
    }
    // One more: where an answer starts is not a target.
    Ok((n > 0).then(|| (tokens as f64 / n as f64).round() as usize + 1))
}

/// Seconds of the classifier that counts words, by a part of its rows.
fn baseline(plan: &Plan) -> Result<f64> {
    let task = plan.recipe.data.objective;
    let part =
        |side: &Arc<dyn Corpus>| -> Arc<dyn Corpus> { Arc::new(Subset::new(side.clone(), spread(side.len(), ROWS))) };
    let splits =
        crate::corpus::Splits { train: part(&plan.splits.train), test: part(&plan.splits.test), ..plan.splits.clone() };
    Ok(crate::baseline::seconds_of(task, &splits)?.map_or(0.0, |seconds| {
        let rows = plan.splits.train.len().min(crate::baseline::MOST) as f64;
        seconds * rows / splits.train.len().max(1) as f64
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_spread_over_the_whole() {
        assert_eq!(spread(10, 4), [0, 2, 5, 7]);
        assert_eq!((spread(3, 64), spread(0, 64)), (vec![0, 1, 2], vec![]));
    }

    /// A long document is cut between characters, and what is left out is counted.
    #[test]
    fn a_part_of_documents_knows_how_often_it_is_in_the_whole() {
        let long: Arc<dyn Corpus> = Arc::new(vec![Example::Text("è".repeat(TEXT)), Example::Text("b".repeat(TEXT))]);
        let (part, times) = documents(&long).expect("a part");
        assert_eq!((part.len(), times), (1, 3.0));
        assert_eq!(part.get(0).expect("a text").text().len(), TEXT);
        let short: Arc<dyn Corpus> = Arc::new(vec![Example::Text("abc".into()), Example::Text("de".into())]);
        assert_eq!(documents(&short).map(|(part, times)| (part.len(), times)).expect("a part"), (2, 1.0));
    }
}
