//! All that transports and the pipeline say to each other.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use tokio::time::{Interval, interval};
use wire::Pieces;

use crate::{limits::StreamCharge, pipeline::Hearing, running::Running, session::Reader, snapshot::Snapshot};

/// What a transport hands in: who knocked, and a body nobody has read yet.
pub struct Arrival {
    /// Everything known before the first byte of the body.
    pub head: Head,
    /// The body. The pipeline reads it after the asker is known, so a stranger's bytes are never buffered.
    pub body: Unread,
}

/// Everything a transport knows before it reads the body. Nothing in it is trusted yet.
#[derive(Clone, Debug)]
pub struct Head {
    /// What the client wants of the endpoint.
    pub verb: Verb,
    /// Which endpoint was addressed.
    pub endpoint: Endpoint,
    /// `Mcp-Session-Id`, as sent. Over HTTP+SSE the key of the connection, which stands in the address.
    pub session: Option<Box<str>>,
    /// `MCP-Protocol-Version`, as sent; an empty header counts as none.
    pub revision: Option<Box<str>>,
    /// `Last-Event-ID`, as sent. Means something only to a session's GET (spec H-21, H-26).
    pub last_event: Option<Box<str>>,
    /// Every `Authorization` value, as sent.
    pub authorization: Credentials,
    /// The headers that repeat parts of a modern body, as sent.
    pub mirror: Mirrored,
    /// The client takes `application/json`.
    pub accepts_json: bool,
    /// The client takes `text/event-stream`.
    pub accepts_events: bool,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// When the head was complete.
    pub received: Instant,
}

/// The values of a header that no log may show.
#[derive(Clone, Default)]
pub struct Credentials(pub Vec<Box<str>>);

impl FromIterator<Box<str>> for Credentials {
    fn from_iter<I: IntoIterator<Item = Box<str>>>(values: I) -> Credentials {
        Credentials(values.into_iter().collect())
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} hidden", self.0.len())
    }
}

/// The headers that repeat parts of a modern body (spec H-28, H-30). The body decides; these must agree.
#[derive(Clone, Debug, Default)]
pub struct Mirrored {
    /// `Mcp-Method`.
    pub method: Option<Box<str>>,
    /// `Mcp-Name`.
    pub name: Option<Box<str>>,
    /// `Mcp-Param-*`: names in lower case without the prefix, and values.
    pub params: Vec<(Box<str>, Box<str>)>,
    /// The first of these that was sent more than once.
    pub repeated: Option<Box<str>>,
}

/// The three verbs of Streamable HTTP (spec H-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// One message.
    Post,
    /// Open the stream for what belongs to no request.
    Get,
    /// End the session.
    Delete,
}

/// The addressed endpoint, as in the path: `/mcp`, `/mcp/{server}`, `/t/{tenant}/mcp`, `/t/{tenant}/mcp/{server}`; the
/// same with `/sse` for the oldest transport, and with `/messages` for what is sent over it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// `{tenant}`, when the path names one.
    pub tenant: Option<Box<str>>,
    /// `{server}`; none is the virtual server `default`.
    pub server: Option<Box<str>>,
    /// How it is spoken to.
    pub transport: Transport,
}

impl Endpoint {
    /// The same virtual server by Streamable HTTP; none when that is how it is spoken to.
    pub(crate) fn by_streamable(&self) -> Option<Endpoint> {
        match self.transport {
            Transport::Streamable => None,
            Transport::Sse => Some(Endpoint { transport: Transport::Streamable, ..self.clone() }),
        }
    }
}

/// How clients reach an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Streamable HTTP, of both eras.
    #[default]
    Streamable,
    /// HTTP+SSE of 2024-11-05: one event stream that carries all that is said, and messages sent beside it.
    Sse,
}

/// A body that is read only when the pipeline asks for it.
pub type Unread = Pin<Box<dyn Future<Output = Result<Bytes, BodyError>> + Send>>;

/// Why a body could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Larger than the configured limit; told while streaming, not after buffering (spec H-05).
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// It did not arrive in time (security row 31).
    #[error("the body did not arrive in time")]
    Slow,
    /// The connection broke, or the framing did.
    #[error("the body ended early")]
    Broken,
}

/// What a transport gets back.
#[derive(Debug)]
pub enum Reply {
    /// Taken, nothing to say: 202 without a body.
    Accepted,
    /// The session is gone: 204.
    Ended,
    /// One message. For a client that takes only events, the single event of a stream.
    Message {
        /// The HTTP status.
        status: u16,
        /// The JSON-RPC message.
        body: Pieces,
        /// A session that was opened just now, for `Mcp-Session-Id`.
        session: Option<Arc<str>>,
        /// What the asker must show, for `WWW-Authenticate`.
        challenge: Option<String>,
    },
    /// The answer comes from upstream.
    Running(Running),
    /// A stream of a session, opened by GET.
    Listening(Box<Listening>),
}

/// A stream that was opened by GET: one for what belongs to no request, one that its client lost and goes on with, or
/// one of HTTP+SSE, which carries all that is said.
pub struct Listening {
    source: Source,
    /// What is told before anything of it.
    first: Option<Pieces>,
    /// What is in force now: who may listen can change while somebody does.
    current: Arc<ArcSwap<Snapshot>>,
    head: Head,
    check: Interval,
    _charge: StreamCharge,
}

/// Where the events of a stream come from.
pub(crate) enum Source {
    /// A stream of a session.
    Session(Reader),
    /// A connection of HTTP+SSE.
    Line(Hearing),
}

/// How often a long stream's credential is looked at again (spec H-27).
const CHECK: Duration = Duration::from_secs(5);

impl Listening {
    pub(crate) fn new(source: Source, current: Arc<ArcSwap<Snapshot>>, head: Head) -> Listening {
        Listening {
            source,
            first: None,
            current,
            head,
            check: interval(CHECK),
            _charge: StreamCharge::default(),
        }
    }

    /// Counts as one until it ends.
    pub(crate) fn charged(self, charge: StreamCharge) -> Listening {
        Listening { _charge: charge, ..self }
    }

    /// The endpoint and the key of a connection of HTTP+SSE, for its first event; none for any other stream.
    pub fn connection(&self) -> Option<(&Endpoint, &str)> {
        match &self.source {
            Source::Session(_) => None,
            Source::Line(hearing) => Some((&self.head.endpoint, hearing.key())),
        }
    }

    /// Tells this event before all others.
    pub fn begin_with(&mut self, event: Pieces) {
        self.first = Some(event);
    }

    /// The next event as it is written; none when the session, the credential or the gateway ends, or a resumed stream
    /// has given its answer. May be dropped half-way.
    pub async fn next_event(&mut self) -> Option<Pieces> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            tokio::select! {
                event = self.source.next_event() => return event,
                _ = self.check.tick() => {
                    if self.source.is_unused() || self.current.load().authn.identify(&self.head).is_err() {
                        return None;
                    }
                }
            }
        }
    }
}

impl Source {
    async fn next_event(&mut self) -> Option<Pieces> {
        match self {
            Source::Session(reader) => reader.next_event().await,
            Source::Line(hearing) => hearing.next_event().await,
        }
    }

    /// Opened long ago, and nothing was ever said on it.
    fn is_unused(&self) -> bool {
        match self {
            Source::Session(_) => false,
            Source::Line(hearing) => hearing.is_unused(),
        }
    }
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}
