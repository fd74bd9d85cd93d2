//! Rules as clients and operators meet them.

use std::process::{Command, Output};

use serde_json::{Value, json};
use testkit::{Folder, Script, Setup};

use crate::{
    PORTCULLIS,
    limits::{ERAS, Somebody},
    settled,
};

const PAGE: &str = include_str!("../docs/policies.md");

const RULES: &str = r#"
default: allow
rules:
  - { name: ann-alone, tools: [alpha__wipe], principals: { ids: ["an?"] }, effect: allow }
  - { name: nobody-else, tools: [alpha__wipe], when: 'principal.id != "ann"', effect: deny }
  - name: small
    tools: [alpha__act]
    when: args.n > 10
    effect: deny
    message: At most ten.
  - { name: no-files, upstreams: [alpha], resources: ["file:///etc/**"], effect: deny }
  - { name: later, tools: [alpha__act], when: args.n > 5, effect: deny, mode: shadow }
tests:
  - { principal: { id: ann }, call: alpha__wipe, expect: allow }
  - { principal: { id: bob }, call: alpha__wipe, expect: hide }
  - { call: alpha__act, args: { n: 11 }, expect: deny }
  - { call: alpha__act, args: { n: 6 }, expect: allow }
  - { read: "file:///etc/passwd", upstream: alpha, expect: deny }
  - { read: "file:///etc/passwd", expect: allow }
"#;

fn governed(rules: &str) -> Setup {
    Setup::one("alpha", Script::tools(&["act", "wipe"]))
        .tenant("identity: { keys: true }")
        .tenant("policies: [policies/acme.yaml]")
        .file("policies/acme.yaml", rules)
}

