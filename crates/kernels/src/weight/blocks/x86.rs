//! The tiles of [`super`] in vectors of 8 and 16 numbers: AVX2, and AVX-512 with VNNI. Each makes the same sums in the same order
//! as `plain_tile`, to the bit.

use super::super::AHEAD;
use super::{Activations, BLOCK, Bits, OUTS, Part, ROWS, Scales};
use std::arch::x86_64::*;

/// Whether bytes can be multiplied and summed in one instruction.
pub(super) fn has_vnni() -> bool {
    std::arch::is_x86_feature_detected!("avx512vnni")
}

/// # Safety
/// The machine has AVX2; both slices are 32 long.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn round(x: &[f32], q: &mut [i8]) -> f32 {
    debug_assert!(x.len() == BLOCK && q.len() == BLOCK);
    // SAFETY: 32 numbers are read and 32 bytes written.
    unsafe {
        let sign = _mm256_set1_ps(-0.0);
        let v: [__m256; 4] = [
            _mm256_loadu_ps(x.as_ptr()),
            _mm256_loadu_ps(x.as_ptr().add(8)),
            _mm256_loadu_ps(x.as_ptr().add(16)),
            _mm256_loadu_ps(x.as_ptr().add(24)),
        ];
        let size = |v| _mm256_andnot_ps(sign, v);
        let most = _mm256_max_ps(_mm256_max_ps(size(v[0]), size(v[1])), _mm256_max_ps(size(v[2]), size(v[3])));
        // x − x is 0 for what is finite, and NaN for the rest.
        let mut off = _mm256_sub_ps(v[0], v[0]);
        for v in &v[1..] {
            off = _mm256_add_ps(off, _mm256_sub_ps(*v, *v));
        }
        if _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(off, off)) != 0 {
            q.fill(0);
            return f32::NAN;
        }
        let most = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps::<1>(most));
        let most = _mm_max_ps(most, _mm_movehl_ps(most, most));
        let most = _mm_cvtss_f32(_mm_max_ss(most, _mm_shuffle_ps::<1>(most, most)));
        let scale = most / 127.0;
        let inverse = if scale >= f32::MIN_POSITIVE { 127.0 / most } else { 0.0 };
        let by = _mm256_set1_ps(inverse);
        // The conversion rounds halves to even; packing keeps the numbers, which are within ±127, and mixes the lanes.
        let whole = |v| _mm256_cvtps_epi32(_mm256_mul_ps(v, by));
        let low = _mm256_packs_epi32(whole(v[0]), whole(v[1]));
        let high = _mm256_packs_epi32(whole(v[2]), whole(v[3]));
        let mixed = _mm256_packs_epi16(low, high);
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_storeu_si256(q.as_mut_ptr().cast(), _mm256_permutevar8x32_epi32(mixed, order));
        if inverse == 0.0 { 0.0 } else { scale }
    }
}

macro_rules! by_kind {
    ($tile:ident, $part:ident, $x:ident, $i:ident, $sums:ident, $rows:literal) => {
        match ($part.blocks.bits, $part.blocks.group) {
            (Bits::Four, 32) => $tile::<$rows, 4, 32>($part, $x, $i, $sums),
            (Bits::Four, _) => $tile::<$rows, 4, 16>($part, $x, $i, $sums),
            (Bits::Six, 32) => $tile::<$rows, 6, 32>($part, $x, $i, $sums),
            (Bits::Six, _) => $tile::<$rows, 6, 16>($part, $x, $i, $sums),
            (Bits::Eight, 32) => $tile::<$rows, 8, 32>($part, $x, $i, $sums),
            (Bits::Eight, _) => $tile::<$rows, 8, 16>($part, $x, $i, $sums),
        }
    };
}

/// # Safety
/// The machine has AVX-512 (F, BW, DQ, VL, VNNI); the tile of x that begins with row `i` has `rows` rows, which are 1, 2, 4 or
/// 8; x and the weight are of one k and one grouping.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) unsafe fn avx512(part: Part, x: &Activations, i: usize, rows: usize, sums: &mut [[f32; OUTS]; ROWS]) {
    // SAFETY: handed on.
    unsafe {
        match rows {
            8 => by_kind!(tile512, part, x, i, sums, 8),
            4 => by_kind!(tile512, part, x, i, sums, 4),
            2 => by_kind!(tile512, part, x, i, sums, 2),
            _ => by_kind!(tile512, part, x, i, sums, 1),
        }
    }
}

