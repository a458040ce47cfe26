//! What this room asks of a tokenizer, and the plainest one there is: a word, an id.

use crate::{Error, Result};
use std::collections::{BTreeSet, HashMap};

/// The pieces of a text, without any special tokens around them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// what each piece is
    pub ids: Vec<u32>,
    /// from which byte to which byte of the text it comes
    pub spans: Vec<(usize, usize)>,
    /// does a word begin here?
    pub first_of_word: Vec<bool>,
}

/// A token with a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// fills up rows
    Pad,
    /// begins a text
    Bos,
    /// ends a text
    Eos,
    /// stands for the whole text (BERT)
    Cls,
    /// between and after texts (BERT)
    Sep,
    /// hides a piece
    Mask,
    /// a piece that has no id
    Unk,
    /// the `i`-th place where T5 cut something out
    Sentinel(u32),
}

/// Text to ids. Anything that can do this feeds the objectives.
pub trait Tokenize: Send + Sync {
    /// The pieces of a text, no special tokens added.
    fn encode(&self, text: &str) -> Result<Pieces>;

    /// The id of the token with that job, where the vocabulary has one.
    fn role(&self, role: Role) -> Option<u32>;

    /// How many ids there are: every id is below this.
    fn vocab_size(&self) -> usize;

    /// The stretches of `text` that have no id of their own. A byte-level vocabulary knows everything.
    fn unknown(&self, text: &str) -> Result<Vec<String>> {
        let Some(unknown) = self.role(Role::Unk) else { return Ok(Vec::new()) };
        let pieces = self.encode(text)?;
        let spans = pieces.ids.iter().zip(&pieces.spans).filter(|(id, _)| **id == unknown).map(|(_, span)| *span);
        Ok(spans.filter_map(|(from, to)| text.get(from..to)).map(String::from).collect())
    }
}

/// The token of that role, or an error that says who needs it.
pub(crate) fn need(tokenizer: &dyn Tokenize, role: Role, who: &str) -> Result<u32> {
    tokenizer.role(role).ok_or_else(|| {
        Error::new(
            "tokenizer",
            format!("has no {role:?} token, which {who} needs"),
            "train the tokenizer with that special token, or choose the objective of its own family",
        )
    })
}

/// A word, an id: text is split at blanks. For tests, toy tasks and the reader who wants no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    ids: HashMap<String, u32>,
}

impl Words {
    /// The special tokens, by id; the sentinels follow them.
    const SPECIAL: [Role; 7] = [Role::Pad, Role::Unk, Role::Bos, Role::Eos, Role::Cls, Role::Sep, Role::Mask];
    const SENTINELS: u32 = 100;

    /// The words of these texts, sorted, after the special tokens.
    ///
    /// ```
    /// use qkv_data::tokenize::{Tokenize, Words};
    /// let words = Words::of(["the cat", "the dog"]);
    /// assert_eq!(words.encode("dog the")?.ids, [108, 109]);
    /// assert_eq!(words.unknown("the cow")?, ["cow"]);
    /// # Ok::<(), qkv_data::Error>(())
    /// ```
    pub fn of<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Self {
        let words: BTreeSet<String> = texts
            .into_iter()
            .flat_map(|text| text.as_ref().split_whitespace().map(String::from).collect::<Vec<_>>())
            .collect();
        let first = Self::SPECIAL.len() as u32 + Self::SENTINELS;
        Self { ids: words.into_iter().zip(first..).collect() }
    }
}

impl Tokenize for Words {
    fn encode(&self, text: &str) -> Result<Pieces> {
        let mut pieces = Pieces::default();
        for word in text.split_whitespace() {
            let from = word.as_ptr() as usize - text.as_ptr() as usize;
            pieces.ids.push(self.ids.get(word).copied().unwrap_or(1));
            pieces.spans.push((from, from + word.len()));
            pieces.first_of_word.push(true);
        }
        Ok(pieces)
    }

    fn role(&self, role: Role) -> Option<u32> {
        let special = Self::SPECIAL.len() as u32;
        match role {
            Role::Sentinel(i) => (i < Self::SENTINELS).then_some(special + i),
            role => Self::SPECIAL.iter().position(|r| *r == role).map(|i| i as u32),
        }
    }

    fn vocab_size(&self) -> usize {
        Self::SPECIAL.len() + Self::SENTINELS as usize + self.ids.len()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Cuts words into pieces of at most three letters: a stand-in for sub-word vocabularies.
    pub(crate) struct Thirds(pub(crate) Words);

    impl Thirds {
        pub(crate) fn of(text: &str) -> Self {
            Self(Words::of(cut(text).iter().map(|(_, piece)| *piece)))
        }
    }

    fn cut(text: &str) -> Vec<(usize, &str)> {
        let mut out = Vec::new();
        for word in text.split_whitespace() {
            let from = word.as_ptr() as usize - text.as_ptr() as usize;
            let starts: Vec<usize> = word.char_indices().map(|(at, _)| at).step_by(3).collect();
            for (i, at) in starts.iter().enumerate() {
                let end = starts.get(i + 1).copied().unwrap_or(word.len());
                out.push((from + at, &word[*at..end]));
            }
        }
        out
    }

    impl Tokenize for Thirds {
        fn encode(&self, text: &str) -> Result<Pieces> {
            let mut pieces = Pieces::default();
            for (at, piece) in cut(text) {
                pieces.ids.extend(self.0.encode(piece)?.ids);
                pieces.spans.push((at, at + piece.len()));
                pieces.first_of_word.push(at == 0 || text[..at].ends_with(char::is_whitespace));
            }
            Ok(pieces)
        }

        fn role(&self, role: Role) -> Option<u32> {
            self.0.role(role)
        }

        fn vocab_size(&self) -> usize {
            self.0.vocab_size()
        }
    }

    #[test]
    fn spans_are_bytes_of_the_text() {
        let pieces = Thirds::of("straße là").encode("straße là").unwrap();
        let text: Vec<&str> = pieces.spans.iter().map(|(a, b)| &"straße là"[*a..*b]).collect();
        assert_eq!(text, ["str", "aße", "là"]);
        assert_eq!(pieces.first_of_word, [true, false, true]);
    }

    #[test]
    fn roles_have_ids_of_their_own() {
        let words = Words::of(["a"]);
        let mut ids: Vec<u32> = Words::SPECIAL.iter().filter_map(|r| words.role(*r)).collect();
        ids.extend((0..200).filter_map(|i| words.role(Role::Sentinel(i))));
        ids.extend(words.encode("a").unwrap().ids);
        assert_eq!(ids, (0..108).collect::<Vec<u32>>());
        assert_eq!(words.vocab_size(), 108);
    }
}
