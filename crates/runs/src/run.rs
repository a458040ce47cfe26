//! The loop: schedule → micro-batches → forward, loss, backward → clip → update → observers.
//!
//! Everything that a step depends on is the recipe, the data and the [`State`]; so a run that was broken off goes on from
//! its last checkpoint as if nothing had happened, bit for bit, at any number of threads.

pub use crate::origin::Origin;

mod ranks;

use crate::average::{self, Average};
use crate::checkpoint::{Beside, Checkpoints, Loaded, Regular, State};
use crate::hooks::{Hooks, ValidScore};
use crate::loss_mean::LossMean;
use crate::observe::{Event, Observer, StepReport};
use crate::origin::same_origin;
use crate::recipe::Recipe;
use qkv_base::{Error, Result};
use qkv_data::batch::Stream;
use qkv_data::{Batch, Loader};
use qkv_kernels::ProductPrecision;
use qkv_model::Transformer;
use qkv_optim::Optimizer;
use qkv_train::Trainable;
use qkv_train::dist::diloco::{Outer, Replica};
use qkv_train::dist::{Single, Team};
use qkv_train::guard::Guard;
use qkv_train::schedule::Schedule;
use qkv_train::step::{Exchange, Share, Skipped, StepOutcome, StepParams, learn_shared, mean_loss_shared};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What a run is made of: any network, with a loader and a schedule.
pub struct Job<N> {
    /// the network as it starts
    pub network: N,
    /// how gradients change it
    pub optimizer: Optimizer,
    /// the learning rate of every step
    pub schedule: Schedule,
    /// batches to learn from
    pub train: Arc<Loader>,
    /// batches to validate by
    pub valid: Arc<Loader>,
    /// what the data are recognised by: a run that is taken up again must find the same
    pub data: String,
    /// what else must not change under it
    pub origin: Origin,
    /// how the loop runs
    pub settings: RunSettings,
}

/// How the loop runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSettings {
    /// names all randomness
    pub seed: u64,
    /// how many steps
    pub steps: u64,
    /// micro-batches of a step
    pub accumulate: usize,
    /// steps between two lines of a log; the first and the last step have one, too
    pub log_every: u64,
    /// label smoothing
    pub smoothing: f32,
    /// run blocks again in the backward instead of keeping what they computed
    pub recompute: bool,
    /// what linear layers round the factors of their products to
    pub products: ProductPrecision,
    /// share that a running average of the weights keeps at each step; 0: none
    pub average: f32,
    /// steps whose loss or gradient lies so many deviations above the last are skipped; 0: none are
    pub spike: f64,
    /// steps between two validations; 0: only at the end
    pub validate_every: u64,
    /// batches that a validation looks at; 0: all
    pub validate_batches: u64,
    /// validations without a better loss after which the run ends; 0: never
    pub patience: u64,
    /// steps between two checkpoints; 0: only the best and the last
    pub save_every: u64,
    /// how many checkpoints are kept, the best not counted
    pub keep: usize,
    /// at the end, the mean of so many of the last checkpoints is tried against the best one; 0: none is made
    pub average_last: usize,
    /// pieces of a step at least, which ranks share out among them
    pub shards: usize,
    /// steps between two meetings of the ranks; 1: they exchange gradients at every step
    pub meet_every: u64,
    /// what a meeting comes to
    pub outer: Outer,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self::of(&Recipe::default())
    }
}

impl RunSettings {
    /// What a recipe says.
    pub fn of(recipe: &Recipe) -> Self {
        let Recipe { train, eval, checkpoint, dist, .. } = recipe;
        Self {
            seed: train.seed,
            steps: train.steps,
            accumulate: train.accumulate,
            log_every: train.log,
            smoothing: train.smoothing,
            recompute: train.recompute,
            products: train.precision,
            average: train.average,
            spike: train.leap,
            validate_every: eval.every,
            validate_batches: eval.batches,
            patience: eval.patience,
            save_every: checkpoint.every,
            keep: checkpoint.keep,
            average_last: checkpoint.average_last,
            shards: dist.shards,
            meet_every: dist.every,
            outer: Outer { rate: dist.rate, momentum: dist.momentum, wire: dist.wire() },
        }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// all steps were done
    Done,
    /// the validation had stopped getting better
    Patience,
    /// it was asked to stop
    Asked,
}

/// A run under way.
pub struct Run<'a, N = Transformer> {
    /// taken for an update, and put back after it; none after a step that failed
    network: Option<N>,
    optimizer: Optimizer,
    schedule: Schedule,
    train: Arc<Loader>,
    valid: Arc<Loader>,
    settings: RunSettings,
    hooks: &'a dyn Hooks<N>,
    checkpoints: Checkpoints,
    average: Option<Average>,
    /// who else learns this network; none: nobody
    team: Option<&'a Team<'a>>,
    /// where the ranks set out when they last met, where they do not meet at every step
    replica: Option<Replica>,
    /// where it stands
    pub state: State,
}

