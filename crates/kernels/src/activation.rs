//! The non-linearities: `relu x = max(x, 0)`, `gelu x = x·Φ(x)` exactly (erf) and by tanh, `silu x = x·σ(x)`, `tanh x`.
//!
//! `gelu_tanh x = ½x·(1 + tanh(√(2/π)·(x + 0.044715x³)))` is GPT-2's; T5 v1.1 gates with it. Any shape; the backward
//! recomputes the slope from the input, so only the input is kept.
//!
//! NaN stays NaN in all of them. +∞ gives +∞ (tanh: 1). −∞ gives 0 in relu and −1 in tanh, and NaN in the gelus and silu,
//! where the formula is −∞·0; every finite input, however large, gives the finite limit, and so do the slopes up to
//! |x| = 10¹⁸.

use crate::fused::{Fused, apply, contiguous, elements, elements_mut, tensor, uninit};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::{self, simd};
use crate::threads;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, activation};
use pulp::Simd;
use serde::{Deserialize, Serialize};

/// Which non-linearity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `max(x, 0)`
    Relu,
    /// `x·Φ(x)` with the error function
    Gelu,
    /// the tanh approximation of gelu
    GeluTanh,
    /// `x·σ(x)`, also called swish
    Silu,
    /// `tanh x`
    Tanh,
}

const SQRT_2_OVER_PI: f32 = 0.797_884_6;
const CUBIC: f32 = 0.044_715;

impl Activation {
    /// Every activation, for tests and help texts.
    pub const ALL: [Self; 5] = [Self::Relu, Self::Gelu, Self::GeluTanh, Self::Silu, Self::Tanh];

    /// The plain twin.
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use qkv_kernels::Activation;
    ///
    /// // σ(0) = ½ and σ(ln 3) = ¾
    /// let x = Tensor::<1>::from_floats([0.0, 3f32.ln()], &Device::flex());
    /// let y: Vec<f32> = Activation::Silu.plain(x).into_data().try_to_vec().unwrap();
    /// assert!(y[0] == 0.0 && (y[1] - 0.75 * 3f32.ln()).abs() < 1e-6);
    /// ```
    pub fn plain<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Relu => activation::relu(x),
            Self::Gelu => (x.clone() * std::f64::consts::FRAC_1_SQRT_2).erf().add_scalar(1.0) * x * 0.5,
            Self::GeluTanh => {
                let inner = (x.clone().powi_scalar(3) * CUBIC + x.clone()) * SQRT_2_OVER_PI;
                inner.tanh().add_scalar(1.0) * x * 0.5
            }
            Self::Silu => activation::sigmoid(x.clone()) * x,
            Self::Tanh => x.tanh(),
        }
    }

    /// The value in every lane.
    #[inline(always)]
    pub(crate) fn value<S: Simd>(self, simd: S, x: S::f32s) -> S::f32s {
        let at = |v: f32| simd.splat_f32s(v);
        match self {
            // Not `max`: that would turn NaN into 0 on some machines.
            Self::Relu => simd.select_f32s(simd.less_than_f32s(x, at(0.0)), at(0.0), x),
            Self::Gelu => {
                let half = simd.mul_f32s(x, at(0.5));
                let phi = simd::erf(simd, simd.mul_f32s(x, at(std::f32::consts::FRAC_1_SQRT_2)));
                simd.mul_add_f32s(half, phi, half)
            }
            Self::GeluTanh => {
                let half = simd.mul_f32s(x, at(0.5));
                simd.mul_add_f32s(half, simd::tanh(simd, inner(simd, x)), half)
            }
            Self::Silu => simd.mul_f32s(x, simd::sigmoid(simd, x)),
            Self::Tanh => simd::tanh(simd, x),
        }
    }

    /// The derivative in every lane.
    #[inline(always)]
    pub(crate) fn slope<S: Simd>(self, simd: S, x: S::f32s) -> S::f32s {
        let at = |v: f32| simd.splat_f32s(v);
        let one = at(1.0);
        match self {
            Self::Relu => simd.select_f32s(simd.greater_than_f32s(x, at(0.0)), one, at(0.0)),
            Self::Gelu => {
                // Φ(x) + x·φ(x)
                let phi = simd::erf(simd, simd.mul_f32s(x, at(std::f32::consts::FRAC_1_SQRT_2)));
                let cdf = simd.mul_add_f32s(at(0.5), phi, at(0.5));
                let bell = simd::exp(simd, simd.mul_f32s(simd.mul_f32s(x, x), at(-0.5)));
                simd.mul_add_f32s(simd.mul_f32s(x, at(0.398_942_3)), bell, cdf)
            }
            Self::GeluTanh => {
                // ½(1 + t) + ½x(1 − t²)·√(2/π)(1 + 3·0.044715x²)
                let t = simd::tanh(simd, inner(simd, x));
                let steep =
                    simd.mul_add_f32s(simd.mul_f32s(x, x), at(3.0 * CUBIC * SQRT_2_OVER_PI), at(SQRT_2_OVER_PI));
                // In this order: 1 − t² is 0 for large x, and x·steep alone would already be ∞ there.
                let rise = simd.mul_f32s(x, simd.mul_f32s(simd.negate_mul_add_f32s(t, t, one), steep));
                simd.mul_f32s(at(0.5), simd.add_f32s(simd.add_f32s(one, t), rise))
            }
            Self::Silu => {
                // σ(1 + x(1 − σ))
                let s = simd::sigmoid(simd, x);
                simd.mul_f32s(s, simd.mul_add_f32s(x, simd.sub_f32s(one, s), one))
            }
            Self::Tanh => {
                let t = simd::tanh(simd, x);
                simd.negate_mul_add_f32s(t, t, one)
            }
        }
    }
}

