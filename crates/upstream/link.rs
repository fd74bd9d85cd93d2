//! The two-way line to one process: ids minted, answers matched, writes queued.

use crate::connection::Wait;
use crate::counters::Counters;
use crate::error::UpstreamError;
use crate::exchange::{Exchange, Slot};
use crate::notice::{Inbox, Taken};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, mpsc};
use wire::{Budget, Frame, FrameError, Id, Method, Shape};

/// Lines that wait to be written to one process.
const QUEUE_LINES: usize = 1024;
/// Their bytes: room for a burst of large calls, and the end of what a server that does not read can hold (spec P-13).
const QUEUE_BYTES: usize = 96 * 1024 * 1024;

/// Requests that wait for an answer of one process.
const IN_FLIGHT: usize = 4096;

/// Whether giving a request up is told to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// By `notifications/cancelled`.
    Cancellable,
    /// Not at all: the handshake is never cancelled (spec B-22), nor is a ping.
    Quiet,
}

/// One line on its way to the process.
pub(crate) struct Outgoing {
    line: Bytes,
    slot: Option<Arc<Slot>>,
    queued: Arc<AtomicUsize>,
}

impl Outgoing {
    /// The line, unless its asker has given up; from here on it counts as sent.
    pub(crate) fn begin(&self) -> Option<Bytes> {
        match &self.slot {
            Some(slot) if !slot.begin() => None,
            _ => Some(self.line.clone()),
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.queued.fetch_sub(self.line.len(), Ordering::Relaxed);
    }
}

/// What both sides of a connection share.
pub(crate) struct Link {
    pub(crate) counters: Arc<Counters>,
    /// What the server says unasked.
    pub(crate) inbox: Inbox,
    next: AtomicU64,
    pending: Mutex<Pending>,
    queue: mpsc::Sender<Outgoing>,
    queued: Arc<AtomicUsize>,
    /// How often the process wrote anything on stdout.
    heard: AtomicU64,
    /// A request timed out: is the process still there?
    doubt: Notify,
}

#[derive(Default)]
struct Pending {
    slots: HashMap<u64, Open>,
    closed: Option<Box<str>>,
}

struct Open {
    slot: Arc<Slot>,
    progress: bool,
}

impl Link {
    /// A link and the queue that its writer empties.
    pub(crate) fn new(counters: Arc<Counters>) -> (Arc<Self>, mpsc::Receiver<Outgoing>) {
        let (queue, written) = mpsc::channel(QUEUE_LINES);
        let link = Self {
            counters,
            inbox: Inbox::default(),
            next: AtomicU64::new(first_id()),
            pending: Mutex::default(),
            queue,
            queued: Arc::default(),
            heard: AtomicU64::new(0),
            doubt: Notify::new(),
        };
        (Arc::new(link), written)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(
        self: &Arc<Self>,
        build: &dyn Fn(&Id) -> Bytes,
        wait: Wait,
        manner: Manner,
    ) -> Result<Exchange, UpstreamError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let line = build(&Id::number(number));
        let slot = Arc::new(Slot::default());
        {
            let mut pending = self.pending();
            if let Some(why) = &pending.closed {
                return Err(UpstreamError::NotRunning { why: why.clone() });
            }
            if pending.slots.len() >= IN_FLIGHT {
                return Err(UpstreamError::Busy);
            }
            pending.slots.insert(number, Open { slot: Arc::clone(&slot), progress: wait.progress });
        }
        // INVARIANT: the slot is in place before the line can be written, so no answer can be too early.
        if let Err(error) = self.push(line, Some(Arc::clone(&slot))) {
            self.forget(number);
            return Err(error);
        }
        Ok(Exchange::new(Arc::clone(self), slot, number, wait, manner))
    }

    pub(crate) fn tell(&self, line: Bytes) -> Result<(), UpstreamError> {
        if let Some(why) = &self.pending().closed {
            return Err(UpstreamError::NotRunning { why: why.clone() });
        }
        self.push(line, None)
    }

