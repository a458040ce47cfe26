//! Relative positions: a learned number per head and distance is added to the attention scores. Either one parameter for
//! each offset up to a limit (Shaw et al. 2018, in its scalar form), or T5's buckets: exact for near tokens, logarithmic
//! for far ones, the last for everything beyond.
//!
//! Shapes: table `[buckets, H]`, bias `[1, H, Tq, Tk]`; queries are aligned with the end of the keys. The bias is computed
//! once per pass and shared by all layers.
//!
//! ```
//! use qkv_nn::position::Buckets;
//! let t5 = Buckets::Logarithmic { buckets: 8, max_distance: 20, both_ways: false };
//! assert_eq!([0, -1, -2, -3, -4, -19, -500].map(|d| t5.of(d)), [0, 1, 2, 3, 4, 7, 7]);
//! assert_eq!(t5.of(3), 0); // a decoder does not look ahead
//! assert_eq!(Buckets::Each { max: 2 }.of(-7), 0); // one parameter for each of −2 … 2
//! ```

use crate::{Build, Embedding, Init};
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::Ids;
use serde::{Deserialize, Serialize};

/// How distances (key position − query position) share parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buckets {
    /// one for each offset from −max to max; farther ones use the last
    Each {
        /// the largest offset that has a parameter of its own
        max: usize,
    },
    /// T5's
    Logarithmic {
        /// how many
        buckets: usize,
        /// from here on everything is one bucket
        max_distance: usize,
        /// whether looking ahead has buckets of its own: an encoder
        both_ways: bool,
    },
}

impl Buckets {
    /// The same for a stack that looks both ways (an encoder) or only back (a decoder).
    pub fn looking(self, both: bool) -> Self {
        match self {
            Self::Logarithmic { buckets, max_distance, .. } => {
                Self::Logarithmic { buckets, max_distance, both_ways: both }
            }
            Self::Each { .. } => self,
        }
    }

    /// How many parameters per head.
    pub fn count(self) -> usize {
        match self {
            Self::Each { max } => 2 * max + 1,
            Self::Logarithmic { buckets, .. } => buckets,
        }
    }

    /// The bucket of a distance.
    pub fn of(self, distance: i64) -> usize {
        match self {
            Self::Each { max } => (distance.clamp(-(max as i64), max as i64) + max as i64) as usize,
            Self::Logarithmic { buckets, max_distance, both_ways } => {
                let half = if both_ways { buckets / 2 } else { buckets };
                let (base, far) = match (both_ways, distance > 0) {
                    (true, true) => (half, distance as usize),
                    (true, false) => (0, (-distance) as usize),
                    (false, true) => (0, 0),
                    (false, false) => (0, (-distance) as usize),
                };
                let exact = half / 2;
                if far < exact {
                    return base + far;
                }
                // f32 as in the reference: a bucket's border must fall on the same distance.
                let ratio = (far as f32 / exact as f32).ln() / (max_distance as f32 / exact as f32).ln();
                base + (exact + (ratio * (half - exact) as f32) as usize).min(half - 1)
            }
        }
    }
}

/// A learned number for each head and bucket.
#[derive(Module, Debug)]
pub struct Relative {
    /// `[buckets, H]`
    pub table: Embedding,
    #[module(skip)]
    buckets: Buckets,
}

impl Relative {
    /// A new table.
    pub fn new(build: &Build, buckets: Buckets, heads: usize, init: Init) -> Self {
        Self { table: Embedding::new(&build.at("table"), buckets.count(), heads, init), buckets }
    }

    /// The bias `[1, H, Tq, Tk]`.
    pub fn bias(&self, tq: usize, tk: usize) -> Tensor<4> {
        let place = |i: usize| (i % tk) as i64 - (tk as i64 - tq as i64 + (i / tk) as i64);
        let ids: Vec<u32> = (0..tq * tk).map(|i| self.buckets.of(place(i)) as u32).collect();
        self.table.forward(&Ids::new(ids, tq)).permute([2, 0, 1]).unsqueeze() // [Tq, Tk, H] → [1, H, Tq, Tk]
    }

    /// The bias of queries at any positions, `[1, H, N, keys]`: rows of unequal length, one behind the other.
    pub fn bias_at(&self, positions: &[usize], keys: usize) -> Tensor<4> {
        let place = |i: usize| (i % keys) as i64 - positions[i / keys] as i64;
        let ids: Vec<u32> = (0..positions.len() * keys).map(|i| self.buckets.of(place(i)) as u32).collect();
        self.table.forward(&Ids::new(ids, positions.len())).permute([2, 0, 1]).unsqueeze() // [N, Tk, H] → [1, H, N, Tk]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn both_ways_has_two_halves() {
        let t5 = Buckets::Logarithmic { buckets: 32, max_distance: 128, both_ways: true };
        assert_eq!((t5.of(0), t5.of(-1), t5.of(1), t5.of(-1000), t5.of(1000)), (0, 1, 17, 15, 31));
        assert!((-300..300).all(|d| t5.of(d) < 32));
    }

    #[test]
    fn the_last_query_of_a_cached_pass_gets_the_last_row() {
        let build = Build::new(&Device::flex(), 1);
        let relative = Relative::new(&build, Buckets::Each { max: 3 }, 2, Init::Normal { std: 1.0 });
        let full = relative.bias(5, 5).narrow(2, 4, 1);
        assert_eq!(full.clone().into_data(), relative.bias(1, 5).into_data());
        assert_eq!(full.into_data(), relative.bias_at(&[4], 5).into_data());
    }
}
