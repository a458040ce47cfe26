//! Where parameters come from: a [`Build`] walks down the tree of the network, and each parameter draws its start values
//! from a random stream named by its own path. The values therefore depend on the seed and the path alone, not on the
//! order in which the network is put together.
//!
//! Parameters are lazy: a network can be built, counted and printed without allocating one of them.
//!
//! ```
//! use qkv_nn::{Build, Init};
//! let build = Build::new(&burn::tensor::Device::flex(), 1).at("decoder").at(0);
//! let a = build.param("weight", [2, 3], Init::Normal { std: 0.02 });
//! let b = build.param("weight", [2, 3], Init::Normal { std: 0.02 });
//! assert_eq!(a.val().into_data(), b.val().into_data()); // same path, same values
//! ```

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use qkv_kernels::Key;
use std::fmt::Display;

/// How a parameter starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// all 0
    Zeros,
    /// all 1
    Ones,
    /// Gaussian around 0
    Normal {
        /// standard deviation
        std: f64,
    },
    /// uniform in ±√(6 / (in + out)) (Glorot and Bengio 2010)
    Xavier,
    /// uniform in ±1/√in, PyTorch's start for a linear layer
    FanIn,
}

impl Init {
    /// The start values of a parameter of this shape; `in` is the last axis, `out` the first.
    fn values(self, key: Key, shape: &[usize]) -> Vec<f32> {
        let n = shape.iter().product();
        let (first, last) = (shape.first().copied().unwrap_or(1) as f32, shape.last().copied().unwrap_or(1) as f32);
        let within = |bound: f32| key.uniforms(n, -bound, bound);
        match self {
            Self::Zeros => vec![0.0; n],
            Self::Ones => vec![1.0; n],
            Self::Normal { std } => key.normals(n).into_iter().map(|v| v * std as f32).collect(),
            Self::Xavier => within((6.0 / (first + last)).sqrt()),
            Self::FanIn => within(1.0 / last.sqrt()),
        }
    }
}

/// A place in the tree of a network under construction.
#[derive(Clone, Debug)]
pub struct Build {
    device: Device,
    key: Key,
    path: String,
}

impl Build {
    /// The root. Use `Device::flex().autodiff()` for a network that is to be trained.
    pub fn new(device: &Device, seed: u64) -> Self {
        Self { device: device.clone(), key: Key::new(seed, 0, 0), path: String::new() }
    }

    /// The child called `name`.
    pub fn at(&self, name: impl Display) -> Self {
        let path = if self.path.is_empty() { name.to_string() } else { format!("{}.{name}", self.path) };
        Self { path, ..self.clone() }
    }

    /// The path of this place, such as `decoder.3.attention`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The device parameters will live on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A trainable parameter, drawn when it is first used.
    pub fn param<const D: usize>(&self, name: &str, shape: [usize; D], init: Init) -> Param<Tensor<D>> {
        let key = self.key.named(&self.at(name).path);
        let make = move |device: &Device, track: bool| {
            let data = TensorData::new(init.values(key, &shape), shape);
            Tensor::from_data(data, device).set_require_grad(track)
        };
        Param::uninitialized(ParamId::new(), make, self.device.clone(), true, shape.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_depend_on_seed_and_path_only() {
        let at = |seed, path: &str| {
            let p = Build::new(&Device::flex(), seed).at(path).param("w", [3, 5], Init::Xavier);
            p.val().into_data().try_to_vec::<f32>().unwrap()
        };
        assert_eq!(at(1, "a"), at(1, "a"));
        assert_ne!(at(1, "a"), at(2, "a"));
        assert_ne!(at(1, "a"), at(1, "b"));
        assert!(at(1, "a").iter().all(|v| v.abs() <= (6.0f32 / 8.0).sqrt()));
    }

    #[test]
    fn building_allocates_nothing() {
        let huge = Build::new(&Device::flex(), 0).param("w", [1 << 30, 1 << 30], Init::FanIn);
        assert_eq!(huge.lazy_shape().num_elements(), 1 << 60);
        assert!(!huge.is_initialized());
    }
}
