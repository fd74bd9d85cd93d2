//! Tests: the probe matrix over HTTP (spec E-14 to E-17, S-07).

use super::modern::discovered;
use crate::fake::{
    Asked, Fake, Reply, Turn, empty, event, events, fine, hello, legacy, message, ready, text,
};
use crate::scripted::{CALM, answer, ask, call};
use crate::{EraFound, EraMemory, UpstreamError, What};
use futures_util::future::BoxFuture;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::Revision;

type On = fn(Asked) -> Reply;

/// How a server takes `server/discover`, and what it is taken for.
const PROBES: [(&str, On, Option<EraFound>); 19] = [
    ("modern", |asked| message(200, &asked.result(discovered())), Some(EraFound::Modern)),
    ("modern by a stream", |asked| events(event(&asked.result(discovered()))), Some(EraFound::Modern)),
    ("plain 400", |_| text(400, "Bad Request"), Some(EraFound::Legacy)),
    ("404", |_| text(404, "<html>"), Some(EraFound::Legacy)),
    ("405", |_| empty(405), Some(EraFound::Legacy)),
    ("406", |_| text(406, ""), Some(EraFound::Legacy)),
    (
        "400 and a legacy error",
        |asked| message(400, &asked.error(-32600, json!(null))),
        Some(EraFound::Legacy),
    ),
    ("200 and -32601", |asked| message(200, &asked.error(-32601, json!(null))), Some(EraFound::Legacy)),
    ("404 and -32601", |asked| message(404, &asked.error(-32601, json!(null))), Some(EraFound::Legacy)),
    ("junk", |asked| message(200, &asked.result(json!({"x": 1}))), Some(EraFound::Legacy)),
    ("a page", |_| text(200, "<html>"), Some(EraFound::Legacy)),
    ("accepted", |_| empty(202), Some(EraFound::Legacy)),
    ("an empty stream", |_| events(""), Some(EraFound::Legacy)),
    (
        "-32022 that offers a legacy revision",
        |asked| message(400, &asked.error(-32022, json!({"supported": ["2025-06-18"]}))),
        Some(EraFound::Modern),
    ),
    (
        "modern words, legacy revisions",
        |asked| message(200, &asked.result(json!({"supportedVersions": ["2025-06-18"]}))),
        Some(EraFound::Modern),
    ),
    ("401", |_| text(401, ""), None),
    ("429", |_| text(429, ""), None),
    ("503", |_| text(503, ""), None),
    ("redirect", |_| empty(302), None),
];

#[tokio::test]
async fn a_server_is_taken_for_what_it_proves_to_be() {
    for (what, probe, found) in PROBES {
        let rest = legacy(fine);
        let mut fake = Fake::new(move |asked: Asked| match asked.method() {
            "server/discover" => ready(probe(asked)),
            _ => rest(asked),
        })
        .await;
        let upstream = fake.start();
        match found {
            Some(_) => {
                let connection =
                    upstream.connection().await.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(call(&connection, "tools/list", "ok").await, "1", "{what}");
            }
            None => drop(fake.down().await),
        }
        let shaken = fake.count("POST", "initialize") > 0;
        let handshake = found.is_some() && !what.starts_with("modern") || what.contains("legacy revision");
        assert_eq!(shaken, handshake, "{what}");
        assert_eq!(fake.memory.recall("acme", "web"), found, "{what}");
        // Nothing modern after the probe (spec E-17).
        if handshake {
            let is_modern = |asked: &Asked| {
                asked.body.to_string().contains("io.modelcontextprotocol/")
                    || !asked.header("mcp-method").is_empty()
            };
            assert_eq!(fake.journal().iter().filter(|asked| is_modern(asked)).count(), 1, "{what}");
        }
        upstream.stop().await;
    }
}

#[tokio::test]
async fn what_proves_nothing_is_asked_again_and_not_remembered() {
    let turn = Turn::default();
    let rest = legacy(fine);
    let mut fake = Fake::new(move |asked: Asked| match (asked.method(), turn.next()) {
        ("server/discover", 1) => ready(text(503, "")),
        ("server/discover", 2) => ready(text(500, "")),
        ("server/discover", _) => ready(message(200, &asked.result(discovered()))),
        _ => rest(asked),
    })
    .await;
    let upstream = fake.start();
    assert_eq!(fake.down().await, "it answered with HTTP status 503");
    assert_eq!(fake.memory.recall("acme", "web"), None);
    assert_eq!(fake.down().await, "it answered with HTTP status 500");
    let What::Up(connection) = fake.notice().await else { panic!() };
    assert_eq!(connection.facts().revision, Revision::R2026_07_28);
    assert_eq!(fake.count("POST", "initialize"), 0);
    upstream.stop().await;
}

