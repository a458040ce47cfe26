//! A run that learns from shards: texts that were made into tokens before (`qkv data shard`). The sides are rows that a key
//! draws from all shards; the tokenizer is the one that made them.

use crate::corpus::{Splits, reader};
use crate::recipe::Data;
use qkv_base::{Error, Result, Task};
use qkv_data::batch::Policy;
use qkv_data::shards::{DocumentStart, ShardSides, Shards};
use qkv_data::{Corpus, Loader, Objective};
use qkv_model::families::{self, TextStart};
use qkv_text::{Tokenizer, TrainSpec};
use std::path::Path;
use std::sync::Arc;

/// What a document begins with for a family, by its name.
pub fn start(family: &str) -> Result<DocumentStart> {
    Ok(match families::named(family)?.text_start {
        TextStart::Bos => DocumentStart::Bos,
        _ => DocumentStart::Nothing,
    })
}

/// A tokenizer to be learnt for a family (the plainest one that continues texts, where none is said), and what documents
/// begin with.
pub fn new_tokenizer(family: Option<&str>, vocab: usize) -> Result<(TrainSpec, DocumentStart)> {
    let family = family.unwrap_or(families::gpt2::SHEET.name);
    let sheet = families::named(family)?;
    let how = crate::tokenizer::usual(sheet, vocab).ok_or_else(|| {
        Error::new("--family", format!("a {} reads no text", sheet.name), "choose a family that reads text")
    })?;
    Ok((how, start(family)?))
}

/// The splits of a corpus of shards, as far as they are known before the network is: rows of the recipe's length.
pub(crate) fn open(data: &Data, seed: u64) -> Result<Splits> {
    let refuse = |key: &str, what: &str, hint: &str| Err(Error::new(key, what, hint));
    if data.objective != Task::NextToken {
        let what = format!("shards are for next-token prediction, not for {}", data.objective.name());
        return refuse(&data.corpus, &what, "give the text files, or choose a recipe for language models, such as gpt");
    }
    if !data.more.is_empty() {
        return refuse(
            "data.more",
            "shards are one corpus",
            "make one directory of all files: qkv data shard FILE --vocab 8000 -o DIR",
        );
    }
    if !data.columns.is_empty() {
        return refuse("data.columns", "shards have no columns", "name them when the shards are made");
    }
    let shards = Arc::new(Shards::open(Path::new(&data.corpus))?);
    let sides = sides(&shards, data, seed)?;
    Ok(Splits {
        train: sides.train,
        valid: given(&data.valid_file)?.unwrap_or(sides.valid),
        test: given(&data.test_file)?.unwrap_or(sides.test),
        compositional: None,
        labels: vec![],
        parts: vec![],
        shards: Some(shards),
        notes: vec![],
    })
}

/// A file of texts to judge by.
fn given(file: &str) -> Result<Option<Arc<dyn Corpus>>> {
    match file {
        "" => Ok(None),
        file => Ok(Some(reader(Task::NextToken, &Default::default())?.open(Path::new(file))?.corpus)),
    }
}

fn sides(shards: &Arc<Shards>, data: &Data, seed: u64) -> Result<ShardSides> {
    let wanted = |file: &str, rows: usize| if file.is_empty() { rows } else { 0 };
    let apart = [wanted(&data.valid_file, data.valid), wanted(&data.test_file, data.test)];
    ShardSides::new(shards, &shards.tokenizer()?, data.length, apart, data.examples, seed)
}

/// The tokenizer of the shards. Another one, of a checkpoint or of a recipe, would read their ids as other words.
pub(crate) fn tokenizer(shards: &Shards, other: Option<&Path>) -> Result<Tokenizer> {
    let tokenizer = shards.tokenizer()?;
    if let Some(path) = other {
        let there = qkv_tasks::tokenizer(path)?;
        if there.files()? != tokenizer.files()? {
            let what = format!("is not the tokenizer of the shards in {}", shards.dir().display());
            let hint = "make shards with it: qkv data shard FILE --tokenizer PATH -o DIR; or leave it out";
            return Err(Error::new(path.display().to_string(), what, hint));
        }
    }
    Ok(tokenizer)
}

/// What is learnt from and validated by, in rows as long as the network reads them.
pub(crate) fn loaders(
    shards: &Arc<Shards>,
    data: &Data,
    splits: &mut Splits,
    objective: &Objective,
    (shuffled, straight): (Policy, Policy),
    seed: u64,
) -> Result<(Loader, Loader)> {
    let ShardSides { train, valid, test } = sides(shards, data, seed)?;
    splits.notes.push(format!("tokenizer: that of the shards; what the recipe says of one is not read ({})", {
        let index = shards.index();
        format!("{} tokens of {} documents", index.tokens, index.documents)
    }));
    let loaders = (
        Loader::of_shards(train.clone(), objective.clone(), shuffled, seed)?,
        match data.valid_file.is_empty() {
            true => Loader::of_shards(valid.clone(), objective.clone(), straight, seed)?,
            false => Loader::new(splits.valid.clone(), objective.clone(), straight, seed)?,
        },
    );
    let (n, length) = (train.len(), data.length);
    splits.train = train;
    if data.valid_file.is_empty() {
        splits.valid = valid;
    }
    if data.test_file.is_empty() {
        splits.test = test;
    }
    let (valid, test) = (splits.valid.len(), splits.test.len());
    splits.notes.push(format!(
        "split: {n} rows of {length} tokens to learn from, {valid} to validate, {test} to test; rows that judge are drawn by \
         a key from all shards, so a long document can have rows on two sides"
    ));
    Ok(loaders)
}
