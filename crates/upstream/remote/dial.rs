//! Connections: direct or through a proxy, plain or TLS, in a time of their own.

use crate::error::UpstreamError;
use crate::remote::tls;
use crate::spec::Address;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::CertificateError;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower_service::Service;
use url::Url;

/// From looking up the name to the end of the TLS handshake.
const CONNECT: Duration = Duration::from_secs(10);
/// A peer that vanished without a word is noticed after about so long.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

type Failure = Box<dyn Error + Send + Sync>;
type Wire = TokioIo<TcpStream>;

/// What HTTP is spoken over.
pub(crate) type Stream = MaybeHttpsStream<Wire>;

/// Opens connections to one address.
pub(crate) struct Dialer(HttpsConnector<Route>);

impl Dialer {
    /// The error is for the operator.
    pub(crate) fn new(address: &Address) -> Result<Self, String> {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls::configure(address)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(Route::new(address)?);
        Ok(Self(https))
    }

    /// Opens one, or says why not.
    pub(crate) async fn dial(&self, to: &Uri) -> Result<Stream, UpstreamError> {
        let mut https = self.0.clone();
        let dialing = async {
            poll_fn(|context| https.poll_ready(context)).await?;
            https.call(to.clone()).await
        };
        let timed_out = |_| Failure::from(io::Error::from(io::ErrorKind::TimedOut));
        let dialed = tokio::time::timeout(CONNECT, dialing).await.map_err(timed_out).flatten();
        dialed.map_err(|error| UpstreamError::not_running(unreachable(&*error)))
    }
}

/// How bytes get to the server.
#[derive(Clone)]
enum Route {
    Direct(HttpConnector),
    /// The proxy passes bytes on, which are TLS.
    Through(Tunnel<HttpConnector>),
    /// The proxy reads our requests.
    By(HttpConnector, Uri),
}

impl Route {
    fn new(address: &Address) -> Result<Self, String> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_keepalive(Some(KEEP_ALIVE));
        connector.set_connect_timeout(Some(CONNECT));
        let Some(proxy) = &address.proxy else { return Ok(Self::Direct(connector)) };
        let to = proxy_address(proxy)?;
        if address.url.scheme() != "https" {
            return Ok(Self::By(connector, to));
        }
        let tunnel = Tunnel::new(to, connector);
        Ok(Self::Through(match proxy_credential(proxy)? {
            Some(credential) => tunnel.with_auth(credential),
            None => tunnel,
        }))
    }
}

fn proxy_address(proxy: &Url) -> Result<Uri, String> {
    let host = proxy.host_str().filter(|_| proxy.scheme() == "http");
    let host = host.ok_or("the proxy is no http URL")?;
    let port = proxy.port_or_known_default().unwrap_or(80);
    format!("http://{host}:{port}/").parse().map_err(|_| "the proxy is no http URL".to_owned())
}

/// `Proxy-Authorization` from the user and password in the proxy's URL.
pub(crate) fn proxy_credential(proxy: &Url) -> Result<Option<HeaderValue>, String> {
    if proxy.username().is_empty() {
        return Ok(None);
    }
    let pair = [percent_decoded(proxy.username()), percent_decoded(proxy.password().unwrap_or_default())];
    let pair = pair.join(&b':');
    let value = format!("Basic {}", STANDARD.encode(pair));
    let mut value = HeaderValue::try_from(value).map_err(|error| error.to_string())?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// A `%` that begins no escape stands for itself.
fn percent_decoded(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) if byte == b'%' => {
                out.push(escaped);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

impl Service<Uri> for Route {
    type Response = Wire;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Wire, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match self {
            Self::Direct(connector) | Self::By(connector, _) => {
                connector.poll_ready(context).map_err(Failure::from)
            }
            Self::Through(tunnel) => tunnel.poll_ready(context).map_err(Failure::from),
        }
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        match self {
            Self::Direct(connector) => wire(connector.call(to)),
            Self::Through(tunnel) => wire(tunnel.call(to)),
            Self::By(connector, proxy) => wire(connector.call(proxy.clone())),
        }
    }
}

fn wire<E: Into<Failure>>(
    dialing: impl Future<Output = Result<Wire, E>> + Send + 'static,
) -> Pin<Box<dyn Future<Output = Result<Wire, Failure>> + Send>> {
    Box::pin(async move { dialing.await.map_err(Into::into) })
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
