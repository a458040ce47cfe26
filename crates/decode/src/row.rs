//! One row of logits over the vocabulary, and which of its tokens are still possible.
//!
//! A token is possible while its logit is above −∞. The row keeps the ids of the possible ones beside the logits, so that
//! whatever follows `top_k 40` looks at 40 tokens and not at 50,000. All buffers are reused from row to row: after the first
//! row of a vocabulary nothing is allocated. Every order is fixed: better logit first, lower id first among equals.

use qkv_base::{Error, Result};

/// Logits over a vocabulary of V tokens, with the scratch space the transforms need.
///
/// ```
/// use qkv_decode::Row;
/// let mut row = Row::of(&[0.0, 2.0, f32::NEG_INFINITY, 1.0]).unwrap();
/// assert_eq!(row.alive(), [0, 1, 3]);
/// assert_eq!(row.ranked(2), [1, 3]);
/// row.keep(|_, logit| logit > 0.5);
/// assert_eq!(row.alive(), [1, 3]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Row {
    logits: Vec<f32>,
    /// ids of the possible tokens, ascending
    alive: Vec<u32>,
    /// sort keys of the possible tokens, the first `sorted` of them in their final place
    keys: Vec<u64>,
    sorted: usize,
    /// the ids of `keys[..sorted]`
    order: Vec<u32>,
    /// e^(logit − best) beside `alive`
    weights: Vec<f32>,
    /// one counter a token, all zero between calls
    counts: Vec<u32>,
    /// for steps that look back over what was said
    pub(crate) scratch: Vec<u32>,
}

impl Row {
    /// An empty row, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// A row with these logits.
    pub fn of(logits: &[f32]) -> Result<Self> {
        let mut row = Self::new();
        row.fill(logits)?;
        Ok(row)
    }

    /// Takes the logits of the next position. This is the door: no NaN and no +∞ passes, and one token must be possible.
    pub fn fill(&mut self, logits: &[f32]) -> Result<()> {
        if let Some(id) = logits.iter().position(|x| x.is_nan() || *x == f32::INFINITY) {
            return Err(Error::new(
                format!("logits, token {id}"),
                format!("the model gave {}", logits[id]),
                "the weights are damaged or overflow: look at them with `qkv inspect`, or run in f32",
            ));
        }
        self.logits.clear();
        self.logits.extend_from_slice(logits);
        self.counts.resize(logits.len(), 0);
        self.alive.clear();
        self.alive.extend((0u32..).zip(logits).filter(|(_, x)| **x > f32::NEG_INFINITY).map(|(id, _)| id));
        self.sorted = 0;
        if self.alive.is_empty() {
            return Err(Error::new(
                "logits",
                format!("none of the {} tokens is possible: every logit is −∞", logits.len()),
                "the model masks out its whole vocabulary; look at its final bias",
            ));
        }
        Ok(())
    }

