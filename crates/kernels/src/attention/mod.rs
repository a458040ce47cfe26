//! Attention (Vaswani et al. 2017): `softmax(Q·Kᵀ·scale + bias + mask)·V`, head by head. With a soft cap c (Gemma 2) the
//! scaled dot products s become `c·tanh(s/c)` before bias and mask are added.
//!
//! Shapes: queries `[B, Tq, H, D]`, keys and values `[B, Tk, G, D]` with G dividing H (each key head serves H/G query
//! heads), output `[B, Tq, H·D]`: heads side by side, as the output projection wants them. Queries are aligned with the
//! *end* of the keys: query i sits at key position `Tk − Tq + i`, which is what cached decoding needs.
//!
//! The kernel works tile by tile with a running softmax (Milakov and Gimelshein 2018; Dao et al. 2022): it never holds
//! more scores than one tile, so its memory grows with the length and not with the square of it. Kept for the backward:
//! the inputs (shared), the output, and the log-sum-exp `L` of each row of scores. With `P = e^(S − L)` drawn up again:
//! `dV = Pᵀ·dO`, `dP = dO·Vᵀ`, `dS = P∘(dP − rowsum(dO∘O))`, `dQ = scale·dS·K`, `dK = scale·dSᵀ·Q`, `dbias = dS`; where
//! there is a cap, dS is multiplied by `1 − tanh²(s/c)` on its way to dQ and dK.
//!
//! A query that sees no key (all hidden, or all scores −∞) gives zeros, and zero gradients. A NaN or +∞ among the scores
//! a query sees makes its whole row NaN. Hidden keys are never looked at, whatever they hold; a hidden *value* gets the
//! weight 0, and as `0·NaN = NaN` it should be finite (the twin lets it through everywhere, the kernel within a tile).
//!
//! | file | holds |
//! |---|---|
//! | `mask` | who sees whom |
//! | `heads` | where heads lie in packed tensors and views, and their rows dealt out for writing |
//! | `tile` | one tile of scores, weights and their gradients |
//! | `forward`, `backward` | the walks over tiles |
//! | `cases` | what is tested and measured |

mod backward;
mod cases;
mod forward;
mod heads;
mod mask;
mod tile;

pub use mask::{Mask, Sight};

use crate::fused::{Fused, apply, contiguous, tensor, uninit};
use crate::registry::Op;
use crate::{Key, dropout};
use burn::backend::DispatchAutodiffContext;
use burn::backend::DispatchTensor;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, TensorData};
use std::ops::Range;
use std::sync::Arc;

/// Where queries, keys and values are.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // three handles against one, moved once a call: a box would cost more than it saves
pub enum Qkv {
    /// One tensor `[B, T, (H + 2G)·D]` = `[q | k | v]`, as a packed projection leaves it: self-attention.
    Packed(Tensor<3>),
    /// Queries `[B, Tq, H·D]`, keys and values packed `[B, Tk, 2G·D]` = `[k | v]`: cross-attention.
    Cross {
        /// `[B, Tq, H·D]`
        q: Tensor<3>,
        /// `[B, Tk, 2G·D]`
        kv: Tensor<3>,
    },
    /// Three views with any strides: queries `[B, H, Tq, D]`, keys and values `[B, G, Tk, D]`: cached decoding.
    Views {
        /// `[B, H, Tq, D]`
        q: Tensor<4>,
        /// `[B, G, Tk, D]`
        k: Tensor<4>,
        /// `[B, G, Tk, D]`
        v: Tensor<4>,
    },
    /// Queries of many rows of unequal length one behind the other, `[1, H, N, D]`; each [`Segment`] of them looks at the
    /// keys and values of one slot of `[S, G, room, D]`: decoding of rows that join and leave.
    Ragged {
        /// `[1, H, N, D]`
        q: Tensor<4>,
        /// `[S, G, room, D]`
        k: Tensor<4>,
        /// `[S, G, room, D]`
        v: Tensor<4>,
        /// which queries look at which keys; together they are all queries, in their order
        segments: Arc<[Segment]>,
    },
}

/// Some queries next to each other, and the keys that they look at: the first `keys` of a slot. The queries stand at the end
/// of them, as everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// from the first to behind the last of the N queries
    pub queries: Range<usize>,
    /// whose keys
    pub slot: usize,
    /// how many there are, those of the queries themselves included
    pub keys: usize,
    /// whether the queries are taken as tiles or row by row. The two round in different orders: so it is decided by what the
    /// queries are, tokens of a prompt or tokens that were said, and not by how many happen to come at once.
    pub tiled: bool,
}

