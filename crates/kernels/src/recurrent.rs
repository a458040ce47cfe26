//! One step of a gated recurrent cell, everything after the two projections.
//!
//! LSTM (Hochreiter and Schmidhuber 1997), gates packed `[i | f | g | o]`: `c′ = σ(f)·c + σ(i)·tanh(g)`,
//! `h′ = σ(o)·tanh(c′)`. GRU (Cho et al. 2014), packed `[r | z | n]`, x and h projected apart:
//! `n′ = tanh(nₓ + σ(r)·nₕ)`, `h′ = (1 − σ(z))·n′ + σ(z)·h`, r and z the sums of both projections. The orders are
//! PyTorch's. Shapes: gates `[B, 4H]`, c `[B, H]` → `[B, 2H]` = `[h′ | c′]`; gx, gh `[B, 3H]`, h `[B, H]` → `[B, H]`.
//!
//! Kept are the gates after their non-linearities (and the LSTM's `tanh c′`): the slopes are then `s·(1 − s)` and
//! `1 − t²`, and the backward computes no exponential. NaN in a gate stays in its own unit; a gate of ±∞ is fully open or
//! shut.

use crate::fused::{Fused, apply, contiguous, elements, rows_and_width, tensor, uninit};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::{self, simd};
use crate::threads;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, activation::sigmoid};
use pulp::Simd;
use rayon::prelude::*;
use std::array::from_fn;

/// LSTM step: gates `[B, 4H]` and cell `[B, H]` to `[h′ | c′]` `[B, 2H]`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// // Gates of 0 are half open and the candidate is tanh 0 = 0: half of the cell is left.
/// let device = Device::flex();
/// let next = qkv_kernels::lstm_step(Tensor::zeros([1, 4], &device), Tensor::from_floats([[2.0]], &device));
/// let next: Vec<f32> = next.into_data().try_to_vec().unwrap();
/// assert!((next[0] - 0.5 * 1f32.tanh()).abs() < 1e-6); // h′ = σ(0)·tanh(c′)
/// assert_eq!(next[1], 1.0); // c′ = σ(0)·2
/// ```
///
/// # Panics
/// If the gates are not four times as wide as the cell, or the batches differ.
pub fn lstm_step(gates: Tensor<2>, cell: Tensor<2>) -> Tensor<2> {
    let [b, h] = cell.dims();
    assert_eq!(gates.dims(), [b, 4 * h], "lstm_step: four gates for each cell");
    match apply(Lstm, [Some(gates.into_dispatch()), Some(cell.into_dispatch())]) {
        Ok(next) => Tensor::from_dispatch(next),
        Err(inputs) => {
            let [gates, cell] = inputs.map(|t| Tensor::from_dispatch(t.expect("lstm_step has two inputs")));
            lstm_plain(gates, cell)
        }
    }
}

/// GRU step: projections of the input and of the state `[B, 3H]`, and the state `[B, H]`, to the next state.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// // Gates of 0 are half open and the candidate is tanh 0 = 0: half of the state is left.
/// let device = Device::flex();
/// let zero = Tensor::zeros([1, 3], &device);
/// let next = qkv_kernels::gru_step(zero.clone(), zero, Tensor::from_floats([[2.0]], &device));
/// assert_eq!(next.into_data().try_to_vec::<f32>().unwrap(), [1.0]);
/// ```
///
/// # Panics
/// If the projections are not three times as wide as the state, or the batches differ.
pub fn gru_step(gx: Tensor<2>, gh: Tensor<2>, state: Tensor<2>) -> Tensor<2> {
    let [b, h] = state.dims();
    assert_eq!((gx.dims(), gh.dims()), ([b, 3 * h], [b, 3 * h]), "gru_step: three gates for each unit");
    match apply(Gru, [gx, gh, state].map(|t| Some(t.into_dispatch()))) {
        Ok(next) => Tensor::from_dispatch(next),
        Err(inputs) => {
            let [gx, gh, state] = inputs.map(|t| Tensor::from_dispatch(t.expect("gru_step has three inputs")));
            gru_plain(gx, gh, state)
        }
    }
}

/// The plain twin of [`lstm_step`].
pub(crate) fn lstm_plain(gates: Tensor<2>, cell: Tensor<2>) -> Tensor<2> {
    let h = cell.dims()[1];
    let gate = |i| gates.clone().narrow(1, i * h, h);
    let cell = sigmoid(gate(1)) * cell + sigmoid(gate(0)) * gate(2).tanh();
    Tensor::cat(vec![sigmoid(gate(3)) * cell.clone().tanh(), cell], 1)
}

