//! Admitted → answered here, listed, forwarded, or passed to a running request.

mod forward;

pub(crate) use forward::{Heard, Hearing, hear, offer};

use std::sync::Arc;

use admission::{Admitted, Call, Principal, Sort, Target};
use arc_swap::ArcSwap;
use bytes::Bytes;
use config::Share;
use upstream::{Caller, Pool, Seat};
use wire::{Era, Kind, Method, Pieces, Plan, code};

use crate::{
    arrival::{Head, Listening},
    asking::Asking,
    audit::Outcome,
    bridge,
    catalog::{Catalog, Offer, View, cursor},
    error::{CatalogError, Error},
    handshake, relay,
    running::Outbox,
    seal::{Bound, Seal},
    session::{Cancelled, Sessions, Ticket},
    snapshot::Snapshot,
    subscriptions::{self, Subscriptions},
    tasks::{self, Tasks},
    visit::Visit,
};

/// Where a message stands: everything about it that is no part of the decision.
#[derive(Clone)]
pub(crate) struct Context {
    /// The configuration it is handled by.
    pub(crate) snapshot: Arc<Snapshot>,
    /// Its tenant's catalog.
    pub(crate) catalog: Arc<Catalog>,
    /// The one view it sees.
    pub(crate) view: Arc<View>,
    /// Its conversation.
    pub(crate) visit: Visit,
    /// Who calls, in a tenant where an upstream hears of that.
    pub(crate) caller: Option<Arc<Caller>>,
}

impl Context {
    /// A list as this asker sees it.
    pub(crate) fn offer(&self, kind: Kind, asker: &Arc<Principal>) -> Offer<'_> {
        self.view.offer(kind, &self.snapshot.checks, asker)
    }
}

/// How a running request is reached while it runs.
pub(crate) struct Lane {
    /// What the client hears before the answer.
    pub(crate) outbox: Arc<Outbox>,
    /// The request's place in its session, and the client's cancellation. A modern request has none: it
    /// is cancelled by closing its connection.
    pub(crate) ticket: Option<Ticket>,
    /// Who listens for changes, to be asked again who it is (spec H-27); none for other requests.
    pub(crate) asker: Option<Box<Head>>,
}

impl Lane {
    pub(crate) async fn cancelled(&mut self) -> Cancelled {
        match &mut self.ticket {
            Some(ticket) => ticket.cancelled().await,
            None => match self.outbox.hosting() {
                Some(hosting) => {
                    hosting.cancelled().await;
                    Cancelled { reason: None }
                }
                None => std::future::pending().await,
            },
        }
    }
}

/// What became of a message that was admitted.
pub(crate) enum Answered {
    /// A notification: nothing to say.
    Accepted,
    /// The session is over.
    Ended,
    /// A stream was opened.
    Listening(Box<Listening>),
    /// A result that asks the client for more: the answers come with a call of its own.
    Asked(Pieces),
    /// The client does not want the answer any more, and gets none (spec U-06).
    GivenUp,
    /// The answer.
    Message {
        /// The whole JSON-RPC message.
        body: Pieces,
        /// How the record ends.
        outcome: Outcome,
        /// A session that exists from now on.
        opened: Option<Arc<str>>,
    },
}

impl Answered {
    /// An answer as any other.
    pub(crate) fn ok(body: Pieces) -> Answered {
        Answered::Message { body, outcome: Outcome::Ok, opened: None }
    }
}

/// Sends admitted calls where they belong.
pub(crate) struct Router {
    /// What is in force now, for whoever goes on for longer than a call: a call keeps to the one that it began with.
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    /// The upstreams.
    pub(crate) pool: Arc<Pool>,
    /// Results above this many bytes are not passed on.
    pub(crate) result_limit: usize,
    /// Who is told when a resource changes.
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// Seals our cursors, and what clients carry between rounds.
    pub(crate) seal: Seal,
    /// What begins upstream.
    pub(crate) asking: Asking,
    /// Calls that became tasks.
    pub(crate) tasks: Arc<Tasks>,
}

impl Router {
    /// Answers an admitted call. Its intent is on record by now if it leaves the gateway.
    pub(crate) async fn dispatch(
        &self,
        admitted: &Admitted,
        context: &Context,
        sessions: &Sessions,
        lane: Option<Lane>,
    ) -> Result<Answered, Error> {
        let call = admitted.call();
        match (call.method.row().plan, &call.target, lane) {
            (Plan::Answer, _, _) if call.method == Method::TasksList => tasks::list(self, call, context),
            (Plan::Answer, _, _) => Ok(answer_here(call, context, sessions)),
            (Plan::List(kind), _, _) => self.list(kind, call, context),
            (Plan::Task, Target::Thing(_), Some(lane)) => tasks::serve(self, call, context, lane).await,
            (Plan::Forward, Target::Thing(thing), Some(lane)) => {
                tasks::admit(call, thing, &context.visit)?;
                self.forward(call, thing, context, lane).await
            }
            (Plan::Relay, _, _) => {
                match (call.method, context.visit.session()) {
                    (Method::Cancelled, Some(session)) => relay::cancel(session, &call.frame),
                    (Method::RootsChanged, Some(session)) => relay::roots_changed(&self.pool, session),
                    (_, _) => (),
                }
                Ok(Answered::Accepted)
            }
            (Plan::Session, _, Some(lane)) => subscriptions::serve(self, call, context, sessions, lane).await,
            (Plan::Listen, _, Some(lane)) => subscriptions::listen(self, call, context, lane).await,
            // INVARIANT: bind refuses methods whose capability was not promised, and a request that leaves
            // has a lane; what is left here has no business in this release.
            (Plan::Forward | Plan::Session | Plan::Listen | Plan::Task, _, _) => {
                Err(CatalogError::Method(call.frame.method_name().into()).into())
            }
        }
    }

