//! What a token says, however it was proved: checked against what its issuer may say, and turned into a principal.

use std::sync::Arc;

use admission::{Principal, TenantId};
use sha2::Digest as _;
use tokio::time::Instant;

use super::{
    claims::{Claims, Wrong},
    flaw::Flaw,
    issuer::{Issuer, Realm},
};

/// The longest a token may be valid: what lives longer is a password.
pub(crate) const LIFE: u64 = 31 * 24 * 60 * 60;

/// Names of principals and groups beyond this many bytes are refused.
const NAME: usize = 256;

/// Groups and scopes beyond this many are refused: rules look at each.
const MOST: usize = 1024;

/// The claims of a token that was proved.
pub(super) struct Statement<'a> {
    pub(super) claims: &'a Claims,
    /// The same as JSON, for rules.
    pub(super) raw: &'a str,
    /// What the token is, as nobody else can spell it: without its signature, of which some have several.
    pub(super) text: &'a str,
}

/// What a token says, once it was proved and its claims were checked. What depends on the hour or on the
/// endpoint is looked at with every message.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) principal: Arc<Principal>,
    pub(super) audiences: Box<[Box<str>]>,
    pub(super) not_before: u64,
    pub(super) expires: u64,
    pub(super) proved: Proved,
}

/// How a token was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proved {
    /// By its signature, with keys of this edition.
    Signed(u64),
    /// By its issuer, which was asked then.
    Asked(Instant),
}

impl<'a> Statement<'a> {
    /// ID, refresh and logout tokens come from the same issuer for other ends (security row 17).
    fn check_kind(&self) -> Result<(), Flaw> {
        let claims = self.claims;
        let word = |name| claims.optional_text(name).map_err(|Wrong| Flaw::Kind);
        let bearer =
            |kind: &str| ["bearer", "access_token", "at+jwt", "jwt"].contains(&&*kind.to_ascii_lowercase());
        let access = word("token_use")?.is_none_or(|kind| kind == "access")
            && word("typ")?.is_none_or(bearer)
            && word("token_type")?.is_none_or(bearer);
        // A token that is bound to a key of its holder is worth nothing without the proof (RFC 9449 7.1).
        let other = ["events", "at_hash", "c_hash", "cnf"].iter().any(|name| claims.has(name));
        if access && !other { Ok(()) } else { Err(Flaw::Kind) }
    }

    /// Checks it against what its issuer may say. `lasts` is the end of what has none of its own.
    pub(super) fn claimed(self, issuer: &Issuer, now: u64, lasts: Option<u64>) -> Result<Claimed<'a>, Flaw> {
        self.check_kind()?;
        let claims = self.claims;
        let date = |name| claims.date(name).map_err(|Wrong| Flaw::Claim(name));
        let expires = date("exp")?.or(lasts).ok_or(Flaw::Claim("exp"))?;
        let issued = date("iat")?;
        if expires.saturating_sub(issued.map_or(now, |issued| issued.min(now))) > LIFE {
            return Err(Flaw::Lifetime);
        }
        let name =
            |claim: &str, of| claims.text(claim).ok().filter(|text| is_name(text)).ok_or(Flaw::Claim(of));
        // The subject of a JWT must be there even when another claim names the principal (RFC 9068 2.2).
        let subject = match issuer.claims.principal.as_str() {
            "sub" => name("sub", "sub")?,
            other => {
                if lasts.is_none() {
                    name("sub", "sub")?;
                }
                name(other, "principal")?
            }
        };
        let tenant = match &issuer.claims.tenant {
            Some(claim) => Some(name(claim, "tenant")?),
            None => None,
        };
        let audiences = claims.texts("aud").map_err(|Wrong| Flaw::Claim("aud"))?;
        if audiences.is_empty() {
            return Err(Flaw::Claim("aud"));
        }
        let groups = claims.texts(&issuer.claims.groups).map_err(|Wrong| Flaw::Claim("groups"))?;
        if groups.len() > MOST || !groups.iter().all(|group| is_name(group)) {
            return Err(Flaw::Claim("groups"));
        }
        let id = claims.optional_text("jti").map_err(|Wrong| Flaw::Claim("jti"))?;
        Ok(Claimed {
            tenant,
            subject,
            audiences,
            groups,
            scopes: issuer.hierarchy.holds(scopes(claims, issuer.claims.scopes.as_deref())?),
            not_before: date("nbf")?.unwrap_or(0).max(issued.unwrap_or(0)),
            expires,
            credential: match id {
                Some(id) => credential(&issuer.name, id),
                None => name_of(&[self.text]),
            },
            all: admission::Claims::of(self.raw),
        })
    }
}

/// What a token says that was proved.
pub(super) struct Claimed<'a> {
    tenant: Option<&'a str>,
    subject: &'a str,
    audiences: Vec<&'a str>,
    groups: Vec<&'a str>,
    scopes: Box<[Box<str>]>,
    not_before: u64,
    expires: u64,
    credential: Box<str>,
    all: admission::Claims,
}

impl Claimed<'_> {
    /// The principal within the tenant that the issuer speaks for here.
    pub(super) fn within(self, issuer: &Issuer, proved: Proved) -> Result<Verified, Flaw> {
        let tenant = match (&issuer.realm, self.tenant) {
            (Realm::Tenant(only), Some(named)) if **only.name() != *named => return Err(Flaw::Tenant),
            (Realm::Tenant(only), _) => only.clone(),
            // Whether there is such a tenant is looked at with every message.
            (Realm::Shared | Realm::Ours, Some(named)) => TenantId::new(named.into()),
            (Realm::Shared | Realm::Ours, None) => return Err(Flaw::Claim("tenant")),
        };
        let boxed = |texts: Vec<&str>| texts.into_iter().map(Into::into).collect();
        Ok(Verified {
            principal: Arc::new(Principal {
                tenant,
                issuer: (&*issuer.name).into(),
                subject: self.subject.into(),
                groups: boxed(self.groups),
                scopes: self.scopes,
                credential: self.credential,
                claims: self.all,
            }),
            audiences: boxed(self.audiences),
            not_before: self.not_before,
            expires: self.expires,
            proved,
        })
    }
}

impl Verified {
    /// Whether it is valid at this time, give or take `leeway`.
    pub(super) fn check_time(&self, now: u64, leeway: u64) -> Result<(), Flaw> {
        if now >= self.expires.saturating_add(leeway) {
            return Err(Flaw::Expired);
        }
        if self.not_before > now.saturating_add(leeway) {
            return Err(Flaw::Early);
        }
        Ok(())
    }
}

/// The claim that is configured, or else `scope` as RFC 8693 writes it, or `scp` as some issuers do; one text or a list.
/// Names nothing but itself: `*` is a scope of that name (security row 26).
fn scopes<'a>(claims: &'a Claims, name: Option<&str>) -> Result<Vec<&'a str>, Flaw> {
    let usual = if claims.has("scope") { "scope" } else { "scp" };
    let texts = claims.texts(name.unwrap_or(usual)).map_err(|Wrong| Flaw::Claim("scope"))?;
    let scopes: Vec<&str> =
        texts.iter().flat_map(|text| text.split(' ')).filter(|scope| !scope.is_empty()).collect();
    let sound = scopes.len() <= MOST && scopes.iter().all(|scope| is_scope(scope));
    if sound { Ok(scopes) } else { Err(Flaw::Claim("scope")) }
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
