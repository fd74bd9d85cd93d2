//! What the operator sees: upstreams, views, and everything that was left out and why.

use serde_json::{Value, json};
use upstream::{Seat, State};
use wire::Kind;

use crate::{catalog::Catalog, gateway::Gateway, limits::TenantRules};

impl Gateway {
    /// The state of everything, for `/status`. Holds no secret, no session id and no argument.
    pub fn status(&self) -> Value {
        let tenants: Vec<Value> = self.catalogs().iter().map(|catalog| self.tenant(catalog)).collect();
        json!({
            "name": "portcullis",
            "version": env!("CARGO_PKG_VERSION"),
            "state": if self.sessions.is_draining() { "draining" } else { "ready" },
            // What the files say and is not in force.
            "reload_refused": self.refused().clone(),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "identity": if self.snapshot.load().authn.is_anonymous() { "anonymous" } else { "required" },
            "issuers_without_keys": self.snapshot.load().authn.keyless_issuers(),
            "sessions": self.sessions.len(),
            "tenants": tenants,
        })
    }

    fn tenant(&self, catalog: &Catalog) -> Value {
        let states = self.router.pool.states();
        let mine = || states.iter().filter(|(spec, ..)| spec.tenant == *catalog.tenant.name());
        let terms = catalog.terms();
        let upstreams: Vec<Value> = terms
            .sources
            .values()
            .map(|source| {
                let id = &source.config.id;
                let shared = mine().find(|(spec, seat, _)| spec.id == *id && *seat == Seat::Shared);
                let seats = mine().filter(|(spec, seat, _)| spec.id == *id && *seat != Seat::Shared).count();
                let state = shared.map_or_else(|| json!({ "state": "stopped" }), |(.., state)| shown(state));
                json!({
                    "id": id,
                    "state": catalog.state(id),
                    "trust": source.config.trust.word(),
                    "connection": state,
                    "principal_processes": seats,
                    "pins": "off",
                    "remarks": catalog.remarks(id),
                })
            })
            .collect();
        let servers: Vec<Value> = catalog
            .views()
            .iter()
            .map(|view| {
                let count = |kind| view.list(kind).len();
                json!({
                    "name": view.server,
                    "upstreams": view.upstreams,
                    "absent": view.absent,
                    "tools": count(Kind::Tools),
                    "prompts": count(Kind::Prompts),
                    "resources": count(Kind::Resources),
                    "resource_templates": count(Kind::Templates),
                })
            })
            .collect();
        let snapshot = self.snapshot.load();
        let governed = snapshot.checks.policy.governs(&catalog.tenant);
        let rules = snapshot.limits.of(&catalog.tenant);
        let limit = |(name, counted)| json!({ "name": name, "counted": counted });
        let limits: Vec<Value> = rules.map(|rules| rules.named().map(limit).collect()).unwrap_or_default();
        json!({
            "name": catalog.tenant.name(),
            // Without rules everything that is shown may be called.
            "policy": if governed { "rules" } else { "none" },
            "limits": limits,
            "runaway": if rules.is_some_and(TenantRules::watches) { "watched" } else { "off" },
            "upstreams": upstreams,
            "virtual_servers": servers,
        })
    }
}

fn shown(state: &State) -> Value {
    match state {
        State::Starting { since } => json!({ "state": "starting", "seconds": since.elapsed().as_secs() }),
        State::Up { pid, since, revision } => json!({
            "state": "up",
            "pid": pid,
            "seconds": since.elapsed().as_secs(),
            "revision": revision.text(),
        }),
        State::Waiting { why, failures, .. } => {
            json!({ "state": "waiting", "why": why, "failures": failures })
        }
        State::Stopped => json!({ "state": "stopped" }),
    }
}
