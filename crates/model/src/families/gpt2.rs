//! GPT-2 (Radford et al. 2019): a pre-normed decoder with learned positions and a tied output.
//!
//! Quirks: linear layers lie transposed, `[in, out]`, and queries, keys and values are one layer in the file. Old files
//! carry the causal mask as a tensor.

use super::gguf::{self, Dialect, Keys, Writer};
use super::{Config, Files, HeadKind, Sheet, config};
use super::{Framing, LinearLayout, Pieces, Sizes, TextStart, TokenizerShape, Tokenizing};
use crate::Result;
use crate::presets;
use crate::spec::{Dropout, Head, InitScheme, Output, Place, Pool, Position, Shape, Spec, Stack};
use qkv_kernels::Activation;
use qkv_nn::{Ffn, NormKind};
use qkv_weights::{Layout, Names};

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "gpt2",
    model_types: &["gpt2"],
    architectures: &[("GPT2LMHeadModel", HeadKind::Language), ("GPT2Model", HeadKind::Base)],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Tanh),
    framing: Framing::Ended,
    text_start: TextStart::Nothing,
    target_start: None,
    tokenizer: Some(Tokenizing { pieces: Pieces::Bpe, shape: TokenizerShape::EndOfText }),
    linear: LinearLayout::InOut,
    gguf: Some(GGUF),
};

fn read(config: &Config, _: &Files) -> Result<Spec> {
    config.only("add_cross_attention", false)?;
    config.only("scale_attn_weights", true)?;
    config.only("scale_attn_by_inverse_layer_idx", false)?;
    let width = config.count_or("n_embd", 768)?;
    let inner = config.count_or("n_inner", 4 * width)?;
    let act = config.activation_or("activation_function", "gelu_new")?;
    let stack = Stack::new(config.count_or("n_layer", 12)?, config.count_or("n_head", 12)?, inner, act);
    let max = config.count_or("n_positions", 1024)?;
    let hidden = config.number_or("resid_pdrop", 0.1)?;
    let tied = config.switch_or("tie_word_embeddings", true)?;
    Ok(Spec {
        shape: Shape::Decoder(stack),
        norm: NormKind::Layer { eps: config.number_or("layer_norm_epsilon", 1e-5)? },
        position: Position::Learned { max, offset: 0, padding_id: None, place: Place::Input },
        head: match SHEET.task(config)? {
            HeadKind::Base => Head::None,
            _ => Head::Language { output: if tied { Output::Tied } else { Output::Own }, bias: false },
        },
        dropout: Dropout {
            input: config.number_or("embd_pdrop", 0.1)?,
            attention: config.number_or("attn_pdrop", 0.1)?,
            ..Dropout::residual(hidden)
        },
        init: InitScheme::Gpt2 { std: config.number_or("initializer_range", 0.02)? },
        ..presets::gpt2(config.count_or("vocab_size", 50_257)?, width, 1, 1, 1)
    })
}

/// A new GPT-2. It has no padding: its files do not name one.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    sizes.no_kv_heads(SHEET.name)?;
    let Sizes { vocabulary, width, layers, heads, positions, .. } = *sizes;
    let spec = presets::gpt2(vocabulary, width, layers, heads, positions);
    let init = InitScheme::Gpt2 { std: sizes.std() };
    Ok(sizes.widened(Spec { dropout: sizes.everywhere(), init, ..spec }))
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    config.set("n_embd", spec.width);
    config.set("vocab_size", spec.vocabulary().unwrap_or(0));
    if let Some(stack) = spec.decoder() {
        config.set("n_layer", stack.layers);
        config.set("n_head", stack.heads);
        config.set("n_inner", stack.ffn.inner());
        if let Ffn::Dense { act, .. } = stack.ffn {
            config.set("activation_function", config::activation_name(act));
        }
    }
    if let Position::Learned { max, .. } = spec.position {
        config.set("n_positions", max);
    }
    if let NormKind::Layer { eps } = spec.norm {
        config.set("layer_norm_epsilon", eps);
    }
    if let Head::Language { output, .. } = spec.head {
        config.set("tie_word_embeddings", output != Output::Own);
    }
    let Dropout { input, hidden, attention, .. } = spec.dropout;
    config.set("embd_pdrop", input);
    config.set("resid_pdrop", hidden);
    config.set("attn_pdrop", attention);
    if let InitScheme::Gpt2 { std } = spec.init {
        config.set("initializer_range", std);
    }
    Ok(())
}

