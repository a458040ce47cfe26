//! Cross-entropy with label smoothing: what the training minimises.
//!
//! For row i with logits z, target t and weight w: `ℓ = (1 − s)·(lse(z) − z_t) + s·(lse(z) − mean(z))`, and the loss is
//! `Σ wᵢℓᵢ / Σ wᵢ` ([`Reduce::Mean`]) or `Σ wᵢℓᵢ / n` for a given n ([`Reduce::Over`], so that micro-batches add up to
//! their batch). Rows whose target is [`IGNORED`] count for nothing. If no row counts, the loss is 0 and so is the
//! gradient.
//!
//! Shapes: logits `[N, V]`, targets and weights `[N]`, loss `[1]`. The gradient `w/n·(softmax(z) − q)`, with the target
//! distribution `q = (1 − s)·onehot(t) + s/V`, is computed in the same pass as the loss, in place over the logits where
//! nobody else holds them; it is all that is kept, and the backward only multiplies it.
//!
//! A logit of −∞ is a class ruled out: it has no weight. If the target itself is ruled out the loss is +∞, and so it is
//! if there is any smoothing, which asks for every class. NaN, +∞, or a row of −∞ alone make the loss NaN. Rows that do
//! not count are not looked at, whatever they hold.

use crate::fused::{Fused, apply, contiguous, elements, elements_mut, rows_and_width, tensor, uninit};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::{self, simd};
use crate::threads;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Int, Tensor, TensorData, activation::log_softmax};
use pulp::Simd;
use rayon::prelude::*;
use std::sync::Arc;

/// The target of a position that does not count: padding, or a token that was not masked.
pub const IGNORED: i64 = -100;

/// Targets and how to weigh them.
#[derive(Clone, Debug)]
pub struct CrossEntropy {
    /// `[N]`, an id below V or [`IGNORED`]
    pub targets: Arc<[i64]>,
    /// `[N]`, a weight for each position; `None`: all 1
    pub weights: Option<Arc<[f32]>>,
    /// s in the formula: the share of the target that is spread over the whole vocabulary
    pub smoothing: f32,
    /// what the sum is divided by
    pub reduce: Reduce,
}

/// What the weighted sum of the losses is divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reduce {
    /// the sum of the weights that count
    Mean,
    /// this number
    Over(f32),
}

impl CrossEntropy {
    /// The mean over all targets that are not ignored.
    pub fn mean(targets: impl Into<Arc<[i64]>>) -> Self {
        Self { targets: targets.into(), weights: None, smoothing: 0.0, reduce: Reduce::Mean }
    }

    /// Whether there is a target for each of `n` rows, and each is one of `v` words.
    pub(crate) fn check(&self, n: usize, v: usize) {
        assert_eq!(self.targets.len(), n, "cross_entropy: one target for each row of logits");
        assert!(self.weights.as_ref().is_none_or(|w| w.len() == n), "cross_entropy: one weight for each row of logits");
        let bad = self.targets.iter().find(|&&t| t != IGNORED && !(0..v as i64).contains(&t));
        assert_eq!(bad, None, "cross_entropy: target outside the vocabulary of {v}");
    }

    /// The factor of row i: its weight over the divisor, 0 where ignored.
    pub(crate) fn factors(&self) -> Vec<f32> {
        let weight = |(i, &t): (usize, &i64)| match &self.weights {
            _ if t == IGNORED => 0.0,
            Some(w) => w[i],
            None => 1.0,
        };
        let mut factors: Vec<f32> = self.targets.iter().enumerate().map(weight).collect();
        let over = match self.reduce {
            Reduce::Mean => factors.iter().map(|w| *w as f64).sum::<f64>() as f32,
            Reduce::Over(n) => n,
        };
        // Nothing counts: a loss of 0, not 0/0. The training loop says so where it matters.
        factors.iter_mut().for_each(|w| *w = if over == 0.0 { 0.0 } else { *w / over });
        factors
    }
}

