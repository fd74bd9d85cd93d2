//! Tests: results from one era to the other.

use std::{collections::BTreeMap, fmt::Write as _};

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::{
    Carrier, Id,
    scan::Budget,
    spelled::{Spelling, Tree, cases, text, tree},
    uris,
};

fn answer(result: &str) -> Frame {
    Frame::parse(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#).into(), &Budget::UPSTREAM)
        .unwrap()
}

/// What no revision of the era can read is the subject of `older`.
fn to_legacy(answer: &Frame) -> Vec<Edit> {
    super::to_legacy(answer, None, Revision::LATEST_LEGACY)
}

/// The answer as it leaves with these edits, which have to be in order and apart.
fn edited(answer: &Frame, edits: &[Edit]) -> Frame {
    assert!(edits.is_sorted_by(|one, other| one.span.end <= other.span.start), "{edits:?}");
    Frame::parse(answer.answer(&Id::number(2), edits).join(), &Budget::UPSTREAM).unwrap()
}

fn result(answer: &Frame) -> &str {
    answer.result().unwrap()
}

/// Results with short names for the reserved keys.
fn spelled(result: &str) -> String {
    result.replace("SI", meta::SERVER_INFO).replace("PV", meta::VERSION).replace("SUB", meta::SUBSCRIPTION_ID)
}

fn shortened(result: &str) -> String {
    result.replace(meta::IMPLEMENTATION, "OURS").replace(meta::SERVER_INFO, "SI").replace(meta::VERSION, "PV")
}

const RESULTS: [&str; 21] = [
    "{}",
    "{ }",
    r#"{"content":[],"x":1.0}"#,
    r#"{"content" : [ ] , "_meta" : { "com.example\/k" : 1 } }"#,
    r#"{"_meta":{},"content":[]}"#,
    r#"{"_meta":{ }}"#,
    r#"{"_meta":null,"content":[]}"#,
    r#"{"content":[],"_meta":[1]}"#,
    r#"{"_meta":{"SI":{"name":"theirs"}}}"#,
    r#"{"_meta":{"SI":{"name":"theirs"},"a":1},"content":[]}"#,
    r#"{"content":[],"_meta":{"a":1,"SI":{"name":"theirs"}}}"#,
    r#"{"_meta":{"PV":"v","SUB":1,"a":1,"SI":{},"b":2,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#,
    r#"{"_meta":{"serverInfo":1,"com.example/serverInfo":2,"SIx":3,"io.modelcontextprotocol/":4,"progressToken":5}}"#,
    r#"{"content":[{"_meta":{"SI":{},"PV":"x"}}],"structuredContent":{"resultType":"r","ttlMs":1}}"#,
    r#"{"resultType":"complete","content":[]}"#,
    r#"{"content":[],"resultType" : "complete" , "ttlMs" : 5 , "cacheScope" : "public" , "y":2}"#,
    r#"{"ttlMs":5,"cacheScope":"public"}"#,
    r#"{"resultType":"input_required","ttlMs":5,"requestState":"s"}"#,
    r#"{"result\u0054ype":"complete","ttl\u004ds":5,"_m\u0065ta":{"io.modelcontextprotocol\/serverInfo":{}}}"#,
    r#"{"resultType":null}"#,
    "[1]",
];

fn table(edits: &dyn Fn(&Frame) -> Vec<Edit>) -> String {
    let mut table = String::new();
    for raw in RESULTS {
        let answer = answer(&spelled(raw));
        let edited = edited(&answer, &edits(&answer));
        writeln!(table, "{raw}\n    {}", shortened(result(&edited))).unwrap();
    }
    table
}

#[test]
fn a_modern_result_says_its_type_and_who_made_it() {
    expect![[r#"
        {}
            {"resultType":"complete","_meta":{"SI":OURS}}
        { }
            {"resultType":"complete","_meta":{"SI":OURS} }
        {"content":[],"x":1.0}
            {"resultType":"complete","_meta":{"SI":OURS},"content":[],"x":1.0}
        {"content" : [ ] , "_meta" : { "com.example\/k" : 1 } }
            {"resultType":"complete","content" : [ ] , "_meta" : { "SI":OURS,"com.example\/k" : 1 } }
        {"_meta":{},"content":[]}
            {"resultType":"complete","_meta":{"SI":OURS},"content":[]}
        {"_meta":{ }}
            {"resultType":"complete","_meta":{"SI":OURS }}
        {"_meta":null,"content":[]}
            {"resultType":"complete","_meta":{"SI":OURS},"content":[]}
        {"content":[],"_meta":[1]}
            {"resultType":"complete","_meta":{"SI":OURS},"content":[]}
        {"_meta":{"SI":{"name":"theirs"}}}
            {"resultType":"complete","_meta":{"SI":OURS}}
        {"_meta":{"SI":{"name":"theirs"},"a":1},"content":[]}
            {"resultType":"complete","_meta":{"SI":OURS,"a":1},"content":[]}
        {"content":[],"_meta":{"a":1,"SI":{"name":"theirs"}}}
            {"resultType":"complete","content":[],"_meta":{"SI":OURS,"a":1}}
        {"_meta":{"PV":"v","SUB":1,"a":1,"SI":{},"b":2,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}
            {"resultType":"complete","_meta":{"SI":OURS,"a":1,"b":2,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}
        {"_meta":{"serverInfo":1,"com.example/serverInfo":2,"SIx":3,"io.modelcontextprotocol/":4,"progressToken":5}}
            {"resultType":"complete","_meta":{"SI":OURS,"serverInfo":1,"com.example/serverInfo":2,"SIx":3,"io.modelcontextprotocol/":4,"progressToken":5}}
        {"content":[{"_meta":{"SI":{},"PV":"x"}}],"structuredContent":{"resultType":"r","ttlMs":1}}
            {"resultType":"complete","_meta":{"SI":OURS},"content":[{"_meta":{"SI":{},"PV":"x"}}],"structuredContent":{"resultType":"r","ttlMs":1}}
        {"resultType":"complete","content":[]}
            {"_meta":{"SI":OURS},"resultType":"complete","content":[]}
        {"content":[],"resultType" : "complete" , "ttlMs" : 5 , "cacheScope" : "public" , "y":2}
            {"_meta":{"SI":OURS},"content":[],"resultType" : "complete" , "ttlMs" : 5 , "cacheScope" : "public" , "y":2}
        {"ttlMs":5,"cacheScope":"public"}
            {"resultType":"complete","_meta":{"SI":OURS},"ttlMs":5,"cacheScope":"public"}
        {"resultType":"input_required","ttlMs":5,"requestState":"s"}
            {"_meta":{"SI":OURS},"resultType":"input_required","ttlMs":5,"requestState":"s"}
        {"result\u0054ype":"complete","ttl\u004ds":5,"_m\u0065ta":{"io.modelcontextprotocol\/serverInfo":{}}}
            {"result\u0054ype":"complete","ttl\u004ds":5,"_m\u0065ta":{"SI":OURS}}
        {"resultType":null}
            {"_meta":{"SI":OURS},"resultType":null}
        [1]
            [1]
    "#]].assert_eq(&table(&|answer| to_modern(answer, None)));
}

#[test]
fn our_hints_replace_those_of_the_upstream() {
    let hints = Hints { ttl_ms: 60_000, private: true };
    expect![[r#"
        {}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS}}
        { }
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS} }
        {"content":[],"x":1.0}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS},"content":[],"x":1.0}
        {"content" : [ ] , "_meta" : { "com.example\/k" : 1 } }
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","content" : [ ] , "_meta" : { "SI":OURS,"com.example\/k" : 1 } }
        {"_meta":{},"content":[]}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS},"content":[]}
        {"_meta":{ }}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS }}
        {"_meta":null,"content":[]}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS},"content":[]}
        {"content":[],"_meta":[1]}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS},"content":[]}
        {"_meta":{"SI":{"name":"theirs"}}}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS}}
        {"_meta":{"SI":{"name":"theirs"},"a":1},"content":[]}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS,"a":1},"content":[]}
        {"content":[],"_meta":{"a":1,"SI":{"name":"theirs"}}}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","content":[],"_meta":{"SI":OURS,"a":1}}
        {"_meta":{"PV":"v","SUB":1,"a":1,"SI":{},"b":2,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS,"a":1,"b":2,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}
        {"_meta":{"serverInfo":1,"com.example/serverInfo":2,"SIx":3,"io.modelcontextprotocol/":4,"progressToken":5}}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS,"serverInfo":1,"com.example/serverInfo":2,"SIx":3,"io.modelcontextprotocol/":4,"progressToken":5}}
        {"content":[{"_meta":{"SI":{},"PV":"x"}}],"structuredContent":{"resultType":"r","ttlMs":1}}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS},"content":[{"_meta":{"SI":{},"PV":"x"}}],"structuredContent":{"resultType":"r","ttlMs":1}}
        {"resultType":"complete","content":[]}
            {"ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS},"resultType":"complete","content":[]}
        {"content":[],"resultType" : "complete" , "ttlMs" : 5 , "cacheScope" : "public" , "y":2}
            {"ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS},"content":[],"resultType" : "complete" , "y":2}
        {"ttlMs":5,"cacheScope":"public"}
            {"resultType":"complete","ttlMs":60000,"cacheScope":"private","_meta":{"SI":OURS}}
        {"resultType":"input_required","ttlMs":5,"requestState":"s"}
            {"_meta":{"SI":OURS},"resultType":"input_required","requestState":"s"}
        {"result\u0054ype":"complete","ttl\u004ds":5,"_m\u0065ta":{"io.modelcontextprotocol\/serverInfo":{}}}
            {"ttlMs":60000,"cacheScope":"private","result\u0054ype":"complete","_m\u0065ta":{"SI":OURS}}
        {"resultType":null}
            {"_meta":{"SI":OURS},"resultType":null}
        [1]
            [1]
    "#]].assert_eq(&table(&|answer| to_modern(answer, Some(&hints))));
    let answer = answer("{}");
    let public = edited(&answer, &to_modern(&answer, Some(&Hints { ttl_ms: 0, private: false })));
    assert!(result(&public).contains(r#""ttlMs":0,"cacheScope":"public""#));
}

#[test]
fn a_legacy_result_has_nothing_of_the_modern_era() {
    expect![[r#"
        {}
            {}
        { }
            { }
        {"content":[],"x":1.0}
            {"content":[],"x":1.0}
        {"content" : [ ] , "_meta" : { "com.example\/k" : 1 } }
            {"content" : [ ] , "_meta" : { "com.example\/k" : 1 } }
        {"_meta":{},"content":[]}
            {"_meta":{},"content":[]}
        {"_meta":{ }}
            {"_meta":{ }}
        {"_meta":null,"content":[]}
            {"_meta":null,"content":[]}
        {"content":[],"_meta":[1]}
            {"content":[],"_meta":[1]}
        {"_meta":{"SI":{"name":"theirs"}}}
            {}
        {"_meta":{"SI":{"name":"theirs"},"a":1},"content":[]}
            {"_meta":{"a":1},"content":[]}
        {"content":[],"_meta":{"a":1,"SI":{"name":"theirs"}}}
            {"content":[],"_meta":{"a":1}}
        {"_meta":{"PV":"v","SUB":1,"a":1,"SI":{},"b":2,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}
            {"_meta":{"a":1,"b":2,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}
        {"_meta":{"serverInfo":1,"com.example/serverInfo":2,"SIx":3,"io.modelcontextprotocol/":4,"progressToken":5}}
            {"_meta":{"serverInfo":1,"com.example/serverInfo":2,"SIx":3,"io.modelcontextprotocol/":4,"progressToken":5}}
        {"content":[{"_meta":{"SI":{},"PV":"x"}}],"structuredContent":{"resultType":"r","ttlMs":1}}
            {"content":[{"_meta":{"SI":{},"PV":"x"}}],"structuredContent":{"resultType":"r","ttlMs":1}}
        {"resultType":"complete","content":[]}
            {"content":[]}
        {"content":[],"resultType" : "complete" , "ttlMs" : 5 , "cacheScope" : "public" , "y":2}
            {"content":[] , "y":2}
        {"ttlMs":5,"cacheScope":"public"}
            {}
        {"resultType":"input_required","ttlMs":5,"requestState":"s"}
            {"requestState":"s"}
        {"result\u0054ype":"complete","ttl\u004ds":5,"_m\u0065ta":{"io.modelcontextprotocol\/serverInfo":{}}}
            {}
        {"resultType":null}
            {}
        [1]
            [1]
    "#]].assert_eq(&table(&to_legacy));
}

#[test]
fn errors_and_requests_are_left_alone() {
    for raw in [
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","ttlMs":1,"_meta":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"resultType":"x","_meta":{}}}"#,
    ] {
        let frame = Frame::parse(raw.into(), &Budget::UPSTREAM).unwrap();
        let edits = to_modern(&frame, Some(&Hints { ttl_ms: 1, private: true }));
        assert!(edits.is_empty() && to_legacy(&frame).is_empty() && result_type(&frame).is_none());
    }
}

#[test]
fn a_result_type_that_is_no_string_is_no_known_one() {
    for (raw, expected) in [
        ("{}", None),
        (r#"{"resultType":"complete"}"#, Some("complete")),
        (r#"{"resultType":"inp\u0075t_required"}"#, Some("input_required")),
        (r#"{"resultType":null}"#, Some("null")),
        (r#"{"resultType":["complete"]}"#, Some(r#"["complete"]"#)),
        ("[]", None),
    ] {
        assert_eq!(result_type(&answer(raw)).as_deref(), expected);
    }
}

#[test]
fn edits_of_both_kinds_go_together() {
    let answer = answer(
        r#"{"resultType":"complete","content":[{"type":"resource_link","uri":"a"}],"ttlMs":1,"_meta":{"b":1}}"#,
    );
    let uris = || uris::edits(&answer, Carrier::CallResult, &|uri| format!("x+{uri}"));
    let legacy = edited(&answer, &merge(uris(), to_legacy(&answer)));
    assert_eq!(result(&legacy), r#"{"content":[{"type":"resource_link","uri":"x+a"}],"_meta":{"b":1}}"#);
    let modern = edited(&answer, &merge(to_modern(&answer, None), uris()));
    assert!(result(&modern).contains("x+a"));
    assert_eq!(
        shortened(result(&modern)),
        r#"{"resultType":"complete","content":[{"type":"resource_link","uri":"x+a"}],"ttlMs":1,"_meta":{"SI":OURS,"b":1}}"#
    );
}

#[test]
fn of_edits_that_overlap_the_first_stays() {
    let edit = |span: Range<usize>, text: &'static str| Edit { span, text: text.into() };
    let merged = merge(
        vec![edit(5..9, "a"), edit(0..2, "b"), edit(20..20, "c")],
        vec![
            edit(8..12, "d"),
            edit(2..2, "e"),
            edit(2..5, "f"),
            edit(5..9, "g"),
            edit(6..6, "h"),
            edit(9..9, "i"),
        ],
    );
    let texts: Vec<&[u8]> = merged.iter().map(|edit| &*edit.text).collect();
    assert_eq!(texts, [b"b", b"e", b"f", b"a", b"i", b"c"]);
}

/// Keys of both kinds, so that members to leave stand in all places.
fn keys() -> impl Strategy<Value = String> {
    let reserved =
        ["resultType", "ttlMs", "cacheScope", "_meta", meta::SERVER_INFO, meta::VERSION, meta::LOG_LEVEL];
    prop_oneof![prop::sample::select(reserved.to_vec()).prop_map(str::to_owned), text()]
}

fn results() -> impl Strategy<Value = BTreeMap<String, Tree>> {
    let meta = prop_oneof![
        3 => prop::collection::btree_map(keys(), tree(), 0..6).prop_map(Tree::Object),
        1 => tree(),
    ];
    (prop::collection::btree_map(keys(), tree(), 0..8), prop::option::of(meta)).prop_map(
        |(mut members, meta)| {
            if let Some(meta) = meta {
                members.insert(META.into(), meta);
            }
            members
        },
    )
}

/// The members that neither direction owns, of the result and of its `_meta`: as they are written, in order.
fn untouched(answer: &Frame) -> Vec<(&str, &str)> {
    let owned = [RESULT_TYPE, TTL, SCOPE, META];
    let outer = members_but(result(answer), &|key, text| owned.iter().any(|name| key.says(name, text)));
    let inner = answer.result_member(META).unwrap_or_default();
    outer.chain(members_but(inner, &meta::is_of_hop)).collect()
}

fn members_but<'a>(
    raw: &'a str,
    owned: &dyn Fn(Key, &[u8]) -> bool,
) -> std::vec::IntoIter<(&'a str, &'a str)> {
    let members = walk::members(raw.as_bytes(), 0..raw.len());
    let kept: Vec<_> = members
        .filter(|(key, _)| !owned(*key, raw.as_bytes()))
        .map(|(key, value)| (raw.get(key.quoted()).unwrap(), raw.get(value).unwrap()))
        .collect();
    kept.into_iter()
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn there_and_back_all_other_members_keep_their_bytes(members in results(), seed: u64, ttl_ms: u64, private: bool) {
        // On one line, since line breaks become spaces whatever is edited.
        let before = answer(&Spelling::on_one_line(seed).object(&members));
        let hints = Hints { ttl_ms, private };
        for hints in [None, Some(&hints)] {
            let modern = edited(&before, &to_modern(&before, hints));
            let back = edited(&modern, &to_legacy(&modern));
            prop_assert_eq!(untouched(&modern), untouched(&before));
            prop_assert_eq!(untouched(&back), untouched(&before));
            let meta = modern.result_member(META);
            prop_assert_eq!(meta::member(meta, meta::SERVER_INFO), Some(meta::IMPLEMENTATION));
            prop_assert_eq!(meta::member(meta, meta::VERSION), None);
            prop_assert!(modern.result_member(RESULT_TYPE).is_some());
            for name in [RESULT_TYPE, TTL, SCOPE] {
                prop_assert_eq!(back.result_member(name), None);
            }
            for name in [meta::SERVER_INFO, meta::VERSION, meta::LOG_LEVEL] {
                prop_assert_eq!(meta::member(back.result_member(META), name), None);
            }
        }
    }

    #[test]
    fn a_plain_result_comes_back_as_it_was(members in results(), seed: u64) {
        let mut members = members;
        for name in [RESULT_TYPE, TTL, SCOPE, META] {
            members.remove(name);
        }
        let before = answer(&Spelling::on_one_line(seed).object(&members));
        let modern = edited(&before, &to_modern(&before, Some(&Hints { ttl_ms: 1, private: true })));
        let back = edited(&modern, &to_legacy(&modern));
        prop_assert_eq!(result(&back), result(&before));
        prop_assert!(to_legacy(&before).is_empty());
    }

    #[test]
    fn hints_stand_on_complete_results_only(members in results(), seed: u64) {
        let before = answer(&Spelling::new(seed).object(&members));
        let modern = edited(&before, &to_modern(&before, Some(&Hints { ttl_ms: 7, private: false })));
        let is_complete = result_type(&before).is_none_or(|said| said == COMPLETE);
        let expected = is_complete.then_some(("7", "\"public\""));
        prop_assert_eq!(modern.result_member(TTL).zip(modern.result_member(SCOPE)), expected);
        prop_assert_eq!(modern.result_member(TTL).is_some(), is_complete);
    }

    #[test]
    fn merged_edits_are_in_order_and_apart(one in prop::collection::vec((0..40_usize, 0..6_usize), 0..8), other in prop::collection::vec((0..40_usize, 0..6_usize), 0..8)) {
        let edits = |list: Vec<(usize, usize)>| -> Vec<Edit> {
            list.into_iter().map(|(start, length)| Edit { span: start..start + length, text: "x".into() }).collect()
        };
        let merged = merge(edits(one), edits(other));
        prop_assert!(merged.is_sorted_by(|one, other| one.span.end <= other.span.start));
    }
}
