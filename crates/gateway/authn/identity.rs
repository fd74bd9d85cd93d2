//! Who is let in: API keys, tokens of the issuers each tenant trusts, and tokens of our own.

use std::{collections::HashMap, sync::Arc};

use admission::Principal;
use quick_cache::sync::Cache;
use sha2::Digest as _;
use subtle::ConstantTimeEq as _;

use super::{
    bearer::{self, Shown},
    flaw::Flaw,
    issuer::{Issuer, Realm},
    jwks::Jwks,
    token::{Token, Verified},
};
use crate::{
    arrival::{Endpoint, Head},
    metadata::{Addresses, same_audience},
    tokens::{Known, key, known::Credentials},
};

/// Tokens remembered as checked; beyond this many the least used are checked again. At 8 KiB for the largest,
/// this is 64 MiB at worst.
pub(super) const VERIFIED: usize = 8_192;

/// The name of the virtual server at `/mcp`.
const DEFAULT: &str = "default";

/// Everybody who may be told apart.
pub(super) struct Identity {
    /// By tenant: the kinds of credentials it takes beside tokens of its issuers.
    pub(super) accepts: HashMap<Arc<str>, Accepts>,
    /// By `iss`. INVARIANT: each belongs to one tenant, or is ourselves.
    pub(super) issuers: HashMap<Arc<str>, Issuer>,
    pub(super) addresses: Addresses,
    pub(super) known: Arc<Known>,
    /// What a token says, by the SHA-256 of its text: only tokens whose signature was good get here. Time,
    /// audience, tenant, keys and revocations are looked at again with every message.
    pub(super) verified: Cache<[u8; 32], Arc<Verified>>,
}

/// What a tenant takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepts {
    pub(super) keys: bool,
    pub(super) local: bool,
}

impl Identity {
    /// Who asks.
    pub(super) fn judge(&self, head: &Head, now: u64) -> Result<Arc<Principal>, Flaw> {
        let (principal, comes_in) = self.holder(head, now)?;
        comes_in.map(|()| principal)
    }

    /// Whose credential it is, and whether it opens this virtual server.
    pub(super) fn holder(&self, head: &Head, now: u64) -> Result<(Arc<Principal>, Result<(), Flaw>), Flaw> {
        let credentials = self.known.credentials();
        let (principal, comes_in) = match bearer::read(&head.authorization.0)? {
            Shown::Key(text) => self.by_key(text, &head.endpoint, (&credentials, now))?,
            Shown::Token(text) => self.by_token(text, &head.endpoint, now)?,
        };
        if credentials.revokes(&principal) {
            return Err(Flaw::Revoked);
        }
        Ok((principal, comes_in))
    }

    /// An API key: found by its id, which is no secret, then compared as a whole.
    fn by_key(
        &self,
        text: &str,
        endpoint: &Endpoint,
        (credentials, now): (&Credentials, u64),
    ) -> Result<(Arc<Principal>, Result<(), Flaw>), Flaw> {
        let shown = key::read(text).ok_or(Flaw::Key)?;
        let found = credentials.key(shown.id);
        // The same work whether or not there is such a key, and wherever the two differ (security row 23).
        let expected = found.map_or([0; 32], |key| key.digest);
        let same = bool::from(expected.ct_eq(&shown.digest));
        let key = found.filter(|_| same).ok_or(Flaw::Key)?;

        let tenant = key.principal.tenant.name();
        if !self.accepts.get(tenant).is_some_and(|accepts| accepts.keys) || !names(endpoint, tenant) {
            return Err(Flaw::Tenant);
        }
        if key.revoked {
            return Err(Flaw::Revoked);
        }
        if key.expires.is_some_and(|expires| now >= expires) {
            return Err(Flaw::Expired);
        }
        let server = endpoint.server.as_deref().unwrap_or(DEFAULT);
        let servers = key.servers.as_deref();
        let is_for = servers.is_none_or(|servers| servers.iter().any(|allowed| **allowed == *server));
        Ok((Arc::clone(&key.principal), if is_for { Ok(()) } else { Err(Flaw::Server) }))
    }

