//! Weights that are plain numbers (f32, bf16, f16), packed once into the order in which a product reads them.
//!
//! `y = x·Wᵀ + b` with x `[m, k]`, W `[n, k]`. W becomes panels `[k, width]`: for each step of k, `width` outputs next to each
//! other. A tile of up to six rows of x and one panel lives in registers while k runs; numbers of two bytes become f32 on the
//! way from memory, so one row reads half the bytes and many rows lose little. k is cut so that a panel's part stays in the
//! second cache while all rows pass; between two cuts the sums rest in y.
//!
//! Order of additions: each output has one sum, which begins with its bias and takes one fused multiply-add for each step of k,
//! first to last. So the bits depend on nothing else: not on the number of rows, not on the threads, **not on the level** of
//! vector instructions.

use super::{Line, Outputs, lines};
use crate::simd::Level;
use half::{bf16, f16};
use rayon::prelude::*;

/// How a plain number is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    /// four bytes
    F32,
    /// the upper half of an f32
    Bf16,
    /// IEEE half
    F16,
}

impl Float {
    /// Bytes of a number.
    pub fn size(self) -> usize {
        if self == Self::F32 { 4 } else { 2 }
    }
}

/// Rows of x in a tile.
const ROWS: usize = 6;
/// The longest cut along k: 128 KiB of a panel of f32.
const CUT: usize = 512;

/// A packed matrix `[n, k]`.
#[derive(Clone, Debug)]
pub(super) struct Panels {
    float: Float,
    n: usize,
    k: usize,
    /// outputs of a panel: 64 with AVX-512 (four vectors), 16 elsewhere (two of AVX2)
    width: usize,
    data: Vec<Line>,
}

/// One panel, one cut of k, some rows of x: what the tile of a level is given.
#[derive(Clone, Copy)]
struct Part<'a> {
    float: Float,
    /// `[len, width]`
    panel: &'a [u8],
    /// the first number of each row that counts; rows are `apart` from each other
    x: &'a [f32],
    apart: usize,
    len: usize,
    /// whether the panel comes from memory, so that it is worth asking ahead
    fresh: bool,
}

impl Panels {
    /// Packs `values`, `[n, k]` by rows. Numbers of two bytes are rounded to the nearest, ties to even.
    pub(super) fn pack(values: &[f32], n: usize, k: usize, float: Float) -> Self {
        let width = if Level::current() == Level::Avx512 { 64 } else { 16 };
        let panel = width * k * float.size();
        let mut data = lines(n.div_ceil(width) * panel);
        if panel > 0 {
            super::bytes_mut(&mut data).par_chunks_mut(panel).enumerate().for_each(|(j, panel)| {
                let rows = &values[j * width * k..n.min((j + 1) * width) * k];
                // Sixteen steps at a time, whose lines stay in the first cache while all rows are written into them.
                for from in (0..k).step_by(16) {
                    let len = 16.min(k - from);
                    for (o, row) in rows.chunks_exact(k).enumerate() {
                        for (p, value) in row[from..from + len].iter().enumerate() {
                            let at = ((from + p) * width + o) * float.size();
                            match float {
                                Float::F32 => panel[at..at + 4].copy_from_slice(&value.to_ne_bytes()),
                                Float::Bf16 => panel[at..at + 2].copy_from_slice(&bf16::from_f32(*value).to_ne_bytes()),
                                Float::F16 => panel[at..at + 2].copy_from_slice(&f16::from_f32(*value).to_ne_bytes()),
                            }
                        }
                    }
                }
            });
        }
        Self { float, n, k, width, data }
    }

    pub(super) fn float(&self) -> Float {
        self.float
    }

    pub(super) fn bytes(&self) -> usize {
        self.data.len() * size_of::<Line>()
    }

    /// Row `row` as f32.
    pub(super) fn row(&self, row: usize, out: &mut [f32]) {
        let size = self.width * self.k * self.float.size();
        let panel = &super::bytes(&self.data)[row / self.width * size..][..size];
        for (p, out) in out.iter_mut().enumerate() {
            *out = number(self.float, panel, p * self.width + row % self.width);
        }
    }

