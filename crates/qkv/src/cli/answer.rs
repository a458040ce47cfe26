//! `qkv answer`: where in a text the answer to a question stands.

use super::fail::Fail;
use super::input;
use super::terminal::{Watch, say};
use qkv_tasks::answer::{AnswerOptions, answer};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv answer MODEL --context \"Ada was born in 1815.\" --question \"When was Ada born?\"
  qkv answer MODEL --context-file page.txt --question \"…\" --top 3 --json")]
pub(crate) struct Args {
    /// A model that answers with spans; left out, the newest run
    model: Option<String>,
    /// The text to look in
    #[arg(long, value_name = "TEXT", conflicts_with = "context_file", required_unless_present = "context_file")]
    context: Option<String>,
    /// A file with the text to look in
    #[arg(long, value_name = "FILE")]
    context_file: Option<PathBuf>,
    /// The question; may be given several times
    #[arg(long, value_name = "TEXT", required = true)]
    question: Vec<String>,
    /// How many answers
    #[arg(long, value_name = "N", default_value_t = 1)]
    top: usize,
    /// The longest answer in tokens
    #[arg(long, value_name = "N", default_value_t = 30)]
    longest: usize,
    /// How many tokens two windows share; a third of a window if left out
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// Say that there is no answer where that is likelier than any part of the text (as in SQuAD 2)
    #[arg(long)]
    none: bool,
    /// One line of JSON for each question
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: input::LoadArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Fail> {
    let (path, rest) = input::resolve(&args.model.iter().cloned().collect::<Vec<_>>())?;
    if let Some(word) = rest.first() {
        return Err(Fail::usage(format!("{word}: there is no such model"), "give the path of a model directory"));
    }
    let model = input::open(&path, args.load)?;
    let context = match (&args.context, &args.context_file) {
        (Some(text), _) => text.clone(),
        (None, Some(file)) => input::lines(file)?.join("\n"),
        (None, None) => return Err(Fail::usage("there is no text to look in", "give --context or --context-file")),
    };
    let Args { top, longest, stride, none, .. } = *args;
    let ask = AnswerOptions { top, longest, stride, none, ..AnswerOptions::default() };
    for question in &args.question {
        let found = answer(&model, question, &context, ask, &mut Watch::new(2, "reading"))?;
        if args.json {
            say(json!({"question": question, "answers": found}))?;
            continue;
        }
        say(question)?;
        let words = |text: &str| if text.is_empty() { "(no answer)".to_string() } else { text.to_string() };
        found.iter().try_for_each(|f| say(format!("  {:>6.2} %  {}", 100.0 * f.score, words(&f.text))))?;
    }
    Ok(())
}
