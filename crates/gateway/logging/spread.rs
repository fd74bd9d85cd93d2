//! Between the sessions of a seat and its servers: how much is logged, and who hears what was logged outside of any
//! request.

use std::sync::Arc;

use upstream::{Seat, Spec};
use wire::{Frame, Pieces};

use super::{Level, level_of, shown};
use crate::{
    catalog::Catalog,
    gateway::Gateway,
    router::{Router, seat, seat_key},
    session::{Session, Sessions},
    visit::Visit,
};

/// Makes known to every server a session uses how much its clients want to hear now.
pub(crate) fn spread_from(router: &Router, sessions: &Sessions, catalog: &Catalog, session: &Session) {
    let own = Seat::Session(Arc::clone(&session.name));
    for seat in [Seat::Shared, Seat::Principal(seat_key(&session.principal)), own] {
        spread(router, sessions, catalog, &seat);
    }
}

/// Makes known to the servers of one seat how much its sessions want to hear: as much as the one that wants most
/// (spec U-14).
pub(crate) fn spread(router: &Router, sessions: &Sessions, catalog: &Catalog, seat: &Seat) {
    for upstream in router.pool.of_seat(catalog.tenant.name(), seat) {
        let concerned = concerned(sessions, catalog, seat, &upstream.spec().id);
        let most: Option<Level> = concerned.iter().filter_map(|session| session.hearing.wanted()).min();
        router.subscriptions.want(&catalog.tenant, &upstream, most);
    }
}

/// Passes on what a server logged outside of any request: to the sessions of the one principal it serves. What may be
/// anybody's is nobody's: it is kept in our own log (spec U-16).
pub(crate) fn deliver(gateway: &Gateway, spec: &Spec, at: &Seat, message: &Frame) {
    let Some(level) = level_of(message) else { return };
    let told = match at {
        Seat::Shared => false,
        Seat::Principal(_) | Seat::Session(_) => {
            let catalog =
                gateway.catalogs().into_iter().find(|catalog| *catalog.tenant.name() == spec.tenant);
            let sessions = catalog.map(|catalog| concerned(&gateway.sessions, &catalog, at, &spec.id));
            let shown = shown(message, &spec.id);
            shown.zip(sessions).is_some_and(|(shown, sessions)| {
                let shown = Pieces::one(shown);
                let hear = sessions.iter().filter(|session| session.hearing.hears(level));
                hear.filter(|session| session.tell(&shown)).count() > 0
            })
        }
    };
    if !told {
        gateway.metrics.log_message_dropped(&spec.tenant);
        let data: String = message.param("data").unwrap_or_default().chars().take(200).collect();
        tracing::debug!(
            tenant = %spec.tenant, upstream = %spec.id, level = level.word(), data, "logged by the upstream"
        );
    }
}

/// The sessions that use this seat of an upstream.
fn concerned(sessions: &Sessions, catalog: &Catalog, at: &Seat, upstream: &str) -> Vec<Arc<Session>> {
    let Some(source) = catalog.sources.get(upstream) else { return Vec::new() };
    let share = source.config.share;
    sessions.of_tenant(&catalog.tenant, |session| {
        seat(share, &Visit::Within(Arc::clone(session))) == *at
            && catalog
                .view(&session.server)
                .is_some_and(|view| view.upstreams.iter().any(|id| **id == *upstream))
    })
}
