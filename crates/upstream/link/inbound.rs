//! What comes from a server: to whom each message goes (spec, P-08, P-09).

use super::{Link, Manner, Open};
use crate::declared::Behind;
use crate::error::UpstreamError;
use crate::exchange::Slot;
use crate::notice::{Taken, is_list_change};
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::{Change, Frame, FrameError, Id, Method, Shape, meta};

/// How a message came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By the one stream that everything comes by.
    Common,
    /// By the stream of the request with this number.
    Answering(u64),
    /// By a stream beside all requests.
    Beside,
}

#[derive(Clone, Copy)]
enum Reply {
    Pong,
    Busy,
    /// What it asked for is over.
    TooLate,
}

impl Link {
    /// Takes one line of the one stream that everything comes by. The error is for the log: the line is no message.
    pub(crate) fn receive(&self, line: Bytes) -> Result<(), FrameError> {
        self.take(line, Way::Common)
    }

    /// The same by a stream beside all requests.
    pub(crate) fn receive_beside(&self, line: Bytes) -> Result<(), FrameError> {
        self.take(line, Way::Beside)
    }

    fn take(&self, line: Bytes, way: Way) -> Result<(), FrameError> {
        match self.read(line.clone()) {
            Ok(frame) => {
                self.route(frame, way);
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
                Some(Manner::Cancellable | Manner::Listening | Manner::Aside | Manner::Quiet) | None => {
                    Err(error)
                }
            }
        })
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
            self.route(frame, Way::Answering(number));
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

    fn route(&self, frame: Frame, way: Way) {
        match (frame.shape(), frame.method()) {
            // spec P-08: not answered, and of no use to anyone.
            (Shape::Request, _) if self.is_modern() => self.counters.add(|counters| &counters.dropped),
            (Shape::Result | Shape::Failure, _) => self.answered(frame),
            (Shape::Notification, Some(Method::Progress)) => self.progressed(frame),
            (Shape::Notification, Some(Method::Cancelled)) => self.retracted(frame),
            (Shape::Notification, _) => {
                let Some(frame) = self.listened(frame, way) else { return };
                let is_apart = is_about_the_server(&frame) || frame.method() == Some(Method::TaskStatus);
                let cause = if is_apart { None } else { self.cause(self.heard_by(way, &frame), &frame) };
                let taken = match cause {
                    Some(slot) => slot.told(frame),
                    None => self.inbox.push(frame),
                };
                if taken == Taken::No {
                    self.counters.add(|counters| &counters.dropped);
                }
            }
            (Shape::Request, Some(Method::Ping)) => self.reply(frame.id(), Reply::Pong),
            (Shape::Request, _) => self.asked(frame, way),
        }
    }

    /// A request of the server. With nobody to attribute it to, the gateway refuses it (spec Q-04).
    fn asked(&self, frame: Frame, way: Way) {
        let id = frame.id().cloned();
        let cause = match self.behalf.behind {
            Behind::Many => None,
            // Some servers ask by the stream beside all requests. As where there is one stream only, that is not more than a single
            // call can have caused.
            Behind::One(_) if way == Way::Beside => self.cause(Way::Common, &frame),
            Behind::One(_) => self.cause(way, &frame),
        };
        let taken = match cause {
            Some(slot) => slot.question(frame),
            None => self.inbox.push(frame),
        };
        if taken == Taken::No {
            self.counters.add(|counters| &counters.dropped);
            self.reply(id.as_ref(), Reply::Busy);
        }
    }

    /// By which way a notification counts as heard. What is logged beside all requests belongs to the only call of the one behind
    /// this seat, if that call hears it nowhere else (spec X-12).
    fn heard_by(&self, way: Way, frame: &Frame) -> Way {
        let is_log = way == Way::Beside && frame.method() == Some(Method::LogMessage);
        let hears = || self.cause(Way::Common, frame).is_some_and(|slot| slot.hears_beside());
        if is_log && hears() { Way::Common } else { way }
    }

