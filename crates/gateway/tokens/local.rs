//! The gateway as an issuer: one Ed25519 key in the store, and the tokens signed with it.

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use config::LOCAL_ISSUER;
use serde_json::json;
use sha2::Digest as _;

use super::JwtRequest;
use crate::authn::KeySet;

/// Our own signing key.
pub(crate) struct LocalKey {
    id: String,
    pair: Ed25519KeyPair,
    keys: KeySet,
}

impl LocalKey {
    /// From the 32 bytes in the store. None when they are no key.
    pub(super) fn new(seed: &[u8]) -> Option<LocalKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let public = pair.public_key().as_ref();
        let id = hex::encode(sha2::Sha256::digest(public));
        let id = format!("local-{}", id.get(..8)?);
        let keys = KeySet::ed25519(&id, public);
        Some(LocalKey { id, pair, keys })
    }

    /// What our tokens are checked with.
    pub(crate) fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// A token for one endpoint (RFC 9068).
    pub(super) fn sign(&self, request: &JwtRequest, id: &str, (now, expires): (u64, u64)) -> String {
        let header = json!({"alg": "EdDSA", "typ": "at+jwt", "kid": self.id});
        let mut claims = json!({
            "iss": LOCAL_ISSUER,
            "aud": request.audience,
            "sub": request.principal,
            "tenant": request.tenant,
            "iat": now,
            "exp": expires,
            "jti": id,
        });
        if let Some(claims) = claims.as_object_mut() {
            if !request.groups.is_empty() {
                claims.insert("groups".to_owned(), json!(request.groups));
            }
            if !request.scopes.is_empty() {
                claims.insert("scope".to_owned(), json!(request.scopes.join(" ")));
            }
        }
        self.signed(&header, &claims.to_string())
    }

    /// These claims, JSON text, in a token that tells an upstream who calls. Its kind keeps it from being taken for one of
    /// those that let somebody in here.
    pub(crate) fn vouch(&self, claims: &str) -> String {
        self.signed(&json!({"alg": "EdDSA", "typ": "portcullis-identity+jwt", "kid": self.id}), claims)
    }

    /// What our tokens are checked with, as a JWK set.
    pub(crate) fn jwks(&self) -> String {
        let public = URL_SAFE_NO_PAD.encode(self.pair.public_key().as_ref());
        let key = json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": self.id, "x": public});
        json!({ "keys": [key] }).to_string()
    }

    fn signed(&self, header: &serde_json::Value, claims: &str) -> String {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let mut token = format!("{}.{}", part(&header.to_string()), part(claims));
        let signature = self.pair.sign(token.as_bytes());
        token.push('.');
        token.push_str(&URL_SAFE_NO_PAD.encode(signature));
        token
    }
}

impl fmt::Debug for LocalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").field("id", &self.id).finish_non_exhaustive()
    }
}
