//! The optimiser: every parameter of a network is updated by its [`Rule`], with moments kept by path so that they can be
//! saved and found again. Parameters, gradients and moments stay on their device: on the CPU kernels write them in place,
//! elsewhere the same rules run in tensor methods.
//!
//! Gradients may first be scaled down so that their global norm is at most `clip`:
//! `g ← g·min(1, clip / ‖g‖)`, the norm over all parameters, summed in their order.
//!
//! Parameters without a gradient (frozen ones) are left alone and cost no memory.

mod on_device;
pub mod reach;
mod rules;

pub use reach::{Unreached, refuse_unreached};
pub use rules::Rule;

use burn::module::{Module, Param};
use burn::tensor::{DType, Gradients, Tensor, TensorData};
use qkv_base::{Error, Result};
use qkv_kernels::fused::update_slices;
use qkv_nn::{MapParam, map_params, walk};
use rayon::prelude::*;
use rules::At;
use std::collections::BTreeMap;

/// The settings of AdamW that do not change from step to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// β₁
    pub beta1: f32,
    /// β₂
    pub beta2: f32,
    /// ε
    pub eps: f32,
    /// λ, decoupled weight decay
    pub decay: f32,
    /// the largest global norm of the gradients; `None`: any
    pub clip: Option<f32>,
}

impl Default for Settings {
    /// PyTorch's: β 0.9 and 0.999, ε 1e-8, decay 0.01, no clipping.
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.01, clip: None }
    }
}

/// Which parameters are treated otherwise than the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Groups {
    /// none
    #[default]
    Alike,
    /// norms, biases and tables of vectors do not decay, as is customary; and each layer below the head learns with
    /// `layer_rate` times the rate of the one above it (1: all alike), out of `layers`
    NoDecayOnNorms {
        /// the factor from layer to layer
        layer_rate: f32,
        /// how many layers a stack has
        layers: usize,
    },
}

impl Groups {
    fn decays(self, path: &str, dims: usize) -> bool {
        let table = || path.split('.').any(|name| ["tokens", "table", "token_types"].contains(&name));
        self == Self::Alike || (dims >= 2 && !table())
    }

    /// What the rate of a parameter is multiplied by.
    fn pace(self, path: &str) -> f32 {
        let Self::NoDecayOnNorms { layer_rate, layers } = self else { return 1.0 };
        if layer_rate == 1.0 || path.starts_with("head") {
            return 1.0;
        }
        let index = path.split_once("layers.").and_then(|(_, rest)| rest.split('.').next()?.parse::<usize>().ok());
        // What lies below the first layer counts as one more.
        let below = index.map_or(layers + 1, |i| layers.saturating_sub(i));
        layer_rate.powi(below as i32)
    }
}

/// The gradients of one backward, or the sum of several.
pub enum Grads {
    /// of one
    One(Gradients),
    /// of several, flat, by path
    Sum(BTreeMap<String, Tensor<1>>),
}

impl Grads {
    /// Those of one backward, by path.
    pub fn by_path<M: Module>(model: &M, grads: &Gradients) -> BTreeMap<String, Tensor<1>> {
        by_path(model, grads).into_iter().collect()
    }

    /// The sum of two, parameter by parameter.
    pub fn added(
        mut sum: BTreeMap<String, Tensor<1>>,
        more: BTreeMap<String, Tensor<1>>,
    ) -> BTreeMap<String, Tensor<1>> {
        for (path, more) in more {
            let more = match sum.remove(&path) {
                Some(held) => held + more,
                None => more,
            };
            sum.insert(path, more);
        }
        sum
    }

    /// `√Σ g²` over all parameters, each summed in chunks of fixed size, in order.
    pub fn norm<M: Module>(&self, model: &M) -> f32 {
        match self {
            Self::One(grads) => global_norm(model, grads),
            Self::Sum(sum) => sum.values().cloned().map(squares).sum::<f64>().sqrt() as f32,
        }
    }

    /// The last parameter (on the way forward) whose gradient is not a number or infinite.
    pub fn last_bad<M: Module>(&self, model: &M) -> Option<String> {
        let finite = |g: Tensor<1>| g.into_data().try_to_vec::<f32>().is_ok_and(|v| v.iter().all(|x| x.is_finite()));
        self.each(model).into_iter().rev().find(|(_, grad)| !finite(grad.clone())).map(|(path, _)| path)
    }

