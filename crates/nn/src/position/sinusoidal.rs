//! Sinusoidal positions (Vaswani et al. 2017): feature pair i of position p is `sin(p·ωᵢ), cos(p·ωᵢ)` with
//! `ωᵢ = 10000^(−2i/C)`: waves from fast to slow, like the digits of a binary counter. Computed once, reused.
//!
//! The paper interleaves the two, `[sin, cos, sin, cos, …]`; Marian's checkpoints put all sines first
//! ([`Waves::Halves`]).
//!
//! ```
//! use qkv_nn::position::{Sinusoidal, Waves};
//! let table = Sinusoidal::new(4, Waves::Interleaved).rows(0, 2); // "river bank": two words, four features
//! assert_eq!(table[..4], [0.0, 1.0, 0.0, 1.0]); // position 0: sin 0, cos 0, …
//! assert!((table[4] - 1f32.sin()).abs() < 1e-7 && (table[6] - 0.01f32.sin()).abs() < 1e-7);
//! ```

use burn::tensor::{Tensor, TensorData};
use qkv_kernels::Positions;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// In which order a row holds its sines and cosines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waves {
    /// `[sin, cos, sin, cos, …]`, the paper's
    Interleaved,
    /// `[sin, sin, …, cos, cos, …]`, Marian's
    Halves,
}

/// The table of waves, grown as far as it has been asked for.
#[derive(Clone, Debug)]
pub struct Sinusoidal {
    width: usize,
    waves: Waves,
    table: Arc<Mutex<Vec<f32>>>,
}

impl Sinusoidal {
    /// Waves for vectors of `width` features.
    pub fn new(width: usize, waves: Waves) -> Self {
        Self { width, waves, table: Arc::default() }
    }

    fn row(&self, position: usize) -> impl Iterator<Item = f32> + '_ {
        // Feature 2i and 2i + 1 share a wave; with an odd width the last cosine has no place.
        let angle = move |i: usize| position as f64 / 10_000f64.powf(2.0 * i as f64 / self.width as f64);
        let sines = self.width.div_ceil(2);
        (0..self.width).map(move |f| match self.waves {
            Waves::Interleaved if f % 2 == 0 => angle(f / 2).sin() as f32,
            Waves::Interleaved => angle(f / 2).cos() as f32,
            Waves::Halves if f < sines => angle(f).sin() as f32,
            Waves::Halves => angle(f - sines).cos() as f32,
        })
    }

    /// Rows `from..to`, row by row.
    pub fn rows(&self, from: usize, to: usize) -> Vec<f32> {
        let mut table = self.table.lock().unwrap_or_else(|broken| broken.into_inner());
        while table.len() < to * self.width {
            let next = table.len() / self.width;
            table.extend(self.row(next));
        }
        table[from * self.width..to * self.width].to_vec()
    }

    /// x `[B, T, C]` with the wave of each token's position added.
    pub fn add(&self, x: Tensor<3>, positions: &Positions) -> Tensor<3> {
        let [_, t, c] = x.dims();
        let (rows, data) = match positions {
            Positions::From(start) => (1, self.rows(*start, start + t)),
            Positions::Each(each) => (each.len() / t.max(1), each.iter().flat_map(|&p| self.rows(p, p + 1)).collect()),
        };
        let waves = Tensor::from_data(TensorData::new(data, [rows, t, c]), (&x.device(), x.dtype()));
        x + waves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_interleaved_features_regrouped() {
        let (a, b) = (Sinusoidal::new(6, Waves::Interleaved).rows(5, 6), Sinusoidal::new(6, Waves::Halves).rows(5, 6));
        assert_eq!([a[0], a[2], a[4], a[1], a[3], a[5]], b[..]);
    }

    #[test]
    fn the_table_is_the_same_however_it_grew() {
        let (a, b) = (Sinusoidal::new(8, Waves::Halves), Sinusoidal::new(8, Waves::Halves));
        a.rows(0, 3);
        assert_eq!(a.rows(0, 50), b.rows(0, 50));
    }
}
