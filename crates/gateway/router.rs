//! Admitted → answered here, listed, forwarded, or passed to a running request.

use std::{borrow::Cow, sync::Arc};

use admission::{Admitted, Call, Principal, Sort, Target, Thing};
use bytes::Bytes;
use config::Share;
use upstream::{Connection, Exchange, Incoming, Outbound, Pool, Seat, UpstreamError, Wait};
use wire::{Change, Era, Frame, Id, Kind, Method, Names, Pieces, Plan, Shape, code, meta};

use crate::{
    arrival::Listening,
    audit::Outcome,
    bridge,
    catalog::{Catalog, Reference, View, cursor, uri_prefix},
    error::{CatalogError, Error, Failed, Refused},
    handshake,
    relay::{self, Progress},
    running::Outbox,
    seal::{Bound, Seal},
    session::{Cancelled, Sessions, Ticket},
    snapshot::Snapshot,
    visit::Visit,
};

/// Where a message stands: everything about it that is no part of the decision.
pub(crate) struct Context {
    /// The configuration it is handled by.
    pub(crate) snapshot: Arc<Snapshot>,
    /// Its tenant's catalog.
    pub(crate) catalog: Arc<Catalog>,
    /// The one view it sees.
    pub(crate) view: Arc<View>,
    /// Its conversation.
    pub(crate) visit: Visit,
}

/// How a running request is reached while it runs.
pub(crate) struct Lane {
    /// What the client hears before the answer.
    pub(crate) outbox: Arc<Outbox>,
    /// The request's place in its session, and the client's cancellation. A modern request has none: it
    /// is cancelled by closing its connection.
    pub(crate) ticket: Option<Ticket>,
}

