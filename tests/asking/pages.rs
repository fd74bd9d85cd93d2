//! Pages that a user has to open first.

use super::*;

over! {
    a_server_that_wants_a_page_opened_first_is_understood_by_whoever_can
    only_the_client_that_was_sent_to_a_page_hears_that_it_is_done
}

const PAGES: &str = r#"{"code":-32042,"message":"see https://a.example/1","data":{"elicitations":[{"mode":"url","message":"Sign in","elicitationId":"1","url":"https://a.example/1"}]}}"#;

fn a_server_that_wants_a_page_opened_first_is_understood_by_whoever_can(reach: Reach) {
    let script = Script::tools(&["ask"]).on_call("ask", &[Step::error(PAGES)]);
    let daemon = settled(&Setup::one("alpha", script), reach, &["alpha"]);
    let params = r#"{"name":"alpha__ask"}"#;
    let error = able(&daemon, "2025-11-25", ALL).error("tools/call", params);
    assert_eq!(error["code"], -32042);
    let page = &error["data"]["elicitations"][0];
    assert_eq!((&page["elicitationId"], &page["url"]), (&json!("alpha:1"), &json!("https://a.example/1")));
    for (revision, capabilities) in [("2025-06-18", ALL), ("2025-11-25", ELICITATION)] {
        let error = able(&daemon, revision, capabilities).error("tools/call", params);
        assert_eq!(error["code"], -32603);
        assert!(!error.to_string().contains("http"), "{error}");
    }
    assert_eq!(stateless(&daemon, ELICITATION, "alpha__ask", "").verdict(), (400, Some(-32021)));
    let first = stateless(&daemon, ALL, "alpha__ask", "").message()["result"].clone();
    let asked = &first["inputRequests"]["page-0"]["params"];
    assert_eq!((&asked["url"], asked.get("elicitationId")), (&json!("https://a.example/1"), None));
    // The retry is a call like the first.
    let before = calls(&daemon).len();
    let more = format!(
        r#","inputResponses":{{"page-0":{{"action":"accept"}}}},"requestState":{}"#,
        first["requestState"]
    );
    assert_eq!(stateless(&daemon, ALL, "alpha__ask", &more).status, 200);
    let calls = calls(&daemon);
    assert_eq!(calls.len(), before + 1);
    assert!(calls.last().unwrap()["params"].get("inputResponses").is_none());
}

fn only_the_client_that_was_sent_to_a_page_hears_that_it_is_done(reach: Reach) {
    let page = r#"{"mode":"url","message":"Sign in","elicitationId":"1","url":"https://a.example/1"}"#;
    let complete =
        r#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"1"}}"#;
    let unknown = complete.replace("\"1\"", "\"2\"");
    let steps = [
        Step::ask("1", "elicitation/create", page),
        Step::send(&unknown),
        Step::send(complete),
        Step::result(TOLD),
    ];
    let script = Script::tools(&["ask"]).on_call("ask", &steps);
    let daemon = settled(&Setup::one("alpha", script), reach, &["alpha"]);
    let (one, two) = (able(&daemon, "2025-11-25", ALL), able(&daemon, "2025-11-25", ALL));
    let aside = two.listen();
    let mut stream = call(&one);
    let asked = question(&mut stream, "elicitation/create");
    assert_eq!(asked["params"]["elicitationId"], "alpha:1");
    answer(&one, &asked, r#""result":{"action":"accept"}"#);
    let told = stream.all();
    let done: Vec<&Value> =
        told.iter().filter(|message| message["method"] == "notifications/elicitation/complete").collect();
    assert_eq!(done.len(), 1, "{told:?}");
    assert_eq!(done[0]["params"]["elicitationId"], "alpha:1");
    two.delete();
    assert!(!format!("{:?}", aside.all()).contains("complete"));
}
