//! Tasks, as both eras write them (spec U-30, U-36): in the core of 2025-11-25, and as an extension from 2026-07-28 on.

use std::borrow::Cow;

use crate::{
    era::Era,
    frame::{Change, Frame},
    input::{changed, member, said},
    shape, text,
};

/// The extension of the modern era.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The key in `_meta` under which a message of 2025-11-25 says which task it belongs to.
pub const RELATED: &str = "io.modelcontextprotocol/related-task";
/// What `resultType` says of a call that became a task.
pub const RESULT_TYPE: &str = "task";
/// The longest id of a task that is taken from a server, in bytes: it is kept, and looked up by.
const LONGEST_ID: usize = 256;

/// Whether calls of a tool can become tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Support {
    /// They cannot. So too where nothing is said.
    #[default]
    Forbidden,
    /// They can.
    Optional,
    /// They are nothing else.
    Required,
}

impl Support {
    /// What the definition of a tool says.
    pub fn of(tool: &str) -> Support {
        // Few tools say anything, and a search is cheaper than a walk. A key may be written with escapes.
        let may_have = |word: &str| memchr::memmem::find(tool.as_bytes(), word.as_bytes()).is_some();
        if !may_have("taskSupport") && !may_have("\\u") {
            return Support::Forbidden;
        }
        let said = member(tool, "execution").and_then(|raw| member(raw, "taskSupport")).and_then(said);
        match said.as_deref() {
            Some("optional") => Support::Optional,
            Some("required") => Support::Required,
            Some(_) | None => Support::Forbidden,
        }
    }
}

/// Whether capabilities, the text of an object, declare the extension.
pub fn declares(capabilities: &str) -> bool {
    let settings = member(capabilities, "extensions").and_then(|raw| member(raw, EXTENSION));
    settings.is_some_and(|raw| raw.starts_with('{'))
}

/// The same capabilities with the extension.
pub fn declared(capabilities: &str) -> String {
    let extensions = format!("{{\"{EXTENSION}\":{{}}}}");
    changed(capabilities, &[Change { key: "extensions", value: Some(extensions.into()) }])
}

/// Whether a legacy server's capabilities let calls of its tools become tasks.
pub fn offers_calls(capabilities: &str) -> bool {
    let requests = member(capabilities, "tasks").and_then(|raw| member(raw, "requests"));
    let call = requests.and_then(|raw| member(raw, "tools")).and_then(|raw| member(raw, "call"));
    call.is_some_and(|raw| raw.starts_with('{'))
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It runs.
    Working,
    /// It waits for its client.
    InputRequired,
    /// It has a result.
    Completed,
    /// It ended with an error; in 2025-11-25 also with a result that says so.
    Failed,
    /// Its client did not want it any more.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 5] =
        [Status::Working, Status::InputRequired, Status::Completed, Status::Failed, Status::Cancelled];

    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Status::Working => "working",
            Status::InputRequired => "input_required",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more becomes of it.
    pub const fn is_over(self) -> bool {
        match self {
            Status::Working | Status::InputRequired => false,
            Status::Completed | Status::Failed | Status::Cancelled => true,
        }
    }
}

/// What a server says of a task.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// All of it, the text of an object.
    pub object: &'a str,
    /// The server's own id.
    pub id: Cow<'a, str>,
    /// How far it is.
    pub status: Status,
    /// For how many milliseconds it is kept; none without a limit.
    pub ttl: Option<u64>,
    /// Milliseconds to wait between two looks at it.
    pub interval: Option<u64>,
}

/// The names of what the eras call differently.
struct Names {
    ttl: &'static str,
    interval: &'static str,
}

const fn names(era: Era) -> Names {
    match era {
        Era::Legacy => Names { ttl: "ttl", interval: "pollInterval" },
        Era::Modern => Names { ttl: "ttlMs", interval: "pollIntervalMs" },
    }
}

