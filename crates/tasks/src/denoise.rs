//! Learning from text alone what a pair can do: T5's hidden spans and BART's noise. No verb asks for it; a network that
//! learnt it goes on to learn a task.

use crate::language;
use crate::metric::Metric;
use crate::sheet::{self, Parts, TaskSheet, Wants};
use qkv_base::{Result, Task};
use qkv_data::Objective;
use qkv_data::objective::{Denoise, SpanCorruption};

/// BART's sheet: the text before the noise.
pub const SHEET: TaskSheet = TaskSheet {
    task: Task::Denoise,
    verb: None,
    metrics: &[Metric::Loss, Metric::Perplexity, Metric::Accuracy],
    main: Metric::Loss,
    wants: Wants::Pair,
    head: sheet::own_head,
    objective: |parts| Ok(Objective::Denoise(Denoise::bart(parts.source()?, parts.pair()?, parts.length)?)),
    judge: language::judge,
    of_counts: sheet::mean,
};

/// T5's sheet: the hidden spans.
pub const SPANS: TaskSheet = TaskSheet { task: Task::SpanCorruption, objective: spans, ..SHEET };

fn spans(parts: &Parts) -> Result<Objective> {
    Ok(Objective::SpanCorruption(SpanCorruption::t5(parts.source()?, parts.pair()?, parts.length)?))
}
