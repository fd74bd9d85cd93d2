//! The table of tasks: by tenant, then by principal, and bounded for both (spec U-31, U-39).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    time::Instant,
};

use admission::{Principal, TenantId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use super::{Ending, Place, Task};
use crate::{
    error::{LimitError, TaskError},
    router::seat_key,
    subscriptions,
    telemetry::Metrics,
};

/// Tasks of one principal that are not over.
const LIVE: usize = 1_000;
/// All that are kept of one principal; of those that are over, the oldest goes first.
const KEPT: usize = 4_000;
/// All that are kept of one tenant.
const OF_TENANT: usize = 20_000;
/// Calls of one principal that run here as tasks at once, and those of one tenant: each holds all that its call does.
const HOSTED: usize = 64;
const HOSTED_OF_TENANT: usize = 1_024;
/// Bytes of results that are kept here for one tenant.
const BYTES: usize = 64 * 1024 * 1024;

/// Every task there is.
pub(crate) struct Tasks {
    tenants: Mutex<HashMap<TenantId, Tenant>>,
    metrics: Arc<Metrics>,
    /// What goes on without a request of a client, awaited at drain (invariant 13).
    pub(super) tracker: TaskTracker,
}

#[derive(Default)]
struct Tenant {
    owners: HashMap<Arc<str>, Owned>,
    /// By what their upstreams call them. A server that gives an id twice is heard about the later one.
    natives: HashMap<Native, Weak<Task>>,
    hosted: Places<HOSTED_OF_TENANT>,
    count: usize,
    bytes: usize,
}

#[derive(Default)]
struct Owned {
    tasks: HashMap<Box<str>, Arc<Task>>,
    /// Places of calls that may become tasks.
    reserved: usize,
    hosted: Places<HOSTED>,
}

/// Places of calls that run here as tasks.
struct Places<const MOST: usize>(Arc<Semaphore>);

/// That a call runs here as a task. Dropped, its places are given back.
pub(super) struct Hosted {
    _of_owner: OwnedSemaphorePermit,
    _of_tenant: OwnedSemaphorePermit,
}

/// A task as its upstream names it.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Native {
    pub(super) at: subscriptions::Place,
    pub(super) name: Name,
}

/// By what an upstream speaks of it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// Its id there.
    Id(Box<str>),
    /// The progress token of its call.
    Token(u64),
}

/// A place for one more task, which gives itself back.
pub(crate) struct Slot {
    tasks: Arc<Tasks>,
    tenant: TenantId,
    owner: Arc<str>,
    id: Box<str>,
}

impl Tasks {
    /// There are none.
    pub(crate) fn new(metrics: Arc<Metrics>) -> Arc<Tasks> {
        Arc::new(Tasks { tenants: Mutex::default(), metrics, tracker: TaskTracker::new() })
    }

    /// A place for a task that may come to be, before anything is sent.
    ///
    /// # Errors
    /// When the principal, or its tenant, has as many as it may.
    pub(crate) fn reserve(self: &Arc<Tasks>, principal: &Principal) -> Result<Slot, LimitError> {
        let owner = seat_key(principal);
        let mut random = [0; 24];
        getrandom::fill(&mut random).map_err(|_| LimitError::Tasks { most: LIVE })?;
        let mut tenants = self.tenants();
        let tenant = tenants.entry(principal.tenant.clone()).or_default();
        tenant.drop_expired(&owner, &self.metrics);
        if tenant.count >= OF_TENANT {
            return Err(LimitError::Tasks { most: OF_TENANT });
        }
        let owned = tenant.owners.entry(Arc::clone(&owner)).or_default();
        if owned.reserved + owned.tasks.values().filter(|task| !task.is_over()).count() >= LIVE {
            return Err(LimitError::Tasks { most: LIVE });
        }
        owned.reserved += 1;
        tenant.count += 1;
        drop(tenants);
        let id = hex::encode(random).into();
        Ok(Slot { tasks: Arc::clone(self), tenant: principal.tenant.clone(), owner, id })
    }

    /// A principal's task at a virtual server; that of anybody else does not exist (spec U-31).
    pub(crate) fn find(&self, principal: &Principal, server: &str, id: &str) -> Option<Arc<Task>> {
        let tenants = self.tenants();
        let owned = tenants.get(&principal.tenant)?.owners.get(&seat_key(principal))?;
        let task = owned.tasks.get(id)?;
        (*task.server == *server && !task.is_expired(Instant::now())).then(|| Arc::clone(task))
    }

