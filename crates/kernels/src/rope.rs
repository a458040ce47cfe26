//! Rotary positions (Su et al. 2021): each pair of features (a, b) of a query or key at position p is turned by the
//! angle `p·ωᵢ`: `(a·cos − b·sin, a·sin + b·cos)`. The dot product of two turned vectors depends on their distance only.
//!
//! Shapes: x `[B, T, N·D]`, the first `rotate` of N heads are turned (queries and keys of a packed `[q | k | v]`), the
//! rest pass through. A pair is (i, i + R/2) in LLaMA's checkpoints ([`Pairing::Halves`]) and (2i, 2i + 1) in the paper
//! ([`Pairing::Neighbours`]); R ≤ D features of each head are turned. The table is computed once.
//!
//! Turning happens in place when nobody else holds x. Neighbours are complex numbers, and turning them is one complex
//! product. Backward: the same turn by the opposite angle, in place on the gradient. Nothing is kept. NaN and ∞ spoil
//! their pair and nothing else.

use crate::fused::{Fused, apply, in_place, rows_and_width};
use crate::registry::{Bench, Case, Op, Work};
use crate::simd::simd;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, TensorData};
use pulp::{bytemuck, c32};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which two features make a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    /// (i, i + R/2)
    Halves,
    /// (2i, 2i + 1)
    Neighbours,
}

/// cos and sin of every position and pair, computed once; a clone shares them.
#[derive(Clone, Debug)]
pub struct RopeTable {
    /// `[positions, R]`: a row lies as the features of a head do, cos in the place of a and sin in the place of b.
    turns: Arc<[f32]>,
    /// R/2: pairs per head
    pairs: usize,
    pairing: Pairing,
}

impl RopeTable {
    /// The table for frequencies `omega` (one per pair), up to `positions`; `scale` multiplies cos and sin (1 unless the
    /// scaling says otherwise, as YaRN's does).
    ///
    /// ```
    /// use qkv_kernels::{Pairing, RopeTable};
    /// assert_eq!(RopeTable::new(&[1.0, 0.1], 512, 1.0, Pairing::Halves).positions(), 512);
    /// ```
    pub fn new(omega: &[f64], positions: usize, scale: f64, pairing: Pairing) -> Self {
        let row = |p: usize| -> Vec<f32> {
            let turns = omega.iter().map(|w| (p as f64 * w).sin_cos());
            let turns = turns.map(|(sin, cos)| ((cos * scale) as f32, (sin * scale) as f32));
            match pairing {
                Pairing::Halves => {
                    let (cos, sin): (Vec<f32>, Vec<f32>) = turns.unzip();
                    [cos, sin].concat()
                }
                Pairing::Neighbours => turns.flat_map(|(cos, sin)| [cos, sin]).collect(),
            }
        };
        Self { turns: (0..positions).flat_map(row).collect(), pairs: omega.len(), pairing }
    }

    /// How many positions the table holds.
    ///
    /// ```
    /// use qkv_kernels::{Pairing, RopeTable};
    /// assert_eq!(RopeTable::new(&[1.0], 7, 1.0, Pairing::Neighbours).positions(), 7);
    /// assert_eq!(RopeTable::new(&[], 7, 1.0, Pairing::Neighbours).positions(), 0); // nothing to turn, nothing held
    /// ```
    pub fn positions(&self) -> usize {
        self.turns.len().checked_div(2 * self.pairs).unwrap_or(0)
    }

    /// cos and sin at position `p`, laid out as the features are.
    fn at(&self, p: usize) -> &[f32] {
        &self.turns[p * 2 * self.pairs..][..2 * self.pairs]
    }

    /// cos and sin of pair `i` at position `p`.
    fn turn(&self, p: usize, i: usize) -> (f32, f32) {
        let row = self.at(p);
        match self.pairing {
            Pairing::Halves => (row[i], row[i + self.pairs]),
            Pairing::Neighbours => (row[2 * i], row[2 * i + 1]),
        }
    }
}

