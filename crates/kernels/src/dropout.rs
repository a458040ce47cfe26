//! Dropout (Srivastava et al. 2014): `y = x·m / (1 − p)`, m drawn 0 with probability p, else 1.
//!
//! Any shape. m at element i is a function of the key and i ([`crate::Key`]), so it is the same at any thread count and
//! after a resume, and the backward draws it again instead of keeping it: `dx = dy·m / (1 − p)`, in place on the
//! gradient. NaN stays NaN and ∞ that is dropped becomes NaN (∞·0): dropout hides no error.

use crate::Key;
use crate::fused::{Fused, apply, in_place};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::simd;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, TensorData};

/// Drops elements of `x` with probability `p` and scales the rest by `1 / (1 − p)`; p = 0 changes nothing, p = 1 drops
/// everything.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::{Key, dropout};
///
/// let x = Tensor::<1>::ones([1000], &Device::flex());
/// let y: Vec<f32> = dropout(x, 0.75, Key::new(1, 2, 3)).into_data().try_to_vec().unwrap();
/// assert!(y.iter().all(|y| *y == 0.0 || *y == 4.0)); // 1 / (1 − ¾)
/// let kept = y.iter().filter(|y| **y > 0.0).count();
/// assert!((200..300).contains(&kept));
/// ```
pub fn dropout<const D: usize>(x: Tensor<D>, p: f32, key: Key) -> Tensor<D> {
    if p <= 0.0 {
        return x;
    }
    match apply(Dropout { p, key }, [Some(x.into_dispatch())]) {
        Ok(y) => Tensor::from_dispatch(y),
        Err([x]) => plain(Tensor::from_dispatch(x.expect("dropout has an input")), p, key),
    }
}

/// The factor of element `index`: 0 or 1 / (1 − p).
#[inline]
pub(crate) fn factor(p: f32, key: Key, index: u64) -> f32 {
    if key.uniform(index) < p { 0.0 } else { 1.0 / (1.0 - p) }
}

/// The factors of a run of elements: [`factor`] at `first_index`, `first_index + 1`, …
pub(crate) fn factors(p: f32, key: Key, first_index: u64, out: &mut [f32]) {
    out.fill(1.0);
    multiply(p, key, first_index, out);
}

/// The plain twin.
fn plain<const D: usize>(x: Tensor<D>, p: f32, key: Key) -> Tensor<D> {
    let factors: Vec<f32> = (0..x.shape().num_elements() as u64).map(|i| factor(p, key, i)).collect();
    let mask = Tensor::from_data(TensorData::new(factors, x.shape()), (&x.device(), x.dtype()));
    x * mask
}

#[derive(Clone, Copy, Debug)]
struct Dropout {
    p: f32,
    key: Key,
}

impl Dropout {
    fn drop(self, x: FlexTensor) -> FlexTensor {
        in_place(x, 1, |first, x| multiply(self.p, self.key, first as u64, x))
    }
}

impl Fused<1> for Dropout {
    type Saved = ();

    fn forward(&self, [x]: [Option<FlexTensor>; 1], keep: bool) -> (FlexTensor, Option<()>) {
        (self.drop(x.expect("dropout has an input")), keep.then_some(()))
    }

    fn backward(&self, (): (), grad: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(self.drop(grad))]
    }
}

/// How many words are drawn at a time: few enough to stay in the first cache, and to be cleared in no time for a short
/// row of attention weights.
const RUN: usize = 256;

/// `xᵢ ← xᵢ · factor(first + i)`.
fn multiply(p: f32, key: Key, first: u64, x: &mut [f32]) {
    let mut words = [0; RUN];
    for (i, x) in x.chunks_mut(RUN).enumerate() {
        let words = &mut words[..x.len()];
        crate::random::words(key, first + (i * RUN) as u64, words);
        multiply_run(below(p), 1.0 / (1.0 - p), words, x);
    }
}

/// `unit(word) < p` without floating point: the top 24 bits of the word against p in the same units. Exact, because
/// p·2²⁴ is, and an integer lies below a number when it lies below that number rounded up.
fn below(p: f32) -> u32 {
    (p * 16_777_216.0).ceil() as u32
}

