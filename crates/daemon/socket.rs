//! A client's socket: only well-framed requests come through it, and there are bounds on how long the client may keep
//! us waiting, for a head, when we write, when we close.

use std::{
    future::Future as _,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    framing::{Broken, Framing},
    transport::refusal::Refusal,
};

/// The head of a request must be complete so long after its first byte, and the first head so long after the
/// connection (security 31). The server's own timer cannot be used for it: it closes idle connections as well, and
/// clients lose the request that they send at that moment.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// A client that takes no byte for so long is not reading (security 31).
const WRITE_TIME: Duration = Duration::from_secs(30);

/// How long bytes that nobody will read are taken in after the last answer.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// Stands in for a head that is refused; the answer to it is the refusal.
const REFUSED: &[u8] = b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n";

/// Wraps the stream of one connection.
pub(crate) struct Socket<S> {
    stream: S,
    activity: Arc<Activity>,
    framing: Framing,
    /// What was read and not let through yet: the beginning of a head, mostly nothing.
    held: BytesMut,
    /// How much of it may be let through.
    ready: usize,
    /// Nothing more is let through.
    over: bool,
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
    answering: AtomicUsize,
    refused: Mutex<Option<Refusal>>,
}

impl Activity {
    /// Some request came this way.
    pub(crate) fn was_used(&self) -> bool {
        self.heads.load(Ordering::Relaxed) > 0
    }

    /// A head is complete. The answer lasts as long as what is returned; no other head is awaited meanwhile.
    pub(crate) fn answer(self: &Arc<Activity>) -> Answering {
        self.heads.fetch_add(1, Ordering::Relaxed);
        self.answering.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(self))
    }

    /// What the last head of the connection is answered with, if it was not well-formed.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn refuse(&self, refusal: Refusal) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
    }
}

/// An answer that has not been handed over to its last byte.
pub(crate) struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
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

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    /// Takes an accepted stream.
    pub(crate) fn new(
        stream: S,
        activity: Arc<Activity>,
        framing: Framing,
        hurry: CancellationToken,
    ) -> Socket<S> {
        let mut socket = Socket {
            stream,
            activity,
            framing,
            held: BytesMut::new(),
            ready: 0,
            over: false,
            head: None,
            stalled: None,
            closing: None,
            hurry,
        };
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

    /// While an answer is under way, what comes in belongs to its request. With many requests at a time nothing can be
    /// told from that; the library looks after those.
    fn expects_head(&self) -> bool {
        self.activity.answering.load(Ordering::Relaxed) == 0 && !self.framing.is_multiplexed()
    }

    /// Reads from the stream to the end of `buf`.
    fn poll_stream(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.forget_head();
        if read.is_ready() {
            if self.expects_head() {
                self.await_head();
            }
            return read;
        }
        if !self.held.is_empty() && self.expects_head() {
            // It began while an answer was under way.
            self.await_head();
        }
        if let Some((timer, _)) = &mut self.head {
            ready!(timer.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }

    /// Looks at what is held.
    fn inspect(&mut self) -> io::Result<()> {
        match self.framing.advance(&self.held) {
            Ok(through) => self.ready = through,
            Err(Broken::Head(refusal)) => {
                self.activity.refuse(refusal);
                self.over = true;
                self.held = BytesMut::from(REFUSED);
                self.ready = REFUSED.len();
            }
            Err(Broken::Body) => {
                self.over = true;
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the framing of the body is broken"));
            }
        }
        Ok(())
    }

    /// Lets through what may be.
    fn release(&mut self, buf: &mut ReadBuf<'_>) {
        let now = self.ready.min(buf.remaining());
        buf.put_slice(self.held.get(..now).unwrap_or_default());
        self.held.advance(now);
        self.ready -= now;
        if self.held.is_empty() {
            // An idle connection keeps no room.
            self.held = BytesMut::new();
        }
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

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.ready == 0 && !self.over && !self.held.is_empty() {
                self.inspect()?;
            }
            if self.ready > 0 {
                self.release(buf);
                return Poll::Ready(Ok(()));
            }
            if self.over {
                // The last answer is under way, and the connection ends with it.
                return Poll::Pending;
            }
            let before = buf.filled().len();
            ready!(self.poll_stream(cx, buf))?;
            let read = buf.filled().get(before..).unwrap_or_default();
            if read.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if self.held.is_empty()
                && let Ok(through) = self.framing.advance(read)
            {
                // Mostly whole requests come in one piece, and stay where they are.
                self.held.extend_from_slice(read.get(through..).unwrap_or_default());
                buf.set_filled(before + through);
                if through > 0 {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            // Looked at again from the beginning: what is broken is found again.
            self.held.extend_from_slice(read);
            buf.set_filled(before);
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
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
        // Over TLS it is here that bytes wait for the client.
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.bounded(cx, flushed)
    }

    /// Ends our side, then lets the client finish its sentence. A socket closed over unread bytes is reset, and the
    /// client would lose the very answer that says why its large body was refused.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
            ready!(self.bounded(cx, shut))?;
        }
        let Socket { stream, closing, hurry, .. } = &mut *self;
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
