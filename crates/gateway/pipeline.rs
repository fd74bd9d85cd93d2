//! The life of one message. Read this file first.
//!
//! head → identify → body → frame → classify → enter → bind → charge → decide → (ask) → commit → dispatch → close

mod close;
mod line;
mod measured;
mod threshold;
mod unattributed;

use std::{sync::Arc, time::Duration};

use admission::{Call, Decision, Principal, Scene, Target};
use bytes::Bytes;
use wire::{Budget, Era, Frame, FrameError, Id, Method, Plan, Shape};

use crate::{
    arrival::{Arrival, BodyError, Head, Listening, Reply, Source, Transport, Verb},
    audit::{Record, Unheard},
    batch,
    catalog::{self, Catalog, View},
    credential, era,
    error::{AuthnError, Client, EraError, Error, SessionError},
    gateway::Gateway,
    router::{Answered, Context, Lane, subject},
    running::{Answering, Bond, Out, Outbox, Reach, Running},
    snapshot::Snapshot,
    tasks::{self, Front, Hosting},
    visit::Visit,
};

pub(crate) use close::{close, refusal};
pub(crate) use line::Hearing;
use measured::Said;

/// `initialize` waits for upstreams that have not said what they can, but never longer than this.
const INTRODUCTION: Duration = Duration::from_millis(800);

/// Who stands where: an asker at an endpoint, before anything was said.
#[derive(Clone)]
pub(crate) struct Place {
    snapshot: Arc<Snapshot>,
    catalog: Arc<Catalog>,
    pub(crate) server: Arc<str>,
    pub(crate) asker: Arc<Principal>,
    pub(crate) head: Head,
}

/// A message whose sender, shape and conversation are known.
pub(crate) struct Entered {
    snapshot: Arc<Snapshot>,
    catalog: Arc<Catalog>,
    server: Arc<str>,
    visit: Visit,
    /// Who asks now: the session's owner, with what this credential carries.
    principal: Arc<Principal>,
    frame: Frame,
    head: Head,
}

/// A failure, the id of the request it answers when that could be read (spec Z-02), and whom it is told to.
pub(crate) struct Failure {
    error: Error,
    id: Option<Id>,
    client: Client,
    /// What a stranger must show.
    challenge: Option<String>,
}

impl Failure {
    /// The same, told to the request with this id.
    pub(crate) fn of(self, id: Option<Id>) -> Failure {
        Failure { id, ..self }
    }
}

impl Entered {
    /// Requests that leave the gateway run until they are answered; everything else is answered at once.
    pub(crate) fn leaves(&self) -> bool {
        let plan = self.frame.method().map(|method| method.row().plan);
        self.frame.shape() == Shape::Request && plan.is_some_and(Plan::leaves)
    }

    /// What it asks for.
    pub(crate) fn method(&self) -> Option<Method> {
        self.frame.method()
    }

    /// Who asks, and under which id.
    pub(crate) fn asked_by(&self) -> (Arc<Principal>, Option<Id>) {
        (Arc::clone(&self.principal), self.frame.id().cloned())
    }

    /// How it ended, with what is needed to say so.
    fn done(&self, done: Result<Answered, Error>) -> Result<Answered, Failure> {
        done.map_err(|error| Failure {
            id: self.frame.id().cloned(),
            client: Client { revision: self.visit.revision(), statuses: self.catalog.terms().error_status },
            challenge: match &error {
                Error::Denied(refused) if !refused.denial.refusal.lacks.is_empty() => {
                    let needed = &refused.denial.refusal.lacks;
                    self.snapshot.authn.step_up(&self.head.endpoint, &self.principal, needed)
                }
                _ => None,
            },
            ..Failure::from(error)
        })
    }
}

