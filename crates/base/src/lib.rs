//! What every room shares and needs no tensor for: errors that speak to the person, randomness as a function, the nearest
//! name to a mistyped one, and the one list of tasks.

pub mod budget;
mod error;
mod file;
pub mod format;
pub mod memory;
mod names;
mod plain_text;
mod quants;
pub mod random;
mod task;

pub use error::{Error, Kind, Result};
pub use file::{MOST_TEXT, must_be_free, read_file, read_text};
pub use names::nearest;
pub use plain_text::{BOM, escape_html, printable, without_bom};
pub use quants::Quants;
pub use random::Key;
pub use task::Task;
