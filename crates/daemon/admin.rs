//! The operators' listener: health, status, metrics. Never on the clients' port.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use config::Config;
use gateway::Gateway;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;

use crate::{
    listen::{Ends, Site},
    origin::Allowed,
    transport::{
        body::{self, Body},
        refusal::Refusal,
    },
};

/// Connections at a time; a few probes and a scraper need no more.
pub(crate) const CONNECTIONS: usize = 256;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The operators' listener of a gateway.
pub(crate) struct Admin {
    gateway: Arc<Gateway>,
    allowed: Allowed,
    draining: AtomicBool,
}

impl Site for Admin {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, ends: Ends) -> Response<Body> {
        let (head, _) = request.into_parts();
        if let Err(refusal) = self.allowed.admit(&head, ends.local) {
            return refusal.into();
        }
        self.page(&head.method, head.uri.path()).unwrap_or_else(Into::into)
    }
}

impl Admin {
    /// The operators' listener. It exists once the gateway is open and both listeners are bound, so it is ready.
    pub(crate) fn new(config: &Config, gateway: Arc<Gateway>) -> Admin {
        Admin { gateway, allowed: Allowed::for_operators(config), draining: AtomicBool::new(false) }
    }

    /// From now on no balancer should send us anything new.
    pub(crate) fn drains(&self) {
        self.draining.store(true, Ordering::Release);
    }

    fn page(&self, method: &Method, path: &str) -> Result<Response<Body>, Refusal> {
        let draining = self.draining.load(Ordering::Acquire);
        let (status, kind, text) = match path {
            "/livez" => (StatusCode::OK, TEXT, "ok\n".to_owned()),
            "/readyz" if draining => (StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n".to_owned()),
            "/readyz" => (StatusCode::OK, TEXT, "ready\n".to_owned()),
            "/status" => (StatusCode::OK, JSON, self.gateway.status().to_string()),
            "/version" => (StatusCode::OK, JSON, version().to_string()),
            "/metrics" => (StatusCode::OK, PROMETHEUS, self.gateway.metrics()),
            _ => {
                let message = "nothing here: see /livez, /readyz, /status, /version and /metrics";
                return Err(Refusal::new(StatusCode::NOT_FOUND, message));
            }
        };
        if ![Method::GET, Method::HEAD].contains(method) {
            let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this page can only be read: use GET");
            return Err(refusal.with(header::ALLOW, "GET, HEAD"));
        }
        let mut response = Response::new(body::text(text));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        Ok(response)
    }
}

/// What this program is, for people and for programs.
pub(crate) fn version() -> serde_json::Value {
    let revisions = wire::Revision::LEGACY.map(wire::Revision::text);
    serde_json::json!({ "name": "portcullis", "version": env!("CARGO_PKG_VERSION"), "revisions": revisions })
}
