//! The rules once more, in tensor methods: for every device whose memory is not ours to write in. Parameter, gradient and
//! what is remembered stay there; nothing passes through the host.
//!
//! The twin of [`Rule`]'s work on slices; a test holds both to the same reference.

use crate::rules::{At, Rule};
use burn::tensor::Tensor;

/// The parameter after one update, and what is remembered of it. All are flat.
pub(crate) fn apply(
    rule: Rule,
    at: At,
    param: Tensor<1>,
    grad: Tensor<1>,
    memory: Vec<Tensor<1>>,
) -> (Tensor<1>, Vec<Tensor<1>>) {
    let At { rate, decay, .. } = at;
    let grad = grad * at.grad_scale;
    match (rule, &memory[..]) {
        (Rule::AdamW { beta1, beta2, eps }, [m, v]) => {
            let (change, memory) = adam(at, [beta1, beta2, eps], grad, m.clone(), v.clone());
            (param * (1.0 - rate * decay) - change, memory)
        }
        (Rule::Adam { beta1, beta2, eps }, [m, v]) => {
            let grad = grad + param.clone() * decay;
            let (change, memory) = adam(at, [beta1, beta2, eps], grad, m.clone(), v.clone());
            (param - change, memory)
        }
        (Rule::Sgd { momentum }, held) => {
            let grad = grad + param.clone() * decay;
            match held.first() {
                Some(m) => {
                    let m = m.clone() * momentum + grad;
                    (param - m.clone() * rate, vec![m])
                }
                None => (param - grad * rate, memory),
            }
        }
        (Rule::Lion { beta1, beta2 }, [m]) => {
            let sign = (m.clone() * beta1 + grad.clone() * (1.0 - beta1)).sign();
            let m = m.clone() * beta2 + grad * (1.0 - beta2);
            (param * (1.0 - rate * decay) - sign * rate, vec![m])
        }
        (Rule::Adafactor, [rows, columns]) => factored(at, param, grad, rows.clone(), columns.clone()),
        (Rule::Adafactor, [v]) => {
            let v = blend(at, v.clone(), square(grad.clone()));
            (bounded(at, param, grad / v.clone().sqrt()), vec![v])
        }
        // What is remembered is made by this rule, or checked against it when it is restored.
        _ => (param, memory),
    }
}

/// `η·m̂/(√v̂ + ε)`, and both moments.
fn adam(
    at: At,
    [beta1, beta2, eps]: [f32; 3],
    grad: Tensor<1>,
    m: Tensor<1>,
    v: Tensor<1>,
) -> (Tensor<1>, Vec<Tensor<1>>) {
    let m = m * beta1 + grad.clone() * (1.0 - beta1);
    let v = v * beta2 + grad.clone() * grad * (1.0 - beta2);
    let correction = |beta: f32| 1.0 - f64::from(beta).powi(at.step as i32);
    let (m_hat, v_hat) = (m.clone() / correction(beta1), v.clone() / correction(beta2));
    (m_hat / (v_hat.sqrt() + eps) * at.rate, vec![m, v])
}

/// Adafactor of a matrix: `v ≈ rows·columnsᵀ / mean(rows)`.
fn factored(
    at: At,
    param: Tensor<1>,
    grad: Tensor<1>,
    rows: Tensor<1>,
    columns: Tensor<1>,
) -> (Tensor<1>, Vec<Tensor<1>>) {
    let [r, c] = [rows.dims()[0], columns.dims()[0]];
    let grad: Tensor<2> = grad.reshape([r, c]);
    let squares = square(grad.clone());
    let rows = blend(at, rows, squares.clone().mean_dim(1).reshape([r]));
    let columns = blend(at, columns, squares.mean_dim(0).reshape([c]));
    let share = (rows.clone() / rows.clone().mean()).sqrt().reshape([r, 1]);
    let change = grad / share / columns.clone().sqrt().reshape([1, c]);
    (bounded(at, param, change.reshape([-1])), vec![rows, columns])
}

/// `g² + ε`
fn square<const D: usize>(grad: Tensor<D>) -> Tensor<D> {
    grad.clone() * grad + 1e-30
}

/// `β₂·held + (1 − β₂)·new` with `β₂ = 1 − t^−0.8`.
fn blend(at: At, held: Tensor<1>, new: Tensor<1>) -> Tensor<1> {
    let keep = 1.0 - (at.step as f32).powf(-0.8);
    held * keep + new * (1.0 - keep)
}

/// `p ← p(1 − ηλ) − η·u/max(1, rms(u))`
fn bounded(at: At, param: Tensor<1>, change: Tensor<1>) -> Tensor<1> {
    let rms = (change.clone() * change.clone()).mean().sqrt().clamp_min(1.0);
    param * (1.0 - at.rate * at.decay) - change / rms * at.rate
}
