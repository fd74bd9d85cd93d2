//! What a legacy server asks while a request of ours runs there.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;
use upstream::Spec;
use wire::{Era, Frame, Id, Method, code};

use super::{Answering, Asker, MOST, Question, ROUNDS, Refusal, Reply};
use crate::{router::Lane, running::Outbox};

/// The questions of one exchange. Costs nothing until one is asked.
pub(crate) struct Talk<'a> {
    asker: &'a Asker<'a>,
    waiting: Vec<Waiting>,
    /// Since when somebody is being asked, and for how long somebody was before: the call does not age meanwhile.
    since: Option<Instant>,
    paused: Duration,
    asked: usize,
    needs: Option<&'static str>,
    /// What a modern client is to be asked may be held for a result.
    holds: bool,
}

/// A question that was put to the client.
struct Waiting {
    /// The server's.
    id: Id,
    method: Option<Method>,
    answer: Answering,
}

/// What becomes of a question.
pub(crate) enum Taken {
    /// The client was asked.
    Put,
    /// Nobody is: the server is told this.
    Refused(Bytes),
    /// It is for a modern client, which is asked by a result: the call cannot go on before its next one.
    Held(Question),
}

impl<'a> Talk<'a> {
    pub(crate) fn new(asker: &'a Asker<'a>) -> Talk<'a> {
        let (waiting, paused) = (Vec::new(), Duration::ZERO);
        Talk { asker, waiting, since: None, paused, asked: 0, needs: None, holds: false }
    }

    /// The same, where a call may wait for its modern client to come back.
    pub(crate) fn holding(asker: &'a Asker<'a>) -> Talk<'a> {
        Talk { holds: true, ..Talk::new(asker) }
    }

    /// Whether somebody is being asked.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What the server asked for, and the client did not declare: JSON text. A failure of the call is its consequence
    /// (spec X-11).
    pub(crate) fn needs(&self) -> Option<&'static str> {
        self.needs
    }

    /// Questions so far, refused ones too.
    pub(crate) fn asked(&self) -> usize {
        self.asked
    }

    /// Puts a question to the client, if it can be asked now.
    pub(crate) async fn take(&mut self, asked: &Frame, outbox: &Arc<Outbox>) -> Taken {
        // INVARIANT: what has no id is no question, and nobody hands it out as one.
        let Some(id) = asked.id() else { return Taken::Put };
        self.asked += 1;
        let done = if self.asked > MOST {
            Err(Refusal::TooMany)
        } else if self.holds && self.asker.visit.era() == Era::Modern && !becomes_task(outbox).await {
            self.asker.hold(asked, self.asked).await.map(Taken::Held)
        } else {
            self.put(id, asked, outbox).await.map(|()| Taken::Put)
        };
        done.unwrap_or_else(|refusal| {
            self.needs = self.asker.missing(refusal, asked).or(self.needs);
            Taken::Refused(code::failure(Some(id), refusal.code(), &refusal.to_string(), None))
        })
    }

    async fn put(&mut self, id: &Id, asked: &Frame, outbox: &Arc<Outbox>) -> Result<(), Refusal> {
        let answer = self.asker.ask(asked, outbox, self.patience()?).await?;
        self.since.get_or_insert_with(Instant::now);
        self.waiting.push(Waiting { id: id.clone(), method: asked.method(), answer });
        Ok(())
    }

    /// How long one more question may take: all pauses of a call have one bound, however often its server asks.
    fn patience(&self) -> Result<Duration, Refusal> {
        let once = self.asker.patience();
        let running = self.since.map(|since| since.elapsed()).unwrap_or_default();
        let left = once.saturating_mul(ROUNDS).saturating_sub(self.paused + running);
        if left.is_zero() { Err(Refusal::TooMany) } else { Ok(once.min(left)) }
    }

    /// Counts a pause that is over.
    fn rest(&mut self) {
        if self.waiting.is_empty()
            && let Some(since) = self.since.take()
        {
            self.paused += since.elapsed();
        }
    }

    /// The next answer, as the server is to read it. For ever when nobody is being asked.
    pub(crate) async fn next(&mut self) -> Bytes {
        poll_fn(|context| {
            for at in 0..self.waiting.len() {
                let Some(one) = self.waiting.get_mut(at) else { break };
                if let Poll::Ready(reply) = one.answer.as_mut().poll(context) {
                    let Waiting { id, method, .. } = self.waiting.swap_remove(at);
                    self.rest();
                    return Poll::Ready(line(&id, method, &reply));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// What else a server says that belongs to the request.
    pub(crate) fn told(&mut self, said: &Frame, spec: &Spec, lane: &Lane) {
        match said.method() {
            // It does not want to know any more: the client is told so when the question is dropped.
            Some(Method::Cancelled) => {
                let named = said.param("requestId").and_then(|raw| Id::from_raw(raw).ok());
                self.waiting.retain(|one| Some(&one.id) != named.as_ref());
                self.rest();
            }
            Some(Method::ElicitationComplete) => {
                let Asker { asking, seat, visit, .. } = self.asker;
                match asking.links.completed(spec, seat, said) {
                    Some((to, message)) if visit.session().is_some_and(|own| Arc::ptr_eq(own, &to)) => {
                        lane.outbox.say(message);
                    }
                    Some((to, message)) => {
                        let _told = to.tell(&message);
                    }
                    None => (),
                }
            }
            _ => (),
        }
    }
}

/// The answer under the server's own id. A client's error keeps its code (spec Q-06); silence is no yes (spec Q-17).
fn line(id: &Id, method: Option<Method>, reply: &Reply) -> Bytes {
    let failed = |why| code::failure(Some(id), code::INTERNAL_ERROR, why, None);
    match reply {
        Reply::Result(answer) => answer.answer(id, &[]).join(),
        Reply::Failure(answer) => answer.answer(id, &[]).join(),
        Reply::Malformed => failed("the client's answer is malformed"),
        Reply::Silence if method == Some(Method::ElicitationCreate) => {
            code::success(id, r#"{"action":"cancel"}"#)
        }
        Reply::Silence => failed("nobody answered in time"),
    }
}

/// Whether a call is a task from here on: its client takes them, and there is room for one more (spec X-08).
async fn becomes_task(outbox: &Outbox) -> bool {
    match outbox.hosting() {
        Some(hosting) => hosting.begin().await,
        None => false,
    }
}
