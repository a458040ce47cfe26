//! Tasks: one sheet each, from what a person asks to what a network answers.
//!
//! A [`TextModel`] is a network with everything that stands beside it on disk: tokenizer, labels, pixels, defaults. Each
//! file here holds the [`sheet`] of a task (head, rows, scores) and says how it is asked. The verbs, the library, the judge and the server call the same functions, so
//! that what is trained, what is asked and what is judged cannot disagree.
//!
//! | file | asks | answers |
//! |---|---|---|
//! | [`classify`] | a text, or two | every class with its probability |
//! | [`mod@zero_shot`] | a text and labels, of a language model | every label with its probability |
//! | [`tag`] | a text | words or entities with their label |
//! | [`answer`] | a question and a context | the parts of the context that answer |
//! | [`fill`] | a text with gaps | candidates for each gap |
//! | [`embed`] | texts | a vector each |
//! | [`image`] | pictures | every class with its probability |
//! | [`generate`] | prompts, or sources to translate | texts, by any search |
//! | [`translate`] | sources | texts, by a beam of 4 where nothing else is said |
//! | [`chat`] | a turn of a conversation | the next one |
//! | [`likelihood`] | a text | how probable each token was |

pub mod answer;
mod batches;
pub mod chain;
pub mod chat;
pub mod classify;
pub mod denoise;
pub mod embed;
pub mod fill;
pub mod generate;
pub mod image;
mod judge;
pub mod language;
pub mod likelihood;
pub mod locate;
mod look;
mod metric;
mod model;
mod named_checkpoint;
pub mod sentence_files;
pub mod sheet;
pub mod tag;
pub mod translate;
pub mod zero_shot;

pub use batches::{Listener, Silent};
pub use judge::{Judge, Writing};
pub use metric::{Judged, Metric, Scores};
pub use model::{TextModel, tokenizer, vocabulary};
pub use sheet::{ObjectiveParts, TaskSheet};
