//! Results that ask for input before they can be complete, and the answers to them (spec 6.2).

use std::borrow::Cow;

use bytes::Bytes;

use crate::{
    frame::{Change, Edit, Frame},
    scan::Member,
    text, walk,
};

/// What a modern result says that is not complete but asks.
pub const INPUT_REQUIRED: &str = "input_required";
/// The member of the params of a retry that holds the answers.
pub const RESPONSES: &str = "inputResponses";
/// The member of a result that asks, and of the params of a retry, that the client carries for the server.
pub const STATE: &str = "requestState";

const REQUESTS: &str = "inputRequests";
/// Questions that one result may ask.
const MOST: usize = 32;

/// What a result asks for.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// Its questions; none when it only wants to be asked again.
    pub questions: Vec<Wish<'a>>,
    /// What has to come back, as the JSON text of a string: an empty one is not the same as none (spec Q-20).
    pub state: Option<&'a str>,
}

/// One question of a result.
#[derive(Debug)]
pub struct Wish<'a> {
    /// Under which key it is answered, as JSON text.
    pub key: &'a str,
    /// What is asked, as a method of the older eras.
    pub method: Cow<'a, str>,
    /// Its params, the text of an object.
    pub params: &'a str,
}

/// Whether the result asks for input.
pub fn asks(answer: &Frame) -> bool {
    crate::shape::result_type(answer).is_some_and(|kind| kind == INPUT_REQUIRED)
}

/// What a result asks for. None when it is malformed, or asks neither a question nor to be asked again (spec Q-18).
pub fn wanted(answer: &Frame) -> Option<Wanted<'_>> {
    let state = answer.result_member(STATE);
    let requests = answer.result_member(REQUESTS);
    if state.is_some_and(|state| !state.starts_with('"')) || (state.is_none() && requests.is_none()) {
        return None;
    }
    let Some(requests) = requests else { return Some(Wanted { questions: Vec::new(), state }) };
    if !requests.starts_with('{') {
        return None;
    }
    let bytes = requests.as_bytes();
    let mut questions = Vec::new();
    for (key, value) in walk::members(bytes, 0..bytes.len()) {
        let entry = requests.get(value)?;
        let method = member(entry, "method")?;
        let params = member(entry, "params").unwrap_or("{}");
        if questions.len() >= MOST || !params.starts_with('{') {
            return None;
        }
        let method = text::string(method.as_bytes())?;
        questions.push(Wish { key: requests.get(key.quoted())?, method, params });
    }
    Some(Wanted { questions, state })
}

/// The edits that put other questions, the text of an object, and another state, JSON text, into a result that asks.
pub fn edits(answer: &Frame, questions: &str, state: &str) -> Vec<Edit> {
    let mut edits = Vec::new();
    if let Some(span) = answer.result_span(REQUESTS) {
        edits.push(Edit { span, text: Bytes::copy_from_slice(questions.as_bytes()) });
    }
    match answer.result_span(STATE) {
        Some(span) => edits.push(Edit { span, text: Bytes::copy_from_slice(state.as_bytes()) }),
        None => {
            // INVARIANT: a result that asks has a member at least, the one that says so.
            let first = answer.result_object().and_then(|(_, members)| members.first().copied());
            let at = first.map_or(0, |first: Member| first.key.quoted().start);
            let text = ["\"", STATE, "\":", state, ","].concat();
            edits.push(Edit { span: at..at, text: text.into() });
        }
    }
    edits
}

/// One question as it stands among those of a result or a task: `key` and `params` are JSON text.
pub fn entry(key: &str, method: &str, params: &str) -> String {
    format!("{key}:{{\"method\":{},\"params\":{params}}}", text::quote(method))
}

/// The JSON text of a member of an object, which was read strictly.
pub fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    object.get(walk::member(object.as_bytes(), 0..object.len(), key)?)
}

/// The elements of an array, which was read strictly; none when it is something else.
pub fn elements(array: &str) -> impl Iterator<Item = &str> {
    walk::elements(array.as_bytes(), 0..array.len()).filter_map(|span| array.get(span))
}

/// The members of an object, which was read strictly: names decoded, values as JSON text.
pub fn members(object: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    walk::members(object.as_bytes(), 0..object.len()).filter_map(|(key, value)| {
        Some((text::string(object.get(key.quoted())?.as_bytes())?, object.get(value)?))
    })
}

/// What a JSON string says; none for anything else.
pub fn said(raw: &str) -> Option<Cow<'_, str>> {
    text::string(raw.as_bytes())
}

