//! Cases that are worth a look: JSON as servers and clients write it, and as nobody should.

use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_oneof},
    sample::{Index, select},
    strategy::BoxedStrategy,
    test_runner::{Config, TestError, TestRunner},
};

use crate::Target;

/// Looks at so many cases. The first that fails is made small, and told. No file remembers it: it becomes a test of
/// its own.
pub fn fault(target: Target, count: u32) -> Option<String> {
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let found = TestRunner::new(config).run(&cases(target.name), |data| {
        (target.check)(&data);
        Ok(())
    });
    match found {
        Ok(()) => None,
        Err(TestError::Fail(why, data)) => {
            Some(format!("{}: {why}: b\"{}\"", target.name, data.escape_ascii()))
        }
        Err(TestError::Abort(why)) => Some(format!("{}: {why}", target.name)),
    }
}

/// Cases for the subject of this name.
fn cases(target: &str) -> BoxedStrategy<Vec<u8>> {
    let usual = match target {
        "frame" => with(0, message()),
        "forward" => with(1, message()),
        "batch" => with(0, vec(message(), 0..4).prop_map(|list| format!("[{}]", list.join(" ,\n")))),
        "ids" => pair(id(), id()),
        "events" => with(1, stream()),
        "lines" => with(1, vec(message(), 0..5).prop_map(|list| list.join("\n"))),
        "sentinel" => with(0, header()),
        "mirror" => pair(json(), json()),
        "sealed" => bytes(),
        "cursor" | "place" => with(1, name()),
        "uris" => with(1, prop_oneof![name(), result(), contents()].boxed()),
        "names" => pair(name(), name()),
        "digest" => with(1, json()),
        "listing" => with(1, items()),
        "shape" => with(1, prop_oneof![result(), json()].boxed()),
        other => panic!("nothing makes cases for {other}"),
    };
    // All of it may be damaged on the way, and some never was anything.
    prop_oneof![8 => usual.clone(), 3 => damaged(usual), 1 => bytes(), 1 => deep()].boxed()
}

fn bytes() -> BoxedStrategy<Vec<u8>> {
    vec(any::<u8>(), 0..80).boxed()
}

/// Text behind so many bytes that choose what is done with it.
fn with(choices: usize, text: impl Strategy<Value = String> + 'static) -> BoxedStrategy<Vec<u8>> {
    let chosen = vec(any::<u8>(), choices);
    (chosen, text)
        .prop_map(|(mut bytes, text)| {
            bytes.extend_from_slice(text.as_bytes());
            bytes
        })
        .boxed()
}

/// Two texts, the first of which is short; now and then they are one.
fn pair(
    one: impl Strategy<Value = String> + 'static,
    other: impl Strategy<Value = String> + 'static,
) -> BoxedStrategy<Vec<u8>> {
    (one, other, any::<u8>())
        .prop_map(|(one, other, choice)| {
            let second = if choice < 64 { one.clone() } else { other };
            let length = u8::try_from(one.len()).unwrap_or(u8::MAX);
            [&[length], one.as_bytes(), second.as_bytes()].concat()
        })
        .boxed()
}

/// Pieces of text that matter to a parser.
const FRAGMENTS: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"\\u",
    b"\\ud83d",
    b"\\ude00",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"0",
    b"-",
    b".",
    b"e",
    b"+",
    b" ",
    b"\n",
    b"\r",
    b"\r\n",
    b"\x00",
    b"\x1f",
    b"\x7f",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"null",
    b"true",
    b"\"id\":1,",
    b"\"name\":1,",
    b"\"Name\":1,",
    b"\"n\\u0061me\":1,",
    b"1e999",
    b"=?base64?",
    b"?=",
    b"data: x\n\n",
    b"/",
    b"%2e%2e",
    b"..",
    b"__",
    b"+",
];

