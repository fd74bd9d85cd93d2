//! What clients read of tasks, in the words of their era (spec U-36).

use bytes::Bytes;
use wire::{
    Budget, Era, Frame, Id, Method, Pieces, Revision, code,
    input::member,
    task::{self, Ours, Status},
};

use super::{Ending, INTERVAL, Place, Task};
use crate::{
    bridge,
    error::{Client, Error, TaskError},
    router::{Context, Router},
};

/// Whether a result, the text of an object, says that its tool failed.
pub(super) fn says_error(result: &[u8]) -> bool {
    std::str::from_utf8(result).is_ok_and(|result| member(result, "isError") == Some("true"))
}

/// The ending that an answer is, once it was made fit for its client.
pub(super) fn ending(answer: &Frame) -> Ending {
    match (answer.result(), answer.error()) {
        (Some(result), _) => Ending::Result(Bytes::copy_from_slice(result.as_bytes())),
        (None, Some(error)) => Ending::Error(Bytes::copy_from_slice(error.as_bytes())),
        (None, None) => Ending::Failed(TaskError::NoRoom),
    }
}

/// Reads what we wrote, or what an upstream wrote within an answer.
pub(super) fn read(message: Pieces) -> Option<Frame> {
    Frame::parse(message.join(), &Budget::UPSTREAM).ok()
}

/// The answer to the call that became a task.
pub(super) fn created(id: &Id, era: Era, task: &str) -> Pieces {
    let result = match era {
        Era::Legacy => format!("{{\"task\":{task}}}"),
        Era::Modern => {
            let open = task.strip_suffix('}').unwrap_or(task);
            format!("{open},\"resultType\":\"task\"{}}}", bridge::server_meta())
        }
    };
    Pieces::one(code::success(id, &result))
}

/// A task as a client reads it at one moment.
pub(super) struct Look {
    /// In the words of its client's era.
    pub(super) status: Status,
    /// The text of an object.
    pub(super) task: String,
    /// What it came to or asks, for the modern era: members with their leading commas.
    pub(super) more: String,
}

impl Look {
    /// The answer that describes the task.
    pub(super) fn answer(&self, id: &Id, era: Era) -> Pieces {
        let result = match era {
            Era::Legacy => self.task.clone(),
            Era::Modern => {
                format!("{}{},\"resultType\":\"complete\"{}}}", self.open(), self.more, bridge::server_meta())
            }
        };
        Pieces::one(code::success(id, &result))
    }

    /// The notification that describes it to whoever listens for it, with this `_meta`, the text of an object.
    pub(super) fn notification(&self, meta: &str) -> Bytes {
        let (method, open, more) = (Method::TaskChanged.name(), self.open(), &self.more);
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{open}{more},\"_meta\":{meta}}}}}")
            .into()
    }

    fn open(&self) -> &str {
        self.task.strip_suffix('}').unwrap_or(&self.task)
    }
}

/// An answer of the modern era that says nothing but that it was heard.
pub(super) fn heard(id: &Id) -> Pieces {
    Pieces::one(code::success(id, &format!("{{\"resultType\":\"complete\"{}}}", bridge::server_meta())))
}

impl Task {
    /// What a client is told beside an upstream's own words.
    pub(super) fn ours(&self, status: Status) -> Ours<'_> {
        Ours { id: &self.id, status, ttl: self.ttl_ms(), at: &self.created_at }
    }

    /// The task as we know it, all of one moment.
    pub(super) fn known(&self, era: Era) -> Look {
        let state = self.state();
        let requests = match (&state.ending, &self.place) {
            (None, Place::Here(hosting)) => hosting.requests(),
            (_, Place::Here(_) | Place::There(_) | Place::Nowhere) => String::new(),
        };
        let status = match &state.ending {
            Some(ending) => ending.status(era),
            None if !requests.is_empty() => Status::InputRequired,
            None => state.status,
        };
        let message = state.message.as_ref().map(|text| format!(",\"statusMessage\":{text}"));
        let (ttl, interval) = match era {
            Era::Legacy => ("ttl", "pollInterval"),
            Era::Modern => ("ttlMs", "pollIntervalMs"),
        };
        let task = format!(
            "{{\"taskId\":{},\"status\":\"{}\"{},\"createdAt\":\"{}\",\"lastUpdatedAt\":\"{}\",\"{ttl}\":{},\"{interval}\":{}}}",
            code::quote(&self.id),
            status.word(),
            message.unwrap_or_default(),
            self.created_at,
            state.updated_at,
            self.ttl_ms(),
            state.interval.unwrap_or(INTERVAL),
        );
        let more = state.ending.as_ref().map_or(requests, payload);
        Look { status, task, more }
    }

    /// The same without what it came to or asks, the text of an object.
    pub(super) fn as_known(&self, era: Era) -> String {
        self.known(era).task
    }

    /// The answer to `tasks/result` once it is known how the task ended (spec U-38).
    pub(super) fn outcome(&self, id: &Id, ending: &Ending) -> Pieces {
        let message = match ending {
            Ending::Result(result) => {
                let result = std::str::from_utf8(result).unwrap_or("{}");
                code::success(id, &task::related(result, &self.id))
            }
            Ending::Error(error) => {
                let error = std::str::from_utf8(error).unwrap_or("{}");
                code::error(id, error)
            }
            Ending::Failed(error) => Error::from(*error).message(Some(id), Client::UNKNOWN),
        };
        Pieces::one(message)
    }
}

/// How a task ended, as members of what describes it (spec U-36).
pub(super) fn payload(ending: &Ending) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match ending {
        Ending::Result(result) => format!(",\"result\":{}", task::unrelated(&text(result))),
        Ending::Error(error) => format!(",\"error\":{}", text(error)),
        Ending::Failed(TaskError::Cancelled) => String::new(),
        Ending::Failed(error) => {
            let message = Error::from(*error).message(None, Client::UNKNOWN);
            let message = Frame::parse(message, &Budget::UPSTREAM).ok();
            let error = message.as_ref().and_then(Frame::error).unwrap_or("{}");
            format!(",\"error\":{error}")
        }
    }
}

impl Router {
    /// A result that an upstream put into the description of a task, as the answer to the call it came from, made fit for
    /// a client of this revision; the text of an object. None when it cannot be.
    pub(super) fn inlined(
        &self,
        result: &str,
        task: &Task,
        context: &Context,
        (upstream, client): (Era, Revision),
    ) -> Option<String> {
        if result.len() > self.result_limit {
            return None;
        }
        let id = Id::number(0);
        let answer = Frame::parse(code::success(&id, result), &Budget::UPSTREAM).ok()?;
        let rewrite = |uri: &str| context.view.uri(&task.thing.upstream, uri);
        let body = bridge::result(&answer, &id, (upstream, client), Method::ToolsCall, &rewrite).ok()?;
        Some(read(body)?.result()?.to_owned())
    }
}
