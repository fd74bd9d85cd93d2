//! One event stream of a session: what was said on it, and the one reader it has at a time.
//!
//! The queue from which a stream is read is also what a client that lost its connection reads again: what was read
//! stays until something newer needs its place.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use wire::{Pieces, Revision, sse};

use super::{
    Session,
    event::Place,
    lock,
    room::{Held, Room},
};

/// Messages that may wait for a slow reader; what may be lost is dropped beyond.
const WAITING: usize = 16;

/// What must not be lost may wait beyond that: each question, and that it is taken back.
const QUESTIONS: usize = 128;

/// Messages that may wait on a stream which carries all of a session; answers may wait beyond that.
const ALL_WAITING: usize = 64;
const ANSWERS: usize = 1024;

/// Events of one stream that are kept.
const EVENTS: usize = 64;

/// Their bytes.
const BYTES: usize = 256 * 1024;

/// The largest answer that is kept beside them. A larger one reaches whoever listens when it comes, or nobody.
const ANSWER_BYTES: usize = 1024 * 1024;

/// When a client that lost a stream may come back, in milliseconds.
const RETRY: u32 = 1000;

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// One request, its answer included.
    Request,
    /// What belongs to no request.
    Session,
}

/// What dropping a stream would cost its client, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    /// All was read once, or could have been.
    Finished,
    /// Nobody listens, and nothing is promised.
    Silent,
    /// It is read; only coming back to it would be lost.
    Read,
    /// An answer that its client will come back for.
    Awaited,
    /// What is said next belongs there.
    Open,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) number: u32,
    pub(super) purpose: Purpose,
    /// What may be lost is dropped when so much waits.
    waiting: usize,
    /// Where its events are kept; none in revisions without event ids.
    room: Option<Arc<Room>>,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    events: VecDeque<Event>,
    /// The number of the first of them.
    first: u64,
    /// The number of the event that is read next.
    at: u64,
    /// Bytes of those that are kept.
    bytes: usize,
    /// Which reader it is that reads; those before it have lost their turn.
    turn: u64,
    is_read: bool,
    waker: Option<Waker>,
    is_over: bool,
    /// Nobody can come back to it.
    is_forgotten: bool,
    /// When it was left, or was over.
    since: Instant,
}

#[derive(Debug)]
struct Event {
    /// Empty for the one that only tells the stream's first id.
    message: Pieces,
    /// Its place among what is kept. Without one it is gone once it was read.
    held: Option<Held>,
}

impl Stream {
    /// A stream that nobody reads yet. Its first event may only say where to come back to (spec H-23).
    pub(super) fn new(number: u32, purpose: Purpose, revision: Revision, room: &Arc<Room>) -> Arc<Stream> {
        let room = (revision >= Revision::R2025_03_26).then(|| Arc::clone(room));
        let mut events = VecDeque::new();
        // Older clients may try to read the empty text as a message (spec H-23).
        if revision >= Revision::R2025_11_25 {
            let held = room.as_ref().and_then(|room| room.hold(0));
            events.push_back(Event { message: Pieces::default(), held });
        }
        Arc::new(Stream { number, purpose, waiting: WAITING, room, log: Mutex::new(Log::new(events)) })
    }

    /// A stream that carries all that a session says, its answers included. Nobody can come back to it.
    pub(super) fn of_line() -> Arc<Stream> {
        let log = Mutex::new(Log::new(VecDeque::new()));
        Arc::new(Stream { number: 0, purpose: Purpose::Session, waiting: ALL_WAITING, room: None, log })
    }

    /// Says something that may be lost; whether it was taken.
    pub(crate) fn say(&self, message: Pieces) -> bool {
        self.push(message, self.waiting)
    }

    /// Says something that must not be lost; false when nobody will read it.
    pub(crate) fn put(&self, message: Pieces) -> bool {
        self.push(message, self.waiting + QUESTIONS)
    }

