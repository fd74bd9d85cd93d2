//! Tests: a server asks back, on the stream of the request that made it ask (spec Q-01, Q-03, Q-04).

use crate::fake::{Asked, Fake, Pen, Reply, empty, event, hello, legacy, message, ready, stream};
use crate::scripted::{CALM, LONG, answer, ask, meanwhile};
use crate::{Declared, Incoming, Seat, What};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::timeout;

fn question(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": id}})
}

/// A legacy server whose streams, of calls and beside them, are written by the test.
async fn asking() -> (Fake, mpsc::UnboundedReceiver<(Asked, Pen)>) {
    let (pens, opened) = mpsc::unbounded_channel();
    let others = legacy(|asked: Asked| async move { message(200, &asked.result(json!({}))) });
    let fake = Fake::new(move |asked: Asked| -> BoxFuture<'static, Reply> {
        match (asked.verb.as_str(), asked.method()) {
            ("GET", _) | (_, "tools/call") => {
                let (pen, reply) = stream();
                pens.send((asked, pen)).unwrap();
                ready(reply)
            }
            ("POST", "initialize") => ready(message(200, &asked.result(hello("2025-11-25")))),
            ("POST", "") => ready(empty(202)),
            _ => others(asked),
        }
    })
    .await;
    (fake, opened)
}

fn ann() -> Seat {
    Seat::Principal("ann".into())
}

#[tokio::test]
async fn what_the_client_can_do_is_declared_and_nothing_else() {
    for (seat, want) in [(ann(), json!({"elicitation": {"form": {}}})), (Seat::Shared, json!({}))] {
        let (fake, _opened) = asking().await;
        let declared = Declared::of(r#"{"elicitation":{"form":{"x":1}},"experimental":{}}"#);
        let upstream = fake.start_for(seat, declared);
        upstream.connection().await.unwrap();
        let asked = fake.until("POST", "initialize", 1).await;
        assert_eq!(asked.body["params"]["capabilities"], want);
        upstream.stop().await;
    }
}

#[tokio::test]
async fn each_question_belongs_to_the_request_whose_stream_it_came_by() {
    let (fake, mut opened) = asking().await;
    let upstream = fake.start_for(ann(), Declared::of(r#"{"elicitation":{}}"#));
    let connection = upstream.connection().await.unwrap();
    let (_, _beside) = timeout(LONG, opened.recv()).await.unwrap().unwrap();
    let mut exchanges = Vec::new();
    for name in ["first", "second"] {
        let mut exchange = ask(&connection, "tools/call", "{}", CALM);
        let (asked, pen) = meanwhile(&mut exchange, opened.recv()).await.unwrap();
        exchanges.push((name, exchange, asked, pen));
    }
    for (name, _, _, pen) in exchanges.iter().rev() {
        pen.send(event(&question(name)).into()).unwrap();
    }
    for (times, (name, exchange, asked, pen)) in exchanges.iter_mut().enumerate() {
        let Incoming::Question(frame) = exchange.next().await else { panic!() };
        assert_eq!(frame.param_text("message").as_deref(), Some(*name));
        exchange.reply(wire::code::success(frame.id().unwrap(), r#"{"action":"decline"}"#));
        let reply = meanwhile(exchange, fake.until("POST", "", times + 1)).await;
        assert_eq!(reply.body, json!({"jsonrpc": "2.0", "id": name, "result": {"action": "decline"}}));
        pen.send(event(&asked.result(json!({"ok": 1}))).into()).unwrap();
        assert_eq!(answer(exchange).await.unwrap().result_member("ok"), Some("1"));
    }
    upstream.stop().await;
}

#[tokio::test]
async fn a_question_beside_all_requests_belongs_to_the_only_one() {
    let (fake, mut opened) = asking().await;
    let upstream = fake.start_for(ann(), Declared::of(r#"{"elicitation":{}}"#));
    let connection = upstream.connection().await.unwrap();
    let (_, beside) = timeout(LONG, opened.recv()).await.unwrap().unwrap();
    let mut exchange = ask(&connection, "tools/call", "{}", CALM);
    let _pen = meanwhile(&mut exchange, opened.recv()).await.unwrap();
    let note =
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
    beside.send(event(&note).into()).unwrap();
    beside.send(event(&question("beside")).into()).unwrap();
    let Incoming::Question(frame) = exchange.next().await else { panic!("only questions need a cause") };
    assert_eq!(frame.param_text("message").as_deref(), Some("beside"));
    drop((exchange, connection));
    upstream.stop().await;
}

#[tokio::test]
async fn a_question_beside_several_requests_or_on_a_shared_seat_belongs_to_none() {
    for seat in [ann(), Seat::Shared] {
        let (mut fake, mut opened) = asking().await;
        let upstream = fake.start_for(seat.clone(), Declared::of(r#"{"elicitation":{}}"#));
        let connection = upstream.connection().await.unwrap();
        let (_, beside) = timeout(LONG, opened.recv()).await.unwrap().unwrap();
        let mut exchange = ask(&connection, "tools/call", "{}", CALM);
        let (_, pen) = meanwhile(&mut exchange, opened.recv()).await.unwrap();
        let _other = (seat != Seat::Shared).then(|| ask(&connection, "tools/call", "{}", CALM));
        let wrong = if seat == Seat::Shared { &pen } else { &beside };
        wrong.send(event(&question("lost")).into()).unwrap();
        let notice = async {
            loop {
                if let What::Request(_, frame) = fake.notice().await {
                    return frame;
                }
            }
        };
        let frame = meanwhile(&mut exchange, notice).await;
        assert_eq!(frame.id().map(wire::Id::raw), Some("\"lost\""));
        drop((exchange, Arc::clone(&connection)));
        upstream.stop().await;
    }
}
