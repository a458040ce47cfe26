//! Marian (Junczys-Dowmunt et al. 2018), the translation models of OPUS-MT: the 2017 paper's network, with one table for
//! source, target and output.
//!
//! Quirks: sinusoidal positions with all sines first, computed and not in the file (old files carry them). Embeddings
//! are scaled by √C and not normed. The output bias is in every file but is not learned. There is no start token: the
//! decoder starts with padding.

use super::{Config, Files, HeadKind, Sheet, bart};
use super::{Framing, LinearLayout, Pieces, Sizes, TargetStart, TextStart, TokenizerShape, Tokenizing};
use crate::Result;
use crate::presets;
use crate::spec::{Dropout, Head, InitScheme, Output, Pool, Position, Spec};
use qkv_kernels::Activation;
use qkv_nn::position::Waves;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "marian",
    model_types: &["marian"],
    architectures: &[("MarianMTModel", HeadKind::Language), ("MarianModel", HeadKind::Base)],
    read,
    write,
    names: bart::names,
    sizes,
    pool: Pool::Dense(Activation::Tanh),
    framing: Framing::Ended,
    text_start: TextStart::Nothing,
    target_start: Some(TargetStart::Pad),
    tokenizer: Some(Tokenizing { pieces: Pieces::Unigram, shape: TokenizerShape::Ended }),
    linear: LinearLayout::OutIn,
    gguf: None,
};

fn read(config: &Config, _: &Files) -> Result<Spec> {
    config.only("share_encoder_decoder_embeddings", true)?;
    config.only("normalize_before", false)?;
    config.only("normalize_embedding", false)?;
    config.only("add_final_layer_norm", false)?;
    if let (Some(source), Some(target)) = (config.maybe_count("vocab_size")?, config.maybe_count("decoder_vocab_size")?)
        && source != target
    {
        let what = format!("{target} target words for {source} source words: two vocabularies are not supported");
        return Err(config.error("decoder_vocab_size", what, "use a model with a shared vocabulary"));
    }
    let position =
        Position::Sinusoidal { max: config.count_or("max_position_embeddings", 1024)?, waves: Waves::Halves };
    let spec = bart::read_pair(config, &SHEET, position, false, "gelu")?;
    // The paper's start, which a checkpoint of ours remembers; Marian's own knows a deviation only.
    Ok(match config.word("qkv_start")? {
        Some("xavier") => Spec { init: InitScheme::Xavier, ..spec },
        _ => spec,
    })
}

/// A new Marian, which is the 2017 paper's network with an output bias.
fn sizes(sizes: &Sizes) -> Result<Spec> {
    sizes.of_text(SHEET.name)?;
    sizes.no_kv_heads(SHEET.name)?;
    let Sizes { vocabulary, width, layers, heads, positions, dropout, .. } = *sizes;
    Ok(sizes.padded(Spec {
        // Waves cost nothing, so there are enough for texts longer than those it learns from.
        position: Position::Sinusoidal { max: positions.max(512), waves: Waves::Halves },
        head: Head::Language { output: Output::Tied, bias: true },
        dropout: Dropout::residual(dropout),
        init: sizes.normal(),
        ..presets::paper(vocabulary, width, layers, heads, sizes.inner())
    }))
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    bart::write(spec, config)?;
    config.set("share_encoder_decoder_embeddings", true);
    config.set("decoder_vocab_size", spec.vocabulary().unwrap_or(0));
    match spec.init {
        InitScheme::Xavier => config.set("qkv_start", "xavier"),
        _ => config.remove("qkv_start"),
    }
    Ok(())
}
