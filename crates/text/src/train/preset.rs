//! What a trained tokenizer looks like: the algorithm, the family's special tokens, the normalisation.

use super::{Progress, TrainSpec, bpe, count, unigram};
use crate::special::Said;
use crate::tokenizer::Tokenizer;
use crate::tokenizer_json::{self, TokenizerJson};
use crate::validate;
use crate::validate::guard;
use qkv_base::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokenizers::{NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

/// How pieces are learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// byte-level byte-pair encoding: GPT-2's; no text is unknown
    Bpe,
    /// pieces within words marked by `##`: BERT's
    WordPiece,
    /// the unigram language model: T5's
    Unigram,
    /// one character, one piece
    Char,
    /// one word, one piece; a mark by itself. What was not learnt is unknown
    Word,
}

/// Whose special tokens, and where they are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// none
    Plain,
    /// `<|endoftext|>`, nothing put around a text
    Gpt2,
    /// `[CLS] a [SEP]`, `[CLS] a [SEP] b [SEP]`
    Bert,
    /// `a </s>`; sentinels `<extra_id_…>` at the end of the vocabulary, `<extra_id_0>` last
    T5 {
        /// how many; the paper's is 100
        sentinels: usize,
    },
    /// translation: `a </s>`, a pad, no beginning
    Marian,
    /// `<s> a`
    Llama,
}

/// What is done to the text before it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normal {
    /// composed characters
    Nfc,
    /// composed, and look-alikes made one (ﬁ → fi, ２ → 2)
    Nfkc,
    /// A → a
    Lowercase,
    /// è → e (in Indic scripts this takes vowel signs, too)
    StripAccents,
}

/// WordPiece keeps the most frequent characters, as BERT's trainer does.
const ALPHABET: usize = 1000;

impl Shape {
    fn first(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &[],
            Self::Gpt2 => &["<|endoftext|>"],
            Self::Bert => &["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
            Self::T5 { .. } => &["<pad>", "</s>", "<unk>"],
            Self::Marian => &["</s>", "<unk>", "<pad>"],
            Self::Llama => &["<unk>", "<s>", "</s>"],
        }
    }

    fn around(self, special: &[String]) -> Value {
        let of = |name: &'static str| (name, special.iter().position(|s| s == name).unwrap_or(0) as u32);
        match self {
            Self::Plain | Self::Gpt2 => Value::Null,
            Self::Bert => tokenizer_json::bert(of("[CLS]"), of("[SEP]")),
            Self::T5 { .. } | Self::Marian => tokenizer_json::around(None, Some(of("</s>"))),
            Self::Llama => tokenizer_json::around(Some(of("<s>")), None),
        }
    }
}

/// A spec, checked: with its special tokens laid out, and the parts that cut lines into words.
pub(super) struct Plan<'a> {
    spec: &'a TrainSpec,
    /// before all other pieces
    first: Vec<String>,
    /// after them
    last: Vec<String>,
    unk: String,
    /// normaliser and pre-tokenizer, with a model of no worth
    shell: tokenizers::Tokenizer,
}

impl<'a> Plan<'a> {
    pub(super) fn new(spec: &'a TrainSpec) -> Result<Self> {
        let mut first: Vec<String> = spec.shape.first().iter().map(|s| s.to_string()).collect();
        let unk = if spec.shape == Shape::Bert { "[UNK]" } else { "<unk>" }.to_string();
        if spec.kind != Kind::Bpe && !first.contains(&unk) {
            first.push(unk.clone());
        }
        for token in &spec.special {
            if token.is_empty() {
                return Err(Error::new("special tokens", "one is empty", "give each a name such as <sep>"));
            }
            if !first.contains(token) {
                first.push(token.clone());
            }
        }
        let last = match spec.shape {
            Shape::T5 { sentinels } => (0..sentinels).rev().map(|i| format!("<extra_id_{i}>")).collect(),
            _ => Vec::new(),
        };
        let model = json!({"type": "WordLevel", "vocab": {"x": 0}, "unk_token": "x"});
        let shell = tokenizer_json_of(spec, model, &[], &[]);
        let shell = validate::open("tokenizer to train", &shell.into_value(), None)?;
        Ok(Self { spec, first, last, unk, shell })
    }

    /// Hands out the words of a line, normalised.
    pub(super) fn words(&self, line: &str, take: &mut dyn FnMut(&str)) -> Result<()> {
        let normalizer = self.shell.get_normalizer();
        if self.spec.kind == Kind::Bpe && normalizer.is_none() {
            count::gpt2_words(line, take);
            return Ok(());
        }
        guard("training text", || {
            let mut text = NormalizedString::from(line);
            if let Some(normalizer) = normalizer {
                normalizer.normalize(&mut text)?;
            }
            if self.spec.kind == Kind::Bpe {
                count::gpt2_words(text.get(), take);
                return Ok(());
            }
            let mut words = PreTokenizedString::from(text);
            if let Some(pre) = self.shell.get_pre_tokenizer() {
                pre.pre_tokenize(&mut words)?;
            }
            let words = words.get_splits(OffsetReferential::Normalized, OffsetType::None);
            words.into_iter().for_each(|(word, _, _)| take(word));
            Ok(())
        })
    }