    /// The request that made the server speak: the one whose stream it came by, or, where everything comes by one stream, the one
    /// that waits for the task it speaks of, or the only one of the one who is behind this seat (spec Q-03, U-30).
    fn cause(&self, way: Way, frame: &Frame) -> Option<Arc<Slot>> {
        let task = match way {
            Way::Common => wire::task::about(frame),
            Way::Answering(_) | Way::Beside => None,
        };
        let pending = self.pending();
        let is_call = |open: &&Open| open.manner == Manner::Cancellable;
        let cause = match (way, &self.behalf.behind) {
            (Way::Answering(number), _) => pending.slots.get(&number).filter(is_call),
            // Whoever began to wait first, when several do: they are of one client's user.
            (Way::Common, Behind::One(_)) if task.is_some() => {
                let waits = |open: &&Open| is_call(open) && open.slot.task() == task.as_deref();
                let waiting = pending.slots.iter().filter(|(_, open)| waits(open));
                waiting.min_by_key(|(number, _)| **number).map(|(_, open)| open)
            }
            (Way::Common, Behind::One(_)) => {
                let only = |aside: bool| {
                    let calls = pending.slots.values().filter(is_call);
                    let mut calls = calls.filter(|open| open.slot.is_aside() == aside);
                    calls.next().map(|call| (call, calls.next().is_none()))
                };
                // Calls that wait for their clients come after all that go on.
                only(false).or_else(|| only(true)).filter(|(_, alone)| *alone).map(|(call, _)| call)
            }
            (Way::Common, Behind::Many) | (Way::Beside, _) => None,
        };
        cause.map(|open| Arc::clone(&open.slot))
    }

    /// The server wants no answer any more to a question of its own.
    fn retracted(&self, frame: Frame) {
        let id = frame.param("requestId").and_then(|raw| Id::from_raw(raw).ok());
        let found = id.is_some_and(|id| {
            let pending = self.pending();
            let mut calls = pending.slots.values().filter(|open| open.manner == Manner::Cancellable);
            calls.any(|open| open.slot.retract(&id, &frame) == Taken::Yes)
        });
        if !found {
            self.counters.add(|counters| &counters.late);
        }
    }

    /// Takes what a request to listen brings, and hands back everything else. Beside the acknowledgement that is what the server
    /// says unasked, and nobody needs to know by which request it came (spec P-09, U-25). During a change from one request to the
    /// next both bring the same: from the acknowledgement of the later on, the earlier counts no more.
    fn listened(&self, frame: Frame, way: Way) -> Option<Frame> {
        if !self.is_modern() {
            return Some(frame);
        }
        let named = meta::member(frame.param("_meta"), meta::SUBSCRIPTION_ID);
        let number = match (way, named) {
            (Way::Answering(number), _) => number,
            (Way::Common | Way::Beside, Some(raw)) => {
                Id::from_raw(raw).ok().and_then(|id| id.as_number()).unwrap_or(0)
            }
            (Way::Common | Way::Beside, None) => return Some(frame),
        };
        let slot = match self.pending().slots.get(&number) {
            Some(open) if open.manner == Manner::Listening => Some(Arc::clone(&open.slot)),
            Some(_) | None => None,
        };
        match slot {
            None if named.is_none() => return Some(frame),
            Some(slot) if frame.method() == Some(Method::SubscriptionsAcknowledged) => {
                self.listening.fetch_max(number, Ordering::Relaxed);
                let _told = slot.told(frame);
            }
            Some(_) if number < self.listening.load(Ordering::Relaxed) => {}
            Some(_) if is_about_the_server(&frame) || frame.method() == Some(Method::TaskChanged) => {
                let kept = meta::for_upstream(frame.param("_meta"), None);
                let change = Change { key: "_meta", value: kept.map(Cow::Owned) };
                let plain = Frame::parse(frame.forward(None, &[change]), &self.budget);
                if !plain.is_ok_and(|plain| self.inbox.push(plain) == Taken::Yes) {
                    self.counters.add(|counters| &counters.dropped);
                }
            }
            Some(_) | None => self.counters.add(|counters| &counters.late),
        }
        None
    }

    /// Answers a question of the server that nobody answers any more.
    pub(crate) fn refuse(&self, id: &Id) {
        self.reply(Some(id), Reply::TooLate);
    }

    /// Answers a request of the server ourselves (spec U-13).
    fn reply(&self, id: Option<&Id>, reply: Reply) {
        let Some(id) = id else { return };
        let line = match reply {
            Reply::Pong => wire::code::success(id, "{}"),
            Reply::Busy => wire::code::failure(Some(id), wire::code::INTERNAL_ERROR, "busy", None),
            Reply::TooLate => {
                let why = "the request that this belongs to is over";
                wire::code::failure(Some(id), wire::code::INVALID_PARAMS, why, None)
            }
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
            None if token.is_some_and(|number| self.pending().reporting.contains(&number)) => {
                if self.inbox.push(frame) == Taken::No {
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

/// What concerns everyone who uses the server, whatever request was running.
fn is_about_the_server(frame: &Frame) -> bool {
    is_list_change(frame) || frame.method() == Some(Method::ResourceUpdated)
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
