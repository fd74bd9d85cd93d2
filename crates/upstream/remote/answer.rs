//! Bodies of responses: one JSON message or a stream of events, each within its limits (spec H-10, H-38, security 33).

use crate::error::UpstreamError;
use crate::remote::connections::Body;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::response::Parts;
use std::collections::VecDeque;
use std::time::Duration;
use wire::sse::{Decoder, Event};

/// How long a stream may stay open after its answer before its connection is given up.
const AFTERWORD: Duration = Duration::from_millis(250);
/// A body shorter than this is not worth the buffer it is a slice of.
const SMALL: usize = 4 * 1024;

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One message.
    Json,
    /// A stream.
    Events,
    /// Nothing that a server of ours would send.
    Other,
}

/// What the head of a response says about its body. Media types are compared without regard to case.
pub(crate) fn form(head: &Parts) -> Result<Form, UpstreamError> {
    // Two ways to say where the body ends are one too many (security 28).
    if head.headers.contains_key(TRANSFER_ENCODING) && head.headers.contains_key(CONTENT_LENGTH) {
        return Err(UpstreamError::garbled("its answer has two lengths"));
    }
    // We never ask for it, and what unpacks to gigabytes is small enough to pass here (security 33).
    let mut encodings = head.headers.get_all(CONTENT_ENCODING).iter();
    if !encodings.all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(UpstreamError::garbled("its answer is compressed"));
    }
    let kind = head.headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    Ok(if kind.eq_ignore_ascii_case(b"application/json") {
        Form::Json
    } else if kind.eq_ignore_ascii_case(b"text/event-stream") {
        Form::Events
    } else {
        Form::Other
    })
}

/// A whole body of at most `cap` bytes. A large one in one piece is not copied; one in several costs its size once more.
pub(crate) async fn whole(mut body: Body, cap: usize) -> Result<Bytes, UpstreamError> {
    let announced = body.announced();
    if usize::try_from(announced).unwrap_or(usize::MAX) > cap {
        return Err(UpstreamError::TooLarge { limit: cap });
    }
    let Some(first) = body.piece().await? else { return Ok(Bytes::new()) };
    let Some(second) = body.piece().await? else {
        // Copied, it gives the connection its buffer back.
        let first = if first.len() < SMALL { Bytes::copy_from_slice(&first) } else { first };
        return within(first, cap);
    };
    let mut text = BytesMut::with_capacity(usize::try_from(announced).unwrap_or_default().max(first.len()));
    text.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(part) = next {
        if text.len() + part.len() > cap {
            return Err(UpstreamError::TooLarge { limit: cap });
        }
        text.extend_from_slice(&part);
        next = body.piece().await?;
    }
    Ok(text.freeze())
}

fn within(bytes: Bytes, cap: usize) -> Result<Bytes, UpstreamError> {
    if bytes.len() > cap { Err(UpstreamError::TooLarge { limit: cap }) } else { Ok(bytes) }
}

/// A stream of events.
pub(crate) struct Events {
    body: Body,
    decoder: Decoder,
    ready: VecDeque<Event>,
}

impl Events {
    /// No event may be longer than `cap` bytes.
    pub(crate) fn new(body: Body, cap: usize) -> Self {
        Self { body, decoder: Decoder::new(cap), ready: VecDeque::new() }
    }

    /// The next message, or `None` at the orderly end; a break is [`UpstreamError::Exited`]. Events with another name and those
    /// without data are no messages (spec H-10, H-23).
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        loop {
            match self.event().await? {
                Some(event) if &*event.name == "message" && !event.data.trim_ascii().is_empty() => {
                    return Ok(Some(event.data));
                }
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next event of any name.
    pub(crate) async fn event(&mut self) -> Result<Option<Event>, UpstreamError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(chunk) = self.body.piece().await? else { return Ok(None) };
            let events = self.decoder.push(&chunk);
            self.ready.extend(
                events
                    .map_err(|wire::sse::SseError::TooLarge { limit }| UpstreamError::TooLarge { limit })?,
            );
            // A server that sends without pause must not starve the others on this thread.
            tokio::task::consume_budget().await;
        }
    }

    /// Where to go on after a break, if the stream says so.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.decoder.last_id()
    }

    /// How long the server wants to be left alone first.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.decoder.retry().map(Duration::from_millis)
    }

    /// The answer is there: whether the end is too, or something that nobody waits for.
    pub(crate) fn is_over(&mut self) -> bool {
        self.body.piece_now().is_ready()
    }

    /// The answer is there. Most servers end the stream right away, and then its connection can serve another request.
    pub(crate) async fn end(mut self) {
        let _more = tokio::time::timeout(AFTERWORD, self.body.piece()).await;
    }
}
