//! What browsers need to hear about a listed origin (spec H-37). A foreign one never gets this far.

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request::Parts};

use crate::transport::body::{self, Body};

const VERBS: &str = "GET, POST, DELETE";
const REQUEST_HEADERS: &str =
    "authorization, content-type, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
const RESPONSE_HEADERS: &str = "mcp-session-id, www-authenticate";

/// A browser asks whether a page may ask; that needs no credential.
pub(crate) fn is_preflight(head: &Parts) -> bool {
    let asks = [header::ORIGIN, header::ACCESS_CONTROL_REQUEST_METHOD];
    head.method == Method::OPTIONS && asks.iter().all(|name| head.headers.contains_key(name))
}

/// The answer to a preflight.
pub(crate) fn preflight() -> Response<Body> {
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(VERBS));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_HEADERS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Lets the page of a listed origin read an answer.
pub(crate) fn open_to(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
