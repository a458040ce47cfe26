//! Whether a run moves at all: a loss that ends where it began was not learnt from. Adapters whose rate is too low (or whose
//! base has nothing to give) do that in silence.

use crate::observe::{Event, Observer};
use qkv_base::Result;

/// The losses of the first and of the last steps.
#[derive(Clone, Debug)]
pub struct Movement {
    /// how many steps are put together at either end
    window: usize,
    first: Vec<f32>,
    last: std::collections::VecDeque<f32>,
    rate: f32,
}

impl Movement {
    /// Watches a run of so many steps.
    pub fn new(steps: u64) -> Self {
        let window = usize::try_from(steps / 10).unwrap_or(50).clamp(1, 50);
        Self { window, first: vec![], last: Default::default(), rate: 0.0 }
    }

    /// What is to be said, where the loss has not moved; `adapters` says what else may help.
    pub fn stuck(&self, adapters: bool) -> Option<String> {
        // Too short a run to tell.
        if self.first.len() < 5 || self.last.len() < 5 {
            return None;
        }
        let mean = |values: &mut dyn Iterator<Item = f32>, n: usize| values.map(f64::from).sum::<f64>() / n as f64;
        let first = mean(&mut self.first.iter().copied(), self.first.len());
        let last = mean(&mut self.last.iter().copied(), self.last.len());
        // Two per cent is less than what one lucky window differs by.
        if !first.is_finite() || !last.is_finite() || last < 0.98 * first {
            return None;
        }
        let more = match adapters {
            true => "a higher rate (--lr), more layers (--targets q,k,v,out,up,down) or a higher rank",
            false => "another rate (--lr), more steps, or a look at the labels: qkv data check FILE",
        };
        Some(format!(
            "warning: the loss did not move: {first:.4} in the first {} steps, {last:.4} in the last; the rate went up to {:.1e}. Try \
             {more}",
            self.first.len(),
            self.rate
        ))
    }
}

impl Observer for Movement {
    fn see(&mut self, event: &Event) -> Result<()> {
        if let Event::Step(step) = event {
            self.rate = self.rate.max(step.rate);
            if self.first.len() < self.window {
                self.first.push(step.loss);
            }
            self.last.push_back(step.loss);
            if self.last.len() > self.window {
                self.last.pop_front();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::StepReport;

    fn watched(loss: impl Fn(u64) -> f32) -> Movement {
        let mut movement = Movement::new(100);
        for step in 1..=100 {
            let report = StepReport {
                step,
                steps: 100,
                loss: loss(step),
                mean_loss: loss(step),
                logged: true,
                objective: 0.0,
                rate: 1e-5,
                norm: 0.0,
                tokens: 0,
                step_tokens: 0,
                took: 0.0,
                seconds: 0.0,
            };
            movement.see(&Event::Step(report)).expect("nothing to fail");
        }
        movement
    }

    #[test]
    fn a_loss_that_stays_is_said_and_one_that_falls_is_not() {
        let stuck = watched(|step| 0.693 + 0.001 * (step % 3) as f32);
        let said = stuck.stuck(true).expect("stuck");
        assert!(said.contains("0.6940 in the first 10 steps") && said.contains("1.0e-5"), "{said}");
        assert!(said.contains("--targets") && !stuck.stuck(false).expect("stuck").contains("--targets"));
        assert_eq!(watched(|step| 0.7 - 0.002 * step as f32).stuck(true), None);
        assert_eq!(Movement::new(100).stuck(true), None);
    }
}
