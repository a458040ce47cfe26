//! The backward walk: weights are computed again tile by tile, from the scores and the kept log-sum-exp.
//!
//! A task is one key head of one batch row with all query heads it serves, so the sums into dK and dV are its own and
//! have one order. The gradient of a bias is shared across tasks; it has a walk of its own, by the rows of the bias.

use super::heads::{Heads, deal};
use super::tile::{Core, QUERIES, cap_slopes, soften_back, times};
use crate::fused::uninit;
use crate::product::{Strided, product_on, rowwise};
use crate::simd;
use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use std::ops::Range;

/// What the forward kept, and the gradient that arrives.
pub(super) struct From<'a> {
    output: Heads<'a>,
    grad: Heads<'a>,
    log_sums: &'a [f32],
}

impl<'a> From<'a> {
    pub(super) fn new(core: &Core, output: &'a FlexTensor, grad: &'a FlexTensor, log_sums: &'a [f32]) -> Self {
        Self { output: Heads::packed(output, 0, core.d), grad: Heads::packed(grad, 0, core.d), log_sums }
    }
}

/// What a task works in.
struct Scratch {
    /// scores, then weights, of a tile
    p: Vec<f32>,
    /// the gradient of the weights, then of the scores, of a tile
    ds: Vec<f32>,
    /// `dO·O` of each query
    delta: Vec<f32>,
    factors: Vec<f32>,
    /// the slope of the soft cap at each score of a row, where there is a cap
    slopes: Vec<f32>,
    /// dQ of a tile
    dq: Vec<f32>,
}

impl Scratch {
    fn new(core: &Core) -> Self {
        let (m, n) = core.largest();
        let slopes = vec![1.0; if core.how.soft_cap.is_some() { n } else { 0 }];
        let (p, ds) = (uninit(m * n), uninit(m * n));
        Self { p, ds, delta: vec![0.0; m], factors: vec![1.0; n], slopes, dq: uninit(m * core.d) }
    }
}

/// A row of D features of a gradient, where it belongs.
type Row<'r> = &'r mut [f32];

/// One key head of one batch row, with the query heads it serves and where their gradients go.
struct Task<'t, 'r> {
    b: usize,
    g: usize,
    /// `[H/G · Tq]` rows
    dq: &'t mut [Row<'r>],
    /// `[Tk]` rows
    dk: &'t mut [Row<'r>],
    /// `[Tk]` rows
    dv: &'t mut [Row<'r>],
}

/// The gradients of the inputs, in the form they came in: `[dq | dk | dv]`, or dq and `[dk | dv]`, or all three apart.
pub(super) fn inputs(core: &Core, from: &From, buffers: &mut [Vec<f32>]) {
    if core.sizes().contains(&0) {
        buffers.iter_mut().for_each(|x| x.fill(0.0));
        return;
    }
    let mut rows = sorted_rows(core, buffers);
    let tasks = tasks(core, &mut rows);
    if core.is_large() {
        tasks.into_par_iter().for_each_init(|| Scratch::new(core), |scratch, task| task.run(core, from, scratch));
    } else {
        let mut scratch = Scratch::new(core);
        tasks.into_iter().for_each(|task| task.run(core, from, &mut scratch));
    }
}

/// The rows of each buffer, by batch, head and time.
fn sorted_rows<'r>(core: &Core, buffers: &'r mut [Vec<f32>]) -> Vec<Vec<Row<'r>>> {
    let ([_, h, tq, tk, d], g) = (core.sizes(), core.how.kv_heads);
    match buffers {
        [qkv] => vec![deal(qkv, tq, h + 2 * g, d)],
        [q, kv] => vec![deal(q, tq, h, d), deal(kv, tk, 2 * g, d)],
        apart => apart.iter_mut().map(|x| x.chunks_exact_mut(d).collect()).collect(),
    }
}

