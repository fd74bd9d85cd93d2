//! Tests: tasks in the words of both eras.

use super::*;
use crate::scan::Budget;

const AT: &str = "2026-07-28T00:00:00Z";

fn ours(status: Status) -> Ours<'static> {
    Ours { id: "north", status, ttl: 60_000, at: AT }
}

fn written(object: &str, from: Era, to: Era, status: Status) -> String {
    Task::read(object, from).unwrap().written(from, to, &ours(status))
}

#[test]
fn a_tool_says_whether_it_takes_tasks() {
    for (tool, support) in [
        (r#"{"name":"a"}"#, Support::Forbidden),
        (r#"{"name":"a","execution":{"taskSupport":"optional"}}"#, Support::Optional),
        (r#"{"name":"a","execution":{"\u0074askSupport":"required"}}"#, Support::Required),
        (r#"{"name":"a","execution":{"taskSupport":"forbidden"}}"#, Support::Forbidden),
        (r#"{"name":"a","execution":{"taskSupport":"sometimes"}}"#, Support::Forbidden),
        (r#"{"name":"taskSupport","execution":"optional"}"#, Support::Forbidden),
    ] {
        assert_eq!(Support::of(tool), support, "{tool}");
    }
}

#[test]
fn capabilities_say_whether_tasks_are_taken() {
    assert!(declares(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#));
    assert!(!declares(r#"{"extensions":{"io.modelcontextprotocol/tasks":null}}"#));
    assert!(!declares(r#"{"tasks":{"requests":{"tools":{"call":{}}}}}"#));
    assert!(offers_calls(r#"{"tasks":{"requests":{"tools":{"call":{}}}}}"#));
    assert!(!offers_calls(r#"{"tasks":{"requests":{"sampling":{"createMessage":{}}}}}"#));
}

#[test]
fn each_era_calls_the_times_its_own_way() {
    let core = r#"{"taskId":"1","status":"working","createdAt":"c","lastUpdatedAt":"u","ttl":null,"pollInterval":500,"x":1.0}"#;
    assert_eq!(
        written(core, Era::Legacy, Era::Legacy, Status::Working),
        r#"{"taskId":"north","status":"working","createdAt":"c","lastUpdatedAt":"u","ttl":60000,"pollInterval":500,"x":1.0}"#
    );
    assert_eq!(
        written(core, Era::Legacy, Era::Modern, Status::Working),
        r#"{"taskId":"north","status":"working","createdAt":"c","lastUpdatedAt":"u","x":1.0,"ttlMs":60000,"pollIntervalMs":500}"#
    );
    let modern = r#"{"resultType":"task","taskId":"1","status":"completed","ttlMs":5,"result":{"isError":true},"requestState":"s"}"#;
    assert_eq!(
        written(modern, Era::Modern, Era::Legacy, Status::Failed),
        format!(
            r#"{{"taskId":"north","status":"failed","createdAt":"{AT}","lastUpdatedAt":"{AT}","ttl":60000}}"#
        )
    );
}

#[test]
fn a_call_that_became_a_task_is_told_from_others() {
    let created = |result: &str, era| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let answer = Frame::parse(text.into(), &Budget::UPSTREAM).unwrap();
        Task::created(&answer, era).map(|task| task.id.into_owned())
    };
    let some = Some("1".to_owned());
    assert_eq!(created(r#"{"task":{"taskId":"1","status":"working"}}"#, Era::Legacy), some);
    assert_eq!(created(r#"{"resultType":"task","taskId":"1","status":"working"}"#, Era::Modern), some);
    for (result, era) in [
        (r#"{"content":[]}"#, Era::Legacy),
        (r#"{"resultType":"task","taskId":"1","status":"working"}"#, Era::Legacy),
        (r#"{"task":{"taskId":"","status":"working"}}"#, Era::Legacy),
        (r#"{"task":{"taskId":"1","status":"idle"}}"#, Era::Legacy),
        (r#"{"resultType":"complete","taskId":"1","status":"working"}"#, Era::Modern),
        (r#"{"task":{"taskId":"1","status":"working"}}"#, Era::Modern),
    ] {
        assert_eq!(created(result, era), None, "{result}");
    }
}

#[test]
fn a_result_says_which_task_it_belongs_to() {
    let mark = r#""io.modelcontextprotocol/related-task":{"taskId":"north"}"#;
    for (result, expected) in [
        (r#"{"content":[]}"#, format!(r#"{{"content":[],"_meta":{{{mark}}}}}"#)),
        (
            r#"{"_meta":{"a/b":1,"io.modelcontextprotocol/related-task":{"taskId":"1"}}}"#,
            format!(r#"{{"_meta":{{"a/b":1,{mark}}}}}"#),
        ),
    ] {
        assert_eq!(related(result, "north"), expected);
    }
    assert_eq!(unrelated(&format!(r#"{{"x":1,"_meta":{{{mark}}}}}"#)), r#"{"x":1}"#);
    assert_eq!(unrelated(&format!(r#"{{"_meta":{{"a/b":1,{mark}}}}}"#)), r#"{"_meta":{"a/b":1}}"#);
    assert_eq!(unrelated(r#"{ "x":1 }"#), r#"{ "x":1 }"#);
}

#[test]
fn an_id_is_taken_up_to_its_bound_and_an_answer_that_cannot_be_read_is_told_from_none() {
    let task = |bytes: usize| format!(r#"{{"taskId":"{}","status":"working"}}"#, "1".repeat(bytes));
    assert!(Task::read(&task(256), Era::Legacy).is_some());
    assert!(Task::read(&task(257), Era::Legacy).is_none() && Task::read(&task(0), Era::Legacy).is_none());
    for (result, era, says) in [
        (r#"{"task":{}}"#, Era::Legacy, true),
        (r#"{"task":{},"content":[]}"#, Era::Legacy, false),
        (r#"{"resultType":"task"}"#, Era::Modern, true),
        (r#"{"task":{}}"#, Era::Modern, false),
    ] {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let answer = Frame::parse(answer.into(), &Budget::UPSTREAM).unwrap();
        assert_eq!(says_created(&answer, era), says, "{result}");
    }
}
