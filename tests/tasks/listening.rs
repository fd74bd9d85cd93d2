//! Who is told how far a task is: a modern client that listens for it, its owner and nobody else (spec U-26, U-29, U-31).

use testkit::{Request, Stream};

use super::*;
use crate::token;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The same two servers are played over standard input and output and over HTTP.
const REACHES: [Reach; 2] = [Reach::Stdio, Reach::Http];

fn reached(script: Script, reach: Reach) -> Daemon {
    settled(&Setup::one("alpha", script).reached(reach), &["alpha"])
}

/// A request to listen for these tasks.
fn request(client: &Client, capabilities: &str, ids: &[&str]) -> Request {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"mine","method":"subscriptions/listen","params":{{"notifications":{{"taskIds":{}}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}}}}}}}"#,
        json!(ids)
    );
    let request = client.post(body).with("mcp-method", "subscriptions/listen");
    request.with("mcp-protocol-version", "2026-07-28")
}

/// Listens for these tasks, and returns which of them are acknowledged.
fn listens(client: &Client, request: &Request) -> (Stream, Value) {
    let mut stream = client.begin(request).stream();
    let first = stream.next_message().unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    assert_eq!(first["params"]["_meta"], json!({ SUBSCRIPTION: "mine" }));
    (stream, first["params"]["notifications"]["taskIds"].clone())
}

fn listen(daemon: &Daemon, id: &str) -> Stream {
    let client = daemon.stranger();
    let (stream, granted) = listens(&client, &request(&client, ABLE, &["nope", id, id]));
    assert_eq!(granted, json!([id]), "what is nobody's is left out");
    stream
}

/// What the next notification says of this task.
fn told(stream: &mut Stream, id: &str, status: &str) -> Value {
    let message = stream.next_message().expect("the stream ended");
    assert_eq!(message["method"], "notifications/tasks", "{message}");
    let said = message["params"].clone();
    assert_eq!((&said["taskId"], &said["status"]), (&json!(id), &json!(status)), "{said}");
    assert_eq!(said["_meta"], json!({ SUBSCRIPTION: "mine" }), "spec U-25");
    assert!(
        said.get("ttl").is_none() && said.get("resultType").is_none() && said["ttlMs"].is_u64(),
        "{said}"
    );
    said
}

/// What came on the streams until the gateway ended: nothing but that it did.
fn ends(daemon: &mut Daemon, streams: Vec<Stream>) {
    daemon.terminate();
    for stream in streams {
        let left = stream.all();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(left[0]["result"]["resultType"], "complete", "{left:?}");
    }
}

fn status(id: &str, status: &str, more: &str) -> Step {
    let task = task(status).replacen(r#""taskId":"1""#, &format!(r#""taskId":"{id}""#), 1);
    Step::send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{{{task}{more}}}}}"#
    ))
}

