//! Log messages of servers on their way to clients: who wants to hear how much, and whose they are (spec U-14 to U-17).

use std::{
    borrow::Cow,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use bytes::Bytes;
use tokio::time::{Duration, Instant};
use wire::{Change, Frame, code, meta};

use crate::{error::CatalogError, session::Session, visit::Visit};

mod spread;

pub(crate) use spread::{deliver, spread, spread_from};

/// Log messages that one session, or one modern request, hears in one window; more are dropped and counted.
const HEARD: u32 = 100;
const WINDOW: Duration = Duration::from_secs(1);
/// The largest log message that is passed on, in bytes.
const LARGEST: usize = 64 * 1024;

/// How severe a message is, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    const ALL: [Level; 8] = [
        Level::Debug,
        Level::Info,
        Level::Notice,
        Level::Warning,
        Level::Error,
        Level::Critical,
        Level::Alert,
        Level::Emergency,
    ];

    /// As it is written on the wire.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Error => "error",
            Level::Critical => "critical",
            Level::Alert => "alert",
            Level::Emergency => "emergency",
        }
    }

    /// The level that a JSON text names.
    pub(crate) fn read(raw: &str) -> Option<Level> {
        let word: Cow<'_, str> = serde_json::from_str(raw).ok()?;
        Level::ALL.into_iter().find(|level| level.word() == word)
    }
}

/// What a session hears that has not said how much it wants to. Its servers are told nothing then.
const UNSAID: Level = Level::Info;

/// How much a session wants to hear, and how much it has heard lately.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    /// 0 until the client says it; then one more than the place of the level.
    level: AtomicU8,
    heard: Mutex<Window>,
}

impl Hearing {
    /// What the client asked for; none while it has not.
    pub(crate) fn wanted(&self) -> Option<Level> {
        let place = usize::from(self.level.load(Ordering::Relaxed)).checked_sub(1)?;
        Level::ALL.get(place).copied()
    }

    fn want(&self, level: Level) {
        self.level.store(level as u8 + 1, Ordering::Relaxed);
    }

    /// Counts one message of this level, and says whether it is heard.
    fn hears(&self, level: Level) -> bool {
        level >= self.wanted().unwrap_or(UNSAID)
            && self.heard.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// So many in so much time.
#[derive(Debug, Default)]
pub(crate) struct Window {
    since: Option<Instant>,
    taken: u32,
}

impl Window {
    /// Counts one, and says whether there was room for it.
    pub(crate) fn take(&mut self) -> bool {
        let now = Instant::now();
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            *self = Window { since: Some(now), taken: 0 };
        }
        self.taken = self.taken.saturating_add(1);
        self.taken <= HEARD
    }
}

/// Who hears what is logged while a request runs.
#[derive(Debug)]
pub(crate) enum Ear<'a> {
    /// The session, at its level.
    Session(&'a Session),
    /// This request alone: the level it carries, and what was heard; nothing without one (spec U-15).
    Request(Option<(Level, Window)>),
}

impl<'a> Ear<'a> {
    /// The ear of a request.
    pub(crate) fn of(visit: &'a Visit, request: &Frame) -> Ear<'a> {
        match visit {
            Visit::Opening(session) | Visit::Within(session) => Ear::Session(session),
            Visit::Alone(_) => {
                let raw = meta::member(request.param("_meta"), meta::LOG_LEVEL);
                Ear::Request(raw.and_then(Level::read).map(|level| (level, Window::default())))
            }
        }
    }

    /// What a modern upstream is asked for with this request (spec X-07): none when nobody wants anything.
    pub(crate) fn wanted(&self) -> Option<Level> {
        match self {
            Ear::Session(session) => session.hearing.wanted(),
            Ear::Request(wanted) => wanted.as_ref().map(|(level, _)| *level),
        }
    }

    /// What an upstream logged while the request ran, as the client may see it.
    pub(crate) fn hear(&mut self, message: &Frame, upstream: &str) -> Option<Bytes> {
        let level = level_of(message)?;
        let heard = match self {
            Ear::Session(session) => session.hearing.hears(level),
            Ear::Request(None) => false,
            Ear::Request(Some((least, window))) => level >= *least && window.take(),
        };
        if heard { shown(message, upstream) } else { None }
    }
}

/// The level of a log message; none when it is no such message, or one that nobody could read.
fn level_of(message: &Frame) -> Option<Level> {
    if message.method() != Some(wire::Method::LogMessage) {
        return None;
    }
    message.param("level").and_then(Level::read)
}

/// The message under the name of its upstream (spec U-16), without what concerned only the hop it came by.
fn shown(message: &Frame, upstream: &str) -> Option<Bytes> {
    if message.bytes().len() > LARGEST {
        return None;
    }
    let logger = match message.param_text("logger") {
        Some(logger) => format!("{upstream}/{logger}"),
        None => upstream.to_owned(),
    };
    let changes = [
        Change { key: "logger", value: Some(Cow::Owned(code::quote(&logger))) },
        Change { key: "_meta", value: meta::for_upstream(message.param("_meta"), None).map(Cow::Owned) },
    ];
    Some(message.forward(None, &changes))
}

/// `_meta` of a request to a modern upstream, raw JSON, with the level that its client wants (spec X-07).
pub(crate) fn with_level(mut meta: String, level: Option<Level>) -> String {
    if let Some(level) = level {
        // INVARIANT: an envelope has members, and ends with its brace.
        meta.pop();
        meta.extend([",\"", meta::LOG_LEVEL, "\":\"", level.word(), "\"}"]);
    }
    meta
}

/// Takes the level a session asks for.
///
/// # Errors
/// When it is none (spec U-14).
pub(crate) fn set_level(session: &Session, request: &Frame) -> Result<(), CatalogError> {
    let level = request.param("level").and_then(Level::read).ok_or(CatalogError::Parameter("level"))?;
    session.hearing.want(level);
    Ok(())
}

#[cfg(test)]
mod tests;