impl Segment {
    /// Taken in the way that is faster for so many queries.
    pub fn new(queries: Range<usize>, slot: usize, keys: usize) -> Self {
        let tiled = queries.len() > tile::FEW;
        Self { queries, slot, keys, tiled }
    }
}

/// How to attend.
#[derive(Clone, Debug)]
pub struct Attend {
    /// H, query heads
    pub heads: usize,
    /// G, key and value heads; divides H
    pub kv_heads: usize,
    /// multiplies the dot products; 1/√D in the paper, 1 in T5
    pub scale: f32,
    /// what the scaled dot products are kept within, smoothly
    pub soft_cap: Option<f32>,
    /// who sees whom
    pub mask: Mask,
    /// probability of dropping a weight, and the random stream that decides
    pub dropout: Option<(f32, Key)>,
}

/// Attends; the weights are never held whole. `bias` `[1 or B, 1 or H, Tq, Tk]` is added to the scaled dot products and
/// has a gradient of its own.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::{Attend, Mask, Qkv, attention};
///
/// // One head of one feature, two tokens as [q | k | v]. All queries are 0, so every visible key weighs the same.
/// let x = Tensor::<3>::from_floats([[[0.0, 1.0, 4.0], [0.0, 2.0, 8.0]]], &Device::flex());
/// let how = Attend { heads: 1, kv_heads: 1, scale: 1.0, soft_cap: None, mask: Mask::causal(), dropout: None };
/// let y: Vec<f32> = attention(Qkv::Packed(x), None, &how).into_data().try_to_vec().unwrap();
/// assert_eq!(y, [4.0, 6.0]); // the first token sees itself, the second the mean of both
/// ```
///
/// # Panics
/// If shapes, head counts and mask do not fit together: callers build them from a checked spec.
pub fn attention(qkv: Qkv, bias: Option<Tensor<4>>, how: &Attend) -> Tensor<3> {
    let bias = bias.map(Tensor::into_dispatch);
    let segments = if let Qkv::Ragged { segments, .. } = &qkv { Some(segments.clone()) } else { None };
    let kernel = Kernel { how: how.clone(), segments };
    let output = match qkv {
        Qkv::Packed(x) => {
            apply(kernel, [Some(x.into_dispatch()), bias]).map_err(|[x, bias]| (Qkv::Packed(back(x)), bias))
        }
        Qkv::Cross { q, kv } => apply(kernel, [Some(q.into_dispatch()), Some(kv.into_dispatch()), bias])
            .map_err(|[q, kv, bias]| (Qkv::Cross { q: back(q), kv: back(kv) }, bias)),
        Qkv::Views { q, k, v } => {
            let [q, k, v] = [q, k, v].map(|x| Some(x.into_dispatch()));
            apply(kernel, [q, k, v, bias])
                .map_err(|[q, k, v, bias]| (Qkv::Views { q: back(q), k: back(k), v: back(v) }, bias))
        }
        Qkv::Ragged { q, k, v, segments } => {
            let [q, k, v] = [q, k, v].map(|x| Some(x.into_dispatch()));
            // Nobody trains on segments: a graph gets the twin, which has a gradient.
            let tracked = q.iter().chain(&k).chain(&v).any(|x| x.autodiff != DispatchAutodiffContext::Disabled);
            let inputs = [q, k, v, bias];
            if tracked { Err(inputs) } else { apply(kernel, inputs) }
                .map_err(|[q, k, v, bias]| (Qkv::Ragged { q: back(q), k: back(k), v: back(v), segments }, bias))
        }
    };
    match output {
        Ok(y) => Tensor::from_dispatch(y),
        Err((qkv, bias)) => attention_with_weights(qkv, bias.map(Tensor::from_dispatch), how).0,
    }
}

/// An input that the kernel gave back.
fn back<const D: usize>(input: Option<DispatchTensor>) -> Tensor<D> {
    Tensor::from_dispatch(input.expect("attention has queries, keys and values"))
}