/// The position of each token of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Positions {
    /// Every row starts at this position: 0 for a whole sequence, the cache's length when decoding.
    From(usize),
    /// One position per token, row by row `[B·T]`: left padding, packed documents.
    Each(Arc<[usize]>),
}

impl Positions {
    /// The position of token `t` of row `b`, in rows of `len`.
    ///
    /// ```
    /// use qkv_kernels::Positions;
    /// assert_eq!(Positions::From(7).at(1, 2, 3), 9);
    /// assert_eq!(Positions::Each([0, 0, 1, 0, 1, 2].into()).at(1, 2, 3), 2); // the first row is padded on the left
    /// ```
    #[inline]
    pub fn at(&self, b: usize, t: usize, len: usize) -> usize {
        match self {
            Self::From(start) => start + t,
            Self::Each(each) => each[b * len + t],
        }
    }

    /// The largest position in a batch of `rows` × `len`, if there are any tokens.
    ///
    /// ```
    /// use qkv_kernels::Positions;
    /// assert_eq!(Positions::From(7).largest(2, 3), Some(9));
    /// assert_eq!(Positions::From(7).largest(0, 3), None);
    /// ```
    pub fn largest(&self, rows: usize, len: usize) -> Option<usize> {
        match self {
            _ if rows * len == 0 => None,
            Self::From(start) => Some(start + len - 1),
            Self::Each(each) => each.iter().copied().max(),
        }
    }
}

/// Turns the first `rotate` of the `heads` heads of x `[B, T, heads·D]`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::{Pairing, Positions, RopeTable, rope};
///
/// // A quarter turn per position: (1, 0) stays, then becomes (0, 1), then (−1, 0).
/// let table = RopeTable::new(&[std::f64::consts::FRAC_PI_2], 3, 1.0, Pairing::Halves);
/// let x = Tensor::<3>::from_floats([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]], &Device::flex());
/// let y: Vec<f32> = rope(x, &table, &Positions::From(0), 1, 1).into_data().try_to_vec().unwrap();
/// let want = [1.0, 0.0, 0.0, 1.0, -1.0, 0.0];
/// assert!(y.iter().zip(want).all(|(y, want)| (y - want).abs() < 1e-6));
/// ```
///
/// # Panics
/// If a position is past the table or the shapes do not fit: the caller has checked the sequence length.
pub fn rope(x: Tensor<3>, table: &RopeTable, positions: &Positions, heads: usize, rotate: usize) -> Tensor<3> {
    check(x.dims(), table, positions, heads, rotate);
    if rotate == 0 || table.pairs == 0 {
        return x;
    }
    let turn = Rope { table: table.clone(), positions: positions.clone(), heads, rotate };
    match apply(turn, [Some(x.into_dispatch())]) {
        Ok(y) => Tensor::from_dispatch(y),
        Err([x]) => plain(Tensor::from_dispatch(x.expect("rope has an input")), table, positions, heads, rotate),
    }
}

/// Says what does not fit, before an index does.
fn check([b, t, c]: [usize; 3], table: &RopeTable, positions: &Positions, heads: usize, rotate: usize) {
    assert!(heads > 0 && c % heads == 0, "rope: {c} features are not {heads} heads");
    assert!(rotate <= heads, "rope: cannot turn {rotate} of {heads} heads");
    assert!(2 * table.pairs <= c / heads, "rope: {} pairs do not fit a head of {}", table.pairs, c / heads);
    if let Positions::Each(each) = positions {
        assert_eq!(each.len(), b * t, "rope: one position per token");
    }
    if let Some(last) = positions.largest(b, t)
        && table.pairs > 0
    {
        assert!(last < table.positions(), "rope: position {last} is past the table of {}", table.positions());
    }
}

