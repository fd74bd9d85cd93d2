//! Servers that are hostile, or go.

use super::*;

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
    let daemon = start(modern(&asking(&form)));
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

/// The log breaks while the server is asked: the question stays where it is, and is seen once it can be recorded.
#[test]
fn a_question_that_cannot_be_recorded_is_not_shown_and_not_lost() {
    let script = modern("{}").on("tasks/get", &[Step::gate("go"), Step::result(&asking(FORM))]);
    let daemon = start(script);
    let id = called(&daemon, ABLE, "slow")["result"]["taskId"].as_str().unwrap().to_owned();
    let audit = daemon.folder().audit();
    let folder = audit.parent().unwrap();
    std::thread::scope(|scope| {
        let look = scope.spawn(|| asked(&daemon, "tasks/get", &id).message());
        daemon.journal("alpha").awaits("tasks/get");
        std::fs::remove_dir_all(folder).unwrap();
        std::fs::write(folder, "").unwrap();
        daemon.journal("alpha").open("go");
        let message = look.join().unwrap();
        assert_eq!(message["error"]["code"], -32603, "{message}");
        assert!(!message.to_string().contains("Sure?"), "{message}");
    });
    std::fs::remove_file(folder).unwrap();
    std::fs::create_dir(folder).unwrap();
    let state = until("the question", || {
        let message = asked(&daemon, "tasks/get", &id).message();
        message["result"]["inputRequests"].is_object().then(|| message["result"].clone())
    });
    assert_eq!(state["inputRequests"]["k"]["params"]["message"], "Sure?", "{state}");
    asked(&daemon, "tasks/get", &id);
    let lines = daemon
        .entry("the question", |line| line["method"] == "elicitation/create" && line["outcome"] == "ok");
    assert_eq!(lines.iter().filter(|line| line["outcome"] == "ok").count(), 1, "{lines:?}");
}
