//! Layer normalisation (Ba et al. 2016): `y = (x − mean(x)) / √(var(x) + ε) · γ + β`, each row on its own.
//!
//! Shapes: x `[…, C]`, γ and β `[C]`. The variance is the mean of the squared deviations (not Bessel-corrected), taken
//! in a second pass over the row: the row is in cache, and a one-pass formula would cancel for rows with a large mean.
//! A row with NaN or infinity becomes NaN.
//!
//! Backward, with `x̂` the normalised row and `g = dy·γ`: `dx = (g − mean(g) − x̂·mean(g·x̂)) / σ`, `dγ = Σ dy·x̂`,
//! `dβ = Σ dy`. Kept: x, and the mean and 1/σ of each row.

use crate::fused::{Fused, apply, contiguous, elements, elements_mut, rows_and_width, tensor, uninit};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::simd;
use crate::threads;
use burn::backend::flex::FlexTensor;
use burn::tensor::Tensor;
use pulp::Simd;
use rayon::prelude::*;

/// Normalises each row of `x` and stretches it by γ and β.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// let device = Device::flex();
/// let x = Tensor::<2>::from_floats([[1.0, 3.0]], &device); // mean 2, variance 1
/// let gain = Tensor::<1>::from_floats([1.0, 10.0], &device);
/// let y: Vec<f32> = qkv_kernels::layer_norm(x, gain, None, 0.0).into_data().try_to_vec().unwrap();
/// assert_eq!(y, [-1.0, 10.0]);
/// ```
///
/// # Panics
/// If γ or β is not as wide as a row of `x`.
pub fn layer_norm<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, beta: Option<Tensor<1>>, eps: f64) -> Tensor<D> {
    let width = x.dims()[D - 1];
    let fits = |t: &Tensor<1>| t.dims()[0] == width;
    assert!(fits(&gamma) && beta.as_ref().is_none_or(fits), "layer_norm: the rows are {width} wide, γ or β is not");
    let inputs = [Some(x.into_dispatch()), Some(gamma.into_dispatch()), beta.map(Tensor::into_dispatch)];
    match apply(LayerNorm { eps: eps as f32 }, inputs) {
        Ok(y) => Tensor::from_dispatch(y),
        Err([x, gamma, beta]) => plain(
            Tensor::from_dispatch(x.expect("layer_norm has an input")),
            Tensor::from_dispatch(gamma.expect("layer_norm has a gain")),
            beta.map(Tensor::from_dispatch),
            eps,
        ),
    }
}

/// The plain twin.
fn plain<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, beta: Option<Tensor<1>>, eps: f64) -> Tensor<D> {
    let centred = x.clone() - x.mean_dim(D - 1);
    let var = (centred.clone() * centred.clone()).mean_dim(D - 1);
    let y = centred / (var + eps).sqrt() * gamma.unsqueeze();
    match beta {
        Some(beta) => y + beta.unsqueeze(),
        None => y,
    }
}

#[derive(Clone, Copy, Debug)]
struct LayerNorm {
    eps: f32,
}

#[derive(Clone, Debug)]
struct Saved {
    x: FlexTensor,
    gamma: FlexTensor,
    /// mean and 1/σ of each row
    stats: Vec<[f32; 2]>,
}

impl Fused<3> for LayerNorm {
    type Saved = Saved;

    fn forward(&self, [x, gamma, beta]: [Option<FlexTensor>; 3], keep: bool) -> (FlexTensor, Option<Saved>) {
        let x = contiguous(x.expect("layer_norm has an input"));
        let gamma = contiguous(gamma.expect("layer_norm has a gain"));
        let beta = beta.map(contiguous);
        let (xs, gain, shift) = (elements(&x), elements(&gamma), beta.as_ref().map(elements));
        let mut y = uninit(xs.len());
        let stats = self.rows(xs, gain, shift, &mut y);
        let y = tensor(y, x.layout().shape().clone());
        (y, keep.then_some(Saved { x, gamma, stats }))
    }

    fn backward(&self, saved: Saved, mut grad: FlexTensor, wants: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Saved { x, gamma, stats } = saved;
        let (_, width) = rows_and_width(&x);
        let (xs, gain) = (elements(&x), elements(&gamma));
        let sums = threads::for_rows_and_sums(elements_mut(&mut grad), width, 2, |first, grad, sums| {
            let (dgamma, dbeta) = sums.split_at_mut(width);
            for (i, g) in grad.chunks_exact_mut(width).enumerate() {
                let row = first + i;
                backward_row(stats[row], &xs[row * width..][..width], gain, g, dgamma, dbeta);
            }
        });
        let (dgamma, dbeta) = sums.split_at(width);
        [
            wants[0].then_some(grad),
            wants[1].then(|| tensor(dgamma.to_vec(), [width])),
            wants[2].then(|| tensor(dbeta.to_vec(), [width])),
        ]
    }
}

