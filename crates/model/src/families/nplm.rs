//! The neural probabilistic language model (Bengio et al. 2003): a table of words, the vectors of the last n of them one behind
//! the other, one layer with tanh, and a score for each word. The first network that learnt words as vectors, and the last
//! before networks carried a state: beyond n words it knows nothing.
//!
//! Quirks: nobody else's files are like these (`model_type: "qkv-nplm"`); the parameters are those of `nn.Embedding` and two
//! `nn.Linear`. Table and layer are equally wide. The paper's direct connections from the table to the scores are left out; the
//! paper itself found them to help little.

use super::recurrent::{self, refuse_sizes, spec};
use super::{Config, Files, HeadKind, Sheet, Sizes};
use crate::Result;
use crate::spec::{Recurrence, Shape, Spec, Stack};
use qkv_kernels::RecurrentCell;
use qkv_nn::recurrent::Ways;
use qkv_weights::Names;

/// Words that are seen where a recipe does not say: two before the last.
const WINDOW: usize = 3;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "qkv-nplm",
    model_types: &["qkv-nplm", "nplm"],
    architectures: &[("NplmForCausalLM", HeadKind::Language)],
    read,
    write,
    names,
    sizes,
    ..recurrent::SHEET
};

fn of_window(spec: Spec, window: usize) -> Spec {
    let Shape::Decoder(stack) = spec.shape else { return spec };
    let cells = Recurrence { cell: RecurrentCell::Rnn, ways: Ways::Forward, handover: None, window: Some(window) };
    Spec { shape: Shape::Decoder(Stack { recurrent: Some(cells), ..stack }), ..spec }
}

fn read(config: &Config, _: &Files) -> Result<Spec> {
    SHEET.task(config)?;
    config.only("num_layers", 1)?;
    let (vocabulary, width) = (config.count_or("vocab_size", 0)?, config.count_or("hidden_size", 128)?);
    let plain = spec(RecurrentCell::Rnn, vocabulary, width, 1, Ways::Forward, config.number_or("dropout", 0.0)?);
    let head = recurrent::output(config, plain.head.clone())?;
    Ok(Spec { head, ..of_window(plain, config.count_or("window", WINDOW)?) })
}

fn sizes(sizes: &Sizes) -> Result<Spec> {
    refuse_sizes("nplm", &Sizes { window: None, ..*sizes })?;
    if sizes.layers != 1 {
        let what = format!("an nplm has one layer, not {}", sizes.layers);
        return Err(crate::Error::new("model.layers", what, "set it to 1"));
    }
    let plain = spec(RecurrentCell::Rnn, sizes.vocabulary, sizes.width, 1, Ways::Forward, sizes.dropout);
    Ok(of_window(plain, sizes.window.unwrap_or(WINDOW)))
}

fn write(spec: &Spec, config: &mut Config) -> Result<()> {
    let cells = recurrent::write_shared(spec, config)?;
    config.set("window", cells.window.unwrap_or(WINDOW));
    Ok(())
}

fn names(_: &Spec, _: &Config) -> Names {
    Names::new().module("tokens", "embedding").module("decoder.fixed.hidden", "hidden").module("head.out", "output")
}
