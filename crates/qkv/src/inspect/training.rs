//! What training costs: `6·N·D` operations for N parameters and D tokens (two for each parameter and token forward, four
//! backward), and how many days that is on this machine, by how fast it multiplies matrices now.

use crate::{Error, Result};
use burn::tensor::Tensor;
use qkv_kernels::{Projection, linear};
use qkv_nn::device;
use serde::Serialize;
use std::time::{Duration, Instant};

/// What it costs to learn from so many tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Training {
    /// D
    pub tokens: f64,
    /// 6·N·D
    pub operations: f64,
    /// operations a second that this machine did just now
    pub speed: f64,
    /// how long it would take at that speed
    pub days: f64,
}

impl Training {
    /// Of `parameters` parameters and `tokens` tokens; measures this machine for half a second.
    pub fn of(parameters: u64, tokens: f64) -> Result<Self> {
        if !tokens.is_finite() || tokens < 1.0 {
            return Err(Error::new("--tokens", format!("{tokens} is not a number of tokens"), "use 1e6 or so"));
        }
        let (operations, speed) = (6.0 * parameters as f64 * tokens, speed());
        Ok(Self { tokens, operations, speed, days: operations / speed / 86_400.0 })
    }

    /// A line for a person.
    pub fn line(&self) -> String {
        let Self { tokens, operations, speed, days } = *self;
        let days = match days {
            d if d < 1.0 => format!("{:.1} hours", 24.0 * d),
            d if d < 1000.0 => format!("{d:.1} days"),
            d => format!("{:.0} years", d / 365.25),
        };
        format!(
            "training on {tokens:.3e} tokens: 6·N·D = {operations:.2e} operations, {days} at the {:.0} GFLOP/s of products \
             that this machine does now; a whole step is slower",
            speed / 1e9
        )
    }
}

/// Operations a second of a product of matrices, f32, on all threads.
fn speed() -> f64 {
    const SIDE: usize = 1024;
    let at = device::default();
    let (x, w) = (Tensor::<2>::ones([SIDE, SIDE], &at), Tensor::<2>::ones([SIDE, SIDE], &at));
    let once = || {
        let began = Instant::now();
        let y = linear(x.clone(), &[Projection::new(w.clone(), None)], None);
        drop(y.into_data());
        began.elapsed()
    };
    let (began, mut best) = (Instant::now(), once());
    while began.elapsed() < Duration::from_millis(500) {
        best = best.min(once());
    }
    2.0 * (SIDE as f64).powi(3) / best.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GPT-3: 175 billion parameters and 300 billion tokens are 3.15e23 operations.
    #[test]
    fn six_for_each_parameter_and_token() {
        let gpt3 = Training::of(175_000_000_000, 300e9).expect("a cost");
        assert!((gpt3.operations / 3.15e23 - 1.0).abs() < 1e-9 && gpt3.days > 1000.0);
        assert!(Training::of(1, f64::NAN).is_err() && Training::of(1, 0.0).is_err());
    }
}
