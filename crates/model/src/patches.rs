//! Images as tokens (ViT): cut into patches, each projected to a vector, behind one learned class vector.

use crate::spec::{Input, Spec};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_nn::{Build, Linear};

/// Patch vectors and the class vector.
#[derive(Module, Debug)]
pub struct Patches {
    /// `[C, channels·P·P]`, each patch flattened channel by channel
    pub project: Linear,
    /// the class vector `[1, 1, C]`
    pub class: Param<Tensor<3>>,
    #[module(skip)]
    patch: usize,
}

impl Patches {
    /// For a checked spec that reads images.
    pub fn new(build: &Build, spec: &Spec) -> Self {
        let (patch, channels) = match spec.input {
            Input::Patches { patch, channels, .. } => (patch, channels),
            Input::Tokens { .. } => (1, 1),
        };
        let init = spec.start.linear();
        Self {
            project: Linear::new(&build.at("project"), channels * patch * patch, spec.width, true, init),
            class: build.param("class", [1, 1, spec.width], spec.start.embedding(spec.width)),
            patch,
        }
    }

    /// `[B, channels, height, width]` → `[B, 1 + patches, C]`
    pub fn forward(&self, pixels: Tensor<4>) -> Tensor<3> {
        let [b, c, h, w] = pixels.dims();
        let p = self.patch;
        let (rows, columns) = (h / p, w / p);
        let cut: Tensor<6> = pixels.reshape([b, c, rows, p, columns, p]);
        let flat = cut.permute([0, 2, 4, 1, 3, 5]).reshape([b, rows * columns, c * p * p]);
        let class = self.class.val().repeat_dim(0, b);
        Tensor::cat(vec![class, self.project.forward(flat)], 1)
    }
}
