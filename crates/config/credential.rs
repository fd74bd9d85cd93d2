//! Words of what proves someone: issuers and their keys, claims, scopes, and the headers we show to an upstream.

use std::path::PathBuf;

use serde_json::{Value, json};
use url::Url;

use crate::form::Form;
use crate::model::{JwksSource, LOCAL_ISSUER, Secret};
use crate::section::Name;
use crate::word::{Mistake, Secrets, Word};

pub(crate) use client::{
    ClientId, ClientSecret, IntrospectionUrl, KeyId, Requested, ResourceUrl, ServerIssuer, TokenUrl,
};

mod client;

/// The longest issuer, audience, claim or scope, in bytes.
const NAME_BYTES: usize = 512;
/// The longest value of a header, in bytes.
const VALUE_BYTES: usize = 8192;
/// Headers that the connection, the protocol or the gateway itself writes (spec A-10, H-28).
const OWN_HEADERS: [&str; 16] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "origin",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The `iss` of tokens: a URL, or the name that some issuers use instead.
#[derive(Clone, Debug)]
pub(crate) struct IssuerName(pub(crate) String);

impl Word for IssuerName {
    fn form() -> Form {
        Form::text("issuer")
    }

    fn parse(text: &str) -> Result<IssuerName, Mistake> {
        one_word(text, "write it exactly as it stands in the `iss` of the tokens")?;
        if text == LOCAL_ISSUER {
            let hint =
                "choose the `iss` of an issuer of yours; for tokens of the gateway there is `local: true`";
            return Err(Mistake::new("is the gateway's own name as an issuer").hint(hint));
        }
        Ok(IssuerName(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// Where public keys are: a file, or an https URL.
#[derive(Clone, Debug)]
pub(crate) struct Jwks(pub(crate) JwksSource);

impl Word for Jwks {
    fn form() -> Form {
        Form::text("file or URL")
    }

    fn parse(text: &str) -> Result<Jwks, Mistake> {
        let hint = "write a file, or a URL like `https://id.example.com/jwks.json`";
        if text.trim().is_empty() {
            return Err(Mistake::new("is empty").hint(hint));
        }
        if !text.contains("://") {
            return Ok(Jwks(JwksSource::File(PathBuf::from(text))));
        }
        let url = Url::parse(text).map_err(|why| Mistake::new(format!("is no URL: {why}")).hint(hint))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Mistake::new("is neither a file nor an https URL").hint(hint));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Mistake::new("holds credentials").hint("remove what stands before the `@`"));
        }
        Ok(Jwks(JwksSource::Url(url)))
    }

    fn sample(&self) -> Value {
        match &self.0 {
            JwksSource::File(path) => json!(path.to_string_lossy()),
            JwksSource::Url(url) => json!(url.as_str()),
        }
    }
}

/// The `aud` of tokens.
#[derive(Clone, Debug)]
pub(crate) struct Audience(pub(crate) String);

impl Word for Audience {
    fn form() -> Form {
        Form::text("audience")
    }

    fn parse(text: &str) -> Result<Audience, Mistake> {
        one_word(text, "write it exactly as it stands in the `aud` of the tokens")?;
        Ok(Audience(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// The name of a claim, or a JSON pointer to one.
#[derive(Clone, Debug)]
pub(crate) struct Claim(pub(crate) String);

impl Word for Claim {
    fn form() -> Form {
        Form::text("claim")
    }

    fn parse(text: &str) -> Result<Claim, Mistake> {
        one_word(
            text,
            "write the name of a claim, such as `sub`, or a JSON pointer, such as `/realm_access/roles`",
        )?;
        let escapes = text.strip_prefix('/').into_iter().flat_map(|path| path.split('~').skip(1));
        if escapes.into_iter().any(|rest| !rest.starts_with(['0', '1'])) {
            // RFC 6901 3
            let hint = "in a JSON pointer `~` is written as `~0`, and a `/` within a name as `~1`";
            return Err(Mistake::new("is no JSON pointer").hint(hint));
        }
        Ok(Claim(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// A scope as RFC 6749 writes it.
#[derive(Clone, Debug)]
pub(crate) struct Scope(pub(crate) String);

impl Word for Scope {
    fn form() -> Form {
        Form::pattern("scope", r#"[^\s"\\*]+"#)
    }

    fn parse(text: &str) -> Result<Scope, Mistake> {
        one_word(text, "write each scope as an item of its own")?;
        if text.contains('*') {
            // spec A-12
            return Err(Mistake::new("is a wildcard").hint("name the scopes one by one"));
        }
        if text.contains(['"', '\\']) || !text.is_ascii() {
            return Err(Mistake::new("is no scope").hint("letters, digits and signs, no `\"` and no `\\`"));
        }
        if text == "offline_access" {
            // spec A-05: a client asks for it on its own account.
            return Err(Mistake::new("is not for a resource to ask for").hint("remove it"));
        }
        Ok(Scope(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

impl Name for Scope {
    const NAMES: &'static str = "scopes";
}

/// The name of a header that proves us to an upstream, in lower case.
#[derive(Clone, Debug)]
pub(crate) struct HeaderName(pub(crate) String);

impl Word for HeaderName {
    fn form() -> Form {
        Form::text("header name")
    }

    fn parse(text: &str) -> Result<HeaderName, Mistake> {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if text.is_empty() || !text.bytes().all(token) {
            return Err(Mistake::new("cannot be the name of a header").hint("write it like `Authorization`"));
        }
        let name = text.to_ascii_lowercase();
        if OWN_HEADERS.contains(&name.as_str()) || name.starts_with("mcp-") {
            let hint = "a credential goes into `Authorization` or a header of the server's own";
            return Err(Mistake::new("is a header of the protocol").hint(hint));
        }
        Ok(HeaderName(name))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

impl Name for HeaderName {
    const NAMES: &'static str = "header names";
}

/// The value of such a header, held as a secret.
#[derive(Clone, Debug)]
pub(crate) struct HeaderText(pub(crate) Secret);

impl Word for HeaderText {
    const SECRETS: Secrets = Secrets::Held;

    fn form() -> Form {
        Form::text("text")
    }

    fn parse(text: &str) -> Result<HeaderText, Mistake> {
        let hint = "a header holds visible ASCII characters, with spaces between";
        if text.contains(['\r', '\n']) {
            return Err(Mistake::new("holds a line break").hint(hint));
        }
        if text.is_empty() {
            return Err(Mistake::new("is empty").hint(hint));
        }
        if text.trim() != text {
            return Err(Mistake::new("begins or ends with a space").hint(hint));
        }
        if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(Mistake::new("holds a character that no header can hold").hint(hint));
        }
        if text.len() > VALUE_BYTES {
            return Err(Mistake::new(format!("is longer than {VALUE_BYTES} bytes")).hint("shorten it"));
        }
        Ok(HeaderText(Secret::new(text.to_owned())))
    }

    fn sample(&self) -> Value {
        Value::Null
    }
}

fn one_word(text: &str, hint: &str) -> Result<(), Mistake> {
    if text.is_empty() {
        return Err(Mistake::new("is empty").hint(hint));
    }
    if text.contains(|character: char| character.is_whitespace() || character.is_control()) {
        return Err(Mistake::new("holds white space").hint(hint));
    }
    if text.len() > NAME_BYTES {
        return Err(Mistake::new(format!("is longer than {NAME_BYTES} bytes")).hint(hint));
    }
    Ok(())
}
