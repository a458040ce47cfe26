//! Searches: which of all continuations is said. A search is a small state machine: it is shown the logits behind each of its
//! rows, and says which rows go on, from which, and with which tokens; the [`Engine`](crate::Engine) does the rest, for many
//! searches at once.
//!
//! | search | idea | file |
//! |---|---|---|
//! | greedy, sampling | one token at a time, by a chain | [`sample`] |
//! | beam | the best few continuations side by side | [`beam`] |
//! | contrastive | probable, but unlike what was said | [`contrastive`] |

pub mod beam;
pub mod contrastive;
pub mod sample;
pub mod tree;

pub use beam::{Beam, Constraint, EarlyStopping, LengthPenalty};
pub use contrastive::Contrastive;
pub use tree::{Fate, Node, Tree};

use crate::engine::Request;
use crate::stop::End;
use crate::text::{Detokenizer, RowText};
use crate::trace::Trace;
use crate::{Observe, PassOutput};
use qkv_base::{Error, Result};
use serde::Serialize;

/// Which search.
#[derive(Clone, Debug, PartialEq)]
pub enum Search {
    /// greedy and sampling: `n` continuations by the chain's pick
    Sample {
        /// how many
        n: usize,
    },
    /// the best few continuations side by side
    Beam(Beam),
    /// probable, but unlike what was said
    Contrastive(Contrastive),
}

impl Search {
    /// The most rows it needs.
    pub fn rows(&self) -> usize {
        match self {
            Self::Sample { n } => *n,
            Self::Beam(how) => how.width,
            Self::Contrastive(how) => how.k,
        }
    }

    /// What it wants to know besides logits.
    pub fn observe(&self) -> Observe {
        match self {
            Self::Sample { .. } => Observe::default(),
            Self::Beam(how) => Observe { source: how.coverage.is_some(), hidden: false },
            Self::Contrastive(how) => Observe { hidden: how.k > 1, source: false },
        }
    }

    /// Refuses what cannot be searched.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Sample { n: 0 } => Err(Error::new("n", "no continuation is asked for", "ask for at least one")),
            Self::Sample { n } if *n > MOST => {
                let what = format!("{n} continuations at once would each have a place in the cache");
                Err(Error::new("n", what, format!("ask for at most {MOST} at a time")))
            }
            Self::Sample { .. } => Ok(()),
            Self::Beam(how) => how.check(),
            Self::Contrastive(how) => how.check(),
        }
    }
}

/// The most continuations of one request.
const MOST: usize = 4096;

/// What a search did, step by step.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum SearchTrace {
    /// what each step of the chain did to each row of logits
    Chain(Trace),
    /// every continuation that was considered
    Beam(Tree),
}

impl SearchTrace {
    /// The trace as a page: JSON for programs, HTML for people, by the ending of the file's name.
    pub fn page(&self, file: &str) -> Result<String> {
        if file.ends_with(".json") {
            return serde_json::to_string(self).map_err(|e| Error::new("trace", e.to_string(), ""));
        }
        if file.ends_with(".html") {
            return Ok(match self {
                Self::Chain(trace) => trace.html(),
                Self::Beam(tree) => tree.html(),
            });
        }
        let what = "the name ends neither in .json nor in .html";
        Err(Error::new(format!("--trace={file}"), what, "name the file trace.html or trace.json"))
    }

    /// The trace as lines for a terminal.
    pub fn table(&self) -> String {
        match self {
            Self::Chain(trace) => trace.table(),
            Self::Beam(tree) => tree.table(),
        }
    }
}

/// What a search is shown after a pass.
pub(crate) struct View<'a> {
    pub(crate) output: &'a PassOutput,
    pub(crate) vocabulary: usize,
    /// the number of its first answer
    pub(crate) first: usize,
    /// where in the pass the token of each of its rows stands
    pub(crate) places: &'a [usize],
    /// how many tokens the pass had
    pub(crate) tokens: usize,
}

impl View<'_> {
    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.places.len()
    }

    /// The logits of the next token of a row.
    pub(crate) fn logits(&self, row: usize) -> &[f32] {
        self.output
            .logits
            .get((self.first + row) * self.vocabulary..)
            .unwrap_or_default()
            .get(..self.vocabulary)
            .unwrap_or_default()
    }

    /// The state behind the last token of a row, `[C]`.
    pub(crate) fn hidden(&self, row: usize) -> &[f32] {
        self.of_token(&self.output.hidden, row)
    }

    /// How much the last token of a row looked at each source token, `[Tm]`.
    pub(crate) fn source(&self, row: usize) -> &[f32] {
        self.of_token(&self.output.source, row)
    }

    fn of_token<'s>(&self, all: &'s [f32], row: usize) -> &'s [f32] {
        let width = all.len() / self.tokens.max(1);
        all.get(self.places[row] * width..(self.places[row] + 1) * width).unwrap_or_default()
    }
}

/// How a search goes on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// row b goes on from what row `from[b]` was, with `tokens[b]`
    Rows { from: Vec<usize>, tokens: Vec<u32> },
    /// it is over
    Done,
}

/// A token that was just chosen for good, for who listens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) number: usize,
    pub(crate) id: u32,
    pub(crate) logprob: f32,
    pub(crate) text: String,
    pub(crate) is_end: bool,
    pub(crate) top: Vec<(u32, f32)>,
}

/// A search under way.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // one for each request: a box would save nothing
pub(crate) enum Machine {
    Sample(sample::Sampling),
    Beam(beam::Beaming),
    Contrastive(contrastive::Contrasting),
}

