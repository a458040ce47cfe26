//! The optimiser step: AdamW over every parameter of a network, in place, with the fused kernel.
//!
//! Gradients may first be scaled down so that their global norm is at most `clip`:
//! `g ← g·min(1, clip / ‖g‖)`, the norm over all parameters, summed in their order.
//!
//! Parameters without a gradient (frozen ones) are left alone and cost no memory.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Gradients, Tensor};
use qkv_kernels::fused::update;
use qkv_kernels::{AdamW, adamw};
use std::collections::HashMap;

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

/// AdamW with its moments.
#[derive(Clone, Debug, Default)]
pub struct Optimizer {
    settings: Settings,
    step: u32,
    moments: HashMap<ParamId, [Vec<f32>; 2]>,
}

impl Optimizer {
    /// A new optimiser; moments are made when a parameter is first updated.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Updates every parameter that has a gradient, with learning rate `rate`. Returns the network and the global norm
    /// of the gradients before clipping (0 when nothing is clipped: then it is not computed).
    pub fn step<M: Module>(&mut self, model: M, grads: Gradients, rate: f32) -> (M, f32) {
        self.step += 1;
        let norm = if self.settings.clip.is_some() { global_norm(&model, &grads) } else { 0.0 };
        let grad_scale = match self.settings.clip {
            Some(clip) if norm > clip => clip / norm,
            _ => 1.0,
        };
        let Settings { beta1, beta2, eps, decay, .. } = self.settings;
        let how = AdamW { rate, beta1, beta2, eps, decay, step: self.step, grad_scale };
        let model = model.map(&mut Update { how, grads, moments: &mut self.moments });
        (model, norm)
    }
}

struct Update<'a> {
    how: AdamW,
    grads: Gradients,
    moments: &'a mut HashMap<ParamId, [Vec<f32>; 2]>,
}

impl ModuleMapper for Update<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, tensor, mapper) = param.consume();
        let Some(grad) = tensor.grad_remove(&mut self.grads) else {
            return Param::from_mapped_value(id, tensor, mapper);
        };
        let n = grad.shape().num_elements();
        let [m, v] = self.moments.entry(id).or_insert_with(|| [vec![0.0; n], vec![0.0; n]]);
        // Out of the graph and unshared, so that the update writes where the parameter is.
        let updated = update(tensor.inner(), grad, |param, grad| adamw(&self.how, param, grad, m, v));
        Param::from_mapped_value(id, Tensor::from_inner(updated).require_grad(), mapper)
    }
}

/// `√Σ g²` over all parameters, each summed in chunks of fixed size, in order.
pub fn global_norm<M: Module>(model: &M, grads: &Gradients) -> f32 {
    struct Sum<'a>(&'a Gradients, f64);
    impl ModuleVisitor for Sum<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(grad) = param.val().grad(self.0) {
                let data = grad.into_data();
                let squares = |v: &[f32]| v.chunks(4096).map(|c| qkv_kernels::simd::dot(c, c) as f64).sum::<f64>();
                self.1 += data.as_slice::<f32>().map(squares).unwrap_or(f64::NAN);
            }
        }
    }
    let mut sum = Sum(grads, 0.0);
    model.visit(&mut sum);
    sum.1.sqrt() as f32
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
        assert_eq!(optimizer.moments.len(), 1);
    }
}
