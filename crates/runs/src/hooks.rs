//! What a run asks of whoever started it: examples to look at, and a place for the best network. A run needs neither; `()`
//! has none, and [`PlanHooks`] are those of a plan: samples of its task, and a directory that Hugging Face transformers loads.

use crate::export;
use crate::plan::Plan;
use crate::run_dir::RunDir;
use burn::module::Module;
use qkv_base::{Kind, Result, Task};
use qkv_data::Subset;
use qkv_model::{Pretrained, Transformer};
use qkv_tasks::{Judge, Judged, Metric, TextModel, Writing, sheet};
use std::path::Path;

/// How good a network is on the validation side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValidScore {
    /// by which metric
    pub metric: Metric,
    /// the score
    pub value: f64,
}

impl ValidScore {
    /// The same so that less is better, as of a loss.
    pub fn cost(&self) -> f32 {
        (if self.metric.is_cost() { self.value } else { -self.value }) as f32
    }
}

/// What a run asks of whoever started it.
pub trait Hooks<N> {
    /// The score that decides which network is the best; none where the validation loss does.
    fn score(&self, _network: &N) -> Result<Option<ValidScore>> {
        Ok(None)
    }

    /// What the network makes of a few examples, for people to look at after each validation.
    fn samples(&self, _network: &N) -> Result<Vec<Judged>> {
        Ok(vec![])
    }

    /// Takes the network of a checkpoint than which none before was better.
    fn keep_best(&self, _network: &N) -> Result<()> {
        Ok(())
    }
}

impl<N> Hooks<N> for () {}

/// The hooks of a plan in the directory of its run.
#[derive(Clone, Copy)]
pub struct PlanHooks<'a> {
    /// the plan
    pub plan: &'a Plan,
    /// where the best network is left
    pub run_dir: &'a RunDir,
}

/// The metric that the best network of a plan is chosen by; none: the validation loss. Metrics of texts that have to be
/// written first, BLEU for one, would take longer than the steps between two looks; and perplexity is the loss.
pub fn chosen_by(plan: &Plan) -> Result<Option<Metric>> {
    let metric = Metric::parse(&plan.recipe.eval.metric)?;
    let task = plan.recipe.data.objective;
    let reads = !sheet::of(task).writes() && !matches!(task, Task::NextToken | Task::Denoise | Task::SpanCorruption);
    Ok(Some(metric).filter(|metric| reads && *metric != Metric::Loss))
}

impl Hooks<Transformer> for PlanHooks<'_> {
    fn score(&self, network: &Transformer) -> Result<Option<ValidScore>> {
        let Some(metric) = chosen_by(self.plan)? else { return Ok(None) };
        let (model, writing) = (text_model(self.plan, network)?, Writing::greedy());
        let value = match judge(self.plan, &model, &writing).scores(&*self.plan.splits.valid) {
            // A network whose loss is not a number has no score; the guard speaks about it.
            Err(error) if error.kind == Kind::Failed => f64::NAN,
            scores => scores?.get(metric)?,
        };
        Ok(Some(ValidScore { metric, value }))
    }

    fn samples(&self, network: &Transformer) -> Result<Vec<Judged>> {
        samples(self.plan, network)
    }

    fn keep_best(&self, network: &Transformer) -> Result<()> {
        export::leave(self.run_dir, self.plan, network)
    }
}

/// What the network makes of a few examples of the validation side, written greedily: a quick look.
pub fn samples(plan: &Plan, network: &Transformer) -> Result<Vec<Judged>> {
    samples_of(plan, &text_model(plan, network)?)
}

/// The same of a network that is ready to be asked.
pub(crate) fn samples_of(plan: &Plan, model: &TextModel) -> Result<Vec<Judged>> {
    let n = plan.recipe.eval.samples.min(plan.splits.valid.len());
    if n == 0 {
        return Ok(vec![]);
    }
    let few = Subset::new(plan.splits.valid.clone(), (0..n as u32).collect());
    let writing = Writing::greedy();
    let judge = judge(plan, model, &writing);
    match plan.recipe.data.objective {
        Task::NextToken => judge.continuations(&few, n),
        // A network whose loss is not a number has nothing to show; the guard speaks about it.
        _ => match judge.scores(&few) {
            Err(error) if error.kind == Kind::Failed => Ok(vec![]),
            scores => Ok(scores?.judged),
        },
    }
}

/// The network of a plan, ready to be asked.
pub fn text_model(plan: &Plan, network: &Transformer) -> Result<TextModel> {
    text_model_within(plan, network, None)
}

/// The same, which writes no more than so many tokens.
pub(crate) fn text_model_within(plan: &Plan, network: &Transformer, most: Option<usize>) -> Result<TextModel> {
    // Without gradients: nothing is kept for a backward that never comes.
    let network = Pretrained { model: network.valid(), ..plan.pretrained.clone() };
    let mut generation = export::generation(plan, &network);
    generation.extend(most.map(|most| ("max_length".to_string(), most.into())));
    TextModel::in_training(Path::new("the network in training"), network, plan.tokenizer.clone(), &generation)
}

/// What judges the network of a plan.
pub fn judge<'a>(plan: &'a Plan, model: &'a TextModel, writing: &'a Writing) -> Judge<'a> {
    let (task, objective, labels) = (plan.recipe.data.objective, &plan.objective, &plan.labels);
    Judge { model, task, objective, labels, writing }
}
