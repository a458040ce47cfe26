//! The class of a picture: bytes `[H, W, C]` to numbers `[C, H, W]`, `(x / 255 − mean) / std` by channel.

use super::{Aim, Dropped, Labels, Made, Sample, wrong};
use crate::{Error, Example, Result};
use qkv_base::{MOST_TEXT, read_file};
use serde_json::Value;
use std::path::Path;

/// How bytes become numbers: `(byte · factor − mean) / std` by channel. One for training, judging and asking.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalisation {
    /// what a byte is multiplied by, 1/255 as a rule
    pub factor: f64,
    /// what is taken off each channel
    pub mean: Vec<f32>,
    /// what each channel is divided by
    pub std: Vec<f32>,
}

impl Normalisation {
    /// ViT's numbers: 0.5 and 0.5, so that pixels lie between −1 and 1.
    pub fn vit(channels: usize) -> Self {
        Self { factor: 1.0 / 255.0, mean: vec![0.5; channels], std: vec![0.5; channels] }
    }

    /// As the `preprocessor_config.json` in `dir` says; ViT's numbers where there is none. What it asks for and is not
    /// done here is refused.
    pub fn load(dir: &Path, channels: usize) -> Result<Self> {
        let file = dir.join("preprocessor_config.json");
        let place = file.display().to_string();
        if !file.exists() {
            return Ok(Self::vit(channels));
        }
        let bytes = read_file(&file, MOST_TEXT, "may it be read?")?;
        let config: Value = serde_json::from_slice(&bytes)
            .map_err(|e| Error::new(&place, format!("is not JSON: {e}"), "is the file whole?"))?;
        Self::of(&place, &config, channels)
    }

    fn of(place: &str, config: &Value, channels: usize) -> Result<Self> {
        let wrong = |key: &str, what: String| Error::new(format!("{place}: {key}"), what, "mend or remove the file");
        let flag = |key: &str, usual: bool| match &config[key] {
            Value::Null => Ok(usual),
            Value::Bool(flag) => Ok(*flag),
            other => Err(wrong(key, format!("{other} is neither true nor false"))),
        };
        let list = |key: &str, usual: f32| match &config[key] {
            Value::Null => Ok(vec![usual; channels]),
            value => {
                let given: Vec<f64> = match value {
                    Value::Number(n) => vec![n.as_f64().unwrap_or(f64::NAN); channels],
                    Value::Array(list) => list.iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect(),
                    _ => vec![],
                };
                if given.len() != channels || given.iter().any(|n| !n.is_finite()) {
                    return Err(wrong(key, format!("{value} is not a number for each of {channels} channels")));
                }
                Ok(given.into_iter().map(|n| n as f32).collect())
            }
        };
        if flag("do_center_crop", false)? {
            return Err(wrong("do_center_crop", "pictures are brought to size, not cropped".into()));
        }
        let factor = match &config["rescale_factor"] {
            Value::Null => 1.0 / 255.0,
            value => value
                .as_f64()
                .filter(|f| f.is_finite() && *f > 0.0)
                .ok_or_else(|| wrong("rescale_factor", format!("{value} is not a number above 0")))?,
        };
        let (rescale, normal) = (flag("do_rescale", true)?, flag("do_normalize", true)?);
        let std = if normal { list("image_std", 0.5)? } else { vec![1.0; channels] };
        if std.contains(&0.0) {
            return Err(wrong("image_std", "a deviation of 0 would divide by nothing".into()));
        }
        let mean = if normal { list("image_mean", 0.5)? } else { vec![0.0; channels] };
        Ok(Self { factor: if rescale { factor } else { 1.0 }, mean, std })
    }

    /// The same as the keys of a `preprocessor_config.json`, for pictures of `size` pixels a side.
    pub fn config(&self, size: usize) -> Value {
        serde_json::json!({
            "image_processor_type": "ViTImageProcessor", "do_normalize": true, "do_rescale": true, "do_resize": true,
            "image_mean": self.mean, "image_std": self.std, "rescale_factor": self.factor,
            "size": {"height": size, "width": size},
        })
    }

    /// Bytes `[H, W, C]` → numbers `[C, H, W]`.
    pub fn apply(&self, pixels: &[u8]) -> Vec<f32> {
        let channels = self.mean.len();
        let normal = |c: usize, byte: u8| (f32::from(byte) * self.factor as f32 - self.mean[c]) / self.std[c];
        let plane = |c: usize| pixels.iter().skip(c).step_by(channels).map(move |byte| normal(c, *byte));
        (0..channels).flat_map(plane).collect()
    }
}

/// The picture objective.
#[derive(Clone, Debug, PartialEq)]
pub struct Pictures {
    /// the classes
    pub labels: Labels,
    /// how bytes become numbers
    pub scale: Normalisation,
}

impl Pictures {
    /// With ViT's numbers.
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
        Self { labels, scale: Normalisation::vit(channels) }
    }

    pub(super) fn prepare(&self, example: &Example) -> Result<Made> {
        let Example::Image { width, height, channels, pixels, label } = example else {
            return Err(wrong(example, "image classification", "pictures"));
        };
        let Some(class) = self.labels.id(label) else { return Ok(Made::Dropped(Dropped::UnknownLabel)) };
        if pixels.len() != width * height * channels || self.scale.mean.len() != *channels {
            let what = format!(
                "{} bytes of {width} × {height} × {channels}, means of {} channels",
                pixels.len(),
                self.scale.mean.len()
            );
            return Err(Error::new("picture", what, "bring all pictures to one size and number of channels"));
        }
        let pixels = self.scale.apply(pixels);
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
        objective.scale.mean = vec![0.0, 0.5, 1.0];
        objective.scale.std = vec![1.0, 0.5, 0.25];
        let pixels = vec![0, 0, 0, 255, 255, 255];
        let image = Example::Image { width: 2, height: 1, channels: 3, pixels, label: "a".into() };
        let Made::Items { items, .. } = objective.prepare(&image).unwrap() else { panic!() };
        let Prepared::Ready(sample) = &items[0] else { panic!() };
        assert_eq!(sample.pixels, [0.0, 1.0, -1.0, 1.0, -4.0, 0.0]);
        let grey = Example::Image { width: 2, height: 1, channels: 1, pixels: vec![0, 0], label: "a".into() };
        assert!(objective.prepare(&grey).is_err());
    }

    #[test]
    fn what_a_file_says_is_done_or_refused() {
        let of = |config: Value| Normalisation::of("p", &config, 1);
        assert_eq!(of(serde_json::json!({})), Ok(Normalisation::vit(1)));
        let own = of(serde_json::json!({"image_mean": [0.1], "image_std": 0.2, "rescale_factor": 0.5})).unwrap();
        assert_eq!(own, Normalisation { factor: 0.5, mean: vec![0.1], std: vec![0.2] });
        assert_eq!(of(own.config(32)), Ok(own));
        let raw = of(serde_json::json!({"do_rescale": false, "do_normalize": false})).unwrap();
        assert_eq!(raw.apply(&[0, 255]), [0.0, 255.0]);
        for (key, value) in [
            ("image_std", serde_json::json!([0])),
            ("image_std", serde_json::json!([0.5, 0.5])),
            ("image_mean", serde_json::json!("half")),
            ("do_rescale", serde_json::json!("no")),
            ("do_center_crop", serde_json::json!(true)),
            ("rescale_factor", serde_json::json!("x")),
        ] {
            assert_eq!(of(serde_json::json!({key: value})).unwrap_err().place, format!("p: {key}"));
        }
    }
}
