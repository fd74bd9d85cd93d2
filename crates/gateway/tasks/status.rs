//! What servers say of tasks unasked: to the session that began the task, under its own id, and to nobody else (spec U-31).

use std::{
    borrow::Cow,
    sync::{Arc, PoisonError, Weak},
};

use admission::TenantId;
use wire::{
    Budget, Change, Era, Frame, Id, Pieces, code,
    input::member,
    task::{self, Status},
};

use super::{
    Place, Task, There,
    sight::is_seen,
    table::{Name, Native},
    written::says_error,
};
use crate::{gateway::Gateway, session::Session, subscriptions};

/// The largest that is passed on, in bytes.
const LARGEST: usize = 64 * 1024;

/// Passes on `notifications/tasks/status` of a seat of an upstream.
pub(crate) fn told(gateway: &Gateway, tenant: &TenantId, at: subscriptions::Place, frame: &Frame) {
    let Some(said) = frame.params().and_then(|params| task::Task::read(params, Era::Legacy)) else { return };
    let name = Name::Id(said.id.as_ref().into());
    let Some(task) = named(gateway, tenant, at, name) else { return };
    let message = member(said.object, "statusMessage");
    let there = match &task.place {
        Place::There(there) if task.ending().is_none() => there,
        // How it ends is what the call comes to that waits for it, and what it asks comes by that.
        Place::Here(_) if !said.status.is_over() => return task.heard(Status::Working, message, None),
        Place::There(_) | Place::Here(_) | Place::Nowhere => return,
    };
    task.heard(said.status, message, said.interval);
    let Some(session) = hears(gateway, &task, there, frame) else { return };
    let changes = [
        Change { key: "taskId", value: Some(Cow::Owned(code::quote(&task.id))) },
        Change { key: "ttl", value: Some(Cow::Owned(task.ttl_ms().to_string())) },
        Change { key: "_meta", value: None },
    ];
    // A client without a stream learns of it when it looks.
    let _told = session.tell(&Pieces::one(frame.forward(None, &changes)));
}

/// The session that is told what a server says of a task. What is too large is not told: a client learns of it when it looks.
fn hears(gateway: &Gateway, task: &Task, there: &There, said: &Frame) -> Option<Arc<Session>> {
    let session = there.session.as_ref().and_then(Weak::upgrade);
    let session = session.filter(|_| said.bytes().len() <= LARGEST)?;
    is_seen(gateway, task, &session, said).then_some(session)
}

/// A modern server says that a task changed. What it says of it is read by those who listen for the task, when they look. A
/// session of 2025-11-25 hears the status, as from a server of its own revision.
pub(crate) fn changed(gateway: &Gateway, tenant: &TenantId, at: subscriptions::Place, frame: &Frame) {
    let said = frame.params().and_then(|params| task::Task::read(params, Era::Modern));
    let name = said.as_ref().map(|said| Name::Id(said.id.as_ref().into()));
    let Some(task) = name.and_then(|name| named(gateway, tenant, at, name)) else { return };
    task.turn();
    let Place::There(there) = &task.place else { return };
    let session = hears(gateway, &task, there, frame).filter(|_| task.ending().is_none());
    let (Some(session), Some(said)) = (session, said) else { return };
    let failed = member(said.object, "result").is_some_and(|result| says_error(result.as_bytes()));
    // spec U-36
    let status = if failed { Status::Failed } else { said.status };
    let params = said.written(Era::Modern, Era::Legacy, &task.ours(status));
    let told = format!(r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{params}}}"#);
    let _told = session.tell(&Pieces::one(told.into()));
}

/// Passes on progress of a call that became a task, under its client's token, for as long as the task runs (spec U-12).
pub(crate) fn reported(gateway: &Gateway, tenant: &TenantId, at: subscriptions::Place, frame: &Frame) {
    let token = frame.param("progressToken").and_then(|raw| Id::from_raw(raw).ok()?.as_number());
    let Some(number) = token else { return };
    let Some(task) = named(gateway, tenant, at, Name::Token(number)) else { return };
    let Place::There(there) = &task.place else { return };
    let (Some(reports), false) = (&there.progress, task.is_over()) else { return };
    let session = there.session.as_ref().and_then(Weak::upgrade);
    let Some(session) = session.filter(|session| is_seen(gateway, &task, session, frame)) else { return };
    let relayed = reports.relayed.lock().unwrap_or_else(PoisonError::into_inner).relay(frame);
    let message = relayed.and_then(|message| Frame::parse(message, &Budget::UPSTREAM).ok());
    if let Some(message) = message {
        // The next one makes it stale.
        let params = task::related(message.params().unwrap_or("{}"), &task.id);
        let meta = member(&params, "_meta").map(Cow::Borrowed);
        let message = message.forward(None, &[Change { key: "_meta", value: meta }]);
        let _told = session.tell(&Pieces::one(message));
    }
}

/// The task that a conversation with an upstream means. Once the one it was begun in is over, nobody means it: a server
/// that was started again gives its ids anew, and to others.
fn named(gateway: &Gateway, tenant: &TenantId, at: subscriptions::Place, name: Name) -> Option<Arc<Task>> {
    let task = gateway.router.tasks.native(tenant, &Native { at, name })?;
    let connection = match &task.place {
        Place::There(there) => there.connection.upgrade(),
        Place::Here(hosting) => hosting.awaited(),
        Place::Nowhere => None,
    };
    connection.filter(|connection| connection.is_open()).map(|_| task)
}
