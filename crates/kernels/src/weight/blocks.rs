//! Weights in groups that share a scale: `w = s·(q − z)` or `w = s·q + m`, with q of four or eight bits, s and m for each 16 or
//! 32 numbers of a row. That is what int8, int4 and all of GGUF's kinds come to, so that one product serves them all, and a
//! file is repacked but never rounded again.
//!
//! Layout "R16": 16 rows stand together. A block of 32 steps of k is eight lines of 64 bytes for q of eight bits; line i holds
//! steps 4i .. 4i + 3 of all 16 rows, four bytes a row: a whole vector meets four numbers of x that are the same for every row,
//! and nothing is ever shuffled. With four bits it is four lines: steps 0 .. 15 in the low halves of the bytes, 16 .. 31 in the
//! high ones.
//!
//! The product is made of whole numbers. x becomes q too, by token and in groups of 32: `x ≈ t·q`, |q| ≤ 127, `t = max|x|/127`,
//! halves to even. Then for each group
//!
//! `y += (s·t)·(Σ q_w·q_x − z·Σ q_x)  [+ m·(t·Σ q_x)]`
//!
//! where the sums in brackets are exact. Each output has one sum in f32, which begins at 0 and takes the groups in order, each by
//! a fused multiply-add; the bias comes last. So the bits of an output depend on nothing but its row of W and its row of x: not on
//! other rows, not on threads, **not on the level** of vector instructions.

use super::{Line, Outputs, Quants, lines};
use crate::simd::Level;
use half::f16;
use rayon::prelude::*;

/// Rows of W that stand together.
const OUTS: usize = 16;
/// Steps of k in a block.
pub(super) const BLOCK: usize = 32;
/// The most rows of x in a tile.
const ROWS: usize = 8;

/// Scales (or minima): as small as they can be without rounding.
#[derive(Clone, Debug)]
enum Scales {
    F16(Vec<u16>),
    F32(Vec<f32>),
}

impl Scales {
    fn of(values: Vec<f32>) -> Self {
        let halves = values.iter().map(|v| f16::from_f32(*v));
        match halves.clone().zip(&values).all(|(half, v)| half.to_f32().to_bits() == v.to_bits()) {
            true => Self::F16(halves.map(f16::to_bits).collect()),
            false => Self::F32(values),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::F16(all) => 2 * all.len(),
            Self::F32(all) => 4 * all.len(),
        }
    }

    fn get(&self, at: usize) -> f32 {
        match self {
            Self::F16(all) => f16::from_bits(all[at]).to_f32(),
            Self::F32(all) => all[at],
        }
    }

    fn sixteen(&self, at: usize) -> [f32; OUTS] {
        std::array::from_fn(|o| self.get(at + o))
    }
}

/// A packed matrix `[n, k]`.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    n: usize,
    k: usize,
    bits: Bits,
    /// 16 or 32
    group: usize,
    /// z
    zero: i32,
    /// by sixteens of rows, then by blocks of k
    quants: Vec<Line>,
    /// `[n/16, k/group, 16]`
    scales: Scales,
    mins: Option<Scales>,
}

/// How many bits, and how far they reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    Four,
    /// below 64, so that two products with a byte of x fit in 16 bits
    Six,
    /// all 256, counted from 128
    Eight,
}

impl Bits {
    /// Lines of a block.
    fn lines(self) -> usize {
        if self == Self::Four { 4 } else { 8 }
    }
}

