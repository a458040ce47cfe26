//! Long short-term memory (Hochreiter and Schmidhuber 1997): three gates around a cell that is only added to.
//! Everything else is shared by the recurrent families: see `recurrent.rs`.

use super::recurrent::{self, new, read};
use super::{Files, HeadKind, Sheet};
use qkv_kernels::RecurrentCell;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "qkv-lstm",
    model_types: &["qkv-lstm", "lstm"],
    architectures: &[
        ("LstmForCausalLM", HeadKind::Language),
        ("LstmForSequenceClassification", HeadKind::Classify),
        ("LstmForTokenClassification", HeadKind::Tag),
    ],
    read: |config, _: &Files| read(&SHEET, RecurrentCell::Lstm, config),
    sizes: |sizes| new(RecurrentCell::Lstm, sizes),
    ..recurrent::SHEET
};
