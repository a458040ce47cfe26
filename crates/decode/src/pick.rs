//! The last word: which of the tokens that are left is said.
//!
//! *Greedy* takes the most probable, the lowest id among equals. *Random* draws by the inverse of the distribution function:
//! with u uniform in [0, 1), the first token in the order of ids whose running sum of weights exceeds u · Σ. *Mirostat*
//! (Basu et al. 2021) draws from a list that it shortens or lengthens so that the surprise −log₂ p of what it says stays near
//! a target τ: after each token µ ← µ − η · (surprise − τ), from µ = 2τ on. Version 1 turns µ into a top-k by a fit of Zipf's law
//! to the 100 best tokens, version 2 drops what has a surprise above µ. Both as in llama.cpp, which measures the surprise in the
//! shortened list. The state µ is handed in and out; nothing is kept here.

use std::fmt::{self, Display};

use qkv_base::{Error, Key, Result};
use serde::{Deserialize, Serialize};

use crate::row::Row;
use crate::transform::{Range, StepParameter, StepSheet, Value};

/// How a token is chosen from what the steps have left.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[allow(missing_docs)]
pub enum Pick {
    /// the most probable token
    Greedy,
    /// any token, by its probability
    #[default]
    Random,
    /// keeps the surprise near `tau` bits by a top-k
    Mirostat { tau: f64, eta: f64 },
    /// keeps the surprise near `tau` bits by a bound on the surprise
    Mirostat2 { tau: f64, eta: f64 },
}

/// What Mirostat remembers from token to token.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct PickState {
    /// the bound on the surprise, in bits; others than Mirostat leave it alone
    pub mu: f64,
}

/// A token that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Picked {
    /// its id
    pub id: u32,
    /// its probability among what the steps (and Mirostat) had left
    pub probability: f64,
}

const TAU: StepParameter = StepParameter {
    name: "tau",
    default: Some("5"),
    range: Range::From(0.0, f64::INFINITY),
    about: "the surprise to keep to, in bits",
};
const ETA: StepParameter =
    StepParameter { name: "eta", default: Some("0.1"), range: Range::From(0.0, 1.0), about: "how fast it follows" };

/// The sheets of all picks.
pub static PICKS: &[StepSheet] = &[
    sheet("greedy", &["argmax"], "say the most probable token", "greedy", &[]),
    sheet("random", &["sample", "dist"], "say any token, by its probability", "random", &[]),
    sheet("mirostat", &["mirostat1"], "random, keeping the surprise near tau by a top-k", "mirostat 5", &[TAU, ETA]),
    sheet(
        "mirostat2",
        &["mirostat_v2"],
        "random, keeping the surprise near tau by a bound",
        "mirostat2 5",
        &[TAU, ETA],
    ),
];

const fn sheet(
    name: &'static str,
    aliases: &'static [&'static str],
    about: &'static str,
    example: &'static str,
    parameters: &'static [StepParameter],
) -> StepSheet {
    StepSheet { name, aliases, about, off: "it ends the chain; random if none is given", example, parameters }
}

impl Pick {
    /// The pick that answers to `name`, with parameters as in `["5", "eta=0.1"]`; none if no pick does.
    pub fn named(name: &str, words: &[&str]) -> Option<Result<Self>> {
        let sheet = PICKS.iter().find(|sheet| sheet.answers(name))?;
        let pick = |values: Vec<Value>| match (sheet.name, &values[..]) {
            ("greedy", _) => Pick::Greedy,
            ("mirostat", &[Value::Number(tau), Value::Number(eta)]) => Pick::Mirostat { tau, eta },
            ("mirostat2", &[Value::Number(tau), Value::Number(eta)]) => Pick::Mirostat2 { tau, eta },
            _ => Pick::Random,
        };
        Some(sheet.read(words).map(pick))
    }

    /// The state before the first token.
    pub fn start(&self) -> PickState {
        match self {
            Pick::Mirostat { tau, .. } | Pick::Mirostat2 { tau, .. } => PickState { mu: 2.0 * tau },
            _ => PickState::default(),
        }
    }

    /// Chooses a token. The key says which die falls; the row is left as Mirostat has shortened it.
    ///
    /// ```
    /// use qkv_base::Key;
    /// use qkv_decode::{Pick, Row};
    /// let mut row = Row::of(&[0.5, 2.0, 2.0]).unwrap();
    /// let (picked, _) = Pick::Greedy.choose(&mut row, Key::new(1, 0, 0), Pick::Greedy.start()).unwrap();
    /// assert_eq!(picked.id, 1);
    /// ```
    pub fn choose(&self, row: &mut Row, key: Key, state: PickState) -> Result<(Picked, PickState)> {
        match *self {
            Pick::Greedy => {
                let id = row.best().ok_or_else(nothing_left)?;
                let scale = row.scale();
                Ok((Picked { id, probability: scale.probability(row.logit(id)) }, state))
            }
            Pick::Random => Ok((draw(row, key)?, state)),
            Pick::Mirostat { tau, eta } => {
                let k = zipf_k(row, state.mu);
                row.keep_best(k);
                surprise(row, key, state, tau, eta)
            }
            Pick::Mirostat2 { tau, eta } => {
                let (best, scale) = (row.best(), row.scale());
                row.keep(|id, x| Some(id) == best || -scale.log_probability(x) / std::f64::consts::LN_2 <= state.mu);
                surprise(row, key, state, tau, eta)
            }
        }
    }

