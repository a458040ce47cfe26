//! What each layer would say: the logit lens (nostalgebraist 2020) reads a hidden state as if it were the last, through the
//! final norm and the head. And how surprised the model is by each token: `−ln p`, with the five tokens it held likeliest.

use super::given::Given;
use super::look::{Look, label};
use crate::page::{Cell, Table};
use burn::tensor::{Tensor, TensorData};
use qkv_base::{Error, Result};
use qkv_model::spec::Head;
use qkv_nn::Cx;
use qkv_tasks::TextModel;
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;

/// How many tokens are named at each place.
const TOP: usize = 5;
/// So many places are read at a time.
const PART: usize = 64;

/// A distribution at one place, as far as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// the likeliest tokens and their probabilities
    pub top: Vec<(u32, f64)>,
    /// the probability of the token that really comes, and its rank (1 is the likeliest)
    pub label: Option<(u32, f64, usize)>,
}

/// What is known of a row of scores: the likeliest, and how the label fares.
pub fn place(scores: &[f32], label: Option<u32>, top: usize) -> Place {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = scores.iter().map(|s| f64::from(s - most).exp()).sum();
    let p = |id: usize| f64::from(scores[id] - most).exp() / sum;
    let mut best: Vec<usize> = vec![];
    for id in 0..scores.len() {
        let at = best.partition_point(|b| scores[*b] >= scores[id]);
        if at < top {
            best.insert(at, id);
            best.truncate(top);
        }
    }
    let label = label.filter(|id| (*id as usize) < scores.len()).map(|id| {
        let own = scores[id as usize];
        (id, p(id as usize), 1 + scores.iter().filter(|s| **s > own).count())
    });
    Place { top: best.into_iter().map(|id| (id as u32, p(id))).collect(), label }
}

/// The token that really comes at each place that the model answers for: the next of a decoder, the target of a pair, the
/// token itself of a masked language model.
pub fn labels(model: &TextModel, given: &Given) -> Result<Vec<Option<u32>>> {
    match (given, &model.spec().head) {
        (Given::Pair { target, .. }, Head::Language { .. }) => Ok(target.iter().map(|id| Some(*id)).collect()),
        (Given::Tokens { ids, .. }, Head::Language { .. }) => {
            Ok(ids[1..].iter().map(|id| Some(*id)).chain([None]).collect())
        }
        (Given::Tokens { ids, .. }, Head::Masked { .. }) => Ok(ids.iter().map(|id| Some(*id)).collect()),
        _ => {
            let hint = "choose a language model; `--view gradients` works for classifiers, too";
            Err(Error::new(
                model.path.display().to_string(),
                "this model says no words, so there is nothing to score",
                hint,
            ))
        }
    }
}

/// The loss of each token, and the likeliest tokens in its place.
pub fn losses(model: &TextModel, given: &Given, look: &Look) -> Result<Table> {
    let labels = labels(model, given)?;
    let masked = matches!(model.spec().head, Head::Masked { .. });
    let mut rows = vec![];
    let (mut total, mut n) = (0.0, 0);
    for (i, id) in labels.iter().enumerate() {
        let place = place(look.scores(i), *id, TOP);
        let mut cells = vec![];
        match place.label {
            Some((id, p, rank)) => {
                total -= p.ln();
                n += 1;
                cells.extend([
                    Cell::Text(label(model, id)),
                    Cell::number(-p.ln(), 4),
                    Cell::number(p, 4),
                    Cell::Count(rank as u64),
                ]);
            }
            None => cells.extend(std::iter::repeat_n(Cell::Text("–".into()), 4)),
        }
        let top = place.top.iter().map(|(id, p)| format!("{} {p:.3}", label(model, *id)));
        cells.push(Cell::Text(top.collect::<Vec<_>>().join("  ")));
        rows.push((look.read().get(i).cloned().unwrap_or_default(), cells));
    }
    let mean = total / f64::from(n.max(1));
    let what = if masked { "each token in its own place" } else { "each next token" };
    let perplexity = qkv_base::format::significant(mean.exp(), 4);
    let title = format!("loss of {what}: mean {mean:.4}, perplexity {perplexity}, {n} tokens");
    let columns = [if masked { "is" } else { "comes" }, "loss", "p", "rank", "the likeliest five"];
    Ok(Table::of(&title, if masked { "place" } else { "after" }, &columns, rows))
}

