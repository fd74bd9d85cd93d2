//! A client's socket, with bounds on how long the client may keep us waiting: for a head, when we write, when we close.

use std::{
    future::Future as _,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};
use tokio_util::sync::CancellationToken;

/// The head of a request must be complete so long after its first byte, and the first head so long after the
/// connection (security 31). The server's own timer cannot be used for it: it closes idle connections as well, and
/// clients lose the request that they send at that moment.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// A client that takes no byte for so long is not reading (security 31).
const WRITE_TIME: Duration = Duration::from_secs(30);

/// How long bytes that nobody will read are taken in after the last answer.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// Wraps the stream of one connection.
pub(crate) struct Socket {
    stream: TcpStream,
    activity: Arc<Activity>,
    /// Runs while a head is awaited, with the number of heads that were complete when it began.
    head: Option<(Pin<Box<Sleep>>, usize)>,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Runs once our side has said all it has to say.
    closing: Option<Pin<Box<Sleep>>>,
    /// The process ends: nobody is waited for who says nothing.
    hurry: CancellationToken,
}

/// What a connection is busy with; the socket sees only bytes.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    heads: AtomicUsize,
    answering: AtomicBool,
}

impl Activity {
    /// Some request came this way.
    pub(crate) fn was_used(&self) -> bool {
        self.heads.load(Ordering::Relaxed) > 0
    }

    /// A head is complete. The answer lasts as long as what is returned; no other head is awaited meanwhile.
    pub(crate) fn answer(self: &Arc<Activity>) -> Answering {
        self.heads.fetch_add(1, Ordering::Relaxed);
        self.answering.store(true, Ordering::Relaxed);
        Answering(Arc::clone(self))
    }
}

/// An answer that has not been handed over to its last byte.
pub(crate) struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answering.store(false, Ordering::Relaxed);
    }
}

/// A body with the mark that it is being sent.
pub(crate) struct Sending<B> {
    body: B,
    _answering: Answering,
}

impl<B> Sending<B> {
    /// Marks a body.
    pub(crate) fn new(body: B, answering: Answering) -> Sending<B> {
        Sending { body, _answering: answering }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Sending<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Socket {
    /// Takes an accepted stream.
    pub(crate) fn new(stream: TcpStream, activity: Arc<Activity>, hurry: CancellationToken) -> Socket {
        let mut socket = Socket { stream, activity, head: None, stalled: None, closing: None, hurry };
        socket.await_head();
        socket
    }

    fn await_head(&mut self) {
        let heads = self.activity.heads.load(Ordering::Relaxed);
        self.head.get_or_insert_with(|| (Box::pin(sleep(HEAD_TIME)), heads));
    }

    /// The head that was awaited has come, or is not awaited yet.
    fn forget_head(&mut self) {
        let heads = self.activity.heads.load(Ordering::Relaxed);
        self.head.take_if(|(_, before)| heads != *before);
    }

    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_TIME)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.forget_head();
        if read.is_ready() {
            // While an answer is under way, what comes in belongs to its request.
            if !self.activity.answering.load(Ordering::Relaxed) {
                self.await_head();
            }
            return read;
        }
        if let Some((timer, _)) = &mut self.head {
            ready!(timer.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.bounded(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Ends our side, then lets the client finish its sentence. A socket closed over unread bytes is reset, and the
    /// client would lose the very answer that says why its large body was refused.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Socket { stream, closing, hurry, .. } = &mut *self;
        if closing.is_none() {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
        }
        let closing = closing.get_or_insert_with(|| Box::pin(sleep(CLOSE_TIME)));
        if closing.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let mut scrap = [0; 4096];
        // Ends: the runtime makes a busy stream pause, and then the timer is looked at again.
        loop {
            let mut scrap = ReadBuf::new(&mut scrap);
            match Pin::new(&mut *stream).poll_read(cx, &mut scrap) {
                Poll::Ready(Ok(())) if !scrap.filled().is_empty() => (),
                Poll::Pending if !hurry.is_cancelled() => return Poll::Pending,
                Poll::Ready(_) | Poll::Pending => return Poll::Ready(Ok(())),
            }
        }
    }
}