    /// The sheet and the values.
    fn stated(&self) -> (&'static StepSheet, Vec<Value>) {
        let (i, values) = match *self {
            Pick::Greedy => (0, vec![]),
            Pick::Random => (1, vec![]),
            Pick::Mirostat { tau, eta } => (2, vec![Value::Number(tau), Value::Number(eta)]),
            Pick::Mirostat2 { tau, eta } => (3, vec![Value::Number(tau), Value::Number(eta)]),
        };
        (&PICKS[i], values)
    }

    /// Its sheet.
    pub fn sheet(&self) -> &'static StepSheet {
        self.stated().0
    }
}

impl Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sheet, values) = self.stated();
        f.write_str(&sheet.write(&values))
    }
}

/// Draws by the inverse of the distribution function, in f64 and in the order of ids.
fn draw(row: &mut Row, key: Key) -> Result<Picked> {
    let (ids, weights, total) = row.weights();
    // 53 random bits: as fine as f64 has below 1.
    let bits = (key.word(0) as u64) << 21 | (key.word(1) >> 11) as u64;
    let goal = bits as f64 / (1u64 << 53) as f64 * total;
    let mut sum = 0.0;
    let mut last = None;
    for (id, weight) in ids.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
        sum += *weight as f64;
        last = Some(Picked { id: *id, probability: *weight as f64 / total });
        if sum > goal {
            break;
        }
    }
    // The total was summed in another order: where the two differ in the last bit, the last token is meant.
    last.ok_or_else(nothing_left)
}

/// Draws and moves µ by the surprise.
fn surprise(row: &mut Row, key: Key, state: PickState, tau: f64, eta: f64) -> Result<(Picked, PickState)> {
    let picked = draw(row, key)?;
    Ok((picked, PickState { mu: state.mu - eta * (-picked.probability.log2() - tau) }))
}

/// Mirostat 1's list length: a Zipf exponent s fitted to the best tokens, then k = (ε·2^µ / (1 − V^−ε))^(1/s), ε = s − 1.
fn zipf_k(row: &mut Row, mu: f64) -> usize {
    let (vocabulary, alive) = (row.vocabulary() as f64, row.alive().len());
    let (mut products, mut squares) = (0.0, 0.0);
    for i in 1..alive.min(100) {
        let t = ((i + 1) as f64 / i as f64).ln();
        products += t * (row.at(i - 1) - row.at(i)) as f64; // ln of the quotient of the probabilities
        squares += t * t;
    }
    if squares == 0.0 {
        return 1; // one token is left
    }
    let s = products / squares;
    let epsilon = s - 1.0;
    // At ε = 0 the quotient ε / (1 − V^−ε) tends to 1 / ln V.
    let quotient =
        if epsilon.abs() < 1e-9 { 1.0 / vocabulary.ln() } else { epsilon / (1.0 - vocabulary.powf(-epsilon)) };
    let k = (quotient * mu.exp2()).powf(1.0 / s);
    (k as usize).clamp(1, alive) // a NaN casts to 0
}

