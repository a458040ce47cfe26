//! What is looked at. Text becomes ids by the model's own tokenizer, a picture the numbers that the model reads; what does
//! not fit the model is refused here, with counts and a hint.

use burn::tensor::{Tensor, TensorData};
use qkv_base::{Error, Result};
use qkv_data::Example;
use qkv_data::readers::{Picture, read_picture};
use qkv_kernels::Ids;
use qkv_model::spec::Input;
use qkv_model::{Seq2Seq, Tokens};
use qkv_nn::Cx;
use qkv_tasks::TextModel;
use std::path::Path;

/// What a person gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// a text, or the path of a picture for a model that reads pictures
    Text(String),
    /// token ids
    Ids(Vec<u32>),
}

/// What the model is given.
#[derive(Clone, Debug)]
pub enum Given {
    /// one sequence
    Tokens {
        /// its ids
        ids: Vec<u32>,
        /// the type of each token, where a second text was given
        types: Option<Vec<u32>>,
    },
    /// a source, and what is written
    Pair {
        /// what is read
        source: Vec<u32>,
        /// what the decoder is given: the start token, then all but the last token of the target
        input: Vec<u32>,
        /// what it should say
        target: Vec<u32>,
        /// whether the model wrote the target itself
        written: bool,
    },
    /// a picture
    Picture {
        /// `[channels, size, size]`, as the model reads it
        pixels: Vec<f32>,
        /// height and width
        size: usize,
        /// colours
        channels: usize,
        /// height and width of a patch
        patch: usize,
        /// how light each pixel is, 0 to 1, row by row
        light: Vec<f32>,
    },
}

/// How many tokens the model writes by itself, where no target is given.
const WRITTEN: usize = 64;

impl Given {
    /// What `ask` is for this model; `second` is a second text (of an encoder) or the target (of a pair).
    pub fn new(model: &TextModel, ask: &Ask, second: Option<&Ask>) -> Result<Self> {
        if let Input::Patches { image, patch, channels } = model.spec().input {
            return picture(model, ask, second, image, patch, channels);
        }
        refuse_picture(ask)?;
        if model.is_pair() {
            return pair(model, ask, second);
        }
        let (ids, types) = match (ask, second) {
            (Ask::Text(first), Some(Ask::Text(second))) if model.spec().decoder().is_none() => {
                let both = model.tokenizer()?.encode_pair(first, second, true)?;
                (both.ids, Some(both.type_ids))
            }
            (_, Some(_)) => {
                let what = "a second text was given, but this model reads one";
                return Err(Error::new(place(model), what, "leave --pair out; encoders such as BERT read two texts"));
            }
            (ask, None) => (ids(model, ask)?, None),
        };
        fits(model, "the text", &ids)?;
        // A type that the model does not know is left out: RoBERTa has one type for both texts.
        let known = matches!(model.spec().input, Input::Tokens { token_types, .. } if token_types > 1);
        Ok(Self::Tokens { ids, types: types.filter(|_| known) })
    }

    /// The ids of what is read.
    pub fn ids(&self) -> &[u32] {
        match self {
            Self::Tokens { ids, .. } => ids,
            Self::Pair { source, .. } => source,
            Self::Picture { .. } => &[],
        }
    }
}

fn place(model: &TextModel) -> String {
    model.path.display().to_string()
}

fn ids(model: &TextModel, ask: &Ask) -> Result<Vec<u32>> {
    match ask {
        Ask::Text(text) => model.encode(text),
        Ask::Ids(ids) => Ok(ids.clone()),
    }
}

/// Refuses what is empty, or longer than the model can read.
fn fits(model: &TextModel, what: &str, ids: &[u32]) -> Result<()> {
    let longest = model.longest();
    if ids.is_empty() {
        return Err(Error::new(what, "has no tokens", "give some text"));
    }
    if ids.len() > longest {
        let told = format!("has {} tokens, but this model reads at most {longest}", ids.len());
        return Err(Error::new(what, told, format!("shorten it by {} tokens", ids.len() - longest)));
    }
    Ok(())
}

/// A picture given to a model that reads text.
fn refuse_picture(ask: &Ask) -> Result<()> {
    let Ask::Text(text) = ask else { return Ok(()) };
    let path = Path::new(text);
    let named = path.extension().is_some_and(|e| ["png", "jpg", "jpeg"].iter().any(|p| e.eq_ignore_ascii_case(p)));
    if named && path.is_file() {
        let hint = "give a text, or a ViT for the picture";
        return Err(Error::new(text, "is a picture, but this model reads text", hint));
    }
    Ok(())
}

