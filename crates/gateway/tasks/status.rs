//! What servers say of tasks unasked: to the session that began the task, under its own id, and to nobody else (spec U-31).

use std::{
    borrow::Cow,
    sync::{PoisonError, Weak},
};

use admission::TenantId;
use upstream::{Seat, Spec};
use wire::{Budget, Change, Era, Frame, Id, Pieces, code, input::member, task};

use super::{Place, Tasks, table::Name};

/// Passes on `notifications/tasks/status` of a seat of an upstream.
pub(crate) fn told(tasks: &Tasks, spec: &Spec, seat: &Seat, frame: &Frame) {
    let Some(said) = frame.params().and_then(|params| task::Task::read(params, Era::Legacy)) else { return };
    let tenant = TenantId::new(std::sync::Arc::clone(&spec.tenant));
    let Some(task) = tasks.native(&tenant, &spec.id, seat, Name::Id(said.id.as_ref().into())) else { return };
    let Place::There(there) = &task.place else { return };
    if task.ending().is_some() {
        return;
    }
    task.heard(said.status, member(said.object, "statusMessage"), said.interval);
    let Some(session) = there.session.as_ref().and_then(Weak::upgrade) else { return };
    let changes = [
        Change { key: "taskId", value: Some(Cow::Owned(code::quote(&task.id))) },
        Change { key: "ttl", value: Some(Cow::Owned(task.ttl_ms().to_string())) },
        Change { key: "_meta", value: None },
    ];
    // A client without a stream learns of it when it looks.
    let _told = session.tell(&Pieces::one(frame.forward(None, &changes)));
}

/// Passes on progress of a call that became a task, under its client's token, for as long as the task runs (spec U-12).
pub(crate) fn reported(tasks: &Tasks, spec: &Spec, seat: &Seat, frame: &Frame) {
    let token = frame.param("progressToken").and_then(|raw| Id::from_raw(raw).ok()?.as_number());
    let Some(number) = token else { return };
    let tenant = TenantId::new(std::sync::Arc::clone(&spec.tenant));
    let Some(task) = tasks.native(&tenant, &spec.id, seat, Name::Token(number)) else { return };
    let Place::There(there) = &task.place else { return };
    let (Some(reports), false) = (&there.progress, task.is_over()) else { return };
    let relayed = reports.relayed.lock().unwrap_or_else(PoisonError::into_inner).relay(frame);
    let message = relayed.and_then(|message| Frame::parse(message, &Budget::UPSTREAM).ok());
    if let (Some(message), Some(session)) = (message, there.session.as_ref().and_then(Weak::upgrade)) {
        // The next one makes it stale.
        let params = task::related(message.params().unwrap_or("{}"), &task.id);
        let meta = member(&params, "_meta").map(Cow::Borrowed);
        let message = message.forward(None, &[Change { key: "_meta", value: meta }]);
        let _told = session.tell(&Pieces::one(message));
    }
}
