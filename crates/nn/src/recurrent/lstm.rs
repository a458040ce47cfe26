//! Long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000): beside the
//! output h runs a cell c that is only scaled and added to, so that a gradient can pass many steps.
//!
//! `i, f, o = σ(Wₓx + bₓ + Wₕh + bₕ)`, `g = tanh(Wₓx + bₓ + Wₕh + bₕ)`, `c′ = f·c + i·g`, `h′ = o·tanh(c′)`, each gate
//! with its own rows of the weights, packed `[i | f | g | o]` as PyTorch's. Along the cell `∂c′/∂c = f`, plus what goes
//! through h: [`Lstm::with_forget_bias`] starts with f nearer 1. Shapes: Wₓ `[4H, C]`, Wₕ `[4H, H]`, state `[B, 2H]` =
//! `[h | c]`.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Cx, Init, recurrent::{Lstm, lstm}};
//! let device = Device::flex();
//! let net = Lstm::new(&Build::new(&device, 0), 1, 1, Init::Zeros); // all gates ½, g = 0: the cell is halved
//! let (x, start) = (Tensor::<3>::ones([1, 3, 1], &device), Tensor::<3>::from_floats([[[0.0, 8.0]]], &device));
//! let (_, state) = net.forward(x, None, Some(start), &mut Cx::eval());
//! let [h, c] = lstm::parts(state).map(|t| t.into_scalar::<f32>());
//! assert_eq!(c, 1.0); // 8 → 4 → 2 → 1
//! assert!((h - 0.5 * 1f32.tanh()).abs() < 1e-6);
//! ```

use super::{Cell, Recurrent};
use crate::Linear;
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::{RecurrentCell, lstm_step};

/// A network of long short-term memory cells.
pub type Lstm = Recurrent<LstmCell>;

/// The long short-term memory cell.
#[derive(Module, Debug)]
pub struct LstmCell {
    /// `[4H, C]`, rows `[i | f | g | o]`
    pub input: Linear,
    /// `[4H, H]`, rows `[i | f | g | o]`
    pub state: Linear,
}

impl Cell for LstmCell {
    const GATES: usize = 4;
    const PARTS: usize = 2;
    const KIND: RecurrentCell = RecurrentCell::Lstm;

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
        let [h, c] = parts(state);
        lstm_step(gx + self.state.forward(h), c)
    }
}

impl LstmCell {
    /// The same with the forget gate's bias starting at `bias`.
    fn with_forget_bias(mut self, bias: f64) -> Self {
        let hidden = self.hidden();
        // One of the two biases is enough, they are added. Mapped when it is drawn, so that building still allocates
        // nothing.
        self.input.bias = self.input.bias.map(|param| {
            param.init_mapper(move |b| {
                let forget = Tensor::full([hidden], bias, (&b.device(), b.dtype()));
                let track = b.is_require_grad();
                b.detach().slice_assign(hidden..2 * hidden, forget).set_require_grad(track)
            })
        });
        self
    }
}

impl Lstm {
    /// The same with all forget gates' biases starting at `bias`: at 1, f = σ(1) = 0.73 instead of ½, and a gradient
    /// reaches many more steps back before training has begun (Jozefowicz et al. 2015).
    ///
    /// ```
    /// use burn::tensor::{Device, Tensor};
    /// use qkv_nn::{Build, Cx, Init, recurrent::{Lstm, lstm}};
    /// let device = Device::flex();
    /// let net = Lstm::new(&Build::new(&device, 0), 1, 1, Init::Zeros).with_forget_bias(1.0);
    /// let start = Tensor::<3>::from_floats([[[0.0, 1.0]]], &device); // h = 0, c = 1
    /// let (_, state) = net.forward(Tensor::zeros([1, 1, 1], &device), None, Some(start), &mut Cx::eval());
    /// let [_, c] = lstm::parts(state);
    /// assert!((c.into_scalar::<f32>() - 0.7311).abs() < 1e-4); // σ(1)·1
    /// ```
    pub fn with_forget_bias(mut self, bias: f64) -> Self {
        self.layers = std::mem::take(&mut self.layers)
            .into_iter()
            .map(|mut layer| {
                layer.forward = layer.forward.with_forget_bias(bias);
                layer.reverse = layer.reverse.map(|cell| cell.with_forget_bias(bias));
                layer
            })
            .collect();
        self
    }
}

