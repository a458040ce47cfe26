//! Greedy and sampling: at each step the chain thins out and bends the row of logits, and its pick says one token.
//!
//! Several continuations of a prompt are drawn side by side; what each draws depends on the seed, the number of its prompt,
//! its own number and the step, and on nothing else: batches draw what singles draw. Rows that have ended are dropped once
//! they are half of all, so that nobody computes for them for long.
//!
//! ```
//! use qkv_decode::{Ask, Chain, Engine, search::sample};
//! use qkv_model::{Transformer, presets};
//! let spec = presets::find("tiny-decoder").unwrap().spec();
//! let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex()).unwrap();
//! let prompts = [vec![5, 6, 7]];
//! let chain: Chain = "top_k 40, temperature 0.8".parse()?;
//! let ask = Ask { prompts: &prompts, sources: None, chain: &chain, ends: &[2], max: 8, seed: 1, first: 0 };
//! let mut engine = Engine::causal(&model, &prompts, ask.max)?;
//! let all = sample(&mut engine, &ask, 3, &mut |_| true)?; // three continuations of the one prompt
//! assert_eq!((all.len(), all[0].len()), (1, 3));
//! # Ok::<(), qkv_base::Error>(())
//! ```

use super::{Ask, Sequence, log_sum};
use crate::stop::End;
use crate::trace::{Stage, TokenTrace, Trace};
use crate::{Network, PickState, Picked, Row};
use qkv_base::{Error, Key, Result};

/// A token that was just said.
#[derive(Clone, Debug)]
pub struct Said1<'a> {
    /// which prompt
    pub prompt: usize,
    /// which of its continuations
    pub number: usize,
    /// the token
    pub id: u32,
    /// the model's own log-probability of it
    pub logprob: f32,
    /// all tokens of this continuation, this one included
    pub ids: &'a [u32],
    /// whether it ends the continuation
    pub is_end: bool,
}

/// Hears every token, and says whether its row goes on.
pub type Heard<'a> = &'a mut dyn FnMut(Said1) -> bool;

/// One continuation on its way.
struct Way {
    prompt: usize,
    number: usize,
    said: Sequence,
    state: PickState,
    open: bool,
}

/// `n` continuations of each prompt: `[prompt][continuation]`.
pub fn sample(net: &mut dyn Network, ask: &Ask, n: usize, heard: Heard) -> Result<Vec<Vec<Sequence>>> {
    run(net, ask, n, heard, None)
}

/// One continuation of one prompt, with what every step of the chain did to each row of logits, the `top` best shown.
pub fn sample_traced(net: &mut dyn Network, ask: &Ask, top: usize, heard: Heard) -> Result<(Sequence, Trace)> {
    let mut trace = Trace::new(ask.chain);
    let mut all = run(net, ask, 1, heard, Some((&mut trace, top)))?;
    let first = all.pop().and_then(|mut one| one.pop());
    first.map(|sequence| (sequence, trace)).ok_or_else(|| Error::new("trace", "there is no row", "give one prompt"))
}

