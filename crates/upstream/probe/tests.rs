//! Tests: every way a server takes the probe.

use crate::scripted::{CALM, LONG, Scripted, answer, ask, call};
use crate::{EraFound, EraMemory, State, UpstreamError, Wait, What};
use std::time::Duration;
use tokio::time::timeout;

/// How a server takes `server/discover`, what is remembered, and what it has seen once it is up.
const LEGACY: [(&str, &str, EraFound, &[&str]); 11] = [
    ("-32601", "serve()", EraFound::Legacy, &["start", "server/discover", "initialize"]),
    (
        "-32602",
        "serve(probe=lambda m: error(m, -32602))",
        EraFound::Legacy,
        &["start", "server/discover", "initialize"],
    ),
    (
        "-32600",
        "serve(probe=lambda m: error(m, -32600))",
        EraFound::Legacy,
        &["start", "server/discover", "initialize"],
    ),
    (
        "junk",
        "serve(probe=lambda m: result(m, {'supportedVersions': 7}))",
        EraFound::Legacy,
        &["start", "server/discover", "initialize"],
    ),
    (
        "noise",
        "serve(probe=lambda m: raw(b'what?\\n'))",
        EraFound::Legacy,
        &["start", "server/discover", "initialize"],
    ),
    ("silence", "serve(probe=lambda m: None)", EraFound::Legacy, &["start", "server/discover", "initialize"]),
    (
        "late",
        "late = []\ndef on(m): error(late.pop(), -32601) if late else None; result(m, {'pid': 1})\nserve(on, probe=late.append)",
        EraFound::Legacy,
        &["start", "server/discover", "initialize"],
    ),
    (
        "exit",
        "serve(probe=lambda m: os._exit(1))",
        EraFound::DiesWhenProbed,
        &["start", "server/discover", "start", "initialize"],
    ),
    (
        "both eras",
        "serve(probe=lambda m: result(m, {'supportedVersions': ['2026-07-28', '2025-11-25'], 'capabilities': {}}))",
        EraFound::Modern,
        &["start", "server/discover", "initialize"],
    ),
    (
        "modern by its own word, and still takes the handshake",
        "serve(probe=lambda m: result(m, {'supportedVersions': ['2026-07-28'], 'capabilities': {}}))",
        EraFound::Modern,
        &["start", "server/discover", "initialize"],
    ),
    (
        "modern for good once it was probed",
        "first = next(messages())\nserve() if first['method'] == 'initialize' and not hello(first) else None\nresult(first, {'supportedVersions': ['2026-07-28']})\nfor m in messages(): error(m, -32601)",
        EraFound::DiesWhenProbed,
        &["start", "server/discover", "initialize", "start", "initialize"],
    ),
];

#[tokio::test]
async fn a_server_is_initialized_however_it_takes_the_probe() {
    for (what, script, found, seen) in LEGACY {
        let mut scripted = Scripted::new(script);
        scripted.spec.modern = false;
        scripted.spec.patience.probe =
            Duration::from_millis(if matches!(what, "silence" | "late" | "noise") { 300 } else { 20_000 });
        let upstream = scripted.start();
        let connection = upstream.connection().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_ne!(call(&connection, "tools/call", "pid").await, "", "{what}");
        let mut want: Vec<&str> = seen.to_vec();
        want.extend(["notifications/initialized", "tools/call"]);
        assert_eq!(scripted.journal(), want, "{what}");
        assert_eq!(scripted.memory.recall("acme", "files"), Some(found), "{what}");
        assert!(matches!(upstream.state(), State::Up { .. }));
        upstream.stop().await;
    }
}

#[tokio::test]
async fn what_is_remembered_spares_the_next_seat_the_probe() {
    for (found, probed) in
        [(EraFound::Legacy, false), (EraFound::DiesWhenProbed, false), (EraFound::Modern, true)]
    {
        let scripted = Scripted::new("serve()");
        scripted.memory.remember("acme", "files", found);
        let upstream = scripted.start();
        call(&upstream.connection().await.unwrap(), "tools/list", "pid").await;
        assert_eq!(scripted.journal().contains(&"server/discover".to_owned()), probed, "{found:?}");
        upstream.stop().await;
    }
}

#[tokio::test]
async fn a_modern_server_that_refuses_the_handshake_is_incompatible_where_that_is_all_we_may_speak() {
    let modern = [
        "result(m, {'supportedVersions': ['2026-07-28'], 'capabilities': {}, 'resultType': 'complete'})",
        "result(m, {'supportedVersions': ['2031-01-01']})",
        "error(m, -32022, {'supported': ['2026-07-28'], 'requested': 'x'})",
        "error(m, -32020)",
        "error(m, -32021)",
    ];
    for probe in modern {
        let mut scripted = Scripted::new(&format!(
            "
for m in messages():
    if m['method'] == 'server/discover': {probe}
    else: error(m, -32601)"
        ));
        scripted.spec.modern = false;
        let upstream = scripted.start();
        let refused = upstream.connection().await;
        assert!(matches!(refused, Err(UpstreamError::Incompatible { .. })), "{probe}: {refused:?}");
        assert!(scripted.down().await.contains("incompatible server"));
        let asked = ["start", "server/discover", "initialize", "start", "initialize"];
        assert_eq!(scripted.journal(), asked, "{probe}");
        upstream.stop().await;
    }
}

