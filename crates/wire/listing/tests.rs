//! Tests: pages, broken items and renamed ones.

use expect_test::expect;

use super::*;
use crate::scan::Budget;

fn answer(result: &str) -> Frame {
    let raw = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    Frame::parse(raw.into(), &Budget::UPSTREAM).unwrap()
}

fn page(result: &str, kind: Kind) -> Page {
    read_page(&answer(result), kind).unwrap()
}

fn tool(raw: &str) -> Item {
    page(&format!("{{\"tools\":[{raw}]}}"), Kind::Tools).items.remove(0)
}

#[test]
fn one_bad_item_hides_no_other() {
    let result = r#"{"tools":[
        {"name":"good","inputSchema":{"type":"object"}},
        {"name":"no schema"}, {"name":"null","inputSchema":null}, {"name":"text","inputSchema":"x"},
        {"name":"array","inputSchema":{"type":"array"}}, {"name":"types","inputSchema":{"type":["object"]}},
        {"name":"properties","inputSchema":{"type":"object","properties":null}},
        {"inputSchema":{}}, {"name":7,"inputSchema":{}}, {"name":null,"inputSchema":{}}, "text", null, [],
        {"n\u0061me":"\u0062ad or good","inputSchema":{"properties":{}}} ]}"#;
    let page = page(result, Kind::Tools);
    let good: Vec<&str> = page.items.iter().map(Item::key).collect();
    assert_eq!(good, ["good", "bad or good"]);
    let broken: Vec<String> =
        page.broken.iter().map(|item| format!("{} {:?} {}", item.position, item.key, item.why)).collect();
    expect![[r#"
        1 Some("no schema") no inputSchema
        2 Some("null") an inputSchema that is no object
        3 Some("text") an inputSchema that is no object
        4 Some("array") an inputSchema of another type than object
        5 Some("types") an inputSchema of another type than object
        6 Some("properties") an inputSchema whose properties are no object
        7 None no name
        8 None a name that is no string
        9 None a name that is no string
        10 None not an object
        11 None not an object
        12 None not an object"#]]
    .assert_eq(&broken.join("\n"));
}

#[test]
fn items_of_each_kind_are_named_by_their_own_key() {
    for kind in Kind::ALL {
        let item = format!("{{\"{}\":\"k\",\"inputSchema\":{{}}}}", kind.key());
        let page = page(&format!("{{\"{}\":[{item},{{\"other\":1}}]}}", kind.member()), kind);
        assert_eq!((page.items[0].key(), page.items[0].raw(), page.broken.len()), ("k", &*item, 1));
    }
}

#[test]
fn an_empty_cursor_is_a_cursor() {
    for (member, next) in [
        ("", None),
        (r#","nextCursor":"""#, Some("")),
        (r#","nextCursor":"\u0061""#, Some("a")),
        (r#","nextCursor":null"#, None),
    ] {
        assert_eq!(page(&format!("{{\"tools\":[]{member}}}"), Kind::Tools).next.as_deref(), next);
    }
    assert_eq!(
        read_page(&answer(r#"{"tools":[],"nextCursor":1}"#), Kind::Tools).unwrap_err(),
        ListingError::BadCursor
    );
}

#[test]
fn a_list_that_is_null_is_empty() {
    let page = page(r#"{"tools":null,"nextCursor":"c"}"#, Kind::Tools);
    assert_eq!((page.items.len(), page.broken.len(), page.next.as_deref()), (0, 0, Some("c")));
}

#[test]
fn an_answer_without_a_list_is_no_page() {
    for result in ["{}", "[]", "null", r#"{"tools":7}"#, r#"{"tools":{}}"#, r#"{"prompts":[]}"#] {
        assert_eq!(read_page(&answer(result), Kind::Tools).unwrap_err(), ListingError::NoList, "{result}");
    }
    let failure =
        Frame::parse(r#"{"jsonrpc":"2.0","id":1,"error":{"tools":[]}}"#.into(), &Budget::UPSTREAM).unwrap();
    assert_eq!(read_page(&failure, Kind::Tools).unwrap_err(), ListingError::NoResult);
}

#[test]
fn an_exposed_item_differs_in_name_and_uris_only() {
    let raw = "{ \"title\":\"T\", \"name\" : \"s\\u0065arch\",\n\"inputSchema\":{\"properties\":{\"name\":{\"const\":1.0}}}, \"_meta\": {\"ui\":{\"resourceUri\":\"ui:\\/\\/x\",\"y\":1},\"ui/resourceUri\":\"ui://x\",\"a\":\"ui://x\"}, \"icons\":[{\"src\":\"https://x/i\"}] }";
    let item = tool(raw);
    let exposed = item.exposed("gh__search", &|uri| format!("gh+{uri}"));
    expect![[r#"{ "title":"T", "name" : "gh__search", "inputSchema":{"properties":{"name":{"const":1.0}}}, "_meta": {"ui":{"resourceUri":"gh+ui://x","y":1},"ui/resourceUri":"gh+ui://x","a":"ui://x"}, "icons":[{"src":"https://x/i"}] }"#]].assert_eq(std::str::from_utf8(&exposed).unwrap());
    let same = item.exposed("search", &|uri| uri.to_owned());
    assert_eq!(digest_of(&same), digest_of(raw.as_bytes()));
    assert_eq!((item.member("title"), item.member("absent")), (Some("\"T\""), None));
    let plain = tool(r#"{"_meta":{"ui":"x","ui/resourceUri":1},"inputSchema":{},"name":"n"}"#);
    assert_eq!(
        plain.exposed("m\"", &|_| panic!("no uri")),
        r#"{"_meta":{"ui":"x","ui/resourceUri":1},"inputSchema":{},"name":"m\""}"#
    );
}

fn digest_of(raw: &[u8]) -> crate::Digest {
    crate::digest(std::str::from_utf8(raw).unwrap())
}

#[test]
fn a_list_is_never_null() {
    let item = Bytes::from_static(b"{\"a\":1}");
    assert_eq!(render(Kind::Templates, &[], None), r#"{"resourceTemplates":[]}"#);
    assert_eq!(
        render(Kind::Tools, &[item.clone(), item.clone()], Some("c\"")),
        r#"{"tools":[{"a":1},{"a":1}],"nextCursor":"c\""}"#
    );
    assert_eq!(render(Kind::Prompts, &[item], Some("")), r#"{"prompts":[{"a":1}],"nextCursor":""}"#);
}

/// As an upstream's answer is read when its strict reading failed.
fn lenient(result: &str) -> Result<Frame, crate::FrameError> {
    let raw = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    assert!(Frame::parse(raw.clone().into(), &Budget::UPSTREAM).is_err(), "{raw}");
    Frame::parse_leniently(raw.into(), &Budget::UPSTREAM)
}

#[test]
fn an_item_that_reads_in_two_ways_hides_no_other() {
    let result = r#"{"tools":[
        {"name":"good","inputSchema":{}},
        {"name":"twice","inputSchema":{"properties":{"a":1,"\u0061":2}}},
        {"name":"one","name":"other","inputSchema":{}},
        {"name":"half","description":"\ud83d","inputSchema":{}},
        {"name":"\udc00","inputSchema":{}},
        {"name":"half a key","inputSchema":{"\ud800":1,"\ud801":2}},
        ["\ud800\u0041"], "\ud800\ud800", {"name":"no schema"},
        {"name":"good also","iD":1,"Method":2,"params":{"Name":3},"inputSchema":{}},
        {"name":"good too","description":"\ud83d\ude00","inputSchema":{"type":"object"}} ],
        "nextCursor":"c", "_meta":{"a":{"b":1,"b":2}} }"#;
    let answer = lenient(result).unwrap();
    assert!(!answer.is_strict());
    let page = read_page(&answer, Kind::Tools).unwrap();
    let good: Vec<&str> = page.items.iter().map(Item::key).collect();
    assert_eq!((good, page.next.as_deref()), (vec!["good", "good also", "good too"], Some("c")));
    let broken: Vec<String> =
        page.broken.iter().map(|item| format!("{} {:?} {}", item.position, item.key, item.why)).collect();
    expect![[r#"
        1 Some("twice") duplicate key
        2 None duplicate key
        3 Some("half") lone surrogate
        4 None lone surrogate
        5 Some("half a key") lone surrogate
        6 None lone surrogate
        7 None lone surrogate
        8 Some("no schema") no inputSchema"#]]
    .assert_eq(&broken.join("\n"));
    for kind in [Kind::Prompts, Kind::Resources, Kind::Templates] {
        let (list, key) = (kind.member(), kind.key());
        let result = format!(r#"{{"{list}":[{{"{key}":"x","a":1,"a":2}},{{"{key}":"y"}}]}}"#);
        let page = read_page(&lenient(&result).unwrap(), kind).unwrap();
        assert_eq!((page.items[0].key(), page.broken[0].why), ("y", "duplicate key"));
    }
}
