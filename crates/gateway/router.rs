//! Admitted → answered here, listed, forwarded, or passed to a running request.

use std::{borrow::Cow, sync::Arc};

use admission::{Admitted, Call, Sort, Target, Thing};
use bytes::Bytes;
use config::Share;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use upstream::{Connection, Exchange, Incoming, Pool, Seat, UpstreamError, Wait};
use wire::{Change, Frame, Id, Kind, Method, Pieces, Plan, Shape, code, meta, uris};

use crate::{
    arrival::{Listening, Out},
    audit::Outcome,
    catalog::{Catalog, Reference, View, cursor, uri_prefix},
    error::{CatalogError, Error, Failed, Refused},
    relay::{self, Progress},
    seal::{Bound, Seal},
    session::{Session, Sessions, Ticket, Visit},
    snapshot::Snapshot,
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
    pub(crate) out: mpsc::Sender<Out>,
    /// The request's place in its session, and the client's cancellation.
    pub(crate) ticket: Ticket,
}

/// What became of a message that was admitted.
pub(crate) enum Answered {
    /// A notification: nothing to say.
    Accepted,
    /// The session is over.
    Ended,
    /// A stream was opened.
    Listening(Listening),
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
                if call.method == Method::Cancelled {
                    relay::cancel(context.visit.session(), &call.frame);
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
        let bound = Bound { tenant, principal: &call.principal.subject, endpoint: server };
        let list = context.view.list(kind);
        context.visit.session().knows(kind, list.version);
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
        body.push(match next {
            Some(next) => Bytes::from(format!(",\"nextCursor\":\"{next}\"}}}}")),
            None => Bytes::from_static(b"}}"),
        });
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
        let seat = seat(source.config.share, context.visit.session());
        let upstream = self.pool.seat(&source.spec, seat, context.catalog.processes).map_err(failed)?;
        let connection = tokio::select! {
            connection = upstream.connection() => connection.map_err(failed)?,
            _ = lane.ticket.cancelled() => return Ok(Answered::GivenUp),
        };
        if call.method == Method::Complete && !connection.facts().has("completions") {
            return Ok(no_completions(id)); // spec K-05
        }
        let timeouts = &source.config.timeouts;
        let token = meta::progress_token(call.frame.param("_meta"));
        let wait = Wait { first: timeouts.call, most: timeouts.call_max, progress: token.is_some() };
        let exchange = send(&connection, call, thing, wait).map_err(|error| match error {
            SendError::Call(error) => error,
            SendError::Upstream(why) => failed(why),
        })?;
        let progress = token.map(|token| Progress::new(token, context.visit.session().revision));
        let answer = match converse(exchange, progress, &mut lane).await {
            Some(Ok(answer)) => answer,
            Some(Err(why)) => return Err(failed(why)),
            None => return Ok(Answered::GivenUp),
        };
        self.receive(call, thing, context, (&answer, id))
    }

    /// What came back, made fit for the client.
    fn receive(
        &self,
        call: &Call,
        thing: &Thing,
        context: &Context,
        (answer, id): (&Frame, &Id),
    ) -> Result<Answered, Error> {
        if answer.bytes().len() > self.result_limit {
            let why = UpstreamError::TooLarge { limit: self.result_limit };
            return Err(Box::new(failure(call, thing, why)).into());
        }
        context.snapshot.checks.judge_reply(call, answer).map_err(|denial| {
            Box::new(Refused { denial, sort: Some(thing.sort), referred: false, name: thing.exposed.clone() })
        })?;
        let prefix = uri_prefix(&thing.upstream);
        let rewrite = |uri: &str| format!("{prefix}{uri}");
        if answer.shape() == Shape::Failure {
            let body = Pieces::one(relayed_error(answer, id, &rewrite));
            return Ok(Answered::Message { body, outcome: Outcome::Error, opened: None });
        }
        if call.method == Method::Complete
            && let Some(body) = shortened(answer, id)
        {
            return Ok(Answered::Message { body: Pieces::one(body), outcome: Outcome::Ok, opened: None });
        }
        let edits = match call.method {
            Method::ToolsCall => uris::edits(answer, uris::Carrier::CallResult, &rewrite),
            Method::PromptsGet => uris::edits(answer, uris::Carrier::PromptResult, &rewrite),
            Method::ResourcesRead => uris::edits(answer, uris::Carrier::ReadResult, &rewrite),
            _ => Vec::new(),
        };
        let tool_error = call.method == Method::ToolsCall && answer.result_member("isError") == Some("true");
        let outcome = if tool_error { Outcome::ToolError } else { Outcome::Ok };
        Ok(Answered::Message { body: answer.answer(id, &edits), outcome, opened: None })
    }
}

/// Whose process serves this session (product rule "Catalog connections").
fn seat(share: Share, session: &Session) -> Seat {
    match share {
        Share::Tenant => Seat::Shared,
        Share::Principal => Seat::Principal(Arc::clone(&session.principal.subject)),
        Share::Session => Seat::Session(Arc::clone(&session.id)),
    }
}

enum SendError {
    Call(Error),
    Upstream(UpstreamError),
}

