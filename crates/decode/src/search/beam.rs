//! Beam search: the `width` best continuations are kept side by side and compared after every token.
//!
//! Each step scores every token after every kept continuation, takes the best few of all (enough that `width` of them do not
//! end), moves those that end to the finished ones, and goes on with the best that do not. A finished continuation counts
//! `log P / |Y|^α` (as transformers does, |Y| the tokens said), or Wu et al.'s `log P / ((5 + |Y|)/6)^α + β·Σᵢ ln min(Σⱼ aᵢⱼ, 1)`,
//! whose second term wants every source token i to be looked at. Log-probabilities fall with every token, so a search can stop
//! when nothing running can still win: [`EarlyStopping`]. With groups (Vijayakumar et al. 2016), each group searches on its own but
//! pays for tokens that the groups before it said at the same step. Only the choice pays: scores stay log-probabilities.
//!
//! Among equals the continuation that stood higher before wins, then the lower id: the same input gives the same answer.
//!
//! ```
//! use qkv_decode::{Beam, EngineConfig, Engine, Request, Search};
//! use qkv_model::{Transformer, presets};
//! let spec = presets::find("tiny-pair").unwrap().spec();
//! let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex()).unwrap();
//! let mut engine = Engine::new(std::sync::Arc::new(model), EngineConfig::default());
//! let search = Search::Beam(Beam { n_best: 2, ..Beam::new(4) });
//! let (source, start) = (Some(vec![5, 6, 7]), vec![1]);
//! let request = Request { source, search, ends: vec![2], max_tokens: 8, ..Request::new(start) };
//! let best = engine.run(vec![request], &mut |_, _| true)?;
//! assert!(best[0].sequences[0].score >= best[0].sequences[1].score);
//! # Ok::<(), qkv_base::Error>(())
//! ```

use super::sample::say;
use super::tree::{Fate, Node, Tree};
use super::{Next as Proposal, SearchTrace, Sequence, View, log_sum};
use crate::Row;
use crate::engine::Request;
use crate::stop::End;
use crate::text::RowText;
use qkv_base::{Error, Key, Result};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The widest beam: each continuation has its own place in the cache.
const WIDEST: usize = 4096;

/// How a beam search compares and stops.
#[derive(Clone, Debug, PartialEq)]
pub struct Beam {
    /// how many continuations go on
    pub width: usize,
    /// how many come out
    pub n_best: usize,
    /// what length is worth
    pub length: LengthPenalty,
    /// when to stop
    pub early: EarlyStopping,
    /// so many times `width` continuations are finished before a search is full (Kasai et al. 2022); 1 is the usual search
    pub patience: f64,
    /// β of Wu et al.'s coverage penalty; the engine must look at the source
    pub coverage: Option<f64>,
    /// how many groups the width is shared out to
    pub groups: usize,
    /// what a token costs for each earlier group that said it at the same step
    pub diversity: f64,
    /// what a continuation may be
    pub constraint: Option<Constraint>,
}

impl Beam {
    /// As transformers searches by default: divided by the length, stopping by its estimate.
    pub fn new(width: usize) -> Self {
        Self {
            width,
            n_best: 1,
            length: LengthPenalty::Power(1.0),
            early: EarlyStopping::Estimate,
            patience: 1.0,
            coverage: None,
            groups: 1,
            diversity: 0.0,
            constraint: None,
        }
    }

    /// Refuses what cannot be searched.
    pub fn check(&self) -> Result<()> {
        let fail = |place: &str, what: String, hint: &str| Err(Error::new(place, what, hint));
        if self.width == 0 {
            return fail("beam", "the width is 0".into(), "use 1 (greedy) or more");
        }
        if self.width > WIDEST {
            let what = format!("a width of {} keeps that many texts in memory at once", self.width);
            return fail("beam", what, "use at most 4096; 4 to 10 are usual");
        }
        if self.n_best == 0 || self.n_best > self.width {
            let what = format!("{} sequences are asked of a beam of width {}", self.n_best, self.width);
            return fail("n-best", what, "ask for 1 up to the width, or widen the beam");
        }
        if self.groups == 0 || !self.width.is_multiple_of(self.groups) {
            let what = format!("{} groups cannot share a width of {}", self.groups, self.width);
            return fail("diverse groups", what, "choose a number that divides the width");
        }
        let (LengthPenalty::Power(alpha) | LengthPenalty::Wu(alpha)) = self.length;
        let numbers =
            [("length penalty", alpha, true), ("diversity", self.diversity, false), ("patience", self.patience, false)];
        for (name, value, negative) in numbers.into_iter().chain(self.coverage.map(|b| ("coverage", b, false))) {
            if !value.is_finite() || value < 0.0 && !negative {
                return fail(name, format!("is {value}"), "give a number, not below 0");
            }
        }
        if self.patience == 0.0 {
            return fail(
                "patience",
                "is 0: no continuation would ever be kept".into(),
                "use 1, or more to search longer",
            );
        }
        Ok(())
    }

