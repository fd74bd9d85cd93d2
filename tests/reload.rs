//! The configuration changes while the gateway runs: what changed holds, and nothing else notices.

use std::{fs, os::unix::fs::symlink};

use testkit::{Daemon, Reach, Script, Setup, Step, processes::Process, until};
use wire::Kind;

use crate::settled;

const TENANT: &str = "tenants/acme.yaml";

/// Two servers; calls of `alpha__wait` wait at a gate.
fn pair() -> Daemon {
    let waits = Script::tools(&["act", "wait"])
        .on_call("wait", &[Step::gate("open"), Step::result(r#"{"content":[]}"#)]);
    settled(&Setup::one("alpha", waits).upstream("beta", Script::tools(&["act"])), &["alpha", "beta"])
}

fn pid(daemon: &Daemon, upstream: &str) -> u64 {
    daemon.state_of(upstream)["connection"]["pid"].as_u64().unwrap_or_default()
}

fn process(daemon: &Daemon, upstream: &str) -> Process {
    Process::of(u32::try_from(pid(daemon, upstream)).unwrap()).unwrap()
}

/// Takes `alpha` out of the tenant's file and has it read; the process it had.
fn without_alpha(daemon: &Daemon) -> Process {
    let alpha = process(daemon, "alpha");
    daemon.rewrite(TENANT, |text| {
        let (before, rest) = text.split_once("  alpha:\n").unwrap();
        format!("{before}{}", &rest[rest.find("  beta:\n").unwrap()..])
    });
    daemon.reload();
    alpha
}

fn refused(daemon: &Daemon) -> String {
    daemon.status()["reload_refused"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_file_with_problems_changes_nothing_and_says_where_they_are() {
    let daemon = pair();
    let client = daemon.client();
    daemon.rewrite(TENANT, |text| text.replace("tenant: acme", "tenant: acme\nvirtul_servers: {}"));
    daemon.reload();
    assert!(refused(&daemon).contains("tenants/acme.yaml:2:1: error: unknown key `virtul_servers`"));
    assert!(daemon.log().contains("tenants/acme.yaml:2:1: error: unknown key `virtul_servers`"));
    assert!(client.call("alpha__act", "{}")["content"].is_array());
    daemon.rewrite(TENANT, |text| text.replace("virtul_servers: {}\n", ""));
    daemon.reload();
    assert_eq!(refused(&daemon), "");
}

#[test]
fn what_did_not_change_keeps_its_process_and_its_running_calls() {
    let daemon = pair();
    let client = daemon.client();
    let (alpha, beta) = (pid(&daemon, "alpha"), process(&daemon, "beta"));
    let running = client.start("tools/call", r#"{"name":"alpha__wait","arguments":{}}"#);
    daemon.journal("alpha").waits_at("open");
    daemon.rewrite(TENANT, |text| text.replace("  beta:\n", "  beta:\n    env: { FRESH: \"1\" }\n"));
    daemon.reload();
    daemon.settled("beta");
    assert_eq!(pid(&daemon, "alpha"), alpha);
    daemon.journal("alpha").open("open");
    assert!(running.answer().message()["result"]["content"].is_array());
    until("the old process to be gone", || (!beta.exists()).then_some(()));
}

#[test]
fn a_call_of_a_server_that_is_removed_ends_well() {
    let daemon = pair();
    let client = daemon.client();
    let running = client.start("tools/call", r#"{"name":"alpha__wait","arguments":{}}"#);
    daemon.journal("alpha").waits_at("open");
    let alpha = without_alpha(&daemon);
    assert_eq!(client.names(Kind::Tools), ["beta__act"]);
    let unknown = client.error("tools/call", r#"{"name":"alpha__act","arguments":{}}"#);
    assert_eq!(
        (&unknown["code"], &unknown["message"]),
        (&(-32602).into(), &"unknown tool `alpha__act`".into())
    );
    daemon.journal("alpha").open("open");
    assert!(running.answer().message()["result"]["content"].is_array());
    until("its process to be gone", || (!alpha.exists()).then_some(()));
}

#[test]
fn clients_of_both_eras_hear_of_what_changed_for_them() {
    let daemon = pair();
    let client = daemon.client();
    let mut stream = client.listen();
    assert_eq!(client.names(Kind::Tools).len(), 3);
    let modern = daemon.stranger();
    let listen = r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let request = modern
        .post(listen)
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "subscriptions/listen");
    let mut told = modern.begin(&request).stream();
    assert!(told.next_message().unwrap().to_string().contains("acknowledged"));
    without_alpha(&daemon);
    assert_eq!(stream.next_message().unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(told.next_message().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn another_filter_holds_from_the_next_message_on() {
    let daemon = pair();
    let client = daemon.client();
    let before = pid(&daemon, "alpha");
    daemon.rewrite(TENANT, |text| text.replace("  alpha:\n", "  alpha:\n    tools: { exclude: [act] }\n"));
    daemon.reload();
    let hidden = client.error("tools/call", r#"{"name":"alpha__act","arguments":{}}"#);
    assert_eq!(hidden["message"], "unknown tool `alpha__act`");
    assert_eq!(client.names(Kind::Tools), ["alpha__wait", "beta__act"]);
    assert_eq!(pid(&daemon, "alpha"), before, "a filter is no reason to start anything again");
}

#[test]
fn files_are_watched_also_behind_links_that_are_bent_over() {
    let setup = Setup::one("alpha", Script::tools(&["act", "other"]))
        .tenant("policies: [policies/acme.yaml]")
        .file("policies/one/acme.yaml", "rules: [{ name: all, effect: allow }]\n")
        .file("policies/two/acme.yaml", "rules: [{ name: some, tools: [alpha__act], effect: allow }]\n")
        .file("policies/acme.yaml", "rules: [{ name: none, effect: deny }]\n");
    let daemon = settled(&setup, &["alpha"]);
    let folder = daemon.folder().path().join("policies");
    let client = daemon.client();
    assert_eq!(client.names(Kind::Tools), [""; 0]);
    // As a ConfigMap is mounted: the file is a link into a folder that is a link.
    symlink("one", folder.join("..data")).unwrap();
    fs::remove_file(folder.join("acme.yaml")).unwrap();
    symlink("..data/acme.yaml", folder.join("acme.yaml")).unwrap();
    until("the first folder", || (client.names(Kind::Tools).len() == 2).then_some(()));
    symlink("two", folder.join("..new")).unwrap();
    fs::rename(folder.join("..new"), folder.join("..data")).unwrap();
    until("the second folder", || (client.names(Kind::Tools).len() == 1).then_some(()));
}

#[test]
fn a_tenant_that_is_removed_is_gone_for_those_inside() {
    let setup = Setup::one("alpha", Script::tools(&["act"])).tenant("identity: { keys: true }").file(
        "tenants/other.yaml",
        "tenant: other\nidentity: { keys: true }\nupstreams:\n  one: { command: sh, trust: trusted }\n",
    );
    let daemon = settled(&setup, &[]);
    let key = daemon.api_key("acme", "ann", &[]);
    let mut client = daemon.stranger();
    client.path = "/t/acme/mcp".to_owned();
    client.token = Some(key);
    assert_eq!(client.initialize("2025-11-25").status, 200);
    assert_eq!(client.request("ping", "{}").status, 200);
    fs::remove_file(daemon.folder().path().join(TENANT)).unwrap();
    daemon.reload();
    assert_eq!(client.request("ping", "{}").status, 401);
}

#[test]
fn a_secret_in_a_header_is_replaced_without_a_new_session() {
    let setup = Setup::one("alpha", Script::tools(&["act"]))
        .reached(Reach::Http)
        .file("secrets/TOKEN", "first-one\n");
    let daemon = settled(&setup, &["alpha"]);
    daemon.rewrite(TENANT, |text| {
        text.replace(
            "  alpha:\n",
            "  alpha:\n    credential: { header: X-Key, value: \"${secret:TOKEN}\" }\n",
        )
    });
    daemon.reload();
    daemon.settled("alpha");
    let client = daemon.client();
    assert!(client.call("alpha__act", "{}")["content"].is_array());
    fs::write(daemon.folder().path().join("secrets/TOKEN"), "second-one\n").unwrap();
    daemon.reload();
    assert!(client.call("alpha__act", "{}")["content"].is_array());
    assert_eq!(client.request("ping", "{}").status, 200);
}

#[test]
fn what_cannot_hold_at_once_is_named() {
    let daemon = pair();
    daemon.rewrite("portcullis.yaml", |text| format!("{text}keepalive: 20s\nsession: {{ idle: 5m }}\n"));
    daemon.reload();
    until("the warning", || {
        daemon.log().contains("changed keys hold from the next start on only").then_some(())
    });
    assert!(daemon.log().contains("session, keepalive"), "{}", daemon.log());
}
