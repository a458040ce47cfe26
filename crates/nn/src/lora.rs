//! LoRA (Hu et al. 2021): learn a low-rank change of a frozen weight. `W = W₀ + (α/r)·B·A`, A `[r, in]` uniform,
//! B `[out, r]` zero, so that at step 0 nothing has changed. While it learns, its input may be dropped from: dropout for
//! the change alone, the frozen layer always sees all.
//!
//! Merging adds the change to the weight in f32 and keeps the adapter's values, so that it can be taken out again.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Init, Linear, Lora, LoraSize};
//! let (device, build) = (Device::flex(), Build::new(&Device::flex(), 3));
//! let base = Linear::new(&build, 4, 4, true, Init::Xavier);
//! let x = Tensor::<2>::ones([1, 4], &device);
//! let adapted = Lora::around(base.clone(), &build, LoraSize { rank: 2, alpha: 16.0, dropout: 0.1 });
//! assert_eq!(adapted.forward(x.clone()).into_data(), base.forward(x).into_data()); // B = 0: step 0 is the base
//! ```

use crate::{Build, Init, Linear};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_kernels::{Key, Projection, linear};

/// A low-rank change of one linear layer.
#[derive(Module, Debug)]
pub struct Lora {
    /// A `[r, in]`
    pub a: Param<Tensor<2>>,
    /// B `[out, r]`
    pub b: Param<Tensor<2>>,
    /// α
    #[module(skip)]
    pub alpha: f64,
    /// probability of dropping what the adapter reads, while training
    #[module(skip)]
    pub dropout: f64,
}

/// How large and how strong an adapter is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoraSize {
    /// r
    pub rank: usize,
    /// α: the change counts α/r times
    pub alpha: f64,
    /// probability of dropping what the adapter reads, while training
    pub dropout: f64,
}

impl Lora {
    /// `layer` with a new adapter around it; the layer itself is frozen.
    pub fn around(layer: Linear, build: &Build, LoraSize { rank, alpha, dropout }: LoraSize) -> Linear {
        let [output, input] = layer.dims();
        let lora = Self {
            // As PEFT draws it, uniform in ±1/√in whatever the rank: A·x is about as large as x, so that one learning rate
            // suits every rank.
            a: build.param("lora_a", [rank, input], Init::FanIn),
            b: build.param("lora_b", [output, rank], Init::Zeros),
            alpha,
            dropout,
        };
        Linear { lora: Some(lora), ..layer.no_grad() }
    }

    /// r
    pub fn rank(&self) -> usize {
        self.a.lazy_shape().dims::<2>()[0]
    }

    /// α/r
    pub(crate) fn scale(&self) -> f64 {
        self.alpha / self.rank().max(1) as f64
    }

    /// The same, which learns no more.
    pub(crate) fn frozen(self) -> Self {
        let frozen = |p: Param<Tensor<2>>| Param::from_tensor(p.val().inner()).set_require_grad(false);
        Self { a: frozen(self.a), b: frozen(self.b), ..self }
    }

    /// `(α/r)·(x·Aᵀ)·Bᵀ`, with dropout on x where there is something to draw from.
    pub fn delta<const D: usize>(&self, x: Tensor<D>, noise: Option<Key>) -> Tensor<D> {
        let x = match noise.filter(|_| self.dropout > 0.0) {
            Some(key) => qkv_kernels::dropout(x, self.dropout as f32, key),
            None => x,
        };
        let down = linear(x, &[Projection::new(self.a.val(), None)], None);
        linear(down, &[Projection::new(self.b.val(), None)], None) * self.scale()
    }

    /// `(α/r)·B·A`, the change of the weight.
    fn change(&self) -> Tensor<2> {
        self.b.val().inner().matmul(self.a.val().inner()) * self.scale()
    }
}

impl Linear {
    /// The layer with its adapter added into the weight; the adapter is handed back so that it can be taken out again.
    pub fn merge(mut self) -> (Self, Option<Lora>) {
        let Some(lora) = self.lora.take() else { return (self, None) };
        (self.shifted(lora.change()), Some(lora))
    }

