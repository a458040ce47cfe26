//! Bytes from a file, plain or gzip, with the faults of real files met at the door: byte-order marks, UTF-16, directories.
//!
//! A plain file is read in place: streaming costs one line of memory, random access one seek. A gzip file has no places
//! to seek to, so for random access it is unpacked: into memory while it is small, else into a file without a name in the
//! directory for temporary files, which goes away with the process (at most [`MOST_UNPACKED`]).

use crate::{Error, Result};
use flate2::read::MultiGzDecoder;
use qkv_base::Kind;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::NamedTempFile;

/// A gzip file that unpacks to more than this is refused: 64 GiB.
pub const MOST_UNPACKED: u64 = 64 << 30;
/// What unpacks to more than this is kept on disk.
const IN_MEMORY: u64 = 64 << 20;

/// A file one can stream from the start or read in any place.
pub(crate) enum Source {
    Plain { file: Mutex<File>, name: String },
    Unpacked(Vec<u8>),
    Spilled { file: NamedTempFile, name: String },
}

impl Source {
    /// Opens `path`; unpacks it when it is gzip (told by its first two bytes, not by its name).
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let mut file = open_file(path)?;
        let magic = first_bytes(&mut file, &name)?;
        if magic.starts_with(&[0x1f, 0x8b]) {
            return unpack(file, name, IN_MEMORY);
        }
        refuse_utf16(&magic, &name)?;
        Ok(Source::Plain { file: Mutex::new(file), name })
    }

    /// A reader from the start.
    pub(crate) fn reader(&self) -> Result<Box<dyn BufRead + Send + '_>> {
        match self {
            Source::Plain { name, .. } => Ok(Box::new(BufReader::with_capacity(1 << 16, open_file(Path::new(name))?))),
            Source::Unpacked(bytes) => Ok(Box::new(Cursor::new(bytes.as_slice()))),
            Source::Spilled { file, name } => {
                let again = file.reopen().map_err(|error| unreadable(name, &error))?;
                Ok(Box::new(BufReader::with_capacity(1 << 16, again)))
            }
        }
    }

    /// The `length` bytes from `offset` on.
    pub(crate) fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let gone = |name: &str| {
            Error::new(name, "the file has become shorter since it was opened", "leave data files alone during a run")
        };
        match self {
            Source::Plain { file, name } => {
                let mut bytes = vec![0; length];
                let mut file = file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                file.seek(SeekFrom::Start(offset)).map_err(|error| unreadable(name, &error))?;
                file.read_exact(&mut bytes).map_err(|_| gone(name))?;
                Ok(bytes)
            }
            Source::Unpacked(all) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let bytes = from.checked_add(length).and_then(|to| all.get(from..to));
                bytes.map(<[u8]>::to_vec).ok_or_else(|| gone("unpacked file"))
            }
            Source::Spilled { file, name } => {
                let mut bytes = vec![0; length];
                let mut file = file.reopen().map_err(|error| unreadable(name, &error))?;
                file.seek(SeekFrom::Start(offset)).map_err(|error| unreadable(name, &error))?;
                file.read_exact(&mut bytes).map_err(|_| gone(name))?;
                Ok(bytes)
            }
        }
    }
}

/// A stream over the whole file without keeping any of it: gzip is unpacked on the way.
pub(crate) fn stream(path: &Path) -> Result<Box<dyn BufRead + Send>> {
    let name = path.display().to_string();
    let mut file = open_file(path)?;
    let magic = first_bytes(&mut file, &name)?;
    if magic.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(BufReader::new(file)))));
    }
    refuse_utf16(&magic, &name)?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

/// How many bytes of a file, as it lies on disk, have been read.
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<AtomicU64>);

impl Meter {
    /// So many.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

/// A file that counts what is read of it.
struct Metered {
    file: File,
    meter: Meter,
}

impl Read for Metered {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(into)?;
        self.meter.0.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A stream from `offset` (of the unpacked bytes) on. What lies before is passed over: by a seek, or by unpacking it.
pub(crate) fn stream_from(path: &Path, offset: u64, meter: &Meter) -> Result<Box<dyn BufRead + Send>> {
    let name = path.display().to_string();
    let mut file = open_file(path)?;
    let magic = first_bytes(&mut file, &name)?;
    let packed = magic.starts_with(&[0x1f, 0x8b]);
    refuse_utf16(&magic, &name)?;
    if !packed && offset > 0 {
        meter.set(file.seek(SeekFrom::Start(offset)).map_err(|error| unreadable(&name, &error))?);
    }
    let file = Metered { file, meter: meter.clone() };
    if !packed {
        return Ok(Box::new(BufReader::with_capacity(1 << 18, file)));
    }
    let unpacked = MultiGzDecoder::new(BufReader::with_capacity(1 << 18, file));
    let mut unpacked = BufReader::with_capacity(1 << 18, unpacked);
    if offset == 0 {
        let start = unpacked.fill_buf().map_err(|error| unreadable(&name, &error))?;
        refuse_utf16(start, &name)?;
    }
    let passed = io::copy(&mut unpacked.by_ref().take(offset), &mut io::sink());
    match passed.map_err(|error| unreadable(&name, &error))? {
        n if n == offset => Ok(Box::new(unpacked)),
        n => {
            let what = format!("unpacks to {n} bytes, but {offset} of it were read before");
            Err(Error::new(name, what, "bring the file back as it was"))
        }
    }
}

/// All the bytes of a file that has to be held in memory anyway (JSON, IDX), unpacked, and not more than `most`.
pub(crate) fn whole(path: &Path, most: u64) -> Result<Vec<u8>> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    stream(path)?.take(most + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&name, &error))?;
    if bytes.len() as u64 > most {
        let hint = "such a file is held in memory; split it";
        return Err(Error::new(name, format!("more than {} MB", most >> 20), hint));
    }
    Ok(bytes)
}

