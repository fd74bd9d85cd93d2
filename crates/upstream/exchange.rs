//! One request and all that comes back.

use crate::connection::Wait;
use crate::error::UpstreamError;
use crate::link::{Asker, Link, Manner};
use crate::notice::Taken;
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::time::{Instant, Sleep, sleep_until};
use wire::{Frame, Id};

/// One thing that comes back for a request.
#[derive(Debug)]
pub enum Incoming {
    /// Progress, with our token in it.
    Progress(Frame),
    /// A request of the server that belongs to this one (spec Q-03); answer it with [`Exchange::reply`].
    Question(Frame),
    /// Another notification that belongs to it.
    Told(Frame),
    /// Its stream ended before the answer, and the server will be asked again later (spec H-24).
    Later,
    /// The answer, with our id in it. The last thing. Parts of a list may be malformed: [`Frame::is_strict`].
    Answer(Frame),
    /// There will be no answer. The last thing.
    Failed(UpstreamError),
}

/// Progress that waits for a slow reader; the oldest goes first, since each one makes those before it stale.
const PROGRESS_DEPTH: usize = 64;
/// Progress that is larger does not wait: with the depth it bounds what a slow reader costs.
const PROGRESS_BYTES: usize = 64 * 1024;
/// Other notifications that wait; no larger than progress.
const TOLD_DEPTH: usize = 64;
/// Questions of the server that have no answer yet; and the bytes of those that nobody has looked at, but for a single one.
const QUESTIONS: usize = 64;
const QUESTION_BYTES: usize = 4 * 1024 * 1024;

/// Where the answer to one request arrives.
#[derive(Default)]
pub(crate) struct Slot {
    inner: Mutex<Inner>,
    /// The server's id of the task whose outcome the request waits for.
    task: Option<Box<str>>,
}

#[derive(Default)]
struct Inner {
    stage: Stage,
    /// What came and was not taken yet: everything but the last thing.
    waiting: VecDeque<Incoming>,
    /// Bytes of the questions among it.
    asking: usize,
    /// Questions of the server without an answer, by its own ids.
    questions: Vec<Id>,
    end: Option<Result<Frame, UpstreamError>>,
    /// The asker, while it has nothing to do but wait.
    asker: Option<Waker>,
    /// It waits for somebody who has to come back first.
    aside: bool,
    /// Who asked hears what is logged beside all requests by this one, and in no other way.
    hears_beside: bool,
}

/// How far the request has come. Only the writer moves it to `Sent`, only the asker to `Forgotten`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stage {
    /// It waits in the write queue.
    #[default]
    Queued,
    /// Some of it may have been written.
    Sent,
    /// Nobody waits for it any more.
    Forgotten,
}

