//! The answer to a call that became a task.

use std::sync::{Arc, Mutex};

use admission::{Call, Target, Thing};
use wire::{Era, Frame, Id, Revision, task};

use super::{Ending, Place, Reports, Slot, Task, There, Wish, wish::wanted_ttl, written};
use crate::{
    error::{Error, TaskError},
    relay::Progress,
    router::{Answered, Context},
};

/// What an upstream's answer makes of a call.
pub(crate) enum Became {
    /// It is the answer, or asks for input.
    Answered,
    /// A task that its client is to know.
    Task,
    /// A task of the upstream, by its id there, that its client does not know of: its outcome is the answer.
    Awaited(String),
}

impl Became {
    pub(crate) fn of(wish: &Wish, answer: &Frame, upstream: Era) -> Became {
        let is_awaited = match wish {
            // Most calls: their answers are not looked through.
            Wish::Plain => return Became::Answered,
            Wish::Awaited => true,
            Wish::Asked(_) | Wish::Taken(_) => false,
        };
        match task::Task::created(answer, upstream) {
            Some(task) if is_awaited => Became::Awaited(task.id.into_owned()),
            Some(_) => Became::Task,
            // One that cannot be read is no answer either: whoever keeps it says so.
            None if task::says_created(answer, upstream) => Became::Task,
            None => Became::Answered,
        }
    }
}

/// Where a call is, for the task that it becomes.
pub(crate) struct Birth<'a> {
    pub(crate) call: &'a Call,
    pub(crate) id: &'a Id,
    pub(crate) context: &'a Context,
    pub(crate) upstream: &'a Arc<upstream::Upstream>,
    pub(crate) connection: &'a Arc<upstream::Connection>,
}

/// Progress of the call so far, under our number for it.
pub(crate) type SoFar = Option<(u64, Progress)>;

impl Birth<'_> {
    fn thing(&self) -> Option<&Arc<Thing>> {
        match &self.call.target {
            Target::Thing(thing) => Some(thing),
            Target::Ourselves | Target::Listing(_) | Target::Missing(..) => None,
        }
    }

    fn client(&self) -> Revision {
        self.context.visit.revision()
    }

    /// Keeps the task that an upstream began, and tells its client of it. None when there is none.
    pub(crate) fn of_upstream(&self, slot: Slot, answer: &Frame, so_far: SoFar) -> Option<Answered> {
        let era = self.connection.facts().revision.era();
        let said = task::Task::created(answer, era)?;
        let session = self.context.visit.session();
        // The modern era reports no progress of tasks (spec U-12).
        let progress = so_far.filter(|_| session.is_some() && !said.status.is_over());
        let progress = progress.map(|(number, relayed)| Reports { number, relayed: Mutex::new(relayed) });
        let there = There::new(&said.id, self.upstream, self.connection, session, progress);
        // Kept here no longer than there.
        let ttl = said.ttl.or(Some(u64::MAX));
        let place = Place::There(Box::new(there));
        let task = Task::new(&slot, (&self.context.view.server, self.thing()?), ttl, place);
        let task = slot.put(task);
        task.heard(said.status, wire::input::member(said.object, "statusMessage"), said.interval);
        let client = self.client().era();
        let written = said.written(era, client, &task.ours(said.status));
        Some(Answered::ok(written::created(self.id, client, &written)))
    }

    /// Keeps an answer as that of a task that is over: its client of 2025-11-25 asked for a task, and the upstream did not
    /// need one.
    pub(crate) fn of_answer(&self, slot: Slot, done: Answered) -> Result<Answered, Error> {
        let (Answered::Message { body, outcome, .. }, Some(thing)) = (done, self.thing()) else {
            return Ok(Answered::GivenUp);
        };
        let ending =
            written::read(body).map_or(Ending::Failed(TaskError::NoRoom), |answer| written::ending(&answer));
        let tasks = slot.tasks();
        let task =
            Task::new(&slot, (&self.context.view.server, thing), wanted_ttl(self.call), Place::Nowhere);
        let task = slot.put(task);
        tasks.finish(&task, ending);
        let era = self.client().era();
        let body = written::created(self.id, era, &task.as_known(era));
        Ok(Answered::Message { body, outcome, opened: None })
    }
}