    /// All logits; −∞ where a token was taken out.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// The size of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.logits.len()
    }

    /// The ids of the tokens that are still possible, ascending.
    pub fn alive(&self) -> &[u32] {
        &self.alive
    }

    /// The logit of a token; −∞ for an id outside the vocabulary.
    pub fn logit(&self, id: u32) -> f32 {
        self.logits.get(id as usize).copied().unwrap_or(f32::NEG_INFINITY)
    }

    /// The most probable token, the lowest id among equals.
    pub fn best(&self) -> Option<u32> {
        let better = |a: u32, b: u32| if self.logits[b as usize] > self.logits[a as usize] { b } else { a };
        self.alive.iter().copied().reduce(better)
    }

    /// The highest logit; −∞ when no token is possible.
    pub fn highest(&self) -> f32 {
        self.alive.iter().fold(f32::NEG_INFINITY, |high, id| high.max(self.logits[*id as usize]))
    }

    /// Gives every possible token a new logit. What becomes −∞ (or, by a broken formula, NaN) is possible no longer.
    pub fn change(&mut self, mut f: impl FnMut(u32, f32) -> f32) {
        self.sorted = 0;
        let logits = &mut self.logits;
        self.alive.retain(|&id| {
            let x = &mut logits[id as usize];
            *x = f(id, *x);
            if *x == f32::INFINITY {
                *x = f32::MAX; // as likely as can be said: +∞ would leave no probabilities
            }
            let possible = *x > f32::NEG_INFINITY;
            if !possible {
                *x = f32::NEG_INFINITY;
            }
            possible
        });
    }

    /// Takes out every token for which `stays(id, logit)` is false.
    pub fn keep(&mut self, mut stays: impl FnMut(u32, f32) -> bool) {
        self.change(|id, x| if stays(id, x) { x } else { f32::NEG_INFINITY });
    }

    /// Takes out the tokens that `ids` names; ids outside the vocabulary are nobody.
    pub fn forbid(&mut self, ids: impl IntoIterator<Item = u32>) {
        for id in ids {
            self.set(id, f32::NEG_INFINITY);
        }
        self.sweep();
    }

    /// Adds a bias to the logit of each of these tokens that is possible.
    pub fn shift(&mut self, biases: impl IntoIterator<Item = (u32, f32)>) {
        for (id, bias) in biases {
            self.set(id, self.logit(id) + bias);
        }
        self.sweep();
    }

    /// A new logit for one token that may now be impossible: `sweep` must follow.
    fn set(&mut self, id: u32, logit: f32) {
        if let Some(x) = self.logits.get_mut(id as usize).filter(|x| **x > f32::NEG_INFINITY) {
            *x = logit;
            self.sorted = 0;
        }
    }

    /// Brings `alive` up to date after `set`.
    fn sweep(&mut self) {
        if self.sorted == 0 {
            self.change(|_, x| x);
        }
    }

    /// Leaves nothing but `ids`, each with logit 0, even those that were taken out before.
    pub fn force(&mut self, ids: &[u32]) {
        self.sorted = 0;
        self.logits.fill(f32::NEG_INFINITY);
        self.alive.clear();
        self.alive.extend(ids.iter().copied().filter(|id| (*id as usize) < self.logits.len()));
        self.alive.sort_unstable();
        self.alive.dedup();
        for id in &self.alive {
            self.logits[*id as usize] = 0.0;
        }
    }

    /// Changes the logit of each distinct possible token of `said`, once: `f(logit, how often it was said)`.
    pub fn tally(&mut self, said: impl Iterator<Item = u32> + Clone, f: impl Fn(f32, u32) -> f32) {
        self.record(said.map(|id| (id, 1)), |a, b| a + b, f);
    }

    /// Changes the logit of each distinct possible token of `notes`, once: `f(logit, its numbers merged)`; no number is 0.
    pub(crate) fn record(
        &mut self,
        notes: impl Iterator<Item = (u32, u32)> + Clone,
        merge: impl Fn(u32, u32) -> u32,
        f: impl Fn(f32, u32) -> f32,
    ) {
        for (id, note) in notes.clone() {
            if let Some(count) = self.counts.get_mut(id as usize) {
                *count = merge(*count, note);
            }
        }
        for (id, _) in notes {
            let Some(count) = self.counts.get_mut(id as usize) else { continue };
            let count = std::mem::take(count);
            if count > 0 {
                self.set(id, f(self.logits[id as usize], count));
            }
        }
        self.sweep();
    }

    /// The logit of the `n`-th best token (from 1; the last one if there are fewer), by selection, not by sorting.
    pub fn nth(&mut self, n: usize) -> f32 {
        if n <= self.sorted {
            return self.order.get(n.wrapping_sub(1)).map_or(f32::INFINITY, |id| self.logit(*id));
        }
        if n <= RUN {
            let last = self.ranked(n).last().copied();
            return last.map_or(f32::NEG_INFINITY, |id| self.logit(id));
        }
        self.sorted = 0;
        self.gather();
        let Some(last) = self.keys.len().min(n).checked_sub(1) else { return f32::NEG_INFINITY };
        let key = *self.keys.select_nth_unstable(last).1;
        self.logit(key as u32)
    }

    /// The `n` best tokens (all, if there are fewer), best first. Only as much is sorted as was ever asked for.
    pub fn ranked(&mut self, n: usize) -> &[u32] {
        if self.sorted == 0 {
            self.gather();
        }
        let n = n.min(self.keys.len());
        while self.sorted < n {
            // Grow by runs, so that a walk down the order costs a few selections and no full sort.
            let end = n.max(4 * self.sorted).max(RUN).min(self.keys.len());
            let rest = &mut self.keys[self.sorted..];
            let run = end - self.sorted;
            if run < rest.len() {
                rest.select_nth_unstable(run - 1);
            }
            rest[..run].sort_unstable();
            self.order.extend(rest[..run].iter().map(|key| *key as u32));
            self.sorted = end;
        }
        &self.order[..n]
    }

    /// Takes out all but the `n` best tokens; among equals the lower ids stay.
    pub fn keep_best(&mut self, n: usize) {
        if n >= self.alive.len() {
            return;
        }
        let Some(&last) = self.ranked(n).last() else { return self.keep(|_, _| false) };
        let floor = self.logit(last);
        self.keep(|id, x| x > floor || x == floor && id <= last);
    }

    /// The probability-like weights e^(logit − best) of the possible tokens, beside their ids, and their sum.
    pub fn weights(&mut self) -> (&[u32], &[f32], f64) {
        let high = self.highest();
        self.weights.clear();
        self.weights.extend(self.alive.iter().map(|id| (self.logits[*id as usize] - high).exp()));
        (&self.alive, &self.weights, self.weights.iter().map(|w| *w as f64).sum())
    }

    /// The best logit and Σ e^(logit − best): the probability of logit x is e^(x − best) / Σ.
    pub fn scale(&mut self) -> Scale {
        let high = self.highest();
        Scale { high, total: self.weights().2 }
    }

    /// Takes out tokens of low probability, but never the `least` best: `stays(e^(logit − best), Σ)` decides.
    pub(crate) fn cut(&mut self, least: usize, stays: impl Fn(f64, f64) -> bool) {
        let scale = self.scale();
        let floor = self.nth(least.max(1));
        self.keep(|_, x| x >= floor || stays(scale.weight(x), scale.total));
    }

    /// Shannon's entropy −Σ p ln p of the row, in nats.
    pub fn entropy(&mut self) -> f64 {
        let (_, weights, total) = self.weights();
        // −Σ p ln p with p = w/Σ is ln Σ − Σ w ln w / Σ.
        let sum: f64 = weights.iter().filter(|w| **w > 0.0).map(|w| *w as f64 * (*w as f64).ln()).sum();
        if total > 0.0 { (total.ln() - sum / total).max(0.0) } else { 0.0 }
    }

    /// Fills the keys anew: ascending keys are descending logits, lower ids first among equals.
    fn gather(&mut self) {
        let logits = &self.logits;
        self.keys.clear();
        self.keys.extend(self.alive.iter().map(|&id| ((!rising(logits[id as usize]) as u64) << 32) | id as u64));
        self.order.clear();
    }
}

