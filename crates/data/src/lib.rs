//! From a person's file to a batch: readers, built-in corpora, objectives, batches, and the check before any training.
//!
//! ```text
//! file ──readers──▶ Example ──objective──▶ Sample ──batch──▶ Batch      (check and split look at Examples)
//! ```
//!
//! Everything random here is a function of `(seed, epoch, index)`, so the place in the data is one counter: the batch
//! at that counter is the same bytes on any machine, at any thread count, and after a resume.
//!
//! ```
//! use qkv_data::{Example, Key, batch::{Loader, Policy, Rows}, objective::{Labels, Objective, Frame}, tokenize::Words};
//! use std::sync::Arc;
//!
//! let rows = vec![
//!     Example::labelled("a fine film", "good"),
//!     Example::labelled("a dull film", "bad"),
//! ];
//! let words = Arc::new(Words::of(rows.iter().map(|row| row.text())));
//! let labels = Labels::from_examples(&rows)?;
//! let objective = Objective::classify(words.clone(), Frame::bert(&*words)?, labels, 16);
//! let loader = Loader::new(Arc::new(rows), objective, Policy { rows: Rows::Fixed(2), ..Policy::default() }, 7)?;
//! let batch = loader.batch(0)?;
//! assert_eq!((batch.rows, batch.length), (2, 5)); // [CLS] a fine film [SEP]
//! # Ok::<(), qkv_data::Error>(())
//! ```

pub mod batch;
pub mod builtin;
mod check;
mod corpus;
mod example;
pub mod objective;
pub mod readers;
pub mod shards;
mod split;
pub mod tokenize;
mod write;

pub use batch::{Batch, Loader};
pub use check::{Against, Bucket, DataReport, Finding, Severity, check};
pub use corpus::{Corpus, Examples, Subset};
pub use example::{Example, Field, fields, takes};
pub use objective::{Objective, Sample};
pub use qkv_base::{Error, Key, Result, Task};
pub use readers::{Format, Opened, Reader, read};
pub use split::{Split, SplitIndices, overlap, split};
pub use tokenize::{Pieces, Role, Side, Tokenize};
