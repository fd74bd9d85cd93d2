//! A client's socket: only well-framed requests come through it, and there are bounds on how long the client may keep
//! us waiting, for a head, when we write, when we close.

use std::{
    future::{Future as _, poll_fn},
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
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

/// How long the HTTP library keeps its buffers for the next request; after that they are given back.
const REST_TIME: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 1_000 });

/// A connection may be idle for so long. Longer than the balancers in use keep theirs, so that they close first.
const IDLE_TIME: Duration = Duration::from_secs(620);

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
    /// The library is not there: see `begun`.
    rests: bool,
    /// What is awaited, and how many heads were complete when that began.
    awaited: (Awaited, usize),
    /// Bounds that. One for all requests, since most of them never need it.
    patience: Pin<Box<Sleep>>,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Runs once our side has said all it has to say.
    closing: Option<Pin<Box<Sleep>>>,
    /// The process ends: nobody is waited for who says nothing.
    hurry: CancellationToken,
}

/// What the client is expected to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// What comes belongs to a request that is being answered.
    Nothing,
    /// The rest of a head, or the first one.
    Head,
    /// Another request, soon.
    Soon,
    /// Another request, some time.
    Later,
}

/// What a connection is busy with; the socket sees only bytes.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    heads: AtomicUsize,
    answering: AtomicUsize,
    idle: AtomicBool,
    refused: Mutex<Option<Refusal>>,
}

impl Activity {
    /// Some request came this way.
    pub(crate) fn was_used(&self) -> bool {
        self.heads.load(Ordering::Relaxed) > 0
    }

    /// Nothing has been asked for a while, and all that was is answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
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
        Socket {
            stream,
            activity,
            framing,
            held: BytesMut::new(),
            ready: 0,
            over: false,
            rests: true,
            awaited: (Awaited::Head, 0),
            patience: Box::pin(sleep(HEAD_TIME)),
            stalled: None,
            closing: None,
            hurry,
        }
    }

    /// Waits until a request begins, or the first one, while the library keeps no room for it. Returns whether there
    /// will be many of them at a time; none when the client has left.
    pub(crate) async fn begun(&mut self) -> io::Result<Option<bool>> {
        self.rests = true;
        self.activity.idle.store(false, Ordering::Relaxed);
        let begun = poll_fn(|cx| self.poll_begun(cx)).await;
        self.rests = false;
        begun
    }

    fn poll_begun(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<bool>>> {
        let mut piece = [0; 1024];
        loop {
            if !self.held.is_empty()
                && let Some(multiplexes) = self.framing.multiplexes(&self.held)
            {
                return Poll::Ready(Ok(Some(multiplexes)));
            }
            let mut piece = ReadBuf::new(&mut piece);
            ready!(self.poll_stream(cx, &mut piece))?;
            if piece.filled().is_empty() {
                return Poll::Ready(Ok(None));
            }
            self.held.extend_from_slice(piece.filled());
        }
    }

    /// Takes back what was let through and not looked at.
    pub(crate) fn take_back(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let held = std::mem::replace(&mut self.held, BytesMut::from(bytes));
            self.held.extend_from_slice(&held);
            self.ready += bytes.len();
        }
    }

    /// While an answer is under way, what comes in belongs to its request. With many requests at a time nothing can be
    /// told from that; the library looks after those.
    fn awaited(&self, heads: usize) -> Awaited {
        if heads == 0 {
            Awaited::Head
        } else if self.activity.answering.load(Ordering::Relaxed) > 0 || self.framing.is_multiplexed() {
            Awaited::Nothing
        } else if !self.held.is_empty() || !self.framing.is_between() {
            Awaited::Head
        } else if self.rests {
            Awaited::Later
        } else {
            Awaited::Soon
        }
    }

    /// Reads from the stream to the end of `buf`.
    fn poll_stream(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() {
            return read;
        }
        let heads = self.activity.heads.load(Ordering::Relaxed);
        let awaited = (self.awaited(heads), heads);
        let time = match awaited.0 {
            Awaited::Nothing => None,
            Awaited::Head => Some(HEAD_TIME),
            Awaited::Soon => Some(REST_TIME),
            Awaited::Later => Some(IDLE_TIME),
        };
        let begins = std::mem::replace(&mut self.awaited, awaited) != awaited;
        let Some(time) = time else { return Poll::Pending };
        if begins {
            self.patience.as_mut().reset(Instant::now() + time);
        }
        ready!(self.patience.as_mut().poll(cx));
        if awaited.0 != Awaited::Soon {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        match self.stalled {
            // INVARIANT: the library writes until it is told to wait, so it has nothing left to write.
            None => self.activity.idle.store(true, Ordering::Relaxed),
            Some(_) => {
                self.patience.as_mut().reset(Instant::now() + time);
                ready!(self.patience.as_mut().poll(cx));
            }
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

#[cfg(test)]
mod tests;
