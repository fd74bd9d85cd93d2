//! Tasks of the extension on both sides.

use super::*;

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
    let daemon = start(modern(&asking(FORM)));
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
