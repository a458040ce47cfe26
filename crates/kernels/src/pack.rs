//! Packing: a matrix is copied into the order in which the tiles of `product.rs` read it, so that they only ever step
//! forward. b becomes panels `[k, two vectors]`, a block of a becomes panels `[k, 6]`, or rows close together if it lies by
//! rows.
//!
//! This moves memory and computes nothing: what it costs is waiting. Rows that lie far apart are therefore asked for ahead,
//! and columns are turned into rows eight at a time in registers (element by element that alone was 3 % of a step).

use crate::product::{Piece, ROWS, Strided};
use crate::simd::{Level, prefetch, simd};

/// Rows that packing asks for ahead: they lie so far apart that no core foresees them.
const AHEAD: usize = 16;

/// Columns of a panel: two vectors of the level in force.
pub(crate) fn panel_width() -> usize {
    2 * match Level::current() {
        Level::Avx512 => 16,
        Level::Avx2 => 8,
        Level::Neon => 4,
        Level::Scalar => 1,
    }
}

/// What a piece has of the panel `[k, width]` whose first column is `first`.
pub(crate) fn pack_right(panel: &mut [f32], width: usize, piece: &Piece, first: usize) {
    let (from, to) = (piece.n.start.max(first), piece.n.end.min(first + width));
    if from >= to {
        return;
    }
    let (k, b) = (piece.k.len(), piece.at);
    let panel = &mut panel[piece.k.start * width..piece.k.end * width];
    let source = &piece.data[b.start + (from - piece.n.start) * b.column..];
    if b.column == 1 && to - from == width {
        return pack_rows(panel, source, b.row);
    }
    if b.column == 1 {
        for (p, row) in panel.chunks_exact_mut(width).enumerate() {
            row[from - first..to - first].copy_from_slice(&source[p * b.row..][..to - from]);
        }
        return;
    }
    // Wherever b lies by columns, eight of them at a time; what is left, one by one.
    let turned = if b.row == 1 && from == first { turn_right(panel, width, source, b.column, to - from) } else { 0 };
    // In runs short enough that the panel's lines stay in the first cache between columns.
    for begin in (0..k).step_by(64) {
        let len = 64.min(k - begin);
        for j in turned..to - from {
            let column = &source[j * b.column + begin * b.row..];
            let out = &mut panel[begin * width + from - first + j..];
            column.iter().step_by(b.row).take(len).zip(out.iter_mut().step_by(width)).for_each(|(x, y)| *y = *x);
        }
    }
}

/// Turns eights of the `columns` of `source`, `apart` elements from each other, into rows of the panel; how many columns
/// that were.
fn turn_right(panel: &mut [f32], width: usize, source: &[f32], apart: usize, columns: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if matches!(Level::current(), Level::Avx2 | Level::Avx512) {
        let eights = columns / 8;
        for n in 0..eights {
            // SAFETY: the level in force has AVX.
            unsafe { turn_eight(&mut panel[8 * n..], width, &source[8 * n * apart..], apart) };
        }
        return 8 * eights;
    }
    let _ = (panel, width, source, apart, columns);
    0
}

/// Eight columns become eight numbers of each row; eight rows at a time in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn turn_eight(panel: &mut [f32], width: usize, source: &[f32], apart: usize) {
    use std::arch::x86_64::*;
    let k = panel.len().div_ceil(width);
    for p in (0..k / 8 * 8).step_by(8) {
        let mut r = [_mm256_setzero_ps(); 8];
        for (j, r) in r.iter_mut().enumerate() {
            let eight = &source[j * apart + p..][..8];
            // SAFETY: eight elements are there.
            *r = unsafe { _mm256_loadu_ps(eight.as_ptr()) };
        }
        let mut t = r;
        for i in 0..4 {
            (t[2 * i], t[2 * i + 1]) =
                (_mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]), _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]));
        }
        for i in 0..2 {
            let (a, b, c, d) = (t[4 * i], t[4 * i + 1], t[4 * i + 2], t[4 * i + 3]);
            (r[4 * i], r[4 * i + 1]) = (_mm256_shuffle_ps::<0x44>(a, c), _mm256_shuffle_ps::<0xee>(a, c));
            (r[4 * i + 2], r[4 * i + 3]) = (_mm256_shuffle_ps::<0x44>(b, d), _mm256_shuffle_ps::<0xee>(b, d));
        }
        for i in 0..4 {
            (t[i], t[i + 4]) =
                (_mm256_permute2f128_ps::<0x20>(r[i], r[i + 4]), _mm256_permute2f128_ps::<0x31>(r[i], r[i + 4]));
        }
        for (q, t) in t.iter().enumerate() {
            let eight = &mut panel[(p + q) * width..][..8];
            // SAFETY: eight elements are there.
            unsafe { _mm256_storeu_ps(eight.as_mut_ptr(), *t) };
        }
    }
    for p in k / 8 * 8..k {
        (0..8).for_each(|j| panel[p * width + j] = source[j * apart + p]);
    }
}

