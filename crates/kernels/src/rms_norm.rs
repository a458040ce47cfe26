//! Root-mean-square normalisation (Zhang and Sennrich 2019): `y = x / √(mean(x²) + ε) · γ`; T5 and LLaMA use it.
//!
//! Shapes: x `[…, C]`, γ `[C]`. No mean is subtracted and no bias added. A NaN makes its whole row NaN; an infinity
//! becomes NaN and drives the rest of its row to 0, as the formula has it (∞/∞ and x/∞).
//!
//! Backward, with `r = √(mean(x²) + ε)`, `x̂ = x/r` and `g = dy·γ`: `dx = (g − x̂·mean(g·x̂)) / r`, `dγ = Σ dy·x̂`. Kept:
//! x and γ. Not 1/r: the backward has to read the row anyway, and with the row in cache r costs next to nothing.

use crate::fused::{Fused, apply, contiguous, elements, elements_mut, rows_and_width, tensor, uninit};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::{dot, simd};
use crate::threads;
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;

/// Scales each row of `x` to unit root mean square, times γ.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// let device = Device::flex();
/// let x = Tensor::<2>::from_floats([[1.0, 7.0]], &device); // mean square 25, its root 5
/// let gain = Tensor::<1>::from_floats([1.0, 10.0], &device);
/// let y: Vec<f32> = qkv_kernels::rms_norm(x, gain, 0.0).into_data().try_to_vec().unwrap();
/// assert!((y[0] - 0.2).abs() < 1e-6 && (y[1] - 14.0).abs() < 1e-5);
/// ```
pub fn rms_norm<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, eps: f64) -> Tensor<D> {
    match apply(RmsNorm { eps: eps as f32 }, [Some(x.into_dispatch()), Some(gamma.into_dispatch())]) {
        Ok(y) => Tensor::from_dispatch(y),
        Err([x, gamma]) => plain(
            Tensor::from_dispatch(x.expect("rms_norm has an input")),
            Tensor::from_dispatch(gamma.expect("rms_norm has a gain")),
            eps,
        ),
    }
}

/// The plain twin.
fn plain<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, eps: f64) -> Tensor<D> {
    let square = (x.clone() * x.clone()).mean_dim(D - 1);
    x / (square + eps).sqrt() * gamma.unsqueeze()
}

#[derive(Clone, Copy, Debug)]
struct RmsNorm {
    eps: f32,
}

impl RmsNorm {
    /// 1/r of a row.
    fn inverse(self, x: &[f32]) -> f32 {
        1.0 / (dot(x, x) / x.len() as f32 + self.eps).sqrt()
    }
}

#[derive(Clone, Debug)]
struct Saved {
    x: FlexTensor,
    gamma: FlexTensor,
}

impl Fused<2> for RmsNorm {
    type Saved = Saved;

    fn forward(&self, [x, gamma]: [Option<FlexTensor>; 2], keep: bool) -> (FlexTensor, Option<Saved>) {
        let x = contiguous(x.expect("rms_norm has an input"));
        let gamma = contiguous(gamma.expect("rms_norm has a gain"));
        let (_, width) = rows_and_width(&x);
        let (xs, gain) = (elements(&x), elements(&gamma));
        assert_eq!(gain.len(), width, "rms_norm: the input is {width} wide, the gain is not");
        let mut y = uninit(xs.len());
        threads::for_rows(&mut y, width, |first, y| {
            let x = &xs[first * width..][..y.len()];
            for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)) {
                forward_row(self.inverse(x), x, gain, y);
            }
        });
        let y = tensor(y, x.layout().shape().clone());
        (y, keep.then_some(Saved { x, gamma }))
    }

    fn backward(&self, saved: Saved, mut grad: FlexTensor, wants: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let Saved { x, gamma } = saved;
        let (_, width) = rows_and_width(&x);
        let (xs, gain) = (elements(&x), elements(&gamma));
        let dgamma = threads::for_rows_and_sums(elements_mut(&mut grad), width, 1, |first, grad, dgamma| {
            let x = &xs[first * width..][..grad.len()];
            for (x, g) in x.chunks_exact(width).zip(grad.chunks_exact_mut(width)) {
                backward_row(self.inverse(x), x, gain, g, dgamma);
            }
        });
        [wants[0].then_some(grad), wants[1].then(|| tensor(dgamma, [width]))]
    }
}

simd! {
    fn forward_row<'a, S>(simd, inverse: f32, x: &'a [f32], gain: &'a [f32], y: &'a mut [f32]) {
        let inverse = simd.splat_f32s(inverse);
        let ((xs, xt), (gs, gt), (ys, yt)) = (S::as_simd_f32s(x), S::as_simd_f32s(gain), S::as_mut_simd_f32s(y));
        let at = |x, g| simd.mul_f32s(simd.mul_f32s(x, inverse), g);
        for ((x, g), y) in xs.iter().zip(gs).zip(ys) {
            *y = at(*x, *g);
        }
        simd.partial_store_f32s(yt, at(simd.partial_load_f32s(xt), simd.partial_load_f32s(gt)));
    }
}

