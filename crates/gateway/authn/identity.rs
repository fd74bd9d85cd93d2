//! Who is let in: API keys, tokens of the issuers each tenant trusts, and tokens of our own.

use std::{collections::HashMap, sync::Arc};

use admission::Principal;
use quick_cache::sync::Cache;
use sha2::Digest as _;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use super::{
    bearer::{self, Shown},
    flaw::Flaw,
    introspection::{Answer, Introspection},
    issuer::{Issuer, Issuers, Proof, Realm},
    jwks::Jwks,
    statement::{Proved, Verified},
    token::Token,
};
use crate::{
    arrival::{Endpoint, Head},
    metadata::{Addresses, same_audience},
    tokens::{Known, key, known::Credentials},
};

/// Tokens remembered as checked; beyond this many the least used are checked again. A token says 8 KiB at most, so that this
/// is 64 MiB at worst; what an issuer that is asked says of one is 64 KiB at most.
pub(super) const VERIFIED: usize = 8_192;

/// The name of the virtual server at `/mcp`.
const DEFAULT: &str = "default";

/// Everybody who may be told apart.
pub(super) struct Identity {
    /// By tenant: the kinds of credentials it takes beside tokens of its issuers.
    pub(super) accepts: HashMap<Arc<str>, Accepts>,
    /// Whose tokens are accepted.
    pub(super) issuers: Issuers,
    pub(super) addresses: Addresses,
    pub(super) known: Arc<Known>,
    /// What a token says, by the SHA-256 of its text: only tokens that were proved get here. Time,
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
        let name = name_of(text);
        let (issuer, verified) = match self.remembered(&name) {
            Some(found) => found,
            None => self.verify(text, &name, (endpoint, now))?,
        };
        // First whether it is meant for us here at all: only then may anything else be said about it.
        let tenant = verified.principal.tenant.name();
        let (accepted, anywhere) = match &issuer.realm {
            // At `/mcp` the tenant is not named, and several tenants' issuers cannot all speak for it.
            Realm::Tenant(_) => (true, self.accepts.len() == 1),
            Realm::Shared => (self.accepts.contains_key(tenant), true),
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
        let leeway = match verified.proved {
            Proved::Signed(_) => issuer.leeway,
            // An answer counts no longer than its token (spec A-13).
            Proved::Asked(_) => 0,
        };
        verified.check_time(now, leeway).inspect_err(|_| {
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
        let principal = &verified.principal;
        let issuer = self.issuers.named(&principal.issuer, principal.tenant.name())?;
        let is_proved = match (&issuer.proof, verified.proved) {
            // A key that its issuer withdrew takes its tokens along (security row 18).
            (Proof::Keys(jwks), Proved::Signed(edition)) => jwks.held()?.edition == edition,
            (Proof::Ours, Proved::Signed(_)) => true,
            (Proof::Asked(introspection), Proved::Asked(at)) => introspection.counts(at),
            (Proof::Keys(_) | Proof::Ours, Proved::Asked(_)) | (Proof::Asked(_), Proved::Signed(_)) => false,
        };
        is_proved.then_some((issuer, verified))
    }

    fn verify(
        &self,
        text: &str,
        name: &[u8; 32],
        (endpoint, now): (&Endpoint, u64),
    ) -> Result<(&Issuer, Arc<Verified>), Flaw> {
        let token = match Token::read(text) {
            // It says nothing by itself.
            Err(_) if self.opaque(endpoint).is_some() => return Err(Flaw::Unknown),
            read => read?,
        };
        let issuer = self.issuers.of(&token)?;
        let verified = match &issuer.proof {
            Proof::Keys(jwks) => {
                let held = jwks.held().ok_or(Flaw::NoKeys)?;
                token.verify(issuer, &held.keys, now)?.within(issuer, Proved::Signed(held.edition))?
            }
            Proof::Ours => {
                let local = self.known.local().ok_or(Flaw::NoKeys)?;
                token.verify(issuer, local.keys(), now)?.within(issuer, Proved::Signed(0))?
            }
            Proof::Asked(_) => return Err(Flaw::Unknown),
        };
        let verified = Arc::new(verified);
        self.verified.insert(*name, Arc::clone(&verified));
        Ok((issuer, verified))
    }

    /// The issuer that is asked about tokens which say nothing themselves: the tenant's own, or else a shared one.
    fn opaque(&self, endpoint: &Endpoint) -> Option<(&Issuer, &Introspection)> {
        let sole = || self.accepts.keys().next().filter(|_| self.accepts.len() == 1);
        let tenant = endpoint.tenant.as_deref().or_else(|| sole().map(|name| &**name));
        let asked = |issuer: &'_ &Issuer| matches!(issuer.proof, Proof::Asked(_));
        let mut all = self.issuers.iter().filter(asked);
        let own = all.clone().find(|issuer| match &issuer.realm {
            Realm::Tenant(id) => tenant.is_some_and(|tenant| **id.name() == *tenant),
            Realm::Shared | Realm::Ours => false,
        });
        with_introspection(own.or_else(|| all.find(|issuer| matches!(issuer.realm, Realm::Shared)))?)
    }

    /// Has an issuer asked about the token of this head, if it is one that is asked and what it said is not recent.
    pub(super) async fn ask(&self, head: &Head, now: u64) {
        let Ok(Shown::Token(text)) = bearer::read(&head.authorization.0) else { return };
        let asked = match Token::read(text).map(|token| self.issuers.of(&token)) {
            Ok(Ok(issuer)) => with_introspection(issuer),
            Ok(Err(_)) => None,
            Err(_) => self.opaque(&head.endpoint),
        };
        let Some((issuer, introspection)) = asked else { return };
        let (name, came) = (name_of(text), Instant::now());
        let before = || self.verified.get(&name).map(|one| one.proved);
        let is_settled = || {
            let recent = before().is_some_and(|proved| introspection.is_recent(proved, came));
            recent || introspection.is_unknown(&name)
        };
        if is_settled() {
            return;
        }
        // Without a turn it counts for as long as while nobody answers.
        let Some(_turn) = introspection.turn(&name, before()).await else { return };
        // Somebody else may have asked meanwhile.
        if is_settled() {
            return;
        }
        match introspection.ask(issuer, &name, text, now).await {
            Answer::Known(verified) => self.verified.insert(name, Arc::from(verified)),
            Answer::Unknown => drop(self.verified.remove(&name)),
            Answer::Silent => (),
        }
    }

    /// Has the keys read again that would be needed for this head. False when they were not.
    pub(super) async fn fresher(&self, head: &Head) -> bool {
        let Ok(Shown::Token(text)) = bearer::read(&head.authorization.0) else { return false };
        let jwks = {
            let Ok(token) = Token::read(text) else { return false };
            match self.issuers.of(&token).map(|issuer| &issuer.proof) {
                Ok(Proof::Keys(jwks)) => Arc::clone(jwks),
                Ok(Proof::Asked(_) | Proof::Ours) | Err(_) => return false,
            }
        };
        jwks.fresher().await
    }

    /// The fewest scopes that hold these and those that every token of the principal's issuer must carry: a token with no
    /// more than these passes.
    pub(super) fn fewest<'a>(&'a self, principal: &Principal, needed: &'a [Box<str>]) -> Vec<&'a str> {
        let issuer = self.issuers.named(&principal.issuer, principal.tenant.name());
        let always = issuer.map(|issuer| &*issuer.scopes).unwrap_or_default();
        let all = || always.iter().chain(needed).map(|scope| &**scope);
        let mut fewest: Vec<&str> = Vec::new();
        for scope in all() {
            let held =
                issuer.is_some_and(|issuer| all().any(|other| issuer.hierarchy.includes(other, scope)));
            if !held && !fewest.contains(&scope) {
                fewest.push(scope);
            }
        }
        fewest
    }

    /// What issuers said of tokens that are among these unchanged.
    pub(super) fn answers<'a>(
        &'a self,
        issuers: &'a Issuers,
    ) -> impl Iterator<Item = ([u8; 32], Arc<Verified>)> + 'a {
        let is_kept = move |one: &Verified| {
            let named = |all: &'a Issuers| all.named(&one.principal.issuer, one.principal.tenant.name());
            let (Some(old), Some(new)) = (named(&self.issuers), named(issuers)) else { return false };
            matches!((&old.proof, &new.proof), (Proof::Asked(old), Proof::Asked(new)) if Arc::ptr_eq(old, new))
        };
        self.verified.iter().filter(move |(_, one)| is_kept(one))
    }