/// Cuts the sorted rows into tasks.
fn tasks<'t, 'r>(core: &Core, rows: &'t mut [Vec<Row<'r>>]) -> Vec<Task<'t, 'r>> {
    let ([_, h, tq, tk, _], g) = (core.sizes(), core.how.kv_heads);
    let batches: Vec<[&mut [Row]; 3]> = match rows {
        [qkv] => {
            let cut = |rows: &'t mut [Row<'r>]| {
                let (q, kv) = rows.split_at_mut(h * tq);
                let (k, v) = kv.split_at_mut(g * tk);
                [q, k, v]
            };
            qkv.chunks_mut((h + 2 * g) * tq).map(cut).collect()
        }
        [q, kv] => {
            let cut = |(q, kv): (_, &'t mut [Row<'r>])| {
                let (k, v) = kv.split_at_mut(g * tk);
                [q, k, v]
            };
            q.chunks_mut(h * tq).zip(kv.chunks_mut(2 * g * tk)).map(cut).collect()
        }
        [q, k, v] => {
            let kv = k.chunks_mut(g * tk).zip(v.chunks_mut(g * tk));
            q.chunks_mut(h * tq).zip(kv).map(|(q, (k, v))| [q, k, v]).collect()
        }
        _ => unreachable!("attention has one to three inputs and a bias"),
    };
    let groups = |(b, [q, k, v]): (usize, [&'t mut [Row<'r>]; 3])| {
        let heads = q.chunks_mut(h / g * tq).zip(k.chunks_mut(tk).zip(v.chunks_mut(tk)));
        heads.enumerate().map(move |(g, (dq, (dk, dv)))| Task { b, g, dq, dk, dv })
    };
    batches.into_iter().enumerate().flat_map(groups).collect()
}

impl Task<'_, '_> {
    fn run(self, core: &Core, from: &From, scratch: &mut Scratch) {
        let d = core.d;
        let [mut dk, mut dv] = [(); 2].map(|()| vec![0.0; core.tk * d]);
        let first_head = self.g * (core.how.heads / core.how.kv_heads);
        for (r, rows) in self.dq.chunks_mut(core.tq).enumerate() {
            for (tile, rows) in rows.chunks_mut(QUERIES).enumerate() {
                let queries = tile * QUERIES..tile * QUERIES + rows.len();
                self::queries(core, from, [self.b, first_head + r], queries, scratch, &mut dk, &mut dv);
                write(&scratch.dq, d, rows);
            }
        }
        write(&dk, d, self.dk);
        write(&dv, d, self.dv);
    }
}

/// Puts the rows of `x` in their places.
fn write(x: &[f32], d: usize, rows: &mut [Row]) {
    rows.iter_mut().zip(x.chunks_exact(d)).for_each(|(row, x)| row.copy_from_slice(x));
}

/// The gradients that a tile of queries gives: `scratch.dq` is filled, `dk` and `dv` are added to.
fn queries(
    core: &Core,
    from: &From,
    [b, h]: [usize; 2],
    queries: Range<usize>,
    scratch: &mut Scratch,
    dk: &mut [f32],
    dv: &mut [f32],
) {
    let (m, d, g, scale) = (queries.len(), core.d, core.group(h), core.how.scale);
    deltas(from, [b, h], &queries, &mut scratch.delta);
    let mut any = false;
    for keys in core.key_tiles(b, &queries) {
        weights_and_gradients(core, from, [b, h], &queries, &keys, core.how.soft_cap, scratch);
        let n = keys.len();
        let (p, ds, dq) = (&scratch.p[..m * n], &scratch.ds[..m * n], &mut scratch.dq[..m * d]);
        let (own, turned) = (rowwise(n), Strided { start: 0, row: 1, column: n });
        let (q, k, grad) = (core.q.matrix(b, h, queries.start), core.k.matrix(b, g, keys.start), from.grad);
        let at = Strided { start: keys.start * d, row: d, column: 1 };
        product_on(false, [n, m, d], 1.0, dv, at, true, p, turned, grad.data(), grad.matrix(b, h, queries.start));
        product_on(false, [m, n, d], scale, dq, rowwise(d), any, ds, own, core.k.data(), k);
        product_on(false, [n, m, d], scale, dk, at, true, ds, turned, core.q.data(), q);
        any = true;
    }
    if !any {
        scratch.dq.fill(0.0);
    }
}

/// `Σⱼ dPᵢⱼ·Pᵢⱼ` of each query, which is `dOᵢ·Oᵢ` whether weights were dropped or not.
fn deltas(from: &From, [b, h]: [usize; 2], queries: &Range<usize>, delta: &mut [f32]) {
    for (delta, i) in delta.iter_mut().zip(queries.clone()) {
        *delta = simd::dot(from.grad.row(b, h, i), from.output.row(b, h, i));
    }
}

