//! Credentials of our own: API keys, tokens signed with the gateway's key, and revocations of any credential.
//!
//! Used by a running gateway and, when none runs, on its `state_dir`; the lock of the store keeps these two
//! apart.

use std::{path::Path, sync::Arc};

use config::{LOCAL_ISSUER, Secret};
use serde::{Deserialize, Serialize};

use crate::{
    authn::{self, LIFE, is_name, is_scope},
    store::{Store, StoreError},
};
pub(crate) use known::Known;
use local::LocalKey;

pub(crate) mod key;
pub(crate) mod known;
mod local;

/// A token is valid for an hour unless it is asked for differently.
const USUAL_LIFE: u64 = 60 * 60;

/// API keys, local tokens and revocations.
pub struct Tokens {
    store: Arc<Store>,
    known: Arc<Known>,
    /// One change at a time, in the store and in memory: else a revocation that comes while another is lifted
    /// could be in one and not in the other. Waited for by operators only, never by a message.
    turn: tokio::sync::Mutex<()>,
}

/// An API key that is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// The tenant it is for. Whoever asks makes sure that there is one of this name.
    pub tenant: String,
    /// What people call it.
    pub name: String,
    /// Whom it proves.
    pub principal: String,
    /// The groups of the principal.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The scopes it carries.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The virtual servers it is for, `default` among them if need be; none is all.
    #[serde(default)]
    pub servers: Option<Vec<String>>,
    /// Seconds until it expires; none is never.
    #[serde(default)]
    pub expires_in: Option<u64>,
}

/// What is known of an API key: everything but the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApiKey {
    /// Six characters that stand in the key as well.
    pub id: String,
    /// The tenant it is for.
    pub tenant: String,
    /// What people call it.
    pub name: String,
    /// Whom it proves.
    pub principal: String,
    /// The groups of the principal.
    pub groups: Vec<String>,
    /// The scopes it carries.
    pub scopes: Vec<String>,
    /// The virtual servers it is for; none is all.
    pub servers: Option<Vec<String>>,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// When it expires; none is never.
    pub expires: Option<u64>,
    /// When it was revoked.
    pub revoked: Option<u64>,
}

/// An API key just made. The text is shown now and never again.
#[derive(Debug)]
pub struct NewKey {
    /// What is kept.
    pub info: ApiKey,
    /// The key itself.
    pub key: Secret,
}

/// A token that is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtRequest {
    /// The tenant it is for. Whoever asks makes sure that there is one of this name.
    pub tenant: String,
    /// Whom it proves.
    pub principal: String,
    /// The URL of the one endpoint it is for.
    pub audience: String,
    /// The groups of the principal.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The scopes it carries.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Seconds until it expires; an hour when absent, at most 31 days.
    #[serde(default)]
    pub expires_in: Option<u64>,
}

/// A token just signed. Nothing of it is kept.
#[derive(Debug)]
pub struct NewJwt {
    /// The token itself.
    pub token: Secret,
    /// Its name for [`Revocation::Token`], and in records.
    pub credential: String,
    /// When it expires, in seconds since 1970.
    pub expires: u64,
}

/// What is not to be accepted any more, from the next message on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Revocation {
    /// One API key, for good.
    Key {
        /// The six characters that name it.
        id: String,
    },
    /// One token.
    Token {
        /// Its name, as in records: see [`Revocation::jwt`].
        credential: String,
    },
    /// Every credential of a principal, those that are issued later included, until it is lifted.
    Principal {
        /// The tenant.
        tenant: String,
        /// The name of the principal.
        principal: String,
        /// Whose principal; none is every issuer's.
        #[serde(default)]
        issuer: Option<String>,
    },
    /// Every token of an issuer; `portcullis` is the gateway itself, API keys included.
    Issuer {
        /// The `iss` of its tokens.
        issuer: String,
    },
}

