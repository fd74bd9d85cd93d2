//! What proves us to one server over HTTP: fixed headers, a token we get for ourselves or for who calls, or who calls.
//!
//! A caller's own credential goes to nobody but the authorization server that exchanges it, and only where the operator
//! wants that (spec ). What a server says against a credential stays here (spec A-11).

use crate::caller::Caller;
use crate::egress::Client;
use crate::error::UpstreamError;
use arc_swap::ArcSwap;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue};
use std::fmt;
use std::sync::Arc;

mod discovery;
mod grant;
mod identity;
mod key;
mod vault;

pub use discovery::metadata_places;
pub use grant::{ClientProof, Grant, TokenServer};
pub use identity::{Fact, Identity, Signer};
pub use key::{ClientKey, Signing};

use discovery::Discovery;
pub(crate) use vault::Token;
use vault::{Key, Vault};

/// Headers that are not for an operator to set: they frame the request, or the protocol gives them a meaning.
const OURS: [&str; 12] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "last-event-id",
    "proxy-authorization",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// What proves us.
#[derive(Clone)]
pub enum Proof {
    /// Nothing.
    None,
    /// Headers with fixed values, which are secrets.
    Headers(Vec<(String, String)>),
    /// A token of our own.
    Client(Grant),
    /// A token for who calls, in exchange for theirs; where nobody calls, a token of our own.
    Exchange {
        /// How we get it.
        grant: Grant,
        /// The name of the server at the authorization server.
        audience: Option<String>,
    },
    /// Who calls.
    Principal(Identity),
}

/// The credential of one upstream of one tenant, with the tokens it has got so far.
///
/// Two are equal when they differ in secrets only: then one can be made into the other while conversations go on.
pub struct Credential {
    /// For the log.
    of: (Arc<str>, Arc<str>),
    now: ArcSwap<Stand>,
    vault: Vault,
    /// Where tokens are asked for; none where none are.
    tokens: Option<Tokens>,
}

/// What holds at the moment.
struct Stand {
    proof: Proof,
    /// The headers with fixed values as they are sent.
    fixed: Vec<(HeaderName, HeaderValue)>,
}

struct Tokens {
    client: Client,
    discovery: Discovery,
}

/// What came of showing a credential.
pub(crate) enum Shown {
    /// Nothing that could be had anew.
    Fixed,
    Token(Arc<Token>),
}

impl Credential {
    /// Nothing at all.
    pub fn none() -> Arc<Self> {
        // INVARIANT: what needs no token server cannot fail.
        Arc::new(Self::made(("".into(), "".into()), Proof::None, None))
    }

    /// Fixed headers.
    pub fn headers(headers: Vec<(String, String)>) -> Arc<Self> {
        Arc::new(Self::made(("".into(), "".into()), Proof::Headers(headers), None))
    }

    /// The credential of an upstream. `ca` holds authorities beside those of the system, PEM, for its token server.
    ///
    /// # Errors
    /// For the operator: when no TLS can be spoken.
    pub fn new(of: (Arc<str>, Arc<str>), proof: Proof, ca: Option<&[u8]>) -> Result<Arc<Self>, String> {
        let tokens = match &proof {
            Proof::Client(grant) | Proof::Exchange { grant, .. } => {
                Some(Tokens { client: Client::new(ca)?, discovery: Discovery::of(&grant.server) })
            }
            Proof::None | Proof::Headers(_) | Proof::Principal(_) => None,
        };
        Ok(Arc::new(Self::made(of, proof, tokens)))
    }

    fn made(of: (Arc<str>, Arc<str>), proof: Proof, tokens: Option<Tokens>) -> Self {
        let fixed = fixed(&proof).unwrap_or_default();
        Self { of, now: ArcSwap::from_pointee(Stand { proof, fixed }), vault: Vault::default(), tokens }
    }

    /// What is wrong with it, for the operator.
    pub(crate) fn check(&self) -> Result<(), String> {
        fixed(&self.now.load().proof).map(|_| ())
    }

    /// Whether it says who calls: then a call must come with its caller.
    pub fn is_for_callers(&self) -> bool {
        matches!(self.now.load().proof, Proof::Exchange { .. } | Proof::Principal(_))
    }

    /// Whether this caller can be served at all.
    ///
    /// # Errors
    /// When a token is to be exchanged, and the caller showed none.
    pub fn serves(&self, caller: &Caller) -> Result<(), UpstreamError> {
        match (&self.now.load().proof, &caller.bearer) {
            (Proof::Exchange { .. }, None) => Err(UpstreamError::Credential {
                why: "it takes a token of the caller's own, and what the caller showed is none",
            }),
            _ => Ok(()),
        }
    }

    /// Takes over the secrets of another that is equal to this one. Tokens that were got with the old ones are forgotten.
    pub fn renew_from(&self, newer: &Self) {
        let newer = newer.now.load_full();
        if !newer.proof.has_secrets_of(&self.now.load().proof) {
            self.now.store(newer);
            self.vault.clear();
        }
    }