/// The plain twin of [`gru_step`].
pub(crate) fn gru_plain(gx: Tensor<2>, gh: Tensor<2>, state: Tensor<2>) -> Tensor<2> {
    let h = state.dims()[1];
    let part = |t: &Tensor<2>, i| t.clone().narrow(1, i * h, h);
    let r = sigmoid(part(&gx, 0) + part(&gh, 0));
    let z = sigmoid(part(&gx, 1) + part(&gh, 1));
    let n = (part(&gx, 2) + r * part(&gh, 2)).tanh();
    n.clone() + z * (state - n)
}

#[derive(Clone, Copy, Debug)]
struct Lstm;

#[derive(Clone, Debug)]
struct LstmSaved {
    /// c, the cell before the step
    cell: FlexTensor,
    /// `[B, 5H]`: σ(i), σ(f), tanh(g), σ(o), tanh(c′)
    opened: Vec<f32>,
}

impl Fused<2> for Lstm {
    type Saved = LstmSaved;

    fn forward(&self, inputs: [Option<FlexTensor>; 2], keep: bool) -> (FlexTensor, Option<LstmSaved>) {
        let [gates, cell] = inputs.map(|t| contiguous(t.expect("lstm_step has two inputs")));
        let (b, h) = rows_and_width(&cell);
        let (mut next, mut opened) = (uninit(b * 2 * h), uninit(b * 5 * h));
        let (packed, c) = (elements(&gates), elements(&cell));
        for_rows_of(b, [&mut next, &mut opened], |row, [next, opened]| {
            lstm_row(&packed[row * 4 * h..][..4 * h], &c[row * h..][..h], next, opened);
        });
        (tensor(next, [b, 2 * h]), keep.then_some(LstmSaved { cell, opened }))
    }

    fn backward(&self, saved: LstmSaved, grad: FlexTensor, wants: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let LstmSaved { cell, opened } = saved;
        let grad = contiguous(grad);
        let (b, h) = rows_and_width(&cell);
        let (mut dgates, mut dcell) = (uninit(b * 4 * h), uninit(b * h));
        let (dnext, c) = (elements(&grad), elements(&cell));
        for_rows_of(b, [&mut dgates, &mut dcell], |row, [dgates, dcell]| {
            let (dnext, opened) = (&dnext[row * 2 * h..][..2 * h], &opened[row * 5 * h..][..5 * h]);
            lstm_row_back(dnext, opened, &c[row * h..][..h], dgates, dcell);
        });
        [wants[0].then(|| tensor(dgates, [b, 4 * h])), wants[1].then(|| tensor(dcell, [b, h]))]
    }
}

simd! {
    pub(crate) fn lstm_row<'a, S>(simd, gates: &'a [f32], cell: &'a [f32], next: &'a mut [f32], opened: &'a mut [f32]) {
        let ([i, f, g, o], [h2, c2], [oi, of, og, oo, t]) = (parts(gates), parts_mut(next), parts_mut(opened));
        lanes(simd, [i, f, g, o, cell], [h2, c2, oi, of, og, oo, t], #[inline(always)] |[i, f, g, o, c]| {
            let (i, f, o) = (simd::sigmoid(simd, i), simd::sigmoid(simd, f), simd::sigmoid(simd, o));
            let g = simd::tanh(simd, g);
            let c2 = simd.mul_add_f32s(f, c, simd.mul_f32s(i, g));
            let t = simd::tanh(simd, c2);
            [simd.mul_f32s(o, t), c2, i, f, g, o, t]
        });
    }
}

simd! {
    pub(crate) fn lstm_row_back<'a, S>(
        simd, dnext: &'a [f32], opened: &'a [f32], cell: &'a [f32], dgates: &'a mut [f32], dcell: &'a mut [f32],
    ) {
        let ([dh, dc2], [i, f, g, o, t], [di, df, dg, do_]) = (parts(dnext), parts(opened), parts_mut(dgates));
        lanes(simd, [dh, dc2, i, f, g, o, t, cell], [di, df, dg, do_, dcell], #[inline(always)] |[dh, dc2, i, f, g, o, t, c]| {
            // c′ is met twice: as output, and inside h′.
            let dc = simd.mul_add_f32s(simd.mul_f32s(dh, o), tanh_slope(simd, t), dc2);
            let di = simd.mul_f32s(simd.mul_f32s(dc, g), sigmoid_slope(simd, i));
            let df = simd.mul_f32s(simd.mul_f32s(dc, c), sigmoid_slope(simd, f));
            let dg = simd.mul_f32s(simd.mul_f32s(dc, i), tanh_slope(simd, g));
            let do_ = simd.mul_f32s(simd.mul_f32s(dh, t), sigmoid_slope(simd, o));
            [di, df, dg, do_, simd.mul_f32s(dc, f)]
        });
    }
}

