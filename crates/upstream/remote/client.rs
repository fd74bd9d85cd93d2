//! HTTP requests to one address: made with our own headers only, never redirected, never repeated.

use crate::caller::Caller;
use crate::credential::{Credential, Shown};
use crate::declared::{Behalf, Behind};
use crate::error::UpstreamError;
use crate::remote::connections::{Body, Connections};
use crate::remote::dial::{Dialer, proxy_credential};
use crate::remote::socket::Outbound;
use crate::spec::Address;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, LOCATION, PROXY_AUTHORIZATION, USER_AGENT};
use http::response::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use std::sync::{Arc, OnceLock};
use url::Url;

/// What a POST takes in return (spec H-04).
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const US: HeaderValue = HeaderValue::from_static(concat!("portcullis/", env!("CARGO_PKG_VERSION")));

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
    /// With every request: where it goes, and who we are.
    base: HeaderMap,
    credential: Arc<Credential>,
    /// Whose requests these are, where it matters.
    behalf: Behalf,
    /// Where the server has its endpoint, by its own word: elsewhere on the same origin.
    moved: OnceLock<Uri>,
}

impl Client {
    /// The error is for the operator.
    pub(crate) fn new(address: &Address, behalf: &Behalf) -> Result<Self, String> {
        address.credential.check()?;
        let dialer = Dialer::new(address)?;
        let forwarder = address.proxy.as_ref().filter(|_| address.url.scheme() == "http");
        let mut base = HeaderMap::new();
        base.insert(USER_AGENT, US);
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
        Ok(Self {
            connections: Connections::new(dialer, uri.clone()),
            uri,
            target,
            forwarded,
            base,
            credential: Arc::clone(&address.credential),
            behalf: behalf.clone(),
            moved: OnceLock::new(),
        })
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Where requests go that go nowhere else.
    pub(crate) fn target(&self) -> &Uri {
        self.moved.get().unwrap_or(&self.target)
    }

    /// Whether a request may go again, to where its response says: once, with its method and body, and on the same origin, since
    /// our credential goes along (bug B74, security 43).
    pub(crate) fn follows(&self, head: &Parts) -> bool {
        let keeps_body =
            matches!(head.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        if !keeps_body || self.moved.get().is_some() {
            return false;
        }
        let place = head.headers.get(LOCATION).and_then(|place| place.to_str().ok());
        let from = Url::parse(&self.uri.to_string()).ok();
        let Some((from, place)) = from.zip(place) else { return false };
        let Ok(mut to) = from.join(place) else { return false };
        to.set_fragment(None);
        let is_ours = to.origin() == from.origin() && to.username().is_empty() && to.password().is_none();
        let Some(to) = to.as_str().parse().ok().filter(|_| is_ours) else { return false };
        self.moved.set(self.target_at(&to)).is_ok()
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
        let mut request = self.request(Method::GET, self.target(), Bytes::new());
        request.headers_mut().insert(ACCEPT, EVENTS);
        request
    }

    pub(crate) fn delete(&self) -> Box<Outbound> {
        self.request(Method::DELETE, self.target(), Bytes::new())
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
        self.credential.put(headers);
        request
    }

    /// Returns when the head of the response is there. Whatever fails before the request could be written is
    /// [`UpstreamError::NotRunning`].
    pub(crate) async fn send(&self, request: Box<Outbound>) -> Result<Response<Body>, UpstreamError> {
        match self.credential.is_fixed() {
            true => self.connections.send(request).await,
            false => Box::pin(self.send_as(request)).await,
        }
    }

    /// With a credential that differs from time to time. Where the server does not take a token, another one is shown, once: what is
    /// answered with 401 did not run (spec A-11).
    async fn send_as(&self, mut request: Box<Outbound>) -> Result<Response<Body>, UpstreamError> {
        let caller = match (request.extensions().get::<Arc<Caller>>(), &self.behalf.behind) {
            (Some(caller), _) => Some(Arc::clone(caller)),
            (None, Behind::One(_)) if self.credential.is_for_callers() => {
                let unknown = UpstreamError::Credential { why: "it is not known who calls" };
                Some(self.behalf.speaker.caller().await.ok_or(unknown)?)
            }
            (None, Behind::One(_) | Behind::Many) => None,
        };
        let shown = self.credential.show(request.headers_mut(), caller.as_deref(), None).await?;
        let Shown::Token(token) = shown else { return self.connections.send(request).await };
        let mut again = request.clone();
        let response = self.connections.send(request).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        drop(response);
        self.credential.show(again.headers_mut(), caller.as_deref(), Some(&token)).await?;
        self.connections.send(again).await
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
