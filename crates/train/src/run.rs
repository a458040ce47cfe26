//! The loop: schedule → micro-batches → forward, loss, backward → clip → update → observers.
//!
//! Everything that a step depends on is the recipe, the data and the [`State`]; so a run that was broken off goes on from
//! its last checkpoint as if nothing had happened, bit for bit, at any number of threads.

use crate::average::{self, Average};
use crate::checkpoint::{Checkpoints, Loaded, Regular, State};
use crate::export;
use crate::guard::Guard;
use crate::observe::{Event, Observer, StepReport};
use crate::optim::Optimizer;
use crate::plan::Plan;
use crate::recipe::{Goal, Keep};
use crate::run_dir::RunDir;
use crate::schedule::Schedule;
use crate::score::{Judge, Judged};
use crate::step::{Skipped, StepOutcome, StepParams, learn, mean_loss};
use qkv_base::{Error, Result};
use qkv_data::{Batch, Subset};
use qkv_model::Transformer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// all steps were done
    Done,
    /// the validation loss had stopped falling
    Patience,
    /// it was asked to stop
    Asked,
}

/// A run under way.
pub struct Run<'a> {
    plan: &'a Plan,
    run_dir: &'a RunDir,
    schedule: Schedule,
    checkpoints: Checkpoints,
    model: Option<Transformer>,
    optimizer: Optimizer,
    average: Option<Average>,
    /// where it stands
    pub state: State,
}

impl<'a> Run<'a> {
    /// A run in its directory, from its start or from its last checkpoint. Returns also what is to be told about it.
    pub fn new(plan: &'a Plan, run_dir: &'a RunDir, force: bool) -> Result<(Self, Vec<String>)> {
        let Keep { every, keep, average_last } = plan.recipe.checkpoint;
        let regular = Regular { last: average_last, every, steps: plan.recipe.train.steps };
        let checkpoints = Checkpoints::open(&run_dir.at("checkpoints"), keep).with(regular);
        let keep = plan.recipe.train.average;
        let mut run = Self {
            plan,
            run_dir,
            schedule: plan.schedule(),
            model: Some(plan.pretrained.model.clone()),
            optimizer: plan.optimizer()?,
            average: (keep > 0.0).then(|| Average::new(keep)),
            state: State {
                version: env!("CARGO_PKG_VERSION").into(),
                data: plan.fingerprint.clone(),
                guard: Guard::new(plan.recipe.train.leap),
                ..State::default()
            },
            checkpoints,
        };
        let mut notes = vec![];
        if let Some(loaded) = run.checkpoints.latest()? {
            notes.extend(loaded.passed_over.iter().map(|why| format!("passed over a damaged checkpoint: {why}")));
            run.take_up(&loaded, force)?;
            notes.push(format!("going on after step {}", loaded.state.step));
        }
        Ok((run, notes))
    }

    fn take_up(&mut self, loaded: &Loaded, force: bool) -> Result<()> {
        if loaded.state.data != self.state.data && !force {
            let (before, now) = (&loaded.state.data, &self.state.data);
            let what = format!("the data are not those that the run was begun with: {before} → {now}");
            return Err(Error::new("data", what, "bring them back, or go on all the same with --force"));
        }
        let model = loaded.model(self.take())?;
        self.optimizer = loaded.optimizer(self.optimizer.clone(), &model)?;
        self.model = Some(model);
        if let Some(average) = &mut self.average {
            *average = loaded.average(average.keep)?;
        }
        let guard = loaded.state.guard.clone().with(self.state.guard.most);
        self.state = State { data: self.state.data.clone(), guard, ..loaded.state.clone() };
        Ok(())
    }

    /// The network, handed out for an update. It is there between two steps.
    fn take(&mut self) -> Transformer {
        self.model.take().unwrap_or_else(|| self.plan.pretrained.model.clone())
    }

    /// The network that is judged: the average where one is kept.
    pub fn model(&self) -> Transformer {
        let model = self.model.as_ref().unwrap_or(&self.plan.pretrained.model);
        match &self.average {
            Some(average) if !average.values.is_empty() => average.of(model),
            _ => model.clone(),
        }
    }

