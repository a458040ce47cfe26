//! Learning. For now the two things that every training step needs: the fused AdamW update over all parameters of a
//! network ([`Optimizer`]), and the refusal of a network in which a trainable parameter gets no gradient ([`reach`]).

pub mod optim;
pub mod reach;

pub use optim::{Optimizer, Settings};
pub use reach::{Unreached, refuse_unreached};
