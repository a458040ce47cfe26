//! How a gradient becomes a change of its parameter, on plain slices; `η` is the rate, `λ` the decay.
//!
//! | rule | memory | change |
//! |---|---|---|
//! | AdamW | m, v | `p ← p(1 − ηλ) − η·m̂/(√v̂ + ε)`: the fused kernel |
//! | Adam | m, v | the same with `g ← g + λp` instead of the shrinking |
//! | SGD | m if μ > 0 | `g ← g + λp`, `m ← μm + g`, `p ← p − ηm` |
//! | Lion | m | `p ← p(1 − ηλ) − η·sign(β₁m + (1 − β₁)g)`, then `m ← β₂m + (1 − β₂)g` (Chen et al. 2023) |
//! | Adafactor | a row and a column of a matrix, all of a vector | `p ← p(1 − ηλ) − η·u/max(1, rms(u))`, `u = g/√v`, v of rank one, `β₂ = 1 − t^−0.8` (Shazeer and Stern 2018) |

use crate::on_device;
use burn::tensor::Tensor;
use qkv_kernels::fused::update_slices;
use qkv_kernels::{AdamW, adamw};

/// The rule of an optimiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Adam with decoupled decay
    AdamW {
        /// β₁
        beta1: f32,
        /// β₂
        beta2: f32,
        /// ε
        eps: f32,
    },
    /// Adam with the decay in the gradient
    Adam {
        /// β₁
        beta1: f32,
        /// β₂
        beta2: f32,
        /// ε
        eps: f32,
    },
    /// the gradient, with a memory of those before
    Sgd {
        /// μ; 0: no memory
        momentum: f32,
    },
    /// the sign of a mean
    Lion {
        /// β₁
        beta1: f32,
        /// β₂
        beta2: f32,
    },
    /// second moments of rank one
    Adafactor,
}

/// What changes from step to step and from parameter to parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) rate: f32,
    pub(super) decay: f32,
    pub(super) step: u32,
    pub(super) grad_scale: f32,
}

impl Rule {
    /// The names of what is remembered of a parameter of this shape, and their lengths.
    pub fn memory(self, dims: &[usize]) -> Vec<(&'static str, usize)> {
        let all = dims.iter().product();
        match (self, dims) {
            (Self::AdamW { .. } | Self::Adam { .. }, _) => vec![("m", all), ("v", all)],
            (Self::Sgd { momentum: 0.0 }, _) => vec![],
            (Self::Sgd { .. } | Self::Lion { .. }, _) => vec![("m", all)],
            (Self::Adafactor, [rows, columns]) => vec![("rows", *rows), ("columns", *columns)],
            (Self::Adafactor, _) => vec![("v", all)],
        }
    }

    /// Updates a parameter and what is remembered of it, on the device where they are.
    pub(super) fn update(
        self,
        at: At,
        param: Tensor<1>,
        grad: Tensor<1>,
        memory: Vec<Tensor<1>>,
    ) -> (Tensor<1>, Vec<Tensor<1>>) {
        let all = std::iter::once(param).chain(memory).collect();
        let updated = update_slices(all, grad, |written, grad| {
            if let [param, memory @ ..] = written {
                self.apply(at, param, grad, memory);
            }
        });
        match updated {
            Ok(mut all) => {
                let memory = all.split_off(1);
                (all.remove(0), memory)
            }
            Err((mut all, grad)) => {
                let memory = all.split_off(1);
                on_device::apply(self, at, all.remove(0), grad, memory)
            }
        }
    }

