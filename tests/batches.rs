//! Several messages in one body: only in sessions of 2025-03-26, and each on its own from there (spec B-07, B-08).

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Script, Setup, Step, until};

use crate::settled;

fn daemon() -> Daemon {
    let waits = [
        Step::progress("1"),
        Step::gate("go"),
        Step::result(r#"{"content":[{"type":"text","text":"late"}]}"#),
    ];
    settled(&Setup::one("alpha", Script::tools(&["act", "wait"]).on_call("wait", &waits)), &["alpha"])
}

fn session(daemon: &Daemon, revision: &str) -> Client {
    let mut client = daemon.stranger();
    assert_eq!(client.initialize(revision).status, 200);
    client
}

fn ping(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

fn call(id: &str, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"alpha__{tool}","_meta":{{"progressToken":{id}}}}}}}"#
    )
}

fn batch(messages: &[String]) -> String {
    format!("[{}]", messages.join(","))
}

/// The answers of an array, by id.
fn array(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    answer.json().as_array().unwrap().clone()
}

#[test]
fn each_message_of_a_batch_is_answered_decided_and_recorded_alone() {
    let daemon = daemon();
    let client = session(&daemon, "2025-03-26");
    let hidden = call("3", "none");
    let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#.to_owned();
    let broken = r#"{"jsonrpc":"2.0","id":5,"method":7}"#.to_owned();
    let answers = array(&client.say(&batch(&[
        ping("1"),
        call("\"2\"", "act"),
        hidden,
        note,
        broken,
        ping("1"),
        call("6", "act"),
    ])));
    let of = |id: Value| -> Vec<&Value> { answers.iter().filter(|answer| answer["id"] == id).collect() };
    assert_eq!(answers.len(), 6, "a notification is not answered: {answers:?}");
    assert!(of(json!(1)).iter().all(|answer| answer["result"] == json!({})));
    assert_eq!(of(json!("2"))[0]["result"]["content"][0]["text"], "act");
    assert_eq!(of(json!(3))[0]["error"]["code"], -32602);
    assert_eq!(of(json!(5))[0]["error"]["code"], -32600);
    assert_eq!(of(json!(6))[0]["result"]["content"][0]["text"], "act");

    // Upstream two single messages, in the record seven entries.
    let calls = daemon.journal("alpha").raw("tools/call");
    assert!(calls.len() == 2 && calls.iter().all(|line| line.starts_with('{')), "{calls:?}");
    let entries = until("the entries", || {
        let of_the_batch = |line: &Value| {
            let handshake = ["initialize", "notifications/initialized"].map(Value::from);
            line["line"] != "intent" && !handshake.contains(&line["method"])
        };
        let ended: Vec<_> = daemon.audit().into_iter().filter(of_the_batch).collect();
        (ended.len() >= 7).then_some(ended)
    });
    assert_eq!(entries.len(), 7, "{entries:?}");
    assert_eq!(entries.iter().filter(|line| line["tool"] == "alpha__act").count(), 2);
}

#[test]
fn two_requests_of_one_id_are_two_messages_and_the_second_is_refused() {
    let daemon = daemon();
    let client = session(&daemon, "2025-03-26");
    let answers = array(&client.say(&batch(&[call("1", "act"), call("1", "act")])));
    let failed: Vec<_> = answers.iter().filter_map(|answer| answer["error"]["code"].as_i64()).collect();
    assert_eq!((answers.len(), failed), (2, vec![-32600]));
}

#[test]
fn a_batch_without_requests_is_accepted() {
    let daemon = daemon();
    let client = session(&daemon, "2025-03-26");
    let answer = client
        .say(r#"[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"no","result":{}}]"#);
    assert_eq!((answer.status, answer.body.len()), (202, 0));
}

#[test]
fn what_is_no_batch_of_that_revision_is_refused_whole() {
    let daemon = daemon();
    let client = session(&daemon, "2025-03-26");
    let hello = r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#
        .to_owned();
    let many = |count: usize| batch(&(0..count).map(|id| ping(&id.to_string())).collect::<Vec<_>>());
    for body in ["[]".to_owned(), batch(&[call("1", "act"), hello]), many(65)] {
        assert_eq!(client.say(&body).verdict(), (400, Some(-32600)), "{body:.60}");
    }
    assert_eq!(client.say("[1,]").verdict(), (400, Some(-32700)));
    assert_eq!(array(&client.say(&many(64))).len(), 64);
    assert_eq!(daemon.journal("alpha").received("tools/call"), [json!(null); 0]);

    // Everywhere else arrays are no messages, whatever the header says.
    let pings = batch(&[ping("1"), ping("2")]);
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let client = session(&daemon, revision);
        assert_eq!(client.say(&pings).verdict(), (400, Some(-32600)), "{revision}");
        let named = client.send(&client.post(pings.as_str()).with("mcp-protocol-version", "2025-03-26"));
        assert_eq!(named.verdict(), (400, Some(-32600)), "{revision}");
    }
    assert_eq!(daemon.stranger().say(&pings).verdict(), (400, Some(-32600)));
    let modern = client.send(&client.post(pings.as_str()).with("mcp-protocol-version", "2026-07-28"));
    assert_eq!(modern.verdict(), (400, Some(-32600)));
}

