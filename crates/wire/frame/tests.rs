//! Tests: what a frame takes, refuses and leaves alone.

use std::{collections::BTreeMap, fmt::Write as _};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::spelled::{Spelling, Tree, cases, text, tree};

mod leaving;

fn parse(raw: &str) -> Result<Frame, FrameError> {
    Frame::parse(Bytes::copy_from_slice(raw.as_bytes()), &Budget::CLIENT)
}

fn frame(raw: &str) -> Frame {
    parse(raw).unwrap()
}

fn change<'a>(key: &'a str, value: &'a str) -> Change<'a> {
    Change { key, value: Some(value.into()) }
}

fn left_out(key: &str) -> Change<'_> {
    Change { key, value: None }
}

fn verdicts(texts: &[&str], expected: Expect) {
    let mut table = String::new();
    for text in texts {
        let verdict = match parse(text) {
            Ok(frame) => format!("{:?} {:?} {:?}", frame.shape(), frame.id(), frame.method()),
            Err(error) if error.is_parse_error() => format!("-32700 {error}"),
            Err(error) => format!("-32600 {error}"),
        };
        writeln!(table, "{text}\n    {verdict}").unwrap();
    }
    expected.assert_eq(&table);
}

#[test]
fn a_frame_is_a_request_a_notification_or_an_answer() {
    verdicts(
        &[
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#" { "method" : "tools/call" , "params" : { } , "id" : "a" , "jsonrpc" : "2.0" } "#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"t\u006fols/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list "}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":""}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"params":{"name":"x"},"x":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.\u0030","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","x":{"deep":[1]}}"#,
        ],
        expect![[r#"
            {"jsonrpc":"2.0","id":1,"method":"ping"}
                Request Some(Id(1)) Some(Ping)
             { "method" : "tools/call" , "params" : { } , "id" : "a" , "jsonrpc" : "2.0" } 
                Request Some(Id("a")) Some(ToolsCall)
            {"jsonrpc":"2.0","method":"notifications/initialized"}
                Notification None Some(Initialized)
            {"jsonrpc":"2.0","method":"notifications/initialized","params":{}}
                Notification None Some(Initialized)
            {"jsonrpc":"2.0","id":1,"method":"t\u006fols/list"}
                Request Some(Id(1)) Some(ToolsList)
            {"jsonrpc":"2.0","id":1,"method":"tools/list "}
                Request Some(Id(1)) None
            {"jsonrpc":"2.0","id":1,"method":""}
                Request Some(Id(1)) None
            {"jsonrpc":"2.0","id":1,"result":null}
                Result Some(Id(1)) None
            {"jsonrpc":"2.0","id":1,"result":{},"params":{"name":"x"},"x":1}
                Result Some(Id(1)) None
            {"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}
                Failure Some(Id(1)) None
            {"jsonrpc":"2.0","error":{"code":1,"message":"m"}}
                Failure None None
            {"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}
                Failure None None
            {"jsonrpc":"2.\u0030","id":1,"method":"ping"}
                Request Some(Id(1)) Some(Ping)
            {"jsonrpc":"2.0","id":1,"method":"ping","x":{"deep":[1]}}
                Request Some(Id(1)) Some(Ping)
        "#]],
    );
}

#[test]
fn what_is_no_object_is_refused() {
    verdicts(
        &[
            "",
            "{",
            "hello",
            "[]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            "[1,",
            "1",
            "null",
            r#""text""#,
            "{}",
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0 ","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":null,"id":1,"method":"ping"}"#,
        ],
        expect![[r#"

                -32700 not JSON at byte 0: a value is expected
            {
                -32700 not JSON at byte 1: a key is expected
            hello
                -32700 not JSON at byte 0: a value is expected
            []
                -32600 a batch
            [{"jsonrpc":"2.0","id":1,"method":"ping"}]
                -32600 a batch
            [1,
                -32700 not JSON at byte 3: a value is expected
            1
                -32600 neither a request, a notification nor an answer
            null
                -32600 neither a request, a notification nor an answer
            "text"
                -32600 neither a request, a notification nor an answer
            {}
                -32600 `jsonrpc` is not `2.0`
            {"id":1,"method":"ping"}
                -32600 `jsonrpc` is not `2.0`
            {"jsonrpc":2.0,"id":1,"method":"ping"}
                -32600 `jsonrpc` is not `2.0`
            {"jsonrpc":"2.0 ","id":1,"method":"ping"}
                -32600 `jsonrpc` is not `2.0`
            {"jsonrpc":null,"id":1,"method":"ping"}
                -32600 `jsonrpc` is not `2.0`
        "#]],
    );
}

#[test]
fn what_is_no_message_or_two_is_refused() {
    verdicts(
        &[
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","error":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":["x"]}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":null}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"Id":2,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","n\u0061me":"b"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","NAME":"b"}}"#,
        ],
        expect![[r#"
            {"jsonrpc":"2.0","id":1}
                -32600 neither a request, a notification nor an answer
            {"jsonrpc":"2.0","id":1,"method":7}
                -32600 neither a request, a notification nor an answer
            {"jsonrpc":"2.0","id":1,"method":null}
                -32600 neither a request, a notification nor an answer
            {"jsonrpc":"2.0","id":1,"result":{},"error":{}}
                -32600 neither a request, a notification nor an answer
            {"jsonrpc":"2.0","id":1,"method":"ping","result":{}}
                -32600 neither a request, a notification nor an answer
            {"jsonrpc":"2.0","id":1,"method":"ping","error":null}
                -32600 neither a request, a notification nor an answer
            {"jsonrpc":"2.0","id":1,"method":"ping","params":null}
                -32600 neither a request, a notification nor an answer
            {"jsonrpc":"2.0","id":1,"method":"ping","params":["x"]}
                -32600 neither a request, a notification nor an answer
            {"jsonrpc":"2.0","method":"notifications/initialized","params":null}
                -32600 neither a request, a notification nor an answer
            {"jsonrpc":"2.0","id":null,"method":"ping"}
                -32600 the id is neither a string nor an integer of at most 256 bytes
            {"jsonrpc":"2.0","result":{}}
                -32600 the id is neither a string nor an integer of at most 256 bytes
            {"jsonrpc":"2.0","id":null,"result":{}}
                -32600 the id is neither a string nor an integer of at most 256 bytes
            {"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}
                -32600 `id` stands twice in one object
            {"jsonrpc":"2.0","id":1,"Id":2,"method":"ping"}
                -32600 `Id` is nearly a reserved key
            {"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","n\u0061me":"b"}}
                -32600 `name` stands twice in one object
            {"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","NAME":"b"}}
                -32600 `NAME` is nearly a reserved key
        "#]],
    );
}

#[test]
fn an_id_is_a_string_or_an_integer() {
    let long = format!("\"{}\"", "x".repeat(254));
    let ids = [
        "7",
        "-7",
        "0",
        "-0",
        "9007199254740993",
        "123456789012345678901234567890",
        "\"7\"",
        "\"\"",
        "\"007\"",
        "\"a/b\"",
        "\"\\u0037\"",
        &long,
        "null",
        "1.5",
        "1.0",
        "1e0",
        "1e400",
        "true",
        "{}",
        "[1]",
        &long.replacen('x', "xx", 1),
        &"9".repeat(257),
    ];
    let mut table = String::new();
    for id in ids {
        let verdict = match parse(&format!(r#"{{"jsonrpc":"2.0","id": {id} ,"method":"ping"}}"#)) {
            Ok(frame) => {
                assert_eq!(frame.id().unwrap().raw(), id);
                format!("{:?}", frame.id().unwrap().as_number())
            }
            Err(error) => error.to_string(),
        };
        let start: String = id.chars().take(32).collect();
        writeln!(table, "{start:<34} {verdict}").unwrap();
    }
    expect![[r#"
        7                                  Some(7)
        -7                                 None
        0                                  Some(0)
        -0                                 Some(0)
        9007199254740993                   Some(9007199254740993)
        123456789012345678901234567890     None
        "7"                                Some(7)
        ""                                 None
        "007"                              None
        "a/b"                              None
        "\u0037"                           Some(7)
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx   None
        null                               the id is neither a string nor an integer of at most 256 bytes
        1.5                                the id is neither a string nor an integer of at most 256 bytes
        1.0                                the id is neither a string nor an integer of at most 256 bytes
        1e0                                the id is neither a string nor an integer of at most 256 bytes
        1e400                              the id is neither a string nor an integer of at most 256 bytes
        true                               the id is neither a string nor an integer of at most 256 bytes
        {}                                 the id is neither a string nor an integer of at most 256 bytes
        [1]                                the id is neither a string nor an integer of at most 256 bytes
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx   the id is neither a string nor an integer of at most 256 bytes
        99999999999999999999999999999999   the id is neither a string nor an integer of at most 256 bytes
    "#]]
    .assert_eq(&table);
}

#[test]
fn numbers_beyond_64_bits_and_odd_spellings_pass_unchanged() {
    let arguments = r#"{"n":18446744073709551616,"f":0.1000000000000000055511151231257827,"h":1e400,"z":-0,"o":1.0,"e":1E+2,"$serde_json::private::Number":"7","s":"\u00e9\/"}"#;
    let request = frame(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","arguments":{arguments}}}}}"#
    ));
    assert_eq!(request.param("arguments"), Some(arguments));
    let sent = request.forward(request.id(), &[change("name", "\"b\"")]);
    assert_eq!(frame(std::str::from_utf8(&sent).unwrap()).param("arguments"), Some(arguments));
}

#[test]
fn params_are_found_by_what_their_keys_say() {
    let request =
        frame(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"n\u0061me":"\u0062\n","x":[1],"":2}}"#);
    assert_eq!(request.params(), Some(r#"{"n\u0061me":"\u0062\n","x":[1],"":2}"#));
    assert_eq!(request.param("name"), Some(r#""\u0062\n""#));
    assert_eq!(request.param_text("name").as_deref(), Some("b\n"));
    assert_eq!(
        (request.param("x"), request.param_text("x"), request.param("")),
        (Some("[1]"), None, Some("2"))
    );
    assert_eq!((request.param("y"), request.result(), request.error()), (None, None, None));
}

#[test]
fn answers_are_read_by_shape() {
    let result = frame(r#"{"jsonrpc":"2.0","id":1,"params":{"a":1},"result":{"a":{"b":2}}}"#);
    assert_eq!((result.result(), result.result_member("a")), (Some(r#"{"a":{"b":2}}"#), Some(r#"{"b":2}"#)));
    assert_eq!(
        (result.params(), result.param("a"), result.error(), result.error_member("a")),
        (None, None, None, None)
    );
    assert_eq!((result.method_name(), result.method()), ("", None));
    let failure = frame(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"m"}}"#);
    assert_eq!((failure.error_member("code"), failure.result_member("code")), (Some("-32000"), None));
    assert_eq!(frame(r#"{"jsonrpc":"2.0","id":1,"error":"boom"}"#).error(), Some("\"boom\""));
}

#[test]
fn a_frame_does_not_print_what_it_holds() {
    let request = frame(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"password":"hunter2"}}}"#,
    );
    expect![[r#"Frame { shape: Request, method: "tools/call", id: Some(Id(1)), bytes: 103 }"#]]
        .assert_eq(&format!("{request:?}"));
}

#[test]
fn the_id_of_a_refused_message_is_read_where_there_is_no_doubt() {
    let table: String = [
        r#"{"jsonrpc":"1.0","id":7}"#,
        r#"{"jsonrpc":"2.0","method":"a","method":"b","\u0069d":"x"}"#,
        r#"{"id":1,"params":{"id":2}}"#,
        r#"{"params":{"id":2}}"#,
        r#"{"id":1,"id":2}"#,
        r#"{"id":null}"#,
        r#"{"id":1.5}"#,
        r#"{"id":1,"method":"tools/li"#,
        r#"{"id":1"#,
        r#"{"id":1}{"id":2}"#,
        r#" {"id":1} "#,
        r#"[{"id":1}]"#,
        "",
    ]
    .into_iter()
    .map(|raw| format!("{raw} -> {:?}\n", readable_id(raw.as_bytes())))
    .collect();
    expect![[r#"
        {"jsonrpc":"1.0","id":7} -> Some(Id(7))
        {"jsonrpc":"2.0","method":"a","method":"b","\u0069d":"x"} -> Some(Id("x"))
        {"id":1,"params":{"id":2}} -> Some(Id(1))
        {"params":{"id":2}} -> None
        {"id":1,"id":2} -> None
        {"id":null} -> None
        {"id":1.5} -> None
        {"id":1,"method":"tools/li -> None
        {"id":1 -> None
        {"id":1}{"id":2} -> None
         {"id":1}  -> Some(Id(1))
        [{"id":1}] -> None
         -> None
    "#]]
    .assert_eq(&table);
    let deep = format!("{{\"id\":5,\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(
        (parse(&deep).unwrap_err(), readable_id(deep.as_bytes())),
        (FrameError::TooDeep, Some(Id::number(5)))
    );
    assert_eq!(readable_id(b"{\"id\":5,\"x\":\"\xff\"}"), None);
}

fn request(params: &BTreeMap<String, Tree>, name: &str, seed: u64) -> String {
    let mut params = params.clone();
    params.insert("name".into(), Tree::Text(name.into()));
    let outer = BTreeMap::from([
        ("jsonrpc".into(), Tree::Text("2.0".into())),
        ("id".into(), Tree::Text("i".into())),
        ("method".into(), Tree::Text("tools/call".into())),
        ("params".into(), Tree::Object(params)),
    ]);
    Spelling::new(seed).object(&outer)
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn renaming_there_and_back_is_the_identity(
        params in prop::collection::btree_map("[a-z]{0,2}", tree(), 0..6), old in text(), new in text(), seed: u64,
    ) {
        let before = frame(&request(&params, &old, seed));
        let plain = before.forward(before.id(), &[]);
        let old_raw = before.param("name").unwrap().to_owned();
        let there = before.forward(before.id(), &[change("name", &text::quote(&new))]);
        let there = Frame::parse(there, &Budget::CLIENT).unwrap();
        prop_assert_eq!(there.param_text("name").unwrap(), new);
        let back = there.forward(there.id(), &[change("name", &old_raw)]);
        prop_assert_eq!(&back, &plain);
        prop_assert!(!back.contains(&b'\n') && !back.contains(&b'\r'));
    }

    #[test]
    fn bytes_that_are_not_changed_stay(
        params in prop::collection::btree_map("[a-z]{0,2}", tree(), 0..6), new in text(), seed: u64,
    ) {
        let before = frame(&request(&params, "old", seed));
        let after = before.forward(Some(&Id::number(1)), &[change("name", &text::quote(&new)), left_out("_meta")]);
        let after = Frame::parse(after, &Budget::CLIENT).unwrap();
        for key in params.keys() {
            prop_assert_eq!(after.param(key).unwrap(), one_line(before.param(key).unwrap()));
        }
    }

    #[test]
    fn an_edit_replaces_its_span_only(result in tree(), seed: u64, cut in any::<(prop::sample::Index, prop::sample::Index)>()) {
        let head = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":";
        let raw = format!("{head}{}}}", Spelling::new(seed).tree(&result));
        let answer = frame(&raw);
        let result = answer.result().unwrap().as_bytes();
        let begin = head.len() + raw.as_bytes()[head.len()..].iter().position(|byte| !byte.is_ascii_whitespace()).unwrap();
        let (one, other) = (cut.0.index(result.len() + 1), cut.1.index(result.len() + 1));
        let (from, to) = (one.min(other), one.max(other));
        let edit = Edit { span: begin + from..begin + to, text: "EDIT".into() };
        let mut expected = [&result[..from], b"EDIT", &result[to..]].concat();
        text::on_one_line(&mut expected);
        let edited = answer.answer(&Id::number(1), &[edit]).join();
        prop_assert_eq!(&edited[..], [head.as_bytes(), &expected, b"}"].concat());
    }
}

#[test]
fn a_lenient_reading_lets_only_parts_of_a_result_pass() {
    let lenient = |raw: &str| Frame::parse_leniently(Bytes::copy_from_slice(raw.as_bytes()), &Budget::CLIENT);
    for result in [r#"{"a":{"b":1,"b":2}}"#, r#"{"a":[{"\ud800":1}]}"#, r#"{"a":["\ud800"]}"#] {
        let raw = format!(r#"{{"jsonrpc":"2.0","result":{result},"id":1}}"#);
        assert!(parse(&raw).is_err(), "{raw}");
        let frame = lenient(&raw).unwrap();
        assert_eq!((frame.is_strict(), frame.result(), frame.shape()), (false, Some(result), Shape::Result));
    }
    let strict = r#"{"jsonrpc":"2.0","id":1,"result":{"a":{"b":1}}}"#;
    assert!(frame(strict).is_strict() && lenient(strict).unwrap().is_strict());
    let deep = format!(r#"{{"a":{{"b":1,"b":{}{}}}}}"#, "[".repeat(80), "]".repeat(80));
    let many = format!(r#"{{"a":{{"b":1,"b":[0{}]}}}}"#, ",0".repeat(100_000));
    for body in [
        r#""result":{"a":1,"a":2}"#,
        r#""result":{"a":"\ud800"}"#,
        r#""result":{"\ud800":1}"#,
        r#""result":{"a":{"b":1}},"result":{"a":{"b":1}}"#,
        r#""result":{"a":{"b":1,"b":2}},"Result":{}"#,
        r#""result":{"a":{"b":1,"b":2}},"x":{"c":{"d":1,"d":2}}"#,
        r#""error":{"code":1,"message":"m","data":{"b":1,"b":2}}"#,
        r#""method":"m","params":{"a":{"b":1,"b":2}}"#,
        r#""result":{"a":["\ud8"]}"#,
        r#""result":{"a":["\ud80g"]}"#,
        r#""result":{"a":["\ud800\u12"]}"#,
        r#""result":{"a":{"b":1,"b":}}"#,
        r#""result":{"a":{"b":1,"b":2}"#,
        &format!(r#""result":{deep}"#),
        &format!(r#""result":{many}"#),
    ] {
        assert!(lenient(&format!(r#"{{"jsonrpc":"2.0","id":1,{body}}}"#)).is_err(), "{body:.80}");
    }
    let latin: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":[\"\xff\"]}}";
    assert!(Frame::parse_leniently(Bytes::from_static(latin), &Budget::CLIENT).is_err());
}

#[test]
fn equal_keys_that_pass_cost_linear_time() {
    let pairs = vec!["\"k\":0"; 1_000_000].join(",");
    let raw = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":{{{pairs}}}}}}}"#);
    let frame = Frame::parse_leniently(raw.into(), &Budget::UPSTREAM).unwrap();
    assert!(!frame.is_strict());
}

#[test]
fn a_batch_is_split_into_shares_of_its_bytes() {
    let split = |text: &'static str| split(&Bytes::from_static(text.as_bytes()), &Budget::CLIENT);
    let parts = |text| split(text).map(|all| all.iter().map(|one| one.to_vec()).collect::<Vec<_>>());
    assert_eq!(parts("[]").unwrap(), Vec::<Vec<u8>>::new());
    let text = " [ {\"a\":[1,{}]} ,\n7, \"],[\" ,[] ] ";
    let expected: [&[u8]; 4] = [b"{\"a\":[1,{}]}", b"7", b"\"],[\"", b"[]"];
    assert_eq!(parts(text).unwrap(), expected);
    assert_eq!(split("{}").unwrap_err(), FrameError::NotAMessage);
    assert!(split("[1,]").unwrap_err().is_parse_error());
    assert!(split("[{}] []").unwrap_err().is_parse_error());
    for text in [r#"[{"a":1,"a":2}]"#, r#"[{"b":{"a":1,"\u0061":2}}]"#] {
        assert!(matches!(split(text), Err(FrameError::DuplicateKey { .. })), "{text}");
    }
}
