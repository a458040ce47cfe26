//! AdamW (Loshchilov and Hutter 2019), one parameter at a time and in place:
//! `m ← β₁m + (1 − β₁)g`, `v ← β₂v + (1 − β₂)g²`, `p ← p·(1 − ηλ) − η·m̂ / (√v̂ + ε)`, with
//! `m̂ = m / (1 − β₁ᵗ)` and `v̂ = v / (1 − β₂ᵗ)`; t counts from 1.
//!
//! Shapes: parameter, gradient and both moments of one length. Elements do not depend on each other, so any cut among
//! threads gives the same bits. NaN or infinity in the gradient makes the parameter NaN: the training loop looks before.

use crate::registry::{Bench, Case, Op, Work};
use crate::simd::simd;
use crate::{fused, threads};
use burn::tensor::Tensor;
use pulp::Simd;
use rayon::prelude::*;

/// The settings of one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// η, the learning rate of this step
    pub rate: f32,
    /// β₁
    pub beta1: f32,
    /// β₂
    pub beta2: f32,
    /// ε
    pub eps: f32,
    /// λ, decoupled weight decay
    pub decay: f32,
    /// t, from 1
    pub step: u32,
    /// multiplies every gradient first: 1, or less when the global norm is clipped
    pub grad_scale: f32,
}

/// Updates a parameter and its two moments in place. All four have one length.
///
/// ```
/// use qkv_kernels::{AdamW, adamw};
///
/// // The first step goes against the gradient by the learning rate, whatever the size of the gradient.
/// let how = AdamW { rate: 0.1, beta1: 0.9, beta2: 0.999, eps: 0.0, decay: 0.0, step: 1, grad_scale: 1.0 };
/// let (mut param, mut m, mut v) = ([1.0], [0.0], [0.0]);
/// adamw(&how, &mut param, &[0.5], &mut m, &mut v);
/// assert!((param[0] - 0.9).abs() < 1e-6);
/// ```
///
/// # Panics
/// If the lengths differ.
pub fn adamw(how: &AdamW, param: &mut [f32], grad: &[f32], m: &mut [f32], v: &mut [f32]) {
    let n = param.len();
    assert!(grad.len() == n && m.len() == n && v.len() == n, "adamw: a gradient and two moments for each parameter");
    if fused::is_plain() {
        return plain(how, param, grad, m, v);
    }
    let rule = Rule::new(how);
    if n <= threads::SERIAL {
        return update(rule, param, grad, m, v);
    }
    let cut = threads::chunk_rows(1);
    let moments = m.par_chunks_mut(cut).zip(v.par_chunks_mut(cut));
    param.par_chunks_mut(cut).zip(grad.par_chunks(cut)).zip(moments).for_each(|((p, g), (m, v))| {
        update(rule, p, g, m, v);
    });
}

/// The plain twin.
fn plain(how: &AdamW, param: &mut [f32], grad: &[f32], m: &mut [f32], v: &mut [f32]) {
    let (c1, c2) = corrections(how);
    for (((p, &g), m), v) in param.iter_mut().zip(grad).zip(m).zip(v) {
        let g = g * how.grad_scale;
        *m = how.beta1 * *m + (1.0 - how.beta1) * g;
        *v = how.beta2 * *v + (1.0 - how.beta2) * g * g;
        *p = *p * (1.0 - how.rate * how.decay) - how.rate * (*m / c1) / ((*v / c2).sqrt() + how.eps);
    }
}

/// `1 − β₁ᵗ` and `1 − β₂ᵗ`, in f64: at small t the difference cancels.
fn corrections(how: &AdamW) -> (f32, f32) {
    let of = |beta: f32| (1.0 - (beta as f64).powi(how.step as i32)) as f32;
    (of(how.beta1), of(how.beta2))
}

/// [`AdamW`] with everything that is the same for all elements worked out.
#[derive(Clone, Copy)]
struct Rule {
    beta1: f32,
    beta2: f32,
    /// `(1 − β₁)·grad_scale`
    gain1: f32,
    /// `(1 − β₂)·grad_scale²`
    gain2: f32,
    /// `1 − ηλ`
    shrink: f32,
    /// `η / (1 − β₁ᵗ)`
    rate: f32,
    /// `1 / √(1 − β₂ᵗ)`
    correct2: f32,
    eps: f32,
}

