//! Attention (Vaswani et al. 2017): `softmax(Q·Kᵀ·scale + bias + mask)·V`, head by head.
//!
//! Shapes: queries `[B, Tq, H, D]`, keys and values `[B, Tk, G, D]` with G dividing H (each key head serves H/G query
//! heads), output `[B, Tq, H·D]`: heads side by side, as the output projection wants them. Queries are aligned with the
//! *end* of the keys: query i sits at key position `Tk − Tq + i`, which is what cached decoding needs.

mod mask;

pub use mask::{Mask, Sight};

use crate::{Key, dropout};
use burn::tensor::{Tensor, TensorData};

/// Where queries, keys and values are.
#[derive(Clone, Debug)]
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
    /// who sees whom
    pub mask: Mask,
    /// probability of dropping a weight, and the random stream that decides
    pub dropout: Option<(f32, Key)>,
}

/// Attends; the weights are never held whole. `bias` `[1 or B, 1 or H, Tq, Tk]` is added to the scaled dot products and
/// has a gradient of its own.
pub fn attention(qkv: Qkv, bias: Option<Tensor<4>>, how: &Attend) -> Tensor<3> {
    attention_with_weights(qkv, bias, how).0
}

/// The plain twin, which also hands out the weights `[B, H, Tq, Tk]`: for looking inside.
pub fn attention_with_weights(qkv: Qkv, bias: Option<Tensor<4>>, how: &Attend) -> (Tensor<3>, Tensor<4>) {
    let (q, k, v) = qkv.split(how);
    let [b, h, tq, d] = q.dims();
    let [_, g, tk, _] = k.dims();
    let spread = |x: Tensor<4>| match h / g {
        1 => x,
        n => x.reshape([b, g, 1, tk, d]).repeat_dim(2, n).reshape([b, h, tk, d]),
    };
    let (k, v) = (spread(k), spread(v));
    let mut scores = q.matmul(k.swap_dims(2, 3)) * how.scale; // [B, H, Tq, Tk]
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
            Self::Views { q, k, v } => (q, k, v),
        }
    }
}
