//! Streamable HTTP: a request becomes an `Arrival`, a `Reply` becomes an answer. Decides nothing about messages.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use config::Config;
use gateway::{Arrival, Endpoint, Gateway, Head, Mirrored, Out, Reply, Running, Verb};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::sleep;
use wire::{Pieces, sse};

use crate::{
    listen::{Ends, Site},
    origin::{Allowed, single},
    transport::{
        accept::{Accepts, sends_json, sends_plain},
        body::{self, Body},
        cors,
        refusal::Refusal,
    },
};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The longest request target (security 32).
const TARGET_BYTES: usize = 8 * 1024;

/// After so much silence the answer becomes an event stream, if the client takes one. Until then it can still be
/// plain JSON, which every client can read (spec H-07, H-08).
const SILENCE: Duration = Duration::from_secs(1);

/// What a client over a cap should wait, in seconds.
const RETRY_AFTER: &str = "10";

/// The clients' listener.
pub(crate) struct StreamableHttp {
    gateway: Arc<Gateway>,
    allowed: Allowed,
    body_limit: usize,
    keepalive: Duration,
}

impl Site for StreamableHttp {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, ends: Ends) -> Response<Body> {
        let received = Instant::now();
        let (head, body) = request.into_parts();
        let origin = match self.allowed.admit(&head, ends.local) {
            Ok(origin) => origin,
            Err(refusal) => {
                tracing::debug!(peer = %ends.peer, ?refusal, "refused at the door");
                return refusal.into();
            }
        };
        let mut response = match arrival(head, body, ends, received, self.body_limit) {
            Ok(Asked::Serve(arrival, accepts)) => self.serve(*arrival, accepts).await,
            Ok(Asked::Preflight) => cors::preflight(),
            Err(refusal) => refusal.into(),
        };
        if let Some(origin) = origin {
            cors::open_to(origin, response.headers_mut());
        }
        response
    }
}

/// What a well-formed request asks for.
enum Asked {
    Serve(Box<Arrival>, Accepts),
    Preflight,
}

impl StreamableHttp {
    /// The clients' listener of a gateway.
    pub(crate) fn new(config: &Config, gateway: Arc<Gateway>) -> StreamableHttp {
        StreamableHttp {
            gateway,
            allowed: Allowed::for_clients(config),
            body_limit: config.limits.body,
            keepalive: config.keepalive,
        }
    }

    async fn serve(&self, arrival: Arrival, accepts: Accepts) -> Response<Body> {
        match self.gateway.serve(arrival).await {
            Reply::Accepted => bare(StatusCode::ACCEPTED),
            Reply::Ended => bare(StatusCode::NO_CONTENT),
            Reply::Message { status, body, session, challenge: _ } => {
                let mut response = message(status, body, accepts);
                // Set, not added: clients that see it twice echo `x, x` (bug B53).
                if let Some(Ok(session)) = session.map(|session| HeaderValue::from_str(&session)) {
                    response.headers_mut().insert(SESSION, session);
                }
                response
            }
            Reply::Running(running) => self.follow(running, accepts).await,
            Reply::Listening(listening) => event_stream(body::listening(listening, self.keepalive)),
        }
    }

    /// Follows a running request. Whether the client stays to the end is its own affair (spec H-25).
    async fn follow(&self, mut running: Running, accepts: Accepts) -> Response<Body> {
        if !accepts.stream_in_answer() {
            return last(&mut running)
                .await
                .map_or_else(gone, |out| message(out.status, out.message, accepts));
        }
        let first = tokio::select! {
            biased;
            first = running.next() => first,
            () = sleep(SILENCE) => return event_stream(body::running(None, running, self.keepalive)),
        };
        match first {
            None => gone(),
            Some(out) if out.last => message(out.status, out.message, accepts),
            Some(out) => event_stream(body::running(Some(out.message), running, self.keepalive)),
        }
    }
}

/// Reads the head of a request, in the order in which it is told what is wrong with it.
fn arrival(
    head: Parts,
    body: Incoming,
    ends: Ends,
    received: Instant,
    body_limit: usize,
) -> Result<Asked, Refusal> {
    if head.version != Version::HTTP_11 {
        return Err(Refusal::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "speak HTTP/1.1"));
    }
    if head.uri.path_and_query().is_some_and(|target| target.as_str().len() > TARGET_BYTES) {
        return Err(Refusal::new(
            StatusCode::URI_TOO_LONG,
            format!("the address is longer than {TARGET_BYTES} bytes"),
        ));
    }
    let endpoint = endpoint(head.uri.path()).ok_or_else(|| {
        let message = "nothing here: MCP is at `/mcp`, `/mcp/{server}`, `/t/{tenant}/mcp` and `/t/{tenant}/mcp/{server}`";
        Refusal::new(StatusCode::NOT_FOUND, message)
    })?;
    if cors::is_preflight(&head) {
        return Ok(Asked::Preflight);
    }
    let verb = verb(&head.method)?;
    let accepts = Accepts::of(&head.headers);
    match verb {
        Verb::Post => check_post(&head.headers, &body, accepts, body_limit)?,
        Verb::Get if !accepts.events => return Err(not_acceptable("`text/event-stream`")),
        Verb::Get | Verb::Delete => (),
    }
    let head = Head {
        verb,
        endpoint,
        session: text(&head.headers, &SESSION)?,
        revision: text(&head.headers, &REVISION)?,
        accepts_json: accepts.json,
        accepts_events: if verb == Verb::Get { accepts.events } else { accepts.stream_in_answer() },
        authorization: Vec::new(),
        mirror: Mirrored::default(),
        peer: ends.peer,
        received,
    };
    let arrival = Arrival { head, body: body::unread(body, body_limit) };
    Ok(Asked::Serve(Box::new(arrival), accepts))
}

