//! `portcullis connect`: clients that speak only stdio, before a gateway that does not.

mod authority;
mod login;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
};

use ::rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, model::ProtocolVersion, transport::TokioChildProcess,
};
use serde_json::{Value, json};
use testkit::{Daemon, Script, Setup, StdioClient, Step, until};

use crate::{PORTCULLIS, settled};

const MODERN: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn plain() -> Daemon {
    settled(&Setup::one("alpha", script()), &["alpha"])
}

fn script() -> Script {
    let waits = [
        Step::progress("1"),
        Step::gate("go"),
        Step::result(r#"{"content":[{"type":"text","text":"late"}]}"#),
    ];
    let annotated = r#"{"name":"near","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}"#;
    Script::tools(&["act", "wait", "big"])
        .item(wire::Kind::Tools, annotated)
        .on_call("wait", &waits)
        .on_call("big", &[Step::big(1024 * 1024)])
        .on_cue("more", &[Step::list(wire::Kind::Tools, &[]), Step::changed(wire::Kind::Tools)])
}

fn command(url: &str) -> Command {
    let mut command = Command::new(PORTCULLIS);
    command.args(["connect", url]).env_remove("RUST_LOG").env_remove("PORTCULLIS_TOKEN");
    command.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn connect(daemon: &Daemon) -> StdioClient {
    StdioClient::start(&mut command(&daemon.url()))
}

/// A call of the stateless era.
fn modern_call(tool: &str, arguments: &str) -> String {
    format!(r#"{{"name":"alpha__{tool}","arguments":{arguments},{MODERN}}}"#)
}

#[test]
fn a_client_on_stdio_uses_a_session_as_if_it_were_there() {
    let daemon = plain();
    let mut client = connect(&daemon);
    assert_eq!(client.initialize("2025-06-18")["protocolVersion"], "2025-06-18");
    assert_eq!(client.request("tools/list", "{}")["result"]["tools"].as_array().unwrap().len(), 4);
    let answer = client.request("tools/call", r#"{"name":"alpha__act","arguments":{"n":9007199254740993}}"#);
    assert_eq!(answer["result"]["structuredContent"]["params"]["arguments"]["n"], 9_007_199_254_740_993_u64);

    // Progress comes before its answer, and others are not kept waiting.
    let slow = client.begin("tools/call", r#"{"name":"alpha__wait","_meta":{"progressToken":"p"}}"#);
    assert_eq!(client.heard()["params"]["progressToken"], "p");
    assert_eq!(client.request("ping", "{}")["result"], json!({}));
    daemon.journal("alpha").open("go");
    assert_eq!(client.answer(slow)["result"]["content"][0]["text"], "late");

    // What belongs to no request comes by the stream beside them.
    daemon.journal("alpha").cue("more");
    assert_eq!(client.heard()["method"], "notifications/tools/list_changed");

    assert_eq!(daemon.status()["sessions"], 1);
    let (status, rest, errors) = client.close();
    assert_eq!((status.code(), rest, errors.as_str()), (Some(0), vec![], ""));
    assert_eq!(daemon.status()["sessions"], 0, "the session was ended");
}

#[test]
fn a_client_on_stdio_speaks_the_stateless_era_with_headers_that_fit() {
    let daemon = plain();
    let mut client = connect(&daemon);
    let discovered = client.request("server/discover", &format!("{{{MODERN}}}"));
    assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28");
    let answer = client.request("tools/call", &modern_call("act", r#"{"city":"世界"}"#));
    assert_eq!(answer["result"]["structuredContent"]["params"]["arguments"]["city"], "世界");
    // An annotation that was not seen before is looked up, one that was is known (spec H-30, H-32).
    for region in ["eu", "世"] {
        let answer =
            client.request("tools/call", &modern_call("near", &format!(r#"{{"region":"{region}"}}"#)));
        assert_eq!(
            answer["result"]["structuredContent"]["params"]["arguments"]["region"], region,
            "{answer}"
        );
    }
    let unknown = client.request("tasks/list", &format!("{{{MODERN}}}"));
    assert_eq!(unknown["error"]["code"], -32601);
    assert_eq!(daemon.status()["sessions"], 0);
    let (status, rest, errors) = client.close();
    assert_eq!((status.code(), rest, errors.as_str()), (Some(0), vec![], ""));
}

#[test]
fn a_cancellation_reaches_the_server_in_either_era() {
    let daemon = plain();
    let journal = daemon.journal("alpha");
    let cancelled = |count| {
        until("the cancellation", || {
            (journal.received("notifications/cancelled").len() == count).then_some(())
        });
    };
    let mut client = connect(&daemon);
    client.initialize("2025-11-25");
    for (count, params) in [(1, r#"{"name":"alpha__wait"}"#.to_owned()), (2, modern_call("wait", "{}"))] {
        let id = client.begin("tools/call", &params);
        until("the call", || (journal.received("tools/call").len() == count).then_some(()));
        client.notify("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#));
        cancelled(count);
    }
    assert_eq!(client.request("ping", "{}")["result"], json!({}));
    let (status, rest, errors) = client.close();
    let answers = rest.iter().filter(|message| message.get("id").is_some()).count();
    assert_eq!((status.code(), answers, errors.as_str()), (Some(0), 0, ""));
}

#[test]
fn a_large_result_is_one_line() {
    let daemon = plain();
    let mut client = connect(&daemon);
    client.initialize("2025-11-25");
    let answer = client.request("tools/call", r#"{"name":"alpha__big"}"#);
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().len() >= 1024 * 1024);
    let answer = client.request("tools/call", &modern_call("big", "{}"));
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().len() >= 1024 * 1024);
}

#[test]
fn lines_written_ahead_wait_for_the_handshake_and_running_calls_for_the_end() {
    let daemon = plain();
    daemon.journal("alpha").open("go");
    let mut client = connect(&daemon);
    client.begin(
        "initialize",
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}"#,
    );
    client.notify("notifications/initialized", "{}");
    let list = client.begin("tools/list", "{}");
    let call = client.begin("tools/call", r#"{"name":"alpha__wait"}"#);
    client.write("this is no message");
    let (status, rest, errors) = client.close();
    assert_eq!(status.code(), Some(0));
    for id in [1, list, call] {
        assert!(rest.iter().any(|message| message["id"] == id && message["result"].is_object()), "{rest:?}");
    }
    let refused = rest.iter().find(|message| message["error"]["code"] == -32700).unwrap();
    assert_eq!(refused.get("id"), None);
    assert!(errors.contains("no message"), "{errors}");
}

#[test]
fn a_gateway_that_starts_again_costs_a_request_and_no_client() {
    let mut daemon = plain();
    let mut client = connect(&daemon);
    client.initialize("2025-11-25");
    daemon.restart(PORTCULLIS);
    daemon.settled("alpha");
    // The session is gone. Whether this request or the stream beside it finds that out first is a race.
    let first = client.request("tools/call", r#"{"name":"alpha__act"}"#);
    if let Some(error) = first.get("error") {
        assert_eq!(error["code"], -32603, "{first}");
        assert!(error["message"].as_str().unwrap().contains("lost the session"), "{first}");
    }
    let second = client.request("tools/call", r#"{"name":"alpha__act"}"#);
    assert_eq!(second["result"]["content"][0]["text"], "act", "{second}");
    let (status, rest, errors) = client.close();
    assert_eq!(status.code(), Some(0));
    assert!(rest.iter().all(|message| message.get("id").is_none()), "nothing but notifications: {rest:?}");
    assert!(errors.contains("lost the session") && errors.contains("a new session is open"), "{errors}");
    assert_eq!(daemon.status()["sessions"], 0);
}

#[test]
fn a_server_out_of_reach_is_told_to_every_request_and_at_the_end() {
    let url = "http://127.0.0.1:1/mcp";
    let mut client = StdioClient::start(&mut command(url));
    for _ in 0..2 {
        let answer = client.request("ping", "{}");
        assert_eq!(answer["error"]["code"], -32603);
        assert!(answer["error"]["message"].as_str().unwrap().contains(url), "{answer}");
    }
    let (status, _, errors) = client.close();
    assert_eq!(status.code(), Some(69));
    assert!(errors.contains("cannot reach"), "{errors}");
}

/// A gateway that wants a key, and a file with one.
fn guarded() -> (Daemon, tempfile::TempDir) {
    let setup = Setup::one("alpha", script()).tenant("identity: { keys: true }");
    let daemon = settled(&setup, &["alpha"]);
    let config = daemon.folder().config();
    let output = Command::new(PORTCULLIS)
        .args(["token", "key", "--principal", "ann", "-o", "json", "--config"])
        .arg(&config)
        .args(["--admin", &daemon.admin()])
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key"), format!("{}\n", made["key"].as_str().unwrap())).unwrap();
    (daemon, folder)
}

fn with_file(daemon: &Daemon, option: &str, file: &Path) -> StdioClient {
    StdioClient::start(command(&daemon.url()).arg(option).arg(file))
}

#[test]
fn a_credential_comes_from_a_file_or_the_environment() {
    let (daemon, folder) = guarded();
    let file = folder.path().join("key");
    for option in ["--key-file", "--token-file"] {
        let mut client = with_file(&daemon, option, &file);
        assert_eq!(client.initialize("2025-11-25")["serverInfo"]["name"], "portcullis");
        assert_eq!(client.close().0.code(), Some(0));
    }
    let key = fs::read_to_string(&file).unwrap();
    let mut client = StdioClient::start(command(&daemon.url()).env("PORTCULLIS_TOKEN", key.trim()));
    assert_eq!(client.initialize("2025-11-25")["serverInfo"]["name"], "portcullis");
}

#[test]
fn a_refused_credential_is_told_and_a_new_one_is_read() {
    let (daemon, folder) = guarded();
    let key = fs::read_to_string(folder.path().join("key")).unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "wrong").unwrap();
    let mut client = with_file(&daemon, "--token-file", &file);
    let hello =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}"#;
    for method in ["initialize", "ping"] {
        let answer = client.request(method, hello);
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
    let discover = client.request("server/discover", &format!("{{{MODERN}}}"));
    assert!(discover["error"]["message"].is_string(), "{discover}");
    fs::write(&file, &key).unwrap();
    assert_eq!(client.request("initialize", hello)["result"]["serverInfo"]["name"], "portcullis");
    let (status, _, errors) = client.close();
    assert_eq!(status.code(), Some(0));
    assert!(errors.contains("401") && errors.contains("answers again"), "{errors}");
    assert!(!errors.contains(key.trim()), "no credential is logged");

    let mut refused = StdioClient::start(&mut command(&daemon.url()));
    refused.request("initialize", hello);
    let (status, _, errors) = refused.close();
    assert_eq!(status.code(), Some(69));
    assert!(errors.contains("--token-file"), "{errors}");
}

/// A server whose stream breaks in the middle of an answer, and whose other half waits to be asked for.
fn breaking() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#;
    let half = "retry: 1\nid: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"half\"}\n\nid: e2\ndata: {\"json";
    let rest = "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n";
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let (head, body) = request(&connection);
            let (status, kind, answer) = match head.split(' ').next().unwrap() {
                "POST" if body.contains("initialize\"") => ("200 OK", "application/json", hello),
                "POST" if body.contains("\"id\"") => ("200 OK", "text/event-stream", half),
                "GET" if head.contains("last-event-id: e1\r\n") => ("200 OK", "text/event-stream", rest),
                "GET" => ("405 No", "text/plain", ""),
                _ => ("202 Accepted", "text/plain", ""),
            };
            let end =
                format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{answer}");
            connection.write_all(end.as_bytes()).unwrap();
        }
    });
    address
}

/// The head of a request, and its body.
fn request(connection: &TcpStream) -> (String, String) {
    let mut input = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        input.read_line(&mut head).unwrap();
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    input.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

#[test]
fn a_broken_stream_is_taken_up_where_it_ended() {
    let mut client = StdioClient::start(&mut command(&format!("http://{}/mcp", breaking())));
    client.initialize("2025-06-18");
    let answer = client.request("tools/call", "{}");
    assert_eq!(answer["result"], json!({}));
    assert_eq!(client.heard()["method"], "half");
    let (status, rest, errors) = client.close();
    assert_eq!((status.code(), rest, errors.as_str()), (Some(0), vec![], ""), "each message once");
}

#[test]
fn what_cannot_work_ends_at_once_with_a_sentence() {
    for (arguments, code, word) in [
        (&["mcp.acme.example/mcp"][..], 2, "write it in full"),
        (&["ftp://mcp.acme.example/mcp"], 2, "write it in full"),
        (&["http://127.0.0.1:1/mcp", "--token-file", "/nowhere/token"], 2, "/nowhere/token"),
    ] {
        let output = Command::new(PORTCULLIS).arg("connect").args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{errors}");
        assert!(errors.contains(word), "{errors}");
    }
}

#[test]
fn a_certificate_of_an_authority_the_system_trusts_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("crt"), made.cert.pem()).unwrap();
    fs::write(at("key"), made.signing_key.serialize_pem()).unwrap();
    let tls = format!("tls: {{ cert: {}, key: {} }}", at("crt"), at("key"));
    let daemon = Setup::one("alpha", script()).process(&tls).start(PORTCULLIS);
    let url = format!("https://localhost:{}/mcp", daemon.address().port());
    let mut client = StdioClient::start(command(&url).env("SSL_CERT_FILE", at("crt")));
    assert_eq!(client.initialize("2025-11-25")["serverInfo"]["name"], "portcullis");
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(at("other"), other.cert.pem()).unwrap();
    let mut stranger = StdioClient::start(command(&url).env("SSL_CERT_FILE", at("other")));
    let refused = stranger.request("ping", "{}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("certificate"), "{refused}");
}

#[tokio::test]
async fn the_published_sdk_speaks_both_eras_through_it() {
    let daemon = plain();
    let modern = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    for lifecycle in [ClientLifecycleMode::Initialize, modern] {
        let mut program = tokio::process::Command::new(PORTCULLIS);
        program.args(["connect", &daemon.url()]).env_remove("RUST_LOG");
        let client =
            ().serve_with_lifecycle(TokioChildProcess::new(program).unwrap(), lifecycle).await.unwrap();
        let tools = client.list_all_tools().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name == "alpha__act"));
        let call = ::rmcp::model::CallToolRequestParams::new("alpha__act");
        let result = serde_json::to_value(client.call_tool(call).await.unwrap()).unwrap();
        assert_eq!(result["content"][0]["text"], "act");
        client.cancel().await.unwrap();
    }
    until("the sessions to end", || (daemon.status()["sessions"] == 0).then_some(()));
}