simd! {
    /// Whole rows of a panel, two vectors each; a call to copy 64 bytes would cost more than the copy.
    fn pack_rows<'a, S>(simd, panel: &'a mut [f32], rhs: &'a [f32], row: usize) {
        let _ = simd;
        let (lanes, _) = S::as_mut_simd_f32s(panel);
        for (p, out) in lanes.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            prefetch(rhs, (p + AHEAD) * row);
            let (from, _) = S::as_simd_f32s(&rhs[p * row..][..2 * S::F32_LANES]);
            out[0] = from[0];
            out[1] = from[1];
        }
    }
}

/// Rows `first..first + here` of a, columns `from..from + len`: where a lies by rows as `[here, len]`, a plain copy; else
/// in panels `[len, 6]`, zeros behind the last row.
pub(crate) fn pack_left(left: &mut [f32], lhs: &[f32], a: Strided, first: usize, here: usize, from: usize, len: usize) {
    if a.column == 1 {
        for (r, out) in left.chunks_exact_mut(len).take(here).enumerate() {
            out.copy_from_slice(&lhs[a.start + (first + r) * a.row + from..][..len]);
        }
        return;
    }
    // Where a lies by columns, four panels are filled together: a line of a then gives all it has while it is near.
    let together = if a.row == 1 { 4 } else { 1 };
    for (i, panels) in left[..here.next_multiple_of(ROWS) * len].chunks_mut(together * ROWS * len).enumerate() {
        let begin = i * together * ROWS;
        let start = a.start + (first + begin) * a.row + from * a.column;
        let rows = (here - begin).min(together * ROWS);
        if a.row == 1 && rows == 4 * ROWS && panels.len() == 4 * ROWS * len {
            let (p01, p23) = panels.split_at_mut(2 * ROWS * len);
            let ((p0, p1), (p2, p3)) = (p01.split_at_mut(ROWS * len), p23.split_at_mut(ROWS * len));
            let lines = p0
                .as_chunks_mut()
                .0
                .iter_mut()
                .zip(p1.as_chunks_mut().0)
                .zip(p2.as_chunks_mut().0.iter_mut().zip(p3.as_chunks_mut().0))
                .enumerate();
            for (p, ((o0, o1), (o2, o3))) in lines {
                let ahead = start + (p + AHEAD) * a.column;
                prefetch(lhs, ahead);
                prefetch(lhs, ahead + 4 * ROWS - 1);
                let line: &[[f32; ROWS]] = lhs[start + p * a.column..][..4 * ROWS].as_chunks().0;
                (*o0, *o1, *o2, *o3) = (line[0], line[1], line[2], line[3]);
            }
            continue;
        }
        for (j, panel) in panels.chunks_exact_mut(ROWS * len).enumerate() {
            let (start, rows) = (start + j * ROWS * a.row, ROWS.min(rows - j * ROWS));
            for (p, out) in panel.chunks_exact_mut(ROWS).enumerate() {
                for (r, out) in out.iter_mut().enumerate() {
                    *out = if r < rows { lhs[start + r * a.row + p * a.column] } else { 0.0 };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    /// Every way b can lie, panels that are full and that are not, k beside a multiple of eight.
    #[test]
    fn a_panel_holds_what_the_matrix_has() {
        let width = panel_width();
        for (k, n) in [(1, 1), (7, width), (8, width), (21, 2 * width + 3), (70, 8), (64, 3 * width - 1)] {
            let data = Key::new(7, 0, 0).normals((k + 3) * (n + 2));
            for at in [Strided { start: 1, row: n + 2, column: 1 }, Strided { start: 2, row: 1, column: k + 3 }] {
                let piece = Piece { data: &data, at, k: 0..k, n: 0..n };
                for first in (0..n).step_by(width) {
                    let mut panel = vec![0.0; k * width];
                    pack_right(&mut panel, width, &piece, first);
                    for (i, got) in panel.iter().enumerate() {
                        let (p, j) = (i / width, first + i % width);
                        let want = if j < n { data[at.start + p * at.row + j * at.column] } else { 0.0 };
                        assert_eq!(*got, want, "[{k}, {n}] {at:?}: row {p}, column {j}");
                    }
                }
            }
        }
    }

    /// The same for blocks of a that lie by columns: six rows a panel, zeros behind the last.
    #[test]
    fn a_block_holds_what_the_matrix_has() {
        let (rows, k) = (40usize, 19);
        let data = Key::new(8, 0, 0).normals(rows * k + 1);
        let at = Strided { start: 1, row: 1, column: rows };
        for (first, here, from, len) in [(0, 24usize, 0, 19), (3, 25, 4, 9), (6, 34, 0, 1), (39, 1, 18, 1)] {
            let size = here.next_multiple_of(ROWS);
            let mut left = vec![f32::NAN; size * len];
            pack_left(&mut left, &data, at, first, here, from, len);
            for (i, got) in left.iter().enumerate() {
                let (row, p) = (i / (ROWS * len) * ROWS + i % ROWS, i % (ROWS * len) / ROWS);
                let want = if row < here { data[at.start + first + row + (from + p) * rows] } else { 0.0 };
                assert_eq!(*got, want, "{here} rows from {first}, {len} columns from {from}: ({row}, {p})");
            }
        }
    }
}
