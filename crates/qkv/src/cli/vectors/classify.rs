//! `qkv vectors classify`: logistic regression on the words of a text, learnt and judged in seconds.

use crate::cli::fail::Fail;
use crate::cli::input;
use crate::cli::terminal::{say, talk};
use qkv::inspect::numbers::grouped;
use qkv::vectors::{Bag, Baseline, BaselineScores, Features, Labelled, LogisticOptions, Stored, Weighting, load};
use serde_json::json;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv vectors classify --data builtin:topics
  qkv vectors classify --data train.tsv --test test.tsv --by onehot
  qkv vectors classify --data reviews.csv --by senses.txt \"what a dull film\"")]
pub(super) struct Args {
    /// Texts to classify when it has learnt
    texts: Vec<String>,
    /// Texts with labels: a table, or builtin:NAME
    #[arg(long, value_name = "F")]
    data: String,
    /// A table to be judged by; left out, a part of --data is kept apart
    #[arg(long, value_name = "F")]
    test: Option<PathBuf>,
    /// What a text is seen as: tfidf, onehot, or a file that `qkv vectors train` made
    #[arg(long, value_name = "KIND", default_value = "tfidf")]
    by: String,
    /// Which column holds a field, where it has another name: label=stars
    #[arg(long, value_name = "FIELD=NAME")]
    column: Vec<String>,
    /// Examples to learn from, at most; 0: all
    #[arg(long, value_name = "N", default_value_t = 0)]
    examples: usize,
    /// C: how much the data count beside small weights
    #[arg(long = "c", value_name = "C", default_value_t = 1.0)]
    c: f64,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Fail> {
    let columns = input::columns(&args.column)?;
    let mut data = match &args.test {
        Some(_) if !args.data.starts_with("builtin:") => {
            let train = Labelled::file(args.data.as_ref(), &columns)?;
            Labelled { train, test: vec![], compositional: vec![], notes: vec![] }
        }
        _ => Labelled::open(&args.data, args.examples, 1000, &columns)?,
    };
    data.notes.iter().for_each(|note| talk(format_args!("note: {}: {note}", args.data)));
    if let Some(test) = &args.test {
        data.test = Labelled::file(test, &columns)?;
        data.compositional = vec![];
    }
    if args.examples > 0 {
        data.train.truncate(args.examples);
    }
    let learnt =
        Baseline::learn(&data.train, features(args, &data)?, LogisticOptions { c: args.c, ..Default::default() })?;
    if !learnt.model().converged {
        talk("note: the minimiser stopped before the gradient was as small as asked for");
    }
    let test = learnt.judge(&data.train, &data.test)?;
    let new = match data.compositional.is_empty() {
        true => None,
        false => Some(learnt.judge(&data.train, &data.compositional)?),
    };
    let answers: Vec<_> = args.texts.iter().map(|text| (text, learnt.classify(text))).collect();
    if args.json {
        return say(json!({"by": args.by, "test": test, "compositional": new, "answers": answers}));
    }
    say(format!("learnt from {} texts by {}", grouped(test.train), args.by))?;
    say(told("test", &test))?;
    new.iter().try_for_each(|scores| say(told("compositional", scores)))?;
    for (class, label) in learnt.model().labels().iter().enumerate() {
        let words: Vec<&str> = learnt.telling(class, 6).iter().map(|(word, _)| *word).collect();
        if !words.is_empty() {
            say(format!("  {label}: {}", words.join(", ")))?;
        }
    }
    answers.iter().try_for_each(|(text, classes)| {
        let said: Vec<String> = classes.iter().map(|(label, p)| format!("{label} {:.1} %", 100.0 * p)).collect();
        say(format!("{text}\n  {}", said.join(", ")))
    })
}

fn told(name: &str, scores: &BaselineScores) -> String {
    format!(
        "{name}: accuracy {:.2} % of {} texts, macro F1 {:.2} (always the most frequent class: {:.2} %)",
        100.0 * scores.accuracy(),
        grouped(scores.valid),
        100.0 * scores.scores.averages.macro_.f1,
        100.0 * scores.majority
    )
}

fn features(args: &Args, data: &Labelled) -> Result<Features, Fail> {
    let texts = || data.train.iter().map(|(text, _)| text).collect::<Vec<_>>();
    Ok(match args.by.as_str() {
        "tfidf" => Features::Bag(Bag::learn(&texts(), Weighting::TfIdf)?),
        "onehot" => Features::Bag(Bag::learn(&texts(), Weighting::OneHot)?),
        file => match load(file.as_ref())? {
            Stored::Bag(bag) => Features::Bag(bag),
            Stored::Vectors(vectors) => Features::Mean(vectors),
        },
    })
}