/// Why a credential was not made, revoked or listed.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A member of the request cannot be used.
    #[error("`{member}` {why}")]
    Request {
        /// Which.
        member: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no such key, or no such revocation.
    #[error("there is no such {0}")]
    Unknown(&'static str),
    /// A revoked key cannot be brought back.
    #[error("a revoked API key stays revoked: make a new one")]
    ForGood,
    /// No randomness.
    #[error("no key could be made: the random generator of the operating system failed")]
    Random,
    /// The signing key in the store is none.
    #[error("the signing key in the store is damaged; remove its row to have a new one made")]
    DamagedKey,
}

impl Revocation {
    /// The token with this `jti`.
    pub fn jwt(issuer: &str, id: &str) -> Revocation {
        Revocation::Token { credential: authn::credential(issuer, id).into() }
    }
}

impl Tokens {
    /// On the `state_dir` of a gateway that does not run.
    ///
    /// # Errors
    /// `StoreError::InUse` while one runs: then its admin interface is the way.
    pub async fn open(state_dir: &Path) -> Result<Tokens, TokensError> {
        Tokens::load(Arc::new(Store::open(state_dir).await?)).await
    }

    /// On the store of this gateway.
    pub(crate) async fn load(store: Arc<Store>) -> Result<Tokens, TokensError> {
        let known = Known::default();
        let keys = store.api_keys().await?;
        let revocations = store.revocations().await?;
        known.change(|credentials| {
            for (key, digest) in &keys {
                credentials.add(key, *digest);
            }
            for (revocation, _) in &revocations {
                credentials.revoke(revocation);
            }
        });
        if let Some(seed) = store.signing_key().await? {
            known.set_local(LocalKey::new(&seed).ok_or(TokensError::DamagedKey)?);
        }
        Ok(Tokens { store, known: Arc::new(known), turn: tokio::sync::Mutex::default() })
    }

    /// What identification reads.
    pub(crate) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// Makes an API key.
    ///
    /// # Errors
    /// When the request cannot be used or the store fails; then there is no key.
    pub async fn create_key(&self, request: KeyRequest) -> Result<NewKey, TokensError> {
        check_name("name", &request.name)?;
        check_subject(&request.tenant, &request.principal, &request.groups, &request.scopes)?;
        if request.servers.iter().flatten().any(|server| !is_name(server)) {
            return Err(TokensError::Request { member: "servers", why: "holds what is no name" });
        }
        if request.expires_in == Some(0) {
            return Err(TokensError::Request { member: "expires_in", why: "must be at least 1" });
        }
        let now = authn::now();
        // Whoever revokes a key the moment it is listed finds it in both places.
        let _turn = self.turn.lock().await;
        // A name that is taken already is as unlikely as it is harmless.
        for _ in 0..8 {
            let text = key::make().ok_or(TokensError::Random)?;
            let parts = key::read(&text).ok_or(TokensError::Random)?;
            let info = ApiKey {
                id: parts.id.to_owned(),
                tenant: request.tenant.clone(),
                name: request.name.clone(),
                principal: request.principal.clone(),
                groups: request.groups.clone(),
                scopes: request.scopes.clone(),
                servers: request.servers.clone(),
                made: now,
                expires: request.expires_in.map(|seconds| now.saturating_add(seconds)),
                revoked: None,
            };
            if self.store.add_api_key(&info, &parts.digest).await? {
                let digest = parts.digest;
                self.known.change(|credentials| credentials.add(&info, digest));
                return Ok(NewKey { info, key: Secret::new(text) });
            }
        }
        Err(TokensError::Random)
    }

    /// All keys, revoked and expired ones included, in the order they were made.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_keys(&self) -> Result<Vec<ApiKey>, TokensError> {
        Ok(self.store.api_keys().await?.into_iter().map(|(key, _)| key).collect())
    }

    /// Revokes. In force at once and kept for later starts.
    ///
    /// # Errors
    /// For an unknown key; or when the store fails: then it is in force until the gateway stops, no longer.
    pub async fn revoke(&self, revocation: Revocation) -> Result<(), TokensError> {
        check_revocation(&revocation)?;
        let _turn = self.turn.lock().await;
        self.known.change(|credentials| credentials.revoke(&revocation));
        match self.store.revoke(&revocation, authn::now()).await? {
            true => Ok(()),
            false => Err(TokensError::Unknown("API key")),
        }
    }

    /// Takes a revocation back.
    ///
    /// # Errors
    /// For one that does not exist, for a key, and when the store fails: then it stays in force.
    pub async fn lift(&self, revocation: &Revocation) -> Result<(), TokensError> {
        if matches!(revocation, Revocation::Key { .. }) {
            return Err(TokensError::ForGood);
        }
        let _turn = self.turn.lock().await;
        if !self.store.lift(revocation).await? {
            return Err(TokensError::Unknown("revocation"));
        }
        self.known.change(|credentials| credentials.lift(revocation));
        Ok(())
    }

    /// All revocations except those of keys, which [`Tokens::list_keys`] tells, with the second each was made.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list_revocations(&self) -> Result<Vec<(Revocation, u64)>, TokensError> {
        Ok(self.store.revocations().await?)
    }

    /// Signs a token. The first one makes the key it is signed with.
    ///
    /// # Errors
    /// When the request cannot be used or the store fails.
    pub async fn mint_jwt(&self, request: JwtRequest) -> Result<NewJwt, TokensError> {
        check_subject(&request.tenant, &request.principal, &request.groups, &request.scopes)?;
        if request.audience.is_empty() {
            return Err(TokensError::Request { member: "audience", why: "is empty" });
        }
        let life = request.expires_in.unwrap_or(USUAL_LIFE);
        if !(1..=LIFE).contains(&life) {
            return Err(TokensError::Request { member: "expires_in", why: "must be from 1 s to 31 days" });
        }
        let key = self.signing_key().await?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| TokensError::Random)?;
        let (id, now) = (hex::encode(random), authn::now());
        let expires = now.saturating_add(life);
        let token = key.sign(&request, &id, (now, expires));
        if token.len() > authn::LONGEST {
            return Err(TokensError::Request { member: "groups", why: "make the token too long" });
        }
        let credential = authn::credential(LOCAL_ISSUER, &id).into();
        Ok(NewJwt { token: Secret::new(token), credential, expires })
    }

    /// Makes the key that our own tokens are signed with, if there is none yet.
    pub(crate) async fn prepare(&self) -> Result<(), TokensError> {
        self.signing_key().await.map(|_| ())
    }

    async fn signing_key(&self) -> Result<Arc<LocalKey>, TokensError> {
        if let Some(key) = self.known.local() {
            return Ok(key);
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|_| TokensError::Random)?;
        // Whoever was first wins; both then use the same.
        let seed = self.store.first_signing_key(&seed).await?;
        self.known.set_local(LocalKey::new(&seed).ok_or(TokensError::DamagedKey)?);
        self.known.local().ok_or(TokensError::DamagedKey)
    }

    /// Closes the store. Not for a store that a running gateway closes itself.
    pub async fn close(&self) {
        self.store.close().await;
    }
}

