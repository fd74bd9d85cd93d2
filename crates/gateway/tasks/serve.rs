//! What clients ask about tasks: `tasks/get`, `tasks/result`, `tasks/cancel`, `tasks/update` and `tasks/list`.

mod outcome;

use std::sync::Arc;

use admission::{Call, Target};
use sha2::{Digest as _, Sha256};
use wire::{
    Budget, Era, Frame, Id, Method, Pieces, Revision, code,
    input::{self, member},
    task::{self, Status},
};

use super::{
    Ending, Place, Task, There,
    remote::{self, Missed, Question, unknown},
    sight::judged,
    written::{self, Look},
};
use crate::{
    asking::{Asker, Offer, Unmet},
    bridge::Sender,
    catalog::Source,
    error::{CatalogError, Client, Error, LimitError, Relayed, TaskError},
    router::{Answered, Context, Lane, Router, offer},
};

/// One request about one task.
pub(super) struct About<'a> {
    pub(super) router: &'a Router,
    pub(super) call: &'a Call,
    pub(super) context: &'a Context,
    pub(super) id: &'a Id,
    pub(super) task: &'a Arc<Task>,
    pub(super) source: &'a Source,
    pub(super) offer: Arc<Offer>,
}

/// Answers a request about a task; its call is that of the tool it came from.
pub(crate) async fn serve(
    router: &Router,
    call: &Call,
    context: &Context,
    mut lane: Lane,
) -> Result<Answered, Error> {
    let named = call.frame.param_text("taskId").ok_or(CatalogError::Parameter("taskId"))?;
    let task = router.tasks.find(&call.principal, &context.view.server, &named).ok_or_else(unknown)?;
    let is_judged = match &call.target {
        Target::Thing(thing) => task.is_of(thing),
        Target::Ourselves | Target::Listing(_) | Target::Missing(..) => false,
    };
    if !is_judged {
        return Err(unknown());
    }
    let (Some(id), Some(source)) = (call.frame.id(), context.catalog.source(&task.thing.upstream)) else {
        return Err(unknown());
    };
    let source = &*source;
    let offer = offer(call, &context.visit, source);
    let about = About { router, call, context, id, task: &task, source, offer };
    match call.method {
        Method::TasksGet if !task.look() => Err(LimitError::Looks.into()),
        Method::TasksGet => about.get(&mut lane).await,
        Method::TasksResult => about.result(&mut lane).await,
        Method::TasksCancel => about.cancel(&mut lane).await,
        Method::TasksUpdate => about.update(&mut lane).await,
        _ => Err(CatalogError::Method(call.frame.method_name().into()).into()),
    }
}

/// A principal's own tasks that it may ask about, as far as we know them, all on one page (spec U-32).
///
/// # Errors
/// For any cursor: none was ever given.
pub(crate) fn list(router: &Router, call: &Call, context: &Context) -> Result<Answered, Error> {
    let Some(id) = call.frame.id() else { return Ok(Answered::Accepted) };
    if call.frame.param("cursor").is_some_and(|raw| raw != "null") {
        return Err(CatalogError::Cursor.into());
    }
    let mut own = router.tasks.of(&call.principal, &context.view.server);
    own.retain(|task| judged(task, call, (&context.view, &context.snapshot.checks)).is_some());
    let tasks: Vec<String> = own.iter().map(|task| task.as_known(Era::Legacy)).collect();
    let result = format!("{{\"tasks\":[{}]}}", tasks.join(","));
    Ok(Answered::ok(Pieces::one(code::success(id, &result))))
}

/// One question of a task, told from all others: by its key, its method and its params. The first and
/// the last of these are JSON text, which has no NUL.
fn digest(wish: &input::Wish<'_>) -> [u8; 32] {
    let input::Wish { key, method, params } = wish;
    Sha256::digest(format!("{key}\0{method}\0{params}")).into()
}

