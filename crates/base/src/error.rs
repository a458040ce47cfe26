//! How every room says that something is wrong: where, what, what to do about it, and of which kind it is.
//!
//! The kind is for programs as the words are for people: the binary turns it into an exit code, a server into a status.

use std::io;
use thiserror::Error;

/// Whose turn it is after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A call or a command line that asks for what cannot be.
    Usage,
    /// A file, a spec or a text that will not do, or is not there.
    Input,
    /// The system failed while it read or wrote.
    Io,
    /// There is no room left to write to.
    DiskFull,
    /// Work that was begun and came to no good end: a loss that is not a number, a goal that was missed.
    Failed,
    /// A person asked to stop.
    Interrupted,
    /// A promise of this program does not hold: a fault to be reported.
    Internal,
}

/// A file, a spec or an input that will not do. `hint` says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {what}")]
pub struct Error {
    /// where: a file and line, a key of the spec, a place in the input
    pub place: String,
    /// what is wrong there
    pub what: String,
    /// what to do
    pub hint: String,
    /// of which kind it is
    pub kind: Kind,
}

impl Error {
    /// An error at `place`, with what is wrong and what to do: [`Kind::Input`], as most are.
    pub fn new(place: impl Into<String>, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into(), hint: hint.into(), kind: Kind::Input }
    }

    /// What the system says about reading `place`; the kind follows from it.
    ///
    /// ```
    /// use qkv_base::{Error, Kind};
    /// let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
    /// assert_eq!(Error::read("model", &gone, "check the path").kind, Kind::Input);
    /// ```
    pub fn read(place: impl Into<String>, error: &io::Error, hint: impl Into<String>) -> Self {
        Self::new(place, error.to_string(), hint).of_kind(Kind::of_read(error))
    }

    /// What the system says about writing `place`; the kind follows from it.
    ///
    /// ```
    /// use qkv_base::{Error, Kind};
    /// let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    /// assert_eq!(Error::write("out.json", &full, "make room").kind, Kind::DiskFull);
    /// ```
    pub fn write(place: impl Into<String>, error: &io::Error, hint: impl Into<String>) -> Self {
        Self::new(place, error.to_string(), hint).of_kind(Kind::of_write(error))
    }

    /// A promise of this program that does not hold.
    pub fn internal(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::new(place, what, "this is a fault of the program: please report it").of_kind(Kind::Internal)
    }

    /// The same error as one of another kind.
    pub fn of_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }
}

impl Kind {
    /// The kind of a failure to read. A file that is not there, may not be read or holds something else was named
    /// wrongly or made wrongly: input. Anything else is the system's.
    pub fn of_read(error: &io::Error) -> Self {
        use io::ErrorKind::*;
        match error.kind() {
            NotFound | PermissionDenied | InvalidData | InvalidInput | UnexpectedEof | IsADirectory | NotADirectory => {
                Self::Input
            }
            Interrupted => Self::Interrupted,
            _ => Self::Io,
        }
    }

    /// The kind of a failure to write. A place that cannot be written to was named wrongly; a disk that is full (or a
    /// quota, or a limit on the size of files) is not the name's fault.
    pub fn of_write(error: &io::Error) -> Self {
        use io::ErrorKind::*;
        match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::DiskFull,
            NotFound | PermissionDenied | IsADirectory | NotADirectory | ReadOnlyFilesystem | AlreadyExists
            | InvalidFilename => Self::Input,
            Interrupted => Self::Interrupted,
            _ => Self::Io,
        }
    }
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_follows_from_what_the_system_says() {
        let both = |kind: io::ErrorKind| (Kind::of_read(&kind.into()), Kind::of_write(&kind.into()));
        assert_eq!(both(io::ErrorKind::NotFound), (Kind::Input, Kind::Input));
        assert_eq!(both(io::ErrorKind::PermissionDenied), (Kind::Input, Kind::Input));
        assert_eq!(both(io::ErrorKind::InvalidData), (Kind::Input, Kind::Io));
        assert_eq!(both(io::ErrorKind::StorageFull), (Kind::Io, Kind::DiskFull));
        assert_eq!(both(io::ErrorKind::TimedOut), (Kind::Io, Kind::Io));
    }

    #[test]
    fn a_device_that_is_full_says_so() {
        // Linux has a device that is always full; elsewhere there is nothing to ask.
        let Ok(mut full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
        let error = io::Write::write_all(&mut full, b"x").unwrap_err();
        assert_eq!(Error::write("/dev/full", &error, "").kind, Kind::DiskFull);
    }
}
