//! `qkv tag`: a label for each word, and the entities that labels in BIO form make.

use super::fail::Fail;
use super::input;
use super::terminal::{Watch, say};
use qkv_tasks::tag::{entities, words};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv tag MODEL \"Ada Lovelace lived in London\"     entities with their places and scores
  qkv tag MODEL --file lines.txt --words --json    every word with its label")]
pub(crate) struct Args {
    /// A model, then the texts; without a model the newest run
    #[arg(value_name = "MODEL] [TEXT")]
    words: Vec<String>,
    /// A text file, one text for each line
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Every word with its label, not only entities
    #[arg(long = "words")]
    all: bool,
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
    let watch = &mut Watch::new(texts.len(), "tagging");
    let (found, name) = match args.all {
        true => (words(&model, &texts, args.batch, watch)?, "words"),
        false => (entities(&model, &texts, args.batch, watch)?, "entities"),
    };
    for (text, spans) in texts.iter().zip(found) {
        if args.json {
            say(json!({"text": text, name: spans}))?;
            continue;
        }
        say(text)?;
        spans.iter().try_for_each(|w| say(format!("  {:<12} {:>6.2} %  {}", w.label, 100.0 * w.score, w.text)))?;
    }
    Ok(())
}
