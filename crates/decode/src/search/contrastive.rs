//! Contrastive search (Su et al. 2022): of the k most probable tokens, the one that is probable and whose state is unlike all
//! states before, so that the text does not run in circles:
//!
//! `(1 − α)·p(token) − α·max over earlier tokens of cos(h(token), h(earlier))`
//!
//! α = 0 is greedy. The k candidates are k rows of one batch: their states and the logits behind them come from one pass, and
//! the winner's row becomes all of them.

use super::sample::say;
use super::{Chosen, Next, Sequence, View, logprob};
use crate::Row;
use crate::engine::Request;
use crate::stop::End;
use crate::text::RowText;
use qkv_base::{Error, Key, Result};

/// How contrastive search weighs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrastive {
    /// how many of the most probable tokens are looked at
    pub k: usize,
    /// how much being unlike counts, 0 to 1
    pub alpha: f64,
}

impl Contrastive {
    /// Refuses what cannot be searched.
    pub fn check(&self) -> Result<()> {
        if self.k == 0 || !(0.0..=1.0).contains(&self.alpha) {
            let what = format!("k is {} and α is {}", self.k, self.alpha);
            return Err(Error::new("contrastive", what, "k must be at least 1, and α from 0 to 1, such as 4 and 0.6"));
        }
        if self.k > MOST {
            let what = format!("{} candidates would each be computed at every step", self.k);
            return Err(Error::new("contrastive", what, "use at most 4096; 4 to 10 are usual"));
        }
        Ok(())
    }
}

/// The most candidates: each has its own place in the cache.
const MOST: usize = 4096;

/// A contrastive search under way.
#[derive(Debug)]
pub(crate) struct Contrasting {
    sequence: Sequence,
    /// of the prompt and of every token chosen
    states: Vec<Vec<f32>>,
    candidates: Vec<Candidate>,
    row: Row,
    text: Option<RowText>,
}

/// One of the k, whose row has been computed when it is compared.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: u32,
    probability: f64,
    logprob: f32,
}

impl Contrasting {
    pub(crate) fn new(text: Option<RowText>) -> Self {
        Self { sequence: Sequence::new(), states: vec![], candidates: vec![], row: Row::new(), text }
    }

    /// The states of some tokens of the prompt, `[T · C]`.
    pub(crate) fn read(&mut self, states: &[f32], width: usize) {
        self.states.extend(states.chunks_exact(width.max(1)).map(<[f32]>::to_vec));
    }

    pub(crate) fn advance(
        &mut self,
        request: &Request,
        how: &Contrastive,
        view: &View,
        chosen: &mut Vec<Chosen>,
    ) -> Result<Next> {
        // The row from which it goes on: the prompt's, or the winner's.
        let at = match self.candidates.is_empty() {
            true => 0,
            false => {
                let at = self.winner(how, view);
                if !self.choose(request, at, chosen)? {
                    return Ok(Next::Done);
                }
                self.states.push(view.hidden(at).to_vec());
                at
            }
        };
        self.propose(request, how, view.logits(at))?;
        if how.k == 1 {
            // Nothing to compare: the only candidate is the winner.
            let goes_on = self.choose(request, 0, chosen)?;
            let tokens = vec![self.candidates[0].id];
            self.candidates.clear();
            return Ok(if goes_on { Next::Rows { from: vec![at], tokens } } else { Next::Done });
        }
        let tokens = self.candidates.iter().map(|c| c.id).collect();
        Ok(Next::Rows { from: vec![at; self.candidates.len()], tokens })
    }

    /// The k most probable tokens; the chain may leave fewer.
    fn propose(&mut self, request: &Request, how: &Contrastive, logits: &[f32]) -> Result<()> {
        self.row.fill(logits)?;
        let key = Key::new(request.seed, self.sequence.ids.len() as u64, request.number);
        request.chain.apply(&mut self.row, &request.history(&self.sequence.ids, key))?;
        let scale = self.row.scale();
        let ids = self.row.ranked(how.k).to_vec();
        let candidate =
            |id| Candidate { id, probability: scale.probability(self.row.logit(id)), logprob: logprob(logits, id) };
        self.candidates = ids.into_iter().map(candidate).collect();
        Ok(())
    }

