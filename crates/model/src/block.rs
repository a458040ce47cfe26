//! One block: attend to yourself, attend to the memory (in a pair's decoder), think; each with its residual connection.

use crate::spec::{Position, Spec, Stack};
use crate::stack::Role;
use burn::module::Module;
use burn::tensor::Tensor;
use qkv_kernels::Mask;
use qkv_nn::position::{RopeScaling, Rotary};
use qkv_nn::{Attention, Build, Cx, FeedForward, Norm, Wiring};

/// One block of a stack.
#[derive(Module, Debug)]
pub struct Block {
    /// self-attention
    pub attention: Attention,
    /// its norm
    pub norm_self: Norm,
    /// the norm behind it, in a sandwich
    pub norm_self_after: Option<Norm>,
    /// attention to the memory
    pub cross: Option<Attention>,
    /// its norm
    pub norm_cross: Option<Norm>,
    /// the norm behind it, in a sandwich
    pub norm_cross_after: Option<Norm>,
    /// the feed-forward
    pub ffn: FeedForward,
    /// its norm
    pub norm_ffn: Norm,
    /// the norm behind it, in a sandwich
    pub norm_ffn_after: Option<Norm>,
    #[module(skip)]
    wiring: Wiring,
    #[module(skip)]
    dropout: f64,
}

/// What a decoder of a pair looks at besides itself.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// the encoder's output `[B, Tm, C]`
    pub memory: &'a Tensor<3>,
    /// which of it is real
    pub mask: Mask,
}

impl Block {
    /// Block number `layer` (from 0) of a stack of this role: a cross decoder's reads a memory.
    pub fn new(build: &Build, spec: &Spec, stack: &Stack, role: Role, layer: usize) -> Self {
        let cross = role == Role::CrossDecoder;
        let (c, heads) = (spec.width, stack.heads(spec.width));
        let init = spec.init.attention(spec, stack);
        let norm = |name: &str| Norm::new(&build.at(name), c, spec.norm);
        let after = |name: &str, there: bool| (there && spec.wiring == Wiring::Sandwich).then(|| norm(name));
        let attention = |name: &str| {
            Attention::with(&build.at(name), c, heads, spec.attention_bias, spec.attention_scale, init)
                .with_soft_cap(spec.soft_cap.attention)
                .with_dropout(spec.dropout.attention)
        };
        let rotary = match spec.position {
            Position::Rotary { theta, features, scaling, pairing, window_theta, .. } => {
                let (theta, scaling) = match (window_theta, stack.window.of_layer(layer)) {
                    (Some(theta), Some(_)) => (theta, RopeScaling::None),
                    _ => (theta, scaling),
                };
                Some(Rotary::new(features.unwrap_or(heads.dim), theta, scaling, pairing))
            }
            _ => None,
        };
        let ffn_init = spec.init.ffn(spec, stack);
        Self {
            attention: attention("attention").with_qk_norm(&build.at("attention"), spec.qk_norm).with_rotary(rotary),
            norm_self: norm("norm_self"),
            norm_self_after: after("norm_self_after", true),
            cross: cross.then(|| attention("cross")),
            norm_cross: cross.then(|| norm("norm_cross")),
            norm_cross_after: after("norm_cross_after", cross),
            ffn: FeedForward::new(&build.at("ffn"), c, stack.ffn, spec.ffn_bias, ffn_init, spec.dropout.inner),
            norm_ffn: norm("norm_ffn"),
            norm_ffn_after: after("norm_ffn_after", true),
            wiring: spec.wiring,
            dropout: spec.dropout.hidden,
        }
    }

    /// x `[B, T, C]` → `[B, T, C]`
    pub fn forward(
        &self,
        x: Tensor<3>,
        mask: &Mask,
        bias: Option<Tensor<4>>,
        seen: Option<&Seen>,
        cx: &mut Cx,
    ) -> Tensor<3> {
        let drop = |x, cx: &mut Cx| cx.dropout("out", x, self.dropout);
        let mut x = self.wiring.around(x, &self.norm_self, self.norm_self_after.as_ref(), |h| {
            cx.within("attention", |cx| {
                let y = self.attention.attend(h, mask, bias, cx);
                drop(y, cx)
            })
        });
        if let (Some(cross), Some(norm), None, Some(_)) = (&self.cross, &self.norm_cross, seen, &cx.rows) {
            let after = self.norm_cross_after.as_ref();
            x = self.wiring.around(x, norm, after, |h| cx.within("cross", |cx| cross.cross_rows(h, cx)));
        }
        if let (Some(cross), Some(norm), Some(seen)) = (&self.cross, &self.norm_cross, seen) {
            x = self.wiring.around(x, norm, self.norm_cross_after.as_ref(), |h| {
                cx.within("cross", |cx| {
                    // All that this block asks of the memory comes together before it joins what the others ask.
                    let memory = seen.memory.clone().reshape(seen.memory.dims());
                    let y = cross.cross(h, &memory, &seen.mask, cx);
                    drop(y, cx)
                })
            });
        }
        let x = self.wiring.around(x, &self.norm_ffn, self.norm_ffn_after.as_ref(), |h| {
            cx.within("ffn", |cx| {
                let y = self.ffn.forward(h, cx);
                drop(y, cx)
            })
        });
        cx.tap("hidden", &x);
        x
    }
}
