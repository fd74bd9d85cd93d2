//! The golden copy of the table: what a client is told for every way to fail.

use std::{fmt::Write as _, time::Duration};

use admission::{CheckName, Denial, Refusal, RuleError, Sort};
use expect_test::expect;
use upstream::UpstreamError;
use wire::{Budget, Frame};

use super::*;
use crate::limits::{Circle, Runaway};

fn refused(by: CheckName, sort: Sort, refusal: Refusal) -> Error {
    let denial = Denial::of(by, refusal);
    Box::new(Refused { denial, sort: Some(sort), referred: false, name: "x".into() }).into()
}

fn rule_error() -> RuleError {
    RuleError::new("there is no `path`")
}

fn by_rule() -> Refusal {
    Refusal::by("secret-rule")
}

fn failed(why: UpstreamError, tool: bool) -> Error {
    Box::new(Failed { upstream: "alpha".into(), why, tool }).into()
}

fn spent(of: SpentOf, told: Told) -> Error {
    let (rule, after) = ("secret-rule".into(), Duration::from_millis(1001));
    LimitError::Spent(Box::new(Spent { rule, of, after, told })).into()
}

fn runaway(circle: Circle, after: Option<u64>) -> Error {
    let (within, after) = (Duration::from_secs(60), after.map(Duration::from_secs));
    LimitError::Runaway(Box::new(Runaway { circle, times: 10, within, after })).into()
}

/// Limits that are written, and what agents are told of themselves.
fn limits() -> Vec<Error> {
    vec![
        spent(SpentOf::Rate, Told::Model),
        spent(SpentOf::Rate, Told::Caller),
        spent(SpentOf::Rate, Told::Transport),
        spent(SpentOf::Places, Told::Model),
        spent(SpentOf::Bytes, Told::Caller),
        spent(SpentOf::Budget, Told::Model),
        spent(SpentOf::Streams, Told::Transport),
        runaway(Circle::Repeat, None),
        runaway(Circle::Repeat, Some(40)),
        runaway(Circle::Alternation, None),
        runaway(Circle::Errors, None),
        runaway(Circle::FanOut, Some(1)),
    ]
}