#[test]
fn a_slow_batch_is_a_stream_of_single_messages() {
    let daemon = daemon();
    let client = session(&daemon, "2025-03-26");
    let body = batch(&[ping("1"), call("2", "wait"), call("3", "act")]);
    let mut stream = client.begin(&client.post(body)).stream();
    let first = stream.next_message().unwrap();
    assert_eq!(
        (&first["method"], &first["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!(2))
    );
    daemon.journal("alpha").open("go");
    let mut answers: Vec<_> = stream.all();
    answers.sort_by_key(|answer| answer["id"].as_u64());
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!(1), json!(2), json!(3)], "{answers:?}");
    assert_eq!(answers[1]["result"]["content"][0]["text"], "late");
}

#[test]
fn a_batch_ends_with_its_session_and_a_cancellation_ends_one_message() {
    let daemon = daemon();
    let client = session(&daemon, "2025-03-26");
    let journal = daemon.journal("alpha");
    let cancelled = |count| {
        until("the cancellation", || {
            (journal.received("notifications/cancelled").len() == count).then_some(())
        });
    };
    let body = batch(&[call("1", "wait"), call("2", "act")]);
    let stream = client.begin(&client.post(body.as_str())).stream();
    until("the call", || (!journal.received("tools/call").is_empty()).then_some(()));
    assert_eq!(client.notify("notifications/cancelled", r#"{"requestId":1}"#).status, 202);
    cancelled(1);
    let answers: Vec<_> = stream.all().into_iter().filter(|message| message.get("id").is_some()).collect();
    assert_eq!((answers.len(), &answers[0]["id"]), (1, &json!(2)));

    let stream = client.begin(&client.post(body)).stream();
    until("the calls", || (journal.received("tools/call").len() == 4).then_some(()));
    assert_eq!(client.delete().status, 204);
    cancelled(2);
    drop(stream);
}

#[test]
fn the_answers_of_a_batch_have_together_the_room_of_one_result() {
    let script = Script::tools(&["big", "wait"])
        .on_call("big", &[Step::big(300_000)])
        .on_call("wait", &[Step::gate("go"), Step::result(r#"{"content":[]}"#)]);
    let daemon = settled(&Setup::one("alpha", script).process("limits: { result: 1MiB }"), &["alpha"]);
    let client = session(&daemon, "2025-03-26");
    let bigs = ["1", "2", "3", "4", "5"].map(|id| call(id, "big"));
    let answers = array(&client.say(&batch(&[&bigs[..], &[ping("6")]].concat())));
    let ids: Vec<_> = answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6], "in the order of the questions");
    let refused: Vec<_> = answers.iter().filter(|answer| answer["result"]["isError"] == true).collect();
    assert_eq!(refused.len(), 2, "{:?}", refused.first());
    assert!(refused.iter().all(|answer| answer.to_string().contains("batch_too_large")), "{refused:?}");
    let ended = daemon.entry("the refused", |line| line["reason"] == "batch_too_large");
    assert!(ended.iter().any(|line| line["outcome"] == "error"), "{ended:?}");
    // Alone each has its room.
    assert!(client.say(&bigs[0]).messages().last().unwrap()["result"].get("isError").is_none());
}

#[test]
fn answers_of_a_slow_batch_come_as_they_are_ready() {
    let daemon = daemon();
    let client = session(&daemon, "2025-03-26");
    let body = batch(&[call("1", "wait"), ping("2"), ping("3"), call("4", "act")]);
    let mut stream = client.begin(&client.post(body)).stream();
    // Progress began the stream; two of three answers that are ready come before the slow one.
    assert_eq!(stream.next_message().unwrap()["method"], "notifications/progress");
    daemon.journal("alpha").open("go");
    let answers = stream.all();
    assert_eq!(answers.len(), 4, "{answers:?}");
    assert_eq!(answers.last().unwrap()["id"], 1, "{answers:?}");
}
