//! Tests: what is wished of a legacy server, in every session it gives us (spec H-15, U-14, R-06).

use crate::UpstreamError;
use crate::fake::{Asked, Fake, Reply, Turn, empty, in_session, message, ready, text};
use crate::scripted::{LONG, call};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::time::timeout;

/// A server that logs and lets its resources be followed, but for one; its sessions are forgotten at will.
async fn followed() -> (Fake, Arc<Mutex<String>>) {
    let (turn, current) = (Turn::default(), Arc::<Mutex<String>>::default());
    let session = Arc::clone(&current);
    let fake = Fake::new(move |asked: Asked| -> BoxFuture<'static, Reply> {
        if asked.method() == "initialize" {
            let id = format!("s{}", turn.next());
            session.lock().unwrap().clone_from(&id);
            let capabilities = json!({"tools": {}, "logging": {}, "resources": {"subscribe": true}});
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities});
            return ready(in_session(message(200, &asked.result(hello)), &id));
        }
        if !asked.header("mcp-session-id").is_empty()
            && asked.header("mcp-session-id") != *session.lock().unwrap()
        {
            return ready(text(404, ""));
        }
        match (asked.verb.as_str(), asked.method()) {
            ("POST", "server/discover") => ready(text(400, "")),
            ("POST", method) if method.starts_with("notifications/") => ready(empty(202)),
            ("POST", "resources/subscribe") if asked.body["params"]["uri"] == "a:no" => {
                ready(message(200, &asked.error(-32002, Value::Null)))
            }
            ("POST", _) => ready(message(200, &asked.result(json!({"ok": 1})))),
            _ => ready(empty(405)),
        }
    })
    .await;
    (fake, current)
}

/// What it was told, but for the handshake and streams.
fn told(fake: &Fake) -> Vec<String> {
    let told = fake.journal().into_iter().filter(|asked| asked.verb == "POST");
    let words = told.map(|asked| {
        let params = &asked.body["params"];
        let named = params["uri"].as_str().or(params["level"].as_str()).unwrap_or_default();
        format!("{} {named}", asked.method()).trim_end().to_owned()
    });
    words.skip(3).collect()
}

#[tokio::test]
async fn resources_are_followed_and_followed_no_more_and_a_refusal_is_said() {
    let (fake, _) = followed().await;
    let upstream = fake.start();
    timeout(LONG, upstream.subscribe("a:1")).await.unwrap().unwrap();
    timeout(LONG, upstream.subscribe("a:1")).await.unwrap().unwrap();
    let refused = timeout(LONG, upstream.subscribe("a:no")).await.unwrap();
    assert_eq!(refused, Err(UpstreamError::garbled("it refused with code -32002")));
    timeout(LONG, upstream.unsubscribe("a:1")).await.unwrap().unwrap();
    upstream.stop().await;
    let want = ["resources/subscribe a:1", "resources/subscribe a:no", "resources/unsubscribe a:1"];
    assert_eq!(told(&fake), want);
}

#[tokio::test]
async fn a_new_session_holds_what_the_old_one_held_before_the_call_goes_again() {
    let (fake, current) = followed().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    upstream.want(Some("debug"));
    fake.until("POST", "logging/setLevel", 1).await;
    for uri in ["a:1", "a:2", "a:2"] {
        timeout(LONG, upstream.subscribe(uri)).await.unwrap().unwrap();
    }
    current.lock().unwrap().clear();
    assert_eq!(call(&connection, "tools/call", "ok").await, "1");
    upstream.stop().await;
    let held = ["logging/setLevel debug", "resources/subscribe a:1", "resources/subscribe a:2"];
    let renewed = ["tools/call", "initialize", "notifications/initialized"];
    assert_eq!(told(&fake), [&held[..], &renewed, &held, &["tools/call"]].concat());
}

#[tokio::test]
async fn a_server_that_never_promised_it_is_not_asked() {
    let fake = Fake::new(crate::fake::legacy(crate::fake::fine)).await;
    let upstream = fake.start();
    upstream.want(Some("debug"));
    let refused = timeout(LONG, upstream.subscribe("a:1")).await.unwrap();
    assert_eq!(refused, Err(UpstreamError::incompatible("its resources cannot be followed")));
    upstream.stop().await;
    assert_eq!((fake.count("POST", "logging/setLevel"), fake.count("POST", "resources/subscribe")), (0, 0));
}
