//! Embedding: row `id` of a table for each token. `y[b, t] = W[ids[b, t]]`.
//!
//! Shapes: W `[V, C]`, ids `[B, T]`, y `[B, T, C]`. Backward: each output gradient is added to the row it came from,
//! token by token in order, so the sum has one order at any thread count.

use burn::tensor::{Int, Tensor, TensorData};
use std::sync::Arc;

/// Token ids of a batch, `[B, T]`, on the host: they come from a tokenizer and are checked before any tensor sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    data: Arc<[u32]>,
    rows: usize,
}

impl Ids {
    /// `rows` rows of equal length.
    ///
    /// # Panics
    /// If `data` cannot be cut into `rows` equal rows.
    pub fn new(data: impl Into<Arc<[u32]>>, rows: usize) -> Self {
        let data = data.into();
        assert!(if rows == 0 { data.is_empty() } else { data.len().is_multiple_of(rows) }, "ids must fill a rectangle");
        Self { data, rows }
    }

    /// One sequence.
    pub fn one(data: impl Into<Arc<[u32]>>) -> Self {
        Self::new(data, 1)
    }

    /// `[B, T]`
    pub fn dims(&self) -> [usize; 2] {
        [self.rows, self.data.len().checked_div(self.rows).unwrap_or(0)]
    }

    /// All ids, row by row.
    pub fn as_slice(&self) -> &[u32] {
        &self.data
    }

    /// Row `b`.
    pub fn row(&self, b: usize) -> &[u32] {
        let [_, t] = self.dims();
        &self.data[b * t..(b + 1) * t]
    }

    /// The first place whose id is not below `vocabulary`: `(row, column, id)`.
    pub fn first_outside(&self, vocabulary: usize) -> Option<(usize, usize, u32)> {
        let [_, t] = self.dims();
        self.data.iter().position(|&id| id as usize >= vocabulary).map(|i| (i / t, i % t, self.data[i]))
    }
}

/// Looks every id up in `table`.
///
/// # Panics
/// If an id is outside the table: callers check with [`Ids::first_outside`] and name the place.
pub fn embedding(table: Tensor<2>, ids: &Ids) -> Tensor<3> {
    assert_eq!(ids.first_outside(table.dims()[0]), None, "embedding: id outside the table");
    plain(table, ids)
}

/// The plain twin.
fn plain(table: Tensor<2>, ids: &Ids) -> Tensor<3> {
    let [b, t] = ids.dims();
    let c = table.dims()[1];
    let index: Vec<i64> = ids.as_slice().iter().map(|&id| id as i64).collect();
    let index = Tensor::<1, Int>::from_data(TensorData::new(index, [b * t]), &table.device());
    table.select(0, index).reshape([b, t, c])
}
