//! One look for everything that qkv draws: the report of a run, the trace of a chain, the tree of a search, a comparison, a
//! page of `explain` and what `see` sees are the same file with different contents.
//!
//! | file | holds |
//! |---|---|
//! | `frame` | head, policy, colours, type, header and footer of every page |
//! | `table` | tables that scroll by themselves where the window is narrow |
//! | `chart` | curves, in a page or as a picture of their own |
//! | `run` | the report of a run |
//!
//! It stands low, on the names of numbers alone, so that whoever has something to show can reach it: a decoder as well as a
//! run. Pages are built from text and from pieces of HTML that this crate made; text is always escaped here.

mod chart;
mod frame;
mod run;
mod table;

pub use chart::{Chart, Scale, Series};
pub use frame::{Frame, prose};
pub use run::{Report, Sample};
pub use table::{Shown, Table, scrolling, table};
