//! The rooms underneath, for who needs tensors: burn appears in these names, and they move faster than the front door.

use qkv_base::{Error, Result};
use qkv_model::Precision;
use qkv_tasks::TextModel;
use std::path::Path;

pub use burn;
pub use {qkv_base as base, qkv_data as data, qkv_decode as decode, qkv_kernels as kernels, qkv_metric as metric};
pub use {qkv_insight as insight, qkv_report as report, qkv_runs as runs, qkv_weights as weights};
pub use {qkv_model as networks, qkv_nn as nn, qkv_tasks as tasks, qkv_text as text, qkv_train as train};

/// Loads what [`Model::load`](crate::Model::load) loads, as the network and everything beside it.
pub fn load(path: &Path) -> Result<TextModel> {
    load_packed(path, Precision::Stored)
}

/// The same with matrices of another precision. An adapter is put around its base in f32.
pub fn load_packed(path: &Path, precision: Precision) -> Result<TextModel> {
    if !is_adapter(path) {
        return TextModel::load_packed(path, precision);
    }
    if !matches!(precision, Precision::Stored | Precision::F32) {
        let what = format!("an adapter is put around its base in f32, not in {precision}");
        return Err(Error::new(path.display().to_string(), what, "merge the two first: qkv merge MODEL ADAPTER OUT"));
    }
    load_plain(path)
}

/// The same with every parameter as f32, to be written or changed.
pub fn load_plain(path: &Path) -> Result<TextModel> {
    if !is_adapter(path) {
        return TextModel::load_on(path, &qkv_nn::device::default());
    }
    let base = crate::merge::base_of(path)?;
    let mut network = crate::merge::base(&base, path)?;
    network.model = qkv_train::adapter::load(&network, path)?;
    TextModel::of(&base, network)
}

fn is_adapter(path: &Path) -> bool {
    path.join("adapter_config.json").exists() && !path.join("model.safetensors").exists()
}