    /// What may not be shown of what its server says.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mut secrets = match &self.now.load().proof {
            Proof::None | Proof::Principal(_) => Vec::new(),
            Proof::Headers(headers) => headers.iter().map(|(_, value)| value.clone()).collect(),
            Proof::Client(grant) | Proof::Exchange { grant, .. } => grant.secret().into_iter().collect(),
        };
        secrets.extend(self.vault.texts());
        secrets
    }

    /// Adds the headers whose values are fixed.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.now.load().fixed {
            headers.append(name, value.clone());
        }
    }

    /// Whether that is all there is to it.
    pub(crate) fn is_fixed(&self) -> bool {
        self.tokens.is_none() && !matches!(self.now.load().proof, Proof::Principal(_))
    }

    /// Adds the headers that differ from time to time. `refused` is a token that the server did not take: another one is shown.
    /// Without a caller it is we ourselves who ask.
    pub(crate) async fn show(
        &self,
        headers: &mut HeaderMap,
        caller: Option<&Caller>,
        refused: Option<&Arc<Token>>,
    ) -> Result<Shown, UpstreamError> {
        let stand = self.now.load_full();
        let (grant, audience) = match &stand.proof {
            Proof::None | Proof::Headers(_) => return Ok(Shown::Fixed),
            Proof::Principal(identity) => {
                identity.put(headers, caller, &self.of.0)?;
                return Ok(Shown::Fixed);
            }
            Proof::Client(grant) => (grant, None),
            Proof::Exchange { grant, audience } => (grant, audience.as_deref()),
        };
        let caller = caller.filter(|_| matches!(stand.proof, Proof::Exchange { .. }));
        let Some(tokens) = &self.tokens else { return Ok(Shown::Fixed) };
        if let Some(caller) = caller {
            self.serves(caller)?;
        }
        let subject = caller.and_then(|caller| Some((caller, caller.bearer.as_deref()?)));
        let key = subject.map_or(Key::Ourselves, |(caller, bearer)| Key::of(caller, bearer));
        let asking = || async {
            let form = grant::form(grant, subject.map(|(_, bearer)| bearer), audience);
            grant::ask(grant, form, &tokens.client, &tokens.discovery).await
        };
        let found = self.vault.token(key, refused, asking).await;
        let token = found.map_err(|why| {
            if why.is_new {
                let (tenant, upstream) = (&*self.of.0, &*self.of.1);
                tracing::warn!(tenant, upstream, "no token: {}", why.words);
            }
            UpstreamError::Credential { why: why.words }
        })?;
        headers.insert(AUTHORIZATION, token.header().clone());
        Ok(Shown::Token(token))
    }
}

impl Proof {
    /// Whether one can be made into the other by other secrets alone.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Headers(ours), Self::Headers(theirs)) => {
                ours.iter().map(|(name, _)| name).eq(theirs.iter().map(|(name, _)| name))
            }
            (Self::Client(ours), Self::Client(theirs)) => ours.is_like(theirs),
            (
                Self::Exchange { grant: ours, audience },
                Self::Exchange { grant: theirs, audience: their_audience },
            ) => ours.is_like(theirs) && audience == their_audience,
            (Self::Principal(ours), Self::Principal(theirs)) => ours.is_like(theirs),
            (
                Self::None | Self::Headers(_) | Self::Client(_) | Self::Exchange { .. } | Self::Principal(_),
                _,
            ) => false,
        }
    }

    /// Whether the secrets of two that are alike are the same too.
    fn has_secrets_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Headers(ours), Self::Headers(theirs)) => ours == theirs,
            (
                Self::Client(ours) | Self::Exchange { grant: ours, .. },
                Self::Client(theirs) | Self::Exchange { grant: theirs, .. },
            ) => ours.has_secret_of(theirs),
            _ => true,
        }
    }
}

impl PartialEq for Credential {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.now.load().proof.is_like(&other.now.load().proof)
    }
}

impl Eq for Credential {}

impl fmt::Debug for Credential {
    /// Values are secrets and never printed.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.now.load().proof {
            Proof::None => out.write_str("None"),
            Proof::Headers(headers) => {
                out.debug_list().entries(headers.iter().map(|(name, _)| name)).finish()
            }
            Proof::Client(grant) => out.debug_tuple("Client").field(grant).finish(),
            Proof::Exchange { grant, .. } => out.debug_tuple("Exchange").field(grant).finish(),
            Proof::Principal(_) => out.write_str("Principal"),
        }
    }
}

/// The error is for the operator.
fn fixed(proof: &Proof) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    match proof {
        Proof::Headers(headers) => headers.iter().map(|(name, value)| header(name, value)).collect(),
        Proof::None | Proof::Client(_) | Proof::Exchange { .. } | Proof::Principal(_) => Ok(Vec::new()),
    }
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let parsed = HeaderName::try_from(name).map_err(|_| format!("`{name}` is no header name"))?;
    if OURS.contains(&parsed.as_str()) || parsed.as_str().starts_with("mcp-") {
        return Err(format!("the header `{name}` is not for the configuration to set"));
    }
    // The value is a secret: the message does not show it (security 30).
    let mut value = HeaderValue::try_from(value).map_err(|_| {
        format!("the value of the header `{name}` holds a character that headers do not carry")
    })?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

#[cfg(test)]
mod tests;
