//! The life of one message. Read this file first.
//!
//! head → identify → body → frame → classify → enter → bind → charge → decide → (ask) → commit → dispatch → close

use std::{sync::Arc, time::Duration};

use admission::{Call, Decision, Principal, Target, TenantId};
use tokio::sync::mpsc;
use upstream::{Connection, Seat, Spec};
use wire::{Budget, Frame, FrameError, Id, Method, Pieces, Plan, Shape, code};

use crate::{
    arrival::{Arrival, Head, Listening, Out, Reply, Verb},
    audit::{Outcome, Record},
    catalog::{self, Catalog, View},
    era,
    error::{Error, Refused},
    gateway::Gateway,
    router::{Answered, Context, Lane, subject},
    session::Visit,
    snapshot::Snapshot,
};

/// `initialize` waits for upstreams that have not said what they can, but never longer than this.
const INTRODUCTION: Duration = Duration::from_millis(800);

/// A message whose sender, shape and conversation are known.
struct Entered {
    snapshot: Arc<Snapshot>,
    catalog: Arc<Catalog>,
    server: Arc<str>,
    visit: Visit,
    frame: Frame,
    head: Head,
}

/// A failure, and the id of the request it answers when that could be read (spec Z-02).
struct Failure {
    error: Error,
    id: Option<Id>,
}

impl Gateway {
    /// Answers one arrival. However it ends, an authenticated one leaves exactly one audit entry.
    pub async fn serve(self: &Arc<Self>, arrival: Arrival) -> Reply {
        let mut record = match self.audit.open().await {
            Ok(record) => record,
            Err(error) => return refusal(&Failure::from(Error::from(error))),
        };
        record.arrived(&arrival.head);
        if arrival.head.verb != Verb::Post {
            let done = self.serve_stream(&arrival.head, &mut record);
            return close(record, done.map_err(Failure::from));
        }
        let entered = match self.receive(arrival, &mut record).await {
            Ok(entered) => entered,
            Err(failure) => return close(record, Err(failure)),
        };
        match is_owned_by_session(&entered.frame) {
            true => self.run(entered, record),
            false => self.answer(entered, record).await,
        }
    }

    /// From the head to a message whose conversation is known.
    async fn receive(&self, arrival: Arrival, record: &mut Record) -> Result<Entered, Failure> {
        let Arrival { head, body } = arrival;
        let snapshot = self.snapshot.load_full();
        let asker = snapshot.authn.identify(&head).map_err(Error::from)?;
        record.identified(&asker);
        let (catalog, server) = snapshot
            .endpoint(&asker.tenant, &head.endpoint)
            .ok_or(Error::Authn(crate::error::AuthnError::NoEndpoint))?;

        let bytes = body.await.map_err(Error::from)?;
        let budget = Budget { bytes: self.config.limits.body, ..Budget::CLIENT };
        let frame = Frame::parse(bytes.clone(), &budget)
            .map_err(|error| Failure { id: readable_id(&bytes, &error), error: error.into() })?;
        record.read(&frame);
        let failed = |error: Error| Failure { id: frame.id().cloned(), error };
        era::classify(&head, &frame).map_err(|error| failed(error.into()))?;
        let visit = self
            .sessions
            .enter(&head, (&snapshot.authn, &asker), &server, &frame)
            .map_err(|error| failed(error.into()))?;
        record.entered(&visit.session().principal, Some(visit.session().revision));
        // Also for `initialize`, whose head names no session yet, or a stale one.
        record.opened(&visit.session().id);
        Ok(Entered { snapshot, catalog, server, visit, frame, head })
    }

    /// Runs a request in a task of its session: the connection only listens for the answer (spec H-25).
    fn run(self: &Arc<Self>, entered: Entered, record: Record) -> Reply {
        let session = Arc::clone(entered.visit.session());
        let ticket = match entered.frame.id().map(|id| session.admit(id)) {
            Some(Ok(ticket)) => ticket,
            Some(Err(error)) => {
                let id = entered.frame.id().cloned();
                return close(record, Err(Failure { id, error: error.into() }));
            }
            None => return Reply::Accepted,
        };
        let gateway = Arc::clone(self);
        Reply::Running(session.run(&self.sessions.tracker, move |out: mpsc::Sender<Out>| async move {
            let mut record = record;
            let lane = Lane { out: out.clone(), ticket };
            let done = gateway.handle(&entered, &mut record, Some(lane)).await;
            let id = entered.frame.id().cloned();
            if let Reply::Message { body, status, .. } =
                close(record, done.map_err(|error| Failure { id, error }))
            {
                // Nobody may listen any more; the record says what was answered.
                let _ = out.send(Out { message: body, last: true, status }).await;
            }
        }))
    }

