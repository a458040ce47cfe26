//! The network of a recipe: a family, its sizes, and what is chosen against the family's habit.

use qkv_model::families::{Choices, MaskChoice, NormChoice, PositionChoice, ScaleChoice, Switch, WiringChoice};
use serde::{Deserialize, Serialize};

/// The network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Model {
    /// the name of a family, such as `marian` or `qwen3`
    pub family: String,
    /// C
    pub width: usize,
    /// blocks (of each stack)
    pub layers: usize,
    /// H
    pub heads: usize,
    /// width of the feed-forward; 0: four times the width
    pub inner: usize,
    /// key and value heads; 0: as many as heads
    pub kv_heads: usize,
    /// width of a head; 0: the heads share the width
    pub head_dim: usize,
    /// how order is told: `none`, `sinusoidal`, `interleaved`, `learned`, `each-layer`, `offset`, `buckets`, `rope` or `alibi`; empty, here
    /// and below: as the family does
    pub position: PositionChoice,
    /// `layer`, `rms` or `none`
    pub norm: NormChoice,
    /// where the norm stands: `pre`, `post` or `sandwich`
    pub wiring: WiringChoice,
    /// of the feed-forward: `relu`, `gelu`, `gelu_new`, `silu` or `tanh`
    pub activation: String,
    /// whether the feed-forward is gated: `true` or `false`
    pub gated: Switch,
    /// whether attention and feed-forward have biases
    pub bias: Switch,
    /// what the dot products are multiplied by: `root` (1/√D) or `one`
    pub scale: ScaleChoice,
    /// what a decoder sees: `causal`, `none` (what comes next as well) or `window N`
    pub mask: MaskChoice,
    /// whether the output is the table of tokens
    pub tie: Switch,
    /// tokens that are seen at once (nplm); 0: what the family is used to
    pub window: usize,
    /// side of a patch (vit)
    pub patch: usize,
    /// probability of dropping
    pub dropout: f64,
    /// standard deviation of the weights at the start; 0: what suits the width
    pub start: f64,
    /// a directory to start from instead of chance; `recipe:NAME`: what that recipe makes, run first in the same place
    pub from: String,
    /// parameters whose path starts so do not learn
    pub freeze: Vec<String>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            family: qkv_model::families::marian::SHEET.name.into(),
            width: 256,
            layers: 3,
            heads: 4,
            inner: 0,
            kv_heads: 0,
            head_dim: 0,
            position: PositionChoice::Family,
            norm: NormChoice::Family,
            wiring: WiringChoice::Family,
            activation: String::new(),
            gated: Switch::Family,
            bias: Switch::Family,
            scale: ScaleChoice::Family,
            mask: MaskChoice::Family,
            tie: Switch::Family,
            window: 0,
            patch: 4,
            dropout: 0.1,
            start: 0.0,
            from: String::new(),
            freeze: vec![],
        }
    }
}

impl Model {
    /// What it says of the architecture, besides sizes.
    pub fn choices(&self) -> Choices {
        Choices {
            position: self.position,
            norm: self.norm,
            wiring: self.wiring,
            activation: self.activation.clone(),
            gated: self.gated,
            bias: self.bias,
            scale: self.scale,
            mask: self.mask,
            tie: self.tie,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
        }
    }
}