/// The plain twin.
fn plain(x: Tensor<3>, table: &RopeTable, positions: &Positions, heads: usize, rotate: usize) -> Tensor<3> {
    let [b, t, c] = x.dims();
    let (d, r) = (c / heads, table.pairs);
    let device = x.device();
    let dtype = x.dtype();
    let turns = (0..b * t).flat_map(|i| {
        let p = positions.at(i / t, i % t, t);
        (0..r).map(move |pair| table.turn(p, pair))
    });
    let (cos, sin): (Vec<f32>, Vec<f32>) = turns.unzip();
    let [cos, sin] =
        [cos, sin].map(|data| Tensor::<4>::from_data(TensorData::new(data, [b, t, 1, r]), (&device, dtype)));
    let x = x.reshape([b, t, heads, d]);
    let turned = x.clone().narrow(2, 0, rotate);
    let (first, second) = match table.pairing {
        Pairing::Halves => (turned.clone().narrow(3, 0, r), turned.clone().narrow(3, r, r)),
        Pairing::Neighbours => {
            let pairs: Tensor<5> = turned.clone().narrow(3, 0, 2 * r).reshape([b, t, rotate, r, 2]);
            let part = |i| pairs.clone().narrow(4, i, 1).reshape([b, t, rotate, r]);
            (part(0), part(1))
        }
    };
    let new_first = first.clone() * cos.clone() - second.clone() * sin.clone();
    let new_second = first * sin + second * cos;
    let new = match table.pairing {
        Pairing::Halves => Tensor::cat(vec![new_first, new_second], 3),
        Pairing::Neighbours => Tensor::stack::<5>(vec![new_first, new_second], 4).reshape([b, t, rotate, 2 * r]),
    };
    let new = if 2 * r < d { Tensor::cat(vec![new, turned.narrow(3, 2 * r, d - 2 * r)], 3) } else { new };
    let new = if rotate < heads { Tensor::cat(vec![new, x.narrow(2, rotate, heads - rotate)], 2) } else { new };
    new.reshape([b, t, c])
}

/// The kernel; cloning it shares the table and the positions.
#[derive(Clone, Debug)]
struct Rope {
    table: RopeTable,
    positions: Positions,
    heads: usize,
    rotate: usize,
}

impl Rope {
    /// Turns every token of x forth, or `back`.
    fn turn(&self, x: FlexTensor, back: bool) -> FlexTensor {
        let len = x.layout().shape()[1];
        let (_, width) = rows_and_width(&x);
        let size = width / self.heads;
        in_place(x, width, |first, tokens| {
            for (i, token) in tokens.chunks_exact_mut(width).enumerate() {
                let (b, t) = ((first + i) / len, (first + i) % len);
                let turns = self.table.at(self.positions.at(b, t, len));
                let heads = &mut token[..self.rotate * size];
                match self.table.pairing {
                    Pairing::Halves => turn_halves(turns, heads, size, back),
                    Pairing::Neighbours => turn_neighbours(turns, heads, size, back),
                }
            }
        })
    }
}

impl Fused<1> for Rope {
    type Saved = ();

    fn forward(&self, [x]: [Option<FlexTensor>; 1], keep: bool) -> (FlexTensor, Option<()>) {
        (self.turn(x.expect("rope has an input"), false), keep.then_some(()))
    }

    fn backward(&self, (): (), grad: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(self.turn(grad, true))]
    }
}

simd! {
    /// Turns the first features of each head of `size`: a in the first half of them, b in the second.
    fn turn_halves<'a, S>(simd, turns: &'a [f32], heads: &'a mut [f32], size: usize, back: bool) {
        let half = turns.len() / 2;
        let (cos, sin) = turns.split_at(half);
        let ((cs, ct), (ss, st)) = (S::as_simd_f32s(cos), S::as_simd_f32s(sin));
        let sign = simd.splat_f32s(if back { -1.0 } else { 1.0 });
        let turn = |a, b, cos, sin| {
            let sin = simd.mul_f32s(sin, sign);
            let first = simd.negate_mul_add_f32s(b, sin, simd.mul_f32s(a, cos));
            (first, simd.mul_add_f32s(a, sin, simd.mul_f32s(b, cos)))
        };
        for head in heads.chunks_exact_mut(size) {
            let (a, b) = head[..2 * half].split_at_mut(half);
            let ((as_, at), (bs, bt)) = (S::as_mut_simd_f32s(a), S::as_mut_simd_f32s(b));
            for (((a, b), cos), sin) in as_.iter_mut().zip(bs).zip(cs).zip(ss) {
                (*a, *b) = turn(*a, *b, *cos, *sin);
            }
            let load = |t: &[f32]| simd.partial_load_f32s(t);
            let (a, b) = turn(load(at), load(bt), load(ct), load(st));
            simd.partial_store_f32s(at, a);
            simd.partial_store_f32s(bt, b);
        }
    }
}

