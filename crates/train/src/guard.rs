//! Who looks at a step before it changes the network: a loss or a gradient that is not a number, or one that stands out of
//! what came before, changes nothing and is told with its reason.
//!
//! A spike is measured as in llm.c: `z = (x − mean) / deviation` over the last [`WINDOW`] steps, of the loss and of the
//! gradient's norm. All values enter the window, also those that spiked, so that a new level is a spike for a while only.

use crate::trainable::Trainable;
use burn::tensor::Tensor;
use qkv_data::Batch;
use qkv_nn::{Cx, Taps, walk};
use qkv_optim::Grads;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How many steps a spike is measured against.
pub const WINDOW: usize = 128;

/// The guard of a run, with what it remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// the largest z that is not a spike; 0: spikes are not looked for
    #[serde(skip)]
    pub most: f64,
    losses: Window,
    norms: Window,
}

impl Guard {
    /// A guard against numbers that are none and, with `most` above 0, against spikes.
    pub fn new(most: f64) -> Self {
        Self { most, ..Self::default() }
    }

    /// The same memory with another measure.
    pub fn with(self, most: f64) -> Self {
        Self { most, ..self }
    }

    /// What speaks against a step of this loss and norm, if anything does.
    pub fn objects(&mut self, loss: f32, norm: f32) -> Option<Objection> {
        if !(loss.is_finite() && norm.is_finite()) {
            return Some(Objection::NonFinite);
        }
        if self.most == 0.0 {
            return None;
        }
        let spikes = [("the loss", self.losses.take(loss)), ("the gradient's norm", self.norms.take(norm))];
        let spike = spikes.into_iter().filter_map(|(of, z)| Some((of, z?))).find(|(_, z)| *z > self.most)?;
        Some(Objection::Spike { of: spike.0, z: spike.1 })
    }
}

/// What speaks against a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objection {
    /// the loss or a gradient is not a number, or infinite
    NonFinite,
    /// it lies far above what came before
    Spike {
        /// what does
        of: &'static str,
        /// how far, in standard deviations
        z: f64,
    },
}

/// The last values, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Window(VecDeque<f32>);

impl Window {
    /// How many deviations `x` lies above the values before it, once there are enough of them; then it is one of them.
    fn take(&mut self, x: f32) -> Option<f64> {
        let n = self.0.len();
        let z = (n == WINDOW).then(|| {
            let mean = self.0.iter().map(|v| *v as f64).sum::<f64>() / n as f64;
            let variance = self.0.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>() / n as f64;
            if variance > 0.0 { (x as f64 - mean) / variance.sqrt() } else { 0.0 }
        });
        if n == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(x);
        z
    }
}

/// Where numbers first cease to be numbers: in the weights, on the way to the loss, or on the way back.
pub fn first_bad<N: Trainable>(
    model: &N,
    grads: &Grads,
    batches: &[Batch],
    mut cx: impl FnMut(usize) -> Cx<'static>,
) -> String {
    let mut bad = None;
    walk(model, |p| {
        if bad.is_none() && has_bad(p.values()) {
            bad = Some(p.path().to_string());
        }
    });
    if let Some(path) = bad {
        return format!("the weights of {path}");
    }
    let still = model.valid();
    for (i, batch) in batches.iter().enumerate() {
        let mut taps = Taps::new(["hidden", "normed"]);
        let answer = still.forward(batch, &mut cx(i).with_taps(&mut taps));
        let mut places: Vec<(&String, bool)> =
            taps.got().iter().map(|(path, tapped)| (path, has_bad(tapped.flat.clone()))).collect();
        places.sort_by_key(|(path, _)| order(path));
        if let Some((path, _)) = places.iter().find(|(_, bad)| *bad) {
            return format!("the output of {}", named(path));
        }
        if answer.is_ok_and(has_bad) {
            return "the scores".into();
        }
    }
    // Backwards, the gradient that is last on the way forward is the first.
    grads.last_bad(model).map_or_else(|| "the loss".into(), |path| format!("the gradient of {path}"))
}

fn has_bad<const D: usize>(tensor: Tensor<D>) -> bool {
    !tensor.into_data().as_slice::<f32>().is_ok_and(|v| v.iter().all(|x| x.is_finite()))
}

/// The order of the way: the reader before the writer, the front before the blocks, the last norm behind them.
fn order(path: &str) -> (bool, usize) {
    let block = path.split('.').find_map(|name| name.parse::<usize>().ok()).map(|i| i + 1);
    let place = if path.ends_with("normed") { usize::MAX } else { block.unwrap_or(0) };
    (path.starts_with("decoder"), place)
}

/// `decoder.3.hidden` as the parameters call it: `decoder.layers.3`.
fn named(path: &str) -> String {
    let names: Vec<&str> = path.split('.').collect();
    match names[..] {
        [stack, i, "hidden"] => format!("{stack}.layers.{i}"),
        [stack, "hidden"] => format!("{stack}: tokens and positions"),
        [stack, "normed"] => format!("{stack}.norm"),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_is_one_for_a_while() {
        let mut guard = Guard::new(6.0);
        let calm = |i: usize| 2.0 + 0.1 * ((i % 7) as f32 - 3.0);
        assert!((0..WINDOW + 50).all(|i| guard.objects(calm(i), 1.0).is_none()));
        let Some(Objection::Spike { of, z }) = guard.objects(9.0, 1.0) else { panic!("no spike") };
        assert!(of == "the loss" && z > 30.0, "{of} {z}");
        assert!((0..WINDOW).any(|_| guard.objects(9.0, 1.0).is_none()), "a new level is accepted in the end");
        let mut blind = Guard::new(0.0);
        assert!((0..200).all(|i| blind.objects(calm(i), 1.0).is_none()) && blind.objects(99.0, 99.0).is_none());
        assert_eq!(blind.objects(f32::NAN, 1.0), Some(Objection::NonFinite));
    }

    #[test]
    fn what_is_remembered_comes_back_to_the_bit() {
        let mut guard = Guard::new(3.0);
        for i in 0..9 {
            guard.objects(1.0 / (i as f32 + 3.0), 1.0 / (i as f32 + 7.0));
        }
        let json = serde_json::to_string(&guard).unwrap();
        assert_eq!(Guard { most: 3.0, ..serde_json::from_str(&json).unwrap() }, guard);
    }

    #[test]
    fn places_are_in_the_order_of_the_way() {
        let mut paths =
            ["decoder.normed", "decoder.10.hidden", "encoder.1.hidden", "decoder.2.hidden", "encoder.hidden"];
        paths.sort_by_key(|p| order(p));
        assert_eq!(
            paths,
            ["encoder.hidden", "encoder.1.hidden", "decoder.2.hidden", "decoder.10.hidden", "decoder.normed"]
        );
        assert_eq!(named("decoder.10.hidden"), "decoder.layers.10");
    }
}
