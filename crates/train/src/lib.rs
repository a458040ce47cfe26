//! Learning: one step and its guards.
//!
//! A network is known as [`Trainable`]: a forward pass over a batch, and parameters by name. [`step::learn`] runs the
//! micro-batches of one step forward and backward, clips and updates, alone or among several ranks ([`dist`]); [`guard`] speaks against steps that would spoil it;
//! [`Schedule`] says the rate. What is learnt, from what and for how long is the business of `runs`.

pub mod adapter;
pub mod dist;
pub mod freeze;
pub mod guard;
pub mod schedule;
pub mod step;
mod threads;
pub mod trainable;

pub use qkv_optim::{self as optim, Groups, Optimizer, Rule, Settings, Unreached, reach, refuse_unreached};
pub use schedule::{Curve, Schedule};
pub use threads::{on_threads, on_threads_of};
pub use trainable::Trainable;
