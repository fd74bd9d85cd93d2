//! Bodies: reading one within its bounds, and writing shared slices without joining them.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use gateway::{BodyError, Listening, Running, Unread};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Incoming;
use tokio::time::timeout;
use wire::{Pieces, sse};

/// What every answer is written from.
pub(crate) use axum::body::Body;

/// A whole body must arrive in this time (security 31).
const READ_TIME: Duration = Duration::from_secs(30);

/// The body of a request, read when the pipeline asks for it and not before.
pub(crate) fn unread(body: Incoming, limit: usize) -> Unread {
    Box::pin(async move {
        let read = timeout(READ_TIME, read(body, limit));
        read.await.unwrap_or(Err(BodyError::Slow))
    })
}

async fn read(mut body: Incoming, limit: usize) -> Result<Bytes, BodyError> {
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        // Told as soon as it is known, not when the last byte is here (spec H-05).
        if first.len() + joined.len() + bytes.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        if first.is_empty() && joined.is_empty() {
            // Most messages come in one piece, which is then kept as it is.
            first = bytes;
            continue;
        }
        if joined.is_empty() {
            let rest = usize::try_from(body.size_hint().lower()).unwrap_or(0).min(limit);
            joined.reserve(first.len() + bytes.len() + rest);
            joined.extend_from_slice(&std::mem::take(&mut first));
        }
        joined.extend_from_slice(&bytes);
    }
    Ok(if joined.is_empty() { first } else { joined.freeze() })
}

/// No body.
pub(crate) fn empty() -> Body {
    slices(Pieces::default())
}

/// A short text.
pub(crate) fn text(text: impl Into<Bytes>) -> Body {
    Body::from(text.into())
}

/// One message, each slice a frame of its own: a large result is never copied together.
pub(crate) fn slices(pieces: Pieces) -> Body {
    Body::new(Slices { left: pieces.len(), slices: pieces.into_iter() })
}

/// The answers of a request that owns its time: what was heard already, then the rest, then the end.
pub(crate) fn running(heard: Option<Pieces>, running: Running, keepalive: Duration) -> Body {
    events(heard, Source::Running(running), keepalive)
}

/// A session's stream, until the session or the gateway ends.
pub(crate) fn listening(listening: Listening, keepalive: Duration) -> Body {
    events(None, Source::Listening(listening), keepalive)
}

/// Where the messages of an event stream come from.
enum Source {
    Running(Running),
    Listening(Listening),
    Ended,
}

struct Events {
    /// Slices of the event that is being written.
    slices: std::vec::IntoIter<Bytes>,
    source: Source,
    keepalive: Duration,
}

fn events(heard: Option<Pieces>, source: Source, keepalive: Duration) -> Body {
    let slices = heard.map(|message| sse::event(&message, None)).unwrap_or_default().into_iter();
    let events = Events { slices, source, keepalive };
    Body::new(StreamBody::new(stream::unfold(events, next_frame)))
}

async fn next_frame(mut events: Events) -> Option<(Result<Frame<Bytes>, Infallible>, Events)> {
    loop {
        if let Some(slice) = events.slices.next() {
            return Some((Ok(Frame::data(slice)), events));
        }
        // A proxy must see a sign of life, and we must notice a client that is gone (spec H-09).
        let Ok(next) = timeout(events.keepalive, events.source.next()).await else {
            return Some((Ok(Frame::data(Bytes::from_static(sse::KEEP_ALIVE))), events));
        };
        events.slices = sse::event(&next?, None).into_iter();
    }
}

impl Source {
    /// The next message. Safe to drop half-way: nothing is taken before it is returned.
    async fn next(&mut self) -> Option<Pieces> {
        match self {
            Source::Running(running) => {
                let out = running.next().await?;
                if out.last {
                    *self = Source::Ended;
                }
                Some(out.message)
            }
            Source::Listening(listening) => listening.next().await,
            Source::Ended => None,
        }
    }
}

/// A body of known length from slices.
struct Slices {
    slices: std::vec::IntoIter<Bytes>,
    /// The bytes that are still to come.
    left: usize,
}

impl http_body::Body for Slices {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(slice) = self.slices.next() else { return Poll::Ready(None) };
        self.left -= slice.len();
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}
