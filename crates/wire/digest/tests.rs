//! Tests: what is the same has the same digest, and nothing else.

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::{
    frame::Frame,
    scan::Budget,
    spelled::{Spelling, Tree, cases, number, tree},
};

fn canonical(raw: &str) -> String {
    let mut out = Output { hasher: Sha256::new(), buffer: String::new(), piece: usize::MAX };
    write_canonical(raw.as_bytes(), &mut out);
    out.buffer
}

#[test]
fn the_canonical_text_is_that_of_rfc_8785() {
    // Its example of section 3.2.2, with numbers that a binary fraction holds.
    let raw = r#"{ "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false] }"#;
    expect![[r#"{"literals":[null,true,false],"numbers":[333333333.33333329,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#]].assert_eq(&canonical(raw));
    // Keys by UTF-16 code units: the surrogates of an emoji come before U+FB33.
    expect![[r#"{"\r":"CR","1":"One","":"Control","ö":"O","€":"Euro Sign","😀":"Smile","דּ":"Dalet"}"#]].assert_eq(&canonical(
        r#"{"\u20ac":"Euro Sign","\r":"CR","\ufb33":"Dalet","1":"One","\ud83d\ude00":"Smile","\u0080":"Control","\u00f6":"O"}"#,
    ));
}

#[test]
fn equal_numbers_have_one_spelling() {
    let table: Vec<String> = [
        "0 -0 0.0 0e5 -0.00E-3",
        "1 1.0 10e-1 0.1e1 1E+0 1e00",
        "-12.5 -1250e-2",
        "1e20 100000000000000000000",
        "1e21 1000000000000000000000",
        "1e-6 0.000001",
        "1e-7 0.0000001",
        "12345678901234567890123 12345678901234567890123.0",
        "9007199254740993 9007199254740993.000",
        "0.1000000000000000055511151231257827",
        "1e400 10e399",
        "1e99999999999999999999 1e999999999999999999999",
    ]
    .into_iter()
    .map(|line| {
        let mut spellings: Vec<String> = line.split(' ').map(canonical).collect();
        spellings.dedup();
        spellings.join(" != ")
    })
    .collect();
    expect![[r#"
        0
        1
        -12.5
        100000000000000000000
        1e+21
        0.000001
        1e-7
        1.2345678901234567890123e+22
        9007199254740993
        0.1000000000000000055511151231257827
        1e+400
        1p1e99999999999999999999 != 1p1e999999999999999999999"#]]
    .assert_eq(&table.join("\n"));
}

#[test]
fn a_digest_prints_as_its_hash() {
    expect!["sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"]
        .assert_eq(&digest("{}").to_string());
    assert_eq!(digest(" { }\n"), digest("{}"));
    assert_eq!(digest("{\"a\":1,\"b\":2}"), digest("{\"b\":2,\"\\u0061\":1.0}"));
}

#[test]
fn words_that_are_reserved_in_messages_are_not_in_definitions() {
    for (one, other) in
        [("{\"iD\":1}", "{ \"iD\":1.0}"), ("{\"params\":{\"URI\":1}}", "{\"params\": {\"\\u0055RI\":1}}")]
    {
        assert_eq!(digest(one), digest(other));
    }
}

#[test]
fn what_differs_in_any_value_differs_in_digest() {
    let all = [
        "{}",
        "[]",
        "null",
        "\"null\"",
        "0",
        "\"0\"",
        "[0]",
        "[[0]]",
        "[0,0]",
        "{\"a\":0}",
        "{\"a\":[]}",
        "{\"a\":null}",
        "{\"A\":0}",
        "[1,2]",
        "[2,1]",
        "[12]",
        "\"\u{e9}\"",
        "\"e\u{301}\"",
        "\"\"",
        "[\"\",\"\"]",
        "[\",\"]",
        "9007199254740993",
        "9007199254740992",
        "not JSON",
        "",
        "{\"a\":1,\"a\":1}",
    ];
    let mut digests: Vec<Digest> = all.iter().map(|raw| digest(raw)).collect();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), all.len());
}

#[test]
fn arguments_of_a_frame_have_the_digest_of_their_text() {
    let long = format!(r#"[{}{{"b":[{{"d":1,"c":"\u0041"}}],"a":1.0}}]"#, "[0],".repeat(1000));
    for arguments in ["{}", "null", r#"{"b":1,"a":{"Name":"\n"}}"#, r#" [ 1.50 , {"name":2} ] "#, &long] {
        let raw = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"arguments":{arguments}}}}}"#);
        let frame = Frame::parse(raw.into(), &Budget::CLIENT).unwrap();
        assert_eq!(frame.param_digest("arguments"), Some(digest(arguments)), "{arguments:.80}");
        assert_eq!(frame.param_digest("name"), None);
    }
}

