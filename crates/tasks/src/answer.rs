//! Answering: where in a text the answer to a question stands.
//!
//! A text that does not fit is read in windows that overlap, the windows of the objective it was trained with; each gives
//! `P(start = i) · P(end = j)` for every part of the context, and the best of all windows win. The judge ranks spans by the
//! same function.

use crate::TextModel;
use crate::batches::{Listener, finite, interrupted, softmax};
use crate::judge::Judging;
use crate::look::Look;
use crate::metric::{Judged, Metric};
use crate::sheet::{self, Given, ObjectiveParts, TaskSheet, Wants};
use qkv_base::{Error, Result, Task};
use qkv_data::objective::{Answer, Made, Prepared, Sample};
use qkv_data::{Example, Objective, Side};
use qkv_kernels::Ids;
use qkv_metric::{SquadVersion, score_answers};
use qkv_model::spec::Head;
use qkv_model::{Encoder, Tokens};
use qkv_nn::Cx;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sheet.
pub const SHEET: TaskSheet = TaskSheet {
    task: Task::Answer,
    verb: Some(("answer", Given::Words("--context TEXT --question TEXT"))),
    metrics: &[Metric::Loss, Metric::Exact, Metric::F1],
    main: Metric::F1,
    wants: Wants::Reader,
    head: |_, _| Some(Head::Span),
    objective,
    judge,
    of_counts: sheet::share,
};

fn objective(parts: &ObjectiveParts) -> Result<Objective> {
    Ok(Objective::Answer(Answer::new(parts.source()?, parts.frame()?, parts.length)))
}

/// The longest answer in tokens, unless something else is said.
const LONGEST: usize = 30;

/// Where the answer stands: the best span of all windows of an example.
fn judge(on: &mut Judging) -> Result<()> {
    let mut best: BTreeMap<usize, Scored> = BTreeMap::new();
    // To say nothing must be likelier than any span in every window, and is right where some questions have no answer.
    let mut none: BTreeMap<usize, f64> = BTreeMap::new();
    let mut looks = vec![];
    on.judge.each(on.ready, |part, batch, rows, v| {
        for (i, r) in part.iter().enumerate() {
            looks.push(Look::at(batch, i, &rows, v));
            let [starts, ends] = [2 * i, 2 * i + 1].map(|n| &rows[n * v..][..batch.lengths[i]]);
            let nothing = none.entry(r.example).or_insert(f64::INFINITY);
            *nothing = nothing.min(no_answer(starts, ends));
            for found in best_spans(starts, ends, &r.sample.spans, LONGEST, 1) {
                if best.get(&r.example).is_none_or(|held| found.score > held.score) {
                    best.insert(r.example, found);
                }
            }
        }
        Ok(())
    })?;
    on.looks = looks;
    let mut right: Vec<Vec<String>> = vec![];
    let all: Vec<Vec<String>> = best.keys().map(|example| on.corpus.answers(*example)).collect::<Result<_>>()?;
    let version = if all.iter().any(Vec::is_empty) { SquadVersion::V2 } else { SquadVersion::V1 };
    for ((example, Scored { start, end, score }), answers) in best.into_iter().zip(all) {
        let Example::Question { context, question, answer, .. } = on.corpus.get(example)? else { continue };
        let silent = version == SquadVersion::V2 && none.get(&example).is_some_and(|nothing| *nothing > score);
        let span = context.get(start as usize..end as usize).unwrap_or_default();
        let got = if silent { String::new() } else { span.to_string() };
        right.push(answers);
        on.scores.judged.push(Judged { source: question, expected: answer, got, ..Judged::default() });
    }
    let said: Vec<&str> = on.scores.judged.iter().map(|j| j.got.as_str()).collect();
    let right: Vec<Vec<&str>> = right.iter().map(|r| r.iter().map(String::as_str).collect()).collect();
    let answers = score_answers(&said, &right, version)?;
    for (judged, each) in on.scores.judged.iter_mut().zip(&answers.each) {
        (judged.score, judged.counts) = (each.f1, vec![each.f1, 1.0]);
    }
    on.scores.put([(Metric::Exact, answers.all.exact), (Metric::F1, answers.all.f1)]);
    Ok(())
}

