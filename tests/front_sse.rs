//! HTTP+SSE, the transport of 2024-11-05, in front of the gateway (spec S-01 to S-06, S-10).

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Request, Script, Setup, Step, Stream, within};
use wire::Kind;

use crate::{HANDSHAKES, settled, token};

/// `slow` reports progress and waits at gate `go`; `asks` samples; `grows` adds a tool on cue.
fn script() -> Script {
    let sample = r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9}"#;
    let told = r#"{"content":[{"type":"text","text":"told"}],"structuredContent":{"answer":${answer}}}"#;
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"d"}}"#;
    Script::tools(&["act", "slow", "asks", "logs"])
        .capabilities(r#"{"tools":{"listChanged":true},"logging":{}}"#)
        .on("logging/setLevel", &[Step::result("{}")])
        .on_call(
            "slow",
            &[
                Step::progress("1"),
                Step::gate("go"),
                Step::progress("2"),
                Step::result(r#"{"content":[{"type":"text","text":"late"}]}"#),
            ],
        )
        .on_call("asks", &[Step::ask("1", "sampling/createMessage", sample), Step::result(told)])
        .on_call("logs", &[Step::send(log), Step::result(r#"{"content":[]}"#)])
        .on_cue("grow", &[Step::list(Kind::Tools, &[TOOL]), Step::changed(Kind::Tools)])
}

const TOOL: &str = r#"{"name":"grown","inputSchema":{"type":"object"}}"#;

fn setup() -> Setup {
    Setup::one("alpha", script()).process("legacy_sse: true").tenant("allow: [sampling, roots]")
}

fn daemon() -> Daemon {
    settled(&setup(), &["alpha"])
}

/// One connection: its stream, and where its messages go.
struct Line {
    client: Client,
    stream: Stream,
    bearer: Option<String>,
}

impl Line {
    /// Opens one and reads its first event.
    fn open(daemon: &Daemon, path: &str, bearer: Option<&str>) -> Line {
        let mut client = daemon.stranger();
        let mut stream = client.begin(&get(path, bearer)).stream();
        assert_eq!(stream.head.status, 200);
        assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
        stream.reads(b"\n\n");
        let first = String::from_utf8(stream.raw.clone()).unwrap();
        let uri = first.strip_prefix("event: endpoint\ndata: ").unwrap().split('\n').next().unwrap();
        client.path = uri.to_owned();
        Line { client, stream, bearer: bearer.map(str::to_owned) }
    }

    /// Opens one and shakes hands on it.
    fn within(daemon: &Daemon, revision: &str, capabilities: &str) -> Line {
        let mut line = Line::open(daemon, "/sse", None);
        line.initialize(revision, capabilities);
        line
    }

    fn initialize(&mut self, revision: &str, capabilities: &str) -> Value {
        let params = format!(
            r#"{{"protocolVersion":"{revision}","capabilities":{capabilities},"clientInfo":{{"name":"t","version":"1"}}}}"#
        );
        let answer = self.request("0", "initialize", &params);
        taken(&self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
        answer
    }

    fn say(&self, body: &str) -> Answer {
        self.client.send(&post(&self.client.path, body, self.bearer.as_deref()))
    }

    fn ask(&self, id: &str, method: &str, params: &str) {
        taken(&self.say(&message(id, method, params)));
    }

    /// Asks, and reads the next message of the stream.
    fn request(&mut self, id: &str, method: &str, params: &str) -> Value {
        self.ask(id, method, params);
        self.next()
    }

    fn call(&self, id: &str, tool: &str) {
        let params =
            format!(r#"{{"name":"alpha__{tool}","arguments":{{}},"_meta":{{"progressToken":{id}}}}}"#);
        self.ask(id, "tools/call", &params);
    }

    fn next(&mut self) -> Value {
        self.stream.next_message().expect("the stream ended")
    }
}

fn message(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// As such clients send it: without the headers that later transports want.
fn post(path: &str, body: &str, bearer: Option<&str>) -> Request {
    dressed(Request::post(path, body).without("accept"), bearer)
}

fn get(path: &str, bearer: Option<&str>) -> Request {
    dressed(Request::new("GET", path).with("accept", "text/event-stream"), bearer)
}

fn dressed(request: Request, bearer: Option<&str>) -> Request {
    match bearer {
        Some(bearer) => request.with("authorization", bearer),
        None => request,
    }
}

/// Taken, and nothing more said there (spec S-03).
fn taken(answer: &Answer) {
    assert_eq!((answer.status, answer.text()), (202, ""));
    assert_eq!(answer.header("mcp-session-id"), None);
}

fn send(daemon: &Daemon, request: &Request) -> Answer {
    daemon.stranger().send(request)
}

#[test]
fn it_is_off_unless_it_is_turned_on() {
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"]);
    for path in ["/sse", "/sse/", "/sse/default", "/t/acme/sse"] {
        assert_eq!(send(&daemon, &get(path, None)).status, 404, "{path}");
    }
    for path in ["/messages", "/messages?key=1", "/t/acme/messages/default"] {
        assert_eq!(send(&daemon, &post(path, "{}", None)).status, 404, "{path}");
    }
}

#[test]
fn both_transports_stand_side_by_side_under_the_same_prefixes() {
    let daemon = daemon();
    let mcp = daemon.client();
    for (path, messages) in [
        ("/sse", "/messages?key="),
        ("/sse/", "/messages?key="),
        ("/sse/default", "/messages/default?key="),
        ("/t/acme/sse", "/t/acme/messages?key="),
        ("/t/acme/sse/default/", "/t/acme/messages/default?key="),
    ] {
        let mut line = Line::open(&daemon, path, None);
        let key = line.client.path.strip_prefix(messages).unwrap_or_else(|| panic!("{}", line.client.path));
        assert_eq!(key.len(), 48, "unguessable (spec S-02)");
        line.initialize("2024-11-05", "{}");
        let tools = line.request("1", "tools/list", "{}");
        assert_eq!(
            (&tools["id"], &tools["result"]["tools"]),
            (&json!(1), &mcp.result("tools/list", "{}")["tools"])
        );
    }
    // What is at the one address is not at the other.
    let answer = send(&daemon, &get("/mcp", None));
    assert_eq!(answer.status, 400);
    assert!(!answer.text().contains("endpoint"));
    for (request, allowed) in [(post("/sse", "{}", None), "GET"), (get("/messages", None), "POST")] {
        let answer = send(&daemon, &request);
        assert_eq!((answer.status, answer.header("allow")), (405, Some(allowed)));
    }
    for path in ["/sse/none", "/t/none/sse", "/sse/a/b"] {
        assert_eq!(send(&daemon, &get(path, None)).status, 404, "{path}");
    }
}

#[test]
fn whatever_is_said_comes_on_the_stream() {
    let daemon = daemon();
    let mut line = Line::within(&daemon, "2024-11-05", "{}");
    line.call("7", "slow");
    let progress = line.next();
    assert_eq!(progress["params"]["progressToken"], 7);
    // Others go on meanwhile, and an error is an answer like any.
    line.call("8", "act");
    assert_eq!(line.next()["id"], 8);
    for (id, method, params, code) in [
        ("9", "no/such", "{}", -32601),
        ("\"ten\"", "tools/call", r#"{"name":"alpha__none"}"#, -32602),
        ("7", "tools/call", r#"{"name":"alpha__act"}"#, -32600), // in use
        ("11", "initialize", r#"{"protocolVersion":"2024-11-05","capabilities":{}}"#, -32600),
    ] {
        let answer = line.request(id, method, params);
        assert_eq!((answer["id"].to_string(), &answer["error"]["code"]), (id.to_owned(), &json!(code)));
    }
    daemon.journal("alpha").open("go");
    assert_eq!(line.next()["params"]["progress"], 2);
    assert_eq!(line.next()["result"]["content"][0]["text"], "late");
    line.call("12", "logs");
    assert_eq!(line.next()["method"], "notifications/message");
    assert_eq!(line.next()["id"], 12);
    daemon.journal("alpha").cue("grow");
    assert_eq!(line.next()["method"], "notifications/tools/list_changed");
    let tools = line.request("13", "tools/list", "{}");
    assert_eq!(tools["result"]["tools"][0]["name"], "alpha__grown");
    let raw = String::from_utf8(line.stream.raw.clone()).unwrap();
    assert_eq!(raw.matches("event: ").count(), raw.matches("event: message\ndata: {").count() + 1, "{raw}");
    assert!(!raw.contains("id: ") || !raw.lines().any(|line| line.starts_with("id: ")), "{raw}");
}

#[test]
fn what_is_no_message_is_told_by_http_and_what_wants_no_answer_gets_none() {
    let daemon = daemon();
    let mut line = Line::within(&daemon, "2024-11-05", "{}");
    for (body, verdict) in [
        ("{", (400, Some(-32700))),
        (r#"{"jsonrpc":"2.0","id":1}"#, (400, Some(-32600))),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, (400, Some(-32600))),
    ] {
        assert_eq!(line.say(body).verdict(), verdict, "{body}");
    }
    let body = message("1", "ping", "{}");
    let typed = post(&line.client.path, &body, None).with("content-type", "text/plain");
    assert_eq!(send(&daemon, &typed).status, 415);
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/foo"}"#,
        r#"{"jsonrpc":"2.0","id":77,"result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    ] {
        taken(&line.say(body));
    }
    assert_eq!(
        line.request("2", "ping", "{}"),
        json!({"jsonrpc":"2.0","id":2,"result":{}}),
        "nothing before it"
    );
}

#[test]
fn any_handshake_revision_may_be_negotiated_and_no_other() {
    let daemon = daemon();
    for (asked, agreed) in HANDSHAKES {
        let mut line = Line::open(&daemon, "/sse", None);
        let before = line.request("5", "tools/list", "{}");
        assert_eq!((&before["id"], &before["error"]["code"]), (&json!(5), &json!(-32600)), "{before}");
        assert_eq!(line.initialize(asked, "{}")["result"]["protocolVersion"], agreed);
        let modern = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;
        let refused = line.request("6", "tools/list", modern);
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(6), &json!(-32600)), "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("/mcp"), "{refused}");
        // What the header says does not matter.
        let body = message("7", "ping", "{}");
        let request = post(&line.client.path, &body, None);
        for revision in ["2024-11-05", "2026-07-28", "nonsense"] {
            taken(&send(&daemon, &request.clone().with("mcp-protocol-version", revision)));
            assert_eq!(line.next()["id"], 7);
        }
    }
}

#[test]
fn of_two_handshakes_at_once_the_first_goes_on() {
    let setup = Setup::one("alpha", script().at_start(&[Step::gate("up")])).process("legacy_sse: true");
    let daemon = setup.start(crate::PORTCULLIS);
    daemon.journal("alpha").waits_at("up");
    let mut line = Line::open(&daemon, "/sse", None);
    let hello = |id: &str| {
        message(
            id,
            "initialize",
            r#"{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#,
        )
    };
    // It is answered once the server is there, or has taken too long.
    let mut begun = line.client.begin(&post(&line.client.path, &hello("0"), None));
    taken(&line.say(&hello("1")));
    daemon.journal("alpha").open("up");
    taken(&begun.answer());
    // Whichever was first goes on, and the other is told so.
    let mut told = [line.next(), line.next()];
    told.sort_by_key(|message| message["result"].is_object());
    assert_eq!(told[0]["error"]["data"]["reason"], "session_exists", "{told:?}");
    assert!(told[1]["result"].is_object() && told[0]["id"] != told[1]["id"], "{told:?}");
    taken(&line.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    assert_eq!(line.request("2", "ping", "{}")["result"], json!({}));
    // One that came to nothing keeps nobody from another.
    let mut other = Line::open(&daemon, "/sse", None);
    let refused = other.request("0", "initialize", "{}");
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    other.initialize("2024-11-05", "{}");
    assert_eq!(other.request("2", "ping", "{}")["result"], json!({}));
}

#[test]
fn batches_are_answered_one_by_one_in_the_revision_that_has_them() {
    let daemon = daemon();
    let mut line = Line::within(&daemon, "2025-03-26", "{}");
    let batch = |bodies: &[String]| format!("[{}]", bodies.join(","));
    let pings = [message("1", "ping", "{}"), message("2", "ping", "{}")];
    taken(&line.say(&batch(&pings)));
    let mut ids = [line.next(), line.next()].map(|answer| answer["id"].as_u64());
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
    let opens = message("3", "initialize", r#"{"protocolVersion":"2025-03-26"}"#);
    assert_eq!(line.say(&batch(&[opens])).verdict(), (400, Some(-32600)));
    assert_eq!(line.request("4", "ping", "{}")["id"], 4);
}

#[test]
fn a_server_asks_the_client_whose_call_it_is() {
    let daemon = daemon();
    let lines = [(); 2].map(|()| Line::within(&daemon, "2024-11-05", r#"{"sampling":{}}"#));
    lines.iter().for_each(|line| line.call("1", "asks"));
    for (mut line, marker) in lines.into_iter().zip(["one", "two"]) {
        let asked = line.next();
        assert_eq!(asked["method"], "sampling/createMessage");
        let result = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"role":"assistant","content":{{"type":"text","text":"{marker}"}},"model":"m"}}}}"#,
            asked["id"]
        );
        taken(&line.say(&result));
        let told = line.next().to_string();
        assert!(told.contains(marker) && told.contains(r#""id":1"#), "{told}");
    }
}

#[test]
fn a_connection_is_its_owners_and_a_stranger_is_let_in_nowhere() {
    let setup = setup().tenant("identity: { keys: true }").process("allowed_origins: [https://page.example]");
    let daemon = settled(&setup, &["alpha"]);
    let key = |name: &str| {
        let made = token(&daemon, &["key", "--principal", name, "-o", "json"]);
        format!("Bearer {}", made["key"].as_str().unwrap())
    };
    let (ann, bob) = (key("ann"), key("bob"));
    let mut line = Line::open(&daemon, "/sse", Some(&ann));
    line.initialize("2024-11-05", "{}");
    let path = line.client.path.clone();
    let ping = message("1", "ping", "{}");

    assert_eq!(send(&daemon, &post(&path, &ping, Some(&bob))).status, 404);
    for request in [get("/sse", None), post(&path, &ping, None), post("/messages", &ping, None)] {
        let answer = send(&daemon, &request);
        assert_eq!(answer.status, 401);
        assert!(answer.header("www-authenticate").is_some());
    }
    for path in
        ["/messages", "/messages?key=", "/messages?key=0", &path.replace("messages", "messages/default")]
    {
        let served = path.contains("default?"); // the same virtual server by its name
        let status = send(&daemon, &post(path, &ping, Some(&ann))).status;
        assert_eq!(status, if served { 202 } else { 404 }, "{path}");
    }
    // Neither a page nor a rebound name gets further with a good credential.
    for request in [get("/sse", Some(&ann)), post(&path, &ping, Some(&ann))] {
        assert_eq!(send(&daemon, &request.clone().with("origin", "https://evil.example")).status, 403);
        assert_eq!(send(&daemon, &request.clone().with("host", "evil.example")).status, 403);
    }
    let listed = post(&path, &ping, Some(&ann)).with("origin", "https://page.example");
    let answer = send(&daemon, &listed);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://page.example"));
    // A session of this transport is none of the other.
    let key = path.split("key=").nth(1).unwrap();
    let other =
        post("/mcp", &ping, Some(&ann)).with("accept", "application/json").with("mcp-session-id", key);
    assert_eq!(send(&daemon, &other).status, 404);

    // The two pings of the owner were answered, nobody else's.
    for _ in 0..2 {
        assert_eq!(line.next()["id"], 1);
    }
    let mut of_bob = Line::open(&daemon, "/sse", Some(&bob));
    of_bob.initialize("2024-11-05", "{}");
    token(&daemon, &["revoke", "principal", "ann"]);
    assert_eq!(line.stream.all(), [json!(null); 0], "it ends with its credential (spec H-27)");
    assert_eq!(of_bob.request("2", "ping", "{}")["id"], 2);
}

#[test]
fn who_hangs_up_ends_the_session_and_its_calls() {
    let daemon = daemon();
    let line = Line::within(&daemon, "2024-11-05", "{}");
    let mut other = Line::within(&daemon, "2024-11-05", "{}");
    line.call("1", "slow");
    let journal = daemon.journal("alpha");
    journal.waits_at("go");
    let path = line.client.path.clone();
    drop(line);
    within(Duration::from_secs(1), "the call to be cancelled", || {
        journal.received("notifications/cancelled").into_iter().next()
    });
    assert_eq!(send(&daemon, &post(&path, &message("2", "ping", "{}"), None)).status, 404);
    assert_eq!(daemon.status()["sessions"], 1);
    assert_eq!(other.request("3", "ping", "{}")["id"], 3);
    let ended = daemon.entry("the call", |line| line["tool"] == "alpha__slow");
    assert_eq!(ended.last().unwrap()["outcome"], "abandoned");
}

#[test]
fn a_cancelled_call_is_not_answered() {
    let daemon = daemon();
    let mut line = Line::within(&daemon, "2024-11-05", "{}");
    line.call("1", "slow");
    assert_eq!(line.next()["method"], "notifications/progress");
    taken(&line.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#));
    daemon.journal("alpha").awaits("notifications/cancelled");
    assert_eq!(line.request("2", "ping", "{}")["id"], 2);
}

#[test]
fn each_message_leaves_one_entry() {
    let daemon = daemon();
    let mut line = Line::within(&daemon, "2024-11-05", "{}");
    line.call("1", "act");
    line.next();
    assert_eq!(send(&daemon, &post("/messages?key=0", &message("9", "ping", "{}"), None)).status, 404);
    daemon.entry("the refusal", |entry| entry["reason"] == "unknown_session");
    let closed: Vec<Value> = daemon.audit().into_iter().filter(|entry| entry["line"] != "intent").collect();
    let methods: Vec<&Value> = closed.iter().map(|entry| &entry["method"]).collect();
    assert_eq!(closed.len(), 5, "{closed:?}");
    for method in ["initialize", "notifications/initialized", "tools/call"] {
        assert_eq!(methods.iter().filter(|found| ***found == method).count(), 1, "{methods:?}");
    }
    let call = closed.iter().find(|entry| entry["method"] == "tools/call").unwrap();
    assert_eq!(call["outcome"], "ok");
    // Nobody who reads the log can send there.
    assert!(!daemon.audit_text().contains(line.client.path.split("key=").nth(1).unwrap()));
}

#[test]
fn a_principal_has_as_many_connections_as_sessions() {
    let setup = setup().tenant("identity: { keys: true }").process("session: { per_principal: 2 }");
    let daemon = settled(&setup, &["alpha"]);
    let made = token(&daemon, &["key", "--principal", "ann", "-o", "json"]);
    let ann = format!("Bearer {}", made["key"].as_str().unwrap());
    let first = Line::open(&daemon, "/sse", Some(&ann));
    let _second = Line::open(&daemon, "/sse", Some(&ann));
    let answer = send(&daemon, &get("/sse", Some(&ann)));
    assert_eq!((answer.status, answer.header("retry-after").is_some()), (429, true));
    drop(first);
    within(Duration::from_secs(5), "room for another", || {
        (daemon.stranger().begin(&get("/sse", Some(&ann))).stream().head.status == 200).then_some(())
    });
}

#[test]
fn a_drain_lets_calls_be_answered_and_then_ends_the_stream() {
    let mut daemon = settled(&setup().process("drain: 1m"), &["alpha"]);
    let mut line = Line::within(&daemon, "2024-11-05", "{}");
    let idle = Line::within(&daemon, "2024-11-05", "{}");
    let silent = Line::open(&daemon, "/sse", None);
    let mut open = daemon.connect();
    line.call("1", "slow");
    assert_eq!(line.next()["method"], "notifications/progress");
    daemon.terminate();
    assert_eq!(idle.stream.all(), [json!(null); 0], "nothing runs on it");
    assert_eq!(silent.stream.all(), [json!(null); 0]);
    open.send(&get("/sse", None).bytes(daemon.address()));
    let refused = open.answer();
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
    daemon.journal("alpha").open("go");
    let rest = line.stream.all();
    assert_eq!(rest[1]["result"]["content"][0]["text"], "late");
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert_eq!(daemon.ended().code(), Some(0), "{}", daemon.log());
    assert!(!daemon.log().contains("not everything had ended in time"), "{}", daemon.log());
}

#[test]
fn the_operator_is_told_that_it_is_deprecated() {
    let daemon = daemon();
    let output = std::process::Command::new(crate::PORTCULLIS)
        .args(["check", "--config"])
        .arg(daemon.folder().config())
        .output()
        .unwrap();
    assert!(output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("HTTP+SSE is deprecated"), "{told}");
}