/// `√(2/π)·(x + 0.044715x³)`
#[inline(always)]
fn inner<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let square = simd.mul_f32s(x, x);
    let line = simd.mul_add_f32s(square, simd.splat_f32s(CUBIC * SQRT_2_OVER_PI), simd.splat_f32s(SQRT_2_OVER_PI));
    simd.mul_f32s(x, line)
}

simd! {
    fn values<'a, S>(simd, act: Activation, x: &'a [f32], y: &'a mut [f32]) {
        let ((xs, xt), (ys, yt)) = (S::as_simd_f32s(x), S::as_mut_simd_f32s(y));
        for (x, y) in xs.iter().zip(ys) {
            *y = act.value(simd, *x);
        }
        let last = act.value(simd, simd.partial_load_f32s(xt));
        simd.partial_store_f32s(yt, last);
    }
}

simd! {
    fn times_slopes<'a, S>(simd, act: Activation, x: &'a [f32], g: &'a mut [f32]) {
        let ((xs, xt), (gs, gt)) = (S::as_simd_f32s(x), S::as_mut_simd_f32s(g));
        for (x, g) in xs.iter().zip(gs) {
            *g = simd.mul_f32s(*g, act.slope(simd, *x));
        }
        let last = simd.mul_f32s(simd.partial_load_f32s(gt), act.slope(simd, simd.partial_load_f32s(xt)));
        simd.partial_store_f32s(gt, last);
    }
}

/// `y ← act(x)`, in parallel.
pub(crate) fn forward(act: Activation, x: &[f32], y: &mut [f32]) {
    threads::for_rows(y, 1, |first, y| values(act, &x[first..first + y.len()], y));
}

/// `g ← g · act′(x)`, in parallel.
pub(crate) fn backward(act: Activation, x: &[f32], g: &mut [f32]) {
    threads::for_rows(g, 1, |first, g| times_slopes(act, &x[first..first + g.len()], g));
}

impl Fused<1> for Activation {
    type Saved = FlexTensor;

    fn forward(&self, [x]: [Option<FlexTensor>; 1], keep: bool) -> (FlexTensor, Option<FlexTensor>) {
        let x = contiguous(x.expect("activation has an input"));
        let mut y = uninit(x.layout().num_elements());
        forward(*self, elements(&x), &mut y);
        (tensor(y, x.layout().shape().clone()), keep.then_some(x))
    }

    fn backward(&self, x: FlexTensor, mut grad: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        backward(*self, elements(&x), elements_mut(&mut grad));
        [Some(grad)]
    }
}

/// Applies `act` to every element.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::{Activation, activate};
///
/// let x = Tensor::<1>::from_floats([-1.0, 0.0, 2.0], &Device::flex());
/// let y: Vec<f32> = activate(x, Activation::Relu).into_data().try_to_vec().unwrap();
/// assert_eq!(y, [0.0, 0.0, 2.0]);
/// ```
pub fn activate<const D: usize>(x: Tensor<D>, act: Activation) -> Tensor<D> {
    match apply(act, [Some(x.into_dispatch())]) {
        Ok(y) => Tensor::from_dispatch(y),
        Err([x]) => act.plain(Tensor::from_dispatch(x.expect("activation has an input"))),
    }
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "activation", formula: "relu, gelu, gelu_tanh, silu, tanh of x", cases, bench };

