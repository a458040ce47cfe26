//! The directory of a run: found free and writable before the first step, locked while it is in use.
//!
//! ```text
//! recipe.toml  tokenizer/  metrics.jsonl  events.out.tfevents.*  samples.jsonl  scores.json  report.html
//! checkpoints/{ckpt-000500, …, latest, best}      model/ (what Hugging Face transformers loads)      lock
//! ```

use qkv_base::{Error, Kind, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// A run's directory, locked.
#[derive(Debug)]
pub struct RunDir {
    dir: PathBuf,
    /// whether nothing was there before
    fresh: bool,
    _lock: File,
}

/// What is expected to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// nothing: a new run
    Nothing,
    /// a run to go on with
    Run,
}

impl RunDir {
    /// Opens (and makes) the directory. A path that cannot be written to, holds another run, or is in use is refused.
    pub fn open(dir: &Path, expect: Expect) -> Result<Self> {
        let fail = |what: String, hint: &str| Error::new(dir.display().to_string(), what, hint);
        if dir.exists() && !dir.is_dir() {
            return Err(fail("is a file, not a directory".into(), "choose another place with --out"));
        }
        let there = dir.join("recipe.toml").exists();
        match expect {
            Expect::Nothing if there => {
                return Err(fail(
                    "holds a run already".into(),
                    "go on with it: --resume; or choose another place: --out",
                ));
            }
            Expect::Run if !there => {
                return Err(fail("holds no run to go on with".into(), "start one: leave --resume out"));
            }
            _ => {}
        }
        let fresh = std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
        let writable = || {
            std::fs::create_dir_all(dir.join("checkpoints"))?;
            let probe = dir.join(format!(".probe-{}", std::process::id()));
            std::fs::write(&probe, b"x")?;
            std::fs::remove_file(probe)?;
            OpenOptions::new().create(true).truncate(false).write(true).open(dir.join("lock"))
        };
        let lock = writable().map_err(|e| {
            fail(format!("cannot be written to: {e}"), "choose another place with --out").of_kind(Kind::of_write(&e))
        })?;
        match lock.try_lock() {
            Ok(()) => {
                remove_leftovers(dir);
                Ok(Self { dir: dir.to_path_buf(), fresh, _lock: lock })
            }
            Err(TryLockError::WouldBlock) => {
                Err(fail("is in use by another process".into(), "wait for it, or choose another place with --out"))
            }
            Err(TryLockError::Error(e)) => {
                Err(fail(format!("cannot be locked: {e}"), "choose another place with --out"))
            }
        }
    }

    /// A place in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes a run away that was refused before its first step: left there, it would be the newest for every other verb.
    /// In a directory that held something else before, only what marks it as a run goes.
    pub fn abandon(self) {
        if self.at("metrics.jsonl").exists() || self.at("before").exists() {
            return; // steps were taken
        }
        if self.fresh {
            let _ = std::fs::remove_dir_all(&self.dir); // at worst a directory too many
            return;
        }
        let _ = std::fs::remove_file(self.at("recipe.toml"));
        let _ = std::fs::remove_file(self.at("lock"));
        let _ = std::fs::remove_dir(self.at("checkpoints")); // if it is empty
    }

    /// Writes a file that appears whole or not at all.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        qkv_weights::write_atomically(&self.at(name), bytes)
    }

    /// Puts a directory that `make` fills in the place of `name`, so that nobody sees half of it, or none.
    pub fn replace(&self, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let (new, place) = (self.at(&format!("{name}.tmp-{}", std::process::id())), self.at(name));
        let fail = |e: std::io::Error| Error::write(place.display().to_string(), &e, "is the disk full?");
        let made = std::fs::create_dir_all(&new).map_err(fail).and_then(|()| make(&new));
        let placed = made.and_then(|()| exchange(&new, &place).map_err(fail));
        let _ = std::fs::remove_dir_all(&new); // what was there before, or what could not be made: bytes too many
        placed
    }
}

/// Puts `new` in the place of `old`, at one blow where the system can.
fn exchange(new: &Path, old: &Path) -> std::io::Result<()> {
    if !old.exists() {
        return std::fs::rename(new, old);
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
    }
    std::fs::remove_dir_all(old)?;
    std::fs::rename(new, old)
}

/// Takes away what a killed process could not finish.
fn remove_leftovers(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().to_string();
        if name.starts_with(".probe-") {
            let _ = std::fs::remove_file(entry.path()); // one byte too many
        } else if name.contains(".tmp-") {
            let _ = std::fs::remove_dir_all(entry.path()).or_else(|_| std::fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a/b");
        let run_dir = RunDir::open(&place, Expect::Nothing).unwrap();
        let second = RunDir::open(&place, Expect::Nothing).unwrap_err();
        assert!(second.what.contains("in use"), "{second}");
        drop(run_dir);
        assert!(RunDir::open(&place, Expect::Run).unwrap_err().what.contains("no run"));
        RunDir::open(&place, Expect::Nothing).unwrap().write("recipe.toml", b"").unwrap();
        assert!(RunDir::open(&place, Expect::Nothing).unwrap_err().hint.contains("--resume"));
        RunDir::open(&place, Expect::Run).unwrap();
    }

    #[test]
    fn a_refused_run_goes_and_takes_nothing_of_a_person_with_it() {
        let place = tempfile::tempdir().unwrap();
        let new = place.path().join("new");
        let run_dir = RunDir::open(&new, Expect::Nothing).unwrap();
        run_dir.write("recipe.toml", b"x").unwrap();
        run_dir.abandon();
        assert!(!new.exists());

        let mine = place.path().join("mine");
        std::fs::create_dir_all(mine.join("letters")).unwrap();
        std::fs::write(mine.join("thesis.txt"), "years").unwrap();
        let run_dir = RunDir::open(&mine, Expect::Nothing).unwrap();
        run_dir.write("recipe.toml", b"x").unwrap();
        run_dir.abandon();
        let mut left: Vec<_> = std::fs::read_dir(&mine).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["letters", "thesis.txt"]);

        let worked = place.path().join("worked");
        let run_dir = RunDir::open(&worked, Expect::Nothing).unwrap();
        run_dir.write("metrics.jsonl", b"{}").unwrap();
        run_dir.abandon();
        assert!(worked.join("metrics.jsonl").exists(), "steps were taken");
    }

    #[test]
    fn a_file_or_a_closed_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"").unwrap();
        assert!(RunDir::open(&file, Expect::Nothing).unwrap_err().what.contains("is a file"));
        assert!(RunDir::open(&file.join("in"), Expect::Nothing).unwrap_err().what.contains("cannot be written"));
    }

    #[test]
    fn a_failed_replacement_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = RunDir::open(dir.path(), Expect::Nothing).unwrap();
        let put = |text: &'static [u8]| {
            move |d: &Path| {
                std::fs::write(d.join("f"), text).unwrap();
                Ok(())
            }
        };
        run_dir.replace("model", put(b"one")).unwrap();
        assert!(run_dir.replace("model", |_| Err(Error::new("x", "y", ""))).is_err());
        assert_eq!(std::fs::read(run_dir.at("model/f")).unwrap(), b"one");
        run_dir.replace("model", put(b"two")).unwrap();
        assert_eq!(std::fs::read(run_dir.at("model/f")).unwrap(), b"two");
        assert!(
            std::fs::read_dir(dir.path()).unwrap().flatten().all(|e| !e.file_name().to_string_lossy().contains("tmp-"))
        );
    }
}
