//! Softmax over the last axis: `yᵢ = e^(xᵢ − m) / Σⱼ e^(xⱼ − m)`, m the row's maximum.
//!
//! Rows sum to one and do not change when a constant is added. −∞ gets weight exactly 0, which is how masks work; a row
//! that is −∞ throughout (nothing to attend to) becomes all zeros rather than NaN. A NaN or +∞ makes its whole row NaN.
//!
//! Backward: `dx = y·(dy − Σⱼ dyⱼ·yⱼ)`. Kept: y.

use burn::tensor::Tensor;

/// Softmax of every row.
pub fn softmax<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    plain(x)
}

/// The plain twin.
pub(crate) fn plain<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let max = x.clone().detach().max_dim(D - 1);
    let max = max.clone().mask_fill(max.equal_elem(f32::NEG_INFINITY), 0.0);
    let e = (x - max).exp();
    let sum = e.clone().sum_dim(D - 1);
    e / sum.clone().mask_fill(sum.equal_elem(0.0), 1.0)
}