/// h and c of states `[…, 2H]`, `[…, H]` each.
pub fn parts<const D: usize>(state: Tensor<D>) -> [Tensor<D>; 2] {
    let hidden = state.dims()[D - 1] / 2;
    [state.clone().narrow(D - 1, 0, hidden), state.narrow(D - 1, hidden, hidden)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recurrent::Ways;
    use crate::recurrent::tests::{assert_close, cosines, over_cosines, sines};
    use crate::{Build, Cx, Init};
    use burn::tensor::Device;
    use qkv_testkit::values;

    #[test]
    fn equals_the_formula_in_a_loop() {
        let net = sines::<LstmCell>(1, 1, 1, Ways::Forward);
        let w = |i: usize| (i as f64).sin() * 0.5; // of i, f, g, o: Wₓ from 0, Wₕ from 4, bₓ from 8, bₕ from 12
        let sigmoid = |v: f64| 1.0 / (1.0 + (-v).exp());
        let (mut h, mut c) = (0.0, 0.0);
        let mut want = vec![];
        for t in 0..5 {
            let x = (t as f64).cos();
            let gate = |g: usize| w(g) * x + w(8 + g) + w(4 + g) * h + w(12 + g);
            c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * gate(2).tanh();
            h = sigmoid(gate(3)) * f64::tanh(c);
            want.push(h as f32);
        }
        let (y, state) = net.forward(cosines([1, 5, 1]), None, None, &mut Cx::eval());
        assert_close(&values(y), &want);
        assert_close(&values(state), &[h as f32, c as f32]);
    }

    /// PyTorch's nn.LSTM gives these.
    #[test]
    fn equals_pytorch() {
        let (y, state) = over_cosines::<LstmCell>(1, Ways::Forward, [3, 3]);
        #[rustfmt::skip]
        assert_close(&y, &[
            0.050813, -0.22062, -0.226527, 0.102385, -0.348391, 0.080176,
            0.063925, -0.261282, -0.197548, 0.081995, -0.370998, 0.112478,
        ]);
        #[rustfmt::skip]
        assert_close(&state, &[
            -0.348391, 0.080176, -0.562462, 0.134543,
            -0.370998, 0.112478, -0.607801, 0.206485,
        ]);
    }

    /// PyTorch's nn.LSTM gives these.
    #[test]
    fn two_layers_both_ways_equal_pytorch() {
        let (y, state) = over_cosines::<LstmCell>(2, Ways::Both, [3, 3]);
        #[rustfmt::skip]
        assert_close(&y, &[
            -0.154918, -0.159939, -0.265471, 0.065997, -0.212528, -0.288121, -0.208777, 0.043643, -0.189557, -0.379902,
            -0.161446, 0.066373, -0.151664, -0.156705, -0.271164, 0.072537, -0.21321, -0.282423, -0.211648, 0.04367,
            -0.191967, -0.379836, -0.156244, 0.061633,
        ]);
        #[rustfmt::skip]
        assert_close(&state, &[
            -0.348391, 0.080176, -0.562462, 0.134543, -0.370998, 0.112478, -0.607801, 0.206485, -0.000602, -0.08845,
            -0.002493, -0.214191, -0.000338, -0.06878, -0.001501, -0.162939, -0.189557, -0.379902, -0.42859, -0.611092,
            -0.191967, -0.379836, -0.430424, -0.613677, -0.265471, 0.065997, -0.435229, 0.105663, -0.271164, 0.072537,
            -0.447777, 0.11647,
        ]);
    }

    /// PyTorch's nn.LSTM gives these for a packed batch of lengths 3 and 2.
    #[test]
    fn a_ragged_batch_equals_pytorch() {
        let (y, state) = over_cosines::<LstmCell>(2, Ways::Both, [3, 2]);
        #[rustfmt::skip]
        assert_close(&y[12..], &[
            -0.145966, -0.158638, -0.263456, 0.08828, -0.198249, -0.288, -0.176021, 0.051895, 0.0, 0.0, 0.0, 0.0,
        ]);
        assert_close(&state[4..8], &[-0.197548, 0.081995, -0.323238, 0.150483]);
        assert_close(&state[28..], &[-0.263456, 0.08828, -0.437028, 0.142717]);
    }

    #[test]
    fn the_forget_bias_stands_in_the_forget_rows_and_is_trained() {
        let build = Build::new(&Device::flex().autodiff(), 0);
        let net = Lstm::with(&build, 3, 2, 2, Ways::Both, Init::Zeros).with_forget_bias(1.0);
        let cells: Vec<_> = net.layers.iter().flat_map(|l| [Some(&l.forward), l.reverse.as_ref()]).flatten().collect();
        assert_eq!(cells.len(), 4);
        for cell in cells {
            let bias = cell.input.bias.as_ref().expect("cells have biases");
            assert!(!bias.is_initialized()); // still lazy
            assert_eq!(values(bias.val()), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
            assert!(bias.val().is_require_grad());
        }
    }
}
