//! The public keys of an issuer, and signatures checked with them.
//!
//! What a key may check is fixed by its kind and by the configuration; a token only ever picks among that
//! (security row 14).

use std::fmt;

use aws_lc_rs::{rsa::PublicKeyComponents, signature as sig};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use config::Algorithm;

use super::claims::{Claims, Wrong};

/// Keys of one issuer beyond this many are a mistake.
const KEYS: usize = 64;

/// The keys that may check signatures of one issuer.
#[derive(Debug, Default)]
pub(crate) struct KeySet(Vec<Key>);

/// One public key.
pub(super) struct Key {
    id: Option<Box<str>>,
    /// The one algorithm it is for, when the set says so.
    only: Option<Algorithm>,
    material: Material,
}

enum Material {
    Rsa(PublicKeyComponents<Vec<u8>>),
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Reads a JWK set. Keys that are not ours to use are left out: other kinds, for encryption, symmetric,
    /// weak.
    ///
    /// # Errors
    /// When it is no JWK set, or nothing in it can be used.
    pub(crate) fn read(text: &[u8]) -> Result<KeySet, KeysError> {
        let set = Claims::read(text).map_err(|Wrong| KeysError::NotAKeySet)?;
        let listed = set.objects("keys").map_err(|Wrong| KeysError::NotAKeySet)?;
        let keys: Vec<Key> =
            listed.into_iter().filter_map(|jwk| key(jwk).ok().flatten()).take(KEYS).collect();
        if keys.is_empty() { Err(KeysError::NoKey) } else { Ok(KeySet(keys)) }
    }

    /// One Ed25519 key.
    pub(crate) fn ed25519(id: &str, public: &[u8]) -> KeySet {
        let material = Material::Ed25519(public.to_vec());
        KeySet(vec![Key { id: Some(id.into()), only: Some(Algorithm::EdDSA), material }])
    }

    /// The key that a token means: none unless exactly one fits.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        let mut fitting = self.0.iter().filter(|key| {
            // A token that names no key is clear only when there is but one it can mean.
            id.is_none_or(|id| key.id.as_deref() == Some(id))
                && key.only.is_none_or(|only| only == algorithm)
                && key.material.parameters(algorithm).is_some()
        });
        let found = fitting.next()?;
        fitting.next().is_none().then_some(found)
    }

    /// Whether there is a key of this name at all.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id.as_deref() == Some(id))
    }
}

/// Why a text gives no keys. Says nothing of what stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// It is no JWK set.
    #[error("it is no JWK set")]
    NotAKeySet,
    /// There is no key in it that can check signatures.
    #[error("it holds no key that can check signatures (RSA from 2048 bits, P-256, P-384 or Ed25519)")]
    NoKey,
}

impl Key {
    /// Whether `signature` was made over `message` with the private half of this key.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let Some(parameters) = self.material.parameters(algorithm) else { return false };
        match (&self.material, parameters) {
            (Material::Rsa(key), Parameters::Rsa(parameters)) => {
                key.verify(parameters, message, signature).is_ok()
            }
            (
                Material::P256(bytes) | Material::P384(bytes) | Material::Ed25519(bytes),
                Parameters::Point(algorithm),
            ) => sig::UnparsedPublicKey::new(algorithm, bytes).verify(message, signature).is_ok(),
            (Material::Rsa(_), Parameters::Point(_))
            | (Material::P256(_) | Material::P384(_) | Material::Ed25519(_), Parameters::Rsa(_)) => false,
        }
    }
}