    /// The name of the tool that a task came from, as its client knows it.
    pub(crate) fn tool(&self, principal: &Principal, server: &str, id: &str) -> Option<Box<str>> {
        self.find(principal, server, id).map(|task| task.thing.exposed.clone())
    }

    /// A principal's tasks at a virtual server, the newest first.
    pub(super) fn of(&self, principal: &Principal, server: &str) -> Vec<Arc<Task>> {
        let now = Instant::now();
        let tenants = self.tenants();
        let owned = tenants.get(&principal.tenant).and_then(|tenant| tenant.owners.get(&seat_key(principal)));
        let own = owned.into_iter().flat_map(|owned| owned.tasks.values());
        let mut own: Vec<_> =
            own.filter(|task| *task.server == *server && !task.is_expired(now)).cloned().collect();
        own.sort_by_key(|task| std::cmp::Reverse(task.created));
        own
    }

    /// The task that an upstream calls so.
    pub(super) fn native(&self, tenant: &TenantId, native: &Native) -> Option<Arc<Task>> {
        self.tenants().get(tenant)?.natives.get(native)?.upgrade()
    }

    /// An upstream calls this task so, too.
    pub(super) fn call(&self, task: &Arc<Task>, native: Native) {
        if let Some(tenant) = self.tenants().get_mut(&task.tenant) {
            tenant.natives.insert(native, Arc::downgrade(task));
        }
    }

    /// It calls this task so no more.
    pub(super) fn uncall(&self, (task, tenant): (&Weak<Task>, &TenantId), native: &Native) {
        if let Some(tenant) = self.tenants().get_mut(tenant)
            && tenant.natives.get(native).is_some_and(|known| known.ptr_eq(task))
        {
            tenant.natives.remove(native);
        }
    }

    /// Keeps how a task ended, if there is room for it; else it ended badly.
    pub(super) fn finish(&self, task: &Task, ending: Ending) {
        let mut tenants = self.tenants();
        // Forgotten meanwhile: nobody will ask.
        let Some(tenant) = tenants.get_mut(&task.tenant).filter(|tenant| tenant.holds(task)) else { return };
        let fits = tenant.bytes.saturating_add(ending.bytes()) <= BYTES;
        let kept = if fits { ending } else { Ending::Failed(TaskError::NoRoom) };
        let bytes = kept.bytes();
        if task.end(kept) {
            tenant.bytes += bytes;
            task.counted.store(bytes, Ordering::Relaxed);
        }
    }

    /// Forgets a task.
    pub(super) fn forget(&self, task: &Task) {
        if let Some(tenant) = self.tenants().get_mut(&task.tenant) {
            tenant.remove(&task.owner, &task.id, &self.metrics);
        }
    }

    /// Forgets the tasks of a principal that will not come back.
    pub(crate) fn forget_all(&self, principal: &Principal) {
        if let Some(tenant) = self.tenants().get_mut(&principal.tenant) {
            tenant.remove_where(&seat_key(principal), |_| true, &self.metrics);
        }
    }

    /// Forgets what is older than it is kept.
    pub(crate) fn sweep(&self) {
        for tenant in self.tenants().values_mut() {
            let owners: Vec<_> = tenant.owners.keys().cloned().collect();
            for owner in owners {
                tenant.drop_expired(&owner, &self.metrics);
            }
        }
    }

