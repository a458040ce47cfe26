//! Embedding: each token id picks its row of a learned table. ids `[B, T]`, table `[V, C]` → `[B, T, C]`.
//!
//! The same table often serves as the output layer ("tied" weights): `logits = h·Wᵀ`.
//!
//! ```
//! use qkv_kernels::Ids;
//! use qkv_nn::{Build, Embedding, Init};
//! let table = Embedding::new(&Build::new(&burn::tensor::Device::flex(), 0), 10, 4, Init::Ones);
//! assert_eq!(table.forward(&Ids::new([1, 2, 3, 4, 5, 6], 2)).dims(), [2, 3, 4]);
//! ```

use crate::linear::unpacked;
use crate::{Build, Init, Stored};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_kernels::{
    Ids, PackedProjection, ProductPrecision, Projection, Weight, embedding, linear_in, packed_embedding, packed_linear,
};
use std::sync::Arc;

/// A table with a row for each token.
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[V, C]`
    pub weight: Param<Tensor<2>>,
    /// the table as it is read, where it does not learn
    pub stored: Stored,
}

impl Embedding {
    /// A new table of `rows` rows.
    pub fn new(build: &Build, rows: usize, width: usize, init: Init) -> Self {
        Self { weight: build.param("weight", [rows, width], init), stored: Stored::default() }
    }

    /// The table with packed rows to answer with; it does not learn any more.
    ///
    /// # Panics
    /// If they have another shape than the table.
    pub fn with_packed(self, weight: Arc<Weight>) -> Self {
        assert_eq!(weight.dims(), self.weight.lazy_shape().dims(), "a packed table of another shape");
        Self { weight: unpacked(&weight, self.weight.lazy_device()), stored: Stored::new(weight) }
    }

    /// V, without allocating.
    pub fn rows(&self) -> usize {
        self.weight.lazy_shape().dims::<2>()[0]
    }

    /// The row of each id. The ids have been checked against [`Embedding::rows`].
    pub fn forward(&self, ids: &Ids) -> Tensor<3> {
        match self.stored.get() {
            Some(table) => packed_embedding(table, ids, &self.weight.lazy_device()),
            None => embedding(self.weight.val(), ids),
        }
    }

    /// `h·Wᵀ (+ b)`: the table as output layer.
    pub fn logits(&self, h: Tensor<3>, bias: Option<Tensor<1>>, products: ProductPrecision) -> Tensor<3> {
        match self.stored.get() {
            Some(table) => packed_linear(h, &[PackedProjection { weight: table.clone(), bias }], None),
            None => linear_in(products, h, &[Projection::new(self.weight.val(), bias)], None),
        }
    }
}
