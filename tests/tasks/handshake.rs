//! Tasks of 2025-11-25 on both sides.

use testkit::Stream;

use super::*;

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

/// What a process asks may be about any of its calls; which one, the message says (spec U-30).
#[test]
fn of_two_tasks_of_one_process_each_is_asked_for_by_its_name_or_nobody_is() {
    let named = |task: &str| {
        format!(
            r#"{{"message":"for ${{id}}","requestedSchema":{{"type":"object","properties":{{}}}},"_meta":{{"{RELATED}":{task}}}}}"#
        )
    };
    let ask = |task: &str| Step::ask(r#""q${id}""#, "elicitation/create", &named(task));
    let told = Step::result(r#"{"content":[],"structuredContent":{"answer":${answer},"of":${params}}}"#);
    let made = task("working").replace(r#""1""#, r#""t${id}""#);
    for (task, is_known) in [("${params}", true), (r#"{"taskId":"invented"}"#, false), ("7", false)] {
        // Both are open until both were answered: a single one would be asked.
        let steps = [Step::gate("both"), ask(task), Step::gate("told"), told.clone()];
        let script = core()
            .on_call("may", &[Step::result(&format!(r#"{{"task":{{{made}}}}}"#))])
            .on("tasks/result", &steps);
        let daemon = start(script);
        let mut client = daemon.stranger();
        client.initialize_with("2025-11-25", r#"{"elicitation":{}}"#);
        let ids = [(); 2].map(|()| begin(&client, "may"));
        let begun = ids.each_ref().map(|id| client.start("tasks/result", &about(id)));
        let journal = daemon.journal("alpha");
        until("both requests", || (journal.received("tasks/result").len() == 2).then_some(()));
        journal.open("both");
        let messages = if is_known {
            let mut streams = begun.map(|pending| pending.stream());
            for (id, stream) in ids.iter().zip(&mut streams) {
                let question = stream.next_message().unwrap();
                assert_eq!(question["params"]["_meta"][RELATED], json!({ "taskId": id }), "{question}");
                let answer = json!({ "action": "accept", "content": { "of": id } });
                let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{answer}}}"#, question["id"]);
                assert_eq!(client.say(&body).status, 202);
            }
            journal.open("told");
            streams.map(Stream::all)
        } else {
            until("both answers", || (journal.answers().len() == 2).then_some(()));
            journal.open("told");
            begun.map(|pending| pending.answer().messages())
        };
        for (id, messages) in ids.iter().zip(messages) {
            let result = messages.last().unwrap()["result"].clone();
            let answer = &result["structuredContent"]["answer"];
            match is_known {
                true => assert_eq!(answer["result"]["content"]["of"], json!(id), "{result}"),
                false => assert_eq!(answer["error"]["code"], -32602, "{result}"),
            }
            assert_eq!(result["_meta"][RELATED]["taskId"], json!(id));
        }
    }
}

#[test]
fn a_task_whose_tool_is_gone_is_unknown() {
    let gone = [
        Step::list(Kind::Tools, &[r#"{"name":"other","inputSchema":{"type":"object"}}"#]),
        Step::changed(Kind::Tools),
    ];
    let daemon = start(core().on_cue("gone", &gone));
    let client = daemon.client();
    let id = begin(&client, "may");
    client.result("tasks/get", &about(&id));
    daemon.journal("alpha").cue("gone");
    until("the tool to be gone", || (client.names(Kind::Tools) == ["alpha__other"]).then_some(()));
    let before = daemon.journal("alpha").received("tasks/get").len();
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(client.error(method, &about(&id))["code"], -32602, "{method}");
    }
    assert_eq!(daemon.journal("alpha").received("tasks/get").len(), before);
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