#[derive(Clone, Copy, Debug)]
struct Gru;

#[derive(Clone, Debug)]
struct GruSaved {
    gh: FlexTensor,
    state: FlexTensor,
    /// `[B, 3H]`: σ(r), σ(z), n′
    opened: Vec<f32>,
}

impl Fused<3> for Gru {
    type Saved = GruSaved;

    fn forward(&self, inputs: [Option<FlexTensor>; 3], keep: bool) -> (FlexTensor, Option<GruSaved>) {
        let [gx, gh, state] = inputs.map(|t| contiguous(t.expect("gru_step has three inputs")));
        let (b, h) = rows_and_width(&state);
        let (mut next, mut opened) = (uninit(b * h), uninit(b * 3 * h));
        let (x, y, s) = (elements(&gx), elements(&gh), elements(&state));
        for_rows_of(b, [&mut next, &mut opened], |row, [next, opened]| {
            let gates = row * 3 * h..(row + 1) * 3 * h;
            gru_row(&x[gates.clone()], &y[gates], &s[row * h..][..h], next, opened);
        });
        (tensor(next, [b, h]), keep.then_some(GruSaved { gh, state, opened }))
    }

    fn backward(&self, saved: GruSaved, grad: FlexTensor, wants: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let GruSaved { gh, state, opened } = saved;
        let grad = contiguous(grad);
        let (b, h) = rows_and_width(&state);
        let (mut dgx, mut dgh, mut dstate) = (uninit(b * 3 * h), uninit(b * 3 * h), uninit(b * h));
        let (d, y, s) = (elements(&grad), elements(&gh), elements(&state));
        for_rows_of(b, [&mut dgx, &mut dgh, &mut dstate], |row, [dgx, dgh, dstate]| {
            let (gates, units) = (row * 3 * h..(row + 1) * 3 * h, row * h..(row + 1) * h);
            let kept = (&opened[gates.clone()], &y[gates], &s[units.clone()]);
            gru_row_back(&d[units], kept.0, kept.1, kept.2, dgx, dgh, dstate);
        });
        [
            wants[0].then(|| tensor(dgx, [b, 3 * h])),
            wants[1].then(|| tensor(dgh, [b, 3 * h])),
            wants[2].then(|| tensor(dstate, [b, h])),
        ]
    }
}

simd! {
    pub(crate) fn gru_row<'a, S>(
        simd, gx: &'a [f32], gh: &'a [f32], state: &'a [f32], next: &'a mut [f32], opened: &'a mut [f32],
    ) {
        let ([rx, zx, nx], [rh, zh, nh], [r, z, n]) = (parts(gx), parts(gh), parts_mut(opened));
        lanes(simd, [rx, zx, nx, rh, zh, nh, state], [next, r, z, n], #[inline(always)] |[rx, zx, nx, rh, zh, nh, h]| {
            let r = simd::sigmoid(simd, simd.add_f32s(rx, rh));
            let z = simd::sigmoid(simd, simd.add_f32s(zx, zh));
            let n = simd::tanh(simd, simd.mul_add_f32s(r, nh, nx));
            [simd.mul_add_f32s(z, simd.sub_f32s(h, n), n), r, z, n]
        });
    }
}

simd! {
    pub(crate) fn gru_row_back<'a, S>(
        simd, d: &'a [f32], opened: &'a [f32], gh: &'a [f32], state: &'a [f32],
        dgx: &'a mut [f32], dgh: &'a mut [f32], dstate: &'a mut [f32],
    ) {
        let ([r, z, n], [_, _, nh]) = (parts(opened), parts(gh));
        let ([drx, dzx, dnx], [drh, dzh, dnh]) = (parts_mut(dgx), parts_mut(dgh));
        lanes(simd, [d, r, z, n, nh, state], [drx, dzx, dnx, drh, dzh, dnh, dstate], #[inline(always)] |[d, r, z, n, nh, h]| {
            let kept = simd.mul_f32s(d, z);
            let dn = simd.mul_f32s(simd.sub_f32s(d, kept), tanh_slope(simd, n));
            let dz = simd.mul_f32s(simd.mul_f32s(d, simd.sub_f32s(h, n)), sigmoid_slope(simd, z));
            let dr = simd.mul_f32s(simd.mul_f32s(dn, nh), sigmoid_slope(simd, r));
            // r and z are sums of both projections, so both get the same gradient.
            [dr, dz, dn, dr, dz, simd.mul_f32s(dn, r), kept]
        });
    }
}