#[test]
fn limits_are_told_with_the_time_to_come_back() {
    expect![[r#"
        200 "result":{"content":[{"type":"text","text":"a rate limit is reached; nothing was called. Try again in 2 s"}],"isError":true,"_meta":{"portcullis/error":{"reason":"rate_limited","retry_after":2}}}}
        200 "error":{"code":-32603,"message":"a rate limit is reached; nothing was called. Try again in 2 s","data":{"reason":"rate_limited","retry_after":2}}}
        429 "error":{"code":-32603,"message":"a rate limit is reached; nothing was called. Try again in 2 s","data":{"reason":"rate_limited","retry_after":2}}}
        200 "result":{"content":[{"type":"text","text":"too many calls are running at once; nothing was called. Try again in 2 s"}],"isError":true,"_meta":{"portcullis/error":{"reason":"busy","retry_after":2}}}}
        200 "error":{"code":-32603,"message":"the volume for now is used up; nothing was called. Try again in 2 s","data":{"reason":"volume_spent","retry_after":2}}}
        200 "result":{"content":[{"type":"text","text":"the budget of today is used up; nothing was called. Try again in 2 s"}],"isError":true,"_meta":{"portcullis/error":{"reason":"budget_spent","retry_after":2}}}}
        429 "error":{"code":-32603,"message":"too many streams are open; nothing was called. Try again in 2 s","data":{"reason":"too_many_streams","retry_after":2}}}
        200 "result":{"content":[{"type":"text","text":"this call was made 10 times in a row within 60 s, with the same arguments; it was not made again. It looks as if you go in circles: look at the answers you have, and do something else or ask your user"}],"isError":true,"_meta":{"portcullis/error":{"reason":"runaway","pattern":"repeat"}}}}
        200 "result":{"content":[{"type":"text","text":"this call was made 10 times in a row within 60 s, with the same arguments; it was not made again. Do something else, or try again in 40 s"}],"isError":true,"_meta":{"portcullis/error":{"reason":"runaway","pattern":"repeat","retry_after":40}}}}
        200 "result":{"content":[{"type":"text","text":"this call and another one were made in turn, 10 times each within 60 s; it was not made again. It looks as if you go in circles: look at the answers you have, and do something else or ask your user"}],"isError":true,"_meta":{"portcullis/error":{"reason":"runaway","pattern":"alternation"}}}}
        200 "result":{"content":[{"type":"text","text":"this tool failed 10 times in a row within 60 s; it was not called again. It looks as if you go in circles: look at the answers you have, and do something else or ask your user"}],"isError":true,"_meta":{"portcullis/error":{"reason":"runaway","pattern":"errors"}}}}
        200 "result":{"content":[{"type":"text","text":"10 different tools were called within 60 s; this one was not called. Do something else, or try again in 1 s"}],"isError":true,"_meta":{"portcullis/error":{"reason":"runaway","pattern":"fan_out","retry_after":1}}}}
    "#]].assert_eq(&table_of(limits(), Revision::R2025_11_25));
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
        AuthnError::Scope.into(),
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
        EraError::NotAcceptable.into(),
        EraError::Oldest.into(),
        EraError::NoSuchVerb.into(),
        SessionError::Missing.into(),
        SessionError::Unknown.into(),
        SessionError::TooMany.into(),
        SessionError::Draining.into(),
        SessionError::IdInUse.into(),
        SessionError::NoRevision.into(),
        SessionError::TooManyStreams.into(),
        SessionError::UnknownEvent.into(),
        SessionError::NoLine.into(),
        SessionError::Unopened.into(),
        SessionError::Opened.into(),
        CatalogError::Method("no/such".into()).into(),
        CatalogError::Parameter("name").into(),
        CatalogError::Cursor.into(),
        CatalogError::Task.into(),
        CatalogError::TaskOver.into(),
        CatalogError::NoTask("x".into()).into(),
        CatalogError::OnlyAsTask("x".into()).into(),
        LimitError::Concurrency { most: 2, tool: true }.into(),
        LimitError::Concurrency { most: 2, tool: false }.into(),
        LimitError::Subscriptions { most: 2 }.into(),
        LimitError::Batch { most: 2, tool: true }.into(),
        LimitError::Batch { most: 2, tool: false }.into(),
        LimitError::Tasks { most: 2 }.into(),
        LimitError::Looks.into(),
        refused(CheckName::Visibility, Sort::Tool, by_rule().hiding()),
        refused(CheckName::Visibility, Sort::Prompt, by_rule().hiding()),
        refused(CheckName::Visibility, Sort::Resource, by_rule().hiding()),
        refused(CheckName::Policy, Sort::Tool, by_rule().hiding()),
        refused(CheckName::Policy, Sort::Tool, by_rule()),
        refused(CheckName::Policy, Sort::Tool, by_rule().said(Some("ask a lead".into()))),
        refused(CheckName::Policy, Sort::Tool, by_rule().failed(rule_error())),
        refused(CheckName::Policy, Sort::Prompt, by_rule()),
        refused(
            CheckName::Scopes,
            Sort::Tool,
            by_rule().lacking(["x:write".into(), "x:admin".into()].into()),
        ),
        refused(CheckName::Scopes, Sort::Resource, by_rule().lacking(["x:read".into()].into())),
        ApprovalError::Unavailable { tool: true }.into(),
        ApprovalError::Unavailable { tool: false }.into(),
        AuditError::Unwritable.into(),
        failed(UpstreamError::Busy, true),
        failed(UpstreamError::TimedOut { sent: true }, false),
        failed(UpstreamError::TooLarge { limit: 5 }, true),
        TaskError::Lost.into(),
        TaskError::NoRoom.into(),
        TaskError::Page.into(),
        TaskError::Cancelled.into(),
    ]
}

/// A client of a revision, as MCP has it.
fn client(revision: Revision) -> Client {
    Client { revision, statuses: ErrorStatus::Protocol }
}

fn relayed(upstream: Era, asked: Option<&str>, error: &str) -> Error {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
    let answer = Frame::parse(text.into(), &Budget::UPSTREAM).expect("a frame");
    Box::new(Relayed::read(&answer, upstream, asked, &|uri| format!("x+{uri}"))).into()
}

fn table(revision: Revision) -> String {
    table_of(all(), revision)
}

