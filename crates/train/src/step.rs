//! One step: every micro-batch forward, one weighted cross-entropy, backward; then clip and update.
//!
//! `loss = Σ wᵢ·ℓᵢ / Σ wᵢ` over all micro-batches of the step, so that a batch cut into parts teaches what it would whole.

use crate::guard::{self, Guard, Objection};
use crate::trainable::Trainable;
use burn::tensor::Tensor;
use qkv_base::{Error, Result};
use qkv_data::Batch;
use qkv_kernels::{CrossEntropy, Reduce, cross_entropies};
use qkv_nn::Cx;
use qkv_optim::{Grads, Optimizer, refuse_unreached};

/// What one step is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct StepParams {
    /// names the dropout, together with the step
    pub seed: u64,
    /// which step, from 1
    pub step: u64,
    /// the learning rate
    pub rate: f32,
    /// the share of each target that is spread over all classes
    pub smoothing: f32,
    /// run blocks again in the backward instead of keeping what they computed: the same bits in less memory
    pub recompute: bool,
}

/// What one step did.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutcome {
    /// the cross-entropy of the targets before the update: what a validation measures, too
    pub loss: f32,
    /// what was minimised: the same, with label smoothing in it
    pub objective: f32,
    /// the norm of all gradients before clipping
    pub norm: f32,
    /// tokens that were read, padding not counted
    pub tokens: usize,
    /// why nothing was updated, where the guard spoke against it
    pub skipped: Option<Skipped>,
}

/// Why a step was skipped.
#[derive(Clone, Debug, PartialEq)]
pub enum Skipped {
    /// something is not a number, or infinite
    NonFinite {
        /// where that was so first
        first: String,
    },
    /// something spiked
    Spike {
        /// what, and how far
        what: String,
        /// the parameter with the largest gradient
        largest: String,
    },
}

/// Learns from the micro-batches of one step. What the guard speaks against changes nothing and is reported.
pub fn learn<N: Trainable>(
    model: N,
    optimizer: &mut Optimizer,
    batches: &[Batch],
    params: StepParams,
    guard: &mut Guard,
) -> Result<(N, StepOutcome)> {
    let over: f64 = batches.iter().flat_map(|b| &b.weights).map(|w| *w as f64).sum();
    if over == 0.0 {
        let hint = "the examples are empty or longer than the model reads; look at `qkv data check FILE --task TASK`";
        return Err(Error::new(format!("step {}", params.step), "no target counts", hint));
    }
    let (mut loss, mut objective, mut grads) = (0.0, 0.0, None);
    // Each micro-batch has a dropout of its own.
    let cx = |i: usize| Cx::train(params.seed, params.step * batches.len() as u64 + i as u64);
    for (i, batch) in batches.iter().enumerate() {
        let mut cx = cx(i).recomputing(params.recompute);
        let part = loss_of(&model, batch, params.smoothing, Reduce::Over(over as f32), &mut cx)?;
        loss += part.plain.into_scalar::<f32>();
        objective += part.objective.clone().into_scalar::<f32>();
        let more = part.objective.backward();
        if params.step == 1 && i == 0 {
            refuse_unreached(&model, &more).map_err(|e| Error::new("gradients", e.to_string(), e.hint()))?;
        }
        grads = Some(match grads {
            None => Grads::One(more),
            Some(grads) => Grads::add(grads, &model, more),
        });
    }
    let Some(grads) = grads else {
        return Err(Error::new("step", "there is no batch", "give at least one"));
    };
    let norm = grads.norm(&model);
    let tokens = batches.iter().map(|b| b.lengths.iter().chain(&b.memory_lengths).sum::<usize>()).sum();
    let skipped = guard.objects(objective, norm).map(|objection| match objection {
        Objection::NonFinite => Skipped::NonFinite { first: guard::first_bad(&model, &grads, batches, cx) },
        Objection::Spike { of, z } => Skipped::Spike {
            what: format!("{of} lies {z:.1} deviations above the last {} steps", guard::WINDOW),
            largest: grads.largest(&model).unwrap_or_default(),
        },
    });
    let model = if skipped.is_none() { optimizer.update(model, grads, params.rate, norm) } else { model };
    Ok((model, StepOutcome { loss, objective, norm, tokens, skipped }))
}

/// The loss of a batch, twice, each a tensor of one element.
pub struct Loss {
    /// what is minimised
    pub objective: Tensor<1>,
    /// the same without smoothing, outside of the graph: what can be compared with a validation
    pub plain: Tensor<1>,
}

/// The loss of a batch.
pub fn loss_of<N: Trainable>(model: &N, batch: &Batch, smoothing: f32, reduce: Reduce, cx: &mut Cx) -> Result<Loss> {
    let scores = model.forward(batch, cx)?;
    let (targets, weights) = (batch.targets.clone().into(), Some(batch.weights.clone().into()));
    let (objective, plain) = cross_entropies(scores, &CrossEntropy { targets, weights, smoothing, reduce });
    Ok(Loss { objective, plain })
}

