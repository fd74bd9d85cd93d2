//! Tasks between the eras, and calls that become tasks here.

use super::*;

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
    let daemon = start(modern(&asking(FORM)));
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
