//! One tile of attention: the scores of some queries for some keys, and what becomes of a row of them.

use super::heads::Heads;
use super::{Attend, Segment, Sight};
use crate::fused::elements;
use crate::product::{product_on, rowwise};
use crate::simd::{self, simd};
use crate::{Key, dropout};
use burn::backend::flex::FlexTensor;
use std::ops::Range;

/// Queries of a tile. More would waste more above a causal diagonal, fewer would pack the keys more often: on AVX2, 32
/// and 128 were each 5 to 10 % slower at T = 256, D = 64.
pub(super) const QUERIES: usize = 64;
/// Keys of a tile: scores and their gradients then stay in the second-level cache. 128 and 512 measured the same.
pub(super) const KEYS: usize = 256;
/// Up to so many queries are taken row by row: packing keys for a matrix product would cost more than it saves.
pub(super) const FEW: usize = 8;
/// Below this many multiplications attention stays on its thread: waking another one costs more than it saves.
const SERIAL: usize = 1 << 18;

/// Everything a tile is computed from.
pub(super) struct Core<'a> {
    pub(super) how: &'a Attend,
    pub(super) q: Heads<'a>,
    pub(super) k: Heads<'a>,
    pub(super) v: Heads<'a>,
    bias: Option<Bias<'a>>,
    /// of ragged attention; B is 1 then, Tq all queries, Tk the most keys
    segments: Option<&'a [Segment]>,
    pub(super) b: usize,
    pub(super) tq: usize,
    pub(super) tk: usize,
    pub(super) d: usize,
}

/// A bias `[1 or B, 1 or H, Tq, Tk]`.
#[derive(Clone, Copy)]
pub(super) struct Bias<'a> {
    data: &'a [f32],
    /// 1 or B
    pub(super) batches: usize,
    /// 1 or H
    pub(super) heads: usize,
}

impl<'a> Core<'a> {
    /// Finds queries, keys and values in the inputs of the kernel, whichever of the three forms they have.
    pub(super) fn new<const N: usize>(
        how: &'a Attend,
        inputs: &'a [Option<FlexTensor>; N],
        segments: Option<&'a [Segment]>,
    ) -> Self {
        let (h, g) = (how.heads, how.kv_heads);
        assert!(g > 0 && h % g == 0, "attention: {g} key heads do not divide {h} query heads");
        let given: Vec<&FlexTensor> = inputs[..N - 1].iter().flatten().collect();
        let shape = |x: &FlexTensor| x.layout().shape().to_vec();
        let ([q, k, v], [b, tq, tk, d]) = match given[..] {
            [x] => {
                let s = shape(x);
                let d = s[2] / (h + 2 * g);
                assert_eq!(s[2], (h + 2 * g) * d, "attention: [q | k | v] is not {h} + 2·{g} heads wide");
                ([0, h, h + g].map(|first| Heads::packed(x, first, d)), [s[0], s[1], s[1], d])
            }
            [q, kv] => {
                let (s, t) = (shape(q), shape(kv));
                let d = s[2] / h;
                assert_eq!([t[0], s[2], t[2]], [s[0], h * d, 2 * g * d], "attention: q and [k | v] do not fit");
                let [k, v] = [0, g].map(|first| Heads::packed(kv, first, d));
                ([Heads::packed(q, 0, d), k, v], [s[0], s[1], t[1], d])
            }
            [q, k, v] if segments.is_some() => {
                let segments = segments.unwrap_or_default();
                let (s, t) = (shape(q), shape(k));
                assert_eq!([s[0], s[1], t[1], t[3]], [1, h, g, s[3]], "attention: q and k do not fit");
                assert_eq!(t, shape(v), "attention: k and v do not fit");
                check_segments(segments, s[2], t[0], t[2]);
                let keys = segments.iter().map(|s| s.keys).max().unwrap_or(0);
                ([q, k, v].map(Heads::apart), [1, s[2], keys, s[3]])
            }
            [q, k, v] => {
                let (s, t) = (shape(q), shape(k));
                assert_eq!([s[1], t[0], t[1], t[3]], [h, s[0], g, s[3]], "attention: q and k do not fit");
                assert_eq!(t, shape(v), "attention: k and v do not fit");
                ([q, k, v].map(Heads::apart), [s[0], s[2], t[2], s[3]])
            }
            _ => unreachable!("attention has one to three inputs and a bias"),
        };
        let bias = inputs[N - 1].as_ref().map(|x| {
            let s = shape(x);
            let fits = [1, b].contains(&s[0]) && [1, h].contains(&s[1]) && s[2..] == [tq, tk];
            assert!(fits, "attention: a bias of {s:?} does not fit [{b}, {h}, {tq}, {tk}]");
            Bias { data: elements(x), batches: s[0], heads: s[1] }
        });
        how.mask.check(b, tk);
        let plain = !how.mask.has_holes() && !matches!(how.mask.sight, Sight::Prefix(_));
        assert!(segments.is_none() || plain, "attention: segments have neither padding, documents nor prefixes");
        Self { how, q, k, v, bias, segments, b, tq, tk, d }
    }

