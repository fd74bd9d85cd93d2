//! What clients of each revision get of the same upstream: names, lists, results and errors that they can read.

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Request, Script, Setup, Step};
use wire::{Kind, Revision};

use crate::settled;

const ENVELOPE: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
const MODERN: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#;

/// A request of the modern era; `params` is the inside of an object.
fn modern(client: &Client, method: &str, name: &str, params: &str) -> Request {
    let params = if params.is_empty() { String::new() } else { format!("{params},") };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}"_meta":{{{ENVELOPE},"progressToken":1}}}}}}"#
    );
    let request = client.post(body).with("mcp-protocol-version", "2026-07-28").with("mcp-method", method);
    if name.is_empty() { request } else { request.with("mcp-name", name) }
}

fn said(client: &Client, method: &str, name: &str, params: &str) -> Answer {
    client.send(&modern(client, method, name, params))
}

fn session(daemon: &Daemon, revision: Revision) -> Client {
    let mut client = daemon.stranger();
    assert_eq!(client.initialize(revision.text()).status, 200);
    client
}

// ---------------------------------------------------------------- bare names

const LINKS: &str = r#"{"content":[{"type":"resource_link","uri":"mem:\/\/\/k","name":"k"},{"type":"resource","resource":{"uri":"mem:///e","text":""}}]}"#;
const GONE: &str = r#"{"code":-32002,"message":"not found","data":{"uri":"mem:///gone"}}"#;

