//! Marian (Junczys-Dowmunt et al. 2018), the translation models of OPUS-MT: the 2017 paper's network, with one table for
//! source, target and output.
//!
//! Quirks: sinusoidal positions with all sines first, computed and not in the file (old files carry them). Embeddings
//! are scaled by √C and not normed. The output bias is in every file but is not learned. There is no start token: the
//! decoder starts with padding.

use super::{Config, Files, Sheet, Task, bart};
use crate::Result;
use crate::spec::{InitScheme, Position, Spec};
use qkv_nn::position::Waves;

pub(super) const SHEET: Sheet = Sheet {
    name: "marian",
    model_types: &["marian"],
    architectures: &[("MarianMTModel", Task::Language), ("MarianModel", Task::Base)],
    read,
    write,
    names: bart::names,
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
