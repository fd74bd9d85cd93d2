//! One server over HTTP as all tasks of a seat see it: its session, and how a request goes there and back.

use crate::connection::Facts;
use crate::error::UpstreamError;
use crate::link::{self, Link};
use crate::peer::Faults;
use crate::remote::answer::{self, Events, Form};
use crate::remote::client::Client;
use crate::remote::heads::{self, Heads};
use crate::remote::session::Session;
use crate::spec::{Address, LegacySse, Spec};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, Uri};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::Frame;

/// Requests on their way or waiting for their answers at the same time; each may hold a connection.
const MOST_REQUESTS: usize = 128;
/// Notifications and answers on their way at the same time.
const MOST_TOLD: usize = 32;
/// A stream is not opened again before this, whatever the server says (security 40), nor later than that.
pub(crate) const SHORTEST_RETRY: Duration = Duration::from_secs(1);
pub(crate) const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Attempts to open a stream again.
const MOST_RESUMED: u32 = 5;

/// What the tasks of one seat share.
pub(crate) struct Site {
    pub(crate) spec: Arc<Spec>,
    pub(crate) link: Arc<Link>,
    pub(crate) client: Client,
    pub(crate) legacy_sse: LegacySse,
    /// The session, replaced when the server forgets it.
    pub(crate) session: watch::Sender<Session>,
    /// One renewal at a time.
    pub(crate) renewal: Semaphore,
    /// What the server said about itself; a renewed session has to agree.
    pub(crate) facts: OnceLock<Facts>,
    /// Where an HTTP+SSE server takes messages, as requests are written with it. Unset: it is not one of those.
    pub(crate) endpoint: OnceLock<Uri>,
    pub(crate) requests: Semaphore,
    pub(crate) told: Semaphore,
    pub(crate) faults: Faults,
    pub(crate) stop: CancellationToken,
    pub(crate) listeners: TaskTracker,
}

/// What came back for one request.
pub(crate) struct Heard {
    pub(crate) status: StatusCode,
    /// The session id in the response, if any.
    pub(crate) session: Option<HeaderValue>,
    /// The answer, or an error that stands for it.
    pub(crate) answer: Option<Frame>,
    /// The stream it came by.
    pub(crate) rest: Option<Events>,
}

