//! Connections: direct or through a proxy, plain or TLS, in a time of their own.

use crate::remote::tls;
use crate::spec::Address;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use std::io::{self, IoSlice};
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

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Dialing<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// Opens connections to one address.
#[derive(Clone)]
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
}

impl Service<Uri> for Dialer {
    type Response = MaybeHttpsStream<Wire>;
    type Error = Failure;
    type Future = Dialing<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let dialing = self.0.call(to);
        Box::pin(async move {
            let timed_out = |_| Failure::from(io::Error::from(io::ErrorKind::TimedOut));
            tokio::time::timeout(CONNECT, dialing).await.map_err(timed_out)?
        })
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
    type Future = Dialing<Wire>;

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
            Self::Direct(connector) => wire(connector.call(to), false),
            Self::Through(tunnel) => wire(tunnel.call(to), false),
            Self::By(connector, proxy) => wire(connector.call(proxy.clone()), true),
        }
    }
}

fn wire<E: Into<Failure>>(
    dialing: impl Future<Output = Result<TokioIo<TcpStream>, E>> + Send + 'static,
    forwarded: bool,
) -> Dialing<Wire> {
    Box::pin(async move {
        let stream = dialing.await.map_err(Into::into)?;
        Ok(Wire { stream, forwarded })
    })
}

/// One connection.
pub(crate) struct Wire {
    stream: TokioIo<TcpStream>,
    /// A proxy reads the requests: they have to name the server (absolute form).
    forwarded: bool,
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.forwarded)
    }
}

impl Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }
}
