//! Tests: streams beside and after requests: GET, resumption, cancellation.

use crate::fake::{
    Asked, Fake, Pen, Reply, Turn, empty, event, events, fine, hello, in_session, legacy, message, ready,
    stream, text,
};
use crate::scripted::{CALM, LONG, answer, ask, call, meanwhile};
use crate::{Incoming, UpstreamError, What};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

fn note(data: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": data}})
}

/// A legacy server whose GET streams are written by the test.
async fn with_get() -> (Fake, mpsc::UnboundedReceiver<Pen>) {
    let (pens, opened) = mpsc::unbounded_channel();
    let others = legacy(fine);
    let fake = Fake::new(move |asked: Asked| match (asked.verb.as_str(), asked.method()) {
        ("GET", _) => {
            let (pen, reply) = stream();
            pens.send(pen).unwrap();
            ready(reply)
        }
        ("POST", "initialize") => ready(in_session(message(200, &asked.result(hello("2025-11-25"))), "s")),
        _ => others(asked),
    })
    .await;
    (fake, opened)
}

async fn notified(fake: &mut Fake) -> String {
    loop {
        if let What::Notification(frame) = fake.notice().await {
            return frame.param("data").map_or(frame.method_name().to_owned(), str::to_owned);
        }
    }
}

#[tokio::test]
async fn a_server_without_a_get_stream_is_asked_once() {
    let fake = Fake::new(legacy(fine)).await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    fake.until("GET", "", 1).await;
    for _ in 0..20 {
        call(&connection, "tools/call", "ok").await;
    }
    assert_eq!(fake.count("GET", ""), 1);
    upstream.stop().await;
}

#[tokio::test]
async fn the_get_stream_feeds_notices_and_is_opened_again_after_a_pause() {
    let (mut fake, mut opened) = with_get().await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let pen = opened.recv().await.unwrap();
    pen.send(event(&note("one")).into()).unwrap();
    assert_eq!(notified(&mut fake).await, "\"one\"");
    let broke = Instant::now();
    drop(pen);
    call(&connection, "tools/call", "ok").await;
    let pen = timeout(LONG, opened.recv()).await.unwrap().unwrap();
    assert!(broke.elapsed() >= Duration::from_millis(950), "{:?}", broke.elapsed());
    // Nobody says what was missed, so it is as if everything had changed; once.
    pen.send(event(&note("two")).into()).unwrap();
    assert_eq!(notified(&mut fake).await, "notifications/tools/list_changed");
    assert_eq!(notified(&mut fake).await, "\"two\"");
    let get = fake.until("GET", "", 2).await;
    assert_eq!((get.header("mcp-session-id"), get.header("last-event-id")), ("s", ""));
    assert_eq!(fake.count("POST", "initialize"), 1, "a stream that drops is no session that ends");
    upstream.stop().await;
    assert!(pen.is_closed());
}

#[tokio::test]
async fn a_get_stream_with_ids_goes_on_where_it_broke_and_not_before_it_may() {
    let (mut fake, mut opened) = with_get().await;
    let upstream = fake.start();
    upstream.connection().await.unwrap();
    let pen = opened.recv().await.unwrap();
    pen.send(format!("id: e1\nretry: 1500\n{}", event(&note("one"))).into()).unwrap();
    assert_eq!(notified(&mut fake).await, "\"one\"");
    let broke = Instant::now();
    drop(pen);
    let pen = timeout(LONG, opened.recv()).await.unwrap().unwrap();
    assert!(broke.elapsed() >= Duration::from_millis(1450), "{:?}", broke.elapsed());
    assert_eq!(fake.until("GET", "", 2).await.header("last-event-id"), "e1");
    pen.send(event(&note("two")).into()).unwrap();
    assert_eq!(notified(&mut fake).await, "\"two\"", "nothing was missed");
    upstream.stop().await;
}

#[tokio::test]
async fn a_get_stream_that_is_gone_with_its_session_begins_another() {
    let (turn, (pens, mut opened)) = (Turn::default(), mpsc::unbounded_channel());
    let mut fake = Fake::new(move |asked: Asked| -> BoxFuture<'static, Reply> {
        match (asked.verb.as_str(), asked.method()) {
            ("POST", "server/discover") => ready(text(400, "")),
            ("POST", "initialize") => {
                let id = format!("s{}", turn.next());
                ready(in_session(message(200, &asked.result(hello("2025-11-25"))), &id))
            }
            ("POST", "notifications/initialized") => ready(empty(202)),
            ("GET", _) if asked.header("last-event-id") == "gone" => ready(text(404, "")),
            ("GET", _) => {
                let (pen, reply) = stream();
                pens.send(pen).unwrap();
                ready(reply)
            }
            _ => ready(empty(405)),
        }
    })
    .await;
    let upstream = fake.start();
    upstream.connection().await.unwrap();
    let pen = opened.recv().await.unwrap();
    pen.send(format!("id: gone\n{}", event(&note("one"))).into()).unwrap();
    assert_eq!(notified(&mut fake).await, "\"one\"");
    drop(pen);
    let _pen = timeout(LONG, opened.recv()).await.unwrap().unwrap();
    assert_eq!(notified(&mut fake).await, "notifications/tools/list_changed");
    assert_eq!(fake.until("GET", "", 3).await.header("mcp-session-id"), "s2");
    assert_eq!(fake.count("POST", "initialize"), 2);
    upstream.stop().await;
}

