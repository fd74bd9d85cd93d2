//! A modern client at a legacy server that asks in the middle of a call: the call waits until the client comes back.

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Reach, Script, Setup, Step, until};

use crate::{settled, token};

const FORM: &str =
    r#"{"message":"Sure?","requestedSchema":{"type":"object","properties":{"ok":{"type":"string"}}}}"#;
const SAMPLE: &str = r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9}"#;
const ELICITATION: &str = r#"{"elicitation":{}}"#;
const ALL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;
/// Says what it heard.
const TOLD: &str = r#"{"content":[{"type":"text","text":"told"}],"structuredContent":{"answer":${answer}}}"#;
const ACCEPT: &str = r#"{"action":"accept","content":{"ok":"yes"}}"#;

// ---------------------------------------------------------------- servers and clients

fn asks(steps: &[Step]) -> Script {
    Script::tools(&["ask", "act"]).on_call("ask", steps)
}

/// A tool that asks once, and says what it was told.
fn once() -> Script {
    asks(&[Step::ask("1", "elicitation/create", FORM), Step::result(TOLD)])
}

/// One modern client.
struct Caller<'a> {
    client: Client,
    capabilities: &'a str,
    bearer: Option<String>,
}

impl<'a> Caller<'a> {
    fn new(daemon: &Daemon, capabilities: &'a str) -> Caller<'a> {
        Caller { client: daemon.stranger(), capabilities, bearer: None }
    }

    /// One with a key of its own.
    fn named(daemon: &Daemon, principal: &str) -> Caller<'a> {
        let made = token(daemon, &["key", "--principal", principal, "-o", "json"]);
        let bearer = Some(format!("Bearer {}", made["key"].as_str().unwrap()));
        Caller { client: daemon.stranger(), capabilities: ELICITATION, bearer }
    }

