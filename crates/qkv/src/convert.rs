//! A model from one format to another. What is read is written under the same names.

mod rounding;

pub use rounding::Rounding;

use crate::raw;
use qkv_base::{Error, Result};
use qkv_model::{Precision, pretrained};
use qkv_weights::{Array, Dtype, Metadata, Value};
use std::path::Path;

/// Which format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetFormat {
    /// a directory with `config.json` and safetensors
    HuggingFace,
    /// one GGUF file
    Gguf,
}

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Convert {
    /// the format; left out, GGUF if the name ends in `.gguf`, else a directory
    pub to: Option<TargetFormat>,
    /// `f32`, `f16`; of a directory also `bf16`, `int8` and `int4`; of a GGUF file also `q8_0`
    pub dtype: String,
    /// the largest shard in bytes
    pub max_shard: u64,
    /// write over a file that is there (a directory that holds something is never written into)
    pub force: bool,
}

impl Default for Convert {
    fn default() -> Self {
        Self { to: None, dtype: "f32".into(), max_shard: 5_000_000_000, force: false }
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Converted {
    /// how many tensors
    pub tensors: usize,
    /// how many numbers
    pub parameters: u64,
    /// how many bytes
    pub bytes: u64,
    /// as what
    pub dtype: String,
    /// the files that came along
    pub carried: Vec<String>,
    /// what rounding to eight or four bits costs, on sentences that stand in the program
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounding: Option<Rounding>,
}

/// Writes the model at `src` to `dst`, which must not exist yet.
pub fn convert(src: impl AsRef<Path>, dst: impl AsRef<Path>, how: &Convert) -> Result<Converted> {
    let dst = dst.as_ref();
    let named =
        if dst.extension().is_some_and(|e| e == "gguf") { TargetFormat::Gguf } else { TargetFormat::HuggingFace };
    let to = how.to.unwrap_or(named);
    let kind = kind(&how.dtype, to)?;
    if how.max_shard == 0 {
        return Err(Error::new("--max-shard", "must not be 0", "use a number of bytes"));
    }
    qkv_base::must_be_free(dst, how.force)?;
    let model = raw::load_plain(src.as_ref())?;
    let mut carried: Vec<String> = vec![];
    match to {
        TargetFormat::HuggingFace => {
            match kind {
                Kind::Plain(dtype) => model.network.save(dst, dtype, how.max_shard)?,
                Kind::Grouped(precision) => drop(model.network.save_grouped(dst, precision, how.max_shard)?),
            }
            carried = pretrained::carry(model.dir(), dst)?.into_iter().map(str::to_string).collect();
            if carried.iter().all(|f| !f.starts_with("tokenizer") && !f.starts_with("vocab")) {
                carried.extend(write_tokenizer(&model.path, dst)?);
            }
            let beside = qkv_tasks::sentence_files::write_beside(dst, model.network.spec())?;
            carried.extend(beside.into_iter().map(str::to_string));
        }
        TargetFormat::Gguf => {
            let Kind::Plain(dtype) = kind else { unreachable!("`kind` gives a GGUF file plain types and its own") };
            model.network.save_gguf(dst, dtype, |metadata| add_vocabulary(&model.path, metadata))?;
        }
    }
    let report = &model.network.report;
    let (tensors, parameters, bytes) = (report.loaded, report.elements, size(dst));
    let rounding = match kind {
        Kind::Grouped(_) => rounding::cost(&model, &raw::load(dst)?)?,
        Kind::Plain(_) => None,
    };
    Ok(Converted { tensors, parameters, bytes, dtype: kind.name(), carried, rounding })
}

/// What the numbers become.
#[derive(Clone, Copy)]
enum Kind {
    Plain(Dtype),
    Grouped(Precision),
}

impl Kind {
    fn name(self) -> String {
        match self {
            Self::Plain(dtype) => dtype.name().to_string(),
            Self::Grouped(precision) => precision.to_string(),
        }
    }
}

fn kind(name: &str, to: TargetFormat) -> Result<Kind> {
    Ok(match (name.to_lowercase().as_str(), to) {
        ("f32", _) => Kind::Plain(Dtype::F32),
        ("f16", _) => Kind::Plain(Dtype::F16),
        ("bf16", TargetFormat::HuggingFace) => Kind::Plain(Dtype::BF16),
        ("int8", TargetFormat::HuggingFace) => Kind::Grouped(Precision::Int8),
        ("int4", TargetFormat::HuggingFace) => Kind::Grouped(Precision::Int4),
        ("q8_0", TargetFormat::Gguf) => Kind::Plain(Dtype::Q8_0),
        (other, _) => {
            let hint = match to {
                TargetFormat::HuggingFace => "a directory can hold f32, f16, bf16, int8 or int4",
                TargetFormat::Gguf => "a GGUF file can hold f32, f16 or q8_0",
            };
            return Err(Error::new("--dtype", format!("`{other}` cannot be written"), hint));
        }
    })
}

fn size(path: &Path) -> u64 {
    match std::fs::read_dir(path) {
        Ok(dir) => dir.filter_map(|e| e.ok()).map(|e| size(&e.path())).sum(),
        Err(_) => std::fs::metadata(path).map_or(0, |m| m.len()),
    }
}

/// The tokenizer that a GGUF file carries inside, as files. Models without one are fine.
fn write_tokenizer(src: &Path, dst: &Path) -> Result<Vec<String>> {
    let Ok(tokenizer) = qkv_tasks::tokenizer(src) else { return Ok(vec![]) };
    let files = tokenizer.files()?;
    tokenizer.save(dst)?;
    Ok(files.into_iter().map(|(name, _)| name.to_string()).collect())
}

/// A tokenizer in GGUF's words, where it can be said in them.
fn add_vocabulary(src: &Path, metadata: &mut Metadata) -> Result<()> {
    let Ok(tokenizer) = qkv_tasks::tokenizer(src) else { return Ok(()) };
    let place = src.display().to_string();
    let vocab = qkv_text::GgufVocab::of(&tokenizer, &place)?;
    let mut set = |key: &str, value: Value| metadata.set(format!("tokenizer.ggml.{key}"), value);
    set("model", Value::String(vocab.model));
    if let Some(pre) = vocab.pre {
        set("pre", Value::String(pre));
    }
    set("tokens", Value::Array(Array::String(vocab.tokens)));
    set("token_type", Value::Array(Array::I32(vocab.types)));
    if !vocab.scores.is_empty() {
        set("scores", Value::Array(Array::F32(vocab.scores)));
    }
    if !vocab.merges.is_empty() {
        set("merges", Value::Array(Array::String(vocab.merges)));
    }
    for (key, id) in [
        ("bos_token_id", vocab.bos),
        ("eos_token_id", vocab.eos),
        ("unknown_token_id", vocab.unk),
        ("padding_token_id", vocab.pad),
    ] {
        if let Some(id) = id {
            set(key, Value::U32(id));
        }
    }
    for (key, flag) in [
        ("add_bos_token", vocab.add_bos),
        ("add_eos_token", vocab.add_eos),
        ("add_space_prefix", vocab.add_space_prefix),
    ] {
        if let Some(flag) = flag {
            set(key, Value::Bool(flag));
        }
    }
    if let Some(template) = vocab.chat_template {
        metadata.set("tokenizer.chat_template", Value::String(template));
    }
    Ok(())
}
