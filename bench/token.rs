//! The identity provider of a run: one key, and one token that the gateway verifies.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;

use crate::failure::Failure;

/// What it calls itself in tokens, when there is but one.
pub(crate) const ISSUER: &str = "https://issuer.bench.example";

/// No run takes longer.
const LIFETIME: Duration = Duration::from_secs(6 * 60 * 60);

/// A key, which lives for one run, and what its owner calls itself.
pub(crate) struct Issuer {
    name: String,
    key: Ed25519KeyPair,
}

impl Issuer {
    /// With a key that nobody else has.
    pub(crate) fn new(name: &str) -> Result<Issuer, Failure> {
        let key = Ed25519KeyPair::generate().map_err(|_| Failure::new("no key could be made"))?;
        Ok(Issuer { name: name.to_owned(), key })
    }

    /// Its key set, as it would publish it.
    pub(crate) fn jwks(&self) -> String {
        let x = encode(self.key.public_key());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "bench", "alg": "EdDSA", "use": "sig", "x": x}]})
            .to_string()
    }

    /// A token for an endpoint.
    pub(crate) fn token(&self, audience: &str) -> Result<String, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_err(|error| Failure::new(error.to_string()))?.as_secs();
        let head = json!({"alg": "EdDSA", "typ": "JWT", "kid": "bench"});
        let claims = json!({
            "iss": self.name,
            "aud": audience,
            "sub": "ada",
            "groups": ["dev"],
            "iat": now.saturating_sub(5),
            "exp": now + LIFETIME.as_secs(),
        });
        let signed = format!("{}.{}", encode(head.to_string()), encode(claims.to_string()));
        let signature = encode(self.key.sign(signed.as_bytes()));
        Ok(format!("{signed}.{signature}"))
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