    /// A token, of an issuer of one tenant or of our own.
    fn by_token(
        &self,
        text: &str,
        endpoint: &Endpoint,
        now: u64,
    ) -> Result<(Arc<Principal>, Result<(), Flaw>), Flaw> {
        let name: [u8; 32] = sha2::Sha256::digest(text.as_bytes()).into();
        let (issuer, verified) = match self.remembered(&name) {
            Some(found) => found,
            None => self.verify(text, &name, now)?,
        };
        // First whether it is meant for us here at all: only then may anything else be said about it.
        let tenant = verified.principal.tenant.name();
        let (accepted, anywhere) = match &issuer.realm {
            // At `/mcp` the tenant is not named, and several tenants' issuers cannot all speak for it.
            Realm::Tenant(..) => (true, self.accepts.len() == 1),
            Realm::Ours => (self.accepts.get(tenant).is_some_and(|accepts| accepts.local), true),
        };
        if !accepted || !names(endpoint, tenant) || (endpoint.tenant.is_none() && !anywhere) {
            return Err(Flaw::Tenant);
        }
        let names =
            |expected: &str| verified.audiences.iter().any(|audience| same_audience(audience, expected));
        let is_meant = match &issuer.audience {
            Some(audience) => names(audience),
            // A virtual server is the same one by its older transport.
            None => {
                names(&self.addresses.resource(endpoint))
                    || endpoint.by_streamable().is_some_and(|same| names(&self.addresses.resource(&same)))
            }
        };
        if !is_meant {
            return Err(Flaw::Audience);
        }
        verified.check_time(now).inspect_err(|_| {
            // Nobody needs it any more, or not yet.
            self.verified.remove(&name);
        })?;
        // Last: what is expired as well is to be renewed first (bug B67).
        let carried = &verified.principal.scopes;
        let complete = issuer.scopes.iter().all(|scope| carried.contains(scope));
        let comes_in = if complete { Ok(()) } else { Err(Flaw::Scope) };
        Ok((Arc::clone(&verified.principal), comes_in))
    }

    /// A token that was checked before, with keys that are still those of its issuer.
    fn remembered(&self, name: &[u8; 32]) -> Option<(&Issuer, Arc<Verified>)> {
        let verified = self.verified.get(name)?;
        let issuer = self.issuers.get(&*verified.principal.issuer)?;
        let edition = match &issuer.realm {
            Realm::Tenant(_, jwks) => jwks.held()?.edition,
            Realm::Ours => 0,
        };
        // A key that its issuer withdrew takes its tokens along (security row 18).
        (verified.edition == edition).then_some((issuer, verified))
    }

    fn verify(&self, text: &str, name: &[u8; 32], now: u64) -> Result<(&Issuer, Arc<Verified>), Flaw> {
        let token = Token::read(text)?;
        let issuer = self.issuers.get(token.issuer()?).ok_or(Flaw::Issuer)?;
        let verified = match &issuer.realm {
            Realm::Tenant(tenant, jwks) => {
                let held = jwks.held().ok_or(Flaw::NoKeys)?;
                let claimed = token.verify(issuer, &held.keys, now)?;
                claimed.within(tenant.clone(), &issuer.name, held.edition)
            }
            Realm::Ours => {
                let local = self.known.local().ok_or(Flaw::NoKeys)?;
                let claimed = token.verify(issuer, local.keys(), now)?;
                // INVARIANT: the signature is ours, so this is a name we wrote; whether there is such a tenant
                // is looked at with every message.
                let tenant = admission::TenantId::new(claimed.tenant()?.into());
                claimed.within(tenant, &issuer.name, 0)
            }
        };
        let verified = Arc::new(verified);
        self.verified.insert(*name, Arc::clone(&verified));
        Ok((issuer, verified))
    }

    /// Has the keys read again that would be needed for this head. False when they were not.
    pub(super) async fn fresher(&self, head: &Head) -> bool {
        let Ok(Shown::Token(text)) = bearer::read(&head.authorization.0) else { return false };
        let jwks = {
            let Ok(token) = Token::read(text) else { return false };
            let Ok(name) = token.issuer() else { return false };
            match self.issuers.get(name).map(|issuer| &issuer.realm) {
                Some(Realm::Tenant(_, jwks)) => Arc::clone(jwks),
                Some(Realm::Ours) | None => return false,
            }
        };
        jwks.fresher().await
    }

    /// The keys of all issuers but ourselves.
    pub(super) fn key_sets(&self) -> Vec<Arc<Jwks>> {
        let keys = |issuer: &Issuer| match &issuer.realm {
            Realm::Tenant(_, jwks) => Some(Arc::clone(jwks)),
            Realm::Ours => None,
        };
        self.issuers.values().filter_map(keys).collect()
    }
}

/// Whether the path leaves the tenant open or names this one.
fn names(endpoint: &Endpoint, tenant: &str) -> bool {
    endpoint.tenant.as_deref().is_none_or(|named| named == tenant)
}