fn policy(folder: &Folder, arguments: &[&str]) -> Output {
    let config = folder.config();
    Command::new(PORTCULLIS).arg("policy").args(arguments).arg("--config").arg(config).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn what_somebody_may_never_call_is_missing_for_them() {
    for era in ERAS {
        let daemon = settled(&governed(RULES), &["alpha"]);
        let (ann, bob) = (Somebody::of(&daemon, "ann", era), Somebody::of(&daemon, "bob", era));
        assert_eq!(names(&ann.ask("tools/list", "", "")), ["alpha__act", "alpha__wipe"]);
        assert_eq!(names(&bob.ask("tools/list", "", "")), ["alpha__act"]);
        assert_eq!(ann.call("alpha__wipe", "{}")["isError"], Value::Null);
        let call = |name: &str| {
            let members = format!(r#""name":"{name}","arguments":{{}},"#);
            let answer = bob.send("tools/call", name, &members);
            (answer.status, answer.text().replace(name, "NAME"))
        };
        let (hidden, missing) = (call("alpha__wipe"), call("alpha__wise"));
        let apart_from_the_id = |(status, text): (u16, String)| {
            let mut value: Value = serde_json::from_str(&text).unwrap();
            value["id"] = Value::Null;
            (status, value)
        };
        assert_eq!(apart_from_the_id(hidden), apart_from_the_id(missing), "{era:?}");
        assert_eq!(daemon.journal("alpha").received("tools/call").len(), 1);
        let denied = daemon.entry("the denial", |line| line["rule"] == "nobody-else");
        assert_eq!(denied.last().unwrap()["decision"], "deny");
    }
}

#[test]
fn arguments_that_are_denied_are_told_the_model() {
    for era in ERAS {
        let daemon = settled(&governed(RULES), &["alpha"]);
        let bob = Somebody::of(&daemon, "bob", era);
        assert_eq!(bob.call("alpha__act", r#"{"n":5}"#)["isError"], Value::Null);
        let denied = bob.call("alpha__act", r#"{"n":11}"#);
        assert_eq!(denied["isError"], true, "{denied}");
        assert!(denied["content"][0]["text"].as_str().unwrap().contains("At most ten."), "{denied}");
        // Without an answer: denied. The rule that is tried out denies nothing.
        assert_eq!(bob.call("alpha__act", r#"{"n":"many"}"#)["isError"], true);
        assert_eq!(bob.call("alpha__act", r#"{"n":6}"#)["isError"], Value::Null);
        assert_eq!(daemon.journal("alpha").received("tools/call").len(), 2);
        daemon.entry("the record", |line| line["rule"] == "small" && line.get("rule_error").is_some());
        daemon.entry("the shadow", |line| line["shadow"].to_string().contains("later"));
    }
}

#[test]
fn rules_are_tried_without_a_gateway() {
    let folder = governed(RULES).write((0, 0));
    let tests = policy(&folder, &["test"]);
    assert!(tests.status.success(), "{}", String::from_utf8_lossy(&tests.stderr));
    assert_eq!(stdout(&tests), "ok: 6 tests\n");
    let explained = |arguments: &[&str]| {
        let output = policy(&folder, &[&["explain", "-o", "json", "--tool"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str::<Value>(stdout(&output)).unwrap()
    };
    let told = explained(&["alpha__act", "--args", r#"{"n":11}"#]);
    assert_eq!((&told["outcome"], &told["rule"]), (&json!("deny"), &json!("small")));
    assert_eq!(told["message"], "At most ten.");
    let verdicts: Vec<_> = told["rules"].as_array().unwrap().iter().map(|rule| &rule["verdict"]).collect();
    assert_eq!(verdicts, ["differs", "differs", "matches", "differs", "matches"]);
    assert_eq!(told["rules"][0]["why"], "what it is about");
    let without = explained(&["alpha__act"]);
    assert_eq!((&without["outcome"], &without["rules"][2]["verdict"]), (&json!("deny"), &json!("error")));
    assert_eq!(explained(&["alpha__wipe", "--principal", "ann"])["outcome"], "allow");
    assert_eq!(explained(&["alpha__wipe", "--principal", "bob"])["outcome"], "hide");
    let none = policy(&folder, &["explain", "--tool", "alpha__act", "--server", "other"]);
    assert_eq!(none.status.code(), Some(2));
    assert_eq!(policy(&folder, &["explain", "--tool", "alpha__act", "--args", "{"]).status.code(), Some(2));
}

#[test]
fn scopes_that_a_tool_asks_for_are_tried_too() {
    let rules = "default: allow
rules: [{ name: none, tools: [alpha__none], effect: deny }]
tests:
  - { call: alpha__act, expect: deny }
  - { call: alpha__act, principal: { scopes: [act] }, expect: allow }
";
    let setup = Setup::new()
        .upstream_with("alpha", Script::tools(&["act"]), "tool_scopes: { act: [act] }")
        .tenant("identity: { keys: true }")
        .tenant("policies: [policies/acme.yaml]")
        .file("policies/acme.yaml", rules);
    let folder = setup.write((0, 0));
    let tests = policy(&folder, &["test"]);
    assert_eq!(stdout(&tests), "ok: 2 tests\n", "{}", String::from_utf8_lossy(&tests.stderr));
    let told = policy(&folder, &["explain", "--tool", "alpha__act"]);
    assert!(stdout(&told).starts_with("deny by `scopes`"), "{}", stdout(&told));
}

#[test]
fn a_test_that_fails_says_where_and_by_which_rule() {
    let rules = RULES.replace(
        "call: alpha__act, args: { n: 11 }, expect: deny",
        "call: alpha__act, args: { n: 11 }, expect: allow",
    );
    let folder = governed(&rules).write((0, 0));
    let tests = policy(&folder, &["test"]);
    assert_eq!(tests.status.code(), Some(1));
    let said = String::from_utf8_lossy(&tests.stderr).into_owned();
    assert!(said.contains("acme.yaml:16: alpha__act: expected allow, got deny by `small`"), "{said}");
    assert!(said.contains("1 of 6 tests failed"), "{said}");
}

#[test]
fn the_example_of_the_page_holds_its_own_tests() {
    let mut blocks = PAGE.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let (tenant, rules) = (blocks.next().unwrap(), blocks.next().unwrap());
    assert_eq!(blocks.next(), None, "an example that nothing tests");
    let folder = governed(rules).write((0, 0));
    std::fs::write(folder.config().with_file_name("tenants").join("acme.yaml"), tenant).unwrap();
    let tests = policy(&folder, &["test"]);
    assert!(tests.status.success(), "{}", String::from_utf8_lossy(&tests.stderr));
    assert_eq!(stdout(&tests), "ok: 7 tests\n");
    let carl = ["explain", "--tool", "github__get_issue", "--principal", "carl", "--group", "contractors"];
    let facts = ["--server", "code", "--fact", "readOnly=true", "--fact", "trust=trusted"];
    let args = ["--args", r#"{"repo":"private-keys"}"#];
    let told = policy(&folder, &[&carl[..], &facts, &args].concat());
    assert!(stdout(&told).starts_with("deny by `private-repositories`\n"), "{}", stdout(&told));
}

#[test]
fn a_running_gateway_says_what_its_tools_are_like() {
    let reads = r#"{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"title":"Look"}}"#;
    let rules = r#"
default: deny
rules:
  - { name: readers, when: tool.readOnly, effect: allow }
  - { name: titled, when: 'tool.annotations.title == "Look"', effect: deny, mode: shadow }
tests:
  - { call: alpha__look, expect: allow }
  - { call: alpha__act, expect: deny }
  - { call: alpha__act, tool: { readOnly: true }, expect: allow }
"#;
    let setup = Setup::new()
        .upstream_with("alpha", Script::tools(&["act"]).item(wire::Kind::Tools, reads), "trust: trusted")
        .tenant("policies: [policies/acme.yaml]")
        .file("policies/acme.yaml", rules);
    let daemon = settled(&setup, &["alpha"]);
    let alone = policy(daemon.folder(), &["test"]);
    assert_eq!(alone.status.code(), Some(1), "an unknown tool is the worst");
    let url = daemon.admin();
    let known = policy(daemon.folder(), &["test", "--url", &url]);
    assert_eq!(stdout(&known), "ok: 3 tests\n", "{}", String::from_utf8_lossy(&known.stderr));
    let told = policy(daemon.folder(), &["explain", "--tool", "alpha__look", "--url", &url, "-o", "json"]);
    let told: Value = serde_json::from_str(stdout(&told)).unwrap();
    assert_eq!((&told["outcome"], &told["rules"][1]["verdict"]), (&json!("allow"), &json!("matches")));

    let folder = governed(RULES).write((0, 0));
    let no_key = folder.path().join("none.key");
    let nobody = policy(&folder, &["test", "--url", &url, "--key-file", no_key.to_str().unwrap()]);
    assert!(!nobody.status.success() && String::from_utf8_lossy(&nobody.stderr).contains("none.key"));
}
