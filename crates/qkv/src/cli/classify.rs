//! `qkv classify`: which class a text belongs to.

use super::fail::Fail;
use super::input;
use super::terminal::{Watch, say};
use qkv_tasks::classify::{ClassifyInput, Label, classify};
use qkv_tasks::zero_shot::{PROMPT, zero_shot};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv classify MODEL \"what a wonderful film\"     every class with its probability
  qkv classify MODEL --file reviews.txt --top 1   one answer for each line
  qkv classify MODEL --pair premise hypothesis    two texts at once
  qkv classify GPT --zero-shot good,bad --prompt \"{text} It was {label}.\" \"what a film\"
                                                  by a language model's own scores")]
pub(crate) struct Args {
    /// A model, then the texts; without a model the newest run
    #[arg(value_name = "MODEL] [TEXT")]
    words: Vec<String>,
    /// A text file, one text for each line
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The texts are pairs: first and second in turn, or parted by a tab in a file
    #[arg(long)]
    pair: bool,
    /// Ask a language model for these labels, by how probable it finds them
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',', conflicts_with_all = ["pair", "batch"])]
    zero_shot: Vec<String>,
    /// The sentence that text and label make
    #[arg(long, default_value = PROMPT, requires = "zero_shot")]
    prompt: String,
    /// How many classes are shown, most probable first; left out, all
    #[arg(long, value_name = "N")]
    top: Option<usize>,
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
    if !args.zero_shot.is_empty() {
        let mut watch = Watch::new(texts.len(), "classifying");
        let answers = zero_shot(&model, &texts, &args.zero_shot, &args.prompt, &mut watch)?;
        let told = |(text, labels): (&String, Vec<Label>)| say(report(text, &labels, args.top, args.json));
        return texts.iter().zip(answers).try_for_each(told);
    }
    let inputs = match args.pair {
        true => pairs(&texts, args.file.is_some())?,
        false => texts.into_iter().map(ClassifyInput::Text).collect(),
    };
    let answers = classify(&model, &inputs, args.batch, &mut Watch::new(inputs.len(), "classifying"))?;
    for (input, labels) in inputs.iter().zip(answers) {
        let what = match input {
            ClassifyInput::Text(text) => text.clone(),
            ClassifyInput::Pair(a, b) => format!("{a}\t{b}"),
        };
        say(report(&what, &labels, args.top, args.json))?;
    }
    Ok(())
}

/// One answer, for people or for programs.
fn report(what: &str, labels: &[Label], top: Option<usize>, as_json: bool) -> String {
    let shown = &labels[..top.unwrap_or(labels.len()).min(labels.len())];
    if as_json {
        return json!({"text": what, "labels": shown}).to_string();
    }
    let words: Vec<String> = shown.iter().map(|l| format!("{} {:.2} %", l.label, 100.0 * l.score)).collect();
    format!("{what}\n  {}", words.join("   "))
}

/// Two by two, or parted by a tab.
fn pairs(texts: &[String], from_file: bool) -> Result<Vec<ClassifyInput>, Fail> {
    if from_file || texts.iter().all(|t| t.contains('\t')) {
        let split = |(i, line): (usize, &String)| match line.split_once('\t') {
            Some((a, b)) => Ok(ClassifyInput::Pair(a.to_string(), b.to_string())),
            None => Err(Fail::usage(format!("line {} has no tab", i + 1), "write first<TAB>second")),
        };
        return texts.iter().enumerate().map(split).collect();
    }
    if texts.len() % 2 == 1 {
        return Err(Fail::usage(format!("{} texts are no pairs", texts.len()), "give first and second in turn"));
    }
    Ok(texts.chunks(2).map(|p| ClassifyInput::Pair(p[0].clone(), p[1].clone())).collect())
}