    fn request(&self, method: &str, name: &str, params: &str) -> testkit::Request {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}}}}}}"#,
            self.capabilities
        );
        let mut request = self.client.post(body).with("mcp-protocol-version", "2026-07-28");
        request = request.with("mcp-method", method).with("mcp-name", name);
        match &self.bearer {
            Some(bearer) => request.with("authorization", bearer),
            None => request,
        }
    }

    fn tool(&self, tool: &str, more: &str) -> testkit::Request {
        self.request("tools/call", tool, &format!(r#""name":"{tool}","arguments":{{"a":1}}{more}"#))
    }

    fn call(&self, more: &str) -> Answer {
        self.client.send(&self.tool("alpha__ask", more))
    }

    /// The last thing that a call is told, which is a result.
    fn result(&self, more: &str) -> Value {
        let answer = self.call(more);
        let last = answer.messages().pop().unwrap();
        assert!(last.get("result").is_some(), "{} {last}", answer.status);
        last["result"].clone()
    }

    /// The error of a call that is refused for its round.
    fn refused(&self, more: &str) -> String {
        let answer = self.call(more);
        assert_eq!(answer.verdict(), (200, Some(-32602)), "{}", answer.text());
        answer.message()["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// The only question of a result that asks, with its name.
fn question(result: &Value) -> (String, Value) {
    assert_eq!(result["resultType"], "input_required", "{result}");
    let requests = result["inputRequests"].as_object().unwrap();
    assert_eq!(requests.len(), 1, "{result}");
    let (key, question) = requests.iter().next().unwrap();
    (key.clone(), question.clone())
}

/// What a client adds to its call when it comes back with one answer.
fn back(result: &Value, said: &str) -> String {
    with(result, &format!(r#"{{"{}":{said}}}"#, question(result).0))
}

/// The same with whatever answers.
fn with(result: &Value, responses: &str) -> String {
    format!(r#","inputResponses":{responses},"requestState":{}"#, result["requestState"])
}

fn calls(daemon: &Daemon) -> usize {
    daemon.journal("alpha").received("tools/call").len()
}

fn parked(daemon: &Daemon) -> String {
    let text = daemon.get("/metrics").text().to_owned();
    let line = text.lines().find(|line| line.starts_with("portcullis_parked_calls ")).unwrap();
    line.rsplit(' ').next().unwrap().to_owned()
}

const MAY_HAVE_ACTED: &str = "may have acted already";

// ---------------------------------------------------------------- rounds

#[test]
fn a_server_asks_twice_and_is_called_once() {
    let steps = [
        Step::progress("1"),
        Step::ask("1", "elicitation/create", FORM),
        Step::ask("\"two\"", "elicitation/create", &FORM.replace("Sure", "Really")),
        Step::result(TOLD),
    ];
    let setup = Setup::one("alpha", asks(&steps)).upstream("beta", Script::tools(&["act"]));
    let daemon = settled(&setup, &["alpha", "beta"]);
    let caller = Caller::new(&daemon, ELICITATION);

    let answer = caller.call("");
    let mut messages = answer.messages();
    let first = messages.pop().unwrap()["result"].clone();
    assert_eq!(messages[0]["params"]["progressToken"], "p", "{messages:?}");
    let (_, asked) = question(&first);
    assert_eq!(asked["method"], "elicitation/create");
    assert_eq!(asked["params"]["message"], "[alpha] Sure?");
    assert_eq!(parked(&daemon), "1");

    let second = caller.result(&back(&first, r#"{"action":"decline"}"#));
    assert_eq!(question(&second).1["params"]["message"], "[alpha] Really?");
    assert_ne!(question(&first).0, question(&second).0);
    let last = caller.result(&back(&second, "{\n\"action\":\"accept\",\n\"content\":{\"ok\":\"yes\"}}"));
    assert_eq!(last["resultType"], "complete");
    let told = &last["structuredContent"]["answer"]["result"];
    assert_eq!(*told, json!({ "action": "accept", "content": { "ok": "yes" } }));
    assert_eq!(parked(&daemon), "0");

    let journal = daemon.journal("alpha");
    let said: Vec<Value> =
        journal.answers().into_iter().filter(|line| line.get("result").is_some()).collect();
    assert_eq!(said[0], json!({ "jsonrpc": "2.0", "id": 1, "result": { "action": "decline" } }));
    assert_eq!(said[1]["id"], "two");
    assert_eq!(calls(&daemon), 1, "one call, whatever the client does");
    assert!(journal.received("notifications/cancelled").is_empty());
    let hellos = journal.received("initialize");
    assert_eq!(hellos.last().unwrap()["params"]["capabilities"], json!({ "elicitation": {} }));
}

#[test]
fn every_round_and_every_question_is_on_record() {
    let daemon = settled(&Setup::one("alpha", once()), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let first = caller.result("");
    let asked = daemon.entry("the question", |line| line["method"] == "elicitation/create");
    assert_eq!((&asked[0]["line"], &asked[0]["decision"]), (&json!("intent"), &json!("allow")));
    assert_eq!((&asked[1]["upstream"], &asked[1]["reason"]), (&json!("alpha"), &json!("handed_on")));
    let call = daemon.entry("the call", |line| line["reason"] == "input_required");
    assert_eq!((&call[0]["line"], &call[1]["outcome"]), (&json!("intent"), &json!("ok")));
    caller.result(&back(&first, ACCEPT));
    let of_calls = |line: &Value| line["method"] == "tools/call" && line["line"] == "outcome";
    until("both calls", || (daemon.audit().iter().filter(|line| of_calls(line)).count() == 2).then_some(()));
}

#[test]
fn all_that_is_asked_at_once_is_one_result_and_what_is_not_answered_is_asked_again() {
    let steps = [
        Step::send(&format!(
            r#"{{"jsonrpc":"2.0","id":8,"method":"sampling/createMessage","params":{SAMPLE}}}"#
        )),
        Step::ask("9", "roots/list", "{}"),
        Step::result(TOLD),
    ];
    let setup = Setup::one("alpha", asks(&steps)).tenant("allow: [sampling, roots]");
    let daemon = settled(&setup, &["alpha"]);
    let caller = Caller::new(&daemon, ALL);
    let mut result = caller.result("");
    let (mut seen, mut rounds) = (Vec::new(), 0);
    while result["resultType"] == "input_required" {
        rounds += 1;
        assert!(rounds < 5, "{result}");
        let requests = result["inputRequests"].as_object().unwrap().clone();
        // One answer a round, and one of nobody's.
        let (key, asked) = requests.iter().next().unwrap();
        seen.push(asked["method"].as_str().unwrap().to_owned());
        let said = match asked["method"].as_str().unwrap() {
            "roots/list" => r#"{"roots":[{"uri":"file:///home/ada"}]}"#,
            _ => r#"{"role":"assistant","content":{"type":"text","text":"ho"},"model":"m"}"#,
        };
        result = caller.result(&with(&result, &format!(r#"{{"{key}":{said},"x":1}}"#)));
    }
    seen.sort();
    assert_eq!(seen, ["roots/list", "sampling/createMessage"]);
    assert!(result.to_string().contains("file:///home/ada"), "{result}");
    assert_eq!(calls(&daemon), 1);
}

#[test]
fn a_call_that_waits_keeps_no_other_of_its_process_from_asking() {
    let named = r#"{"message":"for ${id}","requestedSchema":{"type":"object","properties":{}}}"#;
    let steps = [Step::ask(r#""q${id}""#, "elicitation/create", named), Step::result(TOLD)];
    let daemon = settled(&Setup::one("alpha", asks(&steps)), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let waiting = [(); 3].map(|()| caller.result(""));
    let texts = waiting.each_ref().map(|result| {
        let requests = result["inputRequests"].as_object().unwrap();
        requests.values().next().unwrap()["params"]["message"].to_string()
    });
    assert!(texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
    for result in waiting.iter().rev() {
        assert_eq!(caller.result(&back(result, ACCEPT))["resultType"], "complete");
    }
    assert_eq!(calls(&daemon), 3);
}

#[test]
fn prompts_and_resources_wait_too() {
    let script = Script::new()
        .prompt("p")
        .resource("file:///r")
        .on("prompts/get", &[Step::ask("1", "elicitation/create", FORM), Step::result(r#"{"messages":[]}"#)])
        .on(
            "resources/read",
            &[Step::ask("2", "elicitation/create", FORM), Step::result(r#"{"contents":[]}"#)],
        );
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    for (method, key, name) in
        [("prompts/get", "name", "alpha__p"), ("resources/read", "uri", "alpha+file:///r")]
    {
        let send = |more: &str| {
            let params = format!(r#""{key}":"{name}"{more}"#);
            caller.client.send(&caller.request(method, name, &params)).message()["result"].clone()
        };
        let first = send("");
        assert_eq!(send(&back(&first, ACCEPT))["resultType"], "complete", "{method}");
        assert_eq!(daemon.journal("alpha").received(method).len(), 1);
    }
}

// ---------------------------------------------------------------- what does not go on

#[test]
fn a_round_is_answered_once_by_whom_it_was_given_to_for_what_it_was_given() {
    let setup = Setup::one("alpha", once()).tenant("identity: { keys: true }");
    let daemon = settled(&setup, &["alpha"]);
    let (ann, bob) = (Caller::named(&daemon, "ann"), Caller::named(&daemon, "bob"));
    let first = ann.result("");
    let more = back(&first, ACCEPT);

    assert!(!bob.refused(&more).contains(MAY_HAVE_ACTED));
    ann.refused(&more.replace(r#""requestState":""#, r#""requestState":"x"#));
    let other_arguments = ann.request(
        "tools/call",
        "alpha__ask",
        &format!(r#""name":"alpha__ask","arguments":{{"a":2}}{more}"#),
    );
    for request in [other_arguments, ann.tool("alpha__act", &more)] {
        assert_eq!(ann.client.send(&request).verdict(), (200, Some(-32602)));
    }
    // An answer that is none leaves the call where it is.
    for malformed in [r#"{"action":"perhaps"}"#, "7", "[]", r#"{"error":{"code":-1,"message":"no"}}"#] {
        ann.refused(&back(&first, malformed));
    }
    assert_eq!(calls(&daemon), 1);
    assert_eq!(ann.result(&more)["resultType"], "complete");
    assert!(ann.refused(&more).contains(MAY_HAVE_ACTED));
    assert_eq!(calls(&daemon), 1);
}

#[test]
fn of_two_that_come_back_at_the_same_time_one_goes_on() {
    let steps = [Step::ask("1", "elicitation/create", FORM), Step::gate("on"), Step::result(TOLD)];
    let daemon = settled(&Setup::one("alpha", asks(&steps)), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let more = back(&caller.result(""), ACCEPT);
    let mut running = caller.client.begin(&caller.tool("alpha__ask", &more));
    daemon.journal("alpha").waits_at("on");
    assert!(caller.refused(&more).contains(MAY_HAVE_ACTED));
    daemon.journal("alpha").open("on");
    assert_eq!(running.answer().messages().pop().unwrap()["result"]["resultType"], "complete");
    assert_eq!(calls(&daemon), 1);
}

#[test]
fn a_client_that_comes_too_late_learns_that_the_tool_may_have_acted() {
    let yaml = "timeouts: { call: 300ms, call_max: 400ms, answer: 900ms }";
    let daemon = settled(&Setup::new().upstream_with("alpha", once(), yaml), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let first = caller.result("");
    let call = daemon.journal("alpha").received("tools/call").remove(0);
    let cancelled = daemon.journal("alpha").awaits("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
    assert!(caller.refused(&back(&first, ACCEPT)).contains(MAY_HAVE_ACTED));
    assert_eq!((calls(&daemon), &*parked(&daemon)), (1, "0"));
}

#[test]
fn a_call_does_not_age_while_it_is_parked() {
    let yaml = "timeouts: { call: 300ms, call_max: 400ms, answer: 30s }";
    let daemon = settled(&Setup::new().upstream_with("alpha", once(), yaml), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let first = caller.result("");
    let since = std::time::Instant::now();
    until("longer than a call may take", || (since.elapsed().as_millis() > 600).then_some(()));
    assert_eq!(caller.result(&back(&first, ACCEPT))["resultType"], "complete");
}

#[test]
fn a_client_that_goes_while_its_call_runs_cancels_it() {
    let steps = [Step::ask("1", "elicitation/create", FORM), Step::gate("on"), Step::result(TOLD)];
    let daemon = settled(&Setup::one("alpha", asks(&steps)), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let first = caller.result("");
    let more = back(&first, ACCEPT);
    let running = caller.client.begin(&caller.tool("alpha__ask", &more));
    daemon.journal("alpha").waits_at("on");
    assert!(daemon.journal("alpha").received("notifications/cancelled").is_empty());
    drop(running);
    daemon.journal("alpha").awaits("notifications/cancelled");
    assert!(caller.refused(&more).contains(MAY_HAVE_ACTED));
    assert_eq!(calls(&daemon), 1);
}

#[test]
fn a_server_that_goes_while_a_call_is_parked_fails_that_call() {
    let script = once().on_cue("die", &[Step::exit(1)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let first = caller.result("");
    daemon.journal("alpha").cue("die");
    until("its end", || (daemon.journal("alpha").noted("start").len() > 2).then_some(()));
    let failed = caller.result(&back(&first, ACCEPT));
    assert_eq!(failed["isError"], true);
    assert!(failed["content"][0]["text"].as_str().unwrap().contains(MAY_HAVE_ACTED), "{failed}");
    assert_eq!(calls(&daemon), 1);
}

#[test]
fn what_is_parked_is_given_up_when_the_gateway_stops() {
    let mut daemon = settled(&Setup::one("alpha", once()).process("drain: 1m"), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let more = back(&caller.result(""), ACCEPT);
    daemon.restart(crate::PORTCULLIS);
    let journal = daemon.journal("alpha");
    assert_eq!(journal.received("notifications/cancelled").len(), 1, "{:?}", journal.entries());
    daemon.settled("alpha");
    assert!(caller.refused(&more).contains(MAY_HAVE_ACTED));
    assert_eq!(calls(&daemon), 1);
}

#[test]
fn a_question_that_is_taken_back_needs_no_answer() {
    let steps = [
        Step::send(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{FORM}}}"#)),
        Step::gate("back"),
        Step::send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#),
        Step::result(r#"{"content":[]}"#),
    ];
    let daemon = settled(&Setup::one("alpha", asks(&steps)), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let first = caller.result("");
    daemon.journal("alpha").open("back");
    assert_eq!(caller.result(&back(&first, ACCEPT))["resultType"], "complete");
    assert_eq!(calls(&daemon), 1);
}

// ---------------------------------------------------------------- where nothing is parked

#[test]
fn a_principal_that_has_many_calls_parked_is_not_asked_any_more() {
    // Each at a server of its own: a process with two open calls cannot say which of them it asks for.
    let tools: Vec<String> = (0..17).map(|n| format!("up{n}")).collect();
    let setup = tools.iter().fold(Setup::new(), |setup, id| setup.upstream(id, once()));
    let ids: Vec<&str> = tools.iter().map(String::as_str).collect();
    let daemon = settled(&setup, &ids);
    let caller = Caller::new(&daemon, ELICITATION);
    for (n, id) in ids.iter().enumerate() {
        let answer = caller.client.send(&caller.tool(&format!("{id}__ask"), ""));
        let result = answer.messages().pop().unwrap()["result"].clone();
        match n < 16 {
            true => assert_eq!(result["resultType"], "input_required", "{id} {result}"),
            false => assert_eq!(result["structuredContent"]["answer"]["error"]["code"], -32602, "{result}"),
        }
    }
    let denied = daemon.entry("the refused question", |line| line["reason"] == "parking_full");
    assert_eq!(denied[0]["outcome"], "denied");
}

#[test]
fn a_server_that_asks_again_and_again_is_refused_and_goes_on() {
    let mut steps: Vec<Step> =
        (1..=11).map(|n| Step::ask(&n.to_string(), "elicitation/create", FORM)).collect();
    steps.push(Step::result(TOLD));
    let daemon = settled(&Setup::one("alpha", asks(&steps)), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let mut result = caller.result("");
    let mut rounds = 0;
    while result["resultType"] == "input_required" {
        rounds += 1;
        result = caller.result(&back(&result, ACCEPT));
    }
    assert_eq!(rounds, 10);
    assert_eq!(result["structuredContent"]["answer"]["error"]["code"], -32602, "{result}");
    assert_eq!(calls(&daemon), 1);
}

#[test]
fn what_was_not_declared_is_refused_and_named_when_the_tool_fails_for_it() {
    let fails = Step::error(r#"{"code":-32000,"message":"cannot ask"}"#);
    let daemon =
        settled(&Setup::one("alpha", asks(&[Step::ask("1", "elicitation/create", FORM), fails])), &["alpha"]);
    let refused = Caller::new(&daemon, r#"{"sampling":{}}"#).call("");
    assert_eq!(refused.verdict(), (400, Some(-32021)));
    let error = &refused.message()["error"];
    assert_eq!(error["data"]["requiredCapabilities"], json!({ "elicitation": { "form": {} } }));
    // What the tenant does not allow is no fault of the client.
    let script = asks(&[Step::ask("1", "sampling/createMessage", SAMPLE), Step::result(TOLD)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let result = Caller::new(&daemon, ALL).result("");
    assert_eq!(result["structuredContent"]["answer"]["error"]["code"], -32601);
}

#[test]
fn nobody_is_asked_where_a_server_is_shared() {
    let daemon = settled(&Setup::new().upstream_with("alpha", once(), "share: tenant"), &["alpha"]);
    let result = Caller::new(&daemon, ELICITATION).result("");
    assert_eq!(result["structuredContent"]["answer"]["error"]["code"], -32602);
}

// ---------------------------------------------------------------- a server over HTTP

#[test]
fn over_http_a_server_asks_twice_and_is_called_once() {
    let ask = |id: &str| Step::ask(id, "elicitation/create", FORM);
    let steps = [ask("\"one\""), ask("\"two\""), Step::result(TOLD)];
    let daemon = settled(&Setup::one("alpha", asks(&steps)).reached(Reach::Http), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let first = caller.result("");
    let second = caller.result(&back(&first, r#"{"action":"decline"}"#));
    let last = caller.result(&back(&second, ACCEPT));
    assert_eq!(last["structuredContent"]["answer"]["result"]["action"], "accept");
    let journal = daemon.journal("alpha");
    let told: Vec<Value> =
        journal.answers().into_iter().filter(|line| line.get("result").is_some()).collect();
    assert_eq!((&told[0]["id"], &told[0]["result"]["action"]), (&json!("one"), &json!("decline")));
    assert_eq!((&told[1]["id"], &told[1]["result"]["action"]), (&json!("two"), &json!("accept")));
    assert_eq!((calls(&daemon), journal.received("notifications/cancelled").len()), (1, 0));
}

#[test]
fn over_http_a_client_that_does_not_come_back_is_given_up() {
    let setup = Setup::new().upstream_with("alpha", once(), "timeouts: { answer: 300ms }");
    let daemon = settled(&setup.reached(Reach::Http), &["alpha"]);
    let caller = Caller::new(&daemon, ELICITATION);
    let first = caller.result("");
    daemon.journal("alpha").awaits("notifications/cancelled");
    assert!(caller.refused(&back(&first, ACCEPT)).contains(MAY_HAVE_ACTED));
    assert_eq!((calls(&daemon), daemon.journal("alpha").received("notifications/cancelled").len()), (1, 1));
}
