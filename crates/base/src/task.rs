//! What a network is asked to do. One word for a task in every room: the columns a file must have, the head a network
//! needs, the objective it learns, the verb that asks it and the scores that judge it all follow from this one list.

use crate::{Error, Result, nearest};
use serde::{Deserialize, Serialize};

/// What is to be learnt, answered and judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// a text from another: translation, correction, summary
    #[default]
    Translate,
    /// the next token
    NextToken,
    /// hidden tokens
    Masked,
    /// hidden spans
    SpanCorruption,
    /// the text before the noise
    Denoise,
    /// one class for a text
    Classify,
    /// one class for two texts: how they relate
    ClassifyPair,
    /// one tag for each word
    Tag,
    /// where the answer to a question stands in a text
    Answer,
    /// the class of a picture
    Image,
}

impl Task {
    /// Every task, in the order of the help, with the other words that people have for it.
    const WORDS: [(Task, &'static str, &'static [&'static str]); 10] = [
        (Task::Translate, "translate", &["pair", "text-to-text", "summarize", "correct"]),
        (Task::NextToken, "next-token", &["generate", "text", "lm", "language-model"]),
        (Task::Masked, "masked", &["fill", "mlm"]),
        (Task::SpanCorruption, "span-corruption", &[]),
        (Task::Denoise, "denoise", &[]),
        (Task::Classify, "classify", &[]),
        (Task::ClassifyPair, "classify-pair", &[]),
        (Task::Tag, "tag", &[]),
        (Task::Answer, "answer", &[]),
        (Task::Image, "image", &[]),
    ];

    /// Every task.
    pub const ALL: [Task; 10] = {
        let mut all = [Task::Translate; 10];
        let mut i = 0;
        while i < all.len() {
            all[i] = Self::WORDS[i].0;
            i += 1;
        }
        all
    };

    /// Its name in recipes, commands and reports.
    pub fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(task, ..)| *task == self).map_or("", |(_, name, _)| name)
    }

    /// The task of this name, or of another word that people have for it.
    ///
    /// ```
    /// use qkv_base::Task;
    /// assert_eq!(Task::parse("translate")?, Task::Translate);
    /// assert_eq!(Task::parse("generate")?, Task::NextToken);
    /// assert_eq!(Task::parse("clasify").unwrap_err().hint, "did you mean `classify`?");
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn parse(name: &str) -> Result<Self> {
        let known = Self::WORDS.iter().find(|(_, own, also)| *own == name || also.contains(&name));
        known.map(|(task, ..)| *task).ok_or_else(|| {
            let words = Self::WORDS.iter().flat_map(|(_, own, also)| std::iter::once(*own).chain(also.iter().copied()));
            let near = nearest(name, words).unwrap_or_default();
            Error::new("task", format!("there is no task `{name}`"), format!("did you mean `{near}`?"))
        })
    }

    /// Whether it is learnt from plain text, which is its own answer.
    pub fn is_of_text_alone(self) -> bool {
        matches!(self, Self::NextToken | Self::Masked | Self::SpanCorruption | Self::Denoise)
    }

    /// Whether its answer is one of a list of labels (or one for each word).
    pub fn has_labels(self) -> bool {
        matches!(self, Self::Classify | Self::ClassifyPair | Self::Tag | Self::Image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_found_by_each_of_its_words() {
        for (task, name, also) in Task::WORDS {
            assert_eq!(task.name(), name);
            for word in std::iter::once(&name).chain(also) {
                assert_eq!(Task::parse(word), Ok(task));
            }
        }
        let words: Vec<&str> =
            Task::WORDS.iter().flat_map(|(_, n, a)| std::iter::once(*n).chain(a.iter().copied())).collect();
        let once: std::collections::BTreeSet<&str> = words.iter().copied().collect();
        assert_eq!(once.len(), words.len(), "a word stands for two tasks");
    }
}
