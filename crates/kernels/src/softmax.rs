//! Softmax over the last axis: `yᵢ = e^(xᵢ − m) / Σⱼ e^(xⱼ − m)`, m the row's maximum.
//!
//! Shapes: x and y `[…, C]`. Rows sum to one and do not change when a constant is added. −∞ gets weight exactly 0, which
//! is how masks work; a row that is −∞ throughout (nothing to attend to) becomes all zeros rather than NaN. A NaN or +∞
//! makes its whole row NaN.
//!
//! Three passes over a row that is in cache: maximum, exponentials and their sum, scaling. They write over the input
//! when nobody else holds it. Backward: `dx = y·(dy − Σⱼ dyⱼ·yⱼ)`. Kept: y.

use crate::fused::{Fused, apply, elements, elements_mut, in_place, rows_and_width};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::{self, simd};
use crate::threads;
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;

/// Softmax of every row.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// // ln 3 weighs three times as much as 0, and −∞ (masked) nothing.
/// let x = Tensor::<2>::from_floats([[0.0, 3f32.ln(), f32::NEG_INFINITY]], &Device::flex());
/// let y: Vec<f32> = qkv_kernels::softmax(x).into_data().try_to_vec().unwrap();
/// assert!((y[0] - 0.25).abs() < 1e-6 && (y[1] - 0.75).abs() < 1e-6 && y[2] == 0.0);
/// ```
pub fn softmax<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    match apply(Softmax, [Some(x.into_dispatch())]) {
        Ok(y) => Tensor::from_dispatch(y),
        Err([x]) => plain(Tensor::from_dispatch(x.expect("softmax has an input"))),
    }
}

/// The plain twin.
pub(crate) fn plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let max = x.clone().detach().max_dim(D - 1);
    let max = max.clone().mask_fill(max.equal_elem(f32::NEG_INFINITY), 0.0);
    let e = (x - max).exp();
    let sum = e.clone().sum_dim(D - 1);
    e / sum.clone().mask_fill(sum.equal_elem(0.0), 1.0)
}

#[derive(Clone, Copy, Debug)]
struct Softmax;

impl Fused<1> for Softmax {
    /// y
    type Saved = FlexTensor;

    fn forward(&self, [x]: [Option<FlexTensor>; 1], keep: bool) -> (FlexTensor, Option<FlexTensor>) {
        let x = x.expect("softmax has an input");
        let (_, width) = rows_and_width(&x);
        let y = in_place(x, width, |_, rows| rows.chunks_exact_mut(width).for_each(forward_row));
        (y.clone(), keep.then_some(y))
    }

    fn backward(&self, y: FlexTensor, mut grad: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let (_, width) = rows_and_width(&y);
        let ys = elements(&y);
        threads::for_rows(elements_mut(&mut grad), width, |first, grad| {
            let y = &ys[first * width..][..grad.len()];
            for (y, g) in y.chunks_exact(width).zip(grad.chunks_exact_mut(width)) {
                backward_row(simd::dot(g, y), y, g);
            }
        });
        [Some(grad)]
    }
}

simd! {
    fn forward_row<'a, S>(simd, row: &'a mut [f32]) {
        let (xs, tail) = S::as_mut_simd_f32s(row);
        let mut max = simd.splat_f32s(f32::NEG_INFINITY);
        for x in xs.iter() {
            max = simd.max_f32s(max, *x);
        }
        // Some machines lose a NaN in a maximum. It does no harm: it comes back as NaN in the sum of the exponentials.
        let max = tail.iter().fold(simd.reduce_max_f32s(max), |max, x| max.max(*x));
        // −∞ − (−∞) would be NaN; −∞ − 0 stays −∞ and the exponential 0.
        let max = simd.splat_f32s(if max == f32::NEG_INFINITY { 0.0 } else { max });

        let mut sum = simd.splat_f32s(0.0);
        for x in xs.iter_mut() {
            *x = simd::exp(simd, simd.sub_f32s(*x, max));
            sum = simd.add_f32s(sum, *x);
        }
        let last = simd::exp(simd, simd.sub_f32s(simd.partial_load_f32s(tail), max));
        simd.partial_store_f32s(tail, last);
        // Read again: lanes past the end of the tail must come as zeros, not as e^(0 − m).
        let sum = simd.reduce_sum_f32s(simd.add_f32s(sum, simd.partial_load_f32s(tail)));
        let scale = simd.splat_f32s(if sum == 0.0 { 1.0 } else { 1.0 / sum });
        for x in xs {
            *x = simd.mul_f32s(*x, scale);
        }
        simd.partial_store_f32s(tail, simd.mul_f32s(last, scale));
    }
}

