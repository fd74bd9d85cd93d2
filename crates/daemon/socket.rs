//! A client's socket, with bounds on how long the client may keep us waiting when we write and when we close.

use std::{
    future::Future as _,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};
use tokio_util::sync::CancellationToken;

/// A client that takes no byte for so long is not reading (security 31).
const WRITE_TIME: Duration = Duration::from_secs(30);

/// How long bytes that nobody will read are taken in after the last answer.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// Wraps the stream of one connection.
pub(crate) struct Socket {
    stream: TcpStream,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Runs once our side has said all it has to say.
    closing: Option<Pin<Box<Sleep>>>,
    /// The process ends: nobody is waited for who says nothing.
    hurry: CancellationToken,
}

impl Socket {
    /// Takes an accepted stream.
    pub(crate) fn new(stream: TcpStream, hurry: CancellationToken) -> Socket {
        Socket { stream, stalled: None, closing: None, hurry }
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
        Pin::new(&mut self.stream).poll_read(cx, buf)
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