    /// Whether any issuer is asked about tokens.
    pub(super) fn asks(&self) -> bool {
        self.issuers.iter().any(|issuer| matches!(issuer.proof, Proof::Asked(_)))
    }

    /// The keys of all issuers but ourselves, each once.
    pub(super) fn key_sets(&self) -> Vec<Arc<Jwks>> {
        let mut found: Vec<Arc<Jwks>> = Vec::new();
        for issuer in self.issuers.iter() {
            if let Proof::Keys(jwks) = &issuer.proof
                && !found.iter().any(|known| Arc::ptr_eq(known, jwks))
            {
                found.push(Arc::clone(jwks));
            }
        }
        found
    }
}

fn with_introspection(issuer: &Issuer) -> Option<(&Issuer, &Introspection)> {
    match &issuer.proof {
        Proof::Asked(introspection) => Some((issuer, introspection)),
        Proof::Keys(_) | Proof::Ours => None,
    }
}

/// What a token is remembered by.
fn name_of(text: &str) -> [u8; 32] {
    sha2::Sha256::digest(text.as_bytes()).into()
}

/// Whether the path leaves the tenant open or names this one.
fn names(endpoint: &Endpoint, tenant: &str) -> bool {
    endpoint.tenant.as_deref().is_none_or(|named| named == tenant)
}
