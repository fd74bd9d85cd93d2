//! What the lines of an entry say.

use expect_test::{Expect, expect};
use wire::Revision;

use super::{CALL, Memory, Outcome, Record, Step, ada, audit_over, frame, head, kinds, read, take};
use crate::{
    arrival::{Head, Verb},
    audit::{Unheard, record::trace_id},
};

/// Checks the lines of one entry; what differs from run to run is replaced.
async fn check(
    fill: impl AsyncFnOnce(&mut Record),
    close: Option<(Outcome, Option<&str>)>,
    expected: Expect,
) {
    let memory = Memory::default();
    let (audit, _) = audit_over(vec![Box::new(memory.clone())]);
    let mut record = audit.open().await.unwrap();
    fill(&mut record).await;
    match close {
        Some((outcome, reason)) => record.close(outcome, reason, 21),
        None => drop(record),
    }
    audit.stop().await;
    read(&memory.text());
    let volatile =
        regex::Regex::new(r#"("entry":)"[0-9a-f]{16}"|("time":)"[-0-9T:.]+Z"|("ms":)\d+"#).unwrap();
    expected.assert_eq(&volatile.replace_all(&memory.text(), "$1$2$3…"));
}

#[tokio::test]
async fn a_call_that_left_has_an_intent_and_an_outcome() {
    check(
        async |record| {
            record.arrived(&head());
            record.identified(&ada());
            record.read(&frame(CALL));
            record.entered(&ada(), Some(Revision::R2025_11_25));
            take(Step::Allow, record).await;
            record.commit().await.unwrap();
        },
        Some((Outcome::ToolError, None)),
        expect![[r#"
            {"v":1,"entry":…,"line":"intent","time":…,"tenant":"acme","principal":"ada","issuer":"https://id.example","peer":"127.0.0.1:5000","era":"legacy","revision":"2025-11-25","session":"26837920","method":"tools/call","id":7,"tool":"files__read","native":"read","upstream":"files","definition":"sha256:0707070707070707070707070707070707070707070707070707070707070707","arguments":"sha256:5c8e1ccc28b0af8a463c5cd677027a59d776ae671ef1d6b2785e3f861deba6f8","trace":"4bf92f3577b34da6a3ce929d0e0e4736","request_bytes":191,"decision":"allow"}
            {"v":1,"entry":…,"line":"outcome","time":…,"tenant":"acme","principal":"ada","issuer":"https://id.example","peer":"127.0.0.1:5000","era":"legacy","revision":"2025-11-25","session":"26837920","method":"tools/call","id":7,"tool":"files__read","native":"read","upstream":"files","definition":"sha256:0707070707070707070707070707070707070707070707070707070707070707","arguments":"sha256:5c8e1ccc28b0af8a463c5cd677027a59d776ae671ef1d6b2785e3f861deba6f8","trace":"4bf92f3577b34da6a3ce929d0e0e4736","request_bytes":191,"decision":"allow","outcome":"tool_error","reply_bytes":21,"ms":…}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_denied_call_has_one_line_with_check_and_rule() {
    check(
        async |record| {
            record.identified(&ada());
            record.read(&frame(r#"{"jsonrpc":"2.0","id":"a\u202eb","method":"tools/call","params":{"name":"x"}}"#));
            take(Step::Deny, record).await;
        },
        Some((Outcome::Denied, Some("unknown_name"))),
        expect![[r#"
            {"v":1,"entry":…,"line":"final","time":…,"tenant":"acme","principal":"ada","issuer":"https://id.example","peer":null,"era":null,"revision":null,"method":"tools/call","id":"a\u202eb","tool":"files__gone","arguments":"sha256:5c8e1ccc28b0af8a463c5cd677027a59d776ae671ef1d6b2785e3f861deba6f8","request_bytes":77,"decision":"deny","check":"visibility","rule":"missing","outcome":"denied","reason":"unknown_name","reply_bytes":21}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn what_is_dropped_is_abandoned() {
    check(async |record| record.identified(&ada()), None, expect![[r#"
        {"v":1,"entry":…,"line":"final","time":…,"tenant":"acme","principal":"ada","issuer":"https://id.example","peer":null,"era":null,"revision":null,"method":null,"request_bytes":0,"decision":"deny","outcome":"abandoned","reply_bytes":0}
    "#]]).await;
}

#[tokio::test]
async fn a_stream_is_told_by_its_verb_and_a_question_by_its_upstream() {
    check(
        async |record| {
            record.arrived(&Head { verb: Verb::Get, session: None, ..head() });
            record.identified(&ada());
        },
        Some((Outcome::Ok, None)),
        expect![[r#"
            {"v":1,"entry":…,"line":"final","time":…,"tenant":"acme","principal":"ada","issuer":"https://id.example","peer":"127.0.0.1:5000","era":null,"revision":null,"method":"GET","request_bytes":0,"decision":"allow","outcome":"ok","reply_bytes":21,"ms":…}
        "#]],
    )
    .await;
    check(
        async |record| {
            record.identified(&ada());
            record.asked_by(&"files".into());
            record.read(&frame(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#));
        },
        Some((Outcome::Denied, Some("not_offered"))),
        expect![[r#"
            {"v":1,"entry":…,"line":"final","time":…,"tenant":"acme","principal":"ada","issuer":"https://id.example","peer":null,"era":null,"revision":null,"method":"roots/list","id":1,"upstream":"files","request_bytes":46,"decision":"deny","outcome":"denied","reason":"not_offered","reply_bytes":21}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn an_unknown_method_is_cut_and_cannot_forge_a_line() {
    let name = format!("x\\n{{\\\"v\\\":1}}{}", "y".repeat(200));
    let text = format!(r#"{{"jsonrpc":"2.0","method":"{name}"}}"#);
    check(
        async |record| {
            record.identified(&ada());
            record.read(&frame(&text));
        },
        Some((Outcome::Error, None)),
        expect![[r#"
            {"v":1,"entry":…,"line":"final","time":…,"tenant":"acme","principal":"ada","issuer":"https://id.example","peer":null,"era":null,"revision":null,"method":"x\u000a{\"v\":1}yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…[cut]","request_bytes":241,"decision":"deny","outcome":"error","reply_bytes":21}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn no_session_id_and_no_argument_is_ever_written() {
    let memory = Memory::default();
    let (audit, _) = audit_over(vec![Box::new(memory.clone())]);
    let mut record = audit.open().await.unwrap();
    record.arrived(&head());
    record.identified(&ada());
    record.read(&frame(CALL));
    take(Step::Allow, &mut record).await;
    record.commit().await.unwrap();
    record.close(Outcome::Ok, None, 1);
    audit.stop().await;
    assert_eq!(kinds(&read(&memory.text())), (1, 0));
    assert!(!memory.text().contains("canary"), "{}", memory.text());
}

#[test]
fn only_a_well_formed_trace_is_kept() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    for (parent, kept) in [
        (format!("00-{trace}-00f067aa0ba902b7-01"), true),
        (format!("cc-{trace}-00f067aa0ba902b7-01-what-the-future-brings"), true),
        (format!("00-{trace}-00f067aa0ba902b7-01-more"), false),
        (format!("ff-{trace}-00f067aa0ba902b7-01"), false),
        (format!("00-{trace}-0000000000000000-01"), false),
        (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), false),
        (format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()), false),
        (format!("00-{trace}"), false),
        (String::new(), false),
    ] {
        let meta = serde_json::json!({ "traceparent": parent }).to_string();
        assert_eq!(trace_id(Some(&meta)).as_deref(), kept.then_some(trace), "{parent}");
    }
    for meta in [None, Some("{}"), Some(r#"{"traceparent":7}"#)] {
        assert_eq!(trace_id(meta), None);
    }
}

#[tokio::test]
async fn a_message_that_nobody_waits_for_to_the_end_is_abandoned_once_and_one_that_was_heard_is_not() {
    let memory = Memory::default();
    let (audit, _) = audit_over(vec![Box::new(memory.clone())]);
    let (head, ada) = (head(), ada());
    Unheard::of(&audit, &head, &ada).heard();
    drop(Unheard::of(&audit, &head, &ada));
    audit.stop().await;
    let entries = read(&memory.text());
    let lines: Vec<_> = entries.values().flatten().collect();
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["outcome"], &lines[0]["reason"]), (&"abandoned".into(), &"body_not_read".into()));
}
