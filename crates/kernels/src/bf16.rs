//! Products of numbers that are rounded to bf16, with sums in f32: `dst ← onto + round(a)·round(b)`.
//!
//! bf16 is the upper half of an f32: the same range, eight bits of precision instead of twenty-four. A product of two such
//! numbers is exact in f32, so all that is lost is lost when the numbers are rounded, and only the two factors are: what
//! is kept, what is summed and what is learnt stays f32 (Micikevicius et al. 2018; Kalamkar et al. 2019 for bf16).
//!
//! Where the processor has AVX512_BF16, one instruction multiplies and adds 32 pairs instead of 16. It takes two neighbours
//! of k as one 32-bit word, so a matrix is first written down as words `[…, k/2]`, half as many bytes, and from there on it
//! is the packed product of `product.rs`: the same panels, blocks and threads over k/2 words, with another multiplication in
//! the tile. Everywhere else numbers are rounded and multiplied in f32, which is the twin: the same up to the order of sums.

use crate::product::{Accumulate, Piece, Strided, product_of_pieces, rowwise};
use crate::simd::Level;
use half::bf16;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// What the factors of a product are rounded to; sums are always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProductPrecision {
    /// nothing is rounded
    #[default]
    F32,
    /// to eight bits of precision: twice as fast where the processor multiplies such numbers, slower where it does not
    Bf16,
}

impl ProductPrecision {
    /// Whether this machine, at the level in force, multiplies bf16 numbers itself.
    pub fn native_bf16() -> bool {
        #[cfg(target_arch = "x86_64")]
        return Level::current() == Level::Avx512 && std::is_x86_feature_detected!("avx512bf16");
        #[cfg(not(target_arch = "x86_64"))]
        false
    }
}

/// How [`product_of_pieces`] is called.
type OfPieces = fn([usize; 3], &mut [f32], Strided, Accumulate, &[f32], Strided, &[Piece]);

impl ProductPrecision {
    /// The product of factors of this precision.
    pub(crate) fn product(self) -> OfPieces {
        match self {
            Self::F32 => product_of_pieces,
            Self::Bf16 => rounded_product,
        }
    }
}

/// `x` as bf16 has it. A number next to zero becomes zero, as the processor has it.
pub(crate) fn round(x: f32) -> f32 {
    if x.is_subnormal() { 0.0f32.copysign(x) } else { bf16::from_f32(x).to_f32() }
}

/// [`product_of_pieces`] of rounded factors.
fn rounded_product(
    size: [usize; 3],
    dst: &mut [f32],
    d: Strided,
    onto: Accumulate,
    lhs: &[f32],
    a: Strided,
    pieces: &[Piece],
) {
    #[cfg(target_arch = "x86_64")]
    if ProductPrecision::native_bf16() && words::serves(size, d, a, pieces) {
        return words::product(size, dst, d, onto, lhs, a, pieces);
    }
    by_rounding(size, dst, d, onto, lhs, a, pieces);
}

/// The twin: both matrices rounded and multiplied in f32.
fn by_rounding(
    size: [usize; 3],
    dst: &mut [f32],
    d: Strided,
    onto: Accumulate,
    lhs: &[f32],
    a: Strided,
    pieces: &[Piece],
) {
    let rounded = |x: &[f32]| x.par_iter().with_min_len(4096).map(|x| round(*x)).collect::<Vec<f32>>();
    let lhs = rounded(lhs);
    let data: Vec<Vec<f32>> = pieces.iter().map(|piece| rounded(piece.data)).collect();
    let pieces: Vec<Piece> = pieces.iter().zip(&data).map(|(p, data)| Piece { data, ..p.clone() }).collect();
    product_of_pieces(size, dst, d, onto, &lhs, a, &pieces);
}

/// Two neighbours of k as one 32-bit word, the first in the lower half. A word travels as f32 through the same packing as any
/// number; nothing computes with it but the tile.
#[cfg(target_arch = "x86_64")]
mod words {
    use super::*;
    use crate::fused::uninit;
    use crate::product::{Multiply, Tiles, is_large, packed_words, tiles_of};
    use pulp::x86::V4;
    use std::arch::x86_64::*;

    /// Whether matrices lie so that pairs can be made of them: each by rows or by columns, and no pair in two pieces.
    pub(super) fn serves(size: [usize; 3], d: Strided, a: Strided, pieces: &[Piece]) -> bool {
        let lies = |at: Strided| at.column == 1 || at.row == 1;
        is_large(size) && d.column == 1 && lies(a) && pieces.iter().all(|p| lies(p.at) && p.k.start % 2 == 0)
    }

