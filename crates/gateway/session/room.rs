//! How much of what was said is kept, for all sessions of a tenant together.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use admission::TenantId;

use super::lock;

/// Bytes of events that are kept for all clients of one tenant (spec H-22).
const TENANT_BYTES: usize = 32 * 1024 * 1024;

/// The rooms of all tenants.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    // INVARIANT: tenants come from the configuration, so there are few.
    by_tenant: Mutex<HashMap<TenantId, Arc<Room>>>,
}

/// The room of one tenant.
#[derive(Debug)]
pub(crate) struct Room {
    free: AtomicUsize,
}

/// A part of a room, given back when dropped.
#[derive(Debug)]
pub(super) struct Held {
    room: Arc<Room>,
    bytes: usize,
}

impl Rooms {
    /// The room of this tenant.
    pub(super) fn of(&self, tenant: &TenantId) -> Arc<Room> {
        let mut by_tenant = lock(&self.by_tenant);
        Arc::clone(by_tenant.entry(tenant.clone()).or_insert_with(|| Room::new(TENANT_BYTES)))
    }
}

impl Room {
    pub(super) fn new(bytes: usize) -> Arc<Room> {
        Arc::new(Room { free: AtomicUsize::new(bytes) })
    }

    /// Takes a part of it, if so much is free.
    pub(super) fn hold(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        let take = |free: usize| free.checked_sub(bytes);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(Held { room: Arc::clone(self), bytes })
    }
}

impl Held {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.free.fetch_add(self.bytes, Ordering::Relaxed);
    }
}
