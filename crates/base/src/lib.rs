//! What every room shares and needs no tensor for: errors that speak to the person, randomness as a function, and the
//! nearest name to a mistyped one.

mod error;
pub mod format;
mod names;
pub mod random;

pub use error::{Error, Result};
pub use names::nearest;
pub use random::Key;