fn picture(
    model: &TextModel,
    ask: &Ask,
    second: Option<&Ask>,
    size: usize,
    patch: usize,
    channels: usize,
) -> Result<Given> {
    let Ask::Text(file) = ask else {
        return Err(Error::new(
            place(model),
            "this model reads pictures, not ids",
            "give the path of a PNG or JPEG file",
        ));
    };
    if second.is_some() {
        return Err(Error::new(place(model), "this model reads one picture", "leave the second text out"));
    }
    if !Path::new(file).is_file() {
        let hint = "give the path of a PNG or JPEG file, or choose a model that reads text";
        return Err(Error::new(file, "is no picture file, and this model reads pictures", hint));
    }
    let wanted = Picture { width: size, height: size, channels };
    let Example::Image { pixels: bytes, .. } = read_picture(Path::new(file), wanted)? else {
        return Err(Error::internal("picture", "a picture file gave no picture"));
    };
    let light = bytes.chunks(channels).map(|p| p.iter().map(|b| f32::from(*b)).sum::<f32>() / (255 * channels) as f32);
    let light = light.collect();
    Ok(Given::Picture { pixels: model.normalisation(channels)?.apply(&bytes), size, channels, patch, light })
}

fn pair(model: &TextModel, ask: &Ask, second: Option<&Ask>) -> Result<Given> {
    let source = ids(model, ask)?;
    fits(model, "the source", &source)?;
    let start = model.start()?;
    let target = match second {
        Some(Ask::Text(text)) => model.tokenizer()?.encode_target(text, true)?.ids,
        Some(Ask::Ids(ids)) => ids.clone(),
        None => write(model, &source, &start)?,
    };
    fits(model, "the target", &target)?;
    let input: Vec<u32> = start.iter().chain(&target[..target.len() - 1]).copied().collect();
    fits(model, "the target with its start", &input)?;
    // A start of several tokens answers for the last of them only.
    let target = start[1..].iter().copied().chain(target).collect();
    Ok(Given::Pair { source, input, target, written: second.is_none() })
}

/// The most probable token each time, until the model ends.
fn write(model: &TextModel, source: &[u32], start: &[u32]) -> Result<Vec<u32>> {
    let network = &model.network.model;
    let memory = network.encode(&Tokens::new(Ids::one(source.to_vec())), &mut Cx::eval())?;
    let room = model.longest().saturating_sub(start.len()).clamp(1, WRITTEN);
    let mut said = start.to_vec();
    for _ in 0..room {
        let logits = network.decode(&Tokens::new(Ids::one(said.clone())), &memory, &mut Cx::eval().last())?;
        let row = super::look::numbers(logits)?;
        let best = (0..row.len()).reduce(|a, b| if row[b] > row[a] { b } else { a }).unwrap_or(0) as u32;
        said.push(best);
        if model.defaults.ends.contains(&best) {
            break;
        }
    }
    Ok(said.split_off(start.len()))
}

/// The picture as the network reads it, `[1, channels, size, size]`.
pub fn pixels(given: &[f32], channels: usize, size: usize, device: &burn::tensor::Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(given.to_vec(), [1, channels, size, size]), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn a_picture_is_read_plane_by_plane() {
        let x = pixels(&[1.0, 2.0, 3.0, 4.0], 1, 2, &Device::flex());
        assert_eq!(x.dims(), [1, 1, 2, 2]);
        assert_eq!(super::super::look::numbers(x).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn what_is_too_long_or_empty_is_refused_with_counts() {
        let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tiny/gpt2");
        let model = TextModel::load(&tiny).unwrap();
        let error = Given::new(&model, &Ask::Ids(vec![5; 70]), None).unwrap_err();
        assert!(error.what.contains("70 tokens") && error.what.contains("at most 64"), "{error:?}");
        assert!(Given::new(&model, &Ask::Ids(vec![]), None).unwrap_err().what.contains("no tokens"));
        assert!(Given::new(&model, &Ask::Ids(vec![5]), Some(&Ask::Ids(vec![6]))).unwrap_err().hint.contains("--pair"));
    }
}
