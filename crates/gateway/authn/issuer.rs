//! An issuer whose tokens are accepted: what they must look like, and whose keys they are checked with.

use std::sync::Arc;

use admission::TenantId;
use config::Algorithm;

use super::jwks::Jwks;

/// One issuer, compiled from the configuration.
pub(super) struct Issuer {
    /// The `iss` of its tokens.
    pub(super) name: Arc<str>,
    /// Whom it vouches for.
    pub(super) realm: Realm,
    /// The `aud` of its tokens, when that is not the URL of the endpoint.
    pub(super) audience: Option<Box<str>>,
    /// How its tokens may be signed.
    pub(super) algorithms: Vec<Algorithm>,
    /// What every token must carry (spec A-04).
    pub(super) scopes: Box<[Box<str>]>,
    /// The claim that names the principal.
    pub(super) principal_claim: String,
    /// The claim that lists the groups.
    pub(super) groups_claim: String,
}

/// Whom an issuer vouches for.
pub(super) enum Realm {
    /// Principals of the one tenant that trusts it; nobody else does (spec A-03).
    Tenant(TenantId, Arc<Jwks>),
    /// We are the issuer: our tokens name their tenant, and our key is in the store.
    Ours,
}

impl Issuer {
    /// The gateway itself.
    pub(super) fn ourselves() -> Issuer {
        Issuer {
            name: config::LOCAL_ISSUER.into(),
            realm: Realm::Ours,
            audience: None,
            algorithms: vec![Algorithm::EdDSA],
            scopes: Box::default(),
            principal_claim: "sub".to_owned(),
            groups_claim: "groups".to_owned(),
        }
    }
}
