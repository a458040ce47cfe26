//! Cross-entropy with label smoothing: what the training minimises.
//!
//! For row i with logits z, target t and weight w: `ℓ = (1 − s)·(lse(z) − z_t) + s·(lse(z) − mean(z))`, and the loss is
//! `Σ wᵢℓᵢ / Σ wᵢ` ([`Reduce::Mean`]) or `Σ wᵢℓᵢ / n` for a given n ([`Reduce::Over`], so that micro-batches add up to
//! their batch). Rows whose target is [`IGNORED`] count for nothing. If no row counts, the loss is 0 and so is the
//! gradient.
//!
//! Shapes: logits `[N, V]`, targets and weights `[N]`, loss `[1]`. The gradient `w/n·(softmax(z) − q)` is computed in the
//! same pass as the loss, in place over the logits where nobody else holds them.

use burn::tensor::{Int, Tensor, TensorData, activation::log_softmax};
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

    /// The factor of row i: its weight over the divisor, 0 where ignored.
    fn factors(&self) -> Vec<f32> {
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
/// # Panics
/// If the number of targets or weights is not N, or a target is neither [`IGNORED`] nor below V.
pub fn cross_entropy(logits: Tensor<2>, how: &CrossEntropy) -> Tensor<1> {
    let [n, v] = logits.dims();
    assert_eq!(how.targets.len(), n, "cross_entropy: one target for each row of logits");
    assert!(how.weights.as_ref().is_none_or(|w| w.len() == n), "cross_entropy: one weight for each row of logits");
    let bad = how.targets.iter().find(|&&t| t != IGNORED && !(0..v as i64).contains(&t));
    assert_eq!(bad, None, "cross_entropy: target outside the vocabulary of {v}");
    plain(logits, how)
}

/// The plain twin.
fn plain(logits: Tensor<2>, how: &CrossEntropy) -> Tensor<1> {
    let [n, _] = logits.dims();
    let (device, dtype) = (logits.device(), logits.dtype());
    let targets: Vec<i64> = how.targets.iter().map(|&t| t.max(0)).collect();
    let targets = Tensor::<2, Int>::from_data(TensorData::new(targets, [n, 1]), &device);
    let factors = Tensor::<2>::from_data(TensorData::new(how.factors(), [n, 1]), (&device, dtype));
    let logs = log_softmax(logits, 1);
    let s = how.smoothing;
    let row = logs.clone().gather(1, targets) * (s - 1.0) - logs.mean_dim(1) * s;
    (row * factors).sum()
}
