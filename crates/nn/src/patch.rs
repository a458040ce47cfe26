//! Patches as tokens (Dosovitskiy et al. 2021): cut the image into P × P patches, flatten each, project it to width C.
//!
//! Image `[B, channels, height, width]` → `[B, (height/P)·(width/P), C]`, patches row by row. A patch is flattened
//! channel by channel, then row by row: the order in which a convolution's weight `[C, channels, P, P]` lies in memory.
//! So a convolution with kernel and stride P is this linear layer, its weight reshaped to `[C, channels·P·P]`.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_nn::{Build, Init, PatchEmbed};
//! let device = Device::flex();
//! let embed = PatchEmbed::new(&Build::new(&device, 0), 1, 2, 1, Init::Ones); // adds up each 2 × 2 patch
//! let image = Tensor::<4>::from_floats([[[[1.0, 2.0, 5.0, 5.0], [3.0, 4.0, 5.0, 5.0]]]], &device);
//! assert_eq!(embed.check([1, 2, 4]), Ok(2));
//! assert_eq!(embed.forward(image, None).into_data().try_to_vec::<f32>().unwrap(), [10.0, 20.0]);
//! assert_eq!(
//!     embed.check([1, 2, 5]).unwrap_err().to_string(),
//!     "image of 2 × 5 pixels (height × width): not a whole number of 2 × 2 patches; resize or crop it to 2 × 4"
//! );
//! ```

use crate::{Build, Init, Linear};
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::Key;

/// Why an image cannot be cut into patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// more or fewer channels than the layer reads
    #[error("image of {got} channels: the patch layer reads {want}; convert it (1: grey, 3: colour)")]
    Channels {
        /// of the image
        got: usize,
        /// of the layer
        want: usize,
    },
    /// a side that is not a multiple of the patch, or no patch at all
    #[error(
        "image of {height} × {width} pixels (height × width): not a whole number of {patch} × {patch} patches; \
         resize or crop it to {} × {}",
        fitting(*height, *patch),
        fitting(*width, *patch)
    )]
    Size {
        /// of the image
        height: usize,
        /// of the image
        width: usize,
        /// P
        patch: usize,
    },
    /// P = 0
    #[error("patches of 0 × 0 pixels: a patch has at least one; set the patch size in the model's specification")]
    NoPatch,
}

/// The largest multiple of `patch` within `side`, at least one patch.
fn fitting(side: usize, patch: usize) -> usize {
    side.checked_div(patch).unwrap_or(0).max(1) * patch
}

/// Cuts an image into patches and projects each.
#[derive(Module, Debug)]
pub struct PatchEmbed {
    /// `[C, channels·P·P]`
    pub project: Linear,
    #[module(skip)]
    channels: usize,
    #[module(skip)]
    patch: usize,
}

impl PatchEmbed {
    /// A new layer for images of `channels` channels, patches of `patch` × `patch` pixels and tokens of width C.
    pub fn new(build: &Build, channels: usize, patch: usize, width: usize, init: Init) -> Self {
        let project = Linear::new(&build.at("project"), channels * patch * patch, width, true, init);
        Self { project, channels, patch }
    }

    /// How many patches an image of `[channels, height, width]` gives, or why it gives none.
    pub fn check(&self, [channels, height, width]: [usize; 3]) -> Result<usize, PatchError> {
        let patch = self.patch;
        let fits = |side: usize| side > 0 && side.is_multiple_of(patch);
        if patch == 0 {
            return Err(PatchError::NoPatch);
        }
        if channels != self.channels {
            return Err(PatchError::Channels { got: channels, want: self.channels });
        }
        if !fits(height) || !fits(width) {
            return Err(PatchError::Size { height, width, patch });
        }
        Ok((height / patch) * (width / patch))
    }

