//! What a legacy server asks while a request of ours runs there.

use std::{future::poll_fn, sync::Arc, task::Poll};

use bytes::Bytes;
use upstream::Spec;
use wire::{Era, Frame, Id, Method, Revision, code};

use super::{Answering, Asker, MOST, Offer, Refusal, Reply, lacks, question};
use crate::{router::Lane, running::Outbox};

/// The questions of one exchange. Costs nothing until one is asked.
pub(crate) struct Talk<'a> {
    asker: &'a Asker<'a>,
    waiting: Vec<Waiting>,
    asked: usize,
    needs: Option<&'static str>,
}

/// A question that was put to the client.
struct Waiting {
    /// The server's.
    id: Id,
    method: Option<Method>,
    answer: Answering,
}

impl<'a> Talk<'a> {
    pub(crate) fn new(asker: &'a Asker<'a>) -> Talk<'a> {
        Talk { asker, waiting: Vec::new(), asked: 0, needs: None }
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

    /// Puts a question to the client, or returns what the server is told instead.
    pub(crate) async fn take(&mut self, asked: &Frame, outbox: &Arc<Outbox>) -> Option<Bytes> {
        let id = asked.id()?;
        self.asked += 1;
        let done = match self.asked > MOST {
            true => Err(Refusal::TooMany),
            false => self.asker.ask(asked, outbox).await,
        };
        match done {
            Ok(answer) => {
                self.waiting.push(Waiting { id: id.clone(), method: asked.method(), answer });
                None
            }
            Err(refusal) => {
                self.note(refusal, asked);
                Some(code::failure(Some(id), refusal.code(), &refusal.to_string(), None))
            }
        }
    }

    /// Keeps what a modern client would have had to declare. That we carry no such question to it yet is another matter.
    fn note(&mut self, refusal: Refusal, asked: &Frame) {
        let Refusal::Unfit(unfit) = refusal else { return };
        if self.asker.visit.era() == Era::Legacy {
            return;
        }
        let again = |offer: &Offer| {
            let terms = question::Terms { offer, ..self.asker.terms() };
            question::put(asked.method_name(), asked.params().unwrap_or("{}"), &terms).is_ok()
        };
        let declared = wire::envelope(&self.asker.call.frame).and_then(Result::ok);
        let capabilities = declared.map_or("{}", |envelope| envelope.capabilities);
        if let Some(needs) = lacks(capabilities, Revision::R2026_07_28, unfit, again) {
            self.needs = Some(needs);
        }
    }

    /// The next answer, as the server is to read it. For ever when nobody is being asked.
    pub(crate) async fn next(&mut self) -> Bytes {
        poll_fn(|context| {
            for at in 0..self.waiting.len() {
                let Some(one) = self.waiting.get_mut(at) else { break };
                if let Poll::Ready(reply) = one.answer.as_mut().poll(context) {
                    let Waiting { id, method, .. } = self.waiting.swap_remove(at);
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