fn check_subject(
    tenant: &str,
    principal: &str,
    groups: &[String],
    scopes: &[String],
) -> Result<(), TokensError> {
    check_name("tenant", tenant)?;
    check_name("principal", principal)?;
    if !groups.iter().all(|group| is_name(group)) {
        return Err(TokensError::Request { member: "groups", why: "holds what is no name" });
    }
    if !scopes.iter().all(|scope| is_scope(scope)) {
        return Err(TokensError::Request { member: "scopes", why: "holds what is no scope" });
    }
    Ok(())
}

fn check_name(member: &'static str, text: &str) -> Result<(), TokensError> {
    if is_name(text) {
        return Ok(());
    }
    let why = "must be 1 to 256 bytes without characters that hide, break or turn text";
    Err(TokensError::Request { member, why })
}

/// A revocation of nothing at all is a mistake that must not pass for one of something.
fn check_revocation(revocation: &Revocation) -> Result<(), TokensError> {
    let parts: &[(&'static str, &str)] = match revocation {
        Revocation::Key { id } => &[("id", id)],
        Revocation::Token { credential } => &[("credential", credential)],
        Revocation::Issuer { issuer } => &[("issuer", issuer)],
        Revocation::Principal { tenant, principal, issuer } => {
            &[("tenant", tenant), ("principal", principal), ("issuer", issuer.as_deref().unwrap_or("any"))]
        }
    };
    match parts.iter().find(|(_, text)| text.is_empty()) {
        Some((member, _)) => Err(TokensError::Request { member, why: "is empty" }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