    /// Runs to the end, or until `stop` is set: then the step is finished and saved.
    pub fn go(&mut self, observers: &mut [&mut dyn Observer], stop: &AtomicBool) -> Result<Ended> {
        let recipe = &self.plan.recipe;
        let steps = recipe.train.steps;
        while self.state.step < steps {
            let told = self.step(observers)?;
            tell(observers, &Event::Step(told))?;
            let (step, last, asked) = (self.state.step, self.state.step == steps, stop.load(Ordering::Relaxed));
            let judged = last || due(step, recipe.eval.every);
            let better = judged && self.validate(observers)?;
            let patient = recipe.eval.patience == 0 || self.state.stale < recipe.eval.patience;
            if last || asked || better || !patient || due(step, recipe.checkpoint.every) {
                self.save(better)?;
                tell(observers, &Event::Saved { step })?;
            }
            if !last && asked {
                return Ok(Ended::Asked);
            }
            if !patient {
                return Ok(Ended::Patience);
            }
        }
        Ok(Ended::Done)
    }

    /// One step.
    fn step(&mut self, observers: &mut [&mut dyn Observer]) -> Result<StepReport> {
        let start = Instant::now();
        let train = &self.plan.recipe.train;
        let step = self.state.step + 1;
        let first = self.state.batches;
        let batches: Vec<Batch> =
            (first..first + train.accumulate as u64).map(|i| self.plan.train.batch(i)).collect::<Result<_>>()?;
        let rate = self.schedule.at(step) as f32;
        let params =
            StepParams { seed: train.seed, step, rate, smoothing: train.smoothing, recompute: train.recompute };
        let (model, done) = learn(self.take(), &mut self.optimizer, &batches, params, &mut self.state.guard)?;
        self.told(step, &done, &batches, observers)?;
        if let (Some(average), None) = (&mut self.average, &done.skipped) {
            average.take(&model, self.optimizer.steps() as u64);
        }
        self.model = Some(model);
        let took = start.elapsed().as_secs_f64();
        let state = &mut self.state;
        state.step = step;
        state.batches += batches.len() as u64;
        state.updates = self.optimizer.steps();
        state.tokens += done.tokens as u64;
        state.seconds += took;
        Ok(StepReport {
            step,
            steps: train.steps,
            loss: done.loss,
            rate,
            norm: done.norm,
            tokens: state.tokens,
            step_tokens: done.tokens as u64,
            took,
            seconds: state.seconds,
        })
    }

    /// A step that was skipped is told with its reason and its batch; the third without a number in a row ends the run.
    fn told(
        &mut self,
        step: u64,
        done: &StepOutcome,
        batches: &[Batch],
        observers: &mut [&mut dyn Observer],
    ) -> Result<()> {
        self.state.bad = if matches!(done.skipped, Some(Skipped::NonFinite { .. })) { self.state.bad + 1 } else { 0 };
        let why = match &done.skipped {
            None => return Ok(()),
            Some(Skipped::NonFinite { first }) => format!("first bad: {first}"),
            Some(Skipped::Spike { what, largest }) => format!("{what}; largest gradient: {largest}"),
        };
        let members = batches.iter().flat_map(|b| &b.members).flatten();
        let places: Vec<String> = members.take(8).map(|i| self.plan.train.items().place(*i)).collect();
        let numbers = format!("loss {}, gradient norm {}", done.loss, done.norm);
        let why = format!("{numbers}; {why}; batch: {}, …", places.join(", "));
        if self.state.bad < 3 {
            return tell(observers, &Event::Skipped { step, why });
        }
        let hint = "lower optim.rate, lengthen schedule.warmup, or set optim.clip; the last checkpoint is whole";
        Err(Error::new(format!("step {step}"), format!("three steps in a row without a number: {why}"), hint))
    }