simd! {
    fn multiply_run<'a, S>(simd, below: u32, scale: f32, words: &'a [u32], x: &'a mut [f32]) {
        let (below, eight) = (simd.splat_u32s(below), simd.splat_u32s(8));
        let (zero, scale) = (simd.splat_f32s(0.0), simd.splat_f32s(scale));
        let factor = |word| {
            let dropped = simd.less_than_u32s(simd.wrapping_dyn_shr_u32s(word, eight), below);
            simd.select_f32s(dropped, zero, scale)
        };
        let ((ws, wt), (xs, xt)) = (S::as_simd_u32s(words), S::as_mut_simd_f32s(x));
        for (w, x) in ws.iter().zip(xs) {
            *x = simd.mul_f32s(*x, factor(*w));
        }
        let last = simd.mul_f32s(simd.partial_load_f32s(xt), factor(simd.partial_load_u32s(wt)));
        simd.partial_store_f32s(xt, last);
    }
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "dropout", formula: "x·m / (1 − p), m drawn 0 or 1", cases, bench };

fn case(n: usize, p: f32) -> Case {
    Case::new(format!("[{n}] p = {p}"), [n], move |x| dropout(x[0].clone(), p, Key::new(1, 2, n as u64)))
}

fn cases() -> Vec<Case> {
    let view = Case::new("transposed", [13 * 11], |x| {
        dropout(x[0].clone().reshape([13, 11]).transpose(), 0.3, Key::new(1, 2, 3)).flatten(0, 1)
    });
    let narrow = Case::new("narrowed", [5 * 31], |x| {
        dropout(x[0].clone().reshape([5, 31]).narrow(1, 3, 17), 0.3, Key::new(1, 2, 3)).flatten(0, 1)
    });
    let sizes = [case(1, 0.5), case(1, 0.01), case(7, 0.1), case(64, 0.5), case(1031, 0.9), case(40_009, 0.1)];
    sizes.into_iter().chain([view, narrow, case(19, 1.0), case(33, 0.2).spread(1e3), case(5, 0.0)]).collect()
}

fn bench() -> Bench {
    let n = 2048 * 384;
    Bench { case: case(n, 0.1), work: Work::Bytes(8.0 * n as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::values;

    const P: [f32; 8] = [1e-9, 5.960_464_5e-8, 0.1, 0.333_333_34, 0.5, 0.999_999_94, 1.0, 1.5];

    #[test]
    fn runs_of_factors_are_the_factors_one_by_one() {
        let key = Key::new(2, 7, 1);
        for p in P {
            for (first, n) in [(0, 1), (0, 4), (1, 3), (2, 70), (3, 2500), (4095, 33), ((1 << 34) - 5, 90)] {
                let mut run = vec![f32::NAN; n];
                factors(p, key, first, &mut run);
                let want: Vec<f32> = (0..n as u64).map(|i| factor(p, key, first + i)).collect();
                assert_eq!(run, want, "p = {p}, {n} from {first}");
            }
        }
    }

    /// At the edge, where a word is dropped by one p and kept by the next smaller one.
    #[test]
    fn the_threshold_is_exact() {
        for p in P.into_iter().flat_map(|p| [p.next_down(), p, p.next_up()]) {
            let edge = below(p);
            for top in edge.saturating_sub(2)..=edge.saturating_add(2).min((1 << 24) - 1) {
                assert_eq!(qkv_base::random::unit(top << 8) < p, top < edge, "p = {p}, top bits {top}");
            }
        }
    }

    #[test]
    fn in_place_and_copied_agree_and_a_held_input_is_left_alone() {
        let x = Tensor::<1>::ones([5000], &Device::flex());
        let copied = values(dropout(x.clone(), 0.3, Key::new(1, 0, 0)));
        assert!(values(x.clone()).iter().all(|v| *v == 1.0));
        assert_eq!(copied, values(dropout(x, 0.3, Key::new(1, 0, 0))));
        let dropped = copied.iter().filter(|v| **v == 0.0).count();
        assert!((1400..1600).contains(&dropped), "{dropped} of 5000 dropped");
    }

    #[test]
    fn nan_and_infinity_are_not_hidden() {
        let bad = |v: f32| values(dropout(Tensor::<1>::full([1000], v, &Device::flex()), 0.5, Key::new(1, 0, 0)));
        assert!(bad(f32::NAN).iter().all(|y| y.is_nan()));
        let y = bad(f32::INFINITY);
        assert!(y.iter().any(|y| y.is_nan()) && !y.contains(&0.0));
    }
}
