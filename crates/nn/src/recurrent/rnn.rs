//! The plain recurrent cell (Elman 1990): `h′ = tanh(Wₓx + bₓ + Wₕh + bₕ)`.
//!
//! Its weakness is the gradient: `∂h′/∂h = diag(1 − h′²)·Wₕ`, and over T steps T such factors are multiplied, so that
//! it vanishes or explodes with T. Shapes: Wₓ `[H, C]`, Wₕ `[H, H]`, state `[B, H]`.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Cx, Init, recurrent::Rnn};
//! let device = Device::flex();
//! let rnn = Rnn::new(&Build::new(&device, 0), 1, 1, Init::Zeros); // all weights 0: nothing is remembered
//! let x = Tensor::<3>::ones([1, 3, 1], &device);
//! let (y, _) = rnn.forward(x, None, None, &mut Cx::eval());
//! assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [0.0; 3]);
//! ```

use super::{Cell, Recurrent};
use crate::Linear;
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::{Activation, RecurrentCell, activate};

/// A network of plain recurrent cells.
pub type Rnn = Recurrent<RnnCell>;

/// `h′ = tanh(Wₓx + bₓ + Wₕh + bₕ)`
#[derive(Module, Debug)]
pub struct RnnCell {
    /// `[H, C]`
    pub input: Linear,
    /// `[H, H]`
    pub state: Linear,
}

impl Cell for RnnCell {
    const GATES: usize = 1;
    const PARTS: usize = 1;
    const KIND: RecurrentCell = RecurrentCell::Rnn;

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
        activate(gx + self.state.forward(state), Activation::Tanh)
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
        let net = sines::<RnnCell>(2, 3, 1, Ways::Forward);
        let w = |i: usize| (i as f64).sin() * 0.5; // Wₓ from 0, Wₕ from 6, bₓ from 15, bₕ from 18
        let mut h = [0.0f64; 3];
        let mut want = vec![];
        for t in 0..4 {
            let x = [(2 * t) as f64, (2 * t + 1) as f64].map(f64::cos);
            let unit = |i: usize| {
                let from_x: f64 = (0..2).map(|j| w(2 * i + j) * x[j]).sum();
                let from_h: f64 = (0..3).map(|j| w(6 + 3 * i + j) * h[j]).sum();
                (from_x + w(15 + i) + from_h + w(18 + i)).tanh()
            };
            h = [unit(0), unit(1), unit(2)];
            want.extend(h.map(|v| v as f32));
        }
        let (y, _) = net.forward(cosines([1, 4, 2]), None, None, &mut Cx::eval());
        assert_close(&values(y), &want);
    }

    /// PyTorch's nn.RNN gives these.
    #[test]
    fn equals_pytorch() {
        let (y, state) = over_cosines::<RnnCell>(2, Ways::Both, [3, 2]);
        #[rustfmt::skip]
        assert_close(&y, &[
            -0.144161, -0.185791, 0.086686, -0.148569, -0.404402, 0.218138, 0.214214, -0.485014, -0.446008, 0.039512,
            0.308028, -0.284471, -0.161466, -0.162777, 0.086628, -0.112692, -0.308748, 0.157635, 0.10656, -0.352896,
            0.0, 0.0, 0.0, 0.0,
        ]);
        #[rustfmt::skip]
        assert_close(&state, &[
            0.629135, -0.589059, -0.413546, -0.405093, 0.505725, 0.44695, 0.448165, 0.522605, -0.446008, 0.039512,
            -0.308748, 0.157635, 0.086686, -0.148569, 0.086628, -0.112692,
        ]);
    }
}
