//! Questions that begin upstream: who may be asked what, how it is put, and what comes back (spec 6, X-05, X-18).
//!
//! A legacy server asks in the middle of a request, a modern one by a result that asks. A legacy client is asked on the
//! stream of its running request, a modern one by a result of ours. What is put to whom is decided in `question.rs`.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use admission::Call;
use bytes::Bytes;
use tokio::sync::Semaphore;
use upstream::Seat;
use wire::{Budget, Frame, Method, Revision, Shape, code, input};

use crate::{
    audit::{Audit, AuditError, Outcome, Record},
    catalog::{Source, View},
    running::Outbox,
    session::{AskError, Asked},
    tasks::Standing,
    visit::Visit,
};

mod links;
mod offer;
mod question;
mod rounds;
mod sampling;
mod talk;

use links::Links;
pub(crate) use offer::{Offer, Offers, Reach};
pub(crate) use question::{Terms, Unfit};
pub(crate) use rounds::{ROUNDS, Retry, Sealed};
pub(crate) use talk::Talk;

/// Questions of one call; more are refused, and not put on record: nobody fills the disk by asking.
const MOST: usize = 64;

/// What asking needs, whoever asks.
pub(crate) struct Asking {
    pub(crate) audit: Arc<Audit>,
    /// The pages that clients were sent to.
    pub(crate) links: Links,
    /// Questions that may wait for an answer. Each holds a place in the audit log; this leaves enough to all else.
    open: Arc<Semaphore>,
}

/// Questions that may wait at a time, of all tenants.
const OPEN: usize = 2_048;

/// The longest id of a page that is remembered, in bytes.
const LINK_BYTES: usize = 256;

impl Asking {
    /// Nothing has been asked.
    pub(crate) fn new(audit: Arc<Audit>) -> Asking {
        Asking { audit, links: Links::default(), open: Arc::new(Semaphore::new(OPEN)) }
    }
}

/// One call, as far as its upstream may ask for more.
pub(crate) struct Asker<'a> {
    pub(crate) asking: &'a Asking,
    pub(crate) call: &'a Call,
    pub(crate) visit: &'a Visit,
    pub(crate) source: &'a Source,
    pub(crate) seat: &'a Seat,
    pub(crate) label: Option<&'a str>,
    pub(crate) offer: &'a Offer,
}

/// Why a call ends without its upstream's answer: the upstream asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unmet {
    /// For something that the client did not declare, JSON text (spec B-32, X-11).
    #[error("the server asks for something that this client did not declare; it may have acted already")]
    Needs(&'static str),
    /// For something that nobody will be asked, or that nobody answered.
    #[error("the server asked for input: {0}")]
    Failed(&'static str),
    /// The client answered with an error, and there is no place for one in an answer (spec X-06).
    #[error("{message}")]
    Rejected {
        /// The client's own.
        code: i64,
        /// The client's own.
        message: String,
    },
}

impl Unmet {
    /// What the client is told.
    pub(crate) fn code(&self) -> i64 {
        match self {
            Unmet::Needs(_) => code::MISSING_CLIENT_CAPABILITY,
            Unmet::Failed(_) => code::INTERNAL_ERROR,
            Unmet::Rejected { code, .. } => *code,
        }
    }

    /// The word for programs and records.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Unmet::Needs(_) => "missing_capability",
            Unmet::Failed(_) => "input_failed",
            Unmet::Rejected { .. } => "input_rejected",
        }
    }
}

/// Why a question is not put, or gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error(transparent)]
    Unheard(#[from] AskError),
    /// A modern client is never sent a request (spec Q-23).
    #[error("this client is asked only by results")]
    Modern,
    #[error("too many questions")]
    TooMany,
    #[error("the question cannot be put on record")]
    Unrecorded,
}

impl Refusal {
    fn code(self) -> i64 {
        match self {
            Refusal::Unfit(unfit) => unfit.code(),
            // Neither a client that hears it nor one that could (spec Q-04).
            Refusal::Unheard(_) | Refusal::Modern | Refusal::TooMany => code::INVALID_PARAMS,
            Refusal::Unrecorded => code::INTERNAL_ERROR,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Refusal::Unfit(unfit) => unfit.reason(),
            Refusal::Unheard(_) => "unheard",
            Refusal::Modern => "not_carried",
            Refusal::TooMany | Refusal::Unrecorded => "refused",
        }
    }
}

/// What a client answered.
#[derive(Debug)]
enum Reply {
    /// A result, which fits its question.
    Result(Frame),
    /// An error.
    Failure(Frame),
    /// A result that answers another question.
    Malformed,
    /// Nothing, for as long as the upstream may wait.
    Silence,
}

/// Where a question was put. Dropped, it is taken back.
enum Put {
    /// On the stream of a running request.
    Session(Asked),
    /// Into the description of a task.
    Task(Standing),
}

impl Put {
    async fn answer(&mut self) -> Frame {
        match self {
            Put::Session(asked) => asked.answer().await,
            Put::Task(standing) => standing.answer().await,
        }
    }
}

/// A question that was put; what comes of it. Dropped, it is taken back.
type Answering = Pin<Box<dyn Future<Output = Reply> + Send>>;

impl<'a> Asker<'a> {
    /// What the user is told that the upstream is called: the operator's word, or the id where there are several
    /// (spec Q-11). With one upstream the endpoint says it.
    pub(crate) fn label(source: &'a Source, view: &View) -> Option<&'a str> {
        let id = (view.upstreams.len() > 1).then_some(&*source.config.id);
        source.config.label.as_deref().or(id)
    }

    fn terms(&self) -> Terms<'_> {
        Terms {
            offer: self.offer,
            revision: self.visit.revision(),
            label: self.label,
            upstream: &self.source.config.id,
        }
    }

