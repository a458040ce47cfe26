//! Linear projection, bias and activation in one: `y = act(x·Wᵀ + b)`.
//!
//! Shapes: x `[…, C]`, W `[O, C]` (a row per output, as files store it), b `[O]`, y `[…, O]`. Several projections of one
//! input can be packed side by side, `y = [x·W₁ᵀ + b₁ | x·W₂ᵀ + b₂ | …]`: queries, keys and values, or gate and up, then
//! come out as one tensor that the next kernel reads with strides, and no copy is ever made.
//!
//! The products (`product.rs`; `bf16.rs` where their factors are rounded) give the same bits at any thread count. Backward, with `u = x·Wᵀ + b`:
//! `du = dy·act′(u)`, `dx = Σ duᵢ·Wᵢ`, `dWᵢ = duᵢᵀ·x`, `dbᵢ = Σ_rows duᵢ`. Kept: x, and u where there is an activation.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_kernels::{Projection, linear};
//!
//! let device = Device::flex();
//! let x = Tensor::<2>::from_floats([[1.0, 2.0]], &device);
//! let w = Tensor::<2>::from_floats([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], &device); // 2 → 3
//! let b = Tensor::<1>::from_floats([0.5, 0.0, -1.0], &device);
//! let y: Vec<f32> = linear(x, &[Projection::new(w, Some(b))], None).into_data().try_to_vec().unwrap();
//! assert_eq!(y, [1.5, 2.0, 2.0]);
//! ```

use crate::activation::{self, Activation};
use crate::bf16::ProductPrecision;
use crate::fused::{Fused, apply, contiguous, elements, elements_mut, rows_and_width, tensor, uninit};
use crate::product::{Accumulate, Piece, Strided, rowwise};
use crate::registry::{Bench, Case, Op, Work};
use crate::threads;
use burn::backend::DispatchTensor;
use burn::backend::flex::{FlexTensor, Layout};
use burn::tensor::Tensor;
use std::ops::Range;

/// One projection: weight `[O, C]` and optional bias `[O]`.
#[derive(Clone, Debug)]
pub struct Projection {
    /// `[O, C]`
    pub weight: Tensor<2>,
    /// `[O]`
    pub bias: Option<Tensor<1>>,
}

impl Projection {
    /// Puts the two together.
    pub fn new(weight: Tensor<2>, bias: Option<Tensor<1>>) -> Self {
        Self { weight, bias }
    }
}

/// `act([x·W₁ᵀ + b₁ | x·W₂ᵀ + b₂ | …])` for one to three projections of one input.
///
/// # Panics
/// If there are no projections or more than three, or the widths do not fit: callers build them from a checked spec.
pub fn linear<const D: usize>(x: Tensor<D>, parts: &[Projection], act: Option<Activation>) -> Tensor<D> {
    linear_in(ProductPrecision::F32, x, parts, act)
}

/// [`linear`] with the factors of its products, forward and backward, rounded; bias, activation and sums are f32. The twin, on
/// other backends, rounds nothing.
///
/// # Panics
/// As [`linear`].
pub fn linear_in<const D: usize>(
    precision: ProductPrecision,
    x: Tensor<D>,
    parts: &[Projection],
    act: Option<Activation>,
) -> Tensor<D> {
    let input = x.dims()[D - 1];
    for part in parts {
        assert_eq!(part.weight.dims()[1], input, "linear: the input is {input} wide, the weight is not");
    }
    #[allow(clippy::result_large_err)] // the error is the input, handed back to the twin
    let run = |x: Tensor<D>| match parts {
        [a] => go::<3>(precision, x.into_dispatch(), [a], act),
        [a, b] => go::<5>(precision, x.into_dispatch(), [a, b], act),
        [a, b, c] => go::<7>(precision, x.into_dispatch(), [a, b, c], act),
        _ => panic!("linear packs one to three projections, not {}", parts.len()),
    };
    match run(x) {
        Ok(y) => Tensor::from_dispatch(y),
        Err(x) => plain(Tensor::from_dispatch(x), parts, act),
    }
}