fn table_of(errors: Vec<Error>, revision: Revision) -> String {
    let id = Id::from_raw("7").expect("an id");
    let mut table = String::new();
    for error in errors {
        let body = String::from_utf8(error.message(Some(&id), client(revision)).to_vec()).expect("text");
        let body = body.trim_start_matches(r#"{"jsonrpc":"2.0","id":7,"#);
        writeln!(table, "{} {body}", error.answer(client(revision)).status).expect("writes");
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
        403 "error":{"code":-32600,"message":"the token lacks a scope that this endpoint needs","data":{"reason":"insufficient_scope"}}}
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
        406 "error":{"code":-32600,"message":"changes are told on an event stream: accept `text/event-stream`","data":{"reason":"not_acceptable"}}}
        400 "error":{"code":-32600,"message":"HTTP+SSE carries the revisions up to 2025-11-25: speak later ones at `/mcp`","data":{"reason":"unsupported_version"}}}
        405 "error":{"code":-32600,"message":"this method does not exist in the modern era","data":{"reason":"no_such_verb"}}}
        400 "error":{"code":-32600,"message":"no session: send `initialize` first, then every request with its `Mcp-Session-Id`","data":{"reason":"no_session"}}}
        404 "error":{"code":-32600,"message":"unknown or ended session: start a new one with `initialize`","data":{"reason":"unknown_session"}}}
        429 "error":{"code":-32603,"message":"too many sessions","data":{"reason":"too_many_sessions"}}}
        503 "error":{"code":-32603,"message":"the gateway is stopping","data":{"reason":"draining"}}}
        400 "error":{"code":-32600,"message":"the request id is in use","data":{"reason":"id_in_use"}}}
        200 "error":{"code":-32602,"message":"`protocolVersion` is missing","data":{"reason":"no_revision"}}}
        429 "error":{"code":-32603,"message":"too many streams","data":{"reason":"too_many_streams"}}}
        400 "error":{"code":-32600,"message":"unknown event","data":{"reason":"unknown_event"}}}
        404 "error":{"code":-32600,"message":"unknown or ended connection: open one with GET, and send where its first event says","data":{"reason":"unknown_session"}}}
        400 "error":{"code":-32600,"message":"no session: send `initialize` first","data":{"reason":"no_session"}}}
        400 "error":{"code":-32600,"message":"this connection has a session already: open another one","data":{"reason":"session_exists"}}}
        200 "error":{"code":-32601,"message":"unknown method `no/such`","data":{"reason":"unknown_method"}}}
        200 "error":{"code":-32602,"message":"parameter `name` is missing or malformed","data":{"reason":"bad_parameter"}}}
        200 "error":{"code":-32602,"message":"unknown cursor","data":{"reason":"unknown_cursor"}}}
        200 "error":{"code":-32602,"message":"unknown task","data":{"reason":"unknown_task"}}}
        200 "error":{"code":-32602,"message":"the task is over","data":{"reason":"task_over"}}}
        200 "error":{"code":-32601,"message":"calls of `x` cannot become tasks","data":{"reason":"no_task"}}}
        200 "error":{"code":-32601,"message":"`x` can only be called as a task","data":{"reason":"only_as_task"}}}
        200 "result":{"content":[{"type":"text","text":"too many requests at once (at most 2)"}],"isError":true,"_meta":{"portcullis/error":{"reason":"busy"}}}}
        200 "error":{"code":-32603,"message":"too many requests at once (at most 2)","data":{"reason":"busy"}}}
        200 "error":{"code":-32603,"message":"too many subscriptions (at most 2)","data":{"reason":"too_many_subscriptions"}}}
        200 "result":{"content":[{"type":"text","text":"the answers of one batch are together larger than 2 bytes: send the message alone; it may have taken effect"}],"isError":true,"_meta":{"portcullis/error":{"reason":"batch_too_large"}}}}
        200 "error":{"code":-32603,"message":"the answers of one batch are together larger than 2 bytes: send the message alone; it may have taken effect","data":{"reason":"batch_too_large"}}}
        200 "error":{"code":-32603,"message":"too many tasks (at most 2)","data":{"reason":"too_many_tasks"}}}
        429 "error":{"code":-32603,"message":"this task is looked at too often: heed its poll interval","data":{"reason":"looked_too_often"}}}
        200 "error":{"code":-32602,"message":"unknown tool `x`","data":{"reason":"unknown_name"}}}
        200 "error":{"code":-32602,"message":"unknown prompt `x`","data":{"reason":"unknown_name"}}}
        200 "error":{"code":-32002,"message":"unknown resource `x`","data":{"reason":"unknown_name","uri":"x"}}}
        200 "error":{"code":-32602,"message":"unknown tool `x`","data":{"reason":"unknown_name"}}}
        200 "result":{"content":[{"type":"text","text":"this call is not allowed with these arguments"}],"isError":true,"_meta":{"portcullis/error":{"reason":"denied"}}}}
        200 "result":{"content":[{"type":"text","text":"ask a lead"}],"isError":true,"_meta":{"portcullis/error":{"reason":"denied"}}}}
        200 "result":{"content":[{"type":"text","text":"whether this call is allowed cannot be told from its arguments, so it is not"}],"isError":true,"_meta":{"portcullis/error":{"reason":"rule_error"}}}}
        200 "error":{"code":-32603,"message":"this call is not allowed with these arguments","data":{"reason":"denied"}}}
        403 "error":{"code":-32600,"message":"the token lacks a scope that this needs: x:write x:admin","data":{"reason":"insufficient_scope"}}}
        403 "error":{"code":-32600,"message":"the token lacks a scope that this needs: x:read","data":{"reason":"insufficient_scope","uri":"x"}}}
        200 "result":{"content":[{"type":"text","text":"this call needs an approval, and nobody can be asked"}],"isError":true,"_meta":{"portcullis/error":{"reason":"approval_unavailable"}}}}
        200 "error":{"code":-32603,"message":"this call needs an approval, and nobody can be asked","data":{"reason":"approval_unavailable"}}}
        200 "error":{"code":-32603,"message":"the gateway cannot record this request, so nothing was called","data":{"reason":"unrecorded"}}}
        200 "result":{"content":[{"type":"text","text":"upstream `alpha`: too many requests are waiting"}],"isError":true,"_meta":{"portcullis/error":{"reason":"upstream_busy","upstream":"alpha"}}}}
        200 "error":{"code":-32603,"message":"upstream `alpha`: no answer in time","data":{"reason":"upstream_timed_out","upstream":"alpha"}}}
        200 "result":{"content":[{"type":"text","text":"upstream `alpha`: the answer is larger than 5 bytes"}],"isError":true,"_meta":{"portcullis/error":{"reason":"result_too_large","upstream":"alpha"}}}}
        200 "error":{"code":-32603,"message":"the server that ran this task is gone, and the task with it; it may have acted","data":{"reason":"task_lost"}}}
        200 "error":{"code":-32603,"message":"the task ended, and there was no room to keep its result; it may have acted","data":{"reason":"no_room"}}}
        200 "error":{"code":-32603,"message":"the server wants to be called again once a page was opened, which a task cannot be","data":{"reason":"task_needs_page"}}}
        200 "error":{"code":-32603,"message":"the task was cancelled","data":{"reason":"task_cancelled"}}}
    "#]].assert_eq(&table(Revision::R2025_11_25));
}

