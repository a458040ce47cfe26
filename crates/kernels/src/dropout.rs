//! Dropout (Srivastava et al. 2014): `y = x·m / (1 − p)`, m drawn 0 with probability p, else 1.
//!
//! m at element i is a function of the key and i ([`crate::Key`]), so it is the same at any thread count and after a
//! resume, and the backward draws it again instead of keeping it: `dx = dy·m / (1 − p)`.

use crate::Key;
use burn::tensor::{Tensor, TensorData};

/// Drops elements of `x` with probability `p` and scales the rest by `1 / (1 − p)`; p = 0 changes nothing.
pub fn dropout<const D: usize>(x: Tensor<D>, p: f32, key: Key) -> Tensor<D> {
    if p <= 0.0 {
        return x;
    }
    plain(x, p, key)
}

/// The factor of element `index`: 0 or 1 / (1 − p).
#[inline]
pub(crate) fn factor(p: f32, key: Key, index: u64) -> f32 {
    if key.uniform(index) < p { 0.0 } else { 1.0 / (1.0 - p) }
}

/// The plain twin.
fn plain<const D: usize>(x: Tensor<D>, p: f32, key: Key) -> Tensor<D> {
    let factors: Vec<f32> = (0..x.shape().num_elements() as u64).map(|i| factor(p, key, i)).collect();
    let mask = Tensor::from_data(TensorData::new(factors, x.shape()), (&x.device(), x.dtype()));
    x * mask
}