/// The plain twin, which also hands out the weights `[B, H, Tq, Tk]`: for looking inside.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use qkv_kernels::{Attend, Mask, Qkv, attention_with_weights};
///
/// let x = Tensor::<3>::from_floats([[[0.0, 1.0, 4.0], [0.0, 2.0, 8.0]]], &Device::flex());
/// let how = Attend { heads: 1, kv_heads: 1, scale: 1.0, soft_cap: None, mask: Mask::causal(), dropout: None };
/// let (_, weights) = attention_with_weights(Qkv::Packed(x), None, &how);
/// assert_eq!(weights.into_data().to_vec::<f32>().unwrap(), [1.0, 0.0, 0.5, 0.5]);
/// ```
///
/// Of [`Qkv::Ragged`] the weights are `[1, H, N, Tk]`, Tk the most keys of a segment; behind its keys a row is 0.
pub fn attention_with_weights(qkv: Qkv, bias: Option<Tensor<4>>, how: &Attend) -> (Tensor<3>, Tensor<4>) {
    if let Qkv::Ragged { q, k, v, segments } = qkv {
        return by_segments(q, k, v, &segments, bias, how);
    }
    let (q, k, v) = qkv.split(how);
    let [b, h, tq, d] = q.dims();
    let [_, g, tk, _] = k.dims();
    let spread = |x: Tensor<4>| match h / g {
        1 => x,
        n => x.reshape([b, g, 1, tk, d]).repeat_dim(2, n).reshape([b, h, tk, d]),
    };
    let (k, v) = (spread(k), spread(v));
    let mut scores = q.matmul(k.swap_dims(2, 3)) * how.scale; // [B, H, Tq, Tk]
    if let Some(cap) = how.soft_cap {
        scores = (scores / cap).tanh() * cap;
    }
    if let Some(bias) = bias {
        scores = scores + bias;
    }
    if let Some(hidden) = how.mask.hidden(b, tq, tk, &scores.device()) {
        scores = scores.mask_fill(hidden.expand([b, h, tq, tk]), f32::NEG_INFINITY);
    }
    let weights = crate::softmax::plain(scores);
    let kept = match how.dropout {
        Some((p, key)) => {
            let factors: Vec<f32> = (0..(b * h * tq * tk) as u64).map(|i| dropout::factor(p, key, i)).collect();
            let factors = TensorData::new(factors, [b, h, tq, tk]);
            weights.clone() * Tensor::from_data(factors, (&weights.device(), weights.dtype()))
        }
        None => weights.clone(),
    };
    (kept.matmul(v).swap_dims(1, 2).reshape([b, tq, h * d]), weights)
}

/// The twin of ragged attention: each segment on its own.
fn by_segments(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    segments: &[Segment],
    bias: Option<Tensor<4>>,
    how: &Attend,
) -> (Tensor<3>, Tensor<4>) {
    let (h, most) = (how.heads, segments.iter().map(|s| s.keys).max().unwrap_or(0));
    let one = |segment: &Segment| {
        let (from, n, keys) = (segment.queries.start, segment.queries.len(), segment.keys);
        let of = |x: &Tensor<4>| x.clone().narrow(0, segment.slot, 1).narrow(2, 0, keys);
        let part = Qkv::Views { q: q.clone().narrow(2, from, n), k: of(&k), v: of(&v) };
        let bias = bias.as_ref().map(|bias| bias.clone().narrow(2, from, n).narrow(3, 0, keys));
        let (mixed, weights) = attention_with_weights(part, bias, how);
        let behind = Tensor::zeros([1, h, n, most - keys], &weights.device());
        (mixed, if keys == most { weights } else { Tensor::cat(vec![weights, behind], 3) })
    };
    let (mixed, weights): (Vec<_>, Vec<_>) = segments.iter().map(one).unzip();
    (Tensor::cat(mixed, 1), Tensor::cat(weights, 2))
}

impl Qkv {
    /// As three views `[B, heads, T, D]`.
    fn split(self, how: &Attend) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
        let (h, g) = (how.heads, how.kv_heads);
        let heads = |x: Tensor<3>, n: usize| {
            let [b, t, c] = x.dims();
            x.reshape([b, t, n, c / n]).swap_dims(1, 2) // [B, n, T, D]
        };
        match self {
            Self::Packed(x) => {
                let x = heads(x, h + 2 * g);
                (x.clone().narrow(1, 0, h), x.clone().narrow(1, h, g), x.narrow(1, h + g, g))
            }
            Self::Cross { q, kv } => {
                let kv = heads(kv, 2 * g);
                (heads(q, h), kv.clone().narrow(1, 0, g), kv.narrow(1, g, g))
            }
            Self::Views { q, k, v } | Self::Ragged { q, k, v, .. } => (q, k, v),
        }
    }
}

/// The kernel. Its inputs are the one, two or three tensors of [`Qkv`], and the bias last.
#[derive(Clone, Debug)]
struct Kernel {
    how: Attend,
    segments: Option<Arc<[Segment]>>,
}

