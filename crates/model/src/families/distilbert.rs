//! DistilBERT (Sanh et al. 2019): BERT with half the layers, no token types and no pooler.
//!
//! Quirks: words of its own for every size. The classifier has a dense layer with ReLU of its own. ε is always 1e-12.

use super::{Config, Files, HeadKind, Sheet, bert, config, name_labels};
use super::{Framing, LinearLayout, Pieces, Sizes, TextStart, TokenizerShape, Tokenizing};
use crate::Result;
use crate::presets;
use crate::spec::{Dropout, Head, InitScheme, Input, Place, Pool, Position, Shape, Spec, Stack};
use qkv_kernels::Activation;
use qkv_nn::Ffn;
use qkv_weights::Names;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "distilbert",
    model_types: &["distilbert"],
    architectures: &[
        ("DistilBertForMaskedLM", HeadKind::Masked),
        ("DistilBertModel", HeadKind::Base),
        ("DistilBertForSequenceClassification", HeadKind::Classify),
        ("DistilBertForTokenClassification", HeadKind::Tag),
        ("DistilBertForQuestionAnswering", HeadKind::Answer),
    ],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Relu),
    framing: Framing::ClsSep { token_types: false },
    text_start: TextStart::Nothing,
    target_start: None,
    tokenizer: Some(Tokenizing { pieces: Pieces::WordPiece, shape: TokenizerShape::ClsSep }),
    linear: LinearLayout::OutIn,
    gguf: None,
};

fn read(config: &Config, _: &Files) -> Result<Spec> {
    let (width, inner) = (config.count_or("dim", 768)?, config.count_or("hidden_dim", 3072)?);
    let act = config.activation_or("activation", "gelu")?;
    let vocabulary = config.count_or("vocab_size", 30_522)?;
    let head = match SHEET.task(config)? {
        HeadKind::Masked | HeadKind::Language => Head::Masked { act },
        task => bert::head(config, task, Pool::Dense(Activation::Relu), false)?,
    };
    let hidden = config.number_or("dropout", 0.1)?;
    let before_head = match head {
        Head::Classify { .. } => config.number_or("seq_classif_dropout", 0.2)?,
        Head::Span => config.number_or("qa_dropout", 0.1)?,
        _ => hidden,
    };
    let max = config.count_or("max_position_embeddings", 512)?;
    Ok(Spec {
        input: Input::Tokens {
            vocabulary,
            table_width: None,
            token_types: 0,
            scaled: false,
            normed: true,
            pad: config.id("pad_token_id"),
        },
        shape: Shape::Encoder(Stack::new(config.count_or("n_layers", 6)?, config.count_or("n_heads", 12)?, inner, act)),
        position: Position::Learned { max, offset: 0, padding_id: None, place: Place::Input },
        head,
        dropout: Dropout {
            attention: config.number_or("attention_dropout", 0.1)?,
            head: before_head,
            ..Dropout::residual(hidden)
        },
        init: InitScheme::Normal { std: config.number_or("initializer_range", 0.02)? },
        ..presets::bert(vocabulary, width, 1, 1, 1)
    })
}

/// A new DistilBERT.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    sizes.no_kv_heads(SHEET.name)?;
    let mut spec = bert::encoder(sizes);
    if let Input::Tokens { token_types, .. } = &mut spec.input {
        *token_types = 0;
    }
    Ok(spec)
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    config.set("dim", spec.width);
    if let Input::Tokens { vocabulary, pad, .. } = spec.input {
        config.pad(pad);
        config.set("vocab_size", vocabulary);
    }
    if let Some(stack) = spec.encoder() {
        config.set("n_layers", stack.layers);
        config.set("n_heads", stack.heads);
        config.set("hidden_dim", stack.ffn.inner());
        if let Ffn::Dense { act, .. } = stack.ffn {
            config.set("activation", config::activation_name(act));
        }
    }
    if let Position::Learned { max, .. } = spec.position {
        config.set("max_position_embeddings", max);
    }
    let Dropout { hidden, attention, head, .. } = spec.dropout;
    config.set("dropout", hidden);
    config.set("attention_dropout", attention);
    match spec.head {
        Head::Classify { labels, .. } => {
            config.set("seq_classif_dropout", head);
            name_labels(config, labels);
        }
        Head::Tag { labels } => name_labels(config, labels),
        Head::Span => config.set("qa_dropout", head),
        _ => {}
    }
    if let InitScheme::Normal { std } = spec.init {
        config.set("initializer_range", std);
    }
    Ok(())
}

fn names(spec: &Spec, config: &Config) -> Names {
    let layer = |rest: &str| format!("distilbert.transformer.layer.*.{rest}");
    let names = Names::new()
        .under("distilbert.", config.architecture() == Some("DistilBertModel"))
        .module("tokens", "distilbert.embeddings.word_embeddings")
        .module("encoder.token_types", "distilbert.embeddings.token_type_embeddings")
        .module("encoder.positions.table", "distilbert.embeddings.position_embeddings")
        .module("encoder.norm_input", "distilbert.embeddings.LayerNorm")
        .module("encoder.layers.*.attention.q", &layer("attention.q_lin"))
        .module("encoder.layers.*.attention.k", &layer("attention.k_lin"))
        .module("encoder.layers.*.attention.v", &layer("attention.v_lin"))
        .module("encoder.layers.*.attention.out", &layer("attention.out_lin"))
        .module("encoder.layers.*.norm_self", &layer("sa_layer_norm"))
        .module("encoder.layers.*.ffn.up", &layer("ffn.lin1"))
        .module("encoder.layers.*.ffn.down", &layer("ffn.lin2"))
        .module("encoder.layers.*.norm_ffn", &layer("output_layer_norm"));
    let names = match spec.head {
        Head::Span => names.module("head.out", "qa_outputs"),
        Head::Classify { .. } | Head::Tag { .. } => {
            names.module("head.dense", "pre_classifier").module("head.out", "classifier")
        }
        _ => names.module("head.dense", "vocab_transform").module("head.norm", "vocab_layer_norm"),
    };
    names
        .exact("head.bias", "vocab_projector.bias")
        .ignore("vocab_projector.weight", "tied to the token embeddings")
        .ignore("vocab_*", "this head does without it")
        .ignore("*embeddings.position_ids", "a list of numbers that is computed")
}
