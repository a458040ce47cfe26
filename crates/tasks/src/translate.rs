//! Translating, and every other way to write one text from another: a beam of 4 unless something else is said, by the
//! person or by the model.

use crate::TextModel;
use crate::chain::{BeamOptions, ChainOptions};
use crate::generate::{Generation, Search};
use qkv_base::{Error, Result};
use qkv_decode::Pick;

/// The request that translates: what `qkv translate` does, and what a translation is judged by.
pub fn translation<'a>(model: &'a TextModel, chain: &ChainOptions, beam: &BeamOptions) -> Result<Generation<'a>> {
    if !model.is_pair() {
        let hint = "use `qkv generate`, or choose a model with an encoder and a decoder, such as t5, bart or marian";
        return Err(Error::new(model.path.display().to_string(), "this model does not read a source", hint));
    }
    let chain = chain.chain(&model.defaults)?;
    let drawn = chain.pick != Pick::Greedy;
    let search = match beam.search(model, if drawn { 1 } else { 4 })? {
        Some(_) if drawn => {
            let what = format!("a beam compares, but `{}` draws at random", chain.pick);
            return Err(Error::new("beam", what, "leave out --beam, or let the chain end in `greedy`"));
        }
        Some(beam) => Search::Beam(beam),
        None => Search::Sample { n: 1 },
    };
    Ok(Generation { otherwise: 256, ..Generation::by(model, chain, search)? })
}
