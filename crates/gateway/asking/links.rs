//! Pages that clients were sent to: when a server says that a user is done, only the client hears it that was sent
//! there, by the id it was shown (spec Q-15).

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use admission::TenantId;
use upstream::{Seat, Spec};
use wire::{Change, Frame, Method, Pieces, code};

use super::question::exposed_id;
use crate::session::Session;

/// Pages of one tenant that are remembered; the oldest are forgotten first.
const MOST: usize = 1024;

/// An elicitation as its upstream knows it.
pub(crate) struct Link<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) upstream: &'a Arc<str>,
    pub(crate) seat: &'a Seat,
    pub(crate) native: &'a str,
}

/// Every page that was shown and not done with, by tenant first.
#[derive(Default)]
pub(crate) struct Links {
    tenants: Mutex<HashMap<TenantId, Shown>>,
}

type Key = (Arc<str>, Seat, Box<str>);

#[derive(Default)]
struct Shown {
    sessions: HashMap<Key, Weak<Session>>,
    /// INVARIANT: holds every key of `sessions`, and never more than there may be.
    order: VecDeque<Key>,
}

impl Link<'_> {
    fn key(&self) -> Key {
        (Arc::clone(self.upstream), self.seat.clone(), self.native.into())
    }
}

impl Links {
    /// Remembers who was sent to a page.
    pub(crate) fn shown(&self, link: &Link<'_>, session: &Arc<Session>) {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = tenants.entry(link.tenant.clone()).or_default();
        while shown.order.len() >= MOST {
            if let Some(oldest) = shown.order.pop_front() {
                shown.sessions.remove(&oldest);
            }
        }
        if shown.sessions.insert(link.key(), Arc::downgrade(session)).is_none() {
            shown.order.push_back(link.key());
        }
    }

    /// Who was sent there, once; none for an id that nobody was shown.
    fn take(&self, link: &Link<'_>) -> Option<Arc<Session>> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = tenants.get_mut(link.tenant)?;
        let key = link.key();
        let session = shown.sessions.remove(&key)?;
        shown.order.retain(|known| *known != key);
        session.upgrade()
    }

    /// Whom `notifications/elicitation/complete` of an upstream's seat concerns, and how it reads there; none for any
    /// other notification, and for an id that nobody was shown.
    pub(crate) fn completed(&self, spec: &Spec, seat: &Seat, told: &Frame) -> Option<(Arc<Session>, Pieces)> {
        if told.method() != Some(Method::ElicitationComplete) {
            return None;
        }
        let native = told.param_text("elicitationId")?;
        let tenant = TenantId::new(Arc::clone(&spec.tenant));
        let link = Link { tenant: &tenant, upstream: &spec.id, seat, native: &native };
        let session = self.take(&link)?;
        let id = code::quote(&exposed_id(&spec.id, &native));
        let changes = [Change { key: "elicitationId", value: Some(id.into()) }, NO_META];
        Some((session, Pieces::one(told.forward(None, &changes))))
    }

    /// Passes such a notification on, when it belongs to no running request.
    pub(crate) fn tell_completed(&self, spec: &Spec, seat: &Seat, told: &Frame) {
        if let Some((session, message)) = self.completed(spec, seat, told) {
            // A client without a stream learns of it when it tries again.
            let _told = session.tell(&message);
        }
    }
}

/// Nothing of the hop it came by.
const NO_META: Change<'static> = Change { key: "_meta", value: None };