fn damaged(text: BoxedStrategy<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    let damage = vec((any::<Index>(), 0..6_usize, select(FRAGMENTS)), 1..4);
    (text, damage, any::<bool>(), any::<Index>())
        .prop_map(|(mut text, damage, is_cut, cut)| {
            for (at, removed, added) in damage {
                let at = at.index(text.len() + 1);
                let end = (at + removed).min(text.len());
                text.splice(at..end, added.iter().copied());
            }
            if is_cut {
                text.truncate(cut.index(text.len() + 1));
            }
            text
        })
        .boxed()
}

fn deep() -> BoxedStrategy<Vec<u8>> {
    let level = select(vec![("[", "]"), ("{\"a\":", "}"), ("[{\"\":", "}]"), (" [0,", "]\n")]);
    (level, prop_oneof![0..70_usize, 60..140_usize], json(), any::<bool>())
        .prop_map(|((open, close), count, inside, is_result)| {
            let text = format!("{}{inside}{}", open.repeat(count), close.repeat(count));
            let name = if is_result { "\"result\"" } else { "\"method\":\"m\",\"params\"" };
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{name}:{text}}}").into_bytes()
        })
        .boxed()
}

fn words(list: &'static [&'static str]) -> BoxedStrategy<String> {
    select(list).prop_map(str::to_owned).boxed()
}

fn number() -> BoxedStrategy<String> {
    let known = words(&[
        "0",
        "-0",
        "-0.0",
        "1",
        "-1",
        "10",
        "1.0",
        "1e0",
        "1E+00",
        "100e-2",
        "1e2",
        "9007199254740993",
        "0.1",
        "1e-7",
        "18446744073709551616",
        "-9223372036854775809",
        "1e999",
        "1e-999",
        "0e99999999999999999999",
        "1e21",
        "1e20",
        "123456789012345678901234567890",
        "0.000001",
        "5e-324",
        "1e9223372036854775807",
        "1e99999999999999999999",
    ]);
    prop_oneof![known, "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,6})?([eE][+-]?[0-9]{1,3})?"].boxed()
}

/// The inside of a JSON string as it may be written.
fn letters() -> BoxedStrategy<String> {
    let odd = words(&[
        "\\n",
        "\\\"",
        "\\\\",
        "\\/",
        "\\u0061",
        "\\u0000",
        "\\ud83d\\ude00",
        "\\ud83d",
        "\\ude00",
        "\u{e9}",
        "e\u{301}",
        "\u{2028}",
        "\u{1f600}",
        "\u{ffff}",
        "\u{10ffff}",
        "\u{7f}",
        "\\u00E9",
        "/",
        "+",
        "__",
        "..",
        "\\b\\f\\r\\t",
    ]);
    prop_oneof![4 => "[a-z]{0,3}", 3 => vec(odd, 0..4).prop_map(|all| all.concat()), 1 => "[ -!#-\\[\\]-~]{0,40}"].boxed()
}

fn text() -> BoxedStrategy<String> {
    letters().prop_map(|inside| format!("\"{inside}\"")).boxed()
}

/// Few, so that they meet; some only nearly.
fn key() -> BoxedStrategy<String> {
    let known = words(&[
        "\"a\"",
        "\"\\u0061\"",
        "\"b\"",
        "\"name\"",
        "\"Name\"",
        "\"n\\u0061me\"",
        "\"uri\"",
        "\"_meta\"",
        "\"arguments\"",
        "\"id\"",
        "\"ID\"",
        "\"method\"",
        "\"params\"",
        "\"result\"",
        "\"error\"",
        "\"jsonrpc\"",
        "\"type\"",
        "\"text\"",
        "\"content\"",
        "\"structuredContent\"",
        "\"resultType\"",
        "\"ttlMs\"",
        "\"cacheScope\"",
        "\"requestState\"",
        "\"progressToken\"",
        "\"io.modelcontextprotocol/serverInfo\"",
        "\"io.modelcontextprotocol/protocolVersion\"",
        "\"inputSchema\"",
        "\"properties\"",
        "\"x-mcp-header\"",
        "\"\"",
    ]);
    prop_oneof![4 => known, 1 => text()].boxed()
}

fn space() -> BoxedStrategy<String> {
    words(&["", "", "", " ", "\n", "\t\r\n "])
}

