//! Rows of mostly zeros, and the product with their transpose.

use rayon::prelude::*;

/// The places of a row that are not 0, in ascending order, with their values.
pub type SparseRow = Vec<(u32, f64)>;

/// The same matrix by columns: for each column the rows that have something there. With it, `Xᵀ·r` is one independent sum
/// for each column, the same at any number of threads.
pub(crate) struct Columns(Vec<SparseRow>);

impl Columns {
    /// Rows of at most `width` columns, turned over.
    pub(crate) fn of(rows: &[SparseRow], width: usize) -> Self {
        let mut columns = vec![vec![]; width];
        for (i, row) in rows.iter().enumerate() {
            for (column, value) in row {
                columns[*column as usize].push((i as u32, *value));
            }
        }
        Self(columns)
    }

    /// `Xᵀ·r` for `r` `[N, K]`, row after row: `[width, K]`.
    pub(crate) fn times(&self, r: &[f64], k: usize, out: &mut [f64]) {
        out.par_chunks_mut(k).zip(&self.0).with_min_len(64).for_each(|(out, column)| {
            out.fill(0.0);
            for (row, value) in column {
                for (out, r) in out.iter_mut().zip(&r[*row as usize * k..][..k]) {
                    *out += value * r;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transpose_is_the_transpose() {
        let rows = [vec![(0, 1.0), (2, 3.0)], vec![(2, 4.0)]];
        let mut out = [9.0; 6];
        Columns::of(&rows, 3).times(&[1.0, 10.0, 2.0, 20.0], 2, &mut out);
        assert_eq!(out, [1.0, 10.0, 0.0, 0.0, 3.0 + 8.0, 30.0 + 80.0]);
    }
}
