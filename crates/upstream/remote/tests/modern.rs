//! Tests: the modern era over HTTP: headers, statelessness, cancellation by closing.

use crate::connection::Outbound;
use crate::fake::{Asked, Fake, Reply, Turn, empty, event, events, message, ready, stream, text};
use crate::scripted::{CALM, LONG, answer, meanwhile};
use crate::{Connection, EraFound, EraMemory, Exchange, Incoming, UpstreamError, What};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::timeout;
use wire::Method;

pub(super) fn discovered() -> Value {
    json!({
        "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "2"}},
    })
}

/// A modern server that takes nothing else.
async fn modern<F>(on: impl Fn(Asked) -> F + Send + Sync + 'static) -> Fake
where
    F: Future<Output = Reply> + Send + 'static,
{
    Fake::new(move |asked: Asked| -> BoxFuture<'static, Reply> {
        if asked.verb != "POST" {
            return ready(empty(405));
        }
        if asked.header("mcp-protocol-version") != "2026-07-28"
            || asked.header("mcp-method") != asked.method()
        {
            return ready(message(400, &asked.error(-32020, json!(null))));
        }
        match asked.method() {
            "server/discover" => ready(message(200, &asked.result(discovered()))),
            "initialize" | "ping" => ready(message(404, &asked.error(-32601, json!(null)))),
            _ => Box::pin(on(asked)),
        }
    })
    .await
}

fn send(
    connection: &Arc<Connection>,
    method: Method,
    name: Option<&str>,
    mirrored: &[(Box<str>, String)],
) -> Exchange {
    let build = |id: &wire::Id| {
        let meta = wire::client_meta(None, None, "{}");
        let meta = if meta.is_empty() { "{}".to_owned() } else { meta };
        format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"{}","params":{{"_meta":{meta}}}}}"#,
            id.raw(),
            method.name()
        )
        .into()
    };
    connection.send_outbound(&Outbound { method, name, mirrored, caller: None, build: &build }, CALM).unwrap()
}