impl<'a> Task<'a> {
    /// Reads what a server of this era says, the text of an object. None when it is no task.
    pub fn read(object: &'a str, era: Era) -> Option<Task<'a>> {
        let names = names(era);
        let word = member(object, "status").and_then(said)?;
        let number = |key| member(object, key).and_then(|raw| raw.parse().ok());
        Some(Task {
            object,
            id: member(object, "taskId").and_then(said).filter(|id| (1..=LONGEST_ID).contains(&id.len()))?,
            status: Status::ALL.into_iter().find(|status| status.word() == word)?,
            ttl: number(names.ttl),
            interval: number(names.interval).filter(|interval| *interval > 0),
        })
    }

    /// The task that a call became, as a server of this era says so. None when the answer is another one.
    pub fn created(answer: &'a Frame, era: Era) -> Option<Task<'a>> {
        match era {
            Era::Legacy => Task::read(answer.result_member("task")?, era),
            Era::Modern => {
                shape::result_type(answer).filter(|kind| kind == RESULT_TYPE)?;
                Task::read(answer.result()?, era)
            }
        }
    }

    /// The same for a client, under an id and with a time to live of ours; from the words of one era into those of the
    /// other. What only one era has is left out, and what neither knows stays.
    pub fn written(&self, from: Era, to: Era, ours: &Ours<'_>) -> String {
        let (old, new) = (names(from), names(to));
        let text = |text: &str| Some(Cow::Owned(text::quote(text)));
        let is_absent = |key| member(self.object, key).is_none();
        let mut changes = vec![
            Change { key: "taskId", value: text(ours.id) },
            Change { key: "status", value: text(ours.status.word()) },
        ];
        // Who leaves a moment out that has to be there gets ours.
        for key in ["createdAt", "lastUpdatedAt"] {
            if is_absent(key) {
                changes.push(Change { key, value: text(ours.at) });
            }
        }
        changes.push(Change { key: new.ttl, value: Some(ours.ttl.to_string().into()) });
        let interval = self.interval.map(|interval| Cow::Owned(interval.to_string()));
        changes.push(Change { key: new.interval, value: interval });
        if from != to {
            changes.extend([old.ttl, old.interval].map(|key| Change { key, value: None }));
        }
        // What a task came to, and what it asks, is put in by whoever carries it.
        let apart = ["resultType", "requestState", "inputRequests", "result", "error", "_meta"];
        changes.extend(apart.map(|key| Change { key, value: None }));
        changed(self.object, &changes)
    }
}

/// Whether an answer wants to be that of a call that became a task, readable or not.
pub fn says_created(answer: &Frame, era: Era) -> bool {
    match era {
        // Any result may have a member of this name.
        Era::Legacy => answer.result_member("task").is_some() && answer.result_member("content").is_none(),
        Era::Modern => shape::result_type(answer).is_some_and(|kind| kind == RESULT_TYPE),
    }
}

/// What a client is told of a task that is not the server's word.
#[derive(Clone, Copy, Debug)]
pub struct Ours<'a> {
    /// Our id.
    pub id: &'a str,
    /// How far it is, in the client's era.
    pub status: Status,
    /// For how many milliseconds it is kept.
    pub ttl: u64,
    /// A moment, where the server named none.
    pub at: &'a str,
}

/// A result, the text of an object, that says which task it belongs to.
pub fn related(result: &str, id: &str) -> String {
    let mark = format!("{{\"taskId\":{}}}", text::quote(id));
    let meta = member(result, "_meta").filter(|raw| raw.starts_with('{')).unwrap_or("{}");
    let meta = changed(meta, &[Change { key: RELATED, value: Some(mark.into()) }]);
    changed(result, &[Change { key: "_meta", value: Some(meta.into()) }])
}

/// The same without that word: the modern era has no use for it.
pub fn unrelated(result: &str) -> String {
    let Some(meta) = member(result, "_meta").filter(|meta| member(meta, RELATED).is_some()) else {
        return result.to_owned();
    };
    let rest = changed(meta, &[Change { key: RELATED, value: None }]);
    let rest = (rest != "{}").then_some(Cow::Owned(rest));
    changed(result, &[Change { key: "_meta", value: rest }])
}

/// The server's own id of the task that a message of 2025-11-25 says it belongs to.
pub fn about(message: &Frame) -> Option<Cow<'_, str>> {
    let meta = message.param("_meta").filter(|raw| raw.starts_with('{'))?;
    let related = member(meta, RELATED).filter(|raw| raw.starts_with('{'))?;
    member(related, "taskId").and_then(said)
}

#[cfg(test)]
mod tests;