    /// `[B, H, Tq, Tk, D]`
    pub(super) fn sizes(&self) -> [usize; 5] {
        [self.b, self.how.heads, self.tq, self.tk, self.d]
    }

    /// The bias, if there is one.
    pub(super) fn bias(&self) -> Option<Bias<'a>> {
        self.bias
    }

    /// Whether there is enough to do for several threads.
    pub(super) fn is_large(&self) -> bool {
        let pairs = match self.segments {
            Some(segments) => segments.iter().map(|s| s.queries.len() * s.keys).sum(),
            None => self.b * self.tq * self.tk,
        };
        pairs * self.how.heads * self.d >= SERIAL && rayon::current_num_threads() > 1
    }

    /// The queries of batch (or segment) `b`.
    pub(super) fn queries(&self, b: usize) -> Range<usize> {
        self.segments.map_or(0..self.tq, |segments| segments[b].queries.clone())
    }

    /// The batch (or segment) and head whose results lie behind those of `b` and `h`.
    pub(super) fn after(&self, b: usize, h: usize) -> (usize, usize) {
        match self.segments {
            None => (b + (h + 1) / self.how.heads, (h + 1) % self.how.heads),
            Some(all) => ((b + 1) % all.len(), h + (b + 1) / all.len()),
        }
    }

    /// How many keys batch (or segment) `b` has.
    fn keys(&self, b: usize) -> usize {
        self.segments.map_or(self.tk, |segments| segments[b].keys)
    }

    /// Where the queries of batch (or segment) `b` lie, and where its keys.
    fn batches(&self, b: usize) -> (usize, usize) {
        self.segments.map_or((b, b), |segments| (0, segments[b].slot))
    }

    /// The key head that query head `h` attends to.
    pub(super) fn group(&self, h: usize) -> usize {
        h / (self.how.heads / self.how.kv_heads)
    }

    /// The largest tile there will be: queries and keys.
    pub(super) fn largest(&self) -> (usize, usize) {
        (self.tq.min(QUERIES), self.tk.min(KEYS))
    }

    /// Where query i stands among the keys. With more queries than keys it does not matter; it must only not wrap.
    fn position(&self, b: usize, i: usize) -> usize {
        (self.keys(b) + i).saturating_sub(self.queries(b).end)
    }

    /// The keys that query `i` sees, holes aside, among `keys`.
    pub(super) fn sight(&self, b: usize, i: usize, keys: &Range<usize>) -> Range<usize> {
        let (from, to) = self.how.mask.span(b, self.position(b, i), self.keys(b));
        let from = from.clamp(keys.start, keys.end);
        from..to.clamp(from, keys.end)
    }

    /// The tiles of keys within sight of any of `queries`: the rest is never touched. Sight only moves forward with the
    /// query, so the first and the last tell it for all.
    pub(super) fn key_tiles(&self, b: usize, queries: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let all = 0..self.keys(b);
        let (from, to) = (self.sight(b, queries.start, &all).start, self.sight(b, queries.end - 1, &all).end);
        // The tiles of a segment begin at fixed keys: where they begin is where a running softmax rounds.
        let from = if self.segments.is_some_and(|s| s[b].tiled) { from / KEYS * KEYS } else { from };
        (from..to).step_by(KEYS).map(move |first| first..to.min(first + KEYS))
    }

    /// Whether queries of batch (or segment) `b` are taken as a tile, and not row by row.
    fn is_tiled(&self, b: usize, queries: &Range<usize>) -> bool {
        self.segments.map_or(queries.len() > FEW, |segments| segments[b].tiled)
    }

    /// `Q·Kᵀ·scale` of a tile, row by row of `keys`; bias and mask come with [`Self::finish`].
    pub(super) fn scores(&self, b: usize, h: usize, queries: &Range<usize>, keys: &Range<usize>, s: &mut [f32]) {
        let (g, n) = (self.group(h), keys.len());
        let (qb, kb) = self.batches(b);
        if !self.is_tiled(b, queries) {
            for (i, s) in queries.clone().zip(s.chunks_exact_mut(n)) {
                let at = self.k.matrix(kb, g, keys.start);
                dots(self.how.scale, self.q.row(qb, h, i), &self.k.data()[at.start..], at.row, s);
            }
            return;
        }
        let (q, k) = (self.q.matrix(qb, h, queries.start), self.k.transposed(kb, g, keys.start));
        let size = [queries.len(), self.d, n];
        product_on(false, size, self.how.scale, s, rowwise(n), false, self.q.data(), q, self.k.data(), k);
    }

    /// Completes the row of scores of query `i` for `keys`: caps them, adds the bias and hides what padding and documents
    /// hide.
    pub(super) fn finish(&self, b: usize, h: usize, i: usize, keys: Range<usize>, s: &mut [f32]) {
        if let Some(cap) = self.how.soft_cap {
            softly_capped(cap, s);
        }
        if let Some(bias) = self.bias {
            let (batch, _) = self.batches(b);
            let row = ((batch % bias.batches * bias.heads + h % bias.heads) * self.tq + i) * self.tk;
            simd::axpy(1.0, &bias.data[row + keys.start..row + keys.end], s);
        }
        let row = b * self.tk;
        if let Some(real) = &self.how.mask.padding {
            let real = &real[row + keys.start..row + keys.end];
            s.iter_mut().zip(real).filter(|(_, real)| !**real).for_each(|(s, _)| *s = f32::NEG_INFINITY);
        }
        if let Some(document) = &self.how.mask.documents {
            let mine = document[row + self.position(b, i)];
            let theirs = &document[row + keys.start..row + keys.end];
            s.iter_mut().zip(theirs).filter(|(_, doc)| **doc != mine).for_each(|(s, _)| *s = f32::NEG_INFINITY);
        }
    }

    /// `o ← P·V` of a tile, or `o ← o + P·V`.
    pub(super) fn mix(
        &self,
        b: usize,
        h: usize,
        queries: &Range<usize>,
        keys: &Range<usize>,
        p: &[f32],
        add: bool,
        o: &mut [f32],
    ) {
        let (n, d, v) = (keys.len(), self.d, self.v.matrix(self.batches(b).1, self.group(h), keys.start));
        if !self.is_tiled(b, queries) {
            for (p, o) in p.chunks_exact(n).zip(o.chunks_exact_mut(d)).take(queries.len()) {
                weighted_sum(p, &self.v.data()[v.start..], v.row, add, o);
            }
            return;
        }
        product_on(false, [queries.len(), n, d], 1.0, o, rowwise(d), add, p, rowwise(n), self.v.data(), v);
    }

    /// Dropout's probability and stream, if any weight is to be dropped.
    pub(super) fn dropout(&self) -> Option<(f32, Key)> {
        self.how.dropout.filter(|(p, _)| *p > 0.0)
    }

    /// The dropout factors of query `i` for the keys from `first` on: 0 or 1 / (1 − p) each.
    pub(super) fn factors(&self, (p, key): (f32, Key), [b, h, i, first]: [usize; 4], factors: &mut [f32]) {
        let index = ((b * self.how.heads + h) * self.tq + i) * self.tk + first;
        dropout::factors(p, key, index as u64, factors);
    }
}

