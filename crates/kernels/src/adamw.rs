//! AdamW (Loshchilov and Hutter 2019), one parameter at a time and in place:
//! `m ← β₁m + (1 − β₁)g`, `v ← β₂v + (1 − β₂)g²`, `p ← p·(1 − ηλ) − η·m̂ / (√v̂ + ε)`, with
//! `m̂ = m / (1 − β₁ᵗ)` and `v̂ = v / (1 − β₂ᵗ)`; t counts from 1.
//!
//! Elements do not depend on each other. NaN in the gradient reaches the parameter: the training loop looks before.

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
pub fn adamw(how: &AdamW, param: &mut [f32], grad: &[f32], m: &mut [f32], v: &mut [f32]) {
    plain(how, param, grad, m, v);
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
