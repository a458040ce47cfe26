//! Words as vectors, before any Transformer: the first step of the story.
//!
//! - one-hot and TF-IDF ([`Bag`]): a word is an axis, a text a bag of words; with logistic regression ([`Logistic`]) the
//!   baseline that a fine-tuned network is put beside ([`baseline()`]).
//! - Word2Vec ([`Word2Vec`], Mikolov et al. 2013): a word is learnt from the words around it; then words have neighbours and
//!   directions have meanings ([`WordVectors`]).
//!
//! A word has one vector wherever it stands: the *bank* of a river and the bank with the money are one point. What comes
//! later in the story (recurrent networks, attention) is about giving it one for each sentence.
//!
//! ```
//! use qkv_vectors::WordVectors;
//! let words = ["king", "queen", "man", "woman"].map(String::from).to_vec();
//! let vectors = WordVectors::new(words, 2, vec![3.0, 1.0, 3.0, -1.0, 1.0, 1.0, 1.0, -1.0])?;
//! let near = vectors.analogy(&[(1.0, "king"), (-1.0, "man"), (1.0, "woman")], 1)?;
//! assert_eq!(near[0].word, "queen");
//! # Ok::<(), qkv_base::Error>(())
//! ```

mod bag;
pub mod baseline;
mod format;
mod kernel;
mod lbfgs;
mod logistic;
mod sentences;
mod similarity;
mod sparse;
mod store;
mod word2vec;
mod word_vectors;
mod words;

pub use bag::{Bag, Weighting};
pub use baseline::{Baseline, BaselineScores, Features, baseline};
pub use format::{VectorFormat, read_vectors, write_vectors};
pub use logistic::{Logistic, LogisticOptions};
pub use sentences::Sentences;
pub use similarity::{AnalogyScores, PairScores, read_analogies, read_pairs, score_analogies, score_pairs, spearman};
pub use sparse::SparseRow;
pub use store::{Stored, load, save_bag};
pub use word_vectors::{Neighbour, WordVectors};
pub use word2vec::{Architecture, TrainProgress, Word2Vec};
pub use words::{bag_words, running_words};