    fn push(&self, message: Pieces, waiting: usize) -> bool {
        let mut log = lock(&self.log);
        if log.is_over || log.unread() >= waiting {
            return false;
        }
        let held = self.hold(&mut log, message.len(), (EVENTS, BYTES));
        if held.is_none() && !log.is_read {
            return false;
        }
        log.add(Event { message, held });
        log.wake();
        true
    }

    /// The last thing that is said.
    pub(crate) fn answer(&self, message: Pieces) {
        let mut log = lock(&self.log);
        let length = message.len();
        let held = match length {
            ..=ANSWER_BYTES => self.hold(&mut log, length, (EVENTS + 1, BYTES + ANSWER_BYTES)),
            _ => None,
        };
        log.add(Event { message, held });
        if !log.is_read {
            log.forget_unkept();
        }
        log.end();
    }

    /// An answer among others. Whoever lets more than `most` bytes of them wait does not read: the stream is over then.
    pub(super) fn carry(&self, message: Pieces, most: usize) {
        let mut log = lock(&self.log);
        if log.is_over {
            return;
        }
        let bytes: usize = log.events.iter().map(|event| event.message.len()).sum();
        if bytes > most || log.unread() >= ANSWERS {
            log.is_forgotten = true;
            log.is_read = false;
            log.forget_unkept();
            log.end();
            return;
        }
        log.add(Event { message, held: None });
        log.wake();
    }

    /// Nothing more comes.
    pub(crate) fn end(&self) {
        lock(&self.log).end();
    }

    /// A place for a message among what is kept, if what was read already leaves one.
    fn hold(&self, log: &mut Log, length: usize, (events, bytes): (usize, usize)) -> Option<Held> {
        let room = self.room.as_ref().filter(|_| !log.is_forgotten)?;
        loop {
            let fits = log.events.len() < events && log.bytes + length <= bytes;
            let held = if fits { room.hold(length) } else { None };
            // Its own past makes room, and nobody else's.
            if held.is_some() || log.first == log.at {
                return held;
            }
            log.drop_first();
        }
    }

    /// Makes whoever reads from here on the only one (spec H-20).
    pub(super) fn enter(&self) -> u64 {
        lock(&self.log).enter()
    }

    /// The same behind an event that was read before. None when what comes next is not there any more.
    pub(super) fn enter_after(&self, event: u64) -> Option<u64> {
        let mut log = lock(&self.log);
        let next = event.checked_add(1)?;
        if log.is_forgotten || next < log.first || next > log.first + log.events.len() as u64 {
            return None;
        }
        log.at = next;
        Some(log.enter())
    }

    pub(super) fn leave(&self, turn: u64) {
        let mut log = lock(&self.log);
        if log.turn != turn {
            return;
        }
        log.is_read = false;
        log.since = Instant::now();
        log.waker = None;
        if self.room.is_none() {
            log.is_forgotten = true;
        }
        log.forget_unkept();
    }

    /// Nobody can come back to it from now on.
    pub(super) fn forget(&self) {
        let mut log = lock(&self.log);
        log.is_forgotten = true;
        log.forget_unkept();
    }

    pub(super) fn is_read(&self) -> bool {
        lock(&self.log).is_read
    }

    /// Whether what is said may still be read: now, or by a client that comes back.
    pub(super) fn is_open(&self) -> bool {
        let log = lock(&self.log);
        !log.is_over && (log.is_read || !log.is_forgotten)
    }

    pub(super) fn worth(&self) -> Worth {
        let log = lock(&self.log);
        match (self.purpose, log.is_read, log.is_over) {
            (_, false, true) => Worth::Finished,
            (Purpose::Session, false, false) => Worth::Silent,
            (Purpose::Request, true, _) | (Purpose::Session, true, true) => Worth::Read,
            (Purpose::Request, false, false) => Worth::Awaited,
            (Purpose::Session, true, false) => Worth::Open,
        }
    }

    /// Whether nobody came back for so long that nobody will.
    pub(super) fn is_old(&self, age: Duration) -> bool {
        self.worth() <= Worth::Silent && lock(&self.log).since.elapsed() >= age
    }

