//! `index.json`: what a directory of shards holds.
//!
//! Written last, so that a directory with an index is whole; everything in it is checked when it is read.

use super::{INDEX, PROGRESS, TOKENIZER};
use crate::{Error, Result};
use qkv_base::{MOST_TEXT, read_text};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The name that stands at the head of an index.
pub(super) const FORMAT: &str = "qkv-shards";
/// The version of the layout that this program writes, and the only one that it reads.
pub(super) const VERSION: u32 = 1;

/// How an id is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdWidth {
    /// two bytes, the lower first: vocabularies of up to 65,536
    U16,
    /// four bytes, the lowest first
    U32,
}

impl IdWidth {
    /// The narrowest that holds every id below `vocabulary`.
    pub fn of(vocabulary: usize) -> Self {
        if vocabulary <= 1 << 16 { Self::U16 } else { Self::U32 }
    }

    /// Bytes an id.
    pub fn bytes(self) -> u64 {
        match self {
            Self::U16 => 2,
            Self::U32 => 4,
        }
    }

    /// Adds ids as bytes.
    pub(super) fn write(self, ids: &[u32], into: &mut Vec<u8>) {
        match self {
            // The width was chosen by the vocabulary, which every id is below.
            Self::U16 => ids.iter().for_each(|id| into.extend((*id as u16).to_le_bytes())),
            Self::U32 => ids.iter().for_each(|id| into.extend(id.to_le_bytes())),
        }
    }

    /// Bytes as ids.
    pub(super) fn read(self, bytes: &[u8]) -> Vec<u32> {
        match self {
            Self::U16 => bytes.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b).into()).collect(),
            Self::U32 => bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect(),
        }
    }
}

/// One file of ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// its name in the directory
    pub file: String,
    /// ids in it
    pub tokens: u64,
    /// documents that end in it
    pub documents: u64,
    /// bytes of the texts behind it
    pub text_bytes: u64,
    /// of all its bytes
    pub crc32c: u32,
}

/// A file that the texts came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceFile {
    /// as it was named
    pub path: String,
    /// its size on disk
    pub bytes: u64,
}

/// The tokenizer that made the ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardTokenizer {
    /// every id is below it
    pub vocabulary: usize,
    /// what ends a document
    pub end: u32,
    /// what begins one, where something does
    pub begin: Option<u32>,
    /// of its files, one after the other by name
    pub crc32c: u32,
}

/// What was asked for when the shards were made: another order is not taken for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// how the files are read, in words
    pub reader: String,
    /// which tokenizer, in words
    pub tokenizer: String,
    /// a shard is full with so many
    pub shard_tokens: u64,
}

/// What a directory of shards holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// `qkv-shards`
    pub format: String,
    /// of the layout
    pub version: u32,
    /// how an id is written
    pub ids: IdWidth,
    /// what made the ids
    pub tokenizer: ShardTokenizer,
    /// all tokens, the ends of documents counted
    pub tokens: u64,
    /// all documents
    pub documents: u64,
    /// bytes of all texts, before they were tokens
    pub text_bytes: u64,
    /// texts that were empty and left out
    pub empty: u64,
    /// rows that could not be read and were skipped
    pub skipped: u64,
    /// the order
    pub asked: Asked,
    /// what was read, in this order
    pub sources: Vec<SourceFile>,
    /// what was written, in this order
    pub shards: Vec<Shard>,
}

/// The head of an index: enough to know whether the rest can be understood.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

