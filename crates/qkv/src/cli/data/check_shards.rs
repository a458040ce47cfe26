//! `qkv data check DIR` for a directory of shards: what is in it, whether every byte is as it was written, and how it reads.

use super::check::Args;
use crate::cli::fail::Fail;
use crate::cli::terminal::{progress, say};
use qkv::inspect::numbers::{bytes, grouped};
use qkv_data::Task;
use qkv_data::shards::{Index, Shards};
use qkv_text::Tokenizer;
use std::path::Path;

/// So many texts are shown, and so many letters of each.
const SHOWN: (usize, usize) = (3, 72);

pub(super) fn run(args: &Args) -> Result<(), Fail> {
    refuse_unread(args)?;
    let shards = Shards::open(Path::new(&args.file))?;
    let (index, tokenizer) = (shards.index(), shards.tokenizer()?);
    let bar = progress(index.shards.len(), "checksums");
    shards.verify(&mut |_| {
        bar.inc(1);
        Ok(())
    })?;
    bar.finish_and_clear();
    let first = first_texts(&shards, &tokenizer)?;
    if args.json {
        let mut value = serde_json::to_value(index).map_err(|e| Fail::failed("index", e, ""))?;
        value["whole"] = true.into();
        value["first"] = first.into();
        return say(value);
    }
    tell(index, &tokenizer, &first)
}

/// Shards were read once, when they were made: what says how to read a file says nothing here.
fn refuse_unread(args: &Args) -> Result<(), Fail> {
    if let Some(task) = &args.task
        && Task::parse(task)? != Task::NextToken
    {
        return Err(Fail::usage(format!("shards are for next-token prediction, not for {task}"), "leave out --task"));
    }
    let said = [
        ("--tokenizer", args.tokenizer.is_some()),
        ("--valid", args.valid.is_some()),
        ("--test", args.test.is_some()),
        ("--column", !args.columns.is_empty()),
        ("--format", args.format.is_some()),
        ("--header", args.header.is_some()),
        ("--skip-bad-rows", args.skip_bad_rows),
    ];
    match said.iter().find(|(_, said)| *said) {
        Some((flag, _)) => Err(Fail::usage(format!("{flag} says nothing about shards"), "leave it out")),
        None => Ok(()),
    }
}

/// The beginnings of the first documents.
fn first_texts(shards: &Shards, tokenizer: &Tokenizer) -> Result<Vec<String>, Fail> {
    let end = shards.index().tokenizer.end;
    let ids = shards.ids(0, 0, 4096)?;
    let mut texts = vec![];
    for document in ids.split(|id| *id == end).filter(|ids| !ids.is_empty()).take(SHOWN.0) {
        let text = tokenizer.decode(document, true)?.split_whitespace().collect::<Vec<_>>().join(" ");
        let short: String = text.chars().take(SHOWN.1).collect();
        texts.push(if short.len() < text.len() { format!("{short} …") } else { text });
    }
    Ok(texts)
}

fn tell(index: &Index, tokenizer: &Tokenizer, first: &[String]) -> Result<(), Fail> {
    let width = 8 * index.ids.bytes();
    let each = index.tokens as f64 / index.documents.max(1) as f64;
    let per = index.text_bytes as f64 / index.tokens.max(1) as f64;
    let named = |id: u32| tokenizer.piece(id).unwrap_or_default();
    let begin = index.tokenizer.begin.map_or("nothing".into(), |id| format!("`{}`", named(id)));
    let end = named(index.tokenizer.end);
    let files: u64 = index.sources.iter().map(|source| source.bytes).sum();
    say(format!("documents    {}", grouped(index.documents)))?;
    say(format!("tokens       {} ({each:.1} a document, {per:.2} bytes each)", grouped(index.tokens)))?;
    say(format!("text         {} from {} of files ({})", bytes(index.text_bytes), bytes(files), index.sources.len()))?;
    for (n, what) in [(index.empty, "empty"), (index.skipped, "skipped")] {
        if n > 0 {
            say(format!("{what:<12} {}", grouped(n)))?;
        }
    }
    let (pieces, kind) = (grouped(index.tokenizer.vocabulary), tokenizer.model_name());
    say(format!("vocabulary   {pieces} ({kind}); a document begins with {begin} and ends with `{end}`"))?;
    let size = bytes(index.tokens * index.ids.bytes());
    say(format!("shards       {} of {width}-bit ids, {size}; every checksum is right", index.shards.len()))?;
    say("first texts")?;
    first.iter().try_for_each(|text| say(format!("  {text}")))
}
