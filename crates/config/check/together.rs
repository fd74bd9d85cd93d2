//! What only shows when all files are known: tenants beside each other, and the process above them.

use super::{Checker, Draft};
use crate::problem::Place;
use crate::raw;
use crate::reader::At;

impl Checker<'_> {
    /// The tenants are told apart: by name, by identity, by issuer.
    pub(super) fn tenants_together(&mut self, drafts: &[Draft<raw::Tenant>]) {
        self.names_once(drafts);
        self.issuers_apart(drafts);
        if drafts.len() < 2 {
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
        let without = drafts.iter().find(|draft| self.anonymous(draft));
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

    /// A token belongs to one tenant: its issuer says which.
    fn issuers_apart(&mut self, drafts: &[Draft<raw::Tenant>]) {
        let mut seen: Vec<(String, &Place)> = Vec::new();
        for draft in drafts {
            let Some(identity) = draft.raw.as_ref().and_then(|raw| raw.identity.as_ref()) else { continue };
            let mut here = Vec::new();
            for issuer in identity.issuers.iter().flat_map(|issuers| &issuers.value) {
                let Some(name) = &issuer.issuer else { continue };
                if let Some((_, first)) = seen.iter().find(|(other, _)| *other == name.value.0) {
                    let hint = format!(
                        "it is an issuer of `{}` already; keep one of them",
                        first.source.path.display()
                    );
                    let message = format!(
                        "the issuer `{}` of two tenants: its tokens would belong to both",
                        name.place.written()
                    );
                    self.error(&name.place, message, &hint);
                }
                here.push((name.value.0.clone(), &name.place));
            }
            seen.append(&mut here);
        }
    }
}

impl Draft<raw::Tenant> {
    /// Where the name of the tenant stands, or should.
    fn name_place(&self) -> Place {
        let name = self.raw.as_ref().and_then(|raw| raw.tenant.as_ref());
        name.map_or_else(|| Place::top(&self.source), |name| name.place.clone())
    }
}
