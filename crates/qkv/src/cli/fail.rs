//! How the program says that something is wrong: what, where, and a hint.

use super::terminal::talk_part;
use qkv_base::{Error, Kind};
use std::process::ExitCode;

/// The exit code of each kind of error: 2 for what a person can mend by asking otherwise, 1 for work that failed.
fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Usage | Kind::Input => 2,
        Kind::Io | Kind::DiskFull | Kind::Failed | Kind::Internal => 1,
        Kind::Interrupted => 130,
    }
}

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
        Self { message: message.into(), hint: hint.into(), code: exit_code(Kind::Usage) }
    }

    /// The work itself failed: exit 1.
    pub(crate) fn failed(place: &str, what: impl std::fmt::Display, hint: impl Into<String>) -> Self {
        Self { message: format!("{place}: {what}"), hint: hint.into(), code: exit_code(Kind::Failed) }
    }

    /// Ctrl-C: exit 130, with nothing more to say.
    pub(crate) fn interrupted() -> Self {
        Self { message: "interrupted".into(), hint: String::new(), code: exit_code(Kind::Interrupted) }
    }

    /// stdout does not take what is written; a closed pipe (`| head`) ends the program quietly.
    pub(crate) fn stdout_error(error: std::io::Error) -> Error {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        Error::write("stdout", &error, "is the disk full?")
    }

    /// Tells the person on stderr.
    pub(crate) fn report(&self) -> ExitCode {
        ExitCode::from(self.tell())
    }

    /// The same; hands out the exit code as a number.
    pub(crate) fn tell(&self) -> u8 {
        let hint = if self.hint.is_empty() { String::new() } else { format!("hint: {}\n", self.hint) };
        talk_part(format_args!("error: {}\n{hint}", self.message));
        self.code
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        Self { message: error.to_string(), hint: error.hint, code: exit_code(error.kind) }
    }
}

impl std::fmt::Display for Fail {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
