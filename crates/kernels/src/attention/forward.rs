//! The forward walk: every tile of queries meets the tiles of keys within its sight, with a running softmax.

use super::heads::deal;
use super::tile::{Core, QUERIES, scaled, soften, times};
use crate::fused::uninit;
use rayon::prelude::*;
use std::ops::Range;

/// The output `[B, Tq, H·D]` and the log-sum-exp of each row of scores `[B, H, Tq]`.
pub(super) fn forward(core: &Core) -> (Vec<f32>, Vec<f32>) {
    let [b, h, tq, tk, d] = core.sizes();
    let (mut output, mut log_sums) = (uninit(b * tq * h * d), uninit(b * h * tq));
    if output.is_empty() || tk == 0 {
        // Nobody to ask, or nobody to answer.
        output.fill(0.0);
        log_sums.fill(f32::INFINITY);
        return (output, log_sums);
    }
    let mut rows = deal(&mut output, tq, h, d);
    let tiles = Tiles { core, rows: &mut rows, log_sums: &mut log_sums, at: (0, 0, core.queries(0).start) };
    if core.is_large() {
        let tiles: Vec<Tile> = tiles.collect();
        tiles.into_par_iter().for_each_init(|| Scratch::new(core), |scratch, tile| tile.attend(core, scratch));
    } else {
        let mut scratch = Scratch::new(core);
        tiles.for_each(|tile| tile.attend(core, &mut scratch));
    }
    (output, log_sums)
}

/// All tiles, one after the other: batch by batch and head by head, or with segments head by head and segment by segment,
/// as the results lie.
struct Tiles<'c, 'a, 'o, 'r> {
    core: &'c Core<'a>,
    rows: &'o mut [&'r mut [f32]],
    log_sums: &'o mut [f32],
    /// batch (or segment), head and first query of the next
    at: (usize, usize, usize),
}

impl<'o, 'r> Iterator for Tiles<'_, '_, 'o, 'r> {
    type Item = Tile<'o, 'r>;

    fn next(&mut self) -> Option<Tile<'o, 'r>> {
        while !self.rows.is_empty() {
            let (b, h, first) = self.at;
            let end = self.core.queries(b).end;
            if first < end {
                let n = QUERIES.min(end - first);
                self.at.2 = first + n;
                let (rows, later) = std::mem::take(&mut self.rows).split_at_mut(n);
                self.rows = later;
                let (log_sums, later) = std::mem::take(&mut self.log_sums).split_at_mut(n);
                self.log_sums = later;
                return Some(Tile { b, h, first, rows, log_sums });
            }
            let (b, h) = self.core.after(b, h);
            self.at = (b, h, self.core.queries(b).start);
        }
        None
    }
}

/// Some queries of one head, and where their results go.
struct Tile<'o, 'r> {
    b: usize,
    h: usize,
    first: usize,
    rows: &'o mut [&'r mut [f32]],
    log_sums: &'o mut [f32],
}

/// What a tile works in; taken from one tile to the next.
struct Scratch {
    /// scores, then weights, of a tile
    s: Vec<f32>,
    /// the output of a tile before it is divided by `sum`
    o: Vec<f32>,
    /// the largest score of each query so far
    max: Vec<f32>,
    /// the sum of the weights of each query so far
    sum: Vec<f32>,
    factors: Vec<f32>,
}

impl Scratch {
    fn new(core: &Core) -> Self {
        let (m, n) = core.largest();
        let factors = vec![0.0; if core.dropout().is_some() { n } else { 0 }];
        Self { s: uninit(m * n), o: uninit(m * core.d), max: vec![0.0; m], sum: vec![0.0; m], factors }
    }
}

impl Tile<'_, '_> {
    fn attend(self, core: &Core, scratch: &mut Scratch) {
        let queries = self.first..self.first + self.rows.len();
        scratch.max.fill(f32::NEG_INFINITY);
        scratch.sum.fill(0.0);
        let mut any = false;
        for keys in core.key_tiles(self.b, &queries) {
            let s = &mut scratch.s[..queries.len() * keys.len()];
            core.scores(self.b, self.h, &queries, &keys, s);
            for row in 0..queries.len() {
                self.weigh(core, row, &keys, scratch);
            }
            let p = &scratch.s[..queries.len() * keys.len()];
            core.mix(self.b, self.h, &queries, &keys, p, any, &mut scratch.o);
            any = true;
        }
        if !any {
            scratch.o.fill(0.0);
        }
        self.write(core, scratch);
    }

    /// Turns a row of scores into weights relative to the largest score so far, and what was summed before with it.
    fn weigh(&self, core: &Core, row: usize, keys: &Range<usize>, scratch: &mut Scratch) {
        let (b, h, i) = (self.b, self.h, self.first + row);
        let all = &mut scratch.s[row * keys.len()..][..keys.len()];
        let seen = core.sight(b, i, keys);
        let (before, rest) = all.split_at_mut(seen.start - keys.start);
        let (s, after) = rest.split_at_mut(seen.len());
        before.fill(0.0);
        after.fill(0.0);
        core.finish(b, h, i, seen.clone(), s);
        let (old, sum) = (scratch.max[row], scratch.sum[row]);
        let [max, more] = soften(old, s);
        if max != old && old != f32::NEG_INFINITY {
            let shrink = (old - max).exp();
            scratch.sum[row] = sum * shrink + more;
            scratch.o[row * core.d..][..core.d].iter_mut().for_each(|o| *o *= shrink);
        } else {
            scratch.sum[row] = sum + more;
        }
        scratch.max[row] = max;
        if let Some(dropout) = core.dropout() {
            // After the sum: dropout thins the weights out, it does not share theirs among the rest.
            let factors = &mut scratch.factors[..seen.len()];
            core.factors(dropout, [b, h, i, seen.start], factors);
            times(s, factors);
        }
    }

    /// Divides by the sums and writes the rows to their places.
    fn write(self, core: &Core, scratch: &Scratch) {
        let d = core.d;
        for (row, (output, log_sum)) in self.rows.iter_mut().zip(self.log_sums).enumerate() {
            let (max, sum) = (scratch.max[row], scratch.sum[row]);
            // No key seen: the weights are all 0, and stay so in the backward, as e^(s − ∞).
            let nothing = sum == 0.0;
            scaled(if nothing { 0.0 } else { 1.0 / sum }, &scratch.o[row * d..][..d], output);
            *log_sum = if nothing { f32::INFINITY } else { max + sum.ln() };
        }
    }
}
