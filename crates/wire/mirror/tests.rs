//! Tests: which annotations hold, and how headers go with arguments.

use std::fmt::Write as _;

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::spelled::{Spelling, Tree, cases, text, tree};

fn tool(schema: &str) -> String {
    format!(r#"{{"name":"t","inputSchema":{schema},"outputSchema":{{"x-mcp-header":""}}}}"#)
}

/// A schema with `property` as its only one, `X` standing for the annotation.
fn with(property: &str) -> String {
    format!(r#"{{"type":"object","properties":{{"p":{property}}}}}"#).replace("\"X\"", "\"x-mcp-header\"")
}

fn mirror(header: &str, path: &[&str]) -> Mirror {
    Mirror { header: header.into(), path: path.iter().map(|key| (*key).into()).collect() }
}

fn verdict(schema: &str) -> String {
    match mirrors(&tool(schema)) {
        Err(why) => why.to_owned(),
        Ok(mirrors) => {
            let shown = |mirror: &Mirror| format!("{}={}", mirror.header, mirror.path.join("."));
            format!("[{}]", mirrors.iter().map(shown).collect::<Vec<_>>().join(" "))
        }
    }
}

fn verdicts(schemas: impl IntoIterator<Item = String>) -> String {
    let mut table = String::new();
    for schema in schemas {
        writeln!(table, "{schema}\n    {}", verdict(&schema)).unwrap();
    }
    table
}

#[test]
fn annotations_hold_on_primitive_properties_at_any_depth() {
    let table = verdicts(
        [
            r#"{"type":"string","X":"Region"}"#,
            r#"{"X":"N-1","type":"integer","enum":[1]}"#,
            r#"{"type":"boolean","X":"!#$%&'*+-.^_`|~09Az"}"#,
            r#"{"type":"object","properties":{"q":{"type":"string","X":"A"},"r":{"properties":{"s.t":{"type":"string","X":"B"}}}}}"#,
            r#"{"type":"str\u0069ng","x-mcp-\u0068eader":"Reg\u0069on"}"#,
            r#"{"type":"string","default":{"X":""},"examples":[{"X":""}],"enum":[{"X":""}],"const":{"X":""}}"#,
            r#"{"properties":{"X":{"type":"string"}},"$defs":{"X":{}},"required":["X"],"dependentRequired":{"X":["a"]}}"#,
            r#"{"description":"X: \"x-mcp-header\":\"\" \u0041"}"#,
            "true",
        ]
        .map(with),
    );
    expect![[r#"
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":"Region"}}}
            [region=p]
        {"type":"object","properties":{"p":{"x-mcp-header":"N-1","type":"integer","enum":[1]}}}
            [n-1=p]
        {"type":"object","properties":{"p":{"type":"boolean","x-mcp-header":"!#$%&'*+-.^_`|~09Az"}}}
            [!#$%&'*+-.^_`|~09az=p]
        {"type":"object","properties":{"p":{"type":"object","properties":{"q":{"type":"string","x-mcp-header":"A"},"r":{"properties":{"s.t":{"type":"string","x-mcp-header":"B"}}}}}}}
            [a=p.q b=p.r.s.t]
        {"type":"object","properties":{"p":{"type":"str\u0069ng","x-mcp-\u0068eader":"Reg\u0069on"}}}
            [region=p]
        {"type":"object","properties":{"p":{"type":"string","default":{"x-mcp-header":""},"examples":[{"x-mcp-header":""}],"enum":[{"x-mcp-header":""}],"const":{"x-mcp-header":""}}}}
            []
        {"type":"object","properties":{"p":{"properties":{"x-mcp-header":{"type":"string"}},"$defs":{"x-mcp-header":{}},"required":["x-mcp-header"],"dependentRequired":{"x-mcp-header":["a"]}}}}
            []
        {"type":"object","properties":{"p":{"description":"X: \"x-mcp-header\":\"\" \u0041"}}}
            []
        {"type":"object","properties":{"p":true}}
            []
    "#]].assert_eq(&table);
    assert_eq!((mirrors("{}"), mirrors(r#"{"inputSchema":["x-mcp-header"]}"#)), (Ok(vec![]), Ok(vec![])));
}

/// Properties whose annotation is wrong.
const WRONG: [&str; 30] = [
    r#"{"type":"string","X":""}"#,
    r#"{"type":"string","X":"My Region"}"#,
    r#"{"type":"string","X":"Region:Primary"}"#,
    r#"{"type":"string","X":"Région"}"#,
    r#"{"type":"string","X":"Region\t1"}"#,
    r#"{"type":"string","X":"Region\r\nAuthorization: Bearer x"}"#,
    r#"{"type":"string","X":"Region\u0000"}"#,
    r#"{"type":"string","X":7}"#,
    r#"{"type":"string","X":null}"#,
    r#"{"type":"object","X":"Data"}"#,
    r#"{"type":"array","items":{"type":"string"},"X":"Items"}"#,
    r#"{"type":"null","X":"Nil"}"#,
    r#"{"type":"number","X":"N"}"#,
    r#"{"type":["string","null"],"X":"N"}"#,
    r#"{"X":"Untyped"}"#,
    r#"{"type":"String","X":"Case"}"#,
    r#"{"type":"string","X":"A"},"q":{"type":"string","X":"A"}"#,
    r#"{"type":"string","X":"MyField"},"q":{"properties":{"r":{"type":"string","X":"myfield"}}}"#,
    r#"{"type":"array","items":{"type":"string","X":"Item"}}"#,
    r#"{"type":"array","items":{"properties":{"q":{"type":"string","X":"Deep"}}}}"#,
    r#"{"type":"array","prefixItems":[[{"type":"string","X":"Item"}]]}"#,
    r#"{"anyOf":[{"type":"null"},{"type":"string","X":"Branch"}]}"#,
    r#"{"oneOf":[{"properties":{"q":{"type":"string","X":"Branch"}}}]}"#,
    r#"{"not":{"type":"string","X":"Not"}}"#,
    r#"{"if":{},"then":{"type":"string","X":"Then"}}"#,
    r#"{"additionalProperties":{"type":"string","X":"More"}}"#,
    r#"{"patternProperties":{"X":{"type":"string","X":"Pattern"}}}"#,
    r##"{"$ref":"#/$defs/d","$defs":{"d":{"type":"string","X":"Ref"}}}"##,
    r#"{"definitions":{"properties":{"type":"string","X":"Old"}}}"#,
    r#"{"x-unknown":{"type":"string","X":"Unknown"}}"#,
];

#[test]
fn a_tool_with_a_wrong_annotation_is_dropped() {
    let root = r#"{"type":"object","x-mcp-header":"Root"}"#.to_owned();
    let table = verdicts(WRONG.map(with).into_iter().chain([root]));
    expect![[r##"
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":""}}}
            an empty x-mcp-header
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":"My Region"}}}
            an x-mcp-header that is no token
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":"Region:Primary"}}}
            an x-mcp-header that is no token
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":"Région"}}}
            an x-mcp-header that is no token
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":"Region\t1"}}}
            an x-mcp-header that is no token
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":"Region\r\nAuthorization: Bearer x"}}}
            an x-mcp-header that is no token
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":"Region\u0000"}}}
            an x-mcp-header that is no token
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":7}}}
            an x-mcp-header that is no string
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":null}}}
            an x-mcp-header that is no string
        {"type":"object","properties":{"p":{"type":"object","x-mcp-header":"Data"}}}
            an x-mcp-header on what is no primitive
        {"type":"object","properties":{"p":{"type":"array","items":{"type":"string"},"x-mcp-header":"Items"}}}
            an x-mcp-header on what is no primitive
        {"type":"object","properties":{"p":{"type":"null","x-mcp-header":"Nil"}}}
            an x-mcp-header on what is no primitive
        {"type":"object","properties":{"p":{"type":"number","x-mcp-header":"N"}}}
            an x-mcp-header on a number
        {"type":"object","properties":{"p":{"type":["string","null"],"x-mcp-header":"N"}}}
            an x-mcp-header on what is no primitive
        {"type":"object","properties":{"p":{"x-mcp-header":"Untyped"}}}
            an x-mcp-header on what is no primitive
        {"type":"object","properties":{"p":{"type":"String","x-mcp-header":"Case"}}}
            an x-mcp-header on what is no primitive
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":"A"},"q":{"type":"string","x-mcp-header":"A"}}}
            two x-mcp-header of one name
        {"type":"object","properties":{"p":{"type":"string","x-mcp-header":"MyField"},"q":{"properties":{"r":{"type":"string","x-mcp-header":"myfield"}}}}}
            two x-mcp-header of one name
        {"type":"object","properties":{"p":{"type":"array","items":{"type":"string","x-mcp-header":"Item"}}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"type":"array","items":{"properties":{"q":{"type":"string","x-mcp-header":"Deep"}}}}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"type":"array","prefixItems":[[{"type":"string","x-mcp-header":"Item"}]]}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"anyOf":[{"type":"null"},{"type":"string","x-mcp-header":"Branch"}]}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"oneOf":[{"properties":{"q":{"type":"string","x-mcp-header":"Branch"}}}]}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"not":{"type":"string","x-mcp-header":"Not"}}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"if":{},"then":{"type":"string","x-mcp-header":"Then"}}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"additionalProperties":{"type":"string","x-mcp-header":"More"}}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"patternProperties":{"x-mcp-header":{"type":"string","x-mcp-header":"Pattern"}}}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"$ref":"#/$defs/d","$defs":{"d":{"type":"string","x-mcp-header":"Ref"}}}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"definitions":{"properties":{"type":"string","x-mcp-header":"Old"}}}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","properties":{"p":{"x-unknown":{"type":"string","x-mcp-header":"Unknown"}}}}
            an x-mcp-header that properties alone do not lead to
        {"type":"object","x-mcp-header":"Root"}
            an x-mcp-header that properties alone do not lead to
    "##]].assert_eq(&table);
}

#[test]
fn absurd_annotations_are_refused_at_little_cost() {
    let long = with(&format!(r#"{{"type":"string","X":"{}"}}"#, "a".repeat(129)));
    let deep = with(&format!(r#"{{"properties":{{"{}":{{"type":"string","X":"A"}}}}}}"#, "k".repeat(1024)));
    let property = |n: usize| format!(r#""p{n}":{{"type":"string","x-mcp-header":"h{n}"}}"#);
    let many = |count: usize| {
        format!(r#"{{"properties":{{{}}}}}"#, (0..count).map(property).collect::<Vec<_>>().join(","))
    };
    let nested =
        ["{\"properties\":{\"a\":".repeat(50_000), "{\"x-mcp-header\":\"\"}".into(), "}}".repeat(50_000)]
            .concat();
    let verdicts: Vec<String> = [long, deep, many(64).replace("h63", "h_"), many(65), nested]
        .iter()
        .map(|schema| verdict(schema))
        .collect();
    assert!(verdicts[2].ends_with("h_=p63]"));
    expect![[r#"
        an x-mcp-header that is too long
        an x-mcp-header too far down
        too many x-mcp-header
        an empty x-mcp-header"#]]
    .assert_eq(&[&*verdicts[0], &verdicts[1], &verdicts[3], &verdicts[4]].join("\n"));
}

#[test]
fn arguments_become_headers_for_the_upstream() {
    let mirrors = [mirror("r", &["region"]), mirror("deep", &["a", "b"])];
    let mut table = String::new();
    for arguments in [
        r#"{"region":"us-west1","a":{"b":true}}"#,
        r#"{ "reg\u0069on" : " \u4e16" , "a" : { "b" : false } }"#,
        r#"{"region":"","a":{"b":-7}}"#,
        r#"{"region":42.0,"a":{"b":1e3}}"#,
        r#"{"region":-0,"a":{"b":9007199254740993}}"#,
        r#"{"region":123456789012345678901234567890,"a":{"b":4.50}}"#,
        r#"{"region":1e30,"a":{"b":"=?base64?x?="}}"#,
        r#"{"region":null,"a":{"b":{}}}"#,
        r#"{"region":["x"],"a":["b"]}"#,
        r#"{"a.b":"x","b":"x","Region":"x"}"#,
        "{}",
        "null",
    ] {
        writeln!(table, "{arguments}\n    {:?}", mirrored(&mirrors, Some(arguments))).unwrap();
    }
    expect![[r#"
        {"region":"us-west1","a":{"b":true}}
            [("r", "us-west1"), ("deep", "true")]
        { "reg\u0069on" : " \u4e16" , "a" : { "b" : false } }
            [("r", "=?base64?IOS4lg==?="), ("deep", "false")]
        {"region":"","a":{"b":-7}}
            [("r", "=?base64??="), ("deep", "-7")]
        {"region":42.0,"a":{"b":1e3}}
            [("r", "42"), ("deep", "1000")]
        {"region":-0,"a":{"b":9007199254740993}}
            [("r", "0"), ("deep", "9007199254740993")]
        {"region":123456789012345678901234567890,"a":{"b":4.50}}
            [("r", "123456789012345678901234567890"), ("deep", "4.50")]
        {"region":1e30,"a":{"b":"=?base64?x?="}}
            [("r", "1e30"), ("deep", "=?base64?PT9iYXNlNjQ/eD89?=")]
        {"region":null,"a":{"b":{}}}
            []
        {"region":["x"],"a":["b"]}
            []
        {"a.b":"x","b":"x","Region":"x"}
            []
        {}
            []
        null
            []
    "#]]
    .assert_eq(&table);
    assert_eq!(mirrored(&mirrors, None), []);
}

fn check(arguments: &str, params: &[(&str, &str)]) -> String {
    let mirrors = [mirror("r", &["region"])];
    let params: Vec<(Box<str>, Box<str>)> =
        params.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let sent = Sent { version: None, method: None, name: None, params: &params };
    check_mirrors(&mirrors, Some(arguments), &sent).map_or_else(|error| error.to_string(), |()| "ok".into())
}

/// JSON texts of an argument, and headers.
const PAIRS: [(&str, &str); 34] = [
    ("\"eu\"", "eu"),
    ("\"eu\"", " eu\t"),
    ("\"e\\u0075\"", "=?base64?ZXU=?="),
    ("\"eu\"", "EU"),
    ("\"eu\"", "=?base64?ZXU?="),
    ("\"eu\"", "e\u{fc}"),
    ("\"\"", ""),
    ("\" eu\"", " eu"),
    ("\"42\"", "42"),
    ("\"42\"", "42.0"),
    ("42", "42"),
    ("42", "42.0"),
    ("42.0", "42"),
    ("42", "4.2e1"),
    ("42", "=?base64?NDI=?="),
    ("42", "43"),
    ("42", "042"),
    ("42", "+42"),
    ("42", "0x2a"),
    ("42", "42 "),
    ("42", "4 2"),
    ("42", "42."),
    ("42", "-"),
    ("42", ""),
    ("-0", "0"),
    ("18446744073709551617", "18446744073709551617.0"),
    ("18446744073709551617", "18446744073709551616"),
    ("9007199254740993", "9007199254740992"),
    ("true", "true"),
    ("true", "True"),
    ("true", "1"),
    ("false", "false"),
    ("null", "null"),
    ("{}", "{}"),
];

#[test]
fn headers_have_to_say_what_the_arguments_say() {
    let mut table = String::new();
    for (value, header) in PAIRS {
        let verdict = check(&format!(r#"{{"region":{value}}}"#), &[("other", "x"), ("r", header)]);
        writeln!(table, "{value} {header:?}: {verdict}").unwrap();
    }
    expect![[r#"
        "eu" "eu": ok
        "eu" " eu\t": ok
        "e\u0075" "=?base64?ZXU=?=": ok
        "eu" "EU": `mcp-param-r` differs from the body
        "eu" "=?base64?ZXU?=": a header is marked as base64 and is not
        "eu" "eü": a header holds a character that it must not
        "" "": ok
        " eu" " eu": `mcp-param-r` differs from the body
        "42" "42": ok
        "42" "42.0": `mcp-param-r` differs from the body
        42 "42": ok
        42 "42.0": ok
        42.0 "42": ok
        42 "4.2e1": ok
        42 "=?base64?NDI=?=": ok
        42 "43": `mcp-param-r` differs from the body
        42 "042": `mcp-param-r` differs from the body
        42 "+42": `mcp-param-r` differs from the body
        42 "0x2a": `mcp-param-r` differs from the body
        42 "42 ": ok
        42 "4 2": `mcp-param-r` differs from the body
        42 "42.": `mcp-param-r` differs from the body
        42 "-": `mcp-param-r` differs from the body
        42 "": `mcp-param-r` differs from the body
        -0 "0": ok
        18446744073709551617 "18446744073709551617.0": ok
        18446744073709551617 "18446744073709551616": `mcp-param-r` differs from the body
        9007199254740993 "9007199254740992": `mcp-param-r` differs from the body
        true "true": ok
        true "True": `mcp-param-r` differs from the body
        true "1": `mcp-param-r` differs from the body
        false "false": ok
        null "null": `mcp-param-r` differs from the body
        {} "{}": `mcp-param-r` differs from the body
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_header_is_there_exactly_when_its_argument_is() {
    for (arguments, params, expected) in [
        (r#"{"region":"eu"}"#, &[][..], "`mcp-param-r` is missing"),
        (r#"{"region":"eu"}"#, &[("region", "eu")], "`mcp-param-r` is missing"),
        (r#"{"region":"eu"}"#, &[("r", "eu"), ("r", "eu")], "`mcp-param-r` stands twice"),
        (r#"{"region":null}"#, &[], "ok"),
        (r#"{"region":{}}"#, &[], "ok"),
        ("{}", &[("unknown", "x"), ("unknown", "\0")], "ok"),
        ("{}", &[("r", "eu")], "`mcp-param-r` differs from the body"),
        ("null", &[("r", "eu")], "`mcp-param-r` differs from the body"),
    ] {
        assert_eq!(check(arguments, params), expected, "{arguments} {params:?}");
    }
}

/// Property schemas and their arguments, some annotated with a header of their own.
fn properties() -> impl Strategy<Value = Vec<(String, Tree, bool)>> {
    let value = prop_oneof![
        crate::spelled::number(),
        any::<bool>().prop_map(Tree::Bool),
        any::<i64>().prop_map(|number| Tree::Text(number.to_string())),
        text().prop_map(Tree::Text),
        Just(Tree::Null),
        tree(),
    ];
    prop::collection::btree_map(text(), (value, any::<bool>()), 0..6).prop_map(|all| {
        all.into_iter().map(|(key, (value, is_annotated))| (key, value, is_annotated)).collect()
    })
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn what_we_mirror_passes_our_own_check(properties in properties(), seed: u64, other: u64) {
        let mut spelling = Spelling::new(seed);
        let schema = |(index, (key, _, is_annotated)): (usize, &(String, Tree, bool))| {
            let annotation = if *is_annotated { format!(r#","x-mcp-header":"H{index}""#) } else { String::new() };
            format!(r#"{}:{{"type":"string"{annotation}}}"#, spelling.text(key))
        };
        let schemas: Vec<String> = properties.iter().enumerate().map(schema).collect();
        let mirrors = mirrors(&tool(&format!(r#"{{"properties":{{{}}}}}"#, schemas.join(",")))).unwrap();
        prop_assert_eq!(mirrors.len(), properties.iter().filter(|(_, _, is_annotated)| *is_annotated).count());
        let arguments: std::collections::BTreeMap<String, Tree> =
            properties.iter().map(|(key, value, _)| (key.clone(), value.clone())).collect();
        let one = Spelling::new(seed).object(&arguments);
        let params: Vec<(Box<str>, Box<str>)> =
            mirrored(&mirrors, Some(&one)).into_iter().map(|(name, value)| (name, value.into())).collect();
        let sent = Sent { version: None, method: None, name: None, params: &params };
        prop_assert_eq!(check_mirrors(&mirrors, Some(&one), &sent), Ok(()));
        // However the client spelled its body.
        let spelled_otherwise = Spelling::new(other).object(&arguments);
        prop_assert_eq!(check_mirrors(&mirrors, Some(&spelled_otherwise), &sent), Ok(()));
        // And no header can be left out.
        for left_out in 0..params.len() {
            let fewer: Vec<_> = params.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, pair)| pair.clone()).collect();
            let sent = Sent { params: &fewer, ..sent };
            let verdict = check_mirrors(&mirrors, Some(&one), &sent);
            prop_assert!(matches!(verdict, Err(HeaderError::Missing { .. })), "{:?}", verdict);
        }
    }

    #[test]
    fn integers_are_equal_by_value(one: i128, other: i128, zeros in 1..4_usize) {
        let header = format!("{other}.{}", "0".repeat(zeros));
        let verdict = check(&format!(r#"{{"region":{one}}}"#), &[("r", &header)]);
        prop_assert_eq!(verdict == "ok", one == other);
        prop_assert_eq!(check(&format!(r#"{{"region":{other}}}"#), &[("r", &header)]), "ok");
    }

    #[test]
    fn no_schema_makes_it_panic(tree in tree(), seed: u64, cut in 0..400_usize) {
        let raw = tool(&Spelling::new(seed).tree(&tree).replace("\"a", "\"x-mcp-header"));
        let _ = mirrors(&raw);
        let _ = mirrors(raw.get(..cut).unwrap_or(&raw));
    }
}
