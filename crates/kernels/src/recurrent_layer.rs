//! A whole recurrent layer as one node of the graph: every step of one cell over a sequence, forward and backward.
//!
//! ```text
//! for each step t:   gh = h·Wᵀ + b      state′ = cell(gx[t], gh, state)      (cells: see `recurrent.rs`; RNN: tanh(gx + gh))
//! backward:          dgh[t], dstate = cellᵀ(…)      dh += dgh[t]·W           then once  dW = dghᵀ·h,  db = Σ dgh
//! ```
//! gx `[T, B, G·H]` is the projected input of all steps, W `[G·H, H]`, state `[B, S]`, S = H or the LSTM's 2H = `[h | c]` → the
//! state behind every step `[T, B, S]`. A step that is padding leaves the state as it is. Steps can be taken from the last to
//! the first; the output stays in the order of time.
//!
//! One node instead of some ten for each step: nothing but the states and the opened gates is kept, the gradient of W is one
//! product over all steps, and the graph does not grow with the length.

use crate::fused::{Fused, apply, contiguous, elements, tensor, uninit};
use crate::product::{Accumulate, Piece, Strided, product, product_of_pieces, rowwise};
use crate::recurrent::{
    for_rows_of, gru_plain, gru_row, gru_row_back, lanes, lstm_plain, lstm_row, lstm_row_back, tanh_slope,
};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::{self, simd};
use burn::backend::TensorMetadata;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Bool, Tensor, TensorData};
use rayon::prelude::*;
use std::sync::Arc;

/// Which cell a layer is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentCell {
    /// `tanh(gx + gh)`
    Rnn,
    /// reset and update gate, candidate
    Gru,
    /// input, forget and output gate, candidate, and a cell beside the output
    Lstm,
}

impl RecurrentCell {
    /// G: how many gates are packed in a projection.
    pub fn gates(self) -> usize {
        match self {
            Self::Rnn => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// S/H: how many vectors make up the state.
    pub fn parts(self) -> usize {
        if self == Self::Lstm { 2 } else { 1 }
    }

    /// How many vectors of opened gates a step keeps for its backward.
    fn opened(self) -> usize {
        match self {
            Self::Rnn => 0,
            Self::Gru => 3,
            Self::Lstm => 5,
        }
    }
}

/// Which steps count, and in which order they are taken.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// `[T·B]`, false at padding
    pub real: Option<Arc<[bool]>>,
    /// from the last to the first
    pub reverse: bool,
}

/// The states `[T, B, S]` behind every step of a layer.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::recurrent_layer::{RecurrentCell, Steps, recurrent_layer};
/// let device = Device::flex();
/// let one = Tensor::<2>::ones([1, 1], &device); // h′ = tanh(x + h)
/// let x = Tensor::<3>::from_floats([[[0.5]], [[0.0]]], &device);
/// let y = recurrent_layer(RecurrentCell::Rnn, x, one, None, Tensor::zeros([1, 1], &device), Steps::default());
/// let y: Vec<f32> = y.into_data().try_to_vec().unwrap();
/// assert!((y[0] - 0.4621).abs() < 1e-4 && (y[1] - 0.4318).abs() < 1e-4); // tanh ½, then tanh of that
/// ```
///
/// # Panics
/// If the sizes do not fit each other.
pub fn recurrent_layer(
    cell: RecurrentCell,
    gx: Tensor<3>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    start: Tensor<2>,
    steps: Steps,
) -> Tensor<3> {
    let ([t, b, g], [rows, h]) = (gx.dims(), weight.dims());
    assert!(g == rows && g == cell.gates() * h, "recurrent_layer: {g} projected features for {rows} rows of width {h}");
    assert_eq!(start.dims(), [b, cell.parts() * h], "recurrent_layer: the state does not fit");
    assert!(bias.as_ref().is_none_or(|bias| bias.dims() == [g]), "recurrent_layer: the bias does not fit");
    assert!(steps.real.as_ref().is_none_or(|real| real.len() == t * b), "recurrent_layer: the padding does not fit");
    let inputs = [
        Some(gx.into_dispatch()),
        Some(weight.into_dispatch()),
        bias.map(Tensor::into_dispatch),
        Some(start.into_dispatch()),
    ];
    match apply(Layer { cell, steps: steps.clone() }, inputs) {
        Ok(states) => Tensor::from_dispatch(states),
        Err([gx, weight, bias, start]) => {
            let given = "recurrent_layer has three inputs and perhaps a bias";
            let (gx, weight) = (Tensor::from_dispatch(gx.expect(given)), Tensor::from_dispatch(weight.expect(given)));
            let start = Tensor::from_dispatch(start.expect(given));
            plain_layer(cell, gx, weight, bias.map(Tensor::from_dispatch), start, &steps)
        }
    }
}

/// The plain twin of [`recurrent_layer`].
fn plain_layer(
    cell: RecurrentCell,
    gx: Tensor<3>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    start: Tensor<2>,
    steps: &Steps,
) -> Tensor<3> {
    let ([t, b, g], [s, h]) = (gx.dims(), [start.dims()[1], weight.dims()[1]]);
    let mut states: Vec<Option<Tensor<2>>> = vec![None; t];
    let mut state = start;
    for at in order(t, steps.reverse) {
        let gx = gx.clone().narrow(0, at, 1).reshape([b, g]);
        let gh = state.clone().narrow(1, 0, h).matmul(weight.clone().transpose());
        let gh = match &bias {
            Some(bias) => gh + bias.clone().unsqueeze::<2>(),
            None => gh,
        };
        let next = match cell {
            RecurrentCell::Rnn => (gx + gh).tanh(),
            RecurrentCell::Gru => gru_plain(gx, gh, state.clone()),
            RecurrentCell::Lstm => lstm_plain(gx + gh, state.clone().narrow(1, h, h)),
        };
        state = match &steps.real {
            Some(real) => {
                let padding: Vec<bool> = real[at * b..(at + 1) * b].iter().map(|real| !real).collect();
                let padding = Tensor::<2, Bool>::from_data(TensorData::new(padding, [b, 1]), &next.device());
                next.mask_where(padding.expand([b, s]), state)
            }
            None => next,
        };
        states[at] = Some(state.clone());
    }
    Tensor::stack(states.into_iter().flatten().collect(), 0)
}

/// The steps in the order in which they are taken.
fn order(t: usize, reverse: bool) -> impl DoubleEndedIterator<Item = usize> {
    (0..t).map(move |i| if reverse { t - 1 - i } else { i })
}

#[derive(Clone, Debug)]
struct Layer {
    cell: RecurrentCell,
    steps: Steps,
}

#[derive(Clone, Debug)]
struct Saved {
    weight: FlexTensor,
    start: FlexTensor,
    /// the output
    states: FlexTensor,
    /// `[T, B, …]`: gates behind their non-linearities
    opened: Vec<f32>,
    /// `[T, B, 3H]`: the state's projection, for the GRU
    gh: Vec<f32>,
    with_bias: bool,
}

impl Layer {
    fn is_real(&self, at: usize, b: usize, row: usize) -> bool {
        self.steps.real.as_ref().is_none_or(|real| real[at * b + row])
    }

