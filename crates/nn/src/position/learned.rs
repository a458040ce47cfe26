//! Learned absolute positions: a table `[positions, C]` whose row p is added to the token at position p, either once at
//! the input or again before each layer. Nothing is known past the last row.
//!
//! Some checkpoints leave rows unused at the front (BART: 2): `offset` skips them.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_kernels::Positions;
//! use qkv_nn::{Build, Init, position::Learned};
//! let table = Learned::new(&Build::new(&Device::flex(), 0), 5, 2, 0, Init::Ones);
//! let y = table.add(Tensor::<3>::zeros([1, 3, 2], &Device::flex()), &Positions::From(2)); // positions 2, 3, 4
//! assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [1.0; 6]);
//! ```

use crate::{Build, Embedding, Init};
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::{Ids, Positions};

/// A learned vector for each position.
#[derive(Module, Debug)]
pub struct Learned {
    /// `[offset + positions, C]`
    pub table: Embedding,
    #[module(skip)]
    offset: usize,
    #[module(skip)]
    fixed: Option<u32>,
}

impl Learned {
    /// A table for `positions` positions behind `offset` unused rows.
    pub fn new(build: &Build, positions: usize, width: usize, offset: usize, init: Init) -> Self {
        Self { table: Embedding::new(&build.at("table"), offset + positions, width, init), offset, fixed: None }
    }

    /// The same, where being at `position` teaches its vector nothing.
    pub fn fixing(self, position: Option<usize>) -> Self {
        Self { fixed: position.map(|p| (self.offset + p) as u32), ..self }
    }

    /// How many positions there are.
    pub fn positions(&self) -> usize {
        self.table.rows() - self.offset
    }

    /// The vectors of a batch of `rows` × `len` tokens, `[1 or B, T, C]`.
    pub fn vectors(&self, positions: &Positions, rows: usize, len: usize) -> Tensor<3> {
        let rows = if matches!(positions, Positions::From(_)) { 1 } else { rows };
        let ids: Vec<u32> =
            (0..rows * len).map(|i| (self.offset + positions.at(i / len, i % len, len)) as u32).collect();
        self.table.forward(&Ids::new(ids, rows).fixing(self.fixed))
    }

    /// x `[B, T, C]` with each token's position vector added.
    pub fn add(&self, x: Tensor<3>, positions: &Positions) -> Tensor<3> {
        let [b, t, _] = x.dims();
        x + self.vectors(positions, b, t)
    }
}
