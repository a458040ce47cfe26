//! Choosing tokens: chains of transforms, picks and searches.
//!
//! An [`Engine`] reads prompts and says tokens; [`search`] decides which; a [`Chain`] bends each row of logits on the way;
//! [`score`](fn@score) tells how probable a text is; [`Defaults`] is what a model directory says about it all.

pub mod chain;
mod defaults;
pub mod engine;
pub mod pick;
mod preset;
mod row;
pub mod score;
pub mod search;
mod stop;
pub mod trace;
pub mod transform;

pub use chain::Chain;
pub use defaults::Defaults;
pub use engine::{Engine, Look, Network};
pub use pick::{Pick, PickState, Picked};
pub use preset::Preset;
pub use row::{Row, Scale};
pub use score::{TextScore, TokenScore, align, hard, score, score_pair};
pub use search::{Ask, Beam, Constraint, Contrastive, EarlyStopping, Heard, LengthPenalty, Said1, Sequence, Tree};
pub use stop::{End, StopText};
pub use transform::{History, Step, Transform};