impl Machine {
    pub(crate) fn new(request: &Request, detokenizer: Option<&dyn Detokenizer>) -> Self {
        let text = detokenizer.map(|d| RowText::new(d, &request.stop));
        match &request.search {
            Search::Sample { n } => Self::Sample(sample::Sampling::new(request, *n, text)),
            // Nobody hears a beam before it is done: on the way its text is needed for stop strings only.
            Search::Beam(how) => {
                Self::Beam(beam::Beaming::new(request, how, text.filter(|_| !request.stop.is_empty())))
            }
            Search::Contrastive(_) => Self::Contrastive(contrastive::Contrasting::new(text)),
        }
    }

    /// One pass further; tokens that are certain go to `chosen`.
    pub(crate) fn advance(&mut self, request: &Request, view: &View, chosen: &mut Vec<Chosen>) -> Result<Next> {
        match (self, &request.search) {
            (Self::Sample(state), _) => state.advance(request, view, chosen),
            (Self::Beam(state), Search::Beam(how)) => state.advance(request, how, view),
            (Self::Contrastive(state), Search::Contrastive(how)) => state.advance(request, how, view, chosen),
            _ => Ok(Next::Done),
        }
    }

    /// What was said so far, of a search with one continuation that is certain as it goes.
    pub(crate) fn only(&self) -> Option<&[u32]> {
        match self {
            Self::Sample(state) => state.only(),
            _ => None,
        }
    }

    /// Ends one continuation where it is; which of the rows stay.
    pub(crate) fn stop(&mut self, number: usize) -> Vec<usize> {
        match self {
            Self::Sample(state) => state.stop(number),
            Self::Beam(_) => vec![],
            Self::Contrastive(state) => state.stop(),
        }
    }

    /// What was found, best first where there is a better.
    pub(crate) fn finish(self, request: &Request) -> Result<(Vec<Sequence>, Option<SearchTrace>)> {
        match self {
            Self::Sample(state) => state.finish(),
            Self::Beam(state) => state.finish(request),
            Self::Contrastive(state) => Ok((vec![state.finish()?], None)),
        }
    }
}

/// One continuation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sequence {
    /// what was said, without the prompt, with the end token if it came to one
    pub ids: Vec<u32>,
    /// what sequences are compared by: the log-probability, or what a beam search makes of it
    pub score: f64,
    /// the model's own log-probability of each token, before any step of the chain
    pub logprobs: Vec<f32>,
    /// why it ended
    pub end: End,
    /// its text up to the first stop string, where the engine has a detokenizer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Sequence {
    pub(crate) fn new() -> Self {
        Self { ids: vec![], score: 0.0, logprobs: vec![], end: End::Length, text: None }
    }

    pub(crate) fn push(&mut self, id: u32, logprob: f32) {
        self.ids.push(id);
        self.logprobs.push(logprob);
        self.score += logprob as f64;
    }

    /// The log-probability of the whole: the product rule, Σ log p(token | tokens before).
    pub fn logprob(&self) -> f64 {
        self.logprobs.iter().map(|p| *p as f64).sum()
    }
}

/// ln Σ e^logit of a row: a logit less this is a log-probability.
pub fn log_sum(logits: &[f32]) -> f64 {
    let mut high = [f32::NEG_INFINITY; 8];
    for chunk in logits.chunks(8) {
        high.iter_mut().zip(chunk).for_each(|(h, x)| *h = if *x > *h { *x } else { *h });
    }
    let high = high.into_iter().fold(f32::NEG_INFINITY, f32::max);
    if high == f32::NEG_INFINITY {
        return f64::NEG_INFINITY;
    }
    let mut total = 0f64;
    // Partial sums in f32 of 512 numbers at most, in eight lanes: fast, in a fixed order, and exact enough.
    for block in logits.chunks(512) {
        let mut lanes = [0f32; 8];
        for chunk in block.chunks(8) {
            lanes.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += crate::row::exp(*x - high));
        }
        total += lanes.into_iter().map(f64::from).sum::<f64>();
    }
    high as f64 + total.ln()
}

/// The model's own log-probability of a token.
pub(crate) fn logprob(logits: &[f32], id: u32) -> f32 {
    (logits.get(id as usize).map_or(f64::NEG_INFINITY, |x| *x as f64) - log_sum(logits)) as f32
}

/// The `k` most probable tokens and their log-probabilities, best first; of equals the first.
///
/// ```
/// let best = qkv_decode::search::top_logprobs(&[0.0, 2.0, 2.0, 1.0], 2);
/// assert_eq!(best.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2]);
/// ```
pub fn top_logprobs(logits: &[f32], k: usize) -> Vec<(u32, f32)> {
    if k == 0 {
        return vec![];
    }
    let by = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    if k < ids.len() {
        ids.select_nth_unstable_by(k - 1, by);
        ids.truncate(k);
    }
    ids.sort_by(by);
    let sum = log_sum(logits);
    ids.into_iter().map(|id| (id, (logits[id as usize] as f64 - sum) as f32)).collect()
}

#[cfg(test)]
pub(crate) mod fake;

#[cfg(test)]
mod tests {
    use super::*;
    use qkv_base::Key;

    #[test]
    fn log_sums_follow_the_exact_ones() {
        let logits: Vec<f32> = Key::new(1, 2, 3).normals(5000).iter().map(|x| x * 5.0).collect();
        let exact = logits.iter().map(|x| (*x as f64).exp()).sum::<f64>().ln();
        assert!((log_sum(&logits) - exact).abs() < 1e-6);
        assert_eq!(log_sum(&[f32::NEG_INFINITY; 3]), f64::NEG_INFINITY);
    }
}
