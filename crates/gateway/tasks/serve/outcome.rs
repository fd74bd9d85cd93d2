//! `tasks/result`: waits until a task is over, and answers what its call would have been answered (spec U-38).

use tokio::time::sleep;
use upstream::Wait;
use wire::{Era, Frame, Method, input, task::Status};

use super::About;
use crate::{
    asking::Talk,
    error::{Error, TaskError},
    router::{Answered, Heard, Hearing, Lane, hear},
    tasks::{
        Ending, Place, There,
        remote::{self, Missed, Question},
    },
};

impl About<'_> {
    pub(super) async fn result(&self, lane: &mut Lane) -> Result<Answered, Error> {
        if let Some(ending) = self.task.ending() {
            return Ok(self.outcome(&ending));
        }
        lane.outbox.waits_for(&self.task.id);
        let done = match &self.task.place {
            Place::There(there) if there.era == Era::Legacy => self.awaited(there, lane).await,
            Place::There(there) => self.watched(there, lane).await,
            Place::Here(_) | Place::Nowhere => {
                tokio::select! {
                    () = self.task.over.cancelled() => (),
                    () = sleep(self.task.patience()) => (),
                    _ = lane.cancelled() => return Ok(Answered::GivenUp),
                }
                self.task.ending().ok_or(Missed::Unknown)
            }
        };
        match done {
            Ok(ending) => Ok(self.outcome(&ending)),
            Err(Missed::Lost) => {
                self.task.lose();
                let ending = self.task.ending();
                Ok(ending.map_or(Answered::GivenUp, |ending| self.outcome(&ending)))
            }
            Err(missed) => self.missed(missed),
        }
    }

    fn outcome(&self, ending: &Ending) -> Answered {
        Answered::ok(self.task.outcome(self.id, ending))
    }

    /// The upstream answers when there is an answer. Its questions come by the same request (spec U-30).
    async fn awaited(&self, there: &There, lane: &mut Lane) -> Result<Ending, Missed> {
        let connection = there.connection(self.call, self.task).await?;
        let most = self.task.patience();
        let wait = Wait { first: most, most, progress: false };
        let question = Question { method: Method::TasksResult, more: "", wait };
        let failed = |why| Missed::Error(remote::failure(self.call, self.task, why));
        let exchange = there.send(&connection, self.call, &self.sender(), &question).map_err(failed)?;
        let as_call = self.as_call();
        let asker = self.asker(there, &as_call);
        let mut talk = Talk::new(&asker);
        let mut hearing = Hearing::of(self.call, &self.context.visit, &self.source.spec);
        // Its client cancels a task by its own method; this request is given up, and nothing else (spec U-09).
        let answer = match hear(exchange, (&mut talk, &mut hearing), lane).await.map(Heard::end) {
            None => return Err(Missed::GivenUp),
            Some(Err(_)) if !connection.is_open() => return Err(Missed::Lost),
            Some(Err(why)) => return Err(failed(why)),
            Some(Ok(answer)) => answer,
        };
        let ending = self.ending(&answer, there)?;
        self.task.heard(ending.status(Era::Legacy), None, None);
        Ok(ending)
    }

    /// The upstream is looked at until it is over, and what it asks is asked of the client on the stream of this request.
    async fn watched(&self, there: &There, lane: &mut Lane) -> Result<Ending, Missed> {
        let until = tokio::time::Instant::now() + self.task.patience();
        let mut round = 0;
        while tokio::time::Instant::now() < until {
            let was_over = self.task.is_over();
            let answer = self.told(there, Method::TasksGet, "", lane).await?;
            let garbled = || Missed::Error(self.garbled());
            let said = self.task.said(&answer, there).ok_or_else(garbled)?;
            if let Some(ending) = self.task.ending() {
                return Ok(ending);
            }
            match said.status {
                Status::Completed | Status::Failed => return self.inlined(&said, there),
                Status::Cancelled => return Ok(Ending::Failed(TaskError::Cancelled)),
                // Its upstream takes back that it is over; nobody could wait for what becomes of that.
                Status::Working | Status::InputRequired if was_over => return Err(Missed::Unknown),
                Status::InputRequired => {
                    round += 1;
                    self.fulfil(&answer, there, round, lane).await?;
                }
                Status::Working => (),
            }
            tokio::select! {
                () = sleep(self.task.pause()) => (),
                () = self.task.over.cancelled() => (),
                _ = lane.cancelled() => return Err(Missed::GivenUp),
            }
        }
        Err(Missed::Unknown)
    }

    /// Has the client answer what a task asks, and tells its upstream.
    async fn fulfil(&self, answer: &Frame, there: &There, round: u32, lane: &mut Lane) -> Result<(), Missed> {
        let as_call = self.as_call();
        let asker = self.asker(there, &as_call);
        let outbox = std::sync::Arc::clone(&lane.outbox);
        let retry = tokio::select! {
            retry = asker.fulfil(answer, &outbox, round) => retry.map_err(Missed::Error)?,
            _ = lane.cancelled() => return Err(Missed::GivenUp),
        };
        let responses = retry.responses.as_deref().unwrap_or("{}");
        let more = format!(",\"{}\":{responses}", input::RESPONSES);
        self.told(there, Method::TasksUpdate, &more, lane).await.map(|_| ())
    }
}