    /// How many finished continuations fill a search of this width.
    fn full(&self, width: usize) -> usize {
        ((width as f64 * self.patience).round() as usize).max(1)
    }
}

/// What a log-probability is divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LengthPenalty {
    /// |Y|^α: 0 does not care for length, above 0 favours long ones
    Power(f64),
    /// ((5 + |Y|)/6)^α, Wu et al. 2016
    Wu(f64),
}

impl LengthPenalty {
    fn divided(self, total: f64, len: usize) -> f64 {
        match self {
            Self::Power(alpha) => total / (len as f64).powf(alpha),
            Self::Wu(alpha) => total / ((5.0 + len as f64) / 6.0).powf(alpha),
        }
    }

    fn favours_long(self) -> bool {
        let (Self::Power(alpha) | Self::Wu(alpha)) = self;
        alpha > 0.0
    }
}

/// When a search with enough finished continuations stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyStopping {
    /// at once: transformers' `true`
    Full,
    /// when the best running one, at its present length, is no better than the worst finished: `false`
    Estimate,
    /// when no running one can still win at any length: `"never"`
    Certain,
}

/// What a continuation may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// it starts with these tokens
    Starts(Vec<u32>),
    /// it is one of these, whole (with its end token if it has one)
    OneOf(Vec<Vec<u32>>),
}

impl Constraint {
    /// The tokens that may follow `said`; none: any.
    fn allowed(&self, said: &[u32]) -> Option<Vec<u32>> {
        match self {
            Self::Starts(prefix) => prefix.get(said.len()).map(|id| vec![*id]),
            Self::OneOf(all) => {
                let next = |s: &Vec<u32>| s.strip_prefix(said).and_then(|rest| rest.first().copied());
                let mut ids: Vec<u32> = all.iter().filter_map(next).collect();
                ids.sort_unstable();
                ids.dedup();
                Some(ids)
            }
        }
    }
}

/// A continuation that goes on.
#[derive(Clone, Debug)]
struct Hypothesis {
    ids: Vec<u32>,
    logprobs: Vec<f32>,
    total: f64,
    /// its row of the network
    row: usize,
    /// how much of each source token was looked at
    covered: Vec<f32>,
    node: Option<usize>,
    text: Option<RowText>,
}

/// A beam search under way: one lane, or one for each group.
#[derive(Debug)]
pub(crate) struct Beaming {
    lanes: Vec<Lane>,
    /// how many tokens were said
    len: usize,
    tree: Option<Tree>,
}

/// One search, or one group of it.
#[derive(Debug)]
struct Lane {
    width: usize,
    running: Vec<Hypothesis>,
    /// best first
    finished: Vec<Sequence>,
    open: bool,
}

/// A token after a row: what the chain made of its log-probability, and what it was before.
#[derive(Clone, Copy, Debug)]
struct Next {
    id: u32,
    value: f32,
    raw: f32,
}

impl Beaming {
    pub(crate) fn new(request: &Request, how: &Beam, text: Option<RowText>) -> Self {
        let start = || Hypothesis {
            ids: vec![],
            logprobs: vec![],
            total: 0.0,
            row: 0,
            covered: vec![],
            node: None,
            text: text.clone(),
        };
        let lane = |_| Lane { width: how.width / how.groups, running: vec![start()], finished: vec![], open: true };
        Self { lanes: (0..how.groups).map(lane).collect(), len: 0, tree: request.trace.map(|_| Tree::default()) }
    }

    pub(crate) fn advance(&mut self, request: &Request, how: &Beam, view: &View) -> Result<Proposal> {
        let after = tables(view, request, how, &self.lanes)?;
        let mut said = BTreeMap::new();
        for (lane, after) in self.lanes.iter_mut().zip(&after).filter(|(lane, _)| lane.open) {
            lane.step(view, request, how, self.len, after, &mut said, self.tree.as_mut())?;
        }
        self.len += 1;
        let (from, tokens) = next_rows(&mut self.lanes);
        let done = from.is_empty() || self.len == request.max_tokens;
        Ok(if done { Proposal::Done } else { Proposal::Rows { from, tokens } })
    }

