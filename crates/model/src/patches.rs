//! Images as tokens (ViT): patch vectors behind one learned class vector.

use crate::spec::{Input, Spec};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_nn::{Build, Cx, PatchEmbed};

/// Patch vectors and the class vector.
#[derive(Module, Debug)]
pub struct Patches {
    /// cuts and projects
    pub embed: PatchEmbed,
    /// the class vector `[1, 1, C]`
    pub class: Param<Tensor<3>>,
}

impl Patches {
    /// For a checked spec that reads images.
    pub fn new(build: &Build, spec: &Spec) -> Self {
        let (patch, channels) = match spec.input {
            Input::Patches { patch, channels, .. } => (patch, channels),
            Input::Tokens { .. } => (1, 1),
        };
        Self {
            embed: PatchEmbed::new(&build.at("embed"), channels, patch, spec.width, spec.init.linear()),
            class: build.param("class", [1, 1, spec.width], spec.init.embedding(spec.width)),
        }
    }

    /// `[B, channels, height, width]` → `[B, 1 + patches, C]`
    pub fn forward(&self, pixels: Tensor<4>, cx: &Cx) -> Tensor<3> {
        let class = self.class.val().repeat_dim(0, pixels.dims()[0]);
        Tensor::cat(vec![class, self.embed.forward(pixels, cx.noise("patches"))], 1)
    }
}
