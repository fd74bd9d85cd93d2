//! Questions that begin upstream: who may be asked what, how it is put, and what comes back (spec 6, X-05, X-18).
//!
//! A legacy server asks in the middle of a request, a modern one by a result that asks. A legacy client is asked on the
//! stream of its running request, a modern one by a result of ours: a legacy server waits meanwhile, see `parking.rs`. What
//! is put to whom is decided in `question.rs`.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use admission::{AskKind, Call, Verdict};
use bytes::Bytes;
use config::Counted;
use upstream::Seat;
use wire::{Budget, Era, Frame, Method, Revision, Shape, code, input};

use crate::{
    audit::{Audit, AuditError, Outcome, Record},
    catalog::Source,
    error::LimitError,
    limits::Limits,
    policy,
    router::Context,
    running::Outbox,
    session::{AskError, Asked},
    snapshot::Snapshot,
    tasks::Standing,
    telemetry::Metrics,
    visit::Visit,
};

mod links;
mod offer;
mod parked;
mod parking;
mod places;
mod question;
mod rounds;
mod sampling;
mod talk;

use links::Links;
pub(crate) use offer::{Offer, Offers, Reach};
pub(crate) use parked::{Parked, Question};
pub(crate) use parking::Handle;
use parking::Parking;
use places::Places;
pub(crate) use question::{Terms, Unfit};
pub(crate) use rounds::{ROUNDS, Retry, Sealed};
pub(crate) use talk::{Taken, Talk};

/// Questions of one call; more are refused, and not put on record: nobody fills the disk by asking.
const MOST: usize = 64;

/// What asking needs, whoever asks.
pub(crate) struct Asking {
    pub(crate) audit: Arc<Audit>,
    pub(crate) limits: Arc<Limits>,
    /// The pages that clients were sent to.
    pub(crate) links: Links,
    /// Calls whose clients are to come back with answers.
    pub(crate) parking: Arc<Parking>,
    /// Questions that may wait for an answer.
    open: Places,
}

/// The longest id of a page that is remembered, in bytes.
const LINK_BYTES: usize = 256;

impl Asking {
    /// Nothing has been asked.
    pub(crate) fn new(audit: Arc<Audit>, limits: Arc<Limits>, metrics: Arc<Metrics>) -> Asking {
        let (parking, open) = (Parking::new(metrics), Places::new());
        Asking { audit, limits, links: Links::default(), parking, open }
    }
}

/// One call, as far as its upstream may ask for more.
pub(crate) struct Asker<'a> {
    pub(crate) asking: &'a Asking,
    pub(crate) call: &'a Call,
    pub(crate) visit: &'a Visit,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) source: &'a Source,
    pub(crate) seat: &'a Seat,
    pub(crate) label: Option<&'a str>,
    pub(crate) offer: &'a Arc<Offer>,
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
    /// It was gone on with already, or given up, and is not made again (spec X-10).
    #[error(
        "this call waits for no answers any more: they came already, or too late. \
         The tool may have acted already, and is not called again"
    )]
    Spent,
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
            Unmet::Spent => code::INVALID_PARAMS,
            Unmet::Rejected { code, .. } => *code,
        }
    }

    /// The word for programs and records.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Unmet::Needs(_) => "missing_capability",
            Unmet::Failed(_) => "input_failed",
            Unmet::Spent => "input_spent",
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
    /// A modern client is never sent a request, and this one cannot be answered by a result that asks (spec Q-18, Q-23).
    #[error("this client is asked only by results")]
    Modern,
    /// So many calls wait for their clients already (spec X-08).
    #[error("too many calls wait for answers of this client")]
    Full,
    #[error("too many questions")]
    TooMany,
    #[error("the question cannot be put on record")]
    Unrecorded,
    /// The tenant's rules keep it from this principal.
    #[error("this client may not be asked that")]
    Ruled,
}

/// What keeps a question from its client, whatever that could answer.
enum Against {
    /// A rule of the tenant's.
    Rule(admission::Refusal),
    /// It was asked as often as it may be.
    Limit(LimitError),
}

impl Against {
    fn note(&self, record: &mut Record) {
        match self {
            Against::Rule(refusal) => record.ruled_out(refusal),
            Against::Limit(error) => record.limited(error.rule()),
        }
    }
}

