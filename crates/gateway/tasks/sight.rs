//! Who may see to a task now: whoever may see the tool that it came from, as rules and servers are at that moment. What may
//! not be asked about is neither listed nor told of (spec T-04, U-31).

use std::sync::Arc;

use admission::{Call, Checks, Decision, Sort, Target};
use tokio::time::Instant;
use wire::{Frame, Method};

use super::Task;
use crate::{catalog::View, gateway::Gateway, session::Session, visit::Visit};

/// The question about a task, if its asker may put it: it is judged as `tasks/get` is.
pub(super) fn judged(task: &Task, call: &Call, (view, checks): (&View, &Checks)) -> Option<Call> {
    let tool = view.named(Sort::Tool, &task.thing.exposed).filter(|tool| task.is_of(tool))?;
    let asked = Call { method: Method::TasksGet, target: Target::Thing(tool), ..call.clone() };
    matches!(checks.decide(asked.clone()), Decision::Admitted(_)).then_some(asked)
}

/// Whether the session that began a task may hear now what its server says of it.
pub(super) fn is_seen(gateway: &Gateway, task: &Task, session: &Arc<Session>, said: &Frame) -> bool {
    let snapshot = gateway.snapshot.load();
    let view = snapshot.catalogs.get(&task.tenant).and_then(|catalog| catalog.view(&task.server));
    let Some(view) = view else { return false };
    let told = Call {
        principal: session.speaker(),
        method: Method::TasksGet,
        target: Target::Ourselves,
        frame: said.clone(),
        received: Instant::now().into_std(),
        grant: None,
        scene: Visit::Within(Arc::clone(session)).scene(&task.server),
    };
    judged(task, &told, (&view, &snapshot.checks)).is_some()
}
