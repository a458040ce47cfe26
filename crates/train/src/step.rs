//! One step: every micro-batch forward, one weighted cross-entropy, backward; then clip and update.
//!
//! `loss = Σ wᵢ·ℓᵢ / Σ wᵢ` over all micro-batches of the step, so that a batch cut into parts teaches what it would whole.
//! Several ranks may share a step ([`crate::dist`]): each computes some of its pieces, and the sum does not depend on who.

use crate::dist::sum::{decode, encode, sum};
use crate::dist::tree::{TreeNode, TreeSum, leaves_of, nodes_of};
use crate::dist::{Single, Team, Wire, flat};
use crate::guard::{self, Guard, Objection};
use crate::trainable::Trainable;
use burn::tensor::Tensor;
use qkv_base::{Error, Result};
use qkv_data::Batch;
use qkv_data::objective::Aim;
use qkv_kernels::{CrossEntropy, ProductPrecision, Reduce, cross_entropies, cross_entropy, head_cross_entropies};
use qkv_nn::{Answers, Cx};
use qkv_optim::{Grads, Optimizer, refuse_unreached};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

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
    /// what linear layers round the factors of their products to
    pub products: ProductPrecision,
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

/// How a step is shared among ranks.
#[derive(Clone, Copy)]
pub struct Share<'a> {
    /// who learns
    pub team: &'a Team<'a>,
    /// a step is cut into at least so many pieces; the sum of their gradients has an order of its own
    pub shards: usize,
    /// what ranks tell each other of a step
    pub exchange: Exchange,
}

/// What ranks tell each other of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// the gradients: all take the same update
    Gradients(Wire),
    /// nothing: each learns from its own pieces, until they meet ([`crate::dist::diloco`])
    Nothing,
}

/// Learns from the micro-batches of one step. What the guard speaks against changes nothing and is reported.
pub fn learn<N: Trainable>(
    model: N,
    optimizer: &mut Optimizer,
    batches: &[Batch],
    params: StepParams,
    guard: &mut Guard,
) -> Result<(N, StepOutcome)> {
    let team = Team::new(&Single);
    let share = Share { team: &team, shards: 1, exchange: Exchange::Gradients(Wire::F32) };
    learn_shared(model, optimizer, batches, params, guard, share)
}

/// The same, shared among ranks: each has all micro-batches and computes its pieces of them.
pub fn learn_shared<N: Trainable>(
    model: N,
    optimizer: &mut Optimizer,
    batches: &[Batch],
    params: StepParams,
    guard: &mut Guard,
    share: Share,
) -> Result<(N, StepOutcome)> {
    let Share { team, shards, exchange } = share;
    let pieces = pieces(batches, shards);
    let weight =
        |some: &Range<usize>| -> f64 { pieces[some.clone()].iter().flat_map(|p| &p.weights).map(|w| *w as f64).sum() };
    let minimised = |some: &Range<usize>| -> f64 { pieces[some.clone()].iter().map(|p| p.minimised()).sum() };
    let mut mine = leaves_of(team.rank(), team.size(), pieces.len());
    // A batch of few rows has none for some ranks. Apart, such a rank learns from all of it instead of standing still.
    if exchange == Exchange::Nothing && weight(&mine) == 0.0 {
        mine = 0..pieces.len();
    }
    let counted = if exchange == Exchange::Nothing { mine.clone() } else { 0..pieces.len() };
    let over = [minimised(&counted), weight(&counted)];
    if over.contains(&0.0) {
        let hint = "the examples are empty or longer than the model reads; look at `qkv data check FILE --task TASK`";
        return Err(Error::new(format!("step {}", params.step), "no target counts", hint));
    }
    // Each piece has a dropout of its own.
    let cx =
        |i: usize| Cx::train(params.seed, params.step * pieces.len() as u64 + i as u64).with_products(params.products);
    let (mut losses, mut alone, mut tree) = (vec![], None, TreeSum::default());
    for i in mine.clone() {
        let piece = &pieces[i];
        if piece.rows == 0 {
            losses.push([0.0; 2]);
            tree.push(TreeNode { start: i, level: 0, value: None }, Grads::added);
            continue;
        }
        let mut cx = cx(i).recomputing(params.recompute);
        let part = loss_of(&model, piece, params.smoothing, over.map(|over| Reduce::Over(over as f32)), &mut cx)?;
        losses.push([part.plain.into_scalar::<f32>(), part.objective.clone().into_scalar::<f32>()]);
        let grads = part.objective.backward();
        if params.step == 1 && i == mine.start {
            refuse_unreached(&model, &grads).map_err(|e| Error::new("gradients", e.to_string(), e.hint()))?;
        }
        if pieces.len() == 1 {
            alone = Some(Grads::One(grads));
        } else {
            tree.push(TreeNode { start: i, level: 0, value: Some(Grads::by_path(&model, &grads)) }, Grads::added);
        }
    }
    let grads = match (alone, exchange) {
        (Some(grads), _) if team.size() == 1 || exchange == Exchange::Nothing => grads,
        (alone, Exchange::Gradients(wire)) if team.size() > 1 => {
            let nodes = match alone {
                Some(_) => return Err(Error::internal("step", "one piece for several ranks")),
                None => tree.nodes().into_iter().map(|node| flat_node(&model, node)).collect(),
            };
            let filled: Vec<bool> = pieces.iter().map(|piece| piece.rows > 0).collect();
            let sum = sum(team, &filled, nodes, flat::length(&model), wire)?;
            losses = all_losses(team, &losses)?;
            Grads::Sum(flat::by_path(&model, &sum)?)
        }
        _ => {
            // From the first of these pieces on, wherever they stand: what others have is empty here.
            let mut whole = TreeSum::default();
            for (start, level) in nodes_of(0..mine.start) {
                whole.push(TreeNode { start, level, value: None }, Grads::added);
            }
            tree.nodes().into_iter().for_each(|node| whole.push(node, Grads::added));
            Grads::Sum(whole.total(Grads::added).unwrap_or_default())
        }
    };
    let [loss, objective] = losses.iter().fold([0.0; 2], |[a, b], [x, y]| [a + x, b + y]);
    let norm = grads.norm(&model);
    let tokens = batches.iter().map(|b| b.lengths.iter().chain(&b.memory_lengths).sum::<usize>()).sum();
    let skipped = guard.objects(objective, norm).map(|objection| match objection {
        Objection::NonFinite => {
            let parts: Vec<Batch> = pieces[counted.clone()].iter().map(|p| p.clone().into_owned()).collect();
            Skipped::NonFinite { first: guard::first_bad(&model, &grads, &parts, |i| cx(counted.start + i)) }
        }
        Objection::Spike { of, z } => Skipped::Spike {
            what: format!("{of} lies {z:.1} deviations above the last {} steps", guard::WINDOW),
            largest: grads.largest(&model).unwrap_or_default(),
        },
    });
    let model = if skipped.is_none() { optimizer.update(model, grads, params.rate, norm) } else { model };
    Ok((model, StepOutcome { loss, objective, norm, tokens, skipped }))
}