fn list(items: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    (vec(items, 0..5), space())
        .prop_map(|(items, space)| format!("[{space}{}]", items.join(&format!("{space},"))))
        .boxed()
}

fn object(members: impl Strategy<Value = (String, String)> + 'static) -> BoxedStrategy<String> {
    (vec(members, 0..5), space(), space())
        .prop_map(|(members, one, other)| {
            let members = members.into_iter().map(|(key, value)| format!("{one}{key}{other}:{one}{value}"));
            format!("{{{}{other}}}", members.collect::<Vec<_>>().join(","))
        })
        .boxed()
}

/// Any value.
fn json() -> BoxedStrategy<String> {
    let leaf = prop_oneof![words(&["null", "true", "false", "{}", "[]"]), number(), text()];
    leaf.prop_recursive(4, 24, 4, |inner| prop_oneof![list(inner.clone()), object((key(), inner))]).boxed()
}

fn id() -> BoxedStrategy<String> {
    let long = (240..270_usize).prop_flat_map(|length| {
        prop_oneof![Just("7".repeat(length)), Just(format!("\"{}\"", "i".repeat(length)))]
    });
    prop_oneof![
        4 => words(&["1", "7", "-0", "0", "\"7\"", "\"\\u0037\"", "\"a\"", "null", "\"\"", "\"\\\"7\\\"\"", " 7", "07", "7.0"]),
        2 => number(),
        2 => text(),
        1 => long,
        1 => json(),
    ]
    .boxed()
}

/// A message, or what is nearly one.
fn message() -> BoxedStrategy<String> {
    let member = |name: &'static str, value: BoxedStrategy<String>, weight: f64| {
        proptest::option::weighted(weight, (Just(format!("\"{name}\"")), value))
    };
    let methods = words(&[
        "\"tools/call\"",
        "\"tools\\/call\"",
        "\"resources/read\"",
        "\"ping\"",
        "\"x\"",
        "\"notifications/progress\"",
        "7",
    ]);
    let version = prop_oneof![9 => words(&["\"2.0\"", "\"2.\\u0030\""]), 1 => json()].boxed();
    let params = prop_oneof![6 => object((key(), json())), 1 => json()].boxed();
    let asked = (
        member("jsonrpc", version.clone(), 0.97),
        member("id", id(), 0.7),
        member("method", methods, 0.97),
        member("params", params, 0.9),
        proptest::option::weighted(0.1, (key(), json())),
    );
    let body = prop_oneof![3 => result(), 1 => json()].boxed();
    let given = (
        member("jsonrpc", version, 0.97),
        member("id", id(), 0.9),
        member("result", body.clone(), 0.8),
        member("error", body, 0.2),
        proptest::option::weighted(0.1, (key(), json())),
    );
    let joined = |parts: [Option<(String, String)>; 5], turn: usize, space: &str| {
        let mut members: Vec<_> = parts.into_iter().flatten().collect();
        let turn = turn % members.len().max(1);
        members.rotate_left(turn);
        let members = members.into_iter().map(|(key, value)| format!("{space}{key}:{value}"));
        format!("{space}{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    prop_oneof![
        3 => (asked, 0..5_usize, space()).prop_map(move |((a, b, c, d, e), turn, space)| joined([a, b, c, d, e], turn, &space)),
        2 => (given, 0..5_usize, space()).prop_map(move |((a, b, c, d, e), turn, space)| joined([a, b, c, d, e], turn, &space)),
    ]
    .boxed()
}

fn resource() -> BoxedStrategy<String> {
    let uri = prop_oneof![3 => words(&["\"mem:///k\"", "\"a\\u0062\"", "\"my.files+mem://x\"", "\"files+\""]), 1 => json()];
    let uris = (words(&["\"uri\"", "\"\\u0075ri\"", "\"URI\""]), uri);
    object(prop_oneof![2 => uris, 1 => (key(), json())].boxed())
}

