//! Learning: from a recipe to a network that was judged.
//!
//! recipe → [`Plan`] (corpus, tokenizer, objective, network) → [`Run`] (the loop, its checkpoints, its observers) →
//! [`Judge`](score::Judge) → a model directory and a report.

pub mod adapter;
pub mod average;
pub mod checkpoint;
pub mod corpus;
pub mod export;
pub mod guard;
pub mod memory;
pub mod observe;
pub mod optim;
pub mod plan;
pub mod reach;
pub mod recipe;
pub mod run;
pub mod run_dir;
pub mod schedule;
pub mod score;
pub mod search;
pub mod session;
pub mod step;
mod threads;
pub mod trial;

pub use optim::{Groups, Optimizer, Rule, Settings};
pub use plan::Plan;
pub use reach::{Unreached, refuse_unreached};
pub use recipe::Recipe;
pub use run::{Ended, Run};
pub use schedule::{Curve, Schedule};
pub use threads::on_threads;
