//! Forms that are sent to an authorization server, and the secret that we share with it (RFC 6749 2.3.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request};
use url::form_urlencoded::{Serializer, byte_serialize};

/// The fields of a request.
pub type Form = Vec<(&'static str, String)>;

/// Where a server wants to be shown the secret that it shares with a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretPlace {
    /// In a header.
    Header,
    /// Among the fields of the form.
    Form,
}

impl SecretPlace {
    /// Of a server that takes these kinds of proof. Where it does not say, or takes both, that is the header.
    pub fn of(methods: Option<&[String]>) -> Self {
        let takes = |method: &str| methods.unwrap_or_default().iter().any(|one| one == method);
        match takes("client_secret_post") && !takes("client_secret_basic") {
            true => Self::Form,
            false => Self::Header,
        }
    }

    /// Puts the name of the client and its secret there. None when no header can hold them.
    pub fn show(
        self,
        (client, secret): (&str, &str),
        headers: &mut HeaderMap,
        form: &mut Form,
    ) -> Option<()> {
        match self {
            Self::Form => {
                form.push(("client_id", client.to_owned()));
                form.push(("client_secret", secret.to_owned()));
            }
            Self::Header => {
                // Each is encoded as in a form first.
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(client), encoded(secret));
                let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
        }
        Some(())
    }
}

/// The request that sends a form, with these headers. Its URI is set where it is sent.
pub fn post(form: Form, headers: HeaderMap) -> Request<Bytes> {
    let mut request = Request::new(Serializer::new(String::new()).extend_pairs(form).finish().into());
    *request.method_mut() = Method::POST;
    *request.headers_mut() = headers;
    let head = request.headers_mut();
    head.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    head.insert(ACCEPT, HeaderValue::from_static("application/json"));
    request
}
