//! The public keys of an issuer, and signatures checked with them.
//!
//! What a key may check is fixed by its kind and by the configuration; a token only ever picks among that
//! (security row 14).

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use config::Algorithm;
use jsonwebtoken::{Algorithm as Registered, DecodingKey, crypto};

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
    kind: Kind,
    material: DecodingKey,
}

/// What kind of key it is: this, and not a token, says which algorithms it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
    Ed25519,
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
        let (kind, material) = (Kind::Ed25519, DecodingKey::from_ed_der(public));
        KeySet(vec![Key { id: Some(id.into()), only: Some(Algorithm::EdDSA), kind, material }])
    }

    /// The key that a token means: none unless exactly one fits.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        let mut fitting = self.0.iter().filter(|key| {
            // A token that names no key is clear only when there is but one it can mean.
            id.is_none_or(|id| key.id.as_deref() == Some(id))
                && key.only.is_none_or(|only| only == algorithm)
                && key.kind.is_for(algorithm)
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
    /// Whether `signature`, base64url, was made over `message` with the private half of this key.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &str, signature: &str) -> bool {
        self.kind.is_for(algorithm)
            && crypto::verify(signature, message.as_bytes(), &self.material, registered(algorithm))
                .is_ok_and(|fits| fits)
    }
}

impl Kind {
    fn is_for(self, algorithm: Algorithm) -> bool {
        self == match algorithm {
            Algorithm::RS256
            | Algorithm::RS384
            | Algorithm::RS512
            | Algorithm::PS256
            | Algorithm::PS384
            | Algorithm::PS512 => Kind::Rsa,
            Algorithm::ES256 => Kind::P256,
            Algorithm::ES384 => Kind::P384,
            Algorithm::EdDSA => Kind::Ed25519,
        }
    }
}

/// The library's word for it.
fn registered(algorithm: Algorithm) -> Registered {
    match algorithm {
        Algorithm::RS256 => Registered::RS256,
        Algorithm::RS384 => Registered::RS384,
        Algorithm::RS512 => Registered::RS512,
        Algorithm::PS256 => Registered::PS256,
        Algorithm::PS384 => Registered::PS384,
        Algorithm::PS512 => Registered::PS512,
        Algorithm::ES256 => Registered::ES256,
        Algorithm::ES384 => Registered::ES384,
        Algorithm::EdDSA => Registered::EdDSA,
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
    let (kind, material) = match (jwk.text("kty")?, jwk.optional_text("crv")?) {
        ("RSA", None) => (Kind::Rsa, rsa(number("n")?, &number("e")?)?),
        ("EC", Some("P-256")) => (Kind::P256, point::<32>(&number("x")?, &number("y")?)?),
        ("EC", Some("P-384")) => (Kind::P384, point::<48>(&number("x")?, &number("y")?)?),
        ("OKP", Some("Ed25519")) => {
            let x: [u8; 32] = number("x")?.try_into().map_err(|_| Wrong)?;
            (Kind::Ed25519, DecodingKey::from_ed_der(&x))
        }
        // A symmetric key in a public set is known to everybody.
        _ => return Ok(None),
    };
    Ok(Some(Key { id: jwk.optional_text("kid")?.map(Into::into), only, kind, material }))
}

/// The bounds of RFC 8725 3.5 and of the library, looked at once instead of at each token.
fn rsa(mut n: Vec<u8>, e: &[u8]) -> Result<DecodingKey, Wrong> {
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
    Ok(DecodingKey::from_rsa_raw_components(&n, e))
}

/// A point on a curve. Coordinates are fixed in length (RFC 7518 6.2.1.2), which the library does not look at.
fn point<const N: usize>(x: &[u8], y: &[u8]) -> Result<DecodingKey, Wrong> {
    if x.len() != N || y.len() != N {
        return Err(Wrong);
    }
    // In its uncompressed form.
    Ok(DecodingKey::from_ec_der(&[&[4][..], x, y].concat()))
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
