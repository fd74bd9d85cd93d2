//! The `identity` of every tenant → one table of who is accepted where.

use std::{collections::HashMap, sync::Arc};

use admission::TenantId;
use config::{Config, JwksSource, LOCAL_ISSUER, TokenProof, is_loopback};
use quick_cache::sync::Cache;
use upstream::egress::{self, Client, Destination};
use url::Url;

use super::{
    identity::{Accepts, Identity, VERIFIED},
    introspection::{self, Introspection},
    issuer::{Hierarchy, Issuer, Issuers, Proof, Realm},
    jwks::{Jwks, JwksError, Origin},
    site::Site,
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
    /// Two tenants trust one issuer whose tokens do not say for which one they are, or one trusts it twice, or takes our own
    /// name for another's.
    #[error("issuer `{0}` is configured twice, and nothing says whose its tokens are")]
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
    #[error("no issuer can be asked for its keys over https: {0}")]
    Authorities(String),
}

/// Compiles every tenant's identity.
pub(super) fn identity(
    config: &Config,
    known: &Arc<Known>,
    before: Option<&Identity>,
) -> Result<Identity, IdentityError> {
    let mut accepts = HashMap::new();
    let mut making =
        Making { client: None, keys: before.map(Identity::key_sets).unwrap_or_default(), before };
    let mut issuers = Issuers::default();
    let mut add = |wanted: &config::Issuer, realm: Realm| {
        let issuer = making.issuer(wanted, realm)?;
        let name = Arc::clone(&issuer.name);
        // INVARIANT: nobody else speaks for us.
        let is_ours = *name == *LOCAL_ISSUER;
        issuers.add(issuer).filter(|()| !is_ours).ok_or(IdentityError::SameIssuer(name))
    };
    for wanted in &config.shared_issuers {
        add(wanted, Realm::Shared)?;
    }
    for tenant in &config.tenants {
        let identity =
            tenant.identity.as_ref().ok_or_else(|| IdentityError::NoIdentity(Arc::clone(&tenant.name)))?;
        accepts.insert(Arc::clone(&tenant.name), Accepts { keys: identity.keys, local: identity.local });
        for wanted in &identity.issuers {
            add(wanted, Realm::Tenant(TenantId::new(Arc::clone(&tenant.name))))?;
        }
    }
    if accepts.is_empty() {
        return Err(IdentityError::NoTenant);
    }
    if accepts.values().any(|accepts| accepts.local) {
        // Nobody else is called so, as was looked at.
        let _ = issuers.add(Issuer::ourselves());
    }
    let verified = Cache::new(VERIFIED);
    for (name, one) in before.into_iter().flat_map(|before| before.answers(&issuers)) {
        verified.insert(name, one);
    }
    Ok(Identity { accepts, issuers, addresses: Addresses::new(config), known: Arc::clone(known), verified })
}

/// What issuers have in common.
struct Making<'a> {
    before: Option<&'a Identity>,
    /// Made when the first of them is to be asked for something.
    client: Option<Arc<Client>>,
    /// Keys that were read, also by the configuration before this one.
    keys: Vec<Arc<Jwks>>,
}

impl Making<'_> {
    fn issuer(&mut self, wanted: &config::Issuer, realm: Realm) -> Result<Issuer, IdentityError> {
        Ok(Issuer {
            name: Arc::clone(&wanted.issuer),
            proof: self.proof(wanted, &realm)?,
            audience: wanted.audience.as_deref().map(Into::into),
            algorithms: wanted.algorithms.clone(),
            leeway: wanted.leeway.as_secs(),
            scopes: wanted
                .required_scopes
                .iter()
                .filter(|scope| is_asked_for(scope))
                .map(|scope| scope.as_str().into())
                .collect(),
            hierarchy: Hierarchy::of(&wanted.hierarchy),
            claims: wanted.claims.clone(),
            written: Some(wanted.clone()),
            realm,
        })
    }

    fn proof(&mut self, wanted: &config::Issuer, realm: &Realm) -> Result<Proof, IdentityError> {
        let name = &wanted.issuer;
        let in_the_clear = || IdentityError::InTheClear(Arc::clone(name));
        let origin = match &wanted.proof {
            TokenProof::Keys(JwksSource::File(path)) => Origin::File(path.clone()),
            TokenProof::Keys(JwksSource::Url(url)) if is_private(url) => {
                Origin::Url(url.clone(), self.client()?)
            }
            TokenProof::KeysOfMetadata(url) if is_private(url) => {
                Origin::Metadata(Site::new(Arc::clone(name), url.clone()), self.client()?)
            }
            TokenProof::Keys(JwksSource::Url(_)) | TokenProof::KeysOfMetadata(_) => {
                return Err(in_the_clear());
            }
            TokenProof::Introspection(asked) => {
                // Open streams of its tokens live on what it said.
                let same = self.before.and_then(|before| before.issuers.same(wanted, realm));
                if let Some(Issuer { proof: Proof::Asked(introspection), .. }) = same {
                    return Ok(Proof::Asked(Arc::clone(introspection)));
                }
                // Checked with the configuration: without a URL the issuer is called one.
                let url = asked.url.clone().or_else(|| Url::parse(name).ok()).filter(is_private);
                let url = url.ok_or_else(in_the_clear)?;
                let place = match &asked.url {
                    Some(_) => introspection::Place::Written(Destination::written(url)),
                    None => introspection::Place::Metadata(Site::new(Arc::clone(name), url)),
                };
                return Ok(Proof::Asked(Arc::new(Introspection::new(self.client()?, place, asked))));
            }
        };
        Ok(Proof::Keys(self.keys(name, origin)?))
    }

    /// Keys that were read are not asked for again, and nobody is locked out meanwhile.
    fn keys(&mut self, name: &Arc<str>, origin: Origin) -> Result<Arc<Jwks>, IdentityError> {
        let read = self.keys.iter().find(|keys| *keys.issuer() == *name && keys.is_read_from(&origin));
        let keys = match read {
            Some(keys) => Arc::clone(keys),
            None => {
                let keys = Arc::new(Jwks::new(Arc::clone(name), origin));
                self.keys.push(Arc::clone(&keys));
                keys
            }
        };
        keys.prime().map_err(|why| IdentityError::Keys { issuer: Arc::clone(name), why })?;
        Ok(keys)
    }

    fn client(&mut self) -> Result<Arc<Client>, IdentityError> {
        if self.client.is_none() {
            self.client = Some(egress::client().map_err(IdentityError::Authorities)?);
        }
        self.client.clone().ok_or_else(|| IdentityError::Authorities(String::new()))
    }
}

/// Encrypted, or never on a wire.
fn is_private(url: &Url) -> bool {
    url.scheme() == "https" || is_loopback(url)
}
