//! What is refused at the door, before a message is read or instead of one, and that nobody else is hurt.

use serde_json::json;
use testkit::{Connection, Daemon, Request, Script, Setup, until};

use crate::settled;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;

fn plain() -> Daemon {
    settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"])
}

#[test]
fn a_foreign_host_or_origin_reaches_nothing() {
    let setup = Setup::one("alpha", Script::tools(&["act"]))
        .process("allowed_hosts: [mcp.acme.example]\nallowed_origins: [\"https://chat.acme.example\"]");
    let daemon = settled(&setup, &["alpha"]);
    let client = daemon.client();
    let port = daemon.address().port();
    for (host, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        ("LOCALHOST".to_owned(), 200),
        (format!("[::1]:{port}"), 200),
        ("mcp.acme.example".to_owned(), 200),
        ("mcp.acme.example:443".to_owned(), 200),
        ("evil.example".to_owned(), 403),
        (format!("evil.example:{port}"), 403),
        ("mcp.acme.example.evil.example".to_owned(), 403),
        ("localhost@evil.example".to_owned(), 400),
        ("a b".to_owned(), 400),
        (String::new(), 400),
    ] {
        let answer = client.send(&client.post(PING).with("host", &host));
        assert_eq!(answer.status, status, "host `{host}`: {}", answer.text());
    }
    for (origin, status) in [
        ("https://chat.acme.example", 200),
        ("http://chat.acme.example", 403),
        ("https://chat.acme.example.evil.example", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost:3000", 403),
    ] {
        let answer = client.send(&client.post(PING).with("origin", origin));
        assert_eq!(answer.status, status, "origin `{origin}`: {}", answer.text());
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!(allowed.is_some(), status == 200, "{origin}");
    }
    let twice = client.post(PING).and("host", "localhost").and("host", "evil.example");
    assert_eq!(client.send(&twice).status, 400);
    let both = Request::new("POST", "http://evil.example/mcp").with("host", "localhost");
    assert!([400, 403].contains(&client.send(&both).status));
    // The same door for every verb and for the operators.
    for verb in ["GET", "DELETE", "OPTIONS", "PUT"] {
        assert_eq!(client.send(&client.bare(verb).with("host", "evil.example")).status, 403, "{verb}");
    }
    let mut operators = Connection::open(daemon.admin().trim_start_matches("http://").parse().unwrap());
    operators.send(&Request::new("GET", "/status").with("host", "evil.example").bytes(daemon.address()));
    assert_eq!(operators.answer().status, 403);
    assert_eq!(client.request("ping", "{}").status, 200);
}

#[test]
fn a_request_that_is_none_of_ours_gets_the_error_of_http() {
    let setup = Setup::one("alpha", Script::tools(&["act"])).process("limits: { body: 64KiB }");
    let daemon = settled(&setup, &["alpha"]);
    let client = daemon.client();
    let large =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(65_536));
    let fits =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(65_000));
    for (what, request, status) in [
        ("PUT", client.bare("PUT"), 405),
        ("OPTIONS", client.bare("OPTIONS"), 405),
        ("no type", client.post(PING).without("content-type"), 415),
        ("plain text", client.post(PING).with("content-type", "text/plain"), 415),
        ("two types", client.post(PING).and("content-type", "text/plain"), 415),
        ("packed", client.post(PING).with("content-encoding", "gzip"), 415),
        (
            "another charset of the same",
            client.post(PING).with("content-type", "application/json; charset=utf-8"),
            200,
        ),
        ("html wanted", client.post(PING).with("accept", "text/html"), 406),
        ("large", client.post(large.clone()), 413),
        ("large in chunks", client.post(large).chunked(), 413),
        ("fits", client.post(fits.clone()), 200),
        ("fits in chunks", client.post(fits).chunked(), 200),
        ("two sessions", client.post(PING).and("mcp-session-id", "other"), 400),
        ("two revisions", client.post(PING).and("mcp-protocol-version", "2025-06-18"), 400),
        ("an unknown revision", client.post(PING).with("mcp-protocol-version", "2099-01-01"), 400),
        ("an old revision", client.post(PING).with("mcp-protocol-version", "2025-03-26"), 200),
        ("no revision", client.post(PING).without("mcp-protocol-version"), 200),
        ("an address too long", Request::post(&format!("/mcp?{}", "x".repeat(9000)), PING), 414),
        ("a query", client.post(PING), 200),
    ] {
        let answer = client.send(&request);
        assert_eq!(answer.status, status, "{what}: {}", String::from_utf8_lossy(&answer.body));
        if status == 405 {
            assert_eq!(answer.header("allow"), Some("GET, POST, DELETE"), "{what}");
        }
        if status != 200 {
            assert_eq!(answer.header("content-type"), Some("application/json"), "{what}");
        }
    }
}

