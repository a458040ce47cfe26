//! `qkv fill`: the words that a masked language model would put in a gap.

use super::fail::Fail;
use super::input;
use super::terminal::{Watch, say};
use qkv_tasks::fill::{fill, with_mask};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv fill MODEL \"The capital of [MASK] is Rome.\"    five candidates for each gap
  qkv fill MODEL --file gaps.txt --top 1 --json      one line of JSON for each line")]
pub(crate) struct Args {
    /// A model, then texts with the model's mask token (`[MASK]` is understood for every model)
    #[arg(value_name = "MODEL] [TEXT")]
    words: Vec<String>,
    /// A text file, one text for each line
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How many candidates
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Texts in a batch
    #[arg(long, value_name = "N", default_value_t = 32)]
    batch: usize,
    /// One line of JSON for each text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: input::LoadArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let (path, given) = input::resolve(&args.words)?;
    let model = input::open(&path, args.load)?;
    let texts = input::texts(given, args.file.as_deref())?;
    let filled = fill(&model, &texts, args.top, args.batch, &mut Watch::new(texts.len(), "filling"))?;
    for (text, gaps) in with_mask(&model, &texts)?.iter().zip(filled) {
        if args.json {
            say(json!({"text": text, "gaps": gaps}))?;
            continue;
        }
        say(text)?;
        for (i, gap) in gaps.iter().enumerate() {
            if gaps.len() > 1 {
                say(format!("  gap {}", i + 1))?;
            }
            gap.iter().try_for_each(|c| say(format!("  {:>6.2} %  {}", 100.0 * c.probability, c.text.trim())))?;
        }
    }
    Ok(())
}