    /// The `n_best` finished continuations, best first, each once.
    pub(crate) fn finish(self, request: &Request) -> Result<(Vec<Sequence>, Option<SearchTrace>)> {
        let n = if let super::Search::Beam(how) = &request.search { how.n_best } else { 1 };
        let mut all: Vec<Sequence> = self.lanes.into_iter().flat_map(|lane| lane.finished).collect();
        all.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut best: Vec<Sequence> = vec![];
        for sequence in all {
            if best.len() < n && best.iter().all(|b| b.ids != sequence.ids) {
                best.push(sequence);
            }
        }
        Ok((best, self.tree.map(SearchTrace::Beam)))
    }
}

/// Which row each running continuation of an open lane goes on from, and with which token; they are given their new rows.
fn next_rows(lanes: &mut [Lane]) -> (Vec<usize>, Vec<u32>) {
    let (mut rows, mut tokens) = (vec![], vec![]);
    for hypothesis in lanes.iter_mut().filter(|l| l.open).flat_map(|l| &mut l.running) {
        tokens.push(hypothesis.ids.last().copied().unwrap_or(0));
        rows.push(std::mem::replace(&mut hypothesis.row, rows.len()));
    }
    (rows, tokens)
}

/// The best tokens after each running continuation of a lane.
type After = Vec<Vec<Next>>;

fn tables(view: &View, request: &Request, how: &Beam, lanes: &[Lane]) -> Result<Vec<After>> {
    // Enough that `width` of them do not end, and that those which groups have made dear can be passed over.
    let width = how.width / how.groups;
    let enough = candidates(request) * width + if how.groups > 1 { how.width } else { 0 };
    let running = |(l, lane): (usize, &'_ Lane)| (lane.open, l, lane.running.len());
    let counts: Vec<(bool, usize, usize)> = lanes.iter().enumerate().map(running).collect();
    let asked: Vec<(&Hypothesis, &[f32])> = counts
        .iter()
        .filter(|(open, _, _)| *open)
        .flat_map(|(_, l, _)| lanes[*l].running.iter().map(|h| (h, view.logits(h.row))))
        .collect();
    let plain = request.chain.steps.is_empty();
    let one = |(h, logits): &(&Hypothesis, &[f32]), row: &mut Row| {
        let sum = log_sum(logits);
        if !sum.is_finite() {
            Row::of(logits)?; // says which token is wrong
        }
        let raw = |id: u32| (logits.get(id as usize).map_or(f64::NEG_INFINITY, |x| *x as f64) - sum) as f32;
        let allowed = how.constraint.as_ref().and_then(|c| c.allowed(&h.ids));
        let next = if plain && allowed.is_none() {
            best(logits, enough).into_iter().map(|id| Next { id, value: raw(id), raw: raw(id) }).collect()
        } else {
            let logprobs: Vec<f32> = logits.iter().map(|x| (*x as f64 - sum) as f32).collect();
            row.fill(&logprobs)?;
            request.chain.apply(row, &request.history(&h.ids, Key::new(request.seed, h.ids.len() as u64, 0)))?;
            if let Some(allowed) = allowed {
                row.keep(|id, _| allowed.binary_search(&id).is_ok());
            }
            let ids = row.ranked(enough).to_vec();
            ids.into_iter().map(|id| Next { id, value: row.logit(id), raw: raw(id) }).collect()
        };
        Ok(next)
    };
    let mut next: std::vec::IntoIter<Vec<Next>> = if asked.len() * view.vocabulary > 1 << 16 {
        asked.par_iter().map_init(Row::new, |row, x| one(x, row)).collect::<Result<Vec<_>>>()?
    } else {
        let mut row = Row::new();
        asked.iter().map(|x| one(x, &mut row)).collect::<Result<Vec<_>>>()?
    }
    .into_iter();
    Ok(counts.iter().map(|(open, _, n)| next.by_ref().take(if *open { *n } else { 0 }).collect()).collect())
}

/// How many candidates a row of the width needs, so that one of them goes on: more than there are ways to end. Several tokens
/// can complete a stop string; two for each are looked past.
fn candidates(request: &Request) -> usize {
    (request.ends.len() + 1).max(2) + 2 * request.stop.len()
}

/// The `n` largest logits, largest first, lower ids first among equals; −∞ is none of them.
fn best(logits: &[f32], n: usize) -> Vec<u32> {
    let mut top: Vec<u32> = Vec::with_capacity(n + 1);
    let mut floor = f32::NEG_INFINITY;
    for (c, chunk) in logits.chunks(64).enumerate() {
        let high = chunk.iter().fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a });
        if high <= floor || high.is_nan() {
            continue;
        }
        for (i, &x) in chunk.iter().enumerate() {
            if x <= floor || x.is_nan() {
                continue;
            }
            let at = top.partition_point(|t| logits[*t as usize] >= x);
            top.insert(at, (c * 64 + i) as u32);
            top.truncate(n);
            if top.len() == n {
                floor = top.last().map_or(floor, |t| logits[*t as usize]);
            }
        }
    }
    top
}