impl Slot {
    /// That of a request for the outcome of this task, if it is one.
    pub(crate) fn of(task: Option<&str>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), task: task.map(Box::from) })
    }

    /// The task whose outcome the request waits for.
    pub(crate) fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// Whether what is logged beside all requests may belong to this one.
    pub(crate) fn hears_beside(&self) -> bool {
        self.inner().hears_beside
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called right before writing. False: nobody waits any more, leave it out.
    pub(crate) fn begin(&self) -> bool {
        let mut inner = self.inner();
        if inner.stage != Stage::Queued {
            return false;
        }
        inner.stage = Stage::Sent;
        true
    }

    /// Gives the request up and returns how far it had come.
    fn forget(&self) -> Stage {
        std::mem::replace(&mut self.inner().stage, Stage::Forgotten)
    }

    pub(crate) fn progress(&self, frame: Frame) -> Taken {
        if frame.bytes().len() > PROGRESS_BYTES {
            return Taken::No;
        }
        let mut inner = self.inner();
        let is_progress = |waiting: &Incoming| matches!(waiting, Incoming::Progress(_));
        if inner.waiting.len() >= PROGRESS_DEPTH
            && inner.waiting.iter().filter(|waiting| is_progress(waiting)).count() >= PROGRESS_DEPTH
            && let Some(oldest) = inner.waiting.iter().position(is_progress)
        {
            inner.waiting.remove(oldest);
        }
        inner.waiting.push_back(Incoming::Progress(frame));
        wake(inner);
        Taken::Yes
    }

    /// Another notification; what finds no place is lost.
    pub(crate) fn told(&self, frame: Frame) -> Taken {
        let mut inner = self.inner();
        let told = inner.waiting.iter().filter(|waiting| matches!(waiting, Incoming::Told(_))).count();
        if frame.bytes().len() > PROGRESS_BYTES || told >= TOLD_DEPTH {
            return Taken::No;
        }
        inner.waiting.push_back(Incoming::Told(frame));
        wake(inner);
        Taken::Yes
    }

    /// The answer will take another stream. Told once before it is taken.
    pub(crate) fn postpone(&self) {
        let mut inner = self.inner();
        if !inner.waiting.iter().any(|waiting| matches!(waiting, Incoming::Later)) {
            inner.waiting.push_back(Incoming::Later);
            wake(inner);
        }
    }

    /// A request of the server; it has no answer until [`Exchange::reply`].
    pub(crate) fn question(&self, frame: Frame) -> Taken {
        let mut inner = self.inner();
        let Some(id) = frame.id().cloned() else { return Taken::No };
        let is_over = inner.end.is_some() || inner.stage == Stage::Forgotten;
        let is_much = inner.asking > 0 && inner.asking + frame.bytes().len() > QUESTION_BYTES;
        if is_over || is_much || inner.questions.len() >= QUESTIONS || inner.questions.contains(&id) {
            return Taken::No;
        }
        inner.questions.push(id);
        inner.asking += frame.bytes().len();
        inner.waiting.push_back(Incoming::Question(frame));
        wake(inner);
        Taken::Yes
    }

    /// The server takes a question back, by `cancelled`. One that nobody saw is as if it had not been asked.
    pub(crate) fn retract(&self, id: &Id, cancelled: &Frame) -> Taken {
        if !self.settle(id) {
            return Taken::No;
        }
        let mut inner = self.inner();
        let is_it =
            |waiting: &Incoming| matches!(waiting, Incoming::Question(frame) if frame.id() == Some(id));
        match inner.waiting.iter().position(is_it).and_then(|unseen| inner.waiting.remove(unseen)) {
            Some(Incoming::Question(unseen)) => {
                inner.asking -= unseen.bytes().len();
                Taken::Yes
            }
            Some(_) | None => {
                drop(inner);
                self.told(cancelled.clone())
            }
        }
    }

    /// Whether that question was open; it is not any more.
    fn settle(&self, id: &Id) -> bool {
        let questions = &mut self.inner().questions;
        let open = questions.iter().position(|open| open == id);
        open.map(|open| questions.swap_remove(open)).is_some()
    }

    pub(crate) fn answer(&self, answer: Result<Frame, UpstreamError>) {
        self.end(|_| answer);
    }

    /// The process is gone.
    pub(crate) fn lost(&self, why: &str) {
        self.end(|sent| Err(UpstreamError::Exited { why: why.into(), sent }));
    }

    fn end(&self, how: impl FnOnce(bool) -> Result<Frame, UpstreamError>) {
        let mut inner = self.inner();
        inner.end = Some(how(inner.stage == Stage::Sent));
        // What still waits in the write queue is left out.
        inner.stage = Stage::Forgotten;
        wake(inner);
    }

    fn take(&self) -> Option<Incoming> {
        let mut inner = self.inner();
        inner.asker = None;
        if let Some(waiting) = inner.waiting.pop_front() {
            if let Incoming::Question(frame) = &waiting {
                inner.asking -= frame.bytes().len();
            }
            return Some(waiting);
        }
        Some(match inner.end.take()? {
            Ok(frame) => Incoming::Answer(frame),
            Err(error) => Incoming::Failed(error),
        })
    }

    /// Has `asker` woken when there is something to take. False: there is already.
    fn wait(&self, asker: &Waker) -> bool {
        let mut inner = self.inner();
        let nothing = inner.end.is_none() && inner.waiting.is_empty();
        if nothing {
            inner.asker = Some(asker.clone());
        }
        nothing
    }

    /// Whether its server waits for answers, and nobody can be asked anything else by it before those are there.
    pub(crate) fn is_aside(&self) -> bool {
        self.inner().aside
    }

    fn is_answered(&self) -> bool {
        self.inner().end.is_some()
    }
}

