//! How every room says that something is wrong: where, what, and what to do about it.

use thiserror::Error;

/// A file, a spec or an input that will not do. `hint` says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {what}")]
pub struct Error {
    /// where: a file and line, a key of the spec, a place in the input
    pub place: String,
    /// what is wrong there
    pub what: String,
    /// what to do
    pub hint: String,
}

impl Error {
    /// An error at `place`, with what is wrong and what to do.
    pub fn new(place: impl Into<String>, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into(), hint: hint.into() }
    }
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;
