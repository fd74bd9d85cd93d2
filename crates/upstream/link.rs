//! The two-way line to one server: ids minted, answers matched, writes queued.

use crate::connection::Wait;
use crate::counters::Counters;
use crate::error::UpstreamError;
use crate::exchange::{Exchange, Request, Slot};
use crate::notice::{Inbox, Taken};
use crate::remote::heads::Heads;
use crate::remote::{Site, post};
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::sync::{Notify, mpsc};
use wire::{Budget, Era, Frame, FrameError, Id, Kind, Method, Shape};

/// Lines that wait to be written to one server.
const QUEUE_LINES: usize = 1024;
/// Their bytes: room for a burst of large calls, and the end of what a server that does not read can hold (spec P-13).
const QUEUE_BYTES: usize = 96 * 1024 * 1024;

/// Requests that wait for an answer of one server.
const IN_FLIGHT: usize = 4096;

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
    /// Giving it up is not told: the handshake is never cancelled (spec B-22), nor is a ping.
    Quiet,
}

impl Manner {
    /// For a request of the gateway.
    pub(crate) fn of(method: Method) -> Self {
        let is_list = Kind::ALL.iter().any(|kind| kind.list_method() == method);
        if is_list { Self::Listing } else { Self::Cancellable }
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
    /// How often the server sent anything.
    heard: AtomicU64,
    /// A request timed out or did not get through: is the server still there?
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
    manner: Manner,
}

impl Link {
    /// A link and the queue that its writer empties. No message of the server may be longer than `cap` bytes.
    pub(crate) fn new(
        counters: Arc<Counters>,
        carrier: Carrier,
        cap: usize,
    ) -> (Arc<Self>, mpsc::Receiver<Outgoing>) {
        let (queue, written) = mpsc::channel(QUEUE_LINES);
        let link = Self {
            counters,
            inbox: Inbox::default(),
            carrier,
            site: OnceLock::new(),
            budget: Budget { bytes: cap, ..Budget::UPSTREAM },
            era: OnceLock::new(),
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

    /// Takes one line from the server. The error is for the log: the line is no message.
    pub(crate) fn receive(&self, line: Bytes) -> Result<(), FrameError> {
        match self.read(line.clone()) {
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

    /// Reads one message: strictly, but for the answer to a request for a list, whose items are judged one by one.
    pub(crate) fn read(&self, text: Bytes) -> Result<Frame, FrameError> {
        Frame::parse(text.clone(), &self.budget).or_else(|error| {
            let number = wire::readable_id(&text).and_then(|id| id.as_number());
            let manner = number.and_then(|number| self.pending().slots.get(&number).map(|open| open.manner));
            match manner {
                Some(Manner::Listing) => Frame::parse_leniently(text, &self.budget),
                Some(Manner::Cancellable | Manner::Quiet) | None => Err(error),
            }
        })
    }

    /// A number for a request that is not sent through the queue.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes one message that came by the stream of the request `number`. Returns it when it is the answer to that request, and
    /// an error when it would be if it were well-formed. Answers to other requests do not belong there (security 49).
    pub(crate) fn receive_for(&self, number: u64, text: Bytes) -> Result<Option<Frame>, UpstreamError> {
        let frame = match self.read(text.clone()) {
            Ok(frame) => frame,
            Err(error) => {
                self.counters.add(|counters| &counters.noise);
                let meant = wire::readable_id(&text).and_then(|id| id.as_number());
                return if meant == Some(number) { Err(unreadable(&error)) } else { Ok(None) };
            }
        };
        Ok(self.sort(number, frame))
    }

    /// The same for a message that was read already.
    pub(crate) fn sort(&self, number: u64, frame: Frame) -> Option<Frame> {
        if matches!(frame.shape(), Shape::Request | Shape::Notification) {
            self.route(frame);
            return None;
        }
        // An error without an id is about the request it comes back by; it could not be read.
        let is_ours = match frame.id() {
            Some(id) => id.as_number() == Some(number),
            None => frame.shape() == Shape::Failure,
        };
        if !is_ours {
            self.counters.add(|counters| &counters.late);
        }
        is_ours.then_some(frame)
    }

    /// Ends one request that was carried apart from the others.
    pub(crate) fn finish(&self, number: u64, end: Result<Frame, UpstreamError>) {
        let open = self.pending().slots.remove(&number);
        match open {
            Some(open) => open.slot.answer(end),
            None => self.counters.add(|counters| &counters.late),
        }
    }

    fn route(&self, frame: Frame) {
        match (frame.shape(), frame.method()) {
            // spec P-08: not answered, and of no use to anyone.
            (Shape::Request, _) if self.is_modern() => self.counters.add(|counters| &counters.dropped),
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
            Some(slot) => {
                if slot.progress(frame) == Taken::No {
                    self.counters.add(|counters| &counters.dropped);
                }
            }
            None => self.counters.add(|counters| &counters.late),
        }
    }

    /// A line that is no message. If it looks like the answer to an open request, that request fails now instead of by timeout.
    fn broken(&self, line: &Bytes, error: &FrameError) {
        self.counters.add(|counters| &counters.noise);
        let Some(number) = wire::readable_id(line).and_then(|id| id.as_number()) else { return };
        let Some(open) = self.pending().slots.remove(&number) else { return };
        open.slot.answer(Err(unreadable(error)));
    }
}

/// What a request is told whose answer cannot be read.
pub(crate) fn unreadable(error: &FrameError) -> UpstreamError {
    match error {
        FrameError::TooLarge { limit } => UpstreamError::TooLarge { limit: *limit },
        other => UpstreamError::garbled(fault(other)),
    }
}

/// What is wrong with a message, without anything it says.
pub(crate) fn fault(error: &FrameError) -> Cow<'static, str> {
    match error {
        FrameError::DuplicateKey { .. } => "a key stands twice in one object".into(),
        FrameError::Ambiguous { .. } => "a key is nearly a reserved one".into(),
        FrameError::TooLarge { .. }
        | FrameError::TooDeep
        | FrameError::TooManyNodes
        | FrameError::Syntax { .. }
        | FrameError::Batch
        | FrameError::BadId
        | FrameError::BadVersion
        | FrameError::NotAMessage => error.to_string().into(),
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
