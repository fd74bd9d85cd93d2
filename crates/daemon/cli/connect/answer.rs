//! What comes back for one message: a JSON text or events, one after the other, across broken connections.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};
use wire::{Era, Frame, sse};

use super::{
    message::Message,
    remote::{Remote, SILENCE},
    trouble::Trouble,
};

/// The largest message of a server.
const MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// How often the rest of one broken stream is asked for.
const RESUMPTIONS: usize = 5;

/// The shortest and the longest time before a stream is asked for again, whatever the server wants.
pub(super) const PAUSE: Duration = Duration::from_millis(250);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What comes back for one message.
pub(super) struct Answer<'a> {
    remote: &'a Remote,
    body: Body,
    /// None for a modern stream, which is lost when it breaks (spec H-26).
    resumptions: Option<usize>,
}

enum Body {
    Whole(Incoming),
    Events(Events),
    Nothing,
}

/// One event stream.
pub(super) struct Events {
    body: Incoming,
    decoder: sse::Decoder,
    ready: std::vec::IntoIter<sse::Event>,
    /// The id of the last event that was taken.
    last: Option<Box<str>>,
}

impl<'a> Answer<'a> {
    pub(super) fn new(remote: &'a Remote, response: Response<Incoming>, era: Era) -> Answer<'a> {
        let kind = response.headers().get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        let body = match response {
            response if kind.starts_with(b"text/event-stream") => {
                Body::Events(Events::new(response.into_body(), None))
            }
            response if kind.starts_with(b"application/json") => Body::Whole(response.into_body()),
            _ => Body::Nothing,
        };
        Answer { remote, body, resumptions: (era == Era::Legacy).then_some(RESUMPTIONS) }
    }

    /// The next line from the server; none when nothing more comes.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, Trouble> {
        loop {
            match std::mem::replace(&mut self.body, Body::Nothing) {
                Body::Nothing => return Ok(None),
                Body::Whole(body) => return whole(body).await,
                Body::Events(mut events) => match events.next().await {
                    Ok(Some(message)) => {
                        self.body = Body::Events(events);
                        return Ok(Some(message));
                    }
                    ended => match self.resume(events).await? {
                        Some(rest) => self.body = Body::Events(rest),
                        None => return ended,
                    },
                },
            }
        }
    }

    /// The first answer, when nothing else is of interest.
    pub(super) async fn only(mut self) -> Result<Frame, Trouble> {
        while let Some(message) = self.next().await? {
            if let Some(answer) = message.answers().next() {
                return Ok(answer.clone());
            }
        }
        Err(Trouble::Broken("there was no answer".to_owned()))
    }

    /// The rest of a stream that ended early, when the server keeps it (spec H-21, H-24).
    async fn resume(&mut self, broken: Events) -> Result<Option<Events>, Trouble> {
        let Some(last) = broken.last.clone() else { return Ok(None) };
        let mut pause = broken.pause(PAUSE);
        while let Some(left) = self.resumptions.filter(|left| *left > 0) {
            self.resumptions = Some(left - 1);
            sleep(pause).await;
            match self.remote.get(Some(&last)).await {
                Ok(response) => return Ok(Some(Events::new(response.into_body(), Some(last)))),
                Err(Trouble::Unreachable(why)) => {
                    tracing::warn!(why, "the rest of an answer cannot be asked for yet");
                }
                Err(Trouble::Refused(..)) => return Ok(None),
                Err(trouble @ (Trouble::Lost | Trouble::Broken(_) | Trouble::Login(_))) => {
                    return Err(trouble);
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(None)
    }
}

impl Events {
    /// A stream that goes on after the event with the id `last`.
    pub(super) fn new(body: Incoming, last: Option<Box<str>>) -> Events {
        Events { body, decoder: sse::Decoder::new(MESSAGE_BYTES), ready: Vec::new().into_iter(), last }
    }

    /// The next message; none at the end of the stream. Safe to drop half-way.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, Trouble> {
        loop {
            for event in self.ready.by_ref() {
                if event.id.is_some() {
                    self.last = event.id;
                }
                // An event without data only says where the stream begins (spec H-23).
                if event.data.is_empty() {
                    continue;
                }
                match Message::read(event.data) {
                    Ok(message) => return Ok(Some(message)),
                    Err(error) => tracing::warn!(%error, "the server sent what is no message"),
                }
            }
            let Some(chunk) = timeout(SILENCE, self.body.frame()).await.map_err(|_| silent())? else {
                return Ok(None);
            };
            let chunk = chunk.map_err(|error| Trouble::Broken(format!("the answer breaks off: {error}")))?;
            let Some(bytes) = chunk.data_ref() else { continue };
            let events = self.decoder.push(bytes).map_err(|error| Trouble::Broken(error.to_string()))?;
            self.ready = events.into_iter();
        }
    }

    /// The id of the last event that was taken.
    pub(super) fn last(&self) -> Option<Box<str>> {
        self.last.clone()
    }

    /// How long to leave the server alone before the stream is opened again: as it says, else `otherwise`.
    pub(super) fn pause(&self, otherwise: Duration) -> Duration {
        let wanted = self.decoder.retry().map_or(otherwise, Duration::from_millis);
        wanted.clamp(PAUSE, LONGEST_PAUSE)
    }
}

async fn whole(body: Incoming) -> Result<Option<Message>, Trouble> {
    let body = timeout(SILENCE, Limited::new(body, MESSAGE_BYTES).collect()).await.map_err(|_| silent())?;
    let text: Bytes =
        body.map_err(|error| Trouble::Broken(format!("the answer breaks off: {error}")))?.to_bytes();
    if text.is_empty() {
        return Ok(None);
    }
    let message = Message::read(text);
    message.map(Some).map_err(|error| Trouble::Broken(format!("it does not speak MCP: {error}")))
}

fn silent() -> Trouble {
    Trouble::Broken(format!("nothing came within {} s", SILENCE.as_secs()))
}