impl Rule {
    fn new(how: &AdamW) -> Self {
        let (c1, c2) = corrections(how);
        Self {
            beta1: how.beta1,
            beta2: how.beta2,
            gain1: (1.0 - how.beta1) * how.grad_scale,
            gain2: (1.0 - how.beta2) * how.grad_scale * how.grad_scale,
            shrink: 1.0 - how.rate * how.decay,
            rate: how.rate / c1,
            correct2: 1.0 / c2.sqrt(),
            eps: how.eps,
        }
    }
    /// p, m and v after the update.
    #[inline(always)]
    fn step<S: Simd>(&self, simd: S, [p, g, m, v]: [S::f32s; 4]) -> [S::f32s; 3] {
        let m = simd.mul_add_f32s(simd.splat_f32s(self.beta1), m, simd.mul_f32s(simd.splat_f32s(self.gain1), g));
        let square = simd.mul_f32s(simd.splat_f32s(self.gain2), simd.mul_f32s(g, g));
        let v = simd.mul_add_f32s(simd.splat_f32s(self.beta2), v, square);
        let size = simd.mul_add_f32s(simd.sqrt_f32s(v), simd.splat_f32s(self.correct2), simd.splat_f32s(self.eps));
        let change = simd.div_f32s(simd.mul_f32s(simd.splat_f32s(self.rate), m), size);
        [simd.sub_f32s(simd.mul_f32s(p, simd.splat_f32s(self.shrink)), change), m, v]
    }
}

simd! {
    fn update<'a, S>(simd, rule: Rule, param: &'a mut [f32], grad: &'a [f32], m: &'a mut [f32], v: &'a mut [f32]) {
        let ((ps, pt), (gs, gt)) = (S::as_mut_simd_f32s(param), S::as_simd_f32s(grad));
        let ((ms, mt), (vs, vt)) = (S::as_mut_simd_f32s(m), S::as_mut_simd_f32s(v));
        for (((p, g), m), v) in ps.iter_mut().zip(gs).zip(ms).zip(vs) {
            [*p, *m, *v] = rule.step(simd, [*p, *g, *m, *v]);
        }
        let last = [&*pt, gt, &*mt, &*vt].map(|t| simd.partial_load_f32s(t));
        let [p, m, v] = rule.step(simd, last);
        simd.partial_store_f32s(pt, p);
        simd.partial_store_f32s(mt, m);
        simd.partial_store_f32s(vt, v);
    }
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "adamw", formula: "p·(1 − ηλ) − η·m̂ / (√v̂ + ε)", cases, bench };

/// What training usually uses, at step `step`.
fn usual(step: u32) -> AdamW {
    AdamW { rate: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1, step, grad_scale: 0.5 }
}

/// Parameter, gradient and both moments in; parameter and moments out, one after the other.
fn case(n: usize, how: AdamW) -> Case {
    Case::new(format!("[{n}], step {}", how.step), [n; 4], move |x| {
        let [mut p, g, mut m, mut v] = [0, 1, 2, 3].map(|i| floats(&x[i]));
        v.iter_mut().for_each(|v| *v *= *v); // a mean of squares is never negative
        adamw(&how, &mut p, &g, &mut m, &mut v);
        Tensor::from_floats([p, m, v].concat().as_slice(), &x[0].device())
    })
    .without_gradient()
}

/// The elements of a tensor of f32, wherever it lies.
fn floats(x: &Tensor<1>) -> Vec<f32> {
    x.clone().into_data().try_to_vec().expect("cases are run in f32")
}

fn cases() -> Vec<Case> {
    let steps = [1, 2, 1000].map(|step| case(37, usual(step)));
    let large = case(67, usual(3)).spread(1e4);
    let still = case(19, AdamW { rate: 0.0, ..usual(1) });
    // The last two are long enough for threads, one of them just.
    let lengths = [1, 2, 16, 1031, threads::SERIAL + 1, 50_021].map(|n| case(n, usual(7)));
    steps.into_iter().chain([large, still]).chain(lengths).collect()
}

