//! Embedding: row `id` of a table for each token. `y[b, t] = W[ids[b, t]]`.
//!
//! Shapes: W `[V, C]`, ids `[B, T]`, y `[B, T, C]`. Backward: each output gradient is added to the row it came from,
//! token by token in order, so the sum has one order at any thread count. For that the tokens are first sorted by id
//! (they stay in order among their own); then every row of dW is independent and is written once. Nothing of the table
//! is kept but its shape. Rows are copied as they are, NaN and infinities included.

use crate::fused::{Fused, apply, contiguous, elements, tensor, uninit};
use crate::registry::{Bench, Case, Op, Work};
use crate::{simd, threads};
use burn::backend::flex::FlexTensor;
use burn::tensor::{Int, Tensor, TensorData};
use std::sync::Arc;

/// Token ids of a batch, `[B, T]`, on the host: they come from a tokenizer and are checked before any tensor sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    data: Arc<[u32]>,
    rows: usize,
    fixed: Option<u32>,
}

impl Ids {
    /// `rows` rows of equal length.
    ///
    /// # Panics
    /// If `data` cannot be cut into `rows` equal rows.
    pub fn new(data: impl Into<Arc<[u32]>>, rows: usize) -> Self {
        let data = data.into();
        assert!(if rows == 0 { data.is_empty() } else { data.len().is_multiple_of(rows) }, "ids must fill a rectangle");
        Self { data, rows, fixed: None }
    }

