//! What the parts of a run take on this machine, measured: real steps of the real network on real batches of the plan, for two
//! seconds; and once each a look at the validation side, a checkpoint and the judging of the end, or a known part of them.
//!
//! Steps are taken at a rate of 0: every gradient is computed and every moment kept, and no weight changes by a bit, so that a
//! run may be measured with its own network. The optimiser that is measured with is thrown away.
//!
//! Batches differ in size. Those that are measured lie spread over the first epoch, and `Σ seconds / Σ tokens`, padding counted,
//! is multiplied with the mean of many batches.

use super::judging;
use crate::average::Average;
use crate::plan::Plan;
use qkv_base::Result;
use qkv_data::Batch;
use qkv_model::count::{self, Count};
use qkv_model::spec::Input;
use qkv_model::{Spec, Transformer};
use qkv_optim::Optimizer;
use qkv_train::dist::{Single, Team, Wire};
use qkv_train::freeze::{hollow, learning};
use qkv_train::guard::Guard;
use qkv_train::step::{Exchange, Share, StepParams, learn_shared};
use qkv_weights::{Dtype, Tensor, save_safetensors, write_atomically};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Seconds of steps; the tests of this crate have no need to be exact.
pub const SECONDS: f64 = if cfg!(test) { 0.2 } else { 2.0 };
/// Steps that are not counted: the first ones ask the system for memory.
const WARM: u64 = 2;
/// Batches whose sizes are looked at.
const BATCHES: u64 = 200;
/// The most bytes that are written to learn how fast a checkpoint is.
const PROBE: u64 = 64 << 20;

/// What the parts of a run take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// seconds of a step
    pub step: f64,
    /// how many were measured
    pub steps: u64,
    /// tokens that a step reads, padding not counted
    pub tokens: f64,
    /// floating-point operations of a step, padding not counted
    pub operations: f64,
    /// seconds of a look at the validation side
    pub look: f64,
    /// seconds of a checkpoint
    pub save: f64,
    /// seconds of leaving the best model
    pub export: f64,
    /// seconds of the judging at the end
    pub judging: f64,
    /// bytes at the peak so far, where the system tells
    pub peak: Option<u64>,
    /// seconds that the measurement took
    pub took: f64,
}

/// Measures a plan. `place` is the directory that its run has or would have; `most` bounds the steps, for runs that are hardly
/// longer than their measurement.
pub fn measure(plan: &mut Plan, place: &Path, most: u64) -> Result<Measured> {
    let start = Instant::now();
    // The plan's own network learns, not a copy of it: a second one would be memory that no run takes.
    let empty = hollow(&plan.pretrained.model);
    let network = std::mem::replace(&mut plan.pretrained.model, empty);
    let (network, mut measured, bytes) = steps(plan, network, most.max(1))?;
    (measured.save, measured.export) = disk(place, bytes).unwrap_or_default();
    // What cannot be judged is no reason to refuse the steps: the run will say so when it comes to it.
    measured.look = judging::look(plan, &network).unwrap_or_default();
    measured.judging = judging::end(plan, &network).unwrap_or_default();
    plan.pretrained.model = network;
    measured.peak = crate::memory::peak();
    measured.took = start.elapsed().as_secs_f64();
    Ok(measured)
}

/// Bytes of the weights, and of what a checkpoint holds beside them.
type Bytes = (u64, u64);

fn steps(plan: &Plan, mut network: Transformer, most: u64) -> Result<(Transformer, Measured, Bytes)> {
    let train = &plan.recipe.train;
    let mut optimizer = plan.optimizer()?;
    let mut average = (train.average > 0.0).then(|| Average::new(train.average));
    let sizes = BatchSizes::of(plan)?;
    let (mut seconds, mut tokens, mut n) = (0.0, 0.0, 0);
    for i in 0.. {
        let first = i * train.accumulate as u64;
        // The widest batch comes first: it takes the memory that the run will take.
        let numbers = (0..train.accumulate as u64).map(|j| if i == 0 { sizes.widest } else { sizes.nth(first + j) });
        let batches = numbers.map(|number| plan.train.batch(number)).collect::<Result<Vec<Batch>>>()?;
        let begun = Instant::now();
        // From the second on: in the first, parameters that nothing reaches are looked for.
        let (seed, smoothing, recompute, products) = (train.seed, train.smoothing, train.recompute, train.precision);
        let params = StepParams { seed, step: 2 + i, rate: 0.0, smoothing, recompute, products };
        let (team, shards) = (Team::new(&Single), plan.recipe.dist.shards);
        let share = Share { team: &team, shards, exchange: Exchange::Gradients(Wire::F32) };
        network = learn_shared(network, &mut optimizer, &batches, params, &mut Guard::new(0.0), share)?.0;
        if let Some(average) = &mut average {
            average.take(&network, optimizer.steps() as u64);
        }
        let took = begun.elapsed().as_secs_f64();
        // A first step that takes longer than all is meant to take is not taken twice.
        if i < WARM && (i == 0 || took < SECONDS / 4.0) {
            continue;
        }
        seconds += took;
        tokens += batches.iter().map(padded).sum::<f64>();
        n += 1;
        if seconds >= SECONDS || n >= most {
            break;
        }
    }
    let micro = train.accumulate as f64;
    let measured = Measured {
        step: seconds / tokens.max(1.0) * sizes.padded * micro,
        steps: n,
        tokens: sizes.tokens * micro,
        operations: sizes.operations(plan.pretrained.spec(), learning(&network), train.recompute)? * micro,
        ..Measured::default()
    };
    let bytes = held(&network, &optimizer, average.as_ref());
    Ok((network, measured, bytes))
}