impl<'a, N: Trainable> Run<'a, N> {
    /// A run whose checkpoints are under `checkpoints`, from its start or from the last of them. Returns also what is to be
    /// told about it. Other data than it was begun with are refused, unless it is forced.
    pub fn new(job: Job<N>, hooks: &'a dyn Hooks<N>, checkpoints: &Path, force: bool) -> Result<(Self, Vec<String>)> {
        let Job { network, optimizer, schedule, train, valid, data, origin, settings } = job;
        let Origin { recipe, tokenizer } = origin;
        let RunSettings { steps, save_every, keep, average_last, average, spike, .. } = settings;
        let regular = Regular { last: average_last, every: save_every, steps };
        let version = env!("CARGO_PKG_VERSION").into();
        let mut run = Self {
            network: Some(network),
            optimizer,
            schedule,
            train,
            valid,
            settings,
            hooks,
            checkpoints: Checkpoints::open(checkpoints, keep).with(regular),
            average: (average > 0.0).then(|| Average::new(average)),
            team: None,
            replica: None,
            state: State { version, data, recipe, tokenizer, guard: Guard::new(spike), ..State::default() },
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
        if !force {
            same_origin(&loaded.state, &self.state)?;
        }
        let network = loaded.model(self.take()?)?;
        self.optimizer = loaded.optimizer(self.optimizer.clone(), &network)?;
        if let Some(average) = &mut self.average {
            *average = loaded.average(average.keep, &network)?;
        }
        if self.settings.meet_every > 1 {
            self.replica = loaded.velocity()?.map(|velocity| Replica::moving(&network, velocity)).transpose()?;
        }
        self.network = Some(network);
        let guard = loaded.state.guard.clone().with(self.state.guard.most);
        let State { data, recipe, tokenizer, .. } = self.state.clone();
        self.state = State { data, recipe, tokenizer, guard, ..loaded.state.clone() };
        Ok(())
    }

    /// The network, handed out for an update. It is there between two steps.
    fn take(&mut self) -> Result<N> {
        self.network.take().ok_or_else(broken)
    }

    /// The network that is judged: the average where one is kept.
    pub fn model(&self) -> Result<N> {
        let network = self.network.as_ref().ok_or_else(broken)?;
        Ok(match &self.average {
            Some(average) if !average.values.is_empty() => average.of(network),
            _ => network.clone(),
        })
    }

    /// Runs to the end, or until `stop` is set: then the step is finished and saved.
    pub fn go(&mut self, observers: &mut [&mut dyn Observer], stop: &AtomicBool) -> Result<Ended> {
        let RunSettings { steps, accumulate, validate_every, patience, save_every, meet_every, .. } = self.settings;
        let left = steps.saturating_sub(self.state.step) * accumulate as u64;
        let mut batches = self.train.stream(self.state.batches, Some(self.state.batches + left));
        let mut met = self.state.step;
        while self.state.step < steps {
            let report = self.step(&mut batches, observers)?;
            tell(observers, &Event::Step(report))?;
            let (step, last) = (self.state.step, self.state.step == steps);
            // Between two meetings every rank has a network of its own, which is neither judged nor saved.
            if !last && !step.is_multiple_of(meet_every.max(1)) {
                continue;
            }
            self.meet()?;
            let due = |every: u64| every > 0 && step / every > met / every;
            // A rank that is asked to stop takes the others with it.
            let asked = self.any(stop.load(Ordering::Relaxed))?;
            let judged = last || due(validate_every);
            let better = judged && self.validate(observers)?;
            let patient = patience == 0 || self.state.stale < patience;
            if last || asked || better || !patient || due(save_every) {
                self.save(better)?;
                tell(observers, &Event::Saved { step })?;
            }
            if !last && asked {
                return Ok(Ended::Asked);
            }
            if !patient {
                return Ok(Ended::Patience);
            }
            met = step;
        }
        Ok(Ended::Done)
    }

    /// One step.
    fn step(&mut self, batches: &mut Stream, observers: &mut [&mut dyn Observer]) -> Result<StepReport> {
        let start = Instant::now();
        let RunSettings { seed, steps, accumulate, log_every, smoothing, recompute, products, .. } = self.settings;
        let step = self.state.step + 1;
        let batches: Vec<Batch> = batches.take(accumulate).map(|made| Ok(made?.1)).collect::<Result<_>>()?;
        let rate = self.schedule.at(step) as f32;
        let params = StepParams { seed, step, rate, smoothing, recompute, products };
        let network = self.take()?;
        let (alone, apart) = (Team::new(&Single), self.settings.meet_every > 1);
        if apart && self.replica.is_none() {
            self.replica = Some(Replica::new(&network));
        }
        let share = Share {
            team: self.team.unwrap_or(&alone),
            shards: self.settings.shards,
            exchange: if apart { Exchange::Nothing } else { Exchange::Gradients(self.settings.outer.wire) },
        };
        let (network, outcome) =
            learn_shared(network, &mut self.optimizer, &batches, params, &mut self.state.guard, share)?;
        self.told(&outcome, &batches, observers)?;
        if let (Some(average), None) = (&mut self.average, &outcome.skipped) {
            average.take(&network, self.optimizer.steps() as u64);
        }
        self.network = Some(network);
        let took = start.elapsed().as_secs_f64();
        let state = &mut self.state;
        state.step = step;
        state.batches += batches.len() as u64;
        state.updates = self.optimizer.steps();
        state.tokens += outcome.tokens as u64;
        state.seconds += took;
        let StepOutcome { loss, objective, norm, tokens, .. } = outcome;
        let (step_tokens, tokens, seconds) = (tokens as u64, state.tokens, state.seconds);
        let (mean_loss, logged) = (state.since_line.take(loss), step == 1 || step == steps || due(step, log_every));
        if logged {
            state.since_line = LossMean::default();
        }
        Ok(StepReport {
            step,
            steps,
            loss,
            mean_loss,
            logged,
            objective,
            rate,
            norm,
            tokens,
            step_tokens,
            took,
            seconds,
        })
    }

    /// A step that was skipped is told with its reason and its batch; the third without a number in a row ends the run.
    fn told(&mut self, outcome: &StepOutcome, batches: &[Batch], observers: &mut [&mut dyn Observer]) -> Result<()> {
        let step = self.state.step + 1;
        self.state.bad =
            if matches!(outcome.skipped, Some(Skipped::NonFinite { .. })) { self.state.bad + 1 } else { 0 };
        let why = match &outcome.skipped {
            None => return Ok(()),
            Some(Skipped::NonFinite { first }) => format!("first bad: {first}"),
            Some(Skipped::Spike { what, largest }) => format!("{what}; largest gradient: {largest}"),
        };
        let members = batches.iter().flat_map(|b| &b.members).flatten();
        let places: Vec<String> = members.take(8).map(|i| self.train.items().place(*i)).collect();
        let numbers = format!("loss {}, gradient norm {}", outcome.objective, outcome.norm);
        let why = format!("{numbers}; {why}; batch: {}, …", places.join(", "));
        if self.state.bad < 3 {
            return tell(observers, &Event::Skipped { step, why });
        }
        let hint = "lower optim.rate, lengthen schedule.warmup, or set optim.clip; the last checkpoint is whole";
        Err(Error::new(format!("step {step}"), format!("three steps in a row without a number: {why}"), hint))
    }

    /// Looks at the validation side. Says whether it has never been better: by the metric that the run is judged by where
    /// that can be had at every look, else by the loss.
    fn validate(&mut self, observers: &mut [&mut dyn Observer]) -> Result<bool> {
        let network = self.model()?;
        let (loss, score) = (self.valid_loss(&network)?, self.score(&network)?);
        let step = self.state.step;
        let cost = score.map_or(loss as f32, |score| score.cost());
        let best = self.is_better(cost, loss as f32);
        if best {
            self.state.best = Some((cost, step));
            self.state.best_loss = Some(loss as f32);
            self.state.stale = 0;
        } else {
            self.state.stale += 1;
        }
        tell(observers, &Event::Valid { step, loss, score, best })?;
        let judged = if self.writes() { self.hooks.samples(&network)? } else { vec![] };
        tell(observers, &Event::Samples { step, judged: &judged })?;
        Ok(best)
    }

    /// Whether a network of this cost and this loss is better than the best so far. One that is no number is never.
    fn is_better(&self, cost: f32, loss: f32) -> bool {
        let better = |held: f32| cost < held || cost == held && self.state.best_loss.is_some_and(|best| loss < best);
        !cost.is_nan() && self.state.best.is_none_or(|(held, _)| better(held))
    }

    fn valid_loss(&self, network: &N) -> Result<f64> {
        let (valid, asked) = (&self.valid, self.settings.validate_batches);
        let n = if asked == 0 { valid.batches(0) } else { asked.min(valid.batches(0)) };
        let alone = Team::new(&Single);
        Ok(mean_loss_shared(network, n, |i| valid.batch(i), self.team.unwrap_or(&alone))?.0)
    }

    /// Saves where the run stands; the best so far is handed out, too.
    fn save(&mut self, best: bool) -> Result<()> {
        self.agree()?;
        if !self.writes() {
            return Ok(());
        }
        let network = self.network.as_ref().ok_or_else(broken)?;
        let beside = Beside { average: self.average.as_ref(), velocity: self.replica.as_ref().map(Replica::velocity) };
        self.checkpoints.save(network, &self.optimizer, beside, &self.state, best)?;
        if best { self.hooks.keep_best(&self.model()?) } else { Ok(()) }
    }

    /// What the run comes to, and the step it is from: the best network, or the mean of the last checkpoints where one is
    /// asked for and its validation loss is lower.
    pub fn outcome(&mut self, observers: &mut [&mut dyn Observer]) -> Result<(N, u64)> {
        let (best, step) = self.best()?;
        if self.settings.average_last == 0 {
            return Ok((best, step));
        }
        let members = self.checkpoints.regular()?;
        let mean = average::mean(best.clone(), &members)?;
        let (loss, score) = (self.valid_loss(&mean)?, self.hooks.score(&mean)?);
        let steps: Vec<String> = members.iter().map(|m| m.state.step.to_string()).collect();
        let held = self.state.best.map_or(f32::INFINITY, |(held, _)| held);
        let told = match score {
            Some(ValidScore { metric, value }) => {
                let held = if metric.is_cost() { held } else { -held };
                format!("{} {value:.2}; the best alone, step {step}: {held:.2}", metric.name())
            }
            None => format!("validation loss {loss:.4}; the best alone, step {step}: {held:.4}"),
        };
        tell(observers, &Event::Note(format!("the mean of steps {}: {told}", steps.join(", "))))?;
        let better = self.is_better(score.map_or(loss as f32, |score| score.cost()), loss as f32);
        Ok(if better { (mean, self.state.step) } else { (best, step) })
    }

    /// The best network of the run, and the step it is from.
    fn best(&self) -> Result<(N, u64)> {
        match (self.checkpoints.best(), &self.network) {
            (Some(loaded), Some(network)) if loaded.state.step != self.state.step => {
                let network = loaded.model(network.clone())?;
                let network = match &self.average {
                    Some(average) => loaded.average(average.keep, &network)?.of(&network),
                    None => network,
                };
                Ok((network, loaded.state.step))
            }
            _ => Ok((self.model()?, self.state.step)),
        }
    }
}

/// A step that failed took the network with it.
fn broken() -> Error {
    Error::new("run", "it was broken off by an error", "take it up again from its last checkpoint")
}

fn due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}

fn tell(observers: &mut [&mut dyn Observer], event: &Event) -> Result<()> {
    observers.iter_mut().try_for_each(|o| o.see(event))
}