/// Panics with a reason unless the segments are all `n` queries in their order, each with keys of its slot.
fn check_segments(segments: &[Segment], n: usize, slots: usize, room: usize) {
    let mut next = 0;
    for Segment { queries, slot, keys, .. } in segments {
        assert_eq!(queries.start, next, "attention: segments follow each other");
        assert!(queries.end >= next && *slot < slots && *keys <= room, "attention: no such keys: slot {slot}, {keys}");
        next = queries.end;
    }
    assert_eq!(next, n, "attention: segments are all queries");
}

simd! {
    /// `sⱼ ← scale·q·kⱼ`, the keys `stride` apart.
    fn dots<'a, S>(simd, scale: f32, q: &'a [f32], k: &'a [f32], stride: usize, s: &'a mut [f32]) {
        let (qs, qt) = S::as_simd_f32s(q);
        let last = simd.partial_load_f32s(qt);
        for (j, s) in s.iter_mut().enumerate() {
            let (ks, kt) = S::as_simd_f32s(&k[j * stride..][..q.len()]);
            // Two sums, so that one addition need not wait for the other.
            let mut sums = [simd.mul_f32s(last, simd.partial_load_f32s(kt)), simd.splat_f32s(0.0)];
            for (c, (q, k)) in qs.iter().zip(ks).enumerate() {
                sums[c % 2] = simd.mul_add_f32s(*q, *k, sums[c % 2]);
            }
            *s = scale * simd.reduce_sum_f32s(simd.add_f32s(sums[0], sums[1]));
        }
    }
}

