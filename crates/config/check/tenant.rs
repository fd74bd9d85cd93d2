//! One tenant: a file of `tenants/`.

use std::sync::Arc;

use super::Checker;
use crate::model::{Asks, Issuer, Tenant, Upstream};
use crate::raw;
use crate::reader::At;

impl Checker<'_> {
    /// The tenant; `None` when it has no name to go by.
    pub(super) fn tenant(&mut self, raw: &At<raw::Tenant>, shared: &[Issuer]) -> Option<Tenant> {
        let upstreams = self.upstreams(raw);
        let virtual_servers = self.virtual_servers(raw, &upstreams);
        let identity = match &raw.identity {
            Some(identity) => Some(self.identity(identity, shared)),
            // Tokens of the shared issuers tell people apart, so nobody is anonymous.
            None if !shared.is_empty() => Some(self.identity(&At::nowhere(raw::Identity::default()), shared)),
            None => None,
        };
        let policy = self.policy(raw, &upstreams, &virtual_servers);
        let limits = self.limits(raw, &upstreams);
        let name = raw.tenant.as_ref()?;
        if raw.policies.is_none() {
            let message = format!(
                "tenant `{}` has no `policies`: whatever its filters show may be called",
                name.value.0
            );
            self.warn(&name.place, message, "name a file of rules: `policies: [policies/NAME.yaml]`");
        }
        self.deprecated(raw);
        Some(Tenant {
            name: Arc::from(name.value.0.as_str()),
            identity,
            upstreams,
            policy,
            limits,
            virtual_servers,
            extensions: raw.extensions().into_iter().map(|glob| glob.value.0.text).collect(),
            processes: raw.processes().0,
            allow: raw.allow().into_iter().map(|asks| asks.value.0).collect(),
            error_status: raw.error_status().0,
        })
    }

    /// What MCP gives up stays off until somebody turns it on, who is told so (spec U-17).
    fn deprecated(&mut self, raw: &raw::Tenant) {
        for asks in raw.allow() {
            let what = match asks.value.0 {
                Asks::Sampling => "sampling",
                Asks::Roots | Asks::RemoteRoots => "roots",
            };
            let message =
                format!("MCP deprecates {what} from 2026-07-28 on: a later revision will not have it");
            self.warn(&asks.place, message, "leave it out if no upstream needs it; it is carried until then");
        }
    }

    fn upstreams(&mut self, raw: &raw::Tenant) -> Vec<Upstream> {
        let Some(written) = &raw.upstreams else { return Vec::new() };
        if written.value.written == 0 {
            self.error(
                &written.place,
                "`upstreams` is empty".to_owned(),
                "add an upstream: `ID: { command: PROGRAM }` or `ID: { url: URL }`",
            );
        }
        written
            .value
            .entries
            .iter()
            .filter_map(|(id, upstream)| self.upstream(&id.value.0, upstream.as_ref()?))
            .collect()
    }
}
