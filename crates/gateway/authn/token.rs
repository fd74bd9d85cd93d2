//! One JWT: read strictly, checked against what its issuer may say, turned into a principal.
//!
//! The text is parsed here and nowhere else; the cryptography is the library's. Nothing in a token chooses
//! how it is checked (security rows 14 to 17).

use std::sync::Arc;

use admission::{Principal, TenantId};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::Digest as _;

use super::{
    claims::{Claims, Wrong},
    flaw::Flaw,
    issuer::Issuer,
    keys::{self, KeySet},
};

/// How far clocks may differ (product rule "Clock leeway").
pub(super) const LEEWAY: u64 = 30;

/// The longest a token may be valid: what lives longer is a password.
pub(crate) const LIFE: u64 = 31 * 24 * 60 * 60;

/// Names of principals and groups beyond this many bytes are refused.
const NAME: usize = 256;

/// A token that was read. Nothing in it is believed.
pub(super) struct Token<'a> {
    text: &'a str,
    signed: &'a str,
    /// Base64url that was looked at.
    signature: &'a str,
    header: Claims,
    claims: Claims,
    /// The claims as JSON, for rules.
    raw: String,
}

/// What a token says, once its signature and its claims were checked. What depends on the hour or on the
/// endpoint is looked at with every message.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) principal: Arc<Principal>,
    pub(super) audiences: Box<[Box<str>]>,
    pub(super) not_before: u64,
    pub(super) expires: u64,
    /// Which edition of the issuer's keys it was checked with.
    pub(super) edition: u64,
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
        Ok(Token { text, signed, signature, header, claims, raw })
    }

    /// Whose token it says it is: picks the keys, proves nothing.
    pub(super) fn issuer(&self) -> Result<&str, Flaw> {
        self.claims.text("iss").map_err(|Wrong| Flaw::Claim("iss"))
    }

    /// Checks signature and claims.
    pub(super) fn verify(&self, issuer: &Issuer, keys: &KeySet, now: u64) -> Result<Claimed<'_>, Flaw> {
        self.check_header()?;
        self.check_signature(issuer, keys)?;
        self.check_kind()?;
        self.claimed(issuer, now)
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

    /// ID, refresh and logout tokens are signed by the same issuer for other ends (security row 17).
    fn check_kind(&self) -> Result<(), Flaw> {
        let claims = &self.claims;
        let word = |name| claims.optional_text(name).map_err(|Wrong| Flaw::Kind);
        let access = word("token_use")?.is_none_or(|kind| kind == "access")
            && word("typ")?
                .is_none_or(|kind| ["bearer", "at+jwt", "jwt"].contains(&&*kind.to_ascii_lowercase()));
        // A token that is bound to a key of its holder is worth nothing without the proof (RFC 9449 7.1).
        let other = ["events", "at_hash", "c_hash", "cnf"].iter().any(|name| claims.has(name));
        if access && !other { Ok(()) } else { Err(Flaw::Kind) }
    }

    fn claimed(&self, issuer: &Issuer, now: u64) -> Result<Claimed<'_>, Flaw> {
        let claims = &self.claims;
        let date = |name| claims.date(name).map_err(|Wrong| Flaw::Claim(name));
        let expires = date("exp")?.ok_or(Flaw::Claim("exp"))?;
        let issued = date("iat")?;
        if expires.saturating_sub(issued.map_or(now, |issued| issued.min(now))) > LIFE {
            return Err(Flaw::Lifetime);
        }
        // The subject must be there even when another claim names the principal (RFC 9068 2.2).
        let subject = claims.text("sub").ok().filter(|text| is_name(text)).ok_or(Flaw::Claim("sub"))?;
        let subject = match issuer.principal_claim.as_str() {
            "sub" => subject,
            other => claims.text(other).ok().filter(|text| is_name(text)).ok_or(Flaw::Claim("principal"))?,
        };
        let audiences = claims.texts("aud").map_err(|Wrong| Flaw::Claim("aud"))?;
        if audiences.is_empty() {
            return Err(Flaw::Claim("aud"));
        }
        let groups = claims.texts(&issuer.groups_claim).map_err(|Wrong| Flaw::Claim("groups"))?;
        if !groups.iter().all(|group| is_name(group)) {
            return Err(Flaw::Claim("groups"));
        }
        let id = claims.optional_text("jti").map_err(|Wrong| Flaw::Claim("jti"))?;
        Ok(Claimed {
            tenant: claims.optional_text("tenant"),
            subject,
            audiences,
            groups,
            scopes: scopes(claims)?,
            not_before: date("nbf")?.unwrap_or(0).max(issued.unwrap_or(0)),
            expires,
            credential: match id {
                Some(id) => credential(self.issuer()?, id),
                None => name_of(&[self.text]),
            },
            all: admission::Claims::of(&self.raw),
        })
    }
}

