//! `qkv data shard`: texts of any size made into tokens once, on disk, for training without holding them in memory.

mod told;

use self::told::{bar, shown, stopped, tell};
use super::form::{FirstRow, Form, format, header};
use crate::cli::fail::Fail;
use crate::cli::input;
use crate::cli::signals::{catch_interrupts, interrupted};
use crate::cli::terminal::talk;
use qkv_data::readers::BadRows;
use qkv_data::shards::{DocumentStart, ShardSpec, TokenizerChoice, build};
use qkv_data::{Reader, Task};
use qkv_runs::shards;
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
#[command(
    after_help = "A command that was broken off, by whatever, goes on when it is given again, and comes to the same bytes.

Examples:
  qkv data shard book.txt --vocab 2000 -o shards                a tokenizer is learnt first
  qkv data shard \"texts/*.jsonl.gz\" --tokenizer tokenizer.json -o shards
  qkv data shard reviews.csv --column text=text --tokenizer MODEL -o shards
  qkv data check shards                                         what is in it, and whether it is whole
  qkv train gpt --data shards                                   and then"
)]
pub(super) struct Args {
    /// Text files, JSON lines, CSV, TSV, Parquet; plain or gzip; patterns (\"texts/*.txt\") and folders
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Where to: a new directory
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// The tokenizer: a tokenizer.json, or a directory with one, such as a model's
    #[arg(long, value_name = "PATH", conflicts_with = "vocab")]
    tokenizer: Option<PathBuf>,
    /// Learn a tokenizer of so many pieces first, from 30,000 lines drawn evenly from all
    #[arg(long, value_name = "N")]
    vocab: Option<usize>,
    /// The family that will learn from it: what a document begins with, and the kind of a new tokenizer. Left out, a
    /// document begins as the tokenizer says, and a new tokenizer is GPT-2's
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// Tokens a shard; a resumed command must say the same
    #[arg(long, value_name = "N", default_value_t = ShardSpec::SHARD_TOKENS)]
    shard_tokens: u64,
    /// Which column or key holds the text: text=body
    #[arg(long = "column", value_name = "FIELD=COLUMN")]
    columns: Vec<String>,
    /// How the files are written; left out, by their names
    #[arg(long)]
    format: Option<Form>,
    /// Does the first row of a table name the columns? Left out, it is found out and told
    #[arg(long)]
    header: Option<FirstRow>,
    /// Leave rows out that cannot be read, and count them
    #[arg(long)]
    skip_bad_rows: bool,
    /// Threads; 0: one for each core. The result does not depend on it
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// One line of JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Fail> {
    let (spec, since, bar) = (spec(args)?, Instant::now(), bar());
    catch_interrupts();
    let mut first = None;
    let built = qkv_train::on_threads(args.threads, || {
        build(&spec, &mut |making| {
            // The drawing of lines makes no tokens, and what was there before was not made now.
            if making.learning || first.is_none() {
                first = Some((Instant::now(), *making));
            }
            shown(&bar, making, first);
            if interrupted() { Err(stopped(&spec, making)) } else { Ok(()) }
        })
    })?;
    bar.finish_and_clear();
    let built = built?;
    built.notes.iter().for_each(|note| talk(format_args!("note: {note}")));
    tell(&args.out, args.json, &built, since.elapsed())
}

fn spec(args: &Args) -> Result<ShardSpec, Fail> {
    let mut reader = Reader::new(Task::NextToken);
    for (field, column) in input::columns(&args.columns)? {
        reader = reader.column(&field, &column)?;
    }
    reader.format = args.format.map(format);
    reader.header = header(args.header);
    reader.bad_rows = if args.skip_bad_rows { BadRows::Skip } else { BadRows::Refuse };
    let family = args.family.as_deref();
    let (tokenizer, start) = match (&args.tokenizer, args.vocab) {
        (Some(path), _) => {
            let start = family.map(shards::start).transpose()?.unwrap_or(DocumentStart::ByTokenizer);
            (TokenizerChoice::Given(Box::new(input::tokenizer(path)?)), start)
        }
        (None, Some(vocab)) => {
            let (how, start) = shards::new_tokenizer(family, vocab)?;
            (TokenizerChoice::Learn(how), start)
        }
        (None, None) => {
            let hint = "say --tokenizer PATH, such as that of a model; or --vocab 8000 to learn one from the files";
            return Err(Fail::usage("with which tokenizer?", hint));
        }
    };
    let files = args.files.iter().map(PathBuf::from).collect();
    Ok(ShardSpec { reader, files, tokenizer, start, shard_tokens: args.shard_tokens, out: args.out.clone() })
}
