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

use crate::{Adapting, Build, Init, Lora, LoraBank, Stored};
use burn::module::{Module, Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use qkv_kernels::{Activation, PackedProjection, ProductPrecision, Projection, Weight, linear_in, packed_linear};
use std::sync::Arc;

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
    /// the weight as it is computed with, where the layer only answers
    pub stored: Stored,
}

/// A parameter whose numbers are those of a packed weight; they are written out as f32 only if somebody asks for them.
pub(crate) fn unpacked(weight: &Arc<Weight>, device: Device) -> Param<Tensor<2>> {
    let (from, shape) = (weight.clone(), weight.dims());
    let make = move |device: &Device, track: bool| {
        Tensor::from_data(TensorData::new(from.values(), shape), device).set_require_grad(track)
    };
    Param::uninitialized(ParamId::new(), make, device, false, shape.into())
}

impl Linear {
    /// A new layer; biases start at 0.
    pub fn new(build: &Build, input: usize, output: usize, bias: bool, init: Init) -> Self {
        Self {
            weight: build.param("weight", [output, input], init),
            bias: bias.then(|| build.param("bias", [output], Init::Zeros)),
            lora: None,
            bank: None,
            stored: Stored::default(),
        }
    }

    /// The layer with a packed weight to answer with; it does not learn any more.
    ///
    /// # Panics
    /// If the weight has another shape than the layer: callers compare with [`Linear::dims`].
    pub fn with_packed(self, weight: Arc<Weight>) -> Self {
        assert_eq!(weight.dims(), self.dims(), "a packed weight of another shape");
        Self { weight: unpacked(&weight, self.weight.lazy_device()), stored: Stored::new(weight), ..self }
    }

    /// The layer without its packed weight: whoever changes the parameter by hand calls this, or the change would not be seen.
    pub(crate) fn without_packed(self) -> Self {
        Self { stored: Stored::default(), ..self }
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

    fn packed_projection(&self) -> Option<PackedProjection> {
        Some(PackedProjection { weight: self.stored.get()?.clone(), bias: self.bias.as_ref().map(Param::val) })
    }
}

/// `act([x·W₁ᵀ + b₁ | x·W₂ᵀ + b₂ | …])` without adapters: by packed weights where all layers have one, by parameters where
/// none has, and one after the other where only some do.
fn products<const D: usize>(
    precision: ProductPrecision,
    x: Tensor<D>,
    layers: &[&Linear],
    act: Option<Activation>,
) -> Tensor<D> {
    let packed: Vec<PackedProjection> = layers.iter().filter_map(|layer| layer.packed_projection()).collect();
    if packed.is_empty() {
        let parts: Vec<Projection> = layers.iter().map(|layer| layer.projection()).collect();
        return linear_in(precision, x, &parts, act);
    }
    if packed.len() == layers.len() {
        return packed_linear(x, &packed, act);
    }
    Tensor::cat(layers.iter().map(|layer| products(precision, x.clone(), &[*layer], act)).collect(), D - 1)
}

/// `act([x·W₁ᵀ + b₁ | x·W₂ᵀ + b₂ | …])`: one to three layers side by side. Their adapters, where there are any, drop by
/// the noise of `adapting`, each by a stream of its own.
pub fn packed<const D: usize>(
    x: Tensor<D>,
    layers: &[&Linear],
    act: Option<Activation>,
    adapting: impl Into<Adapting>,
) -> Tensor<D> {
    let Adapting { noise, rows, products: precision } = adapting.into();
    if layers.iter().any(|layer| layer.bank.is_some()) {
        return banked(x, layers, act, rows.as_deref().unwrap_or_default());
    }
    if layers.iter().all(|layer| layer.lora.is_none()) {
        return products(precision, x, layers, act);
    }
    // With adapters the packed kernel gives way to one product per layer: correctness over speed, on few parameters.
    let each = layers.iter().enumerate().map(|(i, layer)| {
        let y = products(precision, x.clone(), &[*layer], None);
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
fn banked<const D: usize>(x: Tensor<D>, layers: &[&Linear], act: Option<Activation>, rows: &[u32]) -> Tensor<D> {
    let mut y = products(ProductPrecision::F32, x.clone(), layers, None);
    if rows.iter().any(|row| *row != Adapting::NONE) {
        let mut dims = x.dims();
        let each = layers.iter().map(|layer| match &layer.bank {
            Some(bank) => bank.delta(x.clone(), rows, layer.dims()[0]),
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

#[cfg(test)]
mod tests {
    use super::*;
    use qkv_kernels::Float;
    use qkv_testkit::values;

    fn layer(seed: u64) -> Linear {
        Linear::new(&Build::new(&Device::flex(), seed), 32, 6, true, Init::Xavier)
    }

    fn stored(layer: &Linear, float: Float) -> Linear {
        let weight = Weight::plain(&values(layer.weight.val()), 6, 32, float);
        layer.clone().with_packed(Arc::new(weight))
    }

    #[test]
    fn a_packed_layer_answers_as_its_parameters_say() {
        let (plain, x) = (layer(1), Tensor::<2>::ones([3, 32], &Device::flex()));
        let packed = stored(&plain, Float::F32);
        let (got, want) = (values(packed.forward(x.clone())), values(plain.forward(x)));
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5));
        assert!(!packed.weight.is_initialized(), "nothing was written out");
        assert_eq!(values(packed.weight.val()), values(plain.weight.val()));
    }

    #[test]
    fn packed_and_plain_layers_stand_side_by_side() {
        let (a, b) = (layer(1), layer(2));
        let x = Tensor::<2>::ones([2, 32], &Device::flex());
        let some = packed(x.clone(), &[&stored(&a, Float::Bf16), &b], Some(Activation::Relu), Adapting::default());
        let each =
            [stored(&a, Float::Bf16), b].map(|l| l.activated(x.clone(), Some(Activation::Relu), Adapting::default()));
        assert_eq!(values(some), values(Tensor::cat(each.to_vec(), 1)));
    }
}