    /// The parameter whose gradient has the largest norm.
    pub fn largest<M: Module>(&self, model: &M) -> Option<String> {
        let norms = self.each(model).into_iter().map(|(path, grad)| (squares(grad), path));
        norms.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, path)| path)
    }

    /// Every gradient, flat, in the order of the parameters.
    fn each<M: Module>(&self, model: &M) -> Vec<(String, Tensor<1>)> {
        match self {
            Self::One(grads) => by_path(model, grads),
            Self::Sum(sum) => {
                let mut found = vec![];
                walk(model, |p| found.extend(sum.get(p.path()).map(|grad| (p.path().to_string(), grad.clone()))));
                found
            }
        }
    }

    /// The gradient of one parameter, flat, handed out once.
    fn take<const D: usize>(&mut self, path: &str, param: &Tensor<D>) -> Option<Tensor<1>> {
        match self {
            Self::One(grads) => param.grad_remove(grads).map(|grad| grad.reshape([-1])),
            Self::Sum(sum) => sum.remove(path),
        }
    }
}

/// An optimiser with its moments.
#[derive(Clone, Debug)]
pub struct Optimizer {
    rule: Rule,
    decay: f32,
    clip: Option<f32>,
    groups: Groups,
    step: u32,
    /// flat, on the device of their parameter
    memory: BTreeMap<String, Vec<Tensor<1>>>,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Optimizer {
    /// AdamW that decays everything; moments are made when a parameter is first updated.
    pub fn new(settings: Settings) -> Self {
        let Settings { beta1, beta2, eps, decay, clip } = settings;
        Self::with(Rule::AdamW { beta1, beta2, eps }, decay, clip, Groups::Alike)
    }

    /// Any rule.
    pub fn with(rule: Rule, decay: f32, clip: Option<f32>, groups: Groups) -> Self {
        Self { rule, decay, clip, groups, step: 0, memory: BTreeMap::new() }
    }

    /// Updates every parameter that has a gradient, with learning rate `rate`. Returns the network and the global norm
    /// of the gradients before clipping (0 when nothing is clipped: then it is not computed).
    pub fn step<M: Module>(&mut self, model: M, grads: Gradients, rate: f32) -> (M, f32) {
        let grads = Grads::One(grads);
        let norm = if self.clip.is_some() { grads.norm(&model) } else { 0.0 };
        (self.update(model, grads, rate, norm), norm)
    }

    /// Updates every parameter that has a gradient; `norm` is that of all gradients.
    pub fn update<M: Module>(&mut self, model: M, grads: Grads, rate: f32, norm: f32) -> M {
        self.step += 1;
        let grad_scale = match self.clip {
            Some(clip) if norm > clip => clip / norm,
            _ => 1.0,
        };
        let at = At { rate, decay: self.decay, step: self.step, grad_scale };
        let memory = &mut self.memory;
        map_params(model, &mut Update { at, rule: self.rule, groups: self.groups, grads, memory })
    }

    /// How many updates there were.
    pub fn steps(&self) -> u32 {
        self.step
    }

    /// What is remembered, flat, by the parameter's path and what it is: `decoder.layers.0.ffn.up.weight.m`.
    pub fn memory(&self) -> impl Iterator<Item = (String, &Tensor<1>)> {
        let name = move |path: &str, held: &[Tensor<1>], i: usize| {
            // The shape decides only the lengths, and these tell a factored matrix from the rest.
            let dims: Vec<usize> = held.iter().map(|m| m.dims()[0]).collect();
            let factored = self.rule == Rule::Adafactor && dims.len() == 2;
            let names = self.rule.memory(if factored { &dims } else { &dims[..1] });
            format!("{path}.{}", names.get(i).map_or("", |(name, _)| name))
        };
        self.memory
            .iter()
            .flat_map(move |(path, held)| held.iter().enumerate().map(move |(i, values)| (name(path, held, i), values)))
    }

    /// Replaces what is remembered by what `change` makes of it, flat, all of it in the order of [`Optimizer::memory`]: ranks
    /// that learnt apart agree on one memory so.
    pub fn change_memory(&mut self, change: impl FnOnce(Vec<f32>) -> Result<Vec<f32>>) -> Result<()> {
        let flat = self.memory.values().flatten().flat_map(numbers).collect();
        let changed = change(flat)?;
        let mut left = changed.as_slice();
        for held in self.memory.values_mut().flatten() {
            let Some((now, later)) = left.split_at_checked(held.dims()[0]) else {
                return Err(Error::internal("optimizer", "a memory of another length"));
            };
            left = later;
            *held = Tensor::from_data(TensorData::new(now.to_vec(), [now.len()]), (&held.device(), held.dtype()));
        }
        Ok(())
    }

    /// Takes up again what [`Optimizer::memory`] gave for the parameters of `model`, after `steps` updates.
    pub fn restore<M: Module>(
        &mut self,
        steps: u32,
        model: &M,
        read: impl Fn(&str) -> Result<Option<Vec<f32>>>,
    ) -> Result<()> {
        self.step = steps;
        self.memory.clear();
        let mut params = vec![];
        walk(model, |p| params.push((p.path().to_string(), p.shape(), p.values())));
        for (path, dims, param) in params {
            let mut held = vec![];
            for (name, length) in self.rule.memory(&dims) {
                let name = format!("{path}.{name}");
                match read(&name)? {
                    Some(values) if values.len() == length => {
                        let place = (&param.device(), param.dtype());
                        held.push(Tensor::from_data(TensorData::new(values, [length]), place));
                    }
                    Some(values) => {
                        let what = format!("`{name}` has {} numbers, but {length} are wanted", values.len());
                        return Err(Error::new("optimizer", what, "was the run begun with another model?"));
                    }
                    None => break, // frozen: nothing was remembered
                }
            }
            if !held.is_empty() {
                self.memory.insert(path, held);
            }
        }
        Ok(())
    }
}

struct Update<'a> {
    at: At,
    rule: Rule,
    groups: Groups,
    grads: Grads,
    memory: &'a mut BTreeMap<String, Vec<Tensor<1>>>,
}

