//! Few rows times a large matrix: `y = x·Wᵀ` with x `[m, k]`, m small, W `[n, k]` by rows. Decoding does little else: one
//! token (or one for each beam) goes through every weight of the network.
//!
//! Packing W for the large product would read and write it once more than the arithmetic needs, so W is read where it
//! lies, front to back: three rows of x meet four rows of W in twelve registers, and a dot product is summed in one vector
//! along k, its lanes added at the end. With one row the limit is the memory that W streams from, with many the
//! arithmetic; in between the two must overlap, and they do only if the next rows of W are asked for while these are in
//! use: four rows end too soon for the hardware to guess what comes (16 rows of 512: 42 GFLOP/s without, 62 with).
//!
//! Order of additions: the same for every element, whatever its neighbours in the tile and the thread that computes it. The
//! bits of a row therefore depend neither on the number of threads nor on the other rows, up to [`MOST`] of them.

use crate::product::{Accumulate, Piece, Strided};
use crate::simd::{prefetch, simd};
use pulp::Simd;
use rayon::prelude::*;

/// The most rows this is for: with more, packing pays.
pub(crate) const MOST: usize = 96;
/// Rows of x in a tile.
const ROWS: usize = 3;
/// Rows of W in a tile.
const OUTS: usize = 4;
/// Floats of x that stay in a core's second cache while W passes.
const BLOCK: usize = 1 << 15;
/// Floats in a line of the cache.
const LINE: usize = 16;
/// Below this many multiplications the product stays on its thread.
const SERIAL: usize = 1 << 16;

/// Whether this product is one of few rows with a turned right matrix, each lying as this file wants it.
pub(crate) fn serves([m, k, n]: [usize; 3], d: Strided, a: Strided, pieces: &[Piece]) -> bool {
    let turned = |piece: &Piece| piece.at.row == 1 && piece.k == (0..k);
    let flat = d.start == 0 && d.row == n && d.column == 1 && a.column == 1;
    (1..=MOST).contains(&m) && k > 0 && n > 0 && flat && pieces.iter().all(turned)
}

/// `dst ← onto + x·Wᵀ`, dst `[m, n]`, for pieces of W that stand side by side in dst.
pub(crate) fn product(
    [m, k, n]: [usize; 3],
    dst: &mut [f32],
    onto: Accumulate,
    x: &[f32],
    a: Strided,
    pieces: &[Piece],
) {
    // Outputs are dealt out in about 32 shares: enough to even out cores that do not run at one speed.
    let share = n.div_ceil(32).max(32).next_multiple_of(OUTS);
    let mut shares: Vec<Vec<&mut [f32]>> = (0..n.div_ceil(share)).map(|_| Vec::with_capacity(m)).collect();
    for row in dst[..m * n].chunks_exact_mut(n) {
        row.chunks_mut(share).zip(&mut shares).for_each(|(part, rows)| rows.push(part));
    }
    let rows: Vec<&[f32]> = (0..m).map(|i| &x[a.start + i * a.row..][..k]).collect();
    let work = |(i, mut out): (usize, Vec<&mut [f32]>)| {
        let here = i * share..n.min((i + 1) * share);
        for piece in pieces {
            let (from, to) = (piece.n.start.max(here.start), piece.n.end.min(here.end));
            if from < to {
                let first = piece.at.start + (from - piece.n.start) * piece.at.column;
                let w = Rows { data: &piece.data[first..], apart: piece.at.column, count: to - from, from };
                let mut part: Vec<&mut [f32]> = out.iter_mut().map(|row| &mut **row).collect();
                tiles(w, here.start, &rows, &mut part, onto);
            }
        }
    };
    if m * k * n >= SERIAL && rayon::current_num_threads() > 1 {
        shares.into_par_iter().enumerate().with_max_len(1).for_each(work);
    } else {
        shares.into_iter().enumerate().for_each(work);
    }
}

/// Some rows of W, and the output of the first.
#[derive(Clone, Copy)]
struct Rows<'a> {
    data: &'a [f32],
    apart: usize,
    count: usize,
    from: usize,
}

