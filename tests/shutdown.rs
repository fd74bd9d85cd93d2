//! How the daemon ends, and that nothing is left when it has.

use std::{net::TcpStream, os::unix::process::ExitStatusExt as _, time::Duration};

use serde_json::json;
use testkit::{Daemon, Script, Setup, Step, processes, until, within};

use crate::settled;

fn waiting() -> Daemon {
    let script = Script::tools(&["wait"])
        .on_call("wait", &[Step::gate("go"), Step::result(r#"{"content":[{"type":"text","text":"done"}]}"#)]);
    settled(&Setup::one("alpha", script).process("drain: 1m"), &["alpha"])
}

#[test]
fn asked_to_end_it_finishes_what_runs_and_takes_nothing_new() {
    let mut daemon = waiting();
    let client = daemon.client();
    let mut open = daemon.connect();
    let stream = client.listen();
    let pending = client.start("tools/call", r#"{"name":"alpha__wait"}"#);
    daemon.journal("alpha").waits_at("go");

    daemon.terminate();
    assert_eq!(stream.all(), [json!(null); 0], "a stream ends at once");
    until("the port to be closed", || TcpStream::connect(daemon.address()).is_err().then_some(()));
    let health = daemon.get("/readyz");
    assert_eq!((health.status, health.text()), (503, "draining\n"));
    assert_eq!(daemon.get("/livez").status, 200);
    // On a connection that is open already, a new session is refused and a running one served.
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
    open.send(&daemon.stranger().post(hello).bytes(daemon.address()));
    let refused = open.answer();
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
    open.send(&client.post(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#).bytes(daemon.address()));
    assert_eq!(open.answer().message()["result"], json!({}));

    daemon.journal("alpha").open("go");
    let answer = pending.answer().messages().pop().unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    let below = processes::descendants(daemon.pid());
    assert_eq!(daemon.ended().code(), Some(0), "{}", daemon.log());
    assert!(below.iter().all(|process| !process.exists()), "{below:?}");
    let last = daemon.audit().into_iter().rfind(|line| line["tool"] == "alpha__wait").unwrap();
    assert_eq!((&last["line"], &last["outcome"]), (&json!("outcome"), &json!("ok")));
}

#[test]
fn asked_twice_it_ends_at_once() {
    let mut daemon = waiting();
    let client = daemon.client();
    let _pending = client.start("tools/call", r#"{"name":"alpha__wait"}"#);
    daemon.journal("alpha").waits_at("go");
    let below = processes::descendants(daemon.pid());
    daemon.terminate();
    until("the drain", || (daemon.get("/readyz").status == 503).then_some(()));
    daemon.terminate();
    let status = daemon.ended();
    assert!(status.code() == Some(143) || status.signal() == Some(15), "{status}");
    until("its processes to be gone", || below.iter().all(|process| !process.exists()).then_some(()));
}

#[test]
fn a_drain_gives_up_what_does_not_end() {
    let script = Script::tools(&["wait"]).on_call("wait", &[Step::gate("never")]);
    let mut daemon = settled(&Setup::one("alpha", script).process("drain: 200ms"), &["alpha"]);
    let client = daemon.client();
    let _pending = client.start("tools/call", r#"{"name":"alpha__wait"}"#);
    daemon.journal("alpha").waits_at("never");
    daemon.terminate();
    assert_eq!(daemon.ended().code(), Some(0), "{}", daemon.log());
    let last = daemon.audit().into_iter().rfind(|line| line["tool"] == "alpha__wait").unwrap();
    assert_eq!((&last["line"], &last["outcome"]), (&json!("outcome"), &json!("abandoned")));
}

#[test]
fn a_drain_gives_up_requests_that_no_session_owns() {
    let script = Script::tools(&["wait"]).on_call("wait", &[Step::gate("never")]);
    let mut daemon = settled(&Setup::one("alpha", script).process("drain: 200ms"), &["alpha"]);
    let client = daemon.stranger();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"alpha__wait","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let request = client.post(body).with("mcp-protocol-version", "2026-07-28");
    let _pending = client.begin(&request.with("mcp-method", "tools/call").with("mcp-name", "alpha__wait"));
    daemon.journal("alpha").waits_at("never");
    daemon.terminate();
    assert_eq!(daemon.ended().code(), Some(0), "{}", daemon.log());
    let last = daemon.audit().into_iter().rfind(|line| line["tool"] == "alpha__wait").unwrap();
    assert_eq!((&last["line"], &last["outcome"]), (&json!("outcome"), &json!("abandoned")));
    assert!(!daemon.log().contains("not everything had ended in time"), "{}", daemon.log());
}

#[test]
fn killed_it_leaves_no_process_behind() {
    let setup = Setup::new()
        .wrapped("wrapped", Script::tools(&["act"]).with_children())
        .upstream("plain", Script::tools(&["act"]).with_children())
        .upstream("deaf", Script::new().at_start(&[Step::silence()]));
    let mut daemon = settled(&setup, &["wrapped", "plain"]);
    let client = daemon.client();
    client.call("wrapped__act", "{}");
    client.call("plain__act", "{}");
    let below = processes::descendants(daemon.pid());
    // Two processes each of the first two upstreams, with a shell for one, and children that heed nothing.
    assert!(below.len() >= 2 * (5 + 4) + 2, "{below:?}");
    for id in ["wrapped", "plain"] {
        for entry in daemon.journal(id).entries().iter().filter(|entry| entry["event"] == "child") {
            let child = entry["child"].as_u64().unwrap();
            assert!(below.iter().any(|process| u64::from(process.pid) == child), "{child} in {below:?}");
        }
    }
    daemon.kill();
    within(Duration::from_secs(3), "every process below it to be gone", || {
        below.iter().all(|process| !process.is_alive()).then_some(())
    });
}

#[test]
fn an_entry_survives_a_kill_in_the_middle_of_its_call() {
    let mut daemon = waiting();
    let client = daemon.client();
    let _pending = client.start("tools/call", r#"{"name":"alpha__wait"}"#);
    daemon.journal("alpha").waits_at("go");
    daemon.kill();
    let last = daemon.audit().pop().unwrap();
    assert_eq!((&last["line"], &last["tool"]), (&json!("intent"), &json!("alpha__wait")));
}