impl Blocks {
    /// Packs; what cannot be is told.
    pub(super) fn pack(from: Quants) -> Result<Self, String> {
        let Quants { rows: n, width: k, group, zero, quants, scales, mins } = from;
        if !k.is_multiple_of(BLOCK) || k == 0 {
            return Err(format!("rows of {k} numbers are not whole blocks of {BLOCK}"));
        }
        if group != 16 && group != 32 {
            return Err(format!("groups of {group} numbers, where 16 and 32 are known"));
        }
        let groups = k / group;
        let fits = |len: usize| len == n * groups;
        if quants.len() != n * k || !fits(scales.len()) || mins.as_ref().is_some_and(|m| !fits(m.len())) {
            return Err(format!("{} numbers and {} scales for [{n}, {k}]", quants.len(), scales.len()));
        }
        if let Some(at) = scales.iter().chain(mins.iter().flatten()).position(|s| !s.is_finite()) {
            return Err(format!("scale {at} is no number"));
        }
        let most = quants.par_iter().copied().max().unwrap_or(0);
        let bits = match most {
            0..=15 => Bits::Four,
            16..=63 => Bits::Six,
            _ if zero == 128 => Bits::Eight,
            _ => return Err(format!("a number of {most} that is not counted from 128")),
        };
        let (sixteens, blocks) = (n.div_ceil(OUTS), k / BLOCK);
        let size = blocks * bits.lines() * 64;
        let mut packed = lines(sixteens * size);
        super::bytes_mut(&mut packed).par_chunks_mut(size).enumerate().for_each(|(s, out)| {
            for (o, row) in quants.chunks_exact(k).skip(s * OUTS).take(OUTS).enumerate() {
                for (block, out) in row.chunks_exact(BLOCK).zip(out.chunks_exact_mut(bits.lines() * 64)) {
                    for (p, q) in block.iter().enumerate() {
                        match bits {
                            Bits::Four => out[p % 16 / 4 * 64 + o * 4 + p % 4] |= q << (p / 16 * 4),
                            _ => out[p / 4 * 64 + o * 4 + p % 4] = *q,
                        }
                    }
                }
            }
        });
        // Rows behind the last have a scale of 0.
        let turned = |values: Vec<f32>| {
            let mut all = vec![0.0; sixteens * groups * OUTS];
            for (i, row) in values.chunks_exact(groups).enumerate() {
                let at = i / OUTS * groups * OUTS + i % OUTS;
                row.iter().enumerate().for_each(|(g, value)| all[at + g * OUTS] = *value);
            }
            Scales::of(all)
        };
        Ok(Self { n, k, bits, group, zero, quants: packed, scales: turned(scales), mins: mins.map(turned) })
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.quants.as_slice()) + self.scales.bytes() + self.mins.as_ref().map_or(0, Scales::bytes)
    }

    /// Bits of a number, scales left out.
    pub(super) fn bits(&self) -> usize {
        if self.bits == Bits::Four { 4 } else { 8 }
    }

    /// Row `row` as f32: `s·(q − z)`, and m added where there is one.
    pub(super) fn row(&self, row: usize, out: &mut [f32]) {
        let (s, o) = (row / OUTS, row % OUTS);
        let size = self.k / BLOCK * self.bits.lines() * 64;
        let quants = &super::bytes(&self.quants)[s * size..][..size];
        for (p, out) in out.iter_mut().enumerate() {
            let (block, at) = (p / BLOCK * self.bits.lines() * 64, p % BLOCK);
            let q = match self.bits {
                Bits::Four => quants[block + at % 16 / 4 * 64 + o * 4 + at % 4] >> (at / 16 * 4) & 15,
                _ => quants[block + at / 4 * 64 + o * 4 + at % 4],
            };
            let scale = (s * (self.k / self.group) + p / self.group) * OUTS + o;
            *out = self.scales.get(scale) * (i32::from(q) - self.zero) as f32;
            if let Some(mins) = &self.mins {
                *out += mins.get(scale);
            }
        }
    }

    /// How many sixteens of outputs there are: each can be computed by itself.
    pub(super) fn units(&self) -> usize {
        self.n.div_ceil(OUTS)
    }

    /// The outputs of sixteen `s`, `y ← x·Wᵀ + bias`, for all rows of x.
    pub(super) fn product(&self, s: usize, x: &Activations, bias: Option<&[f32]>, y: Outputs) {
        assert!(x.k == self.k && x.grouping == self.grouping(), "x was made for another weight");
        let lines = self.k / BLOCK * self.bits.lines();
        let first = s * (self.k / self.group) * OUTS;
        let part = Part { blocks: self, quants: &self.quants[s * lines..(s + 1) * lines], first };
        let here = OUTS.min(self.n - s * OUTS);
        let bias = bias.map(|bias| &bias[s * OUTS..s * OUTS + here]);
        let mut i = 0;
        while i < x.rows {
            let mut sums = [[0.0; OUTS]; ROWS];
            let rows = tile(part, x, i, &mut sums);
            for (r, sums) in sums.iter_mut().take(rows).enumerate() {
                if let Some(bias) = bias {
                    sums.iter_mut().zip(bias).for_each(|(sum, bias)| *sum += bias);
                }
                // SAFETY: sixteens do not share outputs, and each is computed by one thread.
                let out = unsafe { y.at(i + r, s * OUTS, here) };
                // A copy of a length that is known is one instruction; any other is a call.
                match out.first_chunk_mut::<OUTS>() {
                    Some(out) => *out = *sums,
                    None => out.copy_from_slice(&sums[..here]),
                }
            }
            i += rows;
        }
    }

    /// How x must be summed.
    pub(super) fn grouping(&self) -> Grouping {
        Grouping { group: self.group, zero: self.zero }
    }
}