impl Refusal {
    fn code(self) -> i64 {
        match self {
            Refusal::Unfit(unfit) => unfit.code(),
            // Neither a client that hears it nor one that could (spec Q-04).
            Refusal::Unheard(_) | Refusal::Modern | Refusal::Full | Refusal::TooMany | Refusal::Ruled => {
                code::INVALID_PARAMS
            }
            Refusal::Unrecorded => code::INTERNAL_ERROR,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Refusal::Unfit(unfit) => unfit.reason(),
            Refusal::Unheard(_) => "unheard",
            Refusal::Modern => "not_carried",
            Refusal::Full => "parking_full",
            Refusal::TooMany | Refusal::Unrecorded => "refused",
            Refusal::Ruled => "denied",
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
    /// A call at this seat of an upstream.
    pub(crate) fn of(
        asking: &'a Asking,
        (call, context): (&'a Call, &'a Context),
        (source, seat): (&'a Source, &'a Seat),
        offer: &'a Arc<Offer>,
    ) -> Asker<'a> {
        let Context { visit, view, snapshot, .. } = context;
        // What the user is told that the upstream is called: the operator's word, or the id where there are several (spec
        // Q-11). With one upstream the endpoint says it.
        let id = (view.upstreams.len() > 1).then_some(&*source.config.id);
        let label = source.config.label.as_deref().or(id);
        Asker { asking, call, visit, snapshot, source, seat, label, offer }
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

    /// What the tenant's rules and limits have against a question.
    fn against(&self, question: &Frame) -> Option<Against> {
        let (kind, counted) = match question.method()? {
            Method::SamplingCreate => (AskKind::Sampling, Counted::Sampling),
            Method::ElicitationCreate => (AskKind::Elicitation, Counted::Elicitation),
            Method::RootsList => (AskKind::Roots, Counted::Roots),
            _ => return None,
        };
        let upstream = (&*self.source.config.id, policy::trust(self.source.config.trust));
        let asker = &self.call.principal;
        match self.snapshot.checks.policy.may_ask(asker, &self.call.scene, upstream, kind) {
            Verdict::Allow => {
                let limited =
                    self.asking.limits.question(&self.snapshot.limits, asker, (counted, upstream.0));
                limited.err().map(Against::Limit)
            }
            Verdict::Hold(rule) => Some(Against::Rule(admission::Refusal::by(rule))),
            Verdict::Deny(refusal) => Some(Against::Rule(refusal)),
        }
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

    /// Puts a question to the client, on the stream of its running request, once that is on record. The answer may take
    /// no longer than `patience`.
    async fn ask(
        &self,
        question: &Frame,
        outbox: &Arc<Outbox>,
        patience: Duration,
    ) -> Result<Answering, Refusal> {
        let place = self.asking.open.take(&self.call.principal.tenant).ok_or(Refusal::TooMany)?;
        let mut record = self.record(question).await?;
        match self.put(question, outbox, &mut record).await {
            Ok((method, asked)) => Ok(Box::pin(async move {
                let reply = wait(method, asked, record, patience).await;
                drop(place);
                reply
            })),
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
        if let Some(against) = self.against(question) {
            against.note(record);
            return Err(Refusal::Ruled);
        }
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

    /// Judges a question that a modern client is to find in a result. What is refused is on record.
    async fn hold(&self, question: &Frame, number: usize) -> Result<Question, Refusal> {
        let against = self.against(question);
        let refusal = match &against {
            Some(_) => Refusal::Ruled,
            None if !rounds::may_ask(self.call.method) => Refusal::Modern,
            None => {
                let params = question.params().unwrap_or("{}");
                match question::put(question.method_name(), params, &self.terms()) {
                    Ok((method, params)) => {
                        return Ok(Question::new(question.clone(), number, method, params));
                    }
                    Err(unfit) => unfit.into(),
                }
            }
        };
        self.turn_down(question, against.as_ref(), refusal).await?;
        Err(refusal)
    }

    /// Puts on record that a question is not put.
    async fn turn_down(
        &self,
        question: &Frame,
        against: Option<&Against>,
        refusal: Refusal,
    ) -> Result<(), Refusal> {
        let mut record = self.record(question).await?;
        if let Some(against) = against {
            against.note(&mut record);
        }
        record.close(Outcome::Denied, Some(refusal.reason()), 0);
        Ok(())
    }

    /// Writes that a question goes to a modern client, in so many bytes; only then may it leave (invariant 5). Its record
    /// ends here: the answer comes with a call of its own.
    async fn put_on_record(&self, question: &Frame, bytes: usize) -> Result<(), Refusal> {
        let mut record = self.record(question).await?;
        record.let_through();
        record.commit().await.map_err(|_: AuditError| Refusal::Unrecorded)?;
        record.close(Outcome::Ok, Some("handed_on"), bytes);
        Ok(())
    }

    /// What a modern client would have to declare for a question that was refused. What is missing on our side is another
    /// matter.
    fn missing(&self, refusal: Refusal, question: &Frame) -> Option<&'static str> {
        let Refusal::Unfit(unfit) = refusal else { return None };
        if self.visit.era() == Era::Legacy {
            return None;
        }
        self.lacks(unfit, question.method_name(), question.params().unwrap_or("{}"))
    }

    /// What the client did not declare, if that and nothing else keeps it from being asked.
    fn lacks(&self, unfit: Unfit, method: &str, params: &str) -> Option<&'static str> {
        let needs = unfit.needs()?;
        let declared = wire::envelope(&self.call.frame).and_then(Result::ok);
        let capabilities = declared.map_or("{}", |envelope| envelope.capabilities);
        // An upstream that reached as far as it may.
        let whole = Offer::of(capabilities, Revision::R2026_07_28, Reach::everything());
        let terms = Terms { offer: &whole, ..self.terms() };
        question::put(method, params, &terms).is_err().then_some(needs)
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
    match answer.result().and_then(|result| fits(method, result)) {
        Some("accept") => record.close(Outcome::Ok, None, bytes),
        Some(action) => record.close(Outcome::Ok, Some(action), bytes),
        None => {
            record.close(Outcome::Error, Some("malformed"), bytes);
            return Reply::Malformed;
        }
    }
    Reply::Result(answer)
}

/// Whether a result, JSON text, answers such a question, and in which of the three ways; nobody but the client says yes
/// (spec Q-17).
fn fits(method: Method, result: &str) -> Option<&'static str> {
    if !result.starts_with('{') {
        return None;
    }
    match method {
        Method::ElicitationCreate => {
            let action = input::said(input::member(result, "action")?)?;
            ["accept", "decline", "cancel"].into_iter().find(|known| *known == action)
        }
        Method::RootsList => input::member(result, "roots")?.starts_with('[').then_some("accept"),
        Method::SamplingCreate => input::member(result, "content").map(|_| "accept"),
        _ => Some("accept"),
    }
}

/// A question that stood in a result, as a message of its own.
fn as_frame(method: &str, params: &str) -> Option<Frame> {
    let method = code::quote(method);
    let text = format!(r#"{{"jsonrpc":"2.0","id":0,"method":{method},"params":{params}}}"#);
    Frame::parse(Bytes::from(text), &Budget::UPSTREAM).ok()
}