    fn patience(&self) -> Duration {
        self.source.config.timeouts.answer
    }

    /// A record of a question, open.
    async fn record(&self, question: &Frame) -> Result<Record, Refusal> {
        let mut record = self.asking.audit.open().await.map_err(|_: AuditError| Refusal::Unrecorded)?;
        record.entered(&self.call.principal, Some(self.visit.revision()));
        if let Some(session) = self.visit.session() {
            record.opened(session);
        }
        record.asked_by(&self.source.config.id);
        record.read(question);
        Ok(record)
    }

    /// Puts a question to the client, on the stream of its running request, once that is on record.
    async fn ask(&self, question: &Frame, outbox: &Arc<Outbox>) -> Result<Answering, Refusal> {
        let Ok(place) = Arc::clone(&self.asking.open).try_acquire_owned() else {
            return Err(Refusal::TooMany);
        };
        let mut record = self.record(question).await?;
        match self.put(question, outbox, &mut record).await {
            Ok((method, asked)) => {
                let patience = self.patience();
                Ok(Box::pin(async move {
                    let reply = wait(method, asked, record, patience).await;
                    drop(place);
                    reply
                }))
            }
            Err(refusal) => {
                record.close(Outcome::Denied, Some(refusal.reason()), 0);
                Err(refusal)
            }
        }
    }

    async fn put(
        &self,
        question: &Frame,
        outbox: &Arc<Outbox>,
        record: &mut Record,
    ) -> Result<(Method, Put), Refusal> {
        let params = question.params().unwrap_or("{}");
        let (method, shown) = question::put(question.method_name(), params, &self.terms())?;
        // A modern client is asked by the description of the task that its call becomes (spec X-08).
        let hosting = match outbox.hosting() {
            Some(hosting) if hosting.begin().await => Some(hosting),
            Some(_) | None => None,
        };
        let session = self.visit.session();
        if hosting.is_none() && session.is_none() {
            return Err(Refusal::Modern);
        }
        record.let_through();
        record.commit().await.map_err(|_: AuditError| Refusal::Unrecorded)?;
        if let Some(hosting) = hosting {
            let standing = hosting.ask(method, &shown).ok_or(Refusal::TooMany)?;
            return Ok((method, Put::Task(standing)));
        }
        let session = session.ok_or(Refusal::Modern)?;
        if question.param_text("mode").as_deref() == Some("url")
            && let Some(native) = question.param_text("elicitationId").filter(|id| id.len() <= LINK_BYTES)
        {
            self.asking.links.shown(&self.link(&native), session);
        }
        let shown = match outbox.task() {
            Some(task) => wire::task::related(&shown, task),
            None => shown,
        };
        Ok((method, Put::Session(session.ask(outbox, method, &shown)?)))
    }

    fn link<'b>(&'b self, native: &'b str) -> links::Link<'b> {
        links::Link {
            tenant: &self.call.principal.tenant,
            upstream: &self.source.config.id,
            seat: self.seat,
            native,
        }
    }
}

/// Waits for the answer, and closes the record with it.
async fn wait(method: Method, mut asked: Put, record: Record, patience: Duration) -> Reply {
    let Ok(answer) = tokio::time::timeout(patience, asked.answer()).await else {
        record.close(Outcome::Abandoned, Some("unanswered"), 0);
        return Reply::Silence;
    };
    let bytes = answer.bytes().len();
    if answer.shape() == Shape::Failure {
        record.close(Outcome::Error, Some("client_error"), bytes);
        return Reply::Failure(answer);
    }
    match fits(method, &answer) {
        Some("accept") => record.close(Outcome::Ok, None, bytes),
        Some(action) => record.close(Outcome::Ok, Some(action), bytes),
        None => {
            record.close(Outcome::Error, Some("malformed"), bytes);
            return Reply::Malformed;
        }
    }
    Reply::Result(answer)
}

/// Whether a result answers such a question, and in which of the three ways; nobody but the client says yes (spec Q-17).
fn fits(method: Method, answer: &Frame) -> Option<&'static str> {
    if !answer.result()?.starts_with('{') {
        return None;
    }
    match method {
        Method::ElicitationCreate => {
            let action = input::said(answer.result_member("action")?)?;
            ["accept", "decline", "cancel"].into_iter().find(|known| *known == action)
        }
        Method::RootsList => answer.result_member("roots")?.starts_with('[').then_some("accept"),
        _ => Some("accept"),
    }
}

/// A question that stood in a result, as a message of its own.
fn as_frame(wish: &input::Wish<'_>) -> Option<Frame> {
    let (method, params) = (code::quote(&wish.method), wish.params);
    let text = format!(r#"{{"jsonrpc":"2.0","id":0,"method":{method},"params":{params}}}"#);
    Frame::parse(Bytes::from(text), &Budget::UPSTREAM).ok()
}

/// Whether nobody but this revision's clients would lack what a question needs: the upstream reaches as far as it may.
fn lacks(
    capabilities: &str,
    revision: Revision,
    unfit: Unfit,
    again: impl Fn(&Offer) -> bool,
) -> Option<&'static str> {
    let needs = unfit.needs()?;
    let whole = Offer::of(capabilities, revision, Reach::everything());
    (!again(&whole)).then_some(needs)
}
