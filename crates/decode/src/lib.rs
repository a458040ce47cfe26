//! Choosing tokens: chains of transforms, picks and searches.
//!
//! An [`Engine`] takes [`Request`]s through a [`Decoder`], one token at each step; a [`Search`] decides which continuations come
//! out; a [`Chain`] bends each row of logits on the way; [`score`](fn@score) tells how probable a text is; [`Defaults`] is what
//! a model directory says about it all.

mod adapted;
pub mod chain;
mod conflicts;
pub mod decoder;
mod defaults;
pub mod draft;
pub mod engine;
pub mod grammar;
pub mod pattern;
pub mod pick;
mod preset;
mod row;
pub mod schema;
pub mod score;
pub mod search;
mod stop;
mod text;
pub mod trace;
pub mod transform;

pub use adapted::Adapted;
pub use chain::Chain;
pub use decoder::{Decoder, Observe, PassInput, PassOutput, batch};
pub use defaults::Defaults;
pub use draft::Draft;
pub use engine::{Engine, EngineConfig, Finished, NewToken, PrefixCache, Request, RequestId, Stats, StepEvent};
pub use pick::{Pick, PickState, Picked};
pub use preset::Preset;
pub use row::{Row, Scale};
pub use score::{TextScore, TokenScore, align, hard, score, score_pair};
pub use search::{Beam, Constraint, Contrastive, EarlyStopping, LengthPenalty, Search, SearchTrace, Sequence, Tree};
pub use stop::{End, StopText};
pub use text::{Detokenizer, TextStream};
pub use transform::{History, Step, Transform};
