//! Gated recurrent units (Cho et al. 2014): two gates decide what of the state is overwritten.
//! Everything else is shared by the recurrent families: see `recurrent.rs`.

use super::recurrent::{self, new, read};
use super::{Files, HeadKind, Sheet};
use qkv_kernels::RecurrentCell;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "qkv-gru",
    model_types: &["qkv-gru", "gru"],
    architectures: &[
        ("GruForCausalLM", HeadKind::Language),
        ("GruForSequenceClassification", HeadKind::Classify),
        ("GruForTokenClassification", HeadKind::Tag),
    ],
    read: |config, _: &Files| read(&SHEET, RecurrentCell::Gru, config),
    sizes: |sizes| new(RecurrentCell::Gru, sizes),
    ..recurrent::SHEET
};