/// The loss of `logits` `[N, V]`, as a tensor of one element.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::{CrossEntropy, cross_entropy};
///
/// // Two classes that look alike: each has probability ½, so the loss is −ln ½ = ln 2.
/// let logits = Tensor::<2>::from_floats([[0.0, 0.0]], &Device::flex());
/// let loss: f32 = cross_entropy(logits, &CrossEntropy::mean([1])).into_scalar();
/// assert!((loss - std::f32::consts::LN_2).abs() < 1e-6);
/// ```
///
/// # Panics
/// If the number of targets or weights is not N, or a target is neither [`IGNORED`] nor below V.
pub fn cross_entropy(logits: Tensor<2>, how: &CrossEntropy) -> Tensor<1> {
    cross_entropies(logits, how).0
}

/// The loss of `logits` `[N, V]`, and beside it the same without smoothing, which is outside of the graph: it costs nothing
/// more, and can be compared with what was measured under another smoothing, or none.
///
/// # Panics
/// As [`cross_entropy`].
pub fn cross_entropies(logits: Tensor<2>, how: &CrossEntropy) -> (Tensor<1>, Tensor<1>) {
    let [n, v] = logits.dims();
    how.check(n, v);
    match apply(how.clone(), [Some(logits.into_dispatch())]) {
        Ok(both) => {
            let both = Tensor::<1>::from_dispatch(both); // [2]
            (both.clone().narrow(0, 0, 1), both.detach().narrow(0, 1, 1))
        }
        Err([logits]) => plain(Tensor::from_dispatch(logits.expect("cross_entropy has logits")), how),
    }
}

/// The plain twin.
fn plain(logits: Tensor<2>, how: &CrossEntropy) -> (Tensor<1>, Tensor<1>) {
    let (device, dtype, s) = (logits.device(), logits.dtype(), how.smoothing);
    let factors = how.factors();
    // Rows that count for nothing are left out, not multiplied by 0: 0·∞ would reach the loss as NaN.
    let counted: Vec<usize> = (0..factors.len()).filter(|&i| factors[i] != 0.0).collect();
    let n = counted.len();
    let ints = |f: &dyn Fn(usize) -> i64| TensorData::new(counted.iter().map(|&i| f(i)).collect::<Vec<_>>(), [n]);
    let rows = Tensor::<1, Int>::from_data(ints(&|i| i as i64), &device);
    let targets = Tensor::<1, Int>::from_data(ints(&|i| how.targets[i]), &device).reshape([n, 1]);
    let factors: Vec<f32> = counted.iter().map(|&i| factors[i]).collect();
    let factors = Tensor::<2>::from_data(TensorData::new(factors, [n, 1]), (&device, dtype));

    let logs = log_softmax(logits.select(0, rows), 1);
    let hit = |share: f32| logs.clone().gather(1, targets.clone()) * -share;
    let spread = || logs.clone().mean_dim(1) * -s;
    // For the same reason a share of 0 is left out.
    let row = match s {
        0.0 => hit(1.0),
        1.0 => spread(),
        _ => hit(1.0 - s) + spread(),
    };
    ((row * factors.clone()).sum(), (hit(1.0).detach() * factors).sum())
}

impl Fused<1> for CrossEntropy {
    /// The gradient of the logits, for an incoming gradient of 1.
    type Saved = FlexTensor;

    fn forward(&self, [logits]: [Option<FlexTensor>; 1], keep: bool) -> (FlexTensor, Option<FlexTensor>) {
        let logits = contiguous(logits.expect("cross_entropy has logits"));
        if !keep {
            return (
                self.loss_of_rows(0, &self.factors(), rows_and_width(&logits).1, elements(&logits)).tensor(),
                None,
            );
        }
        let (mut grad, shared) = if logits.is_unique() {
            (logits, None)
        } else {
            (tensor(uninit(logits.layout().num_elements()), logits.layout().shape().clone()), Some(logits))
        };
        let source = shared.as_ref().map(elements);
        let width = rows_and_width(&grad).1;
        let loss = self.gradient_of_rows(0, &self.factors(), width, elements_mut(&mut grad), source);
        (loss.tensor(), Some(grad))
    }

    fn backward(&self, mut saved: FlexTensor, grad: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        // Of the second, which is the loss without smoothing, there is none.
        let by = elements(&contiguous(grad))[0];
        // The loss is usually the last operation, and then this is 1: a pass over all logits saved.
        if by != 1.0 {
            threads::for_rows(elements_mut(&mut saved), 1, |_, g| scale(by, g));
        }
        [Some(saved)]
    }
}

