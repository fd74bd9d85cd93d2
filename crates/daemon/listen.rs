//! Sockets: binding, accepting, the bounds of one connection, and its end. Nothing here knows what MCP is.

use std::{
    any::Any,
    convert::Infallible,
    future::Future,
    io::{self, Write as _},
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use config::Config;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceBuilder;
use tower_http::{
    catch_panic::{CatchPanicLayer, ResponseForPanic},
    set_header::SetResponseHeaderLayer,
};

use crate::{
    failure::Failure,
    framing::{Framing, HEAD_BYTES, HEAD_FIELDS, Spoken},
    socket::{Activity, Sending, Socket},
    tls::Tls,
    transport::{body::Body, refusal::Refusal},
};

/// A connection may be idle for so long. Longer than the balancers in use keep theirs, so that they close first.
const IDLE_TIME: Duration = Duration::from_secs(620);

/// A handshake must be finished in this time (security 31).
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Requests of one HTTP/2 connection at a time, and how often such a connection shows that it is alive (security 41).
const STREAMS: u32 = 128;
const PING_TIME: Duration = Duration::from_secs(30);

/// Streams that a client may have opened and taken back before we have looked at them.
const TAKEN_BACK: usize = 20;

/// What is served at a listener.
pub(crate) trait Site: Send + Sync + 'static {
    /// Answers one request.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        ends: Ends,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// On what terms connections are taken.
#[derive(Clone)]
pub(crate) struct Terms {
    /// How many at a time.
    pub(crate) most: usize,
    /// Which versions of HTTP they may speak.
    pub(crate) spoken: Spoken,
    /// They begin with a TLS handshake.
    pub(crate) tls: Option<Arc<Tls>>,
}

impl Terms {
    /// For the clients' listener, as configured.
    pub(crate) fn of_clients(config: &Config) -> Result<Terms, Failure> {
        let spoken = if config.http2 { Spoken::OneOrTwo } else { Spoken::One };
        let tls = config.tls.as_ref().map(|files| Tls::open(files, spoken)).transpose()?;
        Ok(Terms { most: config.limits.connections, spoken, tls })
    }

    /// HTTP/1.1 in the clear.
    pub(crate) fn plain(most: usize) -> Terms {
        Terms { most, spoken: Spoken::One, tls: None }
    }
}

/// The two steps in which a listener stops.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    /// No new connection; those that are open go on.
    pub(crate) refuse: CancellationToken,
    /// What is being answered is finished, then every connection closes.
    pub(crate) finish: CancellationToken,
}

/// Takes an address, or says what stands in the way. `setting` is where the operator can change it.
pub(crate) async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "something listens there already: stop it, or change",
            io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege: use a higher one in",
            io::ErrorKind::AddrNotAvailable => "this machine does not have that address: change",
            _ => "change",
        };
        Failure::unavailable(format!("cannot listen on {address}: {error}; {advice} {setting}"))
    })
}

/// Accepts connections until told to stop, and returns when the last of them is closed.
pub(crate) async fn serve<S: Site>(listener: TcpListener, site: Arc<S>, terms: Terms, stop: Stop) {
    let most = terms.most;
    let room = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.refuse.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Mostly the process has no file descriptor left; one will be free soon.
                tracing::warn!(%error, "cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            tracing::warn!(%peer, most, "turned a connection away: too many are open");
            turn_away(stream);
            continue;
        };
        let connection = connection(stream, peer, Arc::clone(&site), terms.clone(), stop.finish.clone());
        connections.spawn(async move {
            connection.await;
            drop(permit);
        });
    }
    // Closed before anything is waited for: new connections are refused at once (bug B85).
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Serves one connection.
async fn connection<S: Site>(
    stream: TcpStream,
    peer: SocketAddr,
    site: Arc<S>,
    terms: Terms,
    finish: CancellationToken,
) {
    let Ok(local) = stream.local_addr() else { return };
    let ends = Ends { local, peer };
    // Answers are written whole; waiting for more to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = terms.tls else { return converse(stream, ends, site, terms.spoken, finish).await };
    let handshake = timeout(HANDSHAKE_TIME, tls.acceptor().accept(stream));
    let shaken = tokio::select! {
        shaken = handshake => shaken,
        () = finish.cancelled() => return,
    };
    match shaken {
        // Boxed, so that connections in the clear do not keep room for it.
        Ok(Ok(stream)) => Box::pin(converse(stream, ends, site, terms.spoken, finish)).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS handshake"),
        Err(_) => tracing::debug!(%peer, "the TLS handshake took too long"),
    }
}

/// Answers requests until the connection ends. The tower layers of the product are all here; the first sees an answer
/// last.
async fn converse<S: Site, C: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: C,
    ends: Ends,
    site: Arc<S>,
    spoken: Spoken,
    finish: CancellationToken,
) {
    let activity = Arc::new(Activity::default());
    let shared = Arc::clone(&activity);
    let service = ServiceBuilder::new()
        .layer(fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(fixed(header::CACHE_CONTROL, "no-store"))
        .layer(CatchPanicLayer::custom(Contained))
        .service_fn(move |request| {
            let (site, answering, refusal) = (Arc::clone(&site), shared.answer(), shared.refusal());
            // Boxed, so that a connection that waits for its next request does not keep room for the answer.
            let answer = Box::pin(async move {
                match refusal {
                    Some(refusal) => refusal.into(),
                    None => site.answer(request, ends).await,
                }
            });
            async move {
                let response = answer.await;
                Ok::<_, Infallible>(response.map(|body| Sending::new(body, answering)))
            }
        });
    let http = http(spoken);
    let socket = Socket::new(stream, Arc::clone(&activity), Framing::new(spoken), finish.clone());
    let serving = http.serve_connection(TokioIo::new(socket), TowerToHyperService::new(service));
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = finish.cancelled() => {
            if !activity.was_used() {
                // Opened in advance, never used: there is nothing to finish.
                return;
            }
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(peer = %ends.peer, %error, "connection ended");
    }
}

/// The library, within bounds (security 31, 32, 41).
fn http(spoken: Spoken) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_TIME).max_headers(HEAD_FIELDS);
    match spoken {
        Spoken::One => http.http1_only(),
        Spoken::OneOrTwo => {
            http.http2()
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS)
                .max_header_list_size(u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX))
                .max_pending_accept_reset_streams(TAKEN_BACK)
                .keep_alive_interval(PING_TIME)
                .keep_alive_timeout(PING_TIME);
            http
        }
    }
}

fn fixed(name: header::HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}

/// A panic ends its own request and nothing else.
#[derive(Clone)]
struct Contained;

impl ResponseForPanic for Contained {
    type ResponseBody = Body;

    fn response_for_panic(&mut self, panic: Box<dyn Any + Send>) -> Response<Body> {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        tracing::error!(panic = text, "a request panicked");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the operator's log says more").into()
    }
}

/// Best effort: the client is told if that costs nothing.
fn turn_away(stream: TcpStream) {
    const ANSWER: &[u8] =
        b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 10\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let Ok(mut stream) = stream.into_std() else { return };
    let _ = stream.write(ANSWER);
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

#[cfg(test)]
mod tests;