impl About<'_> {
    fn era(&self) -> Era {
        self.revision().era()
    }

    fn revision(&self) -> Revision {
        self.context.visit.revision()
    }

    fn sender(&self) -> Sender<'_> {
        Sender { offer: &self.offer, level: None, tasks: true }
    }

    /// The answer that describes the task as we know it.
    fn known(&self) -> Answered {
        Answered::ok(self.task.known(self.era()).answer(self.id, self.era()))
    }

    /// Asks the upstream that runs it.
    async fn ask(&self, there: &There, method: Method, more: &str, lane: &mut Lane) -> Result<Frame, Missed> {
        let question = Question { method, more, wait: remote::soon(self.context, self.task) };
        let answer = remote::ask(self.call, (self.task, there), &question, &self.sender(), lane).await?;
        let limit = self.router.result_limit;
        if answer.bytes().len() > limit {
            let why = upstream::UpstreamError::TooLarge { limit };
            return Err(Missed::Error(remote::failure(self.call, self.task, why)));
        }
        Ok(answer)
    }

    /// The same, where an error is about the task.
    async fn told(
        &self,
        there: &There,
        method: Method,
        more: &str,
        lane: &mut Lane,
    ) -> Result<Frame, Missed> {
        let answer = self.ask(there, method, more, lane).await?;
        match (method, answer.error_member("code").map(str::parse)) {
            (_, None) => Ok(answer),
            // Wherever more than the id is sent, the error may be about that, and the task goes on.
            (Method::TasksGet, Some(Ok(code::INVALID_PARAMS))) => Err(Missed::Unknown),
            (_, Some(_)) => Err(Missed::Error(self.relayed(&answer, there).into())),
        }
    }

    fn relayed(&self, answer: &Frame, there: &There) -> Box<Relayed> {
        let rewrite = |uri: &str| self.context.view.uri(&self.task.thing.upstream, uri);
        Box::new(Relayed::read(answer, there.era, None, &rewrite))
    }

    /// What a client reads when its upstream has nothing to say.
    fn missed(&self, missed: Missed) -> Result<Answered, Error> {
        match missed {
            Missed::Lost => {
                self.task.lose();
                Ok(self.known())
            }
            Missed::Unknown => {
                self.router.tasks.forget(self.task);
                Err(unknown())
            }
            Missed::GivenUp => Ok(Answered::GivenUp),
            Missed::Error(error) => Err(error),
        }
    }

    async fn get(&self, lane: &mut Lane) -> Result<Answered, Error> {
        match self.look(lane).await {
            Ok(look) => Ok(Answered::ok(look.answer(self.id, self.era()))),
            Err(missed) => self.missed(missed),
        }
    }

    /// How the task is now, as `tasks/get` says it.
    pub(super) async fn look(&self, lane: &mut Lane) -> Result<Look, Missed> {
        let there = match &self.task.place {
            Place::There(there) if self.task.ending().is_none() => there,
            Place::There(_) | Place::Here(_) | Place::Nowhere => return Ok(self.task.known(self.era())),
        };
        let answer = self.told(there, Method::TasksGet, "", lane).await?;
        let said = self.task.said(&answer, there).ok_or_else(|| Missed::Error(self.garbled()))?;
        if self.task.ending().is_some() {
            // It was cancelled while its upstream was asked.
            return Ok(self.task.known(self.era()));
        }
        let (status, more) = self.payload(&answer, &said, there, lane).await?;
        let task = said.written(there.era, self.era(), &self.task.ours(status));
        Ok(Look { status, task, more })
    }

    /// How far the task is in the words of the client's era, and what it came to or asks.
    async fn payload(
        &self,
        answer: &Frame,
        said: &task::Task<'_>,
        there: &There,
        lane: &mut Lane,
    ) -> Result<(Status, String), Missed> {
        match (self.era(), there.era, said.status) {
            (Era::Legacy, Era::Legacy, status) => Ok((status, String::new())),
            (Era::Legacy, Era::Modern, status) => {
                let result = member(said.object, "result").unwrap_or_default();
                let failed = status == Status::Completed && written::says_error(result.as_bytes());
                Ok((if failed { Status::Failed } else { status }, String::new()))
            }
            // What it asks comes by a request that nobody has sent for this client.
            (Era::Modern, Era::Legacy, Status::InputRequired) => Ok((Status::Working, String::new())),
            (Era::Modern, Era::Legacy, Status::Completed | Status::Failed) => {
                let outcome = self.ask(there, Method::TasksResult, "", lane).await?;
                let ending = self.ending(&outcome, there)?;
                Ok((ending.status(Era::Modern), written::payload(&ending)))
            }
            (Era::Modern, Era::Modern, Status::Completed | Status::Failed) => {
                let ending = self.inlined(said, there)?;
                Ok((ending.status(Era::Modern), written::payload(&ending)))
            }
            (Era::Modern, Era::Modern, Status::InputRequired) => {
                let requests = self.questions(answer, there).await.map_err(Missed::Error)?;
                Ok((Status::InputRequired, format!(",\"inputRequests\":{{{requests}}}")))
            }
            (Era::Modern, _, status @ (Status::Working | Status::Cancelled)) => Ok((status, String::new())),
        }
    }

    /// How a task ended whose upstream says so in its description (spec U-36).
    fn inlined(&self, said: &task::Task<'_>, there: &There) -> Result<Ending, Missed> {
        let id = Id::number(0);
        let part = match said.status {
            Status::Completed => member(said.object, "result").map(|result| code::success(&id, result)),
            _ => member(said.object, "error").map(|error| code::error(&id, error)),
        };
        let outcome = part.and_then(|part| Frame::parse(part, &Budget::UPSTREAM).ok());
        self.ending(&outcome.ok_or_else(|| Missed::Error(self.garbled()))?, there)
    }

    /// How it ended, by the answer that its call would have had, made fit for the client.
    fn ending(&self, outcome: &Frame, there: &There) -> Result<Ending, Missed> {
        let fit = self.fit(outcome, there).map_err(Missed::Error)?;
        Ok(written::ending(&fit))
    }

    /// The answer of an upstream to the call the task came from, as the client is to read it: a result or an error.
    fn fit(&self, outcome: &Frame, there: &There) -> Result<Frame, Error> {
        self.context.snapshot.checks.judge_reply(self.call, outcome).map_err(|denial| {
            let (sort, name) = (None, self.task.thing.exposed.clone());
            Error::from(Box::new(crate::error::Refused { denial, sort, referred: false, name }))
        })?;
        let message = if let Some(result) = outcome.result() {
            let eras = (there.era, self.revision());
            let result = self.router.inlined(result, self.task, self.context, eras);
            code::success(self.id, &result.ok_or_else(|| self.garbled())?)
        } else {
            let client =
                Client { revision: self.revision(), statuses: self.context.catalog.terms().error_status };
            Error::from(self.relayed(outcome, there)).message(Some(self.id), client)
        };
        Frame::parse(message, &Budget::UPSTREAM).map_err(|_| self.garbled())
    }

    fn asker<'b>(&'b self, there: &'b There, as_call: &'b Call) -> Asker<'b> {
        let at = (self.source, there.upstream.seat());
        Asker::of(&self.router.asking, (as_call, self.context), at, &self.offer)
    }

    /// Questions of a task belong to the call it came from.
    fn as_call(&self) -> Call {
        Call { method: Method::ToolsCall, ..self.call.clone() }
    }

    /// What a task asks, as members of an object, as the client is to see them. Each is put on record once.
    async fn questions(&self, answer: &Frame, there: &There) -> Result<String, Error> {
        let malformed = || Error::from(Box::new(Unmet::Failed("it did not say what for")));
        let wanted = input::wanted(answer).ok_or_else(malformed)?;
        let as_call = self.as_call();
        let asker = self.asker(there, &as_call);
        let mut entries = Vec::new();
        for wish in &wanted.questions {
            let digest = digest(wish);
            let is_new = !self.task.state().shown.contains(&digest);
            let params = asker.of_task(wish, is_new).await?;
            // Not before its record is there: this may have been dropped, or have failed, and the question is seen again.
            self.task.show(digest);
            entries.push(input::entry(wish.key, &wish.method, &params));
        }
        Ok(entries.join(","))
    }

    async fn cancel(&self, lane: &mut Lane) -> Result<Answered, Error> {
        match self.era() {
            Era::Legacy => self.cancel_now(lane).await,
            Era::Modern => self.cancel_sometime(lane).await,
        }
    }

    /// In 2025-11-25 the answer is the task, which is cancelled by then; one that is over cannot be (spec U-35).
    async fn cancel_now(&self, lane: &mut Lane) -> Result<Answered, Error> {
        if self.task.is_over() {
            return Err(CatalogError::TaskOver.into());
        }
        let there = match &self.task.place {
            Place::There(there) => there,
            Place::Here(hosting) => {
                self.task.end(Ending::Failed(TaskError::Cancelled));
                hosting.cancel();
                return Ok(self.known());
            }
            Place::Nowhere => return Ok(self.known()),
        };
        let answer = match self.ask(there, Method::TasksCancel, "", lane).await {
            Ok(answer) => answer,
            Err(missed) => return self.missed(missed),
        };
        if answer.error().is_some() {
            return Err(self.relayed(&answer, there).into());
        }
        match there.era {
            Era::Legacy => {
                let said = self.task.said(&answer, there).ok_or_else(|| self.garbled())?;
                let task = said.written(there.era, Era::Legacy, &self.task.ours(said.status));
                let look = Look { status: said.status, task, more: String::new() };
                Ok(Answered::ok(look.answer(self.id, Era::Legacy)))
            }
            // It may still go on there; nobody will see that (spec U-35).
            Era::Modern => {
                self.task.end(Ending::Failed(TaskError::Cancelled));
                Ok(self.known())
            }
        }
    }

    /// From 2026-07-28 on the answer says that it was heard, however often (spec U-35).
    async fn cancel_sometime(&self, lane: &mut Lane) -> Result<Answered, Error> {
        match &self.task.place {
            _ if self.task.is_over() => (),
            Place::Nowhere => (),
            Place::Here(hosting) => hosting.cancel(),
            Place::There(there) => match self.ask(there, Method::TasksCancel, "", lane).await {
                // An upstream that refuses has a task that is over.
                Ok(_) => (),
                Err(Missed::Lost) => self.task.lose(),
                Err(missed) => return self.missed(missed),
            },
        }
        Ok(Answered::ok(written::heard(self.id)))
    }

    async fn update(&self, lane: &mut Lane) -> Result<Answered, Error> {
        let responses = self.call.frame.param(input::RESPONSES).filter(|raw| raw.starts_with('{'));
        let responses = responses.ok_or(CatalogError::Parameter(input::RESPONSES))?;
        match &self.task.place {
            Place::Here(hosting) => hosting.answer(responses),
            Place::There(there) if there.era == Era::Modern && self.task.ending().is_none() => {
                let more = format!(",\"{}\":{responses}", input::RESPONSES);
                match self.told(there, Method::TasksUpdate, &more, lane).await {
                    Ok(_) => (),
                    Err(Missed::Lost) => self.task.lose(),
                    Err(missed) => return self.missed(missed),
                }
            }
            // Nothing waits for answers by this way.
            Place::There(_) | Place::Nowhere => (),
        }
        Ok(Answered::ok(written::heard(self.id)))
    }

    fn garbled(&self) -> Error {
        let why = upstream::UpstreamError::Garbled { why: "what it says of the task cannot be read".into() };
        remote::failure(self.call, self.task, why)
    }
}