/// One way to go on from a running continuation.
struct Candidate {
    from: usize,
    next: Next,
    total: f64,
    /// `total`, less what the groups before make it cost
    rank: f64,
}

impl Lane {
    /// One token further: `len` tokens have been said.
    fn step(
        &mut self,
        view: &View,
        request: &Request,
        how: &Beam,
        len: usize,
        after: &[Vec<Next>],
        said: &mut BTreeMap<u32, usize>,
        mut tree: Option<&mut Tree>,
    ) -> Result<()> {
        let candidates = self.candidates(after, how, said, candidates(request) * self.width);
        let full = how.full(self.width);
        let mut running = vec![];
        let mut finished = vec![];
        let is_last = len + 1 == request.max_tokens;
        for (rank, candidate) in candidates.into_iter().enumerate() {
            let from = &self.running[candidate.from];
            let is_end = request.ends.contains(&candidate.next.id);
            let mut text = from.text.clone();
            let (_, stopped) = say(&mut text, candidate.next.id, is_end, is_last || is_end)?;
            let ends = is_end || stopped || is_last;
            let mut covered = from.covered.clone();
            if how.coverage.is_some() {
                let weights = view.source(from.row);
                covered.resize(weights.len().max(covered.len()), 0.0);
                covered.iter_mut().zip(weights).for_each(|(c, w)| *c += w);
            }
            let mut score = how.length.divided(candidate.total, len + 1);
            let source = &covered[..request.source.as_ref().map_or(0, Vec::len).min(covered.len())];
            score += how.coverage.map_or(0.0, |beta| beta * source.iter().map(|c| coverage(*c)).sum::<f64>());
            // Of those that end only the best `width` count: the others stand in for them among the running.
            let fate = match (ends, rank < self.width, running.len() < self.width) {
                (true, true, _) => Fate::Finished { score },
                (false, _, true) => Fate::Kept,
                _ => Fate::Pruned,
            };
            let node = tree.as_mut().map(|tree| {
                let Candidate { next, total, .. } = candidate;
                let parent = from.node;
                tree.add(Node { step: len, parent, id: next.id, logprob: next.raw, total, fate, text: None })
            });
            if fate == Fate::Pruned {
                continue;
            }
            let mut ids = Vec::with_capacity(request.max_tokens);
            ids.extend_from_slice(&from.ids);
            ids.push(candidate.next.id);
            let mut logprobs = from.logprobs.clone();
            logprobs.push(candidate.next.raw);
            if fate == Fate::Kept {
                running.push(Hypothesis { ids, logprobs, total: candidate.total, row: from.row, covered, node, text });
            } else {
                let end = match (is_end, stopped) {
                    (true, _) => End::Token,
                    (_, true) => End::Text,
                    _ => End::Length,
                };
                let text = text.map(|t| t.text().to_string());
                finished.push(Sequence { ids, score, logprobs, end, text });
            }
        }
        // Stable: what finished before stands first among equals.
        self.finished.append(&mut finished);
        self.finished.sort_by(|a, b| b.score.total_cmp(&a.score));
        self.finished.truncate(full);
        running.iter().for_each(|h| *said.entry(h.ids[len]).or_insert(0) += 1);
        self.running = running;
        self.open = self.goes_on(how, len + 1, request.max_tokens, full);
        Ok(())
    }

