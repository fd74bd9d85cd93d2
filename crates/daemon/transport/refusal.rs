//! What HTTP itself refuses, before any message is read: a status, and what to do about it.

use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use crate::transport::body::{self, Body};

/// A request that goes no further.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
    header: Option<(HeaderName, &'static str)>,
}

impl Refusal {
    /// Refuses with a sentence that says what is wrong and how to mend it.
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal { status, message: message.into(), header: None }
    }

    /// The same refusal with a header that a program can act on.
    pub(crate) fn with(mut self, name: HeaderName, value: &'static str) -> Refusal {
        self.header = Some((name, value));
        self
    }

    /// The status.
    #[cfg(test)]
    pub(crate) fn status(&self) -> u16 {
        self.status.as_u16()
    }
}

impl From<Refusal> for Response<Body> {
    fn from(refusal: Refusal) -> Response<Body> {
        // No `id`: the message was not read, so there is nothing to answer by name.
        let (code, message) = (wire::code::INVALID_REQUEST, wire::quote(&refusal.message));
        let text = format!("{{\"jsonrpc\":\"2.0\",\"error\":{{\"code\":{code},\"message\":{message}}}}}");
        let mut response = Response::new(body::text(text));
        *response.status_mut() = refusal.status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = refusal.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