/// Writes the request under the upstream's own name for the target, with our id and our progress token.
fn send(connection: &Arc<Connection>, call: &Call, thing: &Thing, wait: Wait) -> Result<Exchange, SendError> {
    let native = || Some(Cow::Owned(code::quote(&thing.native)));
    let mut changes = match call.method {
        Method::ResourcesRead => vec![Change { key: "uri", value: native() }],
        Method::Complete => {
            let reference = Reference::read(&call.frame).map_err(|error| SendError::Call(error.into()))?;
            vec![Change { key: "ref", value: Some(Cow::Owned(reference.native(&thing.native))) }]
        }
        // We carry no tasks: a call that asks for one is an ordinary call.
        Method::ToolsCall => {
            vec![Change { key: "name", value: native() }, Change { key: "task", value: None }]
        }
        _ => vec![Change { key: "name", value: native() }],
    };
    let context = changes.len();
    changes.push(Change { key: "_meta", value: None });
    let build = |id: &Id| {
        let token = if wait.progress { id.as_number() } else { None };
        let value = meta::for_upstream(call.frame.param("_meta"), token).map(Cow::Owned);
        let mut changes: Vec<Change<'_>> =
            changes.iter().map(|change| Change { key: change.key, value: change.value.clone() }).collect();
        if let Some(slot) = changes.get_mut(context) {
            slot.value = value;
        }
        call.frame.forward(Some(id), &changes)
    };
    connection.send(&build, wait).map_err(SendError::Upstream)
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
                        // A client that does not read, or has gone, misses progress and nothing else.
                        let _ = lane.out.try_send(Out { message: Pieces::one(message), last: false, status: 200 });
                    }
                }
            },
            cancelled = lane.ticket.cancelled() => {
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
    let (body, opened) = match (&context.visit, call.method) {
        (Visit::Opening(session), Method::Initialize) => {
            session.promise(context.view.promised.clone());
            for kind in Kind::ALL {
                session.knows(kind, context.view.list(kind).version);
            }
            sessions.open(session);
            (code::success(id, &introduction(session, &context.view)), Some(Arc::clone(&session.id)))
        }
        (Visit::Opening(_) | Visit::Within(_), _) => (code::success(id, "{}"), None),
    };
    Answered::Message { body: Pieces::one(body), outcome: Outcome::Ok, opened }
}

/// The result of `initialize`: the gateway itself, and what the endpoint has (spec B-23).
fn introduction(session: &Session, view: &View) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut result = format!(
        "{{\"protocolVersion\":\"{}\",\"capabilities\":{},\
         \"serverInfo\":{{\"name\":\"portcullis\",\"title\":\"Portcullis\",\"version\":\"{version}\"}}",
        session.revision.text(),
        view.capabilities,
    );
    if let Some(instructions) = &view.instructions {
        result.push_str(",\"instructions\":");
        result.push_str(&code::quote(instructions));
    }
    result.push('}');
    result
}

fn no_completions(id: &Id) -> Answered {
    let body = code::success(id, "{\"completion\":{\"values\":[],\"hasMore\":false}}");
    Answered::Message { body: Pieces::one(body), outcome: Outcome::Ok, opened: None }
}

/// A completion with more values than there may be, cut (spec K-03); none when it has not too many.
fn shortened(answer: &Frame, id: &Id) -> Option<Bytes> {
    const MOST: usize = 100;
    #[derive(serde::Deserialize)]
    struct Completion<'a> {
        #[serde(borrow)]
        values: Vec<&'a RawValue>,
        #[serde(borrow, default)]
        total: Option<&'a RawValue>,
    }
    let said: Completion<'_> = serde_json::from_str(answer.result_member("completion")?).ok()?;
    let kept = said.values.get(..MOST)?;
    if kept.len() == said.values.len() {
        return None;
    }
    let values: Vec<&str> = kept.iter().map(|value| value.get()).collect();
    let total = said.total.map(|total| format!(",\"total\":{}", total.get())).unwrap_or_default();
    let values = values.join(",");
    let result = format!("{{\"completion\":{{\"values\":[{values}]{total},\"hasMore\":true}}}}");
    Some(code::success(id, &result))
}

/// An upstream's JSON-RPC error, as far as it concerns the client. Its text is a stranger's: cut, and free
/// of control characters (spec Z-05). Codes that speak about our own hop never pass (spec X-04).
fn relayed_error(answer: &Frame, id: &Id, rewrite: &dyn Fn(&str) -> String) -> Bytes {
    const LONGEST: usize = 2048;
    let said = answer.error_member("code").and_then(|raw| raw.parse::<i64>().ok());
    let code = match said {
        Some(code) if !(-32099..=-32020).contains(&code) => code,
        Some(_) | None => code::INTERNAL_ERROR,
    };
    let message = answer
        .error_member("message")
        .and_then(|raw| serde_json::from_str::<String>(raw).ok())
        .unwrap_or_else(|| "the upstream reported an error".to_owned());
    let message: String = message.chars().filter(|c| !c.is_control() || *c == '\n').take(LONGEST).collect();
    let data = answer.error_member("data").filter(|data| data.len() <= 4 * LONGEST);
    match data.and_then(|data| named_uri(data).map(|uri| rewrite(&uri))) {
        Some(uri) => {
            code::failure(Some(id), code, &message, Some(&format!("{{\"uri\":{}}}", code::quote(&uri))))
        }
        None => code::failure(Some(id), code, &message, data),
    }
}

/// `data.uri` of "resource not found", which must be the URI the client knows (spec ).
fn named_uri(data: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Named {
        uri: String,
    }
    serde_json::from_str::<Named>(data).ok().map(|named| named.uri)
}

/// What kind of thing a call is about, for words and codes.
pub(crate) fn subject(target: &Target) -> (Option<Sort>, Box<str>) {
    match target {
        Target::Ourselves | Target::Listing(_) => (None, Box::default()),
        Target::Thing(thing) => (Some(thing.sort), thing.exposed.clone()),
        Target::Missing(sort, name) => (Some(*sort), name.clone()),
    }
}
