//! Which questions are put, to whom, and how they look then.

use super::*;
use crate::asking::Reach;

const EVERYTHING: &str =
    r#"{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}"#;
const FORM: &str =
    r#"{"message":"Name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}"#;
const D: Revision = Revision::R2025_11_25;

fn ask(
    capabilities: &str,
    revision: Revision,
    label: Option<&str>,
    method: &str,
    params: &str,
) -> Result<String, (i64, String)> {
    let offer = Offer::of(capabilities, revision, Reach::everything());
    let terms = Terms { offer: &offer, revision, label, upstream: "hub" };
    put(method, params, &terms)
        .map(|(_, shown)| shown)
        .map_err(|unfit| (unfit.code(), unfit.needs().unwrap_or_default().to_owned()))
}

fn code_of(capabilities: &str, revision: Revision, method: &str, params: &str) -> Option<i64> {
    ask(capabilities, revision, None, method, params).err().map(|(code, _)| code)
}

#[test]
fn the_reader_knows_who_asks() {
    let shown = ask(EVERYTHING, D, Some("GitHub"), "elicitation/create", FORM).unwrap();
    assert_eq!(
        shown,
        r#"{"message":"[GitHub] Name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}},"_meta":{"portcullis/upstream":"GitHub"}}"#
    );
    // Where there is only one, nothing is touched.
    assert_eq!(ask(EVERYTHING, D, None, "elicitation/create", FORM).unwrap(), FORM);
}

