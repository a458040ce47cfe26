//! RoBERTa (Liu et al. 2019): BERT's network, trained better.
//!
//! Quirks: position numbers begin at `pad_token_id + 1`, tokens that are padding are not counted, and all padding takes
//! the row `pad_token_id`; so a table of 514 rows has room for 512 tokens. There is one token type. The classifier has
//! a dense layer and tanh of its own instead of BERT's pooler, and the masked head always uses the exact GELU.

use super::{Config, Files, HeadKind, Sheet, bert};
use super::{Framing, LinearLayout, Pieces, Sizes, TextStart, TokenizerShape, Tokenizing};
use crate::Result;
use crate::spec::{Head, Input, Place, Pool, Position, Spec};
use qkv_kernels::Activation;
use qkv_weights::Names;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "roberta",
    model_types: &["roberta", "xlm-roberta"],
    architectures: &[
        ("RobertaForMaskedLM", HeadKind::Masked),
        ("RobertaModel", HeadKind::Base),
        ("RobertaForSequenceClassification", HeadKind::Classify),
        ("RobertaForTokenClassification", HeadKind::Tag),
        ("RobertaForQuestionAnswering", HeadKind::Answer),
        ("XLMRobertaForMaskedLM", HeadKind::Masked),
        ("XLMRobertaModel", HeadKind::Base),
        ("XLMRobertaForSequenceClassification", HeadKind::Classify),
        ("XLMRobertaForTokenClassification", HeadKind::Tag),
        ("XLMRobertaForQuestionAnswering", HeadKind::Answer),
    ],
    read,
    write,
    names,
    sizes,
    pool: Pool::Dense(Activation::Tanh),
    framing: Framing::SeparatedTwice,
    text_start: TextStart::Nothing,
    target_start: None,
    tokenizer: Some(Tokenizing { pieces: Pieces::Bpe, shape: TokenizerShape::Listed(SPECIAL) }),
    linear: LinearLayout::OutIn,
    gguf: None,
};

fn read(config: &Config, files: &Files) -> Result<Spec> {
    let pad = config.id("pad_token_id").unwrap_or(1);
    let offset = pad as usize + 1;
    let rows = config.count_or("max_position_embeddings", 514)?;
    let Some(max) = rows.checked_sub(offset).filter(|max| *max > 0) else {
        let what = format!("{rows} rows leave no position behind padding's row {pad}");
        return Err(config.error("max_position_embeddings", what, "use more rows"));
    };
    let position = Position::Learned { max, offset, padding_id: Some(pad), place: Place::Input };
    let head = match SHEET.task(config)? {
        HeadKind::Masked | HeadKind::Language => Head::Masked { act: Activation::Gelu },
        task => bert::head(config, task, Pool::Dense(Activation::Tanh), files.has("pooler.dense.weight"))?,
    };
    bert::read_encoder(config, config.count_or("type_vocab_size", 1)?, position, head)
}

/// A new RoBERTa: its tokenizer's padding says where positions begin.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    sizes.no_kv_heads(SHEET.name)?;
    let pad = sizes.pad.unwrap_or(1);
    let offset = pad as usize + 1;
    let position = Position::Learned { max: sizes.positions, offset, padding_id: Some(pad), place: Place::Input };
    let mut spec = Spec { position, ..bert::encoder(&Sizes { pad: Some(pad), ..*sizes }) };
    if let Input::Tokens { token_types, .. } = &mut spec.input {
        *token_types = 1;
    }
    Ok(spec)
}

/// RoBERTa's and BART's special tokens, in their order.
pub(super) const SPECIAL: &[&str] = &["<s>", "<pad>", "</s>", "<unk>", "<mask>"];

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    bert::write_encoder(spec, config)?;
    if let Position::Learned { max, offset, padding_id, .. } = spec.position {
        config.set("max_position_embeddings", max + offset);
        if let Some(pad) = padding_id {
            config.set("pad_token_id", pad);
        }
    }
    Ok(())
}

fn names(spec: &Spec, config: &Config) -> Names {
    let bare = matches!(config.architecture(), Some("RobertaModel" | "XLMRobertaModel"));
    let names = bert::embeddings_and_layers("roberta.").under("roberta.", bare);
    let names = match spec.head {
        Head::Pool => names.module("head.dense", "roberta.pooler.dense"),
        Head::Classify { .. } => {
            names.module("head.dense", "classifier.dense").module("head.out", "classifier.out_proj")
        }
        Head::Span => names.module("head.out", "qa_outputs"),
        Head::Tag { .. } => names.module("head.out", "classifier"),
        _ => names.module("head.dense", "lm_head.dense").module("head.norm", "lm_head.layer_norm"),
    };
    names
        .exact("head.bias", "lm_head.bias")
        .also("lm_head.decoder.bias")
        .ignore("lm_head.decoder.*", "tied to the token embeddings")
        .ignore("lm_head.*", "this head does without it")
        .ignore("roberta.pooler.*", "this head does without the pooler")
        .ignore("*embeddings.position_ids", "a list of numbers that is computed")
        .ignore("*embeddings.token_type_ids", "a list of numbers that is computed")
}
