//! Multi-head attention (Vaswani et al. 2017): project to queries, keys and values; attend head by head with
//! `softmax(Q·Kᵀ/√D)·V`; put the heads side by side; project out.
//!
//! Self-attention reads x `[B, T, C]` alone; cross-attention takes its queries from x and its keys and values from a
//! memory `[B, Tm, C]`. With G < H key heads, H/G query heads share one (grouped queries). Without positions the result
//! is equivariant: permute the tokens of x and the outputs are permuted the same way.
//!
//! Two ways to keep scores from growing: norms on each head of queries and keys (Henry et al. 2020; Qwen3, Gemma 3), and
//! a soft cap, `cap·tanh(score/cap)` (Gemma 2).
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use qkv_kernels::Mask;
//! use qkv_nn::{Attention, Build, Cx, Heads, Init};
//! let heads = Heads { heads: 1, kv_heads: 1, dim: 2 };
//! let one = Attention::new(&Build::new(&Device::flex(), 0), 2, heads, Init::Zeros);
//! // All scores 0: every token looks at all tokens alike; W_o = 0, so out comes 0.
//! let y = one.attend(Tensor::<3>::ones([1, 3, 2], &Device::flex()), &Mask::none(), None, &mut Cx::eval());
//! assert_eq!(y.into_data().try_to_vec::<f32>().unwrap(), [0.0; 6]);
//! ```

use crate::position::Rotary;
use crate::{Adapting, Build, Cx, Init, Linear, Norm, NormKind, linear::packed};
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::{Attend, Mask, Qkv, attention, attention_with_weights};
use serde::{Deserialize, Serialize};

/// How many heads, and how wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// H
    pub heads: usize,
    /// G, divides H; equal to H unless queries are grouped
    pub kv_heads: usize,
    /// D
    pub dim: usize,
}

/// Which projections have a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Biased {
    /// all four
    All,
    /// none
    None,
    /// queries, keys and values, not the output
    Qkv,
}

/// What the dot products are multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// 1/√D: keeps their variance at 1 whatever D is
    InverseRoot,
    /// 1: T5 folds the scale into its start values
    One,
    /// 1/√n, whatever D is
    InverseRootOf(usize),
}

/// Multi-head attention.
#[derive(Module, Debug)]
pub struct Attention {
    /// `[H·D, C]`
    pub q: Linear,
    /// `[G·D, C]`
    pub k: Linear,
    /// `[G·D, C]`
    pub v: Linear,
    /// `[C, H·D]`
    pub out: Linear,
    /// norm of each query head, D wide, before it is turned
    pub q_norm: Option<Norm>,
    /// norm of each key head
    pub k_norm: Option<Norm>,
    #[module(skip)]
    heads: Heads,
    #[module(skip)]
    scale: f32,
    #[module(skip)]
    rotary: Option<Rotary>,
    #[module(skip)]
    soft_cap: Option<f32>,
    #[module(skip)]
    dropout: f64,
}

impl Attention {
    /// A new sub-layer of width C with biases and 1/√D, no rotary positions, no dropout.
    pub fn new(build: &Build, width: usize, heads: Heads, init: Init) -> Self {
        Self::with(build, width, heads, Biased::All, Scale::InverseRoot, [init; 4])
    }

    /// A new sub-layer of width C; `init` says how queries, keys, values and output start.
    pub fn with(build: &Build, width: usize, heads: Heads, bias: Biased, scale: Scale, init: [Init; 4]) -> Self {
        let Heads { heads: h, kv_heads: g, dim } = heads;
        let [init_q, init_k, init_v, init_out] = init;
        let qkv = |name, n: usize, init| Linear::new(&build.at(name), width, n * dim, bias != Biased::None, init);
        Self {
            q: qkv("q", h, init_q),
            k: qkv("k", g, init_k),
            v: qkv("v", g, init_v),
            out: Linear::new(&build.at("out"), h * dim, width, bias == Biased::All, init_out),
            q_norm: None,
            k_norm: None,
            heads,
            scale: match scale {
                Scale::InverseRoot => 1.0 / (dim as f32).sqrt(),
                Scale::One => 1.0,
                Scale::InverseRootOf(n) => 1.0 / (n as f32).sqrt(),
            },
            rotary: None,
            soft_cap: None,
            dropout: 0.0,
        }
    }

    /// The same with rotary positions.
    pub fn with_rotary(self, rotary: Option<Rotary>) -> Self {
        Self { rotary, ..self }
    }

