//! ELECTRA (Clark et al. 2020): BERT's network over tables that may be narrower than it, pre-trained as a pair: a small
//! generator guesses hidden tokens, and the discriminator tells for every token whether it was replaced by a guess.
//!
//! Quirks: a layer leads from the width of the tables to that of the network, where they differ, behind the embeddings'
//! norm. There is no pooler: the classifier has a dense layer of its own, with GELU where BERT has tanh. The generator's
//! head goes back to the width of the table before it asks the vocabulary, and its GELU is always the exact one. The
//! discriminator's logits have one number for each token.

use super::bert;
use super::{
    Config, Files, Framing, HeadKind, LinearLayout, Pieces, Sheet, Sizes, TextStart, TokenizerShape, Tokenizing,
};
use crate::Result;
use crate::spec::{Head, Input, Place, Pool, Position, Spec};
use qkv_kernels::Activation;
use qkv_weights::Names;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "electra",
    model_types: &["electra"],
    architectures: &[
        ("ElectraForPreTraining", HeadKind::Detect),
        ("ElectraForMaskedLM", HeadKind::Masked),
        ("ElectraModel", HeadKind::Base),
        ("ElectraForSequenceClassification", HeadKind::Classify),
        ("ElectraForTokenClassification", HeadKind::Tag),
        ("ElectraForQuestionAnswering", HeadKind::Answer),
    ],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Gelu),
    framing: Framing::ClsSep { token_types: true },
    text_start: TextStart::Nothing,
    target_start: None,
    tokenizer: Some(Tokenizing { pieces: Pieces::WordPiece, shape: TokenizerShape::ClsSep }),
    linear: LinearLayout::OutIn,
    gguf: None,
};

fn read(config: &Config, _: &Files) -> Result<Spec> {
    let token_types = config.count_or("type_vocab_size", 2)?;
    let max = config.count_or("max_position_embeddings", 512)?;
    let position = Position::Learned { max, offset: 0, padding_id: None, place: Place::Input };
    let head = match SHEET.task(config)? {
        HeadKind::Detect => Head::Detect { act: config.activation_or("hidden_act", "gelu")? },
        HeadKind::Masked => Head::Masked { act: Activation::Gelu },
        task => bert::head(config, task, SHEET.pool, false)?,
    };
    let mut spec = bert::read_encoder(&with_defaults(config), token_types, position, head)?;
    let table = config.count_or("embedding_size", 128)?;
    if let Input::Tokens { table_width, .. } = &mut spec.input {
        *table_width = (table != spec.width).then_some(table);
    }
    Ok(spec)
}

/// ELECTRA's sizes where a configuration leaves them out are those of the small one, not BERT's.
fn with_defaults(config: &Config) -> Config {
    let mut config = config.clone();
    for (key, small) in [("hidden_size", 256), ("intermediate_size", 1024), ("num_attention_heads", 4)] {
        if config.get(key).is_none() {
            config.set(key, small);
        }
    }
    config
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    bert::write_encoder(spec, config)?;
    config.set("embedding_size", spec.table_width());
    if let Some(max) = spec.position.max() {
        config.set("max_position_embeddings", max);
    }
    Ok(())
}

/// A new ELECTRA: a generator, over tables of half the width as in the small one.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    sizes.no_kv_heads(SHEET.name)?;
    let mut spec = bert::encoder(sizes);
    if let Input::Tokens { table_width, .. } = &mut spec.input {
        *table_width = Some((sizes.width / 2).max(1));
    }
    Ok(spec)
}

fn names(spec: &Spec, config: &Config) -> Names {
    let names = bert::embeddings_and_layers("electra.")
        .under("electra.", config.architecture() == Some("ElectraModel"))
        .module("encoder.project", "electra.embeddings_project");
    let names = match spec.head {
        Head::Detect { .. } => names
            .module("head.dense", "discriminator_predictions.dense")
            .module("head.out", "discriminator_predictions.dense_prediction"),
        Head::Classify { .. } => {
            names.module("head.dense", "classifier.dense").module("head.out", "classifier.out_proj")
        }
        Head::Span => names.module("head.out", "qa_outputs"),
        Head::Tag { .. } => names.module("head.out", "classifier"),
        _ => names
            .module("head.dense", "generator_predictions.dense")
            .module("head.norm", "generator_predictions.LayerNorm"),
    };
    names
        .exact("head.bias", "generator_lm_head.bias")
        .ignore("generator_lm_head.*", "tied to the token embeddings")
        .ignore("generator_predictions.*", "this head does without it")
        .ignore("discriminator_predictions.*", "this head does without it")
        .ignore("*embeddings.position_ids", "a list of numbers that is computed")
        .ignore("*embeddings.token_type_ids", "a list of numbers that is computed")
}