fn run(
    net: &mut dyn Network,
    ask: &Ask,
    n: usize,
    heard: Heard,
    mut trace: Option<(&mut Trace, usize)>,
) -> Result<Vec<Vec<Sequence>>> {
    ask.check(net)?;
    if n == 0 {
        return Err(Error::new("n", "no continuation is asked for", "ask for at least one"));
    }
    let prompts = net.rows();
    let new = |i: usize| Way {
        prompt: i / n,
        number: i % n,
        said: Sequence { ids: vec![], score: 0.0, logprobs: vec![], end: End::Length },
        state: ask.chain.pick.start(),
        open: true,
    };
    let mut ways: Vec<Way> = (0..prompts * n).map(new).collect();
    // Which way each row of the network goes; before the first token the ways of a prompt share its row.
    let mut of_row: Vec<usize> = (0..ways.len()).collect();
    let mut rows_of: Vec<usize> = ways.iter().map(|w| w.prompt).collect();
    let mut row = Row::new();
    for step in 0..ask.max {
        for (&way, &at) in of_row.iter().zip(&rows_of) {
            let way = &mut ways[way];
            if way.open {
                let stages = way.step(net.logits(at), ask, step, &mut row, trace.as_ref().map(|t| t.1), heard)?;
                if let (Some((trace, _)), Some((stages, picked))) = (trace.as_mut(), stages) {
                    trace.tokens.push(TokenTrace { stages, picked, text: None });
                }
            }
        }
        let open = of_row.iter().filter(|w| ways[**w].open).count();
        if open == 0 || step + 1 == ask.max {
            break;
        }
        // Closed rows are kept and fed anything, until half of all are closed.
        let keep = |w: &usize| 2 * open > of_row.len() || ways[*w].open;
        let (kept, rows): (Vec<usize>, Vec<usize>) =
            of_row.iter().zip(&rows_of).filter(|(w, _)| keep(w)).map(|(w, r)| (*w, *r)).unzip();
        if rows.len() != net.rows() || rows.iter().enumerate().any(|(i, r)| i != *r) {
            net.reorder(&rows)?;
        }
        rows_of = (0..kept.len()).collect();
        of_row = kept;
        let tokens: Vec<u32> = of_row.iter().map(|w| ways[*w].said.ids.last().copied().unwrap_or(0)).collect();
        net.say(&tokens)?;
    }
    let mut out: Vec<Vec<Sequence>> = (0..prompts).map(|_| Vec::with_capacity(n)).collect();
    ways.into_iter().for_each(|way| out[way.prompt].push(way.said));
    Ok(out)
}

impl Way {
    /// Says one more token; with `top`, tells what the chain did.
    fn step(
        &mut self,
        logits: &[f32],
        ask: &Ask,
        step: usize,
        row: &mut Row,
        top: Option<usize>,
        heard: Heard,
    ) -> Result<Option<(Vec<Stage>, Picked)>> {
        row.fill(logits)?;
        let key = Key::new(ask.seed, step as u64, ask.first + self.prompt as u64).child(self.number as u64);
        let said = ask.said(self.prompt, &self.said.ids, key);
        let (stages, (picked, state)) = match top {
            Some(top) => {
                let stages = ask.chain.apply_traced(row, &said, top)?;
                (Some(stages), ask.chain.pick.choose(row, said.key, self.state)?)
            }
            None => (None, ask.chain.choose(row, &said, self.state)?),
        };
        self.state = state;
        let id = picked.id;
        let logprob = (logits.get(id as usize).map_or(f64::NEG_INFINITY, |x| *x as f64) - log_sum(logits)) as f32;
        self.said.ids.push(id);
        self.said.logprobs.push(logprob);
        self.said.score += logprob as f64;
        let is_end = ask.ends.contains(&id);
        let goes_on =
            heard(Said1 { prompt: self.prompt, number: self.number, id, logprob, ids: &self.said.ids, is_end });
        if is_end {
            self.said.end = End::Token;
        } else if !goes_on {
            self.said.end = End::Stopped;
        }
        self.open = goes_on && !is_end;
        Ok(stages.map(|s| (s, picked)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::*;
    use crate::Chain;

    fn ask<'a>(prompts: &'a [Vec<u32>], chain: &'a Chain, ends: &'a [u32], max: usize) -> Ask<'a> {
        Ask { prompts, sources: None, chain, ends, max, seed: 7, first: 0 }
    }

    #[test]
    fn greedy_by_hand() {
        // 0 → 1 → 2 → 0 …; the likeliest token after t is t + 1.
        let table = vec![vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0], vec![1.0, 0.0, 0.0]];
        let prompts = [vec![0]];
        let chain: Chain = "greedy".parse().unwrap();
        let mut net = Fake::new(table.clone(), &prompts, 9);
        let all = sample(&mut net, &ask(&prompts, &chain, &[], 4), 1, &mut |_| true).unwrap();
        let one = &all[0][0];
        assert_eq!((&one.ids[..], one.end), (&[1, 2, 0, 1][..], End::Length));
        let each = 1.0 - (2.0 + 1f64.exp()).ln();
        assert!((one.logprob() - 4.0 * each).abs() < 1e-5 && one.score == one.logprob());
        let mut net = Fake::new(table, &prompts, 9);
        let all = sample(&mut net, &ask(&prompts, &chain, &[2], 4), 1, &mut |_| true).unwrap();
        assert_eq!((&all[0][0].ids[..], all[0][0].end), (&[1, 2][..], End::Token));
    }