impl Gateway {
    /// Answers one arrival. However it ends, an authenticated one leaves exactly one audit entry.
    pub async fn serve(self: &Arc<Self>, arrival: Arrival) -> Reply {
        let Arrival { head, body } = arrival;
        let snapshot = self.snapshot.load_full();
        let asker = match identify(&snapshot, &head).await {
            Ok(asker) => asker,
            Err(failure) => return Box::pin(self.turn_away(&snapshot, &head, failure)).await,
        };
        // The place in the log is taken once the body is here: a slow sender holds nothing of anybody's.
        let body = match head.verb {
            Verb::Post => {
                let unheard = Unheard::of(&self.audit, &head, &asker);
                let body = body.await;
                unheard.heard();
                Some(body)
            }
            Verb::Get | Verb::Delete => None,
        };
        let mut record = match self.open_record(&head, &asker).await {
            Ok(record) => record,
            Err(failure) => return refusal(&failure),
        };
        let Some((catalog, server)) = snapshot.endpoint(&asker.tenant, &head.endpoint) else {
            return close(record, Err(Error::Authn(AuthnError::NoEndpoint).into()));
        };
        let place = Place { snapshot, catalog, server, asker, head };
        let Some(body) = body else {
            let done = self.serve_stream(&place, &mut record);
            return close(record, done.map_err(Failure::from));
        };
        if place.head.endpoint.transport == Transport::Sse {
            return Box::pin(line::serve(self, place, body, record)).await;
        }
        if let Ok(bytes) = &body
            && let Some(session) = batch::session(self, &place, bytes)
        {
            return batch::serve(self, place, session, bytes, record);
        }
        match self.enter(place, body, &mut record) {
            Err(failure) => close(record, Err(failure)),
            Ok(entered) if entered.leaves() => self.run(entered, record),
            // Boxed: room for it would double that of every call.
            Ok(entered) => Box::pin(self.answer(entered, record, Ok)).await,
        }
    }

    /// Begins the entry of a message of this asker.
    pub(crate) async fn open_record(&self, head: &Head, asker: &Arc<Principal>) -> Result<Record, Failure> {
        let mut record = self.audit.open().await.map_err(Error::from)?;
        record.arrived(head);
        record.identified(asker);
        Ok(record)
    }

    /// From the body to a message whose conversation is known.
    pub(crate) fn enter(
        &self,
        place: Place,
        body: Result<Bytes, BodyError>,
        record: &mut Record,
    ) -> Result<Entered, Failure> {
        let Place { snapshot, catalog, server, asker, head } = place;
        let bytes = body.map_err(Error::from)?;
        let budget = Budget { bytes: self.config.limits.body, ..Budget::CLIENT };
        let frame = Frame::parse(bytes.clone(), &budget).map_err(|error| {
            let id = readable_id(&bytes, &error);
            Failure { id, ..Failure::from(Error::from(error)) }
        })?;
        record.read(&frame);
        let client = Client { statuses: catalog.terms().error_status, ..Client::UNKNOWN };
        let failed = |error: Error| Failure { id: frame.id().cloned(), client, ..Failure::from(error) };
        let visit = match era::classify(&head, &frame).map_err(|error| failed(error.into()))? {
            // Nothing that ends with a session would end it, so nothing new begins.
            Era::Modern if self.sessions.is_draining() => {
                return Err(failed(SessionError::Draining.into()));
            }
            Era::Modern => Visit::Alone(Arc::clone(&asker)),
            Era::Legacy => self
                .sessions
                .enter(
                    &head,
                    (&snapshot.authn, &asker, snapshot.limits.sessions(&asker.tenant)),
                    &server,
                    &frame,
                )
                .map_err(|error| failed(error.into()))?,
        };
        // An anonymous asker is nobody before the session says who.
        let principal = if asker.issuer.is_empty() { Arc::clone(visit.principal()) } else { asker };
        record.entered(&principal, Some(visit.revision()));
        if let Some(session) = visit.session() {
            // Also for `initialize`, whose head names no session yet, or a stale one.
            record.opened(session);
        }
        Ok(Entered { snapshot, catalog, server, visit, principal, frame, head })
    }

    /// Makes a request that leaves the gateway ready to run. A legacy request belongs to its session and goes on when
    /// its connection is lost; a modern one belongs to its connection (spec H-25).
    fn run(self: &Arc<Self>, entered: Entered, record: Record) -> Reply {
        let session = entered.visit.session().map(Arc::clone);
        let bond = session.map_or(Bond::Connection, Bond::Session);
        let outbox = Outbox::new(Reach::of(&entered.head));
        let outbox = Arc::new(match tasks::may_become_one(entered.visit.era(), &entered.frame) {
            true => outbox.hosted(Hosting::new()),
            false => outbox,
        });
        let front = Front::of(&entered, &outbox, &self.router.tasks);
        let work = match self.work(entered, record, Arc::clone(&outbox), Ok) {
            Ok(work) => work,
            Err(refused) => return refused,
        };
        let work = match front {
            // It belongs to nobody once it is a task.
            Some(front) => {
                let gateway = Arc::clone(self);
                Box::pin(async move { tasks::front(work, front, &gateway.sessions).await })
            }
            None => work,
        };
        Reply::Running(Running::new(outbox, work, bond, self.sessions.tracker.token()))
    }

