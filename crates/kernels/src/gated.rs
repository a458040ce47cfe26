//! Gated units (Shazeer 2020): `y = act(gate) · up`, from one packed input `[gate | up]`. SwiGLU with silu, GEGLU with
//! gelu.
//!
//! Shapes: packed `[…, 2F]`, y `[…, F]`. Packed as [`crate::linear()`] leaves two projections of one input.
//! Backward, in one pass: `d gate = dy·up·act′(gate)`, `d up = dy·act(gate)`. Kept: the packed input, and the gradient is
//! written over it when nobody else holds it. NaN in the gate or in up gives NaN, as any product does.

use crate::Activation;
use crate::fused::{Fused, apply, contiguous, elements, in_place, rows_and_width, tensor, uninit};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::simd;
use crate::threads;
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use pulp::Simd;

/// `act(gate) · up` of a packed `[gate | up]`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::{Activation, gated};
///
/// let packed = Tensor::<2>::from_floats([[-1.0, 2.0, 5.0, 7.0]], &Device::flex()); // gate −1, 2; up 5, 7
/// let y: Vec<f32> = gated(packed, Activation::Relu).into_data().try_to_vec().unwrap();
/// assert_eq!(y, [0.0, 14.0]);
/// ```
///
/// # Panics
/// If the last axis has no two equal halves: callers pack it from two projections of one width.
pub fn gated<const D: usize>(packed: Tensor<D>, act: Activation) -> Tensor<D> {
    let width = packed.dims()[D - 1];
    assert_eq!(width % 2, 0, "gated: a packed [gate | up] cannot be {width} wide");
    match apply(Gated { act }, [Some(packed.into_dispatch())]) {
        Ok(y) => Tensor::from_dispatch(y),
        Err([packed]) => plain(Tensor::from_dispatch(packed.expect("gated has an input")), act),
    }
}

/// The plain twin.
fn plain<const D: usize>(packed: Tensor<D>, act: Activation) -> Tensor<D> {
    let half = packed.dims()[D - 1] / 2;
    let gate = packed.clone().narrow(D - 1, 0, half);
    act.plain(gate) * packed.narrow(D - 1, half, half)
}

#[derive(Clone, Copy, Debug)]
struct Gated {
    act: Activation,
}

impl Fused<1> for Gated {
    /// the packed input
    type Saved = FlexTensor;

    fn forward(&self, [packed]: [Option<FlexTensor>; 1], keep: bool) -> (FlexTensor, Option<FlexTensor>) {
        let packed = contiguous(packed.expect("gated has an input"));
        let (rows, width) = rows_and_width(&packed);
        let half = width / 2;
        let mut shape = packed.layout().shape().clone();
        *shape.last_mut().expect("gated's input has an axis") = half;
        let from = elements(&packed);
        let mut y = uninit(rows * half);
        threads::for_rows(&mut y, half, |first, y| {
            let packed = &from[first * width..][..2 * y.len()];
            for (packed, y) in packed.chunks_exact(width).zip(y.chunks_exact_mut(half)) {
                let (gate, up) = packed.split_at(half);
                forward_row(self.act, gate, up, y);
            }
        });
        (tensor(y, shape), keep.then_some(packed))
    }

    fn backward(&self, packed: FlexTensor, grad: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let (_, width) = rows_and_width(&packed);
        let half = width / 2;
        let grad = contiguous(grad);
        let grads = elements(&grad);
        let dpacked = in_place(packed, width, |first, packed| {
            let grads = &grads[first * half..][..packed.len() / 2];
            for (packed, g) in packed.chunks_exact_mut(width).zip(grads.chunks_exact(half)) {
                let (gate, up) = packed.split_at_mut(half);
                backward_row(self.act, g, gate, up);
            }
        });
        [Some(dpacked)]
    }
}

simd! {
    fn forward_row<'a, S>(simd, act: Activation, gate: &'a [f32], up: &'a [f32], y: &'a mut [f32]) {
        let ((gs, gt), (us, ut), (ys, yt)) = (S::as_simd_f32s(gate), S::as_simd_f32s(up), S::as_mut_simd_f32s(y));
        for ((g, u), y) in gs.iter().zip(us).zip(ys) {
            *y = simd.mul_f32s(act.value(simd, *g), *u);
        }
        let last = simd.mul_f32s(act.value(simd, simd.partial_load_f32s(gt)), simd.partial_load_f32s(ut));
        simd.partial_store_f32s(yt, last);
    }
}

