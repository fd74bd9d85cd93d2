//! What browsers need to hear about a listed origin (spec H-37). A foreign one never gets this far.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};

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

/// What the names of the headers begin with that repeat arguments; no list of them can be complete (spec H-30).
const PARAM: &str = "mcp-param-";

/// The answer to a preflight.
pub(crate) fn preflight(asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(VERBS));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_HEADERS));
    for name in asked_params(asked) {
        headers.append(header::ACCESS_CONTROL_ALLOW_HEADERS, name.into());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// The argument headers that the browser names.
fn asked_params(asked: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let lines = asked.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let names = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    let names = names.filter_map(|name| name.trim().parse::<HeaderName>().ok());
    names.filter(|name| name.as_str().starts_with(PARAM))
}

/// Lets the page of a listed origin read an answer.
pub(crate) fn open_to(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preflight_allows_what_the_protocol_has_and_nothing_else() {
        let asked = "authorization, Mcp-Param-Region, x-other,mcp-param-tenant, mcp-param-{";
        let asked = HeaderMap::from_iter([(header::ACCESS_CONTROL_REQUEST_HEADERS, asked.parse().unwrap())]);
        let response = preflight(&asked);
        let allowed = response.headers().get_all(header::ACCESS_CONTROL_ALLOW_HEADERS);
        let allowed: Vec<_> = allowed.iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(allowed, [REQUEST_HEADERS, "mcp-param-region", "mcp-param-tenant"]);
    }
}