    /// The best ways to go on, of all running continuations.
    fn candidates(&self, after: &[Vec<Next>], how: &Beam, said: &BTreeMap<u32, usize>, n: usize) -> Vec<Candidate> {
        let price = |id: u32| how.diversity * said.get(&id).copied().unwrap_or(0) as f64;
        let mut all: Vec<Candidate> = vec![];
        for (from, (hypothesis, after)) in self.running.iter().zip(after).enumerate() {
            for next in after {
                // Summed in f32, as transformers does: the same rounding gives the same order and the same scores.
                let total = (hypothesis.total as f32 + next.value) as f64;
                all.push(Candidate { from, next: *next, total, rank: total - price(next.id) });
            }
        }
        all.sort_by(|a, b| b.rank.total_cmp(&a.rank).then(a.from.cmp(&b.from)).then(a.next.id.cmp(&b.next.id)));
        all.truncate(n);
        all
    }

    fn goes_on(&self, how: &Beam, said: usize, max: usize, full: usize) -> bool {
        let Some(best) = self.running.first() else { return false };
        if self.finished.len() < full {
            return true;
        }
        let len = match how.early {
            EarlyStopping::Full => return false,
            EarlyStopping::Certain if how.length.favours_long() => max,
            _ => said,
        };
        let worst = self.finished.last().map_or(f64::NEG_INFINITY, |s| s.score);
        how.length.divided(best.total, len) > worst
    }
}

/// ln min(how much a source token was looked at, 1); one that never was costs much, but not everything.
fn coverage(looked: f32) -> f64 {
    (looked as f64).clamp(1e-9, 1.0).ln()
}

#[cfg(test)]
mod tests {
    use super::super::Search;
    use super::super::fake::{Fake, request, run};
    use super::*;
    use proptest::prelude::*;

    fn go(seed: u64, prompts: &[Vec<u32>], chain: &str, ends: &[u32], max: usize, how: &Beam) -> Vec<Vec<Sequence>> {
        let like = request(&[], chain, ends, max, Search::Beam(how.clone()));
        run(Fake::drawn(11, seed), prompts, &like).into_iter().map(|f| f.sequences).collect()
    }

    /// All texts of three tokens over four, scored one by one: a beam as wide as all of them finds the best, in order.
    #[test]
    fn a_beam_wide_enough_is_an_exhaustive_search() {
        let prompts = [vec![3]];
        let net = Fake::drawn(4, 8);
        let step = |last: u32, id: u32| {
            let row = &net.table[last as usize];
            row[id as usize] as f64 - log_sum(row)
        };
        let mut all: Vec<(f64, Vec<u32>)> = (0..64u32)
            .map(|i| vec![i / 16, i / 4 % 4, i % 4])
            .map(|t| (step(3, t[0]) + step(t[0], t[1]) + step(t[1], t[2]), t))
            .collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        let how = Beam { n_best: 5, length: LengthPenalty::Power(0.0), ..Beam::new(64) };
        let found = run(Fake::drawn(4, 8), &prompts, &request(&[], "", &[], 3, Search::Beam(how)));
        for (found, want) in found[0].sequences.iter().zip(&all) {
            assert_eq!(found.ids, want.1);
            assert!((found.score - want.0).abs() < 1e-5);
        }
    }

    #[test]
    fn length_penalties_by_hand() {
        assert_eq!(LengthPenalty::Power(1.0).divided(-6.0, 3), -2.0);
        assert_eq!(LengthPenalty::Wu(1.0).divided(-6.0, 7), -3.0); // (5 + 7)/6 = 2
        assert_eq!(LengthPenalty::Power(0.0).divided(-6.0, 3), -6.0);
        assert_eq!((coverage(2.0), coverage(0.5)), (0.0, 0.5f64.ln()));
    }

    #[test]
    fn constraints_hold() {
        let prompts = [vec![3]];
        let starts = Beam { constraint: Some(Constraint::Starts(vec![9, 0, 9])), ..Beam::new(3) };
        let found = go(1, &prompts, "", &[2], 6, &starts);
        assert_eq!(found[0][0].ids[..3], [9, 0, 9]);
        let texts = vec![vec![5, 2], vec![5, 6, 2], vec![8, 2]];
        let one_of = Beam { constraint: Some(Constraint::OneOf(texts.clone())), n_best: 3, ..Beam::new(3) };
        let found = go(1, &prompts, "", &[2], 6, &one_of);
        assert_eq!(found[0].len(), 3);
        assert!(found[0].iter().all(|s| texts.contains(&s.ids)));
    }

    #[test]
    fn groups_differ() {
        let prompts = [vec![3]];
        let how = Beam { groups: 2, n_best: 4, diversity: 50.0, early: EarlyStopping::Full, ..Beam::new(4) };
        let found = go(3, &prompts, "", &[2], 6, &how);
        let first: std::collections::BTreeSet<u32> = found[0].iter().map(|s| s.ids[0]).collect();
        assert!(first.len() >= 2, "the second group was made to say something else: {found:?}");
        assert!(found[0].iter().all(|s| (s.score - s.logprob() / s.ids.len() as f64).abs() < 1e-5));
    }