    /// Waits for what goes on by itself; whoever drains has ended it.
    pub(crate) async fn rest(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantId, Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tenant {
    fn drop_expired(&mut self, owner: &Arc<str>, metrics: &Metrics) {
        let now = Instant::now();
        self.remove_where(owner, |task| task.is_expired(now), metrics);
    }

    fn remove_where(&mut self, owner: &Arc<str>, goes: impl Fn(&Task) -> bool, metrics: &Metrics) {
        let Some(owned) = self.owners.get(owner) else { return };
        let going: Vec<Box<str>> =
            owned.tasks.values().filter(|task| goes(task)).map(|task| task.id.clone()).collect();
        for id in going {
            self.remove(owner, &id, metrics);
        }
        if self.owners.get(owner).is_some_and(Owned::is_nothing) {
            self.owners.remove(owner);
        }
    }

    fn holds(&self, task: &Task) -> bool {
        self.owners.get(&task.owner).is_some_and(|owned| owned.tasks.contains_key(&task.id))
    }

    fn remove(&mut self, owner: &Arc<str>, id: &str, metrics: &Metrics) {
        let Some(task) = self.owners.get_mut(owner).and_then(|owned| owned.tasks.remove(id)) else { return };
        self.count = self.count.saturating_sub(1);
        metrics.tasks(-1);
        for native in task.natives() {
            let is_it = |known: &Weak<Task>| known.as_ptr() == Arc::as_ptr(&task);
            if self.natives.get(&native).is_some_and(is_it) {
                self.natives.remove(&native);
            }
        }
        self.bytes = self.bytes.saturating_sub(task.counted.swap(0, Ordering::Relaxed));
        if let Place::Here(hosting) = &task.place {
            hosting.cancel();
        }
        task.rest();
        task.turn();
    }
}

impl Task {
    fn natives(&self) -> impl Iterator<Item = Native> {
        let there = match &self.place {
            Place::There(there) => Some(there),
            Place::Here(_) | Place::Nowhere => None,
        };
        there.into_iter().flat_map(|there| {
            let id = Some(Name::Id(there.native.clone()));
            let token = there.progress.as_ref().map(|progress| Name::Token(progress.number));
            let named = id.into_iter().chain(token);
            named.map(|name| Native { at: subscriptions::Place::of(&there.upstream), name })
        })
    }
}

impl Owned {
    /// Nothing of it is left; a call whose task is forgotten runs until it has heard of that.
    fn is_nothing(&self) -> bool {
        self.tasks.is_empty() && self.reserved == 0 && self.hosted.are_free()
    }
}

impl<const MOST: usize> Places<MOST> {
    fn are_free(&self) -> bool {
        self.0.available_permits() == MOST
    }

    fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }
}

impl<const MOST: usize> Default for Places<MOST> {
    fn default() -> Places<MOST> {
        Places(Arc::new(Semaphore::new(MOST)))
    }
}

impl Slot {
    /// The id of the task that will be.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    pub(super) fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Places for the call too, which runs here. None when as many run as may.
    pub(super) fn hosted(&self) -> Option<Hosted> {
        let tenants = self.tasks.tenants();
        let tenant = tenants.get(&self.tenant)?;
        let of_owner = tenant.owners.get(&self.owner)?.hosted.take()?;
        Some(Hosted { _of_owner: of_owner, _of_tenant: tenant.hosted.take()? })
    }

    /// Puts a task into the place: from here on its client finds it (spec U-34).
    pub(super) fn put(self, task: Task) -> Arc<Task> {
        let task = Arc::new(task);
        let tasks = Arc::clone(&self.tasks);
        let mut tenants = tasks.tenants();
        if let Some(tenant) = tenants.get_mut(&self.tenant) {
            let full = tenant.owners.get(&self.owner).filter(|owned| owned.tasks.len() >= KEPT);
            let over = full.into_iter().flat_map(|owned| owned.tasks.values()).filter(|task| task.is_over());
            let oldest = over.min_by_key(|task| task.created).map(|task| task.id.clone());
            if let Some(oldest) = oldest {
                tenant.remove(&self.owner, &oldest, &tasks.metrics);
            }
            for native in task.natives() {
                tenant.natives.insert(native, Arc::downgrade(&task));
            }
            // Its place is given back below, when this is dropped.
            tenant.count += 1;
            if let Some(owned) = tenant.owners.get_mut(&self.owner) {
                owned.tasks.insert(task.id.clone(), Arc::clone(&task));
            }
            tasks.metrics.tasks(1);
        }
        drop(tenants);
        task
    }

    /// The table it is in.
    pub(super) fn tasks(&self) -> Arc<Tasks> {
        Arc::clone(&self.tasks)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(tenant) = self.tasks.tenants().get_mut(&self.tenant) {
            tenant.count = tenant.count.saturating_sub(1);
            if let Some(owned) = tenant.owners.get_mut(&self.owner) {
                owned.reserved = owned.reserved.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests;
