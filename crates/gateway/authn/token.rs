//! One JWT: read strictly, and its signature checked.
//!
//! The text is parsed here and nowhere else; the cryptography is the library's. Nothing in a token chooses
//! how it is checked (security rows 14 to 17).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    claims::{Claims, Wrong},
    flaw::Flaw,
    issuer::Issuer,
    keys::{self, KeySet},
    statement::{Claimed, Statement},
};

/// A token that was read. Nothing in it is believed.
pub(super) struct Token<'a> {
    signed: &'a str,
    /// Base64url that was looked at.
    signature: &'a str,
    header: Claims,
    claims: Claims,
    /// The claims as JSON, for rules.
    raw: String,
}

impl<'a> Token<'a> {
    /// Three parts of strict base64url, the first two JSON objects in which no member stands twice.
    pub(super) fn read(text: &'a str) -> Result<Token<'a>, Flaw> {
        let (signed, signature) = text.rsplit_once('.').ok_or(Flaw::Unreadable)?;
        let (header, claims) = signed.split_once('.').ok_or(Flaw::Unreadable)?;
        // Unpadded, and the bits after the last byte are zero: one token has one spelling.
        let decode = |part| URL_SAFE_NO_PAD.decode(part).map_err(|_| Flaw::Unreadable);
        let object = |bytes: &[u8]| Claims::read(bytes).map_err(|Wrong| Flaw::Unreadable);
        let raw = String::from_utf8(decode(claims)?).map_err(|_| Flaw::Unreadable)?;
        let (header, claims) = (object(&decode(header)?)?, object(raw.as_bytes())?);
        decode(signature)?;
        Ok(Token { signed, signature, header, claims, raw })
    }

    /// Whose token it says it is: picks the keys, proves nothing.
    pub(super) fn issuer(&self) -> Result<&str, Flaw> {
        self.claims.text("iss").map_err(|Wrong| Flaw::Claim("iss"))
    }

    /// What it says of itself; nothing of it is believed.
    pub(super) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Checks signature and claims.
    pub(super) fn verify(&self, issuer: &Issuer, keys: &KeySet, now: u64) -> Result<Claimed<'_>, Flaw> {
        self.check_header()?;
        self.check_signature(issuer, keys)?;
        Statement { claims: &self.claims, raw: &self.raw, text: self.signed }.claimed(issuer, now, None)
    }

    fn check_header(&self) -> Result<(), Flaw> {
        // No extension is understood, an empty list of them is malformed, and none of these is for us:
        // encrypted, compressed or unencoded tokens (RFC 7515 4.1.11, RFC 7797).
        if ["crit", "b64", "enc", "zip"].iter().any(|name| self.header.has(name)) {
            return Err(Flaw::Header);
        }
        // `jku`, `jwk`, `x5u` and `x5c` are not even looked at: keys come from the configuration only.
        let kind = self.header.optional_text("typ").map_err(|Wrong| Flaw::Header)?;
        let kind = kind.map(str::to_ascii_lowercase);
        match kind.as_deref().map(|kind| kind.strip_prefix("application/").unwrap_or(kind)) {
            None | Some("jwt" | "at+jwt") => Ok(()),
            Some(_) => Err(Flaw::Kind),
        }
    }

    fn check_signature(&self, issuer: &Issuer, keys: &KeySet) -> Result<(), Flaw> {
        let algorithm = self.header.text("alg").map_err(|Wrong| Flaw::Algorithm)?;
        let algorithm = keys::algorithm(algorithm).ok_or(Flaw::Algorithm)?;
        if !issuer.algorithms.contains(&algorithm) {
            return Err(Flaw::Algorithm);
        }
        let id = self.header.optional_text("kid").map_err(|Wrong| Flaw::Header)?;
        let key = keys.find(id, algorithm).ok_or(match id {
            Some(id) if !keys.has(id) => Flaw::UnknownKey,
            Some(_) | None => Flaw::Signature,
        })?;
        match key.verifies(algorithm, self.signed, self.signature) {
            true => Ok(()),
            false => Err(Flaw::Signature),
        }
    }
}
