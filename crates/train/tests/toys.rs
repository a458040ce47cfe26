//! Toy learning: small networks learn to copy, to reverse and to add, and answer more than 99 % of unseen questions
//! without a single wrong token. The proof that all the parts together learn.
//!
//! Run them with `cargo test --release -p qkv-train --test toys -- --ignored --nocapture --test-threads 1`.

mod harness;

use harness::{CONTEXT, Task, VOCABULARY, learn};
use qkv_model::spec::Dropout;
use qkv_model::{Spec, presets};

/// The 2017 paper in small. Without dropout: examples never repeat, so there is nothing to learn by heart.
fn pair(width: usize) -> Spec {
    Spec { dropout: Dropout::default(), ..presets::paper(VOCABULARY, width, 2, 4, 4 * width) }
}

fn gpt2(width: usize) -> Spec {
    Spec { dropout: Dropout::default(), ..presets::gpt2(VOCABULARY, width, 2, 4, CONTEXT) }
}

fn llama(width: usize) -> Spec {
    presets::llama(VOCABULARY, width, 2, 4, 2, 4 * width, CONTEXT)
}

fn learns(task: Task, spec: Spec, steps: u64, rate: f32) {
    let outcome = learn(task, &spec, steps, rate);
    println!("{task:?}: {outcome:?}");
    assert!(outcome.right > 0.99, "{task:?}: {outcome:?}");
}

#[test]
#[ignore = "slow: learns to a target"]
fn a_pair_learns_to_copy() {
    learns(Task::Copy, pair(64), 600, 2e-3);
}

#[test]
#[ignore = "slow: learns to a target"]
fn a_decoder_learns_to_copy() {
    learns(Task::Copy, llama(64), 1000, 3e-3);
}

#[test]
#[ignore = "slow: learns to a target"]
fn a_pair_learns_to_reverse() {
    learns(Task::Reverse, pair(64), 600, 2e-3);
}

#[test]
#[ignore = "slow: learns to a target"]
fn a_decoder_learns_to_reverse() {
    learns(Task::Reverse, gpt2(64), 1000, 3e-3);
}

#[test]
#[ignore = "slow: learns to a target"]
fn a_pair_learns_to_add() {
    learns(Task::Add, pair(64), 2500, 2e-3);
}

#[test]
#[ignore = "slow: learns to a target"]
fn a_decoder_learns_to_add() {
    learns(Task::Add, gpt2(128), 1500, 2e-3);
}