impl Lane {
    async fn cancelled(&mut self) -> Cancelled {
        match &mut self.ticket {
            Some(ticket) => ticket.cancelled().await,
            None => std::future::pending().await,
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

/// Sends admitted calls where they belong.
pub(crate) struct Router {
    /// The upstreams.
    pub(crate) pool: Arc<Pool>,
    /// Results above this many bytes are not passed on.
    pub(crate) result_limit: usize,
    /// Seals our cursors.
    pub(crate) seal: Seal,
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
            (Plan::Answer, _, _) => Ok(answer_here(call, context, sessions)),
            (Plan::List(kind), _, _) => self.list(kind, call, context),
            (Plan::Forward, Target::Thing(thing), Some(lane)) => {
                self.forward(call, thing, context, lane).await
            }
            (Plan::Relay, _, _) => {
                if let (Method::Cancelled, Some(session)) = (call.method, context.visit.session()) {
                    relay::cancel(session, &call.frame);
                }
                Ok(Answered::Accepted)
            }
            // INVARIANT: bind refuses methods whose capability was not promised, and a forwarded request
            // has a lane; what is left here has no business in this release.
            (Plan::Forward | Plan::Listen, _, _) => {
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
        let list = context.view.list(kind);
        if let Some(session) = context.visit.session() {
            session.knows(kind, list.version);
        }
        let page = match call.frame.param("cursor") {
            None | Some("null") => list.first(),
            Some(_) => {
                let text = call.frame.param_text("cursor").ok_or(CatalogError::Cursor)?;
                let place = cursor::open(&self.seal, &bound, kind, &text).ok_or(CatalogError::Cursor)?;
                list.after(kind, &place)
            }
        };
        let next = page.last.and_then(|place| cursor::seal(&self.seal, &bound, kind, &place));
        let mut body =
            Pieces::one(Bytes::from(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":", id.raw())));
        body.push(page.open);
        let mut end = match context.visit.era() {
            Era::Legacy => String::new(),
            Era::Modern => bridge::modern_members(context.view.absent.is_empty()),
        };
        if let Some(next) = next {
            end.push_str(&format!(",\"nextCursor\":\"{next}\""));
        }
        end.push_str("}}");
        body.push(Bytes::from(end));
        Ok(Answered::Message { body, outcome: Outcome::Ok, opened: None })
    }

    async fn forward(
        &self,
        call: &Call,
        thing: &Thing,
        context: &Context,
        mut lane: Lane,
    ) -> Result<Answered, Error> {
        let (Some(id), Some(source)) = (call.frame.id(), context.catalog.sources.get(&thing.upstream)) else {
            return Err(CatalogError::Method(call.frame.method_name().into()).into());
        };
        let failed = |why: UpstreamError| Error::from(Box::new(failure(call, thing, why)));
        let seat = seat(source.config.share, &context.visit);
        let upstream = self.pool.seat(&source.spec, seat, context.catalog.processes).map_err(failed)?;
        let connection = tokio::select! {
            connection = upstream.connection() => connection.map_err(failed)?,
            _ = lane.cancelled() => return Ok(Answered::GivenUp),
        };
        if call.method == Method::Complete && !connection.facts().has("completions") {
            return Ok(bridged(Pieces::one(bridge::no_completions(id, context.visit.era())))); // spec K-05
        }
        let timeouts = &source.config.timeouts;
        let token = meta::progress_token(call.frame.param("_meta"));
        let wait = Wait { first: timeouts.call, most: timeouts.call_max, progress: token.is_some() };
        let exchange = send(&connection, call, thing, wait).map_err(|error| match error {
            SendError::Call(error) => error,
            SendError::Upstream(why) => failed(why),
        })?;
        let progress = token.map(|token| Progress::new(token, context.visit.revision()));
        let answer = match converse(exchange, progress, &mut lane).await {
            Some(Ok(answer)) => answer,
            Some(Err(why)) => return Err(failed(why)),
            None => return Ok(Answered::GivenUp),
        };
        let era = connection.facts().revision.era();
        self.receive(call, thing, context, (&answer, id, era))
    }

    /// What came back, made fit for the client.
    fn receive(
        &self,
        call: &Call,
        thing: &Thing,
        context: &Context,
        (answer, id, upstream): (&Frame, &Id, Era),
    ) -> Result<Answered, Error> {
        if answer.bytes().len() > self.result_limit {
            let why = UpstreamError::TooLarge { limit: self.result_limit };
            return Err(Box::new(failure(call, thing, why)).into());
        }
        context.snapshot.checks.judge_reply(call, answer).map_err(|denial| {
            Box::new(Refused { denial, sort: Some(thing.sort), referred: false, name: thing.exposed.clone() })
        })?;
        let rewrite = |uri: &str| format!("{}{uri}", uri_prefix(&thing.upstream));
        let client = context.visit.era();
        if answer.shape() == Shape::Failure {
            let body = Pieces::one(bridge::error(answer, id, client, &rewrite));
            return Ok(Answered::Message { body, outcome: Outcome::Error, opened: None });
        }
        let body = bridge::result(answer, id, (upstream, client), call.method, &rewrite)
            .map_err(|why| Error::from(Box::new(failure(call, thing, why))))?;
        let tool_error = call.method == Method::ToolsCall && answer.result_member("isError") == Some("true");
        let outcome = if tool_error { Outcome::ToolError } else { Outcome::Ok };
        Ok(Answered::Message { body, outcome, opened: None })
    }
}

fn bridged(body: Pieces) -> Answered {
    Answered::Message { body, outcome: Outcome::Ok, opened: None }
}

/// Whose process serves this session (product rule "Catalog connections").
fn seat(share: Share, visit: &Visit) -> Seat {
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

enum SendError {
    Call(Error),
    Upstream(UpstreamError),
}

/// Writes the request under the upstream's own name for the target, with our id and our progress token.
fn send(connection: &Arc<Connection>, call: &Call, thing: &Thing, wait: Wait) -> Result<Exchange, SendError> {
    let (key, named) = match call.method {
        Method::ResourcesRead => ("uri", code::quote(&thing.native)),
        Method::Complete => {
            let reference = Reference::read(&call.frame).map_err(|error| SendError::Call(error.into()))?;
            ("ref", reference.native(&thing.native))
        }
        _ => ("name", code::quote(&thing.native)),
    };
    let build = |id: &Id| {
        let token = if wait.progress { id.as_number() } else { None };
        let meta = bridge::request_meta(connection.facts(), call.frame.param("_meta"), token);
        let changes = [
            Change { key, value: Some(Cow::Borrowed(&named)) },
            Change { key: "_meta", value: meta.map(Cow::Owned) },
            // We carry no tasks: a call that asks for one is an ordinary call.
            Change { key: "task", value: None },
        ];
        let concerned = if call.method == Method::ToolsCall { 3 } else { 2 };
        call.frame.forward(Some(id), changes.get(..concerned).unwrap_or_default())
    };
    let mirrored = wire::mirror::mirrored(&thing.mirrors, call.frame.param("arguments"));
    let named = call.method.row().names != Names::Reference;
    let outbound = Outbound {
        method: call.method,
        name: named.then_some(&*thing.native),
        mirrored: &mirrored,
        build: &build,
    };
    connection.send_outbound(&outbound, wait).map_err(SendError::Upstream)
}

/// Waits for the answer, relaying progress. None when the client gave the request up.
async fn converse(
    mut exchange: Exchange,
    mut progress: Option<Progress>,
    lane: &mut Lane,
) -> Option<Result<Frame, UpstreamError>> {
    loop {
        tokio::select! {
            incoming = exchange.next() => match incoming {
                Incoming::Answer(answer) => return Some(Ok(answer)),
                Incoming::Failed(why) => return Some(Err(why)),
                Incoming::Progress(frame) => {
                    let relayed = progress.as_mut().and_then(|progress| progress.relay(&frame));
                    if let Some(message) = relayed {
                        lane.outbox.say(Pieces::one(message));
                    }
                }
            },
            cancelled = lane.cancelled() => {
                exchange.cancel(cancelled.reason.as_deref());
                return None;
            }
        }
    }
}

fn failure(call: &Call, thing: &Thing, why: UpstreamError) -> Failed {
    Failed { upstream: Arc::clone(&thing.upstream), why, tool: call.method == Method::ToolsCall }
}

/// What the gateway answers by itself.
fn answer_here(call: &Call, context: &Context, sessions: &Sessions) -> Answered {
    let Some(id) = call.frame.id() else { return Answered::Accepted };
    let view = &context.view;
    let (body, opened) = match (&context.visit, call.method) {
        (Visit::Opening(session), Method::Initialize) => {
            session.promise(view.promised.clone());
            for kind in Kind::ALL {
                session.knows(kind, view.list(kind).version);
            }
            sessions.open(session);
            let introduction = handshake::introduction(session.revision, view);
            (code::success(id, &introduction), Some(Arc::clone(&session.id)))
        }
        (Visit::Alone(_), Method::Discover) => (code::success(id, &handshake::discovery(view)), None),
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
