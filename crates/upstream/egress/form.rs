//! Forms that are sent to an authorization server, and the secret that we share with it (RFC 6749 2.3.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request};
use url::form_urlencoded::{Serializer, byte_serialize};

/// The fields of a request.
pub type Form = Vec<(&'static str, String)>;

/// Whether a server that takes these kinds of proof wants the secret in the form. Where it does not say, or takes both, it
/// stands in a header.
pub fn is_secret_in_form(methods: Option<&[String]>) -> bool {
    let takes = |method: &str| methods.unwrap_or_default().iter().any(|one| one == method);
    takes("client_secret_post") && !takes("client_secret_basic")
}

/// Puts the name of the client and its secret into the form or into a header. None when no header can hold them.
pub fn show_secret(
    headers: &mut HeaderMap,
    form: &mut Form,
    (client, secret): (&str, &str),
    in_form: bool,
) -> Option<()> {
    if in_form {
        form.push(("client_id", client.to_owned()));
        form.push(("client_secret", secret.to_owned()));
        return Some(());
    }
    // Each is encoded as in a form first.
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client), encoded(secret));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    headers.insert(AUTHORIZATION, value);
    Some(())
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
