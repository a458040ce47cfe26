//! Weights averaged over time: `e ← β·e + (1 − β)·p` after every step. The average is often better than its last member,
//! and is what is evaluated and saved where it is kept.

use crate::checkpoint::Loaded;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_base::Result;
use qkv_kernels::fused::update_slices;
use qkv_model::pretrained::fill;
use qkv_nn::{MapParam, map_params, walk};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A running average of all parameters, flat, by path; it stays on their device.
#[derive(Clone, Debug, Default)]
pub struct Average {
    /// β
    pub keep: f32,
    /// the average; empty before the first step
    pub values: BTreeMap<String, Tensor<1>>,
}

impl Average {
    /// An average that keeps the share `keep` of itself at each step.
    pub fn new(keep: f32) -> Self {
        Self { keep, values: BTreeMap::new() }
    }

    /// Takes in the weights of step `step` (from 1). At first the average is young and moves faster:
    /// `β = min(keep, (1 + t)/(10 + t))`.
    pub fn take<M: Module>(&mut self, model: &M, step: u64) {
        let keep = self.keep.min((1.0 + step as f32) / (10.0 + step as f32));
        walk(model, |p| {
            let mixed = match self.values.remove(p.path()) {
                Some(held) => mix(keep, held, p.values()),
                // A handle would be shared with the parameter, whose next update would then have to copy it.
                None => p.values().mul_scalar(1.0),
            };
            self.values.insert(p.path().to_string(), mixed);
        });
    }

    /// The network with the average in place of its weights.
    pub fn of<M: Module>(&self, model: &M) -> M {
        struct Place<'a>(&'a BTreeMap<String, Tensor<1>>);
        impl MapParam for Place<'_> {
            fn map<const D: usize>(&mut self, path: &str, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let Some(values) = self.0.get(path) else { return param };
                let values = values.clone().reshape(param.lazy_shape());
                let values = if param.lazy_device().is_autodiff() { Tensor::from_inner(values) } else { values };
                let id = param.id;
                param.transform_for_load(values, id)
            }
        }
        map_params(model.clone(), &mut Place(&self.values))
    }
}

/// `β·held + (1 − β)·now`
fn mix(keep: f32, held: Tensor<1>, now: Tensor<1>) -> Tensor<1> {
    const PART: usize = 1 << 14;
    let mix = |(held, now): (&mut [f32], &[f32])| {
        held.iter_mut().zip(now).for_each(|(e, p)| *e = keep * *e + (1.0 - keep) * p);
    };
    let mixed = update_slices(vec![held], now, |written, now| {
        for held in written.iter_mut() {
            held.par_chunks_mut(PART).zip(now.par_chunks(PART)).for_each(mix);
        }
    });
    match mixed {
        Ok(mut one) => one.remove(0),
        Err((mut one, now)) => one.remove(0) * keep + now * (1.0 - keep),
    }
}

/// The mean of several checkpoints: the 2017 paper's way, which took the last five.
pub fn mean<M: Module>(model: M, members: &[Loaded]) -> Result<M> {
    let mut sums: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for member in members {
        for (path, values) in member.weights(&model)? {
            let sum = sums.entry(path).or_insert_with(|| vec![0.0; values.len()]);
            sum.iter_mut().zip(values).for_each(|(s, v)| *s += v as f64);
        }
    }
    let n = members.len() as f64;
    let means = sums.into_iter().map(|(path, sum)| (path, sum.into_iter().map(|s| (s / n) as f32).collect()));
    Ok(fill(model, means.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_model::pretrained::Values;
    use qkv_model::{Transformer, presets};

    #[test]
    fn an_average_lies_between_what_it_was_made_of() {
        let spec = presets::find("tiny-decoder").expect("a preset").spec();
        let model = |seed| Transformer::new(&spec, seed, &Device::flex()).expect("a valid spec");
        let mut average = Average::new(0.5);
        average.take(&model(1), 1);
        average.take(&model(2), 2); // β = min(½, 3/12)
        let read = |m: &Transformer| Values::of(m).read("tokens.weight");
        let (a, b, mean) = (read(&model(1)), read(&model(2)), read(&average.of(&model(3))));
        for ((a, b), mean) in a.iter().zip(b).zip(mean) {
            assert!((0.25 * a + 0.75 * b - mean).abs() < 1e-6);
        }
    }

    /// Inside `plain` no kernel serves a tensor, as on any device but the CPU.
    #[test]
    fn it_is_the_same_on_another_device() {
        let tensor = |v: [f32; 3]| Tensor::<1>::from_floats(v, &Device::flex());
        let run = || qkv_testkit::values(mix(0.9, tensor([1.0, -2.0, 3.0]), tensor([0.5, 0.25, -8.0])));
        let (here, there) = (run(), qkv_kernels::plain(run));
        assert!(here.iter().zip(&there).all(|(a, b)| (a - b).abs() < 1e-6), "{here:?} {there:?}");
    }
}
