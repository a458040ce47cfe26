//! What a run costs, told before it is begun and checked when it has ended.
//!
//! | part | how it is known |
//! |---|---|
//! | parameters, operations | counted from the network and its batches |
//! | memory | counted ([`Need`](crate::memory::Need)), and seen in the measurement |
//! | time | [`Measured`]: real steps, looks, a checkpoint and a part of the judging, each done once or for two seconds |
//! | what fits in a time | [`budget`]: the most steps whose [`Forecast`] is within it; on request width and depth, too |
//! | several machines | [`links`]: the paper model of a ring |

pub mod budget;
pub mod forecast;
mod judging;
pub mod links;
pub mod measure;

pub use budget::TimeBudget;
pub use forecast::{CostCheck, CostPart, Forecast};
pub use links::{Efficiency, NetworkLink, efficiency};
pub use measure::{Measured, measure};
