//! The two-way line to one server: ids minted, answers matched, writes queued.

use crate::connection::Wait;
use crate::counters::Counters;
use crate::declared::Behalf;
use crate::error::UpstreamError;
use crate::exchange::{Exchange, Request, Slot};
use crate::notice::Inbox;
use crate::remote::heads::Heads;
use crate::remote::{Site, post};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::sync::{Notify, mpsc};
use wire::{Budget, Era, Frame, Id, Kind, Method};

mod inbound;

pub(crate) use inbound::{fault, unreadable};

/// Lines that wait to be written to one server.
const QUEUE_LINES: usize = 1024;
/// Their bytes: room for a burst of large calls, and the end of what a server that does not read can hold (spec P-13).
const QUEUE_BYTES: usize = 96 * 1024 * 1024;

/// Requests that wait for an answer of one server.
const IN_FLIGHT: usize = 4096;
/// Answered requests whose progress is still wanted.
const REPORTING: usize = 4096;

/// What lines travel by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// stdin and stdout: one stream each way.
    Pipe,
    /// HTTP: an answer comes back by the request it belongs to, and whoever waits for it drives that.
    Http,
}

/// How a request is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Giving it up is told by `notifications/cancelled`.
    Cancellable,
    /// So too. Its answer is a list, and a malformed item hides no other (spec T-14, bug B10).
    Listing,
    /// So too. It stays open, and what it brings is what the server says unasked (spec X-07).
    Listening,
    /// So too. It is about a task that runs elsewhere: nothing a server asks belongs to it.
    Aside,
    /// Giving it up is not told: the handshake is never cancelled (spec B-22), nor is a ping.
    Quiet,
}

impl Manner {
    /// For a request of the gateway.
    pub(crate) fn of(method: Method) -> Self {
        match method {
            Method::TasksGet | Method::TasksCancel | Method::TasksUpdate => Self::Aside,
            _ if Kind::ALL.iter().any(|kind| kind.list_method() == method) => Self::Listing,
            _ => Self::Cancellable,
        }
    }
}

/// One line on its way to the server.
pub(crate) struct Outgoing {
    line: Bytes,
    asker: Option<Asker>,
    /// What goes beside it over HTTP, in the modern era.
    pub(crate) heads: Option<Heads>,
    queued: Arc<AtomicUsize>,
}

/// Who waits for the answer to a line.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) number: u64,
    pub(crate) manner: Manner,
    pub(crate) slot: Arc<Slot>,
}

