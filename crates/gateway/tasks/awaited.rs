//! A task of an upstream that its client knows nothing of: its outcome is the answer to the call (spec X-15).

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use admission::TenantId;
use tokio::time::timeout;
use upstream::{Connection, Exchange, Outbound, Upstream, UpstreamError, Wait};
use wire::{Budget, Frame, Id, Method, code, task};

use super::{
    Hosting, Task, Tasks,
    remote::line,
    table::{Name, Native},
};
use crate::subscriptions;

/// How long a server may take to hear that a task is not wanted any more.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// A task of an upstream whose outcome is waited for. Dropped before that came, the upstream is told that nobody wants it
/// (spec U-09).
pub(crate) struct Awaited {
    tasks: Arc<Tasks>,
    connection: Arc<Connection>,
    native: String,
    is_wanted: bool,
    /// What its server says of it, it says of a task of ours.
    named: Option<(Weak<Task>, TenantId, Native)>,
}

impl Awaited {
    pub(crate) fn new(tasks: &Arc<Tasks>, connection: &Arc<Connection>, native: &str) -> Awaited {
        let (tasks, connection) = (Arc::clone(tasks), Arc::clone(connection));
        Awaited { tasks, connection, native: native.to_owned(), is_wanted: true, named: None }
    }

    /// A task of ours waits for it: its client hears what the server says of it meanwhile.
    pub(crate) fn for_task(&mut self, hosting: &Hosting, upstream: &Upstream) {
        let Some(task) = hosting.task() else { return };
        hosting.awaits(&self.connection);
        let native = || {
            let name = Name::Id(self.native.as_str().into());
            Native { at: subscriptions::Place::of(upstream), name }
        };
        self.tasks.call(&task, native());
        self.named = Some((Arc::downgrade(&task), task.tenant.clone(), native()));
    }

    /// Asks for its outcome, which comes when there is one. Questions of the task come by this request.
    pub(crate) fn outcome(&self, most: Duration) -> Result<Exchange, UpstreamError> {
        ask(&self.connection, Method::TasksResult, &self.native, most)
    }

    /// It came: the answer, which says nothing of a task that its client does not know.
    pub(crate) fn came(mut self, answer: Frame) -> Frame {
        self.is_wanted = false;
        let (Some(id), Some(result)) = (answer.id(), answer.result()) else { return answer };
        let plain = code::success(id, &task::unrelated(result));
        Frame::parse(plain, &Budget::UPSTREAM).unwrap_or(answer)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Some((task, tenant, native)) = &self.named {
            self.tasks.uncall((task, tenant), native);
        }
        if !self.is_wanted || !self.connection.is_open() {
            return;
        }
        let (connection, native) = (Arc::clone(&self.connection), std::mem::take(&mut self.native));
        drop(self.tasks.tracker.spawn(async move {
            if let Ok(mut exchange) = ask(&connection, Method::TasksCancel, &native, FAREWELL) {
                // Whatever it says: nobody asks.
                let _heard = timeout(FAREWELL, exchange.next()).await;
            }
        }));
    }
}

fn ask(
    connection: &Arc<Connection>,
    method: Method,
    native: &str,
    most: Duration,
) -> Result<Exchange, UpstreamError> {
    let build = |id: &Id| line(id, method, native, "");
    let outbound = Outbound { method, name: Some(native), mirrored: &[], caller: None, build: &build };
    connection.send_outbound(&outbound, Wait { first: most, most, progress: false })
}
