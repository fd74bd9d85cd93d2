//! Streamable HTTP: a `Reply` becomes an answer. Decides nothing about messages.

use std::{pin::pin, sync::Arc, time::Duration};

use config::Config;
use gateway::{Arrival, Gateway, Out, Reply, Running};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::{sync::Notify, time::interval};
use wire::{Pieces, sse};

use crate::{
    listen::{Ends, Site},
    transport::{
        accept::Accepts,
        body::{self, Body},
        cors,
        door::{Asked, Door, SESSION},
        legacy_sse,
        refusal::Refusal,
    },
};

/// After so many beats of silence the answer becomes an event stream, if the client takes one: a little more than a
/// second. Until then it can still be plain JSON, which every client can read (spec H-07, H-08).
const SILENCE: u32 = 5;

/// One clock beats for all calls: a timer for each would cost more than waiting for it does.
const BEAT: Duration = Duration::from_millis(250);

/// What a client over a cap should wait, in seconds.
const RETRY_AFTER: &str = "10";

/// The clients' listener.
pub(crate) struct StreamableHttp {
    gateway: Arc<Gateway>,
    door: Door,
    keepalive: Duration,
    /// What stands before our paths where clients see them.
    prefix: String,
    beats: Notify,
}

impl Site for StreamableHttp {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, ends: Ends) -> Response<Body> {
        let (origin, asked) = match self.door.open(request, ends) {
            Ok(opened) => opened,
            Err(refusal) => {
                tracing::debug!(peer = %ends.peer, ?refusal, "refused at the door");
                return refusal.into();
            }
        };
        let mut response = match asked {
            // Nothing has been done for what found no room, so it can be sent again.
            Ok(Asked::Serve(arrival, accepts, no_room)) => {
                no_room.unless(pin!(self.serve(arrival, accepts))).await.unwrap_or_else(full)
            }
            Ok(Asked::Metadata(endpoint)) => describe(self.gateway.metadata(&endpoint)),
            Ok(Asked::Keys) => describe(self.gateway.keys()),
            Ok(Asked::Preflight(response)) => response,
            Err(refusal) => refusal.into(),
        };
        if let Some(origin) = origin {
            cors::open_to(origin, response.headers_mut());
        }
        response
    }
}

impl StreamableHttp {
    /// The clients' listener of a gateway.
    pub(crate) fn new(config: &Config, gateway: Arc<Gateway>) -> StreamableHttp {
        StreamableHttp {
            gateway,
            door: Door::new(config),
            keepalive: config.keepalive,
            prefix: legacy_sse::prefix(config),
            beats: Notify::new(),
        }
    }

    /// Beats until it is dropped.
    pub(crate) async fn beat(&self) {
        let mut interval = interval(BEAT);
        loop {
            interval.tick().await;
            self.beats.notify_waiters();
        }
    }

    async fn silence(&self) {
        for _ in 0..SILENCE {
            self.beats.notified().await;
        }
    }

    async fn serve(&self, arrival: Arrival, accepts: Accepts) -> Response<Body> {
        match self.gateway.serve(arrival).await {
            Reply::Accepted => bare(StatusCode::ACCEPTED),
            Reply::Ended => bare(StatusCode::NO_CONTENT),
            Reply::Message { status, body, session, challenge } => {
                let mut response = message(status, body, accepts);
                challenged(&mut response, challenge.as_deref());
                // Set, not added: clients that see it twice echo `x, x` (bug B53).
                if let Some(Ok(session)) = session.map(|session| HeaderValue::from_str(&session)) {
                    response.headers_mut().insert(SESSION, session);
                }
                response
            }
            Reply::Running(running) => self.follow(running, accepts).await,
            Reply::Listening(mut listening) => {
                legacy_sse::introduce(&mut listening, &self.prefix);
                event_stream(body::listening(listening, self.keepalive))
            }
        }
    }

    /// Follows a running request. Whether the client stays to the end is its own affair (spec H-25).
    async fn follow(&self, mut running: Running, accepts: Accepts) -> Response<Body> {
        if !accepts.stream_in_answer() {
            return last(&mut running).await.map_or_else(gone, |out| answer(out, accepts));
        }
        let first = tokio::select! {
            biased;
            first = running.next() => first,
            () = self.silence() => return event_stream(body::following(running.begin(None), self.keepalive)),
        };
        match first {
            None => gone(),
            Some(out) if out.last => answer(out, accepts),
            Some(out) => event_stream(body::following(running.begin(Some(out)), self.keepalive)),
        }
    }
}

/// A document for strangers; there is none for an endpoint where no issuer vouches for anybody.
fn describe(document: Option<String>) -> Response<Body> {
    let Some(document) = document else {
        return Refusal::new(StatusCode::NOT_FOUND, "nothing here: no issuer vouches for anybody here")
            .into();
    };
    let mut response = Response::new(body::text(document));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The answer itself; what comes before it is not for a client that takes only JSON.
async fn last(running: &mut Running) -> Option<Out> {
    loop {
        let out = running.next().await?;
        if out.last {
            return Some(out);
        }
    }
}

/// The request was given up, by the client's own cancellation or with its session: there is nothing to answer.
fn gone() -> Response<Body> {
    bare(StatusCode::ACCEPTED)
}

/// Too much is being read at once.
fn full() -> Response<Body> {
    let message = "too many large messages are arriving at once: send this one again later";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).with(header::RETRY_AFTER, RETRY_AFTER).into()
}

/// An answer that is the first thing said.
fn answer(out: Out, accepts: Accepts) -> Response<Body> {
    let mut response = message(out.status, out.message, accepts);
    challenged(&mut response, out.challenge.as_deref());
    response
}

/// Says what the asker must show.
fn challenged(response: &mut Response<Body>, challenge: Option<&str>) {
    if let Some(Ok(challenge)) = challenge.map(HeaderValue::try_from) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
}

fn bare(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(body::empty());
    *response.status_mut() = status;
    response
}

/// One message. Errors of HTTP are JSON even for a client that takes only events: no client reads a stream then
/// (bug B53).
fn message(status: u16, message: Pieces, accepts: Accepts) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !accepts.json && status.is_success() {
        return event_stream(body::slices(sse::event(&message, None)));
    }
    let mut response = Response::new(body::slices(message));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    match status {
        // Only the modern era refuses a verb that the endpoint has, and it has one (spec E-07).
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        _ => (),
    }
    response
}

fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // A proxy that collects events before it passes them on makes progress useless (spec H-09).
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_without_room_is_told_when_to_come_back() {
        let response = full();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["retry-after"], RETRY_AFTER);
    }

    #[test]
    fn one_message_is_json_unless_only_events_are_taken() {
        let typed = |status, json| {
            let accepts = Accepts { json, events: true, events_by_name: true };
            let response = message(status, Pieces::one("{}".into()), accepts);
            response.headers()["content-type"].to_str().unwrap().to_owned()
        };
        assert_eq!(typed(200, true), "application/json");
        assert_eq!(typed(200, false), "text/event-stream");
        assert_eq!(typed(404, false), "application/json");
    }
}
