//! What only shows when all files are known: tenants beside each other, and the process above them.

use super::{Checker, Draft};
use crate::problem::Place;
use crate::raw;
use crate::reader::At;

impl Checker<'_> {
    /// The tenants are told apart: by name, by identity, by issuer.
    pub(super) fn tenants_together(&mut self, process: &raw::Process, drafts: &[Draft<raw::Tenant>]) {
        self.names_once(drafts);
        self.issuers_apart(process, drafts);
        if drafts.len() < 2 || has_shared_issuers(process) {
            return;
        }
        for draft in drafts.iter().filter(|draft| draft.raw.is_some()) {
            if self.anonymous(draft) {
                let message =
                    "several tenants need `identity` to tell them apart, and this one has none".to_owned();
                self.error(&draft.name_place(), message, "add `identity`, or keep one tenant file");
            }
        }
    }

    /// Off loopback everyone asks, so everyone must say who they are, and for whom their token was issued. `found`
    /// says whether there are tenant files.
    pub(super) fn reachable(
        &mut self,
        process: &At<raw::Process>,
        drafts: &[Draft<raw::Tenant>],
        found: bool,
    ) {
        let listen = process.listen.as_ref().filter(|listen| !listen.value.0.ip().is_loopback());
        let Some(At { place, .. }) = listen else { return };
        let written = place.written();
        let without = drafts.iter().find(|draft| !has_shared_issuers(process) && self.anonymous(draft));
        if without.is_some() || !found {
            let message = format!(
                "`{written}` is not a loopback address, and without `identity` everyone who reaches it could call every tool"
            );
            let hint = match without {
                Some(draft) => {
                    format!("add `identity` to `{}`, or listen on 127.0.0.1", draft.source.path.display())
                }
                None => "add a tenant file with `identity`, or listen on 127.0.0.1".to_owned(),
            };
            self.error(place, message, &hint);
        }
        if process.public_url.is_none() && !self.told(&process.place, "public_url") {
            let message = format!(
                "`{written}` is not a loopback address, and `public_url` is missing: tokens are issued for it"
            );
            self.error(place, message, "add `public_url: https://…`, the URL that clients use");
        }
    }

    /// Whether a tenant has no identity. What could not be read may have one: its problem stops the start anyhow.
    fn anonymous(&self, draft: &Draft<raw::Tenant>) -> bool {
        let none = draft.raw.as_ref().is_some_and(|raw| raw.identity.is_none());
        none && !self.told(&Place::top(&draft.source), "identity")
    }

    fn names_once(&mut self, drafts: &[Draft<raw::Tenant>]) {
        let mut seen: Vec<(&str, &Place)> = Vec::new();
        for draft in drafts {
            let Some(name) = draft.raw.as_ref().and_then(|raw| raw.tenant.as_ref()) else { continue };
            let first = seen.iter().find(|(other, _)| *other == name.value.0);
            if let Some((_, first)) = first {
                let hint = format!("it is the tenant of `{}` already", first.source.path.display());
                self.error(&name.place, format!("duplicate tenant `{}`", name.value.0), &hint);
            }
            seen.push((&name.value.0, &name.place));
        }
    }

    /// A token belongs to one tenant: its issuer says which, or a claim that is the same one wherever the issuer stands.
    fn issuers_apart(&mut self, process: &raw::Process, drafts: &[Draft<raw::Tenant>]) {
        let shared = process.shared_issuers.iter().flat_map(|issuers| &issuers.value);
        let mut seen: Vec<Named<'_>> = shared.filter_map(Named::of).collect();
        let first_of_tenants = seen.len();
        for draft in drafts {
            let Some(identity) = draft.raw.as_ref().and_then(|raw| raw.identity.as_ref()) else { continue };
            let here: Vec<Named<'_>> =
                identity.issuers.iter().flat_map(|issuers| &issuers.value).filter_map(Named::of).collect();
            for issuer in &here {
                let Some(at) = seen.iter().position(|other| other.name == issuer.name) else { continue };
                let Some(first) = seen.get(at) else { continue };
                let place = issuer.place;
                let name = place.written();
                if at < first_of_tenants {
                    let message = format!("the issuer `{name}` is a shared one already");
                    self.error(place, message, "keep one of them");
                } else if issuer.tenant.is_none() || issuer.tenant != first.tenant {
                    let hint = format!(
                        "it is an issuer of `{}` already; keep one of them, or name the same `claims.tenant` in both",
                        first.place.source.path.display()
                    );
                    let message =
                        format!("the issuer `{name}` of two tenants: its tokens would belong to both");
                    self.error(place, message, &hint);
                }
            }
            seen.extend(here);
        }
    }
}

/// An issuer by its name, and the claim that holds the tenant of its tokens.
struct Named<'a> {
    name: &'a str,
    tenant: Option<&'a str>,
    place: &'a Place,
}

impl<'a> Named<'a> {
    fn of(issuer: &'a At<raw::Issuer>) -> Option<Named<'a>> {
        let name = issuer.value.issuer.as_ref()?;
        let claims = issuer.value.claims.as_ref().and_then(|claims| claims.value.tenant.as_ref());
        Some(Named {
            name: &name.value.0,
            tenant: claims.map(|claim| claim.value.0.as_str()),
            place: &name.place,
        })
    }
}

fn has_shared_issuers(process: &raw::Process) -> bool {
    process.shared_issuers.as_ref().is_some_and(|issuers| !issuers.value.is_empty())
}

impl Draft<raw::Tenant> {
    /// Where the name of the tenant stands, or should.
    fn name_place(&self) -> Place {
        let name = self.raw.as_ref().and_then(|raw| raw.tenant.as_ref());
        name.map_or_else(|| Place::top(&self.source), |name| name.place.clone())
    }
}
