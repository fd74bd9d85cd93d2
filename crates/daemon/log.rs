//! The process log: to the standard error, so that the standard output belongs to what a command prints.

use std::io::{self, IsTerminal as _};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One object a line, for collectors.
    Json,
}

/// Starts the log. `filter` is what the command line says; without it `RUST_LOG` counts, then `otherwise`.
pub(crate) fn start(filter: Option<&str>, format: Format, otherwise: &str) -> Result<(), Failure> {
    let from_environment = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|text| !text.is_empty());
    let text = filter.or(from_environment.as_deref()).unwrap_or(otherwise);
    let filter = EnvFilter::try_new(text).map_err(|error| {
        Failure::config(format!("log filter `{text}`: {error}; try `info` or `warn,gateway=debug`"))
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match format {
        Format::Text => log.with_ansi(io::stderr().is_terminal()).try_init(),
        Format::Json => log.json().try_init(),
    };
    started.map_err(|error| Failure::system(format!("cannot start the log: {error}")))
}
