//! Gemma 3 (Gemma Team 2025), the part that reads and writes text: Gemma 2's network with norms on queries and keys
//! instead of soft caps, and five layers with a window for each that sees to the beginning.
//!
//! Quirks: layers with a window turn by a base of their own, unscaled. The norms on queries and keys count their gain
//! from one, like all others. `rope_parameters` has an entry for each kind of layer; older files say
//! `rope_local_base_freq`, `rope_theta` and `rope_scaling`.

use super::gguf::{Dialect, Keys, Writer};
use super::{
    Config, Files, Framing, HeadKind, LinearLayout, Pieces, Sheet, Sizes, TextStart, TokenizerShape, Tokenizing,
};
use super::{gemma2, rope};
use crate::Result;
use crate::spec::{Pool, Position, Spec};
use qkv_kernels::{Activation, Pairing};
use qkv_weights::{Layout, Names};
use serde_json::{Value, json};

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "gemma3_text",
    model_types: &["gemma3_text"],
    architectures: &[("Gemma3ForCausalLM", HeadKind::Language), ("Gemma3TextModel", HeadKind::Base)],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Tanh),
    framing: Framing::Ended,
    text_start: TextStart::Bos,
    target_start: None,
    tokenizer: Some(Tokenizing { pieces: Pieces::Unigram, shape: TokenizerShape::Begun }),
    linear: LinearLayout::OutIn,
    gguf: Some(GGUF),
};

/// Of so many layers in a row the last sees to the beginning.
const FULL_EVERY: usize = 6;
/// The base that layers with a window turn by, unless a file says another.
const WINDOW_THETA: f64 = 10_000.0;

fn read(config: &Config, _: &Files) -> Result<Spec> {
    for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
        config.only(key, Value::Null)?;
    }
    let every = config.count_or("_sliding_window_pattern", config.count_or("sliding_window_pattern", FULL_EVERY)?)?;
    let spec = gemma2::read_decoder(config, SHEET.task(config)?, every, 131_072)?;
    Ok(Spec { position: positions(config)?, qk_norm: Some(spec.norm), ..spec })
}

fn positions(config: &Config) -> Result<Position> {
    let max = config.count_or("max_position_embeddings", 131_072)?;
    let both = config.inside("rope_parameters")?;
    let part = |kind: &str| both.as_ref().map_or(Ok(None), |both| both.inside(kind));
    let (theta, scaling, window_theta) = match (part("full_attention")?, part("sliding_attention")?) {
        (Some(full), windowed) => {
            let windowed = windowed.unwrap_or_default();
            windowed.only("rope_type", "default")?;
            let theta = full.number_or("rope_theta", 1e6)?;
            (theta, rope::scaling(&full, max)?, windowed.number_or("rope_theta", WINDOW_THETA)?)
        }
        _ => {
            let scaling = rope::scaling(&config.inside("rope_scaling")?.unwrap_or_default(), max)?;
            let window_theta = config.number_or("rope_local_base_freq", WINDOW_THETA)?;
            (config.number_or("rope_theta", 1e6)?, scaling, window_theta)
        }
    };
    let pairing = Pairing::Halves;
    Ok(Position::Rotary { max, theta, features: None, scaling, pairing, window_theta: Some(window_theta) })
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    gemma2::write_decoder(spec, config);
    if let Position::Rotary { max, theta, scaling, window_theta, .. } = spec.position {
        config.set("max_position_embeddings", max);
        for old in ["rope_scaling", "rope_theta", "rope_local_base_freq"] {
            config.remove(old);
        }
        let mut full = rope::parameters(scaling);
        full["rope_theta"] = theta.into();
        let windowed = json!({"rope_type": "default", "rope_theta": window_theta.unwrap_or(theta)});
        config.set("rope_parameters", json!({"full_attention": full, "sliding_attention": windowed}));
    }
    for key in ["attn_logit_softcapping", "final_logit_softcapping"] {
        config.set(key, Value::Null);
    }
    Ok(())
}

fn names(spec: &Spec, config: &Config) -> Names {
    let layer = |rest: &str| format!("model.layers.*.{rest}");
    gemma2::names(spec, config)
        .module("decoder.layers.*.attention.q_norm", &layer("self_attn.q_norm"))
        .module("decoder.layers.*.attention.k_norm", &layer("self_attn.k_norm"))
}

/// A new Gemma 3. Its window is a quarter of its positions.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    let window = gemma2::alternating(sizes, sizes.positions / 4, FULL_EVERY);
    let spec = gemma2::new(sizes, window);
    let position = match spec.position {
        Position::Rotary { max, features, scaling, pairing, .. } => {
            Position::Rotary { max, theta: 1e6, features, scaling, pairing, window_theta: Some(WINDOW_THETA) }
        }
        other => other,
    };
    Ok(Spec { position, qk_norm: Some(spec.norm), ..spec })
}

const GGUF: Dialect = Dialect { name: "gemma3", read: from_gguf, write: to_gguf, names: gguf_names };

fn from_gguf(keys: &Keys, config: &mut Config) -> Result<()> {
    config.set("architectures", vec!["Gemma3ForCausalLM"]);
    gemma2::read_gguf(keys, config)
}

fn to_gguf(spec: &Spec, to: &mut Writer) -> Result<()> {
    match spec.position {
        Position::Rotary { window_theta: Some(theta), .. } if theta != WINDOW_THETA => {
            to.refuse("another base of layers with a window than 10000")
        }
        _ => gemma2::write_gguf(spec, to, FULL_EVERY),
    }
}

fn gguf_names(spec: &Spec) -> Names {
    gemma2::gguf_names(spec)
        .module("decoder.layers.*.attention.q_norm", "blk.*.attn_q_norm")
        .laid(Layout::OneMore)
        .module("decoder.layers.*.attention.k_norm", "blk.*.attn_k_norm")
        .laid(Layout::OneMore)
}