#[tokio::test]
async fn a_modern_server_is_spoken_to_in_its_own_way_and_nothing_is_kept() {
    let fake = modern(|asked| async move {
        let mut reply = message(200, &asked.result(json!({"resultType": "complete", "ok": 1})));
        // Of no meaning in this era.
        reply.headers_mut().insert("mcp-session-id", "tempting".parse().unwrap());
        reply
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    assert_eq!(connection.facts().revision, wire::Revision::R2026_07_28);
    assert_eq!(connection.facts().server, r#"{"name":"new","version":"2"}"#);
    let mirrored = [("region".into(), "eu".to_owned())];
    for (method, name, mirrored) in [
        (Method::ToolsList, None, &[][..]),
        (Method::ToolsCall, Some("create"), &mirrored[..]),
        (Method::ResourcesRead, Some("file:///x"), &[]),
    ] {
        let frame = answer(&mut send(&connection, method, name, mirrored)).await.unwrap();
        assert_eq!(frame.result_member("ok"), Some("1"));
        let asked = fake.until("POST", method.name(), 1).await;
        assert_eq!(asked.header("mcp-protocol-version"), "2026-07-28");
        assert_eq!(asked.header("mcp-method"), method.name());
        assert_eq!(asked.header("mcp-name"), name.unwrap_or_default());
        assert_eq!(asked.header("mcp-param-region"), if mirrored.is_empty() { "" } else { "eu" });
        assert_eq!(asked.header("mcp-session-id"), "");
    }
    upstream.stop().await;
    // No handshake, no GET, no DELETE (spec E-17, H-35).
    assert_eq!(
        fake.words(),
        ["POST server/discover", "POST tools/list", "POST tools/call", "POST resources/read"]
    );
    assert_eq!(fake.memory.recall("acme", "web"), Some(EraFound::Modern));
}

#[tokio::test]
async fn giving_up_closes_the_stream_of_that_request_and_says_nothing() {
    let (pens, mut opened) = mpsc::unbounded_channel();
    let fake = modern(move |_| {
        let (pen, reply) = stream();
        pens.send(pen).unwrap();
        std::future::ready(reply)
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let mut kept = send(&connection, Method::ToolsCall, Some("a"), &[]);
    let kept_pen = meanwhile(&mut kept, opened.recv()).await.unwrap();
    let mut dropped = send(&connection, Method::ToolsCall, Some("b"), &[]);
    let pen = meanwhile(&mut dropped, opened.recv()).await.unwrap();
    drop(dropped);
    timeout(LONG, pen.closed()).await.unwrap();
    let mut cancelled = send(&connection, Method::ToolsCall, Some("c"), &[]);
    let pen = meanwhile(&mut cancelled, opened.recv()).await.unwrap();
    cancelled.cancel(Some("\"why\""));
    timeout(LONG, pen.closed()).await.unwrap();
    assert!(matches!(cancelled.next().await, Incoming::Failed(UpstreamError::Exited { sent: true, .. })));
    // The other one is none the wiser (spec X-20).
    kept_pen
        .send(event(&json!({"jsonrpc": "2.0", "id": kept.id().as_number(), "result": {"ok": 1}})).into())
        .unwrap();
    assert_eq!(answer(&mut kept).await.unwrap().result_member("ok"), Some("1"));
    upstream.stop().await;
    assert_eq!(
        fake.words(),
        ["POST server/discover", "POST tools/call", "POST tools/call", "POST tools/call"]
    );
}

#[tokio::test]
async fn a_lost_stream_is_a_lost_request() {
    let fake = modern(|_| async { events("id: e1\nretry: 100\ndata:\n\n") }).await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let error = answer(&mut send(&connection, Method::ToolsCall, Some("a"), &[])).await.unwrap_err();
    assert_eq!(error, UpstreamError::garbled("it ended its event stream without the answer"));
    assert_eq!(
        (fake.count("GET", ""), fake.count("POST", "tools/call")),
        (0, 1),
        "neither resumed nor repeated (spec H-26)"
    );
    upstream.stop().await;
}

#[tokio::test]
async fn requests_of_a_modern_server_reach_nobody_and_its_errors_do() {
    let mut fake = modern(|asked| async move {
        match asked.header("mcp-name") {
            "asks" => {
                let question = json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage"});
                let note =
                    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}});
                events(event(&question) + &event(&note) + &event(&asked.result(json!({"ok": 1}))))
            }
            _ => message(400, &asked.error(-32021, json!({"requiredCapabilities": {"sampling": {}}}))),
        }
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let mut asks = send(&connection, Method::ToolsCall, Some("asks"), &[]);
    let Incoming::Told(_) = asks.next().await else { panic!("the question is dropped, the note is not") };
    answer(&mut asks).await.unwrap();
    let frame = answer(&mut send(&connection, Method::ToolsCall, Some("needs"), &[])).await.unwrap();
    assert_eq!(frame.error_member("code"), Some("-32021"));
    assert!(matches!(fake.notice().await, What::Up(_)));
    assert!(fake.told.try_recv().is_err());
    assert_eq!(fake.count("POST", ""), 0, "not answered (spec P-08)");
    upstream.stop().await;
}

#[tokio::test]
async fn a_server_that_is_modern_no_more_is_found_out() {
    let turn = Turn::default();
    let old = crate::fake::legacy(crate::fake::fine);
    let mut fake = Fake::new(move |asked: Asked| -> BoxFuture<'static, Reply> {
        match asked.method() {
            "server/discover" if turn.next() == 1 => ready(message(200, &asked.result(discovered()))),
            _ if asked.header("mcp-protocol-version") == "2026-07-28" => {
                ready(text(400, "unsupported protocol version"))
            }
            _ => old(asked),
        }
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    let error = answer(&mut send(&connection, Method::ToolsCall, Some("a"), &[])).await.unwrap_err();
    assert_eq!(error, UpstreamError::garbled("it answered with HTTP status 400"));
    assert_eq!(fake.down().await, "it forgot what was agreed on");
    let What::Up(connection) = fake.notice().await else { panic!() };
    assert_eq!(connection.facts().revision, wire::Revision::R2025_11_25);
    assert_eq!(fake.memory.recall("acme", "web"), Some(EraFound::Legacy));
    assert_eq!(fake.count("POST", "tools/call"), 1, "what may have run is not repeated (spec E-16)");
    upstream.stop().await;
}