/// What turns a logit into a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// the highest logit
    pub high: f32,
    /// Σ e^(logit − high)
    pub total: f64,
}

impl Scale {
    /// e^(logit − high).
    pub fn weight(&self, logit: f32) -> f64 {
        (logit - self.high).exp() as f64
    }

    /// The probability of a token with this logit.
    pub fn probability(&self, logit: f32) -> f64 {
        self.weight(logit) / self.total
    }

    /// Its natural logarithm.
    pub fn log_probability(&self, logit: f32) -> f64 {
        (logit - self.high) as f64 - self.total.ln()
    }
}

/// The first piece of the order that is sorted.
const RUN: usize = 64;

/// The bits of a float as a whole number that rises with it; −0 counts as 0.
fn rising(x: f32) -> u32 {
    let bits = (x + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NO: f32 = f32::NEG_INFINITY;

    #[test]
    fn the_door_names_what_is_wrong() {
        assert_eq!(Row::of(&[0.0, f32::NAN]).unwrap_err().to_string(), "logits, token 1: the model gave NaN");
        assert_eq!(Row::of(&[f32::INFINITY]).unwrap_err().to_string(), "logits, token 0: the model gave inf");
        for dead in [&[][..], &[NO, NO]] {
            assert!(Row::of(dead).unwrap_err().what.starts_with("none of the"));
        }
    }

    #[test]
    fn equal_logits_stand_in_the_order_of_their_ids() {
        let mut row = Row::of(&[1.0, 2.0, 0.0, 2.0, -0.0, NO]).unwrap();
        assert_eq!(row.ranked(9), [1, 3, 0, 2, 4]);
        assert_eq!(row.best(), Some(1));
        assert_eq!([row.nth(1), row.nth(2), row.nth(3), row.nth(99)], [2.0, 2.0, 1.0, 0.0]);
    }

    #[test]
    fn forced_tokens_are_the_only_ones_even_if_they_were_out() {
        let mut row = Row::of(&[1.0, NO, 3.0]).unwrap();
        row.force(&[1, 1, 77]);
        assert_eq!((row.alive(), row.logits()), (&[1][..], &[NO, 0.0, NO][..]));
        row.force(&[77]);
        assert!(row.alive().is_empty() && row.best().is_none() && row.highest() == NO);
        assert_eq!((row.nth(1), row.ranked(3).len(), row.entropy()), (NO, 0, 0.0));
    }

    #[test]
    fn a_tally_changes_each_token_once() {
        let mut row = Row::of(&[1.0, 1.0, 1.0, NO]).unwrap();
        for _ in 0..2 {
            row.tally([1, 3, 2, 1, 900].into_iter(), |x, count| x - count as f32);
        }
        assert_eq!(row.logits(), [1.0, -3.0, -1.0, NO]);
    }

    #[test]
    fn entropy_of_a_fair_die_is_ln_six() {
        assert!((Row::of(&[4.0; 6]).unwrap().entropy() - 6f64.ln()).abs() < 1e-12);
        assert_eq!(Row::of(&[4.0, NO]).unwrap().entropy(), 0.0);
        assert!(Row::of(&[0.0, -200.0]).unwrap().entropy() < 1e-12);
    }

    #[test]
    fn a_change_that_breaks_takes_the_token_out() {
        let mut row = Row::of(&[1.0, 2.0]).unwrap();
        row.change(|id, x| if id == 0 { f32::NAN } else { x });
        assert_eq!((row.alive(), row.logits()), (&[1][..], &[NO, 2.0][..]));
    }

    proptest! {
        #[test]
        fn ranked_is_a_sort(logits in prop::collection::vec(-3i32..3, 1..300), asks in prop::collection::vec(1usize..310, 1..5)) {
            let logits: Vec<f32> = logits.iter().map(|x| if *x == -3 { NO } else { *x as f32 / 3.0 }).collect();
            prop_assume!(logits.iter().any(|x| *x > NO));
            let mut want: Vec<u32> = (0..logits.len() as u32).filter(|i| logits[*i as usize] > NO).collect();
            want.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b)));
            let mut row = Row::of(&logits).unwrap();
            for n in asks {
                let n = n.min(want.len());
                prop_assert_eq!(row.nth(n), logits[want[n - 1] as usize]);
                prop_assert_eq!(row.ranked(n), &want[..n]);
            }
        }
    }
}
