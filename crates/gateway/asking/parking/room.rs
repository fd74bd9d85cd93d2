//! How many calls may be parked, and how much of them is kept: for each principal, each tenant, and in all (spec X-09).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use admission::TenantId;

/// Parked calls of one principal.
pub(super) const OF_PRINCIPAL: usize = 16;
/// Of one tenant.
pub(super) const OF_TENANT: usize = 256;
/// In all.
pub(super) const IN_ALL: usize = 2_048;
/// Bytes of questions and early answers that are kept for the parked calls of one tenant.
const BYTES_OF_TENANT: usize = 32 * 1024 * 1024;
/// In all.
const BYTES_IN_ALL: usize = 128 * 1024 * 1024;

/// What is taken up.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    calls: usize,
    bytes: usize,
    tenants: HashMap<TenantId, OfTenant>,
}

#[derive(Debug, Default)]
struct OfTenant {
    calls: usize,
    bytes: usize,
    principals: HashMap<Arc<str>, usize>,
}

/// The place of one call; given back when dropped.
#[derive(Debug)]
pub(in crate::asking) struct Place {
    room: Arc<Room>,
    tenant: TenantId,
    principal: Arc<str>,
    bytes: usize,
}

impl Room {
    /// A place for one more call of this principal; none when there are too many.
    pub(super) fn take(self: &Arc<Self>, tenant: &TenantId, principal: &Arc<str>) -> Option<Place> {
        let mut taken = self.taken();
        let all = taken.calls;
        let own = taken.tenants.get(tenant);
        let of_tenant = own.map_or(0, |own| own.calls);
        let of_principal = own.and_then(|own| own.principals.get(principal)).copied().unwrap_or_default();
        if all >= IN_ALL || of_tenant >= OF_TENANT || of_principal >= OF_PRINCIPAL {
            return None;
        }
        taken.calls += 1;
        let own = taken.tenants.entry(tenant.clone()).or_default();
        own.calls += 1;
        *own.principals.entry(Arc::clone(principal)).or_default() += 1;
        drop(taken);
        let (room, principal) = (Arc::clone(self), Arc::clone(principal));
        Some(Place { room, tenant: tenant.clone(), principal, bytes: 0 })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Takes so many bytes in all for this call, more or less than before. False: they are not to be had, and nothing
    /// has changed.
    pub(in crate::asking) fn fill(&mut self, bytes: usize) -> bool {
        let taken = &mut *self.room.taken();
        // INVARIANT: what has a place is counted with its tenant.
        let Some(own) = taken.tenants.get_mut(&self.tenant) else { return false };
        let of_tenant = own.bytes - self.bytes + bytes;
        let all = taken.bytes - self.bytes + bytes;
        if bytes > self.bytes && (of_tenant > BYTES_OF_TENANT || all > BYTES_IN_ALL) {
            return false;
        }
        (own.bytes, taken.bytes, self.bytes) = (of_tenant, all, bytes);
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let taken = &mut *self.room.taken();
        taken.calls -= 1;
        taken.bytes -= self.bytes;
        let Some(own) = taken.tenants.get_mut(&self.tenant) else { return };
        own.calls -= 1;
        own.bytes -= self.bytes;
        if let Some(of_principal) = own.principals.get_mut(&self.principal) {
            *of_principal -= 1;
            if *of_principal == 0 {
                own.principals.remove(&self.principal);
            }
        }
        if own.calls == 0 {
            taken.tenants.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(room: &Arc<Room>, tenant: &str, principal: &str) -> Option<Place> {
        room.take(&TenantId::new(tenant.into()), &principal.into())
    }

    #[test]
    fn a_principal_a_tenant_and_all_together_have_a_bound() {
        let room = Arc::new(Room::default());
        let ada: Vec<Place> = (0..OF_PRINCIPAL).map(|_| take(&room, "acme", "ada").unwrap()).collect();
        assert!(take(&room, "acme", "ada").is_none());
        // The same name elsewhere is somebody else.
        let mut others = vec![take(&room, "globex", "ada").unwrap()];
        others.extend((OF_PRINCIPAL..OF_TENANT).map(|n| take(&room, "acme", &n.to_string()).unwrap()));
        assert!(take(&room, "acme", "bob").is_none());
        others.extend((OF_TENANT + 1..IN_ALL).map(|n| take(&room, &n.to_string(), "ada").unwrap()));
        assert!(take(&room, "initech", "ada").is_none());
        drop((ada, others));
        let taken = room.taken();
        assert!(taken.tenants.is_empty(), "who has nothing there is forgotten");
        assert_eq!((taken.calls, taken.bytes), (0, 0));
    }

    #[test]
    fn bytes_are_bounded_and_given_back() {
        let room = Arc::new(Room::default());
        let (mut one, mut two) = (take(&room, "acme", "ada").unwrap(), take(&room, "acme", "bob").unwrap());
        assert!(one.fill(BYTES_OF_TENANT) && !two.fill(1) && one.fill(BYTES_OF_TENANT - 1) && two.fill(1));
        let mut elsewhere = take(&room, "globex", "ada").unwrap();
        assert!(elsewhere.fill(BYTES_OF_TENANT));
        drop(one);
        assert_eq!(room.taken().bytes, BYTES_OF_TENANT + 1);
    }
}
