//! `qkv convert`: a model from one format to another.

use super::fail::Fail;
use super::terminal::{say, say_json};
use qkv::convert::{Convert, TargetFormat, convert};
use std::path::PathBuf;

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
    /// The type of the numbers: f32, f16; bf16, int8 and int4 for a directory, q8_0 for GGUF
    #[arg(long, default_value = "f32", value_name = "TYPE")]
    dtype: String,
    /// The largest shard in bytes
    #[arg(long, default_value_t = 5_000_000_000, value_name = "N")]
    max_shard: u64,
    /// Write over a GGUF file that is there
    #[arg(long)]
    force: bool,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let to = args.to.map(|to| match to {
        To::Hf => TargetFormat::HuggingFace,
        To::Gguf => TargetFormat::Gguf,
    });
    let how = Convert { to, dtype: args.dtype.clone(), max_shard: args.max_shard, force: args.force };
    let done = convert(&args.src, &args.dst, &how)?;
    if args.json {
        return say_json(&done);
    }
    let beside = if done.carried.is_empty() { String::new() } else { format!(", with {}", done.carried.join(", ")) };
    let (dst, n) = (args.dst.display(), done.tensors);
    say(format!("{dst}: {n} tensors, {} parameters as {}, {} bytes{beside}", done.parameters, done.dtype, done.bytes))?;
    done.rounding.iter().try_for_each(say)
}