    fn list(&self, kind: Kind, call: &Call, context: &Context) -> Result<Answered, Error> {
        let Some(id) = call.frame.id() else { return Ok(Answered::Accepted) };
        let server = &context.view.server;
        let tenant = call.principal.tenant.name();
        let owner = seat_key(&call.principal);
        let bound = Bound { tenant, principal: &owner, endpoint: server };
        let list = context.offer(kind, &call.principal);
        if let Some(session) = context.visit.session() {
            session.knows(kind, list.version);
        }
        let page = match call.frame.param("cursor") {
            None | Some("null") => list.first(context.visit.revision()),
            Some(_) => {
                let text = call.frame.param_text("cursor").ok_or(CatalogError::Cursor)?;
                let place = cursor::open(&self.seal, &bound, kind, &text).ok_or(CatalogError::Cursor)?;
                list.after(&place, context.visit.revision())
            }
        };
        let next = page.last.and_then(|place| cursor::seal(&self.seal, &bound, kind, &place));
        let mut body =
            Pieces::one(Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.raw())));
        body.push(page.open);
        let mut end = match context.visit.era() {
            Era::Legacy => String::new(),
            Era::Modern => bridge::modern_members(list.is_complete()),
        };
        if let Some(next) = next {
            end.push_str(&format!(",\"nextCursor\":\"{next}\""));
        }
        end.push_str("}}");
        body.push(Bytes::from(end));
        Ok(Answered::ok(body))
    }
}

/// Whose process serves this session (product rule "Catalog connections").
pub(crate) fn seat(share: Share, visit: &Visit) -> Seat {
    match (share, visit.session()) {
        (Share::Tenant, _) => Seat::Shared,
        (Share::Session, Some(session)) => Seat::Session(Arc::clone(&session.name)),
        // Where there are no sessions, the principal is the next wider circle.
        (Share::Principal, _) | (Share::Session, None) => Seat::Principal(seat_key(visit.principal())),
    }
}

/// A principal's name within its tenant: two issuers may know the same subject.
pub(crate) fn seat_key(principal: &Principal) -> Arc<str> {
    match principal.issuer.is_empty() {
        true => Arc::clone(&principal.subject),
        // Neither part may hold a control character, so no two pairs meet.
        false => format!("{}\u{1f}{}", principal.subject, principal.issuer).into(),
    }
}

/// The subject and issuer that a seat's key was made of.
pub(crate) fn principal_of(key: &Arc<str>) -> (Arc<str>, Box<str>) {
    match key.split_once('\u{1f}') {
        Some((subject, issuer)) => (subject.into(), issuer.into()),
        None => (Arc::clone(key), Box::default()),
    }
}

/// What the gateway answers by itself.
fn answer_here(call: &Call, context: &Context, sessions: &Sessions) -> Answered {
    let Some(id) = call.frame.id() else { return Answered::Accepted };
    let view = &context.view;
    let instructions = || view.instructions(&context.snapshot.checks, &call.principal);
    let (body, opened) = match (&context.visit, call.method) {
        (Visit::Opening(session), Method::Initialize) => {
            session.promise(handshake::promised(session, view));
            for kind in Kind::ALL {
                session.knows(kind, context.offer(kind, &call.principal).version);
            }
            sessions.open(session);
            let introduction = handshake::introduction(session, view, instructions().as_deref());
            (code::success(id, &introduction), Some(Arc::clone(&session.id)))
        }
        (Visit::Alone(_), Method::Discover) => {
            (code::success(id, &handshake::discovery(view, instructions().as_deref())), None)
        }
        (Visit::Opening(_) | Visit::Within(_) | Visit::Alone(_), _) => {
            (code::success(id, bridge::empty_result(context.visit.era())), None)
        }
    };
    Answered::Message { body: Pieces::one(body), outcome: Outcome::Ok, opened }
}

/// What kind of thing a call is about, for words and codes.
pub(crate) fn subject(target: &Target) -> (Option<Sort>, Box<str>) {
    match target {
        Target::Ourselves | Target::Listing(_) => (None, Box::default()),
        Target::Thing(thing) => (Some(thing.sort), thing.exposed.clone()),
        Target::Missing(sort, name) => (Some(*sort), name.clone()),
    }
}