fn held(network: &Transformer, optimizer: &Optimizer, average: Option<&Average>) -> Bytes {
    let weights: u64 = count::parameters(network).iter().map(count::Parameter::elements).sum();
    let moments: u64 = optimizer.memory().map(|(_, v)| v.dims()[0] as u64).sum();
    let mean: u64 = average.map_or(0, |a| a.values.values().map(|v| v.dims()[0] as u64).sum());
    (4 * weights, 4 * (moments + mean))
}

/// The sizes of a plan's batches, by a look at some of them.
struct BatchSizes {
    batches: u64,
    /// the one with the most tokens
    widest: u64,
    /// tokens of a micro-batch on average, padding counted
    padded: f64,
    /// not counted
    tokens: f64,
    /// of those, read from a source
    source: f64,
    /// tokens of a row of the stack that answers
    length: usize,
}

impl BatchSizes {
    fn of(plan: &Plan) -> Result<Self> {
        let batches = plan.train.batches(0).max(1);
        let mut sizes = Self { batches, widest: 0, padded: 0.0, tokens: 0.0, source: 0.0, length: 0 };
        let (mut most, n) = (0.0, batches.min(BATCHES));
        let (mut source, mut target, mut rows) = (0.0, 0.0, 0.0);
        for i in 0..n {
            let number = i * batches / n;
            let batch = plan.train.batch(number)?;
            let size = padded(&batch);
            if size > most {
                (most, sizes.widest) = (size, number);
            }
            sizes.padded += size / n as f64;
            let [read, written] = real(&batch, plan.pretrained.spec());
            (source, target) = (source + read / n as f64, target + written / n as f64);
            rows += batch.rows as f64 / n as f64;
        }
        (sizes.tokens, sizes.source) = (source + target, source);
        sizes.length = (target / rows.max(1.0)).round().max(1.0) as usize;
        Ok(sizes)
    }

    /// Operations of a micro-batch through a network: forward once, backward twice that (once for what was read, once for the
    /// weights that learn), and the forward again where blocks are run again.
    fn operations(&self, spec: &Spec, (learn, all): (u64, u64), recompute: bool) -> Result<f64> {
        let (count, target) = (Count::of(spec, self.length)?, self.tokens - self.source);
        let forward = match (spec.encoder().is_some(), spec.decoder().is_some()) {
            (true, true) => self.source * count.encode_flops + target * count.decode_flops,
            (true, false) => target * count.encode_flops,
            _ => target * count.decode_flops,
        };
        let passes = 2.0 + learn as f64 / all.max(1) as f64 + if recompute { 1.0 } else { 0.0 };
        Ok(passes * forward)
    }

    /// Batches that lie spread over the epoch, however many are taken: multiples of the golden ratio fill a circle evenly.
    fn nth(&self, i: u64) -> u64 {
        ((i as f64 * 0.618_033_988_749_895).fract() * self.batches as f64) as u64 % self.batches
    }
}

/// Tokens of a batch, padding counted; a picture has as many as its row of patches, which is the same for all.
fn padded(batch: &Batch) -> f64 {
    (batch.rows * (batch.length + batch.memory_length).max(1)) as f64
}

/// Tokens that are read from a source, and those of the stack that answers.
fn real(batch: &Batch, spec: &Spec) -> [f64; 2] {
    let sum = |lengths: &[usize]| lengths.iter().sum::<usize>() as f64;
    match spec.input {
        Input::Patches { image, patch, .. } => [0.0, (batch.rows * ((image / patch.max(1)).pow(2) + 1)) as f64],
        Input::Tokens { .. } => [sum(&batch.memory_lengths), sum(&batch.lengths)],
    }
}

/// Operations of a step of a plan's batches through another network.
pub(super) fn operations_a_step(plan: &Plan, spec: &Spec) -> Result<f64> {
    let train = &plan.recipe.train;
    Ok(BatchSizes::of(plan)?.operations(spec, plan.learning(), train.recompute)? * train.accumulate as f64)
}

