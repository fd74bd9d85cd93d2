//! A call that becomes a task of ours: its server has no tasks, or none that its client knows of (spec ).
//!
//! The call runs as any other. Until it becomes a task it belongs to its connection, and from then on to nobody but the
//! table: what its server asks is put into the description of the task, and what it answers is kept there.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use admission::{Principal, Target, Thing};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use upstream::Connection;
use wire::{Budget, Era, Frame, Id, Method, code, input, shape};

use super::{Ending, Place, Task, Tasks, table::Hosted, wish, written};
use crate::{
    error::TaskError,
    pipeline::Entered,
    running::{Answering, Out, Outbox},
    session::Sessions,
};

/// A server that has no tasks gets this much time before its call becomes one.
const PATIENCE: Duration = Duration::from_millis(500);
/// Questions of one task that may wait for answers.
const QUESTIONS: usize = 64;

/// A call that may become a task of ours.
#[derive(Debug)]
pub(crate) struct Hosting {
    stage: watch::Sender<Stage>,
    /// What is called, once that is known.
    about: OnceLock<(Arc<Thing>, Arc<str>)>,
    /// The task it is, once it is one.
    task: OnceLock<Weak<Task>>,
    /// Where a task runs that it waits for.
    awaited: OnceLock<Weak<Connection>>,
    questions: Mutex<Questions>,
    /// What it asks has changed, or anything else that its client can see once it is a task.
    turned: Arc<watch::Sender<()>>,
    cancelled: CancellationToken,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It is an ordinary call so far.
    Call,
    /// It becomes a task unless it is answered before.
    Until(Instant),
    /// It is to become one now.
    Wanted,
    /// It is one.
    Task,
    /// It will never be one.
    Never,
}

#[derive(Debug, Default)]
struct Questions {
    last: u64,
    open: Vec<Question>,
}

#[derive(Debug)]
struct Question {
    key: String,
    method: Method,
    params: String,
    answer: oneshot::Sender<Frame>,
}

/// A question that stands in the description of a task. Dropped, it is taken back.
#[derive(Debug)]
pub(crate) struct Standing {
    hosting: Arc<Hosting>,
    key: String,
    answer: oneshot::Receiver<Frame>,
}

/// Whether a request's client takes tasks, and its call could become one here.
pub(crate) fn may_become_one(era: Era, frame: &Frame) -> bool {
    era == Era::Modern && frame.method() == Some(Method::ToolsCall) && wish::takes_tasks(frame)
}

impl Hosting {
    /// An ordinary call.
    pub(crate) fn new() -> Arc<Hosting> {
        Arc::new(Hosting {
            stage: watch::Sender::new(Stage::Call),
            about: OnceLock::new(),
            task: OnceLock::new(),
            awaited: OnceLock::new(),
            questions: Mutex::default(),
            turned: Arc::default(),
            cancelled: CancellationToken::new(),
        })
    }

    /// The call is about to leave for a server that has no tasks for this client.
    pub(crate) fn leaves(&self, target: &Target, server: &Arc<str>) {
        if let Target::Thing(thing) = target {
            let _known = self.about.set((Arc::clone(thing), Arc::clone(server)));
            let until = Instant::now() + PATIENCE;
            self.stage.send_if_modified(|stage| {
                let is_call = matches!(stage, Stage::Call);
                if is_call {
                    *stage = Stage::Until(until);
                }
                is_call
            });
        }
    }

    /// Has the call become a task now. False when it cannot: it goes on as a call.
    pub(crate) async fn begin(&self) -> bool {
        self.stage.send_if_modified(|stage| {
            let is_open = matches!(stage, Stage::Call | Stage::Until(_));
            if is_open {
                *stage = Stage::Wanted;
            }
            is_open
        });
        let mut stage = self.stage.subscribe();
        let settled = stage.wait_for(|stage| matches!(stage, Stage::Task | Stage::Never)).await;
        settled.is_ok_and(|stage| matches!(*stage, Stage::Task))
    }

    /// Puts a question into the description of the task, which the call has to be by now. `params` is the text of an
    /// object. None when too many wait.
    pub(crate) fn ask(self: &Arc<Hosting>, method: Method, params: &str) -> Option<Standing> {
        let (sender, answer) = oneshot::channel();
        let mut questions = self.questions();
        if questions.open.len() >= QUESTIONS {
            return None;
        }
        questions.last += 1;
        let key = format!("question-{}", questions.last);
        questions.open.push(Question { key: key.clone(), method, params: params.to_owned(), answer: sender });
        drop(questions);
        self.turned.send_replace(());
        Some(Standing { hosting: Arc::clone(self), key, answer })
    }

    /// Takes what a client answers, the text of an object: what answers nothing that is open is ignored (spec U-35).
    pub(super) fn answer(&self, responses: &str) {
        for (key, response) in input::members(responses) {
            let asked = {
                let open = &mut self.questions().open;
                let at = open.iter().position(|question| question.key == *key);
                at.map(|at| open.remove(at))
            };
            let Some(asked) = asked else { continue };
            self.turned.send_replace(());
            let message = code::success(&Id::number(0), response);
            if let Ok(answer) = Frame::parse(message, &Budget::CLIENT) {
                // Whoever asked may have gone in this moment.
                let _gone = asked.answer.send(answer);
            }
        }
    }