    /// Lets its reader look again.
    pub(super) fn nudge(&self) {
        lock(&self.log).wake();
    }

    pub(super) fn poll_next(&self, turn: u64, cx: &Context<'_>) -> Poll<Option<(u64, Pieces)>> {
        let mut log = lock(&self.log);
        if log.turn != turn {
            return Poll::Ready(None);
        }
        if let Some(next) = log.take() {
            return Poll::Ready(Some(next));
        }
        if log.is_over {
            return Poll::Ready(None);
        }
        log.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Log {
    fn new(events: VecDeque<Event>) -> Log {
        Log {
            events,
            first: 0,
            at: 0,
            bytes: 0,
            turn: 0,
            is_read: false,
            waker: None,
            is_over: false,
            is_forgotten: false,
            since: Instant::now(),
        }
    }

    fn unread(&self) -> usize {
        // INVARIANT: never more than there are events.
        usize::try_from((self.first + self.events.len() as u64).saturating_sub(self.at)).unwrap_or(usize::MAX)
    }

    fn add(&mut self, event: Event) {
        self.bytes += event.held.as_ref().map_or(0, Held::bytes);
        self.events.push_back(event);
    }

    fn take(&mut self) -> Option<(u64, Pieces)> {
        let index = usize::try_from(self.at.checked_sub(self.first)?).ok()?;
        let event = self.events.get(index)?;
        let (number, message, is_kept) = (self.at, event.message.clone(), event.held.is_some());
        self.at += 1;
        if !is_kept || self.is_forgotten {
            while self.first < self.at {
                self.drop_first();
            }
        }
        Some((number, message))
    }

    fn drop_first(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.held.as_ref().map_or(0, Held::bytes);
        }
        self.first += 1;
    }

    /// Without a reader only what has its place stays, and nothing from before something that is lost.
    fn forget_unkept(&mut self) {
        if self.is_read {
            return;
        }
        let lost = match self.is_forgotten {
            true => self.events.len(),
            false => self.events.iter().rposition(|event| event.held.is_none()).map_or(0, |last| last + 1),
        };
        for _ in 0..lost {
            self.drop_first();
        }
        self.at = self.at.max(self.first);
    }

    fn enter(&mut self) -> u64 {
        self.turn += 1;
        self.is_read = true;
        // Whoever read before learns that it has lost its turn.
        self.wake();
        self.turn
    }

    fn end(&mut self) {
        if !self.is_over {
            self.is_over = true;
            self.since = Instant::now();
        }
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The reading end of a stream. Keeps its session alive for as long as it is open.
#[derive(Debug)]
pub(crate) struct Reader {
    session: Arc<Session>,
    stream: Arc<Stream>,
    turn: u64,
}

impl Reader {
    /// Reads from where the stream is.
    pub(super) fn new(session: Arc<Session>, stream: Arc<Stream>) -> Reader {
        let turn = stream.enter();
        Reader { session, stream, turn }
    }

    /// Reads what came after an event; none when that is not there any more.
    pub(super) fn after(session: Arc<Session>, stream: Arc<Stream>, event: u64) -> Option<Reader> {
        let turn = stream.enter_after(event)?;
        Some(Reader { session, stream, turn })
    }

    /// The next event as it is written; none when the stream is over, or is read by somebody else. May be dropped
    /// half-way.
    pub(crate) async fn next_event(&mut self) -> Option<Pieces> {
        let (event, message) = poll_fn(|cx| self.stream.poll_next(self.turn, cx)).await?;
        let place = Place { stream: self.stream.number, event };
        let id = self.stream.room.is_some().then(|| self.session.event_id(place));
        Some(match &id {
            Some(id) if message.is_empty() => sse::priming(id, RETRY),
            Some(_) | None => sse::event(&message, id.as_deref()),
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stream.leave(self.turn);
        // The idle clock starts when the stream closes, not when the last request was sent.
        self.session.touch();
    }
}
