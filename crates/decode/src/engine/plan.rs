//! What the next pass is made of: the token of every row that speaks, and some tokens of prompts that are still being read.
//!
//! How long a step takes grows with the tokens in it, so that a chunk of prompt tokens bounds how long everybody waits for it.
//! Within the chunk the shortest rest goes first, and a prompt that is read to its end leaves nobody of the long ones more than
//! their fourth: who comes with a short prompt speaks after the very next step, and that step is a short one. The request that has
//! waited longest always gets its fourth, so that a stream of short prompts cannot hold up a long one for ever.

use super::{Engine, Live, Phase};
use crate::decoder::Observe;

/// What a pass is made of.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) ids: Vec<u32>,
    pub(super) rows: Vec<(usize, usize)>,
    /// of each of them, whether its tokens are those of a prompt
    pub(super) reading: Vec<bool>,
    pub(super) answers: Vec<usize>,
    pub(super) observe: Observe,
    pub(super) parts: Vec<Part>,
}

/// What one request gets in a pass.
pub(super) struct Part {
    pub(super) live: usize,
    /// its answers, as numbers among all
    pub(super) answers: std::ops::Range<usize>,
    /// its tokens
    pub(super) tokens: std::ops::Range<usize>,
}

impl Engine {
    /// What the next pass is made of.
    pub(super) fn plan(&mut self) -> Plan {
        let mut plan = Plan::default();
        let mut first = 0;
        for i in 0..self.live.len() {
            self.borrow_prefix(i, first);
            first += self.live[i].rows;
            let can_forget = self.cache.can_share_prefix();
            self.live[i].guess(can_forget);
        }
        let chunks = self.prefill_chunks();
        first = 0;
        for (at, (live, chunk)) in self.live.iter().zip(chunks).enumerate() {
            let begin = (plan.ids.len(), plan.answers.len());
            match &live.phase {
                Phase::Tokens(tokens) => {
                    // Guesses are there for one row only: they stand behind its token, and each of them has an answer.
                    for (row, id) in tokens.iter().enumerate() {
                        let begin = plan.ids.len();
                        plan.ids.push(*id);
                        plan.ids.extend_from_slice(&live.guesses);
                        plan.answers.extend(begin..plan.ids.len());
                        plan.rows.push((first + row, plan.ids.len() - begin));
                        plan.reading.push(false);
                    }
                }
                Phase::Prefill { borrow: Some(_), .. } => {}
                Phase::Prefill { done, borrow: None } => {
                    let left = &live.request.prompt[*done..];
                    if chunk > 0 {
                        plan.ids.extend_from_slice(&left[..chunk]);
                        plan.rows.push((first, chunk));
                        plan.reading.push(true);
                    }
                    if chunk == left.len() {
                        plan.answers.push(plan.ids.len() - 1);
                    }
                }
            }
            if plan.ids.len() > begin.0 {
                plan.observe = plan.observe.or(live.request.search.observe());
                let (tokens, answers) = (begin.0..plan.ids.len(), begin.1..plan.answers.len());
                plan.parts.push(Part { live: at, tokens, answers });
            }
            first += live.rows;
        }
        plan
    }

    /// How many tokens of its prompt each request reads in the next pass.
    fn prefill_chunks(&self) -> Vec<usize> {
        let left = |live: &Live| match live.phase {
            Phase::Prefill { done, borrow: None } => Some(live.request.prompt.len() - done),
            _ => None,
        };
        prefill_chunks(&self.live.iter().map(left).collect::<Vec<_>>(), self.config.prefill_chunk)
    }
}

/// How many tokens each gets of a chunk, where `left` tells how many it still has to read, in the order in which they came.
fn prefill_chunks(left: &[Option<usize>], chunk: usize) -> Vec<usize> {
    let mut chunks = vec![0; left.len()];
    let mut reading: Vec<(usize, usize)> = left.iter().enumerate().filter_map(|(at, n)| Some(((*n)?, at))).collect();
    let Some(oldest) = reading.first().copied() else { return chunks };
    let chunk = chunk.max(1);
    let fourth = chunk.div_ceil(4);
    reading.sort_unstable();
    // The share of whoever came first is taken out before all others: nobody overtakes it for ever.
    let mut budget = chunk;
    chunks[oldest.1] = fourth.min(oldest.0);
    budget -= chunks[oldest.1];
    let mut someone_is_done = false;
    for (left, at) in reading {
        let more = (left - chunks[at]).min(budget);
        if chunks[at] + more < left && someone_is_done {
            // The step is to be short: somebody waits for a first token.
            chunks[at] = chunks[at].max(more.min(fourth));
            break;
        }
        chunks[at] += more;
        budget -= more;
        someone_is_done |= chunks[at] == left;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(left: &[usize], chunk: usize) -> Vec<usize> {
        prefill_chunks(&left.iter().map(|n| Some(*n)).collect::<Vec<_>>(), chunk)
    }

    #[test]
    fn short_prompts_go_first_and_the_oldest_always_goes_on() {
        assert_eq!(chunks(&[1000], 32), [32]);
        assert_eq!(chunks(&[1000, 16], 32), [8, 16]); // read to its end, and the step is no longer than that
        assert_eq!(chunks(&[1000, 900], 32), [8, 24]); // nobody is done: the chunk is used up
        assert_eq!(chunks(&[1000, 40, 10], 32), [8, 8, 10]);
        assert_eq!(chunks(&[5, 6, 7], 32), [5, 6, 7]);
        assert_eq!(chunks(&[3, 1000], 32), [3, 8]);
        assert_eq!(chunks(&[1000, 4], 1), [1, 0]); // too small a chunk for two: whoever came first
        assert_eq!(chunks(&[9, 9], usize::MAX), [9, 9]);
        assert_eq!(prefill_chunks(&[None, Some(4), None], 32), [0, 4, 0]);
    }

    /// A stream of short prompts, a new one at each step, does not hold up a long one.
    #[test]
    fn a_long_prompt_is_read_beside_any_number_of_short_ones() {
        let (mut left, mut steps) = (1000, 0);
        while left > 0 {
            left -= chunks(&[left, 16, 16], 32)[0];
            steps += 1;
        }
        assert!(steps <= 125, "{steps}");
    }
}
