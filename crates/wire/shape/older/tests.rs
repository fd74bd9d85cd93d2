//! Tests: what older revisions are spared.

use std::fmt::Write as _;

use expect_test::expect;

use super::*;
use crate::{
    Id,
    scan::Budget,
    shape::{merge, to_legacy, to_older},
    uris,
};

const RESULTS: [&str; 14] = [
    r#"{"content":[{"type":"text","text":"a"}],"structuredContent":{"a":1.0}}"#,
    r#"{"content":[{"type":"text","text":"{ \"a\" : 1 }"}],"structuredContent":{"a":1.0},"isError":false}"#,
    r#"{"structuredContent":[1,2],"content":[]}"#,
    r#"{"structuredContent":[1,2]}"#,
    r#"{"content":[{"type":"text","text":"[1, 2]"}],"structuredContent":[1,2]}"#,
    r#"{"content":[{"type":"audio","data":"","mimeType":"a"}],"structuredContent":null}"#,
    r#"{"content":[{"type":"audio"},{"type":"text","text":"t"},{"type":"audio"}, {"type":"audio"},{"type":"image"}]}"#,
    r#"{"content":[{"type":"audio"},{"type":"audio"}]}"#,
    r#"{"content" : [ {"type":"\u0061udio"} , {"type":"text","text":"t"} ] }"#,
    r#"{"content":[{"type":"resource_link","uri":"mem:///k","name":"n","size":1.0}]}"#,
    r#"{"content":[{"uri":"mem:///k","name":"n","title":"T","description":"D","type":"resource_link"}]}"#,
    r#"{"content":[{"type":"resource_link","text":"own","uri":"a"},{"type":"resource","resource":{"uri":"b"}},7]}"#,
    r#"{"resultType":"complete","structuredContent":[1],"ttlMs":1,"_meta":{"a":1}}"#,
    r#"{"content":null,"structuredContent":"x"}"#,
];

const PROMPTS: [&str; 2] = [
    r#"{"messages":[{"role":"user","content":{"type":"audio","data":""}},{"role":"user","content":{"type":"resource_link","uri":"a"}}]}"#,
    r#"{"messages":[{"role":"user","content":[{"type":"audio"},{"type":"text","text":"t"}]},{"role":"user"},7],"structuredContent":[1]}"#,
];

fn read(result: &str) -> Frame {
    let raw = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    Frame::parse(raw.into(), &Budget::UPSTREAM).unwrap()
}

/// As the gateway puts the edits together.
fn sent(result: &str, carrier: Carrier, upstream: crate::Era, client: Revision) -> String {
    let answer = read(result);
    let uri = |uri: &str| format!("x+{uri}");
    let shaped = match upstream {
        crate::Era::Legacy => to_older(&answer, Some(carrier), client),
        crate::Era::Modern => to_legacy(&answer, Some(carrier), client),
    };
    let content = merge(uris::edits(&answer, carrier, &uri), content(&answer, carrier, client, &uri));
    let sent = answer.answer(&Id::number(1), &merge(shaped, content)).join();
    Frame::parse(sent, &Budget::UPSTREAM).unwrap().result().unwrap().to_owned()
}

/// Only what differs from the newest legacy revision.
fn table(carrier: Carrier, results: &[&str]) -> String {
    let mut table = String::new();
    for result in results {
        writeln!(table, "{result}").unwrap();
        let mut newer = (*result).to_owned();
        for client in Revision::LEGACY.into_iter().rev() {
            let older = sent(result, carrier, crate::Era::Legacy, client);
            if older != newer {
                writeln!(table, "  {} {older}", client.text()).unwrap();
            }
            newer = older;
        }
    }
    table
}

