//! ViT (Dosovitskiy et al. 2021): a pre-normed encoder over patches of an image, answered from a class vector in front.
//!
//! Quirks: the patch layer is a convolution in the file; positions have a batch axis there and are no module of their own.

use super::{Config, Files, HeadKind, Sheet, bert};
use super::{Framing, LinearLayout, Pictures, Sizes, TextStart};
use crate::presets;
use crate::spec::{Dropout, InitScheme, Input, Pool, Shape, Spec, Stack};
use crate::{Error, Result};
use qkv_nn::NormKind;
use qkv_weights::{Layout, Names};

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "vit",
    model_types: &["vit"],
    architectures: &[("ViTForImageClassification", HeadKind::Classify), ("ViTModel", HeadKind::Base)],
    read,
    write,
    names,
    sizes,
    pool: Pool::First,
    framing: Framing::ClsSep { token_types: true },
    text_start: TextStart::Nothing,
    target_start: None,
    tokenizer: None,
    linear: LinearLayout::OutIn,
    gguf: None,
};

fn read(config: &Config, files: &Files) -> Result<Spec> {
    config.only("qkv_bias", true)?;
    config.only("pooler_act", "tanh")?;
    let (image, patch) = (config.count_or("image_size", 224)?, config.count_or("patch_size", 16)?);
    let act = config.activation_or("hidden_act", "gelu")?;
    let width = config.count_or("hidden_size", 768)?;
    let inner = config.count_or("intermediate_size", 3072)?;
    let stack =
        Stack::new(config.count_or("num_hidden_layers", 12)?, config.count_or("num_attention_heads", 12)?, inner, act);
    if patch == 0 {
        return Err(config.error("patch_size", "must not be 0", "use a number that divides the image's size"));
    }
    let hidden = config.number_or("hidden_dropout_prob", 0.0)?;
    Ok(Spec {
        input: Input::Patches { image, patch, channels: config.count_or("num_channels", 3)? },
        shape: Shape::Encoder(stack),
        norm: NormKind::Layer { eps: config.number_or("layer_norm_eps", 1e-12)? },
        head: bert::head(config, SHEET.task(config)?, Pool::First, files.has("pooler.dense.weight"))?,
        dropout: Dropout {
            attention: config.number_or("attention_probs_dropout_prob", 0.0)?,
            head: 0.0,
            ..Dropout::residual(hidden)
        },
        init: InitScheme::Normal { std: config.number_or("initializer_range", 0.02)? },
        ..presets::vit(image, patch, width, 1, 1, 1)
    })
}

/// A new ViT. Its classifier has no dropout of its own.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.no_kv_heads(SHEET.name)?;
    sizes.no_window(SHEET.name)?;
    let Sizes { width, layers, heads, labels, .. } = *sizes;
    let Some(Pictures { image, patch, channels }) = sizes.pictures else {
        let what = "a vit reads pictures, but the corpus is text";
        return Err(Error::new("model.family", what, "choose another family"));
    };
    if patch == 0 {
        return Err(Error::new("model.patch", "must not be 0", "use a number that divides the pictures' size"));
    }
    let spec = presets::vit(image, patch, width, layers, heads, labels);
    let dropout = Dropout { head: 0.0, ..sizes.everywhere() };
    Ok(sizes.widened(Spec { input: Input::Patches { image, patch, channels }, dropout, init: sizes.normal(), ..spec }))
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    bert::write_sizes(spec, config);
    if let Input::Patches { image, patch, channels } = spec.input {
        config.set("image_size", image);
        config.set("patch_size", patch);
        config.set("num_channels", channels);
    }
    config.set("hidden_dropout_prob", spec.dropout.hidden);
    config.set("attention_probs_dropout_prob", spec.dropout.attention);
    Ok(())
}

fn names(spec: &Spec, config: &Config) -> Names {
    let layer = |rest: &str| format!("vit.encoder.layer.*.{rest}");
    let c = spec.width;
    let (patch, channels) = match spec.input {
        Input::Patches { patch, channels, .. } => (patch, channels),
        Input::Tokens { .. } => (1, 1),
    };
    Names::new()
        .under("vit.", config.architecture() == Some("ViTModel"))
        .module("patches.embed.project", "vit.embeddings.patch_embeddings.projection")
        .laid(Layout::Shaped(vec![c, channels, patch, patch]))
        .exact("patches.class", "vit.embeddings.cls_token")
        .exact("encoder.positions.table.weight", "vit.embeddings.position_embeddings")
        .laid(Layout::Shaped(vec![1, spec.patches().unwrap_or(1), c]))
        .module("encoder.layers.*.attention.q", &layer("attention.attention.query"))
        .module("encoder.layers.*.attention.k", &layer("attention.attention.key"))
        .module("encoder.layers.*.attention.v", &layer("attention.attention.value"))
        .module("encoder.layers.*.attention.out", &layer("attention.output.dense"))
        .module("encoder.layers.*.norm_self", &layer("layernorm_before"))
        .module("encoder.layers.*.ffn.up", &layer("intermediate.dense"))
        .module("encoder.layers.*.ffn.down", &layer("output.dense"))
        .module("encoder.layers.*.norm_ffn", &layer("layernorm_after"))
        .module("encoder.norm", "vit.layernorm")
        .module("head.dense", "vit.pooler.dense")
        .module("head.out", "classifier")
        .ignore("vit.pooler.*", "this head does without the pooler")
}
