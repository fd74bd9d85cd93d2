//! Whether a call may become a task: what its client asks for, what its tool takes, and what its upstream knows.

use std::borrow::Cow;

use admission::{Call, Thing};
use wire::{
    Change, Era, Method, Revision,
    input::{changed, member},
    task::{Support, declares},
};

use super::{LONGEST, Slot, USUAL};
use crate::{
    error::{CatalogError, Error},
    router::{Context, Router},
    visit::Visit,
};

/// Into what a call may turn.
pub(crate) enum Wish {
    /// Into nothing but its result.
    Plain,
    /// Into a task, because its client of 2025-11-25 said so; whatever its upstream makes of that.
    Asked(Option<Slot>),
    /// Into a task if its upstream decides so: its modern client takes them.
    Taken(Option<Slot>),
    /// Into a task at its upstream, which takes the tool no other way, and of which its client knows nothing (spec X-15).
    Awaited,
}

/// Whether a call asks for a task where its tool takes none, or for none where it takes nothing else. Only a client that
/// was told so can be wrong about it (spec U-30).
///
/// # Errors
/// When it is.
pub(crate) fn admit(call: &Call, thing: &Thing, visit: &Visit) -> Result<(), CatalogError> {
    if call.method != Method::ToolsCall || visit.revision() != Revision::R2025_11_25 {
        return Ok(());
    }
    match (call.frame.param("task"), thing.tasks) {
        (None, Support::Required) => Err(CatalogError::OnlyAsTask(thing.exposed.clone())),
        (Some(_), Support::Forbidden) => Err(CatalogError::NoTask(thing.exposed.clone())),
        (Some(raw), _) if !raw.starts_with('{') => Err(CatalogError::Parameter("task")),
        (_, _) => Ok(()),
    }
}

/// What a client declares that takes tasks.
pub(crate) const TAKES_TASKS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// Whether a modern request says that its client takes tasks.
pub(crate) fn takes_tasks(call: &wire::Frame) -> bool {
    wire::envelope(call).and_then(Result::ok).is_some_and(|envelope| declares(envelope.capabilities))
}

impl Wish {
    /// What a call that goes to this upstream may turn into.
    ///
    /// # Errors
    /// When its client has as many tasks as it may.
    pub(crate) fn of(
        router: &Router,
        (call, thing): (&Call, &Thing),
        context: &Context,
        facts: &upstream::Facts,
    ) -> Result<Wish, Error> {
        if call.method != Method::ToolsCall {
            return Ok(Wish::Plain);
        }
        let (client, era) = (context.visit.revision(), facts.revision.era());
        if client == Revision::R2025_11_25 {
            return match call.frame.param("task") {
                Some(_) => Ok(Wish::Asked(Some(router.tasks.reserve(&call.principal)?))),
                None => Ok(Wish::Plain),
            };
        }
        match era {
            Era::Legacy if thing.tasks == Support::Required => Ok(Wish::Awaited),
            Era::Modern if client.era() == Era::Modern && facts.takes_tasks() && takes_tasks(&call.frame) => {
                // With no place left its upstream is not told that there may be tasks: none is begun (spec U-39).
                Ok(router.tasks.reserve(&call.principal).map_or(Wish::Plain, |slot| Wish::Taken(Some(slot))))
            }
            Era::Legacy | Era::Modern => Ok(Wish::Plain),
        }
    }

    /// The place of the task, once.
    pub(crate) fn slot(&mut self) -> Option<Slot> {
        match self {
            Wish::Asked(slot) | Wish::Taken(slot) => slot.take(),
            Wish::Plain | Wish::Awaited => None,
        }
    }

    /// The same where an answer is kept as that of a task: its client asked for one, whatever its upstream made of that.
    pub(crate) fn kept(&mut self) -> Option<Slot> {
        match self {
            Wish::Asked(slot) => slot.take(),
            Wish::Taken(_) | Wish::Plain | Wish::Awaited => None,
        }
    }

    /// Whether a modern upstream is told that the call may become a task.
    pub(crate) fn declares(&self) -> bool {
        matches!(self, Wish::Asked(_) | Wish::Taken(_))
    }

    /// The member `task` of the call's params as a legacy upstream is to read it.
    pub(crate) fn param(&self, call: &Call, upstream: Era) -> Option<String> {
        let limit = |ttl: u64| ttl.min(millis(LONGEST)).to_string();
        match (self, upstream) {
            (_, Era::Modern) | (Wish::Plain | Wish::Taken(_), Era::Legacy) => None,
            (Wish::Awaited, Era::Legacy) => Some(format!("{{\"ttl\":{}}}", millis(USUAL))),
            (Wish::Asked(_), Era::Legacy) => {
                let asked = call.frame.param("task").unwrap_or("{}");
                // What is no number of milliseconds is left out, and the server says how long.
                let ttl = wanted_ttl(call).map(|ttl| Cow::Owned(limit(ttl)));
                Some(changed(asked, &[Change { key: "ttl", value: ttl }]))
            }
        }
    }
}

/// For how many milliseconds a client of 2025-11-25 wants its task to be kept.
pub(super) fn wanted_ttl(call: &Call) -> Option<u64> {
    member(call.frame.param("task")?, "ttl")?.parse().ok()
}

pub(super) fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
