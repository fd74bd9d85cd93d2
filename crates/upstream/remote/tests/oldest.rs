//! Tests: HTTP+SSE of 2024-11-05 (spec S-07 to S-09).

use crate::fake::{Asked, Fake, Pen, Reply, empty, event, events, hello, message, ready, stream, text};
use crate::scripted::{CALM, LONG, answer, ask, call, meanwhile};
use crate::{EraFound, EraMemory, LegacySse, UpstreamError, What};
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::time::timeout;

/// The oldest kind of server, at `/mcp` for GET and `/messages?key=1` for POST.
#[derive(Clone, Default)]
struct Oldest {
    /// The one open stream.
    pen: Arc<Mutex<Option<Pen>>>,
}

impl Oldest {
    fn say(&self, text: String) {
        self.pen.lock().unwrap().as_ref().unwrap().send(text.into()).unwrap();
    }

    fn hang_up(&self) {
        self.pen.lock().unwrap().take();
    }

    fn serve(self, asked: Asked) -> BoxFuture<'static, Reply> {
        match (asked.verb.as_str(), asked.target.as_str()) {
            ("GET", "/mcp") => {
                let (pen, reply) = stream();
                pen.send("event: endpoint\ndata: /messages?key=1\n\n".to_owned().into()).unwrap();
                *self.pen.lock().unwrap() = Some(pen);
                return ready(reply);
            }
            ("POST", "/messages?key=1") => {}
            _ => return ready(text(404, "<html>not here</html>")),
        }
        match asked.method() {
            "initialize" => self.say(event(&asked.result(hello("2024-11-05")))),
            "refused" => return ready(text(401, "")),
            "hold" => {}
            "die" => self.hang_up(),
            method if method.starts_with("notifications/") => {}
            _ => self.say(event(&asked.result(json!({"ok": 1})))),
        }
        ready(text(202, "Accepted"))
    }
}

async fn oldest() -> (Oldest, Fake) {
    let server = Oldest::default();
    let served = server.clone();
    (server, Fake::new(move |asked| served.clone().serve(asked)).await)
}

#[tokio::test]
async fn the_oldest_kind_of_server_is_found_and_served() {
    let (server, mut fake) = oldest().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    assert_eq!(connection.facts().revision, wire::Revision::R2024_11_05);
    for _ in 0..3 {
        assert_eq!(call(&connection, "tools/list", "ok").await, "1");
    }
    let words = fake.words();
    let want = [
        "POST server/discover",
        "POST initialize",
        "GET",
        "POST initialize",
        "POST notifications/initialized",
        "POST tools/list",
    ];
    assert_eq!(words[..6], want);
    assert_eq!(fake.journal().last().unwrap().target, "/messages?key=1");
    server.say(event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})));
    assert!(matches!(fake.notice().await, What::Up(_)));
    assert!(matches!(fake.notice().await, What::Notification(_)));
    let refused = answer(&mut ask(&connection, "refused", "{}", CALM)).await.unwrap_err();
    assert_eq!(refused, UpstreamError::Credential { why: "it does not accept our credential" });
    let mut exchange = ask(&connection, "hold", "{}", CALM);
    meanwhile(&mut exchange, fake.until("POST", "hold", 1)).await;
    drop(exchange);
    fake.until("POST", "notifications/cancelled", 1).await;
    assert_eq!(fake.memory.recall("acme", "web"), Some(EraFound::Legacy));
    upstream.stop().await;
}

#[tokio::test]
async fn a_stream_that_ends_ends_the_session_and_another_begins() {
    let (_, mut fake) = oldest().await;
    fake.address().legacy_sse = LegacySse::Only;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    assert_eq!(fake.words()[..2], ["GET", "POST initialize"], "asked for nothing newer");
    let mut held = ask(&connection, "hold", "{}", CALM);
    meanwhile(&mut held, fake.until("POST", "hold", 1)).await;
    let mut deadly = ask(&connection, "die", "{}", CALM);
    meanwhile(&mut deadly, fake.until("POST", "die", 1)).await;
    for exchange in [&mut held, &mut deadly] {
        let error = timeout(LONG, answer(exchange)).await.unwrap().unwrap_err();
        assert_eq!(error, UpstreamError::Exited { why: "it ended its event stream".into(), sent: true });
    }
    assert_eq!(fake.down().await, "it ended its event stream");
    let What::Up(next) = fake.notice().await else { panic!() };
    assert_eq!(call(&next, "tools/list", "ok").await, "1");
    assert_eq!(fake.count("POST", "initialize"), 2);
    assert_eq!((fake.count("POST", "hold"), fake.count("POST", "die")), (1, 1), "never repeated");
    upstream.stop().await;
}

#[tokio::test]
async fn an_endpoint_elsewhere_is_not_gone_to() {
    for (endpoint, why) in [
        ("https://other.example/", "its endpoint is on another origin"),
        ("//other.example/x", "its endpoint is on another origin"),
        ("http://localhost:1/x", "its endpoint is on another origin"),
        ("http://[", "its endpoint is no URL"),
    ] {
        let mut fake = Fake::new(move |asked: Asked| match asked.verb.as_str() {
            "GET" => ready(events(format!("event: endpoint\ndata: {endpoint}\n\n"))),
            _ => ready(empty(405)),
        })
        .await;
        let upstream = fake.start();
        assert_eq!(fake.down().await, format!("malformed answer: {why}"), "{endpoint}");
        upstream.stop().await;
    }
}

/// What a server answers to POST, whether HTTP+SSE is tried, and how the operator has it.
#[tokio::test]
async fn only_what_looks_like_no_endpoint_is_taken_for_the_oldest_kind() {
    type On = fn(Asked) -> Reply;
    let cases: [(&str, On, LegacySse, bool); 7] = [
        ("404", |_| text(404, "<html>"), LegacySse::Detect, true),
        ("405", |_| empty(405), LegacySse::Detect, true),
        ("400", |_| text(400, ""), LegacySse::Detect, true),
        ("404, never", |_| text(404, "<html>"), LegacySse::Never, false),
        ("404/-32601", |asked| message(404, &asked.error(-32601, json!(null))), LegacySse::Detect, false),
        ("401", |_| text(401, ""), LegacySse::Detect, false),
        ("500", |_| text(500, ""), LegacySse::Detect, false),
    ];
    for (what, post, legacy_sse, tried) in cases {
        let mut fake = Fake::new(move |asked: Asked| match asked.verb.as_str() {
            "GET" => ready(text(404, "")),
            _ => ready(post(asked)),
        })
        .await;
        fake.address().legacy_sse = legacy_sse;
        let upstream = fake.start();
        fake.down().await;
        assert_eq!(fake.count("GET", "") > 0, tried, "{what}");
        upstream.stop().await;
    }
}