simd! {
    /// All dot products of `rows` with `w`, written behind output `start`.
    fn tiles<'a, S>(simd, w: Rows<'a>, start: usize, rows: &'a [&'a [f32]], out: &'a mut [&'a mut [f32]], onto: Accumulate<'a>) {
        let k = rows[0].len();
        let whole = w.count / OUTS * OUTS;
        let block = (BLOCK / k / ROWS * ROWS).max(ROWS);
        for (rows, out) in rows.chunks(block).zip(out.chunks_mut(block)) {
            for o in (0..whole).step_by(OUTS) {
                let line = |i: usize| &w.data[(o + i) * w.apart..][..k];
                let lines = [line(0), line(1), line(2), line(3)];
                let next = if w.apart == k { w.data.get((o + OUTS) * k..).unwrap_or_default() } else { &[] };
                across(simd, lines, &next[..next.len().min(OUTS * k)], rows, out, w.from + o, start, onto);
            }
            for o in whole..w.count {
                across(simd, [&w.data[o * w.apart..][..k]], &[], rows, out, w.from + o, start, onto);
            }
        }
    }
}

/// `O` rows of W with all rows of x; meanwhile `next` is asked for.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "one loop of `tiles`, named for its two widths")]
fn across<S: Simd, const O: usize>(
    simd: S,
    w: [&[f32]; O],
    next: &[f32],
    x: &[&[f32]],
    out: &mut [&mut [f32]],
    o: usize,
    start: usize,
    onto: Accumulate,
) {
    // One line at each step of a dot product, or as many as it takes to have them all in the first tiles.
    let mut ahead = next.chunks((x[0].len() / S::F32_LANES).max(1) * LINE * if x.len() < 2 * ROWS { 2 } else { 1 });
    let mut i = 0;
    while i + ROWS <= x.len() {
        let sums = dots::<S, ROWS, O>(simd, [x[i], x[i + 1], x[i + 2]], w, ahead.next().unwrap_or_default());
        (0..ROWS).for_each(|r| put(&mut out[i + r][o - start..], sums[r], o, onto));
        i += ROWS;
    }
    if x.len() - i == 2 {
        let sums = dots::<S, 2, O>(simd, [x[i], x[i + 1]], w, ahead.next().unwrap_or_default());
        (0..2).for_each(|r| put(&mut out[i + r][o - start..], sums[r], o, onto));
    } else if x.len() - i == 1 {
        let sums = dots::<S, 1, O>(simd, [x[i]], w, ahead.next().unwrap_or_default());
        put(&mut out[i][o - start..], sums[0], o, onto);
    }
}

/// Writes the sums of outputs `o..` of one row.
#[inline(always)]
fn put<const O: usize>(out: &mut [f32], sums: [f32; O], o: usize, onto: Accumulate) {
    let out = &mut out[..O];
    match onto {
        Accumulate::Fresh => out.copy_from_slice(&sums),
        Accumulate::Sum => out.iter_mut().zip(sums).for_each(|(y, s)| *y += s),
        Accumulate::Bias(bias) => out.iter_mut().zip(&bias[o..]).zip(sums).for_each(|((y, b), s)| *y = b + s),
    }
}