/// A loss, and the same without smoothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loss(Pair);

impl Loss {
    /// `[2]`
    pub(crate) fn tensor(self) -> FlexTensor {
        tensor(self.0.map(|l| l as f32).to_vec(), [2])
    }
}

impl std::ops::AddAssign for Loss {
    fn add_assign(&mut self, other: Self) {
        self.0 = added([self.0, other.0].into_iter());
    }
}

type Pair = [f64; 2];

impl CrossEntropy {
    /// The loss of the rows of `z`, which are those from `first` on.
    pub(crate) fn loss_of_rows(&self, first: usize, factors: &[f32], width: usize, z: &[f32]) -> Loss {
        if z.is_empty() {
            return Loss::default();
        }
        let rows = threads::chunk_rows(width);
        Loss(sum(z.len(), z.chunks(rows * width).enumerate().collect(), |(chunk, z)| {
            let from = first + chunk * rows;
            let row = |(i, z)| match factors[from + i] {
                0.0 => [0.0; 2],
                factor => self.row_loss(from + i, z, survey(z)).map(|l| factor as f64 * l),
            };
            added(z.chunks_exact(width).enumerate().map(row))
        }))
    }

    /// The same of `source`, or of `z` itself if there is none; `z` becomes the gradient.
    pub(crate) fn gradient_of_rows(
        &self,
        first: usize,
        factors: &[f32],
        width: usize,
        z: &mut [f32],
        source: Option<&[f32]>,
    ) -> Loss {
        if z.is_empty() {
            return Loss::default();
        }
        let rows = threads::chunk_rows(width);
        Loss(sum(z.len(), z.chunks_mut(rows * width).enumerate().collect(), |(chunk, z)| {
            let row = |(i, z): (usize, &mut [f32])| {
                let at = chunk * rows + i;
                let factor = factors[first + at];
                if factor == 0.0 {
                    z.fill(0.0);
                    return [0.0; 2];
                }
                if let Some(source) = source {
                    z.copy_from_slice(&source[at * width..][..width]);
                }
                self.row_loss_and_gradient(first + at, factor, z)
            };
            added(z.chunks_exact_mut(width).enumerate().map(row))
        }))
    }

    /// ℓ of row `i`, in f64: with logits in the thousands, `lse − z_t` cancels.
    fn row_loss(&self, i: usize, z: &[f32], seen: Survey) -> Pair {
        let s = self.smoothing as f64;
        let lse = seen.shift as f64 + seen.exps.ln();
        let hit = lse - z[self.targets[i] as usize] as f64;
        let spread = || lse - seen.total / z.len() as f64;
        // A share of 0 is left out: 0·∞ is NaN, and a masked logit that nobody asks for costs nothing.
        let smoothed = match s {
            0.0 => hit,
            1.0 => spread(),
            _ => (1.0 - s) * hit + s * spread(),
        };
        [smoothed, hit]
    }

    /// The weighted ℓ of row `i`; `z` becomes `factor·(softmax(z) − q)`.
    fn row_loss_and_gradient(&self, i: usize, factor: f32, z: &mut [f32]) -> Pair {
        let seen = survey(z);
        let loss = self.row_loss(i, z, seen).map(|l| factor as f64 * l);
        let share = factor * self.smoothing / z.len() as f32;
        slope(seen.shift, (factor as f64 / seen.exps) as f32, share, z);
        z[self.targets[i] as usize] -= factor * (1.0 - self.smoothing);
        loss
    }
}

/// `Σ f(chunk)` with the chunks added in order, in parallel if the `size` of it all is worth it.
fn sum<T: Send>(size: usize, chunks: Vec<T>, f: impl Fn(T) -> Pair + Sync + Send) -> Pair {
    let parts: Vec<Pair> = if size <= threads::SERIAL {
        chunks.into_iter().map(f).collect()
    } else {
        chunks.into_par_iter().map(f).collect()
    };
    added(parts.into_iter())
}

/// The sum of pairs, in order.
fn added(pairs: impl Iterator<Item = Pair>) -> Pair {
    pairs.fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d])
}