#[test]
fn what_was_not_declared_is_not_asked() {
    for (capabilities, method, params, expected) in [
        ("{}", "elicitation/create", FORM, (-32601, r#"{"elicitation":{"form":{}}}"#)),
        ("{}", "sampling/createMessage", r#"{"messages":[],"maxTokens":1}"#, (-32601, r#"{"sampling":{}}"#)),
        ("{}", "roots/list", "{}", (-32601, r#"{"roots":{}}"#)),
        (EVERYTHING, "tools/list", "{}", (-32601, "")),
        (EVERYTHING, "no/such", "{}", (-32601, "")),
        (
            r#"{"elicitation":{}}"#,
            "elicitation/create",
            r#"{"mode":"url","message":"m","url":"https://a.example/","elicitationId":"1"}"#,
            (-32602, r#"{"elicitation":{"url":{}}}"#),
        ),
        (
            r#"{"elicitation":{"url":{}}}"#,
            "elicitation/create",
            FORM,
            (-32602, r#"{"elicitation":{"form":{}}}"#),
        ),
        (
            r#"{"sampling":{}}"#,
            "sampling/createMessage",
            r#"{"messages":[],"maxTokens":1,"tools":[]}"#,
            (-32602, r#"{"sampling":{"tools":{}}}"#),
        ),
    ] {
        let (code, needs) = ask(capabilities, D, None, method, params).unwrap_err();
        assert_eq!((code, &*needs), expected, "{capabilities} {method}");
    }
}

#[test]
fn fields_that_a_revision_does_not_know_are_not_shown_to_it() {
    let with = |field: &str| {
        format!(r#"{{"message":"m","requestedSchema":{{"type":"object","properties":{{"a":{field}}}}}}}"#)
    };
    for (field, known) in [
        (r#"{"type":"string","enum":["x"]}"#, true),
        (r#"{"type":"boolean","default":true}"#, true),
        (r#"{"type":"array","items":{"type":"string","enum":["x"]}}"#, false),
        (r#"{"type":"string","oneOf":[{"const":"x","title":"X"}]}"#, false),
    ] {
        let older =
            code_of(r#"{"elicitation":{}}"#, Revision::R2025_06_18, "elicitation/create", &with(field));
        assert_eq!(older, (!known).then_some(-32602), "{field}");
        assert_eq!(code_of(EVERYTHING, D, "elicitation/create", &with(field)), None, "{field}");
    }
    // The one mode of that revision has no name.
    let named = FORM.replacen('{', r#"{"mode":"form","#, 1);
    let shown = ask(r#"{"elicitation":{}}"#, Revision::R2025_06_18, None, "elicitation/create", &named);
    assert_eq!(shown.unwrap(), FORM);
}

#[test]
fn a_form_asks_for_no_secrets() {
    for (name, secret) in [
        ("password", true),
        ("apiKey", true),
        ("API_KEY", true),
        ("access_token", true),
        ("githubToken", true),
        ("client-secret", true),
        ("maxTokens", false),
        ("secretary", false),
        ("key", false),
        ("name", false),
    ] {
        assert_eq!(is_secret(name), secret, "{name}");
    }
    let format = FORM.replace(r#""type":"string""#, r#""type":"string","format":"password""#);
    assert_eq!(code_of(EVERYTHING, D, "elicitation/create", &format), Some(-32602));
}

#[test]
fn a_page_is_named_by_an_id_of_its_upstream_and_stays_as_it_is() {
    let page = |url: &str| format!(r#"{{"mode":"url","message":"m","url":"{url}","elicitationId":"1"}}"#);
    let shown = ask(EVERYTHING, D, None, "elicitation/create", &page("https://a.example/?b=%7e")).unwrap();
    assert_eq!(
        shown,
        r#"{"mode":"url","message":"m","url":"https://a.example/?b=%7e","elicitationId":"hub:1"}"#
    );
    let modern =
        ask(EVERYTHING, Revision::R2026_07_28, None, "elicitation/create", &page("https://a.example/"));
    assert_eq!(modern.unwrap(), r#"{"mode":"url","message":"m","url":"https://a.example/"}"#);
    for (url, fit) in [
        ("http://localhost:7/a", true),
        ("http://127.0.0.1/a", true),
        ("http://a.example/", false),
        ("javascript:alert(1)", false),
        ("file:///etc/passwd", false),
        ("", false),
    ] {
        assert_eq!(is_fit(url), fit, "{url}");
    }
}

#[test]
fn a_model_is_asked_without_the_context_of_others() {
    let params = |more: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":"t"}}}}],"maxTokens":7{more}}}"#
        )
    };
    let shown = |more: &str| ask(EVERYTHING, D, None, "sampling/createMessage", &params(more)).unwrap();
    assert_eq!(shown(r#","includeContext":"allServers""#), params(r#","includeContext":"none""#));
    assert_eq!(shown(""), params(""));
    // Names of tools are local to the question (spec Q-08).
    let tools = r#","tools":[{"name":"look_up","inputSchema":{}}]"#;
    assert_eq!(shown(tools), params(tools));
}

#[test]
fn a_model_is_asked_for_a_number_of_tokens() {
    let params = |most: &str| {
        format!(r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":"t"}}}}]{most}}}"#)
    };
    for (most, fits) in [
        ("1", true),
        ("4096", true),
        ("100.0", true),
        ("1e3", true),
        ("0", false),
        ("-1", false),
        ("1.5", false),
        ("1e99", false),
        ("\"9\"", false),
        ("null", false),
        ("[1]", false),
    ] {
        let said = params(&format!(r#","maxTokens":{most}"#));
        let code = code_of(EVERYTHING, D, "sampling/createMessage", &said);
        assert_eq!(code, (!fits).then_some(-32602), "spec Q-09: {most}");
    }
    assert_eq!(code_of(EVERYTHING, D, "sampling/createMessage", &params("")), Some(-32602));
}

#[test]
fn tool_uses_and_results_of_a_question_match() {
    let messages = |messages: &str| format!(r#"{{"messages":[{messages}],"maxTokens":7}}"#);
    let using = r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]}"#;
    let result = |id: &str| format!(r#"{{"type":"tool_result","toolUseId":"{id}","content":[]}}"#);
    let answering = |blocks: &str| format!(r#"{{"role":"user","content":[{blocks}]}}"#);
    let text = r#"{"type":"text","text":"t"}"#;
    for (said, fits) in [
        (format!("{using},{}", answering(&result("a"))), true),
        (using.to_owned(), false),
        (answering(&result("a")), false),
        (format!("{using},{}", answering(&result("b"))), false),
        (format!("{using},{}", answering(&format!("{},{text}", result("a")))), false),
        (format!("{using},{}", answering(text)), false),
    ] {
        let code = code_of(EVERYTHING, D, "sampling/createMessage", &messages(&said));
        assert_eq!(code, (!fits).then_some(-32602), "{said}");
    }
    let list = messages(&answering(text));
    let older = code_of(r#"{"sampling":{}}"#, Revision::R2025_06_18, "sampling/createMessage", &list);
    assert_eq!(older, Some(-32602), "lists of content are new");
}

#[test]
fn what_describes_only_a_hop_does_not_go_on() {
    let params =
        r#"{"_meta":{"progressToken":1,"io.modelcontextprotocol/serverInfo":{},"com.acme/x":1},"task":{}}"#;
    let shown = ask(EVERYTHING, D, Some("hub"), "roots/list", params).unwrap();
    assert_eq!(shown, r#"{"_meta":{"com.acme/x":1,"portcullis/upstream":"hub"}}"#);
}

#[test]
fn a_book_is_not_put_to_anybody() {
    for (length, expected) in [(1_000, None), (LARGEST, Some(-32602))] {
        let params = FORM.replace("Name?", &"a".repeat(length));
        assert_eq!(code_of(EVERYTHING, D, "elicitation/create", &params), expected, "{length}");
    }
}