/// The pieces of a step, at least `shards` of them: the same number of each micro-batch, neighbouring rows together. Where
/// there are more pieces than rows, some are empty.
fn pieces(batches: &[Batch], shards: usize) -> Vec<Cow<'_, Batch>> {
    let each = shards.div_ceil(batches.len().max(1)).max(1);
    match each {
        1 => batches.iter().map(Cow::Borrowed).collect(),
        _ => batches
            .iter()
            .flat_map(|batch| (0..each).map(move |k| Cow::Owned(batch.part(leaves_of(k, each, batch.rows)))))
            .collect(),
    }
}

/// A node with its gradients as one vector.
fn flat_node<N: Trainable>(model: &N, node: TreeNode<BTreeMap<String, Tensor<1>>>) -> TreeNode<Vec<f32>> {
    let TreeNode { start, level, value } = node;
    TreeNode { start, level, value: value.map(|grads| flat::of(model, &grads)) }
}

/// The losses of all pieces in their order, whoever computed them.
fn all_losses(team: &Team, mine: &[[f32; 2]]) -> Result<Vec<[f32; 2]>> {
    let told = team.gather(&encode(mine.as_flattened(), Wire::F32))?;
    let mut all = vec![];
    for bytes in told {
        let values = decode(&bytes, bytes.len() / 4, Wire::F32)?;
        all.extend(values.chunks_exact(2).map(|pair| [pair[0], pair[1]]));
    }
    Ok(all)
}

/// The loss of a batch, twice, each a tensor of one element.
pub struct Loss {
    /// what is minimised
    pub objective: Tensor<1>,
    /// the same without smoothing, outside of the graph: what can be compared with a validation
    pub plain: Tensor<1>,
}

