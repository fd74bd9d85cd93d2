//! The golden copy of the table: what a client is told for every way to fail.

use std::fmt::Write as _;

use admission::{CheckName, Denial, Sort};
use expect_test::expect;
use upstream::UpstreamError;
use wire::{Budget, Frame};

use super::*;

fn refused(by: CheckName, sort: Option<Sort>) -> Error {
    let denial = Denial { by, rule: "secret-rule".into() };
    Box::new(Refused { denial, sort, referred: false, name: "x".into() }).into()
}

fn failed(why: UpstreamError, tool: bool) -> Error {
    Box::new(Failed { upstream: "alpha".into(), why, tool }).into()
}

fn frame(text: &'static str) -> Error {
    Frame::parse(text.into(), &Budget::CLIENT).expect_err("no frame").into()
}

/// One of each, in the order of the stages.
fn all() -> Vec<Error> {
    vec![
        AuthnError::NoEndpoint.into(),
        AuthnError::Missing.into(),
        AuthnError::Refused("expired").into(),
        AuthnError::Malformed.into(),
        BodyError::TooLarge { limit: 10 }.into(),
        BodyError::Slow.into(),
        BodyError::Broken.into(),
        frame("{"),
        frame("[]"),
        frame(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"a","Name":"b"}}"#),
        EraError::NotServed("2026-07-28".into()).into(),
        EraError::UnknownHeader("latest".into()).into(),
        EraError::NoEnvelope("x").into(),
        EraError::VersionHeader.into(),
        EraError::NoMessage("why").into(),
        EraError::NoSuchVerb.into(),
        SessionError::Missing.into(),
        SessionError::Unknown.into(),
        SessionError::TooMany.into(),
        SessionError::Draining.into(),
        SessionError::IdInUse.into(),
        SessionError::NoRevision.into(),
        SessionError::TooManyStreams.into(),
        CatalogError::Method("no/such".into()).into(),
        CatalogError::Parameter("name").into(),
        CatalogError::Cursor.into(),
        LimitError::Concurrency { most: 2, tool: true }.into(),
        LimitError::Concurrency { most: 2, tool: false }.into(),
        refused(CheckName::Visibility, Some(Sort::Tool)),
        refused(CheckName::Visibility, Some(Sort::Prompt)),
        refused(CheckName::Visibility, Some(Sort::Resource)),
        refused(CheckName::Policy, Some(Sort::Tool)),
        refused(CheckName::Policy, Some(Sort::Prompt)),
        ApprovalError::Unavailable.into(),
        AuditError::Unwritable.into(),
        failed(UpstreamError::Busy, true),
        failed(UpstreamError::TimedOut { sent: true }, false),
        failed(UpstreamError::TooLarge { limit: 5 }, true),
    ]
}

