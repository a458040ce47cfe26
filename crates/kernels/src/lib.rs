//! Fused CPU operations on burn tensors. Each file is one operation: its formula, its plain twin in ordinary tensor
//! methods, a fused forward, and a hand-written backward. On any other backend or data type the twin runs instead.
//!
//! Axes, everywhere: `B` batch, `T` time, `C` channels, `H` heads, `D` features of a head, `V` vocabulary.

pub mod activation;
pub mod adamw;
pub mod alloc;
pub mod attention;
mod bf16;
pub mod cross_entropy;
pub mod dropout;
pub mod embedding;
pub mod fused;
pub mod gated;
pub mod head_loss;
pub mod layer_norm;
pub mod linear;
mod pack;
mod product;
pub mod random;
pub mod recurrent;
pub mod recurrent_layer;
pub mod registry;
pub mod rms_norm;
pub mod rope;
pub mod simd;
mod skinny;
pub mod softmax;
pub mod threads;
pub mod weight;

pub use activation::{Activation, activate};
pub use adamw::{AdamW, adamw};
pub use attention::{Attend, Mask, Qkv, Segment, Sight, attention, attention_with_weights};
pub use bf16::ProductPrecision;
pub use cross_entropy::{CrossEntropy, IGNORED, Reduce, cross_entropies, cross_entropy};
pub use dropout::dropout;
pub use embedding::{Ids, embedding};
pub use fused::plain;
pub use gated::gated;
pub use head_loss::head_cross_entropies;
pub use layer_norm::layer_norm;
pub use linear::{Projection, linear, linear_in};
pub use qkv_base::Key;
pub use recurrent::{gru_step, lstm_step};
pub use recurrent_layer::{RecurrentCell, recurrent_layer};
pub use rms_norm::rms_norm;
pub use rope::{Pairing, Positions, RopeTable, rope};
pub use softmax::softmax;
pub use weight::{Float, PackedProjection, Quants, Weight, packed_embedding, packed_linear};

/// Every kernel: the one list that the parity tests, the gradient checks and the benchmarks walk.
pub const ALL: &[registry::Op] = &[
    linear::OP,
    activation::OP,
    layer_norm::OP,
    softmax::OP,
    rms_norm::OP,
    gated::OP,
    rope::OP,
    dropout::OP,
    attention::OP,
    cross_entropy::OP,
    head_loss::OP,
    embedding::OP,
    adamw::OP,
    recurrent::OP,
    recurrent_layer::OP,
];
