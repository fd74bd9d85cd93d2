//! Log messages of servers on their way to clients: who wants to hear how much, and whose they are (spec U-14 to U-17).

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
};

use bytes::Bytes;
use tokio::time::{Duration, Instant};
use upstream::Spec;
use wire::{
    Budget, Change, Frame, code,
    input::{changed, member},
    meta,
    task::RELATED,
};

use crate::{
    error::CatalogError,
    session::{Session, Sessions},
    visit::Visit,
};

mod redact;
mod spread;

pub(crate) use spread::{deliver, spread, spread_from};

/// Log messages of one upstream that one session, or one modern request, hears in one window; more are dropped and counted.
const HEARD: u32 = 100;
const WINDOW: Duration = Duration::from_secs(1);
/// The largest log message that is passed on, in bytes.
const LARGEST: usize = 64 * 1024;
/// Characters of a message that stand in our own log.
const EXCERPT: usize = 200;

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
    /// How many there are.
    pub(crate) const COUNT: usize = 8;

    const ALL: [Level; Level::COUNT] = [
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

    /// The one in this place, from the least severe on.
    pub(crate) fn at(place: usize) -> Option<Level> {
        Level::ALL.get(place).copied()
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
    /// By upstream, of which there are as many as are configured: one that says much leaves the others their turn.
    heard: Mutex<HashMap<Arc<str>, Window>>,
}

impl Hearing {
    /// What the client asked for; none while it has not.
    pub(crate) fn wanted(&self) -> Option<Level> {
        Hearing::said(self.level.load(Ordering::Relaxed))
    }

    /// Takes what the client asks for now, and returns what it asked for before.
    pub(crate) fn want(&self, level: Level) -> Option<Level> {
        Hearing::said(self.level.swap(level as u8 + 1, Ordering::Relaxed))
    }

    fn said(kept: u8) -> Option<Level> {
        Level::at(usize::from(kept).checked_sub(1)?)
    }

    /// Counts one message of this level, and says whether it is heard.
    fn hears(&self, level: Level, upstream: &Arc<str>) -> bool {
        if level < self.wanted().unwrap_or(UNSAID) {
            return false;
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.entry(Arc::clone(upstream)).or_default().take(HEARD)
    }
}

/// So many in a second.
#[derive(Debug, Default)]
pub(crate) struct Window {
    since: Option<Instant>,
    taken: u32,
}

impl Window {
    /// Counts one, and says whether there was room for it among so many.
    pub(crate) fn take(&mut self, most: u32) -> bool {
        if self.is_over() {
            *self = Window { since: Some(Instant::now()), taken: 0 };
        }
        self.taken = self.taken.saturating_add(1);
        self.taken <= most
    }

    /// Whether the next one begins another.
    pub(crate) fn is_over(&self) -> bool {
        self.since.is_none_or(|since| since.elapsed() >= WINDOW)
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

    /// Whether a request without a session wants to hear anything.
    pub(crate) fn is_request(&self) -> bool {
        matches!(self, Ear::Request(Some(_)))
    }

    /// What a modern upstream is asked for with this request (spec X-07): none when nobody wants anything.
    pub(crate) fn wanted(&self) -> Option<Level> {
        match self {
            Ear::Session(session) => session.hearing.wanted(),
            Ear::Request(wanted) => wanted.as_ref().map(|(level, _)| *level),
        }
    }

    /// What an upstream logged while the request ran, as the client may see it.
    pub(crate) fn hear(&mut self, message: &Frame, upstream: &Spec) -> Option<Bytes> {
        let level = level_of(message)?;
        let heard = match self {
            Ear::Session(session) => session.hearing.hears(level, &upstream.id),
            Ear::Request(None) => false,
            Ear::Request(Some((least, window))) => level >= *least && window.take(HEARD),
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

/// The message under the name of its upstream, without secrets (spec U-16) and without what concerned only the hop it came
/// by.
fn shown(message: &Frame, upstream: &Spec) -> Option<Bytes> {
    if message.bytes().len() > LARGEST {
        return None;
    }
    // All of it at once: a member that we do not know may be anything.
    let params = redact::json(message.params()?, &upstream.secrets());
    let clean = params.map(|params| {
        let (version, method) = (r#""jsonrpc":"2.0""#, message.method_name());
        format!(r#"{{{version},"method":{},"params":{params}}}"#, code::quote(method))
    });
    let clean = match clean {
        // Two keys that were different secrets are the same now; then it is no message any more.
        Some(clean) => Cow::Owned(Frame::parse(clean.into(), &Budget::UPSTREAM).ok()?),
        None => Cow::Borrowed(message),
    };
    let logger = match clean.param_text("logger") {
        Some(logger) => format!("{}/{logger}", upstream.id),
        None => upstream.id.to_string(),
    };
    // A server's own id of a task is nobody's business.
    let meta = meta::for_upstream(clean.param("_meta"), None).map(|meta| match member(&meta, RELATED) {
        Some(_) => changed(&meta, &[Change { key: RELATED, value: None }]),
        None => meta,
    });
    let changes = [
        Change { key: "logger", value: Some(Cow::Owned(code::quote(&logger))) },
        Change { key: "_meta", value: meta.map(Cow::Owned) },
    ];
    Some(clean.forward(None, &changes))
}

/// The start of what a message says, for our own log (spec U-16).
pub(crate) fn excerpt(message: &Frame, upstream: &Spec) -> String {
    let data = message.param("data").filter(|data| data.len() <= LARGEST).unwrap_or_default();
    let clean = redact::json(data, &upstream.secrets());
    clean.as_deref().unwrap_or(data).chars().take(EXCERPT).collect()
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
pub(crate) fn set_level(sessions: &Sessions, session: &Session, request: &Frame) -> Result<(), CatalogError> {
    let level = request.param("level").and_then(Level::read).ok_or(CatalogError::Parameter("level"))?;
    sessions.want(session, level);
    Ok(())
}

#[cfg(test)]
mod tests;