impl Site {
    pub(crate) fn new(spec: Arc<Spec>, address: &Address, client: Client, link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self {
            spec,
            link,
            client,
            legacy_sse: address.legacy_sse,
            session: watch::Sender::default(),
            renewal: Semaphore::new(1),
            facts: OnceLock::new(),
            endpoint: OnceLock::new(),
            requests: Semaphore::new(MOST_REQUESTS),
            told: Semaphore::new(MOST_TOLD),
            faults: Faults::default(),
            stop: CancellationToken::new(),
            listeners: TaskTracker::new(),
        })
    }

    pub(crate) fn session(&self) -> Session {
        self.session.borrow().clone()
    }

    /// Sends one request and reads until its answer, feeding whatever else comes to the link. The caller bounds the time.
    pub(crate) async fn ask(
        &self,
        line: Bytes,
        number: u64,
        heads: Option<&Heads>,
        session: &Session,
    ) -> Result<Heard, UpstreamError> {
        let (head, body) = loop {
            let mut request = self.client.post(self.client.target(), line.clone());
            session.mark(request.headers_mut());
            if let Some(heads) = heads {
                for (name, value) in &heads.pairs {
                    request.headers_mut().insert(name, value.clone());
                }
                if let Some(caller) = &heads.caller {
                    request.extensions_mut().insert(Arc::clone(caller));
                }
            }
            let (head, body) = self.client.send(request).await?.into_parts();
            self.link.hear();
            if !self.client.follows(&head) {
                break (head, body);
            }
        };
        let status = head.status;
        let id = head.headers.get(heads::SESSION).cloned();
        let heard = |answer, rest| Heard { status, session: id, answer, rest };
        if is_final(status) {
            return Ok(heard(None, None));
        }
        match answer::form(&head)? {
            Form::Json => {
                let text = answer::whole(body, self.spec.line_cap).await?;
                Ok(heard(self.single(number, text, status)?, None))
            }
            Form::Events if status.is_success() => {
                let events = Events::new(body, self.spec.line_cap);
                let (answer, rest) = Box::pin(self.follow(number, events, session)).await?;
                Ok(heard(Some(answer), Some(rest)))
            }
            Form::Other if status == StatusCode::OK => {
                Err(UpstreamError::garbled("its answer is neither JSON nor an event stream"))
            }
            Form::Events | Form::Other => Ok(heard(None, None)),
        }
    }

    /// The message in a body of its own. With an HTTP error it has to be a JSON-RPC error, or it is not for us.
    fn single(&self, number: u64, text: Bytes, status: StatusCode) -> Result<Option<Frame>, UpstreamError> {
        if status.is_success() {
            if text.trim_ascii().is_empty() {
                return Ok(None);
            }
            let frame = self.link.read(text).map_err(|error| link::unreadable(&error))?;
            let frame = self.link.sort(number, frame);
            return frame
                .map(Some)
                .ok_or_else(|| UpstreamError::garbled("its answer is not for this request"));
        }
        let frame = self.link.read(text).ok().filter(|frame| frame.error().is_some());
        Ok(frame.and_then(|frame| self.link.sort(number, frame)))
    }

    /// Reads a stream until the answer. One that breaks is resumed where the server gives its events ids (spec H-24); the modern
    /// era has nothing of that (spec H-26).
    async fn follow(
        &self,
        number: u64,
        mut events: Events,
        session: &Session,
    ) -> Result<(Frame, Events), UpstreamError> {
        let (mut last, mut pause) = (None, SHORTEST_RETRY);
        loop {
            let end = match self.read_on(number, &mut events).await {
                Ok(Some(frame)) => return Ok((frame, events)),
                Ok(None) => UpstreamError::garbled("it ended its event stream without the answer"),
                Err(end @ UpstreamError::Exited { .. }) => end,
                Err(error) => return Err(error),
            };
            last = events.last_id().and_then(|id| HeaderValue::try_from(id).ok()).or(last);
            pause = events.retry().map_or(pause, |retry| retry.clamp(SHORTEST_RETRY, LONGEST_RETRY));
            let Some(last) = last.as_ref().filter(|_| !self.link.is_modern()) else { return Err(end) };
            self.link.postpone(number);
            events = Box::pin(self.resume(session, last, pause)).await.ok_or(end)?;
        }
    }

    /// Reads one stream until the answer or its end.
    async fn read_on(&self, number: u64, events: &mut Events) -> Result<Option<Frame>, UpstreamError> {
        while let Some(text) = events.next().await? {
            self.link.hear();
            if let Some(frame) = self.link.receive_for(number, text)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// Opens a stream again after the event `last`. The deadline of the request ends a server that always has one more.
    async fn resume(&self, session: &Session, last: &HeaderValue, pause: Duration) -> Option<Events> {
        for _attempt in 0..MOST_RESUMED {
            tokio::time::sleep(pause).await;
            match self.stream(session, Some(last)).await {
                Ok(Ok(events)) => return Some(events),
                Ok(Err(status)) if !may_pass(status) => return None,
                Ok(Err(_)) | Err(_) => {}
            }
        }
        None
    }

    /// Opens a stream with GET. The inner error is the status that says there is none.
    pub(crate) async fn stream(
        &self,
        session: &Session,
        last: Option<&HeaderValue>,
    ) -> Result<Result<Events, StatusCode>, UpstreamError> {
        let mut request = self.client.get();
        session.mark(request.headers_mut());
        if let Some(last) = last {
            request.headers_mut().insert(heads::LAST_EVENT, last.clone());
        }
        let (head, body) = self.client.send(request).await?.into_parts();
        if head.status != StatusCode::OK {
            return Ok(Err(head.status));
        }
        match answer::form(&head)? {
            Form::Events => Ok(Ok(Events::new(body, self.spec.line_cap))),
            Form::Json | Form::Other => Ok(Err(StatusCode::METHOD_NOT_ALLOWED)),
        }
    }

    /// Sends a notification, or an answer of ours. Returns the status; whatever else comes back is not read.
    pub(crate) async fn deliver(&self, line: Bytes, session: &Session) -> Result<StatusCode, UpstreamError> {
        let target = self.endpoint.get().unwrap_or(self.client.target());
        let mut request = self.client.post(target, line);
        session.mark(request.headers_mut());
        if self.link.is_modern() {
            request
                .headers_mut()
                .insert(heads::VERSION, HeaderValue::from_static(wire::Revision::R2026_07_28.text()));
        }
        Ok(self.client.send(request).await?.status())
    }

    /// Ends the session. A server may refuse that with 405, and we do not mind (spec H-14).
    pub(crate) async fn leave(&self) {
        let session = self.session();
        if session.id.is_none() {
            return;
        }
        let mut request = self.client.delete();
        session.mark(request.headers_mut());
        let _refused = self.client.send(request).await;
    }
}

/// Statuses whose bodies say nothing to us: redirects that are not followed (security 43), and credentials, whose refusal an
/// upstream words as it likes.
fn is_final(status: StatusCode) -> bool {
    status.is_redirection() || matches!(status.as_u16(), 401 | 403 | 407)
}

/// Whether a refusal is likely to be over in a moment.
pub(crate) fn may_pass(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

impl Heard {
    /// The answer, or what the status means.
    pub(crate) fn into_answer(self) -> Result<(Frame, Option<Events>), UpstreamError> {
        match self.answer {
            Some(answer) => Ok((answer, self.rest)),
            None => Err(refusal(self.status)),
        }
    }
}

/// What a status without an answer means. [`UpstreamError::NotRunning`]: the request surely did not run.
pub(crate) fn refusal(status: StatusCode) -> UpstreamError {
    match status.as_u16() {
        200..=299 => UpstreamError::garbled("it took the request and gave no answer"),
        300..=399 => UpstreamError::garbled("redirect refused"),
        401 | 403 => UpstreamError::unauthorized(),
        407 => UpstreamError::not_running("the proxy does not accept our credential"),
        429 => UpstreamError::Busy,
        408 | 500..=599 => UpstreamError::Exited { why: says(status).into(), sent: true },
        _ => UpstreamError::garbled(says(status)),
    }
}

fn says(status: StatusCode) -> String {
    format!("it answered with HTTP status {}", status.as_u16())
}
