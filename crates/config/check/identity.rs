//! Who may ask: the `identity` of a tenant.

use std::sync::Arc;

use url::Url;

use super::Checker;
use super::process::beside;
use crate::address::is_loopback;
use crate::credential::Scope;
use crate::model::{Identity, Introspection, Issuer, IssuerClaims, JwksSource, TokenProof};
use crate::problem::Place;
use crate::raw;
use crate::reader::At;

impl Checker<'_> {
    /// What proves a principal, beside tokens of issuers that are `shared`. Nobody being able to prove anything is a
    /// mistake, not a way to close a tenant.
    pub(super) fn identity(&mut self, raw: &At<raw::Identity>, shared: &[Issuer]) -> Identity {
        let written = raw.issuers();
        self.issuers_once(&written);
        self.one_introspection(&written);
        let issuers: Vec<Issuer> = written.iter().filter_map(|issuer| self.issuer(issuer)).collect();
        let identity = Identity { issuers, keys: raw.keys(), local: raw.local() };
        let nobody = written.is_empty() && shared.is_empty() && !identity.keys && !identity.local;
        if nobody && !self.told(&raw.place, &raw.place.path) {
            let message = "nobody could be identified: no issuer, no API keys, no local tokens".to_owned();
            self.error(&raw.place, message, "add an issuer, or leave `keys` or `local` on");
        }
        identity
    }

    /// Issuers of tokens for any tenant: each token must say for which.
    pub(super) fn shared_issuers(&mut self, raw: &raw::Process) -> Vec<Issuer> {
        let written = raw.shared_issuers();
        self.issuers_once(&written);
        for issuer in &written {
            let claims = issuer.value.claims.as_ref();
            let path = format!("{}.claims", issuer.place.path);
            if claims.is_none_or(|claims| claims.value.tenant.is_none()) && !self.told(&issuer.place, &path) {
                let message =
                    "a shared issuer without `claims.tenant`: nobody knows for which tenant its tokens are";
                let hint =
                    "name the claim that holds the name of the tenant, or move the issuer into a tenant file";
                self.error(&issuer.place, message.to_owned(), hint);
            }
        }
        self.one_introspection(&written);
        written.iter().filter_map(|issuer| self.issuer(issuer)).collect()
    }

    fn issuer(&mut self, raw: &At<raw::Issuer>) -> Option<Issuer> {
        if let Some(At { place, .. }) = raw.algorithms.as_ref().filter(|list| list.value.is_empty()) {
            let hint = "name what the issuer signs with, or remove the key";
            self.error(place, "no algorithm: no token could be accepted".to_owned(), hint);
        }
        let proof = self.proof(raw);
        let claims = raw.claims();
        let texts = |scopes: Vec<At<Scope>>| scopes.into_iter().map(|scope| scope.value.0);
        Some(Issuer {
            issuer: Arc::from(raw.issuer.as_ref()?.value.0.as_str()),
            proof: proof?,
            audience: raw.audience.as_ref().map(|audience| audience.value.0.clone()),
            algorithms: raw.algorithms().into_iter().map(|algorithm| algorithm.value.0).collect(),
            leeway: raw.leeway().0,
            claims: IssuerClaims {
                principal: claims.principal().0,
                groups: claims.groups().0,
                scopes: claims.scopes.map(|claim| claim.value.0),
                tenant: claims.tenant.map(|claim| claim.value.0),
            },
            scopes: texts(raw.scopes()).chain(texts(raw.required_scopes())).collect(),
            required_scopes: texts(raw.required_scopes()).collect(),
            hierarchy: self.hierarchy(raw),
        })
    }

    /// A token is proved in one way.
    fn proof(&mut self, raw: &At<raw::Issuer>) -> Option<TokenProof> {
        let Some(asked) = &raw.introspection else { return self.keys(raw) };
        let unused = [
            ("jwks", raw.jwks.as_ref().map(|written| &written.place)),
            ("algorithms", raw.algorithms.as_ref().map(|written| &written.place)),
        ];
        for (name, place) in unused.into_iter().filter_map(|(name, place)| Some((name, place?))) {
            let message = format!(
                "`introspection` and `{name}` exclude each other: the issuer is asked, no signature is checked"
            );
            self.error(place, message, "keep one of them");
        }
        let url = asked.value.url.as_ref().map(|url| url.value.0.clone());
        if url.is_none() && !self.told(&asked.place, &format!("{}.url", asked.place.path)) {
            self.by_metadata(raw, &asked.place, "url")?;
        }
        self.plain_secret(asked.value.client_secret.as_ref()?);
        Some(TokenProof::Introspection(Introspection {
            url,
            client_id: asked.value.client_id.as_ref()?.value.0.clone(),
            client_secret: asked.value.client_secret.as_ref()?.value.0.clone(),
            cache: asked.value.cache().0,
        }))
    }

    /// Whoever can change the keys on their way can sign any token.
    fn keys(&mut self, raw: &At<raw::Issuer>) -> Option<TokenProof> {
        let Some(written) = &raw.jwks else {
            if self.told(&raw.place, &format!("{}.jwks", raw.place.path)) {
                return None;
            }
            return self.by_metadata(raw, &raw.place, "jwks").map(TokenProof::KeysOfMetadata);
        };
        Some(TokenProof::Keys(match &written.value.0 {
            JwksSource::File(path) => JwksSource::File(beside(&written.place, path)),
            JwksSource::Url(url) => {
                if url.scheme() != "https" && !is_loopback(url) {
                    let message = format!(
                        "`{}` is no https URL: its keys could be replaced on the way",
                        written.place.written()
                    );
                    self.error(&written.place, message, "write https, or keep the keys in a file");
                }
                JwksSource::Url(url.clone())
            }
        }))
    }

    /// The URL of the issuer, whose metadata say what is not written.
    fn by_metadata(&mut self, raw: &At<raw::Issuer>, place: &Place, missing: &str) -> Option<Url> {
        let issuer = raw.issuer.as_ref()?;
        let url = Url::parse(&issuer.value.0).ok().filter(|url| {
            (url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url)))
                && url.query().is_none()
                && url.fragment().is_none()
        });
        if url.is_none() {
            let message = format!(
                "the key `{missing}` is missing, and `{}` is no https URL where metadata could say it",
                issuer.place.written()
            );
            self.error(place, message, &format!("add `{missing}: …`"));
        }
        url
    }

    /// What holds what. A scope that holds itself is a mistake that does no harm.
    fn hierarchy(&mut self, raw: &At<raw::Issuer>) -> Vec<(String, Vec<String>)> {
        let entries = raw.scope_hierarchy().entries.into_iter();
        entries
            .filter_map(|(scope, held)| {
                let held = held?.value.into_iter().map(|scope| scope.value.0).collect();
                Some((scope.value.0, held))
            })
            .collect()
    }

    /// Of a token that says nothing it must be clear who is asked.
    fn one_introspection(&mut self, issuers: &[At<raw::Issuer>]) {
        for asked in issuers.iter().filter_map(|issuer| issuer.value.introspection.as_ref()).skip(1) {
            let message = "a second issuer with `introspection`: nobody knows which one to ask about a token";
            self.error(&asked.place, message.to_owned(), "keep one of them");
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
