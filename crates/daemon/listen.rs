//! Sockets: binding, accepting, the bounds of one connection, and its end. Nothing here knows what MCP is.

use std::{
    any::Any,
    convert::Infallible,
    error::Error,
    future::{Future, poll_fn},
    io::{self, Write as _},
    net::SocketAddr,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
    task::{Poll, Waker},
    time::Duration,
};

use config::Config;
use futures_util::FutureExt as _;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::Service,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    failure::Failure,
    framing::{Framing, HEAD_BYTES, Spoken},
    lanes::Lanes,
    socket::{Activity, Sending, Socket},
    tls::Tls,
    transport::{body::Body, refusal::Refusal},
};

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
    /// Where they are served; without, wherever they are accepted.
    pub(crate) lanes: Option<Arc<Lanes>>,
}

impl Terms {
    /// For the clients' listener, as configured.
    pub(crate) fn of_clients(config: &Config) -> Result<Terms, Failure> {
        let spoken = if config.http2 { Spoken::OneOrTwo } else { Spoken::One };
        let tls = config.tls.as_ref().map(|files| Tls::open(files, spoken)).transpose()?;
        Ok(Terms { most: config.limits.connections, spoken, tls, lanes: None })
    }

    /// HTTP/1.1 in the clear.
    pub(crate) fn plain(most: usize) -> Terms {
        Terms { most, spoken: Spoken::One, tls: None, lanes: None }
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
    let here = Handle::current();
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
        // It is known to this runtime so far; the one that serves it has to know it instead.
        let Ok(stream) = stream.into_std() else { continue };
        let (site, terms, finish) = (Arc::clone(&site), terms.clone(), stop.finish.clone());
        let lane = terms.lanes.as_ref().and_then(|lanes| lanes.quietest()).unwrap_or(&here).clone();
        let served = async move {
            if let Ok(stream) = TcpStream::from_std(stream) {
                connection(stream, peer, site, terms, finish).await;
            }
            drop(permit);
        };
        connections.spawn_on(served, &lane);
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
    // Boxed, so that connections in the clear do not keep room for it.
    Box::pin(async move {
        let handshake = timeout(HANDSHAKE_TIME, tls.acceptor().accept(stream));
        let shaken = tokio::select! {
            shaken = handshake => shaken,
            () = finish.cancelled() => return,
        };
        match shaken {
            Ok(Ok(stream)) => converse(stream, ends, site, terms.spoken, finish).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS handshake"),
            Err(_) => tracing::debug!(%peer, "the TLS handshake took too long"),
        }
    })
    .await;
}

/// Answers requests until the connection ends.
async fn converse<S: Site, C: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: C,
    ends: Ends,
    site: Arc<S>,
    spoken: Spoken,
    finish: CancellationToken,
) {
    let activity = Arc::new(Activity::default());
    let mut socket = Socket::new(stream, Arc::clone(&activity), Framing::new(spoken), finish.clone());
    let mut desk = Desk { site, ends, activity: Arc::clone(&activity) };
    let ended: Result<(), Box<dyn Error + Send + Sync>> = loop {
        let begun = tokio::select! {
            biased;
            begun = socket.begun() => begun,
            () = finish.cancelled() => match activity.was_used() {
                true => break socket.shutdown().await.map_err(Into::into),
                // Opened in advance, never used: there is nothing to finish.
                false => break Ok(()),
            }
        };
        // Boxed, so that a connection keeps room for the library only while there are requests.
        match begun {
            Ok(Some(false)) => {
                let serving = http1::Builder::new().serve_connection(TokioIo::new(socket), desk);
                let mut serving = Box::new(serving);
                let shut = http1::Connection::graceful_shutdown;
                match until(Pin::new(&mut *serving), shut, &activity, &finish).await {
                    Ok(Pause::Idle) => (),
                    Ok(Pause::End) => break Ok(()),
                    Err(error) => break Err(error.into()),
                }
                let parts = serving.into_parts();
                (socket, desk) = (parts.io.into_inner(), parts.service);
                socket.take_back(&parts.read_buf);
            }
            Ok(Some(true)) => {
                let mut serving = Box::pin(http2().serve_connection(TokioIo::new(socket), desk));
                let shut = http2::Connection::graceful_shutdown;
                let ended = until(serving.as_mut(), shut, &activity, &finish).await;
                break ended.map(|_| ()).map_err(Into::into);
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error.into()),
        }
    };
    if let Err(error) = ended {
        tracing::debug!(peer = %ends.peer, %error, "connection ended");
    }
}