fn bare() -> Daemon {
    let tool =
        r#"{"name":"get.one","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui:\/\/app"}}}"#;
    let script = Script::new()
        .item(Kind::Tools, tool)
        .resource("mem:///k")
        .template("db://{t}/{id}")
        .prompt("ask me")
        .capabilities(r#"{"tools":{},"resources":{},"prompts":{},"completions":{}}"#)
        .on_call("get.one", &[Step::result(LINKS)]);
    let servers =
        "virtual_servers: { default: { upstreams: [alpha], names: bare }, other: { upstreams: [alpha] } }";
    settled(&Setup::one("alpha", script).tenant(servers), &["alpha"])
}

fn all_names(client: &Client) -> [Vec<String>; 4] {
    Kind::ALL.map(|kind| client.names(kind))
}

#[test]
fn bare_names_are_those_of_the_upstream_in_both_eras() {
    let daemon = bare();
    let client = daemon.client();
    let native = [vec!["get.one"], vec!["mem:///k"], vec!["db://{t}/{id}"], vec!["ask me"]];
    assert_eq!(all_names(&client), native);
    let raw = client.request("tools/list", "{}");
    assert!(raw.text().contains(r#""ui:\/\/app""#), "{}", raw.text());
    let listed = said(&client, "tools/list", "", "").message()["result"]["tools"][0]["name"].clone();
    assert_eq!(listed, "get.one");

    // What comes back is not touched, byte for byte.
    let call = client.request("tools/call", r#"{"name":"get.one"}"#);
    assert!(call.text().ends_with(&format!("\"result\":{LINKS}}}")), "{}", call.text());
    let call = said(&client, "tools/call", "get.one", r#""name":"get.one""#);
    assert!(call.text().contains(r#""uri":"mem:\/\/\/k""#), "{}", call.text());
    assert_eq!(client.result("resources/read", r#"{"uri":"mem:///k"}"#)["contents"][0]["uri"], "mem:///k");
    // Also what no list mentions.
    let read = said(&client, "resources/read", "db://u/1", r#""uri":"db://u/1""#).message();
    assert_eq!(read["result"]["contents"][0]["uri"], "db://u/1");
    client.result("prompts/get", r#"{"name":"ask me"}"#);
    let template = json!({ "type": "ref/resource", "uri": "db://{t}/{id}" });
    let params = json!({ "ref": template, "argument": { "name": "t", "value": "" } });
    let values = client.result("completion/complete", &params.to_string())["completion"]["values"].clone();
    assert!(values[0].as_str().unwrap().contains("db://{t}/{id}"), "{values}");
    // A prefixed name is an unknown one here.
    assert_eq!(client.error("tools/call", r#"{"name":"alpha__get_one"}"#)["code"], -32602);
}

#[test]
fn a_server_with_bare_names_leaves_others_their_prefixes() {
    let daemon = bare();
    let other = daemon.client_at("/mcp/other");
    let [tools, resources, templates, _] = all_names(&other);
    assert!(tools[0].starts_with("alpha__get_one_"), "{tools:?}");
    assert_eq!((&*resources[0], &*templates[0]), ("alpha+mem:///k", "alpha+db://{t}/{id}"));
    let content = other.call(&tools[0], "{}")["content"].clone();
    assert_eq!(
        (&content[0]["uri"], &content[1]["resource"]["uri"]),
        (&json!("alpha+mem:///k"), &json!("alpha+mem:///e"))
    );
    assert_eq!(other.error("resources/read", r#"{"uri":"mem:///k"}"#)["code"], -32002);
}

#[test]
fn a_missing_resource_is_told_by_the_clients_own_uri() {
    let script = || Script::new().resource("mem:///gone").on("resources/read", &[Step::error(GONE)]);
    let servers =
        "virtual_servers: { default: { upstreams: [alpha], names: bare }, other: { upstreams: [alpha] } }";
    let daemon = settled(&Setup::one("alpha", script()).tenant(servers), &["alpha"]);
    for (path, uri) in [("/mcp", "mem:///gone"), ("/mcp/other", "alpha+mem:///gone")] {
        let client = daemon.client_at(path);
        let param = format!(r#""uri":"{uri}""#);
        let legacy = client.error("resources/read", &format!("{{{param}}}"));
        assert_eq!((&legacy["code"], &legacy["data"]["uri"]), (&json!(-32002), &json!(uri)));
        let modern = said(&client, "resources/read", uri, &param);
        assert_eq!(modern.verdict(), (200, Some(-32602)));
        assert_eq!(modern.message()["error"]["data"]["uri"], uri);
    }
}

// ---------------------------------------------------------------- what older revisions cannot read

#[test]
fn each_revision_gets_what_it_can_read() {
    let tools = [
        r#"{"name":"list","inputSchema":{"type":"object"},"outputSchema":{"type":"array"},"execution":{"taskSupport":"optional"}}"#,
        r#"{"name":"map","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}"#,
    ];
    let list = r#"{"content":[{"type":"audio","data":"","mimeType":"audio/wav"},{"type":"resource_link","uri":"mem:///k","name":"k"}],"structuredContent":[1.0]}"#;
    let map = r#"{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}"#;
    let ask =
        r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":"mem:///k","name":"k"}}]}"#;
    let script = Script::new().item(Kind::Tools, tools[0]).item(Kind::Tools, tools[1]).prompt("ask");
    let script = script
        .on("server/discover", &[Step::result(MODERN)])
        .on_call("list", &[Step::result(list)])
        .on_call("map", &[Step::result(map)])
        .on("prompts/get", &[Step::result(ask)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    for (revision, schemas, kinds, structured) in [
        (Revision::R2024_11_05, [false, false], vec!["text", "text"], [false, false]),
        (Revision::R2025_03_26, [false, false], vec!["audio", "text", "text"], [false, false]),
        (Revision::R2025_06_18, [false, true], vec!["audio", "resource_link", "text"], [false, true]),
        (Revision::R2025_11_25, [false, true], vec!["audio", "resource_link", "text"], [false, true]),
    ] {
        let client = session(&daemon, revision);
        let listed = client.list(Kind::Tools);
        let has: Vec<bool> = listed.iter().map(|tool| !tool["outputSchema"].is_null()).collect();
        assert_eq!(has, schemas, "{revision:?}");
        let told = listed.iter().any(|tool| !tool["execution"].is_null());
        assert_eq!(told, revision == Revision::R2025_11_25, "{revision:?} {listed:?}");
        let (list, map) = (client.call("alpha__list", "{}"), client.call("alpha__map", "{}"));
        let blocks = list["content"].as_array().unwrap();
        assert_eq!(blocks.iter().map(|block| block["type"].as_str().unwrap()).collect::<Vec<_>>(), kinds);
        assert_eq!(blocks.last().unwrap()["text"], "[1.0]");
        assert_eq!([&list, &map].map(|result| !result["structuredContent"].is_null()), structured);
        assert_eq!(map["content"].as_array().unwrap().len(), 1, "{map}");
        let prompt = client.result("prompts/get", r#"{"name":"alpha__ask"}"#);
        let expected = if revision.has_resource_links() { "resource_link" } else { "text" };
        assert_eq!(prompt["messages"][0]["content"]["type"], expected);
    }
    let client = daemon.stranger();
    let tools = said(&client, "tools/list", "", "").message()["result"]["tools"].clone();
    assert_eq!(tools[0]["outputSchema"], json!({ "type": "array" }));
    let newest = said(&client, "tools/call", "alpha__list", r#""name":"alpha__list""#);
    assert!(newest.text().contains(r#""structuredContent":[1.0]"#), "{}", newest.text());
}

#[test]
fn a_completion_brings_its_context_only_where_it_is_known() {
    for (revision, keeps) in [("2025-03-26", false), ("2025-06-18", true)] {
        let script = Script::new().prompt("ask").revision(revision);
        let script = script.capabilities(r#"{"prompts":{},"completions":{}}"#);
        let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
        let params = json!({
            "ref": { "type": "ref/prompt", "name": "alpha__ask" },
            "argument": { "name": "a", "value": "" },
            "context": { "arguments": { "b": "c" } },
        });
        daemon.client().result("completion/complete", &params.to_string());
        let received = daemon.journal("alpha").awaits("completion/complete");
        assert_eq!(!received["params"]["context"].is_null(), keeps, "{received}");
    }
}

// ---------------------------------------------------------------- errors

const NEEDS: &str =
    r#"{"code":-32021,"message":"needs sampling","data":{"requiredCapabilities":{"sampling":{}}}}"#;

fn needing(tenant: &str) -> Daemon {
    let script = Script::tools(&["at_once", "late"])
        .on("server/discover", &[Step::result(MODERN)])
        .on_call("at_once", &[Step::error(NEEDS)])
        .on_call("late", &[Step::progress("1"), Step::gate("go"), Step::error(NEEDS)]);
    settled(&Setup::one("alpha", script).tenant(tenant), &["alpha"])
}

#[test]
fn a_status_is_told_until_the_head_of_the_answer_has_left() {
    let daemon = needing("");
    let client = daemon.stranger();
    let answer = said(&client, "tools/call", "alpha__at_once", r#""name":"alpha__at_once""#);
    assert_eq!(answer.verdict(), (400, Some(-32021)));
    assert_eq!(answer.message()["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }));

    let request = modern(&client, "tools/call", "alpha__late", r#""name":"alpha__late""#);
    let mut stream = client.begin(&request).stream();
    assert_eq!(stream.next_message().unwrap()["params"]["progress"], 1);
    daemon.journal("alpha").open("go");
    assert_eq!(stream.next_message().unwrap()["error"]["code"], -32021);

    // What only one hop is about is not explained to a client of the other era (spec X-04).
    let legacy = daemon.client().error("tools/call", r#"{"name":"alpha__at_once"}"#);
    assert_eq!((&legacy["code"], &legacy["data"]), (&json!(-32603), &Value::Null));
}

#[test]
fn a_tenant_may_have_every_error_with_status_200() {
    let daemon = needing("error_status: ok");
    let client = daemon.stranger();
    let answer = said(&client, "tools/call", "alpha__at_once", r#""name":"alpha__at_once""#);
    assert_eq!(answer.verdict(), (200, Some(-32021)));
    assert_eq!(said(&client, "foo/bar", "", "").verdict(), (200, Some(-32601)));
    let wrong = modern(&client, "tools/list", "", "").with("mcp-method", "tools/call");
    assert_eq!(client.send(&wrong).verdict(), (200, Some(-32020)));
    // What HTTP itself refuses stays refused.
    assert_eq!(client.say("{").verdict(), (400, Some(-32700)));
}

#[test]
fn what_a_server_says_of_its_failure_names_no_internal_address() {
    let long = format!(r"see http://10.0.0.5:8080/x \u001b[31m{}", "é".repeat(1 << 19));
    let error = format!(r#"{{"code":-32000,"message":"{long}","data":{{"at":"10.0.0.5:8080"}}}}"#);
    let content = r#"{"content":[{"type":"text","text":"http://10.0.0.5:8080/ \u001b"}],"isError":true}"#;
    let script = Script::tools(&["fails", "says"])
        .on_call("fails", &[Step::error(&error)])
        .on_call("says", &[Step::result(content)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let client = daemon.client();
    let error = client.error("tools/call", r#"{"name":"alpha__fails"}"#);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.len() <= 2048 && !message.contains("10.0.0.5") && !message.contains('\u{1b}'),
        "{message}"
    );
    assert!(!error["data"].to_string().contains("10.0.0.5"), "{error}");
    // Content is content.
    let said = client.request("tools/call", r#"{"name":"alpha__says"}"#);
    assert!(said.text().ends_with(&format!("\"result\":{content}}}")), "{}", said.text());
}
