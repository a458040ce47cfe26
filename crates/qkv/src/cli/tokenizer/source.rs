//! The lines that a tokenizer is learnt from: files, tables, corpora that qkv makes itself.

use super::flags::Args;
use crate::cli::fail::Fail;
use crate::cli::terminal::talk;
use qkv_data::builtin::{Corpus, Split};
use qkv_data::{Example, Reader, Task, readers};
use std::path::Path;

type Lines = Box<dyn Iterator<Item = qkv_base::Result<String>>>;

/// Everything to learn from. Every file is opened here, so a wrong name is told before the first one is read.
pub(super) fn lines(args: &Args) -> Result<impl Iterator<Item = qkv_base::Result<String>> + use<>, Fail> {
    let task = args.task.as_deref().map(Task::parse).transpose()?;
    let open = |name: &String| -> Result<Lines, Fail> {
        if name.starts_with("builtin:") {
            return made(Corpus::find(name)?, args.seed);
        }
        let Some(task) = task else {
            if table(name) {
                talk(format_args!(
                    "note: {name} is read as plain lines; --task TASK takes the texts out of its columns"
                ));
            }
            return Ok(Box::new(readers::lines(Path::new(name))?));
        };
        let opened = Reader::new(task).open(name)?;
        opened.notes.iter().for_each(|note| talk(format_args!("note: {name}: {note}")));
        let corpus = opened.corpus;
        Ok(Box::new((0..corpus.len()).flat_map(move |i| match corpus.get(i) {
            Ok(example) => example.texts().into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })))
    };
    let all = args.data.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().flatten())
}

fn made(corpus: Corpus, seed: u64) -> Result<Lines, Fail> {
    if corpus.task() == Task::Image {
        let what = format!("builtin:{} holds pictures, not text", corpus.name());
        return Err(Fail::usage(what, "choose another corpus: `qkv data make` lists them"));
    }
    let examples = corpus.examples(seed, Split::Train).take(corpus.size(Split::Train));
    Ok(Box::new(examples.flat_map(Example::texts).map(Ok)))
}

/// Would its lines hold more than text?
fn table(name: &str) -> bool {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    [".tsv", ".csv", ".jsonl", ".json", ".ndjson"].iter().any(|end| name.ends_with(end))
}