/// Why the library is not asked any more.
enum Pause {
    /// Nothing has been asked for a while.
    Idle,
    /// The connection has ended.
    End,
}

/// Goes on with a connection until it is idle or ends. When told to finish, it ends after what is being answered.
async fn until<F: Future<Output = hyper::Result<()>>>(
    mut serving: Pin<&mut F>,
    graceful_shutdown: impl Fn(Pin<&mut F>),
    activity: &Activity,
    finish: &CancellationToken,
) -> hyper::Result<Pause> {
    let mut told = pin!(finish.cancelled());
    let mut waits: Option<Waker> = None;
    let paused = poll_fn(|cx| {
        // Asked once for each waker, not each time: asking takes locks that all connections share.
        let asked = waits.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        let finishes = match asked {
            true => finish.is_cancelled(),
            false => {
                waits = Some(cx.waker().clone());
                told.as_mut().poll(cx).is_ready()
            }
        };
        if finishes {
            return Poll::Ready(None);
        }
        match serving.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Some(ended.map(|()| Pause::End))),
            Poll::Pending if activity.is_idle() => Poll::Ready(Some(Ok(Pause::Idle))),
            Poll::Pending => Poll::Pending,
        }
    });
    if let Some(paused) = paused.await {
        return paused;
    }
    if activity.was_used() {
        graceful_shutdown(serving.as_mut());
        serving.await?;
    }
    Ok(Pause::End)
}

/// HTTP/2 within bounds (security 31, 32, 41). Those of HTTP/1.1 are kept by `socket.rs` and `framing.rs`.
fn http2() -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(TAKEN_BACK)
        .keep_alive_interval(PING_TIME)
        .keep_alive_timeout(PING_TIME);
    http
}

/// Where the requests of one connection are handed in.
struct Desk<S> {
    site: Arc<S>,
    ends: Ends,
    activity: Arc<Activity>,
}

impl<S: Site> Service<Request<Incoming>> for Desk<S> {
    type Response = Response<Sending<Body>>;
    type Error = Infallible;
    // Boxed, so that a connection that waits for its next request does not keep room for the answer.
    type Future = Pin<Box<dyn Future<Output = Result<Response<Sending<Body>>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (answering, refusal) = (self.activity.answer(), self.activity.refusal());
        let (site, ends) = (Arc::clone(&self.site), self.ends);
        Box::pin(async move {
            let mut response = match refusal {
                Some(refusal) => refusal.into(),
                None => {
                    let answered = AssertUnwindSafe(site.answer(request, ends)).catch_unwind().await;
                    answered.unwrap_or_else(|panic| contained(&*panic))
                }
            };
            for (name, value) in FIXED {
                response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
            }
            Ok(response.map(|body| Sending::new(body, answering)))
        })
    }
}

/// What every answer says, unless it says something else.
const FIXED: [(HeaderName, &str); 2] =
    [(header::X_CONTENT_TYPE_OPTIONS, "nosniff"), (header::CACHE_CONTROL, "no-store")];

/// A panic ends its own request and nothing else.
fn contained(panic: &(dyn Any + Send)) -> Response<Body> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    tracing::error!(panic = text, "a request panicked");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error: the operator's log says more").into()
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
