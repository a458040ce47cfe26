//! The learning rate by a short test (Smith 2015): the rate rises from very small to too large over some steps of a copy of the
//! network, the loss is watched, and a tenth of the rate at which it was lowest is taken: there it still fell, with room to
//! what breaks it. Everything random is keyed by the seed, so a run that is taken up again finds the same rate.

use crate::plan::Plan;
use qkv_base::{Error, Result};
use qkv_train::guard::Guard;
use qkv_train::step::{StepParams, learn};

/// Steps of the test.
pub const STEPS: u64 = 60;
/// The rates that it goes through.
const FROM: f64 = 1e-6;
const TO: f64 = 1e-1;
/// What the running mean of the loss keeps of itself at each step.
const KEEP: f64 = 0.9;

/// What a test came to.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeTest {
    /// the rate to use
    pub rate: f64,
    /// each rate with the running mean of the loss there
    pub curve: Vec<(f64, f64)>,
}

impl std::fmt::Display for RangeTest {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let (first, last) =
            (self.curve.first().copied().unwrap_or_default(), self.curve.last().copied().unwrap_or_default());
        let lowest = lowest(&self.curve).unwrap_or_default();
        write!(
            f,
            "the rate is {:.1e}, by a test of {} steps: the loss fell from {:.3} to {:.3} at {:.1e}, a tenth of which is taken, and \
             was {:.3} at {:.1e}",
            self.rate,
            self.curve.len(),
            first.1,
            lowest.1,
            lowest.0,
            last.1,
            last.0
        )
    }
}

/// Tries rates on a copy of a plan's network.
pub fn range_test(plan: &Plan) -> Result<RangeTest> {
    let mut network = plan.pretrained.model.clone();
    let mut optimizer = plan.optimizer()?;
    let train = &plan.recipe.train;
    let (mut curve, mut mean) = (vec![], 0.0);
    for i in 0..STEPS {
        let rate = FROM * (TO / FROM).powf(i as f64 / (STEPS - 1) as f64);
        let params = StepParams {
            seed: train.seed,
            step: i + 1,
            rate: rate as f32,
            smoothing: train.smoothing,
            recompute: train.recompute,
            products: train.precision,
        };
        let batch = plan.train.batch(i)?;
        let (next, outcome) = learn(network, &mut optimizer, &[batch], params, &mut Guard::new(0.0))?;
        network = next;
        mean = KEEP * mean + (1.0 - KEEP) * f64::from(outcome.loss);
        let smooth = mean / (1.0 - KEEP.powi(i as i32 + 1)); // so that the first do not count as nothing
        if !smooth.is_finite() {
            break;
        }
        curve.push((rate, smooth));
        // Far above the lowest there is nothing left to see.
        if lowest(&curve).is_some_and(|(_, low)| smooth > 2.0 * low + 0.1) {
            break;
        }
    }
    let (at, _) = lowest(&curve).ok_or_else(|| {
        Error::new(
            "--lr auto",
            "the loss is not a number from the first step on",
            "are the weights finite? qkv inspect MODEL",
        )
    })?;
    Ok(RangeTest { rate: rounded(at / 10.0), curve })
}

/// Where the loss is lowest.
fn lowest(curve: &[(f64, f64)]) -> Option<(f64, f64)> {
    curve.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Two digits: more would claim more than a test of so few steps knows.
fn rounded(rate: f64) -> f64 {
    format!("{rate:.1e}").parse().unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Recipe;

    #[test]
    fn the_same_seed_finds_the_same_rate_below_the_lowest_loss() {
        let text = "[data]\ncorpus = \"builtin:reviews\"\nobjective = \"classify\"\nexamples = 60\nvalid = 5\ntest = 5\nlength = 32\n\
             [tokenizer]\nkind = \"wordpiece\"\nvocab = 300\n[model]\nfamily = \"bert\"\nwidth = 16\nlayers = 1\nheads = 2\n\
             [train]\nrows = 4\n[eval]\nmetric = \"accuracy\"\n[optim]\nfind = true";
        let plan = || Plan::new(&Recipe::parse("test", text).expect("a recipe"), None).expect("a plan");
        let (a, b) = (plan(), plan());
        let found = range_test(&a).expect("a rate");
        assert_eq!(found, range_test(&b).expect("a rate"));
        assert!(found.rate >= 1e-7 && found.rate <= TO / 10.0, "{found}");
        assert!(found.curve.len() > 10 && found.to_string().contains("by a test of"), "{found}");
        assert_eq!(a.recipe.optim.rate, found.rate, "a plan with optim.find has it already");
    }
}