#[tokio::test]
async fn a_stream_that_breaks_before_the_answer_is_resumed_where_it_has_ids() {
    let (turn, kept) = (Turn::default(), Arc::<Mutex<Option<Value>>>::default());
    let keep = Arc::clone(&kept);
    let others = legacy(move |asked: Asked| {
        // Priming, retry, and away (spec H-23, H-24).
        keep.lock().unwrap().replace(asked.result(json!({"ok": 1})));
        std::future::ready(events("id: p1\nretry: 500\ndata:\n\n"))
    });
    let fake = Fake::new(move |asked: Asked| match (asked.verb.as_str(), asked.header("last-event-id")) {
        ("GET", "") => ready(empty(405)),
        ("GET", "p1") if turn.next() == 1 => {
            ready(events(format!("id: p2\n{}", event(&note("still at it")))))
        }
        ("GET", "p1") => ready(text(400, "")),
        ("GET", "p2") => ready(events(event(&kept.lock().unwrap().take().unwrap()))),
        _ => others(asked),
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let began = Instant::now();
    let mut exchange = ask(&connection, "tools/call", "{}", CALM);
    assert!(matches!(exchange.next().await, Incoming::Later), "it takes a pause at least");
    assert!(began.elapsed() < Duration::from_secs(1), "told before the pause");
    let frame = answer(&mut exchange).await.unwrap();
    assert_eq!(frame.result(), Some(r#"{"ok":1}"#));
    assert!(began.elapsed() >= Duration::from_millis(1900), "two pauses of a second at least");
    assert_eq!(fake.count("POST", "tools/call"), 1, "never sent again");
    upstream.stop().await;
}

#[tokio::test]
async fn a_stream_that_breaks_and_cannot_be_resumed_fails_its_request_only() {
    let fake = Fake::new(legacy(|asked: Asked| async move {
        match asked.method() {
            "lost" => events("id: x\ndata:\n\n"),
            _ => message(200, &asked.result(json!({"ok": 1}))),
        }
    }))
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let error = answer(&mut ask(&connection, "lost", "{}", CALM)).await.unwrap_err();
    assert_eq!(error, UpstreamError::garbled("it ended its event stream without the answer"));
    assert_eq!(call(&connection, "tools/call", "ok").await, "1");
    assert_eq!(fake.count("POST", "lost"), 1);
    upstream.stop().await;
}

#[tokio::test]
async fn giving_up_tells_a_legacy_server_by_a_notification_and_lets_the_stream_go() {
    let (pens, mut opened) = mpsc::unbounded_channel();
    let fake = Fake::new(legacy(move |asked: Asked| {
        let (pen, reply) = stream();
        pens.send((asked.body["id"].clone(), pen)).unwrap();
        std::future::ready(reply)
    }))
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let mut exchange = ask(&connection, "tools/call", "{}", CALM);
    let (id, pen) = meanwhile(&mut exchange, opened.recv()).await.unwrap();
    exchange.cancel(Some(r#""changed my mind""#));
    drop(exchange);
    timeout(LONG, pen.closed()).await.unwrap();
    let cancelled = fake.until("POST", "notifications/cancelled", 1).await;
    assert_eq!(cancelled.body["params"], json!({"requestId": id, "reason": "changed my mind"}));
    upstream.stop().await;
    assert_eq!(fake.count("POST", "notifications/cancelled"), 1);
}

#[tokio::test]
async fn a_server_that_goes_away_is_noticed_and_found_again() {
    let (mut fake, mut opened) = with_get().await;
    fake.spec.patience.start = Duration::from_secs(5);
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let _pen = opened.recv().await.unwrap();
    fake.stop();
    let error =
        timeout(LONG, answer(&mut ask(&connection, "tools/call", "{}", CALM))).await.unwrap().unwrap_err();
    assert!(matches!(error, UpstreamError::NotRunning { .. } | UpstreamError::Exited { .. }), "{error:?}");
    assert_eq!(fake.down().await, "it stopped answering");
    assert_eq!(fake.down().await, "it refuses connections");
    assert_eq!(
        upstream.connection().await.unwrap_err(),
        UpstreamError::not_running("it refuses connections")
    );
    upstream.stop().await;
}
