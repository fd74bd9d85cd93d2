//! The command line: configurations that are refused, and the words that ask a running gateway.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};
use testkit::{Script, Setup, Step};

use crate::{PORTCULLIS, settled};

/// What is wrong with a configuration, and a part of what is said about it: file, line, message.
const FAULTS: [(&str, usize, &str); 12] = [
    ("portcullis.yaml", 1, "`listne`"),
    ("portcullis.yaml", 2, "`127.0.0.1`"),
    ("portcullis.yaml", 3, "`30`"),
    ("portcullis.yaml", 4, "`4MB`"),
    ("portcullis.yaml", 5, "telemetry"),
    ("acme.yaml", 1, "`Acme`"),
    ("acme.yaml", 4, "no-such-program-anywhere"),
    ("acme.yaml", 5, "`tennant`"),
    ("acme.yaml", 6, "MISSING_FOR_THIS_TEST"),
    ("acme.yaml", 7, "MISSING_SECRET"),
    ("acme.yaml", 8, "(unclosed"),
    ("acme.yaml", 10, "`nobody`"),
];

const PROCESS: &str = "listne: 127.0.0.1:7420
listen: 127.0.0.1
session: { idle: 30 }
limits: { body: 4MB }
telemetry: { otlp: \"http://collector\" }
";

const TENANT: &str = "tenant: Acme
upstreams:
  alpha:
    command: no-such-program-anywhere
    share: tennant
    args: [\"${MISSING_FOR_THIS_TEST}\"]
    env: { TOKEN: \"${secret:MISSING_SECRET}\" }
    tools: { includeRegex: [\"(unclosed\"] }
virtual_servers:
  default: { upstreams: [alpha, nobody] }
";

fn run(arguments: &[&str]) -> Output {
    Command::new(PORTCULLIS).args(arguments).env_remove("RUST_LOG").output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn write(folder: &Path, process: &str, tenant: &str) -> String {
    fs::create_dir_all(folder.join("tenants")).unwrap();
    fs::write(folder.join("tenants/acme.yaml"), tenant).unwrap();
    let main = folder.join("portcullis.yaml");
    fs::write(&main, process).unwrap();
    main.to_str().unwrap().to_owned()
}

#[test]
fn a_configuration_with_many_faults_is_told_all_of_them_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let main = write(folder.path(), PROCESS, TENANT);
    for command in ["check", "serve"] {
        let output = run(&[command, "--config", &main]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(78), "{command}: {text}");
        for (file, line, word) in FAULTS {
            let place = format!("{file}:{line}:");
            assert!(text.contains(&place) && text.contains(word), "{command}: {place} {word}\n{text}");
        }
        assert!(text.contains("12 problems"), "{command}: {text}");
        assert!(!text.contains("thread 'main'"), "{text}");
    }
    assert!(!folder.path().join("state").exists(), "nothing was started");
}

#[test]
fn each_fault_alone_is_found_at_its_place() {
    let good = ("listen: 127.0.0.1:0\n", "tenant: acme\nupstreams:\n  alpha: { command: sh }\n");
    let (process, tenant) = good;
    for (process, tenant, place, word) in [
        ("listen: [\n", tenant, "portcullis.yaml:", "YAML"),
        ("listen: 0.0.0.0:7420\n", tenant, "portcullis.yaml:1:9", "loopback"),
        ("listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n", tenant, "portcullis.yaml:2:1", "duplicate"),
        ("tenants: none/*.yaml\n", tenant, "portcullis.yaml:1:", "none/*.yaml"),
        ("tls: { cert: a }\n", tenant, "portcullis.yaml:1:", "key"),
        (process, "tenant: acme\n", "acme.yaml:1:1", "upstreams"),
        (process, "tenant: acme\nupstreams:\n  a__b: { command: sh }\n", "acme.yaml:3:3", "a__b"),
        (
            process,
            "tenant: acme\nupstreams:\n  alpha: { command: sh, comand: x }\n",
            "acme.yaml:3:",
            "command",
        ),
        (process, "tenant: acme\nupstreams:\n  alpha: { url: \"http://x\" }\n", "acme.yaml:3:", "url"),
        (process, "tenant: acme\nidentity: { keyz: true }\nupstreams: {}\n", "acme.yaml:2:", "keyz"),
        (process, "tenant: acme\npolicies: [a.yaml]\nupstreams: {}\n", "acme.yaml:2:", "policies"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = run(&["check", "--config", &write(folder.path(), process, tenant)]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(78), "{process}{tenant}\n{text}");
        assert!(text.contains(place) && text.contains(word), "{place} {word}\n{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["check", "--config", &write(folder.path(), process, tenant)]);
    assert_eq!(
        (output.status.code(), stdout(&output)),
        (Some(0), "ok: 1 tenant, 1 upstream\n"),
        "{}",
        said(&output)
    );
    let output = run(&["serve", "--config", "/nowhere/portcullis.yaml"]);
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
}

#[test]
fn secrets_are_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("secrets")).unwrap();
    fs::write(folder.path().join("secrets/TOKEN"), "canary-secret\n").unwrap();
    let tenant = "tenant: acme\nupstreams:\n  alpha: { command: sh, env: { TOKEN: \"${secret:TOKEN}\" }, share: \"${secret:TOKEN}\" }\n";
    let output = run(&["check", "--config", &write(folder.path(), "", tenant)]);
    assert_eq!(output.status.code(), Some(78));
    assert!(!said(&output).contains("canary"), "{}", said(&output));
}

#[test]
fn tools_are_listed_and_called_through_a_running_gateway() {
    let script = Script::new()
        .item(
            wire::Kind::Tools,
            r#"{"name":"act","description":"Does it.\nAnd more.","inputSchema":{"type":"object"},"n":1.0}"#,
        )
        .tool("fail")
        .tool("talk")
        .on_call(
            "fail",
            &[Step::result(r#"{"content":[{"type":"text","text":"it went wrong"}],"isError":true}"#)],
        )
        .on_call("talk", &[Step::result(r#"{"content":[{"type":"text","text":"one\u001b[2Jtwo"}]}"#)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let url = daemon.url();

    let table = run(&["tools", "ls", "--url", &url]);
    assert!(table.status.success(), "{}", said(&table));
    assert!(
        stdout(&table).lines().any(|line| line.starts_with("alpha__act") && line.ends_with("Does it.")),
        "{}",
        said(&table)
    );
    let listed = run(&["tools", "ls", "--url", &url, "-o", "json"]);
    let tools: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(tools.as_array().unwrap().len(), 3);
    assert!(stdout(&listed).contains(r#""n":1.0"#), "as it was received");

    let called = run(&[
        "tools",
        "call",
        "alpha__act",
        "n=12345678901234567890",
        "text=hi there",
        "--url",
        &url,
        "-o",
        "json",
    ]);
    assert!(called.status.success(), "{}", said(&called));
    let result: Value = serde_json::from_slice(&called.stdout).unwrap();
    let sent = &result["structuredContent"]["params"]["arguments"];
    assert_eq!(sent, &json!({ "n": 12_345_678_901_234_567_890_u64, "text": "hi there" }));

    let failed = run(&["tools", "call", "alpha__fail", "--url", &url]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(said(&failed).contains("it went wrong"), "{}", said(&failed));
    let missing = run(&["tools", "call", "alpha__gone", "--url", &url]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(said(&missing).contains("alpha__gone"), "{}", said(&missing));
    let harmless = run(&["tools", "call", "alpha__talk", "--url", &url]);
    assert!(!harmless.stdout.contains(&0x1b), "{:?}", stdout(&harmless));
    assert_eq!(daemon.status()["sessions"], 0, "each command ends its session");
}

#[test]
fn the_status_is_for_people_or_for_programs() {
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"]);
    let _client = daemon.client();
    let config = daemon.folder().config();
    let config = config.to_str().unwrap();
    let table = run(&["status", "--admin", &daemon.admin(), "--config", config]);
    assert!(table.status.success(), "{}", said(&table));
    for word in ["alpha", "acme", "up", "anonymous"] {
        assert!(stdout(&table).contains(word), "{word}: {}", stdout(&table));
    }
    let output = run(&["status", "--admin", &daemon.admin(), "--config", config, "--output", "json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["sessions"], 1);
    assert_eq!(status["tenants"][0]["virtual_servers"][0]["tools"], 1);
    assert_eq!(status["tenants"][0]["upstreams"][0]["connection"]["state"], "up");
}

#[test]
fn a_gateway_that_is_not_there_is_told_so() {
    for arguments in [
        &["tools", "ls", "--url", "http://127.0.0.1:9/mcp"][..],
        &["tools", "call", "x", "--url", "http://127.0.0.1:9/mcp"],
        &["status", "--admin", "http://127.0.0.1:9"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(69), "{}", said(&output));
        assert!(said(&output).contains("127.0.0.1:9"), "{}", said(&output));
    }
}

#[test]
fn an_address_that_is_taken_is_told_with_its_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tenant = "tenant: acme\nupstreams:\n  alpha: { command: sh }\n";
    let output = run(&["serve", "--config", &write(folder.path(), &format!("listen: {address}\n"), tenant)]);
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    assert!(
        said(&output).contains(&address.to_string()) && said(&output).contains("`listen`"),
        "{}",
        said(&output)
    );
}

#[test]
fn the_version_is_told_by_the_command_and_by_the_operators_listener() {
    let output = run(&["version", "-o", "json"]);
    let version: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&version["name"], &version["version"]),
        (&json!("portcullis"), &json!(env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(stdout(&run(&["version"])).trim(), concat!("portcullis ", env!("CARGO_PKG_VERSION")));
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"]);
    assert_eq!(daemon.get("/version").json(), version);
    assert_eq!(daemon.get("/livez").status, 200);
    assert_eq!(daemon.get("/mcp").status, 404, "MCP is not spoken there");
    let metrics = daemon.get("/metrics");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain"));
    assert!(metrics.text().contains("portcullis_"), "{}", metrics.text());
}

#[test]
fn what_outlives_a_restart_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let daemon = settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"]);
    daemon.client().call("alpha__act", "{}");
    let mut open = vec![daemon.folder().path().join("state")];
    let mut seen = 0;
    while let Some(path) = open.pop() {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        seen += 1;
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(seen >= 4, "a folder, a store, a folder of records and a file in it");
}