#[tokio::test]
async fn an_answer_that_comes_after_we_went_on_still_explains_the_refusal() {
    let mut scripted = Scripted::new(
        "
late = []
for m in messages():
    if m['method'] == 'server/discover': late.append(m)
    else:
        if late: result(late.pop(), {'supportedVersions': ['2026-07-28']})
        error(m, -32601)",
    );
    scripted.spec.modern = false;
    scripted.spec.patience.probe = Duration::from_millis(100);
    let upstream = scripted.start();
    assert!(matches!(upstream.connection().await, Err(UpstreamError::Incompatible { .. })));
    upstream.stop().await;
}

#[tokio::test]
async fn an_unknown_revision_ends_the_connection() {
    for version in ["2030-01-01", "2026-07-28"] {
        let mut scripted = Scripted::new(&format!(
            "
for m in messages():
    if m['method'] == 'initialize': hello(m, '{version}')
    else: error(m, -32601)"
        ));
        let upstream = scripted.start();
        assert!(matches!(upstream.connection().await, Err(UpstreamError::Incompatible { .. })), "{version}");
        scripted.down().await;
        assert_eq!(scripted.journal(), ["start", "server/discover", "initialize"]);
        upstream.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_the_probe_wedges_is_started_again_without() {
    let mut scripted = Scripted::new(
        "for m in messages():\n    if m['method'] == 'server/discover': signal.pause()\n    else: hello(m); break\nserve()",
    );
    scripted.spec.patience.probe = Duration::from_millis(100);
    scripted.spec.patience.start = Duration::from_secs(2);
    scripted.spec.patience.eof_grace = Duration::from_millis(50);
    let upstream = scripted.start();
    assert!(scripted.down().await.contains("does not answer initialize"));
    let What::Up(connection) = scripted.notice().await else { panic!("it is up now") };
    call(&connection, "tools/list", "pid").await;
    assert_eq!(scripted.memory.recall("acme", "files"), Some(EraFound::DiesWhenProbed));
    upstream.stop().await;
}

#[tokio::test]
async fn memory_that_is_contradicted_is_probed_again() {
    // Remembered as legacy, it is modern only by now.
    let mut scripted = Scripted::new(MODERN);
    scripted.memory.remember("acme", "files", EraFound::Legacy);
    let upstream = scripted.start();
    assert!(scripted.down().await.contains("refused to initialize with code -32601"));
    let What::Up(connection) = scripted.notice().await else { panic!("it is up as what it is") };
    assert_eq!(connection.facts().revision, wire::Revision::R2026_07_28);
    assert_eq!(scripted.journal(), ["start", "initialize", "start", "server/discover"]);
    assert_eq!(scripted.memory.recall("acme", "files"), Some(EraFound::Modern));
    upstream.stop().await;
}

/// A modern server and nothing else. It asks for what it must not, before every answer.
const MODERN: &str = "
DISCOVERED = {'supportedVersions': ['2026-07-28'], 'capabilities': {'tools': {}}, 'instructions': 'be brief', 'resultType': 'complete',
              '_meta': {'io.modelcontextprotocol/serverInfo': {'name': 'new', 'version': '2'}}}
for m in messages():
    if m['method'] == 'server/discover': result(m, DISCOVERED)
    elif m['method'] == 'initialize': error(m, -32601)
    elif m['method'] == 'tools/call':
        send({'jsonrpc': '2.0', 'id': 5, 'method': 'ping'})
        send({'jsonrpc': '2.0', 'id': 6, 'method': 'sampling/createMessage', 'params': {}})
        result(m, {'pid': os.getpid(), 'params': m['params'], 'resultType': 'complete'})";

#[tokio::test]
async fn a_modern_server_is_spoken_to_without_a_handshake_and_its_requests_are_ignored() {
    let mut scripted = Scripted::new(MODERN);
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    let facts = connection.facts();
    assert_eq!(facts.revision, wire::Revision::R2026_07_28);
    assert_eq!(facts.server, r#"{"name": "new", "version": "2"}"#);
    assert_eq!(facts.instructions.as_deref(), Some("be brief"));
    assert!(facts.has("tools"));
    for _ in 0..2 {
        assert_ne!(call(&connection, "tools/call", "pid").await, "");
    }
    assert!(matches!(scripted.notice().await, What::Up(_)));
    upstream.stop().await;
    // Neither a handshake (spec E-17) nor an answer to what it asked (spec P-08).
    assert_eq!(scripted.journal(), ["start", "server/discover", "tools/call", "tools/call"]);
    assert_eq!(upstream.counters().dropped.load(std::sync::atomic::Ordering::Relaxed), 4);
    assert!(matches!(scripted.notice().await, What::Down { .. }), "and nothing reached the gateway");
    assert_eq!(scripted.memory.recall("acme", "files"), Some(EraFound::Modern));
}

#[tokio::test]
async fn a_modern_server_is_modern_however_late_and_however_it_says_so() {
    let cases = [
        ("both eras", "result(m, DISCOVERED | {'supportedVersions': ['2025-11-25', '2026-07-28']})", 1),
        ("after we went on", "late.append(m)", 1),
        (
            "at the second time",
            "result(m, DISCOVERED) if len(late) else late.append(m) or error(m, -32022, {'supported': ['2026-07-28'], 'requested': 'x'})",
            2,
        ),
    ];
    for (what, probe, asked) in cases {
        let script =
            MODERN.replace("\nfor m in", "\nlate = []\nfor m in").replace("result(m, DISCOVERED)", probe);
        let script = script.replace("error(m, -32601)", "result(late[0], DISCOVERED)");
        let mut scripted = Scripted::new(&script);
        if what == "after we went on" {
            scripted.spec.patience.probe = Duration::from_millis(100);
        }
        let upstream = scripted.start();
        let connection = upstream.connection().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(connection.facts().revision, wire::Revision::R2026_07_28, "{what}");
        assert_ne!(call(&connection, "tools/call", "pid").await, "", "{what}");
        let discovers = scripted.journal().iter().filter(|word| *word == "server/discover").count();
        assert_eq!(discovers, asked, "{what}");
        assert_eq!(
            scripted.journal().contains(&"initialize".to_owned()),
            what == "after we went on",
            "{what}"
        );
        upstream.stop().await;
    }
}

#[tokio::test]
async fn a_modern_server_without_a_revision_of_ours_is_left_alone() {
    for probe in [
        "result(m, {'supportedVersions': ['2031-01-01']})",
        "error(m, -32022, {'supported': ['2031-01-01']})",
        "error(m, -32022, {'supported': ['2026-07-28']})",
        "error(m, -32020)",
    ] {
        let scripted = Scripted::new(&MODERN.replace("result(m, DISCOVERED)", probe));
        let upstream = scripted.start();
        assert!(matches!(upstream.connection().await, Err(UpstreamError::Incompatible { .. })), "{probe}");
        assert!(!scripted.journal().contains(&"initialize".to_owned()), "{probe}");
        upstream.stop().await;
    }
}

#[tokio::test]
async fn a_modern_request_is_cancelled_by_its_notification_and_a_modern_server_is_not_pinged() {
    let scripted =
        Scripted::new(&MODERN.replace("m['method'] == 'tools/call'", "m['method'] == 'tools/list'"));
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    let brief = Wait { first: Duration::from_millis(100), most: LONG, progress: false };
    let mut exchange = ask(&connection, "hold", "{}", brief);
    assert_eq!(answer(&mut exchange).await.unwrap_err(), UpstreamError::TimedOut { sent: true });
    // It is asked whether it lives, in its own words; the question is written before this call.
    call(&connection, "tools/list", "pid").await;
    call(&connection, "tools/list", "pid").await;
    let journal = scripted.journal();
    let want = [
        "start",
        "server/discover",
        "hold",
        "notifications/cancelled",
        "server/discover",
        "tools/list",
        "tools/list",
    ];
    let mut seen: Vec<&str> = journal.iter().map(String::as_str).collect();
    seen.sort_unstable();
    let mut sorted = want.to_vec();
    sorted.sort_unstable();
    assert_eq!(seen, sorted);
    assert!(connection.is_open());
    upstream.stop().await;
}

#[tokio::test]
async fn the_facts_are_what_the_server_said() {
    let scripted = Scripted::new("serve()");
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    let facts = connection.facts();
    assert_eq!(facts.revision, wire::Revision::LATEST_LEGACY);
    assert_eq!(facts.instructions.as_deref(), Some("be kind"));
    assert_eq!(facts.server, r#"{"name": "scripted", "version": "1"}"#);
    assert_eq!(facts.capability("tools"), Some(r#"{"listChanged": true}"#));
    assert!(facts.has("tools") && !facts.has("logging") && !facts.has("prompts"));
    upstream.stop().await;
}

#[tokio::test]
async fn the_handshake_says_who_we_are_and_promises_nothing() {
    let scripted = Scripted::new(
        "
seen = {}
for m in messages():
    seen[m['method']] = m.get('params')
    if m['method'] == 'server/discover': error(m, -32601)
    elif m['method'] == 'initialize': hello(m)
    elif 'id' in m: result(m, seen)",
    );
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    let mut exchange = ask(&connection, "tools/list", "{}", CALM);
    let frame = timeout(LONG, answer(&mut exchange)).await.unwrap().unwrap();
    let seen: serde_json::Value = serde_json::from_str(frame.result().unwrap()).unwrap();
    let us = serde_json::json!({"name": "portcullis", "version": env!("CARGO_PKG_VERSION")});
    let meta = serde_json::json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": us,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    assert_eq!(seen["server/discover"], serde_json::json!({"_meta": meta}));
    let hello = serde_json::json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": us});
    assert_eq!(seen["initialize"], hello);
    upstream.stop().await;
}
