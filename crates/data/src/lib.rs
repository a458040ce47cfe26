//! Examples from text: readers, built-in corpora, objectives, batches.

pub mod builtin;
