//! HTTP requests to one address: made with our own headers only, never redirected, never repeated.

use crate::error::UpstreamError;
use crate::remote::dial::{Dialer, proxy_credential};
use crate::spec::Address;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::CertificateError;
use std::error::Error;
use std::io;
use std::time::Duration;

/// Idle connections are kept for so long. Many servers close theirs after about as much.
const IDLE: Duration = Duration::from_secs(30);
/// Idle connections to one server.
const MOST_IDLE: usize = 16;
/// What a response may say before its body.
const HEADERS: usize = 64;
const HEADER_BYTES: usize = 128 * 1024;

/// What a POST takes in return (spec H-04).
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const US: HeaderValue = HeaderValue::from_static(concat!("portcullis/", env!("CARGO_PKG_VERSION")));

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

/// Talks to one address.
pub(crate) struct Client {
    http: legacy::Client<Dialer, Full<Bytes>>,
    uri: Uri,
    /// With every request: who we are, and our credentials.
    base: HeaderMap,
}

impl Client {
    /// The error is for the operator.
    pub(crate) fn new(address: &Address) -> Result<Self, String> {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).timer(TokioTimer::new());
        builder.pool_idle_timeout(IDLE).pool_max_idle_per_host(MOST_IDLE);
        builder.http1_max_headers(HEADERS).http1_max_buf_size(HEADER_BYTES);
        let http = builder.build(Dialer::new(address)?);
        let mut base = HeaderMap::new();
        base.insert(USER_AGENT, US);
        for (name, value) in &address.headers {
            let (name, value) = credential(name, value)?;
            base.append(name, value);
        }
        if let Some(proxy) = address.proxy.as_ref().filter(|_| address.url.scheme() == "http")
            && let Some(value) = proxy_credential(proxy)?
        {
            base.insert(PROXY_AUTHORIZATION, value);
        }
        Ok(Self { http, uri: uri(address)?, base })
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) fn post(&self, uri: &Uri, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = self.request(Method::POST, uri, body);
        request.headers_mut().insert(CONTENT_TYPE, JSON);
        request.headers_mut().insert(ACCEPT, EITHER);
        request
    }

    pub(crate) fn get(&self) -> Request<Full<Bytes>> {
        let mut request = self.request(Method::GET, &self.uri, Bytes::new());
        request.headers_mut().insert(ACCEPT, EVENTS);
        request
    }

    pub(crate) fn delete(&self) -> Request<Full<Bytes>> {
        self.request(Method::DELETE, &self.uri, Bytes::new())
    }

    fn request(&self, method: Method, uri: &Uri, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        request.headers_mut().clone_from(&self.base);
        request
    }

    /// Returns when the head of the response is there. Whatever fails before the request could be written is
    /// [`UpstreamError::NotRunning`].
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        self.http.request(request).await.map_err(|error| {
            if error.is_connect() { UpstreamError::not_running(unreachable(&error)) } else { broken() }
        })
    }
}

/// The connection ended, or what came back is no HTTP; the request may have run.
pub(crate) fn broken() -> UpstreamError {
    UpstreamError::Exited { why: "the connection broke before the answer".into(), sent: true }
}

fn uri(address: &Address) -> Result<Uri, String> {
    let mut url = address.url.clone();
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err("the URL is neither http nor https".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL holds credentials; they belong into a header".to_owned());
    }
    url.set_fragment(None);
    url.as_str().parse().map_err(|_| "the URL cannot be used".to_owned())
}

fn credential(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
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

/// Why there is no connection, without a name or an address in it.
fn unreachable(error: &(dyn Error + 'static)) -> &'static str {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(why) = words(cause) {
            return why;
        }
        next = cause.source();
    }
    "it cannot be reached"
}

fn words(cause: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        return Some(untrusted(error));
    }
    // The type of these is not public.
    if let Some(tunnel) = cause.to_string().strip_prefix("tunnel error: ") {
        return Some(match tunnel {
            "failed to create underlying connection" => "the proxy cannot be reached",
            "proxy authorization required" => "the proxy does not accept our credential",
            _ => "the proxy does not connect us",
        });
    }
    let error = cause.downcast_ref::<io::Error>()?;
    // `source` of such an error leaves out the one right inside.
    if let Some(why) = error.get_ref().and_then(|inner| words(inner)) {
        return Some(why);
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some("it refuses connections"),
        io::ErrorKind::TimedOut => Some("there was no connection in time"),
        _ => None,
    }
}

fn untrusted(error: &rustls::Error) -> &'static str {
    let rustls::Error::InvalidCertificate(error) = error else { return "the TLS handshake failed" };
    match error {
        CertificateError::UnknownIssuer => "TLS: its certificate is from an authority we do not know",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "TLS: its certificate is for another host"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "TLS: its certificate has expired"
        }
        _ => "TLS: its certificate is not valid",
    }
}
