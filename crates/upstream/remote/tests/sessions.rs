//! Tests: legacy sessions: begun, carried, renewed, ended.

use crate::fake::{Asked, Fake, Reply, Turn, empty, fine, hello, in_session, message, ready, text};
use crate::scripted::{CALM, LONG, answer, ask, call, meanwhile};
use crate::{State, UpstreamError, What};
use futures_util::future::BoxFuture;
use serde_json::json;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use tokio::time::timeout;

/// A server with sessions that it can forget.
#[derive(Clone, Default)]
struct Sessions {
    open: Arc<Mutex<HashSet<String>>>,
    begun: Arc<Mutex<usize>>,
}

impl Sessions {
    fn forget(&self) {
        self.open.lock().unwrap().clear();
    }

    fn serve(self, asked: Asked) -> BoxFuture<'static, Reply> {
        if asked.method() == "server/discover" {
            return ready(text(400, "Bad Request: no session"));
        }
        if asked.method() == "initialize" {
            let mut begun = self.begun.lock().unwrap();
            *begun += 1;
            let id = format!("session-{begun}");
            self.open.lock().unwrap().insert(id.clone());
            return ready(in_session(message(200, &asked.result(hello("2025-06-18"))), &id));
        }
        if !self.open.lock().unwrap().contains(asked.header("mcp-session-id")) {
            return ready(text(404, "unknown session"));
        }
        match (asked.verb.as_str(), asked.method()) {
            ("GET" | "DELETE", _) => ready(empty(405)),
            (_, "notifications/initialized") => ready(empty(202)),
            _ => Box::pin(fine(asked)),
        }
    }
}

async fn server() -> (Sessions, Fake) {
    let sessions = Sessions::default();
    let served = sessions.clone();
    (sessions, Fake::new(move |asked| served.clone().serve(asked)).await)
}

#[tokio::test]
async fn the_session_goes_with_every_request_until_it_is_ended() {
    let (_, fake) = server().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    assert_eq!(call(&connection, "tools/list", "ok").await, "1");
    fake.until("GET", "", 1).await;
    assert!(matches!(upstream.state(), State::Up { pid: 0, revision: wire::Revision::R2025_06_18, .. }));
    upstream.stop().await;
    let mut words = fake.words();
    words.sort_unstable();
    assert_eq!(
        words,
        [
            "DELETE",
            "GET",
            "POST initialize",
            "POST notifications/initialized",
            "POST server/discover",
            "POST tools/list"
        ]
    );
    for asked in fake.journal() {
        let (id, version) =
            (asked.header("mcp-session-id").to_owned(), asked.header("mcp-protocol-version").to_owned());
        let want = match asked.method() {
            "server/discover" => ("", "2026-07-28"),
            "initialize" => ("", ""),
            _ => ("session-1", "2025-06-18"),
        };
        assert_eq!((id.as_str(), version.as_str()), want, "{asked:?}");
    }
}

#[tokio::test]
async fn initialized_is_heard_before_the_first_request() {
    let (_, fake) = server().await;
    let upstream = fake.start();
    call(&upstream.connection().await.unwrap(), "tools/list", "ok").await;
    let words: Vec<String> = fake.words().into_iter().filter(|word| word != "GET").collect();
    assert_eq!(
        words,
        ["POST server/discover", "POST initialize", "POST notifications/initialized", "POST tools/list"]
    );
    upstream.stop().await;
}

#[tokio::test]
async fn a_forgotten_session_is_renewed_once_and_no_caller_notices() {
    let (sessions, mut fake) = server().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    for round in 1..=3 {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let connection = Arc::clone(&connection);
            calls.spawn(async move { answer(&mut ask(&connection, "tools/call", "{}", CALM)).await });
        }
        while let Some(ended) = calls.join_next().await {
            assert!(ended.unwrap().is_ok());
        }
        assert_eq!(fake.count("POST", "initialize"), round);
        assert_eq!(fake.count("POST", "notifications/initialized"), round);
        sessions.forget();
    }
    assert!(matches!(fake.notice().await, What::Up(_)), "the connection is the same all the time");
    for _ in 0..2 {
        let What::Notification(frame) = fake.notice().await else { panic!() };
        assert_eq!(frame.method_name(), "notifications/tools/list_changed", "it may have changed meanwhile");
    }
    assert!(connection.is_open() && fake.told.try_recv().is_err());
    upstream.stop().await;
}

