//! Connections to one server, used one after the other: nothing runs for those that are idle, and they are not kept for long.

use crate::error::UpstreamError;
use crate::remote::client::broken;
use crate::remote::dial::Dialer;
use crate::remote::socket::{Outbound, Socket};
use bytes::Bytes;
use http::{Response, Uri};
use hyper::body::{Body as _, Incoming};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::runtime::{self, Handle};
use tokio::time::{Instant, sleep};

/// Idle connections are kept for so long. Many servers close theirs after about as much.
const IDLE: Duration = Duration::from_secs(30);
/// How often they are looked at, so that those the server has closed are closed here too.
const SWEEP: Duration = Duration::from_secs(10);
/// Idle connections to one server.
const MOST_IDLE: usize = 64;
/// What a body that nobody reads may still say for its connection to be used again: one piece and its end.
const AFTERTHOUGHTS: usize = 2;

/// All connections to one address.
pub(crate) struct Connections {
    dialer: Dialer,
    to: Uri,
    idle: Arc<Idle>,
}

impl Connections {
    pub(crate) fn new(dialer: Dialer, to: Uri) -> Self {
        Self { dialer, to, idle: Arc::default() }
    }

    /// Returns when the head of the response is there. Whatever fails before there is a connection is
    /// [`UpstreamError::NotRunning`].
    ///
    /// Nothing is repeated that may have run. A request of which nothing was written, because a connection that was idle turned
    /// out to be closed, goes by a new one.
    pub(crate) async fn send(&self, request: Box<Outbound>) -> Result<Response<Body>, UpstreamError> {
        let mut request = request;
        let here = Handle::current().id();
        if let Some(socket) = self.idle.take(here) {
            match self.send_by(socket, here, request).await {
                Ok(response) => return Ok(response),
                Err(Some(unsent)) => request = unsent,
                Err(None) => return Err(broken()),
            }
        }
        // Boxed: what is seldom needed makes no request larger.
        let socket = Box::pin(self.connect()).await?;
        self.send_by(socket, here, request).await.map_err(|_| broken())
    }

    async fn connect(&self) -> Result<Box<Socket>, UpstreamError> {
        let stream = self.dialer.dial(&self.to).await?;
        Ok(Box::new(Socket::new(stream).await.map_err(|_| broken())?))
    }

    async fn send_by(
        &self,
        mut socket: Box<Socket>,
        runtime: runtime::Id,
        request: Box<Outbound>,
    ) -> Result<Response<Body>, Option<Box<Outbound>>> {
        let response = socket.send(request).await?;
        let idle = Arc::clone(&self.idle);
        Ok(response.map(|incoming| Body { incoming, socket: Some(socket), runtime, idle }))
    }

    /// Closes idle connections whose time is over or which the server has closed, for ever.
    pub(crate) async fn sweep(&self) {
        loop {
            sleep(SWEEP).await;
            self.idle
                .sockets()
                .retain_mut(|resting| resting.since.elapsed() < IDLE && resting.socket.is_fresh());
        }
    }

    /// Closes all that are idle.
    pub(crate) fn close(&self) {
        self.idle.sockets().clear();
    }
}

/// Connections that wait for their next request; the one used last is the next.
#[derive(Default)]
struct Idle(Mutex<Vec<Resting>>);

/// One that waits.
struct Resting {
    socket: Box<Socket>,
    since: Instant,
    /// The runtime that hears of it. Another one is not given it: each of its answers would come by way of that thread.
    runtime: runtime::Id,
}

impl Idle {
    fn sockets(&self) -> MutexGuard<'_, Vec<Resting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, here: runtime::Id) -> Option<Box<Socket>> {
        loop {
            let Resting { mut socket, since, .. } = {
                let mut sockets = self.sockets();
                let last = sockets.iter().rposition(|resting| resting.runtime == here)?;
                sockets.remove(last)
            };
            if since.elapsed() < IDLE && socket.is_fresh() {
                return Some(socket);
            }
        }
    }

    fn put(&self, mut socket: Box<Socket>, runtime: runtime::Id) {
        // Most are ready right away; the others may have something left to do, such as closing.
        if !socket.is_ready() && !socket.is_fresh() {
            return;
        }
        let mut sockets = self.sockets();
        if sockets.len() < MOST_IDLE {
            sockets.push(Resting { socket, since: Instant::now(), runtime });
        }
    }
}

/// The body of a response. Read to its end, it leaves its connection to the next request; dropped before, it closes it.
pub(crate) struct Body {
    incoming: Incoming,
    /// Gone at the end.
    socket: Option<Box<Socket>>,
    /// The one the connection was made in.
    runtime: runtime::Id,
    idle: Arc<Idle>,
}

impl Body {
    /// How many bytes it will have at least.
    pub(crate) fn announced(&self) -> u64 {
        self.incoming.size_hint().lower()
    }

    /// The next piece, or `None` at the end. Trailers say nothing to us.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        poll_fn(|context| self.poll_piece(context)).await
    }

    /// What of that is here already.
    pub(crate) fn piece_now(&mut self) -> Poll<Result<Option<Bytes>, UpstreamError>> {
        self.poll_piece(&mut Context::from_waker(Waker::noop()))
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, UpstreamError>> {
        loop {
            let Some(socket) = &mut self.socket else { return Poll::Ready(Ok(None)) };
            let incoming = &mut self.incoming;
            let frame = ready!(socket.poll(context, |context| Pin::new(&mut *incoming).poll_frame(context)));
            match frame {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Ok(Some(data)));
                    }
                }
                Some(Err(_)) => {
                    self.socket = None;
                    return Poll::Ready(Err(broken()));
                }
                None => {
                    if let Some(socket) = self.socket.take() {
                        self.idle.put(socket, self.runtime);
                    }
                    return Poll::Ready(Ok(None));
                }
            }
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        for _ in 0..AFTERTHOUGHTS {
            if !matches!(self.piece_now(), Poll::Ready(Ok(Some(_)))) {
                return;
            }
        }
    }
}
