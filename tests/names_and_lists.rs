//! What clients see: names, filters, virtual servers, pages, and resources under their exposed URIs.

use serde_json::{Value, json};
use testkit::{Client, Script, Setup, Step, until};
use wire::Kind;

use crate::settled;

fn all_names(client: &Client) -> [Vec<String>; 4] {
    Kind::ALL.map(|kind| client.names(kind))
}

fn rich() -> Script {
    Script::tools(&["get_one", "get_secret", "forget_all"])
        .resource("file:///docs/a")
        .resource("file:///private/b")
        .template("file:///docs/{name}")
        .template("file:///private/{name}")
        .prompt("ask")
        .prompt("hidden")
        .capabilities(r#"{"tools":{},"resources":{},"prompts":{},"completions":{}}"#)
}

// ---------------------------------------------------------------- names and selection

#[test]
fn lists_are_in_the_order_of_upstreams_and_then_their_own() {
    let two = Setup::new()
        .upstream("zeta", Script::tools(&["b", "a"]).resource("mem://same").prompt("p"))
        .upstream("alpha", Script::tools(&["z", "Y"]).resource("mem://same"));
    let daemon = settled(&two, &["alpha", "zeta"]);
    let [tools, resources, _, prompts] = all_names(&daemon.client());
    assert_eq!(tools, ["alpha__z", "alpha__Y", "zeta__b", "zeta__a"]);
    assert_eq!(resources, ["alpha+mem://same", "zeta+mem://same"]);
    assert_eq!(prompts, ["zeta__p"]);
}

#[test]
fn a_filter_holds_for_lists_and_for_everything_that_names_a_thing() {
    let filters = "tools: { includeRegex: [\"get_.*\"], exclude: [get_secret] }\n\
                   resources: { exclude: [\"file:///private/*\"] }\nprompts: { include: [ask] }";
    let daemon = settled(&Setup::new().upstream_with("alpha", rich(), filters), &["alpha"]);
    let client = daemon.client();
    let [tools, resources, templates, prompts] = all_names(&client);
    assert_eq!(tools, ["alpha__get_one"]);
    assert_eq!(resources, ["alpha+file:///docs/a"]);
    assert_eq!(templates, ["alpha+file:///docs/{name}"]);
    assert_eq!(prompts, ["alpha__ask"]);

    let refused = |method: &str, params: Value| client.error(method, &params.to_string())["code"].clone();
    for tool in ["alpha__get_secret", "alpha__forget_all"] {
        assert_eq!(refused("tools/call", json!({ "name": tool })), -32602);
    }
    for uri in
        ["alpha+file:///private/b", "alpha+file:///private/unlisted", "alpha+file:///docs/../private/b"]
    {
        assert_eq!(refused("resources/read", json!({ "uri": uri })), -32002, "{uri}");
    }
    assert_eq!(refused("prompts/get", json!({ "name": "alpha__hidden" })), -32602);
    let completes = |reference: Value| json!({ "ref": reference, "argument": { "name": "a", "value": "" } });
    let prompt = json!({ "type": "ref/prompt", "name": "alpha__hidden" });
    let template = json!({ "type": "ref/resource", "uri": "alpha+file:///private/{name}" });
    assert_eq!(refused("completion/complete", completes(prompt)), -32602);
    // What cannot be completed is a wrong parameter, not a resource that is gone (spec K-05, K-06).
    assert_eq!(refused("completion/complete", completes(template)), -32602);

    // What is visible works, also a resource that no list mentions.
    client.call("alpha__get_one", "{}");
    client.result("prompts/get", r#"{"name":"alpha__ask"}"#);
    client.result("resources/read", r#"{"uri":"alpha+file:///docs/unlisted"}"#);
    let journal = daemon.journal("alpha");
    assert_eq!(journal.received("tools/call").len() + journal.received("prompts/get").len(), 2);
    assert_eq!(journal.received("resources/read").len(), 1);
}

#[test]
fn a_hidden_thing_looks_missing_byte_for_byte() {
    let filters = "tools: { exclude: [get_one] }\nprompts: { exclude: [ask] }\nresources: { exclude: [\"file:///docs/a\"] }";
    let daemon = settled(&Setup::new().upstream_with("alpha", rich(), filters), &["alpha"]);
    let client = daemon.client();
    for (method, key, hidden, missing) in [
        ("tools/call", "name", "alpha__get_one", "alpha__get_two"),
        ("prompts/get", "name", "alpha__ask", "alpha__bsk"),
        ("resources/read", "uri", "alpha+file:///docs/a", "alphb+file:///docs/a"),
    ] {
        let answer = |name: &str| {
            let answer = client.say(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"{key}":"{name}"}}}}"#
            ));
            let headers: Vec<_> = answer.headers.iter().filter(|(name, _)| name != "date").cloned().collect();
            (answer.status, headers, answer.text().replace(name, "NAME"))
        };
        assert_eq!(answer(hidden), answer(missing), "{method}");
    }
    assert_eq!(daemon.journal("alpha").received("tools/call").len(), 0);
}