pub(crate) fn open_file(path: &Path) -> Result<File> {
    let name = path.display().to_string();
    if path.is_dir() {
        let hint = "name a file; a directory is read for pictures and for documents of one file each";
        return Err(Error::new(name, "is a directory", hint));
    }
    // Opening a pipe could wait for ever, and a device never ends. What is not there is told by the system.
    if path.exists() && !path.is_file() {
        let hint = "data are read more than once: write what a pipe says to a file, and name that";
        return Err(Error::new(name, "is a pipe or a device, not a file", hint));
    }
    File::open(path).map_err(|error| unreadable(&name, &error))
}

pub(crate) fn unreadable(name: &str, error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path; paths are relative to the current directory",
        io::ErrorKind::PermissionDenied => "check the permissions of the file",
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            "the file is damaged or cut short; get it anew"
        }
        _ => "check the disk and the file",
    };
    let what = match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_string(),
        _ => format!("cannot be read: {error}"),
    };
    Error::new(name, what, hint).of_kind(Kind::of_read(error))
}

fn first_bytes(file: &mut File, name: &str) -> Result<Vec<u8>> {
    let mut magic = Vec::new();
    let read = Read::by_ref(file).take(4).read_to_end(&mut magic).and_then(|_| file.seek(SeekFrom::Start(0)));
    read.map_err(|error| unreadable(name, &error))?;
    Ok(magic)
}

/// Unpacks into memory what has at most `in_memory` bytes, and into a temporary file what has more.
fn unpack(file: File, name: String, in_memory: u64) -> Result<Source> {
    let mut bytes = Vec::new();
    let mut reader = MultiGzDecoder::new(BufReader::new(file));
    reader.by_ref().take(in_memory).read_to_end(&mut bytes).map_err(|error| unreadable(&name, &error))?;
    refuse_utf16(&bytes, &name)?;
    if (bytes.len() as u64) < in_memory {
        return Ok(Source::Unpacked(bytes));
    }
    let full = |error: io::Error| {
        let hint = "make room where temporary files go (TMPDIR), or unpack it and name the plain file";
        Error::write(&name, &error, hint)
    };
    let mut spilled = NamedTempFile::new().map_err(full)?;
    spilled.write_all(&bytes).map_err(full)?;
    let mut block = vec![0; 1 << 16];
    let mut written = bytes.len() as u64;
    loop {
        let n = reader.read(&mut block).map_err(|error| unreadable(&name, &error))?;
        if n == 0 {
            break;
        }
        written += n as u64;
        if written > MOST_UNPACKED {
            let hint = "unpack it and name the plain file, which is read in place";
            return Err(Error::new(name, "unpacks to more than 64 GiB", hint));
        }
        spilled.write_all(&block[..n]).map_err(full)?;
    }
    Ok(Source::Spilled { file: spilled, name })
}

fn refuse_utf16(start: &[u8], name: &str) -> Result<()> {
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        return Err(Error::new(name, "is UTF-16 text", "save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    /// `bytes`, packed.
    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_and_plain_give_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let text = "one\ntwo\nthree\n".repeat(1000);
        for (name, bytes) in [("plain.txt", text.clone().into_bytes()), ("packed.txt", gzip(text.as_bytes()))] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(whole(&path, 1 << 20).unwrap(), text.as_bytes());
            let source = Source::open(&path).unwrap();
            assert_eq!(source.bytes(4, 3).unwrap(), b"two");
            assert!(source.bytes(text.len() as u64 - 1, 3).is_err());
        }
    }

    #[test]
    fn a_cut_gzip_and_utf16_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let packed = gzip(&[7; 10_000]);
        std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
        assert!(Source::open(&path).err().unwrap().hint.contains("cut short"));
        std::fs::write(&path, b"\xff\xfeh\0i\0").unwrap();
        assert!(Source::open(&path).err().unwrap().what.contains("UTF-16"));
    }

    #[test]
    fn a_missing_file_and_a_directory_are_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Source::open(&folder.path().join("nowhere")).err().unwrap().what, "no such file");
        assert_eq!(Source::open(folder.path()).err().unwrap().what, "is a directory");
    }
}
