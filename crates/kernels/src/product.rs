//! Matrix products, where nearly all arithmetic is: `dst ← a·b`, with a `[m, k]`, b `[k, n]`, each wherever it lies.
//!
//! Large products are ours, after Goto and van de Geijn (2008): b is packed once into panels two vectors wide; a is read
//! where it lies if it lies by rows, and packed block by block into panels of six rows if not. A tile of 6 rows × 2 vectors
//! then lives in twelve registers while k runs. k is cut so that a panel of b stays in the first cache (24 KiB at most with
//! AVX2) and a block of a in the second. A bias is written with the first cut, so the output is not touched beforehand.
//!
//! Few rows times a matrix that lies by rows of its own (a token going through a layer) is in `skinny.rs`. Other small
//! products go to the `gemm` crate, which has shapes of its own for them and takes the widest vectors of the machine; on
//! the scalar level to three plain loops, so that `QKV_SIMD=scalar` uses no vectors and can be compared with.
//!
//! Order of additions: along k, cut by cut, the same for every element whatever its row block: on every level the bits
//! depend neither on the number of threads nor on which rows are computed together, as long as the product stays on one
//! side of the border between large and small. There the promise ends: a row that is multiplied alone may differ in the
//! last place from the same row among a hundred, and so may two levels, whose vectors sum in different orders.

use crate::fused::uninit;
use crate::pack::{pack_left, pack_right, panel_width};
use crate::simd::{Level, prefetch, simd};
use crate::skinny;
use crate::threads::Parts;
use pulp::Simd;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Where a matrix lies in a slice: element (i, j) is at `start + i·row + j·column`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strided {
    pub(crate) start: usize,
    pub(crate) row: usize,
    pub(crate) column: usize,
}

/// A whole matrix of rows of `width`.
pub(crate) fn rowwise(width: usize) -> Strided {
    Strided { start: 0, row: width, column: 1 }
}

impl Strided {
    /// One past the last element of an `m × n` matrix.
    fn end(self, m: usize, n: usize) -> usize {
        if m == 0 || n == 0 { self.start } else { self.start + (m - 1) * self.row + (n - 1) * self.column + 1 }
    }
}

/// What the product is written onto.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Accumulate<'a> {
    /// nothing: what was there is not read
    Fresh,
    /// what is there
    Sum,
    /// a bias `[n]`, the same for each row
    Bias(&'a [f32]),
}

/// A part of the right matrix: several matrices can stand side by side, or one below the other, without being copied
/// together.
#[derive(Clone, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) at: Strided,
    /// which rows of the whole it is
    pub(crate) k: Range<usize>,
    /// which columns of the whole it is
    pub(crate) n: Range<usize>,
}

/// [`product`] with a right matrix made of pieces that cover it.
pub(crate) fn product_of_pieces(
    [m, k, n]: [usize; 3],
    dst: &mut [f32],
    d: Strided,
    onto: Accumulate,
    lhs: &[f32],
    a: Strided,
    pieces: &[Piece],
) {
    if skinny::serves([m, k, n], d, a, pieces) {
        return skinny::product([m, k, n], dst, onto, lhs, a, pieces);
    }
    if is_large([m, k, n]) && d.column == 1 {
        return packed([m, k, n], dst, d, onto, lhs, a, pieces);
    }
    for piece in pieces {
        let size = [m, piece.k.len(), piece.n.len()];
        let d = Strided { start: d.start + piece.n.start * d.column, ..d };
        let a = Strided { start: a.start + piece.k.start * a.column, ..a };
        let onto = match onto {
            _ if piece.k.start > 0 => Accumulate::Sum,
            Accumulate::Bias(bias) => Accumulate::Bias(&bias[piece.n.clone()]),
            other => other,
        };
        product(size, dst, d, onto, lhs, a, piece.data, piece.at);
    }
}

/// Whether a product pays for packing.
pub(crate) fn is_large([m, k, n]: [usize; 3]) -> bool {
    m >= 3 * ROWS && n >= 16 && k >= 16 && m * k * n >= 32 * 32 * 32
}

