//! An identity provider that signs anything, with keys made for one run of the tests.

use std::sync::OnceLock;

use aws_lc_rs::{
    hmac,
    rand::SystemRandom,
    rsa::KeySize,
    signature::{self as sig, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::place::ISSUER;

/// Takes a member out of a patch's target.
pub(super) const DROP: &str = "$drop";

/// With what a token is signed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signer<'a> {
    Rsa1(&'a str),
    Rsa2(&'a str),
    P256,
    /// P-256 with the signature in DER.
    P256Der,
    P384,
    Ed25519,
    /// An RSA key nobody publishes.
    Attacker,
    /// The published key that is for encryption.
    Encryption,
    /// A shared secret.
    Hmac(&'a str, &'a [u8]),
    Nothing,
}

struct Keys {
    rsa: [RsaKeyPair; 2],
    p256: EcdsaKeyPair,
    p256_der: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
    beta: Ed25519KeyPair,
}

fn keys() -> &'static Keys {
    static KEYS: OnceLock<Keys> = OnceLock::new();
    KEYS.get_or_init(|| {
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::generate_pkcs8(&sig::ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let p384 = EcdsaKeyPair::generate_pkcs8(&sig::ECDSA_P384_SHA384_FIXED_SIGNING, &random).unwrap();
        Keys {
            rsa: [(); 2].map(|()| RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
            p256: EcdsaKeyPair::from_pkcs8(&sig::ECDSA_P256_SHA256_FIXED_SIGNING, p256.as_ref()).unwrap(),
            p256_der: EcdsaKeyPair::from_pkcs8(&sig::ECDSA_P256_SHA256_ASN1_SIGNING, p256.as_ref()).unwrap(),
            p384: EcdsaKeyPair::from_pkcs8(&sig::ECDSA_P384_SHA384_FIXED_SIGNING, p384.as_ref()).unwrap(),
            ed25519: Ed25519KeyPair::generate().unwrap(),
            beta: Ed25519KeyPair::generate().unwrap(),
        }
    })
}

/// Made when it is needed: RSA keys take long.
fn attacker() -> &'static RsaKeyPair {
    static KEY: OnceLock<RsaKeyPair> = OnceLock::new();
    KEY.get_or_init(|| RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
}

pub(super) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rsa_jwk(name: &str, key: &RsaKeyPair) -> Value {
    // RSAPublicKey in DER: a sequence of two integers, the first of 257 bytes with its leading zero.
    let der = key.public_key().as_ref();
    let (n, e) = (encode(&der[9..265]), encode(&der[267..]));
    json!({"kty": "RSA", "kid": name, "use": "sig", "n": n, "e": e})
}

fn point_jwk(name: &str, curve: &str, point: &[u8]) -> Value {
    let (x, y) = point[1..].split_at(point.len() / 2);
    json!({"kty": "EC", "crv": curve, "kid": name, "x": encode(x), "y": encode(y)})
}

/// The public key of this name.
pub(super) fn jwk(name: &str) -> Value {
    let keys = keys();
    let with = |mut jwk: Value, more: Value| {
        patch(&mut jwk, more);
        jwk
    };
    match name {
        "rsa1" => rsa_jwk("rsa1", &keys.rsa[0]),
        "rsa2" => with(rsa_jwk("rsa2", &keys.rsa[1]), json!({"alg": "RS256"})),
        "attacker" => rsa_jwk("attacker", attacker()),
        "enc" => with(rsa_jwk("enc", &keys.rsa[1]), json!({"use": "enc"})),
        "ops" => with(rsa_jwk("ops", &keys.rsa[1]), json!({"use": DROP, "key_ops": ["sign", "encrypt"]})),
        "p256" => point_jwk("p256", "P-256", keys.p256.public_key().as_ref()),
        "p384" => point_jwk("p384", "P-384", keys.p384.public_key().as_ref()),
        "ed25519" => {
            json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed25519", "alg": "EdDSA", "x": encode(keys.ed25519.public_key())})
        }
        "beta" => json!({"kty": "OKP", "crv": "Ed25519", "kid": "beta", "x": encode(keys.beta.public_key())}),
        "weak" => json!({"kty": "RSA", "kid": "weak", "n": encode([0xC5; 128]), "e": "AQAB"}),
        "oct" => json!({"kty": "oct", "kid": "oct", "alg": "HS256", "k": encode("published-secret")}),
        other => panic!("{other}"),
    }
}

const PUBLISHED: [&str; 9] = ["rsa1", "rsa2", "p256", "p384", "ed25519", "enc", "ops", "weak", "oct"];

/// What the issuer of `acme` publishes.
pub(super) fn jwks() -> String {
    jwks_of(&PUBLISHED)
}

pub(super) fn jwks_without(name: &str) -> String {
    let left: Vec<&str> = PUBLISHED.into_iter().filter(|published| *published != name).collect();
    jwks_of(&left)
}

pub(super) fn jwks_of(names: &[&str]) -> String {
    json!({"keys": names.iter().map(|name| jwk(name)).collect::<Vec<_>>()}).to_string()
}

impl Signer<'_> {
    fn header(self) -> Value {
        let (algorithm, name) = match self {
            Signer::Rsa1(algorithm) => (algorithm, "rsa1"),
            Signer::Rsa2(algorithm) => (algorithm, "rsa2"),
            Signer::P256 | Signer::P256Der => ("ES256", "p256"),
            Signer::P384 => ("ES384", "p384"),
            Signer::Ed25519 => ("EdDSA", "ed25519"),
            Signer::Attacker => ("RS256", "attacker"),
            Signer::Encryption => ("RS256", "enc"),
            Signer::Hmac(algorithm, _) => (algorithm, "rsa1"),
            Signer::Nothing => ("none", "rsa1"),
        };
        json!({"alg": algorithm, "typ": "JWT", "kid": name})
    }

    pub(super) fn sign(self, message: &[u8]) -> Vec<u8> {
        let keys = keys();
        let rsa = |key: &RsaKeyPair, algorithm: &str| {
            let padding: &'static dyn sig::RsaEncoding = match algorithm {
                "PS256" => &sig::RSA_PSS_SHA256,
                _ => &sig::RSA_PKCS1_SHA256,
            };
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(padding, &SystemRandom::new(), message, &mut signature).unwrap();
            signature
        };
        let ecdsa = |key: &EcdsaKeyPair| key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec();
        match self {
            Signer::Rsa1(algorithm) => rsa(&keys.rsa[0], algorithm),
            Signer::Rsa2(algorithm) => rsa(&keys.rsa[1], algorithm),
            Signer::Attacker => rsa(attacker(), "RS256"),
            Signer::Encryption => rsa(&keys.rsa[1], "RS256"),
            Signer::P256 => ecdsa(&keys.p256),
            Signer::P256Der => ecdsa(&keys.p256_der),
            Signer::P384 => ecdsa(&keys.p384),
            Signer::Ed25519 => keys.ed25519.sign(message).as_ref().to_vec(),
            Signer::Hmac(algorithm, secret) => {
                let hash = if algorithm == "HS512" { hmac::HMAC_SHA512 } else { hmac::HMAC_SHA256 };
                hmac::sign(&hmac::Key::new(hash, secret), message).as_ref().to_vec()
            }
            Signer::Nothing => Vec::new(),
        }
    }
}

/// Puts the members of one object into another, or takes them out.
pub(super) fn patch(target: &mut Value, patch: Value) {
    let target = target.as_object_mut().unwrap();
    for (name, value) in patch.as_object().unwrap() {
        match value == DROP {
            true => drop(target.remove(name)),
            false => drop(target.insert(name.clone(), value.clone())),
        }
    }
}

/// A token that is good, but for the patches.
pub(super) fn token(signer: Signer<'_>, header: Value, claims: Value) -> String {
    token_at(crate::authn::now(), signer, header, claims)
}

pub(super) fn token_at(now: u64, signer: Signer<'_>, header: Value, claims: Value) -> String {
    let (mut head, mut body) = (signer.header(), good(now));
    patch(&mut head, header);
    patch(&mut body, claims);
    raw(signer, head.to_string(), body.to_string())
}

/// The claims of a good token.
pub(super) fn good(now: u64) -> Value {
    json!({
        "iss": ISSUER,
        "aud": "https://gw.example/t/acme/mcp",
        "sub": "ada",
        "scope": "mcp:list mcp:call",
        "iat": now - 5,
        "exp": now + 3600,
        "jti": "j0",
    })
}

/// Any two texts, signed.
pub(super) fn raw(signer: Signer<'_>, header: impl AsRef<[u8]>, claims: impl AsRef<[u8]>) -> String {
    let signed = format!("{}.{}", encode(header), encode(claims));
    let signature = encode(signer.sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}