    /// The request itself, which goes on while it is waited for. What it says before its answer goes into the outbox; the
    /// answer must `fit`.
    pub(crate) fn work<F: FnOnce(Answered) -> Result<Answered, Error> + Send + 'static>(
        self: &Arc<Self>,
        entered: Entered,
        record: Record,
        outbox: Arc<Outbox>,
        fit: F,
    ) -> Result<Answering, Reply> {
        let session = entered.visit.session().map(Arc::clone);
        let ticket = match session.as_ref().zip(entered.frame.id()).map(|(session, id)| session.admit(id)) {
            Some(Ok(ticket)) => Some(ticket),
            Some(Err(error)) => return Err(close(record, entered.done(Err(error.into())))),
            None => None,
        };
        let listens = entered.frame.method() == Some(Method::SubscriptionsListen);
        let asker = listens.then(|| Box::new(entered.head.clone()));
        let lane = Lane { outbox, ticket, asker };
        let gateway = Arc::clone(self);
        // Boxed here, where it is made: it is too large to be handed on.
        Ok(Box::pin(async move {
            let ended = session.as_ref().map_or(&gateway.sessions.given_up, |session| session.ended());
            // Dropping the work gives up the request: its exchange cancels upstream, its record closes. The end of the
            // session is looked at first: what it brings about is no answer of the upstream.
            tokio::select! {
                biased;
                () = ended.cancelled() => None,
                out = gateway.conclude(entered, record, lane, fit) => out,
            }
        }))
    }

    /// Takes a request to its end. Nobody may listen any more; the record says what was answered.
    async fn conclude(
        &self,
        entered: Entered,
        mut record: Record,
        lane: Lane,
        fit: impl FnOnce(Answered) -> Result<Answered, Error>,
    ) -> Option<Out> {
        let done = self.handle(&entered, &mut record, Some(lane)).await.and_then(fit);
        match close(record, entered.done(done)) {
            Reply::Message { body, status, challenge, .. } => {
                let challenge = challenge.map(String::into_boxed_str);
                Some(Out { message: body, last: true, status, challenge })
            }
            Reply::Accepted | Reply::Ended | Reply::Running(_) | Reply::Listening(_) => None,
        }
    }

    /// Answers at once, within the connection.
    pub(crate) async fn answer(
        &self,
        entered: Entered,
        mut record: Record,
        fit: impl FnOnce(Answered) -> Result<Answered, Error>,
    ) -> Reply {
        let done = self.handle(&entered, &mut record, None).await.and_then(fit);
        let reply = close(record, entered.done(done));
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
        let Entered { visit, frame, .. } = entered;
        if matches!(frame.shape(), Shape::Result | Shape::Failure) {
            // An answer to a question of ours, or to nothing (spec H-06).
            if let Some(session) = visit.session() {
                session.answered(frame);
            }
            return Ok(Answered::Accepted);
        }
        let (call, view) = self.bind(entered).await?;
        record.bound(&call);
        // What is asked about a task is no call of its tool: the model reads no answer of ours to it.
        let (sort, name) = match call.method.row().plan {
            Plan::Task => (None, Box::default()),
            _ => subject(&call.target),
        };
        let said = Said { sort, referred: call.method == Method::Complete, name };
        // Held until the call has ended, however it does.
        let measured = self.measure(entered, &call, record)?;
        let done = self.judge(entered, (call, said, view), record, lane).await;
        self.settle(&measured, &done);
        done
    }

    /// Asks all checks, and lets the call out if they agree.
    async fn judge(
        &self,
        entered: &Entered,
        (mut call, said, view): (Call, Said, Arc<View>),
        record: &mut Record,
        lane: Option<Lane>,
    ) -> Result<Answered, Error> {
        let Entered { snapshot, catalog, visit, .. } = entered;
        call.grant = self.approvals.peek(&call);
        let mut decision = snapshot.checks.decide(call);
        if let Decision::Held(held) = decision {
            record.waits(&held);
            let grant = self.approvals.ask(&held)?;
            // The rules may have changed while a person was thinking.
            decision = self.snapshot.load().checks.decide(held.granted(grant));
        }
        let admitted = record.decided(decision).map_err(|denial| said.refused(denial))?;

        check_mirrors(entered, admitted.call())?;
        if admitted.call().method.row().plan.leaves() {
            record.commit().await?;
            self.heard(entered, admitted.call());
        }
        let context = Context {
            snapshot: Arc::clone(snapshot),
            catalog: Arc::clone(catalog),
            view,
            visit: visit.clone(),
            caller: catalog
                .terms()
                .is_for_callers
                .then(|| credential::caller(&entered.head, &entered.principal)),
        };
        self.router.dispatch(&admitted, &context, &self.sessions, lane).await
    }

    /// Finds what a message is about, in the one view it will see. Lists wait for upstreams in their first
    /// start; a name waits only when it is not known yet.
    async fn bind(&self, entered: &Entered) -> Result<(Call, Arc<View>), Error> {
        let Entered { catalog, server, visit, frame, head, .. } = entered;
        let gone = || Error::Authn(AuthnError::NoEndpoint);
        let plan = frame.method().map(|method| method.row().plan);
        let mut view = match (frame.method(), plan) {
            (Some(Method::Initialize | Method::Discover), _) => {
                catalog.introduced(server, INTRODUCTION).await
            }
            (_, Some(Plan::List(_))) => catalog.settled(server).await,
            _ => catalog.view(server),
        }
        .ok_or_else(gone)?;
        let tool = |id: &str| self.router.tasks.tool(&entered.principal, server, id);
        let (method, mut target) = catalog::bind(visit, &view, frame, &tool)?;
        if matches!(target, Target::Missing(..)) {
            view = catalog.settled(server).await.ok_or_else(gone)?;
            (_, target) = catalog::bind(visit, &view, frame, &tool)?;
        }
        let call = Call {
            principal: Arc::clone(&entered.principal),
            method,
            target,
            frame: frame.clone(),
            received: head.received,
            grant: None,
            scene: Scene {
                tainted: self.limits.is_tainted(&entered.snapshot.limits, visit),
                ..visit.scene(server)
            },
        };
        Ok((call, view))
    }

    /// GET opens a session's stream, DELETE ends the session. Neither carries a message, so there is
    /// nothing to decide beyond whose session it is.
    fn serve_stream(self: &Arc<Self>, place: &Place, record: &mut Record) -> Result<Answered, Error> {
        let Place { catalog, server, asker, head, .. } = place;
        if head.endpoint.transport == Transport::Sse {
            return line::open(self, place, record);
        }
        era::classify_head(head)?;
        let session = self.sessions.find(head, asker, server)?;
        record.entered(&session.principal, Some(session.revision));
        match head.verb {
            Verb::Delete => {
                self.sessions.end(&session);
                Ok(Answered::Ended)
            }
            Verb::Get | Verb::Post if self.sessions.is_draining() => Err(SessionError::Draining.into()),
            Verb::Get | Verb::Post => {
                let charge = self.limits.stream(&place.snapshot.limits, &session.principal);
                let charge = charge.inspect_err(|error| record.limited(error.rule()))?;
                let reader = match &head.last_event {
                    Some(event) => session.resume(event)?,
                    None => session.listen()?,
                };
                if let Some(view) = catalog.view(server) {
                    let speaker = session.speaker();
                    session.announce(|kind| view.offer(kind, &place.snapshot.checks, &speaker).version);
                }
                let current = Arc::clone(&self.snapshot);
                let listening = Listening::new(Source::Session(reader), current, head.clone());
                let listening = listening.charged(charge);
                Ok(Answered::Listening(Box::new(listening)))
            }
        }
    }
}

