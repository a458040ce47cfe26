//! Recurrent layers in a spec: which cells, in which direction, and in a pair what is handed from one side to the other.

use super::{Spec, Stack};
use qkv_kernels::RecurrentCell;
use qkv_nn::recurrent::Ways;

/// What recurrent layers are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrence {
    /// which cell
    pub cell: RecurrentCell,
    /// in which direction a layer reads; both ways, each has half of the width
    pub ways: Ways,
    /// in a pair: what the encoder hands to the decoder
    pub handover: Option<Handover>,
    /// in the place of cells that carry a state: one layer over the last so many inputs (Bengio et al. 2003)
    pub window: Option<usize>,
}

/// What the recurrent encoder of a pair hands to the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// its last state, which the decoder begins with (Sutskever et al. 2014)
    State,
    /// all its outputs, which the decoder looks at before each step (Bahdanau et al. 2015)
    Attention,
}

impl Spec {
    /// The stack of recurrent layers and what they are made of, if the network has such.
    pub fn recurrence(&self) -> Option<(&Stack, Recurrence)> {
        [self.decoder(), self.encoder()].into_iter().flatten().find_map(|stack| Some((stack, stack.recurrent?)))
    }
}