/// How the library is told what to check.
enum Parameters {
    /// INVARIANT: all of these refuse keys of fewer than 2048 bits.
    Rsa(&'static sig::RsaParameters),
    Point(&'static dyn sig::VerificationAlgorithm),
}

impl Material {
    fn parameters(&self, algorithm: Algorithm) -> Option<Parameters> {
        Some(match (self, algorithm) {
            (Material::Rsa(_), Algorithm::RS256) => Parameters::Rsa(&sig::RSA_PKCS1_2048_8192_SHA256),
            (Material::Rsa(_), Algorithm::RS384) => Parameters::Rsa(&sig::RSA_PKCS1_2048_8192_SHA384),
            (Material::Rsa(_), Algorithm::RS512) => Parameters::Rsa(&sig::RSA_PKCS1_2048_8192_SHA512),
            (Material::Rsa(_), Algorithm::PS256) => Parameters::Rsa(&sig::RSA_PSS_2048_8192_SHA256),
            (Material::Rsa(_), Algorithm::PS384) => Parameters::Rsa(&sig::RSA_PSS_2048_8192_SHA384),
            (Material::Rsa(_), Algorithm::PS512) => Parameters::Rsa(&sig::RSA_PSS_2048_8192_SHA512),
            (Material::P256(_), Algorithm::ES256) => Parameters::Point(&sig::ECDSA_P256_SHA256_FIXED),
            (Material::P384(_), Algorithm::ES384) => Parameters::Point(&sig::ECDSA_P384_SHA384_FIXED),
            (Material::Ed25519(_), Algorithm::EdDSA) => Parameters::Point(&sig::ED25519),
            (
                Material::Rsa(_) | Material::P256(_) | Material::P384(_) | Material::Ed25519(_),
                Algorithm::RS256
                | Algorithm::RS384
                | Algorithm::RS512
                | Algorithm::PS256
                | Algorithm::PS384
                | Algorithm::PS512
                | Algorithm::ES256
                | Algorithm::ES384
                | Algorithm::EdDSA,
            ) => return None,
        })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).field("only", &self.only).finish_non_exhaustive()
    }
}

/// One JWK. None when it is sound and not for us; an error when it is broken: it is left out then as well.
fn key(jwk: &Claims) -> Result<Option<Key>, Wrong> {
    if jwk.optional_text("use")?.is_some_and(|purpose| purpose != "sig") {
        return Ok(None);
    }
    if jwk.has("key_ops") && !jwk.texts("key_ops")?.contains(&"verify") {
        return Ok(None);
    }
    let only = match jwk.optional_text("alg")? {
        Some(name) => Some(algorithm(name).ok_or(Wrong)?),
        None => None,
    };
    let number = |name| URL_SAFE_NO_PAD.decode(jwk.text(name)?).map_err(|_| Wrong);
    let material = match (jwk.text("kty")?, jwk.optional_text("crv")?) {
        ("RSA", None) => Material::Rsa(rsa(number("n")?, number("e")?)?),
        ("EC", Some("P-256")) => Material::P256(point::<32>(&number("x")?, &number("y")?)?),
        ("EC", Some("P-384")) => Material::P384(point::<48>(&number("x")?, &number("y")?)?),
        ("OKP", Some("Ed25519")) => {
            let x: [u8; 32] = number("x")?.try_into().map_err(|_| Wrong)?;
            Material::Ed25519(x.to_vec())
        }
        // A symmetric key in a public set is known to everybody.
        _ => return Ok(None),
    };
    Ok(Some(Key { id: jwk.optional_text("kid")?.map(Into::into), only, material }))
}

/// The bounds of RFC 8725 3.5 and of the library, looked at once instead of at each token.
fn rsa(mut n: Vec<u8>, e: Vec<u8>) -> Result<PublicKeyComponents<Vec<u8>>, Wrong> {
    // Some issuers write a leading zero byte (a sign bit).
    if n.first() == Some(&0) {
        n.remove(0);
    }
    let bits = n.len() * 8 - n.first().map_or(0, |byte| byte.leading_zeros() as usize);
    let exponent = e.iter().try_fold(0_u64, |sum, byte| sum.checked_mul(256)?.checked_add(u64::from(*byte)));
    let sound = exponent.is_some_and(|e| e % 2 == 1 && (3..1 << 33).contains(&e));
    if !(2048..=8192).contains(&bits) || !sound {
        return Err(Wrong);
    }
    Ok(PublicKeyComponents { n, e })
}

/// A point on a curve in its uncompressed form. Coordinates are fixed in length (RFC 7518 6.2.1.2).
fn point<const N: usize>(x: &[u8], y: &[u8]) -> Result<Vec<u8>, Wrong> {
    if x.len() != N || y.len() != N {
        return Err(Wrong);
    }
    Ok([&[4][..], x, y].concat())
}

/// The algorithm of this name, exactly as registered.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    Some(match name {
        "RS256" => Algorithm::RS256,
        "RS384" => Algorithm::RS384,
        "RS512" => Algorithm::RS512,
        "PS256" => Algorithm::PS256,
        "PS384" => Algorithm::PS384,
        "PS512" => Algorithm::PS512,
        "ES256" => Algorithm::ES256,
        "ES384" => Algorithm::ES384,
        // RFC 9864 gives the same thing a second name.
        "EdDSA" | "Ed25519" => Algorithm::EdDSA,
        _ => return None,
    })
}
