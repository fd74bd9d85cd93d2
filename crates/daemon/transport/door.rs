//! Heads of clients' requests: who may come in, and a request that becomes an `Arrival` before its body is read.

use std::time::Instant;

use config::Config;
use gateway::{Arrival, Endpoint, Head, Mirrored, Transport, Verb};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header,
    request::Parts,
};
use http_body::Body as _;
use hyper::body::Incoming;
use ipnet::IpNet;

use crate::{
    listen::Ends,
    origin::{Allowed, single},
    transport::{
        accept::{Accepts, sends_json, sends_plain},
        body::{Body, Intake, NoRoom},
        cors, forwarded, legacy_sse,
        refusal::Refusal,
    },
};

pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// What the names of the protocol's own headers begin with, and of those that repeat arguments.
const OURS: &str = "mcp-";
const PARAM: &str = "mcp-param-";

/// The longest request target (security 32).
const TARGET_BYTES: usize = 8 * 1024;

/// What the path of an endpoint's document begins with (RFC 9728, spec A-02).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Where the public keys are of what the gateway signs.
const KEYS: &str = "/.well-known/jwks.json";

/// What stands between a connection and the pipeline.
#[derive(Debug)]
pub(crate) struct Door {
    allowed: Allowed,
    trusted_proxies: Vec<IpNet>,
    intake: Intake,
    /// Whether HTTP+SSE is served too (spec S-10).
    legacy_sse: bool,
}

/// What a path names of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The one address of Streamable HTTP.
    Mcp,
    /// The stream of HTTP+SSE.
    Sse,
    /// Where its messages go.
    Messages,
}

/// What a well-formed request asks for.
pub(crate) enum Asked {
    /// The pipeline's answer, unless there is no room for the body.
    Serve(Arrival, Accepts, NoRoom),
    /// What the endpoint wants of strangers.
    Metadata(Endpoint),
    /// The public keys of what the gateway signs.
    Keys,
    /// This, which needs no pipeline.
    Preflight(Response<Body>),
}

/// The listed origin a request came from, if a page sent it, and what it asks for. The page may read a refusal of
/// the latter.
type Opened = (Option<HeaderValue>, Result<Asked, Refusal>);

impl Door {
    /// The clients' door, as configured.
    pub(crate) fn new(config: &Config) -> Door {
        Door {
            allowed: Allowed::for_clients(config),
            trusted_proxies: config.trusted_proxies.clone(),
            intake: Intake::new(config.limits.body),
            legacy_sse: config.legacy_sse,
        }
    }

    /// Looks at a request, whose body is not read.
    pub(crate) fn open(&self, request: Request<Incoming>, ends: Ends) -> Result<Opened, Refusal> {
        let received = Instant::now();
        let (head, body) = request.into_parts();
        let origin = self.allowed.admit(&head, ends.local)?;
        let peer = forwarded::client(&head.headers, ends.peer, &self.trusted_proxies);
        let asked = self.arrival(&head, body, Ends { peer, ..ends }, received);
        Ok((origin, asked))
    }

    /// Reads the head of a request, in the order in which it is told what is wrong with it.
    fn arrival(&self, head: &Parts, body: Incoming, ends: Ends, received: Instant) -> Result<Asked, Refusal> {
        // Whether HTTP/2 may be spoken was decided when the connection began.
        if !matches!(head.version, Version::HTTP_11 | Version::HTTP_2) {
            return Err(Refusal::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "speak HTTP/1.1"));
        }
        if head.uri.path_and_query().is_some_and(|target| target.as_str().len() > TARGET_BYTES) {
            return Err(Refusal::new(
                StatusCode::URI_TOO_LONG,
                format!("the address is longer than {TARGET_BYTES} bytes"),
            ));
        }
        if head.uri.path() == KEYS && matches!(head.method, Method::GET | Method::HEAD) {
            return Ok(Asked::Keys);
        }
        let (described, path) = match head.uri.path().strip_prefix(WELL_KNOWN) {
            Some(path) => (true, path),
            None => (false, head.uri.path()),
        };
        let (endpoint, part) = addressed(path)
            .filter(|(_, part)| *part == Part::Mcp || self.legacy_sse)
            .filter(|(_, part)| *part != Part::Messages || !described)
            .ok_or_else(|| {
                Refusal::new(StatusCode::NOT_FOUND, "nothing here: MCP is at `/mcp` and below it")
            })?;
        if cors::is_preflight(head) {
            return Ok(Asked::Preflight(cors::preflight(&head.headers)));
        }
        if described {
            return match head.method {
                Method::GET | Method::HEAD => Ok(Asked::Metadata(endpoint)),
                _ => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "GET the document")
                    .with(header::ALLOW, "GET, HEAD")),
            };
        }
        let verb = verb(&head.method, part)?;
        let accepts = match part {
            Part::Mcp | Part::Sse => Accepts::of(&head.headers),
            // What is answered does not come back this way.
            Part::Messages => Accepts::EVERYTHING,
        };
        match verb {
            Verb::Post => check_post(&head.headers, &body, accepts, self.intake.limit())?,
            Verb::Get if !accepts.events => return Err(not_acceptable("`text/event-stream`")),
            Verb::Get | Verb::Delete => (),
        }
        let (session, revision) = match part {
            Part::Mcp => (text(&head.headers, &SESSION)?, text(&head.headers, &REVISION)?),
            // There the address says the one, and nothing needs to say the other (spec S-06).
            Part::Sse | Part::Messages => (legacy_sse::key(&head.uri), None),
        };
        let head = Head {
            verb,
            endpoint,
            session,
            revision,
            last_event: if verb == Verb::Get { text(&head.headers, &LAST_EVENT)? } else { None },
            accepts_json: accepts.json,
            accepts_events: if verb == Verb::Get { accepts.events } else { accepts.stream_in_answer() },
            authorization: texts(&head.headers, &header::AUTHORIZATION).into_iter().collect(),
            mirror: mirrored(&head.headers),
            peer: ends.peer,
            received,
        };
        let (body, no_room) = self.intake.unread(body);
        Ok(Asked::Serve(Arrival { head, body }, accepts, no_room))
    }
}

