//! One Transformer, assembled from a declarative spec: BERT, GPT, LLaMA, T5, BART, Marian and ViT differ in data, not in
//! code.

pub mod adapt;
pub mod block;
pub mod count;
pub mod families;
pub mod heads;
pub mod kept;
pub mod look;
pub mod patches;
pub mod presets;
pub mod pretrained;
mod recompute;
pub mod spec;
pub mod stack;
mod start;
pub mod tokens;
pub mod transformer;

pub use pretrained::Pretrained;
pub use qkv_base::{Error, Result};
pub use spec::Spec;
pub use tokens::Tokens;
pub use transformer::{CausalLm, Encoder, Memory, Seq2Seq, Transformer};