fn names(spec: &Spec, config: &Config) -> Names {
    let layer = |rest: &str| format!("transformer.h.*.{rest}");
    let qkv = ["q", "k", "v"].map(|n| format!("decoder.layers.*.attention.{n}"));
    let names = Names::new()
        .under("transformer.", config.architecture() == Some("GPT2Model"))
        .module("tokens", "transformer.wte")
        .module("decoder.positions.table", "transformer.wpe")
        .stacked(&[&qkv[0], &qkv[1], &qkv[2]], &layer("attn.c_attn"))
        .laid(Layout::Transposed)
        .module("decoder.layers.*.attention.out", &layer("attn.c_proj"))
        .laid(Layout::Transposed)
        .module("decoder.layers.*.norm_self", &layer("ln_1"))
        .module("decoder.layers.*.ffn.up", &layer("mlp.c_fc"))
        .laid(Layout::Transposed)
        .module("decoder.layers.*.ffn.down", &layer("mlp.c_proj"))
        .laid(Layout::Transposed)
        .module("decoder.layers.*.norm_ffn", &layer("ln_2"))
        .module("decoder.norm", "transformer.ln_f")
        .module("head.out", "lm_head")
        .ignore("*.attn.bias", "the causal mask, which is computed")
        .ignore("*.attn.masked_bias", "the causal mask, which is computed");
    match spec.head {
        Head::Language { output: Output::Own, .. } => names,
        _ => names.ignore("lm_head.weight", "tied to the token embeddings"),
    }
}

const GGUF: Dialect = Dialect { name: "gpt2", read: from_gguf, write: to_gguf, names: gguf_names };

fn from_gguf(keys: &Keys, config: &mut Config) -> Result<()> {
    config.set("architectures", vec!["GPT2LMHeadModel"]);
    config.set("n_embd", keys.count("embedding_length")?);
    config.set("n_inner", keys.count("feed_forward_length")?);
    config.set("n_layer", keys.count("block_count")?);
    config.set("n_head", keys.count("attention.head_count")?);
    config.set("n_positions", keys.count("context_length")?);
    config.set("layer_norm_epsilon", keys.number("attention.layer_norm_epsilon")?);
    config.set("tie_word_embeddings", keys.tied);
    Ok(())
}

fn to_gguf(spec: &Spec, to: &mut Writer) -> Result<()> {
    match spec.position {
        Position::Learned { offset: 0, .. } => Ok(()),
        _ => to.refuse("these positions"),
    }
}

/// Layers lie like everybody else's there, not transposed.
fn gguf_names(spec: &Spec) -> Names {
    let qkv = ["q", "k", "v"].map(|n| format!("decoder.layers.*.attention.{n}"));
    let names = gguf::layers("decoder")
        .module("decoder.layers.*.norm_self", "blk.*.attn_norm")
        .module("decoder.layers.*.norm_ffn", "blk.*.ffn_norm")
        .module("decoder.positions.table", "position_embd")
        .stacked(&[&qkv[0], &qkv[1], &qkv[2]], "blk.*.attn_qkv")
        .module("decoder.norm", "output_norm")
        .module("head.out", "output");
    match spec.head {
        Head::Language { output: Output::Own, .. } => names,
        _ => names.ignore("output.weight", "tied to the token embeddings"),
    }
}
