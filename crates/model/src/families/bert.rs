//! BERT (Devlin et al. 2018): a post-normed encoder with two types of tokens.
//!
//! Quirks: the norm's ε is 1e-12. The masked-language head has a dense layer, an activation and a norm of its own before
//! the tied vocabulary. The pooler (dense and tanh on the first token) belongs to the network without a head and to the
//! classifier; the other heads do without. Very old files say gamma and beta for a norm's weight and bias. Files of the
//! bare network leave the prefix `bert.` out.

use super::gguf::{self, Dialect, Keys, Writer};
use super::{Config, Files, HeadKind, Sheet, config, name_labels};
use super::{Framing, LinearLayout, Pieces, Sizes, TextStart, TokenizerShape, Tokenizing};
use crate::Result;
use crate::presets;
use crate::spec::{Dropout, Head, InitScheme, Input, Place, Pool, Position, Shape, Spec, Stack};
use qkv_kernels::Activation;
use qkv_nn::{Ffn, NormKind};
use qkv_weights::{Names, Value};

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "bert",
    model_types: &["bert"],
    architectures: &[
        ("BertForMaskedLM", HeadKind::Masked),
        ("BertModel", HeadKind::Base),
        ("BertForPreTraining", HeadKind::Masked),
        ("BertForSequenceClassification", HeadKind::Classify),
        ("BertForTokenClassification", HeadKind::Tag),
        ("BertForQuestionAnswering", HeadKind::Answer),
    ],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Tanh),
    framing: Framing::ClsSep { token_types: true },
    text_start: TextStart::Nothing,
    target_start: None,
    tokenizer: Some(Tokenizing { pieces: Pieces::WordPiece, shape: TokenizerShape::ClsSep }),
    linear: LinearLayout::OutIn,
    gguf: Some(GGUF),
};

fn read(config: &Config, files: &Files) -> Result<Spec> {
    let token_types = config.count_or("type_vocab_size", 2)?;
    let max = config.count_or("max_position_embeddings", 512)?;
    let position = Position::Learned { max, offset: 0, padding_id: None, place: Place::Input };
    let act = config.activation_or("hidden_act", "gelu")?;
    let head = match SHEET.task(config)? {
        HeadKind::Masked | HeadKind::Language => Head::Masked { act },
        task => head(config, task, Pool::Dense(Activation::Tanh), files.has("pooler.dense.weight"))?,
    };
    read_encoder(config, token_types, position, head)
}

/// What BERT and RoBERTa have in common.
pub(super) fn read_encoder(config: &Config, token_types: usize, position: Position, head: Head) -> Result<Spec> {
    config.only("is_decoder", false)?;
    config.only("add_cross_attention", false)?;
    config.only("position_embedding_type", "absolute")?;
    config.only("chunk_size_feed_forward", 0)?;
    let width = config.count_or("hidden_size", 768)?;
    let act = config.activation_or("hidden_act", "gelu")?;
    let inner = config.count_or("intermediate_size", 3072)?;
    let stack =
        Stack::new(config.count_or("num_hidden_layers", 12)?, config.count_or("num_attention_heads", 12)?, inner, act);
    let vocabulary = config.count_or("vocab_size", 30_522)?;
    let hidden = config.number_or("hidden_dropout_prob", 0.1)?;
    Ok(Spec {
        input: Input::Tokens {
            vocabulary,
            table_width: None,
            token_types,
            scaled: false,
            normed: true,
            pad: config.id("pad_token_id"),
        },
        shape: Shape::Encoder(stack),
        norm: NormKind::Layer { eps: config.number_or("layer_norm_eps", 1e-12)? },
        position,
        head,
        dropout: Dropout {
            attention: config.number_or("attention_probs_dropout_prob", 0.1)?,
            head: config.number_or("classifier_dropout", hidden)?,
            ..Dropout::residual(hidden)
        },
        init: InitScheme::Normal { std: config.number_or("initializer_range", 0.02)? },
        ..presets::bert(vocabulary, width, 1, 1, 1)
    })
}

/// A new BERT of these sizes.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    sizes.no_kv_heads(SHEET.name)?;
    Ok(encoder(sizes))
}

/// What new BERTs, RoBERTas and DistilBERTs have in common.
pub(super) fn encoder(sizes: &Sizes) -> Spec {
    let Sizes { vocabulary, width, layers, heads, positions, .. } = *sizes;
    let spec = presets::bert(vocabulary, width, layers, heads, positions);
    sizes.padded(sizes.widened(Spec { dropout: sizes.everywhere(), init: sizes.normal(), ..spec }))
}

/// The heads that all encoders have, with `pool` before a classifier.
pub(super) fn head(config: &Config, task: HeadKind, pool: Pool, has_pooler: bool) -> Result<Head> {
    Ok(match task {
        HeadKind::Classify => Head::Classify { labels: config.label_count()?, pool },
        HeadKind::Tag => Head::Tag { labels: config.label_count()? },
        HeadKind::Answer => Head::Span,
        _ if has_pooler => Head::Pool,
        _ => Head::None,
    })
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    write_encoder(spec, config)?;
    if let Position::Learned { max, .. } = spec.position {
        config.set("max_position_embeddings", max);
    }
    Ok(())
}

pub(super) fn write_encoder(spec: &Spec, config: &mut Config) -> Result<()> {
    if let Input::Tokens { vocabulary, token_types, pad, .. } = spec.input {
        config.pad(pad);
        config.set("vocab_size", vocabulary);
        config.set("type_vocab_size", token_types);
    }
    write_sizes(spec, config);
    let Dropout { hidden, attention, head, .. } = spec.dropout;
    config.set("hidden_dropout_prob", hidden);
    config.set("attention_probs_dropout_prob", attention);
    match head == hidden {
        true => config.remove("classifier_dropout"),
        false => config.set("classifier_dropout", head),
    }
    Ok(())
}

