//! The ids of long texts, quickly: a word that was met before is looked up and not encoded again.
//!
//! Where a tokenizer cuts text into GPT-2's words and each word into pieces by itself (byte-level BPE without a
//! normaliser), the ids of a text are those of its words, one after the other. Few words make up most of a text, so that
//! nearly all of them are found in a table. Any other tokenizer, and a text in which a special token stands, goes the
//! usual way; the ids are the same either way.

use crate::tokenizer::{Tokenizer, TokenizerEngine};
use crate::train::gpt2_words;
use qkv_base::Result;
use rustc_hash::FxHashMap;
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;

/// Tables, so that threads seldom wait for each other.
const TABLES: usize = 64;
/// Words a table; those that come later are encoded every time.
const WORDS: usize = 4096;
/// A longer word is hardly met again.
const LONGEST: usize = 48;
/// A tokenizer with more special tokens goes the usual way: looking for all of them would take longer.
const SPECIAL: usize = 16;

type Table = RwLock<FxHashMap<Box<str>, Box<[u32]>>>;

/// A tokenizer with a memory for words, for many texts on many threads.
///
/// ```
/// use qkv_text::{Kind, TrainSpec, WordIds, train};
/// let spec = TrainSpec { vocab_size: 300, ..TrainSpec::new(Kind::Bpe) };
/// let tokenizer = train(["the cat sat on the mat".to_string()], &spec, &mut |_| {})?.tokenizer;
/// let words = WordIds::new(&tokenizer);
/// assert_eq!(words.ids("the mat sat")?, tokenizer.encode("the mat sat", false)?.ids);
/// # Ok::<(), qkv_base::Error>(())
/// ```
pub struct WordIds<'a> {
    tokenizer: &'a Tokenizer,
    /// none where words are not encoded one by one
    tables: Option<Vec<Table>>,
    /// what must not stand in a text that is taken word by word
    special: Vec<String>,
}

impl<'a> WordIds<'a> {
    /// An empty memory.
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        let special = special(tokenizer);
        let tables = special.is_some().then(|| (0..TABLES).map(|_| Table::default()).collect());
        Self { tokenizer, tables, special: special.unwrap_or_default() }
    }

    /// The ids of a text without special tokens around it.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>> {
        let Some(tables) = self.tables.as_ref().filter(|_| !self.special.iter().any(|s| text.contains(s.as_str())))
        else {
            return self.tokenizer.ids(text);
        };
        let mut ids = Vec::with_capacity(text.len() / 4);
        let mut failed = None;
        gpt2_words(text, &mut |word| {
            if let Err(error) = self.word(tables, word, &mut ids) {
                failed.get_or_insert(error);
            }
        });
        failed.map_or(Ok(ids), Err)
    }

    fn word(&self, tables: &[Table], word: &str, ids: &mut Vec<u32>) -> Result<()> {
        let hash = rustc_hash::FxBuildHasher.hash_one(word);
        // The upper bits: the table itself is filled by the lower ones.
        let table = tables.get((hash >> 58) as usize % TABLES);
        let Some(table) = table.filter(|_| word.len() <= LONGEST) else {
            ids.extend(self.tokenizer.ids(word)?);
            return Ok(());
        };
        if let Some(known) = table.read().unwrap_or_else(PoisonError::into_inner).get(word) {
            ids.extend(known.iter());
            return Ok(());
        }
        let new = self.tokenizer.ids(word)?;
        ids.extend(&new);
        let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
        if table.len() < WORDS {
            table.insert(word.into(), new.into());
        }
        Ok(())
    }
}

/// The special tokens of a tokenizer that encodes GPT-2's words one by one; none for any other.
fn special(tokenizer: &Tokenizer) -> Option<Vec<String>> {
    let TokenizerEngine::Plain(engine) = &tokenizer.engine else { return None };
    let Some(PreTokenizerWrapper::ByteLevel(words)) = engine.get_pre_tokenizer() else { return None };
    let plain =
        engine.get_normalizer().is_none() && engine.get_truncation().is_none() && engine.get_padding().is_none();
    let alone = tokenizer.model_name() == "BPE" && words.use_regex && !words.add_prefix_space;
    let special: Vec<String> = engine.get_added_tokens_decoder().values().map(|token| token.content.clone()).collect();
    (plain && alone && special.len() <= SPECIAL).then_some(special)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Shape, TrainSpec, train};
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static GPT: LazyLock<Tokenizer> = LazyLock::new(|| learnt(Kind::Bpe, Shape::Gpt2));

    fn learnt(kind: Kind, shape: Shape) -> Tokenizer {
        let lines = (0..300).map(|i| format!("the cat's {i} houses aren't où  there\tat all, {}", "ab ".repeat(i % 5)));
        let spec = TrainSpec { shape, vocab_size: 400, ..TrainSpec::new(kind) };
        train(lines, &spec, &mut |_| {}).expect("a tokenizer").tokenizer
    }

    proptest! {
        /// The twin: the engine, which encodes the text as a whole.
        #[test]
        fn words_one_by_one_are_the_text_as_a_whole(
            text in "([ \t\n]|the|cat|'s|'ll|[a-z]|[0-9]|où|घि|😀|\\.|\u{a0}|<\\|endoftext\\|>|\\PC){0,30}"
        ) {
            let words = WordIds::new(&GPT);
            prop_assert!(words.tables.is_some());
            let want = GPT.encode(&text, false).expect("ids").ids;
            // The second time from the table.
            prop_assert_eq!(words.ids(&text).expect("ids"), want.clone());
            prop_assert_eq!(words.ids(&text).expect("ids"), want.clone());
            prop_assert_eq!(GPT.ids(&text).expect("ids"), want);
        }
    }

    #[test]
    fn every_other_tokenizer_goes_the_usual_way() {
        for (kind, shape) in
            [(Kind::Unigram, Shape::T5 { sentinels: 3 }), (Kind::WordPiece, Shape::Bert), (Kind::Char, Shape::Marian)]
        {
            let tokenizer = learnt(kind, shape);
            let words = WordIds::new(&tokenizer);
            assert!(words.tables.is_none(), "{kind:?}");
            let text = "The cat's  houses où 😀";
            assert_eq!(words.ids(text).expect("ids"), tokenizer.encode(text, false).expect("ids").ids, "{kind:?}");
        }
    }

    #[test]
    fn a_full_table_changes_nothing() {
        let (words, key) = (WordIds::new(&GPT), qkv_base::Key::new(1, 0, 0));
        let text: String = (0..30_000).map(|i| format!(" {:x}", key.word(i % 29_000))).collect();
        assert_eq!(words.ids(&text).expect("ids"), GPT.encode(&text, false).expect("ids").ids);
    }
}