#[test]
fn the_modern_era_differs_where_its_text_says_so() {
    let (legacy, modern) = (table(Revision::R2025_11_25), table(Revision::R2026_07_28));
    for older in Revision::LEGACY {
        assert_eq!(table(older), legacy, "{older:?}");
    }
    let differing: Vec<&str> =
        legacy.lines().zip(modern.lines()).filter(|(l, m)| l != m).map(|(_, m)| m).collect();
    expect![[r#"
        404 "error":{"code":-32601,"message":"unknown method `no/such`","data":{"reason":"unknown_method"}}}
        404 "error":{"code":-32601,"message":"calls of `x` cannot become tasks","data":{"reason":"no_task"}}}
        404 "error":{"code":-32601,"message":"`x` can only be called as a task","data":{"reason":"only_as_task"}}}
        200 "result":{"resultType":"complete","content":[{"type":"text","text":"too many requests at once (at most 2)"}],"isError":true,"_meta":{"portcullis/error":{"reason":"busy"}}}}
        200 "result":{"resultType":"complete","content":[{"type":"text","text":"the answers of one batch are together larger than 2 bytes: send the message alone; it may have taken effect"}],"isError":true,"_meta":{"portcullis/error":{"reason":"batch_too_large"}}}}
        200 "error":{"code":-32602,"message":"unknown resource `x`","data":{"reason":"unknown_name","uri":"x"}}}
        200 "result":{"resultType":"complete","content":[{"type":"text","text":"this call is not allowed with these arguments"}],"isError":true,"_meta":{"portcullis/error":{"reason":"denied"}}}}
        200 "result":{"resultType":"complete","content":[{"type":"text","text":"ask a lead"}],"isError":true,"_meta":{"portcullis/error":{"reason":"denied"}}}}
        200 "result":{"resultType":"complete","content":[{"type":"text","text":"whether this call is allowed cannot be told from its arguments, so it is not"}],"isError":true,"_meta":{"portcullis/error":{"reason":"rule_error"}}}}
        200 "result":{"resultType":"complete","content":[{"type":"text","text":"this call needs an approval, and nobody can be asked"}],"isError":true,"_meta":{"portcullis/error":{"reason":"approval_unavailable"}}}}
        200 "result":{"resultType":"complete","content":[{"type":"text","text":"upstream `alpha`: too many requests are waiting"}],"isError":true,"_meta":{"portcullis/error":{"reason":"upstream_busy","upstream":"alpha"}}}}
        200 "result":{"resultType":"complete","content":[{"type":"text","text":"upstream `alpha`: the answer is larger than 5 bytes"}],"isError":true,"_meta":{"portcullis/error":{"reason":"result_too_large","upstream":"alpha"}}}}"#]].assert_eq(&differing.join("\n"));
}

