//! HTTP requests to one address: made with our own headers only, never redirected, never repeated.

use crate::error::UpstreamError;
use crate::remote::connections::{Body, Connections};
use crate::remote::dial::{Dialer, proxy_credential};
use crate::remote::socket::Outbound;
use crate::spec::Address;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, PROXY_AUTHORIZATION, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;

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

/// Room for the headers that are not the same with every request.
const OTHERS: usize = 8;

/// Talks to one address.
pub(crate) struct Client {
    pub(crate) connections: Connections,
    uri: Uri,
    /// The same as requests are written with it.
    target: Uri,
    /// A proxy reads the requests: they have to name the server (absolute form).
    forwarded: bool,
    /// With every request: where it goes, who we are, and our credentials.
    base: HeaderMap,
}

impl Client {
    /// The error is for the operator.
    pub(crate) fn new(address: &Address) -> Result<Self, String> {
        let dialer = Dialer::new(address)?;
        let forwarder = address.proxy.as_ref().filter(|_| address.url.scheme() == "http");
        let mut base = HeaderMap::new();
        base.insert(USER_AGENT, US);
        for (name, value) in &address.headers {
            let (name, value) = credential(name, value)?;
            base.append(name, value);
        }
        if let Some(proxy) = forwarder
            && let Some(value) = proxy_credential(proxy)?
        {
            base.insert(PROXY_AUTHORIZATION, value);
        }
        let (uri, forwarded) = (uri(address)?, forwarder.is_some());
        // A port that goes without saying is not in there.
        let host = uri.authority().map(|authority| HeaderValue::from_str(authority.as_str()));
        base.insert(HOST, host.and_then(Result::ok).ok_or("the URL cannot be used")?);
        let target = written(&uri, forwarded);
        Ok(Self { connections: Connections::new(dialer, uri.clone()), uri, target, forwarded, base })
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Where requests go that go nowhere else.
    pub(crate) fn target(&self) -> &Uri {
        &self.target
    }

    /// Another URI of the same server, as requests are written with it.
    pub(crate) fn target_at(&self, uri: &Uri) -> Uri {
        written(uri, self.forwarded)
    }

    pub(crate) fn post(&self, target: &Uri, body: Bytes) -> Box<Outbound> {
        let mut request = self.request(Method::POST, target, body);
        request.headers_mut().insert(CONTENT_TYPE, JSON);
        request.headers_mut().insert(ACCEPT, EITHER);
        request
    }

    pub(crate) fn get(&self) -> Box<Outbound> {
        let mut request = self.request(Method::GET, &self.target, Bytes::new());
        request.headers_mut().insert(ACCEPT, EVENTS);
        request
    }

    pub(crate) fn delete(&self) -> Box<Outbound> {
        self.request(Method::DELETE, &self.target, Bytes::new())
    }

    fn request(&self, method: Method, target: &Uri, body: Bytes) -> Box<Outbound> {
        let mut request = Box::new(Request::new(Full::new(body)));
        *request.method_mut() = method;
        *request.uri_mut() = target.clone();
        let headers = request.headers_mut();
        headers.reserve(self.base.len() + OTHERS);
        for (name, value) in &self.base {
            headers.append(name, value.clone());
        }
        request
    }

    /// Returns when the head of the response is there. Whatever fails before the request could be written is
    /// [`UpstreamError::NotRunning`].
    pub(crate) async fn send(&self, request: Box<Outbound>) -> Result<Response<Body>, UpstreamError> {
        self.connections.send(request).await
    }
}

/// A URI as it stands in the first line of a request.
fn written(uri: &Uri, forwarded: bool) -> Uri {
    if forwarded {
        return uri.clone();
    }
    uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/")).into()
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
