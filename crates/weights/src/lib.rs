//! Weights on disk: safetensors, pickle and GGUF in, safetensors and GGUF out.
//!
//! Whatever the format, a checkpoint is a list of named tensors with a shape, a type and bytes. [`Checkpoint::open`]
//! finds out which format it is, checks every number in the file before anything is allocated by it, and hands out
//! values; [`save_safetensors`] and [`save_gguf`] write them.
//!
//! ```
//! use qkv_weights::{Checkpoint, Dtype, Tensor, save_safetensors};
//!
//! let dir = tempfile::tempdir().unwrap();
//! save_safetensors(dir.path(), &[Tensor::values("w", [2, 2], &[1.0, 2.0, 3.0, 0.5])], Dtype::BF16, 1 << 30)?;
//!
//! let checkpoint = Checkpoint::open(dir.path())?;
//! assert_eq!(checkpoint.entries()[0].shape, [2, 2]);
//! assert_eq!(checkpoint.read_f32("w")?, [1.0, 2.0, 3.0, 0.5]);
//! # Ok::<(), qkv_base::Error>(())
//! ```

mod atomic;
mod checkpoint;
mod convert;
mod cursor;
mod dtype;
mod file;
mod finite;
mod gguf;
mod grouped;
mod json;
mod metadata;
pub mod names;
pub mod report;
mod safetensors;
mod shards;
mod tensor;
mod torch;
mod view;
mod whole;

pub use checkpoint::{Checkpoint, Entry, Format};
pub use dtype::Dtype;
pub use file::SourceFile;
pub use finite::Finiteness;
pub use gguf::save_gguf;
pub use grouped::grouped_tensors;
pub use metadata::{Array, Metadata, Value};
pub use names::{Layout, Names, Parameter, Slot};
pub use report::{LoadReport, Trouble};
pub use safetensors::save_safetensors;
pub use tensor::Tensor;
pub use whole::write_atomically;
