//! Questions that begin upstream: in all four pairings of the eras they reach the one client they concern, or nobody.

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Reach, Request, Script, Setup, Step, Stream, until};

use crate::token;

const FORM: &str = r#"{"message":"Sure, ${pid}?","requestedSchema":{"type":"object","properties":{"ok":{"type":"string"}}}}"#;
const SAMPLE: &str = r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9,"includeContext":"allServers"}"#;
const ELICITATION: &str = r#"{"elicitation":{}}"#;
const ALL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{"listChanged":true}}"#;
/// Says what it heard.
const TOLD: &str =
    r#"{"content":[{"type":"text","text":"told"}],"structuredContent":{"pid":${pid},"answer":${answer}}}"#;

/// Every scene is played twice: with servers that the gateway starts, and with servers that have a URL.
macro_rules! over {
    ($($scene:ident)+) => {
        mod stdio {
            $(#[test] fn $scene() { super::$scene(testkit::Reach::Stdio) })+
        }
        mod http {
            $(#[test] fn $scene() { super::$scene(testkit::Reach::Http) })+
        }
    };
}

over! {
    each_of_two_principals_is_asked_on_its_own_stream_and_nobody_hears_of_the_other
    a_server_is_told_what_its_client_can_do_and_no_more
    a_question_that_the_client_or_the_tenant_does_not_allow_is_refused
    sampling_and_roots_are_carried_where_the_tenant_allows_them
    an_upstream_asks_no_more_than_its_quota
    a_user_is_told_which_of_several_servers_asks
    silence_is_no_yes_and_the_call_does_not_age_while_somebody_thinks
    a_call_that_is_cancelled_takes_its_question_back
    a_legacy_client_is_asked_within_its_call_what_a_modern_server_wants
    there_is_no_place_for_an_error_among_the_answers
    a_server_that_asks_for_ever_is_not_asked_for_ever
    a_modern_client_answers_in_its_next_call_with_what_it_was_given
    a_modern_client_is_told_what_it_would_have_to_declare
    a_result_that_asks_where_none_may_is_no_result
    a_modern_client_gets_no_request_and_learns_what_was_missing
}

mod nobody;
mod pages;

fn settled(setup: &Setup, reach: Reach, upstreams: &[&str]) -> Daemon {
    crate::settled(&setup.clone().reached(reach), upstreams)
}

// ---------------------------------------------------------------- servers and clients

/// A server of the handshake era whose tool asks this, and says what it was told.
fn legacy(method: &str, params: &str) -> Script {
    Script::tools(&["ask"]).on_call("ask", &[Step::ask("1", method, params), Step::result(TOLD)])
}

/// A server without handshakes whose tool asks this by a result, and then says what it was sent.
fn modern(asks: &str) -> Script {
    let first = Step::result(&format!(r#"{{"resultType":"input_required",{asks}}}"#));
    let then = Step::result(r#"{"content":[],"structuredContent":{"params":${params}}}"#);
    Script::tools(&["ask", "act"]).modern().on_call("ask", &[Step::rounds(&[first], &[then])])
}

fn elicits(more: &str) -> String {
    let form = FORM.replace("${pid}", "you");
    format!(r#""inputRequests":{{"k":{{"method":"elicitation/create","params":{form}}}}}{more}"#)
}

/// What a tenant allows so that a server may ask for roots: those elsewhere need a word of their own (spec Q-10).
fn roots(reach: Reach) -> &'static str {
    match reach {
        Reach::Stdio => "roots",
        Reach::Http => "remote_roots",
    }
}

fn able(daemon: &Daemon, revision: &str, capabilities: &str) -> Client {
    let mut client = daemon.stranger();
    assert_eq!(client.initialize_with(revision, capabilities).status, 200);
    client
}

fn call(client: &Client) -> Stream {
    client.start("tools/call", r#"{"name":"alpha__ask","arguments":{}}"#).stream()
}

/// The next question on a stream.
fn question(stream: &mut Stream, method: &str) -> Value {
    loop {
        let message = stream.next_message().expect("the stream ended");
        assert!(message.get("result").is_none() && message.get("error").is_none(), "{message}");
        if message["method"] == method {
            return message;
        }
    }
}

fn answer(client: &Client, question: &Value, said: &str) {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{},{said}}}"#, question["id"]);
    assert_eq!(client.say(&body).status, 202);
}

const ACCEPT: &str = r#""result":{"action":"accept","content":{"ok":"yes"}}"#;

/// A call of a client without handshakes.
fn stateless(daemon: &Daemon, capabilities: &str, tool: &str, more: &str) -> Answer {
    let client = daemon.stranger();
    client.send(&alone(&client, capabilities, tool, more))
}

fn alone(client: &Client, capabilities: &str, tool: &str, more: &str) -> Request {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"a":1}}{more},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}}}}}}}"#
    );
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
    headers.iter().fold(client.post(body), |request, (name, value)| request.with(name, value))
}

