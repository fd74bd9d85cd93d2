//! Streamable HTTP: sessions, streams, disconnects, and what is refused before a message is read.

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Script, Setup, Step, until};

use crate::{HANDSHAKES, settled};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn plain() -> Daemon {
    settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"])
}

/// `slow` waits at gate `go` and reports progress before and after.
fn slow() -> Script {
    let steps = [
        Step::progress("1"),
        Step::gate("go"),
        Step::progress("2.50"),
        Step::result(r#"{"content":[{"type":"text","text":"late"}]}"#),
    ];
    Script::tools(&["slow", "act"]).on_call("slow", &steps)
}

fn progress(message: &Value) -> (&Value, &Value) {
    assert_eq!(message["method"], "notifications/progress", "{message}");
    (&message["params"]["progressToken"], &message["params"]["progress"])
}

// ---------------------------------------------------------------- sessions

#[test]
fn a_session_lives_from_initialize_to_delete() {
    let daemon = plain();
    let mut client = daemon.stranger();
    let answer = client.initialize("2025-06-18");
    assert_eq!(answer.all("mcp-session-id").len(), 1);
    let id = client.session.clone().unwrap();
    assert!(id.len() >= 32 && id.bytes().all(|b| (0x21..=0x7e).contains(&b)), "{id}");
    assert_eq!(answer.message()["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answer.message()["result"]["serverInfo"]["name"], "portcullis");

    assert_eq!(client.request("ping", "{}").message()["result"], json!({}));
    let listening = client.listen();
    assert_eq!(client.delete().status, 204);
    assert_eq!(listening.all(), [json!(null); 0], "the stream ends with its session");
    for answer in [client.request("ping", "{}"), client.send(&client.bare("GET")), client.delete()] {
        assert_eq!(answer.verdict(), (404, Some(-32600)));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    // A client that begins anew may still name the old one.
    assert_eq!(client.initialize("2025-11-25").status, 200);
    assert_ne!(client.session.unwrap(), id);
}

#[test]
fn no_session_is_400_and_an_unknown_one_404_whatever_the_verb() {
    let daemon = plain();
    for (session, status) in [(None, 400), (Some("0".repeat(48)), 404), (Some("x".to_owned()), 404)] {
        let mut client = daemon.stranger();
        client.session = session;
        for answer in [client.say(PING), client.send(&client.bare("GET")), client.delete()] {
            assert_eq!(answer.verdict(), (status, Some(-32600)));
        }
        let answer = client.notify("notifications/initialized", "{}");
        assert_eq!(answer.status, status);
    }
}

#[test]
fn a_handshake_agrees_to_what_is_served() {
    let daemon = plain();
    for (asked, agreed) in HANDSHAKES {
        let answer = daemon.stranger().initialize(asked);
        assert_eq!(answer.message()["result"]["protocolVersion"], agreed);
    }
    for params in ["{}", r#"{"protocolVersion":7}"#] {
        assert_eq!(
            daemon.stranger().request("initialize", params).verdict(),
            (200, Some(-32602)),
            "{params}"
        );
    }
}

/// A request of the stateless era with its headers.
fn modern(client: &Client, version: &str, method: &str) -> Answer {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientInfo":{{}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    client.send(&client.post(body).with("mcp-protocol-version", version).with("mcp-method", method))
}

#[test]
fn both_eras_are_served_at_one_endpoint() {
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"]);
    let client = daemon.client();
    let legacy = client.result("tools/list", "{}");
    for client in [&daemon.stranger(), &client] {
        let answer = modern(client, "2026-07-28", "tools/list");
        assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None));
        let result = &answer.message()["result"];
        assert_eq!(result["tools"], legacy["tools"]);
        assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("private")));
        let discovered = modern(client, "2026-07-28", "server/discover").message();
        assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28");
        for gone in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/list"] {
            assert_eq!(modern(client, "2026-07-28", gone).verdict(), (404, Some(-32601)), "{gone}");
        }
    }
    let answer = modern(&client, "v999", "tools/list");
    assert_eq!(answer.verdict(), (400, Some(-32022)));
    assert_eq!(answer.message()["error"]["data"]["supported"][4], "2026-07-28");
    let answer = client.send(&client.bare("GET").with("mcp-protocol-version", "2026-07-28"));
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
}