    /// The same, where looking up `id` passes no gradient to its row: the vector of padding is not learned from padding.
    pub fn fixing(self, id: Option<u32>) -> Self {
        Self { fixed: id, ..self }
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
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::{Ids, embedding};
///
/// let table = Tensor::<2>::from_floats([[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]], &Device::flex());
/// let y = embedding(table, &Ids::one([2, 0])); // [1, 2, 2]
/// assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [2.0, 2.5, 0.0, 0.5]);
/// ```
///
/// # Panics
/// If an id is outside the table: callers check with [`Ids::first_outside`] and name the place.
pub fn embedding(table: Tensor<2>, ids: &Ids) -> Tensor<3> {
    assert_eq!(ids.first_outside(table.dims()[0]), None, "embedding: id outside the table");
    match apply(Embedding { ids: ids.clone() }, [Some(table.into_dispatch())]) {
        Ok(y) => Tensor::from_dispatch(y),
        Err([table]) => plain(Tensor::from_dispatch(table.expect("embedding has a table")), ids),
    }
}

/// The plain twin.
fn plain(table: Tensor<2>, ids: &Ids) -> Tensor<3> {
    let [b, t] = ids.dims();
    let c = table.dims()[1];
    let index: Vec<i64> = ids.as_slice().iter().map(|&id| id as i64).collect();
    let index = Tensor::<1, Int>::from_data(TensorData::new(index, [b * t]), &table.device());
    let y = table.select(0, index);
    let Some(fixed) = ids.fixed else { return y.reshape([b, t, c]) };
    let learns: Vec<f32> = ids.as_slice().iter().map(|&id| if id == fixed { 0.0 } else { 1.0 }).collect();
    let learns = Tensor::<2>::from_data(TensorData::new(learns, [b * t, 1]), &y.device()).cast(y.dtype());
    let fixed = y.clone().detach() * (learns.clone() * -1.0 + 1.0);
    (y * learns + fixed).reshape([b, t, c])
}

#[derive(Clone, Debug)]
struct Embedding {
    ids: Ids,
}

impl Fused<1> for Embedding {
    /// `[V, C]`
    type Saved = [usize; 2];

    fn forward(&self, [table]: [Option<FlexTensor>; 1], _: bool) -> (FlexTensor, Option<[usize; 2]>) {
        let table = contiguous(table.expect("embedding has a table"));
        let (v, c) = (table.layout().shape()[0], table.layout().shape()[1]);
        let (w, ids) = (elements(&table), self.ids.as_slice());
        let mut y = uninit(ids.len() * c);
        threads::for_rows(&mut y, c, |first, y| {
            for (y, &id) in y.chunks_exact_mut(c).zip(&ids[first..]) {
                y.copy_from_slice(&w[id as usize * c..][..c]);
            }
        });
        let [b, t] = self.ids.dims();
        (tensor(y, [b, t, c]), Some([v, c]))
    }

    fn backward(&self, [v, c]: [usize; 2], grad: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let grad = contiguous(grad);
        let (dy, sorted) = (elements(&grad), Sorted::new(self.ids.as_slice(), v));
        let mut dw = uninit(v * c);
        threads::for_rows(&mut dw, c, |first, dw| {
            for (i, dw) in dw.chunks_exact_mut(c).enumerate() {
                dw.fill(0.0);
                if self.ids.fixed == Some((first + i) as u32) {
                    continue;
                }
                for &token in sorted.tokens(first + i) {
                    simd::axpy(1.0, &dy[token as usize * c..][..c], dw);
                }
            }
        });
        [Some(tensor(dw, [v, c]))]
    }
}

/// Tokens sorted by id, in order among the same id.
struct Sorted {
    /// `[V + 1]`: where the tokens of each id begin
    starts: Vec<u32>,
    tokens: Vec<u32>,
}

impl Sorted {
    /// A counting sort: there are no more ids than rows in the table that is about to be written.
    fn new(ids: &[u32], v: usize) -> Self {
        let mut starts = vec![0; v + 1];
        ids.iter().for_each(|&id| starts[id as usize + 1] += 1);
        (0..v).for_each(|id| starts[id + 1] += starts[id]);
        let (mut next, mut tokens) = (starts.clone(), vec![0; ids.len()]);
        for (token, &id) in ids.iter().enumerate() {
            tokens[next[id as usize] as usize] = token as u32;
            next[id as usize] += 1;
        }
        Self { starts, tokens }
    }

    /// The tokens with this id, first to last.
    fn tokens(&self, id: usize) -> &[u32] {
        &self.tokens[self.starts[id] as usize..self.starts[id + 1] as usize]
    }
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "embedding", formula: "W[ids]", cases, bench };

/// Ids that meet some rows often, some once and some never.
fn some_ids(b: usize, t: usize, v: usize) -> Ids {
    Ids::new((0..b * t).map(|i| (i * i * 31 % v) as u32).collect::<Vec<_>>(), b)
}

fn case([b, t]: [usize; 2], [v, c]: [usize; 2]) -> Case {
    Case::new(format!("[{b}, {t}] of [{v}, {c}]"), [v * c], move |x| {
        embedding(x[0].clone().reshape([v, c]), &some_ids(b, t, v)).flatten(0, 2)
    })
}

fn cases() -> Vec<Case> {
    let transposed = Case::new("transposed", [5 * 7], |x| {
        embedding(x[0].clone().reshape([5, 7]).transpose(), &some_ids(2, 4, 7)).flatten(0, 2)
    });
    let narrowed = Case::new("narrowed", [6 * 19], |x| {
        embedding(x[0].clone().reshape([6, 19]).narrow(1, 1, 17), &some_ids(2, 3, 6)).flatten(0, 2)
    });
    let one_id = Case::new("one id, many tokens", [3 * 5], |x| {
        embedding(x[0].clone().reshape([3, 5]), &Ids::one(vec![1; 101])).flatten(0, 2)
    });
    let fixed = Case::new("one row is fixed", [5 * 3], |x| {
        embedding(x[0].clone().reshape([5, 3]), &Ids::new([1, 2, 2, 4, 0, 2], 2).fixing(Some(2))).flatten(0, 2)
    });
    vec![
        fixed,
        case([1, 1], [1, 1]),
        case([1, 1], [3, 2]),
        case([2, 5], [11, 7]),
        case([3, 4], [13, 16]),
        case([7, 53], [211, 131]),
        transposed,
        narrowed,
        one_id,
    ]
}

fn bench() -> Bench {
    Bench { case: case([8, 256], [4096, 384]), work: Work::Bytes(8.0 * 2048.0 * 384.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_of_one_row_add_up_and_an_unmet_row_gets_none() {
        let op = Embedding { ids: Ids::one([2, 0, 2]) };
        let dy = tensor(vec![1.0, 10.0, 2.0, 20.0, 4.0, 40.0], [1, 3, 2]);
        let [dw] = op.backward([3, 2], dy, [true]);
        assert_eq!(elements(&dw.expect("a gradient")), [2.0, 20.0, 0.0, 0.0, 5.0, 50.0]);
    }

    #[test]
    fn additions_keep_the_order_of_the_tokens() {
        // 1e8 + 1 − 1e8 is 0 in this order and 1 in any that adds 1 last.
        let op = Embedding { ids: Ids::one([0, 0, 0]) };
        let [dw] = op.backward([1, 1], tensor(vec![1e8, 1.0, -1e8], [1, 3, 1]), [true]);
        assert_eq!(elements(&dw.expect("a gradient")), [0.0]);
    }

    #[test]
    fn rows_are_copied_as_they_are() {
        let table = tensor(vec![f32::NAN, f32::NEG_INFINITY, -0.0, 1e-45], [2, 2]);
        let (y, _) = Embedding { ids: Ids::one([1, 0]) }.forward([Some(table)], false);
        let bits: Vec<u32> = elements(&y).iter().map(|v| v.to_bits()).collect();
        let want = [-0.0f32, 1e-45, f32::NAN, f32::NEG_INFINITY].map(f32::to_bits);
        assert_eq!(bits, want);
    }

    #[test]
    fn no_tokens_no_rows() {
        for ids in [Ids::new([], 0), Ids::new([], 2)] {
            let (y, saved) = Embedding { ids: ids.clone() }.forward([Some(tensor(vec![1.0; 6], [3, 2]))], true);
            assert!(elements(&y).is_empty() && saved == Some([3, 2]));
            let [dw] = Embedding { ids }.backward([3, 2], y, [true]);
            assert_eq!(elements(&dw.expect("a gradient")), [0.0; 6]);
        }
    }

    #[test]
    fn ids_know_their_rectangle() {
        let ids = Ids::new([1, 2, 3, 9, 5, 6], 2);
        assert_eq!((ids.dims(), ids.row(1)), ([2, 3], &[9, 5, 6][..]));
        assert_eq!((ids.first_outside(9), ids.first_outside(10)), (Some((1, 0, 9)), None));
    }

    #[test]
    #[should_panic(expected = "id outside the table")]
    fn an_id_outside_the_table_is_refused() {
        embedding(Tensor::zeros([2, 2], &burn::tensor::Device::flex()), &Ids::one([2]));
    }
}
