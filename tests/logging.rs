//! What servers log, and who hears of it.

use std::{
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::{Value, json};
use testkit::{Client, Daemon, Reach, Request, Script, Setup, Step, until};

use crate::{PORTCULLIS, settled};

fn logged(level: &str, data: &str) -> Step {
    Step::send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","logger":"db","data":"{data}"}}}}"#
    ))
}

/// `talk` logs at three levels while it runs, the cue `log` outside of any call.
fn script() -> Script {
    let talk = [
        logged("debug", "d"),
        logged("warning", "w"),
        logged("error", "e"),
        Step::result(r#"{"content":[{"type":"text","text":"done"}]}"#),
    ];
    Script::tools(&["talk", "act"])
        .capabilities(r#"{"tools":{},"logging":{}}"#)
        .on("logging/setLevel", &[Step::result("{}")])
        .on_call("talk", &talk)
        .on_cue("log", &[logged("error", "outside")])
        .on_cue("quiet", &[logged("debug", "outside")])
}

fn daemon() -> Daemon {
    settled(&Setup::one("alpha", script()), &["alpha"])
}

fn level(client: &Client, level: &str) {
    assert_eq!(client.result("logging/setLevel", &format!(r#"{{"level":"{level}"}}"#)), json!({}));
}

/// Calls `talk` and returns the levels that were heard meanwhile.
fn heard(client: &Client) -> Vec<String> {
    let mut messages = client.request("tools/call", r#"{"name":"alpha__talk"}"#).messages();
    let answer = messages.pop().unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    let level = |message: &Value| {
        assert_eq!(message["method"], "notifications/message");
        assert_eq!(message["params"]["logger"], "alpha/db");
        message["params"]["level"].as_str().unwrap().to_owned()
    };
    messages.iter().map(level).collect()
}

#[test]
fn a_session_hears_what_is_severe_enough_on_the_stream_of_its_request() {
    let daemon = daemon();
    let client = daemon.client();
    assert_eq!(heard(&client), ["warning", "error"], "debug is nobody's default");
    level(&client, "error");
    assert_eq!(heard(&client), ["error"]);
    level(&client, "emergency");
    assert_eq!(heard(&client), [""; 0]);
    level(&client, "debug");
    assert_eq!(heard(&client), ["debug", "warning", "error"]);
}

#[test]
fn a_level_reaches_the_servers_of_its_session_and_none_is_refused() {
    let daemon = daemon();
    let client = daemon.client();
    assert_eq!(
        client.request("initialize", r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#).status,
        200
    );
    for params in ["{}", r#"{"level":"loud"}"#, r#"{"level":7}"#] {
        assert_eq!(client.error("logging/setLevel", params)["code"], -32602, "{params}");
    }
    let journal = daemon.journal("alpha");
    client.call("alpha__act", "{}");
    level(&client, "notice");
    assert_eq!(journal.awaits("logging/setLevel")["params"], json!({ "level": "notice" }));
    // Said before its server was started, it is told when that comes up.
    let early = daemon.client();
    level(&early, "alert");
    early.call("alpha__act", "{}");
    until("the level of the second", || {
        journal
            .received("logging/setLevel")
            .iter()
            .any(|sent| sent["params"]["level"] == "alert")
            .then_some(())
    });
    assert_eq!(journal.received("logging/setLevel").len(), 2);
}

#[test]
fn sessions_of_one_principal_have_the_most_verbose_level_and_each_hears_its_own() {
    let setup = Setup::one("alpha", script()).tenant("identity: { keys: true }");
    let daemon = settled(&setup, &["alpha"]);
    let output = Command::new(PORTCULLIS)
        .args(["token", "key", "--principal", "ann", "-o", "json", "--admin", &daemon.admin(), "--config"])
        .arg(daemon.folder().config())
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    let bearer = format!("Bearer {}", made["key"].as_str().unwrap());
    let session = || {
        let client = daemon.stranger();
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
        let answer = client.send(&client.post(hello).with("authorization", &bearer));
        answer.header("mcp-session-id").unwrap().to_owned()
    };
    let (quiet, verbose) = (session(), session());
    let ask = |session: &str, method: &str, params: &str| {
        let client = daemon.stranger();
        let body = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{params}}}"#);
        client.send(&client.post(body).with("authorization", &bearer).with("mcp-session-id", session))
    };
    ask(&quiet, "tools/call", r#"{"name":"alpha__act"}"#);
    ask(&quiet, "logging/setLevel", r#"{"level":"warning"}"#);
    let journal = daemon.journal("alpha");
    let sent = |level: &str| {
        until(level, || {
            let last = journal.received("logging/setLevel").pop()?;
            (last["params"]["level"] == level).then_some(())
        });
    };
    sent("warning");
    ask(&verbose, "logging/setLevel", r#"{"level":"debug"}"#);
    sent("debug");
    for (session, levels) in [(&quiet, 2), (&verbose, 3)] {
        let messages = ask(session, "tools/call", r#"{"name":"alpha__talk"}"#).messages();
        assert_eq!(messages.len() - 1, levels, "{messages:?}");
    }
    // Who wanted most has gone.
    let client = daemon.stranger();
    let gone = client.bare("DELETE").with("authorization", &bearer).with("mcp-session-id", &verbose);
    assert_eq!(client.send(&gone).status, 204);
    sent("warning");
}

#[test]
fn what_is_logged_outside_of_any_call_goes_to_the_session_of_its_server_alone() {
    let daemon = daemon();
    let (one, two) = (daemon.client(), daemon.client());
    let (mut stream, other) = (one.listen(), two.listen());
    one.call("alpha__act", "{}");
    daemon.journal("alpha").cue("quiet");
    daemon.journal("alpha").cue("log");
    let told = stream.next_message().unwrap();
    assert_eq!(told["params"], json!({ "level": "error", "logger": "alpha/db", "data": "outside" }));
    // The process that feeds the lists logs too, and is nobody's.
    until("what is nobody's to be counted", || {
        let page = daemon.get("/metrics").text().to_owned();
        let line =
            page.lines().find(|line| line.starts_with("portcullis_log_messages_dropped_total"))?.to_owned();
        let count: u64 = line.rsplit(' ').next()?.parse().ok()?;
        (line.contains("acme") && count >= 2).then_some(())
    });
    assert_eq!(two.delete().status, 204);
    assert_eq!(other.all(), [json!(null); 0]);
}

#[test]
fn a_server_that_all_share_is_heard_by_nobody() {
    let setup = Setup::new().upstream_with("alpha", script(), "share: tenant");
    let daemon = settled(&setup, &["alpha"]);
    let client = daemon.client();
    level(&client, "debug");
    assert_eq!(heard(&client), [""; 0]);
    assert_eq!(daemon.journal("alpha").awaits("logging/setLevel")["params"], json!({ "level": "debug" }));
}

/// A call of the stateless era; `meta` are further members, raw JSON.
fn modern(client: &Client, meta: &str) -> (u16, Vec<Value>) {
    let answer = client.send(&call(client, meta));
    (answer.status, answer.messages())
}

fn call(client: &Client, meta: &str) -> Request {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"alpha__talk","_meta":{{{meta}"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    let request = client.post(body).with("mcp-protocol-version", "2026-07-28");
    request.with("mcp-method", "tools/call").with("mcp-name", "alpha__talk")
}

#[test]
fn without_a_session_only_a_request_with_a_level_hears_and_only_what_is_severe_enough() {
    let daemon = daemon();
    let client = daemon.stranger();
    assert_eq!(modern(&client, "").1.len(), 1);
    for (level, heard) in [("debug", 3), ("warning", 2), ("error", 1), ("alert", 0)] {
        let (status, messages) =
            modern(&client, &format!(r#""io.modelcontextprotocol/logLevel":"{level}","#));
        assert_eq!((status, messages.len()), (200, heard + 1), "{messages:?}");
        assert!(messages.last().unwrap()["result"].is_object(), "{messages:?}");
    }
    let (status, messages) = modern(&client, r#""io.modelcontextprotocol/logLevel":"loud","#);
    assert_eq!((status, &messages[0]["error"]["code"]), (400, &json!(-32602)));
    let calls = daemon.journal("alpha").received("tools/call");
    assert!(calls.iter().all(|call| call["params"].get("_meta").is_none()), "{calls:?}");
}

/// A server behind a URL logs by the stream beside all requests: the only call there hears it, at its level, and of two
/// nobody knows which it belongs to (spec U-15, X-12).
#[test]
fn what_a_server_logs_beside_its_requests_reaches_the_only_one_that_wants_it() {
    const TIMES: usize = 400;
    let aside: Vec<Step> = (0..TIMES)
        .flat_map(|n| [Step::gate(&n.to_string()), logged("debug", "low"), logged("error", "aside")])
        .collect();
    let talk = [Step::gate("go"), Step::result(r#"{"content":[{"type":"text","text":"done"}]}"#)];
    let script = script().on_call("talk", &talk).on_cue("aside", &aside);
    let daemon = settled(&Setup::one("alpha", script).reached(Reach::Http), &["alpha"]);
    let client = daemon.stranger();
    let wants = r#""io.modelcontextprotocol/logLevel":"warning","#;
    let journal = daemon.journal("alpha");
    let mut one = client.begin(&call(&client, wants)).stream();
    journal.waits_at("go");
    journal.cue("aside");
    let heard = AtomicBool::new(false);
    let first = thread::scope(|scope| {
        scope.spawn(|| {
            let mut times = 0;
            until("it to be heard", || {
                journal.open(&times.to_string());
                times += 1;
                heard.load(Ordering::Relaxed).then_some(())
            });
        });
        let first = one.next_message().unwrap();
        heard.store(true, Ordering::Relaxed);
        first
    });
    assert_eq!((&first["params"]["data"], &first["params"]["logger"]), (&json!("aside"), &json!("alpha/db")));
    journal.open("go");
    let rest = one.all();
    assert!(rest.last().unwrap()["result"].is_object(), "{rest:?}");
    assert!(!format!("{rest:?}").contains("low"), "{rest:?}");
}

#[test]
fn a_server_of_the_stateless_era_learns_the_level_with_each_request() {
    let discovered = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#;
    let script = script().on("server/discover", &[Step::result(discovered)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let journal = daemon.journal("alpha");
    let sent = || {
        let last = journal.received("tools/call").pop().unwrap();
        last["params"]["_meta"]["io.modelcontextprotocol/logLevel"].clone()
    };
    let client = daemon.client();
    client.request("tools/call", r#"{"name":"alpha__talk"}"#);
    assert_eq!(sent(), json!(null));
    level(&client, "error");
    client.request("tools/call", r#"{"name":"alpha__talk"}"#);
    assert_eq!(sent(), json!("error"));
    modern(&client, r#""io.modelcontextprotocol/logLevel":"alert","#);
    assert_eq!(sent(), json!("alert"));
    modern(&client, "");
    assert_eq!(sent(), json!(null));
    assert_eq!(journal.received("logging/setLevel").len(), 0);
}

#[test]
fn a_flood_is_heard_up_to_a_bound() {
    let mut flood = vec![logged("error", "again"); 400];
    flood.push(Step::result(r#"{"content":[{"type":"text","text":"done"}]}"#));
    let daemon = settled(&Setup::one("alpha", script().on_call("talk", &flood)), &["alpha"]);
    let heard = heard(&daemon.client()).len();
    assert!((1..=200).contains(&heard), "{heard}");
}

#[test]
fn one_server_that_logs_without_end_keeps_no_other_from_being_heard() {
    let flood = vec![logged("error", "again"); 3000];
    const TIMES: usize = 1_000;
    // Who reads slowly may miss a message: beta says it again and again.
    let again: Vec<Step> =
        (0..TIMES).flat_map(|n| [Step::gate(&n.to_string()), logged("error", "outside")]).collect();
    let setup = Setup::new()
        .upstream("alpha", script().on_cue("flood", &flood))
        .upstream("beta", script().on_cue("again", &again));
    let daemon = settled(&setup, &["alpha", "beta"]);
    let client = daemon.client();
    client.call("alpha__act", "{}");
    client.call("beta__act", "{}");
    let mut stream = client.listen();
    daemon.journal("alpha").cue("flood");
    let mut of_alpha = 0;
    assert_eq!(stream.next_message().unwrap()["params"]["logger"], "alpha/db");
    let (beta, heard) = (daemon.journal("beta"), AtomicBool::new(false));
    beta.cue("again");
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut times = 0;
            until("beta to be heard", || {
                beta.open(&times.to_string());
                times += 1;
                heard.load(Ordering::Relaxed).then_some(())
            });
        });
        while stream.next_message().unwrap()["params"]["logger"] != "beta/db" {
            of_alpha += 1;
        }
        heard.store(true, Ordering::Relaxed);
    });
    assert!(of_alpha <= 300, "{of_alpha}");
}

#[test]
fn secrets_of_an_upstream_are_read_by_nobody() {
    let leak = |data: &str| {
        Step::send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","data":{data}}}}}"#
        ))
    };
    let script = script()
        .on_call(
            "talk",
            &[
                leak(r#"{"env":"TOKEN=canary-s3cret-1","n":1.0}"#),
                leak(r#""Authorization: Bearer canary-s3cret-2""#),
                Step::result(r#"{"content":[{"type":"text","text":"done"}]}"#),
            ],
        )
        .on_cue("log", &[leak(r#"["c\u0061nary-s3cret-1",{"password":"canary-s3cret-3"}]"#)]);
    let yaml = "env: { TOKEN: canary-s3cret-1 }";
    let daemon = settled(&Setup::new().upstream_with("alpha", script, yaml), &["alpha"]);
    let client = daemon.client();
    let mut stream = client.listen();
    let told = client.request("tools/call", r#"{"name":"alpha__talk"}"#).messages();
    assert_eq!(told[0]["params"]["data"], json!({ "env": "TOKEN=***", "n": 1.0 }));
    assert_eq!(told[1]["params"]["data"], "Authorization: Bearer ***");
    daemon.journal("alpha").cue("log");
    assert_eq!(stream.next_message().unwrap()["params"]["data"], json!(["***", { "password": "***" }]));
    // What the process that feeds the lists says is in our own log alone.
    until("it to be kept", || daemon.log().contains("logged by the upstream").then_some(()));
    assert!(!daemon.log().contains("s3cret"), "{}", daemon.log());
    assert!(!daemon.audit_text().contains("s3cret"));
}