    /// The same with a norm on each head of queries and keys. They are for self-attention: a memory's keys are kept as
    /// they were projected.
    pub fn with_qk_norm(self, build: &Build, kind: Option<NormKind>) -> Self {
        let norm = |name: &str| kind.map(|kind| Norm::new(&build.at(name), self.heads.dim, kind));
        Self { q_norm: norm("q_norm"), k_norm: norm("k_norm"), ..self }
    }

    /// The same with scores kept within `±cap`.
    pub fn with_soft_cap(self, cap: Option<f64>) -> Self {
        Self { soft_cap: cap.map(|cap| cap as f32), ..self }
    }

    /// The same with dropout on the attention weights.
    pub fn with_dropout(self, dropout: f64) -> Self {
        Self { dropout, ..self }
    }

    /// Self-attention: x `[B, T, C]` → `[B, T, C]`. With a cache, x holds the tokens after those in it.
    pub fn attend(&self, x: Tensor<3>, mask: &Mask, bias: Option<Tensor<4>>, cx: &mut Cx) -> Tensor<3> {
        let Heads { heads: h, kv_heads: g, dim } = self.heads;
        let qkv = packed(x, &[&self.q, &self.k, &self.v], None, cx.adapting("qkv")); // [B, T, (H + 2G)·D]
        let mut qkv = self.normed(qkv);
        if let Some(rotary) = &self.rotary {
            qkv = rotary.turn(qkv, &cx.positions, h + 2 * g, h + g);
        }
        let path = cx.path().to_string();
        let [b, t, _] = qkv.dims();
        let qkv = match (&mut cx.cache, &mut cx.rows) {
            (None, None) => Qkv::Packed(qkv),
            (_, Some(rows)) => {
                let heads = qkv.reshape([b, t, h + 2 * g, dim]); // [1, N, H + 2G, D]
                let (k, v) = rows.write(&path, heads.clone(), h, g);
                Qkv::Ragged { q: heads.swap_dims(1, 2).narrow(1, 0, h), k, v, segments: rows.segments() }
            }
            (Some(cache), None) => {
                let heads = qkv.reshape([b, t, h + 2 * g, dim]).swap_dims(1, 2); // [B, H + 2G, T, D]
                let (k, v) = (heads.clone().narrow(1, h, g), heads.clone().narrow(1, h + g, g));
                let (k, v) = cache.append(&path, k, v);
                Qkv::Views { q: heads.narrow(1, 0, h), k, v }
            }
        };
        self.finish(qkv, mask, bias, cx)
    }

    /// `[q | k | v]` `[B, T, (H + 2G)·D]` with each head of queries and keys normalised, where there are norms for it.
    fn normed(&self, qkv: Tensor<3>) -> Tensor<3> {
        let (Some(q_norm), Some(k_norm)) = (&self.q_norm, &self.k_norm) else { return qkv };
        let Heads { heads: h, kv_heads: g, dim } = self.heads;
        let [b, t, all] = qkv.dims();
        let heads = qkv.reshape([b, t, h + 2 * g, dim]);
        let (q, k) = (heads.clone().narrow(2, 0, h), heads.clone().narrow(2, h, g));
        let parts = vec![q_norm.forward(q), k_norm.forward(k), heads.narrow(2, h + g, g)];
        Tensor::cat(parts, 2).reshape([b, t, all])
    }

    /// Cross-attention: queries from x `[B, T, C]`, keys and values from `memory` `[B, Tm, C]`.
    ///
    /// With n times as many rows of x as of `memory`, each n rows next to each other (the beams of one source) read one row
    /// of it. To attention they are n·T queries of that source; tapped weights have that shape.
    pub fn cross(&self, x: Tensor<3>, memory: &Tensor<3>, mask: &Mask, cx: &mut Cx) -> Tensor<3> {
        let [rows, t, c] = x.dims();
        let q = self.q.activated(x, None, cx.adapting("q"));
        let adapting = cx.adapting_apart("kv");
        let project = || packed(memory.clone(), &[&self.k, &self.v], None, adapting);
        let path = cx.path().to_string();
        let kv = match &mut cx.cache {
            Some(cache) => cache.memory(&path, project),
            None => project(),
        };
        let (sources, width) = (kv.dims()[0], q.dims()[2]);
        let q = if sources == rows { q } else { q.reshape([sources, rows / sources.max(1) * t, width]) };
        self.finish(Qkv::Cross { q, kv }, mask, None, cx).reshape([rows, t, c])
    }

