//! Connections of HTTP+SSE: one event stream carries all that a session says, and a key names it (spec S-01 to S-06).

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use admission::{Principal, TenantId};
use wire::{Pieces, sse};

use super::{Session, Sessions, Stream, lock, registry::is_same};
use crate::{
    arrival::{Head, Transport},
    error::SessionError,
};

/// Connections there may be, whoever opened them.
const LINES: usize = 4_096;

/// And those of one tenant: nobody takes them from all others.
const OF_TENANT: usize = 1_024;

/// A connection on which nobody has begun a session ends after this long.
const UNUSED: Duration = Duration::from_secs(60);

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Lines {
    by_tenant: Mutex<HashMap<TenantId, ByKey>>,
}

type ByKey = HashMap<Arc<str>, Arc<Line>>;

/// One connection, from its GET to its end.
#[derive(Debug)]
pub(crate) struct Line {
    /// What messages for it are addressed to. Secret: in anonymous mode it is all that its owner can show.
    key: Arc<str>,
    owner: Arc<Principal>,
    server: Arc<str>,
    stream: Arc<Stream>,
    turn: u64,
    opened: Instant,
    /// Messages that arrived and are not answered yet.
    owed: AtomicUsize,
    talk: Mutex<Talk>,
}

#[derive(Debug)]
enum Talk {
    Silent,
    /// A handshake runs. One that came to nothing is forgotten, and so is this.
    Opening(Weak<Session>),
    Within(Arc<Session>),
    Over,
}

/// What a connection owes to a message: that it stays until this is dropped.
#[derive(Debug)]
pub(crate) struct Owed(Arc<Line>);

impl Sessions {
    /// Opens a connection of this asker.
    ///
    /// # Errors
    /// `Draining`, and `TooManyStreams` above the bounds.
    pub(crate) fn connect(
        &self,
        asker: &Arc<Principal>,
        server: &Arc<str>,
    ) -> Result<Arc<Line>, SessionError> {
        let mut random = [0; 24];
        getrandom::fill(&mut random).map_err(|_| SessionError::TooManyStreams)?;
        let stream = Stream::of_line();
        let line = Arc::new(Line {
            key: hex::encode(random).into(),
            owner: Arc::clone(asker),
            server: Arc::clone(server),
            turn: stream.enter(),
            stream,
            opened: Instant::now(),
            owed: AtomicUsize::new(0),
            talk: Mutex::new(Talk::Silent),
        });
        let mut by_tenant = lock(&self.lines.by_tenant);
        // Under the lock: a drain that begins now finds this connection, or is seen here.
        if self.is_draining() {
            return Err(SessionError::Draining);
        }
        if by_tenant.values().map(HashMap::len).sum::<usize>() >= LINES {
            return Err(SessionError::TooManyStreams);
        }
        let of_tenant = by_tenant.entry(asker.tenant.clone()).or_default();
        if of_tenant.len() >= OF_TENANT {
            return Err(SessionError::TooManyStreams);
        }
        // Strangers on loopback are told apart by nothing before they have a session.
        if !asker.issuer.is_empty() {
            let own = of_tenant.values().filter(|line| is_same(&line.owner, asker)).count();
            if own >= self.limits.per_principal {
                return Err(SessionError::TooManyStreams);
            }
        }
        of_tenant.insert(Arc::clone(&line.key), Arc::clone(&line));
        Ok(line)
    }

    /// The connection that a message is addressed to.
    ///
    /// # Errors
    /// `NoLine` when there is none, or it is somebody else's: no oracle (spec S-04).
    pub(crate) fn line(
        &self,
        head: &Head,
        asker: &Principal,
        server: &Arc<str>,
    ) -> Result<Arc<Line>, SessionError> {
        let key = head.session.as_deref().ok_or(SessionError::NoLine)?;
        let by_tenant = lock(&self.lines.by_tenant);
        let line = by_tenant.get(&asker.tenant).and_then(|lines| lines.get(key));
        let line = line.filter(|line| is_same(&line.owner, asker) && line.server == *server);
        line.map(Arc::clone).ok_or(SessionError::NoLine)
    }

    /// The connection on which a session is about to begin; none by other transports.
    pub(super) fn carrier(
        &self,
        head: &Head,
        asker: &Principal,
        server: &Arc<str>,
    ) -> Result<Option<Arc<Line>>, SessionError> {
        if head.endpoint.transport != Transport::Sse {
            return Ok(None);
        }
        let line = self.line(head, asker, server)?;
        match line.session() {
            Ok(_) => Err(SessionError::Opened),
            Err(SessionError::Unopened) => Ok(Some(line)),
            Err(error) => Err(error),
        }
    }

