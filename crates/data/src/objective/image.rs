//! The class of a picture: bytes `[H, W, C]` to numbers `[C, H, W]`, `(x / 255 − mean) / std` by channel.

use super::{Aim, Dropped, Labels, Made, Sample, wrong};
use crate::{Error, Example, Result};

/// The picture objective.
#[derive(Clone, Debug, PartialEq)]
pub struct Pictures {
    /// the classes
    pub labels: Labels,
    /// what is taken off each channel, after bytes have become 0 to 1
    pub mean: Vec<f32>,
    /// what each channel is divided by
    pub std: Vec<f32>,
}

impl Pictures {
    /// ViT's numbers: 0.5 and 0.5, so that pixels lie between −1 and 1.
    ///
    /// ```
    /// use qkv_data::{Example, objective::{Labels, Made, Objective, Pictures, Prepared}};
    /// let objective = Objective::Pictures(Pictures::vit(Labels::new(["dot"]), 1));
    /// let dot = Example::Image { width: 2, height: 1, channels: 1, pixels: vec![0, 255], label: "dot".into() };
    /// let Made::Items { items, .. } = objective.prepare(&dot)? else { panic!() };
    /// let Prepared::Ready(sample) = &items[0] else { panic!() };
    /// assert_eq!((&sample.pixels[..], sample.picture), (&[-1.0, 1.0][..], [1, 1, 2]));
    /// # Ok::<(), qkv_data::Error>(())
    /// ```
    pub fn vit(labels: Labels, channels: usize) -> Self {
        Self { labels, mean: vec![0.5; channels], std: vec![0.5; channels] }
    }

    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        let Example::Image { width, height, channels, pixels, label } = example else {
            return Err(wrong(example, "image classification", "pictures"));
        };
        let Some(class) = self.labels.id(label) else { return Ok(Made::Dropped(Dropped::UnknownLabel)) };
        if pixels.len() != width * height * channels || [self.mean.len(), self.std.len()] != [*channels; 2] {
            let what = format!(
                "{} bytes of {width} × {height} × {channels}, means of {} channels",
                pixels.len(),
                self.mean.len()
            );
            return Err(Error::new("picture", what, "bring all pictures to one size and number of channels"));
        }
        let normal = |c: usize, byte: u8| (f32::from(byte) / 255.0 - self.mean[c]) / self.std[c];
        let plane = |c: usize| pixels.iter().skip(c).step_by(*channels).map(move |byte| normal(c, *byte));
        let pixels = (0..*channels).flat_map(plane).collect();
        let (target, weight) = (vec![i64::from(class)], vec![1.0]);
        let picture = [*channels, *height, *width];
        Ok(Made::one(Sample { aim: Aim::Class, target, weight, pixels, picture, ..Sample::default() }, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Prepared;
    use super::*;

    #[test]
    fn channels_become_planes() {
        let mut objective = Pictures::vit(Labels::new(["a"]), 3);
        objective.mean = vec![0.0, 0.5, 1.0];
        objective.std = vec![1.0, 0.5, 0.25];
        let pixels = vec![0, 0, 0, 255, 255, 255];
        let image = Example::Image { width: 2, height: 1, channels: 3, pixels, label: "a".into() };
        let Made::Items { items, .. } = objective.prepare(&image).unwrap() else { panic!() };
        let Prepared::Ready(sample) = &items[0] else { panic!() };
        assert_eq!(sample.pixels, [0.0, 1.0, -1.0, 1.0, -4.0, 0.0]);
        let grey = Example::Image { width: 2, height: 1, channels: 1, pixels: vec![0, 0], label: "a".into() };
        assert!(objective.prepare(&grey).is_err());
    }
}