    /// The keys and values of a memory `[B, Tm, C]`, packed `[B, Tm, 2G·D]`: what rows that read it look at.
    pub fn project(&self, memory: Tensor<3>) -> Tensor<3> {
        packed(memory, &[&self.k, &self.v], None, Adapting::default())
    }

    /// Cross-attention of rows that join and leave: x `[1, N, C]`, each token to the source that its row reads.
    ///
    /// # Panics
    /// If a row reads no source: the engine admits every row with one.
    pub fn cross_rows(&self, x: Tensor<3>, cx: &mut Cx) -> Tensor<3> {
        let Heads { heads: h, kv_heads: g, dim } = self.heads;
        let [b, n, _] = x.dims();
        let q = self.q.activated(x, None, Adapting::default()).reshape([b, n, h, dim]).swap_dims(1, 2); // [1, H, N, D]
        let rows = cx.rows.as_ref().expect("a pass over rows");
        let kv = rows.memory(cx.path()).expect("the memory of a source");
        let [s, tm, _] = kv.dims();
        let heads = kv.reshape([s, tm, 2 * g, dim]).swap_dims(1, 2); // [S, 2G, Tm, D]
        let (k, v) = (heads.clone().narrow(1, 0, g), heads.narrow(1, g, g));
        let segments = rows.source_segments();
        self.finish(Qkv::Ragged { q, k, v, segments }, &Mask::none(), None, cx)
    }

    /// What the dot products are multiplied by.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// What the scaled dot products are kept within, smoothly, if anything.
    pub fn soft_cap(&self) -> Option<f32> {
        self.soft_cap
    }

    /// Hands out queries `[B, H, Tq, D]`, keys and values `[B, G, Tk, D]` as attention sees them (normed, turned), and the
    /// bias of the scores, to who wants them. Rows that join and leave are not looked into.
    fn hand_out(&self, qkv: &Qkv, bias: Option<&Tensor<4>>, cx: &mut Cx) {
        if !["query", "key", "value", "bias"].iter().any(|name| cx.wants(name)) {
            return;
        }
        let Heads { heads: h, kv_heads: g, dim } = self.heads;
        let split = |x: &Tensor<3>, n: usize| {
            let [b, t, _] = x.dims();
            x.clone().reshape([b, t, n, dim]).swap_dims(1, 2) // [B, n, T, D]
        };
        let (q, k, v) = match qkv {
            Qkv::Packed(x) => {
                let x = split(x, h + 2 * g);
                (x.clone().narrow(1, 0, h), x.clone().narrow(1, h, g), x.narrow(1, h + g, g))
            }
            Qkv::Cross { q, kv } => {
                let kv = split(kv, 2 * g);
                (split(q, h), kv.clone().narrow(1, 0, g), kv.narrow(1, g, g))
            }
            Qkv::Views { q, k, v } => (q.clone(), k.clone(), v.clone()),
            Qkv::Ragged { .. } => return,
        };
        cx.tap("query", &q);
        cx.tap("key", &k);
        cx.tap("value", &v);
        if let Some(bias) = bias {
            cx.tap("bias", bias);
        }
    }

