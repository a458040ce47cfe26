//! Where heads lie: one description for packed tensors and for views, so that the kernel reads any of them in place.
//!
//! Written are rows of D features. A packed gradient holds the rows of all heads interleaved; [`deal`] sorts them by
//! head, each as a slice of its own, so that tasks write straight to where they belong, without copies and without
//! `unsafe`.

use crate::product::Strided;
use burn::backend::flex::FlexTensor;

/// The heads of queries, keys or values: element (b, h, i, c) is at `start + b·batch + h·head + i·row + c`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads<'a> {
    data: &'a [f32],
    start: usize,
    batch: usize,
    head: usize,
    row: usize,
    width: usize,
}

impl<'a> Heads<'a> {
    /// Heads of `width` side by side in `[B, T, C]`, from the `first` on.
    pub(super) fn packed(x: &'a FlexTensor, first: usize, width: usize) -> Self {
        let strides = x.layout().strides();
        let [batch, row] = [0, 1].map(|axis| strides[axis] as usize);
        Self { data: x.storage(), start: x.layout().start_offset() + first * width, batch, head: width, row, width }
    }

    /// Heads along an axis of their own, `[B, heads, T, D]`.
    pub(super) fn apart(x: &'a FlexTensor) -> Self {
        let strides = x.layout().strides();
        let [batch, head, row] = [0, 1, 2].map(|axis| strides[axis] as usize);
        Self { data: x.storage(), start: x.layout().start_offset(), batch, head, row, width: x.layout().shape()[3] }
    }

    /// What [`Strided`] positions point into.
    pub(super) fn data(&self) -> &'a [f32] {
        self.data
    }

    /// The matrix `[T, D]` of a head from row `first` on.
    pub(super) fn matrix(&self, b: usize, h: usize, first: usize) -> Strided {
        Strided { start: self.start + b * self.batch + h * self.head + first * self.row, row: self.row, column: 1 }
    }

    /// [`Self::matrix`], transposed.
    pub(super) fn transposed(&self, b: usize, h: usize, first: usize) -> Strided {
        let Strided { start, row, column } = self.matrix(b, h, first);
        Strided { start, row: column, column: row }
    }

    /// One row of D features.
    pub(super) fn row(&self, b: usize, h: usize, i: usize) -> &'a [f32] {
        &self.data[self.matrix(b, h, i).start..][..self.width]
    }
}

/// The same values with features next to each other and no stride backwards; shared if they already are.
pub(super) fn readable(x: FlexTensor) -> FlexTensor {
    let (strides, shape) = (x.layout().strides(), x.layout().shape());
    let features_adjoin = strides.last() == Some(&1) || shape.last() == Some(&1);
    if features_adjoin && strides.iter().all(|s| *s >= 0) { x } else { x.to_contiguous() }
}

/// The rows of `[B, T, heads, width]`, sorted by batch, then head, then time.
pub(super) fn deal(x: &mut [f32], time: usize, heads: usize, width: usize) -> Vec<&mut [f32]> {
    let mut rows: Vec<&mut [f32]> = x.chunks_exact_mut(width).collect();
    let sorted = |i: usize| (i / (time * heads) * time + i % time) * heads + i / time % heads;
    (0..rows.len()).map(|i| std::mem::take(&mut rows[sorted(i)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_dealt_by_head() {
        // Two batches, three times, two heads, one feature: numbered as they lie in memory.
        let mut x: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let dealt: Vec<f32> = deal(&mut x, 3, 2, 1).iter().map(|row| row[0]).collect();
        assert_eq!(dealt, [0., 2., 4., 1., 3., 5., 6., 8., 10., 7., 9., 11.]);
    }
}
