//! Weights averaged over time: `e ← β·e + (1 − β)·p` after every step. The average is often better than its last member,
//! and is what is evaluated and saved where it is kept.

use crate::checkpoint::Loaded;
use crate::optim::read;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use qkv_base::Result;
use qkv_model::Transformer;
use qkv_model::pretrained::fill;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// A running average of all parameters, by path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Average {
    /// β
    pub keep: f32,
    /// the average; empty before the first step
    pub values: BTreeMap<String, Vec<f32>>,
}

impl Average {
    /// An average that keeps the share `keep` of itself at each step.
    pub fn new(keep: f32) -> Self {
        Self { keep, values: BTreeMap::new() }
    }

    /// Takes in the weights of step `step` (from 1). At first the average is young and moves faster:
    /// `β = min(keep, (1 + t)/(10 + t))`.
    pub fn take(&mut self, model: &Transformer, step: u64) {
        let keep = self.keep.min((1.0 + step as f32) / (10.0 + step as f32));
        model.visit(&mut Take { keep, values: &mut self.values, path: vec![] });
    }

    /// The network with the average in place of its weights.
    pub fn of(&self, model: &Transformer) -> Transformer {
        fill(model.clone(), self.values.clone())
    }
}

struct Take<'a> {
    keep: f32,
    values: &'a mut BTreeMap<String, Vec<f32>>,
    path: Vec<String>,
}

impl ModuleVisitor for Take<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        const PART: usize = 1 << 14;
        let (keep, path) = (self.keep, self.path.join("."));
        let mix = |(held, now): (&mut [f32], &[f32])| {
            held.iter_mut().zip(now).for_each(|(e, p)| *e = keep * *e + (1.0 - keep) * p);
        };
        read(param.val().inner(), |now| match self.values.get_mut(&path) {
            Some(held) => held.par_chunks_mut(PART).zip(now.par_chunks(PART)).for_each(mix),
            None => drop(self.values.insert(path, now.to_vec())),
        });
    }
}

/// The mean of several checkpoints: the 2017 paper's way, which took the last five.
pub fn mean(model: Transformer, members: &[Loaded]) -> Result<Transformer> {
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
    use qkv_model::presets;
    use qkv_model::pretrained::Values;

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
}