/// What one walk along a row of logits tells.
#[derive(Clone, Copy)]
struct Survey {
    /// the largest logit, or 0 where all are −∞
    shift: f32,
    /// `Σ exp(z − shift)`
    exps: f64,
    /// `Σ z`
    total: f64,
}

/// Logits looked at in one go: 4 KiB, which stay in the first-level cache between the maximum and the exponentials.
const BLOCK: usize = 1024;

simd! {
    /// The row is read once from memory: of each block first the maximum, then the exponentials below it. When a later
    /// block rises above all before it, the sum so far is brought down to the new maximum.
    fn survey<'a, S>(simd, z: &'a [f32]) -> Survey {
        let (mut max, mut exps, mut total) = (f32::NEG_INFINITY, 0.0, 0.0);
        for block in z.chunks(BLOCK) {
            let top = max_of(simd, block);
            if top > max {
                exps *= (max as f64 - top as f64).exp();
                max = top;
            }
            // Below −∞ there is nothing to measure from: a block of masked logits is measured from 0.
            let (block_exps, block_total) = sums_from(simd, shift_of(max), block);
            exps += block_exps as f64;
            total += block_total as f64 + shift_of(max) as f64 * block.len() as f64;
        }
        Survey { shift: shift_of(max), exps, total }
    }
}

/// What a row with this maximum is measured from.
#[inline(always)]
fn shift_of(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// The largest element; NaN may be passed over (it shows in the exponentials).
#[inline(always)]
fn max_of<S: Simd>(simd: S, z: &[f32]) -> f32 {
    let (head, tail) = S::as_simd_f32s(z);
    let mut max = simd.splat_f32s(f32::NEG_INFINITY);
    for &v in head {
        max = simd.max_f32s(max, v);
    }
    let top = simd.reduce_max_f32s(max);
    tail.iter().fold(top, |top, &v| if v > top { v } else { top })
}

/// `Σ exp(z − shift)` and `Σ (z − shift)`.
#[inline(always)]
fn sums_from<S: Simd>(simd: S, shift: f32, z: &[f32]) -> (f32, f32) {
    let (head, tail) = S::as_simd_f32s(z);
    let (shift, zero) = (simd.splat_f32s(shift), simd.splat_f32s(0.0));
    let (mut exps, mut total) = (zero, zero);
    for &v in head {
        let below = simd.sub_f32s(v, shift);
        exps = simd.add_f32s(exps, simd::exp(simd, below));
        total = simd.add_f32s(total, below);
    }
    // Lanes past the end of the tail are loaded as 0, which is a logit like any other: they are masked out.
    let inside = simd.mask_between_m32s(0, tail.len() as u32).mask();
    let below = simd.sub_f32s(simd.partial_load_f32s(tail), shift);
    exps = simd.add_f32s(exps, simd.select_f32s(inside, simd::exp(simd, below), zero));
    total = simd.add_f32s(total, simd.select_f32s(inside, below, zero));
    (simd.reduce_sum_f32s(exps), simd.reduce_sum_f32s(total))
}

simd! {
    /// `z ← exp(z − shift)·scale − share`
    fn slope<'a, S>(simd, shift: f32, scale: f32, share: f32, z: &'a mut [f32]) {
        let by = [shift, scale, share].map(|v| simd.splat_f32s(v));
        let (head, tail) = S::as_mut_simd_f32s(z);
        for v in head {
            *v = slope_at(simd, by, *v);
        }
        simd.partial_store_f32s(tail, slope_at(simd, by, simd.partial_load_f32s(tail)));
    }
}

/// The body of [`slope`]. Not a closure there: it is used twice, and a closure that is not inlined loses the wide
/// instructions of its surroundings; this one was twenty times slower.
#[inline(always)]
fn slope_at<S: Simd>(simd: S, [shift, scale, share]: [S::f32s; 3], z: S::f32s) -> S::f32s {
    simd.sub_f32s(simd.mul_f32s(simd::exp(simd, simd.sub_f32s(z, shift)), scale), share)
}

