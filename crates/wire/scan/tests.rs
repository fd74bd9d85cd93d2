//! Tests: the scanner against serde_json.

use std::{collections::HashSet, fmt::Write as _};

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::*;
use crate::spelled::{Spelling, cases, tree};

const SMALL: Budget = Budget { bytes: 1 << 20, depth: 4, nodes: 12 };

fn verdicts(budget: &Budget, texts: &[&[u8]], expected: Expect) {
    let mut table = String::new();
    for text in texts {
        let verdict = match scan(text, budget) {
            Ok(found) => format!("{:?} {} {}", found.root, found.outer.len(), found.inner.len()),
            Err(error) => error.to_string(),
        };
        writeln!(table, "{:<34} {verdict}", text.escape_ascii().to_string()).unwrap();
    }
    expected.assert_eq(&table);
}

#[test]
fn containers_and_words_are_kept_to_the_letter() {
    verdicts(
        &SMALL,
        &[
            b"",
            b" ",
            b"{",
            b"{}",
            b"[]",
            b" [1 , 2] ",
            b"[1,]",
            b"[,1]",
            b"{\"a\":1,}",
            b"{\"a\"}",
            b"{a:1}",
            b"{'a':1}",
            b"{\"a\":1}x",
            b"{} {}",
            b"{}//",
            b"[1}",
            b"{\"a\":1]",
            b"nul",
            b"nulll",
            b"true",
            b"\0",
            b"\x0c1",
            b"\xc2\xa01",
            b"\xEF\xBB\xBF{}",
        ],
        expect![[r#"
                                               not JSON at byte 0: a value is expected
                                               not JSON at byte 1: a value is expected
            {                                  not JSON at byte 1: a key is expected
            {}                                 Object 0 0
            []                                 Array 0 0
             [1 , 2]                           Array 0 0
            [1,]                               not JSON at byte 3: a value is expected
            [,1]                               not JSON at byte 1: a value is expected
            {\"a\":1,}                         not JSON at byte 7: a key is expected
            {\"a\"}                            not JSON at byte 4: `:` is expected
            {a:1}                              not JSON at byte 1: a key is expected
            {\'a\':1}                          not JSON at byte 1: a key is expected
            {\"a\":1}x                         not JSON at byte 7: text after the value
            {} {}                              not JSON at byte 3: text after the value
            {}//                               not JSON at byte 2: text after the value
            [1}                                not JSON at byte 2: `,` or `]` is expected
            {\"a\":1]                          not JSON at byte 6: `,` or `}` is expected
            nul                                not JSON at byte 0: a value is expected
            nulll                              not JSON at byte 4: text after the value
            true                               Scalar 0 0
            \x00                               not JSON at byte 0: a value is expected
            \x0c1                              not JSON at byte 0: a value is expected
            \xc2\xa01                          not JSON at byte 0: a value is expected
            \xef\xbb\xbf{}                     not JSON at byte 0: a byte order mark
        "#]],
    );
}

#[test]
fn numbers_are_kept_to_the_letter() {
    verdicts(
        &SMALL,
        &[
            b"NaN",
            b"-Infinity",
            b"+1",
            b"01",
            b"-",
            b"-0",
            b"1.",
            b".5",
            b"1e",
            b"1e+",
            b"1E-05",
            b"1.50e+7",
            b"0x10",
            b"1_0",
        ],
        expect![[r#"
            NaN                                not JSON at byte 0: a value is expected
            -Infinity                          not JSON at byte 1: a digit is expected
            +1                                 not JSON at byte 0: a value is expected
            01                                 not JSON at byte 1: text after the value
            -                                  not JSON at byte 1: a digit is expected
            -0                                 Scalar 0 0
            1.                                 not JSON at byte 2: a digit is expected
            .5                                 not JSON at byte 0: a value is expected
            1e                                 not JSON at byte 2: a digit is expected
            1e+                                not JSON at byte 3: a digit is expected
            1E-05                              Scalar 0 0
            1.50e+7                            Scalar 0 0
            0x10                               not JSON at byte 1: text after the value
            1_0                                not JSON at byte 1: text after the value
        "#]],
    );
}

#[test]
fn strings_are_kept_to_the_letter() {
    verdicts(
        &SMALL,
        &[
            b"\"",
            b"\"a\nb\"",
            b"\"\\q\"",
            b"\"\\u12\"",
            b"\"\\u+123\"",
            b"\"\\uD83D\\uDE00\"",
            b"\"\\ud800\"",
            b"\"\\udc00\"",
            b"\"\\ud800\\u0041\"",
            b"\"\x7f\"",
            b"\"\x1f\"",
            b"\"\xff\"",
            b"\"\xC0\xAF\"",
            b"\"\xED\xA0\x80\"",
        ],
        expect![[r#"
            \"                                 not JSON at byte 1: a string does not end
            \"a\nb\"                           not JSON at byte 2: a control character in a string
            \"\\q\"                            not JSON at byte 1: an unknown escape
            \"\\u12\"                          not JSON at byte 1: not four hexadecimal digits, or half a surrogate pair
            \"\\u+123\"                        not JSON at byte 1: not four hexadecimal digits, or half a surrogate pair
            \"\\uD83D\\uDE00\"                 Scalar 0 0
            \"\\ud800\"                        not JSON at byte 1: not four hexadecimal digits, or half a surrogate pair
            \"\\udc00\"                        not JSON at byte 1: not four hexadecimal digits, or half a surrogate pair
            \"\\ud800\\u0041\"                 not JSON at byte 1: not four hexadecimal digits, or half a surrogate pair
            \"\x7f\"                           Scalar 0 0
            \"\x1f\"                           not JSON at byte 1: a control character in a string
            \"\xff\"                           not JSON at byte 1: not UTF-8
            \"\xc0\xaf\"                       not JSON at byte 1: not UTF-8
            \"\xed\xa0\x80\"                   not JSON at byte 1: not UTF-8
        "#]],
    );
}

#[test]
fn a_key_may_stand_only_once_however_it_is_written() {
    verdicts(
        &SMALL,
        &[
            br#"{"a":1,"a":2}"#,
            br#"{"a":1,"A":2}"#,
            br#"{"method":1,"m\u0065thod":2}"#,
            br#"{"\u00e9":1,"\u00E9":2}"#,
            br#"{"/":1,"\/":2}"#,
            br#"{"x":{"y":[{"k":1,"k":2}]}}"#,
            br#"{"x":{"k":1},"y":{"k":1}}"#,
            br#"{"x":{"k":1},"k":1}"#,
            br#"{"":1,"":2}"#,
            "{\"\u{e9}\":1,\"e\u{301}\":2}".as_bytes(),
        ],
        expect![[r#"
            {\"a\":1,\"a\":2}                  `a` stands twice in one object
            {\"a\":1,\"A\":2}                  Object 2 0
            {\"method\":1,\"m\\u0065thod\":2}  `method` stands twice in one object
            {\"\\u00e9\":1,\"\\u00E9\":2}      `é` stands twice in one object
            {\"/\":1,\"\\/\":2}                `/` stands twice in one object
            {\"x\":{\"y\":[{\"k\":1,\"k\":2}]}} `k` stands twice in one object
            {\"x\":{\"k\":1},\"y\":{\"k\":1}}  Object 2 0
            {\"x\":{\"k\":1},\"k\":1}          Object 2 0
            {\"\":1,\"\":2}                    `` stands twice in one object
            {\"\xc3\xa9\":1,\"e\xcc\x81\":2}   Object 2 0
        "#]],
    );
}

#[test]
fn a_near_miss_of_a_reserved_key_is_refused() {
    verdicts(
        &SMALL,
        &[
            br#"{"Method":1}"#,
            br#"{"ID":1}"#,
            br#"{"J\u0053onrpc":1}"#,
            "{\"param\u{17f}\":{}}".as_bytes(),
            r#"{"param\u017f":{}}"#.as_bytes(),
            br#"{"params":{"Name":1}}"#,
            br#"{"params":{"_Meta":1}}"#,
            "{\"params\":{\"ta\u{17f}\u{212a}\":1}}".as_bytes(),
            "{\"params\":{\"ur\u{131}\":1}}".as_bytes(),
            br#"{"params":{"requestid":1}}"#,
            br#"{"params":{"arguments":{"Name":1}}}"#,
            br#"{"result":{"Name":1}}"#,
            br#"{"other":{"Name":1}}"#,
            br#"{"params":[{"Name":1}]}"#,
            br#"{"names":1,"naem":2}"#,
            br#"{"p\u0061rams":{"Uri":1}}"#,
        ],
        expect![[r#"
            {\"Method\":1}                     `Method` is nearly a reserved key
            {\"ID\":1}                         `ID` is nearly a reserved key
            {\"J\\u0053onrpc\":1}              `JSonrpc` is nearly a reserved key
            {\"param\xc5\xbf\":{}}             `paramſ` is nearly a reserved key
            {\"param\\u017f\":{}}              `paramſ` is nearly a reserved key
            {\"params\":{\"Name\":1}}          `Name` is nearly a reserved key
            {\"params\":{\"_Meta\":1}}         `_Meta` is nearly a reserved key
            {\"params\":{\"ta\xc5\xbf\xe2\x84\xaa\":1}} `taſK` is nearly a reserved key
            {\"params\":{\"ur\xc4\xb1\":1}}    `urı` is nearly a reserved key
            {\"params\":{\"requestid\":1}}     `requestid` is nearly a reserved key
            {\"params\":{\"arguments\":{\"Name\":1}}} Object 1 1
            {\"result\":{\"Name\":1}}          Object 1 1
            {\"other\":{\"Name\":1}}           Object 1 0
            {\"params\":[{\"Name\":1}]}        Object 1 0
            {\"names\":1,\"naem\":2}           Object 2 0
            {\"p\\u0061rams\":{\"Uri\":1}}     `Uri` is nearly a reserved key
        "#]],
    );
}

#[test]
fn every_reserved_word_is_guarded() {
    for word in reserved::OUTER.iter().chain(reserved::PARAMS) {
        let is_outer = reserved::OUTER.contains(word);
        let wrapped = |key: &str| {
            if is_outer { format!("{{\"{key}\":1}}") } else { format!("{{\"params\":{{\"{key}\":1}}}}") }
        };
        assert!(scan(wrapped(word).as_bytes(), &Budget::CLIENT).is_ok(), "{word}");
        let shouted = scan(wrapped(&word.to_uppercase()).as_bytes(), &Budget::CLIENT).unwrap_err();
        assert!(matches!(shouted, FrameError::Ambiguous { .. }), "{word}: {shouted}");
    }
}

#[test]
fn budgets_end_a_scan() {
    verdicts(
        &SMALL,
        &[
            b"[[[[]]]]",
            b"[[[[[]]]]]",
            br#"{"a":{"a":{"a":{"a":{}}}}}"#,
            b"[1,2,3,4,5,6,7,8,9,10,11]",
            b"[1,2,3,4,5,6,7,8,9,10,11,12]",
            b"[[],[],[],[],[],[],[],[],[],[],[],[]]",
        ],
        expect![[r#"
            [[[[]]]]                           Array 0 0
            [[[[[]]]]]                         nested too deep
            {\"a\":{\"a\":{\"a\":{\"a\":{}}}}} nested too deep
            [1,2,3,4,5,6,7,8,9,10,11]          Array 0 0
            [1,2,3,4,5,6,7,8,9,10,11,12]       too many values
            [[],[],[],[],[],[],[],[],[],[],[],[]] too many values
        "#]],
    );
    let five = Budget { bytes: 5, ..SMALL };
    assert_eq!(scan(b"[1,2]", &five).unwrap().root, Root::Array);
    assert_eq!(scan(b"[1,2] ", &five).unwrap_err(), FrameError::TooLarge { limit: 5 });
}

#[test]
fn nesting_costs_no_stack() {
    let any = Budget { bytes: usize::MAX, depth: usize::MAX, nodes: usize::MAX };
    let text = ["[".repeat(300_000), "]".repeat(300_000)].concat();
    assert_eq!(scan(text.as_bytes(), &any).unwrap().root, Root::Array);
    assert_eq!(scan(text.as_bytes(), &Budget::CLIENT).unwrap_err(), FrameError::TooDeep);
}

#[test]
fn many_and_long_keys_are_compared_too() {
    let any = Budget { bytes: usize::MAX, depth: 8, nodes: usize::MAX };
    let long = "k".repeat(100_000);
    for count in [15, 16, 17, 32, 33, 1000, 70_000] {
        let mut members: Vec<String> = (0..count).map(|number| format!("\"{number}\":{{\"0\":0}}")).collect();
        assert!(scan(format!("{{{}}}", members.join(",")).as_bytes(), &any).is_ok(), "{count}");
        members.push(format!("\"\\u003{}\":0", count % 10 / 2));
        let error = scan(format!("{{{}}}", members.join(",")).as_bytes(), &any).unwrap_err();
        assert!(matches!(error, FrameError::DuplicateKey { .. }), "{count}: {error}");
    }
    let nested = format!("{{\"{long}\":1,\"{long}x\":{{\"{long}\":1,\"b\":2}},\"b\":1,\"{long}y\":2}}");
    assert!(scan(nested.as_bytes(), &any).is_ok());
    let twice = format!("{{\"{long}\":1,\"a\":1,\"{long}\":2}}");
    let error = scan(twice.as_bytes(), &any).unwrap_err();
    assert_eq!(error, FrameError::DuplicateKey { key: "k".repeat(64).into() });
}

#[test]
fn only_line_breaks_inside_the_value_count() {
    for (text, expected) in
        [("\n{\"a\":1}\r\n", false), ("{\"a\":\n1}", true), ("{\"a\":\"\\n\"}", false), ("[1,\r2]", true)]
    {
        assert_eq!(scan(text.as_bytes(), &SMALL).unwrap().broken_lines, expected, "{text:?}");
    }
}

/// Accepts any JSON without duplicate keys.
struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Strict, D::Error> {
        input.deserialize_any(Strict)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Strict;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_str<E>(self, _: &str) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Strict, A::Error> {
        while list.next_element::<Strict>()?.is_some() {}
        Ok(Strict)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strict, A::Error> {
        let mut keys = HashSet::new();
        while let Some((key, Strict)) = map.next_entry::<String, Strict>()? {
            if !keys.insert(key) {
                return Err(A::Error::custom("duplicate"));
            }
        }
        Ok(Strict)
    }
}

/// Where we differ from serde_json on purpose: we do not convert numbers, so none is too large for us, and
/// near misses of reserved keys are refused.
fn agrees(text: &[u8]) -> Result<(), TestCaseError> {
    let ours = scan(text, &Budget { depth: 100, ..Budget::UPSTREAM });
    let theirs = serde_json::from_slice::<Strict>(text);
    match (&ours, &theirs) {
        (Ok(_), Ok(Strict)) | (Err(_), Err(_)) | (Err(FrameError::Ambiguous { .. }), Ok(Strict)) => Ok(()),
        (Ok(_), Err(error)) if error.to_string().starts_with("number out of range") => Ok(()),
        _ => Err(TestCaseError::fail(format!(
            "{:?}: ours {:?}, theirs {:?}",
            text.escape_ascii(),
            ours.err(),
            theirs.err()
        ))),
    }
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
    b"\x00",
    b"\x1f",
    b"\xff",
    b"\xc3",
    b"\xa9",
    b"null",
    b"true",
    b"\"a\":",
    b"\"a\":1,",
    b"1e999",
    b"\xe2\x80\xa8",
    b"/",
];

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn valid_text_is_accepted_in_every_spelling(tree in tree(), seed: u64) {
        // In an array no key is reserved.
        let text = format!("[{}]", Spelling::new(seed).tree(&tree));
        prop_assert!(scan(text.as_bytes(), &Budget::CLIENT).is_ok(), "{text}");
        agrees(text.as_bytes())?;
    }

    #[test]
    fn damaged_text_is_judged_as_serde_json_does(
        tree in tree(), seed: u64, damage in prop::collection::vec((any::<prop::sample::Index>(), 0..3_usize, prop::sample::select(FRAGMENTS)), 1..4)
    ) {
        let mut text = Spelling::new(seed).tree(&tree).into_bytes();
        for (at, removed, added) in damage {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, added.iter().copied());
        }
        agrees(&text)?;
    }

    #[test]
    fn fragments_are_judged_as_serde_json_does(parts in prop::collection::vec(prop::sample::select(FRAGMENTS), 0..12)) {
        agrees(&parts.concat())?;
    }
}
