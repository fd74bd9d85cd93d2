//! A message from end to end, and what the record says about it.

use std::collections::BTreeMap;

use serde_json::Value;
use testkit::{Daemon, Request, Script, Setup, Step, until};

use crate::settled;

const AUDIT: &str = "state/audit/audit.jsonl";

/// Kind and outcome of each line.
fn told(lines: &[Value]) -> Vec<(&str, &str)> {
    let word =
        |line: &Value, key: &str| -> &'static str { line[key].as_str().unwrap_or("-").to_owned().leak() };
    lines.iter().map(|line| (word(line, "line"), word(line, "outcome"))).collect()
}

/// The lines of each entry, in the order in which entries began.
fn entries(daemon: &Daemon) -> Vec<Vec<Value>> {
    let mut entries: Vec<Vec<Value>> = Vec::new();
    let mut place = BTreeMap::new();
    for line in daemon.audit() {
        let entry = line["entry"].as_str().unwrap().to_owned();
        let at = *place.entry(entry).or_insert(entries.len());
        match entries.get_mut(at) {
            Some(lines) => lines.push(line),
            None => entries.push(vec![line]),
        }
    }
    entries
}

#[test]
fn a_call_is_on_record_before_the_upstream_hears_of_it() {
    let act = [Step::copy(AUDIT), Step::result(r#"{"content":[{"type":"text","text":"done"}]}"#)];
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act"]).on_call("act", &act)), &["alpha"]);
    let client = daemon.client();

    assert_eq!(client.call("alpha__act", r#"{"n":1}"#)["content"][0]["text"], "done");

    let at_that_time = daemon.journal("alpha").copied();
    let known: Vec<Value> = at_that_time.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = known.last().unwrap();
    assert_eq!((&last["line"], &last["method"]), (&"intent".into(), &"tools/call".into()));
    assert_eq!(last["tool"], "alpha__act");
}

#[test]
fn every_stage_of_a_call_is_in_its_record() {
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act.now"])), &["alpha"]);
    let client = daemon.client();
    let exposed = client.names(wire::Kind::Tools).remove(0);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let params = format!(
        r#"{{"name":"{exposed}","arguments":{{"b":1.0,"a":"x"}},"_meta":{{"traceparent":"{trace}"}}}}"#
    );
    client.result("tools/call", &params);

    let lines = daemon.entry("the call", |line| line["method"] == "tools/call");
    assert_eq!(told(&lines), [("intent", "-"), ("outcome", "ok")]);
    let line = &lines[1];
    for (key, expected) in [
        ("tenant", "acme"),
        ("method", "tools/call"),
        ("era", "legacy"),
        ("revision", "2025-11-25"),
        ("tool", exposed.as_str()),
        ("native", "act.now"),
        ("upstream", "alpha"),
        ("decision", "allow"),
        ("trace", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("arguments", &wire::digest(r#"{"a":"x","b":1}"#).to_string()),
        ("definition", &wire::digest(r#"{"name":"act.now","inputSchema":{"type":"object"}}"#).to_string()),
    ] {
        assert_eq!(line[key], expected, "{key} of {line}");
    }
    assert!(line["principal"].as_str().unwrap().starts_with("anonymous"), "{line}");
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    assert!(
        line["request_bytes"].as_u64().unwrap() > 100 && line["reply_bytes"].as_u64().unwrap() > 50,
        "{line}"
    );
    assert!(line["ms"].is_u64() && line["id"].is_u64() && line["v"] == 1, "{line}");
    assert_eq!(line["session"].as_str().unwrap().len(), 8);
}

/// What is asked in a session, one after the other.
const REQUESTS: [(&str, &str); 13] = [
    ("ping", "{}"),
    ("tools/list", "{}"),
    ("tools/list", r#"{"cursor":"forged"}"#),
    ("resources/list", "{}"),
    ("tools/call", r#"{"name":"alpha__act"}"#),
    ("tools/call", r#"{"name":"alpha__fail"}"#),
    ("tools/call", r#"{"name":"alpha__gone"}"#),
    ("tools/call", r#"{"arguments":{}}"#),
    ("prompts/get", r#"{"name":"alpha__ask"}"#),
    ("resources/read", r#"{"uri":"alpha+mem://one"}"#),
    ("resources/read", r#"{"uri":"mem://one"}"#),
    ("no/such", "{}"),
    ("sampling/createMessage", "{}"),
];

/// How the entries end, in order: method, lines, outcome, decision.
const ENTRIES: [(&str, &str, &str, &str); 27] = [
    ("initialize", "final", "ok", "allow"),
    ("notifications/initialized", "final", "ok", "allow"),
    ("ping", "final", "ok", "allow"),
    ("tools/list", "final", "ok", "allow"),
    ("tools/list", "final", "error", "allow"),
    ("resources/list", "final", "ok", "allow"),
    ("tools/call", "intent outcome", "ok", "allow"),
    ("tools/call", "intent outcome", "tool_error", "allow"),
    ("tools/call", "final", "denied", "deny"),
    ("tools/call", "final", "error", "deny"),
    ("prompts/get", "intent outcome", "error", "allow"),
    ("resources/read", "intent outcome", "ok", "allow"),
    ("resources/read", "final", "denied", "deny"),
    ("no/such", "final", "error", "deny"),
    ("sampling/createMessage", "final", "error", "deny"),
    ("notifications/cancelled", "final", "ok", "allow"),
    ("no/such", "final", "error", "deny"),
    ("-", "final", "ok", "allow"),
    ("-", "final", "error", "deny"),
    ("-", "final", "error", "deny"),
    ("-", "final", "error", "deny"),
    ("ping", "final", "error", "deny"),
    ("ping", "final", "error", "deny"),
    ("-", "final", "error", "deny"),
    ("GET", "final", "ok", "allow"),
    ("DELETE", "final", "ok", "allow"),
    ("ping", "final", "error", "deny"),
];

#[test]
fn every_message_leaves_exactly_one_entry_however_it_ends() {
    let script = Script::tools(&["act", "fail"])
        .resource("mem://one")
        .prompt("ask")
        .on_call("fail", &[Step::result(r#"{"content":[],"isError":true}"#)])
        .on("prompts/get", &[Step::error(r#"{"code":-32000,"message":"no"}"#)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let mut client = daemon.stranger();
    let say = |client: &testkit::Client, method: &str, params: &str| {
        client.say(&format!(r#"{{"jsonrpc":"2.0","id":"x","method":"{method}","params":{params}}}"#));
    };
    client.initialize("2025-06-18");
    for (method, params) in REQUESTS {
        say(&client, method, params);
    }
    client.notify("notifications/cancelled", r#"{"requestId":99}"#);
    client.notify("no/such", "{}");
    client.say(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    client.say("{");
    client.say("[]");
    client.say(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#);
    say(&daemon.stranger(), "ping", "{}");
    client.send(&client.post(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).with("mcp-session-id", "stale"));
    client.send(&Request::post("/mcp/nowhere", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#));
    drop(client.listen());
    client.delete();
    say(&client, "ping", "{}");

    until("the last entry", || (entries(&daemon).len() >= ENTRIES.len()).then_some(()));
    let found = entries(&daemon).into_iter().map(|lines| {
        let last = lines.last().unwrap();
        let word = |key: &str| last[key].as_str().unwrap_or("-").to_owned();
        let kinds: Vec<&str> = lines.iter().map(|line| line["line"].as_str().unwrap()).collect();
        [word("method"), kinds.join(" "), word("outcome"), word("decision")]
    });
    let expected = ENTRIES.map(|(method, lines, outcome, decision)| [method, lines, outcome, decision]);
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn no_line_holds_a_session_id_or_the_value_of_an_argument() {
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act"]).prompt("ask")), &["alpha"]);
    let client = daemon.client();
    client.call("alpha__act", r#"{"secret":"canary-4711","deep":[{"x":"canary-4712"}]}"#);
    client.result("prompts/get", r#"{"name":"alpha__ask","arguments":{"q":"canary-4713"}}"#);
    client.error("tools/call", r#"{"name":"alpha__nope","arguments":{"secret":"canary-4714"}}"#);
    client.delete();
    daemon.entry("the end", |line| line["method"] == "DELETE");

    let text = daemon.audit_text();
    assert!(!text.contains("canary"), "{text}");
    assert!(!text.contains(client.session.as_deref().unwrap()), "{text}");
    // Nor does the status page, nor the log.
    for other in
        [daemon.get("/status").text().to_owned(), daemon.log(), daemon.get("/metrics").text().to_owned()]
    {
        assert!(!other.contains("canary") && !other.contains(client.session.as_deref().unwrap()), "{other}");
    }
}

#[test]
fn what_cannot_be_recorded_is_not_called() {
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"]);
    let client = daemon.client();
    client.call("alpha__act", "{}");
    let calls = daemon.journal("alpha").received("tools/call").len();

    // Nobody can open a file below a folder that is gone and whose place is taken.
    let audit = daemon.folder().audit();
    let folder = audit.parent().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::write(folder, "").unwrap();

    let error = client.error("tools/call", r#"{"name":"alpha__act"}"#);
    assert_eq!((&error["code"], &error["data"]["reason"]), (&(-32603).into(), &"unrecorded".into()));
    assert_eq!(daemon.journal("alpha").received("tools/call").len(), calls);
}

#[test]
fn an_upstream_sees_its_own_names_and_nothing_of_the_client() {
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"]);
    let client = daemon.client();
    let body = r#"{"jsonrpc":"2.0","method":"tools/call","id":"client-id","params":{"unknown":[1.50,123456789012345678901.10],"name":"alpha__act","arguments":{"z":12345678901234567890,"a":"\u0041/","z2":{ "k" : 1.0 }},"_meta":{"progressToken":"client-token","io.modelcontextprotocol/clientInfo":{},"com.example/keep":{"n":1.00}}}}"#;
    let answer = client.say(body);
    assert_eq!(answer.message()["id"], "client-id");

    let raw = daemon.journal("alpha").raw("tools/call").remove(0);
    assert!(
        raw.contains(r#""arguments":{"z":12345678901234567890,"a":"\u0041/","z2":{ "k" : 1.0 }}"#),
        "{raw}"
    );
    assert!(raw.contains(r#""unknown":[1.50,123456789012345678901.10]"#), "{raw}");
    assert!(raw.contains(r#""com.example/keep":{"n":1.00}"#), "{raw}");
    assert!(raw.contains(r#""name":"act""#), "{raw}");
    for hidden in ["client-id", "client-token", "clientInfo", "alpha__", client.session.as_deref().unwrap()] {
        assert!(!raw.contains(hidden), "{hidden} in {raw}");
    }
    // The handshake is complete before anything is asked (spec B-16, B-21).
    let shared = daemon.journal("alpha").noted("start")[0];
    let entries = daemon.journal("alpha").entries();
    let heard =
        entries.iter().filter(|entry| entry["pid"] == shared).filter_map(|entry| entry["got"].as_str());
    let methods: Vec<Value> =
        heard.map(|line| serde_json::from_str::<Value>(line).unwrap()["method"].clone()).collect();
    assert_eq!(methods[..4], ["server/discover", "initialize", "notifications/initialized", "tools/list"]);
    let hello = daemon.journal("alpha").raw("initialize").remove(0);
    assert!(!hello.contains("testkit"), "{hello}");
}
