//! Qwen3 (Yang et al. 2025): LLaMA's network with a norm on each head of queries and keys, before they are turned.
//!
//! Quirks: a head's width is 128 whatever the width of the network is. `layer_types` says which layers see through a
//! window; no published checkpoint has one, and none is read here.

use super::gguf::{Dialect, Keys, Writer};
use super::{Config, Files, HeadKind, Sheet, llama};
use super::{Framing, LinearLayout, Pieces, Sizes, TextStart, TokenizerShape, Tokenizing};
use crate::Result;
use crate::spec::{Head, Output, Pool, Spec};
use qkv_kernels::Activation;
use qkv_nn::Biased;
use qkv_weights::{Layout, Names};

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "qwen3",
    model_types: &["qwen3"],
    architectures: &[("Qwen3ForCausalLM", HeadKind::Language), ("Qwen3Model", HeadKind::Base)],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Tanh),
    framing: Framing::Ended,
    text_start: TextStart::Nothing,
    target_start: None,
    tokenizer: Some(Tokenizing { pieces: Pieces::Bpe, shape: TokenizerShape::EndOfText }),
    linear: LinearLayout::OutIn,
    gguf: Some(GGUF),
};

fn read(config: &Config, _: &Files) -> Result<Spec> {
    config.only("use_sliding_window", false)?;
    let defaults = llama::Defaults { inner: 22_016, positions: 32_768, vocabulary: 151_936, head_width: Some(128) };
    let spec = llama::read_decoder(config, SHEET.task(config)?, defaults)?;
    let attention_bias = if config.switch_or("attention_bias", false)? { Biased::All } else { Biased::None };
    Ok(Spec { qk_norm: Some(spec.norm), attention_bias, ..spec })
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    llama::write_decoder(spec, config);
    config.set("attention_bias", spec.attention_bias == Biased::All);
    config.set("use_sliding_window", false);
    let layers = spec.decoder().map_or(0, |s| s.layers);
    config.set("layer_types", vec!["full_attention"; layers]);
    Ok(())
}

fn names(spec: &Spec, config: &Config) -> Names {
    let layer = |rest: &str| format!("model.layers.*.{rest}");
    llama::names(spec, config)
        .module("decoder.layers.*.attention.q_norm", &layer("self_attn.q_norm"))
        .module("decoder.layers.*.attention.k_norm", &layer("self_attn.k_norm"))
}

/// A new Qwen3, with heads that share the width, and the small ones' tied output.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    let spec = llama::decoder(sizes);
    Ok(Spec { qk_norm: Some(spec.norm), head: Head::Language { output: Output::Tied, bias: false }, ..spec })
}

const GGUF: Dialect = Dialect { name: "qwen3", read: from_gguf, write: to_gguf, names: gguf_names };

fn from_gguf(keys: &Keys, config: &mut Config) -> Result<()> {
    config.set("architectures", vec!["Qwen3ForCausalLM"]);
    llama::read_gguf(keys, config)
}

fn to_gguf(spec: &Spec, to: &mut Writer) -> Result<()> {
    match spec.attention_bias {
        Biased::None => to.rotary(spec),
        _ => to.refuse("biases in attention"),
    }
}

/// Unlike LLaMA's, queries and keys lie as they do here.
fn gguf_names(_: &Spec) -> Names {
    llama::gguf_layers(Layout::Same, Layout::Same)
        .module("decoder.layers.*.attention.q_norm", "blk.*.attn_q_norm")
        .module("decoder.layers.*.attention.k_norm", "blk.*.attn_k_norm")
}
