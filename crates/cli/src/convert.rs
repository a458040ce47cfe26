//! `qkv convert`: a model from one format to another. What is read is written under the same names.

use crate::fail::Fail;
use crate::model::{self, Model};
use crate::say;
use qkv_model::pretrained;
use qkv_weights::{Array, Dtype, Metadata, Value};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, clap::ValueEnum)]
enum To {
    /// a directory with config.json and safetensors
    Hf,
    /// one GGUF file (LLaMA, GPT-2, BERT)
    Gguf,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv convert smollm2.gguf smollm2/               a GGUF file to a Hugging Face directory
  qkv convert bert/ bert-f16/ --dtype f16         half the size
  qkv convert gpt2/ gpt2.gguf --to gguf --dtype q8_0
  qkv convert old/pytorch_model.bin new/          pickled weights, read without running anything")]
pub(crate) struct Args {
    /// What to read: a directory, or a safetensors, PyTorch or GGUF file
    src: PathBuf,
    /// What to write: a directory, or a file for GGUF; it must not exist yet
    dst: PathBuf,
    /// The format; left out, GGUF if the name ends in .gguf, else a directory
    #[arg(long)]
    to: Option<To>,
    /// The type of the numbers: f32, f16, bf16, and q8_0 for GGUF
    #[arg(long, default_value = "f32", value_name = "TYPE")]
    dtype: String,
    /// The largest shard in bytes
    #[arg(long, default_value_t = 5_000_000_000, value_name = "N")]
    max_shard: u64,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let dst = &args.dst;
    let to = args.to.unwrap_or(if dst.extension().is_some_and(|e| e == "gguf") { To::Gguf } else { To::Hf });
    let dtype = match (args.dtype.to_lowercase().as_str(), to) {
        ("f32", _) => Dtype::F32,
        ("f16", _) => Dtype::F16,
        ("bf16", To::Hf) => Dtype::BF16,
        ("q8_0", To::Gguf) => Dtype::Q8_0,
        (other, _) => {
            let hint = match to {
                To::Hf => "a directory can hold f32, f16 or bf16",
                To::Gguf => "a GGUF file can hold f32, f16 or q8_0",
            };
            return Err(Fail::usage(format!("--dtype: `{other}` cannot be written"), hint));
        }
    };
    if args.max_shard == 0 {
        return Err(Fail::usage("--max-shard must not be 0", "use a number of bytes"));
    }
    let taken = dst.is_file() || std::fs::read_dir(dst).is_ok_and(|mut d| d.next().is_some());
    if taken {
        return Err(Fail::usage(format!("{} exists already", dst.display()), "name a new place, or remove it first"));
    }
    let model = Model::open(&args.src)?;
    let mut carried: Vec<String> = vec![];
    match to {
        To::Hf => {
            model.it.save(dst, dtype, args.max_shard)?;
            carried = pretrained::carry(&model.path, dst)?.into_iter().map(str::to_string).collect();
            if carried.iter().all(|f| !f.starts_with("tokenizer") && !f.starts_with("vocab")) {
                carried.extend(write_tokenizer(&model.path, dst)?);
            }
        }
        To::Gguf => model.it.save_gguf(dst, dtype, |metadata| add_vocabulary(&model.path, metadata))?,
    }
    let (n, bytes) = (model.it.report.loaded, size(dst));
    if args.json {
        let report = serde_json::json!({
            "tensors": n, "parameters": model.it.report.elements, "bytes": bytes, "dtype": dtype.name(), "carried": carried,
        });
        return say(report);
    }
    let beside = if carried.is_empty() { String::new() } else { format!(", with {}", carried.join(", ")) };
    say(format!(
        "{}: {n} tensors, {} parameters as {}, {bytes} bytes{beside}",
        dst.display(),
        model.it.report.elements,
        dtype.name()
    ))
}

fn size(path: &Path) -> u64 {
    match std::fs::read_dir(path) {
        Ok(dir) => dir.filter_map(|e| e.ok()).map(|e| size(&e.path())).sum(),
        Err(_) => std::fs::metadata(path).map_or(0, |m| m.len()),
    }
}

/// The tokenizer that a GGUF file carries inside, as files. Models without one are fine.
fn write_tokenizer(src: &Path, dst: &Path) -> Result<Vec<String>, Fail> {
    let Ok(tokenizer) = model::tokenizer(src) else { return Ok(vec![]) };
    let files = tokenizer.files()?;
    tokenizer.save(dst)?;
    Ok(files.into_iter().map(|(name, _)| name.to_string()).collect())
}

/// A tokenizer in GGUF's words, where it can be said in them.
fn add_vocabulary(src: &Path, metadata: &mut Metadata) -> Result<(), qkv_base::Error> {
    let Ok(tokenizer) = model::tokenizer(src) else { return Ok(()) };
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