/// What of a weight decides how x is prepared: the groups it is summed by, and what its numbers are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grouping {
    group: usize,
    zero: i32,
}

/// Rows of x as whole numbers, `x ≈ t·q`, in the order in which a tile reads them.
///
/// A tile of R rows takes four steps of k of all its rows together, so that it walks through one list: `[k/4, R, 4]` numbers, and
/// beside them `[k/32, R]` scales and `[k/group, R]` sums. Tiles stand one behind the other, in the order of the rows.
#[derive(Clone, Debug)]
pub(super) struct Activations {
    rows: usize,
    k: usize,
    grouping: Grouping,
    /// rows of a tile, at most
    most: usize,
    quants: Vec<i8>,
    /// t; NaN where a number of the group is not finite, so that it shows in what comes out
    scales: Vec<f32>,
    /// −z·Σ q of each group: where its sum begins
    starts: Vec<i32>,
    /// t·Σ q of each group: what a minimum is multiplied by
    sums: Vec<f32>,
}

/// The most rows of a tile on the level in force: what its registers hold.
fn most_rows() -> usize {
    #[cfg(target_arch = "x86_64")]
    match Level::current() {
        Level::Avx512 if x86::has_vnni() => return ROWS,
        Level::Avx512 | Level::Avx2 => return 2,
        _ => (),
    }
    1
}

impl Activations {
    /// Rounds x, `[rows, k]`, for the tiles of the level in force.
    pub(super) fn of(x: &[f32], k: usize, grouping: Grouping) -> Self {
        Self::in_tiles(x, k, grouping, most_rows())
    }

    /// The same for tiles of at most so many rows, a power of two.
    fn in_tiles(x: &[f32], k: usize, grouping: Grouping, most: usize) -> Self {
        let rows = x.len() / k.max(1);
        let Grouping { group, zero } = grouping;
        let (blocks, groups) = (k / BLOCK, k / group);
        let mut quants = vec![0i8; x.len()];
        let mut scales = vec![0.0f32; rows * blocks];
        let mut starts = vec![0i32; rows * groups];
        let mut sums = vec![0.0f32; rows * groups];
        type Tile<'a> = (&'a [f32], &'a mut [i8], &'a mut [f32], &'a mut [i32], &'a mut [f32]);
        let mut tiles: Vec<Tile> = vec![];
        let (mut x, mut q, mut t, mut s, mut m) = (x, &mut quants[..], &mut scales[..], &mut starts[..], &mut sums[..]);
        let mut i = 0;
        while i < rows {
            let r = tile_rows(i, rows, most);
            let parts = (x.split_at(r * k), q.split_at_mut(r * k), t.split_at_mut(r * blocks));
            let more = (s.split_at_mut(r * groups), m.split_at_mut(r * groups));
            tiles.push((parts.0.0, parts.1.0, parts.2.0, more.0.0, more.1.0));
            (x, q, t, s, m) = (parts.0.1, parts.1.1, parts.2.1, more.0.1, more.1.1);
            i += r;
        }
        let each = |(x, quants, scales, starts, sums): Tile| {
            let r = x.len() / k;
            let mut q = [0i8; BLOCK];
            for (row, x) in x.chunks_exact(k).enumerate() {
                for (c, x) in x.chunks_exact(BLOCK).enumerate() {
                    let scale = round(x, &mut q);
                    scales[c * r + row] = scale;
                    for (quad, four) in q.as_chunks::<4>().0.iter().enumerate() {
                        let at = ((c * BLOCK / 4 + quad) * r + row) * 4;
                        quants[at..at + 4].copy_from_slice(four);
                    }
                    for (g, q) in q.chunks_exact(group).enumerate() {
                        let total: i32 = q.iter().map(|q| i32::from(*q)).sum();
                        let at = (c * (BLOCK / group) + g) * r + row;
                        starts[at] = -zero * total;
                        sums[at] = scale * total as f32;
                    }
                }
            }
        };
        if rows * k < crate::threads::SERIAL {
            tiles.into_iter().for_each(each);
        } else {
            tiles.into_par_iter().for_each(each);
        }
        Self { rows, k, grouping, most, quants, scales, starts, sums }
    }
}

