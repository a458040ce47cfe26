//! Walks over the bytes of a file from front to back and never past the end.

use qkv_base::{Error, Result};

/// What to do about a file whose numbers do not add up.
pub(crate) const DAMAGED: &str = "the file is damaged or was cut short: fetch or write it again";

/// A place in some bytes.
pub(crate) struct Cursor<'a> {
    place: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the front of `bytes`; `place` names them in errors.
    pub(crate) fn new(place: &'a str, bytes: &'a [u8]) -> Self {
        Self { place, bytes, at: 0 }
    }

    /// How many bytes lie behind.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// How many bytes lie ahead.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// An error here.
    pub(crate) fn error(&self, what: impl AsRef<str>) -> Error {
        Error::new(self.place, format!("{} (at byte {})", what.as_ref(), self.at), DAMAGED)
    }

    /// The next `n` bytes, which are to hold `what`.
    pub(crate) fn take(&mut self, n: u64, what: &str) -> Result<&'a [u8]> {
        let end = usize::try_from(n).ok().and_then(|n| self.at.checked_add(n));
        let Some(taken) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(self.error(format!("{what} takes {n} bytes, but only {} are left", self.left())));
        };
        self.at += taken.len();
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let taken = self.take(N as u64, what)?;
        <[u8; N]>::try_from(taken).map_err(|_| self.error(what))
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Bytes up to the next line feed, which is passed over.
    pub(crate) fn line(&mut self, what: &str) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(length) = rest.iter().position(|&b| b == b'\n') else {
            return Err(self.error(format!("{what} has no end")));
        };
        self.at += length + 1;
        Ok(&rest[..length])
    }
}

/// Bytes as text, or an error that says where they stop being UTF-8.
pub(crate) fn utf8<'a>(place: &str, bytes: &'a [u8], what: &str) -> Result<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| {
        Error::new(place, format!("{what} is not UTF-8 from its byte {} on", error.valid_up_to()), DAMAGED)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_an_error() {
        let mut cursor = Cursor::new("f", &[1, 0, 2, 0, 0, 0, b'x', b'\n', 9]);
        assert_eq!((cursor.u16("a").unwrap(), cursor.u32("b").unwrap()), (1, 2));
        assert_eq!(cursor.line("c").unwrap(), b"x");
        let error = cursor.u16("the number").unwrap_err();
        assert_eq!(error.what, "the number takes 2 bytes, but only 1 are left (at byte 8)");
        assert!(cursor.take(u64::MAX, "all").is_err() && cursor.line("d").is_err());
        assert_eq!((cursor.at(), cursor.left(), cursor.u8("e").unwrap()), (8, 1, 9));
    }
}
