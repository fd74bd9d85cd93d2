//! Calls that become tasks, in all four pairings of the eras: whose they are, what they come to, and who runs them.

use std::process::Command;

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Reach, Script, Setup, Step, until};
use wire::Kind;

use crate::{PORTCULLIS, settled};

mod between;
mod handshake;
mod hostile;
mod listening;
mod stateless;
mod withdrawn;

const EXTENSION: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const ABLE: &str = r#"{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const FORM: &str =
    r#"{"message":"Sure?","requestedSchema":{"type":"object","properties":{"ok":{"type":"string"}}}}"#;
const RELATED: &str = "io.modelcontextprotocol/related-task";

// ---------------------------------------------------------------- servers and clients

fn task(status: &str) -> String {
    format!(
        r#""taskId":"1","status":"{status}","createdAt":"2025-11-25T00:00:00Z","lastUpdatedAt":"2025-11-25T00:00:01Z","ttl":60000,"pollInterval":50"#
    )
}

fn modern_task(status: &str) -> String {
    task(status).replace("ttl", "ttlMs").replace("pollInterval", "pollIntervalMs")
}

fn created() -> Step {
    Step::result(&format!(r#"{{"task":{{{}}}}}"#, task("working")))
}

fn tools(script: Script) -> Script {
    let tool = |name: &str, support: &str| {
        json!({ "name": name, "inputSchema": { "type": "object" }, "execution": { "taskSupport": support } })
            .to_string()
    };
    script
        .item(Kind::Tools, &tool("may", "optional"))
        .item(Kind::Tools, &tool("must", "required"))
        .item(Kind::Tools, &tool("never", "forbidden"))
}

/// A server of 2025-11-25 with tasks in its core.
fn core() -> Script {
    tools(Script::new())
        .capabilities(r#"{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#)
        .on_call("may", &[created()])
        .on_call("must", &[created()])
        .on("tasks/get", &[Step::result(&format!("{{{}}}", task("working")))])
        .on("tasks/cancel", &[Step::result(&format!("{{{}}}", task("cancelled")))])
        .on(
            "tasks/result",
            &[Step::result(
                r#"{"content":[{"type":"text","text":"done"}],"structuredContent":{"pid":${pid}}}"#,
            )],
        )
}

/// A server without handshakes that makes a task of every call of `slow`.
fn modern(get: &str) -> Script {
    Script::tools(&["slow", "quick"])
        .modern()
        .capabilities(r#"{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#)
        .on_call("slow", &[Step::result(&format!(r#"{{"resultType":"task",{}}}"#, modern_task("working")))])
        .on("tasks/get", &[Step::result(get)])
        .on("tasks/update", &[Step::result(r#"{"resultType":"complete"}"#)])
        .on("tasks/cancel", &[Step::result(r#"{"resultType":"complete"}"#)])
}

/// What a modern server says of a task that asks.
fn asking(form: &str) -> String {
    format!(
        r#"{{"resultType":"complete",{},"inputRequests":{{"k":{{"method":"elicitation/create","params":{form}}}}}}}"#,
        modern_task("input_required")
    )
}

fn start(script: Script) -> Daemon {
    // The same call begins many of them.
    settled(&Setup::one("alpha", script).tenant("runaway: off"), &["alpha"])
}

/// Begins a task of a client of 2025-11-25, and returns its id.
fn begin(client: &Client, tool: &str) -> String {
    let params = format!(r#"{{"name":"alpha__{tool}","arguments":{{}},"task":{{"ttl":5000}}}}"#);
    let result = client.result("tools/call", &params);
    assert_eq!(result["task"]["status"], "working", "{result}");
    result["task"]["taskId"].as_str().unwrap().to_owned()
}

fn about(id: &str) -> String {
    json!({ "taskId": id }).to_string()
}

/// A message of a client without handshakes. `named` is what its header names.
fn stateless(daemon: &Daemon, capabilities: &str, method: &str, named: &str, params: &str) -> Answer {
    let client = daemon.stranger();
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}}}}}}}"#
    );
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", named)];
    let request = headers.iter().fold(client.post(body), |request, (name, value)| request.with(name, value));
    client.send(&request)
}

fn called(daemon: &Daemon, capabilities: &str, tool: &str) -> Value {
    let name = format!("alpha__{tool}");
    let answer =
        stateless(daemon, capabilities, "tools/call", &name, &format!(r#""name":"{name}","arguments":{{}}"#));
    answer.messages().pop().unwrap()
}

fn asked(daemon: &Daemon, method: &str, id: &str) -> Answer {
    stateless(daemon, ABLE, method, id, &format!(r#""taskId":"{id}""#))
}

fn seen(daemon: &Daemon, id: &str, status: &str) -> Value {
    until(status, || {
        let result = asked(daemon, "tasks/get", id).message()["result"].clone();
        (result["status"] == status).then_some(result)
    })
}
