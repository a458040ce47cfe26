//! safetensors: a JSON table of names, types, shapes and offsets, then the bytes.
//!
//! ```text
//! length of the table u64   {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}   the bytes
//! ```

mod read;
mod write;

pub(crate) use read::read;
pub use write::save_safetensors;

/// The key of the table that is not a tensor.
const METADATA: &str = "__metadata__";
/// The longest table that anyone reads.
const MOST_HEADER: u64 = 100_000_000;