    /// Updates a parameter and what is remembered of it. `memory` has the lengths of [`Rule::memory`].
    fn apply(self, at: At, param: &mut [f32], grad: &[f32], memory: &mut [&mut [f32]]) {
        let At { rate, decay, step, grad_scale } = at;
        match (self, memory) {
            (Self::AdamW { beta1, beta2, eps }, [m, v]) => {
                adamw(&AdamW { rate, beta1, beta2, eps, decay, step, grad_scale }, param, grad, m, v);
            }
            (Self::Adam { beta1, beta2, eps }, [m, v]) => {
                let grad: Vec<f32> = grad.iter().zip(&*param).map(|(g, p)| g * grad_scale + decay * p).collect();
                let how = AdamW { rate, beta1, beta2, eps, decay: 0.0, step, grad_scale: 1.0 };
                adamw(&how, param, &grad, m, v);
            }
            (Self::Sgd { momentum }, memory) => {
                for (i, (p, g)) in param.iter_mut().zip(grad).enumerate() {
                    let g = g * grad_scale + decay * *p;
                    let change = match memory.first_mut().and_then(|m| m.get_mut(i)) {
                        Some(m) => {
                            *m = momentum * *m + g;
                            *m
                        }
                        None => g,
                    };
                    *p -= rate * change;
                }
            }
            (Self::Lion { beta1, beta2 }, [m]) => {
                for ((p, g), m) in param.iter_mut().zip(grad).zip(m.iter_mut()) {
                    let g = g * grad_scale;
                    let mean = beta1 * *m + (1.0 - beta1) * g;
                    let sign = if mean == 0.0 { 0.0 } else { mean.signum() };
                    *p = *p * (1.0 - rate * decay) - rate * sign;
                    *m = beta2 * *m + (1.0 - beta2) * g;
                }
            }
            (Self::Adafactor, [rows, columns]) => factored(at, param, grad, rows, columns),
            (Self::Adafactor, [v]) => {
                let (keep, eps) = (1.0 - (step as f32).powf(-0.8), 1e-30);
                let mut change: Vec<f32> = grad.iter().map(|g| g * grad_scale).collect();
                for (u, v) in change.iter_mut().zip(v.iter_mut()) {
                    *v = keep * *v + (1.0 - keep) * (*u * *u + eps);
                    *u /= v.sqrt();
                }
                bounded(at, param, &change);
            }
            // `memory` is made by this rule, or checked against it when it is restored.
            _ => {}
        }
    }
}

/// Adafactor of a matrix: `v ≈ rows·columnsᵀ / mean(rows)`.
fn factored(at: At, param: &mut [f32], grad: &[f32], rows: &mut [f32], columns: &mut [f32]) {
    let (keep, eps) = (1.0 - (at.step as f32).powf(-0.8), 1e-30);
    let (r, c) = (rows.len(), columns.len().max(1));
    let square = |g: f32| (g * at.grad_scale) * (g * at.grad_scale) + eps;
    for (row, g) in rows.iter_mut().zip(grad.chunks(c)) {
        let mean = g.iter().map(|g| square(*g) as f64).sum::<f64>() / c as f64;
        *row = keep * *row + (1.0 - keep) * mean as f32;
    }
    let mut sums = vec![0.0f64; c];
    for g in grad.chunks(c) {
        sums.iter_mut().zip(g).for_each(|(sum, g)| *sum += square(*g) as f64);
    }
    for (column, sum) in columns.iter_mut().zip(sums) {
        *column = keep * *column + (1.0 - keep) * (sum / r.max(1) as f64) as f32;
    }
    let mean = rows.iter().map(|x| *x as f64).sum::<f64>() / r.max(1) as f64;
    let mut change = Vec::with_capacity(grad.len());
    for (row, g) in rows.iter().zip(grad.chunks(c)) {
        let row = 1.0 / (*row / mean as f32).sqrt();
        change.extend(g.iter().zip(&*columns).map(|(g, column)| g * at.grad_scale * row / column.sqrt()));
    }
    bounded(at, param, &change);
}

