//! Places of questions that wait for an answer: so many of all, and of each tenant no more than its share, so that none
//! takes them from the others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use admission::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Questions that may wait at a time, of all tenants. Each holds a place in the audit log; this leaves enough to all else.
const OPEN: usize = 2_048;
/// And those of one tenant.
const OF_TENANT: usize = 1_024;

/// All places.
#[derive(Debug)]
pub(super) struct Places {
    all: Arc<Semaphore>,
    /// Of every tenant that has had a question.
    shares: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// One place, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_tenant: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new() -> Places {
        Places { all: Arc::new(Semaphore::new(OPEN)), shares: Mutex::default() }
    }

    /// A place of this tenant's; none when it has as many as it may, or all have.
    pub(super) fn take(&self, tenant: &TenantId) -> Option<Place> {
        let share = {
            let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
            let share = shares.entry(tenant.clone()).or_insert_with(|| Arc::new(Semaphore::new(OF_TENANT)));
            Arc::clone(share)
        };
        let of_tenant = share.try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Place { _of_all: of_all, _of_tenant: of_tenant })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_leaves_places_to_the_others_and_gives_its_own_back() {
        let places = Places::new();
        let [one, two, three] = ["one", "two", "three"].map(|name| TenantId::new(name.into()));
        let mut held: Vec<_> = (0..OF_TENANT).map(|_| places.take(&one).expect("a place")).collect();
        assert!(places.take(&one).is_none());
        let others: Vec<_> = (OF_TENANT..OPEN).map(|_| places.take(&two).expect("a place")).collect();
        assert!(places.take(&three).is_none(), "all are taken");
        held.pop();
        // What a refused one took of its tenant's share came back.
        for _ in 0..OF_TENANT {
            drop(places.take(&three).expect("a place"));
        }
        drop(others);
        assert!(places.take(&one).is_some());
    }
}