    /// Answers at once, within the connection.
    async fn answer(&self, entered: Entered, mut record: Record) -> Reply {
        let done = self.handle(&entered, &mut record, None).await;
        let id = entered.frame.id().cloned();
        let reply = close(record, done.map_err(|error| Failure { id, error }));
        // A notification is never answered, whatever became of it (spec B-06, bug B15).
        match entered.frame.shape() {
            Shape::Request => reply,
            Shape::Notification | Shape::Result | Shape::Failure => Reply::Accepted,
        }
    }

    /// The stages every message passes, whatever its method.
    async fn handle(
        &self,
        entered: &Entered,
        record: &mut Record,
        lane: Option<Lane>,
    ) -> Result<Answered, Error> {
        let Entered { snapshot, catalog, visit, frame, .. } = entered;
        if matches!(frame.shape(), Shape::Result | Shape::Failure) {
            // An answer to a question of ours. None are asked yet, so it answers nothing (spec H-06).
            return Ok(Answered::Accepted);
        }
        let (mut call, view) = self.bind(entered).await?;
        record.bound(&call);
        let (sort, name) = subject(&call.target);
        let referred = call.method == Method::Complete;

        self.limits.charge(&call, visit.session())?;
        call.grant = self.approvals.peek(&call);
        let mut decision = snapshot.checks.decide(call);
        if let Decision::Held(held) = decision {
            record.waits(&held);
            let grant = self.approvals.ask(&held)?;
            // The rules may have changed while a person was thinking.
            decision = self.snapshot.load().checks.decide(held.granted(grant));
        }
        let admitted = record
            .decided(decision)
            .map_err(|denial| Error::from(Box::new(Refused { denial, sort, referred, name })))?;

        if admitted.call().method.row().plan == Plan::Forward {
            record.commit().await?;
        }
        let context = Context {
            snapshot: Arc::clone(snapshot),
            catalog: Arc::clone(catalog),
            view,
            visit: visit.clone(),
        };
        self.router.dispatch(&admitted, &context, &self.sessions, lane).await
    }

    /// Finds what a message is about, in the one view it will see. Lists wait for upstreams in their first
    /// start; a name waits only when it is not known yet.
    async fn bind(&self, entered: &Entered) -> Result<(Call, Arc<View>), Error> {
        let Entered { catalog, server, visit, frame, head, .. } = entered;
        let gone = || Error::Authn(crate::error::AuthnError::NoEndpoint);
        let plan = frame.method().map(|method| method.row().plan);
        let mut view = match (frame.method(), plan) {
            (Some(Method::Initialize), _) => catalog.introduced(server, INTRODUCTION).await,
            (_, Some(Plan::List(_))) => catalog.settled(server).await,
            _ => catalog.view(server),
        }
        .ok_or_else(gone)?;
        let session = visit.session();
        let (method, mut target) = catalog::bind(session, &view, frame)?;
        if matches!(target, Target::Missing(..)) {
            view = catalog.settled(server).await.ok_or_else(gone)?;
            (_, target) = catalog::bind(session, &view, frame)?;
        }
        let call = Call {
            principal: Arc::clone(&session.principal),
            method,
            target,
            frame: frame.clone(),
            received: head.received,
            grant: None,
        };
        Ok((call, view))
    }

    /// GET opens a session's stream, DELETE ends the session. Neither carries a message, so there is
    /// nothing to decide beyond whose session it is.
    fn serve_stream(&self, head: &Head, record: &mut Record) -> Result<Answered, Error> {
        let snapshot = self.snapshot.load_full();
        let asker = snapshot.authn.identify(head)?;
        record.identified(&asker);
        era::classify_head(head)?;
        let (catalog, server) = snapshot
            .endpoint(&asker.tenant, &head.endpoint)
            .ok_or(Error::Authn(crate::error::AuthnError::NoEndpoint))?;
        let session = self.sessions.find(head, &asker, &server)?;
        record.entered(&session.principal, Some(session.revision));
        match head.verb {
            Verb::Delete => {
                self.sessions.end(&session);
                Ok(Answered::Ended)
            }
            Verb::Get | Verb::Post if self.sessions.is_draining() => {
                Err(crate::error::SessionError::Draining.into())
            }
            Verb::Get | Verb::Post => {
                let listener = session.listen()?;
                if let Some(view) = catalog.view(&server) {
                    session.announce(|kind| view.list(kind).version);
                }
                Ok(Answered::Listening(Listening(listener)))
            }
        }
    }