/// A part of the context that may be the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// the words themselves
    pub text: String,
    /// the first byte in the context
    pub start: usize,
    /// the byte behind the last
    pub end: usize,
    /// the probability of its start times that of its end
    pub score: f64,
}

/// How to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerOptions {
    /// how many answers
    pub top: usize,
    /// the longest answer in tokens
    pub longest: usize,
    /// how many tokens two windows share; left out, a third of a window
    pub stride: Option<usize>,
    /// windows in a batch
    pub rows: usize,
    /// whether to say nothing where that is likelier than any part of the context
    pub none: bool,
}

impl Default for AnswerOptions {
    fn default() -> Self {
        Self { top: 1, longest: LONGEST, stride: None, rows: 8, none: false }
    }
}

/// The best answers to a question in a context, best first. An answer without words says that there is none.
pub fn answer(
    model: &TextModel,
    question: &str,
    context: &str,
    ask: AnswerOptions,
    listener: &mut dyn Listener,
) -> Result<Vec<Found>> {
    model.needs(model.spec().head == Head::Span, "answer", "a head that answers with spans")?;
    let windows = windows(model, question, context, ask, listener)?;
    let (mut found, mut nothing): (Vec<Scored>, f64) = (vec![], f64::INFINITY);
    for (i, batch) in windows.chunks(ask.rows.max(1)).enumerate() {
        if listener.is_cancelled() {
            return Err(interrupted());
        }
        let answer = model.network.model.answer(&tokens(batch), &mut Cx::eval())?;
        let t = answer.dims()[1];
        let values = finite(answer, "answer", model)?;
        for (b, window) in batch.iter().enumerate() {
            let side =
                |s: usize| -> Vec<f32> { (0..window.input.len()).map(|at| values[(b * t + at) * 2 + s]).collect() };
            nothing = nothing.min(no_answer(&side(0), &side(1)));
            found.extend(best_spans(&side(0), &side(1), &window.spans, ask.longest, ask.top.max(1)));
        }
        listener.progress((i * ask.rows.max(1) + batch.len()).min(windows.len()), windows.len());
    }
    if ask.none && nothing.is_finite() {
        found.push(Scored { start: 0, end: 0, score: nothing });
    }
    found.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.start.cmp(&b.start)).then(a.end.cmp(&b.end)));
    let mut kept: Vec<Found> = vec![];
    for span in found {
        let (start, end) = (span.start as usize, span.end as usize);
        if kept.len() < ask.top && kept.iter().all(|k| (k.start, k.end) != (start, end)) {
            let text = context.get(start..end).unwrap_or_default().to_string();
            kept.push(Found { text, start, end, score: span.score });
        }
    }
    Ok(kept)
}

/// The question with each part of the context, as in training.
fn windows(
    model: &TextModel,
    question: &str,
    context: &str,
    ask: AnswerOptions,
    listener: &mut dyn Listener,
) -> Result<Vec<Sample>> {
    let tokenizer = Arc::new(Side::source(model.tokenizer()?));
    let length = model.longest().min(512);
    let usual = Answer::new(tokenizer, model.frame()?, length);
    let overlap = ask.stride.unwrap_or(usual.overlap);
    let objective = Answer { overlap, ..usual };
    let example =
        Example::Question { context: context.into(), question: question.into(), answer: String::new(), start: 0 };
    let objective = Objective::Answer(objective);
    let refused = |what: &str, hint: &str| Err(Error::new("question", what, hint));
    match objective.prepare(&example)? {
        Made::Dropped(qkv_data::objective::Dropped::TooLong) => {
            refused("leaves no room for the text beside it", "shorten the question")
        }
        Made::Dropped(_) => refused("or the text to look in has no tokens", "give both"),
        Made::Items { items, cut } => {
            if cut > 0 {
                listener.note(&format!("{cut} tokens of the question were cut off"));
            }
            let ready = |item| if let Prepared::Ready(sample) = item { Some(*sample) } else { None };
            let samples: Vec<Sample> = items.into_iter().filter_map(ready).collect();
            let room = samples.first().map_or(0, |s| s.spans.iter().filter(|(a, b)| b > a).count());
            if samples.len() > 1 && overlap >= room {
                let what = format!("windows of {room} tokens cannot share {overlap}");
                return Err(Error::new("stride", what, "use a smaller --stride, or shorten the question"));
            }
            Ok(samples)
        }
    }
}

