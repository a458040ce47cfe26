//! T5 (Raffel et al. 2020): a pre-normed pair with RMSNorm, learned biases by distance, no other bias and no scaling of
//! the scores. Version 1.1 (and mT5) has a gated feed-forward and does not scale what goes into the output.
//!
//! Quirks: the table of distances belongs to the first layer of each stack in the file, but serves all. A head's width
//! (`d_kv`) need not be `d_model / num_heads`. Whether the output is the token table is known from the file alone:
//! where there is an `lm_head.weight`, it is not. Whether it is scaled by 1/√C is `scale_decoder_outputs`, or where that
//! is missing, `tie_word_embeddings`.

use super::{Config, Files, HeadKind, Sheet, config};
use super::{Framing, LinearLayout, Pieces, Sizes, TargetStart, TextStart, TokenizerShape, Tokenizing};
use crate::presets;
use crate::spec::{Dropout, Head, HeadWidth, InitScheme, Output, Pool, Position, Shape, Spec, Stack};
use crate::{Error, Result};
use qkv_kernels::Activation;
use qkv_nn::position::Buckets;
use qkv_nn::{Ffn, NormKind};
use qkv_weights::Names;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "t5",
    model_types: &["t5", "mt5"],
    architectures: &[
        ("T5ForConditionalGeneration", HeadKind::Language),
        ("MT5ForConditionalGeneration", HeadKind::Language),
        ("T5WithLMHeadModel", HeadKind::Language),
    ],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Tanh),
    framing: Framing::Ended,
    text_start: TextStart::Nothing,
    target_start: Some(TargetStart::Pad),
    tokenizer: Some(Tokenizing { pieces: Pieces::Unigram, shape: TokenizerShape::Sentinels(32) }),
    linear: LinearLayout::OutIn,
    gguf: None,
};

fn read(config: &Config, files: &Files) -> Result<Spec> {
    SHEET.task(config)?;
    let (width, heads) = (config.count_or("d_model", 512)?, config.count_or("num_heads", 8)?);
    let dim = config.count_or("d_kv", 64)?;
    let head_width = if dim.checked_mul(heads) == Some(width) { HeadWidth::Share } else { HeadWidth::Of(dim) };
    let ffn = feed_forward(config)?;
    let layers = config.count_or("num_layers", 6)?;
    let stack = |layers| Stack { head_width, ffn, ..Stack::new(layers, heads, 1, Activation::Relu) };
    let (buckets, max_distance) = (
        config.count_or("relative_attention_num_buckets", 32)?,
        config.count_or("relative_attention_max_distance", 128)?,
    );
    let scaled = config.switch_or("scale_decoder_outputs", config.switch_or("tie_word_embeddings", true)?)?;
    let output = match (files.has("lm_head.weight"), scaled) {
        (_, true) => Output::TiedScaled,
        (true, false) => Output::Own,
        (false, false) => Output::Tied,
    };
    let p = config.number_or("dropout_rate", 0.1)?;
    Ok(Spec {
        shape: Shape::Pair { encoder: stack(layers), decoder: stack(config.count_or("num_decoder_layers", layers)?) },
        norm: NormKind::Rms { eps: config.number_or("layer_norm_epsilon", 1e-6)? },
        position: Position::Relative(Buckets::Logarithmic { buckets, max_distance, both_ways: true }),
        head: Head::Language { output, bias: false },
        dropout: Dropout { attention: p, inner: p, ..Dropout::residual(p) },
        init: InitScheme::T5,
        ..presets::t5(config.count_or("vocab_size", 32_128)?, width, 1, 1, 1)
    })
}

/// A new T5. Each of its matrices starts by its own width.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    sizes.no_kv_heads(SHEET.name)?;
    if sizes.std.is_some() {
        let what = "each matrix of a t5 starts by its own width";
        return Err(Error::new("model.start", what, "leave it at 0"));
    }
    let Sizes { vocabulary, width, layers, heads, dropout, .. } = *sizes;
    let spec = presets::t5(vocabulary, width, layers, heads, sizes.inner());
    Ok(Spec { dropout: Dropout { inner: dropout, ..sizes.everywhere() }, ..spec })
}

