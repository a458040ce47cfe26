//! `qkv image`: what is in a picture.

use super::fail::Fail;
use super::input;
use super::terminal::{Watch, say};
use qkv_tasks::image::classify;
use serde_json::json;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv image MODEL cat.png                every class with its probability
  qkv image MODEL *.jpg --top 3 --json   one line of JSON for each picture")]
pub(crate) struct Args {
    /// A model, then PNG or JPEG files
    #[arg(value_name = "MODEL> <FILE", required = true)]
    words: Vec<String>,
    /// How many classes are shown, most probable first
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// One line of JSON for each picture
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: input::LoadArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let (path, files) = input::resolve(&args.words)?;
    if files.is_empty() {
        return Err(Fail::usage("there is no picture", "give PNG or JPEG files after the model"));
    }
    let model = input::open(&path, args.load)?;
    let answers = classify(&model, &files, 16, &mut Watch::new(files.len(), "looking"))?;
    for (file, labels) in files.iter().zip(answers) {
        let shown = &labels[..args.top.min(labels.len())];
        if args.json {
            say(json!({"text": file, "labels": shown}))?;
            continue;
        }
        let words: Vec<String> = shown.iter().map(|l| format!("{} {:.2} %", l.label, 100.0 * l.score)).collect();
        say(format!("{file}\n  {}", words.join("   ")))?;
    }
    Ok(())
}