fn block() -> BoxedStrategy<String> {
    let types =
        words(&["\"text\"", "\"resource\"", "\"resource_link\"", "\"audio\"", "\"\\u0061udio\"", "7"]);
    let members = prop_oneof![
        3 => (Just("\"type\"".to_owned()), types),
        2 => (Just("\"resource\"".to_owned()), resource()),
        2 => (Just("\"uri\"".to_owned()), text()),
        1 => (Just("\"text\"".to_owned()), text()),
        1 => (key(), json()),
    ];
    prop_oneof![8 => object(members.boxed()), 2 => resource(), 1 => json()].boxed()
}

/// The list that results of the three kinds hold.
fn contents() -> BoxedStrategy<String> {
    let content = prop_oneof![block(), list(block())].boxed();
    let said =
        object(prop_oneof![3 => (Just("\"content\"".to_owned()), content), 1 => (key(), json())].boxed());
    list(prop_oneof![block(), said].boxed())
}

fn result() -> BoxedStrategy<String> {
    let meta = prop_oneof![4 => object((key(), json())), 1 => json()].boxed();
    let lists = words(&["\"content\"", "\"messages\"", "\"contents\"", "\"c\\u006fntent\""]);
    let members = prop_oneof![
        3 => (lists, contents()),
        2 => (Just("\"structuredContent\"".to_owned()), json()),
        2 => (Just("\"_meta\"".to_owned()), meta),
        1 => (Just("\"resultType\"".to_owned()), words(&["\"complete\"", "\"input_required\"", "7", "\"\\u0063omplete\""])),
        2 => (key(), json()),
    ];
    object(members.boxed())
}

fn items() -> BoxedStrategy<String> {
    let schema = object((key(), json()));
    let schema = prop_oneof![3 => words(&["{\"type\":\"object\"}", "{}", "{\"type\":\"array\"}", "{\"properties\":[]}"]), 1 => schema];
    let member = prop_oneof![
        3 => (words(&["\"name\"", "\"uri\"", "\"uriTemplate\"", "\"n\\u0061me\""]), prop_oneof![4 => text(), 1 => json()].boxed()),
        3 => (Just("\"inputSchema\"".to_owned()), schema.boxed()),
        1 => (key(), json()),
    ];
    prop_oneof![9 => list(prop_oneof![8 => object(member.boxed()), 1 => json()].boxed()), 1 => json()].boxed()
}

fn stream() -> BoxedStrategy<String> {
    let field = words(&["data", "event", "id", "retry", "", "x", "\u{feff}data", "DATA"]);
    let value = prop_oneof![
        json(),
        words(&["", " ", "5", "99999999999999999999", "a\0b", "x:y", "\u{feff}", "+1"]),
        name()
    ];
    let line = (field, words(&[":", ": ", "", " :", ":  "]), value)
        .prop_map(|(field, colon, value)| format!("{field}{colon}{value}"));
    let end = words(&["\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\n\r", ""]);
    let long = (1015..1035_usize).prop_map(|length| format!("id:{}\n", "i".repeat(length)));
    let piece = prop_oneof![12 => (line, end).prop_map(|(line, end)| line + &end), 1 => long];
    vec(piece, 0..10).prop_map(|pieces| pieces.concat()).boxed()
}

fn header() -> BoxedStrategy<String> {
    prop_oneof![
        any::<String>(),
        "[ -~\t]{0,12}",
        "=\\?base64\\?[A-Za-z0-9+/=?]{0,9}\\?=",
        words(&[
            "=?base64?=",
            "=?base64??=",
            " =?base64?YQ==?= ",
            "=?base64?YR==?=",
            "=?base64?YQ?=",
            "=?BASE64?YQ==?="
        ]),
    ]
    .boxed()
}

fn name() -> BoxedStrategy<String> {
    prop_oneof![
        "[a-zA-Z0-9_-]{0,40}",
        "(beta__|alpha__)?[a-z./\\\\%]{0,12}",
        "[a-z.]{0,6}\\+[a-z]{0,4}:/{0,3}[ -~]{0,12}",
        "(a|/|\\\\|\\.\\.|%2e|%2E|%252e|%2f|%5c|\\?|#){0,6}",
        any::<String>(),
        (250..260_usize).prop_map(|length| "x".repeat(length)),
    ]
    .boxed()
}
