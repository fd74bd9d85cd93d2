//! Event streams that a client loses and comes back to (spec H-19 to H-23, H-26, X-22).

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Script, Setup, Step, Stream, until};

use crate::{settled, token};

/// `slow` reports progress, waits at gate `go`, reports again and answers; `other` does so too, at a gate of its own.
fn slow_script() -> Script {
    let steps = |gate: &str, text: &str| {
        [
            Step::progress("1"),
            Step::gate(gate),
            Step::progress("2"),
            Step::result(&format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#)),
        ]
    };
    Script::tools(&["slow", "other", "act"])
        .on_call("slow", &steps("go", "late"))
        .on_call("other", &steps("also", "later"))
}

fn slow() -> Daemon {
    settled(&Setup::one("alpha", slow_script()), &["alpha"])
}

fn client(daemon: &Daemon, revision: &str) -> Client {
    let mut client = daemon.stranger();
    assert_eq!(client.initialize(revision).status, 200);
    client
}

/// Calls a tool and reads its first progress.
fn begun(client: &Client, tool: &str) -> Stream {
    let params = format!(r#"{{"name":"alpha__{tool}","_meta":{{"progressToken":"{tool}"}}}}"#);
    let mut stream = client.start("tools/call", &params).stream();
    assert_eq!(progress(&stream.next_message().unwrap()), json!([tool, 1]));
    stream
}

fn progress(message: &Value) -> Value {
    json!([message["params"]["progressToken"], message["params"]["progress"]])
}

/// The ids of all events that were read.
fn ids(stream: &Stream) -> Vec<String> {
    let text = String::from_utf8(stream.raw.clone()).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned).collect()
}

fn last_id(stream: &Stream) -> String {
    ids(stream).pop().unwrap()
}

/// Comes back for what followed an event.
fn resume(client: &Client, event: &str) -> Stream {
    let stream = client.begin(&client.bare("GET").with("last-event-id", event)).stream();
    assert_eq!(stream.head.status, 200);
    assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
    stream
}

fn refused(client: &Client, event: &str) -> Answer {
    client.send(&client.bare("GET").with("last-event-id", event))
}

#[test]
fn a_client_that_lost_its_connection_gets_the_rest_of_that_call_and_of_no_other() {
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let daemon = slow();
        let client = client(&daemon, revision);
        let lost = begun(&client, "slow");
        let _other = begun(&client, "other");
        let event = last_id(&lost);
        drop(lost);
        daemon.journal("alpha").open("also");
        daemon.journal("alpha").open("go");
        // At first what was missed, then as it comes; all of it again for a client that asks again.
        for _ in 0..2 {
            let all = resume(&client, &event).all();
            assert_eq!(progress(&all[0]), json!(["slow", 2]));
            assert_eq!(all[1]["result"]["content"][0]["text"], "late");
            assert_eq!(all.len(), 2);
        }
        assert_eq!(daemon.journal("alpha").received("tools/call").len(), 2, "nothing was called again");
        assert!(daemon.journal("alpha").received("notifications/cancelled").is_empty());
    }
}

#[test]
fn a_resumed_stream_goes_on_live_and_can_be_lost_again() {
    let daemon = slow();
    let client = daemon.client();
    let lost = begun(&client, "slow");
    let again = resume(&client, &ids(&lost)[0]);
    drop(lost);
    let mut again = again;
    assert_eq!(progress(&again.next_message().unwrap()), json!(["slow", 1]), "from the first id");
    let event = last_id(&again);
    drop(again);
    let third = resume(&client, &event);
    daemon.journal("alpha").open("go");
    let all = third.all();
    assert_eq!(
        (progress(&all[0]), &all[1]["result"]["content"][0]["text"]),
        (json!(["slow", 2]), &json!("late"))
    );
}

#[test]
fn who_comes_back_takes_the_stream_over() {
    let daemon = slow();
    let client = daemon.client();
    let first = begun(&client, "slow");
    let second = resume(&client, &last_id(&first));
    assert_eq!(first.all(), [json!(null); 0], "each message goes to one stream");
    daemon.journal("alpha").open("go");
    assert_eq!(second.all().len(), 2);
}

