//! A request that runs: in the task of whoever waits for its answer, and in one of its own once nobody does.
//!
//! The ordinary call is answered before anything else happens to its connection. Running it right there costs no task,
//! no channel and no wake-up of another thread (ADR 0022).

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use tokio::task::JoinHandle;
use tokio_util::task::task_tracker::TaskTrackerToken;
use wire::Pieces;

/// Messages before the answer that may wait for a slow reader; more are dropped.
const DEPTH: usize = 16;

/// What comes of a running request, in order. Dropping it does not end a legacy request, which belongs to its
/// session, and cancels a modern one, which belongs to its connection (spec H-25).
pub struct Running {
    outbox: Arc<Outbox>,
    work: Work,
    bond: Bond,
    /// A drain waits for it (invariant 13).
    counted: TaskTrackerToken,
}

/// One message of a running request.
#[derive(Debug)]
pub struct Out {
    /// The JSON-RPC message.
    pub message: Pieces,
    /// It is the answer; nothing follows.
    pub last: bool,
    /// The HTTP status, for an answer that is the first thing said (spec H-08).
    pub status: u16,
}

/// Whose the request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bond {
    /// It goes on when nobody listens any more.
    Session,
    /// It ends with whoever listens.
    Connection,
}

/// The request itself; what comes out of it is the answer, none when it was given up.
type Answering = Pin<Box<dyn Future<Output = Option<Out>> + Send>>;

enum Work {
    /// Goes on only while somebody waits for what is next.
    Here(Answering),
    /// Goes on by itself.
    Away(JoinHandle<Option<Out>>),
    /// Nothing of it is left but its answer.
    Over(Option<Out>),
}

impl Running {
    /// A request that has not begun; what it says before its answer goes into the outbox.
    pub(crate) fn new(
        outbox: Arc<Outbox>,
        answering: impl Future<Output = Option<Out>> + Send + 'static,
        bond: Bond,
        counted: TaskTrackerToken,
    ) -> Running {
        Running { outbox, work: Work::Here(Box::pin(answering)), bond, counted }
    }

