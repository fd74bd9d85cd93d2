//! A process that is up: send a request, get an exchange.

use crate::error::UpstreamError;
use crate::exchange::Exchange;
use crate::link::{Link, Manner};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use wire::{Id, Revision};

/// What a server said about itself when it was initialized.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The revision it speaks with us.
    pub revision: Revision,
    /// Its capabilities, a raw JSON object.
    pub capabilities: String,
    /// Its instructions for the model.
    pub instructions: Option<String>,
    /// Its `serverInfo`, a raw JSON object.
    pub server: String,
}

impl Facts {
    /// The raw JSON of one capability.
    pub fn capability(&self, key: &str) -> Option<&str> {
        wire::meta::member(Some(&self.capabilities), key)
    }

    /// Whether it declared a capability; `null` and `false` do not.
    pub fn has(&self, key: &str) -> bool {
        self.capability(key).is_some_and(|value| !matches!(value.trim(), "null" | "false"))
    }
}

/// How long to wait for an answer.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// Until the first sign of life; each progress starts it again.
    pub first: Duration,
    /// In all, whatever the progress (spec B-25).
    pub most: Duration,
    /// Whether the request carries our progress token. Without it, progress for this request is dropped.
    pub progress: bool,
}

/// An initialized connection to one process.
pub struct Connection {
    link: Arc<Link>,
    facts: Facts,
    pid: u32,
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>, facts: Facts, pid: u32) -> Arc<Self> {
        Arc::new(Self { link, facts, pid })
    }

    /// What the server said about itself.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The process we started: the supervisor, whose child is the server.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends one request. `build` gets the id minted for it and returns the line to write, without a newline; the progress token,
    /// if any, is that id's number. Fails only if nothing was written.
    pub fn send(
        self: &Arc<Self>,
        build: &dyn Fn(&Id) -> Bytes,
        wait: Wait,
    ) -> Result<Exchange, UpstreamError> {
        self.link.send(build, wait, Manner::Cancellable)
    }

    /// Sends a notification, or the answer to a request of the server.
    pub fn tell(&self, line: Bytes) -> Result<(), UpstreamError> {
        self.link.tell(line)
    }

    /// Whether the process still runs and reads.
    pub fn is_open(&self) -> bool {
        self.link.is_open()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.link.in_flight()
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Connection")
            .field("pid", &self.pid)
            .field("revision", &self.facts.revision)
            .finish_non_exhaustive()
    }
}
