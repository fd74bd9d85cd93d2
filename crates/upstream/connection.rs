//! A server that is up: send a request, get an exchange.

use crate::caller::Caller;
use crate::error::UpstreamError;
use crate::exchange::{Exchange, Slot};
use crate::link::{Link, Manner};
use crate::remote::heads;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use wire::{Id, Method, Revision};

/// What a server said about itself when it was initialized, or discovered.
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

    /// Whether calls of its tools can become tasks: by the extension, or in the revision that has them in its core.
    pub fn takes_tasks(&self) -> bool {
        match self.revision {
            Revision::R2026_07_28 => wire::task::declares(&self.capabilities),
            Revision::R2025_11_25 => wire::task::offers_calls(&self.capabilities),
            _ => false,
        }
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

/// One request on its way out: the body, and what a modern server over HTTP wants to read beside it (spec H-28, H-33).
#[derive(Clone, Copy)]
pub struct Outbound<'a> {
    /// Its method.
    pub method: Method,
    /// What it names: the server's own name of the tool or prompt, or the URI or task.
    pub name: Option<&'a str>,
    /// Arguments that are repeated as `Mcp-Param-*`: names without that prefix, and values as a header carries them.
    pub mirrored: &'a [(Box<str>, String)],
    /// Who calls, where the server hears of that; when it is left out, whoever called last by this connection.
    pub caller: Option<&'a Arc<Caller>>,
    /// Gets the id minted for it and returns the line to write, without a newline. The progress token, if any, is that id's number.
    pub build: &'a dyn Fn(&Id) -> Bytes,
}

/// An open connection to one server: one process, or one session over HTTP.
pub struct Connection {
    link: Arc<Link>,
    facts: Facts,
    process: Option<u32>,
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>, facts: Facts, process: Option<u32>) -> Arc<Self> {
        Arc::new(Self { link, facts, process })
    }

    /// What the server said about itself.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The process we started: the supervisor, whose child is the server. None for a server over HTTP.
    pub fn process(&self) -> Option<u32> {
        self.process
    }

    /// The same, with 0 for no process.
    pub fn pid(&self) -> u32 {
        self.process.unwrap_or_default()
    }

    /// Sends one request. Fails only if nothing was written. Over HTTP it is on its way while [`Exchange::next`] is polled, and only
    /// then.
    pub fn send_outbound(
        self: &Arc<Self>,
        outbound: &Outbound<'_>,
        wait: Wait,
    ) -> Result<Exchange, UpstreamError> {
        let mut heads = match self.link.is_modern_over_http() {
            true => Some(heads::modern(outbound.method, outbound.name, outbound.mirrored)?),
            false => None,
        };
        if let Some(caller) = outbound.caller {
            heads.get_or_insert_default().caller = Some(Arc::clone(caller));
        }
        let task = outbound.name.filter(|_| outbound.method == Method::TasksResult);
        self.link.send_by((Slot::of(task), Manner::of(outbound.method)), outbound.build, heads, wait)
    }

    /// Sends one request of any name, also one that does not exist, which a modern server over HTTP refuses.
    #[cfg(test)]
    pub(crate) fn send(
        self: &Arc<Self>,
        build: &dyn Fn(&Id) -> Bytes,
        wait: Wait,
    ) -> Result<Exchange, UpstreamError> {
        self.link.send(build, None, wait, Manner::Cancellable)
    }

    /// Sends a notification, or the answer to a request of the server.
    pub fn tell(&self, line: Bytes) -> Result<(), UpstreamError> {
        self.link.tell(line)
    }

    /// From here on progress of an answered request comes as a notice: it goes on without an answer of its own (spec U-12). False
    /// when there are too many such requests.
    pub fn keep_reporting(&self, number: u64) -> bool {
        self.link.keep_reporting(number)
    }

    /// Nobody wants to hear of it any more.
    pub fn stop_reporting(&self, number: u64) {
        self.link.stop_reporting(number);
    }

    /// Whether the server is still there, as far as we know.
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
            .field("process", &self.process)
            .field("revision", &self.facts.revision)
            .finish_non_exhaustive()
    }
}
