//! A request that runs: in the task of whoever waits for its answer, and in one of its own once nobody does.
//!
//! The ordinary call is answered before anything else happens to its connection. Running it right there costs no task,
//! no channel and no wake-up of another thread (ADR 0022).

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use tokio::task::JoinHandle;
use tokio_util::task::task_tracker::TaskTrackerToken;
use wire::{Pieces, sse};

use crate::{
    arrival::Head,
    session::{Owed, Reader, Session, Stream},
    tasks::Hosting,
};

/// Messages before the answer that may wait for a slow reader; more are dropped.
const DEPTH: usize = 16;

/// What must not be lost may wait beyond that.
const QUESTIONS: usize = 128;

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
    /// What the asker must show, for `WWW-Authenticate` with such an answer.
    pub challenge: Option<Box<str>>,
}

impl Out {
    /// Something that is no refusal.
    pub(crate) fn said(message: Pieces, last: bool) -> Out {
        Out { message, last, status: 200, challenge: None }
    }
}

/// Whose the request is.
#[derive(Clone, Debug)]
pub(crate) enum Bond {
    /// It goes on when nobody listens any more.
    Session(Arc<Session>),
    /// It ends with whoever listens.
    Connection,
}

/// The request itself; what comes out of it is the answer, none when it was given up.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Option<Out>> + Send>>;

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
        answering: Answering,
        bond: Bond,
        counted: TaskTrackerToken,
    ) -> Running {
        Running { outbox, work: Work::Here(answering), bond, counted }
    }

    /// The next message; none when the request was given up. Until [`Running::begin`] the request goes on only while
    /// this is waited for. May be dropped half-way.
    pub async fn next(&mut self) -> Option<Out> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Makes the answer an event stream, which begins with what was taken already, and gives the request a task of its
    /// own: from here on it goes on however slow its reader is.
    pub fn begin(mut self, first: Option<Out>) -> Following {
        if let Some(first) = first.filter(|first| !first.message.is_empty()) {
            self.outbox.waiting().messages.push_front(first);
        }
        let kept = match &self.bond {
            Bond::Session(session) => session.begin(),
            Bond::Connection => None,
        };
        match (mem::replace(&mut self.work, Work::Over(None)), kept) {
            (Work::Here(answering), Some((stream, reader))) => {
                self.outbox.move_to(&stream);
                drop(self.counted.task_tracker().spawn(answer_on(stream, answering)));
                Following(Source::Kept(reader))
            }
            // It was faster than whoever took what it said first.
            (Work::Over(answer), Some((stream, reader))) => {
                self.outbox.move_to(&stream);
                answer.into_iter().for_each(|answer| stream.answer(answer.message));
                stream.end();
                Following(Source::Kept(reader))
            }
            (Work::Here(answering), None) => {
                self.work = Work::Away(self.counted.task_tracker().spawn(answering));
                Following(Source::Live(self))
            }
            (work @ Work::Over(_), None) | (work @ Work::Away(_), _) => {
                self.work = work;
                Following(Source::Live(self))
            }
        }
    }

    /// Lets the request say all it says on a connection that carries other things too, in a task of its own. `most`
    /// bytes of answers may wait there.
    pub(crate) fn onto(mut self, owed: Owed, most: usize) {
        self.outbox.move_to(owed.stream());
        // INVARIANT: nobody has waited for it yet, so it has not begun.
        if let Work::Here(answering) = mem::replace(&mut self.work, Work::Over(None)) {
            drop(self.counted.task_tracker().spawn(async move {
                if let Some(out) = answering.await {
                    owed.answer(out.message, most);
                }
            }));
        }
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
        if let Some(out) = self.outbox.waiting().messages.pop_front() {
            return Poll::Ready(Some(out));
        }
        match &mut self.work {
            Work::Over(answer) => Poll::Ready(answer.take()),
            Work::Here(_) | Work::Away(_) => Poll::Pending,
        }
    }
}

