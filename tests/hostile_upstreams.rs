//! Servers that shout, send too much, or send what is no message.

use serde_json::{Value, json};
use testkit::{Script, Setup, Step, until};
use wire::Kind;

use crate::settled;

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn reason(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(result["_meta"]["portcullis/error"]["upstream"], "alpha", "{result}");
    result["_meta"]["portcullis/error"]["reason"].as_str().unwrap()
}

#[test]
fn noise_and_floods_cost_nothing_but_a_line_in_the_log() {
    let script = Script::tools(&["act"]).at_start(&[Step::noise(3), Step::stderr(3)]).on_call(
        "act",
        &[
            Step::stderr(20_000),
            Step::noise(2_000),
            Step::result(r#"{"content":[{"type":"text","text":"fine"}]}"#),
        ],
    );
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let client = daemon.client();
    for _ in 0..3 {
        assert_eq!(text(&client.call("alpha__act", "{}")), "fine");
    }
    let log = daemon.log();
    assert!(log.contains("noise 0 on the error stream") && log.contains("upstream=\"alpha\""), "{log:.2000}");
    assert!(log.lines().count() < 5_000, "{} lines", log.lines().count());
}

#[test]
fn large_answers_side_by_side_with_small_ones_all_arrive() {
    let script = Script::tools(&["big", "act"]).on_call("big", &[Step::big(3_000_000)]);
    let daemon = settled(&Setup::new().upstream_with("alpha", script, "share: tenant"), &["alpha"]);
    let client = daemon.client();
    let big: Vec<_> = (0..8).map(|_| client.start("tools/call", r#"{"name":"alpha__big"}"#)).collect();
    for _ in 0..20 {
        client.call("alpha__act", &format!(r#"{{"x":"{}"}}"#, "y".repeat(200_000)));
    }
    for pending in big {
        let id = pending.id;
        let message = pending.answer().messages().pop().unwrap();
        assert_eq!(message["id"], id);
        assert_eq!(text(&message["result"]).len(), 3_000_000);
    }
}

#[test]
fn a_result_above_the_limit_is_refused_and_the_session_goes_on() {
    let script = Script::tools(&["big", "act"]).on_call("big", &[Step::big(200_000)]);
    let setup = Setup::one("alpha", script).process("limits: { result: 100KiB }");
    let daemon = settled(&setup, &["alpha"]);
    let client = daemon.client();
    let result = client.call("alpha__big", "{}");
    assert_eq!(result["isError"], true);
    assert_eq!(result["_meta"]["portcullis/error"]["reason"], "result_too_large");
    client.call("alpha__act", "{}");
}

#[test]
fn a_line_above_the_cap_ends_the_process_and_the_next_one_serves() {
    let script = Script::tools(&["huge", "act"]).on_call("huge", &[Step::big(17 * 1024 * 1024)]);
    let daemon = settled(&Setup::new().upstream_with("alpha", script, "share: tenant"), &["alpha"]);
    let client = daemon.client();
    assert_eq!(reason(&client.call("alpha__huge", "{}")), "upstream_exited");
    until("the next process", || client.call("alpha__act", "{}")["structuredContent"]["pid"].as_u64());
    assert_eq!(daemon.journal("alpha").received("tools/call").len(), 2);
}

#[test]
fn an_answer_that_is_no_message_is_not_passed_on() {
    let answers = [
        ("twice", r#"{"jsonrpc":"2.0","id":${id},"result":{"content":[],"content":[]}}"#),
        ("deep_twice", r#"{"jsonrpc":"2.0","id":${id},"result":{"content":[],"x":[{"a":1,"\u0061":2}]}}"#),
        (
            "surrogate",
            r#"{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"\ud800"}]}}"#,
        ),
        ("no_number", r#"{"jsonrpc":"2.0","id":${id},"result":{"content":[],"n":NaN}}"#),
        ("no_version", r#"{"id":${id},"result":{"content":[]}}"#),
        ("both", r#"{"jsonrpc":"2.0","id":${id},"result":{"content":[]},"error":{"code":1,"message":""}}"#),
    ];
    let names: Vec<&str> = answers.iter().map(|(name, _)| *name).collect();
    let script = answers.iter().fold(Script::tools(&names).tool("act"), |script, (name, raw)| {
        script.on_call(name, &[Step::send(raw)])
    });
    let setup = Setup::new().upstream_with("alpha", script, "share: tenant\ntimeouts: { call: 2s }");
    let daemon = settled(&setup, &["alpha"]);
    let client = daemon.client();
    for name in names {
        let tool = format!("alpha__{name}");
        let reason = reason(&client.call(&tool, "{}")).to_owned();
        assert_eq!(reason, "upstream_garbled", "{name}");
        let lines = daemon.entry(name, |line| line["tool"] == tool);
        assert_eq!(lines.last().unwrap()["reason"], "upstream_garbled");
        client.call("alpha__act", "{}");
    }
}

#[test]
fn answers_to_nothing_and_second_answers_reach_nobody() {
    let stray = r#"{"jsonrpc":"2.0","id":999999,"result":{"content":[{"type":"text","text":"stray"}]}}"#;
    let first = r#"{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"first"}]}}"#;
    let second = first.replace("first", "second");
    let steps = [Step::send(stray), Step::send(first), Step::send(&second)];
    let script = Script::tools(&["act"]).on_call("act", &steps);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let client = daemon.client();
    for _ in 0..5 {
        assert_eq!(text(&client.call("alpha__act", "{}")), "first");
    }
}

#[test]
fn more_tools_than_the_bound_are_dropped_and_told() {
    let script = Script::tools(&["a", "b", "c", "d", "e"]);
    let daemon = settled(&Setup::new().upstream_with("alpha", script, "max_tools: 3"), &["alpha"]);
    assert_eq!(daemon.client().names(Kind::Tools), ["alpha__a", "alpha__b", "alpha__c"]);
    let remarks = daemon.state_of("alpha")["remarks"].to_string();
    assert!(remarks.contains("more than 3 tools"), "{remarks}");
}

#[test]
fn an_error_of_an_upstream_is_told_without_what_could_mislead() {
    let script = Script::tools(&["fail", "hop"])
        .on_call("fail", &[Step::error(r#"{"code":-32050,"message":"no\u001b[2J way","data":{"n":1.0}}"#)])
        .on_call("hop", &[Step::error(r#"{"code":-32022,"message":"version","data":{"supported":["x"]}}"#)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let client = daemon.client();
    let error = client.error("tools/call", r#"{"name":"alpha__fail"}"#);
    assert!(!error["message"].as_str().unwrap().contains('\u{1b}'), "{error}");
    // A code that speaks of our own hop would send the client astray.
    assert_eq!(client.error("tools/call", r#"{"name":"alpha__hop"}"#)["code"], json!(-32603));
}

#[test]
fn a_server_of_an_unknown_revision_is_let_go_and_hides_nobody() {
    let setup = Setup::one("alpha", Script::tools(&["act"]).revision("2030-01-01"))
        .upstream("beta", Script::tools(&["act"]));
    let daemon = settled(&setup, &["beta"]);
    let client = daemon.client();
    assert_eq!(client.names(Kind::Tools), ["beta__act"]);
    let why =
        until("the reason", || daemon.state_of("alpha")["connection"]["why"].as_str().map(str::to_owned));
    assert!(why.contains("revision"), "{why}");
    client.call("beta__act", "{}");
}

#[test]
fn completions_are_cut_to_what_clients_take() {
    let values: Vec<String> = (0..150).map(|n| format!("v{n}")).collect();
    let result = json!({ "completion": { "values": values, "total": 150, "hasMore": false } });
    let script = Script::new()
        .prompt("ask")
        .capabilities(r#"{"prompts":{},"completions":{}}"#)
        .on("completion/complete", &[Step::result(&result.to_string())]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let params = r#"{"ref":{"type":"ref/prompt","name":"alpha__ask"},"argument":{"name":"a","value":""}}"#;
    let completion = daemon.client().result("completion/complete", params)["completion"].clone();
    // At most a hundred, and the client knows that there are more (spec K-03).
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["hasMore"], &completion["total"]), (&json!(true), &json!(150)));
}