    fn winner(&self, how: &Contrastive, view: &View) -> usize {
        let like = |i: usize| self.states.iter().map(|s| cosine(s, view.hidden(i))).fold(f64::NEG_INFINITY, f64::max);
        let value = |i: usize| (1.0 - how.alpha) * self.candidates[i].probability - how.alpha * like(i).max(-1.0);
        let values: Vec<f64> = (0..self.candidates.len()).map(value).collect();
        (0..values.len()).reduce(|a, b| if values[b] > values[a] { b } else { a }).unwrap_or(0)
    }

    /// Says a candidate; whether it goes on.
    fn choose(&mut self, request: &Request, at: usize, chosen: &mut Vec<Chosen>) -> Result<bool> {
        let Candidate { id, logprob, .. } = self.candidates[at];
        self.sequence.push(id, logprob);
        let is_end = request.ends.contains(&id);
        let is_last = is_end || self.sequence.ids.len() == request.max_tokens;
        let (text, stopped) = say(&mut self.text, id, is_end, is_last)?;
        self.sequence.end = match (is_end, stopped) {
            (true, _) => End::Token,
            (false, true) => End::Text,
            _ => End::Length,
        };
        // Its candidates are the most probable tokens: there are no others to tell of.
        let mut top: Vec<(u32, f32)> = self.candidates.iter().map(|c| (c.id, c.logprob)).collect();
        top.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        top.truncate(request.top_logprobs);
        chosen.push(Chosen { number: 0, id, logprob, text, is_end, top });
        Ok(!is_last && !stopped)
    }

    pub(crate) fn stop(&mut self) -> Vec<usize> {
        self.sequence.end = End::Stopped;
        vec![]
    }

    pub(crate) fn finish(mut self) -> Result<Sequence> {
        if let (End::Stopped, Some(text)) = (self.sequence.end, &mut self.text) {
            text.finish()?;
        }
        Ok(Sequence { text: self.text.map(|t| t.text().to_string()), ..self.sequence })
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| *a as f64 * *b as f64).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-12)
}

#[cfg(test)]
mod tests {
    use super::super::Search;
    use super::super::fake::{Fake, request, run};
    use super::*;

    fn go(how: Contrastive, max: usize) -> Vec<u32> {
        let like = request(&[], "", &[], max, Search::Contrastive(how));
        run(Fake::drawn(20, 4), &[vec![3]], &like)[0].sequences[0].ids.clone()
    }

    #[test]
    fn alpha_0_and_k_1_are_greedy_and_alpha_1_avoids_what_was_said() {
        let greedy = request(&[], "greedy", &[], 9, Search::Sample { n: 1 });
        let want = run(Fake::drawn(20, 4), &[vec![3]], &greedy)[0].sequences[0].ids.clone();
        assert_eq!(go(Contrastive { k: 5, alpha: 0.0 }, 9), want);
        assert_eq!(go(Contrastive { k: 1, alpha: 0.6 }, 9), want);
        let ids = go(Contrastive { k: 5, alpha: 1.0 }, 9);
        assert!(ids.windows(2).all(|w| w[0] != w[1]), "the state of the same token is the same: {ids:?}");
    }

    #[test]
    fn cosines_by_hand() {
        assert_eq!(cosine(&[1.0, 0.0], &[3.0, 0.0]), 1.0);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
    }

    #[test]
    fn refusals() {
        let no = |k, alpha| {
            let request = request(&[3], "", &[], 2, Search::Contrastive(Contrastive { k, alpha }));
            Fake::drawn(20, 4).engine().admit(request).unwrap_err().to_string()
        };
        assert_eq!(no(0, 0.5), "contrastive: k is 0 and α is 0.5");
        assert_eq!(no(4, f64::NAN), "contrastive: k is 4 and α is NaN");
    }
}
