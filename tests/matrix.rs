//! Every method of the table, with and without a session: what the daemon answers.

use serde_json::json;
use testkit::{Client, Daemon, Script, Setup, until};
use wire::{Capability, Form, Kind, Method, Names, Plan, Revision, Side};

use crate::settled;

const REVISION: Revision = Revision::R2025_11_25;

fn daemon() -> Daemon {
    let script = Script::tools(&["act"]).resource("mem://one").template("mem://{id}").prompt("ask");
    let script =
        script.capabilities(r#"{"tools":{},"resources":{},"prompts":{},"completions":{},"logging":{}}"#);
    settled(&Setup::one("alpha", script), &["alpha"])
}

/// Params that are right, or name something that does not exist.
fn params(method: Method, right: bool) -> serde_json::Value {
    let name = |known: &str| if right { known.to_owned() } else { format!("{known}-not") };
    match (method, method.row().names) {
        (Method::Initialize, _) => json!({ "protocolVersion": REVISION.text(), "capabilities": {} }),
        (_, Names::Tool) => json!({ "name": name("alpha__act") }),
        (_, Names::Prompt) => json!({ "name": name("alpha__ask") }),
        (_, Names::Resource) if right => json!({ "uri": "alpha+mem://one" }),
        (_, Names::Resource) => json!({ "uri": "beta+mem://one" }),
        (_, Names::Reference) => {
            json!({ "ref": { "type": "ref/prompt", "name": name("alpha__ask") }, "argument": { "name": "a", "value": "" } })
        }
        (_, Names::Task) => json!({ "taskId": "t" }),
        (_, Names::Request) => json!({ "requestId": 1 }),
        (_, Names::Token) => json!({ "progressToken": 1, "progress": 1 }),
        (Method::SetLevel, _) if right => json!({ "level": "info" }),
        (_, Names::Nothing) => json!({}),
    }
}

fn send(client: &Client, method: Method, right: bool) -> (u16, Option<i64>) {
    let (name, params) = (method.name(), params(method, right).to_string());
    match method.row().form {
        Form::Request => client.request(name, &params).verdict(),
        Form::Notification => {
            let answer = client.notify(name, &params);
            assert!(answer.status != 202 || answer.body.is_empty(), "{name}: {}", answer.text());
            answer.verdict()
        }
    }
}

/// What the table says of a request in a session.
fn expected(method: Method, right: bool) -> (u16, Option<i64>) {
    let row = method.row();
    let promised = match row.capability {
        None
        | Some(
            Capability::Tools
            | Capability::Resources
            | Capability::Prompts
            | Capability::Completions
            | Capability::Logging
            | Capability::Subscriptions,
        ) => true,
        Some(
            Capability::ResourcesSubscribe
            | Capability::Tasks
            | Capability::TasksList
            | Capability::Sampling
            | Capability::Roots
            | Capability::Elicitation,
        ) => false,
    };
    if method == Method::Discover {
        // It belongs to the modern era, which is not served yet (spec E-05).
        return (400, Some(-32602));
    }
    if row.form == Form::Notification {
        return (202, None);
    }
    if row.side == Side::Server || !row.exists_in(REVISION) || !promised {
        return (200, Some(-32601));
    }
    match (row.plan, row.names) {
        (Plan::Answer | Plan::List(_) | Plan::Relay, _) => (200, None),
        _ if right => (200, None),
        (_, Names::Resource) => (200, Some(-32002)),
        (_, _) => (200, Some(-32602)),
    }
}

#[test]
fn every_method_in_a_session_gets_the_answer_of_the_table() {
    let daemon = daemon();
    let client = daemon.client();
    for &method in Method::ALL {
        for right in [true, false] {
            assert_eq!(send(&client, method, right), expected(method, right), "{} {right}", method.name());
        }
    }
    // Nothing of all this has hurt the session.
    assert_eq!(client.names(Kind::Tools), ["alpha__act"]);
    each_is_on_record_once(&daemon, 2 * Method::ALL.len() + 3);
}

/// Exactly one entry for each message: one last line, and an intent before it if it left us.
fn each_is_on_record_once(daemon: &Daemon, messages: usize) {
    let lasts = || daemon.audit().iter().filter(|line| line["line"] != "intent").count();
    until("the last entry", || (lasts() >= messages).then_some(()));
    assert_eq!(lasts(), messages);
    for intent in daemon.audit().iter().filter(|line| line["line"] == "intent") {
        let of = |kind: &str| {
            daemon
                .audit()
                .iter()
                .filter(|line| line["entry"] == intent["entry"] && line["line"] == kind)
                .count()
        };
        assert_eq!((of("intent"), of("outcome"), of("final")), (1, 1, 0), "{intent}");
    }
}

#[test]
fn without_a_session_there_is_only_the_handshake() {
    let daemon = daemon();
    for &method in Method::ALL {
        let expected = match method {
            Method::Initialize => (200, None),
            Method::Discover => (400, Some(-32602)),
            _ => (400, Some(-32600)),
        };
        assert_eq!(send(&daemon.stranger(), method, true), expected, "{}", method.name());
    }
    each_is_on_record_once(&daemon, Method::ALL.len());
}

#[test]
fn a_method_of_a_later_revision_does_not_exist_in_an_earlier_one() {
    let daemon = daemon();
    for revision in Revision::LEGACY {
        let mut client = daemon.stranger();
        let agreed = client.initialize(revision.text()).message()["result"]["protocolVersion"].clone();
        assert_eq!(agreed, revision.text());
        for &method in Method::ALL {
            if method.row().form == Form::Request
                && !method.row().exists_in(revision)
                && method != Method::Discover
            {
                assert_eq!(
                    send(&client, method, true),
                    (200, Some(-32601)),
                    "{} {}",
                    method.name(),
                    revision.text()
                );
            }
        }
        assert_eq!(client.names(Kind::Prompts), ["alpha__ask"]);
    }
}

#[test]
fn a_request_without_its_id_and_a_notification_with_one_are_what_they_look_like() {
    let daemon = daemon();
    let client = daemon.client();
    // Without an id it is a notification, and those are never answered (spec B-06).
    let answer = client.notify("tools/call", r#"{"name":"alpha__act"}"#);
    assert_eq!((answer.status, answer.body.len()), (202, 0));
    assert_eq!(daemon.journal("alpha").received("tools/call").len(), 0);
    // With an id it wants an answer, and as a request the method does not exist.
    let answer = client.request("notifications/initialized", "{}");
    assert_eq!(answer.verdict(), (200, Some(-32601)));
}
