//! Where the gateway may be sent by what others say: URLs in the metadata of servers and of those who issue tokens
//! (spec A-27, security 43 and 44).
//!
//! A URL is looked at before anything is done with it, and the addresses of its host again when they are known: a
//! connection is made to an address that was looked at, and to no other. What the operator wrote himself is his to
//! say, for its own scheme, host and port.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use url::{Host, Origin, Url};

mod address;
mod form;
mod metadata;
mod resolver;

pub use address::is_public;
pub use form::{Form, SecretPlace, post};
pub use metadata::{Metadata, MetadataError, metadata, metadata_places};
pub use resolver::Resolver;

/// From looking up the name to the last byte of the answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// What an answer may hold, in bytes.
pub const LARGEST: usize = 512 * 1024;
/// Ports below this are those of other services, 443 apart.
const PRIVILEGED: u16 = 1024;
/// The longest URL that is looked at, in bytes.
const LONGEST: usize = 2048;

/// Ends of names that mean something else in every network.
const LOCAL_NAMES: [&str; 11] = [
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "home.arpa",
    "onion",
];

/// Why a URL is not gone to. Says nothing of where it points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is no plain `https://HOST/…`.
    #[error("it is no https URL")]
    Scheme,
    /// It is written as nobody writes one who has nothing to hide.
    #[error("it is written in a way that hides its host")]
    Spelling,
    /// It holds a user or a password.
    #[error("it holds a user")]
    User,
    /// It is for another service than HTTP.
    #[error("its port is that of another service")]
    Port,
    /// Its name is one of a local network.
    #[error("its host is a local name")]
    Name,
    /// Its address is not one of the public internet.
    #[error("its address is not public")]
    Address,
}

/// What the operator's configuration names: URLs on one of these origins may be gone to wherever they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named(Vec<Origin>);

impl Named {
    /// The origins of these URLs.
    pub fn of<'a>(urls: impl IntoIterator<Item = &'a Url>) -> Self {
        Self(urls.into_iter().map(Url::origin).filter(Origin::is_tuple).collect())
    }

    /// Whether the operator wrote the scheme, host and port of this URL.
    pub fn names(&self, url: &Url) -> bool {
        self.0.contains(&url.origin())
    }
}

/// A URL that may be gone to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    url: Url,
    /// The operator named it: its addresses are not looked at.
    named: bool,
}

impl Destination {
    /// What the operator wrote himself.
    pub fn written(url: Url) -> Self {
        Self { url, named: true }
    }

    /// Where it is.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

/// Looks at a URL that somebody else wrote. Its host is looked up later, by the [`Resolver`] of the connection.
pub fn check(text: &str, named: &Named) -> Result<Destination, Refusal> {
    let hidden = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '\\';
    if text.len() > LONGEST || text.contains(hidden) {
        return Err(Refusal::Spelling);
    }
    let url = Url::parse(text).map_err(|_| Refusal::Spelling)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal::Scheme);
    }
    // A parser mends what is behind the scheme; we do not go where only a mended URL leads.
    let rest = text.get(url.scheme().len()..).and_then(|rest| rest.strip_prefix("://"));
    if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Err(Refusal::Spelling);
    }
    if !url.username().is_empty() || url.password().is_some() || is_with_user(rest.unwrap_or_default()) {
        return Err(Refusal::User);
    }
    if named.names(&url) {
        return Ok(Destination { url, named: true });
    }
    if url.scheme() != "https" {
        return Err(Refusal::Scheme);
    }
    if url.port().is_some_and(|port| port < PRIVILEGED) {
        return Err(Refusal::Port);
    }
    match url.host() {
        Some(Host::Ipv4(address)) if is_public(address.into()) => {}
        Some(Host::Ipv6(address)) if is_public(address.into()) => {}
        Some(Host::Ipv4(_) | Host::Ipv6(_)) => return Err(Refusal::Address),
        Some(Host::Domain(name)) if is_local(name) => return Err(Refusal::Name),
        Some(Host::Domain(_)) => {}
        None => return Err(Refusal::Spelling),
    }
    Ok(Destination { url, named: false })
}

