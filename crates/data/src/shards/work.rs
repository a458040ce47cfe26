//! The directory while its shards are being made: what is finished, what is under way, and where to go on after a crash.
//!
//! ```text
//! .00003.ids.part ──synced, renamed──▶ 00003.ids ──▶ progress.json (also renamed into place) ──▶ … ──▶ index.json
//! ```
//!
//! At any moment `progress.json` names shards that are whole, and the place in the sources behind the last of them. What
//! was written after it is written again, to the same bytes.

use super::index::{Asked, FORMAT, VERSION};
use super::{INDEX, IdWidth, Index, PROGRESS, Shard, TOKENIZER};
use crate::readers::FilePlace;
use crate::{Error, Result};
use qkv_base::{MOST_TEXT, read_text};
use qkv_text::Tokenizer;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// What a source is recognised by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fingerprint {
    pub(super) path: String,
    pub(super) bytes: u64,
    /// seconds and nanoseconds of the last change
    pub(super) modified: (u64, u32),
}

impl Fingerprint {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let about = std::fs::metadata(path).map_err(|e| crate::readers::unreadable(&name, &e))?;
        let since = about.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = since.map_or((0, 0), |since| (since.as_secs(), since.subsec_nanos()));
        Ok(Self { path: name, bytes: about.len(), modified })
    }
}

/// How far the work is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Progress {
    pub(super) format: String,
    pub(super) version: u32,
    pub(super) asked: Asked,
    pub(super) sources: Vec<Fingerprint>,
    pub(super) shards: Vec<Shard>,
    pub(super) empty: u64,
    pub(super) skipped: u64,
    /// the source to go on with, and the place in it
    pub(super) source: usize,
    pub(super) place: FilePlace,
}

/// A directory in the making.
pub(super) struct Work {
    dir: PathBuf,
    pub(super) progress: Progress,
    /// nobody else works here as long as this is held
    _lock: File,
}

/// What is found where shards are to be made.
pub(super) enum Begun {
    /// work to do
    Work(Work),
    /// it was done before, by the same order
    Done(Index),
}

impl Work {
    /// Takes a new or empty directory, or one in which the same work was broken off.
    pub(super) fn open(dir: &Path, asked: Asked, sources: Vec<Fingerprint>) -> Result<Begun> {
        let place = dir.display().to_string();
        let io = |e: std::io::Error| Error::write(&place, &e, "name a directory that can be made and written to");
        if !super::is_shards(dir) && dir.exists() {
            let others = std::fs::read_dir(dir).map_err(io)?.flatten().map(|e| e.file_name());
            let mut others = others.filter(|name| !name.to_string_lossy().starts_with('.'));
            if let Some(name) = others.next() {
                let what = format!("is not empty: `{}`", name.to_string_lossy());
                return Err(Error::new(place, what, "name a new directory"));
            }
        }
        std::fs::create_dir_all(dir).map_err(io)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(dir.join(LOCK)).map_err(io)?;
        if lock.try_lock().is_err() {
            return Err(Error::new(place, "another program makes shards here", "wait for it, or name another place"));
        }
        let fresh = Progress {
            format: FORMAT.into(),
            version: VERSION,
            asked,
            sources,
            shards: vec![],
            empty: 0,
            skipped: 0,
            source: 0,
            place: FilePlace::default(),
        };
        let mut work = Self { dir: dir.to_path_buf(), progress: fresh, _lock: lock };
        if dir.join(INDEX).exists() {
            let index = Index::load(dir)?;
            work.same_order(&index)?;
            work.clean()?;
            return Ok(Begun::Done(index));
        }
        match (work.held()?, dir.join(TOKENIZER)) {
            (Some(held), tokenizer) => match work.refuse_changes(&held) {
                Ok(()) => work.progress = held,
                // Nothing would be lost or mixed: whoever mended a file begins anew.
                Err(_) if held.shards.is_empty() => {
                    if tokenizer.exists() {
                        std::fs::remove_dir_all(&tokenizer).map_err(io)?;
                    }
                    work.save()?;
                }
                Err(error) => return Err(error),
            },
            (None, _) => work.save()?,
        }
        Ok(Begun::Work(work))
    }

    /// The progress of a work that was broken off.
    fn held(&self) -> Result<Option<Progress>> {
        let path = self.dir.join(PROGRESS);
        if !path.exists() {
            return Ok(None);
        }
        let place = path.display().to_string();
        let hint = "remove the directory and begin anew";
        let text = read_text(&path, MOST_TEXT, hint)?;
        let held: Progress =
            serde_json::from_str(&text).map_err(|e| Error::new(&place, format!("cannot be read: {e}"), hint))?;
        if held.version != VERSION {
            return Err(Error::new(place, format!("version {} of the layout", held.version), hint));
        }
        Ok(Some(held))
    }