impl MapParam for Update<'_> {
    fn map<const D: usize>(&mut self, path: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let Some(grad) = self.grads.take(path, &tensor) else {
            return Param::from_mapped_value(id, tensor, mapper);
        };
        let dims = tensor.dims();
        let decay = if self.groups.decays(path, D) { self.at.decay } else { 0.0 };
        let at = At { decay, rate: self.at.rate * self.groups.pace(path), ..self.at };
        // Out of the graph and unshared, so that the update writes where the parameter and its moments are.
        let tensor = tensor.inner();
        let memory = match self.memory.remove(path) {
            Some(held) => held,
            None => {
                let zeros = |(_, n)| Tensor::zeros([n], (&tensor.device(), tensor.dtype()));
                self.rule.memory(&dims).into_iter().map(zeros).collect()
            }
        };
        let (updated, memory) = self.rule.update(at, tensor.reshape([-1]), grad, memory);
        self.memory.insert(path.to_string(), memory);
        Param::from_mapped_value(id, Tensor::from_inner(updated.reshape(dims)).require_grad(), mapper)
    }
}

/// `√Σ g²` over all parameters, each summed in chunks of fixed size, in order.
pub fn global_norm<M: Module>(model: &M, grads: &Gradients) -> f32 {
    let mut sum = 0.0;
    walk(model, |p| sum += p.grad(grads).map_or(0.0, squares));
    sum.sqrt() as f32
}

/// `Σ v²`: chunks of fixed size, whose sums are added in order, whoever made them. On other devices as they sum.
fn squares(tensor: Tensor<1>) -> f64 {
    let mut total = 0.0;
    let seen = update_slices(vec![], tensor, |_, v| {
        let sums: Vec<f64> = v.par_chunks(4096).with_min_len(16).map(|c| qkv_kernels::simd::dot(c, c) as f64).collect();
        total = sums.into_iter().sum();
    });
    match seen {
        Ok(_) => total,
        Err(given) => {
            let (_, tensor) = *given;
            (tensor.clone() * tensor).sum().into_scalar::<f32>().into()
        }
    }
}

/// The numbers of a flat tensor, from whatever device.
pub fn numbers(tensor: &Tensor<1>) -> Vec<f32> {
    tensor.clone().into_data().convert_dtype(DType::F32).try_to_vec().unwrap_or_default()
}

