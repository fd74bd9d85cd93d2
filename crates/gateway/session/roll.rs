//! Who has which sessions: by tenant, then by principal. What one principal does or hears is found without looking at
//! anybody else's.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use admission::{Principal, TenantId};

use super::{Session, lock};
use crate::{logging::Level, router::seat_key};

/// All sessions, those that are about to open included.
#[derive(Debug, Default)]
pub(super) struct Roll(Mutex<Rolls>);

#[derive(Debug, Default)]
struct Rolls {
    tenants: HashMap<TenantId, Tenant>,
    /// Sessions that are open or about to be.
    places: usize,
}

#[derive(Debug, Default)]
struct Tenant {
    /// By the principal's name within its tenant.
    owners: HashMap<Arc<str>, Owner>,
    /// Those that are open, by name.
    open: HashMap<Arc<str>, Arc<Session>>,
    /// By virtual server: how many sessions have asked for each level.
    levels: HashMap<Arc<str>, [usize; Level::COUNT]>,
}

#[derive(Debug, Default)]
struct Owner {
    /// Sessions that are open or about to be.
    places: usize,
    open: Vec<Arc<Session>>,
}

/// Which bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// That of the principal.
    Principal,
    /// That of all together.
    All,
}

/// A session's place among those that there may be. Given back when the session ends, or was never opened.
#[derive(Debug)]
pub(super) struct Seated {
    roll: Arc<Roll>,
    tenant: TenantId,
    owner: Arc<str>,
}

impl Roll {
    /// Takes a place for a session that is about to open: counted here and now, so that no two share the last one.
    ///
    /// # Errors
    /// When one of the bounds is reached.
    pub(super) fn take(
        self: &Arc<Self>,
        principal: &Principal,
        (own, all): (usize, usize),
    ) -> Result<Seated, Full> {
        let owner = seat_key(principal);
        let mut rolls = self.rolls();
        if rolls.places >= all {
            return Err(Full::All);
        }
        let tenant = rolls.tenants.entry(principal.tenant.clone()).or_default();
        let places = tenant.owners.get(&owner).map_or(0, |owner| owner.places);
        if places >= own {
            return Err(Full::Principal);
        }
        tenant.owners.entry(Arc::clone(&owner)).or_default().places += 1;
        rolls.places += 1;
        drop(rolls);
        Ok(Seated { roll: Arc::clone(self), tenant: principal.tenant.clone(), owner })
    }

    /// A session is open.
    pub(super) fn enter(&self, session: &Arc<Session>) {
        let mut rolls = self.rolls();
        let tenant = rolls.tenants.entry(session.principal.tenant.clone()).or_default();
        tenant.open.insert(Arc::clone(&session.name), Arc::clone(session));
        tenant.owners.entry(seat_key(&session.principal)).or_default().open.push(Arc::clone(session));
    }

    /// A session is over.
    pub(super) fn leave(&self, session: &Session) {
        let mut rolls = self.rolls();
        let Some(tenant) = rolls.tenants.get_mut(&session.principal.tenant) else { return };
        if tenant.open.remove(&session.name).is_none() {
            return;
        }
        if let Some(owner) = tenant.owners.get_mut(&seat_key(&session.principal)) {
            owner.open.retain(|one| one.name != session.name);
        }
        tenant.count(session, session.hearing.wanted(), None);
    }

    /// A session wants to hear from this level on.
    pub(super) fn want(&self, session: &Session, level: Level) {
        let mut rolls = self.rolls();
        let before = session.hearing.want(level);
        // One that has ended meanwhile is not counted any more.
        if let Some(tenant) = rolls.tenants.get_mut(&session.principal.tenant)
            && tenant.open.contains_key(&session.name)
        {
            tenant.count(session, before, Some(level));
        }
    }

    /// The least severe level that a session at one of these virtual servers has asked for.
    pub(super) fn least<'a>(
        &self,
        tenant: &TenantId,
        servers: impl Iterator<Item = &'a Arc<str>>,
    ) -> Option<Level> {
        let rolls = self.rolls();
        let levels = &rolls.tenants.get(tenant)?.levels;
        let counts = servers.filter_map(|server| levels.get(server));
        let places = counts.filter_map(|counts| counts.iter().position(|count| *count > 0));
        places.min().and_then(Level::at)
    }

    /// The sessions of one principal, by its name within its tenant.
    pub(super) fn of_owner(&self, tenant: &TenantId, owner: &str) -> Vec<Arc<Session>> {
        let rolls = self.rolls();
        let owner = rolls.tenants.get(tenant).and_then(|tenant| tenant.owners.get(owner));
        owner.map_or_else(Vec::new, |owner| owner.open.clone())
    }

    /// The session of this name.
    pub(super) fn named(&self, tenant: &TenantId, name: &str) -> Option<Arc<Session>> {
        self.rolls().tenants.get(tenant)?.open.get(name).cloned()
    }

    /// The sessions at one virtual server.
    pub(super) fn at(&self, tenant: &TenantId, server: &str) -> Vec<Arc<Session>> {
        let rolls = self.rolls();
        let open = rolls.tenants.get(tenant).into_iter().flat_map(|tenant| tenant.open.values());
        open.filter(|session| *session.server == *server).cloned().collect()
    }

    /// The sessions of the tenant that has the most.
    pub(super) fn of_greediest(&self) -> Vec<Arc<Session>> {
        let rolls = self.rolls();
        let greediest = rolls.tenants.values().max_by_key(|tenant| tenant.open.len());
        greediest.map_or_else(Vec::new, |tenant| tenant.open.values().cloned().collect())
    }

    fn rolls(&self) -> MutexGuard<'_, Rolls> {
        lock(&self.0)
    }
}