impl LayerNorm {
    /// Normalises every row of `x` into `y`, in parallel; returns the mean and 1/σ of each.
    fn rows(&self, x: &[f32], gain: &[f32], shift: Option<&[f32]>, y: &mut [f32]) -> Vec<[f32; 2]> {
        let width = gain.len();
        if y.is_empty() {
            return vec![];
        }
        let rows = threads::chunk_rows(width);
        // Two numbers a row beside its whole width: cheaper to write always than to ask whether they will be kept.
        let mut stats = vec![[0.0; 2]; y.len() / width];
        let step = |x: &[f32], y: &mut [f32], stats: &mut [[f32; 2]]| {
            for ((x, y), stats) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(stats) {
                *stats = forward_row(self.eps, x, gain, shift, y);
            }
        };
        let cut = rows * width;
        if y.len() <= threads::SERIAL {
            let chunks = x.chunks(cut).zip(y.chunks_mut(cut)).zip(stats.chunks_mut(rows));
            chunks.for_each(|((x, y), stats)| step(x, y, stats));
        } else {
            let chunks = x.par_chunks(cut).zip(y.par_chunks_mut(cut)).zip(stats.par_chunks_mut(rows));
            chunks.for_each(|((x, y), stats)| step(x, y, stats));
        }
        stats
    }
}

/// Mean and 1/σ of a row.
#[inline(always)]
fn stats<S: Simd>(simd: S, eps: f32, x: &[f32]) -> [f32; 2] {
    let (xs, tail) = S::as_simd_f32s(x);
    let mut total = simd.partial_load_f32s(tail);
    for &v in xs {
        total = simd.add_f32s(total, v);
    }
    let mean = simd.reduce_sum_f32s(total) / x.len() as f32;
    let centre = simd.splat_f32s(mean);
    let mut squares = simd.splat_f32s(0.0);
    for &v in xs {
        let d = simd.sub_f32s(v, centre);
        squares = simd.mul_add_f32s(d, d, squares);
    }
    // The tail is summed apart: lanes past its end would add mean² each.
    let rest: f32 = tail.iter().map(|v| (v - mean) * (v - mean)).sum();
    let var = (simd.reduce_sum_f32s(squares) + rest) / x.len() as f32;
    [mean, 1.0 / (var + eps).sqrt()]
}

simd! {
    /// Normalises one row and returns its mean and 1/σ.
    fn forward_row<'a, S>(
        simd, eps: f32, x: &'a [f32], gain: &'a [f32], shift: Option<&'a [f32]>, y: &'a mut [f32],
    ) -> [f32; 2] {
        let stats = stats(simd, eps, x);
        let (mean, inv) = (simd.splat_f32s(stats[0]), simd.splat_f32s(stats[1]));
        let ((xs, xt), (gs, gt), (ys, yt)) = (S::as_simd_f32s(x), S::as_simd_f32s(gain), S::as_mut_simd_f32s(y));
        let at = |x, g, b| simd.mul_add_f32s(simd.mul_f32s(simd.sub_f32s(x, mean), inv), g, b);
        match shift {
            Some(shift) => {
                let (bs, bt) = S::as_simd_f32s(shift);
                for (((x, g), b), y) in xs.iter().zip(gs).zip(bs).zip(ys) {
                    *y = at(*x, *g, *b);
                }
                let load = |t| simd.partial_load_f32s(t);
                simd.partial_store_f32s(yt, at(load(xt), load(gt), load(bt)));
            }
            None => {
                let zero = simd.splat_f32s(0.0);
                for ((x, g), y) in xs.iter().zip(gs).zip(ys) {
                    *y = at(*x, *g, zero);
                }
                simd.partial_store_f32s(yt, at(simd.partial_load_f32s(xt), simd.partial_load_f32s(gt), zero));
            }
        }
        stats
    }
}

