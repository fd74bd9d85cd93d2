//! What is known about credentials, in memory, so that identifying somebody waits for nothing.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use admission::{Claims, Principal, TenantId};
use arc_swap::{ArcSwap, ArcSwapOption};
use config::LOCAL_ISSUER;

use super::{ApiKey, Revocation, local::LocalKey};

/// Keys, revocations and our own signing key, as the store has them. Changes are rare; a message reads one
/// edition of it.
#[derive(Default)]
pub(crate) struct Known {
    credentials: ArcSwap<Credentials>,
    local: ArcSwapOption<LocalKey>,
}

/// One edition.
#[derive(Clone, Default)]
pub(crate) struct Credentials {
    keys: HashMap<Box<str>, Arc<KnownKey>>,
    tokens: HashSet<Box<str>>,
    issuers: HashSet<Box<str>>,
    /// By tenant first.
    principals: HashMap<Box<str>, LockedOut>,
}

/// By subject, the issuers whose principal of this name is locked out; the empty one is every issuer.
type LockedOut = HashMap<Box<str>, HashSet<Box<str>>>;

/// An API key, as far as recognising it goes.
pub(crate) struct KnownKey {
    /// SHA-256 of the whole key.
    pub(crate) digest: [u8; 32],
    /// Whom it proves.
    pub(crate) principal: Arc<Principal>,
    /// The virtual servers it is for; none is all.
    pub(crate) servers: Option<Box<[Box<str>]>>,
    /// The first second in which it is not valid any more.
    pub(crate) expires: Option<u64>,
    /// It was revoked.
    pub(crate) revoked: bool,
}

impl Known {
    /// The edition of this moment.
    pub(crate) fn credentials(&self) -> Arc<Credentials> {
        self.credentials.load_full()
    }

    /// The key that our own tokens are signed with, once there is one.
    pub(crate) fn local(&self) -> Option<Arc<LocalKey>> {
        self.local.load_full()
    }

    pub(super) fn set_local(&self, key: LocalKey) {
        self.local.store(Some(Arc::new(key)));
    }

    /// One change, seen by the very next message. Changes made at the same time are all kept.
    pub(super) fn change(&self, change: impl Fn(&mut Credentials)) {
        self.credentials.rcu(|before| {
            let mut after = Credentials::clone(before);
            change(&mut after);
            after
        });
    }
}

impl Credentials {
    /// The key of this name.
    pub(crate) fn key(&self, id: &str) -> Option<&Arc<KnownKey>> {
        self.keys.get(id)
    }

    /// Whether a principal, whoever it is vouched for by, may not enter.
    pub(crate) fn revokes(&self, principal: &Principal) -> bool {
        let subjects = self.principals.get(&**principal.tenant.name());
        let issuers = subjects.and_then(|subjects| subjects.get(&*principal.subject));
        self.tokens.contains(&principal.credential)
            || self.issuers.contains(&principal.issuer)
            || issuers.is_some_and(|issuers| issuers.contains("") || issuers.contains(&principal.issuer))
    }

    pub(super) fn add(&mut self, key: &ApiKey, digest: [u8; 32]) {
        let boxed = |texts: &[String]| texts.iter().map(|text| text.as_str().into()).collect();
        let known = KnownKey {
            digest,
            principal: Arc::new(Principal {
                tenant: TenantId::new(key.tenant.as_str().into()),
                issuer: LOCAL_ISSUER.into(),
                subject: key.principal.as_str().into(),
                groups: boxed(&key.groups),
                scopes: boxed(&key.scopes),
                credential: format!("key:{}", key.id).into(),
                claims: Claims::default(),
            }),
            servers: key.servers.as_deref().map(boxed),
            expires: key.expires,
            revoked: key.revoked.is_some(),
        };
        self.keys.insert(key.id.as_str().into(), Arc::new(known));
    }

    pub(super) fn revoke(&mut self, revocation: &Revocation) {
        match revocation {
            Revocation::Key { id } => {
                if let Some(key) = self.keys.get_mut(id.as_str()) {
                    *key = Arc::new(KnownKey { revoked: true, ..key.same() });
                }
            }
            Revocation::Token { credential } => {
                self.tokens.insert(credential.as_str().into());
            }
            Revocation::Issuer { issuer } => {
                self.issuers.insert(issuer.as_str().into());
            }
            Revocation::Principal { tenant, principal, issuer } => {
                let subjects = self.principals.entry(tenant.as_str().into()).or_default();
                let issuers = subjects.entry(principal.as_str().into()).or_default();
                issuers.insert(issuer.as_deref().unwrap_or_default().into());
            }
        }
    }

    pub(super) fn lift(&mut self, revocation: &Revocation) {
        match revocation {
            // A revoked key stays revoked.
            Revocation::Key { .. } => (),
            Revocation::Token { credential } => {
                self.tokens.remove(credential.as_str());
            }
            Revocation::Issuer { issuer } => {
                self.issuers.remove(issuer.as_str());
            }
            Revocation::Principal { tenant, principal, issuer } => {
                let subjects = self.principals.get_mut(tenant.as_str());
                if let Some(issuers) = subjects.and_then(|subjects| subjects.get_mut(principal.as_str())) {
                    issuers.remove(issuer.as_deref().unwrap_or_default());
                }
            }
        }
    }
}

impl KnownKey {
    fn same(&self) -> KnownKey {
        KnownKey {
            digest: self.digest,
            principal: Arc::clone(&self.principal),
            servers: self.servers.clone(),
            expires: self.expires,
            revoked: self.revoked,
        }
    }
}