    /// The inverse of [`Linear::merge`]: takes the change out of the weight and puts the adapter back around it.
    pub fn unmerge(self, lora: Lora) -> Self {
        let change = lora.change().neg();
        Self { lora: Some(lora), ..self.shifted(change) }
    }

    fn shifted(self, by: Tensor<2>) -> Self {
        let shift = |w: Tensor<2>| {
            let (track, autodiff) = (w.is_require_grad(), w.is_autodiff());
            let moved = w.inner() + by;
            let moved = if autodiff { Tensor::from_inner(moved) } else { moved };
            moved.set_require_grad(track)
        };
        let layer = self.without_packed();
        Self { weight: layer.weight.clone().map(shift), ..layer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::{max_diff, values};

    const SIZE: LoraSize = LoraSize { rank: 3, alpha: 6.0, dropout: 0.5 };

    fn trained(build: &Build) -> Linear {
        let mut layer = Lora::around(Linear::new(build, 6, 5, true, Init::Xavier), build, SIZE);
        if let Some(lora) = &mut layer.lora {
            lora.b = build.param("trained", [5, 3], Init::Normal { std: 0.3 });
        }
        layer
    }

    #[test]
    fn merged_equals_unmerged_and_comes_apart_again() {
        let build = Build::new(&Device::flex(), 5);
        let x = build.param("x", [7, 6], Init::Normal { std: 1.0 }).val();
        let layer = trained(&build);
        let (before, w) = (values(layer.forward(x.clone())), values(layer.weight.val()));
        let (merged, lora) = layer.merge();
        assert!(merged.lora.is_none());
        assert!(max_diff(&values(merged.forward(x.clone())), &before) < 1e-5);
        assert!(max_diff(&values(merged.weight.val()), &w) > 0.01);
        let back = merged.unmerge(lora.expect("an adapter"));
        assert!(max_diff(&values(back.weight.val()), &w) < 1e-6);
        assert!(max_diff(&values(back.forward(x)), &before) < 1e-5);
    }

    #[test]
    fn what_the_adapter_reads_is_dropped_while_training_only() {
        let build = Build::new(&Device::flex(), 5);
        let x = build.param("x", [7, 6], Init::Normal { std: 1.0 }).val();
        let layer = trained(&build);
        let say = |noise| values(layer.activated(x.clone(), None, noise));
        let (still, first, second) = (say(None), say(Some(Key::new(1, 1, 0))), say(Some(Key::new(1, 2, 0))));
        assert_eq!(say(Some(Key::new(1, 1, 0))), first);
        assert!(max_diff(&first, &still) > 0.01 && max_diff(&first, &second) > 0.01);
        // Without its adapter the layer drops nothing.
        let bare = Linear { lora: None, ..layer.clone() };
        assert_eq!(values(bare.activated(x.clone(), None, Some(Key::new(1, 1, 0)))), values(bare.forward(x.clone())));
        // Dropped or doubled: the mean of many draws is the pass without any.
        let n = 4000;
        let draws = (0..n).map(|step| say(Some(Key::new(1, step, 0))));
        let sum = draws.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect()).expect("draws");
        let mean: Vec<f32> = sum.iter().map(|s| s / n as f32).collect();
        assert!(max_diff(&mean, &still) < 0.2, "{}", max_diff(&mean, &still));
    }

    #[test]
    fn only_the_adapter_is_trained() {
        let build = Build::new(&Device::flex().autodiff(), 5);
        let layer = trained(&build);
        let x = build.param("x", [7, 6], Init::Ones).val().detach();
        let grads = layer.forward(x).sum().backward();
        let lora = layer.lora.as_ref().expect("an adapter");
        assert!(layer.weight.val().grad(&grads).is_none());
        assert!(lora.a.val().grad(&grads).is_some() && lora.b.val().grad(&grads).is_some());
    }
}
