//! Which weights are looked at: those of each checkpoint of a run, or the same ones with gradients.

use crate::cli::fail::Fail;
use qkv_base::Error;
use qkv_tasks::TextModel;
use std::path::{Path, PathBuf};

/// The checkpoints of a run, all or those of the steps that are named.
pub(super) fn stages(run: &Path, steps: &str) -> Result<Vec<(u64, PathBuf)>, Fail> {
    let parse = |step: &str| {
        let wrong = || Fail::usage(format!("--through {steps}: `{step}` is no step"), "write --through 200,400,800");
        step.trim().parse::<u64>().map_err(|_| wrong())
    };
    let steps: Vec<u64> = steps.split(',').filter(|s| !s.is_empty()).map(parse).collect::<Result<_, _>>()?;
    Ok(qkv_tasks::locate::checkpoints(run, &steps)?)
}

/// The same model, loaded so that gradients can be had.
pub(super) fn tracked(path: &Path) -> Result<TextModel, Error> {
    if path.join("adapter_config.json").exists() && !path.join("model.safetensors").exists() {
        let hint = "merge it first: qkv merge MODEL ADAPTER OUT";
        return Err(Error::new(
            path.display().to_string(),
            "gradients through an adapter beside its base are not taken",
            hint,
        ));
    }
    TextModel::load_on(path, &qkv_nn::device::trainable("cpu")?)
}
