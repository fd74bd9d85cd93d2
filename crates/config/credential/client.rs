//! Words of what proves the gateway to an authorization server.

use serde_json::{Value, json};
use url::Url;

use super::one_word;
use crate::address::{http_url, is_loopback};
use crate::form::Form;
use crate::model::Secret;
use crate::word::{Mistake, Secrets, Word};

/// The longest secret, in bytes.
const SECRET_BYTES: usize = 4096;

/// The URL of a token endpoint.
#[derive(Clone, Debug)]
pub(crate) struct TokenUrl(pub(crate) Url);

impl Word for TokenUrl {
    fn form() -> Form {
        Form::pattern("URL", "https?://.+")
    }

    fn parse(text: &str) -> Result<TokenUrl, Mistake> {
        Ok(TokenUrl(confidential(text, "https://id.example.com/oauth/token")?))
    }

    fn sample(&self) -> Value {
        json!(self.0.as_str())
    }
}

/// Where an issuer is asked about tokens.
#[derive(Clone, Debug)]
pub(crate) struct IntrospectionUrl(pub(crate) Url);

impl Word for IntrospectionUrl {
    fn form() -> Form {
        Form::pattern("URL", "https?://.+")
    }

    fn parse(text: &str) -> Result<IntrospectionUrl, Mistake> {
        Ok(IntrospectionUrl(confidential(text, "https://id.example.com/oauth/introspect")?))
    }

    fn sample(&self) -> Value {
        json!(self.0.as_str())
    }
}

/// The name of an authorization server, as it is written: it is compared with what its metadata say.
#[derive(Clone, Debug)]
pub(crate) struct ServerIssuer {
    pub(crate) written: String,
    pub(crate) url: Url,
}

impl Word for ServerIssuer {
    fn form() -> Form {
        Form::pattern("URL", "https?://.+")
    }

    fn parse(text: &str) -> Result<ServerIssuer, Mistake> {
        let url = confidential(text, "https://id.example.com")?;
        if url.query().is_some() {
            return Err(Mistake::new("has a query").hint("write the name that its metadata have as `issuer`"));
        }
        Ok(ServerIssuer { written: text.to_owned(), url })
    }

    fn sample(&self) -> Value {
        json!(self.written)
    }
}

/// What a token is for, as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct ResourceUrl(pub(crate) String);

impl Word for ResourceUrl {
    fn form() -> Form {
        Form::text("URL")
    }

    fn parse(text: &str) -> Result<ResourceUrl, Mistake> {
        one_word(text, "write it exactly as the authorization server knows it")?;
        let url = Url::parse(text).map_err(|why| {
            Mistake::new(format!("is no URL: {why}")).hint("write it with its scheme, such as `https://`")
        })?;
        if url.fragment().is_some() {
            return Err(Mistake::new("has a fragment").hint("end it before the `#`"));
        }
        Ok(ResourceUrl(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// The name of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientId(pub(crate) String);

impl Word for ClientId {
    fn form() -> Form {
        Form::text("text")
    }

    fn parse(text: &str) -> Result<ClientId, Mistake> {
        one_word(text, "write it exactly as the authorization server knows it")?;
        Ok(ClientId(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// The name of a key.
#[derive(Clone, Debug)]
pub(crate) struct KeyId(pub(crate) String);

impl Word for KeyId {
    fn form() -> Form {
        Form::text("text")
    }

    fn parse(text: &str) -> Result<KeyId, Mistake> {
        one_word(text, "write the `kid` that the authorization server knows the key by")?;
        Ok(KeyId(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// The secret of a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientSecret(pub(crate) Secret);

impl Word for ClientSecret {
    const SECRETS: Secrets = Secrets::Held;

    fn form() -> Form {
        Form::text("text")
    }

    fn parse(text: &str) -> Result<ClientSecret, Mistake> {
        let hint = "write `${secret:NAME}`, and the secret into a file of its own";
        if text.is_empty() {
            return Err(Mistake::new("is empty").hint(hint));
        }
        if text.contains(char::is_control) {
            return Err(Mistake::new("holds a line break or another control character").hint(hint));
        }
        if text.len() > SECRET_BYTES {
            return Err(Mistake::new(format!("is longer than {SECRET_BYTES} bytes")).hint(hint));
        }
        Ok(ClientSecret(Secret::new(text.to_owned())))
    }

    fn sample(&self) -> Value {
        Value::Null
    }
}

/// A scope that the gateway asks for on its own account.
#[derive(Clone, Debug)]
pub(crate) struct Requested(pub(crate) String);

impl Word for Requested {
    fn form() -> Form {
        Form::pattern("scope", r#"[^\s"\\]+"#)
    }

    fn parse(text: &str) -> Result<Requested, Mistake> {
        one_word(text, "write each scope as an item of its own")?;
        if text.contains(['"', '\\']) || !text.is_ascii() {
            return Err(Mistake::new("is no scope").hint("letters, digits and signs, no `\"` and no `\\`"));
        }
        if text == "offline_access" {
            // spec A-26: no refresh token is kept, so none is asked for.
            let hint = "remove it: the gateway asks for a new token when it needs one";
            return Err(Mistake::new("asks for a refresh token").hint(hint));
        }
        Ok(Requested(text.to_owned()))
    }

    fn sample(&self) -> Value {
        json!(self.0)
    }
}

/// Secrets are sent there: https, or no further than this machine.
fn confidential(text: &str, example: &str) -> Result<Url, Mistake> {
    let url = http_url(text, example)?;
    if url.fragment().is_some() {
        return Err(Mistake::new("has a fragment").hint("end it before the `#`"));
    }
    if url.scheme() != "https" && !is_loopback(&url) {
        let hint = "write https: the secret of the gateway is sent there";
        return Err(Mistake::new("is neither https nor on this machine").hint(hint));
    }
    Ok(url)
}
