//! Bodies: reading one within its bounds, and writing shared slices without joining them.

use std::{
    convert::Infallible,
    future::{self, Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use gateway::{BodyError, Following, Listening, Unread};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, StreamBody};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};
use wire::{Pieces, sse};

/// What every answer is written from.
pub(crate) use axum::body::Body;

/// A whole body must arrive in this time (security 31).
const READ_TIME: Duration = Duration::from_secs(30);

/// Bytes of all bodies of one listener that are being read at a time (security 32).
const ROOM: usize = 256 * 1024 * 1024;

/// Room is given out in units of so many bytes.
const UNIT: usize = 1024;

/// How bodies of one listener are read: each within its limit, all of them together within the room there is.
#[derive(Clone, Debug)]
pub(crate) struct Intake {
    limit: usize,
    room: Arc<Semaphore>,
    time: Duration,
}

/// Tells that there was no room for a body. The read then never ends: there is nothing to wait for any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct NoRoom(Arc<AtomicBool>);

impl NoRoom {
    /// Waits for what needs the body; none when there was no room for it.
    // INVARIANT: the body is read by what is waited for here and by no task of its own, so it has told by the time the
    // wait goes on.
    pub(crate) async fn unless<T>(self, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.0.load(Ordering::Relaxed) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

/// A body on its way here: one of a connection, or of a test.
pub(crate) trait Arriving:
    http_body::Body<Data = Bytes, Error: Send> + Send + Unpin + 'static
{
}

impl<B: http_body::Body<Data = Bytes, Error: Send> + Send + Unpin + 'static> Arriving for B {}

/// Why a body is not here.
#[derive(Debug)]
enum Failed {
    NoRoom,
    Body(BodyError),
}

impl Intake {
    /// For bodies up to a limit.
    pub(crate) fn new(limit: usize) -> Intake {
        Intake { limit, room: Arc::new(Semaphore::new(ROOM / UNIT)), time: READ_TIME }
    }

    /// The largest body that is read.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The body of a request, read when the pipeline asks for it and not before.
    pub(crate) fn unread(&self, body: impl Arriving) -> (Unread, NoRoom) {
        let no_room = NoRoom::default();
        let (tell, intake) = (no_room.clone(), self.clone());
        let unread = Box::pin(async move {
            match intake.read(body).await {
                Ok(bytes) => Ok(bytes),
                Err(Failed::Body(error)) => Err(error),
                Err(Failed::NoRoom) => {
                    tell.0.store(true, Ordering::Relaxed);
                    future::pending().await
                }
            }
        });
        (unread, no_room)
    }

    async fn read(&self, mut body: impl Arriving) -> Result<Bytes, Failed> {
        let limit = self.limit;
        let mut here = at_hand(&mut body).await;
        if let Some(Some(Ok(frame))) = &here
            && let Some(bytes) = frame.data_ref()
            && bytes.len() <= limit
            && body.is_end_stream()
        {
            // Most bodies came with their heads. Such a one needs neither time nor room: it waits for nothing.
            return Ok(bytes.clone());
        }
        let end = Instant::now() + self.time;
        let mut taken = None;
        let mut first = Bytes::new();
        let mut joined = BytesMut::new();
        loop {
            let next = match here.take() {
                Some(next) => next,
                None => timeout_at(end, body.frame()).await.map_err(|_| Failed::Body(BodyError::Slow))?,
            };
            let Some(frame) = next else { break };
            let frame = frame.map_err(|_| Failed::Body(BodyError::Broken))?;
            let Ok(bytes) = frame.into_data() else { continue };
            let length = first.len() + joined.len() + bytes.len();
            // Told as soon as it is known, not when the last byte is here (spec H-05).
            if length > limit {
                return Err(Failed::Body(BodyError::TooLarge { limit }));
            }
            // What is here counts, not what is announced: announcing costs a client nothing.
            let room = self.take(length, &mut taken);
            timeout_at(end, room).await.map_err(|_| Failed::NoRoom)??;
            if first.is_empty() && joined.is_empty() {
                // Most messages come in one piece, which is then kept as it is.
                first = bytes;
                continue;
            }
            // It grows with what comes, for the same reason.
            joined.extend_from_slice(&std::mem::take(&mut first));
            joined.extend_from_slice(&bytes);
        }
        Ok(if joined.is_empty() { first } else { joined.freeze() })
    }

    /// Waits until there is room for a body that has grown to this length.
    async fn take(&self, length: usize, taken: &mut Option<OwnedSemaphorePermit>) -> Result<(), Failed> {
        let held = taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        // INVARIANT: no more than `limits.body`, whose largest value in units fits by far.
        let more = u32::try_from(length.div_ceil(UNIT).saturating_sub(held)).map_err(|_| Failed::NoRoom)?;
        // INVARIANT: the semaphore is never closed.
        let room = Arc::clone(&self.room).acquire_many_owned(more).await.map_err(|_| Failed::NoRoom)?;
        match taken {
            Some(taken) => taken.merge(room),
            None => *taken = Some(room),
        }
        Ok(())
    }
}

/// What a body begins with, if that came already; the inner none is its end. Asked twice, because the library fetches a
/// piece only once somebody has asked for it.
async fn at_hand<B: Arriving>(body: &mut B) -> Option<Option<Result<Frame<Bytes>, B::Error>>> {
    let mut asked = false;
    poll_fn(|cx| match Pin::new(&mut *body).poll_frame(cx) {
        Poll::Ready(frame) => Poll::Ready(Some(frame)),
        Poll::Pending if asked => Poll::Ready(None),
        Poll::Pending => {
            asked = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// No body.
pub(crate) fn empty() -> Body {
    Body::empty()
}

/// A short text.
pub(crate) fn text(text: impl Into<Bytes>) -> Body {
    Body::from(text.into())
}

/// Messages up to this size are copied together: that costs less than to carry their slices one by one.
const SMALL: usize = 2 * 1024;

/// One message, each slice a frame of its own: a large result is never copied together.
pub(crate) fn slices(pieces: Pieces) -> Body {
    match pieces.len() {
        0 => Body::empty(),
        1..=SMALL => Body::from(pieces.join()),
        left => Body::new(Slices { left, slices: pieces.into_iter() }),
    }
}

/// What a running request says, its answer last.
pub(crate) fn following(following: Following, keepalive: Duration) -> Body {
    events(Source::Following(following), keepalive)
}

/// A stream of a session, until it, the session or the gateway ends.
pub(crate) fn listening(listening: Box<Listening>, keepalive: Duration) -> Body {
    events(Source::Listening(listening), keepalive)
}

/// Where the events of a stream come from.
enum Source {
    Following(Following),
    Listening(Box<Listening>),
}

struct Events {
    /// Slices of the event that is being written.
    slices: std::vec::IntoIter<Bytes>,
    source: Source,
    keepalive: Duration,
}

fn events(source: Source, keepalive: Duration) -> Body {
    let events = Events { slices: Vec::new().into_iter(), source, keepalive };
    Body::new(StreamBody::new(stream::unfold(events, next_frame)))
}

async fn next_frame(mut events: Events) -> Option<(Result<Frame<Bytes>, Infallible>, Events)> {
    loop {
        if let Some(slice) = events.slices.next() {
            return Some((Ok(Frame::data(slice)), events));
        }
        // A proxy must see a sign of life, and we must notice a client that is gone (spec H-09).
        let Ok(next) = timeout(events.keepalive, events.source.next_event()).await else {
            return Some((Ok(Frame::data(Bytes::from_static(sse::KEEP_ALIVE))), events));
        };
        events.slices = next?.into_iter();
    }
}

impl Source {
    /// The next event as it is written. Safe to drop half-way: nothing is taken before it is returned.
    async fn next_event(&mut self) -> Option<Pieces> {
        match self {
            Source::Following(following) => following.next_event().await,
            Source::Listening(listening) => listening.next_event().await,
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

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    /// Room for some units, and patience for so many milliseconds.
    fn intake(units: usize, millis: u64) -> Intake {
        let room = Arc::new(Semaphore::new(units));
        Intake { limit: 4 * UNIT, room, time: Duration::from_millis(millis) }
    }

    /// A body in pieces of these lengths, all of them here.
    fn pieces(lengths: &[usize]) -> impl Arriving + use<> {
        let frames: Vec<_> = lengths.iter().map(|length| vec![b'x'; *length]).collect();
        let frames = frames.into_iter().map(|bytes| Ok::<_, Infallible>(Frame::data(Bytes::from(bytes))));
        StreamBody::new(stream::iter(frames))
    }

    #[tokio::test]
    async fn what_is_read_takes_room_and_gives_it_back() {
        let intake = intake(3, 60_000);
        for lengths in [&[][..], &[1], &[UNIT, UNIT, UNIT], &[1, 1, 1, 1, 1], &[3 * UNIT - 1, 1]] {
            let read = intake.unread(pieces(lengths)).0.await.unwrap();
            assert_eq!(read.len(), lengths.iter().sum::<usize>(), "{lengths:?}");
            assert_eq!(intake.room.available_permits(), 3, "{lengths:?}");
        }
        let large = intake.unread(pieces(&[3 * UNIT, UNIT + 1])).0.await;
        assert_eq!(large, Err(BodyError::TooLarge { limit: 4 * UNIT }));
        assert_eq!(intake.room.available_permits(), 3);
    }

    #[tokio::test]
    async fn a_body_waits_for_room_as_long_as_it_may_take() {
        let patient = intake(3, 60_000);
        let other = Arc::clone(&patient.room).acquire_many_owned(2).await.unwrap();
        let mut waiting = pin!(patient.read(pieces(&[UNIT, UNIT])));
        assert!(timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
        drop(other);
        assert_eq!(waiting.await.unwrap().len(), 2 * UNIT);

        let hasty = intake(1, 1);
        let (unread, no_room) = hasty.unread(pieces(&[UNIT, UNIT]));
        assert_eq!(no_room.unless(pin!(unread)).await, None);
        assert_eq!(hasty.room.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_body_that_is_here_needs_no_room() {
        let full = |length: usize| http_body_util::Full::new(Bytes::from(vec![b'x'; length]));
        let (unread, no_room) = intake(0, 0).unread(full(UNIT));
        assert_eq!(no_room.unless(pin!(unread)).await.unwrap().unwrap().len(), UNIT);
        let large = intake(0, 0).unread(full(4 * UNIT + 1)).0.await;
        assert_eq!(large, Err(BodyError::TooLarge { limit: 4 * UNIT }));
    }

    #[tokio::test]
    async fn a_slow_body_is_slow_however_much_room_there_is() {
        let body = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        assert_eq!(intake(3, 1).unread(body).0.await, Err(BodyError::Slow));
    }
}
