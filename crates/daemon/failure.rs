//! How the process ends when it does not end well: one text for the operator, one exit code for the machine.

use std::{fmt, process::ExitCode};

/// Why a command could not do its work. Printed once, by `cli::main`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    exit: Exit,
    text: String,
}

/// The exit codes, after `sysexits.h` where it has a word that people know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command ran and the answer is no: a tool's error, an unknown tool.
    Answer = 1,
    /// The arguments make no sense.
    Usage = 2,
    /// Nobody answers there, or the address we should listen on is taken.
    Unavailable = 69,
    /// The operating system refused something we cannot do without.
    System = 71,
    /// The configuration has problems.
    Config = 78,
    /// A second SIGINT ended it at once.
    Interrupted = 130,
    /// A second SIGTERM ended it at once.
    Terminated = 143,
}

impl Failure {
    /// The command's answer is no.
    pub(crate) fn answer(text: impl Into<String>) -> Failure {
        Failure { exit: Exit::Answer, text: text.into() }
    }

    /// The arguments make no sense.
    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, text: text.into() }
    }

    /// Nobody is there, or somebody is in our place.
    pub(crate) fn unavailable(text: impl Into<String>) -> Failure {
        Failure { exit: Exit::Unavailable, text: text.into() }
    }

    /// The operating system refused.
    pub(crate) fn system(text: impl Into<String>) -> Failure {
        Failure { exit: Exit::System, text: text.into() }
    }

    /// The configuration cannot be used.
    pub(crate) fn config(text: impl Into<String>) -> Failure {
        Failure { exit: Exit::Config, text: text.into() }
    }

    /// Ended by a second signal, as asked: nothing is left to say.
    pub(crate) fn at_once(exit: Exit) -> Failure {
        Failure { exit, text: String::new() }
    }

    /// What the process ends with.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.exit as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
