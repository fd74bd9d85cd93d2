//! The virtual servers of a tenant.

use std::sync::Arc;

use super::Checker;
use crate::filter::Filter;
use crate::model::{Naming, Trust, Upstream, VirtualServer};
use crate::problem::Place;
use crate::raw;
use crate::reader::{At, nearest};
use crate::words::Id;

impl Checker<'_> {
    /// The virtual servers as written, and `default` in any case.
    pub(super) fn virtual_servers(
        &mut self,
        raw: &At<raw::Tenant>,
        upstreams: &[Upstream],
    ) -> Vec<VirtualServer> {
        let written = raw.virtual_servers().entries;
        let has_default = written.iter().any(|(name, _)| name.value.0 == "default");
        let mut servers: Vec<VirtualServer> = written
            .iter()
            .filter_map(|(name, server)| self.virtual_server(&name.value.0, server.as_ref()?, raw))
            .collect();
        if !has_default {
            let ids = raw.upstreams.as_ref().map(|map| names(&map.value.entries)).unwrap_or_default();
            if let Some(written) = &raw.upstreams {
                let hint = "write `virtual_servers: { default: { upstreams: […] } }` with upstreams of one tier, \
                            or with `mixed_trust: true`";
                self.one_tier(&ids, raw, &written.place, hint);
            }
            servers.insert(0, open_server("default", upstreams));
        }
        servers
    }

    fn virtual_server(
        &mut self,
        name: &str,
        server: &At<raw::VirtualServer>,
        tenant: &raw::Tenant,
    ) -> Option<VirtualServer> {
        let listed = server.upstreams.as_ref();
        if let (Some(listed), Some(known)) = (listed, &tenant.upstreams) {
            self.listed(listed, &names(&known.value.entries));
        }
        let ids: Vec<&str> =
            listed.iter().flat_map(|list| &list.value).map(|id| id.value.0.as_str()).collect();
        if let (Some(listed), false) = (listed, server.mixed_trust()) {
            let hint = "an untrusted server can steer what the model does with a trusted one: \
                        split them, or accept it with `mixed_trust: true`";
            self.one_tier(&ids, tenant, &listed.place, hint);
        }
        if let (Some(names), Naming::Bare, 2..) = (&server.names, server.names().0, ids.len()) {
            let message = format!("bare names of {} upstreams: two of them may use one name", ids.len());
            let hint = "give each upstream a virtual server of its own, or remove `names`";
            self.error(&names.place, message, hint);
        }
        let tools = self.filter(&server.tools(), &ids);
        let prompts = self.filter(&server.prompts(), &ids);
        let resources = self.filter(&server.resources(), &[]);
        Some(VirtualServer {
            name: Arc::from(name),
            upstreams: ids.iter().map(|id| Arc::from(*id)).collect(),
            tools,
            prompts,
            resources,
            mixed_trust: server.mixed_trust(),
            names: server.names().0,
        })
    }

    /// Every listed upstream exists and is listed once.
    fn listed(&mut self, listed: &At<Vec<At<Id>>>, known: &[&str]) {
        if listed.value.is_empty() {
            let message = "a virtual server without upstreams".to_owned();
            self.error(&listed.place, message, "list at least one, or remove the virtual server");
        }
        for (position, id) in listed.value.iter().enumerate() {
            let id_text = id.value.0.as_str();
            if !known.contains(&id_text) {
                let hint = match nearest(id_text, known.iter().copied()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("the upstreams of this tenant: {}", known.join(", ")),
                };
                self.error(&id.place, format!("no upstream `{id_text}`"), &hint);
            }
            let twice = listed.value.iter().take(position).any(|earlier| earlier.value.0 == id_text);
            if twice {
                self.error(
                    &id.place,
                    format!("the upstream `{id_text}` is listed twice"),
                    "keep one of them",
                );
            }
        }
    }

    /// Upstreams of several trust tiers do not stand side by side unless the operator says so.
    fn one_tier(&mut self, ids: &[&str], tenant: &raw::Tenant, place: &Place, hint: &str) {
        // A trust that could not be read has its own problem and says nothing about the tier.
        let unreadable = |problem: &crate::Problem| {
            problem.file == place.source.path
                && problem.path.starts_with("upstreams.")
                && problem.path.ends_with(".trust")
        };
        if self.problems.iter().any(unreadable) {
            return;
        }
        let tiers: Vec<(&str, Trust)> = ids.iter().filter_map(|id| Some((*id, trust(tenant, id)?))).collect();
        let Some((first, tier)) = tiers.first() else { return };
        let Some((other, other_tier)) = tiers.iter().find(|(_, other)| other != tier) else { return };
        let message =
            format!("trust tiers mix: `{first}` is {}, `{other}` is {}", tier.word(), other_tier.word());
        self.error(place, message, hint);
    }
}

fn names<T>(map: &[(At<Id>, Option<At<T>>)]) -> Vec<&str> {
    map.iter().map(|(name, _)| name.value.0.as_str()).collect()
}

fn trust(tenant: &raw::Tenant, id: &str) -> Option<Trust> {
    let map = tenant.upstreams.as_ref()?;
    let (_, upstream) = map.value.entries.iter().find(|(name, _)| name.value.0 == id)?;
    Some(upstream.as_ref()?.trust().0)
}

/// A virtual server of all these upstreams, with nothing hidden.
pub(super) fn open_server(name: &str, upstreams: &[Upstream]) -> VirtualServer {
    VirtualServer {
        name: Arc::from(name),
        upstreams: upstreams.iter().map(|upstream| Arc::clone(&upstream.id)).collect(),
        tools: Filter::default(),
        prompts: Filter::default(),
        resources: Filter::default(),
        mixed_trust: false,
        names: Naming::Prefixed,
    }
}