/// The slope of σ where its value is `s`: `s·(1 − s)`.
#[inline(always)]
fn sigmoid_slope<S: Simd>(simd: S, s: S::f32s) -> S::f32s {
    simd.mul_f32s(s, simd.sub_f32s(simd.splat_f32s(1.0), s))
}

/// The slope of tanh where its value is `t`: `1 − t²`.
#[inline(always)]
pub(crate) fn tanh_slope<S: Simd>(simd: S, t: S::f32s) -> S::f32s {
    simd.negate_mul_add_f32s(t, t, simd.splat_f32s(1.0))
}

/// The `N` equal parts of a packed row.
#[inline(always)]
fn parts<const N: usize>(row: &[f32]) -> [&[f32]; N] {
    let width = row.len() / N;
    from_fn(|i| &row[i * width..][..width])
}

/// The `N` equal parts of a packed row, for writing.
#[inline(always)]
fn parts_mut<const N: usize>(row: &mut [f32]) -> [&mut [f32]; N] {
    let mut parts = row.chunks_exact_mut(row.len() / N);
    from_fn(|_| parts.next().unwrap_or_default())
}

/// `outs ← f(ins)`, lane by lane, over slices of one length. `f` must be marked `#[inline(always)]`: it is called in two
/// places, and a closure that is not inlined loses the wide instructions of its surroundings.
#[inline(always)]
pub(crate) fn lanes<S: Simd, const I: usize, const O: usize>(
    simd: S,
    ins: [&[f32]; I],
    outs: [&mut [f32]; O],
    f: impl Fn([S::f32s; I]) -> [S::f32s; O],
) {
    let ins = ins.map(|x| S::as_simd_f32s(x));
    let outs = outs.map(|y| S::as_mut_simd_f32s(y));
    for j in 0..ins[0].0.len() {
        let y = f(ins.map(|(head, _)| head[j]));
        for i in 0..O {
            outs[i].0[j] = y[i];
        }
    }
    let y = f(ins.map(|(_, tail)| simd.partial_load_f32s(tail)));
    for i in 0..O {
        simd.partial_store_f32s(outs[i].1, y[i]);
    }
}

/// `f(row, parts)` for each of `rows` rows of several slices, each of its own width, in parallel when there is enough to
/// do. Rows must be independent.
pub(crate) fn for_rows_of<const N: usize>(
    rows: usize,
    slices: [&mut [f32]; N],
    f: impl Fn(usize, [&mut [f32]; N]) + Sync,
) {
    let size: usize = slices.iter().map(|s| s.len()).sum();
    if size == 0 {
        return;
    }
    let widths = slices.each_ref().map(|s| s.len() / rows);
    let step = threads::chunk_rows(size / rows);
    let chunks: Vec<[&mut [f32]; N]> = cut(slices, widths.map(|w| w * step)).collect();
    let each = |(chunk, slices): (usize, [&mut [f32]; N])| {
        cut(slices, widths).enumerate().for_each(|(row, parts)| f(chunk * step + row, parts));
    };
    if size <= threads::SERIAL {
        chunks.into_iter().enumerate().for_each(each);
    } else {
        chunks.into_par_iter().enumerate().for_each(each);
    }
}

/// Cuts each slice into pieces of its own length, and hands out the first pieces, the second, and so on. A slice without
/// numbers gives pieces without numbers; the first slice has some.
fn cut<const N: usize>(slices: [&mut [f32]; N], lengths: [usize; N]) -> impl Iterator<Item = [&mut [f32]; N]> {
    let mut lengths = lengths.into_iter();
    let mut pieces = slices.map(|s| s.chunks_mut(lengths.next().unwrap_or(1).max(1)));
    std::iter::from_fn(move || {
        let next = pieces.each_mut().map(|p| p.next());
        next[0].is_some().then(|| next.map(Option::unwrap_or_default))
    })
}

/// This kernel's row in the register.
pub const OP: Op = Op {
    name: "recurrent",
    formula: "LSTM: σ(o)·tanh(σ(f)·c + σ(i)·tanh g); GRU: (1 − σ(z))·tanh(nₓ + σ(r)·nₕ) + σ(z)·h",
    cases,
    bench,
};

fn lstm_case(b: usize, h: usize) -> Case {
    Case::new(format!("lstm [{b}, {h}]"), [b * 4 * h, b * h], move |x| {
        lstm_step(x[0].clone().reshape([b, 4 * h]), x[1].clone().reshape([b, h])).flatten(0, 1)
    })
}