/// Takes a request to its end, whoever reads its stream.
async fn answer_on(stream: Arc<Stream>, answering: Answering) {
    /// A stream whose request is given up, or panics, ends like any other.
    struct Ending(Arc<Stream>);
    impl Drop for Ending {
        fn drop(&mut self) {
            self.0.end();
        }
    }
    let ending = Ending(stream);
    if let Some(out) = answering.await {
        ending.0.answer(out.message);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let work = mem::replace(&mut self.work, Work::Over(None));
        if matches!(work, Work::Here(_) | Work::Away(_)) {
            self.outbox.leave();
        }
        match (work, &self.bond) {
            (Work::Here(answering), Bond::Session(_)) => {
                drop(self.counted.task_tracker().spawn(answering));
            }
            (Work::Away(task), Bond::Connection) => task.abort(),
            (Work::Here(_), Bond::Connection) | (Work::Away(_), Bond::Session(_)) | (Work::Over(_), _) => (),
        }
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

/// The event stream of a running request. A client of a session can come back to it (spec H-21).
pub struct Following(Source);

enum Source {
    /// As it comes, and gone when it was read.
    Live(Running),
    /// What the session keeps.
    Kept(Reader),
    Ended,
}

impl Following {
    /// The next event as it is written; none after the answer. May be dropped half-way.
    pub async fn next_event(&mut self) -> Option<Pieces> {
        match &mut self.0 {
            Source::Live(running) => {
                // What has no words only made the stream begin.
                let out = loop {
                    let out = running.next().await?;
                    if !out.message.is_empty() {
                        break out;
                    }
                };
                if out.last {
                    self.0 = Source::Ended;
                }
                // No id: there is nothing to come back to (spec H-26).
                Some(sse::event(&out.message, None))
            }
            Source::Kept(reader) => reader.next_event().await,
            Source::Ended => None,
        }
    }
}

/// What a running request has said and nobody has taken yet. Costs nothing until something is said.
#[derive(Debug)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    arrived: AtomicWaker,
    /// What the request becomes that may become a task.
    hosting: Option<Arc<Hosting>>,
    /// Our id of the task that the request waits for.
    task: OnceLock<Box<str>>,
}

#[derive(Debug)]
struct Waiting {
    messages: VecDeque<Out>,
    reach: Reach,
}

/// How the client hears what is said before the answer.
#[derive(Debug)]
pub(crate) enum Reach {
    /// By its connection, on which the answer is still to begin.
    Connection,
    /// Not at all: it takes one JSON message.
    AnswerOnly,
    /// On a stream of its session, also when it comes back to it.
    Stream(Arc<Stream>),
    /// Not at all: it has gone.
    Nobody,
}

impl Reach {
    /// That of a client that asks now.
    pub(crate) fn of(head: &Head) -> Reach {
        if head.accepts_events { Reach::Connection } else { Reach::AnswerOnly }
    }
}

impl Outbox {
    /// An empty one.
    pub(crate) fn new(reach: Reach) -> Outbox {
        let waiting = Mutex::new(Waiting { messages: VecDeque::new(), reach });
        Outbox { waiting, arrived: AtomicWaker::new(), hosting: None, task: OnceLock::new() }
    }

    /// The same for a request that may become a task.
    pub(crate) fn hosted(self, hosting: Arc<Hosting>) -> Outbox {
        Outbox { hosting: Some(hosting), ..self }
    }

    /// From here on the request waits for a task, and so does whatever is asked on its stream.
    pub(crate) fn waits_for(&self, task: &str) {
        let _once = self.task.set(task.into());
    }

    /// The task that the request waits for, by our id.
    pub(crate) fn task(&self) -> Option<&str> {
        self.task.get().map(|task| &**task)
    }

    /// The task that the request may become.
    pub(crate) fn hosting(&self) -> Option<&Arc<Hosting>> {
        self.hosting.as_ref()
    }

    /// Says something before the answer. A client that does not read, or has gone, misses it and nothing else.
    pub(crate) fn say(&self, message: Pieces) {
        self.push(message, DEPTH, Stream::say);
    }

    /// Says something that must not be lost; false when nobody will read it (spec Q-04).
    pub(crate) fn put(&self, message: Pieces) -> bool {
        self.push(message, DEPTH + QUESTIONS, Stream::put)
    }

    /// Makes the answer an event stream: it will take longer than a client should wait for a head, and one that can come
    /// back to a stream is told how (spec H-23).
    pub(crate) fn begin(&self) {
        let mut waiting = self.waiting();
        if matches!(waiting.reach, Reach::Connection) && waiting.messages.is_empty() {
            waiting.messages.push_back(Out::said(Pieces::default(), false));
            drop(waiting);
            self.arrived.wake();
        }
    }

    /// Whether something waits for its reader.
    pub(crate) fn holds(&self) -> bool {
        !self.waiting().messages.is_empty()
    }

    /// Whether what is said goes to a stream by now.
    pub(crate) fn has_stream(&self) -> bool {
        matches!(self.waiting().reach, Reach::Stream(_))
    }

    fn push(&self, message: Pieces, most: usize, write: impl Fn(&Stream, Pieces) -> bool) -> bool {
        let mut waiting = self.waiting();
        match &waiting.reach {
            Reach::AnswerOnly | Reach::Nobody => false,
            Reach::Stream(stream) => write(stream, message),
            Reach::Connection if waiting.messages.len() >= most => false,
            Reach::Connection => {
                waiting.messages.push_back(Out::said(message, false));
                drop(waiting);
                self.arrived.wake();
                true
            }
        }
    }

    /// All that was said, and all that will be, goes to a stream.
    fn move_to(&self, stream: &Arc<Stream>) {
        let mut waiting = self.waiting();
        for out in mem::take(&mut waiting.messages) {
            // Without words it only made the stream begin.
            if !out.message.is_empty() {
                stream.put(out.message);
            }
        }
        waiting.reach = Reach::Stream(Arc::clone(stream));
    }

    /// The connection is gone, and no stream was begun that could be read later.
    pub(crate) fn leave(&self) {
        let mut waiting = self.waiting();
        waiting.messages.clear();
        waiting.reach = Reach::Nobody;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
