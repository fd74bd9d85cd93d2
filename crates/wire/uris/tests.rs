//! Tests: where URIs stand.

use expect_test::expect;

use super::*;
use crate::{Id, scan::Budget};

fn rewritten(result: &str, carrier: Carrier) -> String {
    let raw = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    let answer = Frame::parse(raw.into(), &Budget::UPSTREAM).unwrap();
    let edits = edits(&answer, carrier, &|uri| format!("x+{uri}"));
    let sent = answer.answer(&Id::number(1), &edits).join();
    Frame::parse(sent, &Budget::UPSTREAM).unwrap().result().unwrap().to_owned()
}

#[test]
fn uris_are_rewritten_where_they_name_resources() {
    let results = [
        (
            Carrier::CallResult,
            r#"{"content":[{"type":"resource_link","uri":"mem:///k","name":"uri"},{"type":"resource","resource":{"uri":"mem:\/\/\/k","text":"\"uri\":\"mem:///k\""}},{"type":"text","text":"mem:///k","uri":"mem:///k"},{"uri":"a"},7],"structuredContent":{"uri":"mem:///k"}}"#,
        ),
        (Carrier::CallResult, r#"{"content":[{"type":"resource_link","\u0075ri":"mem:///k"}]}"#),
        (
            Carrier::CallResult,
            r#"{"content":[{"type":"resource_link","uri":7},{"type":"resource","resource":null},{"type":"resource","uri":"mem:///k"}]}"#,
        ),
        (Carrier::CallResult, r#"{"content":{"type":"resource_link","uri":"mem:///k"}}"#),
        (
            Carrier::PromptResult,
            r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":"a"}},{"role":"user","content":[{"type":"resource","resource":{"uri":"b"}},{"type":"text","text":"\u0075"}]},{"uri":"c"}],"uri":"d"}"#,
        ),
        (
            Carrier::ReadResult,
            r#"{"contents":[{"uri":"a","text":"uri"},{"blob":"","uri":"b","_meta":{"uri":"c"}}]}"#,
        ),
        (Carrier::ReadResult, "null"),
    ];
    let table: Vec<String> =
        results.into_iter().map(|(carrier, result)| rewritten(result, carrier)).collect();
    expect![[r#"
        {"content":[{"type":"resource_link","uri":"x+mem:///k","name":"uri"},{"type":"resource","resource":{"uri":"x+mem:///k","text":"\"uri\":\"mem:///k\""}},{"type":"text","text":"mem:///k","uri":"mem:///k"},{"uri":"a"},7],"structuredContent":{"uri":"mem:///k"}}
        {"content":[{"type":"resource_link","\u0075ri":"x+mem:///k"}]}
        {"content":[{"type":"resource_link","uri":7},{"type":"resource","resource":null},{"type":"resource","uri":"mem:///k"}]}
        {"content":{"type":"resource_link","uri":"mem:///k"}}
        {"messages":[{"role":"user","content":{"type":"resource_link","uri":"x+a"}},{"role":"user","content":[{"type":"resource","resource":{"uri":"x+b"}},{"type":"text","text":"\u0075"}]},{"uri":"c"}],"uri":"d"}
        {"contents":[{"uri":"x+a","text":"uri"},{"blob":"","uri":"x+b","_meta":{"uri":"c"}}]}
        null"#]].assert_eq(&table.join("\n"));
}