/// Lines up x, the weights and the biases as the `N` inputs of the kernel.
#[allow(clippy::result_large_err)] // the error is the input, handed back to the twin
fn go<const N: usize>(
    precision: ProductPrecision,
    x: DispatchTensor,
    parts: impl IntoIterator<Item = impl std::borrow::Borrow<Projection>>,
    act: Option<Activation>,
) -> Result<DispatchTensor, DispatchTensor> {
    let mut inputs = [const { None }; N];
    inputs[0] = Some(x);
    for (i, part) in parts.into_iter().enumerate() {
        let part: &Projection = part.borrow();
        inputs[1 + 2 * i] = Some(part.weight.clone().into_dispatch());
        inputs[2 + 2 * i] = part.bias.clone().map(Tensor::into_dispatch);
    }
    apply(Linear { act, precision }, inputs).map_err(|mut inputs| inputs[0].take().expect("the input is always there"))
}

/// The plain twin.
fn plain<const D: usize>(x: Tensor<D>, parts: &[Projection], act: Option<Activation>) -> Tensor<D> {
    let dims = x.dims();
    let flat: Tensor<2> = x.reshape([-1, dims[D - 1] as i64]);
    let project = |part: &Projection| {
        let y = flat.clone().matmul(part.weight.clone().transpose());
        match &part.bias {
            Some(bias) => y + bias.clone().unsqueeze(),
            None => y,
        }
    };
    let y = Tensor::cat(parts.iter().map(project).collect(), 1); // [rows, ΣO]
    let mut shape = dims;
    shape[D - 1] = y.dims()[1];
    let y = y.reshape(shape);
    act.map_or(y.clone(), |act| act.plain(y))
}

/// The kernel: inputs are x, then weight and bias of each part.
#[derive(Clone, Copy, Debug)]
struct Linear {
    act: Option<Activation>,
    precision: ProductPrecision,
}

impl Linear {
    /// `dst ← onto + a·b` in this layer's precision; dst `[m, n]` by rows.
    fn product(&self, size: [usize; 3], dst: &mut [f32], onto: Accumulate, lhs: &[f32], a: Strided, pieces: &[Piece]) {
        self.precision.product()(size, dst, rowwise(size[2]), onto, lhs, a, pieces);
    }
}

/// What [`Linear`] keeps: its inputs, and the value before the activation if there is one.
#[derive(Clone, Debug)]
struct Saved<const N: usize> {
    inputs: [Option<FlexTensor>; N],
    before: Option<FlexTensor>,
}

impl<const N: usize> Fused<N> for Linear {
    type Saved = Saved<N>;

    fn forward(&self, inputs: [Option<FlexTensor>; N], keep: bool) -> (FlexTensor, Option<Saved<N>>) {
        let inputs = inputs.map(|t| t.map(contiguous));
        let x = inputs[0].as_ref().expect("linear has an input");
        let (rows, width) = rows_and_width(x);
        let mut shape = x.layout().shape().clone();
        let total: usize = parts(&inputs).map(|(w, _)| w.layout().shape()[0]).sum();
        *shape.last_mut().expect("linear's input has an axis") = total;

        let bias = biases(&inputs, total);
        let onto = bias.as_deref().map_or(Accumulate::Fresh, Accumulate::Bias);
        let turned = Strided { start: 0, row: 1, column: width }; // Wᵀ
        let pieces: Vec<Piece> =
            spans(&inputs).map(|(w, n)| Piece { data: elements(w), at: turned, k: 0..width, n }).collect();
        let mut y = uninit(rows * total);
        self.product([rows, width, total], &mut y, onto, elements(x), rowwise(width), &pieces);
        let Some(act) = self.act else {
            return (tensor(y, shape), keep.then_some(Saved { inputs, before: None }));
        };
        let mut after = uninit(y.len());
        activation::forward(act, &y, &mut after);
        let before = keep.then(|| tensor(y, shape.clone()));
        (tensor(after, shape), keep.then_some(Saved { inputs, before }))
    }