    /// How many panels there are: each can be computed by itself.
    pub(super) fn units(&self) -> usize {
        self.n.div_ceil(self.width)
    }

    /// The outputs of panel `j`, `y ← x·Wᵀ + bias`, for all rows of x.
    pub(super) fn product(&self, j: usize, x: &[f32], m: usize, bias: Option<&[f32]>, y: Outputs) {
        let (n, k, width) = (self.n, self.k, self.width);
        let (first, size) = (j * width, width * self.float.size());
        let here = width.min(n - first);
        let mut start = [0.0; 64];
        if let Some(bias) = bias {
            start[..here].copy_from_slice(&bias[first..first + here]);
        }
        // Copies of a length that is known are a few instructions; any other is a call.
        let copy = |to: &mut [f32], from: &[f32]| match here {
            64 => to[..64].copy_from_slice(&from[..64]),
            16 => to[..16].copy_from_slice(&from[..16]),
            _ => to[..here].copy_from_slice(&from[..here]),
        };
        let mut sums = [[0.0f32; 64]; ROWS];
        for from in (0..k.max(1)).step_by(CUT) {
            let len = CUT.min(k - from);
            let panel = &super::bytes(&self.data)[(j * k + from) * size..][..len * size];
            for i in (0..m).step_by(ROWS) {
                let rows = ROWS.min(m - i);
                for (r, sums) in sums.iter_mut().take(rows).enumerate() {
                    // SAFETY: panels do not share outputs, and each is computed by one thread.
                    let out = unsafe { y.at(i + r, first, here) };
                    if from == 0 {
                        *sums = start;
                    } else {
                        copy(sums, out);
                    }
                }
                let part = Part { float: self.float, panel, x: &x[i * k + from..], apart: k, len, fresh: i == 0 };
                tile(part, width, rows, &mut sums);
                for (r, sums) in sums.iter().take(rows).enumerate() {
                    // SAFETY: as above.
                    copy(unsafe { y.at(i + r, first, here) }, sums);
                }
            }
        }
    }
}

/// Number `at` of some stored ones.
#[inline(always)]
fn number(float: Float, bytes: &[u8], at: usize) -> f32 {
    let two = |bytes: &[u8]| [bytes[2 * at], bytes[2 * at + 1]];
    match float {
        Float::F32 => f32::from_ne_bytes([bytes[4 * at], bytes[4 * at + 1], bytes[4 * at + 2], bytes[4 * at + 3]]),
        Float::Bf16 => bf16::from_ne_bytes(two(bytes)).to_f32(),
        Float::F16 => f16::from_ne_bytes(two(bytes)).to_f32(),
    }
}

/// `sums[r][o] ← sums[r][o] + Σ_p x[r, p]·panel[p, o]`.
fn tile(part: Part, width: usize, rows: usize, sums: &mut [[f32; 64]; ROWS]) {
    assert!(part.panel.len() == part.len * width * part.float.size(), "a panel has {width} numbers a step");
    assert!(rows <= ROWS && part.x.len() >= (rows - 1) * part.apart + part.len, "rows of x out of bounds");
    #[cfg(target_arch = "x86_64")]
    match (Level::current(), width) {
        // SAFETY: the level in force has these instructions; the assertions above bound what is read.
        (Level::Avx512, 64) => return unsafe { x86::avx512(part, rows, sums) },
        // SAFETY: as above; F16C comes with every processor that has AVX2.
        (Level::Avx2, 16) => return unsafe { x86::avx2(part, rows, sums) },
        _ => (),
    }
    plain(part, width, rows, sums);
}

