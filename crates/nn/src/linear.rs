//! Linear layer: `y = x·Wᵀ + b`, W `[out, in]`, b `[out]`; x `[…, in]` → y `[…, out]`.
//!
//! Several layers that read the same input can be run [`packed`]: queries, keys and values come out side by side as one
//! tensor. A LoRA adapter ([`crate::Lora`]) sits inside the layer it adapts, and so do several of which each row of a batch has its
//! own ([`crate::LoraBank`]).
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Init, Linear};
//! let device = Device::flex();
//! let layer = Linear::new(&Build::new(&device, 0), 2, 1, true, Init::Ones); // y = x₁ + x₂ + 0
//! let y = layer.forward(Tensor::<2>::from_floats([[3.0, 4.0]], &device));
//! assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [7.0]);
//! ```

use crate::{Adapting, Build, Init, Lora, LoraBank};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_kernels::{Activation, Projection, linear};

/// `y = x·Wᵀ + b`, with an optional low-rank adapter.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[out, in]`
    pub weight: Param<Tensor<2>>,
    /// `[out]`
    pub bias: Option<Param<Tensor<1>>>,
    /// the adapter, while fine-tuning with one
    pub lora: Option<Lora>,
    /// adapters of which each row of a batch has its own, while serving with some
    pub bank: Option<LoraBank>,
}

impl Linear {
    /// A new layer; biases start at 0.
    pub fn new(build: &Build, input: usize, output: usize, bias: bool, init: Init) -> Self {
        Self {
            weight: build.param("weight", [output, input], init),
            bias: bias.then(|| build.param("bias", [output], Init::Zeros)),
            lora: None,
            bank: None,
        }
    }

    /// `[out, in]`, without allocating.
    pub fn dims(&self) -> [usize; 2] {
        self.weight.lazy_shape().dims()
    }

    /// `x·Wᵀ + b`, nothing random.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.activated(x, None, Adapting::default())
    }

    /// `act(x·Wᵀ + b)`; `adapting` is what adapters need: what dropout draws from, and whose rows they are.
    pub fn activated<const D: usize>(
        &self,
        x: Tensor<D>,
        act: Option<Activation>,
        adapting: impl Into<Adapting>,
    ) -> Tensor<D> {
        packed(x, &[self], act, adapting)
    }

    fn projection(&self) -> Projection {
        Projection::new(self.weight.val(), self.bias.as_ref().map(Param::val))
    }
}

/// `act([x·W₁ᵀ + b₁ | x·W₂ᵀ + b₂ | …])`: one to three layers side by side. Their adapters, where there are any, drop by
/// the noise of `adapting`, each by a stream of its own.
pub fn packed<const D: usize>(
    x: Tensor<D>,
    layers: &[&Linear],
    act: Option<Activation>,
    adapting: impl Into<Adapting>,
) -> Tensor<D> {
    let Adapting { noise, rows } = adapting.into();
    let parts: Vec<Projection> = layers.iter().map(|layer| layer.projection()).collect();
    if layers.iter().any(|layer| layer.bank.is_some()) {
        return banked(x, layers, &parts, act, rows.as_deref().unwrap_or_default());
    }
    if layers.iter().all(|layer| layer.lora.is_none()) {
        return linear(x, &parts, act);
    }
    // With adapters the packed kernel gives way to one product per layer: correctness over speed, on few parameters.
    let each = layers.iter().zip(&parts).enumerate().map(|(i, (layer, part))| {
        let y = linear(x.clone(), std::slice::from_ref(part), None);
        match &layer.lora {
            Some(lora) => y + lora.delta(x.clone(), noise.map(|key| key.child(i as u64))),
            None => y,
        }
    });
    let y = Tensor::cat(each.collect(), D - 1);
    match act {
        Some(act) => qkv_kernels::activate(y, act),
        None => y,
    }
}

/// Layers of which some have adapters for some rows. The base product is one for all rows and layers, and the activation always
/// comes behind it, so that a row without an adapter is the same whoever stands beside it.
fn banked<const D: usize>(
    x: Tensor<D>,
    layers: &[&Linear],
    parts: &[Projection],
    act: Option<Activation>,
    rows: &[u32],
) -> Tensor<D> {
    let mut y = linear(x.clone(), parts, None);
    if rows.iter().any(|row| *row != Adapting::NONE) {
        let mut dims = x.dims();
        let each = layers.iter().map(|layer| match &layer.bank {
            Some(bank) => bank.delta(x.clone(), rows),
            None => {
                dims[D - 1] = layer.dims()[0];
                Tensor::zeros(dims, &x.device())
            }
        });
        y = y + Tensor::cat(each.collect(), D - 1);
    }
    match act {
        Some(act) => qkv_kernels::activate(y, act),
        None => y,
    }
}