/// `dst ← onto + a·b`. In parallel when it is large.
pub(crate) fn product(
    [m, k, n]: [usize; 3],
    dst: &mut [f32],
    d: Strided,
    onto: Accumulate,
    lhs: &[f32],
    a: Strided,
    rhs: &[f32],
    b: Strided,
) {
    if is_large([m, k, n]) && d.column == 1 {
        let whole = Piece { data: rhs, at: b, k: 0..k, n: 0..n };
        return packed([m, k, n], dst, d, onto, lhs, a, &[whole]);
    }
    if let Accumulate::Bias(bias) = onto {
        for i in 0..m {
            (0..n).for_each(|j| dst[d.start + i * d.row + j * d.column] = bias[j]);
        }
    }
    // Below this the threads' hand-over costs more than the product.
    let parallel = m * k * n > 96 * 96 * 96 && rayon::current_num_threads() > 1;
    product_on(parallel, [m, k, n], 1.0, dst, d, !matches!(onto, Accumulate::Fresh), lhs, a, rhs, b);
}

/// `dst ← scale·a·b`, or `dst ← dst + scale·a·b`, by the `gemm` crate (or plain loops, see above), on this thread only
/// unless `parallel`.
pub(crate) fn product_on(
    parallel: bool,
    [m, k, n]: [usize; 3],
    scale: f32,
    dst: &mut [f32],
    d: Strided,
    add: bool,
    lhs: &[f32],
    a: Strided,
    rhs: &[f32],
    b: Strided,
) {
    assert!(d.end(m, n) <= dst.len() && a.end(m, k) <= lhs.len() && b.end(k, n) <= rhs.len(), "product out of bounds");
    if Level::current() == Level::Scalar {
        return by_loops([m, k, n], scale, dst, d, add, lhs, a, rhs, b);
    }
    let at = |s: Strided| (s.column as isize, s.row as isize);
    let ((dc, dr), (ac, ar), (bc, br)) = (at(d), at(a), at(b));
    let threads = if parallel { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
    // SAFETY: the assertion above bounds every element that the strides can reach; `dst` is borrowed mutably, so it
    // overlaps neither input; without `add`, gemm writes dst without reading it.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst.as_mut_ptr().add(d.start),
            dc,
            dr,
            add,
            lhs.as_ptr().add(a.start),
            ac,
            ar,
            rhs.as_ptr().add(b.start),
            bc,
            br,
            1.0,
            scale,
            false,
            false,
            false,
            threads,
        );
    }
}

/// The same, as one writes it down: `dst[i, j] ← scale·Σ_p a[i, p]·b[p, j]`, summed from the first p to the last.
fn by_loops(
    [m, k, n]: [usize; 3],
    scale: f32,
    dst: &mut [f32],
    d: Strided,
    add: bool,
    lhs: &[f32],
    a: Strided,
    rhs: &[f32],
    b: Strided,
) {
    let mut sums = vec![0.0; n];
    for i in 0..m {
        sums.fill(0.0);
        for p in 0..k {
            let (x, row) = (lhs[a.start + i * a.row + p * a.column], b.start + p * b.row);
            if b.column == 1 {
                // A slice, which the compiler walks four at a time.
                sums.iter_mut().zip(&rhs[row..row + n]).for_each(|(sum, y)| *sum += x * y);
            } else {
                sums.iter_mut().enumerate().for_each(|(j, sum)| *sum += x * rhs[row + j * b.column]);
            }
        }
        for (j, sum) in sums.iter().enumerate() {
            let at = d.start + i * d.row + j * d.column;
            dst[at] = if add { dst[at] + scale * sum } else { scale * sum };
        }
    }
}

/// Rows of a register tile.
pub(crate) const ROWS: usize = 6;
/// Steps of k that a tile takes between two looks at whether it is done: a tenth more on a core that shares its front end
/// with another (with eight, a sum no longer stays in its register).
const STEPS: usize = 4;
/// The longest cut along k.
const CUT: usize = 384;

/// Columns of dst that stay near from cut to cut.
const NEAR: usize = 512;

/// How k is cut: pieces of equal length, at most [`CUT`].
fn cuts(k: usize) -> usize {
    k.div_ceil(k.div_ceil(CUT))
}