/// `R × O` dot products along k, while the lines of `ahead` are asked for.
///
/// Loops and no `map`: a closure is compiled for the plain machine unless it is inlined, and then every vector goes
/// through memory.
#[inline(always)]
fn dots<S: Simd, const R: usize, const O: usize>(
    simd: S,
    x: [&[f32]; R],
    w: [&[f32]; O],
    ahead: &[f32],
) -> [[f32; O]; R] {
    let k = x[0].len();
    let len = k / S::F32_LANES;
    let zero = simd.splat_f32s(0.0);
    let mut heads_x: [&[S::f32s]; R] = [&[]; R];
    let mut heads_w: [&[S::f32s]; O] = [&[]; O];
    for r in 0..R {
        heads_x[r] = &S::as_simd_f32s(x[r]).0[..len];
    }
    for o in 0..O {
        heads_w[o] = &S::as_simd_f32s(w[o]).0[..len];
    }
    let mut sum = [[zero; O]; R];
    let lines = ahead.len().div_ceil(LINE * len.max(1));
    for p in 0..len {
        for line in p * lines..(p + 1) * lines {
            prefetch(ahead, line * LINE);
        }
        let mut a = [zero; R];
        for r in 0..R {
            a[r] = heads_x[r][p];
        }
        for o in 0..O {
            let b = heads_w[o][p];
            for r in 0..R {
                sum[r][o] = simd.mul_add_e_f32s(a[r], b, sum[r][o]); // see `product::add`
            }
        }
    }
    let mut out = [[0.0; O]; R];
    for r in 0..R {
        for o in 0..O {
            out[r][o] = simd.reduce_sum_f32s(sum[r][o]);
        }
    }
    if len * S::F32_LANES < k {
        // Apart, because partial loads are calls that would push all sums out of their registers.
        tails(x, w, len * S::F32_LANES, &mut out);
    }
    out
}

/// Adds what is left of the dot products behind number `from`.
#[inline(never)]
fn tails<const R: usize, const O: usize>(x: [&[f32]; R], w: [&[f32]; O], from: usize, out: &mut [[f32; O]; R]) {
    for (x, out) in x.iter().zip(out) {
        for (w, out) in w.iter().zip(out) {
            *out = x[from..].iter().zip(&w[from..]).fold(*out, |sum, (x, w)| sum + x * w);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::rowwise;

    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 31) % 1013) as f32 * 2e-3 - 1.0).collect()
    }

    /// Rows of x times two pieces of W, as this file gives them.
    fn run(m: usize, k: usize, outs: [usize; 2], x: &[f32], w: &[f32], bias: &[f32]) -> Vec<f32> {
        let n = outs[0] + outs[1];
        let at = Strided { start: 0, row: 1, column: k };
        let pieces = [
            Piece { data: &w[..outs[0] * k], at, k: 0..k, n: 0..outs[0] },
            Piece { data: &w[outs[0] * k..], at, k: 0..k, n: outs[0]..n },
        ];
        let mut dst = vec![f32::NAN; m * n];
        assert!(serves([m, k, n], rowwise(n), rowwise(k), &pieces));
        product([m, k, n], &mut dst, Accumulate::Bias(bias), x, rowwise(k), &pieces);
        dst
    }

    #[test]
    fn every_number_of_rows_follows_the_sum_in_f64() {
        for m in 1..=MOST {
            for (k, outs) in [(1, [1, 1]), (13, [5, 9]), (67, [130, 3]), (256, [64, 72])] {
                let n = outs[0] + outs[1];
                let (x, w, bias) = (numbers(m * k, 1), numbers(n * k, 2), numbers(n, 3));
                let y = run(m, k, outs, &x, &w, &bias);
                for (i, y) in y.iter().enumerate() {
                    let (r, o) = (i / n, i % n);
                    let dot: f64 = (0..k).map(|p| x[r * k + p] as f64 * w[o * k + p] as f64).sum();
                    assert!((*y as f64 - dot - bias[o] as f64).abs() < 1e-4, "[{m}, {k}] → {outs:?}, {r}, {o}");
                }
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others_at_any_thread_count() {
        let (m, k, outs) = (MOST, 301, [411, 100]);
        let n = outs[0] + outs[1];
        let (x, w, bias) = (numbers(m * k, 4), numbers(n * k, 5), numbers(n, 6));
        let at = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| run(m, k, outs, &x, &w, &bias))
        };
        let one = at(1);
        for threads in [2, 3, 8] {
            assert_eq!(one, at(threads), "{threads} threads");
        }
        for (r, row) in one.chunks_exact(n).enumerate() {
            assert_eq!(row, run(1, k, outs, &x[r * k..][..k], &w, &bias), "row {r} alone");
        }
    }
}
