//! `qkv image`: what is in a picture.

use crate::classify::report;
use crate::fail::Fail;
use crate::model::{self, Model, softmax};
use burn::tensor::{Tensor, TensorData};
use image::imageops::FilterType;
use qkv_base::Error;
use qkv_model::Encoder;
use qkv_model::spec::{Head, Input};
use qkv_nn::Cx;
use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv image MODEL cat.png                every class with its probability
  qkv image MODEL *.jpg --top 3 --json   one line of JSON for each picture")]
pub(crate) struct Args {
    /// A model, then PNG or JPEG files
    #[arg(value_name = "MODEL> <FILE", required = true)]
    words: Vec<String>,
    /// How many classes are shown, most probable first
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// One line of JSON for each picture
    #[arg(long)]
    json: bool,
}

/// How pixels become numbers: `(x·factor − mean)/std`.
struct Scale {
    factor: f32,
    mean: Vec<f32>,
    std: Vec<f32>,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let (path, files) = model::resolve(&args.words)?;
    if files.is_empty() {
        return Err(Fail::usage("there is no picture", "give PNG or JPEG files after the model"));
    }
    let model = Model::open(&path)?;
    let (Head::Classify { labels, .. }, Input::Patches { image, channels, .. }) =
        (&model.it.spec().head, &model.it.spec().input)
    else {
        return model.needs(false, "image", "a head that classifies pictures");
    };
    let (names, scale) = (model.labels(*labels)?, Scale::of(&path, *channels)?);
    let bar = model::progress(files.len(), "looking");
    for file in &files {
        let pixels = pixels(Path::new(file), *image, *channels, &scale)?;
        let pixels =
            Tensor::<4>::from_data(TensorData::new(pixels, [1, *channels, *image, *image]), &model.it.model.device());
        let logits = model.it.model.answer_image(pixels, &mut Cx::eval())?;
        let logits: Vec<f32> = logits.into_data().try_to_vec().unwrap_or_default();
        bar.inc(1);
        report(file, &softmax(&logits), &names, Some(args.top), args.json)?;
    }
    bar.finish_and_clear();
    Ok(())
}

impl Scale {
    /// As `preprocessor_config.json` says, else mean and deviation ½.
    fn of(path: &Path, channels: usize) -> Result<Self, Fail> {
        let dir = if path.is_dir() { path.to_owned() } else { path.parent().map(PathBuf::from).unwrap_or_default() };
        let file = dir.join("preprocessor_config.json");
        let config: Value = match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|e| Fail::usage(format!("{}: is not JSON: {e}", file.display()), "is the file whole?"))?,
            Err(_) => Value::Null,
        };
        let list = |key: &str, default: f32| -> Vec<f32> {
            let said = config[key]
                .as_array()
                .map(|a| a.iter().filter_map(Value::as_f64).map(|v| v as f32).collect::<Vec<_>>());
            said.filter(|l| l.len() == channels).unwrap_or(vec![default; channels])
        };
        let factor = config["rescale_factor"].as_f64().map_or(1.0 / 255.0, |f| f as f32);
        let rescale = config["do_rescale"].as_bool().unwrap_or(true);
        let normal = config["do_normalize"].as_bool().unwrap_or(true);
        Ok(Self {
            factor: if rescale { factor } else { 1.0 },
            mean: if normal { list("image_mean", 0.5) } else { vec![0.0; channels] },
            std: if normal { list("image_std", 0.5) } else { vec![1.0; channels] },
        })
    }
}

/// A picture as `[channels, size, size]`. One that claims to be huge is refused before it is unpacked.
fn pixels(file: &Path, size: usize, channels: usize, scale: &Scale) -> Result<Vec<f32>, Fail> {
    let fail = |e: String| {
        Fail::usage(format!("{}: {e}", file.display()), "give a PNG or JPEG file of at most 16384 × 16384 pixels")
    };
    let mut reader = image::ImageReader::open(file)
        .map_err(|e| Error::read(file.display().to_string(), &e, "give a PNG or JPEG file"))?;
    let mut limits = image::Limits::default();
    (limits.max_image_width, limits.max_image_height, limits.max_alloc) = (Some(16_384), Some(16_384), Some(1 << 30));
    reader.limits(limits);
    let reader = reader.with_guessed_format().map_err(|e| fail(e.to_string()))?;
    let picture = reader.decode().map_err(|e| fail(e.to_string()))?;
    let picture = picture.resize_exact(size as u32, size as u32, FilterType::Triangle);
    let values = match channels {
        1 => picture.to_luma8().into_raw(),
        3 => picture.to_rgb8().into_raw(),
        n => return Err(fail(format!("the model reads {n} channels, not 1 or 3"))),
    };
    let at = |c: usize, i: usize| (values[i * channels + c] as f32 * scale.factor - scale.mean[c]) / scale.std[c];
    Ok((0..channels).flat_map(|c| (0..size * size).map(move |i| (c, i))).map(|(c, i)| at(c, i)).collect())
}
