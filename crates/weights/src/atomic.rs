//! Files that appear whole or not at all.
//!
//! Written under another name beside their place, synced, renamed, and the directory synced: at any moment a reader finds
//! the old file or the new one, and what a failed writing left behind is removed.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use qkv_base::{Error, Kind, Result};

/// A file on its way to `path`.
pub(crate) struct Pending {
    path: PathBuf,
    temporary: PathBuf,
    writer: Option<BufWriter<File>>,
}

impl Pending {
    /// Begins to write what will stand at `path`.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.tmp-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary);
        let file = file.map_err(|error| failed(path, error))?;
        Ok(Self { path: path.to_owned(), temporary, writer: Some(BufWriter::with_capacity(1 << 16, file)) })
    }

    /// Adds bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.writer {
            Some(writer) => writer.write_all(bytes).map_err(|error| failed(&self.path, error)),
            None => Ok(()),
        }
    }

    /// Puts the file into its place.
    pub(crate) fn commit(mut self) -> Result<()> {
        self.settle().map_err(|error| failed(&self.path, error))
    }

    fn settle(&mut self) -> io::Result<()> {
        if let Some(writer) = self.writer.take() {
            writer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        }
        std::fs::rename(&self.temporary, &self.path)?;
        self.temporary.clear();
        sync_directory(&self.path)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.writer = None;
        if !self.temporary.as_os_str().is_empty() {
            // Nothing to be done if it cannot be removed: the reason why we are here is already on its way up.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Makes the new name in the directory of `path` survive a crash.
fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(directory) = path.parent() {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

pub(crate) fn failed(path: &Path, error: io::Error) -> Error {
    let hint = "check that the directory exists, may be written to and has room";
    let said = Error::new(path.display().to_string(), format!("cannot be written: {error}"), hint);
    said.of_kind(Kind::of_write(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let names = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn the_old_file_stands_until_the_new_one_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "old").unwrap();
        let mut pending = Pending::create(&path).unwrap();
        pending.write(b"half").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        drop(pending);
        assert_eq!(names(dir.path()), ["f"]);

        let mut pending = Pending::create(&path).unwrap();
        pending.write(b"new").unwrap();
        pending.commit().unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names(dir.path())), (b"new".to_vec(), vec!["f".to_owned()]));
    }

    #[test]
    fn no_directory_is_an_error() {
        let error = Pending::create(Path::new("/nowhere/at/all")).err().unwrap();
        assert!(error.what.starts_with("cannot be written"), "{error}");
    }
}
