//! The `identity` of every tenant → one table of who is accepted where.

use std::{collections::HashMap, io, sync::Arc};

use admission::TenantId;
use config::{Config, JwksSource, LOCAL_ISSUER, Tenant};
use quick_cache::sync::Cache;
use url::Url;

use super::{
    Watched,
    identity::{Accepts, Identity, VERIFIED},
    issuer::{Issuer, Realm},
    jwks::{self, Fetcher, Jwks, JwksError, Origin},
};
use crate::{
    metadata::{Addresses, is_asked_for},
    tokens::Known,
};

/// Why nobody can be identified, so that the gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Several tenants, one of them open: everybody would be in it.
    #[error("tenant `{0}` has no `identity`: with several tenants every one needs it")]
    NoIdentity(Arc<str>),
    /// There is no tenant.
    #[error("no tenant is configured: write a tenant file and name it under `tenants`")]
    NoTenant,
    /// Two tenants trust one issuer, or one trusts it twice, or takes our own name for another's.
    #[error("issuer `{0}` is configured twice: an issuer belongs to one tenant")]
    SameIssuer(Arc<str>),
    /// Keys fetched in the clear are anybody's keys.
    #[error("the keys of issuer `{0}` would be fetched in the clear: use an https URL")]
    InTheClear(Arc<str>),
    /// The keys in a file cannot be used.
    #[error("the keys of issuer `{issuer}` cannot be read: {why}")]
    Keys {
        /// Whose.
        issuer: Arc<str>,
        /// Why.
        #[source]
        why: JwksError,
    },
    /// TLS has no authorities to trust.
    #[error("no certificate authorities are installed, so no keys can be fetched over https: {0}")]
    Authorities(#[source] io::Error),
}

/// Compiles every tenant's identity.
pub(super) fn identity(
    config: &Config,
    known: &Arc<Known>,
    before: &[Watched],
) -> Result<Identity, IdentityError> {
    let mut accepts = HashMap::new();
    let mut issuers: HashMap<Arc<str>, Issuer> = HashMap::new();
    let mut fetcher = None;
    for tenant in &config.tenants {
        let identity =
            tenant.identity.as_ref().ok_or_else(|| IdentityError::NoIdentity(Arc::clone(&tenant.name)))?;
        accepts.insert(Arc::clone(&tenant.name), Accepts { keys: identity.keys, local: identity.local });
        for wanted in &identity.issuers {
            let name = Arc::clone(&wanted.issuer);
            let issuer = issuer(tenant, wanted, before, &mut fetcher)?;
            // INVARIANT: an issuer speaks for one tenant, and nobody else for us.
            if *name == *LOCAL_ISSUER || issuers.insert(Arc::clone(&name), issuer).is_some() {
                return Err(IdentityError::SameIssuer(name));
            }
        }
    }
    if accepts.is_empty() {
        return Err(IdentityError::NoTenant);
    }
    if accepts.values().any(|accepts| accepts.local) {
        issuers.insert(LOCAL_ISSUER.into(), Issuer::ourselves());
    }
    Ok(Identity {
        accepts,
        issuers,
        addresses: Addresses::new(config),
        known: Arc::clone(known),
        verified: Cache::new(VERIFIED),
    })
}

fn issuer(
    tenant: &Tenant,
    wanted: &config::Issuer,
    before: &[Watched],
    fetcher: &mut Option<Arc<Fetcher>>,
) -> Result<Issuer, IdentityError> {
    let name = Arc::clone(&wanted.issuer);
    let origin = match &wanted.jwks {
        JwksSource::File(path) => Origin::File(path.clone()),
        JwksSource::Url(url) if !is_private(url) => return Err(IdentityError::InTheClear(name)),
        JwksSource::Url(url) => {
            let fetcher = match fetcher {
                Some(fetcher) => fetcher,
                None => fetcher.insert(jwks::fetcher().map_err(IdentityError::Authorities)?),
            };
            Origin::Url(url.clone(), Arc::clone(fetcher))
        }
    };
    // Keys that were read are not asked for again, and nobody is locked out meanwhile.
    let read = before.iter().find(|Watched(jwks)| *jwks.issuer() == name && jwks.is_read_from(&origin));
    let jwks = match read {
        Some(Watched(jwks)) => Arc::clone(jwks),
        None => Arc::new(Jwks::new(Arc::clone(&name), origin)),
    };
    jwks.prime().map_err(|why| IdentityError::Keys { issuer: Arc::clone(&name), why })?;
    Ok(Issuer {
        name,
        realm: Realm::Tenant(TenantId::new(Arc::clone(&tenant.name)), jwks),
        audience: wanted.audience.as_deref().map(Into::into),
        algorithms: wanted.algorithms.clone(),
        scopes: wanted
            .required_scopes
            .iter()
            .filter(|scope| is_asked_for(scope))
            .map(|scope| scope.as_str().into())
            .collect(),
        principal_claim: wanted.principal_claim.clone(),
        groups_claim: wanted.groups_claim.clone(),
    })
}

/// Encrypted, or never on a wire.
fn is_private(url: &Url) -> bool {
    url.scheme() == "https"
        || match url.host() {
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => false,
        }
}