    #[test]
    fn batches_draw_what_singles_draw_and_streams_hear_the_whole() {
        let chain: Chain = "temperature 1.5".parse().unwrap();
        let prompts: Vec<Vec<u32>> = (3..9).map(|i| vec![i]).collect();
        let mut heard = vec![vec![]; 6];
        let mut net = Fake::drawn(20, 5, &prompts, 30);
        let mut hear = |s: Said1| {
            if s.number == 1 {
                heard[s.prompt].push(s.id);
            }
            true
        };
        let all = sample(&mut net, &ask(&prompts, &chain, &[1], 30), 3, &mut hear).unwrap();
        for (i, prompt) in prompts.iter().enumerate() {
            let prompts = [prompt.clone()];
            let mut net = Fake::drawn(20, 5, &prompts, 30);
            let ask = Ask { first: i as u64, ..ask(&prompts, &chain, &[1], 30) };
            assert_eq!(sample(&mut net, &ask, 3, &mut |_| true).unwrap()[0], all[i]);
            assert_eq!(heard[i], all[i][1].ids);
        }
        assert_ne!(all[0][0], all[0][1]);
    }

    #[test]
    fn who_hears_can_stop_a_row() {
        let chain: Chain = "random".parse().unwrap();
        let prompts = [vec![3], vec![4]];
        let mut net = Fake::drawn(20, 5, &prompts, 30);
        let mut hear = |s: Said1| s.prompt == 1 || s.ids.len() < 2;
        let all = sample(&mut net, &ask(&prompts, &chain, &[], 9), 1, &mut hear).unwrap();
        assert_eq!((all[0][0].ids.len(), all[0][0].end, all[1][0].ids.len()), (2, End::Stopped, 9));
    }

    #[test]
    fn a_trace_changes_nothing() {
        let chain: Chain = "top_k 5, temperature 0.7".parse().unwrap();
        let prompts = [vec![3]];
        let plain =
            sample(&mut Fake::drawn(20, 5, &prompts, 9), &ask(&prompts, &chain, &[], 6), 1, &mut |_| true).unwrap();
        let mut net = Fake::drawn(20, 5, &prompts, 9);
        let (traced, trace) = sample_traced(&mut net, &ask(&prompts, &chain, &[], 6), 3, &mut |_| true).unwrap();
        assert_eq!(traced, plain[0][0]);
        assert_eq!((trace.tokens.len(), trace.tokens[0].stages.len()), (6, 3));
    }

    #[test]
    fn refusals() {
        let chain: Chain = "suppress 99".parse().unwrap();
        let prompts = [vec![3]];
        let mut net = Fake::drawn(20, 5, &prompts, 3);
        let mut no = |a: Ask, n| sample(&mut net, &a, n, &mut |_| true).unwrap_err().to_string();
        assert!(no(ask(&prompts, &chain, &[], 2), 1).contains("token 99"));
        let chain = Chain::default();
        assert_eq!(no(ask(&prompts, &chain, &[], 0), 1), "max tokens: is 0");
        assert_eq!(no(ask(&prompts, &chain, &[], 9), 1), "max tokens: 9 tokens are asked for, but there is room for 4");
        assert_eq!(no(ask(&prompts, &chain, &[], 2), 0), "n: no continuation is asked for");
        assert!(no(ask(&prompts, &chain, &[44], 2), 1).contains("end token 44"));
    }
}
