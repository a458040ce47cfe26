//! Normalisation of each token's features: LayerNorm `(x − mean)/√(var + ε)·γ + β`, or RMSNorm `x/√(mean(x²) + ε)·γ`,
//! or RMSNorm with its gain counted from one, `x/√(mean(x²) + ε)·(1 + γ)` (Gemma): decay then pulls γ to doing nothing.
//! x `[…, C]`. Each token is treated alone, so padding and batch size cannot matter.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Norm, NormKind};
//! let norm = Norm::new(&Build::new(&Device::flex(), 0), 2, NormKind::Layer { eps: 0.0 });
//! let y = norm.forward(Tensor::<1>::from_floats([1.0, 3.0], &Device::flex())); // mean 2, deviation 1
//! assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [-1.0, 1.0]);
//! ```

use crate::{Build, Init};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_kernels::{layer_norm, rms_norm};
use serde::{Deserialize, Serialize};

/// Which normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormKind {
    /// mean and variance; gain and shift
    Layer {
        /// ε
        eps: f64,
    },
    /// root mean square; gain only
    Rms {
        /// ε
        eps: f64,
    },
    /// none: what comes in goes out
    None,
    /// root mean square; a gain that is counted from one
    RmsOnePlus {
        /// ε
        eps: f64,
    },
}

/// Normalises the last axis.
#[derive(Module, Debug)]
pub struct Norm {
    /// γ `[C]`, where there is a norm
    pub gain: Option<Param<Tensor<1>>>,
    /// β `[C]`, LayerNorm only
    pub shift: Option<Param<Tensor<1>>>,
    #[module(skip)]
    kind: NormKind,
}

impl Norm {
    /// A gain of 1, β = 0.
    pub fn new(build: &Build, width: usize, kind: NormKind) -> Self {
        let shift = matches!(kind, NormKind::Layer { .. }).then(|| build.param("shift", [width], Init::Zeros));
        let one = if matches!(kind, NormKind::RmsOnePlus { .. }) { Init::Zeros } else { Init::Ones };
        let gain = (kind != NormKind::None).then(|| build.param("gain", [width], one));
        Self { gain, shift, kind }
    }

    /// Normalises each token.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let Some(gain) = self.gain.as_ref().map(Param::val) else { return x };
        match self.kind {
            NormKind::Layer { eps } => layer_norm(x, gain, self.shift.as_ref().map(Param::val), eps),
            NormKind::Rms { eps } => rms_norm(x, gain, eps),
            NormKind::RmsOnePlus { eps } => rms_norm(x, gain + 1.0, eps),
            NormKind::None => x,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::values;

    #[test]
    fn a_gain_counted_from_one_starts_at_nothing() {
        let build = Build::new(&Device::flex(), 0);
        let of = |kind| Norm::new(&build, 2, kind);
        let x = Tensor::<1>::from_floats([3.0, 4.0], &Device::flex());
        let (from_one, plain) = (of(NormKind::RmsOnePlus { eps: 0.0 }), of(NormKind::Rms { eps: 0.0 }));
        assert_eq!(values(from_one.gain.as_ref().expect("a gain").val()), [0.0; 2]);
        assert_eq!(values(from_one.forward(x.clone())), values(plain.forward(x.clone())));
        let half = Norm { gain: from_one.gain.clone().map(|gain| gain.map(|g| g + 0.5)), ..from_one };
        assert_eq!(values(half.forward(x.clone())), values(plain.forward(x) * 1.5));
    }
}
