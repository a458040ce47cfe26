//! Heads: from hidden states to answers. Language model, masked language model, classes, tags, spans, one vector.

use crate::spec::{self, Output, Pool, Spec};
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use qkv_kernels::{Activation, Projection};
use qkv_nn::{Build, Cx, Embedding, Init, Linear, Norm};

/// The head of a model.
#[derive(Module, Debug)]
pub struct Head {
    /// the layer before the output (masked language model, pooler)
    pub dense: Option<Linear>,
    /// its norm (masked language model)
    pub norm: Option<Norm>,
    /// the output layer, where it is not the token table
    pub out: Option<Linear>,
    /// the bias of a tied output `[V]`
    pub bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    kind: spec::Head,
    #[module(skip)]
    soft_cap: Option<f64>,
    #[module(skip)]
    dropout: f64,
}

impl Head {
    /// The head of a checked spec.
    pub fn new(build: &Build, spec: &Spec) -> Self {
        let (c, v, e) = (spec.width, spec.vocabulary().unwrap_or(0), spec.table_width());
        let linear = |name: &str, to, bias| Linear::new(&build.at(name), c, to, bias, spec.init.linear());
        let output_bias = || build.param("bias", [v], Init::Zeros);
        let mut head = Self {
            dense: None,
            norm: None,
            out: None,
            bias: None,
            kind: spec.head.clone(),
            soft_cap: spec.soft_cap.logits,
            dropout: spec.dropout.head,
        };
        match &spec.head {
            spec::Head::None => {}
            spec::Head::Language { output: Output::Own, bias } => head.out = Some(linear("out", v, *bias)),
            // BART and Marian carry this bias but do not learn it.
            spec::Head::Language { bias, .. } => head.bias = bias.then(|| output_bias().set_require_grad(false)),
            spec::Head::Masked { .. } => {
                // The vocabulary is asked in the width of its table.
                head.dense = Some(linear("dense", e, true));
                head.norm = Some(Norm::new(&build.at("norm"), e, spec.norm));
                head.bias = Some(output_bias());
            }
            spec::Head::Classify { labels, pool } => {
                head.dense = matches!(pool, Pool::Dense(_)).then(|| linear("dense", c, true));
                head.out = Some(linear("out", *labels, true));
            }
            spec::Head::Tag { labels } => head.out = Some(linear("out", *labels, true)),
            spec::Head::Span => head.out = Some(linear("out", 2, true)),
            spec::Head::Detect { .. } => {
                head.dense = Some(linear("dense", c, true));
                head.out = Some(linear("out", 1, true));
            }
            spec::Head::Pool => head.dense = Some(linear("dense", c, true)),
        }
        head
    }

    /// Hidden states `[B, T, C]` → answers: `[B, T, V]` for language, `[B, T, labels]` for tags, `[B, T, 2]` for spans,
    /// `[B, T, 1]` for replaced tokens, `[B, 1, labels]` for classes, `[B, 1, C]` for one vector.
    pub fn forward(&self, h: Tensor<3>, table: Option<&Embedding>, cx: &mut Cx) -> Tensor<3> {
        let first = |h: Tensor<3>| h.narrow(1, 0, 1);
        let adapting = cx.adapting_apart("dense");
        let dense = |h: Tensor<3>, act| match &self.dense {
            Some(dense) => dense.activated(h, Some(act), adapting.clone()),
            None => h,
        };
        match &self.kind {
            spec::Head::None => h,
            spec::Head::Language { output, .. } => {
                let width = h.dims()[2] as f64;
                let h = if *output == Output::TiedScaled { h * width.powf(-0.5) } else { h };
                let logits = self.vocabulary(h, table, cx);
                self.soft_cap.map_or(logits.clone(), |cap| (logits / cap).tanh() * cap)
            }
            spec::Head::Masked { act } => {
                let h = dense(h, *act);
                self.vocabulary(self.norm.as_ref().map_or(h.clone(), |norm| norm.forward(h)), table, cx)
            }
            spec::Head::Classify { pool, .. } => {
                let h = match pool {
                    Pool::First => first(h),
                    Pool::Dense(act) => dense(first(h), *act),
                };
                self.answer(h, cx)
            }
            spec::Head::Tag { .. } | spec::Head::Span => self.answer(h, cx),
            // No dropout: both layers belong to what is pre-trained.
            spec::Head::Detect { act } => {
                let h = dense(h, *act);
                self.out.as_ref().map_or(h.clone(), |out| out.activated(h, None, cx.adapting_apart("answer")))
            }
            spec::Head::Pool => dense(first(h), Activation::Tanh),
        }
    }

    /// Whether it has a score for each word of the vocabulary: by far the widest layer of a small network.
    pub(crate) fn chooses_words(&self) -> bool {
        matches!(self.kind, spec::Head::Language { .. } | spec::Head::Masked { .. })
    }

    /// The matrix whose products with states are the scores of words, where nothing comes behind them and nothing beside: what a
    /// loss can compute itself ([`Cx::scores_deferred`]).
    pub fn scores(&self, table: Option<&Embedding>) -> Option<Projection> {
        if !self.chooses_words() || self.soft_cap.is_some() {
            return None;
        }
        match (&self.out, table) {
            (Some(out), _) if out.lora.is_none() && out.bank.is_none() && out.stored.get().is_none() => {
                Some(Projection::new(out.weight.val(), out.bias.as_ref().map(Param::val)))
            }
            (None, Some(table)) if table.stored.get().is_none() => {
                Some(Projection::new(table.weight.val(), self.bias.as_ref().map(Param::val)))
            }
            _ => None,
        }
    }

    fn answer(&self, h: Tensor<3>, cx: &mut Cx) -> Tensor<3> {
        let h = cx.dropout("head", h, self.dropout);
        self.out.as_ref().map_or(h.clone(), |out| out.activated(h, None, cx.adapting_apart("answer")))
    }

    /// A score for each word: by the head's own matrix, or by the token table.
    fn vocabulary(&self, h: Tensor<3>, table: Option<&Embedding>, cx: &Cx) -> Tensor<3> {
        match (&self.out, table) {
            _ if cx.scores_deferred => h,
            (Some(out), _) => out.activated(h, None, cx.adapting_apart("vocabulary")),
            (None, Some(table)) => table.logits(h, self.bias.as_ref().map(Param::val), cx.products),
            (None, None) => h,
        }
    }
}