fn wake(mut inner: MutexGuard<'_, Inner>) {
    let asker = inner.asker.take();
    drop(inner);
    if let Some(asker) = asker {
        asker.wake();
    }
}

/// A request over HTTP on its way there and back. It is over when the slot has its end, or nothing more comes by it.
pub(crate) type Request = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One request that was sent; over HTTP it is on its way while [`Exchange::next`] is polled. Dropped before the answer, it tells
/// the server that the request is cancelled, by our own id (spec P-07, U-07, bug B49), and forgets it.
pub struct Exchange {
    link: Arc<Link>,
    slot: Arc<Slot>,
    /// Over HTTP: the request itself, while there is something left to do. Dropping it closes its connection.
    request: Mutex<Option<Request>>,
    number: u64,
    wait: Wait,
    manner: Manner,
    deadline: Instant,
    latest: Instant,
    /// Since when the clock stands still.
    paused: Option<Instant>,
    /// Set by the first wait, and again when it goes off too early because there was progress.
    timer: Option<Pin<Box<Sleep>>>,
    /// Over: the last thing was handed out.
    over: bool,
    cancelled: Mutex<bool>,
}

impl Exchange {
    pub(crate) fn new(link: Arc<Link>, asker: Asker, request: Option<Request>, wait: Wait) -> Self {
        let Asker { number, manner, slot } = asker;
        let now = Instant::now();
        let latest = now + wait.most;
        let deadline = latest.min(now + wait.first);
        Self {
            link,
            slot,
            request: Mutex::new(request),
            number,
            wait,
            manner,
            deadline,
            latest,
            paused: None,
            timer: None,
            over: false,
            cancelled: Mutex::new(false),
        }
    }

    /// The id minted for it; also its progress token.
    pub fn id(&self) -> Id {
        Id::number(self.number)
    }

    /// Whoever asked hears what the server logs beside all requests by this one, if it is the only one, and in no other way.
    pub fn hear_beside(&self) {
        self.slot.inner().hears_beside = true;
    }

    /// The next thing that comes back. The time allowed starts again at each progress and never goes beyond the hard maximum; when
    /// it is over the server is told and the request fails. May be dropped at any await.
    pub async fn next(&mut self) -> Incoming {
        if self.over {
            return Incoming::Failed(UpstreamError::garbled("the exchange is over"));
        }
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        loop {
            let now = self.paused.unwrap_or_else(Instant::now);
            // The hard maximum holds also while progress keeps coming.
            if now >= self.latest && !self.slot.is_answered() {
                return Poll::Ready(self.expire());
            }
            match self.slot.take() {
                // A question is a sign of life too: whoever answers it may take most of the time allowed.
                Some(alive @ (Incoming::Progress(_) | Incoming::Question(_))) => {
                    self.deadline = self.latest.min(now + self.wait.first);
                    return Poll::Ready(alive);
                }
                Some(told @ (Incoming::Told(_) | Incoming::Later)) => return Poll::Ready(told),
                Some(last) => {
                    self.over = true;
                    self.let_go();
                    return Poll::Ready(last);
                }
                None if now >= self.deadline => return Poll::Ready(self.expire()),
                None => {}
            }
            // INVARIANT: nobody is woken by what the slot gets from here on until it is asked to wake somebody.
            if self.drive(context).is_pending()
                && self.run_timer(context).is_pending()
                && self.slot.wait(context.waker())
            {
                return Poll::Pending;
            }
        }
    }

