//! Tests: the one open request to listen of a modern server over HTTP (spec X-07, U-28).

use crate::fake::{Asked, Fake, Pen, Reply, empty, event, message, ready, stream};
use crate::scripted::LONG;
use crate::{Declared, Seat, UpstreamError, What};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

/// A modern server that announces changes of its tools, and of its resources to those who follow them.
async fn modern() -> (Fake, mpsc::UnboundedReceiver<Listen>) {
    let (pens, opened) = mpsc::unbounded_channel();
    let fake = Fake::new(move |asked: Asked| -> BoxFuture<'static, Reply> {
        match asked.method() {
            "server/discover" => {
                let mut discovered = super::modern::discovered();
                discovered["capabilities"] =
                    json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}});
                ready(message(200, &asked.result(discovered)))
            }
            "subscriptions/listen" => {
                let (pen, reply) = stream();
                pens.send(Listen { asked, pen }).unwrap();
                ready(reply)
            }
            _ => ready(empty(405)),
        }
    })
    .await;
    (fake, opened)
}

struct Listen {
    asked: Asked,
    pen: Pen,
}

impl Listen {
    fn wanted(&self) -> &Value {
        &self.asked.body["params"]["notifications"]
    }

    fn say(&self, method: &str, mut params: Value) {
        params["_meta"] = json!({ID: self.asked.body["id"], "kept": 1});
        let said = json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params});
        self.pen.send(event(&said).into()).unwrap();
    }

    fn acknowledge(&self, wanted: Value) {
        self.say("subscriptions/acknowledged", json!({"notifications": wanted}));
    }

    fn updated(&self, uri: &str) {
        self.say("resources/updated", json!({"uri": uri}));
    }
}

async fn next(opened: &mut mpsc::UnboundedReceiver<Listen>) -> Listen {
    timeout(LONG, opened.recv()).await.unwrap().unwrap()
}

/// The next notification: its method and parameters.
async fn notified(fake: &mut Fake) -> (String, String) {
    loop {
        if let What::Notification(frame) = fake.notice().await {
            return (frame.method_name().to_owned(), frame.params().unwrap_or_default().to_owned());
        }
    }
}

#[tokio::test]
async fn the_shared_seat_listens_for_lists_and_nobody_hears_by_which_request() {
    let (mut fake, mut opened) = modern().await;
    let upstream = fake.start();
    let listen = next(&mut opened).await;
    assert_eq!(*listen.wanted(), json!({"toolsListChanged": true}));
    assert_eq!(listen.asked.header("mcp-method"), "subscriptions/listen");
    listen.acknowledge(listen.wanted().clone());
    listen.say("tools/list_changed", json!({}));
    let said = notified(&mut fake).await;
    assert_eq!(said, ("notifications/tools/list_changed".to_owned(), r#"{"_meta":{"kept":1}}"#.to_owned()));
    upstream.stop().await;
    timeout(LONG, listen.pen.closed()).await.unwrap();
}

#[tokio::test]
async fn a_seat_of_one_listens_to_nothing_until_it_follows_something() {
    let (fake, mut opened) = modern().await;
    let upstream = fake.start_for(Seat::Principal("ann".into()), Declared::nothing());
    upstream.connection().await.unwrap();
    let (subscribed, listen) = tokio::join!(upstream.subscribe("a:1"), async {
        let listen = next(&mut opened).await;
        listen.acknowledge(json!({"resourceSubscriptions": ["a:1"]}));
        listen
    });
    assert_eq!(subscribed, Ok(()));
    assert_eq!(*listen.wanted(), json!({"resourceSubscriptions": ["a:1"]}));
    timeout(LONG, upstream.unsubscribe("a:1")).await.unwrap().unwrap();
    timeout(LONG, listen.pen.closed()).await.unwrap();
    upstream.stop().await;
    assert_eq!(fake.count("POST", "subscriptions/listen"), 1);
}

#[tokio::test]
async fn a_listen_is_replaced_only_when_the_next_is_taken_and_no_update_comes_twice() {
    let (mut fake, mut opened) = modern().await;
    let upstream = fake.start_for(Seat::Principal("ann".into()), Declared::nothing());
    let (subscribed, first) = tokio::join!(upstream.subscribe("a:1"), async {
        let first = next(&mut opened).await;
        first.acknowledge(json!({"resourceSubscriptions": ["a:1"]}));
        first
    });
    assert_eq!(subscribed, Ok(()));
    let racing = async {
        let second = next(&mut opened).await;
        assert_eq!(*second.wanted(), json!({"resourceSubscriptions": ["a:1", "a:2"]}));
        // The first still counts.
        first.updated("a:1");
        let (method, params) = notified(&mut fake).await;
        assert!(method == "notifications/resources/updated" && !params.contains(ID), "{params}");
        second.acknowledge(json!({"resourceSubscriptions": ["a:1", "a:2"]}));
        timeout(LONG, first.pen.closed()).await.unwrap();
        second.updated("a:2");
        let (_, params) = notified(&mut fake).await;
        assert!(params.contains("a:2"), "exactly one of each: {params}");
        second
    };
    let (subscribed, _second) = tokio::join!(upstream.subscribe("a:2"), racing);
    assert_eq!(subscribed, Ok(()));
    upstream.stop().await;
}

#[tokio::test]
async fn what_is_not_acknowledged_is_not_followed_and_costs_the_others_nothing() {
    let (fake, mut opened) = modern().await;
    let upstream = fake.start();
    let first = next(&mut opened).await;
    first.acknowledge(first.wanted().clone());
    let unheard = Err(UpstreamError::incompatible("it does not say when that changes"));
    let (subscribed, second) = tokio::join!(upstream.subscribe("a:no"), async {
        let second = next(&mut opened).await;
        second.acknowledge(json!({"toolsListChanged": true}));
        second
    });
    assert_eq!(subscribed, unheard);
    // Refused as a whole: what is open stays open.
    let (subscribed, _) = tokio::join!(upstream.subscribe("a:bad"), async {
        let third = next(&mut opened).await;
        third.pen.send(event(&third.asked.error(-32602, Value::Null)).into()).unwrap();
    });
    assert_eq!(subscribed, Err(UpstreamError::garbled("it refused with code -32602")));
    assert!(!second.pen.is_closed());
    upstream.stop().await;
}

#[tokio::test]
async fn a_listen_that_breaks_is_made_again_after_a_pause_and_something_may_have_changed() {
    let (mut fake, mut opened) = modern().await;
    let upstream = fake.start();
    let first = next(&mut opened).await;
    first.acknowledge(first.wanted().clone());
    first.say("tools/list_changed", json!({}));
    notified(&mut fake).await;
    let broke = Instant::now();
    drop(first);
    let second = next(&mut opened).await;
    assert!(broke.elapsed() >= Duration::from_millis(790), "{:?}", broke.elapsed());
    second.acknowledge(second.wanted().clone());
    assert_eq!(notified(&mut fake).await.0, "notifications/tools/list_changed");
    assert_eq!(fake.count("POST", "server/discover"), 1, "no doubt about the server (spec U-28)");
    upstream.stop().await;
}