fn table(era: Era) -> String {
    let id = Id::from_raw("7").expect("an id");
    let mut table = String::new();
    for error in all() {
        let body = String::from_utf8(error.message(Some(&id), era).to_vec()).expect("text");
        let body = body.trim_start_matches(r#"{"jsonrpc":"2.0","id":7,"#);
        writeln!(table, "{} {body}", error.answer(era).status).expect("writes");
    }
    table
}

#[test]
fn the_table_is_what_it_was_when_it_was_reviewed() {
    expect![[r#"
        404 "error":{"code":-32600,"message":"no such endpoint","data":{"reason":"unknown_endpoint"}}}
        401 "error":{"code":-32600,"message":"no credential","data":{"reason":"unauthenticated"}}}
        401 "error":{"code":-32600,"message":"the credential is not accepted: expired","data":{"reason":"unauthenticated"}}}
        400 "error":{"code":-32600,"message":"the `Authorization` header cannot be read","data":{"reason":"unauthenticated"}}}
        413 "error":{"code":-32600,"message":"the body is larger than 10 bytes","data":{"reason":"too_large"}}}
        408 "error":{"code":-32600,"message":"the body did not arrive in time","data":{"reason":"too_slow"}}}
        400 "error":{"code":-32600,"message":"the body ended early","data":{"reason":"broken_body"}}}
        400 "error":{"code":-32700,"message":"not JSON at byte 1: a key is expected","data":{"reason":"parse"}}}
        400 "error":{"code":-32600,"message":"a batch","data":{"reason":"not_a_message"}}}
        400 "error":{"code":-32600,"message":"`Name` is nearly a reserved key","data":{"reason":"not_a_message"}}}
        400 "error":{"code":-32022,"message":"this protocol version is not served; `data.supported` lists those that are","data":{"reason":"unsupported_version","requested":"2026-07-28","supported":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"]}}}
        400 "error":{"code":-32600,"message":"unknown protocol version `latest` in the header","data":{"reason":"unsupported_version"}}}
        400 "error":{"code":-32602,"message":"`_meta` lacks `x`","data":{"reason":"no_envelope"}}}
        400 "error":{"code":-32020,"message":"`MCP-Protocol-Version` and the body name different revisions","data":{"reason":"header_mismatch"}}}
        400 "error":{"code":-32600,"message":"why","data":{"reason":"not_a_message"}}}
        405 "error":{"code":-32600,"message":"this method does not exist in the modern era","data":{"reason":"no_such_verb"}}}
        400 "error":{"code":-32600,"message":"no session: send `initialize` first, then every request with its `Mcp-Session-Id`","data":{"reason":"no_session"}}}
        404 "error":{"code":-32600,"message":"unknown or ended session: start a new one with `initialize`","data":{"reason":"unknown_session"}}}
        429 "error":{"code":-32603,"message":"too many sessions","data":{"reason":"too_many_sessions"}}}
        503 "error":{"code":-32603,"message":"the gateway is stopping","data":{"reason":"draining"}}}
        400 "error":{"code":-32600,"message":"the request id is in use","data":{"reason":"id_in_use"}}}
        200 "error":{"code":-32602,"message":"`protocolVersion` is missing","data":{"reason":"no_revision"}}}
        429 "error":{"code":-32603,"message":"too many streams","data":{"reason":"too_many_streams"}}}
        200 "error":{"code":-32601,"message":"unknown method `no/such`","data":{"reason":"unknown_method"}}}
        200 "error":{"code":-32602,"message":"parameter `name` is missing or malformed","data":{"reason":"bad_parameter"}}}
        200 "error":{"code":-32602,"message":"unknown cursor","data":{"reason":"unknown_cursor"}}}
        200 "result":{"content":[{"type":"text","text":"too many requests at once (at most 2)"}],"isError":true,"_meta":{"portcullis/error":{"reason":"busy"}}}}
        200 "error":{"code":-32603,"message":"too many requests at once (at most 2)","data":{"reason":"busy"}}}
        200 "error":{"code":-32602,"message":"unknown tool `x`","data":{"reason":"unknown_name"}}}
        200 "error":{"code":-32602,"message":"unknown prompt `x`","data":{"reason":"unknown_name"}}}
        200 "error":{"code":-32002,"message":"unknown resource `x`","data":{"reason":"unknown_name","uri":"x"}}}
        200 "result":{"content":[{"type":"text","text":"this call is not allowed"}],"isError":true,"_meta":{"portcullis/error":{"reason":"denied"}}}}
        200 "error":{"code":-32602,"message":"this call is not allowed","data":{"reason":"denied"}}}
        200 "result":{"content":[{"type":"text","text":"this call needs an approval, and nobody can be asked"}],"isError":true,"_meta":{"portcullis/error":{"reason":"approval_unavailable"}}}}
        200 "error":{"code":-32603,"message":"the gateway cannot record this request, so nothing was called","data":{"reason":"unrecorded"}}}
        200 "result":{"content":[{"type":"text","text":"upstream `alpha`: too many requests are waiting"}],"isError":true,"_meta":{"portcullis/error":{"reason":"upstream_busy","upstream":"alpha"}}}}
        200 "error":{"code":-32603,"message":"upstream `alpha`: no answer in time","data":{"reason":"upstream_timed_out","upstream":"alpha"}}}
        200 "result":{"content":[{"type":"text","text":"upstream `alpha`: the answer is larger than 5 bytes"}],"isError":true,"_meta":{"portcullis/error":{"reason":"result_too_large","upstream":"alpha"}}}}
    "#]].assert_eq(&table(Era::Legacy));
}

#[test]
fn the_modern_era_differs_where_its_text_says_so() {
    let (legacy, modern) = (table(Era::Legacy), table(Era::Modern));
    let differing: Vec<&str> =
        legacy.lines().zip(modern.lines()).filter(|(l, m)| l != m).map(|(_, m)| m).collect();
    expect![[r#"
        404 "error":{"code":-32601,"message":"unknown method `no/such`","data":{"reason":"unknown_method"}}}
        200 "error":{"code":-32602,"message":"unknown resource `x`","data":{"reason":"unknown_name","uri":"x"}}}"#]].assert_eq(&differing.join("\n"));
}

#[test]
fn no_answer_names_a_rule() {
    for error in all() {
        let body = error.message(None, Era::Legacy);
        assert!(!String::from_utf8_lossy(&body).contains("secret-rule"), "{error}");
    }
}
