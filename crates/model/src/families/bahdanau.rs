//! Gated units with additive attention (Bahdanau et al. 2015): the writer looks back at the source before each word.
//! Everything else is shared by the recurrent pairs: see `recurrent_pair.rs`.

use super::recurrent_pair::{self, WRITES, new, read};
use super::{Files, Sheet};
use crate::spec::Handover;
use qkv_kernels::RecurrentCell;

/// The family.
pub const SHEET: Sheet = Sheet {
    name: "qkv-bahdanau",
    model_types: &["qkv-bahdanau", "bahdanau"],
    architectures: &[("BahdanauForConditionalGeneration", WRITES)],
    read: |config, _: &Files| read(RecurrentCell::Gru, Handover::Attention, config),
    sizes: |sizes| new(RecurrentCell::Gru, Handover::Attention, SHEET.name, sizes),
    ..recurrent_pair::SHEET
};
