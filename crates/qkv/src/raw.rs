//! The rooms underneath, for who needs tensors: burn appears in these names, and they move faster than the front door.

use qkv_base::Result;
use qkv_tasks::TextModel;
use std::path::Path;

pub use burn;
pub use {qkv_base as base, qkv_data as data, qkv_decode as decode, qkv_kernels as kernels, qkv_metric as metric};
pub use {qkv_insight as insight, qkv_runs as runs, qkv_weights as weights};
pub use {qkv_model as networks, qkv_nn as nn, qkv_tasks as tasks, qkv_text as text, qkv_train as train};

/// Loads what [`Model::load`](crate::Model::load) loads, as the network and everything beside it.
pub fn load(path: &Path) -> Result<TextModel> {
    let adapter = path.join("adapter_config.json").exists() && !path.join("model.safetensors").exists();
    if !adapter {
        return TextModel::load(path);
    }
    let base = crate::merge::base_of(path)?;
    let mut network = crate::merge::base(&base, path)?;
    network.model = qkv_train::adapter::load(&network, path)?;
    TextModel::of(&base, network)
}