fn cases() -> Vec<Case> {
    let of = |act| {
        [1, 7, 64, 1031]
            .map(move |n| Case::new(format!("{act:?} [{n}]"), [n], move |x| activate(x[0].clone(), act)).spread(2.0))
    };
    let large = |act| Case::new(format!("{act:?}, large"), [33], move |x| activate(x[0].clone(), act)).spread(30.0);
    let view = Case::new("transposed", [13 * 7], |x| {
        activate(x[0].clone().reshape([13, 7]).transpose(), Activation::Gelu).flatten(0, 1)
    });
    let narrow = Case::new("narrowed", [5 * 23], |x| {
        activate(x[0].clone().reshape([5, 23]).narrow(1, 2, 11), Activation::Silu).flatten(0, 1)
    });
    let all = Activation::ALL.into_iter();
    all.clone().flat_map(of).chain(all.map(large)).chain([view, narrow]).collect()
}

fn bench() -> Bench {
    let n = 2048 * 1536;
    let case = Case::new("gelu_tanh [2048, 1536]", [n], |x| activate(x[0].clone(), Activation::GeluTanh));
    Bench { case, work: Work::Bytes(8.0 * n as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    /// Value and slope of every x.
    fn of(act: Activation, x: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut y = vec![0.0; x.len()];
        values(act, x, &mut y);
        let mut slopes = vec![1.0; x.len()];
        times_slopes(act, x, &mut slopes);
        (y, slopes)
    }

    #[test]
    fn nan_stays_nan_and_infinities_are_as_documented() {
        use Activation::*;
        let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        for act in Activation::ALL {
            let y = of(act, &x).0;
            let twin = qkv_testkit::values(act.plain(Tensor::<1>::from_floats(x, &Device::flex())));
            for (y, twin) in y.iter().zip(&twin) {
                assert!(y == twin || (y.is_nan() && twin.is_nan()), "{act:?}: fused {y}, twin {twin}");
            }
            assert!(y[0].is_nan(), "{act:?}");
            assert_eq!(y[1], if act == Tanh { 1.0 } else { f32::INFINITY }, "{act:?}");
            match act {
                Relu => assert_eq!(y[2], 0.0),
                Tanh => assert_eq!(y[2], -1.0),
                Gelu | GeluTanh | Silu => assert!(y[2].is_nan(), "{act:?}"),
            }
        }
    }

    #[test]
    fn large_inputs_reach_their_limits() {
        for x in [100.0, 1e6, 1e15, 1e18] {
            for act in Activation::ALL {
                let (y, slope) = of(act, &[x, -x]);
                let (high, steep) = if act == Activation::Tanh { (1.0, 0.0) } else { (x, 1.0) };
                let low = if act == Activation::Tanh { -1.0 } else { 0.0 };
                assert_eq!((y[0], y[1], slope[0], slope[1]), (high, low, steep, 0.0), "{act:?} of ±{x}");
            }
        }
    }

    /// `erf x = 2/√π · e^(−x²) · Σ 2ⁿx²ⁿ⁺¹ / (1·3·5⋯(2n+1))`: every term positive, so nothing cancels.
    fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..400 {
            term *= 2.0 * x * x / (2 * n + 1) as f64;
            sum += term;
        }
        std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
    }

    #[test]
    fn the_series_for_erf_is_right() {
        // Abramowitz and Stegun, table 7.1, and erfc(3) = 2.209049699858544e-5.
        for (x, want) in
            [(0.5, 0.520_499_877_813_046_5), (1.0, 0.842_700_792_949_714_9), (-2.0, -0.995_322_265_018_952_7)]
        {
            assert!((erf(x) - want).abs() < 1e-15, "erf({x}) = {}", erf(x));
        }
        assert!((1.0 - erf(3.0) - 2.209_049_699_858_544e-5).abs() < 1e-15);
    }

    /// [`simd::erf`] through gelu: its error is at most 5e-7, and gelu multiplies it by x/2.
    #[test]
    fn exact_gelu_follows_the_error_function() {
        let x: Vec<f32> = (-6000..=6000).map(|i| i as f32 * 1e-3).collect();
        let (y, slope) = of(Activation::Gelu, &x);
        for (i, &x) in x.iter().enumerate() {
            let x = x as f64;
            let cdf = 0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2));
            let bell = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            let rounding = x.abs() * f32::EPSILON as f64;
            let error = (y[i] as f64 - x * cdf).abs();
            assert!(error <= 0.5 * x.abs() * 5e-7 + rounding, "gelu({x}) = {}, exactly {}: {error:e}", y[i], x * cdf);
            let error = (slope[i] as f64 - (cdf + x * bell)).abs();
            assert!(error <= 5e-7, "gelu′({x}) = {}, exactly {}: {error:e}", slope[i], cdf + x * bell);
        }
    }
}