simd! {
    /// `g ← by·g`
    fn scale<'a, S>(simd, by: f32, g: &'a mut [f32]) {
        let by = simd.splat_f32s(by);
        let (head, tail) = S::as_mut_simd_f32s(g);
        for v in head {
            *v = simd.mul_f32s(*v, by);
        }
        simd.partial_store_f32s(tail, simd.mul_f32s(simd.partial_load_f32s(tail), by));
    }
}

/// This kernel's row in the register.
pub const OP: Op =
    Op {
        name: "cross_entropy", formula: "Σ w·((1 − s)·(lse − z_t) + s·(lse − mean z)) / Σ w", cases, bench
    };

/// Targets that jump about the vocabulary.
fn targets(n: usize, v: usize) -> Vec<i64> {
    (0..n).map(|i| (i * 7919 % v) as i64).collect()
}

fn case(n: usize, v: usize, smoothing: f32) -> Case {
    Case::new(format!("[{n}, {v}], smoothing {smoothing}"), [n * v], move |x| {
        let how = CrossEntropy { smoothing, ..CrossEntropy::mean(targets(n, v)) };
        cross_entropy(x[0].clone().reshape([n, v]), &how)
    })
}

fn cases() -> Vec<Case> {
    let weighted = Case::new("weights and ignored rows, over 7", [5 * 11], |x| {
        let how = CrossEntropy {
            targets: [3, IGNORED, 10, 0, IGNORED].into(),
            weights: Some([0.5, 9.0, 2.0, 0.0, 1.0].into()),
            smoothing: 0.1,
            reduce: Reduce::Over(7.0),
        };
        cross_entropy(x[0].clone().reshape([5, 11]), &how)
    });
    let all_ignored = Case::new("all rows ignored", [2 * 3], |x| {
        cross_entropy(x[0].clone().reshape([2, 3]), &CrossEntropy::mean([IGNORED; 2]))
    });
    let transposed = Case::new("transposed", [19 * 4], |x| {
        cross_entropy(x[0].clone().reshape([19, 4]).transpose(), &CrossEntropy::mean(targets(4, 19)))
    });
    let narrowed = Case::new("narrowed", [6 * 13], |x| {
        cross_entropy(x[0].clone().reshape([6, 13]).narrow(0, 2, 3), &CrossEntropy::mean(targets(3, 13)))
    });
    // Nobody else holds the scaled logits, so their gradient takes their place.
    let in_place = Case::new("in place", [7 * 37], |x| {
        let how = CrossEntropy { smoothing: 0.1, ..CrossEntropy::mean(targets(7, 37)) };
        cross_entropy((x[0].clone() * 1.5).reshape([7, 37]), &how)
    });
    vec![
        case(1, 1, 0.0),
        case(1, 2, 0.0),
        case(5, 17, 0.0),
        case(5, 17, 0.1),
        case(5, 17, 1.0),
        case(3, 509, 0.1),
        case(37, 2053, 0.1),
        case(4, 67, 0.1).spread(1e4),
        weighted,
        all_ignored,
        transposed,
        narrowed,
        in_place,
    ]
}

