//! How frames leave: what is rebuilt, and what is shared.

use std::ops::Range;

use expect_test::expect;

use super::{Change, Edit, Id, Shape, change, frame, left_out, parse};

#[test]
fn forwarding_rebuilds_the_outer_objects() {
    let request = frame(
        "{ \"x\": {\"admin\":true},\n\"params\": { \"z\" :null , \"name\":\"gh__search\", \"arguments\": {\n\"q\": [1,\r\n2], \"s\":\"a\\nb\" } }, \"id\":\"7\", \"method\":\"tools/call\", \"jsonrpc\":\"2.0\" }",
    );
    let show = |id: Option<&Id>, changes: &[Change<'_>]| {
        String::from_utf8(request.forward(id, changes).to_vec()).unwrap() + "\n"
    };
    let ours = Id::number(12);
    expect![[r#"
        {"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"z":null,"name":"gh__search","arguments":{ "q": [1,  2], "s":"a\nb" }}}
        {"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"search","arguments":{ "q": [1,  2], "s":"a\nb" },"_meta":{ }}}
        {"jsonrpc":"2.0","method":"tools/call","params":{}}
    "#]].assert_eq(&[
        show(request.id(), &[]),
        show(Some(&ours), &[change("name", "\"search\""), change("_meta", "{\n}"), left_out("absent"), left_out("z")]),
        show(None, &[left_out("name"), left_out("arguments"), left_out("z")]),
    ].concat());
    let bare = frame(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    assert_eq!(bare.forward(None, &[left_out("a")]), r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    assert_eq!(
        bare.forward(None, &[change("a", "1"), change("a", "2")]),
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}"#
    );
}

#[test]
fn an_answer_shares_its_bytes() {
    let raw =
        format!(r#"{{"jsonrpc":"2.0","id":"12","x":1,"result":{{"a":"{}","uri":"old"}}}}"#, "x".repeat(1000));
    let answer = frame(&raw);
    let id = Id::from_raw("\"cli\\u0065nt\"").unwrap();
    let pieces = answer.answer(&id, &[]);
    let body = answer.bytes().as_ptr().addr()..answer.bytes().as_ptr().addr() + raw.len();
    assert!(pieces.iter().any(|piece| piece.len() > 1000 && body.contains(&piece.as_ptr().addr())));
    assert_eq!(pieces.join(), raw.replace(r#""12","x":1"#, r#""cli\u0065nt""#));

    let at = raw.find("\"old\"").unwrap();
    let edit = |span: Range<usize>, text: &'static str| Edit { span, text: text.into() };
    let edits = [
        edit(at..at + 5, "\"new\""),
        edit(0..3, "no"),
        edit(at + 1..at + 2, "no"),
        edit(at..usize::MAX, "no"),
    ];
    let edited = answer.answer(answer.id().unwrap(), &edits).join();
    assert_eq!(edited, raw.replace(r#","x":1"#, "").replace("old", "new"));
}

#[test]
fn an_answer_leaves_on_one_line() {
    let answer = frame("\n{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\"result\":\n{\"a\":\n\"\\n\"}\n}\n");
    assert_eq!(answer.answer(&Id::number(2), &[]).join(), r#"{"jsonrpc":"2.0","id":2,"result":{"a": "\n"}}"#);
    let failure = frame(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#);
    assert_eq!(
        failure.answer(&Id::number(2), &[]).join(),
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"m"}}"#
    );
    let request = frame(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(
        parse(std::str::from_utf8(&request.answer(&Id::number(2), &[]).join()).unwrap()).unwrap().shape(),
        Shape::Failure
    );
}

#[test]
fn a_slice_outside_is_empty() {
    let request = frame(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(request.slice(2..9), "jsonrpc");
    let upside_down = Range { start: 9, end: 2 };
    assert!(request.slice(0..1000).is_empty() && request.slice(upside_down).is_empty());
}