fn calls(daemon: &Daemon) -> Vec<Value> {
    daemon.journal("alpha").received("tools/call")
}

// ---------------------------------------------------------------- legacy client, legacy server

fn each_of_two_principals_is_asked_on_its_own_stream_and_nobody_hears_of_the_other(reach: Reach) {
    let daemon = settled(&Setup::one("alpha", legacy("elicitation/create", FORM)), reach, &["alpha"]);
    let (one, two) = (able(&daemon, "2025-11-25", ELICITATION), able(&daemon, "2025-11-25", ELICITATION));
    let (aside_one, aside_two) = (one.listen(), two.listen());
    let (mut of_one, mut of_two) = (call(&one), call(&two));
    let asked_two = question(&mut of_two, "elicitation/create");
    let asked_one = question(&mut of_one, "elicitation/create");
    // Somebody else's id answers nothing (spec Q-02).
    let foreign = json!({ "id": asked_one["id"].as_u64().unwrap() + 1000 });
    answer(&two, &foreign, r#""result":{"action":"accept","content":{"ok":"marker-two"}}"#);
    answer(&two, &asked_two, r#""result":{"action":"accept","content":{"ok":"marker-two"}}"#);
    answer(&one, &asked_one, r#""result":{"action":"decline"}"#);
    let (told_one, told_two) = (of_one.all(), of_two.all());
    for (told, asked, said) in [
        (&told_one, &asked_one, json!({ "action": "decline" })),
        (&told_two, &asked_two, json!({ "action": "accept", "content": { "ok": "marker-two" } })),
    ] {
        let result = &told.last().unwrap()["result"]["structuredContent"];
        assert_eq!(result["answer"]["result"], said);
        // The one upstream of this endpoint needs no name, and each was asked by the process of its own.
        assert_eq!(asked["params"]["message"], format!("Sure, {}?", result["pid"]));
    }
    assert!(!format!("{told_one:?}").contains("marker-two"));
    one.delete();
    two.delete();
    for aside in [aside_one, aside_two] {
        assert!(!format!("{:?}", aside.all()).contains("elicitation"));
    }
    let lines = daemon.entry("the question", |line| line["method"] == "elicitation/create");
    assert_eq!(lines.len(), 2, "an intent, and how it ended: {lines:?}");
    assert_eq!((&lines[0]["line"], &lines[0]["decision"]), (&json!("intent"), &json!("allow")));
    assert_eq!((&lines[1]["upstream"], &lines[1]["outcome"]), (&json!("alpha"), &json!("ok")));
    assert!(!daemon.audit_text().contains("marker"));
}

fn a_server_is_told_what_its_client_can_do_and_no_more(reach: Reach) {
    let daemon = settled(&Setup::one("alpha", legacy("elicitation/create", FORM)), reach, &["alpha"]);
    let client = able(&daemon, "2025-11-25", ALL);
    let mut stream = call(&client);
    answer(&client, &question(&mut stream, "elicitation/create"), ACCEPT);
    stream.all();
    let hellos = daemon.journal("alpha").received("initialize");
    let said: Vec<&Value> = hellos.iter().map(|hello| &hello["params"]["capabilities"]).collect();
    assert_eq!(said, [&json!({}), &json!({ "elicitation": { "form": {}, "url": {} } })]);
}

fn a_question_that_the_client_or_the_tenant_does_not_allow_is_refused(reach: Reach) {
    for (method, params, capabilities, code) in [
        ("elicitation/create", FORM, "{}", -32601),
        ("sampling/createMessage", SAMPLE, ALL, -32601),
        ("roots/list", "{}", ALL, -32601),
        (
            "elicitation/create",
            r#"{"mode":"url","message":"m","url":"https://a.example"}"#,
            ELICITATION,
            -32602,
        ),
        (
            "elicitation/create",
            r#"{"message":"m","requestedSchema":{"type":"object","properties":{"password":{"type":"string"}}}}"#,
            ELICITATION,
            -32602,
        ),
    ] {
        let daemon = settled(&Setup::one("alpha", legacy(method, params)), reach, &["alpha"]);
        let client = able(&daemon, "2025-11-25", capabilities);
        let told = client.call("alpha__ask", "{}")["structuredContent"]["answer"]["error"]["code"].clone();
        assert_eq!(told, code, "{method} {params}");
        let line = daemon.entry(method, |line| line["method"] == method);
        assert_eq!(line.last().unwrap()["outcome"], "denied");
    }
}

fn sampling_and_roots_are_carried_where_the_tenant_allows_them(reach: Reach) {
    let setup = |method: &str, params: &str| {
        let setup = Setup::one("alpha", legacy(method, params)).upstream("beta", Script::tools(&["act"]));
        let allow = format!("allow: [sampling, {}]", roots(reach));
        settled(&setup.tenant(&allow), reach, &["alpha", "beta"])
    };
    let daemon = setup("sampling/createMessage", SAMPLE);
    let client = able(&daemon, "2025-06-18", ALL);
    let mut stream = call(&client);
    let asked = question(&mut stream, "sampling/createMessage");
    assert_eq!(asked["params"]["includeContext"], "none");
    assert_eq!(asked["params"]["_meta"]["portcullis/upstream"], "alpha");
    // A refusal keeps the client's own code (spec Q-06).
    answer(&client, &asked, r#""error":{"code":-1,"message":"User rejected sampling request"}"#);
    let told = stream.all().pop().unwrap()["result"]["structuredContent"]["answer"]["error"].clone();
    assert_eq!(told, json!({ "code": -1, "message": "User rejected sampling request" }));

    let daemon = setup("roots/list", "{}");
    let client = able(&daemon, "2024-11-05", ALL);
    let mut stream = call(&client);
    let asked = question(&mut stream, "roots/list");
    answer(&client, &asked, r#""result":{"roots":[{"uri":"file:///home/ada"}]}"#);
    let told = stream.all().pop().unwrap()["result"].clone();
    assert!(told.to_string().contains("file:///home/ada"), "{told}");
}

/// Spec Q-09: beyond its quota the server gets an error, and the client is not contacted.
fn an_upstream_asks_no_more_than_its_quota(reach: Reach) {
    let quota =
        "limits: [{ name: model, per: upstream, method: sampling/createMessage, rate: 1/h, burst: 1 }]";
    let setup = Setup::one("alpha", legacy("sampling/createMessage", SAMPLE));
    let daemon = settled(&setup.tenant("allow: [sampling]").tenant(quota), reach, &["alpha"]);
    let client = able(&daemon, "2025-06-18", ALL);
    let mut stream = call(&client);
    let asked = question(&mut stream, "sampling/createMessage");
    answer(&client, &asked, r#""error":{"code":-1,"message":"no"}"#);
    stream.all();
    // One message and no stream: its call brings the client an answer and no question.
    let result = client.call("alpha__ask", "{}");
    assert!(result["structuredContent"]["answer"]["error"]["code"].is_i64(), "{result}");
    daemon.entry("the refusal", |line| line["rule"] == "limit:model" && line["outcome"] == "denied");
}

fn a_user_is_told_which_of_several_servers_asks(reach: Reach) {
    let labelled = Setup::new()
        .upstream_with("alpha", legacy("elicitation/create", FORM), "label: Deep Thought")
        .upstream("beta", Script::tools(&["act"]));
    let unlabelled = Setup::one("alpha", legacy("elicitation/create", FORM)).upstream("beta", Script::new());
    for (setup, start) in [(labelled, "[Deep Thought] Sure, "), (unlabelled, "[alpha] Sure, ")] {
        let daemon = settled(&setup, reach, &["alpha", "beta"]);
        let client = able(&daemon, "2025-06-18", ELICITATION);
        let mut stream = call(&client);
        let asked = question(&mut stream, "elicitation/create");
        assert!(asked["params"]["message"].as_str().unwrap().starts_with(start), "{asked}");
        answer(&client, &asked, ACCEPT);
        stream.all();
    }
}

fn silence_is_no_yes_and_the_call_does_not_age_while_somebody_thinks(reach: Reach) {
    let yaml = "timeouts: { call: 300ms, call_max: 400ms, answer: 900ms }";
    let setup = Setup::new().upstream_with("alpha", legacy("elicitation/create", FORM), yaml);
    let daemon = settled(&setup, reach, &["alpha"]);
    let client = able(&daemon, "2025-11-25", ELICITATION);
    let mut stream = call(&client);
    let asked = question(&mut stream, "elicitation/create");
    let messages = stream.all();
    let taken_back = messages.iter().find(|message| message["method"] == "notifications/cancelled");
    assert_eq!(taken_back.unwrap()["params"]["requestId"], asked["id"]);
    let told = &messages.last().unwrap()["result"]["structuredContent"]["answer"];
    assert_eq!(*told, json!({ "result": { "action": "cancel" } }));
}

fn a_call_that_is_cancelled_takes_its_question_back(reach: Reach) {
    let daemon = settled(&Setup::one("alpha", legacy("elicitation/create", FORM)), reach, &["alpha"]);
    let client = able(&daemon, "2025-11-25", ELICITATION);
    let pending = client.start("tools/call", r#"{"name":"alpha__ask"}"#);
    let id = pending.id;
    let mut stream = pending.stream();
    let asked = question(&mut stream, "elicitation/create");
    assert_eq!(client.notify("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#)).status, 202);
    let taken_back = question(&mut stream, "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], asked["id"]);
    daemon.journal("alpha").awaits("notifications/cancelled");
    let lines = daemon.entry("the question", |line| line["method"] == "elicitation/create");
    assert_eq!(lines.last().unwrap()["outcome"], "abandoned");
}

// ---------------------------------------------------------------- legacy client, modern server

fn a_legacy_client_is_asked_within_its_call_what_a_modern_server_wants(reach: Reach) {
    for (state, carried) in
        [("", None), (r#","requestState":"""#, Some("")), (r#","requestState":"a\u0062""#, Some("ab"))]
    {
        let daemon = settled(&Setup::one("alpha", modern(&elicits(state))), reach, &["alpha"]);
        let client = able(&daemon, "2025-06-18", ELICITATION);
        let mut stream = call(&client);
        let asked = question(&mut stream, "elicitation/create");
        answer(&client, &asked, ACCEPT);
        let result = stream.all().pop().unwrap()["result"].clone();
        let params = &result["structuredContent"]["params"];
        assert_eq!(params["inputResponses"]["k"], json!({ "action": "accept", "content": { "ok": "yes" } }));
        assert_eq!(params.get("requestState").and_then(Value::as_str), carried, "{params}");
        let declared = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*declared, json!({ "elicitation": { "form": {} } }));
        assert!(result.get("resultType").is_none());
        let calls = calls(&daemon);
        assert_eq!(calls.len(), 2);
        assert_ne!(calls[0]["id"], calls[1]["id"], "a retry has an id of its own (spec Q-20)");
        assert!(daemon.journal("alpha").received("initialize").is_empty());
    }
}

fn there_is_no_place_for_an_error_among_the_answers(reach: Reach) {
    let daemon = settled(&Setup::one("alpha", modern(&elicits(""))), reach, &["alpha"]);
    let client = able(&daemon, "2025-11-25", ELICITATION);
    let mut stream = call(&client);
    let asked = question(&mut stream, "elicitation/create");
    answer(&client, &asked, r#""error":{"code":-32603,"message":"no"}"#);
    assert_eq!(stream.all().pop().unwrap()["error"]["code"], -32603);
    assert_eq!(calls(&daemon).len(), 1, "no retry");
    // To decline is to answer.
    let mut stream = call(&client);
    let asked = question(&mut stream, "elicitation/create");
    answer(&client, &asked, r#""result":{"action":"decline"}"#);
    let result = stream.all().pop().unwrap()["result"].clone();
    assert_eq!(result["structuredContent"]["params"]["inputResponses"]["k"]["action"], "decline");
}

fn a_server_that_asks_for_ever_is_not_asked_for_ever(reach: Reach) {
    let again = Step::result(r#"{"resultType":"input_required","requestState":"s"}"#);
    let script = Script::tools(&["ask"]).modern().on_call("ask", &[again]);
    let daemon = settled(&Setup::one("alpha", script), reach, &["alpha"]);
    assert_eq!(daemon.client().error("tools/call", r#"{"name":"alpha__ask"}"#)["code"], -32603);
    assert_eq!(calls(&daemon).len(), 10);
}

// ---------------------------------------------------------------- modern client, modern server

fn a_modern_client_answers_in_its_next_call_with_what_it_was_given(reach: Reach) {
    let setup = Setup::one("alpha", modern(&elicits(r#","requestState":"theirs","x":1.0"#)));
    let setup = setup.upstream("beta", Script::tools(&["act"]));
    let daemon = settled(&setup, reach, &["alpha", "beta"]);
    let first = stateless(&daemon, ELICITATION, "alpha__ask", "").message()["result"].clone();
    assert_eq!((&first["resultType"], &first["x"]), (&json!("input_required"), &json!(1.0)));
    let asked = &first["inputRequests"]["k"];
    assert_eq!(
        (&asked["method"], &asked["params"]["message"]),
        (&json!("elicitation/create"), &json!("[alpha] Sure, you?"))
    );
    let state = first["requestState"].as_str().unwrap().to_owned();
    assert!(!state.contains("theirs"));

    let retry =
        |state: &str| format!(r#","inputResponses":{{"k":{{"action":"accept"}}}},"requestState":"{state}""#);
    let second = stateless(&daemon, ELICITATION, "alpha__ask", &retry(&state)).message()["result"].clone();
    let params = &second["structuredContent"]["params"];
    assert_eq!((&second["resultType"], &params["requestState"]), (&json!("complete"), &json!("theirs")));
    assert_eq!(
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"],
        json!({ "elicitation": { "form": {} } })
    );
    let before = calls(&daemon).len();

    // Not what was given, not for this tool, not an answer at all: nothing leaves.
    let foreign = format!("{}{}", if state.starts_with('A') { "B" } else { "A" }, &state[1..]);
    for (tool, more) in [
        ("alpha__ask", retry(&foreign)),
        ("alpha__act", retry(&state)),
        ("beta__act", retry(&state)),
        ("alpha__ask", r#","inputResponses":null"#.to_owned()),
        ("alpha__ask", r#","requestState":7"#.to_owned()),
    ] {
        assert_eq!(
            stateless(&daemon, ELICITATION, tool, &more).verdict(),
            (200, Some(-32602)),
            "{tool} {more}"
        );
    }
    assert_eq!(calls(&daemon).len(), before);
    assert!(daemon.journal("beta").received("tools/call").is_empty());
    // Without a state a server is asked anew (spec Q-21).
    let more = r#","inputResponses":{"wrong":{"action":"accept"}}"#;
    assert_eq!(stateless(&daemon, ELICITATION, "alpha__ask", more).status, 200);
}

fn a_modern_client_is_told_what_it_would_have_to_declare(reach: Reach) {
    let daemon = settled(&Setup::one("alpha", modern(&elicits(""))), reach, &["alpha"]);
    let refused = stateless(&daemon, r#"{"sampling":{}}"#, "alpha__ask", "");
    assert_eq!(refused.verdict(), (400, Some(-32021)));
    let message = refused.message();
    assert_eq!(message["id"], 7);
    assert_eq!(message["error"]["data"]["requiredCapabilities"], json!({ "elicitation": { "form": {} } }));
    assert!(!message.to_string().contains("Sure"));

    // What a server says of that itself is passed on.
    let error = r#"{"code":-32021,"message":"m","data":{"requiredCapabilities":{"sampling":{}}}}"#;
    let script = Script::tools(&["ask"]).modern().on_call("ask", &[Step::error(error)]);
    let daemon = settled(&Setup::one("alpha", script), reach, &["alpha"]);
    let refused = stateless(&daemon, "{}", "alpha__ask", "");
    assert_eq!(refused.verdict(), (400, Some(-32021)));
    assert_eq!(refused.message()["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }));
    assert_eq!(daemon.client().error("tools/call", r#"{"name":"alpha__ask"}"#)["code"], -32603);
}

fn a_result_that_asks_where_none_may_is_no_result(reach: Reach) {
    let script = modern(r#""inputRequests":{}"#)
        .on("completion/complete", &[Step::result(r#"{"resultType":"input_required","requestState":"s"}"#)])
        .prompt("p")
        .capabilities(r#"{"tools":{},"prompts":{},"completions":{}}"#);
    let daemon = settled(&Setup::one("alpha", script), reach, &["alpha"]);
    let params = r#"{"ref":{"type":"ref/prompt","name":"alpha__p"},"argument":{"name":"a","value":""}}"#;
    assert_eq!(daemon.client().error("completion/complete", params)["code"], -32603);
}

// ---------------------------------------------------------------- modern client, legacy server

fn a_modern_client_gets_no_request_and_learns_what_was_missing(reach: Reach) {
    let fails = Script::tools(&["ask"]).on_call(
        "ask",
        &[
            Step::ask("1", "elicitation/create", FORM),
            Step::error(r#"{"code":-32000,"message":"cannot ask"}"#),
        ],
    );
    let daemon = settled(&Setup::one("alpha", fails), reach, &["alpha"]);
    let refused = stateless(&daemon, "{}", "alpha__ask", "");
    assert_eq!(refused.verdict(), (400, Some(-32021)));
    let error = &refused.message()["error"];
    assert_eq!(error["data"]["requiredCapabilities"], json!({ "elicitation": { "form": {} } }));
    assert!(error["message"].as_str().unwrap().contains("may have acted"), "{error}");
    // One that can be asked is asked by a result: see `parking.rs`.
    let answer = stateless(&daemon, ELICITATION, "alpha__ask", "");
    for message in answer.messages() {
        assert!(message.get("method").is_none() || message.get("id").is_none(), "{message}");
    }
    assert_eq!(answer.messages().pop().unwrap()["result"]["resultType"], "input_required");

    // A tool that can do without goes on, and sees neither answers nor states.
    let daemon = settled(&Setup::one("alpha", legacy("elicitation/create", FORM)), reach, &["alpha"]);
    let more = r#","inputResponses":{"k":{"action":"accept"}}"#;
    let result = stateless(&daemon, "{}", "alpha__ask", more).messages().pop().unwrap()["result"].clone();
    assert_eq!(result["structuredContent"]["answer"]["error"]["code"], -32601);
    let call = until("the call", || calls(&daemon).pop());
    assert!(call["params"].get("inputResponses").is_none(), "{call}");
}