/// A modern server whose task is over once the gate `done` is open, and that says so to whoever listens if it `tells`.
fn turning(tells: bool, poll: &str) -> Script {
    let task = |status: &str| {
        modern_task(status).replace(r#""pollIntervalMs":50"#, &format!(r#""pollIntervalMs":{poll}"#))
    };
    let over = format!(
        r#"{{"resultType":"complete",{},"result":{{"resultType":"complete","content":[{{"type":"text","text":"late"}}]}}}}"#,
        task("completed")
    );
    let now = Step::when(
        "done",
        &[Step::result(&format!(r#"{{"resultType":"complete",{}}}"#, task("working")))],
        &[Step::result(&over)],
    );
    let created = Step::result(&format!(r#"{{"resultType":"task",{}}}"#, task("working")));
    let tagged = |method: &str, members: &str| {
        Step::send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{{members},"_meta":{{"{SUBSCRIPTION}":${{id}}}}}}}}"#
        ))
    };
    let acknowledges = tagged("subscriptions/acknowledged", r#""notifications":{"taskIds":["1"]}"#);
    let says = tagged("tasks", &task("completed"));
    let listening = match tells {
        true => vec![acknowledges, Step::gate("done"), says, Step::silence()],
        false => vec![Step::error(r#"{"code":-32601,"message":"no"}"#)],
    };
    modern("{}").on_call("slow", &[created]).on("tasks/get", &[now]).on("subscriptions/listen", &listening)
}

#[test]
fn a_listener_is_told_of_a_task_of_ours_from_where_it_is_to_its_end() {
    let slow = [Step::gate("go"), Step::result(r#"{"content":[{"type":"text","text":"at last"}]}"#)];
    for reach in REACHES {
        let mut daemon = reached(Script::tools(&["slow"]).on_call("slow", &slow), reach);
        let id = called(&daemon, EXTENSION, "slow")["result"]["taskId"].as_str().unwrap().to_owned();
        let (mut one, mut two) = (listen(&daemon, &id), listen(&daemon, &id));
        told(&mut one, &id, "working");
        told(&mut two, &id, "working");
        daemon.journal("alpha").open("go");
        for stream in [&mut one, &mut two] {
            let said = told(stream, &id, "completed");
            let seen = asked(&daemon, "tasks/get", &id).message()["result"].clone();
            for key in ["createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "result"] {
                assert_eq!(said[key], seen[key], "as `tasks/get` says it");
            }
            assert_eq!(said["result"]["content"][0]["text"], "at last");
        }
        // One that is over is told once, to whoever comes late too.
        let mut late = listen(&daemon, &id);
        told(&mut late, &id, "completed");
        ends(&mut daemon, vec![one, two, late]);
    }
}

#[test]
fn what_a_task_asks_is_told_and_answered_by_an_update() {
    let steps = [
        Step::ask("1", "elicitation/create", FORM),
        Step::ask("2", "elicitation/create", FORM),
        Step::result(r#"{"content":[],"structuredContent":{"answer":${answer}}}"#),
    ];
    let daemon = start(Script::tools(&["ask"]).on_call("ask", &steps));
    let id = called(&daemon, ABLE, "ask")["result"]["taskId"].as_str().unwrap().to_owned();
    let mut stream = listen(&daemon, &id);
    let mut answered = 0;
    let state = loop {
        let message = stream.next_message().unwrap();
        let said = message["params"].clone();
        match said["status"].as_str().unwrap() {
            "working" => assert!(said.get("inputRequests").is_none()),
            "input_required" => {
                let (key, question) = said["inputRequests"].as_object().unwrap().iter().next().unwrap();
                assert_eq!(question["params"]["message"], "Sure?");
                let update =
                    format!(r#""taskId":"{id}","inputResponses":{{"{key}":{{"action":"decline"}}}}"#);
                stateless(&daemon, ABLE, "tasks/update", &id, &update);
                answered += 1;
            }
            _ => break said,
        }
    };
    assert_eq!((&state["status"], answered), (&json!("completed"), 2), "{state}");
    assert_eq!(state["result"]["structuredContent"]["answer"]["result"]["action"], "decline");
}

#[test]
fn a_task_of_a_modern_server_is_told_of_whether_that_server_tells_or_not() {
    for (tells, poll) in [(true, "30000"), (false, "50")] {
        for reach in REACHES {
            let mut daemon = reached(turning(tells, poll), reach);
            let id = called(&daemon, EXTENSION, "slow")["result"]["taskId"].as_str().unwrap().to_owned();
            let mut stream = listen(&daemon, &id);
            told(&mut stream, &id, "working");
            let journal = daemon.journal("alpha");
            let wanted = journal.awaits("subscriptions/listen")["params"].clone();
            assert_eq!(wanted["notifications"], json!({ "taskIds": ["1"] }));
            let declared = &wanted["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            assert!(declared["extensions"].get("io.modelcontextprotocol/tasks").is_some(), "{wanted}");
            journal.open("done");
            let said = told(&mut stream, &id, "completed");
            assert_eq!(said["result"]["content"][0]["text"], "late");
            let asked = journal.received("tasks/get");
            assert!(asked.iter().all(|get| get["params"]["taskId"] == "1"), "{asked:?}");
            ends(&mut daemon, vec![stream]);
        }
    }
}

#[test]
fn a_session_hears_how_its_task_of_a_modern_server_stands() {
    for reach in REACHES {
        let daemon = reached(turning(true, "30000"), reach);
        let (client, other) = (daemon.client(), daemon.client());
        let (mut stream, strange) = (client.listen(), other.listen());
        let id = begin(&client, "slow");
        let journal = daemon.journal("alpha");
        journal.awaits("subscriptions/listen");
        journal.open("done");
        let said = loop {
            let message = stream.next_message().expect("the stream ended");
            if message["method"] == "notifications/tasks/status" {
                break message["params"].clone();
            }
        };
        assert_eq!((&said["taskId"], &said["status"]), (&json!(id), &json!("completed")), "{said}");
        assert!(
            said["ttl"].is_u64() && said.get("ttlMs").is_none() && said.get("result").is_none(),
            "{said}"
        );
        assert_eq!(client.result("tasks/result", &about(&id))["content"][0]["text"], "late");
        other.delete();
        let heard = strange.all();
        assert!(heard.iter().all(|message| message["method"] != "notifications/tasks/status"), "{heard:?}");
    }
}

#[test]
fn what_a_legacy_server_says_of_its_task_is_told_of_the_one_that_waits_for_it() {
    let script = core().on(
        "tasks/result",
        &[
            Step::gate("half"),
            status("1", "working", r#","statusMessage":"half way""#),
            Step::gate("done"),
            Step::result(r#"{"content":[{"type":"text","text":"done"}]}"#),
        ],
    );
    for reach in REACHES {
        let mut daemon = reached(script.clone(), reach);
        let id = called(&daemon, EXTENSION, "must")["result"]["taskId"].as_str().unwrap().to_owned();
        let mut stream = listen(&daemon, &id);
        told(&mut stream, &id, "working");
        daemon.journal("alpha").awaits("tasks/result");
        daemon.journal("alpha").open("half");
        assert_eq!(told(&mut stream, &id, "working")["statusMessage"], "half way");
        daemon.journal("alpha").open("done");
        assert_eq!(told(&mut stream, &id, "completed")["result"]["content"][0]["text"], "done");
        ends(&mut daemon, vec![stream]);
    }
}

/// Ann begins a task in a session, of a server of 2025-11-25, and listens for it without one. Bob has one too, of the same
/// process, and listens for both.
#[test]
fn nobody_is_told_of_the_task_of_somebody_else() {
    let result = r#"{"content":[{"type":"text","text":"marker"}],"structuredContent":{"of":${params}}}"#;
    let script = core()
        .on_call(
            "may",
            &[Step::result(&format!(
                r#"{{"task":{{{}}}}}"#,
                task("working").replace(r#""1""#, r#""t${id}""#)
            ))],
        )
        .on(
            "tasks/get",
            &[Step::when(
                "done",
                &[Step::result(&format!("{{{}}}", task("working")))],
                &[Step::result(&format!("{{{}}}", task("completed")))],
            )],
        )
        .on("tasks/result", &[Step::result(result)]);
    let setup = Setup::new().upstream_with("alpha", script, "share: tenant");
    let mut daemon = settled(&setup.tenant("identity: { keys: true }"), &["alpha"]);
    let bearer = |name: &str| {
        let made = token(&daemon, &["key", "--principal", name, "-o", "json"]);
        format!("Bearer {}", made["key"].as_str().unwrap())
    };
    let keys = ["ann", "bob"].map(bearer);
    let client = daemon.stranger();
    let ids = keys.each_ref().map(|key| {
        let say = |request: Request| client.send(&request.with("authorization", key));
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
        let session = say(client.post(hello)).header("mcp-session-id").unwrap().to_owned();
        let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"alpha__may","arguments":{},"task":{}}}"#;
        let answer = say(client.post(call).with("mcp-session-id", &session)).messages().pop().unwrap();
        answer["result"]["task"]["taskId"].as_str().unwrap().to_owned()
    });
    let both = [ids[0].as_str(), ids[1].as_str()];
    let mut streams = Vec::new();
    for (key, own) in keys.iter().zip(&ids) {
        let wanted = request(&client, ABLE, &both).with("authorization", key);
        let (mut stream, granted) = listens(&client, &wanted);
        assert_eq!(granted, json!([own]));
        assert_eq!(told(&mut stream, own, "working")["ttlMs"], 60000);
        streams.push(stream);
    }
    // Nor is anybody at another endpoint, or without a name: for them neither task exists.
    assert_eq!(client.send(&request(&client, ABLE, &both)).status, 401);
    daemon.journal("alpha").open("done");
    let outcomes: Vec<Value> = streams
        .iter_mut()
        .zip(&ids)
        .map(|(stream, own)| {
            let said = told(stream, own, "completed");
            assert_eq!(both.iter().filter(|id| said.to_string().contains(**id)).count(), 1, "{said}");
            said["result"]["structuredContent"]["of"]["taskId"].clone()
        })
        .collect();
    assert_ne!(outcomes[0], outcomes[1], "each is of the server's own task");
    ends(&mut daemon, streams);
}

#[test]
fn tasks_are_listened_for_by_those_who_take_them_and_named_by_their_ids() {
    let daemon = start(modern("{}"));
    let client = daemon.stranger();
    let refused = client.send(&request(&client, "{}", &["x"]));
    assert_eq!(refused.verdict(), (400, Some(-32021)), "spec U-29");
    let needed = &refused.message()["error"]["data"]["requiredCapabilities"]["extensions"];
    assert_eq!(needed["io.modelcontextprotocol/tasks"], json!({}));
    let body = String::from_utf8(request(&client, ABLE, &[]).bytes("127.0.0.1:1".parse().unwrap())).unwrap();
    assert!(body.contains(r#""taskIds":[]"#));
    let (_stream, granted) = listens(&client, &request(&client, ABLE, &["x"]));
    assert_eq!(granted, Value::Null);
}

#[test]
fn a_large_result_is_told_too_and_one_stream_tells_of_so_many_tasks() {
    let slow = [Step::gate("go"), Step::big(300_000)];
    let daemon = start(Script::tools(&["slow"]).on_call("slow", &slow));
    let id = called(&daemon, EXTENSION, "slow")["result"]["taskId"].as_str().unwrap().to_owned();
    let mut stream = listen(&daemon, &id);
    told(&mut stream, &id, "working");
    daemon.journal("alpha").open("go");
    let said = told(&mut stream, &id, "completed");
    assert_eq!(said["result"]["content"][0]["text"].as_str().unwrap().len(), 300_000);
}