    /// Who is to know when it changes.
    pub(super) fn turned(&self) -> &Arc<watch::Sender<()>> {
        &self.turned
    }

    /// The task it is, once it is one.
    pub(super) fn task(&self) -> Option<Arc<Task>> {
        self.task.get()?.upgrade()
    }

    /// What its client is told comes of a task that runs there, too.
    pub(super) fn awaits(&self, connection: &Arc<Connection>) {
        let _once = self.awaited.set(Arc::downgrade(connection));
    }

    /// The conversation in which a task runs that it waits for.
    pub(super) fn awaited(&self) -> Option<Arc<Connection>> {
        self.awaited.get()?.upgrade()
    }

    /// What it asks, as a member of the task's description with its leading comma; empty when it asks nothing.
    pub(super) fn requests(&self) -> String {
        let questions = self.questions();
        let entry = |Question { key, method, params, .. }: &Question| {
            input::entry(&code::quote(key), method.name(), params)
        };
        let entries: Vec<String> = questions.open.iter().map(entry).collect();
        if entries.is_empty() {
            String::new()
        } else {
            format!(",\"inputRequests\":{{{}}}", entries.join(","))
        }
    }

    /// Gives the call up, as its client would.
    pub(super) fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Returns when its client gave the call up. May be dropped at any await.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the call is to become a task; for ever while it is not.
    async fn wanted(&self) {
        let mut stage = self.stage.subscribe();
        loop {
            let until = match *stage.borrow_and_update() {
                Stage::Wanted => return,
                Stage::Until(until) => Some(until),
                Stage::Call | Stage::Task | Stage::Never => None,
            };
            tokio::select! {
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => return,
                // The sender is this.
                _ = stage.changed() => (),
            }
        }
    }
}

impl Standing {
    /// Waits for the answer, a result; for ever when none comes.
    pub(crate) async fn answer(&mut self) -> Frame {
        match (&mut self.answer).await {
            Ok(answer) => answer,
            // INVARIANT: the sender lives until it has sent; an error can only come from a second wait after that.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let open = &mut self.hosting.questions().open;
        if let Some(at) = open.iter().position(|question| question.key == self.key) {
            open.remove(at);
            self.hosting.turned.send_replace(());
        }
    }
}

/// Whose call it is, and how its client is answered.
pub(crate) struct Front {
    tasks: Arc<Tasks>,
    principal: Arc<Principal>,
    id: Option<Id>,
    hosting: Arc<Hosting>,
    outbox: Arc<Outbox>,
}

impl Front {
    /// That of a message, if its call may become a task of ours.
    pub(crate) fn of(entered: &Entered, outbox: &Arc<Outbox>, tasks: &Arc<Tasks>) -> Option<Front> {
        let hosting = Arc::clone(outbox.hosting()?);
        let (principal, id) = entered.asked_by();
        let (tasks, outbox) = (Arc::clone(tasks), Arc::clone(outbox));
        Some(Front { tasks, principal, id, hosting, outbox })
    }
}

/// Runs a call until it is answered or becomes a task, and answers its client with the one or the other. From then on a
/// task goes on by itself.
pub(crate) async fn front(mut work: Answering, front: Front, sessions: &Sessions) -> Option<Out> {
    tokio::select! {
        biased;
        out = &mut work => return out,
        () = front.hosting.wanted() => (),
    }
    let Some((task, hosted, id)) = front.host() else {
        front.hosting.stage.send_replace(Stage::Never);
        return work.await;
    };
    let message = written::created(&id, Era::Modern, &task.as_known(Era::Modern));
    front.outbox.leave();
    front.hosting.stage.send_replace(Stage::Task);
    drop(sessions.tracker.spawn(finish(work, (task, hosted), front.tasks)));
    Some(Out::said(message, true))
}

impl Front {
    /// The task that the call becomes. None when it cannot: too many are.
    fn host(&self) -> Option<(Arc<Task>, Hosted, Id)> {
        let (thing, server) = self.hosting.about.get()?;
        let id = self.id.clone()?;
        let slot = self.tasks.reserve(&self.principal).ok()?;
        let hosted = slot.hosted()?;
        let place = Place::Here(Arc::clone(&self.hosting));
        let task = Task::new(&slot, (server, thing), None, place);
        let task = slot.put(task);
        let _once = self.hosting.task.set(Arc::downgrade(&task));
        Some((task, hosted, id))
    }
}

/// Takes the call to its end, and keeps that.
async fn finish(work: Answering, (task, hosted): (Arc<Task>, Hosted), tasks: Arc<Tasks>) {
    /// A call that is given up, or panics, ends its task too.
    struct Losing(Arc<Task>);
    impl Drop for Losing {
        fn drop(&mut self) {
            self.0.lose();
        }
    }
    let ending = Losing(task);
    let out = work.await;
    drop(hosted);
    let done = match out.and_then(|out| written::read(out.message)) {
        Some(answer) if shape::result_type(&answer).is_some_and(|kind| kind == input::INPUT_REQUIRED) => {
            Ending::Failed(TaskError::Page)
        }
        Some(answer) => written::ending(&answer),
        None => Ending::Failed(TaskError::Cancelled),
    };
    tasks.finish(&ending.0, done);
}