simd! {
    /// Turns the row's `dy` into `dx` in place, and adds its share of dγ and dβ.
    fn backward_row<'a, S>(
        simd, stats: [f32; 2], x: &'a [f32], gain: &'a [f32], g: &'a mut [f32], dgamma: &'a mut [f32], dbeta: &'a mut [f32],
    ) {
        let (mean, inv) = (simd.splat_f32s(stats[0]), simd.splat_f32s(stats[1]));
        let ((xs, xt), (ws, wt)) = (S::as_simd_f32s(x), S::as_simd_f32s(gain));
        let ((gs, gt), (as_, at), (bs, bt)) =
            (S::as_mut_simd_f32s(g), S::as_mut_simd_f32s(dgamma), S::as_mut_simd_f32s(dbeta));
        let hat = |x| simd.mul_f32s(simd.sub_f32s(x, mean), inv);
        let (mut sum, mut along) = (simd.splat_f32s(0.0), simd.splat_f32s(0.0));
        for ((((x, w), g), a), b) in xs.iter().zip(ws).zip(gs.iter()).zip(as_).zip(bs) {
            let (h, gw) = (hat(*x), simd.mul_f32s(*g, *w));
            sum = simd.add_f32s(sum, gw);
            along = simd.mul_add_f32s(gw, h, along);
            *a = simd.mul_add_f32s(*g, h, *a);
            *b = simd.add_f32s(*b, *g);
        }
        // Past the end of the tail the gradient lanes are zero, so they add nothing.
        let load = |t: &[f32]| simd.partial_load_f32s(t);
        let (h, last) = (hat(load(xt)), load(gt));
        let gw = simd.mul_f32s(last, load(wt));
        sum = simd.add_f32s(sum, gw);
        along = simd.mul_add_f32s(gw, h, along);
        simd.partial_store_f32s(at, simd.mul_add_f32s(last, h, load(at)));
        simd.partial_store_f32s(bt, simd.add_f32s(load(bt), last));

        let n = x.len() as f32;
        let (m1, m2) = (simd.splat_f32s(simd.reduce_sum_f32s(sum) / n), simd.splat_f32s(simd.reduce_sum_f32s(along) / n));
        let dx = |gw, h| simd.mul_f32s(simd.sub_f32s(simd.sub_f32s(gw, m1), simd.mul_f32s(h, m2)), inv);
        for ((x, w), g) in xs.iter().zip(ws).zip(gs) {
            *g = dx(simd.mul_f32s(*g, *w), hat(*x));
        }
        simd.partial_store_f32s(gt, dx(gw, h));
    }
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "layer_norm", formula: "(x − mean) / √(var + ε) · γ + β", cases, bench };

fn case(rows: usize, c: usize) -> Case {
    Case::new(format!("[{rows}, {c}]"), [rows * c, c, c], move |x| {
        layer_norm(x[0].clone().reshape([rows, c]), x[1].clone(), Some(x[2].clone()), 1e-5).flatten(0, 1)
    })
}

fn cases() -> Vec<Case> {
    let no_shift = Case::new("no shift", [3 * 19, 19], |x| {
        layer_norm(x[0].clone().reshape([3, 19]), x[1].clone(), None, 1e-6).flatten(0, 1)
    });
    let view = Case::new("transposed", [6 * 5, 6, 6], |x| {
        layer_norm(x[0].clone().reshape([6, 5]).transpose(), x[1].clone(), Some(x[2].clone()), 1e-5).flatten(0, 1)
    });
    // Not [1, 2]: two features normalise to ±1 whatever they were, so dx is 0 and NMSE has nothing to divide by.
    vec![case(1, 3), case(1, 8), case(3, 17), case(7, 64), case(301, 131), no_shift, view, case(2, 40).spread(1e3)]
}

fn bench() -> Bench {
    Bench { case: case(2048, 384), work: Work::Bytes(8.0 * 2048.0 * 384.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_and_infinity_stay_in_their_row() {
        let x = tensor(vec![f32::NAN, 1.0, 2.0, f32::INFINITY, 1.0, 2.0, 1.0, 2.0, 3.0], [3, 3]);
        let (y, _) = LayerNorm { eps: 1e-5 }.forward([Some(x), Some(tensor(vec![1.0; 3], [3])), None], false);
        let y = elements(&y);
        assert!(y[..6].iter().all(|v| v.is_nan()), "{y:?}");
        assert!(y[6..].iter().all(|v| v.is_finite()), "{y:?}");
    }

    #[test]
    fn keeps_the_mean_and_deviation_of_each_row() {
        let x = tensor(vec![1.0, 3.0, -4.0, 4.0], [2, 2]);
        let inputs = [Some(x), Some(tensor(vec![1.0; 2], [2])), None];
        let (_, saved) = LayerNorm { eps: 0.0 }.forward(inputs, true);
        assert_eq!(saved.expect("kept").stats, [[2.0, 1.0], [0.0, 0.25]]);
    }

    #[test]
    fn nothing_in_nothing_out() {
        let inputs = [Some(tensor(vec![], [0, 3])), Some(tensor(vec![1.0; 3], [3])), None];
        let (y, saved) = LayerNorm { eps: 0.0 }.forward(inputs, true);
        assert!(elements(&y).is_empty() && saved.expect("kept").stats.is_empty());
    }

    #[test]
    #[should_panic(expected = "the rows are 4 wide")]
    fn a_gain_of_another_width_is_refused() {
        let device = burn::tensor::Device::flex();
        layer_norm(Tensor::<2>::zeros([1, 4], &device), Tensor::ones([2], &device), None, 1e-5);
    }
}
