//! The bytes of a file, held in memory or mapped.
//!
//! A file of at most [`MAPPED_FROM`] bytes is read whole, so that nobody can change it under our hands; a larger one is
//! memory-mapped, so that opening costs nothing and only what is asked for is read. A mapped file must not be truncated
//! while it is open: the system would stop the process (SIGBUS) on the next read past its new end. qkv itself never
//! writes into a file that it may have mapped: it writes a new one and renames it.

use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use qkv_base::{Error, Result};

/// Files larger than this are mapped.
pub(crate) const MAPPED_FROM: u64 = 1 << 20;

/// The bytes of a file.
pub(crate) enum Bytes {
    Held(Vec<u8>),
    Mapped(Mmap),
}

impl Bytes {
    /// Lets go of the memory behind some bytes of a map; the next read takes them from disk again.
    pub(crate) fn release(&self, from: usize, len: usize) {
        #[cfg(unix)]
        if let Bytes::Mapped(map) = self {
            // SAFETY: the map is read-only and backed by its file, so that pages which are let go come back as they were.
            let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, from, len) };
        }
        #[cfg(not(unix))]
        let _ = (from, len);
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Held(bytes) => bytes,
            Bytes::Mapped(map) => map,
        }
    }
}

/// A file that a checkpoint was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// where it is
    pub path: PathBuf,
    /// its length in bytes
    pub bytes: u64,
    /// whether it is memory-mapped (larger than 1 MB) rather than held in memory
    pub mapped: bool,
}

/// Opens a regular file; anything else (a pipe, a device) could block or never end.
pub(crate) fn open(path: &Path) -> Result<(SourceFile, Bytes)> {
    let place = || path.display().to_string();
    let fail = |error: std::io::Error| Error::read(place(), &error, "check the path and its permissions");
    let kind = std::fs::metadata(path).map_err(fail)?;
    if !kind.is_file() {
        return Err(Error::new(place(), "is not a regular file", "give a file or a directory that holds weights"));
    }
    let mut file = File::open(path).map_err(fail)?;
    let bytes = if kind.len() > MAPPED_FROM {
        // SAFETY: the map is read-only and private to us; the head of this file says what must not happen to the file.
        let map = unsafe { Mmap::map(&file) }.map_err(fail)?;
        Bytes::Mapped(map)
    } else {
        let mut held = Vec::new();
        file.by_ref().take(MAPPED_FROM + 1).read_to_end(&mut held).map_err(fail)?;
        Bytes::Held(held)
    };
    let mapped = matches!(bytes, Bytes::Mapped(_));
    Ok((SourceFile { path: path.to_owned(), bytes: bytes.len() as u64, mapped }, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_09_small_files_are_held_and_large_ones_mapped() {
        let dir = tempfile::tempdir().unwrap();
        for (length, mapped) in [(0, false), (MAPPED_FROM, false), (MAPPED_FROM + 1, true)] {
            let path = dir.path().join(length.to_string());
            std::fs::write(&path, vec![7; length as usize]).unwrap();
            let (file, bytes) = open(&path).unwrap();
            assert_eq!((file.bytes, file.mapped), (length, mapped));
            assert!(bytes.len() as u64 == length && bytes.iter().all(|&b| b == 7));
        }
    }

    #[test]
    fn what_is_let_go_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("large");
        let content: Vec<u8> = (0..3 * MAPPED_FROM).map(|i| (i % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let (_, bytes) = open(&path).unwrap();
        assert_eq!(&bytes[..], content);
        bytes.release(5, 2_000_000);
        bytes.release(0, content.len());
        assert_eq!(&bytes[..], content);
        Bytes::Held(vec![1, 2]).release(0, 2);
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(open(dir.path()).err().unwrap().what.contains("regular file"));
        assert!(open(&dir.path().join("absent")).err().unwrap().place.ends_with("absent"));
    }
}
