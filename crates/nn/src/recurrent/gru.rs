//! Gated recurrent unit (Cho et al. 2014): a reset gate r says how much of the state the proposal n may read, an update
//! gate z how much of the state stays.
//!
//! `r, z = σ(Wₓx + bₓ + Wₕh + bₕ)`, `n = tanh(Wₓx + bₓ + r·(Wₕh + bₕ))`, `h′ = (1 − z)·n + z·h`, each gate with its own
//! rows of the weights, packed `[r | z | n]` as PyTorch's. The second bias is not idle here: it stands inside the
//! reset. Shapes: Wₓ `[3H, C]`, Wₕ `[3H, H]`, state `[B, H]`.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Cx, Init, recurrent::Gru};
//! let device = Device::flex();
//! let gru = Gru::new(&Build::new(&device, 0), 1, 1, Init::Zeros); // r = z = ½, n = 0: the state is halved
//! let (x, start) = (Tensor::<3>::ones([1, 3, 1], &device), Tensor::<3>::full([1, 1, 1], 8.0, &device));
//! let (y, _) = gru.forward(x, None, Some(start), &mut Cx::eval());
//! assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [4.0, 2.0, 1.0]);
//! ```

use super::{Cell, Recurrent};
use crate::Linear;
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::{RecurrentCell, gru_step};

/// A network of gated recurrent units.
pub type Gru = Recurrent<GruCell>;

/// The gated recurrent unit.
#[derive(Module, Debug)]
pub struct GruCell {
    /// `[3H, C]`, rows `[r | z | n]`
    pub input: Linear,
    /// `[3H, H]`, rows `[r | z | n]`
    pub state: Linear,
}

impl Cell for GruCell {
    const GATES: usize = 3;
    const PARTS: usize = 1;
    const KIND: RecurrentCell = RecurrentCell::Gru;

    fn of(input: Linear, state: Linear) -> Self {
        Self { input, state }
    }

    fn input(&self) -> &Linear {
        &self.input
    }

    fn state(&self) -> &Linear {
        &self.state
    }

    fn step(&self, gx: Tensor<2>, state: Tensor<2>) -> Tensor<2> {
        gru_step(gx, self.state.forward(state.clone()), state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cx;
    use crate::recurrent::Ways;
    use crate::recurrent::tests::{assert_close, cosines, over_cosines, sines};
    use qkv_testkit::values;

    #[test]
    fn equals_the_formula_in_a_loop() {
        let net = sines::<GruCell>(1, 1, 1, Ways::Forward);
        let w = |i: usize| (i as f64).sin() * 0.5; // of r, z, n: Wₓ from 0, Wₕ from 3, bₓ from 6, bₕ from 9
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        let mut h = 0.0;
        let mut want = vec![];
        for t in 0..5 {
            let x = (t as f64).cos();
            let (gx, gh) = (|g: usize| w(g) * x + w(6 + g), |g: usize| w(3 + g) * h + w(9 + g));
            let (r, z) = (sigmoid(gx(0) + gh(0)), sigmoid(gx(1) + gh(1)));
            let n = (gx(2) + r * gh(2)).tanh();
            h = (1.0 - z) * n + z * h;
            want.push(h as f32);
        }
        let (y, _) = net.forward(cosines([1, 5, 1]), None, None, &mut Cx::eval());
        assert_close(&values(y), &want);
    }

    /// PyTorch's nn.GRU gives these.
    #[test]
    fn equals_pytorch() {
        let (y, state) = over_cosines::<GruCell>(1, Ways::Forward, [3, 3]);
        #[rustfmt::skip]
        assert_close(&y, &[
            0.33641, -0.201662, 0.222783, -0.048875, 0.142443, -0.126827,
            0.359322, -0.200151, 0.261844, -0.087828, 0.139518, -0.109889,
        ]);
        assert_close(&state, &[0.142443, -0.126827, 0.139518, -0.109889]);
    }

    /// PyTorch's nn.GRU gives these for a packed batch of lengths 3 and 2.
    #[test]
    fn two_layers_both_ways_equal_pytorch() {
        let (y, state) = over_cosines::<GruCell>(2, Ways::Both, [3, 2]);
        #[rustfmt::skip]
        assert_close(&y, &[
            -0.214132, -0.046305, 0.164007, -0.327046, -0.362173, -0.132952, 0.090931, -0.221327, -0.405124, -0.116683,
            0.064865, -0.133744, -0.216898, -0.057492, 0.137957, -0.24607, -0.388461, -0.134787, 0.049644, -0.115771,
            0.0, 0.0, 0.0, 0.0,
        ]);
        #[rustfmt::skip]
        assert_close(&state, &[
            0.142443, -0.126827, 0.261844, -0.087828, 0.502381, 0.629256, 0.501206, 0.613839, -0.405124, -0.116683,
            -0.388461, -0.134787, 0.164007, -0.327046, 0.137957, -0.24607,
        ]);
    }
}