/// An object with some members changed, added or left out; all else keeps its order and its text.
pub fn changed(object: &str, changes: &[Change<'_>]) -> String {
    let bytes = object.as_bytes();
    let mut out = String::with_capacity(object.len() + 64);
    let mut add = |key: &str, value: &str| {
        out.push(if out.is_empty() { '{' } else { ',' });
        out.extend([key, ":", value]);
    };
    for (key, value) in walk::members(bytes, 0..bytes.len()) {
        let quoted = object.get(key.quoted()).unwrap_or_default();
        match changes.iter().find(|change| key.says(change.key, bytes)) {
            Some(Change { value: Some(value), .. }) => add(quoted, value),
            Some(Change { value: None, .. }) => {}
            None => add(quoted, object.get(value).unwrap_or_default()),
        }
    }
    for change in changes {
        if let (Some(value), None) = (&change.value, member(object, change.key)) {
            add(&text::quote(change.key), value);
        }
    }
    if out.is_empty() {
        out.push('{');
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::Id, scan::Budget};

    fn answer(result: &str) -> Frame {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        Frame::parse(text.into(), &Budget::UPSTREAM).unwrap()
    }

    fn read(result: &str) -> Option<(Vec<String>, Option<String>)> {
        let answer = answer(result);
        let wanted = wanted(&answer)?;
        let questions = wanted.questions.iter();
        let questions = questions.map(|wish| format!("{} {} {}", wish.key, wish.method, wish.params));
        Some((questions.collect(), wanted.state.map(str::to_owned)))
    }

    #[test]
    fn a_result_that_asks_has_questions_or_a_state_or_both() {
        let some = |questions: &[&str], state: Option<&str>| {
            Some((questions.iter().map(|one| (*one).to_owned()).collect(), state.map(str::to_owned)))
        };
        for (result, expected) in [
            (r#"{"resultType":"input_required"}"#, None),
            (r#"{"resultType":"input_required","requestState":7}"#, None),
            (r#"{"resultType":"input_required","inputRequests":[]}"#, None),
            (r#"{"resultType":"input_required","inputRequests":{"a":{"params":{}}}}"#, None),
            (r#"{"resultType":"input_required","inputRequests":{"a":{"method":"m","params":[]}}}"#, None),
            (r#"{"resultType":"input_required","requestState":""}"#, some(&[], Some("\"\""))),
            (
                r#"{"resultType":"input_required","inputRequests":{"a\n":{"method":"roots/list"},"b":{"method":"x","params":{"y":1}}}}"#,
                some(&[r#""a\n" roots/list {}"#, r#""b" x {"y":1}"#], None),
            ),
        ] {
            assert_eq!(read(result), expected, "{result}");
        }
        assert!(asks(&answer(r#"{"resultType":"input_required"}"#)));
        assert!(!asks(&answer(r#"{"resultType":"complete"}"#)));
        assert!(!asks(&answer("{}")));
    }

    #[test]
    fn one_question_too_many_is_none_at_all() {
        let entry = |n: usize| format!(r#""{n}":{{"method":"roots/list"}}"#);
        let result = |count: usize| {
            let entries: Vec<String> = (0..count).map(entry).collect();
            format!(r#"{{"resultType":"input_required","inputRequests":{{{}}}}}"#, entries.join(","))
        };
        assert_eq!(read(&result(MOST)).map(|(questions, _)| questions.len()), Some(MOST));
        assert_eq!(read(&result(MOST + 1)), None);
    }

    #[test]
    fn questions_and_state_are_replaced_and_nothing_else() {
        for (result, expected) in [
            (
                r#"{"x":1.0,"resultType":"input_required","inputRequests":{"a":{}},"requestState":"old"}"#,
                r#"{"x":1.0,"resultType":"input_required","inputRequests":{"b":2},"requestState":"new"}"#,
            ),
            (
                r#"{ "resultType":"input_required", "inputRequests":{} }"#,
                r#"{ "requestState":"new","resultType":"input_required", "inputRequests":{"b":2} }"#,
            ),
        ] {
            let answer = answer(result);
            let edits = edits(&answer, r#"{"b":2}"#, "\"new\"");
            let bytes = answer.answer(&Id::number(9), &edits).join();
            let expected = format!(r#"{{"jsonrpc":"2.0","id":9,"result":{expected}}}"#);
            assert_eq!(String::from_utf8_lossy(&bytes), expected);
        }
    }

    #[test]
    fn an_object_keeps_what_is_not_changed() {
        let changes = [
            Change { key: "message", value: Some("\"new\"".into()) },
            Change { key: "gone", value: None },
            Change { key: "added", value: Some("{}".into()) },
        ];
        for (object, expected) in [
            (r#"{"gone":1,"message":"old","x" : 1.0}"#, r#"{"message":"new","x":1.0,"added":{}}"#),
            ("{}", r#"{"message":"new","added":{}}"#),
        ] {
            assert_eq!(changed(object, &changes), expected);
        }
        assert_eq!(changed(r#"{"gone":1}"#, &[Change { key: "gone", value: None }]), "{}");
    }
}