#[test]
fn depth_is_no_danger() {
    let deep = ["[".repeat(100_000), "]".repeat(100_000)].concat();
    assert!(canonical(&deep) == deep);
}

/// The same tree with one leaf or one container changed.
fn altered(tree: &Tree, salt: u64) -> Tree {
    match tree {
        Tree::Null => Tree::Bool(false),
        Tree::Bool(value) => Tree::Bool(!value),
        Tree::Number { is_negative, digits, power } if digits == "0" => {
            Tree::Number { is_negative: *is_negative, digits: "1".into(), power: *power }
        }
        Tree::Number { is_negative, digits, power } => match salt % 3 {
            0 => Tree::Number { is_negative: !is_negative, digits: digits.clone(), power: *power },
            1 => Tree::Number { is_negative: *is_negative, digits: digits.clone(), power: power + 1 },
            _ => Tree::Number { is_negative: *is_negative, digits: format!("{digits}1"), power: *power },
        },
        Tree::Text(text) => Tree::Text(format!("{text}x")),
        Tree::List(list) if list.is_empty() => Tree::List(vec![Tree::Null]),
        Tree::List(list) => {
            let mut list = list.clone();
            let at = salt as usize % list.len();
            list[at] = altered(&list[at], salt / 7);
            Tree::List(list)
        }
        Tree::Object(members) => {
            let mut members = members.clone();
            match members.values_mut().nth(salt as usize % 6) {
                Some(value) => *value = altered(value, salt / 7),
                None => drop(members.insert("new key".into(), Tree::Null)),
            }
            Tree::Object(members)
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn order_spacing_escapes_and_number_spelling_do_not_matter(tree in tree(), one: u64, other: u64) {
        let (one, other) = (Spelling::new(one).tree(&tree), Spelling::new(other).tree(&tree));
        prop_assert_eq!(digest(&one), digest(&other), "{} {}", one, other);
    }

    #[test]
    fn any_other_value_has_another_digest(tree in tree(), one: u64, other: u64, salt: u64) {
        let (one, other) = (Spelling::new(one).tree(&tree), Spelling::new(other).tree(&altered(&tree, salt)));
        prop_assert_ne!(digest(&one), digest(&other), "{} {}", one, other);
    }

    #[test]
    fn keys_are_ordered_by_utf16(one in "[a\u{80}\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}", other in "[a\u{80}\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,4}") {
        prop_assert_eq!(by_utf16(one.as_bytes(), other.as_bytes()), one.encode_utf16().cmp(other.encode_utf16()));
    }

    #[test]
    fn a_canonical_text_is_canonical(tree in tree(), seed: u64) {
        let once = canonical(&Spelling::new(seed).tree(&tree));
        prop_assert_eq!(&canonical(&once), &once);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&once).is_ok(), "{}", once);
    }

    #[test]
    fn integers_are_written_plainly(value in -1_000_000_000_000_i64..1_000_000_000_000) {
        prop_assert_eq!(canonical(&value.to_string()), value.to_string());
    }

    #[test]
    fn numbers_are_exact(one in number(), other in number(), seed: u64) {
        let is_equal = canonical(&Spelling::new(seed).tree(&one)) == canonical(&Spelling::new(!seed).tree(&other));
        prop_assert_eq!(is_equal, one == other);
    }
}
