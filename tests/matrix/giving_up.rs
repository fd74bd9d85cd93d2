//! A client gives up a request in the way of its era, and the server hears of it in the way of its own (spec H-25, P-07,
//! U-07, X-20). Another request at the same time goes on.

use serde_json::{Value, json};
use testkit::{Client, Connection, Daemon, Reach, Script, Setup, Step, until};
use wire::Era;

use crate::settled;

/// Reports progress once, and then waits.
fn slow(era: Era) -> Script {
    let told = Step::result(r#"{"content":[],"structuredContent":{"told":${params}}}"#);
    let script = Script::tools(&["slow"]).on_call("slow", &[Step::progress("1"), Step::gate("go"), told]);
    match era {
        Era::Legacy => script,
        Era::Modern => script.modern(),
    }
}

/// A call that runs, in the middle of its answer.
struct Call<'a> {
    client: &'a Client,
    era: Era,
    marker: &'static str,
    stream: testkit::Stream,
}

impl<'a> Call<'a> {
    fn begin(client: &'a Client, era: Era, marker: &'static str) -> Call<'a> {
        let mut params = json!({ "name": "alpha__slow", "arguments": { "mine": marker } });
        params["_meta"] = json!({ "progressToken": marker });
        if era == Era::Modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        let message = json!({ "jsonrpc": "2.0", "id": marker, "method": "tools/call", "params": params });
        let mut request = client.post(message.to_string());
        if era == Era::Modern {
            request = request.with("mcp-protocol-version", "2026-07-28");
            request = request.with("mcp-method", "tools/call").with("mcp-name", "alpha__slow");
        }
        let connection: Connection = client.begin(&request);
        let mut stream = connection.stream();
        let first = stream.next_message().unwrap();
        assert_eq!(first["params"]["progressToken"], marker);
        Call { client, era, marker, stream }
    }

    fn give_up(self) {
        match self.era {
            Era::Legacy => {
                let params = json!({ "requestId": self.marker }).to_string();
                assert_eq!(self.client.notify("notifications/cancelled", &params).status, 202);
                assert_eq!(self.stream.all(), [Value::Null; 0], "what was given up has no answer");
            }
            Era::Modern => drop(self.stream),
        }
    }
}

/// The servers' own ids of the calls, by marker.
fn upstream_id(daemon: &Daemon, marker: &str) -> Value {
    let calls = daemon.journal("alpha").received("tools/call");
    let call = calls.iter().find(|call| call["params"]["arguments"]["mine"] == marker);
    call.unwrap()["id"].clone()
}

fn play(client_era: Era, server_era: Era, reach: Reach) {
    let daemon = settled(&Setup::one("alpha", slow(server_era)).reached(reach), &["alpha"]);
    let client = match client_era {
        Era::Legacy => daemon.client(),
        Era::Modern => daemon.stranger(),
    };
    let (one, other) = (Call::begin(&client, client_era, "one"), Call::begin(&client, client_era, "other"));
    one.give_up();
    let journal = daemon.journal("alpha");
    match (server_era, reach) {
        (Era::Modern, Reach::Http) => {
            until("a closed stream", || (journal.noted("closed tools/call").len() == 1).then_some(()));
            assert_eq!(journal.received("notifications/cancelled"), [Value::Null; 0]);
        }
        (Era::Legacy | Era::Modern, _) => {
            let told = journal.awaits("notifications/cancelled");
            assert_eq!(told["params"]["requestId"], upstream_id(&daemon, "one"));
        }
    }
    journal.open("go");
    let last = other.stream.all().pop().unwrap();
    assert_eq!(last["result"]["structuredContent"]["told"]["arguments"]["mine"], "other", "{last}");
    assert!(journal.received("notifications/cancelled").len() <= 1);
    let entry = daemon.entry("the call", |line| line["outcome"] == "abandoned");
    assert_eq!(entry.last().unwrap()["method"], "tools/call");
}

#[test]
fn a_request_is_given_up_in_every_pairing_over_stdio() {
    for client in [Era::Legacy, Era::Modern] {
        for server in [Era::Legacy, Era::Modern] {
            play(client, server, Reach::Stdio);
        }
    }
}

#[test]
fn a_request_is_given_up_in_every_pairing_over_http() {
    for client in [Era::Legacy, Era::Modern] {
        for server in [Era::Legacy, Era::Modern] {
            play(client, server, Reach::Http);
        }
    }
}