/// The claims of a token whose signature is good.
pub(super) struct Claimed<'a> {
    tenant: Result<Option<&'a str>, Wrong>,
    subject: &'a str,
    audiences: Vec<&'a str>,
    groups: Vec<&'a str>,
    scopes: Vec<&'a str>,
    not_before: u64,
    expires: u64,
    credential: Box<str>,
    all: admission::Claims,
}

impl Claimed<'_> {
    /// The tenant a token of ours names; other issuers' claims of this name mean nothing here.
    pub(super) fn tenant(&self) -> Result<&str, Flaw> {
        self.tenant.ok().flatten().ok_or(Flaw::Claim("tenant"))
    }

    /// The principal within the tenant.
    pub(super) fn within(self, tenant: TenantId, issuer: &str, edition: u64) -> Verified {
        let boxed = |texts: Vec<&str>| texts.into_iter().map(Into::into).collect();
        Verified {
            principal: Arc::new(Principal {
                tenant,
                issuer: issuer.into(),
                subject: self.subject.into(),
                groups: boxed(self.groups),
                scopes: boxed(self.scopes),
                credential: self.credential,
                claims: self.all,
            }),
            audiences: boxed(self.audiences),
            not_before: self.not_before,
            expires: self.expires,
            edition,
        }
    }
}

impl Verified {
    /// Whether it is valid at this time.
    pub(super) fn check_time(&self, now: u64) -> Result<(), Flaw> {
        if now >= self.expires.saturating_add(LEEWAY) {
            return Err(Flaw::Expired);
        }
        if self.not_before > now.saturating_add(LEEWAY) {
            return Err(Flaw::Early);
        }
        Ok(())
    }
}

/// `scope` as RFC 8693 writes it, or `scp` as some issuers do; one text or a list. Names nothing but itself:
/// `*` is a scope of that name (security row 26).
fn scopes(claims: &Claims) -> Result<Vec<&str>, Flaw> {
    let name = if claims.has("scope") { "scope" } else { "scp" };
    let texts = claims.texts(name).map_err(|Wrong| Flaw::Claim("scope"))?;
    let scopes: Vec<&str> =
        texts.iter().flat_map(|text| text.split(' ')).filter(|scope| !scope.is_empty()).collect();
    if scopes.iter().all(|scope| is_scope(scope)) { Ok(scopes) } else { Err(Flaw::Claim("scope")) }
}

/// A scope as RFC 6749 3.3 spells it: nothing that could end a quoted string.
pub(crate) fn is_scope(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    (1..=NAME).contains(&text.len()) && text.bytes().all(fits)
}

/// A name of a principal or group that people can read in a log: not empty, not endless, and without
/// characters that hide, break or turn text.
pub(crate) fn is_name(text: &str) -> bool {
    let hides = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    (1..=NAME).contains(&text.len()) && !text.contains(hides)
}

/// The opaque name of a token, by its issuer and `jti`: for records, and for revoking it.
pub(crate) fn credential(issuer: &str, id: &str) -> Box<str> {
    name_of(&[issuer, id])
}

fn name_of(parts: &[&str]) -> Box<str> {
    let mut hash = sha2::Sha256::new();
    for part in parts {
        // With their lengths, so that no two lists of parts read the same.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hex::encode(hash.finalize());
    format!("jwt:{}", digest.get(..32).unwrap_or_default()).into()
}