/// `p ← p(1 − ηλ) − η·u/max(1, rms(u))`
fn bounded(at: At, param: &mut [f32], change: &[f32]) {
    let squares: f64 = change.iter().map(|u| (*u as f64) * (*u as f64)).sum();
    let rms = (squares / change.len().max(1) as f64).sqrt() as f32;
    let rate = at.rate / rms.max(1.0);
    for (p, u) in param.iter_mut().zip(change) {
        *p = *p * (1.0 - at.rate * at.decay) - rate * u;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::values;

    /// Three steps on two rows of three with the gradient `g = p · (1, 2, 3, 4, 5, 6) / 10 + 0.1`.
    fn three(rule: Rule, rate: f32, decay: f32, dims: &[usize]) -> Vec<f32> {
        let tensor = |v: &[f32]| Tensor::<1>::from_floats(v, &Device::flex());
        let mut param = tensor(&[0.5, -0.4, 0.3, -0.2, 0.1, 0.9]);
        let mut memory: Vec<_> = rule.memory(dims).into_iter().map(|(_, n)| tensor(&vec![0.0; n])).collect();
        for step in 1..=3 {
            let grad: Vec<f32> = (1..=6).zip(values(param.clone())).map(|(i, p)| p * i as f32 / 10.0 + 0.1).collect();
            (param, memory) = rule.update(At { rate, decay, step, grad_scale: 1.0 }, param, tensor(&grad), memory);
        }
        values(param)
    }

    fn close(got: &[f32], want: [f64; 6]) {
        for (a, b) in got.iter().zip(want) {
            assert!((*a as f64 - b).abs() < 2e-6, "{got:?} instead of {want:?}");
        }
    }

    /// What torch 2.15's optimisers, and transformers' Adafactor with a given rate, make of the same three steps in f64.
    #[test]
    fn three_steps_are_those_of_the_reference() {
        are_those_of_the_reference();
    }

    /// Inside `plain` no kernel serves a tensor, as on any device but the CPU.
    #[test]
    fn so_are_three_steps_on_another_device() {
        qkv_kernels::plain(are_those_of_the_reference);
    }

    fn are_those_of_the_reference() {
        let (beta1, beta2, eps) = (0.9, 0.98, 1e-8);
        let adamw = three(Rule::AdamW { beta1, beta2, eps }, 0.05, 0.1, &[2, 3]);
        close(&adamw, [0.343455983, -0.528825705, 0.146784117, -0.28573657, -0.049115081, 0.737588623]);
        let adam = three(Rule::Adam { beta1, beta2, eps }, 0.05, 0.15, &[2, 3]);
        // With a decay of 0.1 the fourth gradient would be 0 but for rounding, and Adam makes rounding as large as any.
        close(&adam, [0.350305109, -0.261725839, 0.15065424, -0.189659603, -0.047825373, 0.750254993]);
        let sgd = three(Rule::Sgd { momentum: 0.9 }, 0.05, 0.1, &[2, 3]);
        close(&sgd, [0.444379, -0.39446178, 0.239341611, -0.200000003, 0.056264801, 0.701322268]);
        let plain = three(Rule::Sgd { momentum: 0.0 }, 0.05, 0.0, &[2, 3]);
        close(&plain, [0.477612313, -0.402970106, 0.271925374, -0.202940403, 0.078057814, 0.806851178]);
        let matrix = three(Rule::Adafactor, 0.05, 0.1, &[2, 3]);
        close(&matrix, [0.178787797, -0.434969815, 0.204956694, -0.212140546, -0.012528996, 0.77359002]);
        let vector = three(Rule::Adafactor, 0.05, 0.1, &[6]);
        close(&vector, [0.345569894, -0.494327087, 0.151864364, -0.249468735, -0.037957444, 0.7407131]);
    }

    #[test]
    fn lion_moves_by_the_rate_and_forgets_slowly() {
        let rule = Rule::Lion { beta1: 0.9, beta2: 0.99 };
        let at = At { rate: 0.1, decay: 0.5, step: 1, grad_scale: 2.0 };
        let tensor = |v: [f32; 2]| Tensor::<1>::from_floats(v, &Device::flex());
        let run = || {
            let (param, memory) = rule.update(at, tensor([1.0; 2]), tensor([1.0; 2]), vec![tensor([0.0, -1.0])]);
            (values(param), values(memory[0].clone()))
        };
        assert_eq!(run(), qkv_kernels::plain(run));
        let (param, memory) = run();
        // p(1 − 0.05) − 0.1·sign: the first mean is 0.2, the second −0.9 + 0.2.
        assert!((param[0] - 0.85).abs() < 1e-6 && (param[1] - 1.05).abs() < 1e-6, "{param:?}");
        assert!((memory[0] - 0.02).abs() < 1e-6 && (memory[1] + 0.97).abs() < 1e-6);
    }

    #[test]
    fn without_momentum_nothing_is_remembered() {
        assert!(Rule::Sgd { momentum: 0.0 }.memory(&[2, 3]).is_empty());
        assert_eq!(Rule::Adafactor.memory(&[2, 3]), [("rows", 2), ("columns", 3)]);
    }
}