simd! {
    /// Turns the row's `dy` into `dx` in place, and adds its share of dγ.
    fn backward_row<'a, S>(
        simd, inverse: f32, x: &'a [f32], gain: &'a [f32], g: &'a mut [f32], dgamma: &'a mut [f32],
    ) {
        let inv = simd.splat_f32s(inverse);
        let ((xs, xt), (ws, wt)) = (S::as_simd_f32s(x), S::as_simd_f32s(gain));
        let ((gs, gt), (ds, dt)) = (S::as_mut_simd_f32s(g), S::as_mut_simd_f32s(dgamma));
        let hat = |x| simd.mul_f32s(x, inv);
        let mut along = simd.splat_f32s(0.0);
        for (((x, w), g), d) in xs.iter().zip(ws).zip(gs.iter()).zip(ds) {
            let h = hat(*x);
            along = simd.mul_add_f32s(simd.mul_f32s(*g, *w), h, along);
            *d = simd.mul_add_f32s(*g, h, *d);
        }
        // Past the end of the tail every lane is zero, so it adds nothing.
        let load = |t: &[f32]| simd.partial_load_f32s(t);
        let (h, last) = (hat(load(xt)), load(gt));
        let gw = simd.mul_f32s(last, load(wt));
        along = simd.mul_add_f32s(gw, h, along);
        simd.partial_store_f32s(dt, simd.mul_add_f32s(last, h, load(dt)));

        let mean = simd.splat_f32s(simd.reduce_sum_f32s(along) / x.len() as f32);
        let dx = |gw, h| simd.mul_f32s(simd.negate_mul_add_f32s(h, mean, gw), inv);
        for ((x, w), g) in xs.iter().zip(ws).zip(gs) {
            *g = dx(simd.mul_f32s(*g, *w), hat(*x));
        }
        simd.partial_store_f32s(gt, dx(gw, h));
    }
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "rms_norm", formula: "x / √(mean(x²) + ε) · γ", cases, bench };

fn case(rows: usize, c: usize, eps: f64) -> Case {
    Case::new(format!("[{rows}, {c}]"), [rows * c, c], move |x| {
        rms_norm(x[0].clone().reshape([rows, c]), x[1].clone(), eps).flatten(0, 1)
    })
}

fn cases() -> Vec<Case> {
    let view = Case::new("transposed", [6 * 5, 6], |x| {
        rms_norm(x[0].clone().reshape([6, 5]).transpose(), x[1].clone(), 1e-6).flatten(0, 1)
    });
    let narrow = Case::new("narrowed", [2 * 3 * 29, 11], |x| {
        rms_norm(x[0].clone().reshape([2, 3, 29]).narrow(2, 7, 11), x[1].clone(), 1e-6).flatten(0, 2)
    });
    // One feature alone normalises to ±1 whatever it was, and dx would be rounding noise; a large ε makes it a case.
    let one = case(3, 1, 0.5);
    let sizes = [case(1, 2, 1e-2), case(1, 8, 1e-6), case(3, 17, 1e-6), case(7, 64, 1e-5), case(301, 131, 1e-6)];
    sizes.into_iter().chain([one, view, narrow, case(2, 40, 1e-6).spread(1e3)]).collect()
}

fn bench() -> Bench {
    Bench { case: case(2048, 384, 1e-6), work: Work::Bytes(8.0 * 2048.0 * 384.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::values;

    fn both(x: [[f32; 3]; 2]) -> Vec<f32> {
        let device = Device::flex();
        let (x, gain) = (Tensor::<2>::from_floats(x, &device), Tensor::<1>::ones([3], &device));
        let (y, twin) = (values(rms_norm(x.clone(), gain.clone(), 1e-6)), values(plain(x, gain, 1e-6)));
        let same = |(a, b): (&f32, &f32)| (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-6;
        assert!(y.iter().zip(&twin).all(same), "fused {y:?}, twin {twin:?}");
        y
    }

    #[test]
    fn nan_spoils_its_row_and_infinity_eats_its_neighbours() {
        let y = both([[1.0, f32::NAN, 2.0], [3.0, 3.0, 3.0]]);
        assert!(y[..3].iter().all(|v| v.is_nan()) && y[3..].iter().all(|v| (v - 1.0).abs() < 1e-6));
        let y = both([[1.0, f32::NEG_INFINITY, 2.0], [3.0, 3.0, 3.0]]);
        assert!(y[0] == 0.0 && y[1].is_nan() && y[2] == 0.0 && (y[3] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_row_of_zeros_stays_zero() {
        assert_eq!(both([[0.0; 3]; 2]), [0.0; 6]);
    }
}
