//! Small files that say what a larger thing is: configurations, recipes, templates. They are read whole, so they are
//! bounded, and they must be files: a pipe or a device could block for ever or never end.

use crate::{Error, Result, without_bom};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The most bytes of a configuration or a recipe: the largest in use have some hundred kilobytes.
pub const MOST_TEXT: u64 = 16 << 20;

/// The bytes of a regular file of at most `most` bytes, without a byte-order mark.
///
/// ```
/// let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("config.json");
/// std::fs::write(&path, b"\xef\xbb\xbf{}").unwrap();
/// assert_eq!(qkv_base::read_file(&path, 16, "is the path right?").unwrap(), b"{}");
/// assert!(qkv_base::read_file(&path, 4, "").unwrap_err().what.contains("5 bytes"));
/// assert!(qkv_base::read_file(dir.path(), 4, "").unwrap_err().what.contains("regular file"));
/// ```
pub fn read_file(path: &Path, most: u64, hint: &str) -> Result<Vec<u8>> {
    let place = || path.display().to_string();
    let fail = |error: std::io::Error| Error::read(place(), &error, hint);
    let kind = std::fs::metadata(path).map_err(fail)?;
    if !kind.is_file() {
        return Err(Error::new(place(), "is not a regular file", "name a file; write what a pipe says to one first"));
    }
    let long = |bytes: u64| {
        let what = format!("has {bytes} bytes, but at most {most} are read of such a file");
        Error::new(place(), what, "is this the file that was meant?")
    };
    if kind.len() > most {
        return Err(long(kind.len()));
    }
    let mut bytes = Vec::with_capacity(kind.len() as usize);
    // It may have grown since it was asked for its length.
    File::open(path).map_err(fail)?.take(most + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > most {
        return Err(long(bytes.len() as u64));
    }
    let skip = bytes.len() - without_bom(&bytes).len();
    bytes.drain(..skip);
    Ok(bytes)
}

/// The same as text; what is not UTF-8 is named by its byte.
pub fn read_text(path: &Path, most: u64, hint: &str) -> Result<String> {
    String::from_utf8(read_file(path, most, hint)?).map_err(|error| {
        let what = format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to());
        Error::new(path.display().to_string(), what, "save the file as UTF-8")
    })
}

/// Refuses a place for new files that holds something: a directory with entries always, a file unless `force` is given.
///
/// ```
/// let dir = tempfile::tempdir().unwrap();
/// let file = dir.path().join("out.json");
/// assert!(qkv_base::must_be_free(&file, false).is_ok());
/// assert!(qkv_base::must_be_free(dir.path(), false).is_ok()); // empty
/// std::fs::write(&file, b"{}").unwrap();
/// assert!(qkv_base::must_be_free(&file, false).is_err() && qkv_base::must_be_free(&file, true).is_ok());
/// assert!(qkv_base::must_be_free(dir.path(), true).is_err());
/// ```
pub fn must_be_free(out: &Path, force: bool) -> Result<()> {
    let refuse = |what, hint| Err(Error::new(out.display().to_string(), what, hint));
    match std::fs::read_dir(out).map(|mut entries| entries.next().is_some()) {
        Ok(true) => refuse("exists already and is not empty", "name a new place, or remove it first"),
        Err(_) if out.exists() && !force => refuse("exists already", "name a new place, or write over it: --force"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 16: what editors do to files is undone or named.
    #[test]
    fn fault_16_marks_are_taken_off_and_bad_bytes_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"\xef\xbb\xbfa\r\nb").unwrap();
        assert_eq!(read_text(&path, 99, "").unwrap(), "a\r\nb");
        std::fs::write(&path, b"abc\xff").unwrap();
        assert_eq!(read_text(&path, 99, "").unwrap_err().what, "not UTF-8 at byte 3");
    }

    #[cfg(unix)]
    #[test]
    fn a_device_that_never_ends_is_refused_at_once() {
        assert!(read_file(Path::new("/dev/zero"), 99, "").unwrap_err().what.contains("regular file"));
        assert!(read_file(Path::new("/absent"), 99, "look").unwrap_err().hint == "look");
    }
}
