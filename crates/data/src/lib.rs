//! From a person's file to a batch: readers, built-in corpora, objectives, batches, and the check before any training.

pub mod batch;
pub mod builtin;
mod corpus;
mod example;
pub mod objective;
pub mod readers;
pub mod tokenize;

pub use batch::{Batch, Loader};
pub use corpus::{Corpus, Examples, Subset};
pub use example::{Example, Field, Task};
pub use objective::{Objective, Sample};
pub use qkv_base::{Error, Key, Result};
pub use readers::{Format, Opened, Reader, read};
pub use tokenize::{Pieces, Role, Tokenize};
