//! The packed weight of a layer that only answers, beside the parameter whose numbers it holds.
//!
//! A packed weight must never say something else than the parameter. So it is a part of the module that burn knows: whoever maps
//! the parameters of a module (fills, averages, moves or freezes them) takes every packed weight out with it, and the layer computes
//! with its parameters again. Looking at parameters leaves it where it is.

use burn::module::{Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor};
use burn::tensor::Device;
use qkv_kernels::Weight;
use std::sync::Arc;

/// A packed weight, where there is one.
#[derive(Clone, Debug, Default)]
pub struct Stored(Option<Arc<Weight>>);

impl Stored {
    /// This one.
    pub fn new(weight: Arc<Weight>) -> Self {
        Self(Some(weight))
    }

    /// The weight, where there is one.
    pub fn get(&self) -> Option<&Arc<Weight>> {
        self.0.as_ref()
    }
}

impl Module for Stored {
    fn collect_devices(&self, devices: Devices) -> Devices {
        devices
    }

    fn fork(self, _: &Device) -> Self {
        Self(None)
    }

    fn to_device(self, _: &Device) -> Self {
        Self(None)
    }

    fn visit<V: ModuleVisitor>(&self, _: &mut V) {}

    /// What is mapped may be changed.
    fn map<M: ModuleMapper>(self, _: &mut M) -> Self {
        Self(None)
    }

    fn materialize(self) -> Self {
        self
    }

    fn valid(&self) -> Self {
        self.clone()
    }

    /// What learns will change.
    fn train(self) -> Self {
        Self(None)
    }
}

impl ModuleDisplayDefault for Stored {
    fn content(&self, content: Content) -> Option<Content> {
        content.add_formatted(&self.0.as_ref().map_or("none", |weight| weight.precision())).optional()
    }
}

impl ModuleDisplay for Stored {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Build, Init, Linear, MapParam, map_params, walk};
    use burn::module::Param;
    use burn::tensor::Tensor;
    use qkv_kernels::Float;
    use qkv_testkit::values;

    fn packed() -> Linear {
        let layer = Linear::new(&Build::new(&Device::flex(), 4), 8, 3, false, Init::Xavier);
        let weight = Weight::plain(&values(layer.weight.val()), 3, 8, Float::F32);
        layer.with_packed(Arc::new(weight))
    }

    #[test]
    fn a_change_of_the_parameter_is_a_change_of_the_answer() {
        struct Twice;
        impl MapParam for Twice {
            fn map<const D: usize>(&mut self, _: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                param.map(|x| x * 2.0)
            }
        }
        let x = Tensor::<2>::ones([1, 8], &Device::flex());
        let (before, layer) = (packed(), map_params(packed(), &mut Twice));
        assert!(before.stored.get().is_some() && layer.stored.get().is_none());
        let twice: Vec<f32> = values(before.forward(x.clone())).iter().map(|y| 2.0 * y).collect();
        assert!(values(layer.forward(x)).iter().zip(&twice).all(|(a, b)| (a - b).abs() < 1e-5));
    }

    #[test]
    fn looking_leaves_it() {
        let layer = packed();
        let mut paths = vec![];
        walk(&layer, |p| paths.push(p.path().to_string()));
        assert_eq!(paths, ["weight"]);
        assert!(layer.clone().stored.get().is_some() && layer.valid().stored.get().is_some());
        assert!(layer.no_grad().stored.get().is_none());
    }
}
