//! One Transformer, assembled from a declarative spec: BERT, GPT, LLaMA, T5, BART, Marian and ViT differ in data, not in
//! code.

pub mod activation_memory;
pub mod adapt;
pub mod block;
pub mod count;
pub mod families;
pub mod heads;
mod init_scheme;
pub mod outputs;
pub mod patches;
pub mod precision;
pub mod presets;
pub mod pretrained;
mod recompute;
mod recurrent;
pub mod spec;
pub mod stack;
pub mod tokens;
pub mod transformer;
mod validate;

pub use precision::Precision;
pub use pretrained::Pretrained;
pub use qkv_base::{Error, Result};
pub use spec::Spec;
pub use tokens::Tokens;
pub use transformer::{CausalLm, Encoder, Memory, Seq2Seq, Transformer};
