//! The tokenizer: text → ids with their places in the text, and ids → text.

use crate::marian::Marian;
use crate::special::{Said, Special};
use crate::validate::{self, guard};
use qkv_base::{Error, Result};
use rayon::prelude::*;
use serde_json::Value;

/// Text to ids and back.
///
/// ```
/// use qkv_text::{Kind, TrainSpec, train};
/// let lines = ["the cat sat", "the cat sat on the mat"].map(String::from);
/// let spec = TrainSpec { vocab_size: 300, ..TrainSpec::new(Kind::Bpe) };
/// let tokenizer = train(lines, &spec, &mut |_| {})?.tokenizer;
/// let encoding = tokenizer.encode("the cat 🐈", true)?;
/// assert_eq!(encoding.pieces[0], "the");
/// assert_eq!(encoding.bytes[0], (0, 3));
/// assert_eq!(tokenizer.decode(&encoding.ids, true)?, "the cat 🐈");
/// # Ok::<(), qkv_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Tokenizer {
    pub(crate) engine: TokenizerEngine,
    pub(crate) special: Special,
    /// (name, template) of chats, as the files have them
    pub(crate) chats: Vec<(String, String)>,
    pub(crate) size: usize,
    pub(crate) place: String,
}

/// Most tokenizers are one engine; Marian's has one for each language, and ids of its own.
#[derive(Clone)]
pub(crate) enum TokenizerEngine {
    Plain(Box<tokenizers::Tokenizer>),
    Marian(Box<Marian>),
}

/// A text as ids; every list has one entry for each id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// rows of the embedding
    pub ids: Vec<u32>,
    /// what the ids stand for, as the vocabulary writes it
    pub pieces: Vec<String>,
    /// from–to in bytes of the text
    pub bytes: Vec<(usize, usize)>,
    /// from–to in characters of the text
    pub chars: Vec<(usize, usize)>,
    /// 0 for the first text, 1 for the second (as the post-processor says)
    pub type_ids: Vec<u32>,
    /// put there by the post-processor, not found in the text
    pub special_mask: Vec<bool>,
    /// which word (of the pre-tokenizer) of its text
    pub word_ids: Vec<Option<u32>>,
    /// which of the two texts
    pub sequence_ids: Vec<Option<usize>>,
}

impl Encoding {
    /// How many ids.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(crate) fn of(encoding: &tokenizers::Encoding, texts: &[&str]) -> Self {
        let sequence_ids = encoding.get_sequence_ids();
        let tables: Vec<Vec<usize>> = texts.iter().map(|text| char_of_byte(text)).collect();
        let chars = encoding.get_offsets().iter().zip(&sequence_ids).map(|((from, to), sequence)| {
            let table = sequence.and_then(|s| tables.get(s));
            let at = |byte: &usize| table.and_then(|t| t.get(*byte)).copied().unwrap_or(0);
            (at(from), at(to))
        });
        Self {
            chars: chars.collect(),
            ids: encoding.get_ids().to_vec(),
            pieces: encoding.get_tokens().to_vec(),
            bytes: encoding.get_offsets().to_vec(),
            type_ids: encoding.get_type_ids().to_vec(),
            special_mask: encoding.get_special_tokens_mask().iter().map(|m| *m == 1).collect(),
            word_ids: encoding.get_word_ids().to_vec(),
            sequence_ids,
        }
    }
}

/// For each byte (and the end) how many characters begin before it.
fn char_of_byte(text: &str) -> Vec<usize> {
    let mut table = Vec::with_capacity(text.len() + 1);
    for (i, c) in text.chars().enumerate() {
        table.push(i);
        table.extend(std::iter::repeat_n(i + 1, c.len_utf8() - 1));
    }
    table.push(table.last().map_or(0, |_| text.chars().count()));
    table
}

impl Tokenizer {
    /// From the value of a `tokenizer.json`; `place` is named in errors.
    pub fn from_json(place: &str, json: &Value) -> Result<Self> {
        Self::from_parts(place, json, &Said::default(), Vec::new())
    }

    pub(crate) fn from_parts(place: &str, json: &Value, said: &Said, chats: Vec<(String, String)>) -> Result<Self> {
        let engine = validate::open(place, json, said.vocab_size())?;
        let size = engine.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        let unk = json.pointer("/model/unk_token").and_then(Value::as_str).and_then(|u| engine.token_to_id(u));
        let unk = unk.or_else(|| u32::try_from(json.pointer("/model/unk_id")?.as_u64()?).ok());
        let mut special = Special::find(said, |piece| engine.token_to_id(piece), size);
        special.unk = special.unk.or(unk);
        Ok(Self { engine: TokenizerEngine::Plain(Box::new(engine)), special, chats, size, place: place.to_string() })
    }