    pub(super) fn product(
        [m, k, n]: [usize; 3],
        dst: &mut [f32],
        d: Strided,
        onto: Accumulate,
        lhs: &[f32],
        a: Strided,
        pieces: &[Piece],
    ) {
        let half = k.div_ceil(2);
        let (left, a) = if a.column == 1 {
            (along(&lhs[a.start..], m, k, a.row), rowwise(half))
        } else {
            (across(&lhs[a.start..], k, m, a.column), Strided { start: 0, row: 1, column: m })
        };
        let data: Vec<(Vec<f32>, Strided)> = pieces.iter().map(of_piece).collect();
        let half_of = |p: &Piece| p.k.start / 2..p.k.end.div_ceil(2);
        let whole = pieces.iter().zip(&data);
        let pieces: Vec<Piece> =
            whole.map(|(p, (data, at))| Piece { data, at: *at, k: half_of(p), n: p.n.clone() }).collect();
        packed_words([m, half, n], dst, d, onto, &left, a, &pieces, tiles);
    }

    fn of_piece(piece: &Piece) -> (Vec<f32>, Strided) {
        let (k, n, source) = (piece.k.len(), piece.n.len(), &piece.data[piece.at.start..]);
        if piece.at.column == 1 {
            (across(source, k, n, piece.at.row), rowwise(n))
        } else {
            let half = k.div_ceil(2);
            (along(source, n, k, piece.at.column), Strided { start: 0, row: 1, column: half })
        }
    }

    /// `rows` rows of `k` neighbours, `apart` from each other → words `[rows, k/2]`.
    fn along(source: &[f32], rows: usize, k: usize, apart: usize) -> Vec<f32> {
        let half = k.div_ceil(2);
        let mut out = uninit(rows * half);
        out.par_chunks_mut(half).enumerate().with_min_len(16).for_each(|(i, out)| {
            // SAFETY: `product` is called only where the processor has these instructions.
            unsafe { row_along(&source[i * apart..][..k], out) }
        });
        out
    }

    /// `k` rows of `columns`, `apart` from each other → words `[k/2, columns]` of two rows each.
    fn across(source: &[f32], k: usize, columns: usize, apart: usize) -> Vec<f32> {
        let mut out = uninit(k.div_ceil(2) * columns);
        out.par_chunks_mut(columns).enumerate().with_min_len(8).for_each(|(q, out)| {
            let row = |p: usize| &source[p * apart..][..columns];
            match 2 * q + 1 < k {
                // SAFETY: as above.
                true => unsafe { rows_across(row(2 * q), row(2 * q + 1), out) },
                false => out.iter_mut().zip(row(2 * q)).for_each(|(out, x)| *out = word(*x, 0.0)),
            }
        });
        out
    }