#[test]
fn sessions_end_when_nobody_uses_them_and_not_while_somebody_does() {
    let setup = Setup::one("alpha", slow()).process("session: { idle: 300ms }");
    let daemon = settled(&setup, &["alpha"]);
    let (idle, listening, calling) = (daemon.client(), daemon.client(), daemon.client());
    let stream = listening.listen();
    let pending = calling.start("tools/call", r#"{"name":"alpha__slow","_meta":{"progressToken":1}}"#);
    daemon.journal("alpha").waits_at("go");
    // The status page looks without touching.
    until("the idle session to end", || (daemon.status()["sessions"] == 2).then_some(()));
    assert_eq!(idle.request("ping", "{}").status, 404);
    assert_eq!(listening.request("ping", "{}").status, 200);
    daemon.journal("alpha").open("go");
    assert_eq!(pending.answer().messages().last().unwrap()["result"]["content"][0]["text"], "late");
    drop(stream);
    until("all sessions to end", || (daemon.status()["sessions"] == 0).then_some(()));
}

// ---------------------------------------------------------------- answers and streams

#[test]
fn a_quick_answer_is_json_and_one_with_progress_a_stream() {
    let daemon = settled(&Setup::one("alpha", slow()), &["alpha"]);
    let client = daemon.client();
    let quick = client.request("tools/call", r#"{"name":"alpha__act"}"#);
    assert_eq!(quick.header("content-type"), Some("application/json"));

    // The token comes back as it was sent, be it a number or a string; progress is what the upstream said.
    for token in ["7", r#""seven""#, "0", r#""""#] {
        let params = format!(r#"{{"name":"alpha__slow","_meta":{{"progressToken":{token}}}}}"#);
        let pending = client.start("tools/call", &params);
        let (id, mut stream) = (pending.id, pending.stream());
        assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
        let token: Value = serde_json::from_str(token).unwrap();
        let first = stream.next_message().unwrap();
        assert_eq!(progress(&first), (&token, &json!(1)));
        daemon.journal("alpha").open("go");
        let second = stream.next_message().unwrap();
        assert_eq!(progress(&second), (&token, &json!(2.5)));
        let last = stream.next_message().unwrap();
        assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&json!(id), &json!("late")));
        assert_eq!(stream.next_message(), None);
        assert!(String::from_utf8(stream.raw).unwrap().contains("2.50"), "digits stay as written");
    }
}

#[test]
fn progress_nobody_asked_for_is_not_told() {
    let daemon = settled(&Setup::one("alpha", slow()), &["alpha"]);
    daemon.journal("alpha").open("go");
    let answer = daemon.client().request("tools/call", r#"{"name":"alpha__slow"}"#);
    assert_eq!(answer.message()["result"]["content"][0]["text"], "late");
    let sent = &daemon.journal("alpha").received("tools/call")[0];
    assert_eq!(sent["params"].get("_meta"), None, "no token, no `_meta`");
}

#[test]
fn a_client_that_takes_one_type_gets_that_one() {
    let daemon = settled(&Setup::one("alpha", slow()), &["alpha"]);
    daemon.journal("alpha").open("go");
    let client = daemon.client();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"alpha__slow","_meta":{"progressToken":1}}}"#;
    for (accept, kind, messages) in [
        ("application/json", "application/json", 1),
        ("*/*", "application/json", 1),
        ("text/event-stream", "text/event-stream", 3),
        ("application/json, text/event-stream", "text/event-stream", 3),
    ] {
        let answer = client.send(&client.post(body).with("accept", accept));
        assert_eq!(
            (answer.header("content-type"), answer.messages().len()),
            (Some(kind), messages),
            "{accept}"
        );
    }
    let answer = client.send(&client.post(PING).with("accept", "text/event-stream"));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.message()["result"], json!({}));
    assert_eq!(client.send(&client.post(PING).with("accept", "text/html")).status, 406);
    assert_eq!(client.send(&client.bare("GET").with("accept", "application/json")).status, 406);
}