/// The twin, as one writes it down.
fn plain(part: Part, width: usize, rows: usize, sums: &mut [[f32; 64]; ROWS]) {
    let mut step = [0.0; 64];
    for p in 0..part.len {
        (0..width).for_each(|o| step[o] = number(part.float, part.panel, p * width + o));
        for (r, sums) in sums.iter_mut().take(rows).enumerate() {
            let x = part.x[r * part.apart + p];
            sums.iter_mut().zip(&step).take(width).for_each(|(sum, w)| *sum = x.mul_add(*w, *sum));
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::AHEAD;
    use super::{Float, Part, ROWS};
    use std::arch::x86_64::*;

    /// Which function serves a number of rows and a type: a table, so that every one is its own loop.
    macro_rules! by_rows {
        ($tile:ident, $part:ident, $rows:ident, $sums:ident) => {
            match ($part.float, $rows) {
                (Float::F32, 1) => $tile::<1, 0>($part, $sums),
                (Float::F32, 2) => $tile::<2, 0>($part, $sums),
                (Float::F32, 3) => $tile::<3, 0>($part, $sums),
                (Float::F32, 4) => $tile::<4, 0>($part, $sums),
                (Float::F32, 5) => $tile::<5, 0>($part, $sums),
                (Float::F32, _) => $tile::<6, 0>($part, $sums),
                (Float::Bf16, 1) => $tile::<1, 1>($part, $sums),
                (Float::Bf16, 2) => $tile::<2, 1>($part, $sums),
                (Float::Bf16, 3) => $tile::<3, 1>($part, $sums),
                (Float::Bf16, 4) => $tile::<4, 1>($part, $sums),
                (Float::Bf16, 5) => $tile::<5, 1>($part, $sums),
                (Float::Bf16, _) => $tile::<6, 1>($part, $sums),
                (Float::F16, 1) => $tile::<1, 2>($part, $sums),
                (Float::F16, 2) => $tile::<2, 2>($part, $sums),
                (Float::F16, 3) => $tile::<3, 2>($part, $sums),
                (Float::F16, 4) => $tile::<4, 2>($part, $sums),
                (Float::F16, 5) => $tile::<5, 2>($part, $sums),
                (Float::F16, _) => $tile::<6, 2>($part, $sums),
            }
        };
    }

    /// # Safety
    /// The machine has AVX-512 (F, BW, DQ, VL); `part` is as long as `super::tile` asserts for a width of 64.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn avx512(part: Part, rows: usize, sums: &mut [[f32; 64]; ROWS]) {
        // SAFETY: handed on.
        unsafe { by_rows!(tile512, part, rows, sums) }
    }

    /// `R` rows × four vectors. `T`: 0 f32, 1 bf16, 2 f16.
    ///
    /// # Safety
    /// As `avx512`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn tile512<const R: usize, const T: u8>(part: Part, sums: &mut [[f32; 64]; ROWS]) {
        let step = 64 * if T == 0 { 4 } else { 2 };
        // SAFETY: step p reads bytes p·step .. (p + 1)·step of the panel and number p of each of R rows, all within by the
        // caller's promise; `sums` has 64 numbers a row.
        unsafe {
            let mut acc = [[_mm512_setzero_ps(); 4]; R];
            for r in 0..R {
                for v in 0..4 {
                    acc[r][v] = _mm512_loadu_ps(sums[r].as_ptr().add(16 * v));
                }
            }
            let (mut at, x) = (part.panel.as_ptr(), part.x.as_ptr());
            for p in 0..part.len {
                // The first tile waits for memory; the others find the panel in the cache.
                if part.fresh {
                    for line in 0..step / 64 {
                        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD + 64 * line).cast());
                    }
                }
                let mut w = [_mm512_setzero_ps(); 4];
                for v in 0..4 {
                    w[v] = match T {
                        0 => _mm512_loadu_ps(at.cast::<f32>().add(16 * v)),
                        1 => {
                            let half = _mm256_loadu_si256(at.add(32 * v).cast());
                            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)))
                        }
                        _ => _mm512_cvtph_ps(_mm256_loadu_si256(at.add(32 * v).cast())),
                    };
                }
                for r in 0..R {
                    let x = _mm512_set1_ps(*x.add(r * part.apart + p));
                    for v in 0..4 {
                        acc[r][v] = _mm512_fmadd_ps(x, w[v], acc[r][v]);
                    }
                }
                at = at.add(step);
            }
            for r in 0..R {
                for v in 0..4 {
                    _mm512_storeu_ps(sums[r].as_mut_ptr().add(16 * v), acc[r][v]);
                }
            }
        }
    }

    /// # Safety
    /// The machine has AVX2, FMA and F16C; `part` is as long as `super::tile` asserts for a width of 16.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) unsafe fn avx2(part: Part, rows: usize, sums: &mut [[f32; 64]; ROWS]) {
        // SAFETY: handed on.
        unsafe { by_rows!(tile256, part, rows, sums) }
    }

    /// `R` rows × two vectors.
    ///
    /// # Safety
    /// As `avx2`.
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn tile256<const R: usize, const T: u8>(part: Part, sums: &mut [[f32; 64]; ROWS]) {
        let step = 16 * if T == 0 { 4 } else { 2 };
        // SAFETY: as in `tile512`, with 16 numbers a step.
        unsafe {
            let mut acc = [[_mm256_setzero_ps(); 2]; R];
            for r in 0..R {
                for v in 0..2 {
                    acc[r][v] = _mm256_loadu_ps(sums[r].as_ptr().add(8 * v));
                }
            }
            let (mut at, x) = (part.panel.as_ptr(), part.x.as_ptr());
            for p in 0..part.len {
                if part.fresh {
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD).cast());
                }
                let mut w = [_mm256_setzero_ps(); 2];
                for v in 0..2 {
                    w[v] = match T {
                        0 => _mm256_loadu_ps(at.cast::<f32>().add(8 * v)),
                        1 => {
                            let half = _mm_loadu_si128(at.add(16 * v).cast());
                            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(half)))
                        }
                        _ => _mm256_cvtph_ps(_mm_loadu_si128(at.add(16 * v).cast())),
                    };
                }
                for r in 0..R {
                    let x = _mm256_set1_ps(*x.add(r * part.apart + p));
                    for v in 0..2 {
                        acc[r][v] = _mm256_fmadd_ps(x, w[v], acc[r][v]);
                    }
                }
                at = at.add(step);
            }
            for r in 0..R {
                for v in 0..2 {
                    _mm256_storeu_ps(sums[r].as_mut_ptr().add(8 * v), acc[r][v]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tile of this machine's levels, every type and number of rows, to the bit of the twin.
    #[test]
    fn tiles_have_the_bits_of_their_twin() {
        let key = qkv_base::Key::new(7, 0, 0);
        for float in [Float::F32, Float::Bf16, Float::F16] {
            for (width, len) in [(64, 1), (64, 37), (16, 1), (16, 37)] {
                let values = key.child(1).normals(width * len);
                let panel: Vec<u8> = match float {
                    Float::F32 => values.iter().flat_map(|v| v.to_ne_bytes()).collect(),
                    Float::Bf16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_ne_bytes()).collect(),
                    Float::F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_ne_bytes()).collect(),
                };
                let (apart, x) = (len + 3, key.child(2).normals(ROWS * (len + 3)));
                for rows in 1..=ROWS {
                    let start: [[f32; 64]; ROWS] =
                        std::array::from_fn(|r| std::array::from_fn(|o| (r * 64 + o) as f32));
                    let part = Part { float, panel: &panel, x: &x, apart, len, fresh: rows == 1 };
                    let (mut got, mut want) = (start, start);
                    plain(part, width, rows, &mut want);
                    #[cfg(target_arch = "x86_64")]
                    match (Level::best(), width) {
                        // SAFETY: the machine has the level, and the part is as long as it must be.
                        (Level::Avx512, 64) => unsafe { x86::avx512(part, rows, &mut got) },
                        // SAFETY: as above.
                        (Level::Avx512 | Level::Avx2, 16) => unsafe { x86::avx2(part, rows, &mut got) },
                        _ => plain(part, width, rows, &mut got),
                    }
                    #[cfg(not(target_arch = "x86_64"))]
                    plain(part, width, rows, &mut got);
                    assert_eq!(got, want, "{float:?}, {rows} rows, {width} × {len}");
                }
            }
        }
    }
}
