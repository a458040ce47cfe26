//! Learning: from a recipe to a network that was judged.
//!
//! recipe → [`Plan`] (corpus, tokenizer, objective, network) → [`Job`] → [`Run`] (the loop, its checkpoints, its
//! observers) → [`Judge`](score::Judge) → a model directory and a report.
//!
//! The loop knows a network as [`Trainable`]: a forward pass over a batch, and parameters by name. A network of one's own,
//! with a loader and a schedule, is a [`Job`] like any other.

pub mod adapter;
pub mod average;
pub mod checkpoint;
pub mod corpus;
pub mod export;
pub mod freeze;
pub mod guard;
pub mod hooks;
pub mod memory;
pub mod observe;
pub mod plan;
pub mod recipe;
pub mod run;
pub mod run_dir;
pub mod schedule;
pub mod score;
pub mod search;
pub mod session;
pub mod step;
mod threads;
pub mod trainable;
pub mod trial;

pub use hooks::{Hooks, PlanHooks};
pub use plan::Plan;
pub use qkv_optim::{self as optim, Groups, Optimizer, Rule, Settings, Unreached, reach, refuse_unreached};
pub use recipe::Recipe;
pub use run::{Ended, Job, Run, RunSettings};
pub use schedule::{Curve, Schedule};
pub use threads::on_threads;
pub use trainable::Trainable;
