//! What can be wrong with a spec or an input: what, where, and what to do about it.

use thiserror::Error;

/// A network that cannot be, or an input that does not fit one. `hint` says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {what}")]
pub struct Error {
    /// where: a key of the spec, or a place in the input
    pub place: String,
    /// what is wrong there
    pub what: String,
    /// what to do
    pub hint: String,
}

impl Error {
    pub(crate) fn new(place: impl Into<String>, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into(), hint: hint.into() }
    }
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;