    /// Ready once, when there is nothing left to do for the request but wait.
    fn drive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let request = self.request.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = request else { return Poll::Pending };
        let done = running.as_mut().poll(context);
        if done.is_ready() {
            *request = None;
        }
        done
    }

    /// Ready when the time allowed may be over.
    fn run_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.paused.is_some() {
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(self.deadline)));
        let rung = timer.as_mut().poll(context);
        if rung.is_ready() {
            timer.as_mut().reset(self.deadline);
        }
        rung
    }

    /// Lets the request go, and its connection if something was still to come by it.
    fn let_go(&self) {
        let request = self.request.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(request);
    }

    /// Tells the server that nobody needs the answer any more, once. `reason` is raw JSON. The answer may still come, except from
    /// a modern server over HTTP: it is told by closing the stream the answer would come by (spec H-25).
    pub fn cancel(&self, reason: Option<&str>) {
        if std::mem::replace(&mut *self.cancelled.lock().unwrap_or_else(PoisonError::into_inner), true) {
            return;
        }
        if self.link.is_modern_over_http() {
            self.link.forget(self.number);
            self.let_go();
            return self.slot.lost("it was cancelled");
        }
        let reason =
            reason.filter(|text| !text.contains(['\n', '\r'])).map(|text| format!(",\"reason\":{text}"));
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}{}}}}}"#,
            self.number,
            reason.as_deref().unwrap_or_default(),
        );
        // A full queue or a dead process: there is nobody to tell.
        let _untold = self.link.tell(Bytes::from(line));
    }

    /// Answers an [`Incoming::Question`]; the line holds the server's own id. Each is answered once: what answers none that is open
    /// is not sent, and what is open when the exchange is dropped is refused (spec Q-04).
    pub fn reply(&self, line: Bytes) {
        let Some(id) = wire::readable_id(&line).filter(|id| self.slot.settle(id)) else {
            return self.link.counters.add(|counters| &counters.late);
        };
        // It cannot be written as it is: the server waits for something all the same.
        if let Err(UpstreamError::Garbled { .. }) = self.link.tell(line) {
            self.link.refuse(&id);
        }
    }

    /// From here on its clock stands still, the hard maximum too: a person was asked (spec Q-05). Whoever pauses it bounds the pause.
    pub fn pause(&mut self) {
        self.paused.get_or_insert_with(Instant::now);
    }

    /// Its clock goes on where it stood.
    pub fn resume(&mut self) {
        if let Some(since) = self.paused.take() {
            let pause = since.elapsed();
            self.deadline += pause;
            self.latest += pause;
        }
    }

    /// From here on its clock stands still, and what a process asks belongs to another call if that is the only one which goes on:
    /// its own questions are out, and whoever is to answer them has to come back (spec X-08, Q-03).
    pub fn set_aside(&mut self) {
        self.pause();
        self.slot.inner().aside = true;
    }

    /// It goes on.
    pub fn take_up(&mut self) {
        self.slot.inner().aside = false;
        self.resume();
    }

    fn expire(&mut self) -> Incoming {
        let sent = self.give_up(Some(r#""timed out""#));
        if self.manner != Manner::Quiet {
            self.link.suspect();
        }
        Incoming::Failed(UpstreamError::TimedOut { sent })
    }

    /// Forgets the request and says whether any of it was written.
    fn give_up(&mut self, reason: Option<&str>) -> bool {
        self.over = true;
        self.link.forget(self.number);
        self.let_go();
        let sent = self.slot.forget() == Stage::Sent;
        if sent && self.manner != Manner::Quiet && self.link.is_open() {
            self.cancel(reason);
        }
        sent
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let questions = std::mem::take(&mut self.slot.inner().questions);
        questions.iter().for_each(|id| self.link.refuse(id));
        if self.over {
            return;
        }
        if self.slot.is_answered() {
            self.link.forget(self.number);
            return;
        }
        self.give_up(None);
    }
}

#[cfg(test)]
mod tests;
