//! How much memory a run will take, told before its first step; and how much can be had.

pub use qkv_base::memory::{available, peak, resident};

use crate::plan::Plan;
use qkv_base::{Error, Result, Task};
use qkv_data::Objective;
use qkv_metric::human_bytes;
use qkv_model::activation_memory;
use qkv_model::spec::Input;
use qkv_nn::walk;

/// What a run needs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// what is held already: the program, the data, the weights
    pub held: u64,
    /// gradients, the optimiser's memory and a running average of the weights
    pub beside: u64,
    /// what a pass keeps for its backward
    pub pass: u64,
}

impl Need {
    /// What the run of a plan needs at its peak. `held` is known where the system tells it.
    pub fn of(plan: &Plan) -> Result<Self> {
        let train = &plan.recipe.train;
        let rule = plan.recipe.rule()?;
        let (mut all, mut learning, mut moments) = (0, 0, 0);
        // Weights that were not made yet are made here: they are part of what is held.
        walk(&plan.pretrained.model, |p| {
            all += p.elements() as u64;
            if p.learns() {
                learning += p.elements() as u64;
                moments += rule.memory(&p.shape()).iter().map(|(_, n)| *n as u64).sum::<u64>();
            }
        });
        // A tree of sums holds one for each of its levels beside the newest gradients.
        let pieces = plan.recipe.dist.shards.div_ceil(train.accumulate) * train.accumulate;
        let sums = learning * u64::from(pieces.next_power_of_two().ilog2());
        let average = if train.average > 0.0 { all } else { 0 };
        let beside = 4 * (learning + moments + sums + average);
        // The allocator keeps freed blocks for the next step. Where all batches have one shape, they fit, but for an
        // eighth; otherwise some of other sizes wait beside them: a quarter is a margin over what was measured (a whole
        // `translate` held 193 MiB at its peak, 75 of them for a pass that is counted as 77).
        let pass = activation_memory::bytes(plan.pretrained.spec(), widest(plan), train.recompute);
        let alike = matches!(plan.recipe.data.objective, Task::NextToken | Task::Image);
        let pass = if alike { pass + pass / 8 } else { pass + pass / 4 };
        Ok(Self { held: resident().unwrap_or(0), beside, pass })
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.held + self.beside + self.pass
    }

    /// Refuses what the machine cannot give.
    pub fn ensure(&self) -> Result<()> {
        match available() {
            Some(more) if self.beside + self.pass > more => {
                let (need, more) = (human_bytes(self.beside + self.pass), human_bytes(more));
                let what = format!("the run needs about {need} more, but only {more} can be had");
                let hint = "lower train.rows or train.tokens (and raise train.accumulate instead), shorten data.length, \
                            or set train.recompute = true";
                Err(Error::new("memory", what, hint))
            }
            _ => Ok(()),
        }
    }
}

/// The most tokens that a micro-batch can have.
fn widest(plan: &Plan) -> activation_memory::BatchShape {
    let train = &plan.recipe.train;
    let lengths = plan.train.items().lengths();
    let longest = lengths.longest() as usize;
    let spec = plan.pretrained.spec();
    let longest = match spec.input {
        Input::Patches { image, patch, .. } => (image / patch.max(1)).pow(2) + 1,
        Input::Tokens { .. } => longest,
    };
    let rows = match train.tokens {
        0 => train.rows.min(lengths.len()),
        tokens => (tokens / longest.max(1)).max(1),
    };
    let tokens = (rows * longest).max(train.tokens.min(lengths.sum() as usize));
    let pair = spec.encoder().is_some() && spec.decoder().is_some();
    // Hidden tokens are told, the others are not: a share of each row, rounded, and one at least.
    let answered = match &plan.objective {
        Objective::Masked(masked) => ((tokens as f32 * masked.share) as usize + rows).min(tokens),
        _ => tokens,
    };
    activation_memory::BatchShape { rows, source: if pair { tokens } else { 0 }, target: tokens, answered }
}