/// How many rows the tile has that begins with row `i` of `rows`: `most`, halved until they are there.
fn tile_rows(i: usize, rows: usize, most: usize) -> usize {
    let mut r = most;
    while r > rows - i {
        r /= 2;
    }
    r
}

/// One group of 32: q, and t.
fn round(x: &[f32], q: &mut [i8]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    match Level::current() {
        // SAFETY: the level in force has AVX2; both slices are 32 long, as `chunks_exact` made them.
        Level::Avx512 | Level::Avx2 => return unsafe { x86::round(x, q) },
        _ => (),
    }
    plain_round(x, q)
}

/// The twin of [`x86::round`].
fn plain_round(x: &[f32], q: &mut [i8]) -> f32 {
    let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    if !most.is_finite() || x.iter().any(|x| x.is_nan()) {
        q.fill(0);
        return f32::NAN;
    }
    let scale = most / 127.0;
    // The inverse of a scale that is next to nothing would be infinite: such a group counts as 0.
    let inverse = if scale >= f32::MIN_POSITIVE { 127.0 / most } else { 0.0 };
    x.iter().zip(q).for_each(|(x, q)| *q = (x * inverse).round_ties_even() as i8);
    if inverse == 0.0 { 0.0 } else { scale }
}

/// Sixteen rows of W.
#[derive(Clone, Copy)]
struct Part<'a> {
    blocks: &'a Blocks,
    quants: &'a [Line],
    /// where their scales begin
    first: usize,
}

/// The sums of the tile of x that begins with row `i`; how many rows that were.
fn tile(part: Part, x: &Activations, i: usize, sums: &mut [[f32; OUTS]; ROWS]) -> usize {
    let rows = tile_rows(i, x.rows, x.most);
    #[cfg(target_arch = "x86_64")]
    match Level::current() {
        // SAFETY: the machine has AVX-512 with VNNI; the tile that begins with row i has so many rows.
        Level::Avx512 if x86::has_vnni() => unsafe { x86::avx512(part, x, i, rows, sums) },
        // SAFETY: the machine has AVX2 and FMA; the rest as above.
        Level::Avx512 | Level::Avx2 => unsafe { x86::avx2(part, x, i, rows, sums) },
        _ => plain_tile(part, x, i, rows, sums),
    }
    #[cfg(not(target_arch = "x86_64"))]
    plain_tile(part, x, i, rows, sums);
    rows
}

/// The twin: the formula as it stands at the head of the file.
fn plain_tile(part: Part, x: &Activations, i: usize, rows: usize, sums: &mut [[f32; OUTS]; ROWS]) {
    let (b, k) = (part.blocks, x.k);
    let (groups, lines) = (k / b.group, b.bits.lines());
    for g in 0..groups {
        let weight_scales = b.scales.sixteen(part.first + g * OUTS);
        let mins = b.mins.as_ref().map(|m| m.sixteen(part.first + g * OUTS));
        for (r, sums) in sums.iter_mut().take(rows).enumerate() {
            let scale = x.scales[i * (k / BLOCK) + g * b.group / BLOCK * rows + r];
            let at = i * groups + g * rows + r;
            for o in 0..OUTS {
                let mut dot = x.starts[at];
                for p in g * b.group..(g + 1) * b.group {
                    let (block, step) = (p / BLOCK * lines, p % BLOCK);
                    let q = match b.bits {
                        Bits::Four => part.quants[block + step % 16 / 4].0[o * 4 + step % 4] >> (step / 16 * 4) & 15,
                        _ => part.quants[block + step / 4].0[o * 4 + step % 4],
                    };
                    dot += i32::from(q) * i32::from(x.quants[i * k + (p / 4 * rows + r) * 4 + p % 4]);
                }
                sums[o] = (dot as f32).mul_add(weight_scales[o] * scale, sums[o]);
                if let Some(mins) = &mins {
                    sums[o] = mins[o].mul_add(x.sums[at], sums[o]);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;
