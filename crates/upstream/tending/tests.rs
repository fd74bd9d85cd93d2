//! Tests: wishes of a process: told again to the next one, and one request to listen at a time.

use crate::scripted::{CALM, LONG, Scripted, ask};
use crate::{Declared, Seat, UpstreamError, What};
use tokio::time::timeout;

async fn notified(scripted: &mut Scripted) -> String {
    loop {
        if let What::Notification(frame) = scripted.notice().await {
            return format!("{} {}", frame.method_name(), frame.params().unwrap_or_default());
        }
    }
}

#[tokio::test]
async fn a_process_that_is_started_again_is_told_what_the_last_one_knew_before_it_is_used() {
    let scripted = Scripted::new(
        "
def hello(m):
    result(m, {'protocolVersion': '2025-11-25', 'capabilities': {'logging': {}, 'resources': {'subscribe': True}}})
def on(m):
    if m['method'] == 'die': os._exit(9)
    result(m, {})
serve(on)",
    );
    let upstream = scripted.start_for(Seat::Principal("ann".into()), Declared::nothing());
    upstream.connection().await.unwrap();
    upstream.want(Some("error"));
    for uri in ["a:1", "a:2"] {
        timeout(LONG, upstream.subscribe(uri)).await.unwrap().unwrap();
    }
    let connection = upstream.connection().await.unwrap();
    let mut dying = ask(&connection, "die", "{}", CALM);
    assert!(matches!(dying.next().await, crate::Incoming::Failed(UpstreamError::Exited { sent: true, .. })));
    let connection = upstream.connection().await.unwrap();
    crate::scripted::call(&connection, "tools/list", "x").await;
    let journal = scripted.journal();
    let second = journal.iter().rposition(|word| word == "start").unwrap();
    let told = ["logging/setLevel", "resources/subscribe", "resources/subscribe"];
    let want = [&["start", "initialize", "notifications/initialized"][..], &told, &["tools/list"]].concat();
    assert_eq!(journal[second..], want, "spec P-06");
    upstream.stop().await;
}

/// A modern process. A call named `say` writes its parameters as they are.
const MODERN: &str = "
ID = 'io.modelcontextprotocol/subscriptionId'
open, last = [], None
for m in messages():
    method = m.get('method')
    if method == 'server/discover':
        result(m, {'supportedVersions': ['2026-07-28'], 'capabilities': {'tools': {'listChanged': True}, 'resources': {'subscribe': True}}})
    elif method == 'subscriptions/listen':
        wanted = m['params']['notifications']
        # While the next one is set up, something changes.
        for id in open: notify('notifications/resources/updated', uri='before', _meta={ID: id})
        open.append(m['id'])
        notify('notifications/subscriptions/acknowledged', notifications=wanted, _meta={ID: m['id']})
        for id in open: notify('notifications/resources/updated', uri='after', _meta={ID: id})
        notify('notifications/resources/updated', uri='invented', _meta={ID: 77})
    elif method == 'notifications/cancelled':
        open.remove(m['params']['requestId'])
        note('open ' + str(len(open)))
    elif method == 'end':
        for id in open: send({'jsonrpc': '2.0', 'id': id, 'result': {'resultType': 'complete'}})
        open = []
        result(m, {})
";

#[tokio::test]
async fn a_process_is_listened_to_by_one_request_and_a_change_of_it_neither_loses_nor_doubles() {
    let mut scripted = Scripted::new(MODERN);
    let upstream = scripted.start();
    let heard = |uri: &str| format!("notifications/resources/updated {{\"uri\":\"{uri}\"}}");
    assert_eq!(notified(&mut scripted).await, heard("after"));
    timeout(LONG, upstream.subscribe("a:1")).await.unwrap().unwrap();
    assert_eq!(notified(&mut scripted).await, heard("before"));
    assert_eq!(notified(&mut scripted).await, heard("after"));
    timeout(LONG, upstream.subscribe("a:2")).await.unwrap().unwrap();
    assert_eq!(notified(&mut scripted).await, heard("before"), "spec P-09, X-07");
    assert_eq!(notified(&mut scripted).await, heard("after"));
    upstream.stop().await;
    let left: Vec<String> =
        scripted.journal().into_iter().filter(|word| word.starts_with("open") && word != "open 0").collect();
    assert_eq!(left, ["open 1", "open 1"], "one was given up each time");
    assert!(upstream.counters().late.load(std::sync::atomic::Ordering::Relaxed) >= 3, "invented ones");
}

#[tokio::test]
async fn a_listen_that_the_server_ends_is_made_again() {
    let mut scripted = Scripted::new(MODERN);
    let upstream = scripted.start();
    let connection = upstream.connection().await.unwrap();
    notified(&mut scripted).await;
    crate::scripted::call(&connection, "end", "x").await;
    let mut said = Vec::new();
    while said.len() < 2 {
        said.push(notified(&mut scripted).await);
    }
    said.sort();
    assert!(said[1].starts_with("notifications/tools/list_changed"), "{said:?}");
    upstream.stop().await;
    let listens = scripted.journal().into_iter().filter(|word| word == "subscriptions/listen").count();
    assert_eq!(listens, 2);
}
