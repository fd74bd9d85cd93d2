//! A tool is taken away from somebody who has tasks of it: they are gone with it, wherever tasks are spoken of, and whoever
//! asks is told what is told of an id that nobody has (spec T-04, U-31).

use testkit::Asker;
use wire::Era;

use super::*;
use crate::govern;

const ALL: &str = "rules: [{ name: all, effect: allow }]\n";
/// Without the tools `may` and `slow`.
const FEWER: &str =
    "default: allow\nrules: [{ name: taken, tools: [alpha__may, alpha__slow], effect: deny }]\n";

fn governed(script: Script) -> Daemon {
    let setup = Setup::one("alpha", script)
        .tenant("identity: { keys: true }\npolicies: [policies/acme.yaml]\nrunaway: off")
        .file("policies/acme.yaml", ALL);
    settled(&setup, &["alpha"])
}

fn ann(daemon: &Daemon, era: Era) -> Asker {
    let capabilities = match era {
        Era::Legacy => json!({}),
        Era::Modern => serde_json::from_str(ABLE).unwrap(),
    };
    Asker::new(daemon, "/mcp", &daemon.api_key("acme", "ann", &[]), era, capabilities)
}

/// The same server with tasks that are told apart.
fn apart() -> Script {
    let made = |id: &str| {
        let task = task("working").replacen(r#""taskId":"1""#, &format!(r#""taskId":"{id}""#), 1);
        Step::result(&format!(r#"{{"task":{{{task}}}}}"#))
    };
    let said = |id: &str, word: &str| {
        let task = task("working").replacen(r#""taskId":"1""#, &format!(r#""taskId":"{id}""#), 1);
        Step::send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{{{task},"statusMessage":"{word}"}}}}"#
        ))
    };
    core()
        .on_call("may", &[made("m1")])
        .on_call("must", &[made("m2")])
        .on_cue("says", &[said("m1", "taken"), said("m2", "left")])
}

/// Every word about a task in this era is that of an id that nobody has.
fn is_unknown(asker: &Asker, id: &str, methods: &[&str]) {
    let nobodys = "x".repeat(id.len());
    for method in methods {
        let about = |id: &str| json!({ "taskId": id, "inputResponses": {} });
        let (hidden, missing) =
            (asker.told(method, &about(id), &[id]), asker.told(method, &about(&nobodys), &[&nobodys]));
        assert_eq!(hidden, missing, "{method}");
        assert!(missing.1.contains("-32602"), "{method}: {missing:?}");
    }
}

fn listed(ann: &Asker) -> Vec<String> {
    let tasks = ann.result("tasks/list", &json!({}))["tasks"].as_array().unwrap().clone();
    tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_session_neither_lists_nor_hears_of_what_it_may_not_ask_about() {
    let daemon = governed(apart());
    let ann = ann(&daemon, Era::Legacy);
    let (may, must) = (begin(&ann.client, "may"), begin(&ann.client, "must"));
    assert_eq!(listed(&ann), [must.clone(), may.clone()]);
    let mut stream = ann.client.listen();
    govern(&daemon, FEWER);
    assert_eq!(listed(&ann), std::slice::from_ref(&must));
    is_unknown(&ann, &may, &["tasks/get", "tasks/result", "tasks/cancel"]);
    let journal = daemon.journal("alpha");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(journal.received(method), [Value::Null; 0], "{method}");
    }
    journal.cue("says");
    let heard = std::iter::from_fn(|| stream.next_message())
        .find(|message| message["method"] == "notifications/tasks/status");
    assert_eq!(heard.unwrap()["params"]["taskId"], json!(must));
    // What was taken away may be given back: it went on meanwhile.
    govern(&daemon, ALL);
    assert_eq!(listed(&ann), [must, may.clone()]);
    assert_eq!(ann.result("tasks/result", &json!({ "taskId": may }))["content"][0]["text"], "done");
}

#[test]
fn without_a_session_nothing_is_told_of_what_may_not_be_asked_about() {
    let waits = |gate: &str| [Step::gate(gate), Step::result(r#"{"content":[]}"#)];
    let script =
        Script::tools(&["slow", "quick"]).on_call("slow", &waits("slow")).on_call("quick", &waits("quick"));
    let daemon = governed(script);
    let ann = ann(&daemon, Era::Modern);
    let [slow, quick] = ["alpha__slow", "alpha__quick"].map(|tool| {
        let made = ann.result("tools/call", &json!({ "name": tool, "arguments": {} }));
        made["taskId"].as_str().unwrap().to_owned()
    });
    let wanted = json!({ "notifications": { "taskIds": [slow, quick] } });
    let mut stream = ann.begin("subscriptions/listen", &wanted);
    let both = stream.next_message().unwrap()["params"]["notifications"]["taskIds"].clone();
    assert_eq!(both, json!([slow, quick]));
    let first = [(); 2].map(|()| stream.next_message().unwrap()["params"]["taskId"].clone());
    assert!(first.contains(&json!(slow)) && first.contains(&json!(quick)), "{first:?}");
    govern(&daemon, FEWER);
    is_unknown(&ann, &slow, &["tasks/get", "tasks/update", "tasks/cancel"]);
    let mut again = ann.begin("subscriptions/listen", &wanted);
    assert_eq!(again.next_message().unwrap()["params"]["notifications"]["taskIds"], json!([quick]));
    let journal = daemon.journal("alpha");
    // The one that was taken away ends first, and is known to have: its answer is on record.
    journal.open("slow");
    let of_slow = |line: &Value| line["tool"] == "alpha__slow" && line["line"] == "outcome";
    daemon.entry("the call that ended", of_slow);
    journal.open("quick");
    let said = stream.next_message().unwrap()["params"].clone();
    assert_eq!((&said["taskId"], &said["status"]), (&json!(quick), &json!("completed")), "{said}");
    govern(&daemon, ALL);
    assert_eq!(ann.result("tasks/get", &json!({ "taskId": slow }))["status"], "completed");
}