#[test]
fn a_call_result_is_what_its_client_can_read() {
    expect![[r#"
        {"content":[{"type":"text","text":"a"}],"structuredContent":{"a":1.0}}
          2025-03-26 {"content":[{"type":"text","text":"a"},{"type":"text","text":"{\"a\":1.0}"}]}
        {"content":[{"type":"text","text":"{ \"a\" : 1 }"}],"structuredContent":{"a":1.0},"isError":false}
          2025-03-26 {"content":[{"type":"text","text":"{ \"a\" : 1 }"}],"isError":false}
        {"structuredContent":[1,2],"content":[]}
          2025-11-25 {"content":[{"type":"text","text":"[1,2]"}]}
        {"structuredContent":[1,2]}
          2025-11-25 {"content":[{"type":"text","text":"[1,2]"}]}
        {"content":[{"type":"text","text":"[1, 2]"}],"structuredContent":[1,2]}
          2025-11-25 {"content":[{"type":"text","text":"[1, 2]"}]}
        {"content":[{"type":"audio","data":"","mimeType":"a"}],"structuredContent":null}
          2025-11-25 {"content":[{"type":"audio","data":"","mimeType":"a"},{"type":"text","text":"null"}]}
          2024-11-05 {"content":[{"type":"text","text":"null"}]}
        {"content":[{"type":"audio"},{"type":"text","text":"t"},{"type":"audio"}, {"type":"audio"},{"type":"image"}]}
          2024-11-05 {"content":[{"type":"text","text":"t"},{"type":"image"}]}
        {"content":[{"type":"audio"},{"type":"audio"}]}
          2024-11-05 {"content":[]}
        {"content" : [ {"type":"\u0061udio"} , {"type":"text","text":"t"} ] }
          2024-11-05 {"content" : [ {"type":"text","text":"t"} ] }
        {"content":[{"type":"resource_link","uri":"mem:///k","name":"n","size":1.0}]}
          2025-11-25 {"content":[{"type":"resource_link","uri":"x+mem:///k","name":"n","size":1.0}]}
          2025-03-26 {"content":[{"type":"text","text":"n: x+mem:///k","uri":"x+mem:///k","name":"n","size":1.0}]}
        {"content":[{"uri":"mem:///k","name":"n","title":"T","description":"D","type":"resource_link"}]}
          2025-11-25 {"content":[{"uri":"x+mem:///k","name":"n","title":"T","description":"D","type":"resource_link"}]}
          2025-03-26 {"content":[{"uri":"x+mem:///k","name":"n","title":"T","description":"D","type":"text","text":"T: x+mem:///k\nD"}]}
        {"content":[{"type":"resource_link","text":"own","uri":"a"},{"type":"resource","resource":{"uri":"b"}},7]}
          2025-11-25 {"content":[{"type":"resource_link","text":"own","uri":"x+a"},{"type":"resource","resource":{"uri":"x+b"}},7]}
          2025-03-26 {"content":[{"type":"text","text":"own","uri":"x+a"},{"type":"resource","resource":{"uri":"x+b"}},7]}
        {"resultType":"complete","structuredContent":[1],"ttlMs":1,"_meta":{"a":1}}
          2025-11-25 {"content":[{"type":"text","text":"[1]"}],"resultType":"complete","ttlMs":1,"_meta":{"a":1}}
        {"content":null,"structuredContent":"x"}
          2025-11-25 {"content":[{"type":"text","text":"\"x\""}]}
    "#]].assert_eq(&table(Carrier::CallResult, &RESULTS));
}

#[test]
fn a_prompt_is_what_its_client_can_read() {
    expect![[r#"
        {"messages":[{"role":"user","content":{"type":"audio","data":""}},{"role":"user","content":{"type":"resource_link","uri":"a"}}]}
          2025-11-25 {"messages":[{"role":"user","content":{"type":"audio","data":""}},{"role":"user","content":{"type":"resource_link","uri":"x+a"}}]}
          2025-03-26 {"messages":[{"role":"user","content":{"type":"audio","data":""}},{"role":"user","content":{"type":"text","text":"x+a","uri":"x+a"}}]}
          2024-11-05 {"messages":[{"role":"user","content":{"type":"text","text":"(audio, which this revision of MCP cannot carry)"}},{"role":"user","content":{"type":"text","text":"x+a","uri":"x+a"}}]}
        {"messages":[{"role":"user","content":[{"type":"audio"},{"type":"text","text":"t"}]},{"role":"user"},7],"structuredContent":[1]}
          2024-11-05 {"messages":[{"role":"user","content":[{"type":"text","text":"(audio, which this revision of MCP cannot carry)"},{"type":"text","text":"t"}]},{"role":"user"},7],"structuredContent":[1]}
    "#]].assert_eq(&table(Carrier::PromptResult, &PROMPTS));
}

#[test]
fn the_end_of_an_era_and_of_a_revision_meet() {
    let of = |result| sent(result, Carrier::CallResult, crate::Era::Modern, Revision::R2025_11_25);
    let table: Vec<_> = RESULTS.into_iter().map(of).collect();
    expect![[r#"
        {"content":[{"type":"text","text":"a"}],"structuredContent":{"a":1.0}}
        {"content":[{"type":"text","text":"{ \"a\" : 1 }"}],"structuredContent":{"a":1.0},"isError":false}
        {"content":[{"type":"text","text":"[1,2]"}]}
        {"content":[{"type":"text","text":"[1,2]"}]}
        {"content":[{"type":"text","text":"[1, 2]"}]}
        {"content":[{"type":"audio","data":"","mimeType":"a"},{"type":"text","text":"null"}]}
        {"content":[{"type":"audio"},{"type":"text","text":"t"},{"type":"audio"}, {"type":"audio"},{"type":"image"}]}
        {"content":[{"type":"audio"},{"type":"audio"}]}
        {"content" : [ {"type":"\u0061udio"} , {"type":"text","text":"t"} ] }
        {"content":[{"type":"resource_link","uri":"x+mem:///k","name":"n","size":1.0}]}
        {"content":[{"uri":"x+mem:///k","name":"n","title":"T","description":"D","type":"resource_link"}]}
        {"content":[{"type":"resource_link","text":"own","uri":"x+a"},{"type":"resource","resource":{"uri":"x+b"}},7]}
        {"content":[{"type":"text","text":"[1]"}],"_meta":{"a":1}}
        {"content":[{"type":"text","text":"\"x\""}]}"#]].assert_eq(&table.join("\n"));
}

#[test]
fn a_definition_is_what_its_client_can_read() {
    let mut table = String::new();
    for tool in [
        r#"{"name":"a","inputSchema":{}}"#,
        r#"{"name":"a","outputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#,
        r#"{"name":"a","outputSchema":{"type":"array"}}"#,
        r#"{"name":"a","outputSchema":{"anyOf":[]},"x":1.0}"#,
        r#"{"outputSchema":true,"name":"a"}"#,
        r#"{"name":"a","output\u0053chema":{"type":"obj\u0065ct"},"description":"execution outputSchema"}"#,
    ] {
        writeln!(table, "{tool}").unwrap();
        let all = [Structured::Any, Structured::WithTasks, Structured::Objects, Structured::Nothing];
        for takes in all {
            let tasks = Support::of(tool);
            if let Some(shown) = definition(tool.as_bytes(), takes, tasks) {
                writeln!(table, "  {takes:?} {}", String::from_utf8_lossy(&shown)).unwrap();
            }
        }
    }
    expect![[r#"
        {"name":"a","inputSchema":{}}
        {"name":"a","outputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}
          Any {"name":"a","outputSchema":{"type":"object"}}
          Objects {"name":"a","outputSchema":{"type":"object"}}
          Nothing {"name":"a"}
        {"name":"a","outputSchema":{"type":"array"}}
          WithTasks {"name":"a"}
          Objects {"name":"a"}
          Nothing {"name":"a"}
        {"name":"a","outputSchema":{"anyOf":[]},"x":1.0}
          WithTasks {"name":"a","x":1.0}
          Objects {"name":"a","x":1.0}
          Nothing {"name":"a","x":1.0}
        {"outputSchema":true,"name":"a"}
          WithTasks {"name":"a"}
          Objects {"name":"a"}
          Nothing {"name":"a"}
        {"name":"a","output\u0053chema":{"type":"obj\u0065ct"},"description":"execution outputSchema"}
          Nothing {"name":"a","description":"execution outputSchema"}
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_definition_says_of_tasks_what_is_carried() {
    for (tool, tasks, expected) in [
        (
            r#"{"name":"a"}"#,
            Support::Optional,
            Some(r#"{"execution":{"taskSupport":"optional"},"name":"a"}"#),
        ),
        (r#"{"name":"a"}"#, Support::Forbidden, None),
        (r#"{"name":"a","execution":{"taskSupport":"required"}}"#, Support::Forbidden, None),
        (r#"{"name":"a","execution":{"taskSupport":"required","x":1.0}}"#, Support::Required, None),
    ] {
        let shown = definition(tool.as_bytes(), Structured::WithTasks, tasks);
        let shown = shown.as_deref().map(String::from_utf8_lossy);
        assert_eq!(shown.as_deref(), expected, "{tool}");
    }
}
