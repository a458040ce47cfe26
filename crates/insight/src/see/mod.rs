//! What a model does with a text or a picture of one's own.
//!
//! | file | holds |
//! |---|---|
//! | `given` | what is looked at: text, ids or a picture, checked against the model |
//! | `look` | one pass with everything it computes: maps, hidden states, scores |
//! | `heads` | numbers for each head, and attention rollout |
//! | `lens` | what each layer would say, and how surprised the model is by each token |
//! | `gradients` | which tokens the answer hangs on: input × gradient, integrated gradients |
//! | `scores` | how one score came about, feature by feature |
//! | `pca` | hidden states in two dimensions, layer by layer |
//! | `view` | which of these are wanted, as tables and grids |
//! | `through` | the same text through the checkpoints of a run |
//! | `heat` | grids in a terminal |
//! | `svg` | grids and points for a paper |
//! | `html` | everything in one file |
//!
//! Attention maps show where a head looks, not why the model answers as it does (Jain and Wallace 2019); the views say so
//! where they are drawn.

pub mod given;
pub mod gradients;
pub mod heads;
pub mod heat;
pub mod html;
pub mod lens;
pub mod look;
pub mod pca;
pub mod scores;
pub mod svg;
pub mod through;
pub mod view;

pub use given::{Ask, Given};
pub use look::{Grid, Look, Maps};
pub use view::{Seen, View, see};

/// What stands beside every picture of attention.
pub const CAUTION: &str = "Attention shows where a head looks, not why the model answers as it does.";