simd! {
    /// Turns the row's `dy` into `dx = y·(dy − along)` in place; `along` is `Σ dy·y`.
    fn backward_row<'a, S>(simd, along: f32, y: &'a [f32], g: &'a mut [f32]) {
        let along = simd.splat_f32s(along);
        let ((ys, yt), (gs, gt)) = (S::as_simd_f32s(y), S::as_mut_simd_f32s(g));
        let dx = |y, g| simd.mul_f32s(y, simd.sub_f32s(g, along));
        for (y, g) in ys.iter().zip(gs) {
            *g = dx(*y, *g);
        }
        let last = dx(simd.partial_load_f32s(yt), simd.partial_load_f32s(gt));
        simd.partial_store_f32s(gt, last);
    }
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "softmax", formula: "e^(xᵢ − m) / Σⱼ e^(xⱼ − m)", cases, bench };

fn case(rows: usize, c: usize) -> Case {
    Case::new(format!("[{rows}, {c}]"), [rows * c], move |x| {
        softmax(x[0].clone().reshape([rows, c])).flatten(0, 1) //
    })
}

fn cases() -> Vec<Case> {
    let view =
        Case::new("transposed", [11 * 13], |x| softmax(x[0].clone().reshape([11, 13]).transpose()).flatten(0, 1));
    let narrow = Case::new("narrowed", [3 * 4 * 19], |x| {
        softmax(x[0].clone().reshape([3, 4, 19]).narrow(2, 5, 9)).flatten(0, 2) //
    });
    let masked = Case::new("causal mask, and a row with nothing to see", [7 * 7], |x| {
        let hidden = |i: usize| if i % 7 > i / 7 || i / 7 == 4 { f32::NEG_INFINITY } else { 0.0 };
        let mask: Vec<f32> = (0..49).map(hidden).collect();
        let mask = Tensor::<1>::from_data(mask.as_slice(), (&x[0].device(), x[0].dtype()));
        softmax((x[0].clone() + mask).reshape([7, 7])).flatten(0, 1)
    });
    let shifted =
        Case::new("far from zero", [5 * 23], |x| softmax((x[0].clone() + 1e3).reshape([5, 23])).flatten(0, 1));
    let sizes = [case(1, 1), case(1, 2), case(3, 17), case(7, 64), case(301, 131), case(64, 1)];
    sizes.into_iter().chain([view, narrow, masked, shifted, case(41, 40).spread(30.0)]).collect()
}

fn bench() -> Bench {
    Bench { case: case(2048, 1024), work: Work::Bytes(8.0 * 2048.0 * 1024.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::values;

    fn rows<const R: usize>(x: [[f32; 5]; R]) -> Vec<f32> {
        let x = Tensor::<2>::from_floats(x, &Device::flex());
        let twin = values(plain(x.clone()));
        let y = values(softmax(x));
        let same = |(a, b): (&f32, &f32)| (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-6;
        assert!(y.iter().zip(&twin).all(same), "fused {y:?}, twin {twin:?}");
        y
    }

    #[test]
    fn a_row_of_minus_infinity_is_zero() {
        assert_eq!(rows([[f32::NEG_INFINITY; 5]]), [0.0; 5]);
    }

    #[test]
    fn nan_and_plus_infinity_spoil_their_row_and_no_other() {
        for bad in [f32::NAN, f32::INFINITY] {
            for background in [0.0, f32::NEG_INFINITY] {
                for place in 0..5 {
                    let mut x = [background; 5];
                    x[place] = bad;
                    let y = rows([[1.0; 5], x, [-2.0; 5]]);
                    assert!(y[5..10].iter().all(|v| v.is_nan()), "{x:?} gave {:?}", &y[5..10]);
                    assert!(y[..5].iter().chain(&y[10..]).all(|v| (v - 0.2).abs() < 1e-6));
                }
            }
        }
        // The same in rows long enough for whole vectors.
        for place in [0, 8, 31, 32, 36] {
            let mut x = vec![f32::NEG_INFINITY; 37];
            x[place] = f32::NAN;
            assert!(
                values(softmax(Tensor::<1>::from_floats(x.as_slice(), &Device::flex()))).iter().all(|v| v.is_nan())
            );
        }
    }

    #[test]
    fn rows_sum_to_one_even_far_from_zero() {
        for far in [0.0, 80.0, -3e4, 3e38] {
            let y = rows([[far, far, far, far, far]]);
            assert!((y.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_shared_input_is_left_alone() {
        let x = Tensor::<2>::from_floats([[1.0, 2.0, 3.0]], &Device::flex());
        let _ = softmax(x.clone());
        assert_eq!(values(x), [1.0, 2.0, 3.0]);
    }
}
