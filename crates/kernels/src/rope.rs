//! Rotary positions (Su et al. 2021): each pair of features (a, b) of a query or key at position p is turned by the
//! angle `p·ωᵢ`: `(a·cos − b·sin, a·sin + b·cos)`. The dot product of two turned vectors depends on their distance only.
//!
//! Shapes: x `[B, T, N·D]`, the first `rotate` of N heads are turned (queries and keys of a packed `[q | k | v]`), the
//! rest pass through. A pair is (i, i + R/2) in LLaMA's checkpoints ([`Pairing::Halves`]) and (2i, 2i + 1) in the paper
//! ([`Pairing::Neighbours`]); R ≤ D features of each head are turned. The table is computed once.
//! Backward: the same turn by the opposite angle. Nothing is kept.

use burn::tensor::{Tensor, TensorData};
use std::sync::Arc;

/// Which two features make a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// (i, i + R/2)
    Halves,
    /// (2i, 2i + 1)
    Neighbours,
}

/// cos and sin of every position and pair, computed once.
#[derive(Clone, Debug)]
pub struct RopeTable {
    /// `[positions, R/2]`
    cos: Arc<[f32]>,
    /// `[positions, R/2]`
    sin: Arc<[f32]>,
    /// R/2: pairs per head
    pairs: usize,
    pairing: Pairing,
}

impl RopeTable {
    /// The table for frequencies `omega` (one per pair), up to `positions`; `scale` multiplies cos and sin (1 unless the
    /// scaling says otherwise, as YaRN's does).
    pub fn new(omega: &[f64], positions: usize, scale: f64, pairing: Pairing) -> Self {
        let table = |f: fn(f64) -> f64| {
            (0..positions).flat_map(|p| omega.iter().map(move |w| (f(p as f64 * w) * scale) as f32)).collect()
        };
        Self { cos: table(f64::cos), sin: table(f64::sin), pairs: omega.len(), pairing }
    }

    /// How many positions the table holds.
    pub fn positions(&self) -> usize {
        self.cos.len().checked_div(self.pairs).unwrap_or(0)
    }
}

/// The position of each token of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Positions {
    /// Every row starts at this position: 0 for a whole sequence, the cache's length when decoding.
    From(usize),
    /// One position per token, row by row `[B·T]`: left padding, packed documents.
    Each(Arc<[usize]>),
}

impl Positions {
    /// The position of token `t` of row `b`, in rows of `len`.
    #[inline]
    pub fn at(&self, b: usize, t: usize, len: usize) -> usize {
        match self {
            Self::From(start) => start + t,
            Self::Each(each) => each[b * len + t],
        }
    }

    /// The largest position in a batch of `rows` × `len`, if there are any tokens.
    pub fn largest(&self, rows: usize, len: usize) -> Option<usize> {
        match self {
            _ if rows * len == 0 => None,
            Self::From(start) => Some(start + len - 1),
            Self::Each(each) => each.iter().copied().max(),
        }
    }
}

/// Turns the first `rotate` of the `heads` heads of x `[B, T, heads·D]`.
///
/// # Panics
/// If a position is past the table or the shapes do not fit: the caller has checked the sequence length.
pub fn rope(x: Tensor<3>, table: &RopeTable, positions: &Positions, heads: usize, rotate: usize) -> Tensor<3> {
    plain(x, table, positions, heads, rotate)
}

/// The plain twin.
fn plain(x: Tensor<3>, table: &RopeTable, positions: &Positions, heads: usize, rotate: usize) -> Tensor<3> {
    let [b, t, c] = x.dims();
    let (d, r) = (c / heads, table.pairs);
    let device = x.device();
    let dtype = x.dtype();
    let pick = |from: &[f32]| {
        let data: Vec<f32> = (0..b * t)
            .flat_map(|i| {
                let p = positions.at(i / t, i % t, t);
                from[p * r..(p + 1) * r].to_vec()
            })
            .collect();
        Tensor::<4>::from_data(TensorData::new(data, [b, t, 1, r]), (&device, dtype))
    };
    let (cos, sin) = (pick(&table.cos), pick(&table.sin));
    let x = x.reshape([b, t, heads, d]);
    let turned = x.clone().narrow(2, 0, rotate);
    let (first, second) = match table.pairing {
        Pairing::Halves => (turned.clone().narrow(3, 0, r), turned.clone().narrow(3, r, r)),
        Pairing::Neighbours => {
            let pairs: Tensor<5> = turned.clone().narrow(3, 0, 2 * r).reshape([b, t, rotate, r, 2]);
            let part = |i| pairs.clone().narrow(4, i, 1).reshape([b, t, rotate, r]);
            (part(0), part(1))
        }
    };
    let new_first = first.clone() * cos.clone() - second.clone() * sin.clone();
    let new_second = first * sin + second * cos;
    let new = match table.pairing {
        Pairing::Halves => Tensor::cat(vec![new_first, new_second], 3),
        Pairing::Neighbours => Tensor::stack::<5>(vec![new_first, new_second], 4).reshape([b, t, rotate, 2 * r]),
    };
    let new = if 2 * r < d { Tensor::cat(vec![new, turned.narrow(3, 2 * r, d - 2 * r)], 3) } else { new };
    let new = if rotate < heads { Tensor::cat(vec![new, x.narrow(2, rotate, heads - rotate)], 2) } else { new };
    new.reshape([b, t, c])
}