/// The loss of a batch. The head, which has a score for each word, answers only where there is a target: a masked language
/// model is asked for a seventh of its tokens. `reduce` says over what: of what is minimised, and of what is told.
pub fn loss_of<N: Trainable>(
    model: &N,
    batch: &Batch,
    smoothing: f32,
    [reduce, told]: [Reduce; 2],
    cx: &mut Cx,
) -> Result<Loss> {
    let counted: Vec<usize> = (0..batch.weights.len()).filter(|i| batch.weights[*i] != 0.0).collect();
    // To pick rows costs a little: it pays where a tenth can be left out.
    let few = batch.aim == Aim::Tokens && !counted.is_empty() && counted.len() * 10 <= batch.weights.len() * 9;
    if few {
        cx.answers = Answers::At(counted.as_slice().into());
    }
    // Classes, which may count more or less than once, are few: their scores are no burden.
    let head = model.scores().filter(|_| batch.times.is_empty());
    cx.scores_deferred = head.is_some();
    let scores = model.forward(batch, cx)?; // or the states that they are computed from
    // A network of somebody else's may answer everywhere all the same.
    let picked: Vec<usize> = match few && scores.dims()[0] == counted.len() {
        true => counted,
        false => (0..batch.weights.len()).collect(),
    };
    let targets: Vec<i64> = picked.iter().map(|i| batch.targets[*i]).collect();
    let how = |weight: &dyn Fn(usize) -> f32, smoothing: f32, reduce: Reduce| {
        let weights: Vec<f32> = picked.iter().map(|i| weight(*i)).collect();
        CrossEntropy { targets: targets.clone().into(), weights: Some(weights.into()), smoothing, reduce }
    };
    let weight = |i: usize| batch.weights[i];
    if batch.times.is_empty() {
        let how = how(&weight, smoothing, reduce);
        let (objective, plain) = match head {
            Some(head) => head_cross_entropies(cx.products, scores, &head, &how),
            None => cross_entropies(scores, &how),
        };
        return Ok(Loss { objective, plain });
    }
    // What is told is what a validation measures: every example once.
    let plain = cross_entropy(scores.clone().detach(), &how(&weight, 0.0, told));
    let times = |i: usize| batch.weights[i] * batch.times[i];
    Ok(Loss { objective: cross_entropy(scores, &how(&times, smoothing, reduce)), plain })
}

/// The mean loss of batches, each target counted once, without dropout or smoothing; and how many targets there were.
pub fn mean_loss<N: Trainable>(model: &N, batches: impl IntoIterator<Item = Result<Batch>>) -> Result<(f64, u64)> {
    let model = model.valid();
    let losses = batches.into_iter().map(|batch| weighted_loss(&model, &batch?)).collect::<Result<Vec<_>>>()?;
    mean_of(&losses)
}

/// The same of batches `0..n`, which ranks share out among them; the mean has the same bits on any number of them.
pub fn mean_loss_shared<N: Trainable>(
    model: &N,
    n: u64,
    batch: impl Fn(u64) -> Result<Batch>,
    team: &Team,
) -> Result<(f64, u64)> {
    let model = model.valid();
    let (rank, size) = (team.rank() as u64, team.size() as u64);
    let mine = (rank..n).step_by(size as usize);
    let mine = mine.map(|i| weighted_loss(&model, &batch(i)?)).collect::<Result<Vec<_>>>()?;
    let bytes: Vec<u8> = mine.iter().flatten().flat_map(|v| v.to_le_bytes()).collect();
    let told = if size == 1 { vec![bytes] } else { team.gather(&bytes)? };
    let value = |i: u64, k: usize| {
        let (of, at) = (told.get((i % size) as usize)?, (i / size) as usize * 16 + k * 8);
        of.get(at..at + 8)?.try_into().ok().map(f64::from_le_bytes)
    };
    let all: Option<Vec<[f64; 2]>> = (0..n).map(|i| Some([value(i, 0)?, value(i, 1)?])).collect();
    mean_of(&all.ok_or_else(|| Error::internal("validation", "another rank told fewer losses than batches"))?)
}

/// The sum of the losses of a batch, and of their weights.
fn weighted_loss<N: Trainable>(model: &N, batch: &Batch) -> Result<[f64; 2]> {
    let weights: f64 = batch.weights.iter().map(|w| *w as f64).sum();
    if weights == 0.0 {
        return Ok([0.0; 2]);
    }
    let mean = loss_of(model, batch, 0.0, [Reduce::Mean; 2], &mut Cx::eval())?.plain.into_scalar::<f32>();
    Ok([mean as f64 * weights, weights])
}