    /// The step before `at`, if it is not the first.
    fn before(&self, at: usize, t: usize) -> Option<usize> {
        if self.steps.reverse { Some(at + 1).filter(|i| *i < t) } else { at.checked_sub(1) }
    }
}

impl Fused<4> for Layer {
    type Saved = Saved;

    fn forward(&self, inputs: [Option<FlexTensor>; 4], keep: bool) -> (FlexTensor, Option<Saved>) {
        let [gx, weight, bias, start] = inputs.map(|t| t.map(contiguous));
        let given = "recurrent_layer has three inputs and perhaps a bias";
        let (gx, weight, start) = (gx.expect(given), weight.expect(given), start.expect(given));
        let (shape, [g, h]) = (gx.shape(), weight.shape().dims());
        let [t, b, _] = shape.dims();
        let (s, k) = (self.cell.parts() * h, self.cell.opened() * h);
        let (x, w) = (elements(&gx), elements(&weight));
        let whole = Piece { data: w, at: Strided { start: 0, row: 1, column: h }, k: 0..h, n: 0..g };
        let onto = bias.as_ref().map_or(Accumulate::Fresh, |bias| Accumulate::Bias(elements(bias)));
        // What a step leaves for the backward has a place of its own; without a backward one place serves all steps.
        let kept = |n: usize, keep: bool| uninit(if keep { t * b * n } else { b * n });
        let keep_gh = keep && self.cell == RecurrentCell::Gru;
        let (mut states, mut opened, mut gh) = (uninit(t * b * s), kept(k, keep), kept(g, keep_gh));
        let mut state = elements(&start).to_vec();
        for at in order(t, self.steps.reverse) {
            let here = |n: usize, keep: bool| if keep { at * b * n..(at + 1) * b * n } else { 0..b * n };
            let (next, opened, gh) =
                (&mut states[here(s, true)], &mut opened[here(k, keep)], &mut gh[here(g, keep_gh)]);
            product_of_pieces([b, h, g], gh, rowwise(g), onto, &state, rowwise(s), std::slice::from_ref(&whole));
            let x = &x[here(g, true)];
            for_rows_of(b, [next, opened, gh], |row, [next, opened, gh]| {
                let (x, state) = (&x[row * g..][..g], &state[row * s..][..s]);
                if !self.is_real(at, b, row) {
                    next.copy_from_slice(state);
                    return opened.fill(0.0);
                }
                match self.cell {
                    RecurrentCell::Rnn => rnn_row(x, gh, next),
                    RecurrentCell::Gru => gru_row(x, gh, state, next, opened),
                    RecurrentCell::Lstm => {
                        gh.iter_mut().zip(x).for_each(|(gh, x)| *gh += x);
                        lstm_row(gh, &state[h..], next, opened);
                    }
                }
            });
            state.copy_from_slice(next);
        }
        let states = tensor(states, [t, b, s]);
        let gh = if keep_gh { gh } else { vec![] };
        let saved =
            keep.then(|| Saved { weight, start, states: states.clone(), opened, gh, with_bias: bias.is_some() });
        (states, saved)
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, wants: [bool; 4]) -> [Option<FlexTensor>; 4] {
        let Saved { weight, start, states, opened, gh, with_bias } = saved;
        let grad = contiguous(grad);
        let (shape, [g, h]) = (states.shape(), weight.shape().dims());
        let [t, b, s] = shape.dims();
        let (k, is_gru) = (self.cell.opened() * h, self.cell == RecurrentCell::Gru);
        let (w, y, dy, first) = (elements(&weight), elements(&states), elements(&grad), elements(&start));
        let previous = |at: usize| self.before(at, t).map_or(first, |i| &y[i * b * s..(i + 1) * b * s]);
        let mut dgx = uninit(t * b * g);
        let mut dgh = uninit(if is_gru { t * b * g } else { 0 });
        // d: the gradient of the state behind the step; earlier: of the state before it
        let (mut d, mut earlier) = (vec![0.0; b * s], vec![0.0; b * s]);
        for at in order(t, self.steps.reverse).rev() {
            let here = |n: usize| at * b * n..(at + 1) * b * n;
            let (before, dy, behind) = (previous(at), &dy[here(s)], &y[here(s)]);
            let (opened, gh) = (&opened[here(k)], if is_gru { &gh[here(g)] } else { &[][..] });
            let mut none = [];
            let dgh_here = if is_gru { &mut dgh[here(g)] } else { &mut none[..] };
            for_rows_of(b, [&mut d, &mut earlier, &mut dgx[here(g)], dgh_here], |row, [d, earlier, dgx, dgh]| {
                let of = |x: &'_ [f32], n: usize| row * n..(row * n + n).min(x.len());
                d.iter_mut().zip(&dy[of(dy, s)]).for_each(|(d, dy)| *d += dy);
                if !self.is_real(at, b, row) {
                    earlier.copy_from_slice(d);
                    dgx.fill(0.0);
                    return dgh.fill(0.0);
                }
                let before = &before[of(before, s)];
                match self.cell {
                    RecurrentCell::Rnn => {
                        rnn_row_back(d, &behind[of(behind, s)], dgx);
                        earlier.fill(0.0);
                    }
                    RecurrentCell::Gru => {
                        gru_row_back(d, &opened[of(opened, k)], &gh[of(gh, g)], before, dgx, dgh, earlier);
                    }
                    RecurrentCell::Lstm => {
                        let (dh, dc) = earlier.split_at_mut(h);
                        lstm_row_back(d, &opened[of(opened, k)], &before[h..], dgx, dc);
                        dh.fill(0.0);
                    }
                }
            });
            let projected = if is_gru { &dgh[here(g)] } else { &dgx[here(g)] };
            product([b, g, h], &mut earlier, rowwise(s), Accumulate::Sum, projected, rowwise(g), w, rowwise(h));
            std::mem::swap(&mut d, &mut earlier);
        }
        let projected = if is_gru { &dgh } else { &dgx };
        let dweight = wants[1].then(|| {
            let mut hidden = uninit(t * b * h);
            for (at, hidden) in hidden.chunks_exact_mut((b * h).max(1)).enumerate() {
                let rows = hidden.chunks_exact_mut(h).zip(previous(at).chunks_exact(s));
                rows.for_each(|(hidden, state)| hidden.copy_from_slice(&state[..h]));
            }
            let mut dw = uninit(g * h);
            let turned = Strided { start: 0, row: 1, column: g };
            product([g, t * b, h], &mut dw, rowwise(h), Accumulate::Fresh, projected, turned, &hidden, rowwise(h));
            tensor(dw, [g, h])
        });
        let dbias = (wants[2] && with_bias).then(|| tensor(sum_of_rows(projected, g), [g]));
        let dstart = wants[3].then(|| tensor(d, [b, s]));
        [wants[0].then(|| tensor(dgx, [t, b, g])), dweight, dbias, dstart]
    }
}

/// The sum of rows of width `g`, each place by itself from the first row to the last.
fn sum_of_rows(x: &[f32], g: usize) -> Vec<f32> {
    const SHARE: usize = 128;
    let mut sum = vec![0.0; g];
    sum.par_chunks_mut(SHARE).enumerate().for_each(|(i, sum)| {
        for row in x.chunks_exact(g) {
            sum.iter_mut().zip(&row[i * SHARE..]).for_each(|(sum, x)| *sum += x);
        }
    });
    sum
}

simd! {
    fn rnn_row<'a, S>(simd, gx: &'a [f32], gh: &'a [f32], next: &'a mut [f32]) {
        lanes(simd, [gx, gh], [next], #[inline(always)] |[x, h]| [simd::tanh(simd, simd.add_f32s(x, h))]);
    }
}

simd! {
    fn rnn_row_back<'a, S>(simd, d: &'a [f32], behind: &'a [f32], dgx: &'a mut [f32]) {
        lanes(simd, [d, behind], [dgx], #[inline(always)] |[d, y]| [simd.mul_f32s(d, tanh_slope(simd, y))]);
    }
}

/// This kernel's row in the register.
pub const OP: Op = Op {
    name: "recurrent_layer",
    formula: "state[t] = cell(gx[t], h[t−1]·Wᵀ + b, state[t−1]) over all steps",
    cases,
    bench,
};

fn case(label: &str, cell: RecurrentCell, [t, b, h]: [usize; 3], reverse: bool, real: Option<Vec<bool>>) -> Case {
    let (g, s) = (cell.gates() * h, cell.parts() * h);
    let steps = Steps { real: real.map(Arc::from), reverse };
    Case::new(format!("{cell:?} [{t}, {b}, {h}]{label}"), [t * b * g, g * h, g, b * s], move |x| {
        let (gx, weight) = (x[0].clone().reshape([t, b, g]), x[1].clone().reshape([g, h]));
        let (bias, start) = (Some(x[2].clone()), x[3].clone().reshape([b, s]));
        recurrent_layer(cell, gx, weight, bias, start, steps.clone()).flatten(0, 2)
    })
    .spread(0.5)
}

fn cases() -> Vec<Case> {
    let each = |cell: RecurrentCell| {
        let ragged = || Some((0..5 * 3).map(|i| i / 3 < [5, 2, 3][i % 3]).collect());
        let turned = || Some((0..5 * 3).map(|i| i / 3 >= [0, 4, 2][i % 3]).collect());
        let no_bias =
            Case::new(format!("{cell:?}, no bias, turned"), [4 * 2 * cell.gates() * 3, cell.gates() * 9], move |x| {
                let gx = x[0].clone().reshape([2, 4, 3 * cell.gates()]).swap_dims(0, 1);
                let weight = x[1].clone().reshape([3, 3 * cell.gates()]).transpose();
                let start = Tensor::zeros([2, 3 * cell.parts()], (&gx.device(), gx.dtype()));
                recurrent_layer(cell, gx, weight, None, start, Steps::default()).flatten(0, 2)
            });
        [
            case("", cell, [1, 1, 1], false, None),
            case("", cell, [4, 3, 5], false, None),
            case(", from the end", cell, [4, 2, 3], true, None),
            case(", ragged", cell, [5, 3, 4], false, ragged()),
            case(", ragged from the end", cell, [5, 3, 4], true, ragged()),
            case(", padded on the left", cell, [5, 3, 4], true, turned()),
            case("", cell, [6, 37, 35], false, None),
            no_bias,
        ]
    };
    [RecurrentCell::Rnn, RecurrentCell::Gru, RecurrentCell::Lstm].into_iter().flat_map(each).collect()
}

fn bench() -> Bench {
    let (t, b, h) = (32, 32, 256);
    Bench {
        case: case("", RecurrentCell::Lstm, [t, b, h], false, None),
        work: Work::Flops(2.0 * (t * b * 4 * h * h) as f64),
    }
}