/// `https://@host/` has an empty user, which a parser forgets.
fn is_with_user(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.contains('@')
}

/// A name without a dot comes from a file of this machine or from its search list.
fn is_local(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let ends = |end: &str| {
        let before = name.strip_suffix(end);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    !name.contains('.') || LOCAL_NAMES.into_iter().any(ends)
}

/// Why there is no answer. Names neither a host nor what was answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// It is not gone to.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// Nobody answered.
    #[error("it cannot be reached")]
    Unreachable,
    /// No answer, or not all of it, in time.
    #[error("it did not answer within {} s", PATIENCE.as_secs())]
    Slow,
    /// The answer is too long.
    #[error("its answer is larger than {LARGEST} bytes")]
    TooLarge,
}

/// A client for what others name: no redirects, no cookies, no proxy; nothing is read for longer than [`PATIENCE`],
/// and nothing larger than [`LARGEST`].
#[derive(Clone)]
pub struct Client {
    anywhere: Http<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    outside: Http<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
}

impl Client {
    /// With the authorities that the system trusts, and those in `ca`, PEM. The error is for the operator.
    pub fn new(ca: Option<&[u8]>) -> Result<Self, String> {
        let tls = crate::remote::tls_of(ca)?;
        let client = |resolver| {
            let mut connector = HttpConnector::new_with_resolver(resolver);
            connector.enforce_http(false);
            connector.set_connect_timeout(Some(PATIENCE));
            let connector = HttpsConnectorBuilder::new()
                .with_tls_config(tls.clone())
                .https_or_http()
                .enable_http1()
                .wrap_connector(connector);
            // What is fetched is fetched seldom: no connection waits for the next.
            Http::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector)
        };
        Ok(Self { anywhere: client(Resolver::anywhere()), outside: client(Resolver::outside()) })
    }

    /// Sends one request, whose URI is set here, and returns the whole answer, whatever its status: redirects too.
    pub async fn fetch(
        &self,
        to: &Destination,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, EgressError> {
        let (mut head, body) = request.into_parts();
        head.uri = to.url.as_str().parse().map_err(|_| Refusal::Spelling)?;
        let request = Request::from_parts(head, Full::new(body));
        let client = if to.named { &self.anywhere } else { &self.outside };
        let fetching = async {
            let response = client.request(request).await.map_err(|error| unreachable(&error))?;
            let (head, body) = response.into_parts();
            match Limited::new(body, LARGEST).collect().await {
                Ok(body) => Ok(Response::from_parts(head, body.to_bytes())),
                Err(why) if why.is::<LengthLimitError>() => Err(EgressError::TooLarge),
                Err(_) => Err(EgressError::Unreachable),
            }
        };
        timeout(PATIENCE, fetching).await.map_err(|_| EgressError::Slow)?
    }
}

/// Whether it was us who did not want to.
fn unreachable(error: &(dyn Error + 'static)) -> EgressError {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(refusal) = resolver::refusal(cause) {
            return EgressError::Refused(refusal);
        }
        next = cause.source();
    }
    EgressError::Unreachable
}

/// Opens connections, plain or over TLS.
pub type Connector = HttpsConnector<HttpConnector>;

/// Opens connections anywhere, with the authorities that the system trusts. The error is for whoever runs the program.
pub fn connector() -> Result<Connector, String> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(PATIENCE));
    let builder = HttpsConnectorBuilder::new().with_tls_config(crate::remote::tls_of(None)?);
    Ok(builder.https_or_http().enable_http1().wrap_connector(connector))
}

/// One client for all who need no authority of their own.
pub fn client() -> Result<Arc<Client>, String> {
    Client::new(None).map(Arc::new)
}

#[cfg(test)]
mod tests;
