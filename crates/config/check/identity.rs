//! Who may ask: the `identity` of a tenant.

use std::sync::Arc;

use super::Checker;
use super::process::beside;
use crate::address::is_loopback;
use crate::model::{Identity, Issuer, JwksSource};
use crate::raw;
use crate::reader::At;

impl Checker<'_> {
    /// What proves a principal. Nobody being able to prove anything is a mistake, not a way to close a tenant.
    pub(super) fn identity(&mut self, raw: &At<raw::Identity>) -> Identity {
        let written = raw.issuers();
        self.issuers_once(&written);
        let issuers: Vec<Issuer> = written.iter().filter_map(|issuer| self.issuer(issuer)).collect();
        let identity = Identity { issuers, keys: raw.keys(), local: raw.local() };
        let nobody = written.is_empty() && !identity.keys && !identity.local;
        if nobody && !self.told(&raw.place, &raw.place.path) {
            let message = "nobody could be identified: no issuer, no API keys, no local tokens".to_owned();
            self.error(&raw.place, message, "add an issuer, or leave `keys` or `local` on");
        }
        identity
    }

    fn issuer(&mut self, raw: &At<raw::Issuer>) -> Option<Issuer> {
        if let Some(At { place, .. }) = raw.algorithms.as_ref().filter(|list| list.value.is_empty()) {
            let hint = "name what the issuer signs with, or remove the key";
            self.error(place, "no algorithm: no token could be accepted".to_owned(), hint);
        }
        let jwks = self.jwks(raw);
        let claims = raw.claims();
        Some(Issuer {
            issuer: Arc::from(raw.issuer.as_ref()?.value.0.as_str()),
            jwks: jwks?,
            audience: raw.audience.as_ref().map(|audience| audience.value.0.clone()),
            algorithms: raw.algorithms().into_iter().map(|algorithm| algorithm.value.0).collect(),
            principal_claim: claims.principal().0,
            groups_claim: claims.groups().0,
            scopes: raw
                .scopes()
                .into_iter()
                .chain(raw.required_scopes())
                .map(|scope| scope.value.0)
                .collect(),
            required_scopes: raw.required_scopes().into_iter().map(|scope| scope.value.0).collect(),
        })
    }

    /// Whoever can change the keys on their way can sign any token.
    fn jwks(&mut self, raw: &raw::Issuer) -> Option<JwksSource> {
        let written = raw.jwks.as_ref()?;
        match &written.value.0 {
            JwksSource::File(path) => Some(JwksSource::File(beside(&written.place, path))),
            JwksSource::Url(url) => {
                if url.scheme() != "https" && !is_loopback(url) {
                    let message = format!(
                        "`{}` is no https URL: its keys could be replaced on the way",
                        written.place.written()
                    );
                    self.error(&written.place, message, "write https, or keep the keys in a file");
                }
                Some(JwksSource::Url(url.clone()))
            }
        }
    }

    fn issuers_once(&mut self, issuers: &[At<raw::Issuer>]) {
        let mut seen: Vec<&str> = Vec::new();
        for name in issuers.iter().filter_map(|issuer| issuer.value.issuer.as_ref()) {
            if seen.contains(&name.value.0.as_str()) {
                let message = format!("duplicate issuer `{}`", name.place.written());
                self.error(&name.place, message, "keep one of them");
            }
            seen.push(&name.value.0);
        }
    }
}
