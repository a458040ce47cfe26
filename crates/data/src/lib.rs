//! From a person's file to a batch: readers, objectives, batches, and the check before any training.

mod corpus;
mod example;
pub mod readers;
pub mod tokenize;

pub use corpus::{Corpus, Examples, Subset};
pub use example::{Example, Field, Task};
pub use qkv_base::{Error, Key, Result};
pub use readers::{Format, Opened, Reader, read};
pub use tokenize::{Pieces, Role, Tokenize};
