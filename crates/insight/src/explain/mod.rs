//! The topics, in the order of the lectures. Each is a page that computes what the slides print, works one cell out, and
//! says where a slide rounds or errs.
//!
//! | file | topics |
//! |---|---|
//! | `words` | vectors, embeddings, tokens |
//! | `lookup` | lookup, softmax, scale |
//! | `attention` | attention, heads, equivariance |
//! | `cross` | mask, cross |
//! | `positions` | positions |
//! | `block` | norms, residual, feed-forward |
//! | `learning` | gradients, teacher-forcing, loss |
//! | `sequence` | product-rule, sampling, beam |
//! | `sizes` | cost, lora, patches |
//! | `picture` | a drawing for each of them |
//! | `own`, `own_pages`, `setting` | the same with a person's own numbers |

mod attention;
mod block;
mod cross;
mod learning;
mod lookup;
pub mod model;
mod own;
mod own_pages;
mod picture;
mod positions;
mod sequence;
mod setting;
mod sizes;
mod words;

pub use setting::{Setting, SettingKind};

use crate::page::Page;
use qkv_base::{Error, Result, nearest};

/// A topic.
pub struct Topic {
    /// the word that asks for it
    pub name: &'static str,
    /// what it is about, in a few words
    pub about: &'static str,
    make: fn() -> Result<Page>,
}

/// Every topic, in the order in which the lectures come to it.
pub const TOPICS: &[Topic] = &[
    Topic {
        name: "vectors",
        about: "words as numbers: one-hot, TF-IDF, Word2Vec; dot product and cosine",
        make: words::vectors,
    },
    Topic {
        name: "embeddings",
        about: "a row of a table for each token; static and contextual vectors",
        make: words::embeddings,
    },
    Topic { name: "tokens", about: "letters, words, and the merges between them", make: words::tokens },
    Topic {
        name: "gradients",
        about: "why early words fade in a recurrent network, and not in attention",
        make: learning::gradients,
    },
    Topic { name: "lookup", about: "attention as a dictionary that answers with a mixture", make: lookup::lookup },
    Topic { name: "softmax", about: "scores become weights that sum to one", make: lookup::softmax },
    Topic {
        name: "attention",
        about: "queries, keys, values; why the projections are needed",
        make: attention::attention,
    },
    Topic { name: "scale", about: "why scores are divided by √d", make: lookup::scale },
    Topic { name: "heads", about: "several attentions side by side", make: attention::heads },
    Topic {
        name: "equivariance",
        about: "what attention does when words change places",
        make: attention::equivariance,
    },
    Topic { name: "positions", about: "counters, bits, sinusoids, offsets, rotations", make: positions::positions },
    Topic { name: "norms", about: "LayerNorm, BatchNorm and RMSNorm of one table", make: block::norms },
    Topic {
        name: "residual",
        about: "what goes around a layer, and what it does for gradients",
        make: block::residual,
    },
    Topic { name: "feed-forward", about: "d → 4d → d, and two thirds of the weights", make: block::feed_forward },
    Topic { name: "mask", about: "the future hidden by −∞", make: cross::mask },
    Topic { name: "cross", about: "queries from one sequence, keys and values from another", make: cross::cross },
    Topic { name: "teacher-forcing", about: "all positions learn in one step", make: learning::teacher_forcing },
    Topic { name: "loss", about: "cross-entropy, label smoothing, perplexity", make: learning::loss },
    Topic { name: "product-rule", about: "the probability of a sentence, word by word", make: sequence::product_rule },
    Topic { name: "patches", about: "pictures as tokens", make: sizes::patches },
    Topic { name: "cost", about: "parameters and arithmetic: dense layers, attention, BERT, GPT-3", make: sizes::cost },
    Topic { name: "lora", about: "a large matrix changed by two thin ones", make: sizes::lora },
    Topic {
        name: "sampling",
        about: "temperature, top-k, top-p, and why their order matters",
        make: sequence::sampling,
    },
    Topic {
        name: "beam",
        about: "why the most probable word is not the way to the most probable sentence",
        make: sequence::beam,
    },
];

impl Topic {
    /// Its page.
    pub fn page(&self) -> Result<Page> {
        (self.make)()
    }
}

/// The topic of this name.
pub fn find(name: &str) -> Result<&'static Topic> {
    TOPICS.iter().find(|t| t.name == name).ok_or_else(|| {
        let near = nearest(name, TOPICS.iter().map(|t| t.name)).unwrap_or_default();
        let hint = format!("did you mean `{near}`? `qkv explain` lists the topics");
        Error::new("topic", format!("there is no topic `{name}`"), hint)
    })
}

/// A table row of cells from numbers with the same decimals.
fn numbers(values: &[f64], decimals: usize) -> Vec<crate::page::Cell> {
    values.iter().map(|v| crate::page::Cell::number(*v, decimals)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Block;

    #[test]
    fn every_page_has_an_idea_a_formula_shapes_and_one_cell_worked_out() {
        for topic in TOPICS {
            let page = topic.page().unwrap();
            assert_eq!(page.topic, topic.name);
            let has = |f: &dyn Fn(&Block) -> bool| page.blocks.iter().any(f);
            assert!(!page.idea.is_empty(), "{}", topic.name);
            assert!(has(&|b| matches!(b, Block::Formula { .. })), "{}: no formula", topic.name);
            assert!(has(&|b| matches!(b, Block::Shapes { .. })), "{}: no shapes", topic.name);
            assert!(has(&|b| matches!(b, Block::Table(_))), "{}: no numbers", topic.name);
            assert!(has(&|b| matches!(b, Block::Expansion { .. })), "{}: no cell worked out", topic.name);
            assert!(has(&|b| matches!(b, Block::Verdict { .. })), "{}: no verdict", topic.name);
        }
    }

    #[test]
    fn a_topic_that_is_not_there_is_told_the_nearest() {
        let error = find("atention").err().unwrap();
        assert!(error.hint.contains("`attention`"), "{error:?}");
    }
}