simd! {
    /// Turns the first features of each head of `size`, (a, b) side by side: the product (a + ib)·(cos + i·sin).
    fn turn_neighbours<'a, S>(simd, turns: &'a [f32], heads: &'a mut [f32], size: usize, back: bool) {
        let turns: &[c32] = bytemuck::cast_slice(turns);
        let (ts, tail) = S::as_simd_c32s(turns);
        for head in heads.chunks_exact_mut(size) {
            let pairs: &mut [c32] = bytemuck::cast_slice_mut(&mut head[..2 * turns.len()]);
            let (xs, rest) = S::as_mut_simd_c32s(pairs);
            for (x, turn) in xs.iter_mut().zip(ts) {
                *x = if back { simd.conj_mul_c32s(*turn, *x) } else { simd.mul_c32s(*turn, *x) };
            }
            // One by one: pulp's partial load of complex numbers asks for the alignment of an f64 and panics without.
            for (x, turn) in rest.iter_mut().zip(tail) {
                *x *= if back { turn.conj() } else { *turn };
            }
        }
    }
}

/// This kernel's row in the register.
pub const OP: Op = Op { name: "rope", formula: "(a·cos − b·sin, a·sin + b·cos) of every pair", cases, bench };

/// The frequencies of `pairs` pairs, as the paper sets them.
fn omega(pairs: usize) -> Vec<f64> {
    (0..pairs).map(|i| 10_000f64.powf(-(i as f64) / pairs as f64)).collect()
}

/// One test: batch, time, heads, of which turned, head size, pairs turned.
fn case(pairing: Pairing, positions: Positions, [b, t, heads, rotate, d, pairs]: [usize; 6]) -> Case {
    let at = if let Positions::From(p) = positions { format!("from {p}") } else { "each".into() };
    let label = format!("{pairing:?} {at} [{b}, {t}, {heads}·{d}], {rotate} heads by {pairs} pairs");
    let table = RopeTable::new(&omega(pairs), 300, 1.25, pairing);
    Case::new(label, [b * t * heads * d], move |x| {
        rope(x[0].clone().reshape([b, t, heads * d]), &table, &positions, heads, rotate).flatten(0, 2)
    })
}

fn cases() -> Vec<Case> {
    let of = |pairing| {
        let padded = Positions::Each([0, 0, 0, 1, 2, 0, 1, 2, 3, 4].into());
        let table = RopeTable::new(&omega(3), 11, 1.0, pairing);
        let view = Case::new(format!("{pairing:?} transposed"), [12 * 5], move |x| {
            let x = x[0].clone().reshape([1, 12, 5]).swap_dims(1, 2);
            rope(x, &table, &Positions::From(2), 2, 1).flatten(0, 2)
        });
        let table = RopeTable::new(&omega(2), 11, 1.0, pairing);
        let narrow = Case::new(format!("{pairing:?} narrowed"), [2 * 3 * 23], move |x| {
            let x = x[0].clone().reshape([2, 3, 23]).narrow(2, 3, 15);
            rope(x, &table, &Positions::From(0), 3, 2).flatten(0, 2)
        });
        [
            case(pairing, Positions::From(0), [1, 1, 1, 1, 2, 1]),
            case(pairing, Positions::From(299), [1, 1, 1, 1, 2, 1]),
            case(pairing, Positions::From(7), [2, 5, 3, 2, 6, 3]),
            case(pairing, Positions::From(0), [2, 3, 5, 5, 7, 2]),
            case(pairing, padded, [2, 5, 3, 2, 34, 17]),
            case(pairing, Positions::From(3), [3, 67, 4, 3, 64, 32]),
            case(pairing, Positions::From(0), [1, 3, 2, 0, 4, 2]),
            case(pairing, Positions::From(1), [2, 3, 2, 1, 8, 4]).spread(1e3),
            view,
            narrow,
        ]
    };
    [Pairing::Halves, Pairing::Neighbours].into_iter().flat_map(of).collect()
}

