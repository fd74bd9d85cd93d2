//! Asking the upstream that runs a task, and nobody else, about it (spec U-31).

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use admission::Call;
use bytes::Bytes;
use upstream::{Connection, Exchange, Incoming, Outbound, Upstream, UpstreamError, Wait};
use wire::{Era, Frame, Id, Method, code, task};

use super::{Reports, Task, There, awaited::FAREWELL, wish::millis};
use crate::{
    bridge::{self, Sender},
    error::{CatalogError, Error, Failed},
    router::{Context, Lane},
    session::Session,
};

/// Why an upstream says nothing of a task.
pub(super) enum Missed {
    /// What ran it is gone.
    Lost,
    /// It does not know the task any more.
    Unknown,
    /// Its client gave the request up.
    GivenUp,
    /// Something else.
    Error(Error),
}

/// One request about a task.
pub(super) struct Question<'a> {
    pub(super) method: Method,
    /// Further members of the params, each with its leading comma.
    pub(super) more: &'a str,
    pub(super) wait: Wait,
}

impl There {
    pub(super) fn new(
        native: &str,
        upstream: &Arc<Upstream>,
        connection: &Arc<Connection>,
        session: Option<&Arc<Session>>,
        progress: Option<Reports>,
    ) -> There {
        let progress = progress.filter(|progress| connection.keep_reporting(progress.number));
        let era = connection.facts().revision.era();
        let watching = (session.is_some() && era == Era::Modern).then(|| upstream.watch_task(native));
        There {
            native: native.into(),
            upstream: Arc::clone(upstream),
            connection: Arc::downgrade(connection),
            era,
            session: session.map(Arc::downgrade),
            held: Mutex::new(Some((upstream.hold(), watching))),
            progress,
        }
    }

    /// The conversation in which the task was begun. A modern server behind a URL knows of none: any will do.
    pub(super) async fn connection(&self, call: &Call, task: &Task) -> Result<Arc<Connection>, Missed> {
        match self.connection.upgrade().filter(|connection| connection.is_open()) {
            Some(connection) => Ok(connection),
            // It may answer the next time: the task is not lost.
            None if self.is_stateless() => {
                self.upstream.connection().await.map_err(|why| Missed::Error(failure(call, task, why)))
            }
            None => Err(Missed::Lost),
        }
    }

    fn is_stateless(&self) -> bool {
        self.era == Era::Modern && matches!(self.upstream.spec().reach, upstream::Reach::Http(_))
    }

    /// Writes a request about the task under its upstream's id, in header and body (spec U-37).
    pub(super) fn send(
        &self,
        connection: &Arc<Connection>,
        call: &Call,
        sender: &Sender<'_>,
        question: &Question<'_>,
    ) -> Result<Exchange, UpstreamError> {
        let Question { method, more, wait } = question;
        let facts = connection.facts();
        let build = |id: &Id| {
            let token = if wait.progress { id.as_number() } else { None };
            let meta = bridge::request_meta(facts, call.frame.param("_meta"), token, sender);
            let meta = meta.map(|meta| format!(",\"_meta\":{meta}")).unwrap_or_default();
            line(id, *method, &self.native, &format!("{more}{meta}"))
        };
        let outbound = Outbound {
            method: *method,
            name: Some(&self.native),
            mirrored: &[],
            caller: None,
            build: &build,
        };
        connection.send_outbound(&outbound, *wait)
    }
}

/// A request about a task of this id. `more` is JSON text, where raw line breaks can only be white space; on a link of
/// lines they would end the message (spec P-01).
pub(super) fn line(id: &Id, method: Method, native: &str, more: &str) -> Bytes {
    let more = more.replace(['\n', '\r'], " ");
    format!(
        r#"{{"jsonrpc":"2.0","id":{},"method":"{}","params":{{"taskId":{}{more}}}}}"#,
        id.raw(),
        method.name(),
        code::quote(native)
    )
    .into()
}

/// Asks what is answered at once.
pub(super) async fn ask(
    call: &Call,
    (task, there): (&Task, &There),
    question: &Question<'_>,
    sender: &Sender<'_>,
    lane: &mut Lane,
) -> Result<Frame, Missed> {
    let connection = tokio::select! {
        connection = there.connection(call, task) => connection?,
        _ = lane.cancelled() => return Err(Missed::GivenUp),
    };
    let failed = |why| Missed::Error(failure(call, task, why));
    let mut exchange = there.send(&connection, call, sender, question).map_err(failed)?;
    loop {
        let incoming = tokio::select! {
            incoming = exchange.next() => incoming,
            _ = lane.cancelled() => return Err(Missed::GivenUp),
        };
        match incoming {
            Incoming::Answer(answer) => return Ok(answer),
            Incoming::Failed(_) if !connection.is_open() && !there.is_stateless() => {
                return Err(Missed::Lost);
            }
            Incoming::Failed(why) => return Err(failed(why)),
            // Nothing that is asked here needs anybody.
            Incoming::Question(_) | Incoming::Progress(_) | Incoming::Told(_) | Incoming::Later => (),
        }
    }
}

pub(super) fn failure(call: &Call, task: &Task, why: UpstreamError) -> Error {
    let tool = call.method == Method::ToolsCall;
    Box::new(Failed { upstream: Arc::clone(&task.thing.upstream), why, tool }).into()
}

/// What a client reads of a task that nobody knows any more.
pub(super) fn unknown() -> Error {
    CatalogError::Task.into()
}

/// How long an answer may take that is there at once.
pub(super) fn soon(context: &Context, task: &Task) -> Wait {
    let source = context.catalog.source(&task.thing.upstream);
    let (first, most) = source.map_or((FAREWELL, FAREWELL), |source| {
        (source.config.timeouts.call, source.config.timeouts.call_max)
    });
    Wait { first, most, progress: false }
}

impl Task {
    /// What an upstream says of this task in an answer.
    pub(super) fn said<'a>(&self, answer: &'a Frame, there: &There) -> Option<task::Task<'a>> {
        let said = task::Task::read(answer.result()?, there.era)?;
        self.heard(said.status, wire::input::member(said.object, "statusMessage"), said.interval);
        Some(said)
    }

    /// How long the answer may take that comes when the task is over.
    pub(super) fn patience(&self) -> Duration {
        self.left().max(Duration::from_secs(1))
    }

    /// How long a look at it takes until the next one is worth while.
    pub(super) fn pause(&self) -> Duration {
        let interval = self.state().interval.unwrap_or(super::INTERVAL);
        Duration::from_millis(interval.clamp(50, millis(Duration::from_secs(30))))
    }
}
