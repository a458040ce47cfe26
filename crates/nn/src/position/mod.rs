//! Positions: attention itself does not know the order of its tokens, so it must be told.
//!
//! | scheme | idea | file |
//! |---|---|---|
//! | sinusoidal | add fixed waves of many lengths | [`sinusoidal`] |
//! | learned | add a learned vector per position | [`learned`] |
//! | relative | add a learned number per distance to the scores | [`relative`] |
//! | rotary | turn queries and keys by an angle per position | [`rotary`] |
//! | ALiBi | subtract a slope times the distance from the scores | [`mod@alibi`] |

pub mod alibi;
pub mod learned;
pub mod relative;
pub mod rotary;
pub mod sinusoidal;

pub use alibi::{alibi, alibi_at};
pub use learned::Learned;
pub use relative::{Buckets, Relative};
pub use rotary::{RopeScaling, Rotary};
pub use sinusoidal::{Sinusoidal, Waves};