/// Fills a tile of `scratch.p` with the weights (dropout included) and of `scratch.ds` with the gradient of the scores:
/// of the dot products behind a cap `through`, or of what is added to them.
fn weights_and_gradients(
    core: &Core,
    from: &From,
    [b, h]: [usize; 2],
    queries: &Range<usize>,
    keys: &Range<usize>,
    through: Option<f32>,
    scratch: &mut Scratch,
) {
    let (m, n) = (queries.len(), keys.len());
    let (p, ds) = (&mut scratch.p[..m * n], &mut scratch.ds[..m * n]);
    core.scores(b, h, queries, keys, p);
    let (grad, v) = (from.grad.matrix(b, h, queries.start), core.v.transposed(b, core.group(h), keys.start));
    product_on(false, [m, core.d, n], 1.0, ds, rowwise(n), false, from.grad.data(), grad, core.v.data(), v);
    for ((row, p), ds) in p.chunks_exact_mut(n).enumerate().zip(ds.chunks_exact_mut(n)) {
        let i = queries.start + row;
        let seen = core.sight(b, i, keys);
        let (from_here, to_here) = (seen.start - keys.start, seen.end - keys.start);
        for x in [&mut *p, &mut *ds] {
            x[..from_here].fill(0.0);
            x[to_here..].fill(0.0);
        }
        let (p, ds) = (&mut p[from_here..to_here], &mut ds[from_here..to_here]);
        let factors = core.dropout().map(|dropout| {
            let factors = &mut scratch.factors[..seen.len()];
            core.factors(dropout, [b, h, i, seen.start], factors);
            &*factors
        });
        if let Some(factors) = factors {
            times(ds, factors);
        }
        let slopes = through.map(|cap| {
            let slopes = &mut scratch.slopes[..p.len()];
            cap_slopes(cap, p, slopes);
            &*slopes
        });
        core.finish(b, h, i, seen, p);
        let log_sum = from.log_sums[(b * core.how.heads + h) * core.tq + i];
        soften_back(log_sum, scratch.delta[row], p, ds);
        if let Some(slopes) = slopes {
            times(ds, slopes);
        }
        if let Some(factors) = factors {
            times(p, factors);
        }
    }
}

/// The gradient of the bias, in its shape: `dS`, summed over what the bias is shared by, first to last.
///
/// The tiles are computed once more for it. Adding them up while the other gradients are computed would either need a
/// copy of the sum for every batch row, or let threads race for it.
pub(super) fn bias(core: &Core, from: &From) -> Vec<f32> {
    let [b, h, tq, tk, _] = core.sizes();
    let Some(bias) = core.bias() else { return vec![] };
    let mut dbias = vec![0.0; bias.batches * bias.heads * tq * tk];
    if dbias.is_empty() {
        return dbias;
    }
    let planes = dbias.chunks_mut(tq * tk).enumerate();
    let tiles = planes.flat_map(|(plane, x)| x.chunks_mut(QUERIES * tk).enumerate().map(move |tile| (plane, tile)));
    let step = |scratch: &mut Scratch, (plane, (tile, x)): (usize, (usize, &mut [f32]))| {
        let queries = tile * QUERIES..tile * QUERIES + x.len() / tk;
        let shared = |place: usize, of: usize, all: usize| if of == 1 { 0..all } else { place..place + 1 };
        for b in shared(plane / bias.heads, bias.batches, b) {
            for h in shared(plane % bias.heads, bias.heads, h) {
                add_scores(core, from, [b, h], &queries, scratch, x);
            }
        }
    };
    if core.is_large() {
        let tiles: Vec<_> = tiles.collect();
        tiles.into_par_iter().for_each_init(|| Scratch::new(core), step);
    } else {
        let mut scratch = Scratch::new(core);
        tiles.for_each(|tile| step(&mut scratch, tile));
    }
    dbias
}

/// Adds the gradient of the scores of `queries` to their rows `x` of Tk elements.
fn add_scores(
    core: &Core,
    from: &From,
    head: [usize; 2],
    queries: &Range<usize>,
    scratch: &mut Scratch,
    x: &mut [f32],
) {
    deltas(from, head, queries, &mut scratch.delta);
    for keys in core.key_tiles(head[0], queries) {
        weights_and_gradients(core, from, head, queries, &keys, None, scratch);
        for (x, ds) in x.chunks_exact_mut(core.tk).zip(scratch.ds.chunks_exact(keys.len())) {
            simd::axpy(1.0, ds, &mut x[keys.clone()]);
        }
    }
}