    fn backward(&self, saved: Saved<N>, grad: FlexTensor, wants: [bool; N]) -> [Option<FlexTensor>; N] {
        let mut grad = contiguous(grad);
        if let (Some(act), Some(before)) = (self.act, &saved.before) {
            activation::backward(act, elements(before), elements_mut(&mut grad));
        }
        let du = elements(&grad);
        let x = saved.inputs[0].as_ref().expect("linear has an input");
        let (rows, width) = rows_and_width(x);
        let (_, total) = rows_and_width(&grad);
        let mut grads = [const { None }; N];
        if wants[0] {
            // [du₁ | du₂ | …]·[W₁; W₂; …]
            let stacked = |(w, k)| Piece { data: elements(w), at: rowwise(width), k, n: 0..width };
            let pieces: Vec<Piece> = spans(&saved.inputs).map(stacked).collect();
            let mut dx = uninit(rows * width);
            self.product([rows, total, width], &mut dx, Accumulate::Fresh, du, rowwise(total), &pieces);
            grads[0] = Some(tensor(dx, x.layout().shape().clone()));
        }
        if (0..N / 2).any(|i| wants[1 + 2 * i]) {
            // All dWᵢ below each other in one product; each part is a view of it.
            let mut dw = uninit(total * width);
            let turned = Strided { start: 0, row: 1, column: total }; // duᵀ
            let whole = Piece { data: elements(x), at: rowwise(width), k: 0..rows, n: 0..width };
            self.product([total, rows, width], &mut dw, Accumulate::Fresh, du, turned, &[whole]);
            let dw = tensor(dw, [total, width]);
            for (i, (_, span)) in spans(&saved.inputs).enumerate() {
                grads[1 + 2 * i] = wants[1 + 2 * i].then(|| rows_of(&dw, span, width));
            }
        }
        if (0..N / 2).any(|i| wants[2 + 2 * i]) {
            let sums = threads::column_sums(du, total);
            for (i, (_, span)) in spans(&saved.inputs).enumerate() {
                grads[2 + 2 * i] = wants[2 + 2 * i].then(|| tensor(sums[span.clone()].to_vec(), [span.len()]));
            }
        }
        grads
    }
}

/// The (weight, bias) pairs among the inputs.
fn parts<const N: usize>(inputs: &[Option<FlexTensor>; N]) -> impl Iterator<Item = (&FlexTensor, Option<&FlexTensor>)> {
    inputs[1..].chunks_exact(2).map(|p| (p[0].as_ref().expect("every part has a weight"), p[1].as_ref()))
}

/// Each weight with the columns of the packed output that are its own.
fn spans<const N: usize>(inputs: &[Option<FlexTensor>; N]) -> impl Iterator<Item = (&FlexTensor, Range<usize>)> {
    let mut at = 0;
    parts(inputs).map(move |(w, _)| {
        let from = at;
        at += w.layout().shape()[0];
        (w, from..at)
    })
}

/// The biases side by side, 0 where a part has none; `None` if no part has one.
fn biases<const N: usize>(inputs: &[Option<FlexTensor>; N], total: usize) -> Option<Vec<f32>> {
    parts(inputs).any(|(_, bias)| bias.is_some()).then(|| {
        let mut all = Vec::with_capacity(total);
        for (w, bias) in parts(inputs) {
            match bias {
                Some(bias) => all.extend_from_slice(elements(bias)),
                None => all.resize(all.len() + w.layout().shape()[0], 0.0),
            }
        }
        all
    })
}

/// Some rows of a matrix, as a view.
fn rows_of(matrix: &FlexTensor, rows: Range<usize>, width: usize) -> FlexTensor {
    let layout = Layout::new([rows.len(), width].into(), vec![width as isize, 1], rows.start * width);
    FlexTensor::from_arc(matrix.data_arc(), layout, matrix.dtype())
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "linear", formula: "act(x·Wᵀ + b), up to three W side by side", cases, bench };

fn case(rows: usize, c: usize, outs: &'static [usize], bias: bool, act: Option<Activation>) -> Case {
    let sizes: Vec<usize> = std::iter::once(rows * c).chain(outs.iter().flat_map(|o| [o * c, *o])).collect();
    Case::new(format!("[{rows}, {c}] → {outs:?}, bias {bias}, {act:?}"), sizes, move |x| {
        let part = |(i, &out): (usize, &usize)| {
            let bias = bias.then(|| x[2 + 2 * i].clone());
            Projection::new(x[1 + 2 * i].clone().reshape([out, c]), bias)
        };
        let parts: Vec<_> = outs.iter().enumerate().map(part).collect();
        linear(x[0].clone().reshape([rows, c]), &parts, act).flatten(0, 1)
    })
}