fn mean_of(losses: &[[f64; 2]]) -> Result<(f64, u64)> {
    let [sum, over] = losses.iter().fold([0.0; 2], |[sum, over], [s, w]| [sum + s, over + w]);
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

    const PARAMS: StepParams =
        StepParams { seed: 1, step: 1, rate: 1e-3, smoothing: 0.0, recompute: false, products: ProductPrecision::F32 };

    #[test]
    fn a_batch_without_targets_is_an_error_and_no_division_by_zero() {
        let (model, batch) = parts();
        let batch = Batch { weights: vec![0.0; 4], targets: vec![-100; 4], ..batch };
        let error = learn(model, &mut Optimizer::default(), &[batch], PARAMS, &mut Guard::default()).unwrap_err();
        assert_eq!(error.to_string(), "step 1: no target counts");
    }

    /// Rare classes count more in what is minimised, and what is told stays what a validation measures.
    #[test]
    fn class_weights_change_what_is_minimised_and_not_what_is_told() {
        let say = |times: &[f32]| {
            let (model, batch) = parts();
            let batch = Batch { times: times.to_vec(), ..batch };
            learn(model, &mut Optimizer::default(), &[batch], PARAMS, &mut Guard::default()).unwrap().1
        };
        let (plain, even, uneven) = (say(&[]), say(&[3.0; 4]), say(&[9.0, 1.0, 1.0, 1.0]));
        let near = |a: f32, b: f32| (a - b).abs() < 1e-5;
        assert!(near(plain.loss, even.loss) && near(plain.objective, even.objective), "{plain:?} {even:?}");
        assert!(near(plain.loss, uneven.loss) && !near(plain.objective, uneven.objective), "{plain:?} {uneven:?}");
        assert!(!near(plain.norm, uneven.norm));
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

    /// Ranks that learn apart: one whose pieces hold no row learns from the whole batch.
    #[test]
    fn a_rank_without_rows_learns_from_all_of_them() {
        let (model, batch) = parts();
        let learn_as = |rank: &dyn crate::dist::Collective| {
            let (team, mut guard) = (Team::new(rank), Guard::default());
            let share = Share { team: &team, shards: 8, exchange: Exchange::Nothing };
            let batches = std::slice::from_ref(&batch);
            let step = learn_shared(model.clone(), &mut Optimizer::default(), batches, PARAMS, &mut guard, share);
            let (after, done) = step.expect("a step");
            assert_eq!(done.skipped, None);
            (done.loss, flat::weights(&after))
        };
        let ranks = crate::dist::local::ranks(2);
        let ((loss, with_none), (other, with_row)) = (learn_as(&ranks[0]), learn_as(&ranks[1]));
        assert!(loss > 0.0 && loss == other);
        assert_eq!(with_none, with_row, "there is one row, and both learn from it");
        assert_ne!(with_none, flat::weights(&model));
    }

    /// A network that answers everywhere, whatever it is asked for.
    #[derive(burn::module::Module, Debug)]
    struct Everywhere {
        inner: Transformer,
    }

    impl Trainable for Everywhere {
        fn forward(&self, batch: &Batch, cx: &mut Cx) -> Result<Tensor<2>> {
            cx.answers = Answers::Every;
            self.inner.forward(batch, cx)
        }
    }

    /// Scores where there is no target change neither the loss nor a gradient; they need not be made.
    #[test]
    fn a_head_that_answers_where_there_are_targets_learns_the_same() {
        for preset in ["tiny-decoder", "tiny-encoder", "tiny-pair"] {
            let spec = presets::find(preset).expect("a preset").spec();
            let model = Transformer::new(&spec, 1, &Device::flex().autodiff()).expect("a network");
            let pair = spec.encoder().is_some() && spec.decoder().is_some();
            let weights: Vec<f32> = (0..10).map(|i| if i % 4 == 1 { 1.0 + i as f32 } else { 0.0 }).collect();
            let batch = Batch {
                rows: 2,
                length: 5,
                lengths: vec![5, 4],
                ids: (5..15).collect(),
                targets: weights.iter().map(|w| if *w > 0.0 { 7 } else { -100 }).collect(),
                weights,
                memory_length: if pair { 3 } else { 0 },
                memory: if pair { vec![4, 5, 6, 7, 8, 9] } else { vec![] },
                memory_lengths: if pair { vec![3, 3] } else { vec![] },
                ..Batch::default()
            };
            assert_eq!(model.forward(&batch, &mut Cx::eval().answering([1, 5, 9].into())).unwrap().dims()[0], 3);
            let learn_once = |everywhere: bool| {
                let cx = &mut Cx::train(1, 1);
                let loss = match everywhere {
                    true => loss_of(&Everywhere { inner: model.clone() }, &batch, 0.1, [Reduce::Mean; 2], cx),
                    false => loss_of(&model, &batch, 0.1, [Reduce::Mean; 2], cx),
                };
                let loss = loss.expect("a loss");
                let grads = loss.objective.backward();
                (loss.plain.into_scalar::<f32>(), flat::of(&model, &Grads::by_path(&model, &grads)))
            };
            let ((want, full), (got, few)) = (learn_once(true), learn_once(false));
            assert!((want - got).abs() < 1e-5, "{preset}: {want} {got}");
            let worst = full.iter().zip(&few).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst < 1e-5, "{preset}: {worst}");
            assert!(full.iter().any(|g| *g != 0.0));
        }
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