    /// The next message; none when the request was given up. Until [`Running::detach`] the request goes on only while
    /// this is waited for. May be dropped half-way.
    pub async fn next(&mut self) -> Option<Out> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Gives the request a task of its own: from here on it goes on however slow its reader is.
    pub fn detach(&mut self) {
        self.work = match mem::replace(&mut self.work, Work::Over(None)) {
            Work::Here(answering) => Work::Away(self.counted.task_tracker().spawn(answering)),
            other @ (Work::Away(_) | Work::Over(_)) => other,
        };
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Out>> {
        // Taken out meanwhile: of a request that panics nothing is left to go on with.
        self.work = match mem::replace(&mut self.work, Work::Over(None)) {
            Work::Here(mut answering) => match answering.as_mut().poll(cx) {
                Poll::Ready(answer) => Work::Over(answer),
                Poll::Pending => Work::Here(answering),
            },
            Work::Away(mut task) => {
                self.outbox.arrived.register(cx.waker());
                match Pin::new(&mut task).poll(cx) {
                    // A task that panicked answers nothing.
                    Poll::Ready(joined) => Work::Over(joined.ok().flatten()),
                    Poll::Pending => Work::Away(task),
                }
            }
            Work::Over(answer) => Work::Over(answer),
        };
        // What was said before the answer comes before it.
        if let Some(out) = self.outbox.messages().pop_front() {
            return Poll::Ready(Some(out));
        }
        match &mut self.work {
            Work::Over(answer) => Poll::Ready(answer.take()),
            Work::Here(_) | Work::Away(_) => Poll::Pending,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match (mem::replace(&mut self.work, Work::Over(None)), self.bond) {
            (Work::Here(answering), Bond::Session) => {
                drop(self.counted.task_tracker().spawn(answering));
            }
            (Work::Away(task), Bond::Connection) => task.abort(),
            (Work::Here(_), Bond::Connection) | (Work::Away(_), Bond::Session) | (Work::Over(_), _) => (),
        }
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("bond", &self.bond).finish_non_exhaustive()
    }
}

/// What a running request has said and nobody has taken yet. Costs nothing until something is said.
#[derive(Default)]
pub(crate) struct Outbox {
    waiting: Mutex<VecDeque<Out>>,
    arrived: AtomicWaker,
}

impl Outbox {
    /// Says something before the answer. A client that does not read, or has gone, misses it and nothing else.
    pub(crate) fn say(&self, message: Pieces) {
        let mut waiting = self.messages();
        if waiting.len() < DEPTH {
            waiting.push_back(Out { message, last: false, status: 200 });
            drop(waiting);
            self.arrived.wake();
        }
    }

    fn messages(&self) -> MutexGuard<'_, VecDeque<Out>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;
    use tokio_util::task::TaskTracker;

    use super::*;

    fn text(out: Option<Out>) -> Option<(String, bool)> {
        let out = out?;
        let text = out.message.into_iter().flat_map(|slice| slice.to_vec()).collect();
        Some((String::from_utf8(text).unwrap(), out.last))
    }

    fn answer() -> Option<Out> {
        Some(Out { message: Pieces::one("answer".into()), last: true, status: 200 })
    }

    /// A request that says one thing, then waits for a word before it answers.
    fn running(bond: Bond, tracker: &TaskTracker) -> (Running, oneshot::Sender<()>) {
        let (go, gone) = oneshot::channel();
        let outbox = Arc::new(Outbox::default());
        let said = Arc::clone(&outbox);
        let work = async move {
            said.say(Pieces::one("progress".into()));
            gone.await.ok()?;
            answer()
        };
        (Running::new(outbox, work, bond, tracker.token()), go)
    }

    #[tokio::test]
    async fn what_was_said_before_the_answer_comes_before_it() {
        for detached in [false, true] {
            let tracker = TaskTracker::new();
            let (mut running, go) = running(Bond::Session, &tracker);
            if detached {
                running.detach();
            }
            go.send(()).unwrap();
            assert_eq!(text(running.next().await), Some(("progress".into(), false)));
            assert_eq!(text(running.next().await), Some(("answer".into(), true)));
            assert_eq!(text(running.next().await), None);
        }
    }

    #[tokio::test]
    async fn detaching_loses_no_answer() {
        let tracker = TaskTracker::new();
        let (mut running, go) = running(Bond::Session, &tracker);
        go.send(()).unwrap();
        // Both are there by now, and one was taken.
        assert_eq!(text(running.next().await), Some(("progress".into(), false)));
        running.detach();
        assert_eq!(text(running.next().await), Some(("answer".into(), true)));
    }

    #[tokio::test]
    async fn a_request_of_a_session_goes_on_when_nobody_listens() {
        let tracker = TaskTracker::new();
        let (mut running, go) = running(Bond::Session, &tracker);
        assert!(running.next().await.is_some());
        assert!(running.next().now_or_never().is_none());
        drop(running);
        assert_eq!(tracker.len(), 1);
        go.send(()).unwrap();
        tracker.close();
        tracker.wait().await;
    }

    #[tokio::test]
    async fn a_request_of_a_connection_ends_with_it() {
        for detached in [false, true] {
            let tracker = TaskTracker::new();
            let (mut running, mut go) = running(Bond::Connection, &tracker);
            if detached {
                running.detach();
            }
            assert!(running.next().await.is_some());
            drop(running);
            go.closed().await;
            tracker.close();
            tracker.wait().await;
        }
    }

    #[tokio::test]
    async fn a_drain_waits_for_what_runs_in_its_connection() {
        let tracker = TaskTracker::new();
        let (running, _go) = running(Bond::Connection, &tracker);
        tracker.close();
        assert!(tracker.wait().now_or_never().is_none());
        drop(running);
        tracker.wait().await;
    }

    #[tokio::test]
    async fn a_reader_that_does_not_read_misses_what_comes_too_much() {
        let outbox = Outbox::default();
        for _ in 0..2 * DEPTH {
            outbox.say(Pieces::one("progress".into()));
        }
        assert_eq!(outbox.messages().len(), DEPTH);
    }
}
