//! A private key that proves us to an authorization server (RFC 7523).

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// An assertion is used at once; the rest is for clocks that differ.
const ASSERTION_SECONDS: u64 = 60;
/// Shorter RSA keys prove nothing.
const RSA_BYTES: usize = 256;

/// How a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signing {
    /// ECDSA on P-256.
    Es256,
    /// RSA with SHA-256.
    Rs256,
    /// Ed25519.
    EdDsa,
}

/// A key and what it goes by.
pub struct ClientKey {
    pair: Pair,
    id: Option<String>,
    /// To see whether it is another one.
    pem: Vec<u8>,
}

enum Pair {
    Es256(EcdsaKeyPair),
    Rs256(RsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

/// The `iat` and the `jti` of a token that is made now. None when there is no randomness.
pub(super) fn stamp() -> Option<(u64, String)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some((now, format!("{:016x}{:016x}", getrandom::u64().ok()?, getrandom::u64().ok()?)))
}

impl ClientKey {
    /// From a PEM file: PKCS#8, or the older form of its kind.
    ///
    /// # Errors
    /// For the operator: when it is no key, or not one that signs so.
    pub fn read(pem: &[u8], id: Option<String>, signing: Signing) -> Result<Self, &'static str> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| "it is no private key in PEM")?;
        let pair = match (signing, &der) {
            (Signing::Es256, PrivateKeyDer::Pkcs8(der)) => {
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der())
                    .ok()
                    .map(Pair::Es256)
            }
            (Signing::Es256, PrivateKeyDer::Sec1(der)) => {
                EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_sec1_der())
                    .ok()
                    .map(Pair::Es256)
            }
            (Signing::Rs256, PrivateKeyDer::Pkcs8(der)) => {
                RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok().map(Pair::Rs256)
            }
            (Signing::Rs256, PrivateKeyDer::Pkcs1(der)) => {
                RsaKeyPair::from_der(der.secret_pkcs1_der()).ok().map(Pair::Rs256)
            }
            (Signing::EdDsa, PrivateKeyDer::Pkcs8(der)) => {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).ok().map(Pair::EdDsa)
            }
            _ => None,
        };
        let pair = pair.ok_or("it is not a key that signs as `algorithm` says")?;
        if matches!(&pair, Pair::Rs256(pair) if pair.public_modulus_len() < RSA_BYTES) {
            return Err("it is an RSA key of less than 2048 bits");
        }
        Ok(Self { pair, id, pem: pem.to_vec() })
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.pem == other.pem && self.id == other.id
    }

    /// What proves the client to this authorization server. None when there is no randomness.
    pub(super) fn assertion(&self, client: &str, audience: &str) -> Option<String> {
        let (now, id) = stamp()?;
        let mut head = json!({ "alg": self.algorithm(), "typ": "JWT" });
        if let (Some(head), Some(id)) = (head.as_object_mut(), &self.id) {
            head.insert("kid".to_owned(), json!(id));
        }
        let claims = json!({
            "iss": client,
            "sub": client,
            "aud": audience,
            "jti": id,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&head), part(&claims));
        let signature = self.sign(text.as_bytes())?;
        Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::Es256(_) => "ES256",
            Pair::Rs256(_) => "RS256",
            Pair::EdDsa(_) => "EdDSA",
        }
    }

    fn sign(&self, text: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Es256(pair) => Some(pair.sign(&random, text).ok()?.as_ref().to_vec()),
            Pair::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).ok()?;
                Some(signature)
            }
            Pair::EdDsa(pair) => Some(pair.sign(text).as_ref().to_vec()),
        }
    }
}