    /// One word, the slow way.
    fn word(low: f32, high: f32) -> f32 {
        let bits = |x: f32| super::round(x).to_bits() >> 16;
        f32::from_bits(bits(low) | bits(high) << 16)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn row_along(source: &[f32], out: &mut [f32]) {
        let (whole, rest) = source.as_chunks::<32>();
        let (words, last) = out.as_chunks_mut::<16>();
        for (from, to) in whole.iter().zip(words.iter_mut()) {
            // SAFETY: 32 numbers are read and 16 words written, which are there.
            unsafe {
                let (low, high) = (_mm512_loadu_ps(from.as_ptr()), _mm512_loadu_ps(from.as_ptr().add(16)));
                let both: __m512 = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
                _mm512_storeu_ps(to.as_mut_ptr(), both);
            }
        }
        // Fewer than 32 numbers are left: their words stand in what may still be a whole chunk of words.
        let left = words.len() - whole.len();
        let tail = words[whole.len()..].as_flattened_mut().iter_mut().chain(last);
        debug_assert!(left <= 1);
        for (pair, to) in rest.chunks(2).zip(tail) {
            *to = word(pair[0], pair.get(1).copied().unwrap_or(0.0));
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn rows_across(first: &[f32], second: &[f32], out: &mut [f32]) {
        let ((first, first_rest), (second, second_rest)) = (first.as_chunks::<16>(), second.as_chunks::<16>());
        let (words, last) = out.as_chunks_mut::<16>();
        for ((a, b), to) in first.iter().zip(second).zip(words) {
            // SAFETY: 16 numbers of each row are read and 16 words written, which are there.
            unsafe {
                let narrow = |x: &[f32; 16]| -> __m512i {
                    let half: __m256i = std::mem::transmute(_mm512_cvtneps_pbh(_mm512_loadu_ps(x.as_ptr())));
                    _mm512_cvtepu16_epi32(half)
                };
                let both = _mm512_or_si512(narrow(a), _mm512_slli_epi32::<16>(narrow(b)));
                _mm512_storeu_si512(to.as_mut_ptr().cast(), both);
            }
        }
        for ((a, b), to) in first_rest.iter().zip(second_rest).zip(last) {
            *to = word(*a, *b);
        }
    }

    /// Sixteen sums at once, each of two products.
    #[derive(Clone, Copy)]
    struct Pairs;

    impl Multiply<V4> for Pairs {
        #[inline(always)]
        fn mul_add(self, _: V4, a: pulp::f32x16, b: pulp::f32x16, sum: pulp::f32x16) -> pulp::f32x16 {
            // SAFETY: vectors of 512 bits all; only `tiles`, compiled for these instructions, makes a `Pairs`.
            unsafe {
                let a = std::mem::transmute::<pulp::f32x16, __m512bh>(a);
                let b = std::mem::transmute::<pulp::f32x16, __m512bh>(b);
                let sum = std::mem::transmute::<pulp::f32x16, __m512>(sum);
                std::mem::transmute(_mm512_dpbf16_ps(sum, a, b))
            }
        }
    }

    fn tiles(job: Tiles) {
        // SAFETY: `product` is called only where the processor has these instructions.
        unsafe { compiled(V4::new_unchecked(), job) }
    }

    /// The tiles of `product.rs`, compiled for AVX-512 with its bf16 extension.
    #[target_feature(
        enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bf16,avx2,fma,bmi1,bmi2,lzcnt,popcnt,f16c"
    )]
    fn compiled(simd: V4, job: Tiles) {
        tiles_of(simd, Pairs, job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    /// Both ways a matrix can lie, odd k, pieces side by side and below each other, every start: the words beside the twin.
    #[test]
    fn words_equal_rounded_numbers() {
        let key = Key::new(9, 0, 0);
        for [m, k, n] in [[18, 16, 16], [19, 301, 17], [97, 34, 50], [64, 257, 31], [200, 64, 129], [50, 1000, 70]] {
            let (x, y, bias) = (key.child(1).normals(m * k), key.child(2).normals(k * n), key.child(3).normals(n));
            let ways = |rows: usize, columns: usize| [rowwise(columns), Strided { start: 0, row: 1, column: rows }];
            for a in ways(m, k) {
                for b in ways(k, n) {
                    let piece = |k: std::ops::Range<usize>, n: std::ops::Range<usize>| {
                        let start = k.start * b.row + n.start * b.column;
                        Piece { data: &y, at: Strided { start, ..b }, k, n }
                    };
                    let cut = k / 4 * 2;
                    let below = vec![piece(0..cut, 0..n), piece(cut..k, 0..n)];
                    for pieces in [vec![piece(0..k, 0..n)], vec![piece(0..k, 0..7), piece(0..k, 7..n)], below] {
                        for onto in [Accumulate::Fresh, Accumulate::Sum, Accumulate::Bias(&bias)] {
                            let (mut got, mut want) = (vec![0.5; m * n], vec![0.5; m * n]);
                            rounded_product([m, k, n], &mut got, rowwise(n), onto, &x, a, &pieces);
                            by_rounding([m, k, n], &mut want, rowwise(n), onto, &x, a, &pieces);
                            let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                            assert!(worst < 2e-6 * k as f32 + 1e-5, "[{m}, {k}, {n}] {a:?} {b:?} {onto:?}: {worst}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest_even() {
        let step = 1.0 / 128.0; // between two neighbours above 1
        let halfway = [1.0, 1.0 + 0.5 * step, 1.0 + 1.5 * step, -3.3].map(round);
        assert_eq!(halfway, [1.0, 1.0, 1.0 + 2.0 * step, -3.296_875]);
        assert!(round(f32::NAN).is_nan() && round(f32::INFINITY) == f32::INFINITY && round(1e-40) == 0.0);
    }

    /// A NaN or an infinity in a factor is seen in the product, also through words.
    #[test]
    fn what_is_not_finite_stays_so() {
        let (m, k, n) = (40, 64, 48);
        let mut x = vec![1.0; m * k];
        (x[3 * k + 5], x[7 * k]) = (f32::NAN, f32::INFINITY);
        let mut y = vec![0.0; m * n];
        let whole = Piece { data: &vec![1.0; k * n], at: rowwise(n), k: 0..k, n: 0..n };
        rounded_product([m, k, n], &mut y, rowwise(n), Accumulate::Fresh, &x, rowwise(k), &[whole]);
        assert!(y[3 * n].is_nan() && y[7 * n] == f32::INFINITY && y[0] == k as f32);
    }
}