    /// The other direction: a question that begins at an upstream. It will pass the checks, limits and
    /// records of any call on its way to the one client it concerns; in this release no client capability
    /// is declared to upstreams, so every question is refused, and recorded.
    pub(crate) async fn ask_back(&self, spec: &Spec, seat: &Seat, connection: &Connection, question: &Frame) {
        let Some(id) = question.id() else { return };
        if let Ok(mut record) = self.audit.open().await {
            let asker = match seat {
                Seat::Shared => Arc::from("shared"),
                Seat::Principal(subject) => Arc::clone(subject),
                Seat::Session(session) => crate::session::short(session).into(),
            };
            record.identified(&Arc::new(Principal {
                tenant: TenantId::new(Arc::clone(&spec.tenant)),
                issuer: Box::default(),
                subject: asker,
                groups: Box::default(),
                scopes: Box::default(),
                credential: Box::default(),
            }));
            record.asked_by(&spec.id);
            record.read(question);
            record.close(Outcome::Denied, Some("not_offered"), 0);
        }
        let text = format!("`{}` is not offered by this client", question.method_name());
        let answer = code::failure(Some(id), code::METHOD_NOT_FOUND, &text, None);
        // An upstream that is gone needs no answer.
        let _ = connection.tell(answer);
    }
}

/// The id of a message that is JSON but no message of ours; what is no JSON has none (spec D12).
fn readable_id(bytes: &[u8], error: &FrameError) -> Option<Id> {
    if error.is_parse_error() { None } else { wire::readable_id(bytes) }
}

/// Requests that leave the gateway belong to their session; everything else is answered at once.
fn is_owned_by_session(frame: &Frame) -> bool {
    frame.shape() == Shape::Request && frame.method().is_some_and(|method| method.row().plan == Plan::Forward)
}

/// Closes the record and turns the end of a message into the transport's reply.
fn close(record: Record, done: Result<Answered, Failure>) -> Reply {
    match done {
        Ok(Answered::Accepted) => {
            record.close(Outcome::Ok, None, 0);
            Reply::Accepted
        }
        Ok(Answered::Ended) => {
            record.close(Outcome::Ok, None, 0);
            Reply::Ended
        }
        Ok(Answered::Listening(listening)) => {
            record.close(Outcome::Ok, None, 0);
            Reply::Listening(listening)
        }
        Ok(Answered::GivenUp) => {
            record.close(Outcome::Abandoned, Some("cancelled"), 0);
            Reply::Accepted
        }
        Ok(Answered::Message { body, outcome, opened }) => {
            record.close(outcome, None, body.len());
            Reply::Message { status: 200, body, session: opened, challenge: None }
        }
        Err(failure) => {
            let reply = refusal(&failure);
            let bytes = match &reply {
                Reply::Message { body, .. } => body.len(),
                Reply::Accepted | Reply::Ended | Reply::Running(_) | Reply::Listening(_) => 0,
            };
            record.close(outcome_of(&failure.error), Some(failure.error.answer().reason), bytes);
            reply
        }
    }
}

/// A denial is a decision, not a fault.
fn outcome_of(error: &Error) -> Outcome {
    match error {
        Error::Denied(_) | Error::Limit(_) | Error::Approval(_) => Outcome::Denied,
        Error::Authn(_)
        | Error::Body(_)
        | Error::Frame(_)
        | Error::Era(_)
        | Error::Session(_)
        | Error::Catalog(_)
        | Error::Audit(_)
        | Error::Upstream(_) => Outcome::Error,
    }
}

fn refusal(failure: &Failure) -> Reply {
    let body = Pieces::one(failure.error.message(failure.id.as_ref()));
    Reply::Message { status: failure.error.answer().status, body, session: None, challenge: None }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, id: None }
    }
}
