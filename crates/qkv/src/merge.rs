//! Adapters added into the weights that they adapt, in f32: the result is an ordinary checkpoint.

use qkv_base::{Error, MOST_TEXT, Result, read_file};
use qkv_data::Batch;
use qkv_kernels::Key;
use qkv_model::families::{Config, HeadKind, named};
use qkv_model::spec::{Input, Spec};
use qkv_model::{Pretrained, Transformer, pretrained};
use qkv_nn::Cx;
use qkv_nn::device;
use qkv_tasks::locate::{self, Located};
use qkv_train::{Trainable, adapter};
use qkv_weights::Dtype;
use std::path::{Path, PathBuf};

/// What merging did.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Merged {
    /// how far the scores of a fixed input are from those of the unmerged model
    pub merging_error: f32,
    /// how far they are from those of the model before
    pub largest_change: f32,
    /// the files that came along
    pub files: Vec<String>,
}

/// Writes `model` with `adapter` added into it to `out`, which must not exist yet, or be an empty directory.
pub fn merge(model: impl AsRef<Path>, adapter: impl AsRef<Path>, out: impl AsRef<Path>) -> Result<Merged> {
    let (located, adapter, out) = (locate::model(model.as_ref())?, adapter.as_ref(), out.as_ref());
    // Nothing here is ever written over.
    let never = |e| Error { hint: "name a new place, or remove it first".into(), ..e };
    qkv_base::must_be_free(out, false).map_err(never)?;
    let base = base(&located, adapter)?;
    let adapted = adapter::load(&base, adapter)?;
    let merged = adapted.clone().merge_lora();
    let (before, with, after) = (ask(&base.model)?, ask(&adapted)?, ask(&merged)?);
    let (merging_error, largest_change) = (farthest(&with, &after), farthest(&before, &after));
    if !merging_error.is_finite() || !largest_change.is_finite() {
        let what = "the merged network answers with numbers that are not finite; nothing was written";
        return Err(Error::new(
            adapter.display().to_string(),
            what,
            "is the adapter damaged, or its alpha far too large?",
        ));
    }
    Pretrained { model: merged, ..base }.save(out, Dtype::F32, u64::MAX)?;
    let files = pretrained::carry(located.place(), out)?.into_iter().map(str::to_string).collect();
    Ok(Merged { merging_error, largest_change, files })
}

/// The model that an adapter says it adapts: a path as it stands, or beside the adapter.
pub(crate) fn base_of(adapter: &Path) -> Result<Located> {
    let file = adapter.join("adapter_config.json");
    let fail = |what: String, hint: &str| Error::new(file.display().to_string(), what, hint);
    let bytes = read_file(&file, MOST_TEXT, "is this a directory of PEFT's?")?;
    let config: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|e| fail(format!("is not JSON: {e}"), "is it whole?"))?;
    let name = config["base_model_name_or_path"].as_str().unwrap_or_default();
    let places = [PathBuf::from(name), adapter.join(name)];
    let there = places.into_iter().find(|p| !name.is_empty() && locate::exists(p)).ok_or_else(|| {
        let what = format!("the model that it adapts, `{name}`, is not there");
        fail(what, "put the base there, or merge by hand: qkv merge BASE ADAPTER OUT")
    })?;
    locate::model(&there)
}

/// The base, with the head that the adapter brings.
pub(crate) fn base(model: &Located, adapter: &Path) -> Result<Pretrained> {
    let beside = adapter.join("config.json");
    let device = device::default();
    if !beside.exists() {
        return model.load(&device);
    }
    let theirs = Config::load(&beside)?;
    model.load_with(&device, 0, |spec: &mut Spec, config: &mut Config| {
        let sheet = named(theirs.word("model_type")?.unwrap_or_default())?;
        let wanted = (sheet.read)(&theirs, &Default::default())?;
        if HeadKind::of(&wanted.head) != HeadKind::of(&spec.head) || theirs.labels()? != config.labels()? {
            spec.head = wanted.head;
            config.set_labels(&theirs.labels()?.unwrap_or_default());
        }
        Ok(())
    })
}

/// The scores of a model for a fixed input, whatever it reads.
fn ask(model: &Transformer) -> Result<Vec<f32>> {
    let spec = model.spec();
    let key = Key::new(7, 0, 0);
    let (rows, length) = (2, spec.position.max().unwrap_or(16).min(16));
    let mut batch = Batch { rows, length, lengths: vec![length; rows], ..Batch::default() };
    match spec.input {
        Input::Tokens { vocabulary, .. } => {
            let ids =
                |place: u64| (0..(rows * length) as u64).map(move |i| key.child(place).below(i, vocabulary) as u32);
            batch.ids = ids(0).collect();
            if spec.encoder().is_some() && spec.decoder().is_some() {
                (batch.memory, batch.memory_length) = (ids(1).collect(), length);
                batch.memory_lengths = vec![length; rows];
            }
        }
        Input::Patches { image, channels, .. } => {
            batch.picture = [channels, image, image];
            batch.pixels = key.normals(rows * channels * image * image);
        }
    }
    let scores = model.forward(&batch, &mut Cx::eval())?;
    Ok(scores.into_data().try_to_vec::<f32>().unwrap_or_default())
}

/// The largest difference; not a number where any is none (`f32::max` would pass over it).
fn farthest(a: &[f32], b: &[f32]) -> f32 {
    let worse = |worst: f32, d: f32| if d.is_nan() || d > worst { d } else { worst };
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, |worst, d| if worst.is_nan() { worst } else { worse(worst, d) })
}

#[cfg(test)]
mod tests {
    use super::farthest;

    #[test]
    fn a_difference_that_is_not_a_number_is_never_small() {
        assert_eq!(farthest(&[1.0, 2.0], &[1.5, 2.0]), 0.5);
        assert!(farthest(&[f32::NAN, 2.0], &[1.5, 9.0]).is_nan());
        assert!(farthest(&[1.0, f32::NAN], &[9.0, 2.0]).is_nan());
    }
}