/// Sixteen scales, from number `at` on.
///
/// # Safety
/// The machine has AVX-512; `at + 16` is at most their number.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn scales512(scales: &Scales, at: usize) -> __m512 {
    // SAFETY: by the caller's promise.
    unsafe {
        match scales {
            Scales::F16(all) => _mm512_cvtph_ps(_mm256_loadu_si256(all.as_ptr().add(at).cast())),
            Scales::F32(all) => _mm512_loadu_ps(all.as_ptr().add(at)),
        }
    }
}

/// # Safety
/// As `avx512`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn tile512<const R: usize, const BITS: usize, const GROUP: usize>(
    part: Part,
    x: &Activations,
    i: usize,
    sums: &mut [[f32; OUTS]; ROWS],
) {
    let (b, k) = (part.blocks, x.k);
    let (lines, groups) = (if BITS == 4 { 4 } else { 8 }, k / GROUP);
    let low = _mm512_set1_epi8(15);
    // SAFETY: block c reads lines c·lines .. (c + 1)·lines of the part, and of the tile its 32·R numbers, its R scales and the
    // sums of its groups: all there for c < k/32, since part and x are of one k and the tile has R rows.
    unsafe {
        let mut acc = [_mm512_setzero_ps(); R];
        let mut at = part.quants.as_ptr().cast::<u8>();
        let mut four = x.quants.as_ptr().add(i * k);
        let mut scales = x.scales.as_ptr().add(i * (k / BLOCK));
        let mut starts = x.starts.as_ptr().add(i * groups);
        let mut sums_of = x.sums.as_ptr().add(i * groups);
        let mut first = part.first;
        for _ in 0..k / BLOCK {
            if i == 0 {
                // The first tile waits for memory: ask ahead. The others find the weights in the cache.
                for line in 0..lines {
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD + line * 64).cast());
                }
            }
            for g in 0..BLOCK / GROUP {
                let mut dots = [_mm512_setzero_si512(); R];
                for r in 0..R {
                    dots[r] = _mm512_set1_epi32(*starts.add(r));
                }
                for quad in g * GROUP / 4..(g + 1) * GROUP / 4 {
                    let w = match BITS {
                        4 => {
                            let both = _mm512_loadu_si512(at.add(quad % 4 * 64).cast());
                            let half = if quad < 4 { both } else { _mm512_srli_epi16::<4>(both) };
                            _mm512_and_si512(half, low)
                        }
                        _ => _mm512_loadu_si512(at.add(quad * 64).cast()),
                    };
                    for r in 0..R {
                        let x = four.add((quad * R + r) * 4).cast::<i32>().read_unaligned();
                        dots[r] = _mm512_dpbusd_epi32(dots[r], w, _mm512_set1_epi32(x));
                    }
                }
                let scale = scales512(&b.scales, first);
                for r in 0..R {
                    let both = _mm512_mul_ps(scale, _mm512_set1_ps(*scales.add(r)));
                    acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), both, acc[r]);
                }
                if let Some(mins) = &b.mins {
                    let min = scales512(mins, first);
                    for r in 0..R {
                        acc[r] = _mm512_fmadd_ps(min, _mm512_set1_ps(*sums_of.add(r)), acc[r]);
                    }
                }
                (starts, sums_of, first) = (starts.add(R), sums_of.add(R), first + OUTS);
            }
            (at, four, scales) = (at.add(lines * 64), four.add(BLOCK * R), scales.add(R));
        }
        for r in 0..R {
            _mm512_storeu_ps(sums[r].as_mut_ptr(), acc[r]);
        }
    }
}

/// # Safety
/// The machine has AVX2, FMA and F16C; the tile of x that begins with row `i` has `rows` rows, which are 1 or 2; x and the weight
/// are of one k and one grouping.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn avx2(part: Part, x: &Activations, i: usize, rows: usize, sums: &mut [[f32; OUTS]; ROWS]) {
    // SAFETY: handed on.
    unsafe {
        match rows {
            2 => by_kind!(tile256, part, x, i, sums, 2),
            _ => by_kind!(tile256, part, x, i, sums, 1),
        }
    }
}

/// Eight scales, from number `at` on.
///
/// # Safety
/// The machine has AVX2 and F16C; `at + 8` is at most their number.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn scales256(scales: &Scales, at: usize) -> __m256 {
    // SAFETY: by the caller's promise.
    unsafe {
        match scales {
            Scales::F16(all) => _mm256_cvtph_ps(_mm_loadu_si128(all.as_ptr().add(at).cast())),
            Scales::F32(all) => _mm256_loadu_ps(all.as_ptr().add(at)),
        }
    }
}