    #[test]
    fn the_chain_forbids_in_a_beam_too() {
        let prompts = [vec![3]];
        for s in
            &go(5, &prompts, "min_new_tokens 4, no_repeat_ngram 1", &[2], 8, &Beam { n_best: 4, ..Beam::new(4) })[0]
        {
            let mut ids = s.ids.clone();
            ids.sort_unstable();
            ids.dedup();
            assert!(ids.len() == s.ids.len() && s.ids.len() > 4, "{:?}", s.ids);
        }
    }

    #[test]
    fn refusals() {
        let no = |how: Beam| {
            let request = request(&[3], "", &[], 4, Search::Beam(how));
            Fake::drawn(11, 1).engine().admit(request).unwrap_err().to_string()
        };
        let what = "coverage: nothing is known of what the model looks at";
        assert_eq!(no(Beam { coverage: Some(1.0), ..Beam::new(4) }), what);
        assert_eq!(no(Beam::new(0)), "beam: the width is 0");
        assert_eq!(no(Beam { n_best: 5, ..Beam::new(4) }), "n-best: 5 sequences are asked of a beam of width 4");
        assert_eq!(no(Beam { groups: 3, ..Beam::new(4) }), "diverse groups: 3 groups cannot share a width of 4");
        assert_eq!(no(Beam { length: LengthPenalty::Power(f64::NAN), ..Beam::new(4) }), "length penalty: is NaN");
        assert_eq!(no(Beam { coverage: Some(-1.0), ..Beam::new(4) }), "coverage: is -1");
        assert!(no(Beam { patience: 0.0, ..Beam::new(4) }).starts_with("patience: is 0"));
    }

    proptest! {
        #[test]
        fn the_best_are_a_sort(logits in prop::collection::vec(-5i32..5, 1..300), n in 1usize..20) {
            let logits: Vec<f32> = logits.iter().map(|x| if *x == -5 { f32::NEG_INFINITY } else { *x as f32 }).collect();
            let mut want: Vec<u32> = (0..logits.len() as u32).filter(|i| logits[*i as usize] > f32::NEG_INFINITY).collect();
            want.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b)));
            want.truncate(n);
            prop_assert_eq!(best(&logits, n), want);
        }

        #[test]
        fn a_beam_of_one_is_greedy_and_one_group_is_a_beam(seed in 0u64..500, max in 1usize..12) {
            let prompts = [vec![3], vec![4]];
            let want = run(Fake::drawn(11, seed), &prompts, &request(&[], "greedy", &[2], max, Search::Sample { n: 1 }));
            let found = go(seed, &prompts, "", &[2], max, &Beam { early: EarlyStopping::Full, ..Beam::new(1) });
            for (a, b) in want.iter().zip(&found) {
                prop_assert_eq!(&a.sequences[0].ids, &b[0].ids);
            }
            let plain = go(seed, &prompts, "", &[2], max, &Beam { n_best: 3, ..Beam::new(4) });
            let group = go(seed, &prompts, "", &[2], max, &Beam { n_best: 3, diversity: 9.0, ..Beam::new(4) });
            prop_assert_eq!(&plain, &group);
            for (i, prompt) in prompts.iter().enumerate() {
                let single = go(seed, std::slice::from_ref(prompt), "", &[2], max, &Beam { n_best: 3, ..Beam::new(4) });
                prop_assert_eq!(&single[0], &plain[i]);
            }
            for sequences in &plain {
                prop_assert!(sequences.windows(2).all(|w| w[0].score >= w[1].score && w[0].ids != w[1].ids));
            }
        }

        #[test]
        fn the_tree_holds_every_sequence(seed in 0u64..50) {
            let prompts = [vec![3]];
            let how = Beam { n_best: 4, ..Beam::new(4) };
            let like = Request { trace: Some(0), ..request(&[], "", &[2], 6, Search::Beam(how)) };
            let found = run(Fake::drawn(11, seed), &prompts, &like);
            let Some(SearchTrace::Beam(tree)) = &found[0].trace else { panic!("traced") };
            let paths: Vec<Vec<u32>> = tree.finished().into_iter().map(|i| tree.path(i)).collect();
            for s in &found[0].sequences {
                prop_assert!(paths.contains(&s.ids));
            }
        }
    }
}
