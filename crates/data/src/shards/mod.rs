//! Shards: a corpus that was made into tokens once, and lies on disk as long rows of ids. Training reads them a row at a
//! time, so that it takes as much memory for a terabyte as for a page.
//!
//! ```text
//! DIR/index.json       what there is: counts, checksums, sources; written last
//! DIR/tokenizer/       the tokenizer that made the ids
//! DIR/00000.ids …      ids, little-endian, two bytes each (four where the vocabulary has more than 65,536)
//! DIR/progress.json    only while the shards are being made: where to go on
//! ```
//!
//! A document is `[begin] ids… end`; documents stand one behind the other, as next-token rows pack them. A shard is full
//! when it has so many tokens and the text can be cut there, which does not depend on threads or interruptions, so the
//! same files give the same bytes.
//!
//! Ids are read by position, not through a memory map: a shard that is cut short under a run is an error that can be told
//! (a map would end the process), nothing counts as this process' memory, and for rows of a kilobyte it is as fast, since
//! both come from the system's page cache.

mod build;
mod index;
mod learn;
mod rows;
mod work;

pub use build::{Built, DocumentStart, Learnt, Making, ShardSpec, TokenizerChoice, build};
pub(crate) use index::refuse_shards;
pub use index::{Asked, IdWidth, Index, Shard, ShardTokenizer, SourceFile};
pub use rows::{ShardRows, ShardSides};

use crate::readers::unreadable;
use crate::{Error, Result};
use qkv_text::Tokenizer;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub(crate) const INDEX: &str = "index.json";
pub(crate) const PROGRESS: &str = "progress.json";
pub(crate) const TOKENIZER: &str = "tokenizer";

/// Whether a directory holds shards, finished or not.
pub fn is_shards(path: &Path) -> bool {
    let ours = |name: &str| {
        let mut head = [0; 64];
        let read = File::open(path.join(name)).and_then(|mut file| file.read(&mut head));
        read.is_ok_and(|n| String::from_utf8_lossy(&head[..n]).contains(index::FORMAT))
    };
    path.is_dir() && (ours(INDEX) || ours(PROGRESS))
}

/// So many files are held open; a run reads from eight at a time.
const OPEN: usize = 16;

/// An opened directory of shards.
pub struct Shards {
    dir: PathBuf,
    index: Index,
    /// the files read last, the newest first
    files: Mutex<Vec<(usize, Arc<Mutex<File>>)>>,
}

impl Shards {
    /// Opens a directory: reads its index and looks whether every file is there and as long as it should be.
    pub fn open(dir: &Path) -> Result<Self> {
        let index = Index::load(dir)?;
        let it = Self { dir: dir.to_path_buf(), index, files: Mutex::default() };
        for (i, shard) in it.index.shards.iter().enumerate() {
            let (path, want) = (it.path(i), shard.tokens * it.index.ids.bytes());
            let held = std::fs::metadata(&path).map_err(|e| unreadable(&path.display().to_string(), &e))?.len();
            if held != want {
                let what = format!("has {held} bytes where the index says {want}");
                return Err(Error::new(path.display().to_string(), what, REMAKE));
            }
        }
        Ok(it)
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it holds.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The tokenizer that made the ids; another one in its place is refused.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let path = self.dir.join(TOKENIZER);
        let tokenizer = Tokenizer::load(&path)?;
        if index::tokenizer_crc(&mut tokenizer.files()?) != self.index.tokenizer.crc32c {
            let what = "is not the tokenizer that made the ids: its checksum differs";
            return Err(Error::new(path.display().to_string(), what, REMAKE));
        }
        Ok(tokenizer)
    }

    /// `count` ids of a shard from `from` on, or as many as it has.
    pub fn ids(&self, shard: usize, from: u64, count: usize) -> Result<Vec<u32>> {
        let width = self.index.ids.bytes();
        let tokens = self.index.shards.get(shard).map_or(0, |shard| shard.tokens);
        let count = tokens.saturating_sub(from).min(count as u64);
        let mut bytes = vec![0; (count * width) as usize];
        let place = || self.path(shard).display().to_string();
        let file = self.file(shard)?;
        {
            let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let read = file.seek(SeekFrom::Start(from * width)).and_then(|_| file.read_exact(&mut bytes));
            read.map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    Error::new(place(), "has become shorter since it was opened", "leave shards alone during a run")
                }
                _ => unreadable(&place(), &error),
            })?;
        }
        let ids = self.index.ids.read(&bytes);
        let vocabulary = self.index.tokenizer.vocabulary;
        match ids.iter().find(|id| **id as usize >= vocabulary) {
            Some(id) => Err(Error::new(place(), format!("id {id} is beyond the vocabulary of {vocabulary}"), REMAKE)),
            None => Ok(ids),
        }
    }

    /// Reads every shard and compares its checksum; `told` hears of each.
    pub fn verify(&self, told: &mut dyn FnMut(&Shard) -> Result<()>) -> Result<()> {
        for (i, shard) in self.index.shards.iter().enumerate() {
            let place = self.path(i).display().to_string();
            let (file, mut crc) = (self.file(i)?, 0);
            let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            file.seek(SeekFrom::Start(0)).map_err(|e| unreadable(&place, &e))?;
            let mut block = vec![0; 1 << 20];
            loop {
                let n = file.read(&mut block).map_err(|e| unreadable(&place, &e))?;
                if n == 0 {
                    break;
                }
                crc = crc32c::crc32c_append(crc, &block[..n]);
                let vocabulary = self.index.tokenizer.vocabulary;
                if let Some(id) = self.index.ids.read(&block[..n]).iter().find(|id| **id as usize >= vocabulary) {
                    let what = format!("id {id} is beyond the vocabulary of {vocabulary}");
                    return Err(Error::new(place, what, REMAKE));
                }
            }
            if crc != shard.crc32c {
                let what = format!("the checksum is {crc:08x} where the index says {:08x}", shard.crc32c);
                return Err(Error::new(place, what, REMAKE));
            }
            told(shard)?;
        }
        Ok(())
    }

    fn path(&self, shard: usize) -> PathBuf {
        self.dir.join(self.index.shards.get(shard).map_or("", |shard| &shard.file))
    }

    /// The file of a shard, opened unless it is at hand.
    fn file(&self, shard: usize) -> Result<Arc<Mutex<File>>> {
        let mut files = self.files.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(at) = files.iter().position(|(of, _)| *of == shard) {
            files[..=at].rotate_right(1);
        } else {
            let path = self.path(shard);
            let file = File::open(&path).map_err(|e| unreadable(&path.display().to_string(), &e))?;
            files.truncate(OPEN - 1);
            files.insert(0, (shard, Arc::new(Mutex::new(file))));
        }
        files.first().map(|(_, file)| file.clone()).ok_or_else(|| Error::internal("shards", "no file at hand"))
    }
}

const REMAKE: &str = "the file was changed or damaged: make the shards anew: qkv data shard FILE --vocab 8000 -o DIR";
