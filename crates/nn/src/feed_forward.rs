//! Position-wise feed-forward: `W₂·act(W₁x)` (dense), or `W₂·(act(W_g x) ⊙ W₁x)` (gated); C → F → C at each position.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_kernels::Activation;
//! use qkv_nn::{Build, Cx, FeedForward, Ffn, Init};
//! let kind = Ffn::Dense { inner: 3, act: Activation::Relu };
//! let ffn = FeedForward::new(&Build::new(&Device::flex(), 0), 2, kind, false, [Init::Ones; 2], 0.0);
//! let y = ffn.forward(Tensor::<3>::from_floats([[[1.0, 2.0]]], &Device::flex()), &mut Cx::eval());
//! assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [9.0, 9.0]); // relu(1 + 2) three times, summed
//! ```

use crate::{Build, Cx, Init, Linear, linear::packed};
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::{Activation, gated};
use serde::{Deserialize, Serialize};

/// Which feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ffn {
    /// `W₂·act(W₁x)`
    Dense {
        /// F
        inner: usize,
        /// the non-linearity
        act: Activation,
    },
    /// `W₂·(act(W_g x) ⊙ W₁x)`
    Gated {
        /// F
        inner: usize,
        /// the non-linearity of the gate
        act: Activation,
    },
}

impl Ffn {
    /// F
    pub fn inner(self) -> usize {
        match self {
            Self::Dense { inner, .. } | Self::Gated { inner, .. } => inner,
        }
    }
}

/// The feed-forward sub-layer.
#[derive(Module, Debug)]
pub struct FeedForward {
    /// `[F, C]`
    pub up: Linear,
    /// `[F, C]`, gated only
    pub gate: Option<Linear>,
    /// `[C, F]`
    pub down: Linear,
    #[module(skip)]
    act: Activation,
    /// probability of dropping an inner activation
    #[module(skip)]
    dropout: f64,
}

impl FeedForward {
    /// A new sub-layer of width C; `init` says how the inner (gate and up) and outer layer start.
    pub fn new(build: &Build, width: usize, kind: Ffn, bias: bool, init: [Init; 2], dropout: f64) -> Self {
        let inner = kind.inner();
        let [init_up, init_down] = init;
        let up = |name: &str| Linear::new(&build.at(name), width, inner, bias, init_up);
        let (gate, act) = match kind {
            Ffn::Dense { act, .. } => (None, act),
            Ffn::Gated { act, .. } => (Some(up("gate")), act),
        };
        let down = Linear::new(&build.at("down"), inner, width, bias, init_down);
        Self { up: up("up"), gate, down, act, dropout }
    }

    /// x `[B, T, C]` → `[B, T, C]`
    pub fn forward(&self, x: Tensor<3>, cx: &mut Cx) -> Tensor<3> {
        let h = match &self.gate {
            None => self.up.activated(x, Some(self.act), cx.adapting("up")),
            Some(gate) => gated(packed(x, &[gate, &self.up], None, cx.adapting("up")), self.act),
        }; // [B, T, F]
        let h = cx.dropout("inner", h, self.dropout);
        self.down.activated(h, None, cx.adapting("down"))
    }
}
