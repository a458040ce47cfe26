//! A fixed window (Bengio et al. 2003): the vectors of the last n tokens, one behind the other, through one layer and tanh:
//! `h_t = tanh(W·[x_{t−n+1}; …; x_t] + b)`. What is farther back than n tokens is not seen at all. Before the first token
//! stand zeros.
//!
//! x `[B, T, C]` → `[B, T, C]`; W `[C, n·C]`. Going on, the last n − 1 vectors are carried along.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Cx, FixedWindow, Init};
//! let device = Device::flex();
//! let net = FixedWindow::new(&Build::new(&device, 0), 1, 2, Init::Ones); // tanh(x_{t−1} + x_t)
//! let x = Tensor::<3>::from_floats([[[0.5], [0.25], [0.0]]], &device);
//! let (y, _) = net.forward(x, None, &mut Cx::eval());
//! let y: Vec<f32> = y.into_data().try_to_vec().unwrap();
//! assert!((y[1] - 0.75f32.tanh()).abs() < 1e-6 && (y[2] - 0.25f32.tanh()).abs() < 1e-6);
//! ```

use crate::{Build, Cx, Init, Linear};
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::Activation;

/// One layer over the last n vectors.
#[derive(Module, Debug)]
pub struct FixedWindow {
    /// W `[C, n·C]` and its bias
    pub hidden: Linear,
    #[module(skip)]
    window: usize,
    #[module(skip)]
    dropout: f64,
}

impl FixedWindow {
    /// A layer of `width` units over windows of `window` vectors, at least 1.
    pub fn new(build: &Build, width: usize, window: usize, init: Init) -> Self {
        let window = window.max(1);
        Self { hidden: Linear::new(&build.at("hidden"), window * width, width, true, init), window, dropout: 0.0 }
    }

    /// The same with dropout on what the layer reads.
    pub fn with_dropout(self, dropout: f64) -> Self {
        Self { dropout, ..self }
    }

    /// x `[B, T, C]` after the last n − 1 vectors before it, `[B, n − 1, C]` (zeros, where there are none): what comes out,
    /// and the last n − 1 vectors now.
    pub fn forward(&self, x: Tensor<3>, before: Option<Tensor<3>>, cx: &mut Cx) -> (Tensor<3>, Tensor<3>) {
        let [b, t, c] = x.dims();
        let held = self.window - 1;
        let all = match before {
            _ if held == 0 => x,
            Some(before) => Tensor::cat(vec![before, x], 1),
            None => Tensor::cat(vec![Tensor::zeros([b, held, c], &x.device()), x], 1),
        };
        let windows: Vec<Tensor<3>> = (0..self.window).map(|k| all.clone().narrow(1, k, t)).collect();
        let read = cx.dropout("window", Tensor::cat(windows, 2), self.dropout); // [B, T, n·C]
        let y = self.hidden.activated(read, Some(Activation::Tanh), cx.adapting_apart("hidden"));
        let held = if held > 0 { all.narrow(1, t, held) } else { all };
        (y, held)
    }

    /// n
    pub fn window(&self) -> usize {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::{max_diff, values};

    #[test]
    fn going_on_is_reading_in_one_go_and_nothing_is_seen_beyond_the_window() {
        let build = Build::new(&Device::flex(), 3);
        let net = FixedWindow::new(&build, 4, 3, Init::Normal { std: 0.5 });
        let x = build.param("x", [2, 6, 4], Init::Normal { std: 1.0 }).val();
        let (whole, _) = net.forward(x.clone(), None, &mut Cx::eval());
        let (first, held) = net.forward(x.clone().narrow(1, 0, 2), None, &mut Cx::eval());
        let (rest, _) = net.forward(x.clone().narrow(1, 2, 4), Some(held), &mut Cx::eval());
        assert!(max_diff(&values(whole.clone()), &values(Tensor::cat(vec![first, rest], 1))) < 1e-6);
        let other = Tensor::cat(vec![x.clone().narrow(1, 0, 2) * 9.0, x.narrow(1, 2, 4)], 1);
        let (changed, _) = net.forward(other, None, &mut Cx::eval());
        let last = |y: Tensor<3>| values(y.narrow(1, 4, 2)); // three back stands the third token
        assert_eq!(last(whole), last(changed));
    }
}