#[test]
fn no_answer_names_a_rule() {
    for error in all() {
        let body = error.message(None, client(Revision::R2025_11_25));
        assert!(!String::from_utf8_lossy(&body).contains("secret-rule"), "{error}");
    }
}

/// Every code of spec section 10 and one from each stretch of others, by whoever says it: what it becomes for each
/// revision, with its status where there is one other than 200. An answer that ends a stream has the stream's 200.
#[test]
fn every_code_is_what_its_revision_knows() {
    let mut table = String::new();
    for code in [
        code::PARSE_ERROR,
        code::INVALID_REQUEST,
        code::METHOD_NOT_FOUND,
        code::INVALID_PARAMS,
        code::INTERNAL_ERROR,
        code::RESOURCE_NOT_FOUND,
        code::URL_ELICITATION_REQUIRED,
        code::HEADER_MISMATCH,
        code::MISSING_CLIENT_CAPABILITY,
        code::UNSUPPORTED_VERSION,
        -32000,
        -32019,
        -32023,
        -32099,
        -1,
        7,
    ] {
        let is_of_envelope =
            [code::INVALID_PARAMS, code::HEADER_MISMATCH, code::UNSUPPORTED_VERSION].contains(&code);
        let origins = [Origin::Ourselves, Origin::Upstream, Origin::Envelope];
        for origin in &origins[..if is_of_envelope { 3 } else { 2 }] {
            let cells = Revision::ALL.map(|revision| {
                let say = |statuses| told(code, *origin, Client { revision, statuses });
                let (said, status) = say(ErrorStatus::Protocol);
                // The compatibility flag changes statuses and nothing else (spec Z-04).
                assert_eq!(say(ErrorStatus::Ok), (said, 200));
                if status == 200 { said.to_string() } else { format!("{status}/{said}") }
            });
            writeln!(table, "{code} {origin:?}: {}", cells.join(" ")).expect("writes");
        }
    }
    expect![[r#"
        -32700 Ourselves: -32700 -32700 -32700 -32700 -32700
        -32700 Upstream: -32700 -32700 -32700 -32700 -32700
        -32600 Ourselves: -32600 -32600 -32600 -32600 -32600
        -32600 Upstream: -32600 -32600 -32600 -32600 -32600
        -32601 Ourselves: -32601 -32601 -32601 -32601 404/-32601
        -32601 Upstream: -32601 -32601 -32601 -32601 404/-32601
        -32602 Ourselves: -32602 -32602 -32602 -32602 -32602
        -32602 Upstream: -32602 -32602 -32602 -32602 -32602
        -32602 Envelope: 400/-32602 400/-32602 400/-32602 400/-32602 400/-32602
        -32603 Ourselves: -32603 -32603 -32603 -32603 -32603
        -32603 Upstream: -32603 -32603 -32603 -32603 -32603
        -32002 Ourselves: -32002 -32002 -32002 -32002 -32602
        -32002 Upstream: -32002 -32002 -32002 -32002 -32602
        -32042 Ourselves: -32603 -32603 -32603 -32042 -32603
        -32042 Upstream: -32603 -32603 -32603 -32042 -32603
        -32020 Ourselves: -32603 -32603 -32603 -32603 -32603
        -32020 Upstream: -32603 -32603 -32603 -32603 -32603
        -32020 Envelope: 400/-32020 400/-32020 400/-32020 400/-32020 400/-32020
        -32021 Ourselves: -32603 -32603 -32603 -32603 400/-32021
        -32021 Upstream: -32603 -32603 -32603 -32603 400/-32021
        -32022 Ourselves: -32603 -32603 -32603 -32603 -32603
        -32022 Upstream: -32603 -32603 -32603 -32603 -32603
        -32022 Envelope: 400/-32022 400/-32022 400/-32022 400/-32022 400/-32022
        -32000 Ourselves: -32000 -32000 -32000 -32000 -32000
        -32000 Upstream: -32000 -32000 -32000 -32000 -32000
        -32019 Ourselves: -32019 -32019 -32019 -32019 -32019
        -32019 Upstream: -32019 -32019 -32019 -32019 -32019
        -32023 Ourselves: -32603 -32603 -32603 -32603 -32603
        -32023 Upstream: -32603 -32603 -32603 -32603 -32603
        -32099 Ourselves: -32603 -32603 -32603 -32603 -32603
        -32099 Upstream: -32603 -32603 -32603 -32603 -32603
        -1 Ourselves: -1 -1 -1 -1 -1
        -1 Upstream: -1 -1 -1 -1 -1
        7 Ourselves: 7 7 7 7 7
        7 Upstream: 7 7 7 7 7
    "#]]
    .assert_eq(&table);
}

/// What upstreams say; of which era, and to a read of which resource.
const SAID: &[(Era, Option<&str>, &str)] = &[
    (Era::Legacy, Some("x+mem://a"), r#"{"code":-32002,"message":"not found","data":{"uri":"mem://a"}}"#),
    (Era::Modern, Some("x+mem://a"), r#"{"code":-32602,"message":"not found","data":{"uri":"mem://a"}}"#),
    (Era::Modern, Some("x+mem://a"), r#"{"code":-32602,"message":"not found"}"#),
    (Era::Legacy, Some("x+mem://a"), r#"{"code":-32602,"message":"bad"}"#),
    (Era::Modern, None, r#"{"code":-32602,"message":"no such prompt","data":{"a" : 1.0}}"#),
    (
        Era::Modern,
        None,
        r#"{"code":-32021,"message":"needs","data":{"requiredCapabilities":{"sampling":{}}}}"#,
    ),
    (Era::Modern, None, r#"{"code":-32022,"message":"v9","data":{"supported":["v9"]}}"#),
    (Era::Legacy, None, r#"{"code":-32042,"message":"go to http://x.example","data":{"elicitations":[]}}"#),
    (Era::Legacy, None, r#"{"code":-32601,"message":"what?"}"#),
    (Era::Legacy, None, r#"{"code":-1,"message":"no\u001b","data":"http://10.0.0.5:8080"}"#),
    (Era::Legacy, None, r#"{"code":"x"}"#),
];

#[test]
fn an_upstreams_error_is_told_in_the_clients_words() {
    let mut table = String::new();
    for &(upstream, asked, error) in SAID {
        writeln!(table, "{upstream:?} {error}").expect("writes");
        for revision in [Revision::R2025_06_18, Revision::R2025_11_25, Revision::R2026_07_28] {
            let error = relayed(upstream, asked, error);
            let body = String::from_utf8(error.message(None, client(revision)).to_vec()).expect("text");
            let body = body.trim_start_matches(r#"{"jsonrpc":"2.0","error":"#).trim_end_matches('}');
            writeln!(table, "  {} {body}", error.answer(client(revision)).status).expect("writes");
        }
    }
    expect![[r#"
        Legacy {"code":-32002,"message":"not found","data":{"uri":"mem://a"}}
          200 {"code":-32002,"message":"not found","data":{"uri":"x+mem://a"
          200 {"code":-32002,"message":"not found","data":{"uri":"x+mem://a"
          200 {"code":-32602,"message":"not found","data":{"uri":"x+mem://a"
        Modern {"code":-32602,"message":"not found","data":{"uri":"mem://a"}}
          200 {"code":-32002,"message":"not found","data":{"uri":"x+mem://a"
          200 {"code":-32002,"message":"not found","data":{"uri":"x+mem://a"
          200 {"code":-32602,"message":"not found","data":{"uri":"x+mem://a"
        Modern {"code":-32602,"message":"not found"}
          200 {"code":-32002,"message":"not found","data":{"uri":"x+mem://a"
          200 {"code":-32002,"message":"not found","data":{"uri":"x+mem://a"
          200 {"code":-32602,"message":"not found","data":{"uri":"x+mem://a"
        Legacy {"code":-32602,"message":"bad"}
          200 {"code":-32602,"message":"bad"
          200 {"code":-32602,"message":"bad"
          200 {"code":-32602,"message":"bad"
        Modern {"code":-32602,"message":"no such prompt","data":{"a" : 1.0}}
          200 {"code":-32602,"message":"no such prompt","data":{"a" : 1.0
          200 {"code":-32602,"message":"no such prompt","data":{"a" : 1.0
          200 {"code":-32602,"message":"no such prompt","data":{"a" : 1.0
        Modern {"code":-32021,"message":"needs","data":{"requiredCapabilities":{"sampling":{}}}}
          200 {"code":-32603,"message":"the upstream could not serve this client"
          200 {"code":-32603,"message":"the upstream could not serve this client"
          400 {"code":-32021,"message":"needs","data":{"requiredCapabilities":{"sampling":{
        Modern {"code":-32022,"message":"v9","data":{"supported":["v9"]}}
          200 {"code":-32603,"message":"the upstream could not serve this client"
          200 {"code":-32603,"message":"the upstream could not serve this client"
          200 {"code":-32603,"message":"the upstream could not serve this client"
        Legacy {"code":-32042,"message":"go to http://x.example","data":{"elicitations":[]}}
          200 {"code":-32603,"message":"a page has to be opened first, which cannot be passed on"
          200 {"code":-32603,"message":"a page has to be opened first, which cannot be passed on"
          200 {"code":-32603,"message":"a page has to be opened first, which cannot be passed on"
        Legacy {"code":-32601,"message":"what?"}
          200 {"code":-32601,"message":"what?"
          200 {"code":-32601,"message":"what?"
          404 {"code":-32601,"message":"what?"
        Legacy {"code":-1,"message":"no\u001b","data":"http://10.0.0.5:8080"}
          200 {"code":-1,"message":"no","data":"[internal address]"
          200 {"code":-1,"message":"no","data":"[internal address]"
          200 {"code":-1,"message":"no","data":"[internal address]"
        Legacy {"code":"x"}
          200 {"code":-32603,"message":"the upstream reported an error"
          200 {"code":-32603,"message":"the upstream reported an error"
          200 {"code":-32603,"message":"the upstream reported an error"
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_stranger_says_at_most_two_kibibytes() {
    let long = r"\u001b[31m http://10.0.0.5:8080 ".repeat(1 << 15);
    let error = format!(r#"{{"code":-32000,"message":"{long}","data":"{long}"}}"#);
    let error = relayed(Era::Legacy, None, &error);
    let body = String::from_utf8(error.message(None, client(Revision::R2025_11_25)).to_vec()).expect("text");
    assert!(body.len() < 2048 + 128 && !body.contains("10.0.0.5") && !body.contains("u001b"), "{body}");
}

#[test]
fn a_failure_of_a_server_that_speaks_of_itself_is_cleaned() {
    let why = UpstreamError::Incompatible { why: "it says `see http://10.0.0.5:8080/`".into() };
    let body = failed(why, false).message(None, client(Revision::R2025_11_25));
    assert!(!String::from_utf8_lossy(&body).contains("10.0.0.5"), "{body:?}");
}