#[test]
fn what_is_not_http_is_answered_or_dropped_and_hurts_nobody() {
    let daemon = plain();
    let client = daemon.client();
    let body = PING.len();
    let session = client.session.as_deref().unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nmcp-session-id: {session}\r\n"
    );
    for (bytes, statuses) in [
        ("GARBAGE\r\n\r\n".to_owned(), &[400][..]),
        ("GET /mcp HTTP/1.0\r\nhost: localhost\r\n\r\n".to_owned(), &[505]),
        (format!("{head}content-length: {body}\r\ncontent-length: 3\r\n\r\n{PING}"), &[400]),
        (format!("{head}content-length: {body}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), &[400]),
        (format!("{head}content-length: nine\r\n\r\n{PING}"), &[400]),
        (format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\n"), &[400]),
        (format!("{head}x: {}\r\n\r\n", "x".repeat(100_000)), &[431]),
        (format!("{head}{}\r\n", "x: y\r\n".repeat(200)), &[431]),
    ] {
        let mut connection = daemon.connect();
        connection.send(bytes.as_bytes());
        let answer = String::from_utf8_lossy(&connection.rest()).into_owned();
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let shown: String = bytes.chars().take(150).collect();
        assert!(statuses.contains(&status), "{shown:?}: {answer:?}");
    }
    assert_eq!(client.request("ping", "{}").status, 200);
}

#[test]
fn a_wrong_message_gets_its_error_and_the_next_on_the_same_connection_its_answer() {
    let daemon = plain();
    let client = daemon.client();
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":3,"method":"ping","params":{{"x":{}}}}}"#,
        "[".repeat(100) + &"]".repeat(100)
    );
    let mut connection = daemon.connect();
    for (body, verdict, id) in [
        ("", (400, Some(-32700)), None),
        ("{", (400, Some(-32700)), None),
        ("nonsense", (400, Some(-32700)), None),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping"}{}"#, (400, Some(-32700)), None),
        ("[]", (400, Some(-32600)), None),
        ("[{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}]", (400, Some(-32600)), None),
        ("7", (400, Some(-32600)), None),
        ("{}", (400, Some(-32600)), None),
        (r#"{"id":3,"method":"ping"}"#, (400, Some(-32600)), Some(json!(3))),
        (r#"{"jsonrpc":"1.0","id":"3","method":"ping"}"#, (400, Some(-32600)), Some(json!("3"))),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, (400, Some(-32600)), None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, (400, Some(-32600)), None),
        (r#"{"jsonrpc":"2.0","id":3,"id":4,"method":"ping"}"#, (400, Some(-32600)), None),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","m\u0065thod":"tools/list"}"#,
            (400, Some(-32600)),
            Some(json!(3)),
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","Method":"tools/list"}"#,
            (400, Some(-32600)),
            Some(json!(3)),
        ),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":[1]}"#, (400, Some(-32600)), Some(json!(3))),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"alpha__act","arguments":{"a":1,"a":2}}}"#,
            (400, Some(-32600)),
            Some(json!(3)),
        ),
        (&deep, (400, Some(-32600)), Some(json!(3))),
    ] {
        connection.send(&client.post(body).bytes(daemon.address()));
        let answer = connection.answer();
        assert_eq!(answer.verdict(), verdict, "{body:.200}");
        if id.is_some() {
            assert_eq!(answer.message().get("id").cloned(), id, "{body:.200}");
        }
        connection.send(&client.post(PING).bytes(daemon.address()));
        assert_eq!(connection.answer().message()["result"], json!({}), "after {body:.200}");
    }
    let bytes = client.post(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}".to_vec());
    assert_eq!(client.send(&bytes).verdict(), (400, Some(-32700)));
    assert_eq!(daemon.journal("alpha").received("tools/call").len(), 0);
}

#[test]
fn a_body_that_breaks_off_is_no_message() {
    let daemon = plain();
    let client = daemon.client();
    let whole =
        client.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"alpha__act"}}"#);
    let bytes = whole.bytes(daemon.address());
    let mut connection = daemon.connect();
    connection.send(&bytes[..bytes.len() - 10]);
    connection.finish();
    connection.rest();
    client.call("alpha__act", r#"{"second":true}"#);
    let calls = daemon.journal("alpha").received("tools/call");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["params"]["arguments"]["second"], true);
}