    /// Ends a connection, and with it the session that it carries (spec S-05).
    pub(crate) fn hang_up(&self, line: &Line) {
        let talk = {
            let mut by_tenant = lock(&self.lines.by_tenant);
            if let Some(lines) = by_tenant.get_mut(&line.owner.tenant) {
                lines.remove(&line.key);
            }
            std::mem::replace(&mut *lock(&line.talk), Talk::Over)
        };
        line.stream.leave(line.turn);
        line.stream.end();
        if let Talk::Within(session) = talk {
            self.end(&session);
        }
    }
}

impl Lines {
    /// Lets every reader see that the gateway is stopping.
    pub(super) fn nudge(&self) {
        lock(&self.by_tenant).values().flat_map(HashMap::values).for_each(|line| line.stream.nudge());
    }

    /// Ends all of them.
    pub(super) fn end(&self) {
        lock(&self.by_tenant).values().flat_map(HashMap::values).for_each(|line| line.stream.end());
    }
}

impl Line {
    /// What messages for it are addressed to.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The session that it carries.
    ///
    /// # Errors
    /// `Unopened` before that has begun, `NoLine` when it is over.
    pub(super) fn session(&self) -> Result<Arc<Session>, SessionError> {
        match &*lock(&self.talk) {
            Talk::Silent | Talk::Opening(_) => Err(SessionError::Unopened),
            Talk::Within(session) if !session.ended().is_cancelled() => Ok(Arc::clone(session)),
            Talk::Within(_) | Talk::Over => Err(SessionError::NoLine),
        }
    }

    /// Where a session on it says what it says.
    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Is kept for this session until its handshake has come to something: of two at once the first goes on.
    ///
    /// # Errors
    /// `Opened` for the second, `NoLine` when it is over.
    pub(super) fn claim(&self, session: &Arc<Session>) -> Result<(), SessionError> {
        let mut talk = lock(&self.talk);
        match &*talk {
            Talk::Over => return Err(SessionError::NoLine),
            Talk::Within(_) => return Err(SessionError::Opened),
            Talk::Opening(other) if other.strong_count() > 0 => return Err(SessionError::Opened),
            Talk::Opening(_) | Talk::Silent => (),
        }
        *talk = Talk::Opening(Arc::downgrade(session));
        Ok(())
    }

    /// Carries this session from now on, for which it was kept; false when it is over.
    pub(crate) fn begin(&self, session: &Arc<Session>) -> bool {
        let mut talk = lock(&self.talk);
        let is_kept = matches!(&*talk, Talk::Opening(kept) if kept.as_ptr() == Arc::as_ptr(session));
        if is_kept {
            *talk = Talk::Within(Arc::clone(session));
        }
        is_kept
    }

    /// Whether nobody has begun a session for too long.
    pub(crate) fn is_unused(&self) -> bool {
        self.opened.elapsed() >= UNUSED && matches!(*lock(&self.talk), Talk::Silent | Talk::Opening(_))
    }

    /// A message arrived: the connection stays until what is returned is dropped.
    pub(crate) fn owe(self: &Arc<Self>) -> Owed {
        self.owed.fetch_add(1, Ordering::AcqRel);
        Owed(Arc::clone(self))
    }

    /// The next event as it is written; none when it is over, or the gateway is stopping and all is said. May be
    /// dropped half-way.
    pub(crate) async fn next_event(&self, sessions: &Sessions) -> Option<Pieces> {
        let next = poll_fn(|cx| match self.stream.poll_next(self.turn, cx) {
            // Whoever owes less, or begins to drain, wakes this.
            Poll::Pending if sessions.is_draining() && self.owed.load(Ordering::Acquire) == 0 => {
                Poll::Ready(None)
            }
            polled => polled,
        });
        let (_, message) = next.await?;
        Some(sse::named(&message))
    }
}

impl Owed {
    /// Where it is said.
    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.0.stream
    }

    /// Says the answer. `most` bytes of answers may wait for a slow reader.
    pub(crate) fn answer(self, message: Pieces, most: usize) {
        self.0.stream.carry(message, most);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.0.owed.fetch_sub(1, Ordering::AcqRel);
        self.0.stream.nudge();
    }
}
