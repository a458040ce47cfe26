//! `qkv data make`: a built-in corpus as rows of text, or as pictures; what is written is what the readers read.

use super::files::{MadeForm, cannot, pictures, rows};
use crate::cli::fail::Fail;
use crate::cli::terminal::{say, talk};
use qkv::inspect::numbers::grouped;
use qkv_base::must_be_free;
use qkv_data::Task;
use qkv_data::builtin::{Corpus, Split};
use serde_json::json;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  qkv data make                                          what there is
  qkv data make builtin:en-hi --n 5                      five pairs
  qkv data make builtin:entities --split test --out test.conll
  qkv data make builtin:shapes --n 800 --out shapes/     pictures")]
pub(super) struct Args {
    /// The corpus, builtin:NAME; left out, a list of all
    corpus: Option<String>,
    /// How many examples; left out, as many as make a good corpus
    #[arg(long, value_name = "N", requires = "corpus")]
    n: Option<usize>,
    /// Which part: train, valid, test, or compositional (words that training shows only apart)
    #[arg(long, value_name = "SPLIT", default_value = "train", requires = "corpus")]
    split: String,
    /// Another seed, other examples; no seed's test examples are in any seed's training part
    #[arg(long, value_name = "S", default_value_t = 1, requires = "corpus")]
    seed: u64,
    /// How it is written; left out, by the name of --out, else tsv
    #[arg(long, requires = "corpus", conflicts_with = "json")]
    format: Option<MadeForm>,
    /// A first row with the names of the columns (tsv)
    #[arg(long, requires = "corpus")]
    header: bool,
    /// Where to: a new file, or a directory for pictures; left out, stdout
    #[arg(long, value_name = "PATH", requires = "corpus")]
    out: Option<PathBuf>,
    /// Write over the file of --out
    #[arg(long, requires = "out")]
    force: bool,
    /// JSON: the same as --format jsonl
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Fail> {
    let Some(name) = &args.corpus else { return list(args.json) };
    let corpus = Corpus::find(name)?;
    let split = Split::find(&args.split)?;
    let form = form(args, corpus)?;
    if args.header && form != MadeForm::Tsv {
        return Err(Fail::usage("--header is for tsv", "leave it out: the other formats need none"));
    }
    args.out.iter().try_for_each(|out| must_be_free(out, args.force))?;
    let n = args.n.unwrap_or(corpus.size(split));
    let examples = corpus.examples(args.seed, split).take(n);
    let written = match (form, &args.out) {
        (MadeForm::Png, Some(out)) => pictures(examples, out)?,
        (MadeForm::Png, None) => {
            return Err(Fail::usage("pictures cannot be written to stdout", "name a directory: --out DIR"));
        }
        (form, Some(out)) => {
            let file = std::fs::File::create(out).map_err(|e| cannot(out, &e))?;
            rows(examples, form, args.header, out, &mut BufWriter::new(file))?
        }
        (form, None) => {
            let out = std::io::stdout().lock();
            rows(examples, form, args.header, Path::new("stdout"), &mut BufWriter::with_capacity(1 << 16, out))?
        }
    };
    if written < n {
        let part = split.name();
        talk(format_args!("note: builtin:{} has {written} different examples for {part}, not {n}", corpus.name()));
    }
    match &args.out {
        Some(out) => say(format!("{}: {} examples", out.display(), grouped(written))),
        None => Ok(()),
    }
}

/// Every corpus: name, task, size and what it holds.
fn list(json: bool) -> Result<(), Fail> {
    for corpus in Corpus::ALL {
        let (name, task) = (format!("builtin:{}", corpus.name()), corpus.task().name());
        let sizes = Split::ALL.map(|split| corpus.size(split));
        if json {
            let sizes = Split::ALL.iter().zip(sizes).map(|(split, n)| (split.name().to_string(), n.into()));
            let sizes: serde_json::Map<String, serde_json::Value> = sizes.collect();
            say(
                json!({"name": name, "task": task, "examples": sizes, "about": corpus.about(), "labels": corpus.labels()}),
            )?;
        } else {
            say(format!("{name:<19}  {task:<10}  {:>7}  {}", grouped(sizes[0]), corpus.about()))?;
        }
    }
    Ok(())
}

/// As said, or by the name of the file; and only what the corpus can be written as.
fn form(args: &Args, corpus: Corpus) -> Result<MadeForm, Fail> {
    let extension = args.out.as_ref().map(|out| out.extension().unwrap_or_default().to_string_lossy().to_lowercase());
    let form = match (args.format, args.json, extension.as_deref()) {
        (Some(form), _, _) => form,
        (None, true, _) => MadeForm::Jsonl,
        (None, false, None | Some("tsv" | "tab" | "txt")) => MadeForm::Tsv,
        (None, false, Some("jsonl" | "ndjson")) => MadeForm::Jsonl,
        (None, false, Some("conll" | "bio")) => MadeForm::Conll,
        (None, false, Some("")) if corpus.task() == Task::Image => MadeForm::Png,
        (None, false, Some(_)) => {
            let out = args.out.as_deref().unwrap_or(Path::new("")).display();
            let what = format!("{out}: the name does not say how to write");
            return Err(Fail::usage(what, "end it in .tsv, .jsonl or .conll, or say --format"));
        }
    };
    let first = || corpus.example(args.seed, Split::Train, 0);
    match form {
        MadeForm::Conll => first().conll().map(|_| form).map_err(Fail::from),
        MadeForm::Png => first().png().map(|_| form).map_err(Fail::from),
        _ => Ok(form),
    }
}