#[test]
fn a_preflight_of_a_listed_page_is_answered() {
    let setup = Setup::one("alpha", Script::tools(&["act"]))
        .process("allowed_origins: [\"https://chat.acme.example\"]");
    let daemon = settled(&setup, &["alpha"]);
    let client = daemon.stranger();
    let preflight = Request::new("OPTIONS", "/mcp")
        .with("origin", "https://chat.acme.example")
        .with("access-control-request-method", "POST");
    let answer = client.send(&preflight);
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://chat.acme.example"));
    assert!(answer.header("access-control-allow-headers").unwrap().contains("mcp-session-id"));
    let answer = client.send(&Request::post("/mcp", INITIALIZE).with("origin", "https://chat.acme.example"));
    assert!(answer.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));
    assert_eq!(client.send(&preflight.with("origin", "https://evil.example")).status, 403);
}

#[test]
fn connections_above_the_bound_are_turned_away() {
    let setup = Setup::one("alpha", Script::tools(&["act"])).process("limits: { connections: 2 }");
    let daemon = settled(&setup, &["alpha"]);
    let client = daemon.stranger();
    let ping = |connection: &mut Connection| {
        connection.send(&client.post(PING).bytes(daemon.address()));
        connection.answer()
    };
    let mut open = [daemon.connect(), daemon.connect()];
    for connection in &mut open {
        assert_eq!(ping(connection).status, 400);
    }
    let turned_away = ping(&mut daemon.connect());
    assert_eq!((turned_away.status, turned_away.header("retry-after")), (429, Some("10")));
    // Those that are open go on, and the operators have a door of their own.
    assert_eq!(ping(&mut open[0]).status, 400);
    assert_eq!(daemon.get("/livez").status, 200);
    drop(open);
    until("room for a connection", || (ping(&mut daemon.connect()).status == 400).then_some(()));
}

#[test]
fn a_client_that_asks_first_is_told_to_go_on_or_not() {
    let daemon = plain();
    let client = daemon.client();
    let asks = |body: &str| client.post(body).with("expect", "100-continue").bytes(daemon.address());
    let (head, body) = (asks(PING), PING.as_bytes());
    let mut connection = daemon.connect();
    connection.send(&head[..head.len() - body.len()]);
    assert_eq!(connection.answer().status, 100);
    connection.send(body);
    assert_eq!(connection.answer().message()["result"], json!({}));
    // What is too large is refused before it is sent.
    let large = "x".repeat(5 * 1024 * 1024);
    let head = asks(&large);
    let mut connection = daemon.connect();
    connection.send(&head[..head.len() - large.len()]);
    assert_eq!(connection.answer().status, 413);
}