#[test]
fn a_virtual_server_shows_its_own_selection_at_its_own_address() {
    let setup = Setup::new()
        .upstream_with("alpha", rich(), "trust: trusted")
        .upstream_with("beta", Script::tools(&["act"]).resource("mem://b"), "trust: trusted")
        .tenant(
            "virtual_servers:\n  default: { upstreams: [alpha, beta] }\n  \
             reading: { upstreams: [alpha], tools: { include: [\"get_*\"] }, prompts: { exclude: [\"*\"] }, resources: { include: [\"file:///docs/*\"] } }",
        );
    let daemon = settled(&setup, &["alpha", "beta"]);
    for path in ["/mcp", "/mcp/", "/mcp/default", "/t/acme/mcp", "/t/acme/mcp/default/"] {
        assert_eq!(daemon.client_at(path).names(Kind::Tools).len(), 4, "{path}");
    }
    for path in ["/mcp/reading", "/mcp/reading/", "/t/acme/mcp/reading"] {
        let client = daemon.client_at(path);
        let [tools, resources, templates, prompts] = all_names(&client);
        assert_eq!(tools, ["alpha__get_one", "alpha__get_secret"]);
        assert_eq!(resources, ["alpha+file:///docs/a"]);
        assert_eq!(templates, ["alpha+file:///docs/{name}"]);
        assert_eq!(prompts, [""; 0]);
        for (method, params) in [
            ("tools/call", r#"{"name":"alpha__forget_all"}"#),
            ("tools/call", r#"{"name":"beta__act"}"#),
            ("prompts/get", r#"{"name":"alpha__ask"}"#),
            ("resources/read", r#"{"uri":"beta+mem://b"}"#),
            ("resources/read", r#"{"uri":"alpha+file:///private/b"}"#),
        ] {
            let code = client.error(method, params)["code"].as_i64().unwrap();
            assert_eq!(code, if method == "resources/read" { -32002 } else { -32602 }, "{params}");
        }
    }
    for path in ["/mcp/nowhere", "/t/other/mcp", "/t/acme/mcp/nowhere", "/t/other/mcp/reading"] {
        let mut client = daemon.stranger();
        client.path = path.to_owned();
        assert_eq!(client.initialize("2025-11-25").verdict(), (404, Some(-32600)), "{path}");
    }
    for path in ["/", "/mcpx", "/mcp/reading/more", "/sse", "/status", "/metrics"] {
        let mut client = daemon.stranger();
        client.path = path.to_owned();
        assert_eq!(client.initialize("2025-11-25").status, 404, "{path}");
    }
}

#[test]
fn a_session_belongs_to_the_endpoint_where_it_was_opened() {
    let setup = Setup::new()
        .upstream("alpha", Script::tools(&["act"]))
        .tenant("virtual_servers:\n  default: { upstreams: [alpha] }\n  other: { upstreams: [alpha] }");
    let daemon = settled(&setup, &["alpha"]);
    let mut client = daemon.client_at("/mcp/other");
    client.path = "/mcp".to_owned();
    assert_eq!(client.request("tools/list", "{}").status, 404);
    assert_eq!(client.delete().status, 404);
    client.path = "/t/acme/mcp/other".to_owned();
    assert_eq!(client.request("tools/list", "{}").status, 200);
}

#[test]
fn a_filter_that_matches_nothing_is_told_and_hides_what_it_says() {
    let setup = Setup::new().upstream_with("alpha", rich(), "tools: { include: [\"alpha__get_one\"] }");
    let daemon = settled(&setup, &["alpha"]);
    assert_eq!(daemon.client().names(Kind::Tools), [""; 0]);
    let remarks = daemon.state_of("alpha")["remarks"].to_string();
    assert!(remarks.contains("alpha__get_one"), "{remarks}");
    assert!(daemon.log().contains("alpha__get_one"));
}

// ---------------------------------------------------------------- pages

/// A script with this many tools, in pages of 400.
fn many(count: usize) -> Script {
    let items: Vec<String> =
        (0..count).map(|n| format!(r#"{{"name":"t{n:04}","inputSchema":{{"type":"object"}}}}"#)).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let chunks: Vec<&[&str]> = items.chunks(400).collect();
    let cursors: Vec<String> = (0..chunks.len()).map(|n| format!("page {n}")).collect();
    let nexts: Vec<String> = cursors.iter().map(|cursor| format!("{cursor:?}")).collect();
    let pages: Vec<(Option<&str>, &[&str], Option<&str>)> = chunks
        .iter()
        .enumerate()
        .map(|(n, items)| {
            let at = (n > 0).then(|| cursors[n].as_str());
            (at, *items, nexts.get(n + 1).map(String::as_str))
        })
        .collect();
    Script::new().pages(Kind::Tools, &pages)
}

#[test]
fn a_long_list_comes_in_pages_that_hold_everything_once() {
    let daemon = settled(&Setup::one("alpha", many(1500)), &["alpha"]);
    let client = daemon.client();
    let pages = client.pages(Kind::Tools);
    assert!(pages.len() > 1, "one page of {}", pages[0]["tools"].as_array().unwrap().len());
    let names = client.names(Kind::Tools);
    let expected: Vec<String> = (0..1500).map(|n| format!("alpha__t{n:04}")).collect();
    assert_eq!(names, expected);
    // The last page has no cursor at all, rather than one of null.
    assert!(pages.last().unwrap().get("nextCursor").is_none());
    client.call("alpha__t1499", "{}");
}

#[test]
fn a_cursor_is_good_for_its_list_and_its_session_only() {
    let mut script = many(1200);
    for n in 0..1200 {
        script = script.prompt(&format!("p{n}"));
    }
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let client = daemon.client();
    let next = |client: &Client, kind: Kind| {
        client.result(kind.list_method().name(), "{}")["nextCursor"].as_str().unwrap().to_owned()
    };
    let ask = |client: &Client, kind: Kind, cursor: &str| {
        client.request(kind.list_method().name(), &json!({ "cursor": cursor }).to_string()).code()
    };
    let cursor = next(&client, Kind::Tools);
    assert_eq!(ask(&client, Kind::Tools, &cursor), None);
    assert_eq!(ask(&client, Kind::Prompts, &cursor), Some(-32602), "another list");
    assert_eq!(ask(&daemon.client(), Kind::Tools, &cursor), Some(-32602), "another session");
    // Each byte counts; the last may hold bits that the encoding does not use, so its neighbour stands for it.
    for at in [0, 1, cursor.len() / 2, cursor.len() - 2] {
        let mut bent = cursor.clone().into_bytes();
        bent[at] = if bent[at] == b'A' { b'B' } else { b'A' };
        let bent = String::from_utf8(bent).unwrap();
        assert_eq!(ask(&client, Kind::Tools, &bent), Some(-32602), "{bent}");
    }
    for bent in
        ["", "0", "page 1", &cursor[1..], &format!("{cursor}A"), &cursor.repeat(2), &"A".repeat(10_000)]
    {
        assert_eq!(ask(&client, Kind::Tools, bent), Some(-32602), "{bent}");
    }
    for raw in ["7", "true", "[]", "{}"] {
        let answer = client.request("tools/list", &format!(r#"{{"cursor":{raw}}}"#));
        assert_eq!(answer.verdict(), (200, Some(-32602)), "{raw}");
    }
    assert!(!cursor.contains("alpha"), "{cursor}");
}

#[test]
fn an_upstream_that_repeats_a_cursor_is_read_once_and_reported() {
    let item = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    let (a, b) = (item("a"), item("b"));
    let pages = [
        (None, &[a.as_str()][..], Some(r#""again""#)),
        (Some("again"), &[b.as_str()][..], Some(r#""again""#)),
    ];
    let daemon = settled(&Setup::one("alpha", Script::new().pages(Kind::Tools, &pages)), &["alpha"]);
    // What came twice is a twin of itself, and nobody can tell twins apart.
    let names = daemon.client().names(Kind::Tools);
    assert!(names.contains(&"alpha__a".to_owned()), "{names:?}");
    assert!(daemon.journal("alpha").received("tools/list").len() <= 3);
    let remarks = daemon.state_of("alpha")["remarks"].to_string();
    assert!(remarks.contains("cursor"), "{remarks}");
}

#[test]
fn an_empty_cursor_of_an_upstream_is_a_cursor() {
    let item = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    let (a, b) = (item("a"), item("b"));
    let pages = [(None, &[a.as_str()][..], Some(r#""""#)), (Some(""), &[b.as_str()][..], None)];
    let daemon = settled(&Setup::one("alpha", Script::new().pages(Kind::Tools, &pages)), &["alpha"]);
    assert_eq!(daemon.client().names(Kind::Tools), ["alpha__a", "alpha__b"]);
}

#[test]
fn one_malformed_item_hides_no_other_and_one_broken_list_no_other_list() {
    let good = r#"{"name":"good","inputSchema":{"type":"object","properties":{"n":{"const":1.10}}},"x":{"y":[1e2]}}"#;
    let items = [
        r#"{"name":"a","inputSchema":{"type":"object","properties":null}}"#,
        r#"{"name":7,"inputSchema":{"type":"object"}}"#,
        r#"{"inputSchema":{"type":"object"}}"#,
        r#""text""#,
        "null",
        r#"{"name":"twin","inputSchema":{"type":"object"}}"#,
        r#"{"name":"Twin","inputSchema":{"type":"object"}}"#,
        r#"{"name":"","inputSchema":{"type":"object"}}"#,
        good,
    ];
    let script = Script::new()
        .pages(Kind::Tools, &[(None, &items, None)])
        .resource("mem://fine")
        .on("prompts/list", &[Step::result(r#"{"prompts":"none"}"#)])
        .capabilities(r#"{"tools":{},"resources":{},"prompts":{}}"#);
    let setup = Setup::one("alpha", script).upstream("beta", Script::tools(&["act"]));
    let daemon = settled(&setup, &["alpha", "beta"]);
    let client = daemon.client();
    let answer = client.request("tools/list", "{}");
    assert_eq!(client.names(Kind::Tools), ["alpha__good", "beta__act"]);
    // Everything but the name is the upstream's bytes.
    assert!(answer.text().contains(&good.replace("good", "alpha__good")), "{}", answer.text());
    assert_eq!(client.names(Kind::Resources), ["alpha+mem://fine"]);
    assert_eq!(client.names(Kind::Prompts), [""; 0]);
    let remarks = daemon.state_of("alpha")["remarks"].to_string();
    for word in ["`a`", "`twin`", "`Twin`", "prompts"] {
        assert!(remarks.contains(word), "{word} in {remarks}");
    }
    for tool in ["alpha__a", "alpha__twin", "alpha__Twin", "alpha__"] {
        assert_eq!(
            client.error("tools/call", &json!({ "name": tool }).to_string())["code"],
            -32602,
            "{tool}"
        );
    }
}

#[test]
fn a_change_is_announced_once_however_often_it_is_said() {
    let tool = r#"{"name":"new","inputSchema":{"type":"object"}}"#;
    let mut storm = vec![Step::list(Kind::Tools, &[tool])];
    storm.extend(vec![Step::changed(Kind::Tools); 50]);
    let marker = [Step::list(Kind::Prompts, &[r#"{"name":"p"}"#]), Step::changed(Kind::Prompts)];
    // The lists are empty first, so that nothing is announced when they are read for the first time.
    let script = Script::new()
        .pages(Kind::Tools, &[(None, &[], None)])
        .pages(Kind::Prompts, &[(None, &[], None)])
        .on_cue("storm", &storm)
        .on_cue("lie", &vec![Step::changed(Kind::Resources); 20])
        .on_cue("marker", &marker);
    let setup = Setup::one("alpha", script).tenant(
        "virtual_servers:\n  default: { upstreams: [alpha] }\n  \
             other: { upstreams: [alpha], tools: { exclude: [\"*\"] }, prompts: { exclude: [\"*\"] } }",
    );
    let daemon = settled(&setup, &["alpha"]);
    let (client, other) = (daemon.client(), daemon.client_at("/mcp/other"));
    let (mut stream, quiet) = (client.listen(), other.listen());
    assert_eq!(client.names(Kind::Tools), [""; 0]);

    let journal = daemon.journal("alpha");
    journal.cue("storm");
    let changed = |kind: Kind| json!({ "jsonrpc": "2.0", "method": kind.changed().name() });
    assert_eq!(stream.next_message().unwrap(), changed(Kind::Tools));
    assert_eq!(client.names(Kind::Tools), ["alpha__new"]);
    journal.cue("lie");
    journal.cue("marker");
    // Neither a second word about the tools, nor one about resources that did not change.
    assert_eq!(stream.next_message().unwrap(), changed(Kind::Prompts));
    assert!(journal.received("tools/list").len() <= 4, "{}", journal.received("tools/list").len());
    // Who sees nothing of it hears nothing of it: that stream ends as empty as it began.
    assert_eq!(other.delete().status, 204);
    assert_eq!(quiet.all(), [json!(null); 0]);
}

// ---------------------------------------------------------------- resources under exposed URIs

#[test]
fn uris_in_results_are_those_that_the_client_knows() {
    let call = r#"{"content":[{"type":"resource_link","uri":"mem://a","name":"mem://a"},{"type":"resource","resource":{"uri":"mem://b","text":"mem://b","_meta":{"uri":"mem://b"}}},{"type":"text","text":"see mem://a"}],"structuredContent":{"uri":"mem://a"}}"#;
    let read = r#"{"contents":[{"uri":"mem://a","text":"mem://a"},{"uri":"mem://a/sub","blob":"bWVt"}]}"#;
    let get = r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"mem://a","text":""}}},{"role":"assistant","content":{"type":"resource_link","uri":"mem://b","name":"b"}}]}"#;
    let script = Script::tools(&["act"])
        .resource("mem://a")
        .template("mem://{id}")
        .prompt("ask")
        .capabilities(r#"{"tools":{},"resources":{},"prompts":{},"completions":{}}"#)
        .on_call("act", &[Step::result(call)])
        .on("resources/read", &[Step::result(read)])
        .on("prompts/get", &[Step::result(get)]);
    let daemon = settled(&Setup::one("my_files", script), &["my_files"]);
    let client = daemon.client();
    // `_` cannot stand in a scheme.
    let exposed = |raw: &str| raw.replace(r#""uri":"mem:"#, r#""uri":"my.files+mem:"#);
    assert_eq!(client.names(Kind::Resources), ["my.files+mem://a"]);

    let answer = client.request("tools/call", r#"{"name":"my_files__act"}"#);
    let untouched = r#""text":"mem://b","_meta":{"uri":"mem://b"}}}"#;
    let expected = exposed(call)
        .replace(r#""_meta":{"uri":"my.files+mem://b"}"#, r#""_meta":{"uri":"mem://b"}"#)
        .replace(
            r#""structuredContent":{"uri":"my.files+mem://a"}"#,
            r#""structuredContent":{"uri":"mem://a"}"#,
        );
    assert!(expected.contains(untouched));
    assert!(answer.text().contains(&expected), "{}", answer.text());
    let answer = client.request("resources/read", r#"{"uri":"my.files+mem://a"}"#);
    assert!(answer.text().contains(&exposed(read)), "{}", answer.text());
    let answer = client.request("prompts/get", r#"{"name":"my_files__ask"}"#);
    assert!(answer.text().contains(&exposed(get)), "{}", answer.text());

    let journal = daemon.journal("my_files");
    assert_eq!(journal.received("resources/read")[0]["params"]["uri"], "mem://a");
    let argument = r#""argument":{"name":"id","value":"x"}"#;
    client.result(
        "completion/complete",
        &format!(r#"{{"ref":{{"type":"ref/resource","uri":"my.files+mem://{{id}}"}},{argument}}}"#),
    );
    client.result(
        "completion/complete",
        &format!(r#"{{"ref":{{"type":"ref/prompt","name":"my_files__ask"}},{argument}}}"#),
    );
    let completes = journal.received("completion/complete");
    assert_eq!(completes[0]["params"]["ref"], json!({ "type": "ref/resource", "uri": "mem://{id}" }));
    assert_eq!(completes[1]["params"]["ref"], json!({ "type": "ref/prompt", "name": "ask" }));
    assert_eq!(completes[0]["params"]["argument"], json!({ "name": "id", "value": "x" }));
}

#[test]
fn a_resource_that_its_server_does_not_have_is_missing_under_the_exposed_uri() {
    let missing = r#"{"code":-32002,"message":"Resource not found","data":{"uri":"mem://gone"}}"#;
    let script = Script::new().resource("mem://a").on("resources/read", &[Step::error(missing)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let error = daemon.client().error("resources/read", r#"{"uri":"alpha+mem://gone"}"#);
    assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32002), &json!("alpha+mem://gone")));
}

#[test]
fn a_tool_that_appears_can_be_called_and_one_that_goes_cannot() {
    let (old, new) = (
        r#"{"name":"old","inputSchema":{"type":"object"}}"#,
        r#"{"name":"new","inputSchema":{"type":"object"}}"#,
    );
    let script = Script::new()
        .pages(Kind::Tools, &[(None, &[old], None)])
        .on_cue("turn", &[Step::list(Kind::Tools, &[new]), Step::changed(Kind::Tools)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let client = daemon.client();
    client.call("alpha__old", "{}");
    daemon.journal("alpha").cue("turn");
    until("the new list", || (client.names(Kind::Tools) == ["alpha__new"]).then_some(()));
    client.call("alpha__new", "{}");
    assert_eq!(client.error("tools/call", r#"{"name":"alpha__old"}"#)["code"], -32602);
}
