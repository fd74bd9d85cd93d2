//! The operators' listener: health, status, metrics. Never on the clients' port.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Path, State},
    http::{Method, Request, Response, StatusCode, header},
    response::IntoResponse,
    routing::{any, get},
};
use config::Config;
use gateway::Gateway;
use hyper::body::Incoming;
use tower::ServiceExt as _;

use crate::{
    credentials::Credentials,
    key::Key,
    listen::{Ends, Site},
    origin::Allowed,
    transport::{body::Body, refusal::Refusal},
};

/// Connections at a time; a few probes and a scraper need no more.
pub(crate) const CONNECTIONS: usize = 256;

/// No request of an operator is larger.
const REQUEST_BYTES: usize = 64 * 1024;

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The operators' listener of a gateway.
pub(crate) struct Admin {
    allowed: Allowed,
    key: Key,
    /// Nobody from outside can read what is counted.
    local: bool,
    pages: Router,
    desk: Arc<Desk>,
}

/// What the pages are written from.
struct Desk {
    gateway: Arc<Gateway>,
    draining: AtomicBool,
}

impl Site for Admin {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, ends: Ends) -> Response<Body> {
        let (head, body) = request.into_parts();
        if let Err(refusal) = self.allowed.admit(&head, ends.local) {
            return refusal.into();
        }
        if !is_open(head.uri.path(), self.local) && !self.key.opens(&head.headers) {
            let message = "show the operators' key, which is in `admin.key` in the state folder";
            let refusal = Refusal::new(StatusCode::UNAUTHORIZED, message);
            return refusal.with(header::WWW_AUTHENTICATE, "Bearer").into();
        }
        let request = Request::from_parts(head, Body::new(body));
        let Ok(response) = self.pages.clone().oneshot(request).await;
        response
    }
}

impl Admin {
    /// The operators' listener. It exists once the gateway is open and both listeners are bound, so it is ready.
    pub(crate) fn new(config: &Arc<Config>, key: Key, gateway: Arc<Gateway>) -> Admin {
        let desk = Arc::new(Desk { gateway, draining: AtomicBool::new(false) });
        let pages = Router::new()
            .route("/livez", get("ok\n"))
            .route("/readyz", get(readiness))
            .route("/status", get(status))
            .route("/version", get(async || Json(version())))
            .route("/metrics", get(metrics))
            .route("/admin/v1/tools/{tenant}", get(tools))
            .route("/admin/v1/{*page}", any(answer))
            .fallback(async || {
                let message = "nothing here: see /livez, /readyz, /status, /version and /metrics";
                Response::from(Refusal::new(StatusCode::NOT_FOUND, message))
            })
            .method_not_allowed_fallback(async || {
                let refusal =
                    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this page can only be read: use GET");
                Response::from(refusal.with(header::ALLOW, "GET, HEAD"))
            })
            .with_state(Arc::clone(&desk));
        let local = config.admin.ip().is_loopback();
        Admin { allowed: Allowed::for_operators(config), key, local, pages, desk }
    }

    /// From now on no balancer should send us anything new.
    pub(crate) fn drains(&self) {
        self.desk.draining.store(true, Ordering::Release);
    }
}

/// What probes and scrapers read. All else needs the key, whether it exists or not (security 42, 56).
fn is_open(path: &str, local: bool) -> bool {
    match path {
        "/livez" | "/readyz" | "/version" => true,
        "/metrics" => local,
        _ => false,
    }
}

async fn readiness(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    if desk.draining.load(Ordering::Acquire) {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    if !desk.gateway.is_ready() {
        return (StatusCode::SERVICE_UNAVAILABLE, "waiting for the keys of an issuer: see /status\n");
    }
    (StatusCode::OK, "ready\n")
}

async fn status(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    Json(desk.gateway.status())
}

async fn tools(State(desk): State<Arc<Desk>>, Path(tenant): Path<String>) -> Response<Body> {
    match desk.gateway.tools(&tenant) {
        Some(tools) => Json(tools).into_response(),
        None => Refusal::new(StatusCode::NOT_FOUND, format!("there is no tenant `{tenant}`")).into(),
    }
}

async fn metrics(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    // Reads /proc and writes a long text: not on a thread that carries messages.
    let text = tokio::task::spawn_blocking(move || desk.gateway.metrics()).await;
    ([(header::CONTENT_TYPE, PROMETHEUS)], text.unwrap_or_default())
}

async fn answer(
    State(desk): State<Arc<Desk>>,
    Path(page): Path<String>,
    verb: Method,
    body: Body,
) -> Response<Body> {
    let refuse = |status, why: String| Response::from(Refusal::new(status, why));
    let Ok(body) = to_bytes(body, REQUEST_BYTES).await else {
        return refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {REQUEST_BYTES} bytes"),
        );
    };
    let asked = match body.is_empty() {
        true => Ok(serde_json::Value::Null),
        false => serde_json::from_slice(&body),
    };
    match asked {
        Err(error) => refuse(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}")),
        Ok(asked) => match Credentials::new(desk.gateway.config(), desk.gateway.tokens())
            .answer(&verb, &page, asked)
            .await
        {
            Ok(serde_json::Value::Null) => StatusCode::NO_CONTENT.into_response(),
            Ok(answer) => Json(answer).into_response(),
            Err(trouble) => refuse(trouble.status, trouble.why),
        },
    }
}

/// What this program is, for people and for programs.
pub(crate) fn version() -> serde_json::Value {
    let revisions = wire::Revision::ALL.map(wire::Revision::text);
    serde_json::json!({ "name": "portcullis", "version": env!("CARGO_PKG_VERSION"), "revisions": revisions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_probes_and_scrapers_read_is_open() {
        for (path, at_home, outside) in [
            ("/livez", true, true),
            ("/readyz", true, true),
            ("/version", true, true),
            ("/metrics", true, false),
            ("/status", false, false),
            ("/livez/", false, false),
            ("/livez/../status", false, false),
            ("/admin/v1/keys", false, false),
            ("/", false, false),
        ] {
            assert_eq!(is_open(path, true), at_home, "{path}");
            assert_eq!(is_open(path, false), outside, "{path}");
        }
    }
}