/// The endpoint a path names. Compared as it came: nothing is decoded, joined or redirected, a final slash is as good
/// as none (bug B59, security 42).
fn endpoint(path: &str) -> Option<Endpoint> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    if segments.iter().any(|segment| segment.is_empty()) {
        return None;
    }
    let (tenant, server) = match *segments.as_slice() {
        ["mcp"] => (None, None),
        ["mcp", server] => (None, Some(server)),
        ["t", tenant, "mcp"] => (Some(tenant), None),
        ["t", tenant, "mcp", server] => (Some(tenant), Some(server)),
        _ => return None,
    };
    Some(Endpoint { tenant: tenant.map(Into::into), server: server.map(Into::into) })
}

fn verb(method: &Method) -> Result<Verb, Refusal> {
    match *method {
        Method::POST => Ok(Verb::Post),
        Method::GET => Ok(Verb::Get),
        Method::DELETE => Ok(Verb::Delete),
        _ => Err(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "POST a message, GET the event stream, or DELETE the session",
        )
        .with(header::ALLOW, "GET, POST, DELETE")),
    }
}

/// What must hold before a body is read.
fn check_post(headers: &HeaderMap, body: &Incoming, accepts: Accepts, limit: usize) -> Result<(), Refusal> {
    if !sends_json(headers) {
        let message = "the body must be JSON: send it with `Content-Type: application/json`";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    if !sends_plain(headers) {
        let message = "packed bodies are not read: send it without `Content-Encoding`";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
            .with(header::ACCEPT_ENCODING, "identity"));
    }
    if !accepts.json && !accepts.events {
        return Err(not_acceptable("`application/json`, `text/event-stream` or both"));
    }
    // A length that is told is believed, so nothing of it is read (security 32).
    if body.size_hint().lower() > limit as u64 {
        return Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {limit} bytes"),
        ));
    }
    Ok(())
}

fn not_acceptable(types: &str) -> Refusal {
    Refusal::new(
        StatusCode::NOT_ACCEPTABLE,
        format!("the answer has a type that you do not take: accept {types}"),
    )
}

/// A header that may be sent once; an empty one counts as none.
fn text(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Box<str>>, Refusal> {
    let Some(value) = single(headers, name)?.filter(|value| !value.is_empty()) else { return Ok(None) };
    // What is not text cannot be anything we know; the pipeline says so.
    Ok(Some(String::from_utf8_lossy(value.as_bytes()).into()))
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
    fn a_path_names_an_endpoint_with_or_without_a_final_slash() {
        let named = |path: &str| endpoint(path).map(|endpoint| (endpoint.tenant, endpoint.server));
        let some = |text: &str| Some(text.into());
        for (path, expected) in [
            ("/mcp", Some((None, None))),
            ("/mcp/", Some((None, None))),
            ("/mcp/ops", Some((None, some("ops")))),
            ("/mcp/ops/", Some((None, some("ops")))),
            ("/t/acme/mcp", Some((some("acme"), None))),
            ("/t/acme/mcp/", Some((some("acme"), None))),
            ("/t/acme/mcp/ops/", Some((some("acme"), some("ops")))),
        ] {
            assert_eq!(named(path), expected, "{path}");
        }
        for path in [
            "",
            "*",
            "/",
            "/mcp//",
            "//mcp",
            "/MCP",
            "/mcp/a/b",
            "/t/mcp",
            "/t//mcp",
            "/t/acme",
            "/%6dcp",
            "/x/../mcp",
            "/mcp;x",
            "/sse",
        ] {
            assert_eq!(named(path), None, "{path}");
        }
    }

    #[test]
    fn a_verb_that_does_not_exist_is_told_which_do() {
        for method in [Method::PUT, Method::HEAD, Method::OPTIONS, Method::PATCH] {
            let response = Response::<Body>::from(verb(&method).unwrap_err());
            assert_eq!(response.status(), 405, "{method}");
            assert_eq!(response.headers()["allow"], "GET, POST, DELETE");
            assert_eq!(response.headers()["content-type"], "application/json");
        }
    }

    #[test]
    fn a_header_is_sent_once_and_empty_means_none() {
        let headers = |values: &[&str]| -> HeaderMap {
            values.iter().map(|value| (REVISION, value.parse().unwrap())).collect()
        };
        let read = |values: &[&str]| text(&headers(values), &REVISION).map_err(|refusal| refusal.status());
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[""]), Ok(None));
        assert_eq!(read(&["2025-11-25"]), Ok(Some("2025-11-25".into())));
        assert_eq!(read(&["2025-11-25", "2025-11-25"]), Err(400));
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
