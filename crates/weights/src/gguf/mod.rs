//! GGUF: metadata, a table of tensors, and their bytes, in one file (ggml's format, versions 2 and 3).
//!
//! ```text
//! "GGUF"  version u32  tensors u64  pairs u64
//! pairs × (key, type u32, value)              a text is its length in u64 and its bytes; a list its type, count, values
//! tensors × (name, rank u32, axes u64…, type u32, offset u64)                        axes innermost first
//! padding to `general.alignment`, then the bytes of each tensor, each padded likewise
//! ```

pub(crate) mod quant;
mod read;
mod write;

pub(crate) use read::read;
pub use write::save_gguf;

/// The four bytes at the front.
pub(crate) const MAGIC: &[u8; 4] = b"GGUF";
/// What tensors are aligned to unless the file says otherwise.
const ALIGNMENT: u64 = 32;