fn bench() -> Bench {
    let (n, v) = (2048, 4096);
    Bench { case: case(n, v, 0.1), work: Work::Bytes(8.0 * (n * v) as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    const INF: f32 = f32::INFINITY;

    /// Loss and gradient, fused; and the loss of the forward that keeps nothing.
    fn run(z: &[f32], how: &CrossEntropy) -> (f32, Vec<f32>, f32) {
        let n = how.targets.len();
        let of = |device: &Device| Tensor::<1>::from_floats(z, device).reshape([n, z.len() / n]);
        let z = of(&Device::flex().autodiff()).require_grad();
        let loss = cross_entropy(z.clone(), how);
        let grads = loss.clone().backward();
        let gradient = z.grad(&grads).expect("a gradient").into_data().try_to_vec().expect("floats");
        (loss.into_scalar(), gradient, cross_entropy(of(&Device::flex()), how).into_scalar())
    }

    fn near(a: f32, b: f64) -> bool {
        (a as f64 - b).abs() <= 2e-6 * b.abs().max(1.0)
    }

    #[test]
    fn three_classes_by_hand() {
        // Probabilities ½ ¼ ¼; with s = 0.3 the target is 0.8 0.1 0.1.
        let z = [2f32.ln(), 0.0, 0.0];
        let (loss, gradient, alone) = run(&z, &CrossEntropy { smoothing: 0.3, ..CrossEntropy::mean([0]) });
        let want = 0.8 * 2f64.ln() + 0.2 * 4f64.ln();
        assert!(near(loss, want) && near(alone, want), "{loss}, {alone}, by hand {want}");
        for (g, want) in gradient.iter().zip([-0.3, 0.15, 0.15]) {
            assert!(near(*g, want), "{g}, by hand {want}");
        }
    }

    #[test]
    fn masked_logits_have_no_weight_and_no_gradient() {
        for z in [[-INF, 0.0, 0.0, -INF], [0.0, -INF, -INF, 0.0]] {
            let target = z.iter().position(|&z| z == 0.0).expect("a class") as i64;
            let (loss, gradient, alone) = run(&z, &CrossEntropy::mean([target]));
            assert!(near(loss, 2f64.ln()) && near(alone, 2f64.ln()), "{loss}, {alone}");
            assert!(z.iter().zip(&gradient).all(|(z, g)| if *z == 0.0 { near(g.abs(), 0.5) } else { *g == 0.0 }));
        }
    }

    #[test]
    fn masks_longer_than_a_block() {
        let mut z = vec![-INF; 3 * BLOCK + 5];
        z[2 * BLOCK + 1] = -7.0;
        z[3 * BLOCK + 4] = -7.0;
        let (loss, gradient, _) = run(&z, &CrossEntropy::mean([2 * BLOCK as i64 + 1]));
        assert!(near(loss, 2f64.ln()) && near(gradient[3 * BLOCK + 4], 0.5) && gradient[0] == 0.0, "{loss}");
    }

    #[test]
    fn a_masked_target_costs_infinity() {
        let (loss, _, alone) = run(&[-INF, 0.0], &CrossEntropy::mean([0]));
        assert_eq!((loss, alone), (INF, INF));
        let smooth = CrossEntropy { smoothing: 0.1, ..CrossEntropy::mean([1]) };
        assert_eq!(run(&[-INF, 0.0], &smooth).0, INF, "smoothing asks for every class");
    }

    #[test]
    fn nan_reaches_the_loss_and_its_own_row_only() {
        for place in [0, 18, 19] {
            let mut z = vec![0.5; 3 * 20];
            z[20 + place] = f32::NAN;
            let (loss, gradient, alone) = run(&z, &CrossEntropy::mean([1, 2, 3]));
            assert!(loss.is_nan() && alone.is_nan());
            assert!(gradient[20..40].iter().all(|g| g.is_nan()));
            assert!(gradient[..20].iter().chain(&gradient[40..]).all(|g| g.is_finite()));
            // A row that does not count is not looked at.
            let (loss, gradient, alone) = run(&z, &CrossEntropy::mean([1, IGNORED, 3]));
            assert!(loss.is_finite() && alone == loss && gradient[20..40] == [0.0; 20]);
        }
        assert!(run(&[-INF; 3], &CrossEntropy::mean([0])).0.is_nan(), "a row without any class");
        assert!(run(&[INF, 0.0], &CrossEntropy::mean([0])).0.is_nan(), "+∞");
    }

    #[test]
    fn twin_and_kernel_agree_where_it_is_not_finite() {
        let nan = f32::NAN;
        let rows: [&[f32]; 6] =
            [&[-INF, 0.0, 1.0], &[0.0, -INF, 1.0], &[-INF; 3], &[nan, 0.0, 1.0], &[INF, 0.0, 1.0], &[0.0, 1.0, INF]];
        for z in rows {
            for smoothing in [0.0, 0.1, 1.0] {
                for target in [0, IGNORED] {
                    let how = CrossEntropy { smoothing, ..CrossEntropy::mean([target]) };
                    let (a, b) = (run(z, &how).0, crate::plain(|| run(z, &how).0));
                    assert!(a == b || near(a, b as f64) || (a.is_nan() && b.is_nan()), "{z:?}, {how:?}: {a}, twin {b}");
                }
            }
        }
    }

    /// Beside the loss stands the one without smoothing, from kernel and twin alike.
    #[test]
    fn the_second_loss_knows_no_smoothing() {
        let z = crate::Key::new(9, 0, 0).normals(5 * 7);
        let how = |smoothing: f32| {
            let weights = Some([1.0, 0.5, 2.0, 1.0, 1.0].into());
            CrossEntropy { smoothing, weights, ..CrossEntropy::mean([0, 6, 3, IGNORED, 2]) }
        };
        let want = run(&z, &how(0.0)).0;
        for smoothing in [0.0, 0.1, 1.0] {
            let both = || {
                let z =
                    Tensor::<1>::from_floats(z.as_slice(), &Device::flex().autodiff()).reshape([5, 7]).require_grad();
                let (loss, plain) = cross_entropies(z, &how(smoothing));
                (loss.into_scalar::<f32>(), plain.into_scalar::<f32>())
            };
            let (kernel, twin) = (both(), crate::plain(both));
            assert_eq!(kernel, (run(&z, &how(smoothing)).0, want));
            assert!(near(twin.0, kernel.0.into()) && near(twin.1, want.into()), "{twin:?} {kernel:?}");
        }
    }

    #[test]
    fn nothing_counts_nothing_costs() {
        let z = [f32::NAN, 1.0, 2.0, 3.0];
        let zero_weights = CrossEntropy { weights: Some([0.0, 0.0].into()), ..CrossEntropy::mean([0, 1]) };
        for how in [CrossEntropy::mean([IGNORED; 2]), zero_weights] {
            assert_eq!(run(&z, &how), (0.0, vec![0.0; 4], 0.0));
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let (loss, gradient, _) = run(&[1e4, -1e4, 1e4], &CrossEntropy::mean([0]));
        assert!(near(loss, 2f64.ln()), "{loss}");
        assert!(near(gradient[0], -0.5) && gradient[1] == 0.0 && near(gradient[2], 0.5), "{gradient:?}");
        assert!(near(run(&[1e4, -1e4, 1e4], &CrossEntropy::mean([1])).0, 2e4 + 2f64.ln()));
        // All smoothed: an offset common to all logits must not show.
        let flat = CrossEntropy { smoothing: 1.0, ..CrossEntropy::mean([0]) };
        assert!(near(run(&[1e4; 2048], &flat).0, 2048f64.ln()));
    }

    #[test]
    fn micro_batches_add_up_to_their_batch() {
        let z = crate::Key::new(5, 0, 0).normals(6 * 13);
        let weights: [f32; 6] = [1.0, 0.5, 2.0, 0.0, 1.5, 1.0];
        let how = |rows: std::ops::Range<usize>, reduce| CrossEntropy {
            targets: [4, 12, IGNORED, 1, 0, 7][rows.clone()].into(),
            weights: Some(weights[rows].into()),
            smoothing: 0.1,
            reduce,
        };
        let (loss, gradient, _) = run(&z, &how(0..6, Reduce::Mean));
        let over = Reduce::Over(4.0); // the weights that count
        let (a, b) = (run(&z[..26], &how(0..2, over)), run(&z[26..], &how(2..6, over)));
        assert!(near(a.0 + b.0, loss as f64), "{} + {} is not {loss}", a.0, b.0);
        assert_eq!([a.1, b.1].concat(), gradient);
    }

    #[test]
    fn the_gradient_takes_the_place_of_logits_nobody_else_holds() {
        let how = CrossEntropy::mean([1]);
        let z = tensor(vec![0.0, 0.0], [1, 2]);
        let place = elements(&z).as_ptr();
        let (_, saved) = how.forward([Some(z)], true);
        let saved = saved.expect("a gradient");
        assert_eq!((elements(&saved).as_ptr(), elements(&saved)), (place, &[0.5, -0.5][..]));

        let z = tensor(vec![0.0, 0.0], [1, 2]);
        let (_, saved) = how.forward([Some(z.clone())], true);
        assert_eq!((elements(&z), elements(&saved.expect("a gradient"))), (&[0.0; 2][..], &[0.5, -0.5][..]));
    }

    #[test]
    #[should_panic(expected = "outside the vocabulary of 2")]
    fn a_target_outside_the_vocabulary_is_refused() {
        run(&[0.0, 0.0], &CrossEntropy::mean([2]));
    }
}
