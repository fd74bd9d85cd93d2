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
    router::{Context, Router},
};

/// What there is no room for.
pub(super) fn no_room() -> Ending {
    let error = r#"{"code":-32603,"message":"the task ended, and there was no room to keep its result; it may have acted","data":{"reason":"no_room"}}"#;
    Ending::Error(Bytes::from_static(error.as_bytes()))
}

/// Whether a result, the text of an object, says that its tool failed.
pub(super) fn says_error(result: &[u8]) -> bool {
    std::str::from_utf8(result).is_ok_and(|result| member(result, "isError") == Some("true"))
}

/// The ending that an answer is, once it was made fit for its client.
pub(super) fn ending(answer: &Frame) -> Ending {
    match (answer.result(), answer.error()) {
        (Some(result), _) => Ending::Result(Bytes::copy_from_slice(result.as_bytes())),
        (None, Some(error)) => Ending::Error(Bytes::copy_from_slice(error.as_bytes())),
        (None, None) => no_room(),
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

/// The answer that describes a task, with what it came to or asks: members with their leading commas, for the modern era
/// only.
pub(super) fn described(id: &Id, era: Era, task: &str, more: &str) -> Pieces {
    let result = match era {
        Era::Legacy => task.to_owned(),
        Era::Modern => {
            let open = task.strip_suffix('}').unwrap_or(task);
            format!("{open}{more},\"resultType\":\"complete\"{}}}", bridge::server_meta())
        }
    };
    Pieces::one(code::success(id, &result))
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

    /// The task as we know it, the text of an object.
    pub(super) fn as_known(&self, era: Era) -> String {
        let state = self.state();
        let mut status = match &state.ending {
            Some(ending) => ending.status(era),
            None => state.status,
        };
        if let (Place::Here(hosting), None) = (&self.place, &state.ending)
            && hosting.is_asking()
        {
            status = Status::InputRequired;
        }
        let message = state.message.as_ref().map(|text| format!(",\"statusMessage\":{text}"));
        let (ttl, interval) = match era {
            Era::Legacy => ("ttl", "pollInterval"),
            Era::Modern => ("ttlMs", "pollIntervalMs"),
        };
        format!(
            "{{\"taskId\":{},\"status\":\"{}\"{},\"createdAt\":\"{}\",\"lastUpdatedAt\":\"{}\",\"{ttl}\":{},\"{interval}\":{}}}",
            code::quote(&self.id),
            status.word(),
            message.unwrap_or_default(),
            self.created_at,
            state.updated_at,
            self.ttl_ms(),
            state.interval.unwrap_or(INTERVAL),
        )
    }

    /// The answer that describes a task as we know it, for a client of this era.
    pub(super) fn known(&self, id: &Id, era: Era) -> Pieces {
        let more = match (self.ending(), &self.place) {
            (Some(ending), _) => payload(&ending),
            (None, Place::Here(hosting)) => hosting.requests(),
            (None, Place::There(_) | Place::Nowhere) => String::new(),
        };
        described(id, era, &self.as_known(era), &more)
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
            Ending::Cancelled => {
                let data = Some("{\"reason\":\"task_cancelled\"}");
                code::failure(Some(id), code::INTERNAL_ERROR, "the task was cancelled", data)
            }
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
        Ending::Cancelled => String::new(),
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