#[test]
fn only_the_latest_legacy_clients_get_a_priming_event() {
    let daemon = slow();
    for (revision, has_ids, is_primed) in [
        ("2024-11-05", false, false),
        ("2025-03-26", true, false),
        ("2025-06-18", true, false),
        ("2025-11-25", true, true),
    ] {
        let client = client(&daemon, revision);
        let mut streams = [begun(&client, "slow"), client.listen()];
        if is_primed {
            streams[1].reads(b"data: \n\n");
        }
        for stream in &streams[..if is_primed { 2 } else { 1 }] {
            let text = String::from_utf8(stream.raw.clone()).unwrap();
            let mut lines = text.lines();
            assert_eq!(lines.next().unwrap().starts_with("id: "), has_ids, "{revision} {text}");
            if is_primed {
                assert_eq!([lines.next(), lines.next()], [Some("retry: 1000"), Some("data: ")], "{text}");
            }
            assert_eq!(text.contains("retry"), is_primed, "{revision} {text}");
        }
    }
}

#[test]
fn an_id_that_is_not_of_this_session_or_not_kept_is_400() {
    let daemon = slow();
    let (ada, bob) = (daemon.client(), daemon.client());
    let stream = begun(&ada, "slow");
    let _bobs = begun(&bob, "slow");
    let event = last_id(&stream);
    for (client, event) in [(&bob, &*event), (&ada, "1-0"), (&ada, "x"), (&ada, &format!("{event}0"))] {
        let answer = refused(client, event);
        assert_eq!(
            (answer.status, answer.json()["error"]["data"]["reason"].as_str()),
            (400, Some("unknown_event"))
        );
    }
    // The session comes first: whoever cannot name it learns nothing of its events.
    let mut stranger = daemon.stranger();
    assert_eq!(refused(&stranger, &event).status, 400);
    stranger.session = Some("0".repeat(48));
    assert_eq!(refused(&stranger, &event).status, 404);
    daemon.journal("alpha").open("go");
    assert_eq!(stream.all().len(), 2, "nothing of it was taken");
}

#[test]
fn an_ordinary_answer_has_no_events_to_come_back_to() {
    let daemon = slow();
    let client = daemon.client();
    let answer = client.request("tools/call", r#"{"name":"alpha__act"}"#);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(!answer.text().contains("id: "));
    // Nor has one whose connection broke before there was a stream.
    let call = client.start("tools/call", r#"{"name":"alpha__slow"}"#);
    let journal = daemon.journal("alpha");
    until("the call", || (journal.received("tools/call").len() == 2).then_some(()));
    drop(call);
    journal.open("go");
    assert_eq!(daemon.entry("the call", |entry| entry["tool"] == "alpha__slow").len(), 2);
}

#[test]
fn the_modern_era_knows_no_event_ids() {
    let daemon = slow();
    let client = daemon.stranger();
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"alpha__slow","_meta":{meta}}}}}"#
    );
    let request = client
        .post(body)
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "tools/call")
        .with("mcp-name", "alpha__slow")
        .with("last-event-id", "1-0");
    let mut stream = client.begin(&request).stream();
    assert_eq!(stream.next_message().unwrap()["params"]["progress"], 1);
    daemon.journal("alpha").open("go");
    while stream.next_message().is_some() {}
    assert!(!String::from_utf8(stream.raw).unwrap().lines().any(|line| line.starts_with("id:")));

    let get = client.bare("GET").with("mcp-protocol-version", "2026-07-28").with("last-event-id", "1-0");
    assert_eq!(client.send(&get).status, 405);
}