fn cases() -> Vec<Case> {
    let view = Case::new("transposed input", [5 * 7, 3 * 7, 3], |x| {
        let part = Projection::new(x[1].clone().reshape([3, 7]), Some(x[2].clone()));
        linear(x[0].clone().reshape([7, 5]).transpose(), &[part], Some(Activation::Relu)).flatten(0, 1)
    });
    let mut all = vec![
        case(1, 1, &[1], true, None),
        case(3, 5, &[7], true, None),
        case(3, 5, &[7], true, Some(Activation::GeluTanh)),
        case(13, 17, &[11], true, Some(Activation::Silu)),
        case(4, 8, &[8, 8, 8], true, None),
        case(5, 7, &[3, 2, 6], true, None),
        case(9, 16, &[12, 12], true, None),
        case(67, 129, &[131], true, Some(Activation::Gelu)),
        view,
    ];
    // Without a bias the bias inputs would have no gradient to compare: these cases name the weights alone.
    all.push(Case::new("no bias", [6 * 5, 4 * 5], |x| {
        linear(x[0].clone().reshape([6, 5]), &[Projection::new(x[1].clone().reshape([4, 5]), None)], None).flatten(0, 1)
    }));
    all
}

fn bench() -> Bench {
    let case = case(2048, 384, &[1536], true, None);
    Bench { case, work: Work::Flops(2.0 * 2048.0 * 384.0 * 1536.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;
    use crate::bf16::round;
    use qkv_testkit::{forward_backward, max_diff, with_threads};

    type Passed = (Vec<f32>, Vec<Vec<f32>>);

    /// y, dx, dW and db of `[rows, c] → [out, out]`, all numbers rounded first or not.
    fn passed(precision: ProductPrecision, [rows, c, out]: [usize; 3], rounded: bool) -> Passed {
        let key = Key::new(4, 0, 0);
        let numbers = |i: u64, n: usize| {
            let all = key.child(i).normals(n);
            if rounded { all.into_iter().map(round).collect::<Vec<f32>>() } else { all }
        };
        let x = [numbers(0, rows * c), numbers(1, out * c), key.child(2).normals(out), numbers(3, out * c)];
        let run = |x: &[Tensor<1>]| {
            let weight = |i: usize| x[i].clone().reshape([out, c]);
            let parts = [Projection::new(weight(1), Some(x[2].clone())), Projection::new(weight(3), None)];
            linear_in(precision, x[0].clone().reshape([rows, c]), &parts, None).flatten(0, 1)
        };
        forward_backward(&run, &x, &numbers(9, 2 * rows * out))
    }

    /// Rounding is all that bf16 does, in all three products, whatever way they are computed: those of one row, of odd widths,
    /// and those that are large enough for words.
    #[test]
    fn products_in_bf16_are_products_of_rounded_numbers() {
        for size in [[1, 5, 7], [40, 33, 21], [64, 96, 80], [120, 64, 33]] {
            let (y, dx) = passed(ProductPrecision::Bf16, size, false);
            let (want, want_dx) = passed(ProductPrecision::F32, size, true);
            assert!(max_diff(&y, &want) < 5e-5, "{size:?}: {}", max_diff(&y, &want));
            for (i, (dx, want)) in dx.iter().zip(&want_dx).enumerate().filter(|(i, _)| *i != 2) {
                assert!(max_diff(dx, want) < 1e-4, "{size:?}, gradient {i}: {}", max_diff(dx, want));
            }
        }
    }

    #[test]
    fn products_in_bf16_have_the_same_bits_at_any_thread_count() {
        let at = |threads| with_threads(threads, || passed(ProductPrecision::Bf16, [200, 130, 96], false));
        let one = at(1);
        assert!([2, 3, 8].into_iter().all(|threads| at(threads) == one));
    }
}
