//! The operators' listener: health, status, metrics. Never on the clients' port.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Json, Router,
    extract::State,
    http::{Request, Response, StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use config::Config;
use gateway::Gateway;
use hyper::body::Incoming;
use tower::ServiceExt as _;

use crate::{
    listen::{Ends, Site},
    origin::Allowed,
    transport::{body::Body, refusal::Refusal},
};

/// Connections at a time; a few probes and a scraper need no more.
pub(crate) const CONNECTIONS: usize = 256;

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The operators' listener of a gateway.
pub(crate) struct Admin {
    allowed: Allowed,
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
        let request = Request::from_parts(head, Body::new(body));
        let Ok(response) = self.pages.clone().oneshot(request).await;
        response
    }
}

impl Admin {
    /// The operators' listener. It exists once the gateway is open and both listeners are bound, so it is ready.
    pub(crate) fn new(config: &Config, gateway: Arc<Gateway>) -> Admin {
        let desk = Arc::new(Desk { gateway, draining: AtomicBool::new(false) });
        let pages = Router::new()
            .route("/livez", get("ok\n"))
            .route("/readyz", get(readiness))
            .route("/status", get(status))
            .route("/version", get(async || Json(version())))
            .route("/metrics", get(metrics))
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
        Admin { allowed: Allowed::for_operators(config), pages, desk }
    }

    /// From now on no balancer should send us anything new.
    pub(crate) fn drains(&self) {
        self.desk.draining.store(true, Ordering::Release);
    }
}

async fn readiness(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    match desk.draining.load(Ordering::Acquire) {
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        false => (StatusCode::OK, "ready\n"),
    }
}

async fn status(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    Json(desk.gateway.status())
}

async fn metrics(State(desk): State<Arc<Desk>>) -> impl IntoResponse {
    // Reads /proc and writes a long text: not on a thread that carries messages.
    let text = tokio::task::spawn_blocking(move || desk.gateway.metrics()).await;
    ([(header::CONTENT_TYPE, PROMETHEUS)], text.unwrap_or_default())
}

/// What this program is, for people and for programs.
pub(crate) fn version() -> serde_json::Value {
    let revisions = wire::Revision::LEGACY.map(wire::Revision::text);
    serde_json::json!({ "name": "portcullis", "version": env!("CARGO_PKG_VERSION"), "revisions": revisions })
}
