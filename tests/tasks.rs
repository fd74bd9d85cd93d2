//! Calls that become tasks, in all four pairings of the eras: whose they are, what they come to, and who runs them.

use std::process::Command;

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Reach, Script, Setup, Step, until};
use wire::Kind;

use crate::{PORTCULLIS, settled};

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

fn start(script: Script) -> Daemon {
    settled(&Setup::one("alpha", script), &["alpha"])
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

// ---------------------------------------------------------------- 2025-11-25 on both sides

#[test]
fn tasks_are_promised_where_a_server_has_them_and_listed_to_nobody_without_a_name() {
    for (script, revision, expected) in [
        (core(), "2025-11-25", json!({ "cancel": {}, "requests": { "tools": { "call": {} } } })),
        (modern("{}"), "2025-11-25", json!({ "cancel": {}, "requests": { "tools": { "call": {} } } })),
        (core(), "2025-06-18", Value::Null),
        (Script::tools(&["may"]), "2025-11-25", Value::Null),
    ] {
        let daemon = start(script);
        let mut client = daemon.stranger();
        let said = client.initialize(revision).message()["result"]["capabilities"].clone();
        assert_eq!((&said["tasks"], &said["extensions"]), (&expected, &Value::Null), "{revision}");
        assert_eq!(client.error("tasks/list", "{}")["code"], -32601, "spec U-32");
    }
}

#[test]
fn a_tool_says_that_it_takes_tasks_to_those_who_can_ask_for_one() {
    let daemon = start(core());
    for (revision, expected) in [
        ("2025-11-25", [json!("optional"), json!("required"), json!("forbidden")]),
        ("2025-06-18", [Value::Null, Value::Null, Value::Null]),
        ("2024-11-05", [Value::Null, Value::Null, Value::Null]),
    ] {
        let mut client = daemon.stranger();
        client.initialize(revision);
        let tools = client.list(Kind::Tools);
        let said: Vec<_> = tools.iter().map(|tool| tool["execution"]["taskSupport"].clone()).collect();
        assert_eq!(said, expected, "{revision}");
    }
    let daemon = start(modern("{}"));
    let tools = daemon.client().list(Kind::Tools);
    assert!(tools.iter().all(|tool| tool["execution"]["taskSupport"] == "optional"), "{tools:?}");
    let plain = start(Script::tools(&["may"])).client().list(Kind::Tools);
    assert!(plain.iter().all(|tool| tool.get("execution").is_none()));
}

#[test]
fn a_task_asked_for_where_there_is_none_is_no_method() {
    let daemon = start(core());
    let client = daemon.client();
    for params in
        [r#"{"name":"alpha__never","arguments":{},"task":{}}"#, r#"{"name":"alpha__must","arguments":{}}"#]
    {
        assert_eq!(client.error("tools/call", params)["code"], -32601, "{params}");
    }
    assert_eq!(client.error("tools/call", r#"{"name":"alpha__may","task":7}"#)["code"], -32602);
    assert!(daemon.journal("alpha").received("tools/call").is_empty());
    // Before tasks there was nothing to ask for.
    let mut older = daemon.stranger();
    older.initialize("2025-06-18");
    older.call("alpha__never", r#"{}"#);
}

#[test]
fn a_task_goes_from_its_call_to_its_result_under_an_id_of_ours() {
    let daemon = start(core());
    let client = daemon.client();
    let id = begin(&client, "may");
    assert!(id.len() >= 32);
    let journal = daemon.journal("alpha");
    let call = journal.received("tools/call").pop().unwrap();
    assert_eq!(call["params"]["task"], json!({ "ttl": 5000 }));
    let state = client.result("tasks/get", &about(&id));
    assert_eq!(
        (&state["taskId"], &state["status"], &state["ttl"]),
        (&json!(id), &json!("working"), &json!(60000))
    );
    let result = client.result("tasks/result", &about(&id));
    assert_eq!(result["content"][0]["text"], "done");
    assert_eq!(result["_meta"][RELATED], json!({ "taskId": id }));
    for method in ["tasks/get", "tasks/result"] {
        let sent = journal.received(method).pop().unwrap();
        assert_eq!(sent["params"], json!({ "taskId": "1" }), "{method}");
    }
    let lines = daemon.entry("the look", |line| line["method"] == "tasks/get");
    assert_eq!(
        (&lines[0]["tool"], &lines[0]["upstream"]),
        (&json!("alpha__may"), &json!("alpha")),
        "{lines:?}"
    );
}

#[test]
fn the_outcome_is_what_the_call_would_have_had() {
    let script = core().on("tasks/result", &[Step::error(r#"{"code":-32603,"message":"x"}"#)]);
    let daemon = start(script);
    let client = daemon.client();
    let id = begin(&client, "may");
    let error = client.error("tasks/result", &about(&id));
    assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!("x")), "spec U-38");
}

#[test]
fn what_a_task_asks_comes_with_its_result() {
    let theirs = FORM.replacen('{', &format!(r#"{{"_meta":{{"{RELATED}":{{"taskId":"1"}}}},"#), 1);
    let script = core().on(
        "tasks/result",
        &[
            Step::ask("1", "elicitation/create", &theirs),
            Step::result(r#"{"content":[],"structuredContent":{"answer":${answer}}}"#),
        ],
    );
    let daemon = start(script);
    let mut client = daemon.stranger();
    client.initialize_with("2025-11-25", r#"{"elicitation":{}}"#);
    let id = begin(&client, "may");
    let mut stream = client.start("tasks/result", &about(&id)).stream();
    let question = stream.next_message().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["_meta"][RELATED], json!({ "taskId": id }));
    // Looking at it meanwhile is no second call to which a question could belong.
    client.result("tasks/get", &about(&id));
    let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"decline"}}}}"#, question["id"]);
    assert_eq!(client.say(&body).status, 202);
    let result = stream.all().pop().unwrap()["result"].clone();
    assert_eq!(result["structuredContent"]["answer"]["result"]["action"], "decline");
    assert_eq!(result["_meta"][RELATED]["taskId"], id);
}

#[test]
fn a_task_of_somebody_else_does_not_exist() {
    let daemon = settled(&Setup::one("alpha", core()).upstream("beta", core()), &["alpha", "beta"]);
    let (one, two) = (daemon.client(), daemon.client());
    let id = begin(&one, "may");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let foreign = two.error(method, &about(&id));
        assert_eq!(foreign, two.error(method, &about("nope")), "{method}");
        assert_eq!(foreign["code"], -32602);
    }
    // Each server calls its task `1`.
    let result = one.result("tools/call", r#"{"name":"beta__may","arguments":{},"task":{}}"#);
    assert_ne!(result["task"]["taskId"], id);
    one.result("tasks/get", &about(result["task"]["taskId"].as_str().unwrap()));
    assert_eq!(daemon.journal("beta").received("tasks/get").len(), 1);
    assert!(daemon.journal("alpha").received("tasks/get").is_empty());
}

#[test]
fn a_task_is_cancelled_by_its_own_method_once() {
    let daemon = start(core());
    let client = daemon.client();
    let id = begin(&client, "may");
    let call = daemon.journal("alpha").received("tools/call").pop().unwrap();
    assert_eq!(client.notify("notifications/cancelled", &format!(r#"{{"requestId":{}}}"#, 1)).status, 202);
    assert_eq!(client.result("tasks/get", &about(&id))["status"], "working", "spec U-09 {call}");
    let cancelled = client.result("tasks/cancel", &about(&id));
    assert_eq!((&cancelled["status"], &cancelled["taskId"]), (&json!("cancelled"), &json!(id)));
    assert_eq!(client.error("tasks/cancel", &about(&id))["code"], -32602, "spec U-35");
    assert_eq!(daemon.journal("alpha").received("tasks/cancel").len(), 1);
}

#[test]
fn a_change_is_told_to_its_owner_under_our_id() {
    let status = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{{{}}}}}"#,
        task("completed")
    );
    let script =
        core().on("tasks/get", &[Step::send(&status), Step::result(&format!("{{{}}}", task("completed")))]);
    let daemon = start(script);
    let (client, other) = (daemon.client(), daemon.client());
    begin(&other, "may");
    let (mut aside, others) = (client.listen(), other.listen());
    let id = begin(&client, "may");
    client.result("tasks/get", &about(&id));
    let told = aside.next_message().unwrap();
    assert_eq!(told["method"], "notifications/tasks/status");
    assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&json!(id), &json!("completed")));
    other.delete();
    assert!(!format!("{:?}", others.all()).contains("tasks/status"));
}

#[test]
fn a_task_whose_server_is_gone_has_failed() {
    let script = core().on("tasks/get", &[Step::exit(1)]);
    let daemon = start(script);
    let client = daemon.client();
    let id = begin(&client, "may");
    let state = client.result("tasks/get", &about(&id));
    assert_eq!(state["status"], "failed");
    let error = client.error("tasks/result", &about(&id));
    assert!(error["message"].as_str().unwrap().contains("may have acted"), "{error}");
}

#[test]
fn a_principal_has_so_many_tasks_and_no_more() {
    let daemon = start(core());
    let client = daemon.client();
    for _ in 0..1000 {
        begin(&client, "may");
    }
    let params = r#"{"name":"alpha__may","arguments":{},"task":{}}"#;
    assert_eq!(client.error("tools/call", params)["code"], -32603, "spec U-39");
    assert_eq!(daemon.journal("alpha").received("tools/call").len(), 1000);
    // Others have their own.
    begin(&daemon.client(), "may");
    assert!(daemon.get("/metrics").text().contains("portcullis_tasks 1001"));
}

#[test]
fn who_looks_too_often_is_told_to_wait() {
    let daemon = start(core());
    let client = daemon.client();
    let id = begin(&client, "may");
    let slowed =
        (0..100).map(|_| client.request("tasks/get", &about(&id))).find(|answer| answer.status == 429);
    assert!(slowed.unwrap().header("retry-after").is_some(), "spec U-39");
    assert!(daemon.journal("alpha").received("tasks/get").len() < 100);
}

#[test]
fn a_named_principal_lists_its_own_tasks() {
    let daemon = settled(&Setup::one("alpha", core()).tenant("identity: { keys: true }"), &["alpha"]);
    let bearer = |principal: &str| {
        let output = Command::new(PORTCULLIS)
            .args([
                "token",
                "key",
                "--principal",
                principal,
                "-o",
                "json",
                "--admin",
                &daemon.admin(),
                "--config",
            ])
            .arg(daemon.folder().config())
            .output()
            .unwrap();
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        format!("Bearer {}", made["key"].as_str().unwrap())
    };
    let (ann, bob) = (bearer("ann"), bearer("bob"));
    let session = |bearer: &str| {
        let client = daemon.stranger();
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
        let answer = client.send(&client.post(hello).with("authorization", bearer));
        assert_eq!(answer.message()["result"]["capabilities"]["tasks"]["list"], json!({}));
        answer.header("mcp-session-id").unwrap().to_owned()
    };
    let (of_ann, of_bob) = (session(&ann), session(&bob));
    let ask = |bearer: &str, session: &str, method: &str, params: &str| {
        let client = daemon.stranger();
        let body = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{params}}}"#);
        let request = client.post(body).with("authorization", bearer).with("mcp-session-id", session);
        client.send(&request).message()["result"].clone()
    };
    let params = r#"{"name":"alpha__may","arguments":{},"task":{}}"#;
    let id = ask(&ann, &of_ann, "tools/call", params)["task"]["taskId"].clone();
    ask(&bob, &of_bob, "tools/call", params);
    let listed = ask(&ann, &of_ann, "tasks/list", "{}")["tasks"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!((&listed[0]["taskId"], &listed[0]["status"]), (&id, &json!("working")));
    // The same principal in another session of its own.
    let again = ask(&ann, &session(&ann), "tasks/get", &about(id.as_str().unwrap()));
    assert_eq!(again["taskId"], id);
}

// ---------------------------------------------------------------- without handshakes on both sides

#[test]
fn the_extension_is_offered_and_wants_to_be_declared() {
    let daemon = start(modern("{}"));
    let said = stateless(&daemon, "{}", "server/discover", "", r#""x":1"#).message()["result"].clone();
    assert_eq!(said["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
    assert!(said["capabilities"].get("tasks").is_none());
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = stateless(&daemon, "{}", method, "nope", r#""taskId":"nope""#);
        assert_eq!(answer.verdict(), (400, Some(-32021)), "{method}");
        let needed = &answer.message()["error"]["data"]["requiredCapabilities"];
        assert_eq!(needed["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
        assert_eq!(asked(&daemon, method, "nope").verdict().1, Some(-32602), "{method}");
    }
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(asked(&daemon, method, "nope").verdict(), (404, Some(-32601)), "{method}");
    }
}

#[test]
fn a_modern_server_decides_and_only_clients_that_said_so_are_told() {
    let get = format!(
        r#"{{"resultType":"complete",{},"result":{{"resultType":"complete","content":[],"isError":true,"_meta":{{"{RELATED}":{{"taskId":"1"}}}}}}}}"#,
        modern_task("completed")
    );
    let daemon = start(modern(&get));
    let result = called(&daemon, EXTENSION, "slow")["result"].clone();
    assert_eq!((&result["resultType"], &result["status"]), (&json!("task"), &json!("working")));
    assert_eq!((&result["ttlMs"], &result["pollIntervalMs"]), (&json!(60000), &json!(50)));
    assert!(
        result.get("ttl").is_none() && result.get("task").is_none() && result.get("requestState").is_none()
    );
    let id = result["taskId"].as_str().unwrap().to_owned();
    assert_ne!(id, "1");
    let wrong = stateless(&daemon, ABLE, "tasks/get", "wrong", &format!(r#""taskId":"{id}""#));
    assert_eq!(wrong.verdict(), (400, Some(-32020)), "spec U-37");
    let state = asked(&daemon, "tasks/get", &id).message()["result"].clone();
    assert_eq!((&state["resultType"], &state["status"]), (&json!("complete"), &json!("completed")));
    assert_eq!((&state["taskId"], &state["result"]["isError"]), (&json!(id), &json!(true)), "spec U-36");
    assert!(state["result"]["_meta"].get(RELATED).is_none());
    let sent = daemon.journal("alpha").received("tasks/get").pop().unwrap();
    assert_eq!(sent["params"]["taskId"], "1");
    // Who did not say so gets none, and its server is not told otherwise.
    assert_eq!(called(&daemon, "{}", "quick")["result"]["resultType"], "complete");
    let calls = daemon.journal("alpha").received("tools/call");
    let declared = |call: &Value| {
        call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].get("extensions").is_some()
    };
    assert_eq!(calls.iter().map(declared).collect::<Vec<_>>(), [true, false]);
    // A word of the older revision means nothing.
    let ignored = stateless(
        &daemon,
        "{}",
        "tools/call",
        "alpha__quick",
        r#""name":"alpha__quick","arguments":{},"task":{"ttl":1}"#,
    );
    assert_eq!(ignored.message()["result"]["resultType"], "complete", "spec U-30");
}

#[test]
fn a_modern_task_asks_in_its_description_and_is_answered_by_an_update() {
    let get = format!(
        r#"{{"resultType":"complete",{},"inputRequests":{{"k":{{"method":"elicitation/create","params":{FORM}}}}}}}"#,
        modern_task("input_required")
    );
    let daemon = start(modern(&get));
    let id = called(&daemon, ABLE, "slow")["result"]["taskId"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let state = asked(&daemon, "tasks/get", &id).message()["result"].clone();
        assert_eq!(state["inputRequests"]["k"]["params"]["message"], "Sure?", "{state}");
    }
    let update = format!(r#""taskId":"{id}","inputResponses":{{"k":{{"action":"accept","content":{{}}}}}}"#);
    let acknowledged = stateless(&daemon, ABLE, "tasks/update", &id, &update).message()["result"].clone();
    assert_eq!(acknowledged["resultType"], "complete");
    assert!(acknowledged.get("taskId").is_none());
    let sent = daemon.journal("alpha").received("tasks/update").pop().unwrap();
    assert_eq!(
        (&sent["params"]["taskId"], &sent["params"]["inputResponses"]["k"]["action"]),
        (&json!("1"), &json!("accept"))
    );
    for _ in 0..2 {
        let acknowledged = asked(&daemon, "tasks/cancel", &id).message()["result"].clone();
        assert_eq!(acknowledged["resultType"], "complete", "spec U-35");
    }
    let lines = daemon.entry("the question", |line| line["method"] == "elicitation/create");
    assert_eq!(lines.iter().filter(|line| line["line"] != "intent").count(), 1);
}

#[test]
fn a_modern_task_that_failed_says_with_which_error() {
    let get = format!(
        r#"{{"resultType":"complete",{},"error":{{"code":-32603,"message":"boom"}}}}"#,
        modern_task("failed")
    );
    let daemon = start(modern(&get));
    let id = called(&daemon, ABLE, "slow")["result"]["taskId"].as_str().unwrap().to_owned();
    let state = asked(&daemon, "tasks/get", &id).message()["result"].clone();
    assert_eq!((&state["status"], &state["error"]["message"]), (&json!("failed"), &json!("boom")));
    assert!(state.get("result").is_none());
}

// ---------------------------------------------------------------- between the eras

#[test]
fn a_client_of_2025_11_25_has_tasks_of_a_modern_server() {
    let get = format!(
        r#"{{"resultType":"complete",{},"result":{{"resultType":"complete","content":[{{"type":"text","text":"late"}}],"isError":true}}}}"#,
        modern_task("completed")
    );
    let daemon = start(modern(&get));
    let client = daemon.client();
    let id = begin(&client, "slow");
    let state = client.result("tasks/get", &about(&id));
    assert_eq!((&state["status"], &state["ttl"]), (&json!("failed"), &json!(60000)), "spec U-36");
    assert!(
        state.get("ttlMs").is_none() && state.get("result").is_none() && state.get("resultType").is_none()
    );
    let result = client.result("tasks/result", &about(&id));
    assert_eq!(
        (&result["content"][0]["text"], &result["_meta"][RELATED]["taskId"]),
        (&json!("late"), &json!(id))
    );
    assert!(result.get("resultType").is_none());
    // It asked for a task, and its server answered at once: that is a task that is over.
    let result = client.result("tools/call", r#"{"name":"alpha__quick","arguments":{},"task":{}}"#);
    assert_eq!(result["task"]["status"], "completed", "{result}");
    let quick = result["task"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(client.result("tasks/result", &about(&quick))["content"][0]["text"], "quick");
    assert_eq!(client.error("tasks/cancel", &about(&quick))["code"], -32602, "spec U-35");
    // Without the word it is an ordinary call.
    assert_eq!(client.call("alpha__quick", "{}")["content"][0]["text"], "quick");
    let declared: Vec<bool> = daemon
        .journal("alpha")
        .received("tools/call")
        .iter()
        .map(|call| {
            call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].get("extensions").is_some()
        })
        .collect();
    assert_eq!(declared, [true, true, false]);
}

#[test]
fn what_a_modern_task_asks_a_legacy_client_hears_with_its_result() {
    let ask = format!(
        r#"{{"resultType":"complete",{},"inputRequests":{{"k":{{"method":"elicitation/create","params":{FORM}}}}}}}"#,
        modern_task("input_required")
    );
    let daemon = start(modern(&ask));
    let mut client = daemon.stranger();
    client.initialize_with("2025-11-25", r#"{"elicitation":{}}"#);
    let id = begin(&client, "slow");
    let mut stream = client.start("tasks/result", &about(&id)).stream();
    let question = stream.next_message().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"cancel"}}}}"#, question["id"]);
    assert_eq!(client.say(&body).status, 202);
    let sent = daemon.journal("alpha").awaits("tasks/update");
    assert_eq!(sent["params"]["inputResponses"], json!({ "k": { "action": "cancel" } }));
    client.result("tasks/cancel", &about(&id));
    assert_eq!(client.result("tasks/get", &about(&id))["status"], "cancelled");
    assert!(stream.all().pop().unwrap().get("error").is_some());
}

#[test]
fn a_tool_that_is_only_a_task_is_one_for_those_who_take_tasks_and_a_call_for_all_others() {
    let script = core().on(
        "tasks/result",
        &[Step::gate("done"), Step::result(r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#)],
    );
    let daemon = start(script);
    let result = called(&daemon, EXTENSION, "must")["result"].clone();
    assert_eq!(result["resultType"], "task", "{result}");
    let id = result["taskId"].as_str().unwrap().to_owned();
    assert_eq!(seen(&daemon, &id, "working")["resultType"], "complete");
    daemon.journal("alpha").open("done");
    let state = seen(&daemon, &id, "completed");
    assert_eq!(state["result"]["isError"], true, "spec U-36");
    assert!(state.get("ttlMs").is_some() && state.get("ttl").is_none());
    // Neither knows of a task (spec X-15).
    assert_eq!(called(&daemon, "{}", "must")["result"]["content"][0]["text"], "no");
    let mut older = daemon.stranger();
    older.initialize("2025-06-18");
    assert_eq!(older.call("alpha__must", "{}")["content"][0]["text"], "no");
    let calls = daemon.journal("alpha").received("tools/call");
    assert!(calls.iter().all(|call| call["params"]["task"]["ttl"].is_u64()), "{calls:?}");
    // What may be a call is one.
    called(&daemon, "{}", "may");
    assert!(daemon.journal("alpha").received("tools/call").pop().unwrap()["params"].get("task").is_none());
}

#[test]
fn a_task_that_nobody_waits_for_is_cancelled_at_its_server() {
    let daemon = start(core().on("tasks/result", &[Step::silence()]));
    let id = called(&daemon, EXTENSION, "must")["result"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(asked(&daemon, "tasks/cancel", &id).message()["result"]["resultType"], "complete");
    daemon.journal("alpha").awaits("tasks/cancel");
    seen(&daemon, &id, "cancelled");
    assert_eq!(asked(&daemon, "tasks/cancel", &id).message()["result"]["resultType"], "complete");
}

#[test]
fn a_slow_call_of_a_server_without_tasks_becomes_one_for_who_takes_them() {
    let slow = [Step::gate("go"), Step::result(r#"{"content":[{"type":"text","text":"at last"}]}"#)];
    let daemon = start(Script::tools(&["slow", "quick"]).on_call("slow", &slow));
    assert_eq!(called(&daemon, EXTENSION, "quick")["result"]["resultType"], "complete");
    let result = called(&daemon, EXTENSION, "slow")["result"].clone();
    assert_eq!(result["resultType"], "task", "{result}");
    let id = result["taskId"].as_str().unwrap().to_owned();
    assert_eq!(seen(&daemon, &id, "working")["taskId"], id);
    daemon.journal("alpha").open("go");
    assert_eq!(seen(&daemon, &id, "completed")["result"]["content"][0]["text"], "at last");
    assert_eq!(daemon.journal("alpha").received("tools/call").len(), 2);
    // Whoever takes none waits.
    assert_eq!(called(&daemon, "{}", "slow")["result"]["content"][0]["text"], "at last", "spec U-33");
}

#[test]
fn a_hosted_task_is_given_up_when_its_client_cancels_it() {
    let daemon = start(Script::tools(&["slow"]).on_call("slow", &[Step::silence()]));
    let id = called(&daemon, EXTENSION, "slow")["result"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(asked(&daemon, "tasks/cancel", &id).message()["result"]["resultType"], "complete");
    daemon.journal("alpha").awaits("notifications/cancelled");
    seen(&daemon, &id, "cancelled");
}

#[test]
fn a_server_that_asks_in_the_middle_of_a_call_asks_in_a_task() {
    let steps = [
        Step::ask("1", "elicitation/create", FORM),
        Step::ask("2", "elicitation/create", FORM),
        Step::result(r#"{"content":[],"structuredContent":{"answer":${answer}}}"#),
    ];
    let daemon = start(Script::tools(&["ask"]).on_call("ask", &steps));
    let result = called(&daemon, ABLE, "ask")["result"].clone();
    assert_eq!(result["resultType"], "task", "spec X-08: {result}");
    let id = result["taskId"].as_str().unwrap().to_owned();
    let mut keys = Vec::new();
    for action in ["decline", "cancel"] {
        let state = until("a question", || {
            let state = seen(&daemon, &id, "input_required");
            let key = state["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
            (!keys.contains(&key)).then(|| keys.push(key)).map(|()| state)
        });
        let key = keys.last().unwrap();
        let asked = &state["inputRequests"][key];
        assert_eq!(
            (&asked["method"], &asked["params"]["message"]),
            (&json!("elicitation/create"), &json!("Sure?"))
        );
        let answers = format!(
            r#""taskId":"{id}","inputResponses":{{"nobody-asked":{{}},"{key}":{{"action":"{action}"}}}}"#
        );
        let told = stateless(&daemon, ABLE, "tasks/update", &id, &answers).message()["result"].clone();
        assert_eq!(told["resultType"], "complete");
    }
    let state = seen(&daemon, &id, "completed");
    assert_eq!(state["result"]["structuredContent"]["answer"]["result"]["action"], "cancel");
    assert!(state.get("inputRequests").is_none());
    assert_eq!(daemon.journal("alpha").received("tools/call").len(), 1, "one execution");
}

#[test]
fn progress_of_a_task_goes_on_until_it_is_over() {
    let script = core().on_call(
        "may",
        &[created(), Step::gate("on"), Step::progress("5"), Step::progress("4"), Step::progress("6")],
    );
    let daemon = start(script);
    let client = daemon.client();
    let mut aside = client.listen();
    let params = r#"{"name":"alpha__may","arguments":{},"task":{},"_meta":{"progressToken":"mine"}}"#;
    client.result("tools/call", params);
    daemon.journal("alpha").open("on");
    for value in [5, 6] {
        let told = aside.next_message().unwrap();
        assert_eq!(
            (&told["params"]["progressToken"], &told["params"]["progress"]),
            (&json!("mine"), &json!(value)),
            "spec U-12"
        );
    }
}

// ---------------------------------------------------------------- servers that are hostile, or go

#[test]
fn a_status_of_a_process_that_was_started_again_reaches_nobody() {
    let status = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{{{}}}}}"#,
        task("completed")
    );
    let again = [Step::send(&status), Step::result(r#"{"content":[]}"#)];
    let script = core().tool("act").on_call("never", &[Step::exit(3)]).on_call("act", &again);
    let daemon = settled(&Setup::new().upstream_with("alpha", script, "share: tenant"), &["alpha"]);
    let (ann, bob) = (daemon.client(), daemon.client());
    let aside = ann.listen();
    begin(&ann, "may");
    bob.call("alpha__never", "{}");
    for _ in 0..3 {
        until("the server to be back", || {
            (bob.call("alpha__act", "{}").get("isError").is_none()).then_some(())
        });
    }
    ann.delete();
    assert!(!format!("{:?}", aside.all()).contains("tasks/status"));
}

#[test]
fn what_a_server_says_of_a_task_is_kept_and_passed_on_within_bounds() {
    let long = format!(r#"{{{},"statusMessage":"{}"}}"#, task("working"), "x".repeat(64 * 1024));
    let id = task("working").replace(r#""taskId":"1""#, &format!(r#""taskId":"{}""#, "1".repeat(257)));
    let unread = [Step::result(&format!(r#"{{"task":{{{id}}}}}"#))];
    let script = core().on_call("must", &unread).on("tasks/get", &[Step::result(&long)]);
    let daemon = settled(&Setup::one("alpha", script).process("limits: { result: 16KiB }"), &["alpha"]);
    let client = daemon.client();
    let id = begin(&client, "may");
    assert!(client.error("tasks/get", &about(&id))["message"].as_str().unwrap().len() < 1024);
    let params = r#"{"name":"alpha__must","arguments":{},"task":{}}"#;
    let refused = client.request("tools/call", params).message();
    assert!(!refused.to_string().contains("1111"), "{refused}");
    assert!(refused.to_string().contains("cannot be read"), "{refused}");
}

#[test]
fn a_question_that_takes_the_key_of_another_is_recorded_too() {
    let form = FORM.replace("Sure?", "Sure ${id}?");
    let get = format!(
        r#"{{"resultType":"complete",{},"inputRequests":{{"k":{{"method":"elicitation/create","params":{form}}}}}}}"#,
        modern_task("input_required")
    );
    let daemon = start(modern(&get));
    let id = called(&daemon, ABLE, "slow")["result"]["taskId"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let state = asked(&daemon, "tasks/get", &id).message()["result"].clone();
        assert!(state["inputRequests"]["k"].is_object(), "{state}");
    }
    until("both records", || {
        let lines = daemon.audit().into_iter().filter(|line| line["method"] == "elicitation/create");
        (lines.filter(|line| line["line"] != "intent").count() == 2).then_some(())
    });
}

#[test]
fn an_answer_that_a_server_refuses_does_not_cost_the_task() {
    let get = format!(r#"{{"resultType":"complete",{}}}"#, modern_task("working"));
    let refuses = [Step::error(r#"{"code":-32602,"message":"no such question"}"#)];
    let daemon = start(modern(&get).on("tasks/update", &refuses));
    let id = called(&daemon, ABLE, "slow")["result"]["taskId"].as_str().unwrap().to_owned();
    // Line breaks are white space, and no end of a message.
    let update =
        format!("\"taskId\":\"{id}\",\"inputResponses\":{{\n\"k\":\r\n{{\"action\":\n\"decline\"}}}}");
    let error = stateless(&daemon, ABLE, "tasks/update", &id, &update).message()["error"].clone();
    assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!("no such question")));
    let sent = daemon.journal("alpha").received("tasks/update").pop().unwrap();
    assert_eq!(sent["params"]["inputResponses"], json!({ "k": { "action": "decline" } }));
    seen(&daemon, &id, "working");
}

#[test]
fn a_server_that_takes_back_that_a_task_is_over_is_not_asked_for_ever() {
    let over = modern_task("completed");
    let status = format!(r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{{{over}}}}}"#);
    let get = format!(r#"{{"resultType":"complete",{}}}"#, modern_task("working"));
    let daemon = start(modern("{}").on("tasks/get", &[Step::send(&status), Step::result(&get)]));
    let client = daemon.client();
    let id = begin(&client, "slow");
    assert_eq!(client.error("tasks/result", &about(&id))["code"], -32602);
    assert!(daemon.journal("alpha").received("tasks/get").len() < 8);
}

#[test]
fn a_task_of_a_server_behind_a_url_outlives_its_silence() {
    let get = format!(r#"{{"resultType":"complete",{}}}"#, modern_task("working"));
    let script = modern(&get).on_cue("die", &[Step::exit(1)]);
    let daemon = settled(&Setup::one("alpha", script).reached(Reach::Http), &["alpha"]);
    let id = called(&daemon, ABLE, "slow")["result"]["taskId"].as_str().unwrap().to_owned();
    seen(&daemon, &id, "working");
    daemon.journal("alpha").cue("die");
    until("its end", || asked(&daemon, "tasks/get", &id).message().get("error").is_some().then_some(()));
    for _ in 0..3 {
        let answer = asked(&daemon, "tasks/get", &id).message();
        assert!(answer["error"]["code"].as_i64().is_some_and(|code| code != -32602), "{answer}");
    }
}