simd! {
    /// `o ← Σⱼ pⱼ·vⱼ`, or `o ← o + Σⱼ pⱼ·vⱼ`, the values `stride` apart.
    fn weighted_sum<'a, S>(simd, p: &'a [f32], v: &'a [f32], stride: usize, add: bool, o: &'a mut [f32]) {
        if !add {
            o.fill(0.0);
        }
        let width = o.len();
        let (os, ot) = S::as_mut_simd_f32s(o);
        // Four vectors of the output stay in registers while all values pass by.
        let (fours, rest) = pulp::as_arrays_mut::<4, _>(os);
        let lanes = S::F32_LANES;
        for (block, o) in fours.iter_mut().enumerate() {
            let mut sum = *o;
            for (j, p) in p.iter().enumerate() {
                let (vs, _) = S::as_simd_f32s(&v[j * stride + block * 4 * lanes..][..4 * lanes]);
                let p = simd.splat_f32s(*p);
                for c in 0..4 {
                    sum[c] = simd.mul_add_f32s(p, vs[c], sum[c]);
                }
            }
            *o = sum;
        }
        let done = fours.len() * 4;
        for (j, p) in p.iter().enumerate() {
            let (vs, vt) = S::as_simd_f32s(&v[j * stride..][..width]);
            let p = simd.splat_f32s(*p);
            for (o, v) in rest.iter_mut().zip(&vs[done..]) {
                *o = simd.mul_add_f32s(p, *v, *o);
            }
            let last = simd.mul_add_f32s(p, simd.partial_load_f32s(vt), simd.partial_load_f32s(ot));
            simd.partial_store_f32s(ot, last);
        }
    }
}

simd! {
    /// Turns scores into `e^(s − m)`, m the larger of `max` and their maximum; gives m and the sum.
    ///
    /// While there is nothing but −∞, 0 stands in for m: all weights are 0 then, where −∞ − (−∞) would be NaN.
    pub(super) fn soften<'a, S>(simd, max: f32, s: &'a mut [f32]) -> [f32; 2] {
        let (head, tail) = S::as_mut_simd_f32s(s);
        let mut maxima = [simd.splat_f32s(max); 2];
        let (pairs, odd) = pulp::as_arrays::<2, _>(head);
        for pair in pairs {
            maxima = [simd.max_f32s(pair[0], maxima[0]), simd.max_f32s(pair[1], maxima[1])];
        }
        for s in odd {
            maxima[0] = simd.max_f32s(*s, maxima[0]);
        }
        let max = simd.reduce_max_f32s(simd.max_f32s(maxima[0], maxima[1]));
        let max = tail.iter().copied().fold(max, f32::max);
        let centre = simd.splat_f32s(if max == f32::NEG_INFINITY { 0.0 } else { max });
        let mut sum = simd.splat_f32s(0.0);
        for s in head {
            *s = simd::exp(simd, simd.sub_f32s(*s, centre));
            sum = simd.add_f32s(sum, *s);
        }
        let last = simd::exp(simd, simd.sub_f32s(simd.partial_load_f32s(tail), centre));
        simd.partial_store_f32s(tail, last);
        // The tail is summed apart: lanes past its end hold something else.
        [max, simd.reduce_sum_f32s(sum) + tail.iter().sum::<f32>()]
    }
}

