//! The building blocks of the lectures, one small file each: idea, formula, shapes, and an example that can be checked by
//! hand. Axes: `B` batch, `T` time, `C` channels, `H` heads, `G` key heads, `D` features of a head, `V` vocabulary.

pub mod attention;
pub mod batch_norm;
pub mod cache;
pub mod cx;
pub mod device;
pub mod embedding;
pub mod feed_forward;
pub mod fixed_window;
pub mod init;
pub mod linear;
pub mod lora;
mod lora_bank;
pub mod mask;
pub mod norm;
pub mod patch;
pub mod position;
pub mod recurrent;
pub mod residual;
pub mod row_cache;
mod stored;
pub mod walk;

pub use attention::{Attention, Biased, Heads, Scale};
pub use batch_norm::BatchNorm;
pub use cache::Cache;
pub use cx::{Answers, Cx, Mode, Place, Tapped, Taps};
pub use embedding::Embedding;
pub use feed_forward::{FeedForward, Ffn};
pub use fixed_window::FixedWindow;
pub use init::{Build, Init};
pub use linear::{Linear, packed};
pub use lora::{Lora, LoraSize};
pub use lora_bank::{Adapting, LoraBank};
pub use norm::{Norm, NormKind};
pub use patch::{PatchEmbed, PatchError};
pub use recurrent::{AdditiveAttention, Gru, Lstm, Rnn};
pub use residual::Wiring;
pub use row_cache::{RowCache, RowPrefix};
pub use stored::Stored;
pub use walk::{MapParam, ParamView, map_params, walk};
