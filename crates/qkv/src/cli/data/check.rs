//! `qkv data check`: rows, lengths, labels, and everything that would spoil a training, before it starts.

use super::form::{FirstRow, Form, format, header};
use crate::cli::fail::Fail;
use crate::cli::input;
use crate::cli::terminal::{say, talk};
use qkv_data::builtin::{self, Split};
use qkv_data::readers::BadRows;
use qkv_data::{Against, Corpus, DataReport, Reader, Severity, Side, Task, Tokenize, check};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(clap::Args)]
#[command(after_help = "Exit code: 0 training can start, 1 it cannot, 2 the data could not be read.

Examples:
  qkv data check pairs.tsv --task translate
  qkv data check train.csv --task classify --column label=stars --valid valid.csv --test test.csv
  qkv data check train.de,train.en --task translate --tokenizer tokenizer.json --max-length 128
  qkv data check builtin:reviews                        a corpus that qkv makes, beside its other parts
  qkv data check shards                                 what shards hold: counts, checksums, first texts")]
pub(super) struct Args {
    /// A file or folder, two parallel files (train.de,train.en), builtin:NAME, or a directory of shards
    pub(super) file: String,
    /// What it is for: translate, next-token (or generate), masked, classify, classify-pair, tag, answer, image
    #[arg(long, value_name = "TASK")]
    pub(super) task: Option<String>,
    /// Count lengths in its tokens, and find what it does not know
    #[arg(long, value_name = "PATH")]
    pub(super) tokenizer: Option<PathBuf>,
    /// Tokens a row may have: what would be cut off is counted
    #[arg(long, value_name = "N", requires = "tokenizer")]
    pub(super) max_length: Option<usize>,
    /// The validation data: what of it is in the training data too, which labels are new
    #[arg(long, value_name = "FILE")]
    pub(super) valid: Option<String>,
    /// The test data, likewise
    #[arg(long, value_name = "FILE")]
    pub(super) test: Option<String>,
    /// Which column holds a field: label=stars, or by number from 1: text=3
    #[arg(long = "column", value_name = "FIELD=COLUMN")]
    pub(super) columns: Vec<String>,
    /// How the file is written; left out, by its name
    #[arg(long)]
    pub(super) format: Option<Form>,
    /// Does the first row of a table name the columns? Left out, it is found out and told
    #[arg(long)]
    pub(super) header: Option<FirstRow>,
    /// Leave rows out that cannot be read, and count them
    #[arg(long)]
    pub(super) skip_bad_rows: bool,
    /// One line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A corpus that was read or made, with its other sides.
struct Data {
    train: Arc<dyn Corpus>,
    others: Vec<(&'static str, Arc<dyn Corpus>)>,
    task: Task,
    bad_rows: usize,
    notes: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<(), Fail> {
    if args.max_length == Some(0) {
        return Err(Fail::usage("--max-length must not be 0", "use a number of tokens"));
    }
    let task = args.task.as_deref().map(Task::parse).transpose()?;
    let side = args.tokenizer.as_deref().map(input::tokenizer).transpose()?.map(|t| Side::source(&t));
    let data = if args.file.starts_with("builtin:") { made(args, task)? } else { read(args, task)? };
    let others: Vec<(&str, &dyn Corpus)> = data.others.iter().map(|(name, corpus)| (*name, &**corpus)).collect();
    let against = Against {
        tokenizer: side.as_ref().map(|side| side as &dyn Tokenize),
        max_length: args.max_length,
        others: &others,
        bad_rows: data.bad_rows,
    };
    let report = check(&*data.train, data.task, against)?;
    tell(&report, &data.notes, args.json)?;
    verdict(&report, &args.file)
}

fn tell(report: &DataReport, notes: &[String], json: bool) -> Result<(), Fail> {
    if !json {
        notes.iter().for_each(|note| talk(format_args!("note: {note}")));
        return say(report);
    }
    let mut value = serde_json::to_value(report).map_err(|e| Fail::failed("report", e, ""))?;
    value["can_train"] = report.can_train().into();
    value["notes"] = notes.into();
    say(value)
}

/// The reasons why training cannot start, if it cannot.
fn verdict(report: &DataReport, file: &str) -> Result<(), Fail> {
    let stops: Vec<_> = report.findings.iter().filter(|finding| finding.level == Severity::Stop).collect();
    let Some(first) = stops.first() else { return Ok(()) };
    let reasons: Vec<&str> = stops.iter().map(|finding| finding.what.as_str()).collect();
    Err(Fail::failed(file, format!("training cannot start: {}", reasons.join("; ")), &first.hint))
}

/// A built-in corpus beside its other parts.
fn made(args: &Args, task: Option<Task>) -> Result<Data, Fail> {
    let read = args.valid.is_some() || args.test.is_some() || args.format.is_some() || args.header.is_some();
    if read || !args.columns.is_empty() || args.skip_bad_rows {
        let what = format!("{} is made, not read, with all its parts", args.file);
        return Err(Fail::usage(what, "leave out --valid, --test, --format, --header, --column and --skip-bad-rows"));
    }
    let corpus = builtin::Corpus::find(&args.file)?;
    let task = task.unwrap_or(corpus.task());
    let side = |split: Split| -> Arc<dyn Corpus> {
        Arc::new(corpus.examples(1, split).take(corpus.size(split)).map(|e| e.for_task(task)).collect::<Vec<_>>())
    };
    let others = [Split::Valid, Split::Test, Split::Compositional].map(|split| (split.name(), side(split)));
    Ok(Data { train: side(Split::Train), others: others.into(), task, bad_rows: 0, notes: vec![] })
}

fn read(args: &Args, task: Option<Task>) -> Result<Data, Fail> {
    let Some(task) = task else {
        let names = Task::ALL.map(Task::name).join(", ");
        return Err(Fail::usage("what is the data for?", format!("say --task with one of {names}")));
    };
    let mut reader = Reader::new(task);
    for column in &args.columns {
        let Some((field, name)) = column.split_once('=') else {
            return Err(Fail::usage(format!("--column {column}: no `=`"), "write FIELD=COLUMN, such as label=stars"));
        };
        reader = reader.column(field, name)?;
    }
    reader.format = args.format.map(format);
    reader.header = header(args.header);
    reader.bad_rows = if args.skip_bad_rows { BadRows::Skip } else { BadRows::Refuse };
    let mut notes = vec![];
    let mut open = |file: &String| -> Result<(Arc<dyn Corpus>, usize), Fail> {
        let opened = reader.open(Path::new(file))?;
        notes.extend(opened.notes.iter().map(|note| format!("{file}: {note}")));
        opened.tally.first.iter().for_each(|error| talk(format_args!("warning: skipped {error}")));
        Ok((opened.corpus, opened.tally.bad))
    };
    let (train, bad_rows) = open(&args.file)?;
    let mut others = vec![];
    for (name, file) in [("valid", &args.valid), ("test", &args.test)] {
        if let Some(file) = file {
            others.push((name, open(file)?.0));
        }
    }
    Ok(Data { train, others, task, bad_rows, notes })
}