    /// Image `[B, channels, height, width]` → tokens `[B, patches, C]`; an adapter drops by `noise`.
    ///
    /// # Panics
    /// With the message of [`PatchEmbed::check`], if the image does not pass it.
    pub fn forward(&self, image: Tensor<4>, noise: Option<Key>) -> Tensor<3> {
        let [b, channels, height, width] = image.dims();
        let patches = self.check([channels, height, width]).unwrap_or_else(|error| panic!("{error}"));
        let p = self.patch;
        let cut = image.reshape([b, channels, height / p, p, width / p, p]); // [B, channels, rows, P, columns, P]
        let flat = cut.permute([0, 2, 4, 1, 3, 5]).reshape([b, patches, channels * p * p]);
        self.project.activated(flat, None, noise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::{max_diff, values};

    fn layer(channels: usize, patch: usize, width: usize) -> PatchEmbed {
        let mut embed = PatchEmbed::new(&Build::new(&Device::flex(), 2), channels, patch, width, Init::FanIn);
        embed.project.bias = Some(Build::new(&Device::flex(), 2).param("bias", [width], Init::Normal { std: 1.0 }));
        embed
    }

    fn image(shape: [usize; 4]) -> Tensor<4> {
        Build::new(&Device::flex(), 2).param("image", shape, Init::Normal { std: 1.0 }).val()
    }

    /// A convolution with kernel and stride `p`, weight `[C, channels, P, P]`, by its definition.
    fn convolution(x: &[f32], [b, ch, h, w]: [usize; 4], weight: &[f32], bias: &[f32], p: usize) -> Vec<f32> {
        let mut y = vec![];
        for (n, row, column) in
            (0..b).flat_map(|n| (0..h / p).flat_map(move |row| (0..w / p).map(move |column| (n, row, column))))
        {
            for (out, bias) in bias.iter().enumerate() {
                let mut sum = *bias;
                for (c, i, j) in (0..ch).flat_map(|c| (0..p).flat_map(move |i| (0..p).map(move |j| (c, i, j)))) {
                    let pixel = x[((n * ch + c) * h + row * p + i) * w + column * p + j];
                    sum += weight[((out * ch + c) * p + i) * p + j] * pixel;
                }
                y.push(sum);
            }
        }
        y
    }

    #[test]
    fn is_a_convolution_with_stride_p() {
        for (shape, patch, width) in [([2, 3, 6, 9], 3, 5), ([1, 1, 1, 1], 1, 1), ([3, 2, 4, 10], 2, 7)] {
            let (embed, x) = (layer(shape[1], patch, width), image(shape));
            let weight = values(embed.project.weight.val());
            let bias = embed.project.bias.as_ref().map(|b| values(b.val())).expect("a bias");
            let want = convolution(&values(x.clone()), shape, &weight, &bias, patch);
            let y = embed.forward(x, None);
            assert_eq!(y.dims(), [shape[0], (shape[2] / patch) * (shape[3] / patch), width]);
            assert!(max_diff(&values(y), &want) < 1e-5);
        }
    }

    #[test]
    fn reads_a_view_as_it_reads_its_copy() {
        let (embed, x) = (layer(3, 2, 4), image([2, 3, 4, 6]).swap_dims(2, 3));
        let copy = Tensor::from_data(x.clone().into_data(), &Device::flex());
        assert_eq!(values(embed.forward(x, None)), values(embed.forward(copy, None)));
    }

    #[test]
    fn says_what_is_wrong_with_an_image() {
        let embed = layer(3, 16, 8);
        assert_eq!(embed.check([3, 32, 48]), Ok(6));
        assert_eq!(embed.check([1, 32, 48]), Err(PatchError::Channels { got: 1, want: 3 }));
        for (height, width, hint) in [(33, 48, "32 × 48"), (32, 15, "32 × 16"), (0, 16, "16 × 16")] {
            let error = embed.check([3, height, width]).unwrap_err();
            assert_eq!(error, PatchError::Size { height, width, patch: 16 });
            assert!(error.to_string().ends_with(hint), "{error}");
        }
        assert_eq!(layer(3, 0, 8).check([3, 32, 48]), Err(PatchError::NoPatch));
    }

    #[test]
    fn the_gradient_reaches_the_weight_the_bias_and_the_image() {
        let build = Build::new(&Device::flex().autodiff(), 2);
        let embed = PatchEmbed::new(&build, 2, 2, 3, Init::Xavier);
        let x = build.param("image", [1, 2, 4, 4], Init::Normal { std: 1.0 });
        let grads = embed.forward(x.val(), None).square().sum().backward();
        assert!(values(x.val().grad(&grads).expect("tracked")).iter().all(|g| *g != 0.0));
        assert!(embed.project.weight.val().grad(&grads).is_some());
        assert!(embed.project.bias.as_ref().is_some_and(|b| b.val().grad(&grads).is_some()));
    }
}
