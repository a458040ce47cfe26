//! Two LSTMs (Sutskever et al. 2014): the state behind the source is all that the writer knows of it.
//! Everything else is shared by the recurrent pairs: see `recurrent_pair.rs`.

use super::recurrent_pair::{self, WRITES, new, read};
use super::{Files, Sheet};
use crate::spec::Handover;
use qkv_kernels::RecurrentCell;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "qkv-seq2seq",
    model_types: &["qkv-seq2seq", "seq2seq"],
    architectures: &[("Seq2SeqForConditionalGeneration", WRITES)],
    read: |config, _: &Files| read(RecurrentCell::Lstm, Handover::State, config),
    sizes: |sizes| new(RecurrentCell::Lstm, Handover::State, SHEET.name, sizes),
    ..recurrent_pair::SHEET
};