impl Outgoing {
    /// The line, unless its asker has given up; from here on it counts as sent.
    pub(crate) fn begin(&self) -> Option<Bytes> {
        match &self.asker {
            Some(asker) if !asker.slot.begin() => None,
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
    pub(crate) behalf: Behalf,
    /// What the server says unasked.
    pub(crate) inbox: Inbox,
    carrier: Carrier,
    /// Over HTTP: the server that requests go to.
    site: OnceLock<Weak<Site>>,
    /// What one message of the server may cost.
    budget: Budget,
    /// Known after the handshake; until then the server may do what legacy servers may.
    era: OnceLock<Era>,
    next: AtomicU64,
    pending: Mutex<Pending>,
    queue: mpsc::Sender<Outgoing>,
    queued: Arc<AtomicUsize>,
    /// The latest request to listen that was taken; what comes by those before it came by this one too.
    listening: AtomicU64,
    /// How often the server sent anything.
    heard: AtomicU64,
    /// A request timed out or did not get through: is the server still there?
    doubt: Notify,
}

#[derive(Default)]
struct Pending {
    slots: HashMap<u64, Open>,
    /// Answered requests whose progress still means something.
    reporting: HashSet<u64>,
    closed: Option<Box<str>>,
}

struct Open {
    slot: Arc<Slot>,
    progress: bool,
    manner: Manner,
}

impl Link {
    /// A link and the queue that its writer empties. No message of the server may be longer than `cap` bytes.
    pub(crate) fn new(
        counters: Arc<Counters>,
        carrier: Carrier,
        cap: usize,
        behalf: Behalf,
    ) -> (Arc<Self>, mpsc::Receiver<Outgoing>) {
        let (queue, written) = mpsc::channel(QUEUE_LINES);
        let link = Self {
            counters,
            behalf,
            inbox: Inbox::default(),
            carrier,
            site: OnceLock::new(),
            budget: Budget { bytes: cap, ..Budget::UPSTREAM },
            era: OnceLock::new(),
            next: AtomicU64::new(first_id()),
            pending: Mutex::default(),
            queue,
            queued: Arc::default(),
            listening: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            doubt: Notify::new(),
        };
        (Arc::new(link), written)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where requests over HTTP go.
    pub(crate) fn ask_at(&self, site: &Arc<Site>) {
        let _set_before = self.site.set(Arc::downgrade(site));
    }

    /// The handshake is over.
    pub(crate) fn settle(&self, era: Era) {
        let _settled_before = self.era.set(era);
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.era.get() == Some(&Era::Modern)
    }

    /// There, requests carry headers about themselves (spec H-28), and are given up by closing the stream the answer would come
    /// by (spec H-25).
    pub(crate) fn is_modern_over_http(&self) -> bool {
        self.carrier == Carrier::Http && self.is_modern()
    }

    pub(crate) fn send(
        self: &Arc<Self>,
        build: &dyn Fn(&Id) -> Bytes,
        heads: Option<Heads>,
        wait: Wait,
        manner: Manner,
    ) -> Result<Exchange, UpstreamError> {
        self.send_by((Slot::of(None), manner), build, heads, wait)
    }

    /// The same with a slot that knows more of the request.
    pub(crate) fn send_by(
        self: &Arc<Self>,
        (slot, manner): (Arc<Slot>, Manner),
        build: &dyn Fn(&Id) -> Bytes,
        heads: Option<Heads>,
        wait: Wait,
    ) -> Result<Exchange, UpstreamError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let line = build(&Id::number(number));
        {
            let mut pending = self.pending();
            if let Some(why) = &pending.closed {
                return Err(UpstreamError::NotRunning { why: why.clone() });
            }
            if pending.slots.len() >= IN_FLIGHT {
                return Err(UpstreamError::Busy);
            }
            pending.slots.insert(number, Open { slot: Arc::clone(&slot), progress: wait.progress, manner });
        }
        // INVARIANT: the slot is in place before the line can be written, so no answer can be too early.
        let asker = Asker { number, manner, slot };
        match self.begin(line, asker.clone(), heads) {
            Ok(request) => Ok(Exchange::new(Arc::clone(self), asker, request, wait)),
            Err(error) => {
                self.forget(number);
                Err(error)
            }
        }
    }

    pub(crate) fn tell(&self, line: Bytes) -> Result<(), UpstreamError> {
        if let Some(why) = &self.pending().closed {
            return Err(UpstreamError::NotRunning { why: why.clone() });
        }
        self.push(self.outgoing(line, None, None)?)
    }

    /// Puts a request into the queue, or makes it something for its asker to drive.
    fn begin(
        &self,
        line: Bytes,
        asker: Asker,
        heads: Option<Heads>,
    ) -> Result<Option<Request>, UpstreamError> {
        match self.carrier {
            Carrier::Pipe => self.push(self.outgoing(line, Some(asker), heads)?).map(|()| None),
            Carrier::Http => {
                let outgoing = self.outgoing(line, Some(asker.clone()), heads)?;
                let site = self.site.get().and_then(Weak::upgrade);
                let site = site.ok_or_else(|| UpstreamError::not_running("it was stopped"))?;
                Ok(Some(Box::pin(post::request(site, outgoing, asker))))
            }
        }
    }

    fn outgoing(
        &self,
        line: Bytes,
        asker: Option<Asker>,
        heads: Option<Heads>,
    ) -> Result<Outgoing, UpstreamError> {
        // A newline inside would smuggle in a second message (spec P-01).
        if memchr::memchr2(b'\n', b'\r', &line).is_some() {
            return Err(UpstreamError::garbled("a message with a newline in it was not sent"));
        }
        let before = self.queued.fetch_add(line.len(), Ordering::Relaxed);
        let too_much = before > 0 && before + line.len() > QUEUE_BYTES;
        // Dropping it gives its bytes back.
        let outgoing = Outgoing { line, asker, heads, queued: Arc::clone(&self.queued) };
        if too_much { Err(UpstreamError::Busy) } else { Ok(outgoing) }
    }

    fn push(&self, outgoing: Outgoing) -> Result<(), UpstreamError> {
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
        let pending = self.pending();
        // What listens is in nobody's way.
        pending.slots.values().filter(|open| open.manner != Manner::Listening).count()
    }

    /// From here on progress of an answered request is what the server says unasked (spec U-12). False when there are too many.
    pub(crate) fn keep_reporting(&self, number: u64) -> bool {
        let reporting = &mut self.pending().reporting;
        reporting.len() < REPORTING && reporting.insert(number)
    }

    pub(crate) fn stop_reporting(&self, number: u64) {
        self.pending().reporting.remove(&number);
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

    /// Notes that the server sent something, whatever it was.
    pub(crate) fn hear(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// A request timed out or did not get through.
    pub(crate) fn suspect(&self) {
        self.doubt.notify_one();
    }

    pub(crate) async fn suspected(&self) {
        self.doubt.notified().await;
    }

    /// The stream of a request ended before the answer, which will be fetched by another.
    pub(crate) fn postpone(&self, number: u64) {
        let slot = self.pending().slots.get(&number).map(|open| Arc::clone(&open.slot));
        if let Some(slot) = slot {
            slot.postpone();
        }
    }

    /// A number for a request that is not sent through the queue.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Ends one request that was carried apart from the others.
    pub(crate) fn finish(&self, number: u64, end: Result<Frame, UpstreamError>) {
        let open = self.pending().slots.remove(&number);
        match open {
            Some(open) => open.slot.answer(end),
            None => self.counters.add(|counters| &counters.late),
        }
    }
}

/// Ids start at a random number so that an answer cannot be predicted, and stay below 2^53 for servers that count in doubles.
fn first_id() -> u64 {
    // Without entropy the ids are still unique, which is all that correctness needs.
    u64::from(getrandom::u32().unwrap_or(1)) + 1
}