/// What [`Kernel`] keeps for its backward: nothing that grows with Tq·Tk (but a bias that is an input already).
#[derive(Clone, Debug)]
struct Saved<const N: usize> {
    inputs: [Option<FlexTensor>; N],
    output: FlexTensor,
    /// `[B, H, Tq]`, the logarithm of the sum of the exponentials of each row of scores
    log_sums: Vec<f32>,
}

impl<const N: usize> Fused<N> for Kernel {
    type Saved = Saved<N>;

    fn forward(&self, inputs: [Option<FlexTensor>; N], keep: bool) -> (FlexTensor, Option<Saved<N>>) {
        let mut place = 0;
        let inputs = inputs.map(|input| {
            place += 1;
            // The bias is read by whole rows of keys, the others by rows of a head.
            input.map(if place == N { contiguous } else { heads::readable })
        });
        let core = tile::Core::new(&self.how, &inputs, self.segments.as_deref());
        let [b, h, tq, _, d] = core.sizes();
        let (output, log_sums) = forward::forward(&core);
        let output = tensor(output, [b, tq, h * d]);
        let saved = keep.then(|| Saved { inputs, output: output.clone(), log_sums });
        (output, saved)
    }

    fn backward(&self, saved: Saved<N>, grad: FlexTensor, wants: [bool; N]) -> [Option<FlexTensor>; N] {
        let core = tile::Core::new(&self.how, &saved.inputs, None);
        let grad = heads::readable(grad);
        let from = backward::From::new(&core, &saved.output, &grad, &saved.log_sums);
        let mut grads = [const { None }; N];
        let (bias, tensors) = grads.split_last_mut().expect("attention has a place for the bias");
        if wants[..N - 1].contains(&true) {
            let shapes = saved.inputs.iter().flatten().map(|x| x.layout().shape().clone());
            let mut buffers: Vec<_> = shapes.clone().take(N - 1).map(|s| uninit(s.num_elements())).collect();
            backward::inputs(&core, &from, &mut buffers);
            for (((place, buffer), shape), wanted) in tensors.iter_mut().zip(buffers).zip(shapes).zip(wants) {
                *place = wanted.then(|| tensor(buffer, shape));
            }
        }
        if let (true, Some(shape)) = (wants[N - 1], saved.inputs[N - 1].as_ref().map(|x| x.layout().shape())) {
            *bias = Some(tensor(backward::bias(&core, &from), shape.clone()));
        }
        grads
    }
}