fn nothing_left() -> Error {
    Error::new("pick", "no token is left to choose from", "loosen the steps that forbid tokens")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: f32 = f32::NEG_INFINITY;

    fn logits(p: &[f64]) -> Vec<f32> {
        p.iter().map(|p| p.ln() as f32).collect()
    }

    #[test]
    fn greedy_takes_the_lowest_of_equals() {
        let mut row = Row::of(&[NO, 1.0, 3.0, 3.0]).unwrap();
        let (picked, _) = Pick::Greedy.choose(&mut row, Key::new(1, 0, 0), PickState::default()).unwrap();
        assert_eq!(picked.id, 2);
        assert!((picked.probability - 1.0 / (2.0 + (-2f64).exp())).abs() < 1e-6);
    }

    /// Σ (seen − expected)² / expected over 5 tokens has 4 degrees of freedom: above 18.47 once in a thousand.
    #[test]
    fn drawing_follows_the_distribution() {
        let p = [0.05, 0.1, 0.0, 0.2, 0.25, 0.4];
        let mut row = Row::of(&logits(&p)).unwrap();
        let (n, mut seen) = (20_000, [0usize; 6]);
        for step in 0..n {
            let (picked, _) = Pick::Random.choose(&mut row, Key::new(7, step, 0), PickState::default()).unwrap();
            assert!((picked.probability - p[picked.id as usize]).abs() < 1e-6);
            seen[picked.id as usize] += 1;
        }
        let square = |(seen, p): (&usize, &f64)| (*seen as f64 - p * n as f64).powi(2) / (p * n as f64);
        let chi: f64 = seen.iter().zip(&p).filter(|(_, p)| **p > 0.0).map(square).sum();
        assert_eq!(seen[2], 0);
        assert!(chi < 18.47, "χ² = {chi}, {seen:?}");
    }

    #[test]
    fn the_same_key_draws_the_same_token() {
        let draw =
            |key| Pick::Random.choose(&mut Row::of(&[0.0; 50]).unwrap(), key, PickState::default()).unwrap().0.id;
        assert!((0..50).all(|i| draw(Key::new(3, i, 0)) == draw(Key::new(3, i, 0))));
        assert!((1..50).any(|i| draw(Key::new(3, i, 0)) != draw(Key::new(3, 0, 0))));
    }

    /// Surprises 1, 2, 3, 3 bits; µ = 2.5 drops the last two, and the two left have p = 2/3 and 1/3.
    #[test]
    fn mirostat_2_by_hand() {
        let pick = Pick::Mirostat2 { tau: 1.0, eta: 0.5 };
        assert_eq!(pick.start().mu, 2.0);
        let mut row = Row::of(&logits(&[0.125, 0.5, 0.125, 0.25])).unwrap();
        let (picked, after) = pick.choose(&mut row, Key::new(1, 0, 0), PickState { mu: 2.5 }).unwrap();
        assert_eq!(row.alive(), [1, 3]);
        let p = if picked.id == 1 { 2.0 / 3.0 } else { 1.0 / 3.0f64 };
        assert!((picked.probability - p).abs() < 1e-6 && (after.mu - (2.5 - 0.5 * (-p.log2() - 1.0))).abs() < 1e-6);
        // A bound below every surprise leaves the best.
        let mut row = Row::of(&logits(&[0.125, 0.5, 0.125, 0.25])).unwrap();
        assert_eq!(pick.choose(&mut row, Key::new(1, 0, 0), PickState { mu: 0.1 }).unwrap().0.id, 1);
    }

    /// Zipf's law with s = 2 exactly: p ∝ 1/i², so ε = 1 and k = √(2^µ / (1 − 1/V)).
    #[test]
    fn mirostat_1_by_hand() {
        let x: Vec<f32> = (1..=50).map(|i| -2.0 * (i as f32).ln()).collect();
        for (mu, k) in [(4.0, 4), (6.0, 8), (0.0, 1), (-9.0, 1), (40.0, 50)] {
            assert_eq!(zipf_k(&mut Row::of(&x).unwrap(), mu), k, "µ = {mu}");
        }
        for odd in [&[1.0f32][..], &[2.0; 9], &[0.0, -1e30], &[NO, 3.0, NO]] {
            let mut row = Row::of(odd).unwrap();
            let pick = Pick::Mirostat { tau: 3.0, eta: 0.1 };
            let (picked, after) = pick.choose(&mut row, Key::new(1, 2, 3), pick.start()).unwrap();
            assert!(picked.probability > 0.0 && after.mu.is_finite(), "{odd:?}");
        }
    }

    /// On a flat long tail both keep the mean surprise near the target.
    #[test]
    fn mirostat_keeps_to_its_target() {
        let x: Vec<f32> = (1..=2000).map(|i| -1.1 * (i as f32).ln()).collect();
        for pick in [Pick::Mirostat { tau: 4.0, eta: 0.1 }, Pick::Mirostat2 { tau: 4.0, eta: 0.1 }] {
            let (mut state, mut sum, n) = (pick.start(), 0.0, 1500);
            for step in 0..n {
                let (picked, after) = pick.choose(&mut Row::of(&x).unwrap(), Key::new(2, step, 0), state).unwrap();
                (state, sum) = (after, sum - picked.probability.log2());
            }
            assert!((sum / n as f64 - 4.0).abs() < 0.1, "{pick}: {}", sum / n as f64);
        }
    }

    #[test]
    fn an_emptied_row_is_an_error() {
        for pick in
            [Pick::Greedy, Pick::Random, Pick::Mirostat { tau: 5.0, eta: 0.1 }, Pick::Mirostat2 { tau: 5.0, eta: 0.1 }]
        {
            let mut row = Row::of(&[1.0]).unwrap();
            row.forbid([0]);
            assert_eq!(pick.choose(&mut row, Key::new(1, 0, 0), pick.start()).unwrap_err(), nothing_left());
        }
    }

    #[test]
    fn picks_read_what_they_write() {
        for text in ["greedy", "random", "mirostat 5", "mirostat2 3 eta=0.2"] {
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(Pick::named(words[0], &words[1..]).unwrap().unwrap().to_string(), text);
        }
        assert!(Pick::named("greedy", &["1"]).unwrap().is_err() && Pick::named("mirostat", &["-1"]).unwrap().is_err());
    }
}
