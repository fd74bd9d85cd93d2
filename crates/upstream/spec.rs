//! What an upstream is: who owns it, how it is started, how long we wait for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One configured upstream of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The tenant that owns it; the first part of every key.
    pub tenant: Arc<str>,
    /// Its configured id.
    pub id: Arc<str>,
    /// How its process is started.
    pub launch: Launch,
    /// How long we wait for what.
    pub patience: Patience,
    /// The longest line it may write, in bytes; a longer one ends the process.
    pub line_cap: usize,
}

/// How a stdio server is started: `SUPERVISOR __child -- PROGRAM ARGS`, never through a shell.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// Our own executable.
    pub supervisor: PathBuf,
    /// The server's program, resolved to an absolute path when the configuration was loaded.
    pub program: PathBuf,
    /// Its arguments, fixed by the operator.
    pub args: Vec<String>,
    /// What the configuration adds to the small clean environment.
    pub env: Vec<(String, String)>,
    /// Its working directory; ours when absent.
    pub dir: Option<PathBuf>,
}

impl std::fmt::Debug for Launch {
    /// Values of the environment are secrets and never printed.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        out.debug_struct("Launch")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &names)
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// How long we wait for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// From starting the process to the end of the handshake.
    pub start: Duration,
    /// Silence to `server/discover` until we take the server for a legacy one.
    pub probe: Duration,
    /// One call without progress.
    pub call: Duration,
    /// One call, whatever its progress.
    pub call_max: Duration,
    /// One page of a list.
    pub list: Duration,
    /// From closing its stdin to SIGTERM.
    pub eof_grace: Duration,
    /// From SIGTERM to SIGKILL.
    pub term_grace: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(30),
            probe: Duration::from_secs(1),
            call: Duration::from_secs(60),
            call_max: Duration::from_secs(600),
            list: Duration::from_secs(15),
            eof_grace: Duration::from_secs(1),
            term_grace: Duration::from_secs(2),
        }
    }
}

/// For whom a process runs. A legacy server is never shared between principals unless the tenant says so (spec P-11).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Seat {
    /// The catalog connection; also the one of `share: tenant`.
    Shared,
    /// One principal's own process.
    Principal(Arc<str>),
    /// One session's own process.
    Session(Arc<str>),
}

/// What the probe found out about a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraFound {
    /// It speaks `initialize`.
    Legacy,
    /// It speaks `server/discover`.
    Modern,
    /// It speaks `initialize`, and anything before that ends it, wedges it or makes it modern for good (spec E-13).
    DiesWhenProbed,
}

/// Remembers what probes found, so that later seats of the same upstream start faster (spec E-16).
pub trait EraMemory: Send + Sync {
    /// What was found last, if anything.
    fn recall(&self, tenant: &str, upstream: &str) -> Option<EraFound>;
    /// Keeps what was found.
    fn remember(&self, tenant: &str, upstream: &str, found: EraFound);
}
