//! Just enough of zip to read what `torch.save` writes: the central directory (also zip64), stored and deflated files.
//!
//! Bombs: all that an archive claims to inflate to is added up before anything is inflated, and may be 64 times its own
//! length and a megabyte; no file inflates to more than it claims. The checksums of inflated files and of the pickle are
//! verified; those of stored tensors are not, since that would read the weights twice.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;

use qkv_base::{Error, Result};

use crate::cursor::{Cursor, DAMAGED, utf8};

/// The front of a record: signatures of the format.
const FILE: u32 = 0x0403_4b50;
const DIRECTORY: u32 = 0x0201_4b50;
const END: &[u8] = b"PK\x05\x06";
const END64: u32 = 0x0606_4b50;
const LOCATOR64: &[u8] = b"PK\x06\x07";
/// The end record, and the longest comment behind it.
const END_LENGTH: usize = 22;
const MOST_COMMENT: usize = 1 << 16;

/// An archive whose directory has been read.
pub(crate) struct Archive<'a> {
    place: &'a str,
    bytes: &'a [u8],
    files: Vec<File>,
    by_name: HashMap<String, usize>,
}

struct File {
    name: String,
    method: Method,
    crc: u32,
    packed: u64,
    size: u64,
    /// of its own header
    offset: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Method {
    Stored,
    Deflated,
}

/// What a file of the archive holds.
pub(crate) enum Content {
    /// these bytes of the archive
    Stored(Range<usize>),
    /// inflated
    Inflated(Vec<u8>),
}

impl<'a> Archive<'a> {
    /// Reads the directory at the end.
    pub(crate) fn open(place: &'a str, bytes: &'a [u8]) -> Result<Self> {
        let (count, offset) = directory(place, bytes)?;
        let start = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
        let start = start.ok_or_else(|| Error::new(place, "its directory lies beyond its end", DAMAGED))?;
        let mut cursor = Cursor::new(place, start);
        let mut files = Vec::new();
        let mut by_name = HashMap::new();
        // Each turn takes 46 bytes at least, so a false count ends with the bytes.
        for i in 0..count {
            let file = file(place, &mut cursor)?;
            if by_name.insert(file.name.clone(), i as usize).is_some() {
                return Err(cursor.error(format!("`{}` is twice in the archive", file.name)));
            }
            files.push(file);
        }
        let inflated = files.iter().filter(|f| f.method == Method::Deflated).map(|f| f.size);
        let inflated = inflated.fold(0, u64::saturating_add);
        if inflated > (bytes.len() as u64).saturating_mul(64).saturating_add(1 << 20) {
            let what = format!("claims to inflate to {inflated} bytes, more than 64 times its length");
            return Err(Error::new(place, what, super::TRUSTED));
        }
        Ok(Self { place, bytes, files, by_name })
    }

    /// The names in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.name.as_str())
    }

    /// Where the bytes of a file are, or what they inflate to.
    pub(crate) fn find(&self, name: &str) -> Result<Content> {
        let fail = |what: String| Error::new(self.place, what, DAMAGED);
        let file = self.by_name.get(name).and_then(|&i| self.files.get(i));
        let file = file.ok_or_else(|| fail(format!("`{name}` is not in the archive")))?;
        let header = usize::try_from(file.offset).ok().and_then(|at| self.bytes.get(at..));
        let header = header.ok_or_else(|| fail(format!("`{name}` lies beyond the end of the archive")))?;
        let mut cursor = Cursor::new(self.place, header);
        if cursor.u32("the header of a file")? != FILE {
            return Err(fail(format!("`{name}` has no header where the directory says")));
        }
        cursor.take(22, "the header of a file")?;
        let (name_length, extra_length) = (cursor.u16("a length")?, cursor.u16("a length")?);
        cursor.take(u64::from(name_length) + u64::from(extra_length), "the header of a file")?;
        let start = self.bytes.len() - header.len() + cursor.at();
        let packed = cursor.take(file.packed, name)?;
        match file.method {
            Method::Stored => Ok(Content::Stored(start..start + packed.len())),
            Method::Deflated => self.inflate(file, packed).map(Content::Inflated),
        }
    }

    /// The bytes of a file, checked against their checksum.
    pub(crate) fn read(&self, name: &str) -> Result<Cow<'a, [u8]>> {
        match self.find(name)? {
            Content::Inflated(bytes) => Ok(bytes.into()),
            Content::Stored(range) => {
                let bytes = &self.bytes[range];
                let crc = self.by_name.get(name).and_then(|&i| self.files.get(i)).map(|file| file.crc);
                self.check(name, bytes, crc.unwrap_or_default())?;
                Ok(bytes.into())
            }
        }
    }

    fn inflate(&self, file: &File, packed: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut reader = flate2::read::DeflateDecoder::new(packed).take(file.size.saturating_add(1));
        let read = reader.read_to_end(&mut out);
        if read.is_err() || out.len() as u64 != file.size {
            let what = format!("`{}` does not inflate to the {} bytes that it claims", file.name, file.size);
            return Err(Error::new(self.place, what, DAMAGED));
        }
        self.check(&file.name, &out, file.crc)?;
        Ok(out)
    }

    fn check(&self, name: &str, bytes: &[u8], crc: u32) -> Result<()> {
        let mut sum = flate2::Crc::new();
        sum.update(bytes);
        if sum.sum() == crc {
            return Ok(());
        }
        Err(Error::new(self.place, format!("`{name}` does not match its checksum"), DAMAGED))
    }
}

