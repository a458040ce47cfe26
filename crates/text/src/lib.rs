//! Text to ids and back: tokenizers loaded and trained, streams, chat templates.
//!
//! [`Tokenizer::load`] takes what model directories hold; [`train`] learns one from lines; [`StreamDecoder`] gives
//! text while it is generated; [`Tokenizer::explain`] and [`compare`] show how texts are cut; [`Chat`] turns messages
//! into a prompt; [`GgufVocab`] brings the vocabulary of a GGUF file.

mod charsmap;
mod chat;
mod compare;
mod explain;
mod gguf;
mod gguf_out;
mod growth;
mod load;
mod marian;
mod save;
mod special;
mod spm;
mod stream;
mod tokenizer;
mod tokenizer_json;
mod train;
mod validate;
mod word_ids;

pub use chat::{Chat, Message};
pub use compare::{CompareRow, TokenizerComparison, compare};
pub use explain::{Cut, Explain, ExplainRow, ExplainedWord, MatchStep, MergeStep, Segmentation};
pub use gguf::GgufVocab;
pub use load::{FILES, NO_TOKENIZER};
pub use special::Special;
pub use spm::{PieceKind, SpmAlgorithm, SpmModel};
pub use stream::StreamDecoder;
pub use tokenizer::{Encoding, Tokenizer};
pub use train::{Kind, Normal, Progress, Shape, TrainSpec, Trained, gpt2_words, train};
pub use validate::{MAX_FILE, MAX_PIECES};
pub use word_ids::WordIds;
