//! What servers say unasked, on its way to the gateway.

use crate::connection::Connection;
use crate::declared::Declared;
use crate::spec::{Seat, Spec};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, mpsc};
use wire::{Frame, Kind};

/// Something an upstream did that no request asked for.
#[derive(Clone)]
pub struct Notice {
    /// Which upstream.
    pub spec: Arc<Spec>,
    /// Which of its processes: for whom it runs, and
    pub seat: Seat,
    /// what is declared to it. A seat has one process for each set of capabilities (spec X-02).
    pub declared: Declared,
    /// What it did.
    pub what: What,
}

/// What happened.
#[derive(Clone)]
pub enum What {
    /// A process is up and initialized.
    Up(Arc<Connection>),
    /// A process ended, or could not be brought up.
    Down {
        /// For the operator: with exit status and the last line on stderr.
        why: String,
    },
    /// A notification other than progress of an open request.
    Notification(Frame),
    /// A request other than `ping`; answer it with [`Connection::tell`].
    Request(Arc<Connection>, Frame),
}

/// Who speaks to the gateway for one seat.
pub(crate) struct Voice {
    pub(crate) spec: Arc<Spec>,
    pub(crate) seat: Seat,
    pub(crate) declared: Declared,
    pub(crate) notices: mpsc::Sender<Notice>,
}

impl Voice {
    pub(crate) fn notice(&self, what: What) -> Notice {
        let (spec, declared) = (Arc::clone(&self.spec), self.declared.clone());
        Notice { spec, seat: self.seat.clone(), declared, what }
    }
}

/// How many frames wait for a gateway that is busy, and their bytes.
const DEPTH: usize = 64;
const BYTES: usize = 1024 * 1024;

/// Frames that wait for the gateway. The reader of a process never waits for it.
#[derive(Default)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    filled: Notify,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Frame>,
    bytes: usize,
}

/// Whether a frame found its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It waits, or one that says the same does.
    Yes,
    /// The queue is full, or it is too large to wait.
    No,
}

impl Inbox {
    /// Takes a frame. When the queue is full, list changes of one kind coalesce and others find no place.
    pub(crate) fn push(&self, frame: Frame) -> Taken {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let length = frame.bytes().len();
        if length > BYTES {
            return Taken::No;
        }
        if queue.frames.len() >= DEPTH || queue.bytes + length > BYTES {
            if !is_list_change(&frame) {
                return Taken::No;
            }
            // At most one more of each kind, so the queue stays bounded.
            if queue.frames.iter().any(|waiting| waiting.method() == frame.method()) {
                return Taken::Yes;
            }
        }
        queue.bytes += length;
        queue.frames.push_back(frame);
        drop(queue);
        self.filled.notify_one();
        Taken::Yes
    }

    /// Takes the oldest frame out.
    pub(crate) fn pop(&self) -> Option<Frame> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let frame = queue.frames.pop_front()?;
        queue.bytes -= frame.bytes().len();
        Some(frame)
    }

    /// Returns when a frame waits. May be dropped at any await.
    pub(crate) async fn ready(&self) {
        loop {
            let filled = self.filled.notified();
            if !self.queue.lock().unwrap_or_else(PoisonError::into_inner).frames.is_empty() {
                return;
            }
            filled.await;
        }
    }
}

pub(crate) fn is_list_change(frame: &Frame) -> bool {
    frame.method().is_some_and(|method| Kind::ALL.iter().any(|kind| kind.changed() == method))
}

#[cfg(test)]
mod tests {
    use super::{BYTES, DEPTH, Inbox, Taken};
    use wire::{Budget, Frame};

    fn said(method: &str, data: usize) -> Frame {
        let filler = "x".repeat(data);
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{"d":"{filler}"}}}}"#);
        Frame::parse(text.into(), &Budget::UPSTREAM).unwrap()
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_in_bytes() {
        let inbox = Inbox::default();
        let taken = (0..2 * DEPTH).filter(|_| inbox.push(said("message", 1)) == Taken::Yes).count();
        assert_eq!(taken, DEPTH);
        assert_eq!(inbox.push(said("tools/list_changed", 1)), Taken::Yes);
        while inbox.pop().is_some() {}
        let taken = (0..10).filter(|_| inbox.push(said("message", BYTES / 4)) == Taken::Yes).count();
        assert_eq!(taken, 3);
        assert_eq!(inbox.push(said("tools/list_changed", BYTES)), Taken::No);
        while inbox.pop().is_some() {}
        assert_eq!(inbox.push(said("message", BYTES / 2)), Taken::Yes);
    }
}