/// The lens: for each layer (0 is the embeddings) and each place the likeliest token, its probability, and the rank of the
/// token that really comes. Of the tokens in `shown`, since each costs as much as the head at every layer.
pub fn lens(model: &TextModel, given: &Given, look: &Look, shown: Range<usize>) -> Result<Vec<Table>> {
    let labels = labels(model, given)?;
    let layers = look.states.len();
    let mut places: Vec<Vec<Place>> = vec![];
    for (layer, state) in look.states.iter().enumerate() {
        let last = layer + 1 == layers;
        let (width, c) = (look.width().max(1), model.spec().width.max(1));
        let mut found: Vec<Place> = vec![];
        // A part of the text at a time: the scores of all of it, `[T, V]`, would be held once more for nothing.
        let wanted = state.values.get(shown.start * c..shown.end * c).unwrap_or(&[]);
        for (part, states) in wanted.chunks(PART * c).enumerate() {
            let from = shown.start + part * PART;
            let answer = || look.answer.values.get(from * width..).unwrap_or(&[]);
            let scores = if last { Cow::Borrowed(answer()) } else { Cow::Owned(said(model, states)?) };
            let row = |(i, row): (usize, &[f32])| place(row, labels.get(from + i).copied().flatten(), 1);
            found.par_extend(scores.par_chunks(width).take(states.len() / c).enumerate().map(row));
        }
        places.push(found);
    }
    let columns: Vec<String> =
        (0..layers).map(|i| if i == 0 { "input".into() } else { format!("layer {}", i - 1) }).collect();
    let cells = |f: &dyn Fn(&Place) -> Cell| -> Vec<(String, Vec<Cell>)> {
        let row = |(i, name): (usize, &String)| (name.clone(), places.iter().filter_map(|l| l.get(i)).map(f).collect());
        look.read()[shown.clone()].iter().enumerate().map(row).collect()
    };
    let best = |p: &Place| p.top.first().copied().unwrap_or((0, 0.0));
    let rank = |p: &Place| p.label.map_or(Cell::Text("–".into()), |l| Cell::Count(l.2 as u64));
    let own = |p: &Place| p.label.map_or(Cell::Text("–".into()), |l| Cell::number(l.1, 4));
    let mut likely =
        Table::of("lens: the probability of that token", "token", &columns, cells(&|p| Cell::number(best(p).1, 4)));
    likely.heat = true;
    Ok(vec![
        Table::of(
            "lens: what each layer would say, read through the final norm and the head",
            "token",
            &columns,
            cells(&|p| Cell::Text(label(model, best(p).0))),
        ),
        likely,
        Table::of("lens: the probability of the token that really comes", "token", &columns, cells(&own)),
        Table::of("lens: its rank (1 is the likeliest)", "token", &columns, cells(&rank)),
    ])
}

/// Hidden states `[T, C]` read as if they were the last: scores `[T, V]`.
pub fn said(model: &TextModel, states: &[f32]) -> Result<Vec<f32>> {
    let (network, spec) = (&model.network.model, model.spec());
    let c = spec.width.max(1);
    let h = Tensor::<3>::from_data(TensorData::new(states.to_vec(), [1, states.len() / c, c]), &network.device());
    let stack = if spec.decoder().is_some() { &network.decoder } else { &network.encoder };
    let h = match stack.as_ref().and_then(|s| s.norm.as_ref()) {
        Some(norm) => norm.forward(h),
        None => h,
    };
    super::look::numbers(network.head.forward(h, network.tokens.as_ref(), &mut Cx::eval()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_by_hand() {
        let place = place(&[0.0, 2f32.ln(), 0.0, f32::NEG_INFINITY], Some(2), 2);
        assert_eq!(place.top.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 0]);
        assert!((place.top[0].1 - 0.5).abs() < 1e-6);
        let (_, p, rank) = place.label.unwrap();
        assert!((p - 0.25).abs() < 1e-6 && rank == 2, "ties share the better rank");
        assert!(super::place(&[0.0], Some(7), 1).label.is_none());
    }
}