/// Rows padded on the right.
fn tokens(samples: &[Sample]) -> Tokens {
    let lengths: Vec<usize> = samples.iter().map(|s| s.input.len()).collect();
    let width = lengths.iter().copied().max().unwrap_or(0);
    let padded = |of: fn(&Sample) -> &Vec<u32>| -> Vec<u32> {
        samples.iter().flat_map(|s| of(s).iter().copied().chain(std::iter::repeat_n(0, width - of(s).len()))).collect()
    };
    let mut tokens = Tokens::new(Ids::new(padded(|s| &s.input), samples.len()));
    if lengths.iter().any(|n| *n != width) {
        tokens = tokens.with_padding(qkv_nn::mask::from_lengths(&lengths, width));
    }
    if samples.iter().any(|s| !s.token_types.is_empty()) {
        tokens = tokens.with_token_types(Ids::new(padded(|s| &s.token_types), samples.len()));
    }
    tokens
}

/// A span of the context in bytes, with its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// the first byte
    pub start: u32,
    /// the byte behind the last
    pub end: u32,
    /// P(start) · P(end)
    pub score: f64,
}

/// How probable it is that a window has no answer: both places are those of `[CLS]`, the first token.
pub fn no_answer(starts: &[f32], ends: &[f32]) -> f64 {
    let first = |logits: &[f32]| softmax(logits).first().copied().unwrap_or(0.0);
    first(starts) * first(ends)
}

/// The `top` most probable spans of one window, of at most `longest` tokens that lie in the context; `spans` are the bytes
/// of each token, empty where it is not of the context. Both probabilities are over all tokens of the window.
pub fn best_spans(starts: &[f32], ends: &[f32], spans: &[(u32, u32)], longest: usize, top: usize) -> Vec<Scored> {
    let inside: Vec<usize> = (0..spans.len().min(starts.len())).filter(|i| spans[*i].1 > spans[*i].0).collect();
    let (starts, ends) = (softmax(starts), softmax(ends));
    let mut found: Vec<Scored> = vec![];
    for (n, from) in inside.iter().enumerate() {
        for to in inside[n..].iter().take(longest.max(1)) {
            let score = starts[*from] * ends[*to];
            if found.len() < top || found.last().is_some_and(|held| score > held.score) {
                let at = found.partition_point(|held| held.score >= score);
                found.insert(at, Scored { start: spans[*from].0, end: spans[*to].1, score });
                found.truncate(top);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_lies_in_the_context_and_does_not_run_backwards() {
        let spans = [(0, 0), (0, 0), (0, 3), (4, 8), (9, 12)];
        let starts = [9.0, 9.0, 0.0, 2.0, 3.0];
        let ends = [9.0, 9.0, 5.0, 2.0, 0.0];
        let best = best_spans(&starts, &ends, &spans, 30, 2);
        assert_eq!((best[0].start, best[0].end), (0, 3));
        assert!(best.len() == 2 && best[0].score >= best[1].score);
        assert_eq!(best_spans(&[1.0], &[1.0], &[(0, 0)], 30, 1), []);
    }

    #[test]
    fn nothing_is_as_probable_as_both_places_on_the_first_token() {
        let even = no_answer(&[0.0; 4], &[0.0; 4]);
        assert!((even - 1.0 / 16.0).abs() < 1e-9);
        assert!(no_answer(&[9.0, 0.0], &[9.0, 0.0]) > 0.99 && no_answer(&[], &[]) == 0.0);
    }

    #[test]
    fn no_answer_is_longer_than_asked_for() {
        let spans: Vec<(u32, u32)> = (0..9).map(|i| (i, i + 1)).collect();
        let (starts, ends) = ([5.0, 0., 0., 0., 0., 0., 0., 0., 0.], [0., 0., 0., 0., 0., 0., 0., 0., 5.0]);
        assert!(best_spans(&starts, &ends, &spans, 3, 5).iter().all(|s| s.end - s.start <= 3));
    }
}