/// Seconds of a checkpoint and of leaving a model: as many bytes are written in the same way beside where the run is kept, and
/// removed. None where nothing can be written: the run will say so.
fn disk(place: &Path, (weights, beside): Bytes) -> Option<(f64, f64)> {
    let near = place.ancestors().find(|p| p.is_dir()).unwrap_or(Path::new("."));
    let probe = Removed(near.join(format!("measure.tmp-{}", std::process::id())));
    let write = |name: &str, bytes: u64| -> Option<f64> {
        let (dir, n) = (probe.0.join(name), (bytes.min(PROBE) / 4).max(1) as usize);
        let begun = Instant::now();
        let values = [Tensor::made("values", [n], move || Ok((0..n).map(|i| i as f32).collect()))];
        save_safetensors(&dir, &values, Dtype::F32, u64::MAX).ok()?;
        Some(begun.elapsed().as_secs_f64() * (bytes as f64 / (4 * n) as f64).max(1.0))
    };
    // A checkpoint is read back once for its hash, which costs less than writing it and is in memory still.
    let hash = |name: &str, bytes: u64| -> Option<f64> {
        let begun = Instant::now();
        let read = std::fs::read(probe.0.join(name).join("model.safetensors")).ok()?;
        blake3::hash(&read);
        Some(begun.elapsed().as_secs_f64() * (bytes as f64 / read.len().max(1) as f64).max(1.0))
    };
    let (model, held) = (write("model", weights)?, write("held", beside)?);
    let hashed = hash("model", weights)? + hash("held", beside)?;
    let begun = Instant::now();
    (0..4).try_for_each(|i| write_atomically(&probe.0.join(format!("{i}.json")), b"{}")).ok()?;
    let small = begun.elapsed().as_secs_f64();
    Some((model + held + hashed + small, model + small))
}

/// A directory that goes when it is no longer needed.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // at worst bytes too many, which the next run takes away
    }
}

/// Every weight of a network, to see that none has changed.
#[cfg(test)]
fn bits(network: &Transformer) -> Vec<u32> {
    let mut all = vec![];
    qkv_nn::walk(network, |p| {
        let values = p.values().into_data().try_to_vec::<f32>().unwrap_or_default();
        all.extend(values.into_iter().map(f32::to_bits));
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Recipe;

    fn plan(more: &str) -> Plan {
        let text = format!(
            "[data]\ncorpus = \"builtin:reviews\"\nobjective = \"classify\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
             [tokenizer]\nkind = \"wordpiece\"\nvocab = 300\n[model]\nfamily = \"bert\"\nwidth = 16\nlayers = 1\nheads = 2\n\
             [train]\nrows = 4\n{more}"
        );
        Plan::new(&Recipe::parse("test", &text).expect("a recipe"), None).expect("a plan")
    }

    /// A run is measured with its own network: whatever the rule, it starts as if it had not been.
    #[test]
    fn a_measurement_changes_no_weight_by_a_bit() {
        let dir = tempfile::tempdir().expect("a directory");
        for rule in ["adamw", "adam", "sgd", "lion", "adafactor"] {
            let mut plan = plan(&format!("average = 0.9\naccumulate = 2\n[optim]\nname = \"{rule}\""));
            let before = bits(&plan.pretrained.model);
            let measured = measure(&mut plan, &dir.path().join("run"), 3).expect("a measurement");
            assert!(before == bits(&plan.pretrained.model), "{rule}");
            assert_eq!(measured.steps, 3);
            assert!(measured.step > 0.0 && measured.look > 0.0 && measured.judging > 0.0 && measured.save > 0.0);
            assert!(measured.operations > 0.0 && measured.tokens > 100.0, "{measured:?}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0, "nothing is left behind");
    }

    #[test]
    fn batches_that_are_measured_lie_spread() {
        let sizes = BatchSizes { batches: 100, widest: 0, padded: 0.0, tokens: 0.0, source: 0.0, length: 0 };
        let mut places: Vec<u64> = (0..10).map(|i| sizes.nth(i)).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|w| w[1] - w[0] <= 15), "{places:?}");
    }

    /// Twice the rows are twice the work; adapters alone are two thirds of it and a little.
    #[test]
    fn operations_follow_the_batches_and_what_learns() {
        let of = |plan: &Plan| operations_a_step(plan, plan.pretrained.spec()).expect("operations");
        let (small, large) = (plan(""), plan("accumulate = 1\n[lora]\nrank = 1\ntargets = [\"q\"]"));
        let share = of(&large) / of(&small);
        assert!(share > 0.66 && share < 0.75, "{share}");
    }
}
