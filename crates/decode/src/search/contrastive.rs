//! Contrastive search (Su et al. 2022): of the k most probable tokens, the one that is probable and whose state is unlike all
//! states before, so that the text does not run in circles:
//!
//! `(1 − α)·p(token) − α·max over earlier tokens of cos(h(token), h(earlier))`
//!
//! α = 0 is greedy. The k candidates are k rows of one batch: their states and the logits behind them come from one pass, and
//! the winner's row becomes all of them.

use super::{Ask, Sequence, log_sum};
use crate::stop::End;
use crate::{Engine, Heard, Network, Row, Said1};
use qkv_base::{Error, Key, Result};

/// How contrastive search weighs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrastive {
    /// how many of the most probable tokens are looked at
    pub k: usize,
    /// how much being unlike counts, 0 to 1
    pub alpha: f64,
}

/// The continuation of one prompt. The engine must look at hidden states.
pub fn contrastive(engine: &mut Engine, ask: &Ask, how: &Contrastive, heard: Heard) -> Result<Sequence> {
    let states: Vec<Vec<f32>> = engine.prompt_states(0).map(<[f32]>::to_vec).collect();
    go(engine, states, ask, how, heard)
}

fn go(
    net: &mut dyn Network,
    mut states: Vec<Vec<f32>>,
    ask: &Ask,
    how: &Contrastive,
    heard: Heard,
) -> Result<Sequence> {
    ask.check(net)?;
    if how.k == 0 || !(0.0..=1.0).contains(&how.alpha) {
        let what = format!("k is {} and α is {}", how.k, how.alpha);
        return Err(Error::new("contrastive", what, "k must be at least 1, and α from 0 to 1, such as 4 and 0.6"));
    }
    if net.rows() != 1 || net.seen(0).is_empty() {
        let what = "it looks at the states of one prompt at a time";
        return Err(Error::new("contrastive", what, "give one prompt, to an engine that looks at hidden states"));
    }
    let mut said = Sequence { ids: vec![], score: 0.0, logprobs: vec![], end: End::Length };
    let mut row = Row::new();
    // The row whose logits are next, and whether there are k rows yet.
    let mut at = 0;
    for step in 0..ask.max {
        let logits = net.logits(at).to_vec();
        row.fill(&logits)?;
        ask.chain.apply(&mut row, &ask.said(0, &said.ids, Key::new(ask.seed, step as u64, ask.first)))?;
        let scale = row.scale();
        let mut ids = row.ranked(how.k).to_vec();
        let probabilities: Vec<f64> = ids.iter().map(|id| scale.probability(row.logit(*id))).collect();
        // The chain may leave fewer than k: the best stands in, and changes nothing.
        let real = ids.len();
        ids.resize(how.k, ids.first().copied().unwrap_or(0));
        let last = step + 1 == ask.max;
        if how.k > 1 && (!last || net.room() > 0) {
            net.reorder(&vec![at; how.k])?;
            net.say(&ids)?;
            let unlike = |i: usize| states.iter().map(|s| cosine(s, net.seen(i))).fold(f64::NEG_INFINITY, f64::max);
            let value = |i: usize| (1.0 - how.alpha) * probabilities[i] - how.alpha * unlike(i).max(-1.0);
            at = (0..real).reduce(|a, b| if value(b) > value(a) { b } else { a }).unwrap_or(0);
        } else {
            at = 0;
        }
        let id = ids[at];
        let logprob = (logits.get(id as usize).map_or(f64::NEG_INFINITY, |x| *x as f64) - log_sum(&logits)) as f32;
        said.ids.push(id);
        said.logprobs.push(logprob);
        said.score += logprob as f64;
        let is_end = ask.ends.contains(&id);
        let goes_on = heard(Said1 { prompt: 0, number: 0, id, logprob, ids: &said.ids, is_end });
        if is_end || !goes_on {
            said.end = if is_end { End::Token } else { End::Stopped };
            break;
        }
        if how.k == 1 && !last {
            net.say(&[id])?;
        }
        states.push(net.seen(at).to_vec());
    }
    Ok(said)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| *a as f64 * *b as f64).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-12)
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::super::sample;
    use super::*;
    use crate::Chain;

    fn run(how: Contrastive, max: usize) -> Vec<u32> {
        let (prompts, chain) = ([vec![3]], Chain::default());
        let ask = Ask { prompts: &prompts, sources: None, chain: &chain, ends: &[], max, seed: 0, first: 0 };
        let mut net = Fake::drawn(20, 4, &prompts, max);
        let first = vec![net.seen(0).to_vec()];
        go(&mut net, first, &ask, &how, &mut |_| true).unwrap().ids
    }

    #[test]
    fn alpha_0_and_k_1_are_greedy_and_alpha_1_avoids_what_was_said() {
        let (prompts, greedy) = ([vec![3]], "greedy".parse::<Chain>().unwrap());
        let ask = Ask { prompts: &prompts, sources: None, chain: &greedy, ends: &[], max: 9, seed: 0, first: 0 };
        let want = sample(&mut Fake::drawn(20, 4, &prompts, 9), &ask, 1, &mut |_| true).unwrap();
        assert_eq!(run(Contrastive { k: 5, alpha: 0.0 }, 9), want[0][0].ids);
        assert_eq!(run(Contrastive { k: 1, alpha: 0.6 }, 9), want[0][0].ids);
        let ids = run(Contrastive { k: 5, alpha: 1.0 }, 9);
        assert!(ids.windows(2).all(|w| w[0] != w[1]), "the state of the same token is the same: {ids:?}");
    }

    #[test]
    fn cosines_by_hand() {
        assert_eq!(cosine(&[1.0, 0.0], &[3.0, 0.0]), 1.0);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
    }

    #[test]
    fn refusals() {
        let (prompts, chain) = ([vec![3], vec![4]], Chain::default());
        let ask = Ask { prompts: &prompts, sources: None, chain: &chain, ends: &[], max: 2, seed: 0, first: 0 };
        let mut net = Fake::drawn(20, 4, &prompts, 2);
        let mut no =
            |k, alpha| go(&mut net, vec![], &ask, &Contrastive { k, alpha }, &mut |_| true).unwrap_err().to_string();
        assert_eq!(no(0, 0.5), "contrastive: k is 0 and α is 0.5");
        assert_eq!(no(4, f64::NAN), "contrastive: k is 4 and α is NaN");
        assert!(no(4, 0.5).contains("one prompt at a time"));
    }
}