#[tokio::test]
async fn a_modern_server_without_a_revision_of_ours_is_incompatible() {
    for probe in [
        (|asked| message(200, &asked.result(json!({"supportedVersions": ["2031-01-01"]})))) as On,
        |asked| message(400, &asked.error(-32022, json!({"supported": ["2031-01-01"]}))),
        |asked| message(400, &asked.error(-32022, json!({"supported": ["2026-07-28"]}))),
        |asked| message(400, &asked.error(-32020, json!(null))),
    ] {
        let mut fake = Fake::new(move |asked: Asked| ready(probe(asked))).await;
        let upstream = fake.start();
        assert!(fake.down().await.starts_with("incompatible server"));
        assert_eq!(fake.count("POST", "initialize") + fake.count("GET", ""), 0);
        upstream.stop().await;
    }
}

#[tokio::test]
async fn a_remembered_legacy_server_is_not_probed_and_one_that_changed_is() {
    let rest = legacy(fine);
    let fake = Fake::new(rest).await;
    fake.memory.remember("acme", "web", EraFound::Legacy);
    let upstream = fake.start();
    call(&upstream.connection().await.unwrap(), "tools/list", "ok").await;
    assert_eq!(fake.count("POST", "server/discover"), 0);
    upstream.stop().await;

    let mut fake = Fake::new(|asked: Asked| match asked.method() {
        "server/discover" => ready(message(200, &asked.result(discovered()))),
        _ => ready(message(404, &asked.error(-32601, json!(null)))),
    })
    .await;
    fake.memory.remember("acme", "web", EraFound::Legacy);
    let upstream = fake.start();
    assert!(fake.down().await.contains("refused to initialize with code -32601"));
    let What::Up(connection) = fake.notice().await else { panic!() };
    assert_eq!(connection.facts().revision, Revision::R2026_07_28);
    assert_eq!(fake.words(), ["POST initialize", "POST server/discover"]);
    upstream.stop().await;
}

#[tokio::test]
async fn where_the_modern_era_is_not_for_us_a_server_of_both_is_shaken_hands_with() {
    let rest = legacy(fine);
    let mut fake = Fake::new(move |asked: Asked| match asked.method() {
        "server/discover" => ready(message(200, &asked.result(discovered()))),
        _ => rest(asked),
    })
    .await;
    fake.spec.modern = false;
    let upstream = fake.start();
    assert_eq!(upstream.connection().await.unwrap().facts().revision, Revision::R2025_11_25);
    upstream.stop().await;
}

#[tokio::test]
async fn the_revision_decides_which_headers_follow() {
    for (revision, header) in [("2025-03-26", ""), ("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25")]
    {
        let rest = legacy(fine);
        let fake = Fake::new(move |asked: Asked| match asked.method() {
            "initialize" => ready(message(200, &asked.result(hello(revision)))),
            _ => rest(asked),
        })
        .await;
        let upstream = fake.start();
        call(&upstream.connection().await.unwrap(), "tools/list", "ok").await;
        assert_eq!(fake.until("POST", "tools/list", 1).await.header("mcp-protocol-version"), header);
        assert_eq!(fake.until("GET", "", 1).await.header("mcp-protocol-version"), header);
        upstream.stop().await;
    }
    for revision in ["2030-01-01", "2026-07-28"] {
        let rest = legacy(fine);
        let mut fake = Fake::new(move |asked: Asked| match asked.method() {
            "initialize" => ready(message(200, &asked.result(hello(revision)))),
            _ => rest(asked),
        })
        .await;
        let upstream = fake.start();
        assert!(fake.down().await.contains("insists on a revision"), "{revision}");
        assert_eq!(fake.count("POST", "notifications/initialized"), 0);
        upstream.stop().await;
    }
}

#[tokio::test]
async fn a_server_that_became_modern_is_asked_anew_and_nothing_runs_twice() {
    let upgraded = Arc::<AtomicBool>::default();
    let (is_new, old) = (Arc::clone(&upgraded), legacy(fine));
    let mut fake = Fake::new(move |asked: Asked| -> BoxFuture<'static, Reply> {
        let modern = asked.header("mcp-protocol-version") == "2026-07-28";
        match (is_new.load(Ordering::Relaxed), asked.method()) {
            (true, "server/discover") => ready(message(200, &asked.result(discovered()))),
            (true, _) if !modern => {
                ready(message(400, &asked.error(-32022, json!({"supported": ["2026-07-28"]}))))
            }
            (true, _) => Box::pin(fine(asked)),
            (false, _) => old(asked),
        }
    })
    .await;
    let upstream = fake.start();
    let connection = upstream.connection().await.unwrap();
    assert_eq!(call(&connection, "tools/call", "ok").await, "1");
    upgraded.store(true, Ordering::Relaxed);
    let error = answer(&mut ask(&connection, "tools/call", "{}", CALM)).await.unwrap_err();
    assert_eq!(error, UpstreamError::not_running("it speaks another era by now"));
    assert_eq!(fake.down().await, "it forgot what was agreed on");
    let connection = upstream.connection().await.unwrap();
    assert_eq!(connection.facts().revision, Revision::R2026_07_28);
    assert_eq!(fake.memory.recall("acme", "web"), Some(EraFound::Modern));
    assert_eq!((fake.count("POST", "tools/call"), fake.count("POST", "initialize")), (2, 1), "spec E-16");
    upstream.stop().await;
}
