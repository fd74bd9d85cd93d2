//! Who is told of what changes: `resources/subscribe` in sessions, `subscriptions/listen` without.

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Request, Script, Setup, Step, Stream, until};
use wire::Kind;

use crate::{settled, token};

/// One resource to follow, one with others below it, and two tools; `touch` says that something has changed.
fn script() -> Script {
    Script::tools(&["act"])
        .resource("mem://one")
        .resource("mem:///d")
        .prompt("ask")
        .capabilities(r#"{"tools":{},"prompts":{},"resources":{"subscribe":true}}"#)
        .on("resources/subscribe", &[Step::result("{}")])
        .on("resources/unsubscribe", &[Step::result("{}")])
        .on_cue("touch", &[touched("mem://one")])
        .on_cue("again", &[touched("mem://one")])
        .on_cue("below", &[touched("mem:///d/f")])
        .on_cue("tools", &[more(Kind::Tools), Step::changed(Kind::Tools)])
        .on_cue("prompts", &[more(Kind::Prompts), Step::changed(Kind::Prompts)])
}

fn touched(uri: &str) -> Step {
    Step::send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#
    ))
}

/// Lists something else from now on.
fn more(kind: Kind) -> Step {
    Step::list(kind, &[r#"{"name":"new","inputSchema":{"type":"object"}}"#])
}

/// Everybody shares the one process of the upstream.
fn shared() -> Daemon {
    settled(&Setup::new().upstream_with("alpha", script(), "share: tenant"), &["alpha"])
}

fn follow(client: &Client, uri: &str) {
    assert_eq!(client.result("resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#)), json!({}));
}

fn leave(client: &Client, uri: &str) {
    assert_eq!(client.result("resources/unsubscribe", &format!(r#"{{"uri":"{uri}"}}"#)), json!({}));
}

/// A message of the stateless era with its headers. `id` and `members` are raw JSON.
fn modern(client: &Client, id: &str, method: &str, members: &str) -> Request {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    client.post(body).with("mcp-protocol-version", "2026-07-28").with("mcp-method", method)
}

fn ask(client: &Client, notifications: &str) -> Answer {
    client.send(&modern(client, "1", "subscriptions/listen", &format!(r#""notifications":{notifications},"#)))
}

/// Opens a listen stream, and returns what is acknowledged.
fn listen(client: &Client, id: &str, notifications: &str) -> (Stream, Value) {
    let members = format!(r#""notifications":{notifications},"#);
    let mut stream = client.begin(&modern(client, id, "subscriptions/listen", &members)).stream();
    assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
    let first = next(&mut stream, id);
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    (stream, first["params"]["notifications"].clone())
}

/// The next message, which must bear this id.
fn next(stream: &mut Stream, id: &str) -> Value {
    let message = stream.next_message().unwrap();
    let id: Value = serde_json::from_str(id).unwrap();
    assert_eq!(
        message["params"]["_meta"],
        json!({ "io.modelcontextprotocol/subscriptionId": id }),
        "{message}"
    );
    message
}

// ---------------------------------------------------------------- sessions

#[test]
fn a_server_is_subscribed_to_once_for_all_sessions_until_the_last_leaves() {
    let daemon = shared();
    let (one, two) = (daemon.client(), daemon.client());
    let mut stream = two.listen();
    for client in [&one, &two, &two] {
        follow(client, "alpha+mem://one");
    }
    let journal = daemon.journal("alpha");
    assert_eq!(journal.received("resources/subscribe").len(), 1);
    assert_eq!(journal.awaits("resources/subscribe")["params"], json!({ "uri": "mem://one" }));
    leave(&one, "alpha+mem://one");
    journal.cue("touch");
    let told = stream.next_message().unwrap();
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"], json!({ "uri": "alpha+mem://one" }));
    assert_eq!(journal.received("resources/unsubscribe").len(), 0);
    assert_eq!(two.delete().status, 204);
    assert_eq!(journal.awaits("resources/unsubscribe")["params"], json!({ "uri": "mem://one" }));
}

#[test]
fn an_update_reaches_who_follows_it_or_what_is_above_it_and_nobody_else() {
    let daemon = shared();
    let (one, two, three) = (daemon.client(), daemon.client(), daemon.client());
    let mut streams = [&one, &two, &three].map(Client::listen);
    follow(&one, "alpha+mem:///d");
    follow(&two, "alpha+mem://one");
    let journal = daemon.journal("alpha");
    journal.cue("below");
    let [first, second, third] = &mut streams;
    assert_eq!(first.next_message().unwrap()["params"]["uri"], "alpha+mem:///d/f");
    journal.cue("tools");
    for stream in [second, third] {
        assert_eq!(stream.next_message().unwrap()["method"], "notifications/tools/list_changed");
    }
}

#[test]
fn what_is_hidden_below_a_followed_resource_stays_hidden() {
    let yaml = "share: tenant\nresources: { exclude: [\"mem:///d/*\"] }";
    let daemon = settled(&Setup::new().upstream_with("alpha", script(), yaml), &["alpha"]);
    let client = daemon.client();
    let mut stream = client.listen();
    follow(&client, "alpha+mem:///d");
    assert_eq!(client.error("resources/subscribe", r#"{"uri":"alpha+mem:///d/f"}"#)["code"], -32002);
    let journal = daemon.journal("alpha");
    journal.cue("below");
    journal.cue("tools");
    assert_eq!(stream.next_message().unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(journal.received("resources/subscribe").len(), 1);
}

#[test]
fn what_cannot_be_followed_is_refused_in_a_session_and_left_out_without() {
    let plain = Script::new().resource("mem://two");
    let setup = Setup::new().upstream("alpha", script()).upstream("beta", plain);
    let daemon = settled(&setup, &["alpha", "beta"]);
    let client = daemon.client();
    let refused = client.error("resources/subscribe", r#"{"uri":"beta+mem://two"}"#);
    assert_eq!((&refused["code"], &refused["data"]["uri"]), (&json!(-32602), &json!("beta+mem://two")));
    assert_eq!(client.error("resources/subscribe", r#"{"uri":"gamma+mem://two"}"#)["code"], -32002);
    follow(&client, "alpha+mem://one");

    let wanted = r#"{"toolsListChanged":true,"resourceSubscriptions":["beta+mem://two","alpha+mem://one","gamma+x:y","alpha+mem://one"]}"#;
    let (_stream, honoured) = listen(&daemon.stranger(), "1", wanted);
    let expected = json!({ "toolsListChanged": true, "resourceSubscriptions": ["alpha+mem://one"] });
    assert_eq!(honoured, expected);
    assert_eq!(daemon.journal("beta").received("resources/subscribe").len(), 0);
}

#[test]
fn a_server_that_refuses_is_not_followed() {
    let refuses = script().on("resources/subscribe", &[Step::error(r#"{"code":-32002,"message":"no"}"#)]);
    let daemon = settled(&Setup::one("alpha", refuses), &["alpha"]);
    let client = daemon.client();
    assert_eq!(client.error("resources/subscribe", r#"{"uri":"alpha+mem://one"}"#)["code"], -32603);
    let (_stream, honoured) = listen(&client, "1", r#"{"resourceSubscriptions":["alpha+mem://one"]}"#);
    assert_eq!(honoured, json!({}));
}

#[test]
fn a_subscription_is_on_record_before_the_server_hears_of_it() {
    let audit = "state/audit/audit.jsonl";
    let script = script().on("resources/subscribe", &[Step::copy(audit), Step::result("{}")]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    follow(&daemon.client(), "alpha+mem://one");
    let known = daemon.journal("alpha").copied();
    let last: Value = serde_json::from_str(known.lines().last().unwrap()).unwrap();
    assert_eq!((&last["line"], &last["method"]), (&json!("intent"), &json!("resources/subscribe")));
}

// ---------------------------------------------------------------- without a session

#[test]
fn listeners_share_one_subscription_and_each_is_told_under_its_own_id() {
    let daemon = settled(&Setup::one("alpha", script()), &["alpha"]);
    let client = daemon.stranger();
    let wanted = r#"{"resourceSubscriptions":["alpha+mem://one"]}"#;
    let (mut text, honoured) = listen(&client, "\"s1\"", wanted);
    assert_eq!(honoured, json!({ "resourceSubscriptions": ["alpha+mem://one"] }));
    let (mut number, _) = listen(&client, "7", wanted);
    let journal = daemon.journal("alpha");
    assert_eq!(journal.received("resources/subscribe").len(), 1);
    journal.cue("touch");
    for (stream, id) in [(&mut text, "\"s1\""), (&mut number, "7")] {
        let told = next(stream, id);
        assert_eq!(told["method"], "notifications/resources/updated");
        assert_eq!(told["params"]["uri"], "alpha+mem://one");
    }
    drop(text);
    drop(number);
    journal.awaits("resources/unsubscribe");
    assert_eq!(journal.received("resources/unsubscribe").len(), 1);
}

#[test]
fn a_listener_hears_only_of_what_it_asked_for() {
    let daemon = settled(&Setup::one("alpha", script()), &["alpha"]);
    let client = daemon.stranger();
    let (mut prompts, honoured) = listen(&client, "1", r#"{"promptsListChanged":true,"x":true}"#);
    assert_eq!(honoured, json!({ "promptsListChanged": true }));
    let (mut tools, _) = listen(&client, "1", r#"{"toolsListChanged":true}"#);
    let journal = daemon.journal("alpha");
    journal.cue("tools");
    assert_eq!(next(&mut tools, "1")["method"], "notifications/tools/list_changed");
    journal.cue("prompts");
    assert_eq!(next(&mut prompts, "1")["method"], "notifications/prompts/list_changed");
}

#[test]
fn a_change_that_changes_nothing_is_not_told() {
    let storm = vec![Step::changed(Kind::Tools); 100];
    let daemon = settled(&Setup::one("alpha", script().on_cue("storm", &storm)), &["alpha"]);
    let wanted = r#"{"toolsListChanged":true,"promptsListChanged":true}"#;
    let (mut stream, _) = listen(&daemon.stranger(), "1", wanted);
    let journal = daemon.journal("alpha");
    let read = journal.received("tools/list").len();
    journal.cue("storm");
    until("the tools to be read again", || (journal.received("tools/list").len() > read).then_some(()));
    journal.cue("prompts");
    assert_eq!(next(&mut stream, "1")["method"], "notifications/prompts/list_changed");
}

#[test]
fn a_listener_is_told_when_the_gateway_ends() {
    let mut daemon = settled(&Setup::one("alpha", script()), &["alpha"]);
    let client = daemon.stranger();
    let streams = ["\"s1\"", "7"].map(|id| (listen(&client, id, r#"{"toolsListChanged":true}"#).0, id));
    daemon.terminate();
    for (stream, id) in streams {
        let id: Value = serde_json::from_str(id).unwrap();
        let messages = stream.all();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!((&messages[0]["id"], &messages[0]["result"]["resultType"]), (&id, &json!("complete")));
        assert_eq!(messages[0]["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    }
    assert_eq!(daemon.ended().code(), Some(0));
    let ends = daemon.audit().into_iter().filter(|line| line["method"] == "subscriptions/listen");
    let ends: Vec<_> = ends.map(|line| (line["line"].clone(), line["outcome"].clone())).collect();
    assert_eq!(ends.iter().filter(|end| **end == (json!("outcome"), json!("ok"))).count(), 2, "{ends:?}");
}

#[test]
fn a_listener_is_told_when_its_credential_ends() {
    let setup = Setup::one("alpha", script()).tenant("identity: { keys: true }");
    let daemon = settled(&setup, &["alpha"]);
    let made = token(&daemon, &["key", "--principal", "ann", "-o", "json"]);
    let bearer = format!("Bearer {}", made["key"].as_str().unwrap());
    let client = daemon.stranger();
    let members = r#""notifications":{"toolsListChanged":true},"#;
    let request = modern(&client, "1", "subscriptions/listen", members).with("authorization", &bearer);
    let mut stream = client.begin(&request).stream();
    assert_eq!(stream.next_message().unwrap()["method"], "notifications/subscriptions/acknowledged");
    token(&daemon, &["revoke", "principal", "ann"]);
    let messages = stream.all();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["result"]["resultType"], "complete");
    assert_eq!(client.send(&request).status, 401);
}

/// A server of the stateless era: it acknowledges what it is asked for and then tells of it.
fn stateless() -> Script {
    let discovered = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#;
    let tagged = |method: &str, members: &str| {
        Step::send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":${{id}}}}{members}}}}}"#
        ))
    };
    let listening = [
        tagged(
            "subscriptions/acknowledged",
            r#","notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["mem://one"]}"#,
        ),
        Step::gate("go"),
        tagged("resources/updated", r#","uri":"mem://one""#),
    ];
    Script::tools(&["act"])
        .resource("mem://one")
        .on("server/discover", &[Step::result(discovered)])
        .on("subscriptions/listen", &listening)
}

#[test]
fn a_server_of_the_stateless_era_is_listened_to_for_clients_of_both() {
    let daemon = settled(&Setup::new().upstream_with("alpha", stateless(), "share: tenant"), &["alpha"]);
    let client = daemon.client();
    let mut told = client.listen();
    follow(&client, "alpha+mem://one");
    let wanted = r#"{"resourceSubscriptions":["alpha+mem://one"]}"#;
    let (mut stream, honoured) = listen(&daemon.stranger(), "\"s1\"", wanted);
    assert_eq!(honoured, json!({ "resourceSubscriptions": ["alpha+mem://one"] }));
    let journal = daemon.journal("alpha");
    let asked = journal.received("subscriptions/listen");
    let wants =
        |asked: &Value| asked["params"]["notifications"]["resourceSubscriptions"] == json!(["mem://one"]);
    assert_eq!(asked.iter().filter(|asked| wants(asked)).count(), 1, "{asked:?}");
    assert_eq!(journal.received("resources/subscribe").len(), 0);
    journal.open("go");
    let message = told.next_message().unwrap();
    assert_eq!(message["params"], json!({ "uri": "alpha+mem://one" }), "{message}");
    assert_eq!(next(&mut stream, "\"s1\"")["params"]["uri"], "alpha+mem://one");
}

#[test]
fn what_cannot_be_listened_to_is_said() {
    let daemon = settled(&Setup::one("alpha", script()), &["alpha"]);
    let client = daemon.stranger();
    for (notifications, verdict) in [
        ("[]", (200, Some(-32602))),
        (r#"{"toolsListChanged":1}"#, (200, Some(-32602))),
        (r#"{"taskIds":["x"]}"#, (400, Some(-32021))),
    ] {
        assert_eq!(ask(&client, notifications).verdict(), verdict, "{notifications}");
    }
    let answer = ask(&client, r#"{"taskIds":["x"]}"#).message();
    let needed = &answer["error"]["data"]["requiredCapabilities"]["extensions"];
    assert_eq!(needed["io.modelcontextprotocol/tasks"], json!({}));
    let uris = r#""notifications":{"resourceSubscriptions":["alpha+mem://one"]},"#;
    let request = modern(&client, "1", "subscriptions/listen", uris);
    let answer = client.send(&request.with("accept", "application/json"));
    assert_eq!(answer.verdict(), (406, Some(-32600)), "{}", answer.text());
    let answer = answer.message();
    assert_eq!((&answer["id"], &answer["error"]["data"]["reason"]), (&json!(1), &json!("not_acceptable")));
    assert_eq!(daemon.journal("alpha").received("resources/subscribe").len(), 0);
}

#[test]
fn two_clients_of_one_principal_that_can_do_different_things_are_told_once_each() {
    let setup = Setup::one("alpha", script()).tenant("identity: { keys: true }");
    let daemon = settled(&setup, &["alpha"]);
    let made = token(&daemon, &["key", "--principal", "ann", "-o", "json"]);
    let bearer = format!("Bearer {}", made["key"].as_str().unwrap());
    let client = daemon.stranger();
    let ask = |session: &str, method: &str, params: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let request = client.post(body).with("authorization", &bearer);
        client.send(&if session.is_empty() { request } else { request.with("mcp-session-id", session) })
    };
    let sessions = ["{}", r#"{"elicitation":{}}"#].map(|capabilities| {
        let params = format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{capabilities}}}"#);
        ask("", "initialize", &params).header("mcp-session-id").unwrap().to_owned()
    });
    let mut streams = sessions.clone().map(|session| {
        let get = client.bare("GET").with("accept", "text/event-stream").with("authorization", &bearer);
        client.begin(&get.with("mcp-session-id", &session)).stream()
    });
    for session in &sessions {
        let followed = ask(session, "resources/subscribe", r#"{"uri":"alpha+mem://one"}"#);
        assert_eq!(followed.json()["result"], json!({}));
        // Whatever else the servers are told does not make them tell of it twice.
        assert_eq!(ask(session, "logging/setLevel", r#"{"level":"error"}"#).status, 200);
    }
    let journal = daemon.journal("alpha");
    assert_eq!(journal.received("resources/subscribe").len(), 2, "each has a process of its own");
    journal.cue("touch");
    for stream in &mut streams {
        assert_eq!(stream.next_message().unwrap()["method"], "notifications/resources/updated");
    }
    journal.cue("tools");
    for stream in &mut streams {
        assert_eq!(stream.next_message().unwrap()["method"], "notifications/tools/list_changed");
    }
    let gone = ask(&sessions[0], "resources/unsubscribe", r#"{"uri":"alpha+mem://one"}"#);
    assert_eq!(gone.json()["result"], json!({}));
    journal.awaits("resources/unsubscribe");
    journal.cue("again");
    assert_eq!(streams[1].next_message().unwrap()["method"], "notifications/resources/updated");
    assert_eq!(journal.received("resources/unsubscribe").len(), 1);
}

#[test]
fn a_storm_of_changes_is_told_a_few_times_and_its_end_is_not_lost() {
    let storm = vec![touched("mem://one"); 2000];
    let alpha = script().on_cue("storm", &storm);
    let setup = Setup::new().upstream("alpha", alpha).upstream("beta", script());
    let daemon = settled(&setup, &["alpha", "beta"]);
    let wanted = r#"{"toolsListChanged":true,"resourceSubscriptions":["alpha+mem://one","beta+mem://one"]}"#;
    let (mut stream, _) = listen(&daemon.stranger(), "1", wanted);
    daemon.journal("alpha").cue("storm");
    daemon.journal("beta").cue("touch");
    let (mut alpha, mut beta) = (0, 0);
    while beta == 0 {
        match next(&mut stream, "1")["params"]["uri"].as_str() {
            Some("alpha+mem://one") => alpha += 1,
            Some("beta+mem://one") => beta += 1,
            other => panic!("{other:?}"),
        }
    }
    daemon.journal("alpha").cue("tools");
    while next(&mut stream, "1")["method"] == "notifications/resources/updated" {
        alpha += 1;
    }
    assert!((1..=40).contains(&alpha), "{alpha}");
}

#[test]
fn nobody_follows_more_than_the_bounds() {
    let daemon = settled(&Setup::one("alpha", script()), &["alpha"]);
    let client = daemon.client();
    (0..256).for_each(|n| follow(&client, &format!("alpha+mem://{n}")));
    let refused = client.error("resources/subscribe", r#"{"uri":"alpha+mem://more"}"#);
    assert_eq!(
        (&refused["code"], &refused["data"]["reason"]),
        (&json!(-32603), &json!("too_many_subscriptions"))
    );
    assert_eq!(refused["message"], "too many subscriptions (at most 256)");
    follow(&client, "alpha+mem://0");
    let long = format!(r#"{{"uri":"alpha+mem://{}"}}"#, "x".repeat(4096));
    assert_eq!(daemon.client().error("resources/subscribe", &long)["code"], -32602);

    // However many streams a principal opens, it follows so much in all.
    let uris: Vec<_> = (0..256).map(|n| format!("\"alpha+mem://{n}\"")).collect();
    let wanted = format!(r#"{{"resourceSubscriptions":[{}]}}"#, uris.join(","));
    let stranger = daemon.stranger();
    let streams: Vec<_> = (0..9).map(|_| listen(&stranger, "1", &wanted)).collect();
    let honoured: Vec<_> = streams
        .iter()
        .map(|(_, honoured)| honoured["resourceSubscriptions"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(honoured, [256, 256, 256, 256, 256, 256, 256, 256, 0]);
}

#[test]
fn nobody_has_more_streams_than_the_bound() {
    let daemon = settled(&Setup::one("alpha", script()), &["alpha"]);
    let client = daemon.stranger();
    let mut streams: Vec<_> =
        (0..64).map(|_| listen(&client, "1", r#"{"toolsListChanged":true}"#).0).collect();
    assert_eq!(ask(&client, "{}").verdict(), (429, Some(-32603)));
    streams.pop();
    until("a place to be free", || {
        let members = r#""notifications":{},"#;
        let mut stream = client.begin(&modern(&client, "1", "subscriptions/listen", members)).stream();
        (stream.head.status == 200).then(|| stream.next_message())
    });
}

#[test]
fn what_the_stateless_era_has_not_does_not_exist_there() {
    let daemon = settled(&Setup::one("alpha", script()), &["alpha"]);
    let client = daemon.stranger();
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
    ] {
        let answer = client.send(&modern(&client, "\"x\"", method, ""));
        assert_eq!(answer.verdict(), (404, Some(-32601)), "{method}");
        assert_eq!((&answer.message()["id"], answer.header("mcp-session-id")), (&json!("x"), None));
    }
}