fn gru_case(b: usize, h: usize) -> Case {
    Case::new(format!("gru [{b}, {h}]"), [b * 3 * h, b * 3 * h, b * h], move |x| {
        let gates = |i: usize| x[i].clone().reshape([b, 3 * h]);
        gru_step(gates(0), gates(1), x[2].clone().reshape([b, h])).flatten(0, 1)
    })
}

fn cases() -> Vec<Case> {
    let sizes = [(1, 1), (1, 3), (3, 17), (5, 32), (53, 131)];
    let lstm_views = Case::new("lstm, transposed and narrowed", [4 * 7 * 3, 3 * 9], |x| {
        let cell = x[1].clone().reshape([3, 9]).narrow(1, 1, 7);
        lstm_step(x[0].clone().reshape([4 * 7, 3]).transpose(), cell).flatten(0, 1)
    });
    let gru_views = Case::new("gru, transposed and narrowed", [3 * 5 * 2, 2 * 40, 5 * 2], |x| {
        let gh = x[1].clone().reshape([2, 40]).narrow(1, 11, 15);
        let state = x[2].clone().reshape([5, 2]).transpose();
        gru_step(x[0].clone().reshape([15, 2]).transpose(), gh, state).flatten(0, 1)
    });
    let large = [lstm_case(2, 19).spread(30.0), gru_case(2, 19).spread(30.0)];
    let lstm = sizes.map(|(b, h)| lstm_case(b, h));
    let gru = sizes.map(|(b, h)| gru_case(b, h));
    lstm.into_iter().chain(gru).chain([lstm_views, gru_views]).chain(large).collect()
}

fn bench() -> Bench {
    let (b, h) = (64, 512);
    Bench { case: lstm_case(b, h), work: Work::Bytes(4.0 * (b * h * (4 + 1 + 2)) as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f32 = f32::INFINITY;

    fn lstm(gates: Vec<f32>, cell: Vec<f32>) -> Vec<f32> {
        let h = cell.len();
        let (next, _) = Lstm.forward([Some(tensor(gates, [1, 4 * h])), Some(tensor(cell, [1, h]))], false);
        elements(&next).to_vec()
    }

    fn gru(gx: Vec<f32>, gh: Vec<f32>, state: Vec<f32>) -> Vec<f32> {
        let h = state.len();
        let inputs = [tensor(gx, [1, 3 * h]), tensor(gh, [1, 3 * h]), tensor(state, [1, h])];
        let (next, _) = Gru.forward(inputs.map(Some), false);
        elements(&next).to_vec()
    }

    #[test]
    fn gates_at_infinity_are_open_or_shut() {
        // Input shut, forget open, output open: the cell stays, and half of ln 3 has tanh ½.
        let cell = 3f32.ln() / 2.0;
        let next = lstm(vec![-INF, INF, 3.0, INF], vec![cell]);
        assert!((next[0] - 0.5).abs() < 2e-7 && next[1] == cell, "{next:?}");
        // Input open, forget shut, candidate ∞, output shut.
        assert_eq!(lstm(vec![INF, -INF, INF, -INF], vec![0.5]), [0.0, 1.0]);
        // Update open: the state stays. Shut: the candidate takes its place.
        assert_eq!(gru(vec![0.0, INF, 0.0], vec![0.0; 3], vec![0.5]), [0.5]);
        assert_eq!(gru(vec![0.0, -INF, INF], vec![0.0; 3], vec![0.5]), [1.0]);
    }

    #[test]
    fn nan_stays_in_its_unit() {
        for gate in 0..4 {
            let mut gates = vec![0.1; 4 * 3];
            gates[gate * 3 + 1] = f32::NAN;
            let next = lstm(gates, vec![0.5; 3]);
            assert!(next[1].is_nan() && [0, 2, 3, 5].iter().all(|&i: &usize| next[i].is_finite()), "{next:?}");
        }
        for gate in 0..3 {
            let mut gx = vec![0.1; 3 * 3];
            gx[gate * 3 + 1] = f32::NAN;
            let next = gru(gx, vec![0.2; 9], vec![0.5; 3]);
            assert!(next[1].is_nan() && next[0].is_finite() && next[2].is_finite(), "{next:?}");
        }
    }

    #[test]
    fn an_empty_batch_is_fine() {
        assert!(lstm(vec![], vec![]).is_empty() && gru(vec![], vec![], vec![]).is_empty());
    }

    #[test]
    #[should_panic(expected = "four gates for each cell")]
    fn widths_must_fit() {
        let device = burn::tensor::Device::flex();
        lstm_step(Tensor::zeros([1, 3], &device), Tensor::zeros([1, 1], &device));
    }
}