/// The rows of each block: as many as the second cache holds (every block reads all of b, so few and large is better than
/// many and small), then fewer and fewer, so that the threads end together though they do not run at one speed.
fn blocks(m: usize, threads: usize) -> Vec<Range<usize>> {
    let mut all = vec![];
    let mut first = 0;
    while first < m {
        let share = ((m - first) / (2 * threads)).clamp(4 * ROWS, 16 * ROWS).next_multiple_of(ROWS);
        all.push(first..(first + share).min(m));
        first += share;
    }
    all
}

/// The packed product of numbers.
fn packed(size: [usize; 3], dst: &mut [f32], d: Strided, onto: Accumulate, lhs: &[f32], a: Strided, pieces: &[Piece]) {
    packed_words(size, dst, d, onto, lhs, a, pieces, tiles);
}

/// One region for all threads: together they pack b, panel by panel, then take block after block, whoever is free. A
/// thread that comes late finds less to do; nobody waits for it. What a 32-bit word of a and b means, only `tiles` knows.
pub(crate) fn packed_words(
    [m, k, n]: [usize; 3],
    dst: &mut [f32],
    d: Strided,
    onto: Accumulate,
    lhs: &[f32],
    a: Strided,
    pieces: &[Piece],
    tiles: fn(Tiles),
) {
    for piece in pieces {
        assert!(piece.at.end(piece.k.len(), piece.n.len()) <= piece.data.len(), "product out of bounds");
    }
    assert!(a.end(m, k) <= lhs.len() && d.end(m, n) <= dst.len(), "product out of bounds");
    assert!(n <= d.row || m == 1, "rows of a product overlap");
    let width = panel_width();
    let (cut, panels) = (cuts(k), n.div_ceil(width));
    let threads = if m * k * n >= 64 * 64 * 64 { rayon::current_num_threads() } else { 1 };
    let blocks = blocks(m, threads);
    let mut packed = uninit(panels * width * k);
    let (right, dst) = (Parts::of(&mut packed), Parts::of(&mut dst[d.start..]));

    let pack = |j: usize| {
        // SAFETY: every panel is handed out once, and read only when all are done.
        let panel = unsafe { right.part(j * width * k..(j + 1) * width * k) };
        if (j + 1) * width > n {
            panel.fill(0.0);
        }
        pieces.iter().for_each(|piece| pack_right(panel, width, piece, j * width));
    };
    let block = |rows: Range<usize>, right: &[f32]| {
        let (first, here) = (rows.start, rows.len());
        // SAFETY: every block is handed out once, and their rows do not overlap.
        let dst = unsafe { dst.part(first * d.row..(first + here - 1) * d.row + n) };
        let size = here.next_multiple_of(ROWS); // rows of the packed copy, where there is one
        let direct = a.column == 1 && !a.row.is_multiple_of(CROWDED);
        let mut left = if direct { vec![] } else { uninit(size * k) };
        if !direct {
            for (from, left) in (0..k).step_by(cut).zip(left.chunks_mut(size * cut)) {
                pack_left(left, lhs, a, first, here, from, cut.min(k - from));
            }
        }
        let left = |from: usize, len: usize| match (direct, a.column) {
            (true, _) => Left::Rows(&lhs[a.start + first * a.row + from..], a.row),
            (false, 1) => Left::Rows(&left[size * from..], len),
            (false, _) => Left::Panels(&left[size * from..]),
        };
        // Some panels at a time, so that their part of dst is still near when the next cut adds to it.
        for (c, right) in right.chunks(NEAR / width * width * k).enumerate() {
            let at = c * (NEAR / width * width);
            for from in (0..k).step_by(cut) {
                let (len, onto) = (cut.min(k - from), if from == 0 { onto } else { Accumulate::Sum });
                let left = left(from, len);
                tiles(Tiles { size: [here, k, n], from, len, first: at, left, right, dst, row: d.row, onto });
            }
        }
    };

    let [next_panel, panels_done, next_block] = [const { AtomicUsize::new(0) }; 3];
    let work = |_| {
        let mine = |next: &AtomicUsize, count: usize| Some(next.fetch_add(1, Relaxed)).filter(|i| *i < count);
        while let Some(j) = mine(&next_panel, panels) {
            pack(j);
            panels_done.fetch_add(1, Release);
        }
        // Whoever took the last panels is at work on them: a moment.
        let mut looks = 0;
        while panels_done.load(Acquire) < panels {
            looks += 1;
            if looks < 1000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        // SAFETY: all panels are done, and nothing writes them again.
        let right = unsafe { right.whole() };
        while let Some(i) = mine(&next_block, blocks.len()) {
            block(blocks[i].clone(), right);
        }
    };
    if threads == 1 { work(0) } else { (0..threads).into_par_iter().with_max_len(1).for_each(work) }
}

/// Rows that lie a multiple of this many elements apart fall onto the same few places of the first cache: they are copied
/// together. All others are read where they are.
const CROWDED: usize = 512;

/// One cut of a block of a, as a tile reads it.
#[derive(Clone, Copy)]
pub(crate) enum Left<'a> {
    /// rows so many elements apart
    Rows(&'a [f32], usize),
    /// panels `[len, 6]`
    Panels(&'a [f32]),
}

/// What a tile does with a word of a and a vector of words of b.
pub(crate) trait Multiply<S: Simd>: Copy {
    /// `sum + a·b`
    fn mul_add(self, simd: S, a: S::f32s, b: S::f32s, sum: S::f32s) -> S::f32s;
}

/// Words are numbers. `mul_add_e` rounds once where the machine can, and twice on the scalar level, where rounding once would
/// be a call of a function for each number.
#[derive(Clone, Copy)]
struct Numbers;

impl<S: Simd> Multiply<S> for Numbers {
    #[inline(always)]
    fn mul_add(self, simd: S, a: S::f32s, b: S::f32s, sum: S::f32s) -> S::f32s {
        simd.mul_add_e_f32s(a, b, sum)
    }
}

/// One step of a tile: six numbers of a times two vectors of b, added to the sums.
#[inline(always)]
fn add<S: Simd, M: Multiply<S>>(simd: S, by: M, sum: &mut [[S::f32s; 2]; ROWS], a: [f32; ROWS], b: &[S::f32s; 2]) {
    for r in 0..ROWS {
        let x = simd.splat_f32s(a[r]);
        sum[r][0] = by.mul_add(simd, x, b[0], sum[r][0]);
        sum[r][1] = by.mul_add(simd, x, b[1], sum[r][1]);
    }
}

/// One tile, `Σ_p a[r, p]·b[p, :]` for six rows, in registers: a panel `[len, 6]` of a.
#[inline(always)]
fn tile<S: Simd, M: Multiply<S>>(simd: S, by: M, a: &[f32], b: &[[S::f32s; 2]]) -> [[S::f32s; 2]; ROWS] {
    let mut sum = [[simd.splat_f32s(0.0); 2]; ROWS];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<ROWS>().0.as_chunks::<STEPS>(), b.as_chunks::<STEPS>());
    for (a, b) in a.iter().zip(b) {
        for p in 0..STEPS {
            add(simd, by, &mut sum, a[p], &b[p]);
        }
    }
    for (a, b) in a_rest.iter().zip(b_rest) {
        add(simd, by, &mut sum, *a, b);
    }
    sum
}

/// The same for six rows where they lie.
#[inline(always)]
fn tile_by_rows<S: Simd, M: Multiply<S>>(
    simd: S,
    by: M,
    rows: [&[f32]; ROWS],
    b: &[[S::f32s; 2]],
) -> [[S::f32s; 2]; ROWS] {
    let mut sum = [[simd.splat_f32s(0.0); 2]; ROWS];
    let whole = |r: usize| rows[r].as_chunks::<STEPS>().0.iter();
    let steps = whole(0).zip(whole(1)).zip(whole(2).zip(whole(3))).zip(whole(4).zip(whole(5)));
    let (b, b_rest) = b.as_chunks::<STEPS>();
    for ((((r0, r1), (r2, r3)), (r4, r5)), b) in steps.zip(b) {
        for p in 0..STEPS {
            add(simd, by, &mut sum, [r0[p], r1[p], r2[p], r3[p], r4[p], r5[p]], &b[p]);
        }
    }
    for (p, b) in b_rest.iter().enumerate() {
        let p = rows[0].len() - b_rest.len() + p;
        add(simd, by, &mut sum, [rows[0][p], rows[1][p], rows[2][p], rows[3][p], rows[4][p], rows[5][p]], b);
    }
    sum
}

/// All tiles of a block of `m` rows (of `size`) and the panels of b from column `first` on, for one cut of k.
pub(crate) struct Tiles<'a> {
    size: [usize; 3],
    from: usize,
    len: usize,
    first: usize,
    left: Left<'a>,
    right: &'a [f32],
    dst: &'a mut [f32],
    row: usize,
    onto: Accumulate<'a>,
}

