//! Choosing tokens: chains of transforms, picks and searches.

pub mod chain;
pub mod pick;
mod preset;
mod row;
pub mod trace;
pub mod transform;

pub use chain::Chain;
pub use pick::{Pick, PickState, Picked};
pub use preset::Preset;
pub use row::{Row, Scale};
pub use transform::{Said, Step, Transform};
