//! The event streams of a session: opened, read again by a client that lost its connection, forgotten in time.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use wire::{Pieces, Revision};

use super::{
    Session,
    event::{Place, Stamp},
    lock,
    room::Room,
    stream::{Purpose, Reader, Stream},
};
use crate::error::SessionError;

/// GET streams a session may have open at once.
const OPEN: usize = 4;

/// Streams of a session that a client can come back to.
const KEPT: usize = 8;

/// How long a client may stay away from a stream.
const AWAY: Duration = Duration::from_secs(5 * 60);

/// The streams of one session. Costs nothing before one is opened.
#[derive(Debug)]
pub(super) struct Store {
    room: Arc<Room>,
    stamp: Stamp,
    /// The connection that carries all there is to say, where that is the transport.
    line: Option<Arc<Stream>>,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    /// The number of the newest.
    last: u32,
    /// The oldest first.
    known: VecDeque<Arc<Stream>>,
}

impl Store {
    pub(super) fn new(room: Arc<Room>, stamp: Stamp) -> Store {
        Store { room, stamp, line: None, streams: Mutex::default() }
    }

    /// The same for a session that a connection of HTTP+SSE carries.
    pub(super) fn on(self, line: Option<Arc<Stream>>) -> Store {
        Store { line, ..self }
    }

    fn open(&self, purpose: Purpose, revision: Revision) -> Result<Arc<Stream>, SessionError> {
        let mut streams = lock(&self.streams);
        streams.known.retain(|stream| stream.is_read() || revision >= Revision::R2025_03_26);
        if purpose == Purpose::Session && streams.open() >= OPEN {
            return Err(SessionError::TooManyStreams);
        }
        if streams.known.len() >= KEPT {
            streams.forget_one();
        }
        streams.last = streams.last.wrapping_add(1);
        let stream = Stream::new(streams.last, purpose, revision, &self.room);
        streams.known.push_back(Arc::clone(&stream));
        Ok(stream)
    }

    /// Puts a message on the newest stream that is read, since a client that lost a stream without our noticing has
    /// opened another.
    pub(super) fn deliver(&self, message: &Pieces) -> bool {
        if let Some(line) = &self.line {
            return line.say(message.clone());
        }
        let streams = lock(&self.streams);
        streams.for_session().any(|stream| stream.is_read() && stream.say(message.clone()))
    }

    /// Keeps a message for a client that comes back to the stream it lost last.
    pub(super) fn keep(&self, message: &Pieces) {
        let streams = lock(&self.streams);
        if let Some(lost) = streams.for_session().find(|stream| stream.is_open()) {
            lost.say(message.clone());
        }
    }

    pub(super) fn is_read(&self) -> bool {
        let open = lock(&self.streams).known.iter().any(|stream| stream.is_read());
        open || self.line.as_ref().is_some_and(|line| line.is_read())
    }

    /// Forgets what nobody came back for.
    pub(super) fn sweep(&self) {
        lock(&self.streams).known.retain(|stream| !stream.is_old(AWAY));
    }

    /// Ends the streams for what belongs to no request. Those of requests end with them.
    pub(super) fn close(&self) {
        lock(&self.streams).for_session().for_each(|stream| stream.end());
    }

    /// Ends the connection that carries the session.
    pub(super) fn hang_up(&self) {
        if let Some(line) = &self.line {
            line.end();
        }
    }
}

impl Streams {
    /// Those for what belongs to no request, the newest first.
    fn for_session(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.known.iter().rev().filter(|stream| stream.purpose == Purpose::Session)
    }

    fn open(&self) -> usize {
        self.for_session().filter(|stream| stream.is_read()).count()
    }

    /// Of those that would be missed least, the oldest. It goes on for whoever reads it.
    fn forget_one(&mut self) {
        let least = self.known.iter().enumerate().min_by_key(|(age, stream)| (stream.worth(), *age));
        let Some((at, _)) = least else { return };
        if let Some(stream) = self.known.remove(at) {
            stream.forget();
        }
    }
}

impl Session {
    /// Opens a stream for what belongs to no request.
    ///
    /// # Errors
    /// `TooManyStreams` above the bound; a new stream never replaces an old one (security row 21).
    pub(crate) fn listen(self: &Arc<Self>) -> Result<Reader, SessionError> {
        let stream = self.store.open(Purpose::Session, self.revision)?;
        Ok(Reader::new(Arc::clone(self), stream))
    }

    /// Opens the stream of a request and reads it; none in revisions whose clients cannot come back to one.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<(Arc<Stream>, Reader)> {
        if self.revision < Revision::R2025_03_26 {
            return None;
        }
        let stream = self.store.open(Purpose::Request, self.revision).ok()?;
        Some((Arc::clone(&stream), Reader::new(Arc::clone(self), stream)))
    }

    /// Goes on with the stream that this event stood on, and with no other (spec H-21).
    ///
    /// # Errors
    /// `UnknownEvent` when this session was never given that id, or what follows is not kept any more (spec H-22).
    pub(crate) fn resume(self: &Arc<Self>, event: &str) -> Result<Reader, SessionError> {
        let place = self.store.stamp.place(event).ok_or(SessionError::UnknownEvent)?;
        let streams = lock(&self.store.streams);
        let stream = streams.known.iter().find(|stream| stream.number == place.stream);
        let stream = stream.ok_or(SessionError::UnknownEvent)?;
        if stream.purpose == Purpose::Session && !stream.is_read() && streams.open() >= OPEN {
            return Err(SessionError::TooManyStreams);
        }
        Reader::after(Arc::clone(self), Arc::clone(stream), place.event).ok_or(SessionError::UnknownEvent)
    }

    /// What an event of this session is called.
    pub(super) fn event_id(&self, place: Place) -> String {
        self.store.stamp.id(place)
    }
}