/// This kernel's row in the register.
pub const OP: Op =
    Op {
        name: "attention", formula: "softmax(Q·Kᵀ·scale + bias + mask)·V", cases: cases::cases, bench: cases::bench
    };

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;
    use qkv_testkit::values;

    const T: usize = 5;

    fn how(mask: Mask) -> Attend {
        Attend { heads: 1, kv_heads: 1, scale: 1.0, soft_cap: None, mask, dropout: None }
    }

    /// `[1, T, q | k | v]` of one head of two features, with one element changed.
    fn packed(at: [usize; 2], value: f32, device: &Device) -> Tensor<3> {
        let mut x: Vec<f32> = (0..T * 6).map(|i| (i as f32 * 0.7).sin()).collect();
        x[at[0] * 6 + at[1]] = value;
        Tensor::from_data(TensorData::new(x, [1, T, 6]), device)
    }

    /// Which rows of the output are NaN throughout; the others must be finite.
    fn nan_rows(at: [usize; 2], value: f32, mask: Mask) -> Vec<bool> {
        let y = values(attention(Qkv::Packed(packed(at, value, &Device::flex())), None, &how(mask)));
        let whole = |row: &[f32]| {
            let nan = row.iter().filter(|v| v.is_nan()).count();
            assert!(nan == row.len() || row.iter().all(|v| v.is_finite()), "half a row: {row:?}");
            nan > 0
        };
        y.chunks_exact(2).map(whole).collect()
    }

    #[test]
    fn a_nan_or_infinite_score_makes_its_row_nan_and_no_other() {
        for value in [f32::NAN, f32::INFINITY] {
            // The query of row 2: its own scores only. (An infinite query has a NaN or +∞ score: signs of keys differ.)
            assert_eq!(nan_rows([2, 0], value, Mask::none()), [false, false, true, false, false], "query {value}");
        }
        // The key of row 2: whoever sees it.
        assert_eq!(nan_rows([2, 2], f32::NAN, Mask::none()), [true; T]);
        assert_eq!(nan_rows([2, 2], f32::NAN, Mask::causal()), [false, false, true, true, true]);
        let padding = Some([true, true, false, true, true].into());
        assert_eq!(nan_rows([2, 2], f32::NAN, Mask { padding, ..Mask::none() }), [false; T], "nobody sees padding");
    }

    /// Rows of unequal length in slots out of order, one of many queries: the kernel gives what its twin gives, and that is
    /// what each row gives alone.
    #[test]
    fn ragged_rows_get_what_each_gets_alone() {
        let draw = |name: u64, shape: [usize; 4]| {
            let data = Key::new(name, 0, 0).normals(shape.iter().product());
            Tensor::<4>::from_data(TensorData::new(data, shape), &Device::flex())
        };
        let (q, k, v) = (draw(1, [1, 4, 77, 3]), draw(2, [5, 2, 300, 3]), draw(3, [5, 2, 300, 3]));
        let segments: Arc<[Segment]> = [(0..1, 3, 290), (1..3, 0, 2), (3..73, 4, 70), (73..76, 3, 5), (76..77, 1, 1)]
            .map(|(queries, slot, keys)| Segment::new(queries, slot, keys))
            .into();
        let bias = draw(4, [1, 4, 77, 290]);
        for sight in [Sight::Causal, Sight::Window(3), Sight::Both] {
            for bias in [None, Some(bias.clone())] {
                let how = Attend { heads: 4, kv_heads: 2, ..how(Mask { sight: sight.clone(), ..Mask::none() }) };
                let ragged = || Qkv::Ragged { q: q.clone(), k: k.clone(), v: v.clone(), segments: segments.clone() };
                let fused = values(attention(ragged(), bias.clone(), &how));
                let (twin, weights) = attention_with_weights(ragged(), bias.clone(), &how);
                assert!(qkv_testkit::max_diff(&fused, &values(twin)) < 1e-5, "{sight:?}");
                assert_eq!(weights.dims(), [1, 4, 77, 290]);
                for s in segments.iter() {
                    let of = |x: &Tensor<4>| x.clone().narrow(0, s.slot, 1).narrow(2, 0, s.keys);
                    let q = q.clone().narrow(2, s.queries.start, s.queries.len());
                    let bias = bias.clone().map(|b| b.narrow(2, s.queries.start, s.queries.len()).narrow(3, 0, s.keys));
                    let alone = values(attention(Qkv::Views { q, k: of(&k), v: of(&v) }, bias, &how));
                    let mine = &fused[s.queries.start * 12..s.queries.end * 12];
                    // Alone, the six queries behind the first tile are taken row by row.
                    let most = if s.tiled { 1e-6 } else { 0.0 };
                    assert!(qkv_testkit::max_diff(mine, &alone) <= most, "{sight:?} {s:?}");
                }
            }
        }
    }

    /// Queries that are taken as tiles get the same however many come at once, also one at a time; up to what the products of
    /// few and of many rows round differently.
    #[test]
    fn tiles_say_the_same_however_a_row_is_cut() {
        let draw = |name: u64, shape: [usize; 4]| {
            let data = Key::new(name, 0, 0).normals(shape.iter().product());
            Tensor::<4>::from_data(TensorData::new(data, shape), &Device::flex())
        };
        let (q, k, v) = (draw(1, [1, 4, 600, 20]), draw(2, [1, 2, 600, 20]), draw(3, [1, 2, 600, 20]));
        for sight in [Sight::Causal, Sight::Window(40)] {
            let how = Attend { heads: 4, kv_heads: 2, ..how(Mask { sight: sight.clone(), ..Mask::none() }) };
            let part = |from: usize, to: usize| {
                let segments = [Segment { queries: 0..to - from, slot: 0, keys: to, tiled: true }].into();
                let q = q.clone().narrow(2, from, to - from);
                values(attention(Qkv::Ragged { q, k: k.clone(), v: v.clone(), segments }, None, &how))
            };
            let whole = part(0, 600);
            for cut in [1, 7, 32, 64, 100, 257] {
                let parts: Vec<f32> = (0..600).step_by(cut).flat_map(|from| part(from, 600.min(from + cut))).collect();
                let off = qkv_testkit::max_diff(&whole, &parts);
                assert!(off < 1e-5, "{sight:?}, {cut} at a time: {off}");
            }
        }
    }

    #[test]
    fn minus_infinity_in_the_bias_hides_like_a_mask() {
        let device = Device::flex();
        let bias: Vec<f32> = (0..T * T).map(|i| if i % T > i / T { f32::NEG_INFINITY } else { 0.0 }).collect();
        let bias = Tensor::from_data(TensorData::new(bias, [1, 1, T, T]), &device);
        let x = packed([0, 0], 0.5, &device);
        let by_bias = values(attention(Qkv::Packed(x.clone()), Some(bias), &how(Mask::none())));
        let by_mask = values(attention(Qkv::Packed(x), None, &how(Mask::causal())));
        assert!(qkv_testkit::max_diff(&by_bias, &by_mask) < 1e-6);
    }

    /// Left padding under a causal mask, every way a row can be without keys: exactly zero, and so are its gradients.
    #[test]
    fn queries_that_see_nothing_give_zeros_and_take_zeros() {
        let device = Device::flex().autodiff();
        let padding = Some([false, false, true, true, true].into());
        let x = packed([0, 0], 0.5, &device).require_grad();
        let y = attention(Qkv::Packed(x.clone()), None, &how(Mask { padding, ..Mask::causal() }));
        assert_eq!(values(y.clone().inner())[..4], [0.0; 4]);
        assert!(values(y.clone().inner())[4..].iter().all(|v| v.is_finite() && *v != 0.0));
        let dx = values(x.grad(&y.powi_scalar(2).sum().backward()).expect("a gradient"));
        assert_eq!(dx[..12], [0.0; 12], "neither the blind queries nor the padded keys move");
        assert!(dx[12..].iter().all(|v| v.is_finite()));

        let nobody = Mask { padding: Some([false; T].into()), ..Mask::none() };
        let x = packed([0, 0], 0.5, &device).require_grad();
        let y = attention(Qkv::Packed(x.clone()), None, &how(nobody));
        assert_eq!(values(y.clone().inner()), [0.0; 2 * T]);
        assert_eq!(values(x.grad(&y.exp().sum().backward()).expect("a gradient")), [0.0; 6 * T]);
    }

    /// One key in sight: its weight is 1, so the output is its value and the scores do not matter.
    #[test]
    fn a_single_key_is_copied_and_its_score_has_no_gradient() {
        let device = Device::flex().autodiff();
        let mask = Mask { sight: Sight::Window(1), ..Mask::none() };
        let whole = packed([0, 0], 0.5, &device);
        let part = |i: usize| whole.clone().narrow(2, 2 * i, 2).reshape([1, 1, T, 2]).detach().require_grad();
        let [q, k, v] = [0, 1, 2].map(part);
        let y = attention(Qkv::Views { q: q.clone(), k: k.clone(), v: v.clone() }, None, &how(mask));
        assert_eq!(values(y.clone().inner()), values(v.clone().inner()));
        let grads = y.sum().backward();
        let of = |x: Tensor<4>| values(x.grad(&grads).expect("a gradient"));
        assert_eq!(of(v), [1.0; 2 * T]);
        assert!(of(q).into_iter().chain(of(k)).all(|g| g.abs() < 1e-6));
    }

    #[test]
    fn nothing_to_ask_and_nothing_to_answer() {
        let device = Device::flex();
        let empty = |tq, tk| {
            let (q, kv) = (Tensor::<3>::ones([1, tq, 2], &device), Tensor::<3>::ones([1, tk, 4], &device));
            values(attention(Qkv::Cross { q, kv }, None, &how(Mask::none())))
        };
        assert!(empty(0, 3).is_empty());
        assert_eq!(empty(2, 0), [0.0; 4]);
    }

    /// Eight times the length keeps eight times as much, not sixty-four times; and no tile outgrows its bounds.
    #[test]
    fn memory_is_linear_in_the_length() {
        let kept = |t: usize| {
            let (h, d) = (2, 4);
            let how = Attend { heads: h, kv_heads: h, ..how(Mask::causal()) };
            let kernel = Kernel { how, segments: None };
            let x = tensor(vec![0.1; t * 3 * h * d], [1, t, 3 * h * d]);
            let (_, saved) = kernel.forward([Some(x), None], true);
            let Saved { inputs, output, log_sums } = saved.expect("kept for the backward");
            let (m, n) = tile::Core::new(&kernel.how, &inputs, None).largest();
            assert!(m * n <= tile::QUERIES * tile::KEYS);
            output.layout().num_elements() + log_sums.len()
        };
        assert_eq!(kept(64), 64 * 2 * (4 + 1));
        assert_eq!(kept(512), 8 * kept(64));
    }
}
