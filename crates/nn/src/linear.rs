//! Linear layer: `y = x·Wᵀ + b`, W `[out, in]`, b `[out]`; x `[…, in]` → y `[…, out]`.
//!
//! Several layers that read the same input can be run [`packed`]: queries, keys and values come out side by side as one
//! tensor. A LoRA adapter ([`crate::Lora`]) sits inside the layer it adapts.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Init, Linear};
//! let device = Device::flex();
//! let layer = Linear::new(&Build::new(&device, 0), 2, 1, true, Init::Ones); // y = x₁ + x₂ + 0
//! let y = layer.forward(Tensor::<2>::from_floats([[3.0, 4.0]], &device));
//! assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [7.0]);
//! ```

use crate::{Build, Init, Lora};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_kernels::{Activation, Key, Projection, linear};

/// `y = x·Wᵀ + b`, with an optional low-rank adapter.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[out, in]`
    pub weight: Param<Tensor<2>>,
    /// `[out]`
    pub bias: Option<Param<Tensor<1>>>,
    /// the adapter, while fine-tuning with one
    pub lora: Option<Lora>,
}

impl Linear {
    /// A new layer; biases start at 0.
    pub fn new(build: &Build, input: usize, output: usize, bias: bool, init: Init) -> Self {
        Self {
            weight: build.param("weight", [output, input], init),
            bias: bias.then(|| build.param("bias", [output], Init::Zeros)),
            lora: None,
        }
    }

    /// `[out, in]`, without allocating.
    pub fn dims(&self) -> [usize; 2] {
        self.weight.lazy_shape().dims()
    }

    /// `x·Wᵀ + b`, nothing random.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        self.activated(x, None, None)
    }

    /// `act(x·Wᵀ + b)`; `noise` is what the adapter's dropout draws from.
    pub fn activated<const D: usize>(&self, x: Tensor<D>, act: Option<Activation>, noise: Option<Key>) -> Tensor<D> {
        packed(x, &[self], act, noise)
    }

    fn projection(&self) -> Projection {
        Projection::new(self.weight.val(), self.bias.as_ref().map(Param::val))
    }
}

/// `act([x·W₁ᵀ + b₁ | x·W₂ᵀ + b₂ | …])`: one to three layers side by side. Their adapters, where there are any, drop by
/// `noise`, each by a stream of its own.
pub fn packed<const D: usize>(
    x: Tensor<D>,
    layers: &[&Linear],
    act: Option<Activation>,
    noise: Option<Key>,
) -> Tensor<D> {
    let parts: Vec<Projection> = layers.iter().map(|layer| layer.projection()).collect();
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