    fn finish(&self, qkv: Qkv, mask: &Mask, bias: Option<Tensor<4>>, cx: &mut Cx) -> Tensor<3> {
        self.hand_out(&qkv, bias.as_ref(), cx);
        let dropout = if self.dropout > 0.0 { cx.within("weights", |cx| cx.key()) } else { None };
        let how = Attend {
            heads: self.heads.heads,
            kv_heads: self.heads.kv_heads,
            scale: self.scale,
            soft_cap: self.soft_cap,
            mask: mask.clone(),
            dropout: dropout.map(|key| (self.dropout as f32, key)),
        };
        // Who wants to see the weights gets the plain path; the fused kernel never holds them.
        let mixed = if cx.wants("weights") {
            let (mixed, weights) = attention_with_weights(qkv, bias, &how);
            cx.tap("weights", &weights);
            mixed
        } else {
            attention(qkv, bias, &how)
        };
        self.out.activated(mixed, None, cx.adapting("mixed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cache;
    use burn::tensor::Device;
    use qkv_testkit::{max_diff, values};

    fn block(kv_heads: usize) -> (Attention, Tensor<3>) {
        let build = Build::new(&Device::flex(), 4);
        let heads = Heads { heads: 4, kv_heads, dim: 3 };
        let x = build.param("x", [2, 5, 8], Init::Normal { std: 1.0 }).val();
        (Attention::new(&build, 8, heads, Init::Normal { std: 0.5 }), x)
    }

    #[test]
    fn without_positions_attention_is_permutation_equivariant() {
        let (block, x) = block(2);
        let run = |x: Tensor<3>| block.attend(x, &Mask::none(), None, &mut Cx::eval());
        assert!(max_diff(&values(run(x.clone()).flip([1])), &values(run(x.flip([1])))) < 1e-5);
    }

    #[test]
    fn the_future_cannot_change_the_past() {
        let (block, x) = block(4);
        let run = |x: Tensor<3>| values(block.attend(x, &Mask::causal(), None, &mut Cx::eval()).narrow(1, 0, 3));
        let changed = Tensor::cat(vec![x.clone().narrow(1, 0, 3), x.clone().narrow(1, 3, 2) * 7.0], 1);
        assert_eq!(run(x), run(changed));
    }

    #[test]
    fn cached_equals_full_pass() {
        let (block, x) = block(2);
        let full = values(block.attend(x.clone(), &Mask::causal(), None, &mut Cx::eval()));
        let mut cache = Cache::new(5);
        let mut parts = vec![];
        for (from, n) in [(0, 2), (2, 1), (3, 2)] {
            let part = x.clone().narrow(1, from, n);
            parts.push(block.attend(part, &Mask::causal(), None, &mut Cx::decode(&mut cache)));
            cache.advance(n);
        }
        assert!(max_diff(&values(Tensor::cat(parts, 1)), &full) < 1e-5);
    }

    #[test]
    fn tapped_weights_sum_to_one_and_change_nothing() {
        let (block, x) = block(1);
        let plain = values(block.attend(x.clone(), &Mask::causal(), None, &mut Cx::eval()));
        let mut taps = crate::Taps::new(["weights"]);
        let tapped = block.attend(x, &Mask::causal(), None, &mut Cx::eval().with_taps(&mut taps));
        assert!(max_diff(&values(tapped), &plain) < 1e-5);
        let weights = taps.get::<4>("weights").expect("handed out"); // [2, 4, 5, 5]
        assert!(values(weights.sum_dim(3)).iter().all(|s| (s - 1.0).abs() < 1e-5));
    }

    #[test]
    fn tapped_queries_and_keys_give_the_tapped_weights() {
        let (block, x) = block(2);
        let mut taps = crate::Taps::new(["query", "key", "weights"]);
        block.attend(x, &Mask::none(), None, &mut Cx::eval().with_taps(&mut taps));
        let (q, k) = (taps.get::<4>("query").expect("queries"), taps.get::<4>("key").expect("keys"));
        assert_eq!((q.dims(), k.dims()), ([2, 4, 5, 3], [2, 2, 5, 3]));
        let k = k.reshape([2, 2, 1, 5, 3]).repeat_dim(2, 2).reshape([2, 4, 5, 3]); // two query heads share one of keys
        let weights = qkv_kernels::softmax(q.matmul(k.swap_dims(2, 3)) * block.scale());
        assert!(max_diff(&values(weights), &values(taps.get::<4>("weights").expect("weights"))) < 1e-5);
    }

    #[test]
    fn cross_attention_reads_the_memory_only_for_keys_and_values() {
        let (block, x) = block(4);
        let memory = x.clone().narrow(1, 0, 3) * 2.0;
        let y = block.cross(x.clone(), &memory, &Mask::none(), &mut Cx::eval());
        assert_eq!(y.dims(), [2, 5, 8]);
        let hidden = Mask { padding: Some([true, true, false].repeat(2).into()), ..Mask::none() };
        let short = block.cross(x.clone(), &memory.clone().narrow(1, 0, 2), &Mask::none(), &mut Cx::eval());
        let padded = block.cross(x, &memory, &hidden, &mut Cx::eval());
        assert!(max_diff(&values(short), &values(padded)) < 1e-5); // padding changes nothing
    }

    #[test]
    fn beams_of_one_source_share_its_memory() {
        let (block, x) = block(2);
        let (beams, memory) = (x.clone().reshape([10, 1, 8]), x.narrow(1, 1, 3)); // five rows for each of two sources
        let shared = block.cross(beams.clone(), &memory, &Mask::none(), &mut Cx::eval());
        let own = memory.reshape([2, 1, 3, 8]).repeat_dim(1, 5).reshape([10, 3, 8]);
        let apart = block.cross(beams, &own, &Mask::none(), &mut Cx::eval());
        assert!(max_diff(&values(shared), &values(apart)) < 1e-5);
    }
}
