//! One HTTP/1 connection without a task of its own: whoever waits for something on it drives it.

use crate::remote::dial::Stream;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// What a response may say before its body.
const HEADERS: usize = 64;
const HEADER_BYTES: usize = 128 * 1024;
/// Rounds in one go, before others on this thread have their turn.
const ROUNDS: usize = 8;

/// A request. Boxed on its way through several futures: each would keep room for it.
pub(crate) type Outbound = Request<Full<Bytes>>;

/// One connection. Dropping it closes it.
pub(crate) struct Socket {
    sender: http1::SendRequest<Full<Bytes>>,
    /// Gone when the connection is over.
    driver: Option<http1::Connection<Stream, Full<Bytes>>>,
    wakes: Arc<Wakes>,
    /// The same, as the HTTP library and the runtime know it.
    waker: Waker,
}

impl Socket {
    pub(crate) async fn new(stream: Stream) -> Result<Self, hyper::Error> {
        let mut builder = http1::Builder::new();
        builder.max_headers(HEADERS).max_buf_size(HEADER_BYTES);
        let (sender, driver) = builder.handshake(stream).await?;
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        Ok(Self { sender, driver: Some(driver), wakes, waker })
    }

    /// Returns when the head of the response is there. The error holds the request if none of it was written.
    pub(crate) async fn send(
        &mut self,
        request: Box<Outbound>,
    ) -> Result<Response<Incoming>, Option<Box<Outbound>>> {
        let mut response = pin!(self.sender.try_send_request(*request));
        let response = poll_fn(|context| self.poll(context, |context| response.as_mut().poll(context))).await;
        response.map_err(|mut error| error.take_message().map(Box::new))
    }

    /// Drives the connection until `look` finds what it looks for.
    ///
    /// INVARIANT: a connection that is over has ended all that `look` may look for, so it is never looked for in vain.
    pub(crate) fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        mut look: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.wakes.begin();
        for _ in 0..ROUNDS {
            let mut found = look(&mut Context::from_waker(&self.waker));
            if found.is_pending() {
                self.drive();
                found = look(&mut Context::from_waker(&self.waker));
            }
            if found.is_ready() {
                self.wakes.end();
                return found;
            }
            if self.wakes.wait(context.waker()) {
                return Poll::Pending;
            }
        }
        self.wakes.end();
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether another request may go by it, as far as one can tell: the last one is over, and the peer has neither closed it nor
    /// said anything unasked.
    pub(crate) fn is_fresh(&mut self) -> bool {
        self.drive();
        self.is_ready()
    }

    /// The same, without looking at the peer.
    pub(crate) fn is_ready(&self) -> bool {
        self.driver.is_some() && self.sender.is_ready()
    }

    fn drive(&mut self) {
        let Some(driver) = &mut self.driver else { return };
        // How it ended is told to whoever waits for something.
        if Pin::new(driver).poll(&mut Context::from_waker(&self.waker)).is_ready() {
            self.driver = None;
        }
    }
}

impl Drop for Socket {
    /// Says good-bye where the encryption has a word for that.
    fn drop(&mut self) {
        let Some(driver) = self.driver.take() else { return };
        let mut stream = driver.into_parts().io;
        let _unheard =
            hyper::rt::Write::poll_shutdown(Pin::new(&mut stream), &mut Context::from_waker(Waker::noop()));
    }
}

/// Who is woken by what happens on a connection. What happens while it is driven, and most of that is the two ends of the HTTP
/// library waking each other, wakes nobody: it is looked at on the spot.
#[derive(Default)]
struct Wakes(Mutex<Waiting>);

#[derive(Default)]
enum Waiting {
    /// Nobody waits for anything.
    #[default]
    Nobody,
    /// It is driven just now.
    Driver,
    /// It is driven just now, and should be once more.
    Again,
    Task(Waker),
}

impl Wakes {
    fn replace(&self, now: Waiting) -> Waiting {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    fn begin(&self) {
        self.replace(Waiting::Driver);
    }

    fn end(&self) {
        self.replace(Waiting::Nobody);
    }

    /// Has `waker` woken by what happens next. False: it has happened already.
    fn wait(&self, waker: &Waker) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_quiet = !matches!(*waiting, Waiting::Again);
        *waiting = if is_quiet { Waiting::Task(waker.clone()) } else { Waiting::Driver };
        is_quiet
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = match std::mem::take(&mut *waiting) {
            Waiting::Nobody => Waiting::Nobody,
            Waiting::Driver | Waiting::Again => Waiting::Again,
            Waiting::Task(waker) => {
                drop(waiting);
                return waker.wake();
            }
        };
    }
}
