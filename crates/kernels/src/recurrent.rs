//! One step of a gated recurrent cell, everything after the two projections.
//!
//! LSTM (Hochreiter and Schmidhuber 1997), gates packed `[i | f | g | o]`: `c′ = σ(f)·c + σ(i)·tanh(g)`,
//! `h′ = σ(o)·tanh(c′)`. GRU (Cho et al. 2014), packed `[r | z | n]`, x and h projected apart:
//! `n′ = tanh(nₓ + σ(r)·nₕ)`, `h′ = (1 − σ(z))·n′ + σ(z)·h`, r and z the sums of both projections. The orders are
//! PyTorch's. Shapes: gates `[B, 4H]`, c `[B, H]` → `[B, 2H]` = `[h′ | c′]`; gx, gh `[B, 3H]`, h `[B, H]` → `[B, H]`.

use burn::tensor::{Tensor, activation::sigmoid};

/// LSTM step: gates `[B, 4H]` and cell `[B, H]` to `[h′ | c′]` `[B, 2H]`.
pub fn lstm_step(gates: Tensor<2>, cell: Tensor<2>) -> Tensor<2> {
    lstm_plain(gates, cell)
}

/// GRU step: projections of the input and of the state `[B, 3H]`, and the state `[B, H]`, to the next state.
pub fn gru_step(gx: Tensor<2>, gh: Tensor<2>, state: Tensor<2>) -> Tensor<2> {
    gru_plain(gx, gh, state)
}

/// The plain twin of [`lstm_step`].
fn lstm_plain(gates: Tensor<2>, cell: Tensor<2>) -> Tensor<2> {
    let h = cell.dims()[1];
    let gate = |i| gates.clone().narrow(1, i * h, h);
    let cell = sigmoid(gate(1)) * cell + sigmoid(gate(0)) * gate(2).tanh();
    Tensor::cat(vec![sigmoid(gate(3)) * cell.clone().tanh(), cell], 1)
}

/// The plain twin of [`gru_step`].
fn gru_plain(gx: Tensor<2>, gh: Tensor<2>, state: Tensor<2>) -> Tensor<2> {
    let h = state.dims()[1];
    let part = |t: &Tensor<2>, i| t.clone().narrow(1, i * h, h);
    let r = sigmoid(part(&gx, 0) + part(&gh, 0));
    let z = sigmoid(part(&gx, 1) + part(&gh, 1));
    let n = (part(&gx, 2) + r * part(&gh, 2)).tanh();
    n.clone() + z * (state - n)
}