simd! {
    /// Turns the row's gate and up into their gradients, in place.
    fn backward_row<'a, S>(simd, act: Activation, dy: &'a [f32], gate: &'a mut [f32], up: &'a mut [f32]) {
        let ((ds, dt), (gs, gt), (us, ut)) = (S::as_simd_f32s(dy), S::as_mut_simd_f32s(gate), S::as_mut_simd_f32s(up));
        for ((d, g), u) in ds.iter().zip(gs).zip(us) {
            (*g, *u) = gradients(simd, act, *d, *g, *u);
        }
        let [d, g, u] = [simd.partial_load_f32s(dt), simd.partial_load_f32s(gt), simd.partial_load_f32s(ut)];
        let (dgate, dup) = gradients(simd, act, d, g, u);
        simd.partial_store_f32s(gt, dgate);
        simd.partial_store_f32s(ut, dup);
    }
}

/// `dy·up·act′(gate)` and `dy·act(gate)`. Not a closure: the compiler would not inline one this large, and outside its
/// caller it has no vector instructions.
#[inline(always)]
fn gradients<S: Simd>(simd: S, act: Activation, dy: S::f32s, gate: S::f32s, up: S::f32s) -> (S::f32s, S::f32s) {
    let dgate = simd.mul_f32s(simd.mul_f32s(dy, up), act.slope(simd, gate));
    (dgate, simd.mul_f32s(dy, act.value(simd, gate)))
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "gated", formula: "act(gate) · up of [gate | up]", cases, bench };

fn case(act: Activation, rows: usize, f: usize) -> Case {
    Case::new(format!("{act:?} [{rows}, 2·{f}]"), [rows * 2 * f], move |x| {
        gated(x[0].clone().reshape([rows, 2 * f]), act).flatten(0, 1)
    })
}

fn cases() -> Vec<Case> {
    let silu = |rows, f| case(Activation::Silu, rows, f);
    let view = Case::new("transposed", [10 * 7], |x| {
        gated(x[0].clone().reshape([10, 7]).transpose(), Activation::Silu).flatten(0, 1)
    });
    let narrow = Case::new("narrowed", [2 * 3 * 31], |x| {
        gated(x[0].clone().reshape([2, 3, 31]).narrow(2, 4, 22), Activation::Gelu).flatten(0, 2)
    });
    let large = silu(3, 19).spread(50.0);
    let each = Activation::ALL.map(|act| case(act, 5, 13));
    let sizes = [silu(1, 1), silu(1, 8), silu(3, 17), silu(67, 131), view, narrow, large];
    each.into_iter().chain(sizes).collect()
}

fn bench() -> Bench {
    // Read two, write one.
    Bench { case: case(Activation::Silu, 2048, 1024), work: Work::Bytes(12.0 * 2048.0 * 1024.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::values;

    #[test]
    fn nan_stays_where_it_is() {
        for act in Activation::ALL {
            let x = Tensor::<2>::from_floats([[f32::NAN, 1.0, 1.0, 1.0, f32::NAN, 1.0]], &Device::flex());
            let y = values(gated(x, act));
            assert!(y[0].is_nan() && y[1].is_nan() && y[2].is_finite(), "{act:?}: {y:?}");
        }
    }

    #[test]
    #[should_panic(expected = "cannot be 3 wide")]
    fn an_odd_width_is_refused() {
        gated(Tensor::<1>::zeros([3], &Device::flex()), Activation::Silu);
    }

    /// The gradient may be written over the packed input only while nobody else looks at it.
    #[test]
    fn a_packed_input_that_is_still_held_is_left_alone() {
        let device = Device::flex().autodiff();
        let x = Tensor::<2>::from_floats([[1.0, 2.0, 3.0, 4.0]], &device).require_grad();
        let grads = gated(x.clone(), Activation::Relu).sum().backward();
        assert_eq!(values(x.clone().inner()), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(values(x.grad(&grads).expect("a gradient")), [3.0, 4.0, 1.0, 2.0]);
        // And when it is not held: a product nobody else keeps.
        let grads = gated(x.clone() * 2.0, Activation::Relu).sum().backward();
        assert_eq!(values(x.grad(&grads).expect("a gradient")), [12.0, 16.0, 4.0, 8.0]);
    }
}
