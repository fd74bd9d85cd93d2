//! Who calls, told to a server in headers of our own (RFC 8693 is not for every server).

use super::key;
use crate::caller::Caller;
use crate::error::UpstreamError;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// The header of the signed token.
const IDENTITY: HeaderName = HeaderName::from_static("x-portcullis-identity");
/// How long a signed token is good.
const LIFE: u64 = 60;
/// Who asks where nobody calls: the gateway itself.
const OURSELVES: &str = "portcullis";

/// Signs the claims of a token, JSON text. None when there is no key.
pub type Signer = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What may be told of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// Its name within its issuer.
    Subject,
    /// Its tenant.
    Tenant,
    /// Its groups.
    Groups,
    /// Who vouches for it.
    Issuer,
}

/// What is told.
#[derive(Clone)]
pub struct Identity {
    headers: Vec<(Fact, HeaderName)>,
    signer: Option<Signer>,
    audience: String,
}

impl Identity {
    /// Facts by the headers they are told in; with a signer also in a token for this audience.
    ///
    /// # Errors
    /// For the operator: when a name cannot be that of a header.
    pub fn new(headers: &[(Fact, String)], signer: Option<Signer>, audience: String) -> Result<Self, String> {
        let named = |(fact, name): &(Fact, String)| {
            let name = HeaderName::try_from(name.as_str());
            name.map(|name| (*fact, name)).map_err(|_| "a header cannot have such a name".to_owned())
        };
        Ok(Self { headers: headers.iter().map(named).collect::<Result<_, _>>()?, signer, audience })
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.headers == other.headers
            && self.signer.is_some() == other.signer.is_some()
            && self.audience == other.audience
    }

    pub(super) fn put(
        &self,
        headers: &mut HeaderMap,
        caller: Option<&Caller>,
        tenant: &str,
    ) -> Result<(), UpstreamError> {
        let ourselves;
        let caller = match caller {
            Some(caller) => caller,
            None => {
                ourselves = Caller {
                    tenant: tenant.into(),
                    issuer: OURSELVES.into(),
                    subject: OURSELVES.into(),
                    groups: Box::default(),
                    bearer: None,
                };
                &ourselves
            }
        };
        let unsaid = || UpstreamError::Credential { why: "it cannot be told who calls" };
        for (fact, name) in &self.headers {
            let text = match fact {
                Fact::Subject => plain(&caller.subject),
                Fact::Tenant => plain(&caller.tenant),
                Fact::Issuer => plain(&caller.issuer),
                Fact::Groups => {
                    let groups: Vec<String> = caller.groups.iter().map(|group| plain(group)).collect();
                    groups.join(",")
                }
            };
            headers.insert(name, HeaderValue::try_from(text).map_err(|_| unsaid())?);
        }
        if let Some(signer) = &self.signer {
            let token = signer(&self.claims(caller).ok_or_else(unsaid)?).ok_or_else(unsaid)?;
            let mut value = HeaderValue::try_from(token).map_err(|_| unsaid())?;
            value.set_sensitive(true);
            headers.insert(IDENTITY, value);
        }
        Ok(())
    }

    /// What is told in headers, and the subject in any case.
    fn claims(&self, caller: &Caller) -> Option<String> {
        let (now, id) = key::stamp()?;
        let mut claims: Map<String, Value> = Map::new();
        claims.insert("iss".to_owned(), json!(OURSELVES));
        claims.insert("aud".to_owned(), json!(self.audience));
        claims.insert("sub".to_owned(), json!(&*caller.subject));
        for (fact, _) in &self.headers {
            match fact {
                Fact::Subject => None,
                Fact::Tenant => claims.insert("tenant".to_owned(), json!(&*caller.tenant)),
                Fact::Groups => claims.insert("groups".to_owned(), json!(&*caller.groups)),
                Fact::Issuer => claims.insert("principal_issuer".to_owned(), json!(&*caller.issuer)),
            };
        }
        claims.insert("iat".to_owned(), json!(now));
        claims.insert("exp".to_owned(), json!(now + LIFE));
        claims.insert("jti".to_owned(), json!(id));
        Some(Value::Object(claims).to_string())
    }
}

/// Text as a header carries it: what is no visible ASCII, and the signs that mean something here, as `%` and two digits.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b'!'..=b'~') && !matches!(byte, b'%' | b',') {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
