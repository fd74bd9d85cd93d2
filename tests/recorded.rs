//! Whoever is known and refused before a message could be read is on record all the same: once.

use serde_json::{Value, json};
use testkit::{Connection, Daemon, Request, Script, Setup, until};

use crate::{settled, token};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// The only line that is such.
fn only(daemon: &Daemon, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let lines = || daemon.audit().into_iter().filter(&is).collect::<Vec<_>>();
    let found = until(what, || Some(lines()).filter(|found| !found.is_empty()));
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

#[test]
fn a_key_for_another_virtual_server_is_refused_and_recorded() {
    let setup = Setup::one("alpha", Script::tools(&["act"])).tenant(
        "identity: { keys: true }\nvirtual_servers: { default: { upstreams: [alpha] }, other: { upstreams: [alpha] } }",
    );
    let daemon = settled(&setup, &["alpha"]);
    let made = token(&daemon, &["key", "--principal", "ann", "--server", "other", "-o", "json"]);
    let bearer = format!("Bearer {}", made["key"].as_str().unwrap());
    let client = daemon.stranger();
    let request = client.post(PING).with("authorization", &bearer);
    assert_eq!(client.send(&request).status, 404);
    let line = only(&daemon, "the refusal", |line| line["reason"] == "unknown_endpoint");
    assert_eq!((&line["line"], &line["outcome"]), (&json!("final"), &json!("error")));
    assert_eq!((&line["principal"], &line["decision"]), (&json!("ann"), &json!("deny")));
    // A stranger is none of ours: counted, not recorded.
    let stranger = client.post(PING).with("authorization", "Bearer pck_none");
    assert_eq!(client.send(&stranger).status, 401);
    assert_eq!(daemon.audit().len(), 1);
}

#[test]
fn a_message_whose_client_goes_before_it_is_here_is_recorded() {
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"]);
    let bytes = Request::post("/mcp", PING).bytes(daemon.address());
    let mut connection = Connection::open(daemon.address());
    connection.send(&bytes[..bytes.len() - 5]);
    // Its head was read: whoever asks on another connection is answered.
    assert_eq!(daemon.client().request("ping", "{}").status, 200);
    drop(connection);
    // It depends on who notices first that it has gone.
    let reasons = ["body_not_read", "broken_body"].map(Value::from);
    let line = only(&daemon, "the lost message", |line| reasons.contains(&line["reason"]));
    assert_eq!(line["line"], "final");
    assert_eq!(line["principal"], "anonymous");
}