/// Every gradient, flat, with the path of its parameter, in order: handles, not copies.
fn by_path<M: Module>(model: &M, grads: &Gradients) -> Vec<(String, Tensor<1>)> {
    let mut found = vec![];
    walk(model, |p| found.extend(p.grad(grads).map(|grad| (p.path().to_string(), grad))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_nn::{Build, Init, Linear};
    use qkv_testkit::values;

    fn layer() -> (Linear, Tensor<2>) {
        let build = Build::new(&Device::flex().autodiff(), 2);
        let x = build.param("x", [4, 3], Init::Normal { std: 1.0 }).val().detach();
        (Linear::new(&build, 3, 2, true, Init::Xavier), x)
    }

    #[test]
    fn the_first_step_moves_every_weight_by_the_rate() {
        let (layer, x) = layer();
        let before = values(layer.weight.val());
        let grads = layer.forward(x).sum().backward();
        let settings = Settings { decay: 0.0, ..Settings::default() };
        let (layer, _) = Optimizer::new(settings).step(layer, grads, 0.1);
        for (a, b) in values(layer.weight.val()).iter().zip(before) {
            assert!(((a - b).abs() - 0.1).abs() < 1e-4, "{a} {b}"); // m̂/√v̂ is ±1 at step 1
        }
        assert!(layer.weight.val().is_require_grad());
    }

    #[test]
    fn clipping_bounds_the_norm_and_reports_it() {
        let (layer, x) = layer();
        let (weight, bias) = (layer.weight.val(), layer.bias.as_ref().expect("a bias").val());
        let grads = (layer.forward(x) * 100.0).sum().backward();
        let all: Vec<f32> =
            [values(weight.grad(&grads).expect("reached")), values(bias.grad(&grads).expect("reached"))].concat();
        let want = all.iter().map(|g| g * g).sum::<f32>().sqrt();
        let (_, norm) = Optimizer::new(Settings { clip: Some(1.0), ..Settings::default() }).step(layer, grads, 0.1);
        assert!((norm / want - 1.0).abs() < 1e-5);
    }

    #[test]
    fn frozen_parameters_stay() {
        let (layer, x) = layer();
        let layer = Linear { weight: layer.weight.set_require_grad(false), ..layer };
        let before = values(layer.weight.val());
        let grads = layer.forward(x).sum().backward();
        let mut optimizer = Optimizer::new(Settings::default());
        let (layer, _) = optimizer.step(layer, grads, 0.1);
        assert_eq!(values(layer.weight.val()), before);
        assert_eq!(optimizer.memory.len(), 1);
    }

    #[test]
    fn two_micro_steps_add_up() {
        let (layer, x) = layer();
        let grads = |scale: f64| (layer.forward(x.clone()) * scale).sum().backward();
        let whole = Grads::One(grads(1.0));
        let part = |scale: f64| Grads::by_path(&layer, &grads(scale));
        let parts = Grads::Sum(Grads::added(part(0.25), part(0.75)));
        assert!((whole.norm(&layer) / parts.norm(&layer) - 1.0).abs() < 1e-6);
        let sgd = || Optimizer::with(Rule::Sgd { momentum: 0.0 }, 0.0, None, Groups::Alike);
        let a = values(sgd().update(layer.clone(), whole, 0.1, 0.0).weight.val());
        let b = values(sgd().update(layer.clone(), parts, 0.1, 0.0).weight.val());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} {b:?}");
    }

    #[test]
    fn what_is_remembered_comes_back() {
        for rule in [Rule::AdamW { beta1: 0.9, beta2: 0.99, eps: 1e-8 }, Rule::Adafactor, Rule::Sgd { momentum: 0.9 }] {
            let (layer, x) = layer();
            let mut optimizer = Optimizer::with(rule, 0.0, None, Groups::Alike);
            let grads = layer.forward(x).sum().backward();
            let (layer, _) = optimizer.step(layer, grads, 0.1);
            let read = |it: &Optimizer| -> BTreeMap<String, Vec<f32>> {
                it.memory().map(|(name, v)| (name, values(v.clone()))).collect()
            };
            let held = read(&optimizer);
            let mut again = Optimizer::with(rule, 0.0, None, Groups::Alike);
            again.restore(1, &layer, |name| Ok(held.get(name).cloned())).unwrap();
            assert_eq!((again.step, read(&again)), (optimizer.step, held), "{rule:?}");
            assert!(!read(&again).is_empty() && again.restore(1, &layer, |_| Ok(Some(vec![0.0]))).is_err());
        }
    }

    #[test]
    fn norms_biases_and_tables_do_not_decay_and_deep_layers_learn_slowly() {
        let groups = Groups::NoDecayOnNorms { layer_rate: 0.5, layers: 2 };
        assert!(groups.decays("decoder.layers.0.ffn.up.weight", 2) && !groups.decays("tokens.weight", 2));
        assert!(!groups.decays("decoder.layers.0.norm_self.gain", 1) && Groups::Alike.decays("tokens.weight", 2));
        let paths =
            ["head.out.weight", "encoder.layers.1.ffn.up.weight", "encoder.layers.0.ffn.up.bias", "tokens.weight"];
        assert_eq!(paths.map(|path| groups.pace(path)), [1.0, 0.5, 0.25, 0.125]);
    }
}