simd! {
    /// Turns scores into weights `e^(s − log_sum)` and the gradient of the weights into that of the scores:
    /// `dp ← p∘(dp − delta)`.
    pub(super) fn soften_back<'a, S>(simd, log_sum: f32, delta: f32, s: &'a mut [f32], dp: &'a mut [f32]) {
        let (log_sum, delta) = (simd.splat_f32s(log_sum), simd.splat_f32s(delta));
        let ((ss, st), (gs, gt)) = (S::as_mut_simd_f32s(s), S::as_mut_simd_f32s(dp));
        let weight = |s| simd::exp(simd, simd.sub_f32s(s, log_sum));
        for (s, g) in ss.iter_mut().zip(gs) {
            *s = weight(*s);
            *g = simd.mul_f32s(*s, simd.sub_f32s(*g, delta));
        }
        let (p, g) = (weight(simd.partial_load_f32s(st)), simd.partial_load_f32s(gt));
        simd.partial_store_f32s(st, p);
        simd.partial_store_f32s(gt, simd.mul_f32s(p, simd.sub_f32s(g, delta)));
    }
}

/// tanh with a small *relative* error: near 0, where most scores are, by its series, elsewhere by [`simd::tanh`], whose
/// absolute error of 2e-7 a cap of 50 would make 1e-5.
#[inline(always)]
fn tanh<S: pulp::Simd>(simd: S, x: S::f32s) -> S::f32s {
    let at = |v: f32| simd.splat_f32s(v);
    let square = simd.mul_f32s(x, x);
    let series = [62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0, 1.0];
    let sum = series[1..].iter().fold(at(series[0]), |sum, c| simd.mul_add_f32s(sum, square, at(*c)));
    let near = simd.less_than_f32s(square, at(0.0625));
    simd.select_f32s(near, simd.mul_f32s(x, sum), simd::tanh(simd, x))
}

simd! {
    /// `s ← cap·tanh(s/cap)`.
    fn softly_capped<'a, S>(simd, cap: f32, s: &'a mut [f32]) {
        let (by, cap) = (simd.splat_f32s(1.0 / cap), simd.splat_f32s(cap));
        let capped = |s| simd.mul_f32s(cap, tanh(simd, simd.mul_f32s(s, by)));
        let (head, tail) = S::as_mut_simd_f32s(s);
        for s in head {
            *s = capped(*s);
        }
        let last = capped(simd.partial_load_f32s(tail));
        simd.partial_store_f32s(tail, last);
    }
}

simd! {
    /// The slope of a soft cap at each score: `1 − tanh²(s/cap)`.
    pub(super) fn cap_slopes<'a, S>(simd, cap: f32, s: &'a [f32], slopes: &'a mut [f32]) {
        let (by, one) = (simd.splat_f32s(1.0 / cap), simd.splat_f32s(1.0));
        let slope = |s| {
            let t = simd::tanh(simd, simd.mul_f32s(s, by));
            simd.negate_mul_add_f32s(t, t, one)
        };
        let ((ss, st), (ys, yt)) = (S::as_simd_f32s(s), S::as_mut_simd_f32s(slopes));
        for (s, y) in ss.iter().zip(ys) {
            *y = slope(*s);
        }
        simd.partial_store_f32s(yt, slope(simd.partial_load_f32s(st)));
    }
}

simd! {
    /// `x ← x·y`, element by element.
    pub(super) fn times<'a, S>(simd, x: &'a mut [f32], y: &'a [f32]) {
        let ((xs, xt), (ys, yt)) = (S::as_mut_simd_f32s(x), S::as_simd_f32s(y));
        for (x, y) in xs.iter_mut().zip(ys) {
            *x = simd.mul_f32s(*x, *y);
        }
        let last = simd.mul_f32s(simd.partial_load_f32s(xt), simd.partial_load_f32s(yt));
        simd.partial_store_f32s(xt, last);
    }
}

simd! {
    /// `y ← a·x`.
    pub(super) fn scaled<'a, S>(simd, a: f32, x: &'a [f32], y: &'a mut [f32]) {
        let ((xs, xt), (ys, yt)) = (S::as_simd_f32s(x), S::as_mut_simd_f32s(y));
        let a = simd.splat_f32s(a);
        for (x, y) in xs.iter().zip(ys) {
            *y = simd.mul_f32s(a, *x);
        }
        simd.partial_store_f32s(yt, simd.mul_f32s(a, simd.partial_load_f32s(xt)));
    }
}
