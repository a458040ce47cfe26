//! Rotary positions (Su et al. 2021): pair i of a query or key at position p is turned by `p·ωᵢ`,
//! `ωᵢ = θ^(−2i/R)`. Turned queries and keys have a dot product that depends on their distance only.
//!
//! Longer contexts than a model was trained for are reached by scaling the frequencies ([`RopeScaling`]).
//!
//! ```
//! use qkv_kernels::Pairing;
//! use qkv_nn::position::{RopeScaling, Rotary};
//! let rotary = Rotary::new(4, 10_000.0, RopeScaling::None, Pairing::Halves);
//! assert_eq!(rotary.frequencies(), [1.0, 0.01]); // 10000^0, 10000^(−2/4)
//! ```

use burn::tensor::Tensor;
use qkv_kernels::{Pairing, Positions, RopeTable, rope};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;
use std::sync::{Arc, Mutex};

/// How frequencies are changed to reach longer contexts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RopeScaling {
    /// not at all
    None,
    /// all divided by `factor`: positions are squeezed
    Linear {
        /// by how much
        factor: f64,
    },
    /// θ raised for sequences of `length` tokens, so that slow waves are stretched and fast ones kept (NTK-aware)
    Dynamic {
        /// by how much
        factor: f64,
        /// the context the model was trained with
        original: usize,
        /// the context it is used with
        length: usize,
    },
    /// LLaMA 3's: waves longer than `original / low` are divided by `factor`, shorter than `original / high` kept, those
    /// between blended
    Llama3 {
        /// by how much
        factor: f64,
        /// long waves
        low: f64,
        /// short waves
        high: f64,
        /// the context the model was trained with
        original: usize,
    },
    /// YaRN (Peng et al. 2023): blended by how often a wave turns within the original context, and the scores sharpened
    Yarn {
        /// by how much
        factor: f64,
        /// the context the model was trained with
        original: usize,
        /// turns above which a wave is kept
        beta_fast: f64,
        /// turns below which it is divided
        beta_slow: f64,
    },
}

impl RopeScaling {
    /// The frequency of each of `pairs` pairs.
    fn frequencies(self, theta: f64, pairs: usize) -> Vec<f64> {
        let r = 2.0 * pairs as f64;
        let plain = |theta: f64| (0..pairs).map(move |i| theta.powf(-2.0 * i as f64 / r));
        match self {
            Self::None => plain(theta).collect(),
            Self::Linear { factor } => plain(theta).map(|w| w / factor).collect(),
            Self::Dynamic { factor, original, length } => {
                let stretch = factor * (length.max(original) as f64 / original as f64) - (factor - 1.0);
                plain(theta * stretch.powf(r / (r - 2.0))).collect()
            }
            Self::Llama3 { factor, low, high, original } => {
                let scale = |w: f64| {
                    let turns = original as f64 * w / TAU;
                    let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    w * ((1.0 - smooth) / factor + smooth)
                };
                plain(theta).map(scale).collect()
            }
            Self::Yarn { factor, original, beta_fast, beta_slow } => {
                // The pair whose wave turns `beta` times within the original context.
                let pair = |beta: f64| r * (original as f64 / (beta * TAU)).ln() / (2.0 * theta.ln());
                let (from, to) = (pair(beta_fast).floor().max(0.0), pair(beta_slow).ceil().min(r - 1.0));
                let width = if from == to { 0.001 } else { to - from };
                let blend = |(i, w): (usize, f64)| {
                    let divided = ((i as f64 - from) / width).clamp(0.0, 1.0);
                    w * ((1.0 - divided) + divided / factor)
                };
                plain(theta).enumerate().map(blend).collect()
            }
        }
    }

    /// What cos and sin are multiplied by.
    fn sharpness(self) -> f64 {
        match self {
            Self::Yarn { factor, .. } if factor > 1.0 => 0.1 * factor.ln() + 1.0,
            _ => 1.0,
        }
    }
}

/// The angles of every position, grown as far as they have been asked for.
#[derive(Clone, Debug)]
pub struct Rotary {
    omega: Arc<[f64]>,
    sharpness: f64,
    pairing: Pairing,
    table: Arc<Mutex<RopeTable>>,
}

impl Rotary {
    /// Turns `features` (R, even) features of each head, with base θ.
    pub fn new(features: usize, theta: f64, scaling: RopeScaling, pairing: Pairing) -> Self {
        let omega: Arc<[f64]> = scaling.frequencies(theta, features / 2).into();
        let empty = RopeTable::new(&omega, 0, 1.0, pairing);
        Self { omega, sharpness: scaling.sharpness(), pairing, table: Arc::new(Mutex::new(empty)) }
    }

    /// ωᵢ of each pair.
    pub fn frequencies(&self) -> &[f64] {
        &self.omega
    }

    /// Turns the first `rotate` of the `heads` heads of x `[B, T, heads·D]`.
    pub fn turn(&self, x: Tensor<3>, positions: &Positions, heads: usize, rotate: usize) -> Tensor<3> {
        let [b, t, _] = x.dims();
        let needed = positions.largest(b, t).map_or(0, |p| p + 1);
        let table = {
            let mut table = self.table.lock().unwrap_or_else(|broken| broken.into_inner());
            if table.positions() < needed {
                *table = RopeTable::new(&self.omega, needed.next_power_of_two(), self.sharpness, self.pairing);
            }
            table.clone()
        };
        rope(x, &table, positions, heads, rotate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::values;

    fn dot(pairing: Pairing, p: usize, q: usize) -> f32 {
        let rotary = Rotary::new(6, 100.0, RopeScaling::None, pairing);
        let x = Tensor::<1>::from_floats([0.3, -1.0, 0.5, 2.0, 0.1, -0.7, 0.9], &Device::flex()).reshape([1, 1, 7]);
        let at = |p| values(rotary.turn(x.clone(), &Positions::From(p), 1, 1));
        at(p).iter().zip(at(q)).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn the_dot_product_depends_on_the_distance_only() {
        for pairing in [Pairing::Halves, Pairing::Neighbours] {
            assert!((dot(pairing, 3, 10) - dot(pairing, 20, 27)).abs() < 1e-4);
            assert!((dot(pairing, 3, 10) - dot(pairing, 3, 11)).abs() > 1e-3);
        }
    }

    #[test]
    fn scalings_leave_fast_waves_and_slow_the_others() {
        let at = |s: RopeScaling| s.frequencies(10_000.0, 32);
        let plain = at(RopeScaling::None);
        assert_eq!(at(RopeScaling::Linear { factor: 4.0 })[5], plain[5] / 4.0);
        let original = 2048;
        for scaled in [
            at(RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original }),
            at(RopeScaling::Yarn { factor: 8.0, original, beta_fast: 32.0, beta_slow: 1.0 }),
            at(RopeScaling::Dynamic { factor: 8.0, original, length: 8 * original }),
        ] {
            assert!((scaled[0] / plain[0] - 1.0).abs() < 1e-9, "the fastest wave is kept");
            assert!(scaled[31] / plain[31] < 0.2, "the slowest is stretched");
            assert!(scaled.windows(2).all(|w| w[0] > w[1]));
        }
        // At the trained length nothing is stretched.
        assert_eq!(at(RopeScaling::Dynamic { factor: 8.0, original, length: original })[31], plain[31]);
    }
}
