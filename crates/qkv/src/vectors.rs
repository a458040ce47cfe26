//! Words as vectors, over the same corpora and files as everything else: one-hot, TF-IDF, skip-gram and CBOW
//! ([`qkv_vectors`]).
//!
//! ```
//! use qkv::vectors::{Labelled, baseline};
//! let data = Labelled::open("builtin:topics", 400, 100, &Default::default())?;
//! assert!(baseline(&data.train, &data.test)?.accuracy() > 0.8);
//! # Ok::<(), qkv::Error>(())
//! ```

pub use qkv_vectors::*;

use qkv_base::{Error, Result, Task};
use qkv_data::builtin::{Corpus as Made, Split};
use qkv_data::{Corpus, Example, readers};
use qkv_runs::corpus::Splits;
use qkv_runs::recipe::Data;
use std::collections::BTreeMap;
use std::path::Path;

/// The lines of a file, or the texts of a corpus that qkv makes itself.
pub fn lines(name: &str, seed: u64) -> Result<Box<dyn Iterator<Item = Result<String>>>> {
    if !name.starts_with("builtin:") {
        return Ok(Box::new(readers::lines(Path::new(name))?));
    }
    let corpus = Made::find(name)?;
    if corpus.task() == Task::Image {
        let hint = "choose another corpus: `qkv data make` lists them";
        return Err(Error::new(name, "holds pictures, not text", hint));
    }
    let examples = corpus.examples(seed, Split::Train).take(corpus.size(Split::Train));
    Ok(Box::new(examples.flat_map(Example::texts).map(Ok)))
}

/// Texts with their classes, to learn from and to be judged by.
pub struct Labelled {
    /// to learn from
    pub train: Vec<(String, String)>,
    /// to be judged by
    pub test: Vec<(String, String)>,
    /// combinations of words that training never shows, where the corpus has such a side
    pub compositional: Vec<(String, String)>,
    /// what was decided on the way
    pub notes: Vec<String>,
}

impl Labelled {
    /// The corpus of a classifier: a built-in one, or a table with a text and a label in each row, of which a tenth is kept
    /// apart (`test` at most); 0 examples means all there are.
    pub fn open(name: &str, examples: usize, test: usize, columns: &BTreeMap<String, String>) -> Result<Self> {
        if let Some(task) = name.starts_with("builtin:").then(|| Made::find(name)).transpose()?.map(Made::task)
            && task != Task::Classify
        {
            let what = format!("is for another task: {}", task.name());
            return Err(Error::new(name, what, "choose builtin:reviews or builtin:topics"));
        }
        let data = Data {
            corpus: name.to_string(),
            objective: Task::Classify,
            examples,
            valid: test,
            test,
            columns: columns.clone(),
            ..Data::default()
        };
        let splits = Splits::open(&data, 1)?;
        Ok(Self {
            train: rows(&*splits.train)?,
            test: rows(&*splits.test)?,
            compositional: splits.compositional.as_deref().map_or(Ok(vec![]), rows)?,
            notes: splits.notes,
        })
    }

    /// The rows of a file, all of them.
    pub fn file(path: &Path, columns: &BTreeMap<String, String>) -> Result<Vec<(String, String)>> {
        let reader = qkv_data::Reader::new(Task::Classify);
        let reader = columns.iter().try_fold(reader, |reader, (field, column)| reader.column(field, column))?;
        rows(&*reader.open(path)?.corpus)
    }
}

fn rows(corpus: &dyn Corpus) -> Result<Vec<(String, String)>> {
    let row = |example: Result<Example>| match example? {
        Example::Labelled { text, label } => Ok((text, label)),
        other => Err(Error::internal("classify", format!("a row without a label: {}", other.text()))),
    };
    corpus.examples().map(row).collect()
}
