//! Greedy and sampling: at each step the chain thins out and bends the row of logits, and its pick says one token.
//!
//! Several continuations of a prompt are drawn side by side; what each draws depends on the seed, the number of its request,
//! its own number and the step, and on nothing else: batches draw what singles draw.
//!
//! ```
//! use qkv_decode::{EngineConfig, Engine, Request, Search};
//! use qkv_model::{Transformer, presets};
//! let spec = presets::find("tiny-decoder").unwrap().spec();
//! let model = Transformer::new(&spec, 1, &burn::tensor::Device::flex()).unwrap();
//! let mut engine = Engine::new(std::sync::Arc::new(model), EngineConfig::default());
//! let chain = "top_k 40, temperature 0.8".parse()?;
//! let search = Search::Sample { n: 3 }; // three continuations of the one prompt
//! let request = Request { chain, search, ends: vec![2], max_tokens: 8, seed: 1, ..Request::new(vec![5, 6, 7]) };
//! let found = engine.run(vec![request], &mut |_, _| true)?;
//! assert_eq!(found[0].sequences.len(), 3);
//! # Ok::<(), qkv_base::Error>(())
//! ```

use super::{Chosen, Next, SearchTrace, Sequence, View, logprob, top_logprobs};
use crate::engine::Request;
use crate::stop::End;
use crate::text::RowText;
use crate::trace::{TokenTrace, Trace};
use crate::{PickState, Row};
use qkv_base::{Key, Result};

/// Continuations that are drawn side by side.
#[derive(Debug)]
pub(crate) struct Sampling {
    drafts: Vec<Draft>,
    /// which draft each row belongs to; before the first token all share one row
    of_row: Vec<usize>,
    row: Row,
    trace: Option<Trace>,
}

/// One continuation on its way.
#[derive(Debug)]
struct Draft {
    sequence: Sequence,
    state: PickState,
    text: Option<RowText>,
    open: bool,
}

impl Sampling {
    pub(crate) fn new(request: &Request, n: usize, text: Option<RowText>) -> Self {
        let state = request.chain.pick.start();
        let draft = |_| Draft { sequence: Sequence::new(), state, text: text.clone(), open: true };
        let trace = request.trace.map(|_| Trace::new(&request.chain)).filter(|_| n == 1);
        Self { drafts: (0..n).map(draft).collect(), of_row: (0..n).collect(), row: Row::new(), trace }
    }

    pub(crate) fn advance(&mut self, request: &Request, view: &View, chosen: &mut Vec<Chosen>) -> Result<Next> {
        let shared = view.rows() == 1;
        let of_row = std::mem::take(&mut self.of_row);
        let (mut from, mut tokens) = (Vec::with_capacity(of_row.len()), Vec::with_capacity(of_row.len()));
        for (i, number) in of_row.into_iter().enumerate() {
            let (at, draft) = (if shared { 0 } else { i }, &mut self.drafts[number]);
            let top = self.trace.as_ref().and(request.trace);
            let (new, traced) = draft.step(view.logits(at), request, number, &mut self.row, top)?;
            if let (Some(trace), Some(token)) = (&mut self.trace, traced) {
                trace.tokens.push(token);
            }
            if draft.open && draft.sequence.ids.len() < request.max_tokens {
                from.push(at);
                tokens.push(new.id);
                self.of_row.push(number);
            }
            chosen.push(new);
        }
        Ok(if from.is_empty() { Next::Done } else { Next::Rows { from, tokens } })
    }

    /// What was said, where there is one continuation.
    pub(crate) fn only(&self) -> Option<&[u32]> {
        match self.drafts.as_slice() {
            [one] => Some(&one.sequence.ids),
            _ => None,
        }
    }

    pub(crate) fn stop(&mut self, number: usize) -> Vec<usize> {
        let Some(draft) = self.drafts.get_mut(number) else { return (0..self.of_row.len()).collect() };
        if self.of_row.contains(&number) {
            draft.open = false;
            draft.sequence.end = End::Stopped;
        }
        let stay = (0..self.of_row.len()).filter(|row| self.of_row[*row] != number).collect();
        self.of_row.retain(|n| *n != number);
        stay
    }

    pub(crate) fn finish(self) -> Result<(Vec<Sequence>, Option<SearchTrace>)> {
        let sequences = self.drafts.into_iter().map(|mut draft| {
            if let (End::Stopped, Some(text)) = (draft.sequence.end, &mut draft.text) {
                text.finish()?; // what was held back comes to nothing else
            }
            let text = draft.text.map(|t| t.text().to_string());
            Ok(Sequence { text, ..draft.sequence })
        });
        Ok((sequences.collect::<Result<_>>()?, self.trace.map(SearchTrace::Chain)))
    }
}

impl Draft {
    /// One more token; with `top`, tells what the chain did.
    fn step(
        &mut self,
        logits: &[f32],
        request: &Request,
        number: usize,
        row: &mut Row,
        top: Option<usize>,
    ) -> Result<(Chosen, Option<TokenTrace>)> {
        row.fill(logits)?;
        let step = self.sequence.ids.len() as u64;
        let key = Key::new(request.seed, step, request.number).child(number as u64);
        let history = request.history(&self.sequence.ids, key);
        let (stages, (picked, state)) = match top {
            Some(top) => {
                // First the choice, then how it came about: every stage tells of the token that was chosen.
                let (picked, state) = request.chain.choose(&mut row.clone(), &history, self.state)?;
                let stages = request.chain.apply_traced(row, &history, top, Some(picked.id))?;
                (Some(stages), (picked, state))
            }
            None => (None, request.chain.choose(row, &history, self.state)?),
        };
        self.state = state;
        let id = picked.id;
        let logprob = logprob(logits, id);
        self.sequence.push(id, logprob);
        let is_end = request.ends.contains(&id);
        let is_last = is_end || self.sequence.ids.len() == request.max_tokens;
        let (text, stopped) = say(&mut self.text, id, is_end, is_last)?;
        self.sequence.end = match (is_end, stopped) {
            (true, _) => End::Token,
            (false, true) => End::Text,
            _ => End::Length,
        };
        self.open = !is_end && !stopped;
        let trace = stages.map(|stages| TokenTrace { stages, picked, text: None });
        let top = top_logprobs(logits, request.top_logprobs);
        Ok((Chosen { number, id, logprob, text, is_end, top }, trace))
    }
}

