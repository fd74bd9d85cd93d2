//! Between the sessions of a seat and its servers: how much is logged, and who hears what was logged outside of any
//! request.

use std::sync::Arc;

use config::Share;
use upstream::{Seat, Upstream};
use wire::{Frame, Pieces};

use super::{Level, level_of, shown};
use crate::{
    catalog::{Catalog, Source},
    gateway::Gateway,
    router::{Router, seat, seat_key},
    session::{Session, Sessions},
    subscriptions::Place,
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
        let most = wanted(sessions, catalog, &upstream);
        upstream.want(most.map(Level::word));
    }
}

/// How much the sessions want to hear that use this server. Those of a principal are few; of all who share a server only
/// their number is looked at.
fn wanted(sessions: &Sessions, catalog: &Catalog, upstream: &Upstream) -> Option<Level> {
    let (seat, id) = (upstream.seat(), &upstream.spec().id);
    let source = &catalog.source(id)?;
    match seat {
        Seat::Shared if source.config.share == Share::Tenant => {
            let views = catalog.views();
            let concerned = views.iter().filter(|view| view.upstreams.contains(id));
            sessions.least(&catalog.tenant, concerned.map(|view| &view.server))
        }
        // It feeds the lists, and nobody hears it.
        Seat::Shared => None,
        Seat::Principal(_) | Seat::Session(_) => {
            let place = Place::of(upstream);
            let concerned = concerned(sessions, catalog, source, &place);
            concerned.iter().filter_map(|session| session.hearing.wanted()).min()
        }
    }
}

/// Passes on what a server logged outside of any request: to the sessions of the one principal it serves. What may be
/// anybody's is nobody's (spec U-16). Whether anybody hears it.
pub(crate) fn deliver(gateway: &Gateway, catalog: &Catalog, at: &Place, message: &Frame) -> bool {
    let (Some(level), Some(source)) = (level_of(message), catalog.source(&at.upstream)) else {
        return false;
    };
    let mut sessions = concerned(&gateway.sessions, catalog, &source, at);
    let checks = &gateway.snapshot.load().checks;
    // Its process may outlive what its principal may see of it.
    sessions.retain(|session| {
        let view = catalog.view(&session.server);
        view.is_some_and(|view| view.is_known(&at.upstream, checks, &session.speaker()))
    });
    let hear: Vec<_> = sessions.iter().filter(|session| session.hearing.hears(level, &at.upstream)).collect();
    if hear.is_empty() {
        return false;
    }
    let Some(shown) = shown(message, &source.spec).map(Pieces::one) else { return false };
    hear.into_iter().filter(|session| session.tell(&shown)).count() > 0
}

/// The sessions that this server serves and no other of their principal's does.
fn concerned(sessions: &Sessions, catalog: &Catalog, source: &Source, at: &Place) -> Vec<Arc<Session>> {
    let mut all = sessions.of_seat(&catalog.tenant, &at.seat);
    all.retain(|session| {
        seat(source.config.share, &Visit::Within(Arc::clone(session))) == at.seat
            && session.offers.get(session.client(), session.revision, source.reach).declared() == at.declared
            && catalog.view(&session.server).is_some_and(|view| view.upstreams.contains(&at.upstream))
    });
    all
}
