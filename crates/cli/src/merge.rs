//! `qkv merge`: adapters added into the weights that they adapt, in f32; the result is an ordinary checkpoint.

use crate::fail::Fail;
use crate::say;
use qkv_base::Error;
use qkv_data::Batch;
use qkv_kernels::Key;
use qkv_model::families::{Config, Task, named};
use qkv_model::spec::{Input, Spec};
use qkv_model::{Pretrained, Transformer, pretrained};
use qkv_nn::Cx;
use qkv_nn::device;
use qkv_train::run_dir::model_of;
use qkv_train::{adapter, step};
use qkv_weights::Dtype;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv merge runs/bert runs/finetune-classify/adapter merged     an adapter that qkv learnt
  qkv merge MODEL ADAPTER merged                                one that PEFT saved
The adapter is added in f32; how far the scores of a fixed input then are from those of the unmerged model is printed.")]
pub(crate) struct Args {
    /// The model that was adapted: a directory, or a run
    model: PathBuf,
    /// The adapter: a directory with adapter_config.json
    adapter: PathBuf,
    /// Where the merged model is written
    out: PathBuf,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let model = model_of(&args.model);
    if args.out.join("config.json").exists() {
        let place = args.out.display().to_string();
        return Err(Error::new(place, "holds a model already", "choose another place").into());
    }
    let base = load(&model, &args.adapter)?;
    let adapted = adapter::load(&base, &args.adapter)?;
    let merged = adapted.clone().merge_lora();
    let (before, with, after) = (ask(&base.model)?, ask(&adapted)?, ask(&merged)?);
    let (apart, changed) = (farthest(&with, &after), farthest(&before, &after));
    Pretrained { model: merged, ..base }.save(&args.out, Dtype::F32, u64::MAX)?;
    let carried = pretrained::carry(&model, &args.out)?;
    if args.json {
        let out = args.out.display().to_string();
        return say(
            serde_json::json!({"out": out, "merging_error": apart, "largest_change": changed, "files": carried}),
        );
    }
    say(format!("merged into {}", args.out.display()))?;
    say(format!("largest difference of a score to the unmerged model: {apart:.2e}; to the model before: {changed:.2e}"))
}

/// The base, with the head that the adapter brings.
fn load(model: &Path, adapter: &Path) -> Result<Pretrained, Error> {
    let beside = adapter.join("config.json");
    let device = device::default();
    if !beside.exists() {
        return Pretrained::load(model, &device);
    }
    let theirs = Config::load(&beside)?;
    Pretrained::load_with(model, &device, 0, |spec: &mut Spec, config: &mut Config| {
        let sheet = named(theirs.word("model_type")?.unwrap_or_default())?;
        let wanted = (sheet.read)(&theirs, &Default::default())?;
        if Task::of(&wanted.head) != Task::of(&spec.head) || theirs.labels()? != config.labels()? {
            spec.head = wanted.head;
            config.set_labels(&theirs.labels()?.unwrap_or_default());
        }
        Ok(())
    })
}

/// The scores of a model for a fixed input, whatever it reads.
fn ask(model: &Transformer) -> Result<Vec<f32>, Error> {
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
    let scores = step::logits(model, &batch, &mut Cx::eval())?;
    Ok(scores.into_data().try_to_vec::<f32>().unwrap_or_default())
}

fn farthest(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