#[tokio::test]
async fn a_renewal_goes_on_when_its_asker_leaves() {
    let (release, released) = tokio::sync::watch::channel(false);
    let (sessions, turn) = (Sessions::default(), Turn::default());
    let served = sessions.clone();
    let fake = Fake::new(move |asked: Asked| -> BoxFuture<'static, Reply> {
        let (served, mut released) = (served.clone(), released.clone());
        if asked.method() != "initialize" || turn.next() == 1 {
            return served.serve(asked);
        }
        Box::pin(async move {
            released.wait_for(|released| *released).await.unwrap();
            served.serve(asked).await
        })
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    sessions.forget();
    let mut leaver = ask(&connection, "tools/call", "{}", CALM);
    meanwhile(&mut leaver, fake.until("POST", "initialize", 2)).await;
    drop(leaver);
    let mut stayer = ask(&connection, "tools/call", "{}", CALM);
    meanwhile(&mut stayer, fake.until("POST", "tools/call", 2)).await;
    release.send(true).unwrap();
    assert!(answer(&mut stayer).await.is_ok());
    assert_eq!(fake.count("POST", "initialize"), 2);
    upstream.stop().await;
}

#[tokio::test]
async fn a_server_that_forgets_at_once_is_not_asked_for_ever() {
    let fake = Fake::new(|asked: Asked| match asked.method() {
        "server/discover" => ready(text(400, "")),
        "initialize" => ready(in_session(message(200, &asked.result(hello("2025-06-18"))), "s")),
        "notifications/initialized" => ready(empty(202)),
        _ => ready(text(404, "")),
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let error = answer(&mut ask(&connection, "tools/call", "{}", CALM)).await.unwrap_err();
    assert_eq!(error, UpstreamError::not_running("it forgets its sessions"));
    assert_eq!((fake.count("POST", "initialize"), fake.count("POST", "tools/call")), (2, 2));
    upstream.stop().await;
}

#[tokio::test]
async fn a_session_that_cannot_be_renewed_is_a_server_that_is_down() {
    // After the first session it is another server: less capable, or no server at all.
    for changed in [true, false] {
        let turn = Turn::default();
        let mut fake = Fake::new(move |asked: Asked| {
            let first = asked.header("mcp-session-id").is_empty();
            match asked.method() {
                "server/discover" => ready(text(400, "")),
                "initialize" if turn.next() == 1 => {
                    ready(in_session(message(200, &asked.result(hello("2025-06-18"))), "s"))
                }
                "initialize" if changed => ready(message(
                    200,
                    &asked.result(json!({"protocolVersion": "2025-06-18", "capabilities": {}})),
                )),
                "initialize" => ready(text(503, "")),
                "notifications/initialized" => ready(empty(202)),
                _ if first => Box::pin(fine(asked)),
                _ => ready(text(404, "")),
            }
        })
        .await;
        let upstream = fake.start();
        let connection = upstream.connection().await.unwrap();
        let error = timeout(LONG, answer(&mut ask(&connection, "tools/call", "{}", CALM)))
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(error, UpstreamError::not_running("it forgot our session"));
        assert_eq!(fake.down().await, "it forgot what was agreed on");
        if changed {
            let What::Up(connection) = fake.notice().await else {
                panic!("it is up again, as what it is now")
            };
            assert!(!connection.facts().has("tools"));
        } else {
            assert_eq!(fake.down().await, "it answered with HTTP status 503");
        }
        upstream.stop().await;
    }
}

#[tokio::test]
async fn a_session_id_that_breaks_the_rules_is_refused() {
    for id in ["a b".to_owned(), "x".repeat(64 * 1024), "caf\u{e9}".to_owned(), String::new()] {
        let mut fake = Fake::new(move |asked: Asked| match asked.method() {
            "initialize" => {
                let mut reply = message(200, &asked.result(hello("2025-06-18")));
                let id = http::HeaderValue::from_bytes(id.as_bytes()).unwrap();
                reply.headers_mut().insert("mcp-session-id", id);
                ready(reply)
            }
            _ => ready(text(400, "")),
        })
        .await;
        let upstream = fake.start();
        assert_eq!(fake.down().await, "malformed answer: its session id breaks the rules for session ids");
        upstream.stop().await;
    }
}

#[tokio::test]
async fn a_method_that_is_not_found_is_no_session_that_is_not_found() {
    let fake = Fake::new(|asked: Asked| match asked.method() {
        "server/discover" => ready(text(400, "")),
        "initialize" => ready(in_session(message(200, &asked.result(hello("2025-06-18"))), "s")),
        "notifications/initialized" => ready(empty(202)),
        _ => ready(message(404, &asked.error(-32601, json!(null)))),
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let frame = answer(&mut ask(&connection, "prompts/list", "{}", CALM)).await.unwrap();
    assert_eq!(frame.error_member("code"), Some("-32601"));
    assert_eq!(fake.count("POST", "initialize"), 1);
    upstream.stop().await;
}
