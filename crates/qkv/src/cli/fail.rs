//! How the program says that something is wrong: what, where, and a hint.

use std::io::Write;
use std::process::ExitCode;

/// A failure, with its exit code.
#[derive(Debug)]
pub(crate) struct Fail {
    message: String,
    hint: String,
    code: u8,
}

impl Fail {
    /// Bad usage or input: exit 2.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), code: 2 }
    }

    /// The work itself failed: exit 1.
    pub(crate) fn failed(place: &str, what: impl std::fmt::Display, hint: impl Into<String>) -> Self {
        Self { message: format!("{place}: {what}"), hint: hint.into(), code: 1 }
    }

    /// What is wrong, without the hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Ctrl-C: exit 130, with nothing more to say.
    pub(crate) fn interrupted() -> Self {
        Self { message: "interrupted".into(), hint: String::new(), code: 130 }
    }

    /// stdout does not take what is written; a closed pipe (`| head`) ends the program quietly.
    pub(crate) fn stdout(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        Self::failed("stdout", error, "is the disk full?")
    }

    /// The same where a library's error is wanted.
    pub(crate) fn stdout_error(error: std::io::Error) -> qkv_base::Error {
        let fail = Self::stdout(error);
        qkv_base::Error::new("stdout", fail.message, fail.hint)
    }

    /// Tells the person on stderr.
    pub(crate) fn report(&self) -> ExitCode {
        let hint = if self.hint.is_empty() { String::new() } else { format!("hint: {}\n", self.hint) };
        // A closed stderr (a terminal that is gone) hears nothing; the exit code tells all the same.
        let _ = write!(std::io::stderr().lock(), "error: {}\n{hint}", self.message);
        ExitCode::from(self.code)
    }
}

impl From<qkv_base::Error> for Fail {
    fn from(error: qkv_base::Error) -> Self {
        Self::usage(error.to_string(), error.hint)
    }
}
