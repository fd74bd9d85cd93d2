//! What servers say unasked, on its way to the gateway.

use crate::connection::Connection;
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
    /// Which of its processes.
    pub seat: Seat,
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
    pub(crate) notices: mpsc::Sender<Notice>,
}

impl Voice {
    pub(crate) fn notice(&self, what: What) -> Notice {
        Notice { spec: Arc::clone(&self.spec), seat: self.seat.clone(), what }
    }
}

/// How many frames wait for a gateway that is busy.
const DEPTH: usize = 64;

/// Frames that wait for the gateway. The reader of a process never waits for it.
#[derive(Default)]
pub(crate) struct Inbox {
    queue: Mutex<VecDeque<Frame>>,
    filled: Notify,
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
        if queue.len() >= DEPTH {
            if !is_list_change(&frame) {
                return Taken::No;
            }
            // At most one more of each kind, so the queue stays bounded.
            if queue.iter().any(|waiting| waiting.method() == frame.method()) {
                return Taken::Yes;
            }
        }
        queue.push_back(frame);
        drop(queue);
        self.filled.notify_one();
        Taken::Yes
    }

    /// Takes the oldest frame out.
    pub(crate) fn pop(&self) -> Option<Frame> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Returns when a frame waits. May be dropped at any await.
    pub(crate) async fn ready(&self) {
        loop {
            let filled = self.filled.notified();
            if !self.queue.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
                return;
            }
            filled.await;
        }
    }
}

pub(crate) fn is_list_change(frame: &Frame) -> bool {
    frame.method().is_some_and(|method| Kind::ALL.iter().any(|kind| kind.changed() == method))
}
