//! BART (Lewis et al. 2020): a post-normed pair with learned positions, normed embeddings and a tied output.
//!
//! Quirks: the table of positions has two unused rows in front. The output bias (`final_logits_bias`) is in every file
//! but is not learned. Encoder and decoder may have different widths inside.

use super::{Config, Files, HeadKind, Sheet, config};
use super::{Framing, LinearLayout, Pieces, Sizes, TargetStart, TextStart, TokenizerShape, Tokenizing};
use crate::Result;
use crate::presets;
use crate::spec::{Dropout, Head, InitScheme, Input, Output, Place, Pool, Position, Shape, Spec, Stack};
use qkv_kernels::Activation;
use qkv_nn::{Ffn, NormKind};
use qkv_weights::{Layout, Names};

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "bart",
    model_types: &["bart"],
    architectures: &[("BartForConditionalGeneration", HeadKind::Language), ("BartModel", HeadKind::Base)],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Tanh),
    framing: Framing::SeparatedTwice,
    text_start: TextStart::Nothing,
    target_start: Some(TargetStart::Eos),
    tokenizer: Some(Tokenizing { pieces: Pieces::Bpe, shape: TokenizerShape::Listed(super::roberta::SPECIAL) }),
    linear: LinearLayout::OutIn,
    gguf: None,
};

fn read(config: &Config, _: &Files) -> Result<Spec> {
    config.only("normalize_before", false)?;
    config.only("add_final_layer_norm", false)?;
    config.only("normalize_embedding", true)?;
    config.only("static_position_embeddings", false)?;
    let max = config.count_or("max_position_embeddings", 1024)?;
    let position = Position::Learned { max, offset: 2, padding_id: None, place: Place::Input };
    read_pair(config, &SHEET, position, true, "gelu")
}

/// What BART and Marian have in common.
pub(super) fn read_pair(config: &Config, sheet: &Sheet, position: Position, normed: bool, act: &str) -> Result<Spec> {
    config.only("tie_word_embeddings", true)?;
    let vocabulary = config.count_or("vocab_size", 50_265)?;
    let width = config.count_or("d_model", 1024)?;
    let act = config.activation_or("activation_function", act)?;
    let stack = |side: &str| -> Result<Stack> {
        let count = |key: &str, default| config.count_or(&format!("{side}_{key}"), default);
        Ok(Stack::new(count("layers", 12)?, count("attention_heads", 16)?, count("ffn_dim", 4096)?, act))
    };
    let p = config.number_or("dropout", 0.1)?;
    Ok(Spec {
        input: Input::Tokens {
            vocabulary,
            table_width: None,
            token_types: 0,
            scaled: config.switch_or("scale_embedding", false)?,
            normed,
            pad: config.id("pad_token_id"),
        },
        shape: Shape::Pair { encoder: stack("encoder")?, decoder: stack("decoder")? },
        norm: NormKind::Layer { eps: 1e-5 },
        position,
        head: match sheet.task(config)? {
            HeadKind::Base => Head::None,
            _ => Head::Language { output: Output::Tied, bias: true },
        },
        dropout: Dropout {
            attention: config.number_or("attention_dropout", 0.0)?,
            inner: config.number_or("activation_dropout", 0.0)?,
            ..Dropout::residual(p)
        },
        init: InitScheme::Normal { std: config.number_or("init_std", 0.02)? },
        ..presets::paper(vocabulary, width, 1, 1, 1)
    })
}

/// A new BART.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    sizes.no_kv_heads(SHEET.name)?;
    let Sizes { vocabulary, width, layers, heads, positions, dropout, .. } = *sizes;
    let spec = presets::bart(vocabulary, width, layers, heads, sizes.inner(), positions);
    Ok(sizes.padded(Spec { dropout: Dropout::residual(dropout), init: sizes.normal(), ..spec }))
}

pub(super) fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    config.set("d_model", spec.width);
    config.set("is_encoder_decoder", true);
    config.set("tie_word_embeddings", true);
    if let Input::Tokens { vocabulary, scaled, pad, .. } = spec.input {
        config.pad(pad);
        config.set("vocab_size", vocabulary);
        config.set("scale_embedding", scaled);
    }
    for (side, stack) in [("encoder", spec.encoder()), ("decoder", spec.decoder())] {
        if let Some(stack) = stack {
            config.set(&format!("{side}_layers"), stack.layers);
            config.set(&format!("{side}_attention_heads"), stack.heads);
            config.set(&format!("{side}_ffn_dim"), stack.ffn.inner());
            if let Ffn::Dense { act, .. } = stack.ffn {
                config.set("activation_function", config::activation_name(act));
            }
        }
    }
    if let Some(max) = spec.position.max() {
        config.set("max_position_embeddings", max);
    }
    let Dropout { hidden, attention, inner, .. } = spec.dropout;
    config.set("dropout", hidden);
    config.set("attention_dropout", attention);
    config.set("activation_dropout", inner);
    if let InitScheme::Normal { std } = spec.init {
        config.set("init_std", std);
    }
    Ok(())
}

pub(super) fn names(spec: &Spec, config: &Config) -> Names {
    let bare = config.architecture().is_some_and(|name| name.ends_with("Model") && !name.ends_with("MTModel"));
    let mut names = Names::new()
        .under("model.", bare)
        .module("tokens", "model.shared")
        .also("model.encoder.embed_tokens")
        .also("model.decoder.embed_tokens")
        .also("lm_head");
    for stack in ["encoder", "decoder"] {
        let ours = |rest: &str| format!("{stack}.layers.*.{rest}");
        let theirs = |rest: &str| format!("model.{stack}.layers.*.{rest}");
        for (q, o) in [("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("out", "out_proj")] {
            names = names.module(&ours(&format!("attention.{q}")), &theirs(&format!("self_attn.{o}")));
            names = names.module(&ours(&format!("cross.{q}")), &theirs(&format!("encoder_attn.{o}")));
        }
        names = names
            .module(&format!("{stack}.positions.table"), &format!("model.{stack}.embed_positions"))
            .module(&format!("{stack}.norm_input"), &format!("model.{stack}.layernorm_embedding"))
            .module(&ours("norm_self"), &theirs("self_attn_layer_norm"))
            .module(&ours("norm_cross"), &theirs("encoder_attn_layer_norm"))
            .module(&ours("ffn.up"), &theirs("fc1"))
            .module(&ours("ffn.down"), &theirs("fc2"))
            .module(&ours("norm_ffn"), &theirs("final_layer_norm"));
    }
    let vocabulary = spec.vocabulary().unwrap_or(0);
    names
        .exact("head.bias", "final_logits_bias")
        .laid(Layout::Shaped(vec![1, vocabulary]))
        .ignore("model.*coder.embed_tokens.weight", "the shared token embeddings")
        .ignore("lm_head.weight", "tied to the token embeddings")
        .ignore("model.*coder.embed_positions.weight", "waves, which are computed")
}