/// Width, layers, heads, inner width, activation, ε, start and labels, in the words that BERT, RoBERTa and ViT share.
pub(super) fn write_sizes(spec: &Spec, config: &mut Config) {
    config.set("hidden_size", spec.width);
    if let Some(stack) = spec.encoder() {
        config.set("num_hidden_layers", stack.layers);
        config.set("num_attention_heads", stack.heads);
        config.set("intermediate_size", stack.ffn.inner());
        if let Ffn::Dense { act, .. } = stack.ffn {
            config.set("hidden_act", config::activation_name(act));
        }
    }
    if let NormKind::Layer { eps } = spec.norm {
        config.set("layer_norm_eps", eps);
    }
    if let InitScheme::Normal { std } = spec.init {
        config.set("initializer_range", std);
    }
    if let Head::Classify { labels, .. } | Head::Tag { labels } = spec.head {
        name_labels(config, labels);
    }
}

fn names(spec: &Spec, config: &Config) -> Names {
    let names = embeddings_and_layers("bert.").under("bert.", config.architecture() == Some("BertModel"));
    let names = match spec.head {
        Head::Classify { .. } | Head::Pool => names.module("head.dense", "bert.pooler.dense"),
        _ => names
            .module("head.dense", "cls.predictions.transform.dense")
            .module("head.norm", "cls.predictions.transform.LayerNorm")
            .ignore("bert.pooler.*", "this head does without the pooler"),
    };
    let out = if spec.head == Head::Span { "qa_outputs" } else { "classifier" };
    names
        .module("head.out", out)
        .exact("head.bias", "cls.predictions.bias")
        .also("cls.predictions.decoder.bias")
        .ignore("cls.predictions.decoder.*", "tied to the token embeddings")
        .ignore("cls.*", "this head does without it")
        .ignore("*embeddings.position_ids", "a list of numbers that is computed")
        .ignore("*embeddings.token_type_ids", "a list of numbers that is computed")
}

/// The rows of BERT's and RoBERTa's embeddings and layers.
pub(super) fn embeddings_and_layers(prefix: &str) -> Names {
    let layer = |rest: &str| format!("{prefix}encoder.layer.*.{rest}");
    Names::new()
        .module("tokens", &format!("{prefix}embeddings.word_embeddings"))
        .module("encoder.token_types", &format!("{prefix}embeddings.token_type_embeddings"))
        .module("encoder.positions.table", &format!("{prefix}embeddings.position_embeddings"))
        .module("encoder.norm_input", &format!("{prefix}embeddings.LayerNorm"))
        .module("encoder.layers.*.attention.q", &layer("attention.self.query"))
        .module("encoder.layers.*.attention.k", &layer("attention.self.key"))
        .module("encoder.layers.*.attention.v", &layer("attention.self.value"))
        .module("encoder.layers.*.attention.out", &layer("attention.output.dense"))
        .module("encoder.layers.*.norm_self", &layer("attention.output.LayerNorm"))
        .module("encoder.layers.*.ffn.up", &layer("intermediate.dense"))
        .module("encoder.layers.*.ffn.down", &layer("output.dense"))
        .module("encoder.layers.*.norm_ffn", &layer("output.LayerNorm"))
}

const GGUF: Dialect = Dialect { name: "bert", read: from_gguf, write: to_gguf, names: gguf_names };

fn from_gguf(keys: &Keys, config: &mut Config) -> Result<()> {
    config.set("architectures", vec!["BertModel"]);
    config.set("hidden_size", keys.count("embedding_length")?);
    config.set("intermediate_size", keys.count("feed_forward_length")?);
    config.set("num_hidden_layers", keys.count("block_count")?);
    config.set("num_attention_heads", keys.count("attention.head_count")?);
    config.set("max_position_embeddings", keys.count("context_length")?);
    config.set("layer_norm_eps", keys.number("attention.layer_norm_epsilon")?);
    config.set("type_vocab_size", keys.general(TOKEN_TYPES).and_then(Value::as_i64).unwrap_or(2));
    Ok(())
}

const TOKEN_TYPES: &str = "tokenizer.ggml.token_type_count";

/// BERT comes without its pooler and heads.
fn to_gguf(spec: &Spec, to: &mut Writer) -> Result<()> {
    if !matches!(spec.position, Position::Learned { offset: 0, .. }) {
        return to.refuse("these positions");
    }
    if !matches!(spec.head, Head::None | Head::Pool) {
        return to.refuse("a head");
    }
    to.set("bert.attention.causal", Value::Bool(false));
    if let Input::Tokens { token_types, .. } = spec.input {
        to.set(TOKEN_TYPES, Value::U32(token_types as u32));
    }
    Ok(())
}

fn gguf_names(_: &Spec) -> Names {
    gguf::layers("encoder")
        .module("encoder.layers.*.norm_self", "blk.*.attn_output_norm")
        .module("encoder.layers.*.norm_ffn", "blk.*.layer_output_norm")
        .module("encoder.token_types", "token_types")
        .module("encoder.positions.table", "position_embd")
        .module("encoder.norm_input", "token_embd_norm")
        .module("encoder.layers.*.attention.q", "blk.*.attn_q")
        .module("encoder.layers.*.attention.k", "blk.*.attn_k")
        .module("encoder.layers.*.attention.v", "blk.*.attn_v")
        .module("head.dense", "cls")
}