/// The mean loss of batches, each target counted once, without dropout or smoothing; and how many targets there were.
pub fn mean_loss<N: Trainable>(model: &N, batches: impl IntoIterator<Item = Result<Batch>>) -> Result<(f64, u64)> {
    let model = model.valid();
    let (mut sum, mut over) = (0.0, 0.0);
    for batch in batches {
        let batch = batch?;
        let weights: f64 = batch.weights.iter().map(|w| *w as f64).sum();
        if weights > 0.0 {
            let mean = loss_of(&model, &batch, 0.0, Reduce::Mean, &mut Cx::eval())?.plain.into_scalar::<f32>();
            (sum, over) = (sum + mean as f64 * weights, over + weights);
        }
    }
    if over == 0.0 {
        return Err(Error::new("validation", "no target counts", "give examples that fit the model"));
    }
    Ok((sum / over, over as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_model::{Transformer, presets};

    fn parts() -> (Transformer, Batch) {
        let spec = presets::find("tiny-decoder").unwrap().spec();
        let model = Transformer::new(&spec, 1, &Device::flex().autodiff()).unwrap();
        let (ids, targets) = (vec![5, 6, 7, 8], vec![6, 7, 8, 9]);
        let batch =
            Batch { rows: 1, length: 4, lengths: vec![4], ids, targets, weights: vec![1.0; 4], ..Batch::default() };
        (model, batch)
    }

    const PARAMS: StepParams = StepParams { seed: 1, step: 1, rate: 1e-3, smoothing: 0.0, recompute: false };

    #[test]
    fn a_batch_without_targets_is_an_error_and_no_division_by_zero() {
        let (model, batch) = parts();
        let batch = Batch { weights: vec![0.0; 4], targets: vec![-100; 4], ..batch };
        let error = learn(model, &mut Optimizer::default(), &[batch], PARAMS, &mut Guard::default()).unwrap_err();
        assert_eq!(error.to_string(), "step 1: no target counts");
    }

    /// A weight that is not a number is named; nothing is updated.
    #[test]
    fn the_first_bad_place_is_named_and_nothing_changes() {
        use qkv_model::pretrained::{Values, fill};
        let (model, batch) = parts();
        let poison = |model: &Transformer, path: &str, x: f32| {
            let mut values = Values::of(model).read(path);
            values.fill(x);
            fill(model.clone(), [(path.to_string(), values)].into())
        };
        let say = |model: Transformer| {
            let mut optimizer = Optimizer::default();
            let (after, done) =
                learn(model.clone(), &mut optimizer, std::slice::from_ref(&batch), PARAMS, &mut Guard::default())
                    .unwrap();
            assert_eq!(optimizer.steps(), 0);
            let read = |m: &Transformer| Values::of(m).read("decoder.layers.0.ffn.up.weight");
            assert_eq!(format!("{:?}", read(&after)), format!("{:?}", read(&model)));
            done.skipped
        };
        let first = |words: &str| Some(Skipped::NonFinite { first: words.into() });
        let path = "decoder.layers.1.ffn.down.weight";
        assert_eq!(say(poison(&model, path, f32::NAN)), first(&format!("the weights of {path}")));
        // Large, but numbers: the first product with them is none.
        assert_eq!(say(poison(&model, path, f32::MAX)), first("the output of decoder.layers.1"));
    }

    /// Smoothing changes what is minimised, and not the loss that is told.
    #[test]
    fn the_loss_is_told_without_smoothing() {
        let (model, batch) = parts();
        let run = |smoothing: f32| {
            let params = StepParams { smoothing, ..PARAMS };
            let batches = std::slice::from_ref(&batch);
            learn(model.clone(), &mut Optimizer::default(), batches, params, &mut Guard::default()).unwrap().1
        };
        let (plain, smoothed) = (run(0.0), run(0.5));
        assert_eq!((plain.loss, plain.objective), (smoothed.loss, plain.loss));
        assert!((smoothed.objective - smoothed.loss).abs() > 1e-3, "{smoothed:?}");
    }

    #[test]
    fn a_spike_is_skipped_and_names_the_largest_gradient() {
        let (mut model, batch) = parts();
        let (mut optimizer, mut guard) = (Optimizer::default(), Guard::new(4.0));
        let mut spike = None;
        for step in 1..=crate::guard::WINDOW as u64 + 1 {
            // What it was never shown after 128 times the same.
            let odd = step == crate::guard::WINDOW as u64 + 1;
            let ids = if odd { vec![90, 91, 92, 93] } else { vec![5, 6, 7, 8 + (step % 3) as u32] };
            let batch = Batch { ids, ..batch.clone() };
            let params = StepParams { step, ..PARAMS };
            let (next, done) = learn(model, &mut optimizer, &[batch], params, &mut guard).unwrap();
            model = next;
            spike = done.skipped;
            assert!(odd || spike.is_none(), "step {step}: {spike:?}");
        }
        let Some(Skipped::Spike { what, largest }) = spike else { panic!("{spike:?}") };
        assert!(what.contains("deviations above the last 128 steps"), "{what}");
        assert!(qkv_model::count::parameters(&model).iter().any(|p| p.path == largest), "{largest}");
        assert_eq!(optimizer.steps(), crate::guard::WINDOW as u32);
    }
}
