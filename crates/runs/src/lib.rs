//! Runs: from a recipe to a network that was judged.
//!
//! recipe → [`Plan`] (corpus, tokenizer, objective, network) → [`Job`] → [`Run`] (the loop, its checkpoints, its
//! observers) → [`Judge`](qkv_tasks::Judge) → a model directory and a report. [`session`] does all of it in one call.
//!
//! A network of one's own, with a loader and a schedule, is a [`Job`] like any other.

pub mod average;
pub mod baseline;
mod beginning;
pub mod card;
pub mod checkpoint;
pub mod corpus;
pub mod cost;
pub mod evaluation;
pub mod export;
pub mod hooks;
pub mod journal;
pub mod list;
pub mod loss_mean;
pub mod memory;
pub mod movement;
mod network;
pub mod observe;
mod origin;
mod pace;
pub mod plan;
pub mod range_test;
pub mod recipe;
pub mod run;
pub mod run_dir;
pub mod session;
pub mod shards;
mod together;
mod tokenizer;

pub use evaluation::Evaluation;
pub use hooks::{Hooks, PlanHooks, ValidScore};
pub use plan::Plan;
pub use recipe::Recipe;
pub use run::{Ended, Job, Origin, Run, RunSettings};