    /// The ids of a text; `add_special` puts the tokens of the family around it (`[CLS] … [SEP]`, `… </s>`).
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Encoding> {
        match &self.engine {
            TokenizerEngine::Plain(engine) => {
                let encoding = guard(&self.place, || engine.encode(text, add_special))?;
                Ok(Encoding::of(&encoding, &[text]))
            }
            TokenizerEngine::Marian(marian) => marian.encode(&self.place, text, add_special, false),
        }
    }

    /// The ids of a text and nothing else: those of [`encode`](Self::encode) without special tokens, found sooner, because
    /// nobody asks where in the text they stand.
    pub fn ids(&self, text: &str) -> Result<Vec<u32>> {
        match &self.engine {
            TokenizerEngine::Plain(engine) => {
                Ok(guard(&self.place, || engine.encode_fast(text, false))?.get_ids().to_vec())
            }
            TokenizerEngine::Marian(marian) => Ok(marian.encode(&self.place, text, false, false)?.ids),
        }
    }

    /// The ids of a text of the target language: the same as [`encode`](Self::encode), but for Marian.
    pub fn encode_target(&self, text: &str, add_special: bool) -> Result<Encoding> {
        match &self.engine {
            TokenizerEngine::Plain(_) => self.encode(text, add_special),
            TokenizerEngine::Marian(marian) => marian.encode(&self.place, text, add_special, true),
        }
    }

    /// The ids of two texts in one sequence.
    pub fn encode_pair(&self, first: &str, second: &str, add_special: bool) -> Result<Encoding> {
        match &self.engine {
            TokenizerEngine::Plain(engine) => {
                let encoding = guard(&self.place, || engine.encode((first, second), add_special))?;
                Ok(Encoding::of(&encoding, &[first, second]))
            }
            TokenizerEngine::Marian(_) => {
                let what = "Marian's tokenizer takes one text at a time";
                Err(Error::new(&self.place, what, "encode the source with `encode`, the target with `encode_target`"))
            }
        }
    }

    /// Many texts at once, on all threads; in their order.
    pub fn encode_batch<S: AsRef<str> + Sync>(&self, texts: &[S], add_special: bool) -> Result<Vec<Encoding>> {
        texts.par_iter().map(|text| self.encode(text.as_ref(), add_special)).collect()
    }

    /// The text of ids; an id that is not in the vocabulary is an error.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        if let Some(id) = ids.iter().find(|id| self.piece(**id).is_none()) {
            let what = format!("id {id} is not in the vocabulary of {}", self.size);
            return Err(Error::new(&self.place, what, "do the ids come from another tokenizer?"));
        }
        match &self.engine {
            TokenizerEngine::Plain(engine) => guard(&self.place, || engine.decode(ids, skip_special)),
            TokenizerEngine::Marian(marian) => Ok(marian.decode(ids, skip_special)),
        }
    }

    /// The piece of an id.
    pub fn piece(&self, id: u32) -> Option<String> {
        match &self.engine {
            TokenizerEngine::Plain(engine) => engine.id_to_token(id),
            TokenizerEngine::Marian(marian) => marian.piece(id).map(str::to_string),
        }
    }

    /// The id of a piece.
    pub fn id(&self, piece: &str) -> Option<u32> {
        match &self.engine {
            TokenizerEngine::Plain(engine) => engine.token_to_id(piece),
            TokenizerEngine::Marian(marian) => marian.id(piece),
        }
    }

    /// Rows that an embedding needs: the largest id and one.
    pub fn vocab_size(&self) -> usize {
        self.size
    }

    /// Who opens, closes, pads.
    pub fn special(&self) -> Special {
        self.special
    }

    /// Whether decoding may skip this id.
    pub fn is_special(&self, id: u32) -> bool {
        match &self.engine {
            TokenizerEngine::Plain(engine) => {
                engine.get_added_vocabulary().get_added_tokens_decoder().get(&id).is_some_and(|token| token.special)
            }
            TokenizerEngine::Marian(marian) => marian.is_special(id),
        }
    }

    /// The chat template of this name, or the default one.
    pub fn chat_template(&self, name: Option<&str>) -> Option<&str> {
        let name = name.unwrap_or("default");
        self.chats.iter().find(|(n, _)| n == name).map(|(_, template)| template.as_str())
    }

    /// The kind of model inside: `BPE`, `WordPiece`, `Unigram`, `WordLevel`, or `Marian`.
    pub fn model_name(&self) -> &'static str {
        use tokenizers::models::ModelWrapper as M;
        match &self.engine {
            TokenizerEngine::Marian(_) => "Marian",
            TokenizerEngine::Plain(engine) => match engine.get_model() {
                M::BPE(_) => "BPE",
                M::WordPiece(_) => "WordPiece",
                M::WordLevel(_) => "WordLevel",
                M::Unigram(_) => "Unigram",
            },
        }
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} of {} from {})", self.model_name(), self.size, self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_by_where_they_begin() {
        assert_eq!(char_of_byte("aé😀b"), [0, 1, 2, 2, 3, 3, 3, 3, 4]);
        assert_eq!(char_of_byte(""), [0]);
    }
}
