//! Running text as numbers: sentences of the words that come often enough.

use crate::words::running_words;
use qkv_base::{Error, Result};
use std::collections::HashMap;

/// A text in numbers of words, the most frequent word being 0.
#[derive(Clone, Debug)]
pub struct Sentences {
    words: Vec<String>,
    counts: Vec<u64>,
    /// all sentences, one behind the other
    tokens: Vec<u32>,
    /// where each sentence begins in `tokens`
    starts: Vec<usize>,
    /// words of the text, with those that come too seldom
    read: u64,
}

impl Sentences {
    /// Reads lines, each a sentence, and leaves out words that come fewer than `min_count` times.
    ///
    /// ```
    /// use qkv_vectors::Sentences;
    /// let text = Sentences::read(["The cat and the dog.", "The end"].map(|l| Ok(l.to_string())), 1)?;
    /// assert_eq!(text.words()[0], "the");
    /// assert_eq!((text.counts()[0], text.len()), (3, 7));
    /// # Ok::<(), qkv_base::Error>(())
    /// ```
    pub fn read(lines: impl IntoIterator<Item = Result<String>>, min_count: u64) -> Result<Self> {
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let (mut names, mut counts, mut tokens, mut starts) = (vec![], vec![], vec![], vec![]);
        for line in lines {
            starts.push(tokens.len());
            for word in running_words(&line?) {
                let new = names.len() as u32;
                let number = *numbers.entry(word).or_insert_with_key(|word| {
                    names.push(word.clone());
                    counts.push(0u64);
                    new
                });
                counts[number as usize] += 1;
                tokens.push(number);
            }
        }
        let read = tokens.len() as u64;
        let mut kept: Vec<usize> = (0..names.len()).filter(|i| counts[*i] >= min_count).collect();
        if kept.len() < 2 {
            let what = format!(
                "{} of the {} different words come {min_count} times or more: nothing to learn from",
                kept.len(),
                names.len()
            );
            return Err(Error::new(
                "corpus",
                what,
                "a word is known by the words around it: give more text, or lower --min-count",
            ));
        }
        kept.sort_by(|a, b| counts[*b].cmp(&counts[*a]).then_with(|| names[*a].cmp(&names[*b])));
        let mut renamed = vec![u32::MAX; names.len()];
        kept.iter().zip(0u32..).for_each(|(old, new)| renamed[*old] = new);
        let (tokens, starts) = without_rare(&tokens, &starts, &renamed);
        let counts = kept.iter().map(|i| counts[*i]).collect();
        let words = kept.iter().map(|i| std::mem::take(&mut names[*i])).collect();
        Ok(Self { words, counts, tokens, starts, read })
    }

    /// The words, the most frequent first.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// How often each comes.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// How many words the text has, without those left out.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Nothing? Never: a text of fewer than two words is refused.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// How many words were read, with those left out.
    pub fn words_read(&self) -> u64 {
        self.read
    }

    /// The words of the text.
    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The sentence that the word at `place` stands in.
    pub(crate) fn sentence_of(&self, place: usize) -> usize {
        self.starts.partition_point(|start| *start <= place).saturating_sub(1)
    }

    /// Where sentence `i` ends.
    pub(crate) fn end_of(&self, i: usize) -> usize {
        self.starts.get(i + 1).copied().unwrap_or(self.tokens.len())
    }
}

fn without_rare(tokens: &[u32], starts: &[usize], renamed: &[u32]) -> (Vec<u32>, Vec<usize>) {
    let (mut kept, mut new_starts) = (Vec::with_capacity(tokens.len()), Vec::with_capacity(starts.len()));
    for (i, start) in starts.iter().enumerate() {
        let end = starts.get(i + 1).copied().unwrap_or(tokens.len());
        let before = kept.len();
        kept.extend(tokens[*start..end].iter().map(|t| renamed[*t as usize]).filter(|t| *t != u32::MAX));
        if kept.len() > before {
            new_starts.push(before);
        }
    }
    (kept, new_starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str], min_count: u64) -> Result<Sentences> {
        Sentences::read(lines.iter().map(|l| Ok(l.to_string())), min_count)
    }

    #[test]
    fn rare_words_are_left_out_and_sentences_keep_their_bounds() {
        let text = read(&["a b a", "rare", "", "b a c", "c"], 2).unwrap();
        assert_eq!(text.words(), ["a", "b", "c"]);
        assert_eq!((text.counts(), text.tokens()), (&[3, 2, 2][..], &[0, 1, 0, 1, 0, 2, 2][..]));
        assert_eq!([0, 2, 3, 5, 6].map(|i| text.sentence_of(i)), [0, 0, 1, 1, 2]);
        assert_eq!([0, 1, 2].map(|i| text.end_of(i)), [3, 6, 7]);
        assert_eq!((text.len(), text.words_read()), (7, 8));
    }

    #[test]
    fn one_word_is_no_corpus() {
        let error = read(&["a a a a", "b"], 2).unwrap_err();
        assert_eq!(error.what, "1 of the 2 different words come 2 times or more: nothing to learn from");
        assert!(read(&[], 1).is_err());
    }
}