/// The text that a token makes certain, and whether a stop string is met; an end token has no text.
pub(crate) fn say(text: &mut Option<RowText>, id: u32, is_end: bool, is_last: bool) -> Result<(String, bool)> {
    let Some(text) = text else { return Ok((String::new(), false)) };
    let mut new = if is_end { String::new() } else { text.push(id)? };
    if is_last && !text.is_stopped() {
        new += &text.finish()?;
    }
    Ok((new, text.is_stopped()))
}

#[cfg(test)]
mod tests {
    use super::super::fake::{Fake, request, run};
    use super::super::*;

    fn sampled(n: usize) -> Search {
        Search::Sample { n }
    }

    #[test]
    fn greedy_by_hand() {
        // 0 → 1 → 2 → 0 …; the likeliest token after t is t + 1.
        let table = vec![vec![0.0, 1.0, 0.0], vec![0.0, 0.0, 1.0], vec![1.0, 0.0, 0.0]];
        let prompts = [vec![0]];
        let all = run(Fake::new(table.clone()), &prompts, &request(&[0], "greedy", &[], 4, sampled(1)));
        let one = &all[0].sequences[0];
        assert_eq!((&one.ids[..], one.end), (&[1, 2, 0, 1][..], End::Length));
        let each = 1.0 - (2.0 + 1f64.exp()).ln();
        assert!((one.logprob() - 4.0 * each).abs() < 1e-5 && one.score == one.logprob());
        let all = run(Fake::new(table), &prompts, &request(&[0], "greedy", &[2], 4, sampled(1)));
        assert_eq!((&all[0].sequences[0].ids[..], all[0].sequences[0].end), (&[1, 2][..], End::Token));
    }

    #[test]
    fn batches_draw_what_singles_draw_and_streams_hear_the_whole() {
        let like = request(&[], "temperature 1.5", &[1], 30, sampled(3));
        let prompts: Vec<Vec<u32>> = (3..9).map(|i| vec![i]).collect();
        let of = |i: usize| Request { prompt: prompts[i].clone(), number: i as u64, ..like.clone() };
        let mut heard = vec![vec![]; 6];
        let mut hear = |i: usize, new: &crate::NewToken| {
            if new.number == 1 {
                heard[i].push(new.id);
            }
            true
        };
        let all = Fake::drawn(20, 5).engine().run((0..6).map(of).collect(), &mut hear).unwrap();
        for (i, heard) in heard.iter().enumerate() {
            let alone = Fake::drawn(20, 5).engine().run(vec![of(i)], &mut |_, _| true).unwrap();
            assert_eq!(alone[0].sequences, all[i].sequences);
            assert_eq!(*heard, all[i].sequences[1].ids);
        }
        assert_ne!(all[0].sequences[0], all[0].sequences[1]);
    }

    #[test]
    fn who_hears_can_stop_a_row() {
        let like = request(&[3], "random", &[], 9, sampled(2));
        let mut hear = |i: usize, new: &crate::NewToken| i == 1 || new.number == 1 || new.step < 1;
        let requests = vec![like.clone(), Request { number: 1, ..like }];
        let all = Fake::drawn(20, 5).engine().run(requests, &mut hear).unwrap();
        let lengths = |i: usize| all[i].sequences.iter().map(|s| (s.ids.len(), s.end)).collect::<Vec<_>>();
        assert_eq!(lengths(0), [(2, End::Stopped), (9, End::Length)]);
        assert_eq!(lengths(1), [(9, End::Length), (9, End::Length)]);
    }

    #[test]
    fn a_trace_changes_nothing() {
        let plain = request(&[3], "top_k 5, temperature 0.7", &[], 6, sampled(1));
        let traced = Request { trace: Some(3), ..plain.clone() };
        let prompts = [vec![3]];
        let (a, b) = (run(Fake::drawn(20, 5), &prompts, &plain), run(Fake::drawn(20, 5), &prompts, &traced));
        assert_eq!(a[0].sequences, b[0].sequences);
        let Some(SearchTrace::Chain(trace)) = &b[0].trace else { panic!("traced") };
        assert_eq!((trace.tokens.len(), trace.tokens[0].stages.len()), (6, 3));
    }

    #[test]
    fn refusals() {
        let no = |r: Request| Fake::drawn(20, 5).engine().admit(r).unwrap_err().to_string();
        let ask = |chain, ends: &[u32], max, n| request(&[3], chain, ends, max, sampled(n));
        assert!(no(ask("suppress 99", &[], 2, 1)).contains("token 99"));
        assert_eq!(no(ask("", &[], 0, 1)), "max tokens: is 0");
        assert_eq!(no(ask("", &[], 2, 0)), "n: no continuation is asked for");
        assert!(no(ask("", &[44], 2, 1)).contains("end token 44"));
        assert!(no(request(&[3, 77], "", &[], 2, sampled(1))).contains("id 77"));
    }
}
