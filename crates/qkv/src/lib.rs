//! qkv: the Transformer, whole. Train, fine-tune, run and look inside BERT, GPT-2, LLaMA, T5, BART, Marian, ViT and their
//! relatives on your own machine, without Python and with nothing downloaded.
//!
//! # Ask a model
//!
//! [`Model::load`] takes a run of qkv, a Hugging Face directory, a GGUF file or an adapter, and answers every task with text
//! in and text out:
//!
//! ```no_run
//! use qkv::{Model, Translate};
//!
//! let model = Model::load("runs/translate")?;
//! for texts in model.translate(&["The king is reading a book."], &Translate::beam(4).n_best(2))? {
//!     println!("{}", texts[0].text);
//! }
//! # Ok::<(), qkv::Error>(())
//! ```
//!
//! # Write, as it comes
//!
//! ```no_run
//! # let model = qkv::Model::load("runs/gpt")?;
//! for piece in model.generate("Once upon a time").chain("top_k 40, temperature 0.8")?.seed(1).stream()? {
//!     print!("{}", piece?);
//! }
//! # Ok::<(), qkv::Error>(())
//! ```
//!
//! # Train your own
//!
//! A [`Recipe`] says what is learnt, from what and how; an observer is told what happens:
//!
//! ```no_run
//! use qkv::{Event, Recipe, Task};
//!
//! let run = Recipe::named("translate")?.data("pairs.tsv")?.set("train.steps", 200)?.run(&mut |event: &Event| {
//!     if let Event::Step(step) = event {
//!         println!("step {}: loss {}", step.step, step.loss);
//!     }
//!     Ok(())
//! })?;
//! println!("BLEU {:?}, kept in {}", run.score("bleu"), run.dir().display());
//!
//! let tuned = Recipe::finetune("bert/", Task::Classify, "reviews.csv")?.lora(8)?.run(&mut ())?;
//! println!("{:?}", tuned.model()?.classify(&["what a wonderful film"])?);
//! # Ok::<(), qkv::Error>(())
//! ```
//!
//! # When something is wrong
//!
//! Every function returns an [`Error`] that says where, what, and what to do ([`Error::hint`]).
//!
//! # Underneath
//!
//! Everything above stands on rooms that can be used by themselves (kernels, blocks, families, tokenizers, objectives,
//! chains): [`raw`] has them, with burn's tensors in their signatures. Nothing outside `raw` names burn.

pub mod compare;
pub mod convert;
pub mod doctor;
pub mod evaluate;
pub mod inspect;
pub mod merge;
mod model;
pub mod raw;
mod recipe;
pub mod vectors;

pub use evaluate::{Evaluate, Evaluated, LengthGroup, evaluate};
pub use model::{Generate, Model, Score, Stream, Text, Translate};
pub use qkv_base::{Error, Result, Task};
pub use qkv_decode::{Chain, End};
pub use qkv_metric::{Comparison, Interval};
pub use qkv_runs::Ended;
pub use qkv_runs::ValidScore;
pub use qkv_runs::baseline::BaselineBeside;
pub use qkv_runs::cost::{CostCheck, Forecast, TimeBudget};
pub use qkv_runs::memory::Need;
pub use qkv_runs::observe::{Event, Observer, StepReport};
pub use qkv_runs::session::{Beginning, Outcome, Verdict};
pub use qkv_tasks::answer::Found;
pub use qkv_tasks::chain::{BeamOptions, ChainOptions, TargetPrefix};
pub use qkv_tasks::classify::Label;
pub use qkv_tasks::embed::{Pooling, cosine};
pub use qkv_tasks::fill::Candidate;
pub use qkv_tasks::tag::TaggedSpan;
pub use qkv_tasks::{Judged, Metric, Scores, Writing};
pub use qkv_train::dist::{Collective, Single, local};
pub use recipe::{Recipe, Run, Setting};