    /// Whoever asks for something else, or whose files have changed, must not get a mixture.
    fn refuse_changes(&self, held: &Progress) -> Result<()> {
        let (was, now) = (held, &self.progress);
        let refuse = |place: &str, what: String| {
            let hint = "bring it back as it was and run the command again, or name another directory";
            Err(Error::new(place, format!("{what} since the work in {} began", self.dir.display()), hint))
        };
        for (before, file) in was.sources.iter().zip(&now.sources) {
            if before.path != file.path {
                return refuse(&file.path, format!("the files have changed (`{}` stood here)", before.path));
            }
            if before.bytes != file.bytes {
                return refuse(&file.path, format!("has changed ({} bytes, now {})", before.bytes, file.bytes));
            }
            if before.modified != file.modified {
                return refuse(&file.path, "was written to".into());
            }
        }
        if was.sources.len() != now.sources.len() {
            let what = format!("there were {} files and are {}", was.sources.len(), now.sources.len());
            return refuse("data", what);
        }
        let (was, now) = (&was.asked, &now.asked);
        for (place, before, now) in [
            ("data", &was.reader, &now.reader),
            ("tokenizer", &was.tokenizer, &now.tokenizer),
            ("--shard-tokens", &was.shard_tokens.to_string(), &now.shard_tokens.to_string()),
        ] {
            if before != now {
                return refuse(place, format!("another was asked for ({before}, now {now})"));
            }
        }
        Ok(())
    }

    /// Finished shards are those of this order if they were made of the same files in the same way.
    fn same_order(&self, index: &Index) -> Result<()> {
        let files = self.progress.sources.iter().map(|s| (&s.path, s.bytes));
        let same = files.eq(index.sources.iter().map(|s| (&s.path, s.bytes)));
        let what = match (same, index.asked == self.progress.asked) {
            (true, true) => return Ok(()),
            (false, _) => "holds finished shards of other files",
            (true, false) => "holds finished shards that were asked for differently",
        };
        Err(Error::new(self.dir.display().to_string(), what, "name a new directory, or remove this one"))
    }

    /// The tokenizer of this work: the one that was saved when it began, or what `make` gives.
    pub(super) fn tokenizer(&self, make: impl FnOnce() -> Result<Tokenizer>) -> Result<Tokenizer> {
        let place = self.dir.join(TOKENIZER);
        if !place.exists() {
            let part = self.dir.join(format!(".{TOKENIZER}.part"));
            let io = |e: std::io::Error| Error::write(place.display().to_string(), &e, "is the disk full?");
            make()?.save(&part)?;
            for entry in std::fs::read_dir(&part).map_err(io)?.flatten() {
                File::open(entry.path()).and_then(|file| file.sync_all()).map_err(io)?;
            }
            std::fs::rename(&part, &place).and_then(|()| sync(&self.dir)).map_err(io)?;
        }
        Tokenizer::load(&place)
    }

    /// Keeps what is finished.
    pub(super) fn save(&self) -> Result<()> {
        put(&self.dir, PROGRESS, &self.progress)
    }

    /// Writes the index: from now on the directory is whole.
    pub(super) fn finish(self, index: &Index) -> Result<()> {
        put(&self.dir, INDEX, index)?;
        self.clean()
    }

    /// Removes what only the work needed.
    fn clean(&self) -> Result<()> {
        for name in [PROGRESS, LOCK] {
            match std::fs::remove_file(self.dir.join(name)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::write(self.dir.display().to_string(), &e, "may files be removed there?"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Begins the next shard.
    pub(super) fn begin(&self, ids: IdWidth) -> Result<Writing> {
        let name = format!("{:05}.ids", self.progress.shards.len());
        let (path, part) = (self.dir.join(&name), self.dir.join(format!(".{name}.part")));
        let file = File::create(&part).map_err(|e| cannot(&part, &e))?;
        let shard = Shard { file: name, tokens: 0, documents: 0, text_bytes: 0, crc32c: 0 };
        Ok(Writing { out: BufWriter::with_capacity(1 << 20, file), path, part, ids, shard, bytes: vec![] })
    }
}

const LOCK: &str = ".lock";

fn cannot(path: &Path, error: &std::io::Error) -> Error {
    let hint = "make room and run the same command again: it goes on behind the last whole shard";
    Error::write(path.display().to_string(), error, hint)
}

/// Makes a new name survive a crash.
fn sync(dir: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

/// A file of JSON that appears whole or not at all.
fn put(dir: &Path, name: &str, value: &impl Serialize) -> Result<()> {
    let (path, part) = (dir.join(name), dir.join(format!(".{name}.part")));
    let text = serde_json::to_vec_pretty(value).map_err(|e| Error::internal(name, e.to_string()))?;
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&part)?;
        file.write_all(&text)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&part, &path)?;
        sync(dir)
    };
    write().map_err(|e| cannot(&path, &e))
}

/// A shard under way.
pub(super) struct Writing {
    out: BufWriter<File>,
    path: PathBuf,
    part: PathBuf,
    ids: IdWidth,
    bytes: Vec<u8>,
    pub(super) shard: Shard,
}

impl Writing {
    /// Adds ids.
    pub(super) fn add(&mut self, ids: &[u32]) -> Result<()> {
        self.bytes.clear();
        self.ids.write(ids, &mut self.bytes);
        self.shard.tokens += ids.len() as u64;
        self.shard.crc32c = crc32c::crc32c_append(self.shard.crc32c, &self.bytes);
        self.out.write_all(&self.bytes).map_err(|e| cannot(&self.part, &e))
    }

    /// Puts the shard into its place.
    pub(super) fn commit(mut self) -> Result<Shard> {
        let mut settle = || -> std::io::Result<()> {
            self.out.flush()?;
            self.out.get_ref().sync_all()?;
            std::fs::rename(&self.part, &self.path)?;
            self.path.parent().map_or(Ok(()), sync)
        };
        settle().map_err(|e| cannot(&self.path, &e))?;
        Ok(self.shard.clone())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // What failed gives its room back; after a commit there is nothing under this name.
        let _ = std::fs::remove_file(&self.part);
    }
}