/// Counts the bytes of the update alone; the case also carries the values out of and into tensors.
fn bench() -> Bench {
    let n = 384 * 1536;
    Bench { case: case(n, usual(100)), work: Work::Bytes(28.0 * n as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN_ADAM: AdamW =
        AdamW { rate: 0.1, beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.0, step: 1, grad_scale: 1.0 };

    fn close(a: f32, b: f64) -> bool {
        (a as f64 - b).abs() <= 2e-5 * b.abs()
    }

    /// The formula of the file head, straight, in f64.
    fn exact(how: &AdamW, p: &mut f64, g: f64, m: &mut f64, v: &mut f64) {
        let [rate, beta1, beta2] = [how.rate, how.beta1, how.beta2].map(f64::from);
        let g = g * how.grad_scale as f64;
        *m = beta1 * *m + (1.0 - beta1) * g;
        *v = beta2 * *v + (1.0 - beta2) * g * g;
        let (m_hat, v_hat) = (*m / (1.0 - beta1.powi(how.step as i32)), *v / (1.0 - beta2.powi(how.step as i32)));
        *p = *p * (1.0 - rate * how.decay as f64) - rate * m_hat / (v_hat.sqrt() + how.eps as f64);
    }

    #[test]
    fn the_first_step_by_hand() {
        let (mut p, mut m, mut v) = ([1.0], [0.0], [0.0]);
        adamw(&PLAIN_ADAM, &mut p, &[0.5], &mut m, &mut v);
        // m = 0.1·0.5, v = 0.001·0.25, m̂ = 0.5, √v̂ = 0.5, p = 1 − 0.1·0.5/0.5
        assert!(close(p[0], 0.9) && close(m[0], 0.05) && close(v[0], 2.5e-4), "{p:?} {m:?} {v:?}");
        let (mut p, mut m, mut v) = ([1.0], [0.0], [0.0]);
        adamw(&AdamW { decay: 0.5, grad_scale: 0.1, ..PLAIN_ADAM }, &mut p, &[0.5], &mut m, &mut v);
        // the same step from 1·(1 − 0.1·0.5), with a tenth of the gradient in the moments
        assert!(close(p[0], 0.85) && close(m[0], 0.005) && close(v[0], 2.5e-6), "{p:?} {m:?} {v:?}");
    }

    #[test]
    fn five_steps_follow_f64() {
        let n = 1031;
        let key = crate::Key::new(3, 0, 0);
        let (mut p, mut m, mut v) = (key.normals(n), vec![0.0; n], vec![0.0; n]);
        let mut want: Vec<[f64; 3]> = p.iter().map(|&p| [p as f64, 0.0, 0.0]).collect();
        for step in 1..=5 {
            let g = key.child(step as u64).normals(n);
            adamw(&usual(step), &mut p, &g, &mut m, &mut v);
            for ([p, m, v], &g) in want.iter_mut().zip(&g) {
                exact(&usual(step), p, g as f64, m, v);
            }
        }
        for i in 0..n {
            // Sums of terms of either sign are compared on the scale of their terms.
            let off = [(p[i], want[i][0]), (m[i], want[i][1]), (v[i], want[i][2])]
                .map(|(got, want)| (got as f64 - want).abs() / want.abs().max(0.1));
            assert!(off.iter().all(|off| *off < 2e-5), "element {i}: {off:?}");
        }
    }

    #[test]
    fn nothing_to_do_is_fine_and_nan_stays_where_it_is() {
        adamw(&PLAIN_ADAM, &mut [], &[], &mut [], &mut []);
        let (mut p, mut m, mut v) = ([1.0; 3], [0.0; 3], [0.0; 3]);
        adamw(&PLAIN_ADAM, &mut p, &[f32::NAN, f32::INFINITY, 0.0], &mut m, &mut v);
        assert!(p[0].is_nan() && p[1].is_nan() && p[2] == 1.0, "{p:?}");
    }

    #[test]
    #[should_panic(expected = "adamw: a gradient")]
    fn lengths_must_agree() {
        adamw(&PLAIN_ADAM, &mut [1.0, 2.0], &[1.0], &mut [0.0; 2], &mut [0.0; 2]);
    }
}
