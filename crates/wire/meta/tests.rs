//! Tests: reserved keys in and out.

use expect_test::expect;

use super::*;

#[test]
fn a_progress_token_is_a_string_or_an_integer() {
    for (meta, token) in [
        (r#"{"progressToken":7}"#, Some("7")),
        (r#"{"progressToken" : "a\u0062"}"#, Some(r#""a\u0062""#)),
        (r#"{"progress\u0054oken":-1}"#, Some("-1")),
        (r#"{"progressToken":1.5}"#, None),
        (r#"{"progressToken":1e3}"#, None),
        (r#"{"progressToken":null}"#, None),
        (r#"{"progressToken":{"a":1}}"#, None),
        (r#"{"a":{"progressToken":1}}"#, None),
        ("[]", None),
    ] {
        assert_eq!(progress_token(Some(meta)), token, "{meta}");
    }
    assert_eq!(progress_token(None), None);
}

#[test]
fn members_are_found_by_what_their_keys_say() {
    let meta = Some(r#"{ "io.modelcontextprotocol/protocolVersion" : "2026-07-28" , "a" : {"b":[1]} }"#);
    assert_eq!(
        (member(meta, VERSION), member(meta, "a"), member(meta, "b")),
        (Some("\"2026-07-28\""), Some("{\"b\":[1]}"), None)
    );
}

#[test]
fn keys_of_one_hop_stay_behind() {
    let metas = [
        (r#"{"progressToken":"p1","com.example/k":{"x":1.0},"traceparent":"00-1"}"#, Some(5)),
        (r#"{"progressToken":"p1","com.example/k":1}"#, None),
        (r#"{"com.example/k" :1 }"#, Some(5)),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/serverInfo":{},"io.modelcontextprotocol/subscriptionId":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}}"#,
            None,
        ),
        (r#"{"io.modelcontextprotocol\/protocolVersion":"v","a":1}"#, None),
        (r#"{"progressToken":1}"#, None),
        ("{}", None),
        ("{}", Some(5)),
        ("[1]", None),
    ];
    let mut table: Vec<String> =
        metas.iter().map(|(meta, token)| format!("{:?}", for_upstream(Some(meta), *token))).collect();
    table.push(format!("{:?} {:?}", for_upstream(None, None), for_upstream(None, Some(6))));
    expect![[r#"
        Some("{\"progressToken\":5,\"com.example/k\":{\"x\":1.0},\"traceparent\":\"00-1\"}")
        Some("{\"com.example/k\":1}")
        Some("{\"com.example/k\":1,\"progressToken\":5}")
        Some("{\"io.modelcontextprotocol/related-task\":{\"taskId\":\"t\"}}")
        Some("{\"a\":1}")
        None
        None
        Some("{\"progressToken\":5}")
        None
        None Some("{\"progressToken\":6}")"#]]
    .assert_eq(&table.join("\n"));
}