#[test]
fn a_cancelled_call_ends_its_stream_for_whoever_comes_back() {
    let daemon = slow();
    let client = daemon.client();
    let stream = begun(&client, "slow");
    let event = last_id(&stream);
    let id = 2;
    drop(stream);
    let cancelled = client.notify("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#));
    assert_eq!(cancelled.status, 202);
    daemon.journal("alpha").awaits("notifications/cancelled");
    assert_eq!(resume(&client, &event).all(), [json!(null); 0]);
}

#[test]
fn what_belongs_to_no_request_is_there_for_a_client_that_comes_back() {
    let tool = r#"{"name":"new","inputSchema":{"type":"object"}}"#;
    let turn = [Step::list(wire::Kind::Tools, &[tool]), Step::changed(wire::Kind::Tools)];
    let script = Script::new().pages(wire::Kind::Tools, &[(None, &[], None)]).on_cue("turn", &turn);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let client = daemon.client();
    let mut stream = client.listen();
    stream.reads(b"data: \n\n");
    let event = last_id(&stream);
    daemon.journal("alpha").cue("turn");
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    assert_eq!(stream.next_message().unwrap(), changed);
    drop(stream);
    let mut again = resume(&client, &event);
    assert_eq!(again.next_message().unwrap(), changed);
    assert_eq!(client.delete().status, 204);
    assert_eq!(again.all(), [json!(null); 0]);
}

#[test]
fn a_client_keeps_a_bounded_number_of_streams() {
    let daemon = slow();
    let client = daemon.client();
    let first = begun(&client, "slow");
    let event = last_id(&first);
    drop(first);
    daemon.journal("alpha").open("go");
    until("the answer", || (resume(&client, &event).all().len() == 2).then_some(()));
    for _ in 0..8 {
        assert_eq!(begun(&client, "slow").all().len(), 2);
    }
    assert_eq!(refused(&client, &event).status, 400);
}

#[test]
fn cancelling_what_does_not_run_does_nothing() {
    let daemon = slow();
    let client = daemon.client();
    client.call("alpha__act", "{}");
    // The handshake (spec B-22), a finished request and unknown ones (spec U-06).
    for id in ["1", "2", "77", r#""x""#] {
        let cancelled = client.notify("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#));
        assert_eq!(cancelled.status, 202);
    }
    assert_eq!(client.request("ping", "{}").message()["result"], json!({}));
    assert!(daemon.journal("alpha").received("notifications/cancelled").is_empty());
}

#[test]
fn an_answer_to_no_question_is_accepted_and_does_nothing() {
    let daemon = slow();
    let client = daemon.client();
    for reply in
        [r#""id":1,"result":{}"#, r#""id":1,"error":{"code":-1,"message":"no"}"#, r#""id":"x","result":{}"#]
    {
        assert_eq!(client.say(&format!(r#"{{"jsonrpc":"2.0",{reply}}}"#)).status, 202);
    }
    client.call("alpha__act", "{}");
}

/// A key of this principal, as it is shown.
fn key(daemon: &Daemon, principal: &str) -> String {
    format!(
        "Bearer {}",
        token(daemon, &["key", "--principal", principal, "-o", "json"])["key"].as_str().unwrap()
    )
}

#[test]
fn a_stream_is_its_principals_and_ends_with_the_credential() {
    let setup = Setup::one("alpha", slow_script()).tenant("identity: { keys: true }");
    let daemon = settled(&setup, &["alpha"]);
    let (ann, ben) = (key(&daemon, "ann"), key(&daemon, "ben"));
    let mut client = daemon.stranger();
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let opened = client.send(&client.post(hello).with("authorization", &ann));
    client.session = Some(opened.header("mcp-session-id").unwrap().to_owned());
    client.revision = Some("2025-11-25".to_owned());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"alpha__slow","_meta":{"progressToken":"slow"}}}"#;
    let mut lost = client.begin(&client.post(call).with("authorization", &ann)).stream();
    lost.next_message().unwrap();
    let back = client.bare("GET").with("last-event-id", &last_id(&lost));
    drop(lost);
    assert_eq!(client.send(&back.clone().with("authorization", &ben)).status, 404, "another's session");
    let resumed = client.begin(&back.clone().with("authorization", &ann)).stream();
    let listening = client.begin(&client.bare("GET").with("authorization", &ann)).stream();
    assert_eq!((resumed.head.status, listening.head.status), (200, 200));
    token(&daemon, &["revoke", "principal", "ann"]);
    assert_eq!(resumed.all(), [json!(null); 0]);
    assert_eq!(listening.all(), [json!(null); 0]);
    assert_eq!(client.send(&back.with("authorization", &ann)).status, 401);
}
