//! Tests: what headers say, and when they go with the body.

use std::fmt::Write as _;

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::{scan::Budget, spelled::cases};

fn frame(raw: &str) -> Frame {
    Frame::parse(raw.to_owned().into(), &Budget::CLIENT).unwrap()
}

fn request(method: &str, params: &str) -> Frame {
    frame(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#))
}

fn sent<'a>(method: Option<&'a str>, name: Option<&'a str>) -> Sent<'a> {
    Sent { version: None, method, name, params: &[] }
}

fn shown(verdict: Result<(), HeaderError>) -> String {
    verdict.map_or_else(|error| error.to_string(), |()| "ok".into())
}

#[test]
fn values_are_encoded_as_the_specification_shows() {
    for (value, encoded) in [
        ("us-west1", "us-west1"),
        ("a b~!", "a b~!"),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?BASE64?x?=", "=?BASE64?x?="),
        ("=?base64?x", "=?base64?x"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("a\tb", "=?base64?YQli?="),
        ("\u{7f}", "=?base64?fw==?="),
        ("", "=?base64??="),
    ] {
        assert_eq!((&*encode(value), &*decode(encoded).unwrap()), (encoded, value));
    }
}

#[test]
fn only_canonical_base64_of_text_is_decoded() {
    let mut table = String::new();
    for value in [
        "  foo\t",
        "\tfo\to ",
        "=?base64?SGVsbG8=?=",
        " =?base64?SGVsbG8=?= ",
        "=?BASE64?SGVsbG8=?=",
        "x=?base64?SGVsbG8=?=",
        "=?base64?SGVsbG8=?=x",
        "SGVsbG8=",
        "=?base64?SGVsbG8?=",
        "=?base64?SGVsbG9=?=",
        "=?base64?SGVsbG8==?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVsbG8=\t?=",
        "=?base64?SGV%%G8=?=",
        "=?base64?-_-_?=",
        "=?base64?=?=",
        "=?base64??=",
        "=?base64?=",
        "=?base64?/w==?=",
        "=?base64?7aCA?=",
        "=?utf-8?q?x?=",
        "caf\u{e9}",
        "a\u{7f}",
        "a\0b",
        "a\r\nb",
        "",
    ] {
        writeln!(table, "{value:?} -> {:?}", decode(value)).unwrap();
    }
    expect![[r#"
        "  foo\t" -> Ok("foo")
        "\tfo\to " -> Ok("fo\to")
        "=?base64?SGVsbG8=?=" -> Ok("Hello")
        " =?base64?SGVsbG8=?= " -> Ok("Hello")
        "=?BASE64?SGVsbG8=?=" -> Ok("=?BASE64?SGVsbG8=?=")
        "x=?base64?SGVsbG8=?=" -> Ok("x=?base64?SGVsbG8=?=")
        "=?base64?SGVsbG8=?=x" -> Ok("=?base64?SGVsbG8=?=x")
        "SGVsbG8=" -> Ok("SGVsbG8=")
        "=?base64?SGVsbG8?=" -> Err(BadEncoding)
        "=?base64?SGVsbG9=?=" -> Err(BadEncoding)
        "=?base64?SGVsbG8==?=" -> Err(BadEncoding)
        "=?base64?SGVs bG8=?=" -> Err(BadEncoding)
        "=?base64?SGVsbG8=\t?=" -> Err(BadEncoding)
        "=?base64?SGV%%G8=?=" -> Err(BadEncoding)
        "=?base64?-_-_?=" -> Err(BadEncoding)
        "=?base64?=?=" -> Err(BadEncoding)
        "=?base64??=" -> Ok("")
        "=?base64?=" -> Err(BadEncoding)
        "=?base64?/w==?=" -> Err(BadEncoding)
        "=?base64?7aCA?=" -> Err(BadEncoding)
        "=?utf-8?q?x?=" -> Ok("=?utf-8?q?x?=")
        "café" -> Err(BadCharacter)
        "a\u{7f}" -> Err(BadCharacter)
        "a\0b" -> Err(BadCharacter)
        "a\r\nb" -> Err(BadCharacter)
        "" -> Ok("")
    "#]]
    .assert_eq(&table);
}

#[test]
fn method_and_name_have_to_say_what_the_body_says() {
    let call = request("tools/call", r#"{"name":"foo"}"#);
    let unnamed = request("tools/call", "{}");
    let read = request("resources/read", r#"{"uri":"mem:\/\/\u4e16"}"#);
    let list = request("tools/list", r#"{"name":"x"}"#);
    let task = request("tasks/get", r#"{"taskId":"t","name":"x"}"#);
    let told = frame(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#);
    let answer = frame(r#"{"jsonrpc":"2.0","id":1,"result":{"name":"foo"}}"#);
    let mut table = String::new();
    for (frame, method, name) in [
        (&call, Some("tools/call"), Some("foo")),
        (&call, Some(" tools/call\t"), Some("  foo  ")),
        (&call, Some("tools/call"), Some("=?base64?Zm9v?=")),
        (&call, None, Some("foo")),
        (&call, Some("tools/call"), None),
        (&call, Some("TOOLS/CALL"), Some("foo")),
        (&call, Some("tools/list"), None),
        (&call, Some("=?base64?dG9vbHMvY2FsbA==?="), Some("foo")),
        (&call, Some("tools/call"), Some("Foo")),
        (&call, Some("tools/call"), Some("%66oo")),
        (&call, Some("tools/call"), Some("foo, foo")),
        (&call, Some("tools/call"), Some("=?base64?Zm9v")),
        (&call, Some("tools/call"), Some("=?base64?Zm9vIA?=")),
        (&call, Some("tools/call"), Some("f\u{f6}\u{f6}")),
        (&unnamed, Some("tools/call"), None),
        (&unnamed, Some("tools/call"), Some("foo")),
        (&read, Some("resources/read"), Some("=?base64?bWVtOi8v5LiW?=")),
        (&read, Some("resources/read"), None),
        (&list, Some("tools/list"), None),
        (&list, Some("tools/list"), Some("anything")),
        (&task, Some("tasks/get"), Some("t")),
        (&task, Some("tasks/get"), Some("x")),
        (&told, None, None),
        (&told, Some("notifications/progress"), None),
        (&told, Some("tools/call"), None),
        (&answer, None, None),
        (&answer, Some("tools/call"), Some("foo")),
    ] {
        let verdict = shown(check_method_and_name(&sent(method, name), frame));
        writeln!(table, "{} {method:?} {name:?}: {verdict}", frame.method_name()).unwrap();
    }
    expect![[r#"
        tools/call Some("tools/call") Some("foo"): ok
        tools/call Some(" tools/call\t") Some("  foo  "): ok
        tools/call Some("tools/call") Some("=?base64?Zm9v?="): ok
        tools/call None Some("foo"): `Mcp-Method` is missing
        tools/call Some("tools/call") None: `Mcp-Name` is missing
        tools/call Some("TOOLS/CALL") Some("foo"): `Mcp-Method` differs from the body
        tools/call Some("tools/list") None: `Mcp-Method` differs from the body
        tools/call Some("=?base64?dG9vbHMvY2FsbA==?=") Some("foo"): `Mcp-Method` differs from the body
        tools/call Some("tools/call") Some("Foo"): `Mcp-Name` differs from the body
        tools/call Some("tools/call") Some("%66oo"): `Mcp-Name` differs from the body
        tools/call Some("tools/call") Some("foo, foo"): `Mcp-Name` differs from the body
        tools/call Some("tools/call") Some("=?base64?Zm9v"): `Mcp-Name` differs from the body
        tools/call Some("tools/call") Some("=?base64?Zm9vIA?="): a header is marked as base64 and is not
        tools/call Some("tools/call") Some("föö"): a header holds a character that it must not
        tools/call Some("tools/call") None: ok
        tools/call Some("tools/call") Some("foo"): `Mcp-Name` differs from the body
        resources/read Some("resources/read") Some("=?base64?bWVtOi8v5LiW?="): ok
        resources/read Some("resources/read") None: `Mcp-Name` is missing
        tools/list Some("tools/list") None: ok
        tools/list Some("tools/list") Some("anything"): ok
        tasks/get Some("tasks/get") Some("t"): ok
        tasks/get Some("tasks/get") Some("x"): `Mcp-Name` differs from the body
        notifications/progress None None: ok
        notifications/progress Some("notifications/progress") None: ok
        notifications/progress Some("tools/call") None: `Mcp-Method` differs from the body
         None None: ok
         Some("tools/call") Some("foo"): `Mcp-Method` differs from the body
    "#]]
    .assert_eq(&table);
}

#[test]
fn the_version_has_to_be_the_one_of_the_envelope() {
    for (header, expected) in [
        (Some("2026-07-28"), "ok"),
        (Some(" 2026-07-28\t"), "ok"),
        (Some("2025-11-25"), "`MCP-Protocol-Version` differs from the body"),
        (Some("2026-07-28, 2026-07-28"), "`MCP-Protocol-Version` differs from the body"),
        (Some(" "), "`MCP-Protocol-Version` is missing"),
        (None, "`MCP-Protocol-Version` is missing"),
    ] {
        let sent = Sent { version: header, ..sent(None, None) };
        assert_eq!(shown(check_version(&sent, "2026-07-28")), expected, "{header:?}");
    }
}

#[test]
fn these_modern_requests_have_a_name() {
    let mut table = String::new();
    for method in Method::ALL {
        let frame = request(method.name(), r#"{"name":"N","uri":"U","taskId":"T","requestId":"R"}"#);
        if let Some(name) = name_of(*method, &frame) {
            writeln!(table, "{} {name}", method.name()).unwrap();
        }
    }
    expect![[r#"
        tools/call N
        resources/read U
        prompts/get N
        tasks/get T
        tasks/cancel T
        tasks/update T
    "#]]
    .assert_eq(&table);
    assert_eq!(name_of(Method::ToolsCall, &request("tools/call", r#"{"name":7}"#)), None);
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn any_text_comes_back_and_travels_as_visible_ascii(value in prop_oneof![any::<String>(), "[ -~\t]{0,12}", "=\\?base64\\?[A-Za-z=?]{0,6}\\?="]) {
        let encoded = encode(&value);
        prop_assert!(!encoded.is_empty() && encoded.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        prop_assert_eq!(encoded.trim(), &*encoded);
        prop_assert_eq!(&*decode(&encoded).unwrap(), &*value);
        let surrounded = format!("\t {encoded} ");
        prop_assert_eq!(&*decode(&surrounded).unwrap(), &*value);
    }

    #[test]
    fn no_two_base64_forms_say_the_same(value in "[ -~\\n]{0,9}", form in "[A-Za-z0-9+/=]{0,12}") {
        let right = STANDARD.encode(&value);
        if form != right {
            let header = format!("{BEGIN}{form}{END}");
            prop_assert_ne!(decode(&header), Ok(Cow::Owned(value)));
        }
    }

    #[test]
    fn no_header_makes_it_panic(value: String) {
        let _ = decode(&value);
    }
}