impl Index {
    /// Reads the index of a directory, and checks it against itself.
    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join(INDEX);
        let place = path.display().to_string();
        if !path.exists() && dir.join(PROGRESS).exists() {
            let hint = "run the command that began them again: it goes on where it stopped";
            return Err(Error::new(dir.display().to_string(), "the shards are not finished", hint));
        }
        let text = read_text(&path, MOST_TEXT, "is this a directory of shards?")?;
        let broken = |e: serde_json::Error| {
            Error::new(
                &place,
                format!("is not the index of shards: {e}"),
                "make the shards anew: qkv data shard FILE --vocab 8000 -o DIR",
            )
        };
        let head: Head = serde_json::from_str(&text).map_err(broken)?;
        if head.format != FORMAT {
            let what = format!("the format is `{}`, not `{FORMAT}`", head.format);
            return Err(Error::new(place, what, "name a directory of shards"));
        }
        if head.version != VERSION {
            let what = format!("version {} of the layout; this program reads version {VERSION}", head.version);
            return Err(Error::new(place, what, "make the shards anew with this program, or use one that fits them"));
        }
        let index: Self = serde_json::from_str(&text).map_err(broken)?;
        index.check(&place)?;
        Ok(index)
    }

    fn check(&self, place: &str) -> Result<()> {
        let wrong = |what: String| {
            Err(Error::new(
                place,
                what,
                "the index was changed or damaged: make the shards anew: qkv data shard FILE --vocab 8000 -o DIR",
            ))
        };
        let sum = |of: fn(&Shard) -> u64| self.shards.iter().try_fold(0u64, |sum, shard| sum.checked_add(of(shard)));
        if sum(|s| s.tokens) != Some(self.tokens) || sum(|s| s.documents) != Some(self.documents) {
            return wrong("the sums of its shards are not those that it says".into());
        }
        let ShardTokenizer { vocabulary, end, begin, .. } = self.tokenizer;
        if let Some(id) = [Some(end), begin].into_iter().flatten().find(|id| *id as usize >= vocabulary) {
            return wrong(format!("token {id} is beyond the vocabulary of {vocabulary}"));
        }
        if self.ids != IdWidth::of(vocabulary) {
            return wrong(format!("a vocabulary of {vocabulary} is not written as {:?}", self.ids));
        }
        if self.shards.is_empty() || self.shards.iter().any(|shard| shard.tokens == 0) {
            return wrong("a shard without tokens".into());
        }
        // A name that leads out of the directory is somebody's trick.
        match self.shards.iter().find(|s| s.file.contains(['/', '\\']) || s.file.starts_with('.')) {
            Some(shard) => wrong(format!("`{}` is not the name of a shard", shard.file)),
            None => Ok(()),
        }
    }

    /// What the corpus is recognised by: every checksum and every size.
    pub fn fingerprint(&self) -> String {
        let all = self.shards.iter().fold(self.tokenizer.crc32c, |crc, shard| {
            let crc = crc32c::crc32c_append(crc, &shard.crc32c.to_le_bytes());
            crc32c::crc32c_append(crc, &shard.tokens.to_le_bytes())
        });
        format!("{} tokens in {} shards ({all:08x})", self.tokens, self.shards.len())
    }
}

/// A checksum over the files of the tokenizer, in the order of their names.
pub(super) fn tokenizer_crc(files: &mut [(&'static str, Vec<u8>)]) -> u32 {
    files.sort_by_key(|(name, _)| *name);
    files.iter().fold(0, |crc, (name, bytes)| crc32c::crc32c_append(crc32c::crc32c_append(crc, name.as_bytes()), bytes))
}

/// Refuses a directory of shards where texts are asked for.
pub(crate) fn refuse_shards(path: &Path) -> Result<()> {
    if !super::is_shards(path) {
        return Ok(());
    }
    let what = format!("is a directory of shards ({INDEX}, {TOKENIZER}): tokens, not texts");
    let hint = "train a language model from it: qkv train gpt --data DIR; for everything else name the text files";
    Err(Error::new(path.display().to_string(), what, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_in_the_narrowest_width() {
        for (vocabulary, ids, bytes) in [(1 << 16, vec![0, 255, 256, 65_535], 8), (65_537, vec![7, 65_536], 8)] {
            let (width, mut out) = (IdWidth::of(vocabulary), vec![]);
            width.write(&ids, &mut out);
            assert_eq!((out.len(), width.read(&out)), (bytes, ids));
        }
    }
}