fn tiles(job: Tiles) {
    of_numbers(job);
}

simd! {
    fn of_numbers<'a, S>(simd, job: Tiles<'a>) {
        tiles_of(simd, Numbers, job);
    }
}

/// The loop over tiles, to be inlined where the instructions are known.
#[inline(always)]
pub(crate) fn tiles_of<S: Simd, M: Multiply<S>>(simd: S, by: M, job: Tiles) {
    let Tiles { size: [m, k, n], from, len, first, left, right, dst, row, onto } = job;
    let width = 2 * S::F32_LANES;
    for (j, panel) in right.chunks_exact(width * k).enumerate() {
        let at = first + j * width;
        let here = width.min(n - at);
        let (b, _) = S::as_simd_f32s(&panel[from * width..(from + len) * width]);
        let b = b.as_chunks::<2>().0;
        for i in 0..m.div_ceil(ROWS) {
            // The lines that the tile will be written to, to be there when it is done.
            for r in 0..ROWS {
                prefetch(dst, (i * ROWS + r) * row + at);
            }
            let sum = match left {
                // Behind the last row the last is read again; what comes of it is not written.
                Left::Rows(a, apart) => {
                    let mut rows: [&[f32]; ROWS] = [&[]; ROWS]; // a loop: `map` would be a call
                    for (r, row) in rows.iter_mut().enumerate() {
                        *row = &a[(i * ROWS + r).min(m - 1) * apart..][..len];
                    }
                    tile_by_rows(simd, by, rows, b)
                }
                Left::Panels(a) => tile(simd, by, &a[i * ROWS * len..][..ROWS * len], b),
            };
            let rows = ROWS.min(m - i * ROWS);
            let out = &mut dst[i * ROWS * row + at..];
            // The whole tile apart: with six rows known, the sums go from registers straight to memory.
            if rows == ROWS && here == width {
                for r in 0..ROWS {
                    write(simd, sum[r], &mut out[r * row..][..width], onto, at);
                }
            } else {
                for r in 0..rows {
                    write_part(simd, sum[r], &mut out[r * row..][..here], onto, at);
                }
            }
        }
    }
}