    fn push(&self, line: Bytes, slot: Option<Arc<Slot>>) -> Result<(), UpstreamError> {
        // A newline inside would smuggle in a second message (spec P-01).
        if memchr::memchr2(b'\n', b'\r', &line).is_some() {
            return Err(UpstreamError::garbled("a message with a newline in it was not sent"));
        }
        let before = self.queued.fetch_add(line.len(), Ordering::Relaxed);
        let too_much = before > 0 && before + line.len() > QUEUE_BYTES;
        // Dropping it gives its bytes back.
        let outgoing = Outgoing { line, slot, queued: Arc::clone(&self.queued) };
        if too_much {
            return Err(UpstreamError::Busy);
        }
        self.queue.try_send(outgoing).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => UpstreamError::Busy,
            mpsc::error::TrySendError::Closed(_) => {
                UpstreamError::not_running("it no longer reads its input")
            }
        })
    }

    pub(crate) fn forget(&self, number: u64) {
        self.pending().slots.remove(&number);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.pending().closed.is_none() && !self.queue.is_closed()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.pending().slots.len()
    }

    /// Ends the link: all open requests fail at once, later ones are refused.
    pub(crate) fn close(&self, why: &str) {
        let slots = {
            let mut pending = self.pending();
            pending.closed.get_or_insert_with(|| why.into());
            std::mem::take(&mut pending.slots)
        };
        for open in slots.into_values() {
            open.slot.lost(why);
        }
    }

    /// Notes that the process wrote something, whatever it was.
    pub(crate) fn hear(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// A request timed out.
    pub(crate) fn suspect(&self) {
        self.doubt.notify_one();
    }

    pub(crate) async fn suspected(&self) {
        self.doubt.notified().await;
    }

    /// Takes one line from the process. The error is for the log: the line is no message.
    pub(crate) fn receive(&self, line: Bytes) -> Result<(), FrameError> {
        match Frame::parse(line.clone(), &Budget::UPSTREAM) {
            Ok(frame) => {
                self.route(frame);
                Ok(())
            }
            Err(error) => {
                self.broken(&line, &error);
                Err(error)
            }
        }
    }

    fn route(&self, frame: Frame) {
        match (frame.shape(), frame.method()) {
            (Shape::Result | Shape::Failure, _) => self.answered(frame),
            (Shape::Notification, Some(Method::Progress)) => self.progressed(frame),
            (Shape::Notification, _) => {
                if self.inbox.push(frame) == Taken::No {
                    self.counters.add(|counters| &counters.dropped);
                }
            }
            (Shape::Request, Some(Method::Ping)) => self.reply(frame.id(), Reply::Pong),
            (Shape::Request, _) => {
                let id = frame.id().cloned();
                if self.inbox.push(frame) == Taken::No {
                    self.counters.add(|counters| &counters.dropped);
                    self.reply(id.as_ref(), Reply::Busy);
                }
            }
        }
    }

    /// Answers a request of the server ourselves (spec U-13).
    fn reply(&self, id: Option<&Id>, reply: Reply) {
        let Some(id) = id else { return };
        let line = match reply {
            Reply::Pong => wire::code::success(id, "{}"),
            Reply::Busy => wire::code::failure(Some(id), wire::code::INTERNAL_ERROR, "busy", None),
        };
        if self.tell(line).is_err() {
            self.counters.add(|counters| &counters.dropped);
        }
    }

    /// The first answer takes the slot out, so a second one finds none (security 49). An id echoed as a string counts (bug B13).
    fn answered(&self, frame: Frame) {
        let number = frame.id().and_then(Id::as_number);
        match number.and_then(|number| self.pending().slots.remove(&number)) {
            Some(open) => open.slot.answer(Ok(frame)),
            None => self.counters.add(|counters| &counters.late),
        }
    }

    fn progressed(&self, frame: Frame) {
        let token = frame.param("progressToken").and_then(|raw| Id::from_raw(raw).ok()?.as_number());
        let slot = token.and_then(|number| {
            let pending = self.pending();
            let open = pending.slots.get(&number)?;
            open.progress.then(|| Arc::clone(&open.slot))
        });
        match slot {
            Some(slot) => slot.progress(frame),
            None => self.counters.add(|counters| &counters.late),
        }
    }

    /// A line that is no message. If it looks like the answer to an open request, that request fails now instead of by timeout.
    fn broken(&self, line: &Bytes, error: &FrameError) {
        self.counters.add(|counters| &counters.noise);
        let Some(number) = wire::readable_id(line).and_then(|id| id.as_number()) else { return };
        let Some(open) = self.pending().slots.remove(&number) else { return };
        open.slot.answer(Err(match error {
            FrameError::TooLarge { limit } => UpstreamError::TooLarge { limit: *limit },
            other => UpstreamError::garbled(other.to_string()),
        }));
    }
}

#[derive(Clone, Copy)]
enum Reply {
    Pong,
    Busy,
}

/// Ids start at a random number so that an answer cannot be predicted, and stay below 2^53 for servers that count in doubles.
fn first_id() -> u64 {
    // Without entropy the ids are still unique, which is all that correctness needs.
    u64::from(getrandom::u32().unwrap_or(1)) + 1
}