/// The id of a message that is JSON but no message of ours; what is no JSON has none (spec D12).
fn readable_id(bytes: &[u8], error: &FrameError) -> Option<Id> {
    if error.is_parse_error() { None } else { wire::readable_id(bytes) }
}

/// What a modern request repeats of its arguments in headers must be what they say (spec H-30).
fn check_mirrors(entered: &Entered, call: &Call) -> Result<(), EraError> {
    match (&entered.visit, &call.target, call.method) {
        (Visit::Alone(_), Target::Thing(thing), Method::ToolsCall) => {
            let arguments = call.frame.param("arguments");
            Ok(wire::mirror::check_mirrors(&thing.mirrors, arguments, &era::sent(&entered.head))?)
        }
        _ => Ok(()),
    }
}

/// Who asks; a stranger is told what to show.
async fn identify(snapshot: &Snapshot, head: &Head) -> Result<Arc<Principal>, Failure> {
    snapshot.authn.identify_fresh(head).await.map_err(|error| {
        // Whose token it is says which scopes it should have.
        let holder = matches!(error, AuthnError::Scope).then(|| snapshot.authn.holder(head)).flatten();
        let challenge = match holder {
            Some(holder) => snapshot.authn.step_up(&head.endpoint, &holder, &[]),
            None => snapshot.authn.challenge(&head.endpoint, &error),
        };
        Failure { challenge, ..Failure::from(Error::from(error)) }
    })
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, id: None, client: Client::UNKNOWN, challenge: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a call makes room for.
    fn room<F: Future>(_: impl FnOnce(Arc<Gateway>, Arrival) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn what_is_seldom_needed_takes_no_room_in_every_request() {
        let room = room(|gateway, arrival| async move { gateway.serve(arrival).await });
        // It is moved several times before it runs: what grows beyond this is to be boxed where it is called.
        assert!(room <= 2 * 1024, "{room} bytes");
    }
}