    /// Looks at the validation side. Says whether it has never been better.
    fn validate(&mut self, observers: &mut [&mut dyn Observer]) -> Result<bool> {
        let plan = self.plan;
        let model = self.model();
        let loss = self.valid_loss(&model)?;
        let (step, value) = (self.state.step, loss as f32);
        let best = self.state.best.is_none_or(|(held, _)| value < held);
        if best {
            self.state.best = Some((value, step));
            self.state.stale = 0;
        } else {
            self.state.stale += 1;
        }
        tell(observers, &Event::Valid { step, loss, best })?;
        let judged = samples(plan, &model)?;
        tell(observers, &Event::Samples { step, judged: &judged })?;
        Ok(best)
    }

    fn valid_loss(&self, model: &Transformer) -> Result<f64> {
        let (valid, asked) = (&self.plan.valid, self.plan.recipe.eval.batches);
        let n = if asked == 0 { valid.batches(0) } else { asked.min(valid.batches(0)) };
        Ok(mean_loss(model, (0..n).map(|i| valid.batch(i)))?.0)
    }

    /// Saves where the run stands; the best so far is left as a model directory, too.
    fn save(&mut self, best: bool) -> Result<()> {
        let model = self.take();
        let saved = self.checkpoints.save(&model, &self.optimizer, self.average.as_ref(), &self.state, best);
        self.model = Some(model);
        saved?;
        if best { export::leave(self.run_dir, self.plan, &self.model()) } else { Ok(()) }
    }

    /// What the run comes to, and the step it is from: the best network, or the mean of the last checkpoints where one is
    /// asked for and its validation loss is lower.
    pub fn outcome(&mut self, observers: &mut [&mut dyn Observer]) -> Result<(Transformer, u64)> {
        let (best, step) = self.best()?;
        if self.plan.recipe.checkpoint.average_last == 0 {
            return Ok((best, step));
        }
        let members = self.checkpoints.regular()?;
        let mean = average::mean(best.clone(), &members)?;
        let (loss, held) = (self.valid_loss(&mean)?, self.state.best.map_or(f64::INFINITY, |(held, _)| held.into()));
        let steps: Vec<String> = members.iter().map(|m| m.state.step.to_string()).collect();
        let note = format!(
            "the mean of steps {}: validation loss {loss:.4}; the best alone, step {step}: {held:.4}",
            steps.join(", ")
        );
        tell(observers, &Event::Note(note))?;
        Ok(if loss < held { (mean, self.state.step) } else { (best, step) })
    }

    /// The best network of the run, and the step it is from.
    fn best(&mut self) -> Result<(Transformer, u64)> {
        match self.checkpoints.best() {
            Some(loaded) if loaded.state.step != self.state.step => {
                let model = loaded.model(self.plan.pretrained.model.clone())?;
                let model = match &self.average {
                    Some(average) => loaded.average(average.keep)?.of(&model),
                    None => model,
                };
                Ok((model, loaded.state.step))
            }
            _ => Ok((self.model(), self.state.step)),
        }
    }
}

/// What the network makes of a few examples of the validation side.
pub fn samples(plan: &Plan, model: &Transformer) -> Result<Vec<Judged>> {
    let n = plan.recipe.eval.samples.min(plan.splits.valid.len());
    if n == 0 {
        return Ok(vec![]);
    }
    let few = Subset::new(plan.splits.valid.clone(), (0..n as u32).collect());
    match plan.recipe.data.objective {
        Goal::NextToken => judge(plan, model).go_on(&few, n),
        _ => Ok(judge(plan, model).scores(&few)?.judged),
    }
}

/// What judges the network of a plan.
pub fn judge<'a>(plan: &'a Plan, model: &'a Transformer) -> Judge<'a> {
    Judge {
        model,
        objective: &plan.objective,
        goal: plan.recipe.data.objective,
        tokenizer: plan.tokenizer.as_ref(),
        labels: &plan.labels,
    }
}

fn due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}

fn tell(observers: &mut [&mut dyn Observer], event: &Event) -> Result<()> {
    observers.iter_mut().try_for_each(|o| o.see(event))
}
