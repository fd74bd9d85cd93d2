//! Tests: envelopes as they come and as they go.

use std::fmt::Write as _;

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::{
    scan::Budget,
    spelled::{Spelling, cases, tree},
};

fn request(meta: &str) -> Frame {
    let raw = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
    Frame::parse(raw.into(), &Budget::CLIENT).unwrap()
}

/// `_meta` with short names for the reserved keys.
fn spelled(meta: &str) -> String {
    meta.replace("PV", meta::VERSION).replace("CC", meta::CAPABILITIES).replace("LOG", meta::LOG_LEVEL)
}

#[test]
fn an_envelope_needs_a_revision_and_capabilities() {
    let mut table = String::new();
    for meta in [
        r#"{"PV":"2026-07-28","CC":{}}"#,
        r#"{ "CC" : {"roots":{ }} , "PV" : "v\u0039" , "LOG" : "debug" }"#,
        r#"{"io.modelcontextprotocol\/protocolVersion":"2026-07-28","CC":{}}"#,
        r#"{"PV":"","CC":{},"LOG":7}"#,
        r#"{"PV":"2026-07-28"}"#,
        r#"{"PV":"2026-07-28","CC":null}"#,
        r#"{"PV":"2026-07-28","CC":[]}"#,
        r#"{"PV":null,"CC":{}}"#,
        r#"{"PV":20260728}"#,
        r#"{"CC":{},"LOG":"debug"}"#,
        r#"{"pv":{"PV":"2026-07-28","CC":{}}}"#,
        "{}",
        "null",
        r#"["PV"]"#,
    ] {
        writeln!(table, "{meta}\n    {:?}", envelope(&request(&spelled(meta)))).unwrap();
    }
    expect![[r#"
        {"PV":"2026-07-28","CC":{}}
            Some(Ok(Envelope { version: "2026-07-28", capabilities: "{}", log_level: None }))
        { "CC" : {"roots":{ }} , "PV" : "v\u0039" , "LOG" : "debug" }
            Some(Ok(Envelope { version: "v9", capabilities: "{\"roots\":{ }}", log_level: Some("\"debug\"") }))
        {"io.modelcontextprotocol\/protocolVersion":"2026-07-28","CC":{}}
            Some(Ok(Envelope { version: "2026-07-28", capabilities: "{}", log_level: None }))
        {"PV":"","CC":{},"LOG":7}
            Some(Ok(Envelope { version: "", capabilities: "{}", log_level: Some("7") }))
        {"PV":"2026-07-28"}
            Some(Err(NoCapabilities))
        {"PV":"2026-07-28","CC":null}
            Some(Err(BadCapabilities))
        {"PV":"2026-07-28","CC":[]}
            Some(Err(BadCapabilities))
        {"PV":null,"CC":{}}
            Some(Err(BadVersion))
        {"PV":20260728}
            Some(Err(BadVersion))
        {"CC":{},"LOG":"debug"}
            None
        {"pv":{"PV":"2026-07-28","CC":{}}}
            None
        {}
            None
        null
            None
        ["PV"]
            None
    "#]].assert_eq(&table);
}

#[test]
fn only_what_has_params_has_an_envelope() {
    for raw in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.modelcontextprotocol/protocolVersion":"x"}}}"#,
    ] {
        let frame = Frame::parse(raw.into(), &Budget::CLIENT).unwrap();
        assert_eq!((envelope(&frame), version(&frame)), (None, None), "{raw}");
    }
}

#[test]
fn the_revision_is_readable_before_the_capabilities() {
    let frame = request(&spelled(r#"{"PV":"v999"}"#));
    assert_eq!(version(&frame), Some(Ok("v999".into())));
    assert_eq!(envelope(&frame), Some(Err(EnvelopeError::NoCapabilities)));
    assert_eq!(
        EnvelopeError::NoCapabilities.to_string(),
        "`_meta` holds no `io.modelcontextprotocol/clientCapabilities`"
    );
}

#[test]
fn a_modern_upstream_sees_our_envelope_and_the_rest_of_the_client_s() {
    let own = env!("CARGO_PKG_VERSION");
    let metas = [
        (None, None, "{}"),
        (Some("{}"), Some(5), r#"{"roots":{}}"#),
        (
            Some(
                r#"{"PV":"v","CC":{"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"x"},"LOG":"debug"}"#,
            ),
            None,
            "{}",
        ),
        (
            Some(r#"{"progressToken":"p", "com.example/k" :{ "x":1.0 },"PV":"v","traceparent":"00-1"}"#),
            Some(9),
            "{}",
        ),
        (Some(r#"{"progressToken":"p"}"#), None, "{}"),
    ];
    let table: Vec<String> = metas
        .into_iter()
        .map(|(meta, token, capabilities)| client_meta(meta.map(spelled).as_deref(), token, capabilities))
        .map(|meta| meta.replace(own, "OWN").replace(meta::VERSION, "PV").replace(meta::CAPABILITIES, "CC"))
        .collect();
    expect![[r#"
        {"PV":"2026-07-28","CC":{},"io.modelcontextprotocol/clientInfo":{"name":"portcullis","version":"OWN"}}
        {"PV":"2026-07-28","CC":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"portcullis","version":"OWN"},"progressToken":5}
        {"PV":"2026-07-28","CC":{},"io.modelcontextprotocol/clientInfo":{"name":"portcullis","version":"OWN"}}
        {"PV":"2026-07-28","CC":{},"io.modelcontextprotocol/clientInfo":{"name":"portcullis","version":"OWN"},"progressToken":9,"com.example/k":{ "x":1.0 },"traceparent":"00-1"}
        {"PV":"2026-07-28","CC":{},"io.modelcontextprotocol/clientInfo":{"name":"portcullis","version":"OWN"}}"#]].assert_eq(&table.join("\n"));
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn what_we_send_is_an_envelope_that_keeps_other_members(inside in tree(), key in "[a-z./]{0,12}", seed: u64, token: Option<u64>) {
        let value = Spelling::on_one_line(seed).tree(&inside);
        let key = Spelling::on_one_line(seed).text(&key);
        let theirs = format!(r#"{{{key}:{value},"{}":"x","progressToken":"p"}}"#, meta::VERSION);
        let ours = client_meta(Some(&theirs), token, r#"{"elicitation":{}}"#);
        let frame = request(&ours);
        let read = envelope(&frame).unwrap().unwrap();
        prop_assert_eq!((&*read.version, read.capabilities, read.log_level), ("2026-07-28", r#"{"elicitation":{}}"#, None));
        let kept = format!("{key}:{}", value.trim());
        prop_assert!(ours.contains(&kept), "{}", ours);
        let token = token.map(|token| token.to_string());
        prop_assert_eq!(meta::progress_token(Some(&ours)), token.as_deref());
    }
}
