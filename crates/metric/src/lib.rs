//! Scores equal to the field's reference tools, and the ways to show them: BLEU, chrF and TER as sacreBLEU, ROUGE as
//! rouge-score, entity F1 as seqeval, exact match as SQuAD's script; intervals and paired tests; a TensorBoard file, a
//! live line for the terminal.
//!
//! Nothing here knows a tensor: strings and counts go in, numbers and strings come out.
//!
//! ```
//! use qkv_metric::{Additive, Bleu};
//! let said = ["the cat sat on the mat ."];
//! let references = [vec!["the cat sat on the mat ."]];
//! assert!((Bleu::default().corpus(&said, &references)?.score - 100.0).abs() < 1e-9);
//! # Ok::<(), qkv_base::Error>(())
//! ```

mod additive;
mod bleu;
mod bootstrap;
mod chrf;
mod classify;
mod entities;
mod live;
mod markup;
mod perplexity;
mod porter;
mod program;
mod rouge;
mod squad;
mod ter;
mod tercom;
mod tfevents;
mod tokenize;
mod words;

pub use additive::{Additive, LetterCase, References, Resampling};
pub use bleu::{Bleu, BleuScore, Smooth};
pub use bootstrap::{Comparison, Interval, compare, interval};
pub use chrf::{Chrf, ChrfScore};
pub use classify::{Averages, Classification, Confusion, LabelScore};
pub use entities::{EntityScores, Scheme, Span, entities, score_entities};
pub use live::{Eta, Status, curve, human_bytes, human_count, human_duration, human_number};
pub use markup::{Closed, nests};
pub use perplexity::Perplexity;
pub use porter::stem;
pub use program::{INPUTS, Program, programs_that_run};
pub use rouge::{Rouge, RougeKind, RougeScore};
pub use squad::{AnswerScores, Answered, SquadScore, SquadVersion, normalise_answer, score_answer, score_answers};
pub use ter::{Ter, TerScore};
pub use tfevents::{Event, EventFile, Recorded, read_events};
pub use tokenize::Tokenize;