impl Tenant {
    /// A session wants this level instead of that.
    fn count(&mut self, session: &Session, before: Option<Level>, after: Option<Level>) {
        if before.is_none() && after.is_none() {
            return;
        }
        let counts = self.levels.entry(Arc::clone(&session.server)).or_default();
        if let Some(count) = before.and_then(|level| counts.get_mut(level as usize)) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = after.and_then(|level| counts.get_mut(level as usize)) {
            *count += 1;
        }
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        let mut rolls = self.roll.rolls();
        rolls.places -= 1;
        if let Some(tenant) = rolls.tenants.get_mut(&self.tenant)
            && let Some(owner) = tenant.owners.get_mut(&self.owner)
        {
            owner.places -= 1;
            if owner.places == 0 && owner.open.is_empty() {
                tenant.owners.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::session_of;

    fn principal(session: &Session) -> &Principal {
        &session.principal
    }

    #[test]
    fn a_principal_has_no_more_places_than_it_may_and_a_draft_that_is_dropped_gives_its_own_back() {
        let roll = Arc::<Roll>::default();
        let (ada, bob) = (session_of("ada", "1"), session_of("bob", "2"));
        let one = roll.take(principal(&ada), (2, 3)).unwrap();
        let two = roll.take(principal(&ada), (2, 3)).unwrap();
        assert_eq!(roll.take(principal(&ada), (2, 3)).err(), Some(Full::Principal));
        let three = roll.take(principal(&bob), (2, 3)).unwrap();
        assert_eq!(roll.take(principal(&bob), (2, 3)).err(), Some(Full::All));
        drop(one);
        let again = roll.take(principal(&ada), (2, 3));
        assert!(again.is_ok());
        drop((two, three, again));
        let rolls = roll.rolls();
        assert_eq!((rolls.places, rolls.tenants.values().all(|tenant| tenant.owners.is_empty())), (0, true));
    }

    #[test]
    fn sessions_are_found_by_whose_they_are_until_they_end() {
        let roll = Arc::<Roll>::default();
        let all = [session_of("ada", "1"), session_of("ada", "2"), session_of("bob", "3")];
        all.iter().for_each(|session| roll.enter(session));
        let tenant = &all[0].principal.tenant;
        let of = |owner: &str| roll.of_owner(tenant, owner).len();
        assert_eq!((of("ada"), of("bob"), of("eve")), (2, 1, 0));
        assert_eq!(roll.at(tenant, "default").len(), 3);
        assert!(roll.named(tenant, &all[2].name).is_some());
        let other = TenantId::new("other".into());
        assert!(roll.of_owner(&other, "ada").is_empty() && roll.named(&other, &all[2].name).is_none());
        roll.leave(&all[0]);
        roll.leave(&all[0]);
        roll.leave(&all[2]);
        assert_eq!((of("ada"), of("bob"), roll.named(tenant, &all[2].name).is_none()), (1, 0, true));
    }

    #[test]
    fn the_least_level_is_that_of_the_sessions_that_are_open() {
        let roll = Arc::<Roll>::default();
        let all = [session_of("ada", "1"), session_of("bob", "2")];
        let (tenant, servers) = (&all[0].principal.tenant, [Arc::<str>::from("default")]);
        let least = || roll.least(tenant, servers.iter());
        all.iter().for_each(|session| roll.enter(session));
        assert_eq!(least(), None);
        roll.want(&all[0], Level::Error);
        roll.want(&all[1], Level::Debug);
        assert_eq!((least(), roll.least(tenant, [].iter())), (Some(Level::Debug), None));
        roll.want(&all[1], Level::Alert);
        assert_eq!(least(), Some(Level::Error));
        roll.leave(&all[0]);
        assert_eq!(least(), Some(Level::Alert));
        // Too late to count.
        roll.want(&all[0], Level::Debug);
        assert_eq!(least(), Some(Level::Alert));
    }
}
