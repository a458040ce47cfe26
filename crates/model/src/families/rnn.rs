//! Plain recurrent networks (Elman 1990): `h′ = tanh(Wₓx + Wₕh)`. What they cannot keep is the reason for the other two.
//! Everything else is shared by the recurrent families: see `recurrent.rs`.

use super::recurrent::{self, new, read};
use super::{Files, HeadKind, Sheet};
use qkv_kernels::RecurrentCell;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "qkv-rnn",
    model_types: &["qkv-rnn", "rnn"],
    architectures: &[
        ("RnnForCausalLM", HeadKind::Language),
        ("RnnForSequenceClassification", HeadKind::Classify),
        ("RnnForTokenClassification", HeadKind::Tag),
    ],
    read: |config, _: &Files| read(&SHEET, RecurrentCell::Rnn, config),
    sizes: |sizes| new(RecurrentCell::Rnn, sizes),
    ..recurrent::SHEET
};
