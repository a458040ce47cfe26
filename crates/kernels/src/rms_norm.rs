//! Root-mean-square normalisation (Zhang and Sennrich 2019): `y = x / √(mean(x²) + ε) · γ`; T5 and LLaMA use it.
//!
//! Shapes: x `[…, C]`, γ `[C]`. No mean is subtracted and no bias added. Backward, with `x̂ = x/r` and `g = dy·γ`:
//! `dx = (g − x̂·mean(g·x̂)) / r`, `dγ = Σ dy·x̂`. Kept: x and 1/r of each row.

use burn::tensor::Tensor;

/// Scales each row of `x` to unit root mean square, times γ.
pub fn rms_norm<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, eps: f64) -> Tensor<D> {
    plain(x, gamma, eps)
}

/// The plain twin.
fn plain<const D: usize>(x: Tensor<D>, gamma: Tensor<1>, eps: f64) -> Tensor<D> {
    let square = (x.clone() * x.clone()).mean_dim(D - 1);
    x / (square + eps).sqrt() * gamma.unsqueeze()
}