#[test]
fn a_client_that_goes_away_cancels_nothing() {
    let daemon = settled(&Setup::one("alpha", slow()), &["alpha"]);
    let client = daemon.client();
    let journal = daemon.journal("alpha");
    let pending = client.start("tools/call", r#"{"name":"alpha__slow","_meta":{"progressToken":1}}"#);
    journal.waits_at("go");
    drop(pending);
    client.call("alpha__act", "{}");
    journal.open("go");
    let lines = daemon.entry("the slow call", |line| line["tool"] == "alpha__slow");
    let last = lines.last().unwrap();
    assert_eq!((&last["line"], &last["outcome"]), (&json!("outcome"), &json!("ok")));
    assert_eq!(journal.received("notifications/cancelled"), [json!(null); 0]);
}

#[test]
fn a_cancellation_reaches_the_upstream_under_the_id_it_knows() {
    let daemon = settled(&Setup::one("alpha", slow()), &["alpha"]);
    let client = daemon.client();
    let journal = daemon.journal("alpha");
    let params = r#"{"name":"alpha__slow","_meta":{"progressToken":1}}"#;
    let pending = client.start("tools/call", params);
    let (id, mut stream) = (pending.id, pending.stream());
    stream.next_message().unwrap();
    // One that is not running, and one of another type, cancel nothing.
    for other in ["99".to_owned(), format!("\"{id}\"")] {
        assert_eq!(
            client.notify("notifications/cancelled", &format!(r#"{{"requestId":{other}}}"#)).status,
            202
        );
    }
    let reason = r#""no longer \u0077anted""#;
    client.notify("notifications/cancelled", &format!(r#"{{"requestId":{id},"reason":{reason}}}"#));
    let told = journal.awaits("notifications/cancelled");
    assert_eq!(told["params"]["requestId"], journal.received("tools/call")[0]["id"]);
    assert_eq!(told["params"]["reason"], "no longer wanted");
    assert_eq!(stream.all(), [json!(null); 0], "a request that was given up gets no answer");
    let lines = daemon.entry("the call", |line| line["tool"] == "alpha__slow");
    assert_eq!(lines.last().unwrap()["outcome"], "abandoned");
    assert_eq!(journal.received("notifications/cancelled").len(), 1);
    // Its id is free again.
    journal.open("go");
    let again =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"alpha__act"}}}}"#);
    assert_eq!(client.say(&again).status, 200);
}

#[test]
fn an_id_in_flight_cannot_be_used_again() {
    let daemon = settled(&Setup::one("alpha", slow()), &["alpha"]);
    let client = daemon.client();
    let call = |id: &str, tool: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"alpha__{tool}"}}}}"#)
    };
    let mut first = client.begin(&client.post(call("7", "slow")));
    daemon.journal("alpha").waits_at("go");
    assert_eq!(client.say(&call("7", "act")).verdict(), (400, Some(-32600)));
    // Another type is another id; another session has its own.
    assert_eq!(client.say(&call(r#""7""#, "act")).message()["id"], "7");
    assert_eq!(daemon.client().say(&call("7", "act")).message()["id"], 7);
    daemon.journal("alpha").open("go");
    assert_eq!(first.answer().messages().pop().unwrap()["result"]["content"][0]["text"], "late");
    assert_eq!(client.say(&call("7", "act")).status, 200);
}

#[test]
fn a_message_goes_to_one_stream_and_the_next_takes_over() {
    let tool = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    let turn = |name: &str| [Step::list(wire::Kind::Tools, &[&tool(name)]), Step::changed(wire::Kind::Tools)];
    let script = Script::new()
        .pages(wire::Kind::Tools, &[(None, &[], None)])
        .on_cue("one", &turn("one"))
        .on_cue("two", &turn("two"));
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let client = daemon.client();
    let (older, _others) = (client.listen(), [client.listen(), client.listen()]);
    let mut newest = client.listen();
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    daemon.journal("alpha").cue("one");
    assert_eq!(newest.next_message().unwrap(), changed);
    drop(newest);
    // There is room for one more as soon as the daemon has seen the newest one go.
    let mut next = until("the end of the newest stream", || {
        let stream = client.begin(&client.bare("GET")).stream();
        (stream.head.status == 200).then_some(stream)
    });
    daemon.journal("alpha").cue("two");
    assert_eq!(next.next_message().unwrap(), changed);
    client.delete();
    assert_eq!(older.all(), [json!(null); 0], "nothing came twice");
}

#[test]
fn a_session_has_a_bounded_number_of_streams() {
    let daemon = plain();
    let client = daemon.client();
    let open: Vec<_> = (0..4).map(|_| client.listen()).collect();
    let answer = client.send(&client.bare("GET"));
    assert_eq!(answer.status, 429);
    assert!(answer.header("retry-after").is_some());
    drop(open);
    until("a place for a stream", || {
        (client.begin(&client.bare("GET")).stream().head.status == 200).then_some(())
    });
}

#[test]
fn silence_is_kept_alive_on_every_stream() {
    let setup = Setup::one("alpha", slow()).process("keepalive: 1s");
    let daemon = settled(&setup, &["alpha"]);
    let client = daemon.client();
    let mut listening = client.listen();
    let mut running =
        client.start("tools/call", r#"{"name":"alpha__slow","_meta":{"progressToken":1}}"#).stream();
    running.next_message().unwrap();
    listening.reads(b": keep-alive\n\n");
    running.reads(b": keep-alive\n\n");
    daemon.journal("alpha").open("go");
    assert_eq!(running.all().last().unwrap()["result"]["content"][0]["text"], "late");
}

#[test]
fn a_long_wait_without_progress_becomes_a_stream_too() {
    let daemon = settled(&Setup::one("alpha", slow()), &["alpha"]);
    let client = daemon.client();
    let stream = client.start("tools/call", r#"{"name":"alpha__slow"}"#).stream();
    assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
    daemon.journal("alpha").open("go");
    assert_eq!(stream.all().len(), 1);
}