/// Two vectors of eight rows of W. Bytes are multiplied in pairs into 16 bits, which must not overflow:
/// four bits: 2·15·127 a pair, and eight pairs still fit (30,480), so that a group is widened once;
/// six bits: 2·63·127 = 16,002, widened at once;
/// eight bits: w − 128 by size and sign, 2·128·127 = 32,512, widened at once.
///
/// # Safety
/// As `avx2`.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn tile256<const R: usize, const BITS: usize, const GROUP: usize>(
    part: Part,
    x: &Activations,
    i: usize,
    sums: &mut [[f32; OUTS]; ROWS],
) {
    let (b, k) = (part.blocks, x.k);
    let (lines, groups) = (if BITS == 4 { 4 } else { 8 }, k / GROUP);
    let low = _mm256_set1_epi8(15);
    let ones = _mm256_set1_epi16(1);
    let high_bit = _mm256_set1_epi8(-128);
    // SAFETY: as in `tile512`.
    unsafe {
        let mut acc = [[_mm256_setzero_ps(); 2]; R];
        let mut at = part.quants.as_ptr().cast::<u8>();
        let mut four = x.quants.as_ptr().add(i * k);
        let mut scales = x.scales.as_ptr().add(i * (k / BLOCK));
        let mut starts = x.starts.as_ptr().add(i * groups);
        let mut sums_of = x.sums.as_ptr().add(i * groups);
        let mut first = part.first;
        for _ in 0..k / BLOCK {
            if i == 0 {
                for line in 0..lines {
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD + line * 64).cast());
                }
            }
            for g in 0..BLOCK / GROUP {
                let mut pairs = [[_mm256_setzero_si256(); 2]; R];
                let mut dots = [[_mm256_setzero_si256(); 2]; R];
                for r in 0..R {
                    // Eight bits are taken as w − 128 already.
                    dots[r] = [_mm256_set1_epi32(if BITS == 8 { 0 } else { *starts.add(r) }); 2];
                }
                for quad in g * GROUP / 4..(g + 1) * GROUP / 4 {
                    let mut x = [_mm256_setzero_si256(); R];
                    for r in 0..R {
                        let bytes = four.add((quad * R + r) * 4).cast::<i32>().read_unaligned();
                        x[r] = _mm256_set1_epi32(bytes);
                    }
                    for h in 0..2 {
                        let line = if BITS == 4 { quad % 4 } else { quad };
                        let both = _mm256_loadu_si256(at.add(line * 64 + h * 32).cast());
                        if BITS == 8 {
                            let w = _mm256_xor_si256(both, high_bit);
                            let size = _mm256_abs_epi8(w);
                            for r in 0..R {
                                let pair = _mm256_maddubs_epi16(size, _mm256_sign_epi8(x[r], w));
                                dots[r][h] = _mm256_add_epi32(dots[r][h], _mm256_madd_epi16(pair, ones));
                            }
                        } else if BITS == 6 {
                            for r in 0..R {
                                let pair = _mm256_maddubs_epi16(both, x[r]);
                                dots[r][h] = _mm256_add_epi32(dots[r][h], _mm256_madd_epi16(pair, ones));
                            }
                        } else {
                            let half = if quad < 4 { both } else { _mm256_srli_epi16::<4>(both) };
                            let w = _mm256_and_si256(half, low);
                            for r in 0..R {
                                pairs[r][h] = _mm256_add_epi16(pairs[r][h], _mm256_maddubs_epi16(w, x[r]));
                            }
                        }
                    }
                }
                for h in 0..2 {
                    let scale = scales256(&b.scales, first + 8 * h);
                    for r in 0..R {
                        let mut dot = dots[r][h];
                        if BITS == 4 {
                            dot = _mm256_add_epi32(dot, _mm256_madd_epi16(pairs[r][h], ones));
                        }
                        let both = _mm256_mul_ps(scale, _mm256_set1_ps(*scales.add(r)));
                        acc[r][h] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), both, acc[r][h]);
                    }
                    if let Some(mins) = &b.mins {
                        let min = scales256(mins, first + 8 * h);
                        for r in 0..R {
                            acc[r][h] = _mm256_fmadd_ps(min, _mm256_set1_ps(*sums_of.add(r)), acc[r][h]);
                        }
                    }
                }
                (starts, sums_of, first) = (starts.add(R), sums_of.add(R), first + OUTS);
            }
            (at, four, scales) = (at.add(lines * 64), four.add(BLOCK * R), scales.add(R));
        }
        for r in 0..R {
            for h in 0..2 {
                _mm256_storeu_ps(sums[r].as_mut_ptr().add(8 * h), acc[r][h]);
            }
        }
    }
}
