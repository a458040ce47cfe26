//! `qkv merge`: adapters added into the weights that they adapt.

use super::fail::Fail;
use super::terminal::say;
use std::path::PathBuf;

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
    let done = qkv::merge::merge(&args.model, &args.adapter, &args.out)?;
    if args.json {
        let out = args.out.display().to_string();
        return say(serde_json::json!({
            "out": out, "merging_error": done.merging_error, "largest_change": done.largest_change, "files": done.files,
        }));
    }
    say(format!("merged into {}", args.out.display()))?;
    let (apart, changed) = (done.merging_error, done.largest_change);
    say(format!("largest difference of a score to the unmerged model: {apart:.2e}; to the model before: {changed:.2e}"))
}