    /// Pieces from words.
    pub(super) fn learn(&self, words: Vec<(String, u64)>, progress: &mut dyn FnMut(Progress)) -> Result<Tokenizer> {
        let model = match self.spec.kind {
            Kind::Bpe => self.bpe(words, progress)?,
            Kind::WordPiece => self.word_piece(words, progress)?,
            Kind::Unigram => self.unigram(words, progress)?,
            Kind::Char => self.chars(words)?,
            Kind::Word => self.whole_words(words)?,
        };
        let json = tokenizer_json_of(self.spec, model, &self.first, &self.last).into_value();
        Tokenizer::from_parts("trained tokenizer", &json, &Said::default(), Vec::new())
    }

    /// Room for learnt pieces, when so many are given.
    fn room(&self, given: usize) -> Result<usize> {
        let need = given + self.last.len();
        if need > self.spec.vocab_size {
            let what = format!(
                "{} pieces are too few: {need} are needed for special tokens and characters",
                self.spec.vocab_size
            );
            return Err(Error::new("tokenizer.vocab", what, format!("ask for more than {need}")));
        }
        Ok(self.spec.vocab_size - self.last.len())
    }

    fn bpe(&self, words: Vec<(String, u64)>, progress: &mut dyn FnMut(Progress)) -> Result<Value> {
        let letters = byte_letters();
        let mut pieces = bpe::Pieces::new(&self.first);
        let mut alphabet = letters.to_vec();
        alphabet.sort_unstable();
        alphabet.iter().for_each(|c| {
            pieces.id(&c.to_string());
        });
        let goal = self.room(pieces.names.len())?;
        let ids = letters.map(|c| pieces.id(&c.to_string()));
        let spelt = words.into_iter().map(|(word, n)| (word.bytes().map(|b| ids[b as usize]).collect(), n)).collect();
        let merges = bpe::learn(spelt, &mut pieces, goal, self.spec.min_frequency, "", progress);
        let pair = |(a, b): (u32, u32)| json!([pieces.names[a as usize], pieces.names[b as usize]]);
        let merges: Vec<Value> = merges.into_iter().map(pair).collect();
        Ok(json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": self.vocab(&pieces.names), "merges": merges}))
    }

    fn word_piece(&self, words: Vec<(String, u64)>, progress: &mut dyn FnMut(Progress)) -> Result<Value> {
        let kept: BTreeSet<char> = letters(&words, 1).into_iter().take(ALPHABET).map(|(c, _)| c).collect();
        let mut pieces = bpe::Pieces::new(&self.first);
        kept.iter().for_each(|c| {
            pieces.id(&c.to_string());
        });
        let spell = |(word, n): (String, u64)| {
            let inside = |(i, c): (usize, char)| if i == 0 { c.to_string() } else { format!("##{c}") };
            let known = word.chars().enumerate().filter(|(_, c)| kept.contains(c));
            (known.map(|letter| pieces.id(&inside(letter))).collect(), n)
        };
        let spelt = words.into_iter().map(spell).collect();
        let goal = self.room(pieces.names.len())?;
        bpe::learn(spelt, &mut pieces, goal, self.spec.min_frequency, "##", progress);
        Ok(json!({"type": "WordPiece", "unk_token": self.unk, "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": self.vocab(&pieces.names)}))
    }

    fn unigram(&self, words: Vec<(String, u64)>, progress: &mut dyn FnMut(Progress)) -> Result<Value> {
        let given = self.first.len() + letters(&words, 1).len();
        let goal = self.room(given)? - self.first.len();
        let learnt = unigram::learn(&words, goal, self.spec.min_frequency, progress);
        let fixed = |names: &'_ [String]| names.iter().map(|name| json!([name, 0.0])).collect::<Vec<_>>();
        let special: BTreeSet<&String> = self.first.iter().chain(&self.last).collect();
        let learnt = learnt.iter().filter(|(piece, _)| !special.contains(piece)).map(|(p, score)| json!([p, score]));
        let vocab: Vec<Value> = fixed(&self.first).into_iter().chain(learnt).chain(fixed(&self.last)).collect();
        let unk = self.first.iter().position(|s| *s == self.unk);
        Ok(json!({"type": "Unigram", "unk_id": unk, "vocab": vocab, "byte_fallback": false}))
    }

    fn chars(&self, words: Vec<(String, u64)>) -> Result<Value> {
        let goal = self.room(self.first.len() + 1)?;
        let mut names = self.first.clone();
        let found = letters(&words, self.spec.min_frequency).into_iter().map(|(c, _)| c.to_string());
        names.extend(found.filter(|c| !self.first.contains(c)).take(goal - self.first.len()));
        Ok(json!({"type": "WordLevel", "vocab": self.vocab(&names), "unk_token": self.unk}))
    }

    /// The most frequent words; of equals the first in the alphabet.
    fn whole_words(&self, mut words: Vec<(String, u64)>) -> Result<Value> {
        let goal = self.room(self.first.len() + 1)?;
        words.retain(|(word, n)| {
            *n >= self.spec.min_frequency && !self.first.contains(word) && !self.last.contains(word)
        });
        words.sort_by(|(a, n), (b, m)| m.cmp(n).then(a.cmp(b)));
        let mut names = self.first.clone();
        names.extend(words.into_iter().map(|(word, _)| word).take(goal - self.first.len()));
        Ok(json!({"type": "WordLevel", "vocab": self.vocab(&names), "unk_token": self.unk}))
    }

    /// Piece → id, with the last ones after all others.
    fn vocab(&self, names: &[String]) -> Map<String, Value> {
        names.iter().chain(&self.last).enumerate().map(|(i, name)| (name.clone(), i.into())).collect()
    }
}

/// Characters that come at least `least` times, most frequent first.
fn letters(words: &[(String, u64)], least: u64) -> Vec<(char, u64)> {
    let mut counts: BTreeMap<char, u64> = BTreeMap::new();
    words.iter().for_each(|(word, n)| word.chars().for_each(|c| *counts.entry(c).or_default() += n));
    let mut letters: Vec<(char, u64)> = counts.into_iter().filter(|(_, n)| *n >= least).collect();
    letters.sort_by_key(|(c, n)| (std::cmp::Reverse(*n), *c));
    letters
}

/// GPT-2's visible letter for each byte: itself where it is visible, the next free one from U+0100 otherwise.
pub(crate) fn byte_letters() -> [char; 256] {
    let visible = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut free = 0x100u32;
    std::array::from_fn(|b| {
        if visible(b as u8) {
            return b as u8 as char;
        }
        free += 1;
        char::from_u32(free - 1).unwrap_or(char::REPLACEMENT_CHARACTER)
    })
}

fn normalizers(spec: &TrainSpec) -> Vec<Value> {
    let one = |normal: &Normal| match normal {
        Normal::Nfc => vec![json!({"type": "NFC"})],
        Normal::Nfkc => vec![json!({"type": "NFKC"})],
        Normal::Lowercase => vec![json!({"type": "Lowercase"})],
        Normal::StripAccents => vec![json!({"type": "NFD"}), json!({"type": "StripAccents"}), json!({"type": "NFC"})],
    };
    spec.normal.iter().flat_map(one).collect()
}

fn tokenizer_json_of(spec: &TrainSpec, model: Value, first: &[String], last: &[String]) -> TokenizerJson {
    let mut normal = normalizers(spec);
    let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let (pre_tokenizer, decoder) = match spec.kind {
        Kind::Bpe => (tokenizer_json::byte_level(false, true), tokenizer_json::byte_level(true, true)),
        Kind::WordPiece => {
            normal.push(json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                               "strip_accents": false, "lowercase": false}));
            (json!({"type": "BertPreTokenizer"}), json!({"type": "WordPiece", "prefix": "##", "cleanup": false}))
        }
        Kind::Unigram | Kind::Word => {
            normal.push(json!({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}));
            normal.push(json!({"type": "Strip", "strip_left": true, "strip_right": true}));
            let marks = json!({"type": "Punctuation", "behavior": "Isolated"});
            let words = json!({"type": "Sequence", "pretokenizers": [metaspace.clone(), marks]});
            (if spec.kind == Kind::Word { words } else { metaspace.clone() }, metaspace)
        }
        Kind::Char => (tokenizer_json::split(r"[\s\S]"), json!({"type": "Fuse"})),
    };
    let size =
        model.get("vocab").map_or(0, |v| v.as_object().map_or_else(|| v.as_array().map_or(0, Vec::len), Map::len));
    let row = |(i, name): (usize, &String)| (i as u32, name.clone(), true);
    let after = last.iter().enumerate().map(|(i, name)| row((size.saturating_sub(last.len()) + i, name)));
    TokenizerJson {
        normalizer: tokenizer_json::sequence("normalizers", normal),
        pre_tokenizer,
        post_processor: if first.is_empty() { Value::Null } else { spec.shape.around(first) },
        decoder,
        added: first.iter().enumerate().map(row).chain(after).collect(),
        model,
    }
}
