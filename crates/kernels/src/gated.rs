//! Gated units (Shazeer 2020): `y = act(gate) · up`, from one packed input `[gate | up]`. SwiGLU with silu, GEGLU with
//! gelu.
//!
//! Shapes: packed `[…, 2F]`, y `[…, F]`. Packed as [`crate::linear`] leaves two projections of one input.
//! Backward: `d gate = dy·up·act′(gate)`, `d up = dy·act(gate)`. Kept: the packed input.

use crate::Activation;
use burn::tensor::Tensor;

/// `act(gate) · up` of a packed `[gate | up]`.
pub fn gated<const D: usize>(packed: Tensor<D>, act: Activation) -> Tensor<D> {
    plain(packed, act)
}

/// The plain twin.
fn plain<const D: usize>(packed: Tensor<D>, act: Activation) -> Tensor<D> {
    let half = packed.dims()[D - 1] / 2;
    let gate = packed.clone().narrow(D - 1, 0, half);
    act.plain(gate) * packed.narrow(D - 1, half, half)
}