/// `relu`, `gated-gelu` and so on. The gated GELU has always been the approximate one.
fn feed_forward(config: &Config) -> Result<Ffn> {
    let inner = config.count_or("d_ff", 2048)?;
    let word = config.word("feed_forward_proj")?.unwrap_or("relu");
    let (gated, act) = match word.split_once('-') {
        Some(("gated", "gelu")) => (true, Some(Activation::GeluTanh)),
        Some(("gated", act)) => (true, config::activation(act)),
        Some(_) => (false, None),
        None => (false, config::activation(word)),
    };
    match act {
        Some(act) if gated => Ok(Ffn::Gated { inner, act }),
        Some(act) => Ok(Ffn::Dense { inner, act }),
        None => {
            let what = format!("`{word}` is not supported");
            Err(config.error(
                "feed_forward_proj",
                what,
                "supported: relu, gelu, silu, gated-gelu, gated-silu, gated-relu",
            ))
        }
    }
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    config.set("d_model", spec.width);
    config.set("vocab_size", spec.vocabulary().unwrap_or(0));
    config.set("is_encoder_decoder", true);
    if let (Some(encoder), Some(decoder)) = (spec.encoder(), spec.decoder()) {
        config.set("num_layers", encoder.layers);
        config.set("num_decoder_layers", decoder.layers);
        config.set("num_heads", encoder.heads);
        config.set("d_kv", encoder.heads(spec.width).dim);
        config.set("d_ff", encoder.ffn.inner());
        let word = match encoder.ffn {
            Ffn::Gated { act: Activation::GeluTanh, .. } => "gated-gelu".to_string(),
            Ffn::Gated { act, .. } => format!("gated-{}", config::activation_name(act)),
            Ffn::Dense { act, .. } => config::activation_name(act).to_string(),
        };
        config.set("feed_forward_proj", word);
        config.remove("dense_act_fn");
        config.remove("is_gated_act");
    }
    if let Position::Relative(Buckets::Logarithmic { buckets, max_distance, .. }) = spec.position {
        config.set("relative_attention_num_buckets", buckets);
        config.set("relative_attention_max_distance", max_distance);
    }
    if let Head::Language { output, .. } = spec.head {
        let scaled = output == Output::TiedScaled;
        config.set("scale_decoder_outputs", scaled);
        config.set("tie_word_embeddings", scaled);
    }
    if let NormKind::Rms { eps } = spec.norm {
        config.set("layer_norm_epsilon", eps);
    }
    config.set("dropout_rate", spec.dropout.hidden);
    Ok(())
}

fn names(spec: &Spec, _: &Config) -> Names {
    let mut names = Names::new().module("tokens", "shared").also("encoder.embed_tokens").also("decoder.embed_tokens");
    for (stack, think) in [("encoder", 1), ("decoder", 2)] {
        let ours = |rest: &str| format!("{stack}.layers.*.{rest}");
        let theirs = |rest: &str| format!("{stack}.block.*.layer.{rest}");
        for (q, o) in [("q", "q"), ("k", "k"), ("v", "v"), ("out", "o")] {
            names = names.module(&ours(&format!("attention.{q}")), &theirs(&format!("0.SelfAttention.{o}")));
            names = names.module(&ours(&format!("cross.{q}")), &theirs(&format!("1.EncDecAttention.{o}")));
        }
        let up = if matches!(spec.encoder().map(|s| s.ffn), Some(Ffn::Gated { .. })) { "wi_1" } else { "wi" };
        names = names
            .module(
                &format!("{stack}.relative.table"),
                &format!("{stack}.block.0.layer.0.SelfAttention.relative_attention_bias"),
            )
            .module(&ours("norm_self"), &theirs("0.layer_norm"))
            .module(&ours("norm_cross"), &theirs("1.layer_norm"))
            .module(&ours("ffn.gate"), &theirs(&format!("{think}.DenseReluDense.wi_0")))
            .module(&ours("ffn.up"), &theirs(&format!("{think}.DenseReluDense.{up}")))
            .module(&ours("ffn.down"), &theirs(&format!("{think}.DenseReluDense.wo")))
            .module(&ours("norm_ffn"), &theirs(&format!("{think}.layer_norm")))
            .module(&format!("{stack}.norm"), &format!("{stack}.final_layer_norm"));
    }
    let names = names
        .module("head.out", "lm_head")
        .ignore("encoder.embed_tokens.weight", "the shared token embeddings")
        .ignore("decoder.embed_tokens.weight", "the shared token embeddings")
        .ignore(
            "decoder.block.*.layer.1.EncDecAttention.relative_attention_bias.weight",
            "old files carry it, nobody uses it",
        );
    match spec.head {
        Head::Language { output: Output::Own, .. } => names,
        _ => names.ignore("lm_head.weight", "tied to the token embeddings"),
    }
}