fn bench() -> Bench {
    // Queries and keys of a packed [q | k | v] of 6 heads each.
    let case = case(Pairing::Halves, Positions::From(0), [8, 256, 18, 12, 64, 32]);
    Bench { case, work: Work::Bytes(8.0 * (8 * 256 * 18 * 64) as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::{max_diff, values};

    fn random(shape: [usize; 3]) -> Tensor<3> {
        let data = crate::Key::new(5, 0, 0).normals(shape.iter().product());
        Tensor::from_data(TensorData::new(data, shape), &Device::flex())
    }

    #[test]
    fn in_place_and_copied_agree_and_a_held_input_is_left_alone() {
        for pairing in [Pairing::Halves, Pairing::Neighbours] {
            let table = RopeTable::new(&omega(5), 40, 1.0, pairing);
            let x = random([2, 20, 3 * 13]);
            let before = values(x.clone());
            let copied = values(rope(x.clone(), &table, &Positions::From(20), 3, 2));
            assert_eq!(values(x.clone()), before);
            let twin = values(plain(x.clone(), &table, &Positions::From(20), 3, 2));
            let in_place = values(rope(x, &table, &Positions::From(20), 3, 2));
            assert_eq!(copied, in_place);
            assert!(max_diff(&in_place, &twin) < 1e-6);
        }
    }

    #[test]
    fn what_is_not_turned_keeps_its_bits() {
        for pairing in [Pairing::Halves, Pairing::Neighbours] {
            let table = RopeTable::new(&omega(2), 9, 1.0, pairing);
            let x = random([1, 9, 3 * 7]);
            let (y, x) = (values(rope(x.clone(), &table, &Positions::From(0), 3, 2)), values(x));
            for (x, y) in x.chunks_exact(21).zip(y.chunks_exact(21)) {
                assert_eq!((&x[4..7], &x[11..14], &x[14..]), (&y[4..7], &y[11..14], &y[14..]));
            }
        }
    }

    /// What rope is for: the product of a query and a key depends on how far apart they are, not where.
    #[test]
    fn products_depend_on_the_distance_only() {
        for pairing in [Pairing::Halves, Pairing::Neighbours] {
            let table = RopeTable::new(&omega(8), 200, 1.0, pairing);
            let qk = random([1, 2, 16]);
            let product = |q: usize, k: usize| {
                let y = values(rope(qk.clone(), &table, &Positions::Each([q, k].into()), 1, 1));
                crate::simd::dot(&y[..16], &y[16..])
            };
            for shift in [1, 17, 190] {
                assert!((product(5, 2) - product(5 + shift, 2 + shift)).abs() < 1e-4);
            }
            assert!((product(5, 2) - product(5, 3)).abs() > 1e-3);
        }
    }

    #[test]
    fn nan_and_infinity_spoil_their_pair_only() {
        for (pairing, pair) in [(Pairing::Halves, [1, 4]), (Pairing::Neighbours, [2, 3])] {
            for bad in [f32::NAN, f32::INFINITY] {
                let table = RopeTable::new(&omega(3), 4, 1.0, pairing);
                let mut x = [1.0; 6];
                x[pair[0]] = bad;
                let x = Tensor::<3>::from_floats([[x]], &Device::flex());
                let y = values(rope(x, &table, &Positions::From(3), 1, 1));
                assert!((0..6).all(|i| y[i].is_finite() != pair.contains(&i)), "{y:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "position 4 is past the table of 4")]
    fn a_position_past_the_table_is_refused() {
        let table = RopeTable::new(&[1.0], 4, 1.0, Pairing::Halves);
        rope(random([1, 5, 2]), &table, &Positions::From(0), 1, 1);
    }
}