/// Writes a whole row of a tile.
#[inline(always)]
fn write<S: Simd>(simd: S, sum: [S::f32s; 2], out: &mut [f32], onto: Accumulate, at: usize) {
    let (out, _) = S::as_mut_simd_f32s(out);
    match onto {
        Accumulate::Fresh => {
            out[0] = sum[0];
            out[1] = sum[1];
        }
        Accumulate::Sum => {
            out[0] = simd.add_f32s(out[0], sum[0]);
            out[1] = simd.add_f32s(out[1], sum[1]);
        }
        Accumulate::Bias(bias) => {
            let (bias, _) = S::as_simd_f32s(&bias[at..at + 2 * S::F32_LANES]);
            out[0] = simd.add_f32s(bias[0], sum[0]);
            out[1] = simd.add_f32s(bias[1], sum[1]);
        }
    }
}

/// Writes what there is of a row of a tile at the right edge.
#[inline(always)]
fn write_part<S: Simd>(simd: S, sum: [S::f32s; 2], out: &mut [f32], onto: Accumulate, at: usize) {
    let mut row = [0.0; 64];
    let (lanes, _) = S::as_mut_simd_f32s(&mut row);
    lanes[0] = sum[0];
    lanes[1] = sum[1];
    let _ = simd;
    for (j, (out, sum)) in out.iter_mut().zip(row).enumerate() {
        *out = match onto {
            Accumulate::Fresh => sum,
            Accumulate::Sum => *out + sum,
            Accumulate::Bias(bias) => bias[at + j] + sum,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    /// Every way a matrix can lie, every edge, every start, against the plain sum in f64.
    #[test]
    fn products_equal_the_plain_sum() {
        let key = Key::new(3, 0, 0);
        let shapes = [[18, 16, 16], [19, 300, 17], [97, 33, 50], [64, 257, 31], [200, 64, 129], [1, 5, 3], [7, 600, 9]];
        for [m, k, n] in shapes {
            let (x, y) = (key.child(1).normals(m * k), key.child(2).normals(k * n));
            let bias = key.child(3).normals(n);
            let by_rows = |rows: usize, columns: usize| {
                [Strided { start: 0, row: columns, column: 1 }, Strided { start: 0, row: 1, column: rows }]
            };
            for a in by_rows(m, k) {
                for b in by_rows(k, n) {
                    for (name, onto) in
                        [("fresh", Accumulate::Fresh), ("sum", Accumulate::Sum), ("bias", Accumulate::Bias(&bias))]
                    {
                        let pad = 5; // dst is a part of wider rows
                        let d = Strided { start: 2, row: n + pad, column: 1 };
                        let before = key.child(4).normals(m * (n + pad));
                        let mut dst = before.clone();
                        product([m, k, n], &mut dst, d, onto, &x, a, &y, b);
                        for i in 0..m {
                            for j in 0..n {
                                let term =
                                    |p: usize| x[i * a.row + p * a.column] as f64 * y[p * b.row + j * b.column] as f64;
                                let at = d.start + i * d.row + j;
                                let start = match onto {
                                    Accumulate::Fresh => 0.0,
                                    Accumulate::Sum => before[at] as f64,
                                    Accumulate::Bias(bias) => bias[j] as f64,
                                };
                                let want = start + (0..k).map(term).sum::<f64>();
                                let error = (dst[at] as f64 - want).abs();
                                assert!(
                                    error < 2e-5 * (k as f64).sqrt() + 1e-5,
                                    "{name} [{m}, {k}, {n}] at ({i}, {j}): {error}"
                                );
                            }
                        }
                        let outside = |at: usize| at < d.start || (at - d.start) % d.row >= n;
                        assert!(
                            (0..dst.len()).filter(|&at| outside(at)).all(|at| dst[at] == before[at]),
                            "wrote outside"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn pieces_side_by_side_and_one_below_the_other_make_one_matrix() {
        let key = Key::new(6, 0, 0);
        for [m, k, n] in [[40, 70, 53], [3, 9, 8]] {
            let (x, y, bias) = (key.child(1).normals(m * k), key.child(2).normals(k * n), key.child(3).normals(n));
            let mut want = vec![0.0; m * n];
            product([m, k, n], &mut want, rowwise(n), Accumulate::Bias(&bias), &x, rowwise(k), &y, rowwise(n));
            for cut in [1, 5, 7] {
                let at = |start| Strided { start, row: n, column: 1 };
                let beside = [(0..cut), (cut..n)].map(|c| Piece { data: &y, at: at(c.start), k: 0..k, n: c });
                let below = [(0..cut), (cut..k)].map(|r| Piece { data: &y, at: at(r.start * n), k: r, n: 0..n });
                for pieces in [&beside, &below] {
                    let mut got = vec![0.0; m * n];
                    product_of_pieces([m, k, n], &mut got, rowwise(n), Accumulate::Bias(&bias), &x, rowwise(k), pieces);
                    let error = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    assert!(error < 1e-4, "[{m}, {k}, {n}] cut at {cut}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_among_many_or_few() {
        let key = Key::new(5, 0, 0);
        let (k, n) = (1100, 40);
        let (x, y) = (key.child(1).normals(400 * k), key.child(2).normals(k * n));
        let rows = |m: usize| {
            let mut dst = vec![0.0; m * n];
            product([m, k, n], &mut dst, rowwise(n), Accumulate::Fresh, &x, rowwise(k), &y, rowwise(n));
            dst
        };
        assert_eq!(rows(400)[..20 * n], rows(20)[..]);
    }
}