/// How many files there are, and where the directory begins.
fn directory(place: &str, bytes: &[u8]) -> Result<(u64, u64)> {
    let tail = bytes.len().saturating_sub(END_LENGTH + MOST_COMMENT);
    let found = bytes[tail..].windows(END.len()).rposition(|window| window == END);
    let at = found.ok_or_else(|| Error::new(place, "is a zip archive without its end", DAMAGED))? + tail;
    let mut cursor = Cursor::new(place, &bytes[at..]);
    cursor.take(10, "the end of the archive")?;
    let count = cursor.u16("the number of files")?;
    cursor.u32("the length of the directory")?;
    let offset = cursor.u32("the place of the directory")?;
    let comment = cursor.u16("the comment of the archive")?;
    cursor.take(comment.into(), "the comment of the archive")?;
    let locator = at.checked_sub(20).and_then(|from| bytes.get(from..at));
    match locator {
        Some(locator) if locator.starts_with(LOCATOR64) => directory64(place, bytes, locator),
        _ => Ok((count.into(), offset.into())),
    }
}

fn directory64(place: &str, bytes: &[u8], locator: &[u8]) -> Result<(u64, u64)> {
    let mut cursor = Cursor::new(place, locator);
    cursor.take(8, "the zip64 locator")?;
    let end = cursor.u64("the zip64 locator")?;
    let rest = usize::try_from(end).ok().and_then(|end| bytes.get(end..));
    let mut cursor = Cursor::new(place, rest.ok_or_else(|| cursor.error("the zip64 end lies beyond the end"))?);
    if cursor.u32("the zip64 end")? != END64 {
        return Err(cursor.error("the zip64 end is not where its locator says"));
    }
    cursor.take(28, "the zip64 end")?;
    let count = cursor.u64("the number of files")?;
    cursor.u64("the length of the directory")?;
    Ok((count, cursor.u64("the place of the directory")?))
}

/// One row of the directory.
fn file(place: &str, cursor: &mut Cursor) -> Result<File> {
    let what = "the directory of the archive";
    if cursor.u32(what)? != DIRECTORY {
        return Err(cursor.error("the directory of the archive is not where its end says"));
    }
    cursor.take(4, what)?;
    let flags = cursor.u16(what)?;
    let method = cursor.u16(what)?;
    cursor.take(4, what)?;
    let crc = cursor.u32(what)?;
    let (packed, size) = (cursor.u32(what)?, cursor.u32(what)?);
    let (name, extra, comment) = (cursor.u16(what)?, cursor.u16(what)?, cursor.u16(what)?);
    cursor.take(8, what)?;
    let offset = cursor.u32(what)?;
    let name = utf8(place, cursor.take(name.into(), what)?, "the name of a file in the archive")?.to_owned();
    let extra = cursor.take(extra.into(), what)?;
    cursor.take(comment.into(), what)?;
    let method = match (flags & 1, method) {
        (0, 0) => Method::Stored,
        (0, 8) => Method::Deflated,
        _ => return Err(cursor.error(format!("`{name}` is encrypted or packed in an unknown way ({method})"))),
    };
    let [size, packed, offset] = widen(place, extra, [size, packed, offset])?;
    Ok(File { name, method, crc, packed, size, offset })
}

/// Numbers that do not fit in 32 bits stand, in this order, in the extra field 1.
fn widen(place: &str, extra: &[u8], narrow: [u32; 3]) -> Result<[u64; 3]> {
    let mut wide = narrow.map(u64::from);
    if !narrow.contains(&u32::MAX) {
        return Ok(wide);
    }
    let mut cursor = Cursor::new(place, extra);
    while cursor.left() > 0 {
        let (id, length) = (cursor.u16("an extra field")?, cursor.u16("an extra field")?);
        let field = cursor.take(length.into(), "an extra field")?;
        if id == 1 {
            let mut cursor = Cursor::new(place, field);
            for wide in wide.iter_mut().filter(|wide| **wide == u64::from(u32::MAX)) {
                *wide = cursor.u64("a zip64 number")?;
            }
            break;
        }
    }
    Ok(wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Archives beyond 4 GB cannot be made for a test; their directory can.
    #[test]
    fn wide_numbers_stand_in_the_extra_field() {
        let mut extra = vec![9, 0, 2, 0, 7, 7]; // another field before it
        extra.extend([1, 0, 16, 0]);
        extra.extend((5u64 << 32).to_le_bytes());
        extra.extend((6u64 << 32).to_le_bytes());
        assert_eq!(widen("f", &extra, [u32::MAX, 3, u32::MAX]).unwrap(), [5 << 32, 3, 6 << 32]);
        assert_eq!(widen("f", &extra, [1, 2, 3]).unwrap(), [1, 2, 3]);
        assert!(widen("f", &extra, [u32::MAX; 3]).is_err()); // only two are there
        assert!(widen("f", &extra[..12], [u32::MAX, 3, 4]).is_err());
    }
}