/// What a path names. Compared as it came: nothing is decoded, joined or redirected, a final slash is as good as none
/// (bug B59, security 42).
fn addressed(path: &str) -> Option<(Endpoint, Part)> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut segments = path.strip_prefix('/')?.split('/');
    let mut next = || segments.next();
    let (tenant, part, server) = match (next(), next(), next(), next(), next()) {
        (Some("t"), Some(tenant), Some(part), server, None) => (Some(tenant), part, server),
        (Some(part), server, None, ..) => (None, part, server),
        _ => return None,
    };
    if [tenant, server].contains(&Some("")) {
        return None;
    }
    let (part, transport) = match part {
        "mcp" => (Part::Mcp, Transport::Streamable),
        "sse" => (Part::Sse, Transport::Sse),
        "messages" => (Part::Messages, Transport::Sse),
        _ => return None,
    };
    Some((Endpoint { tenant: tenant.map(Into::into), server: server.map(Into::into), transport }, part))
}

fn verb(method: &Method, part: Part) -> Result<Verb, Refusal> {
    match (part, method) {
        (Part::Mcp | Part::Messages, &Method::POST) => Ok(Verb::Post),
        (Part::Mcp | Part::Sse, &Method::GET) => Ok(Verb::Get),
        (Part::Mcp, &Method::DELETE) => Ok(Verb::Delete),
        (part, _) => {
            let (advice, allowed) = match part {
                Part::Mcp => {
                    ("POST a message, GET the event stream, or DELETE the session", "GET, POST, DELETE")
                }
                Part::Sse => ("GET the event stream: its first event says where messages go", "GET"),
                Part::Messages => ("POST a message", "POST"),
            };
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, advice).with(header::ALLOW, allowed))
        }
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
    Ok(Some(lossy(value)))
}

/// Every value of a header, as often as it was sent.
fn texts(headers: &HeaderMap, name: &HeaderName) -> Vec<Box<str>> {
    headers.get_all(name).iter().map(lossy).collect()
}

/// What is not text cannot be anything we know; the pipeline says so.
fn lossy(value: &HeaderValue) -> Box<str> {
    // Copied, since what a head shares keeps the whole buffer of its connection; checked first, since that looks at many
    // bytes at a time.
    match str::from_utf8(value.as_bytes()) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(value.as_bytes()).into(),
    }
}

/// The headers that repeat parts of the body, each once: with two of them, somebody in front of us may have believed
/// the other (spec H-28, security 29).
fn mirrored(headers: &HeaderMap) -> Mirrored {
    let mut mirrored = Mirrored::default();
    for name in headers.keys().filter(|name| name.as_str().starts_with(OURS)) {
        let param = name.as_str().strip_prefix(PARAM);
        if param.is_none() && *name != METHOD && *name != NAME {
            continue;
        }
        // Said by the pipeline, once it knows who asks and in which era.
        let Ok(value) = single(headers, name) else {
            mirrored.repeated.get_or_insert_with(|| name.as_str().into());
            continue;
        };
        let Some(value) = value.map(lossy) else { continue };
        match param {
            Some(param) => mirrored.params.push((param.into(), value)),
            None if *name == METHOD => mirrored.method = Some(value),
            None => mirrored.name = Some(value),
        }
    }
    mirrored
}

#[cfg(test)]
mod tests;
