//! Limits from outside: who is refused what, what they are told, and that nothing of it reaches a server.

use std::cell::Cell;

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Request, Script, Setup, Step, until};

use crate::{settled, token};

const KEYS: &str = "identity: { keys: true }";
const FAILS: &str = r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A client with a key of its own.
pub(crate) struct Somebody {
    client: Client,
    era: Era,
    bearer: String,
    session: String,
    last: Cell<u32>,
}

impl Somebody {
    pub(crate) fn of(daemon: &Daemon, principal: &str, era: Era) -> Somebody {
        let made = token(daemon, &["key", "--principal", principal, "-o", "json"]);
        let bearer = format!("Bearer {}", made["key"].as_str().unwrap());
        let (client, session, last) = (daemon.stranger(), String::new(), Cell::new(1));
        let mut somebody = Somebody { client, era, bearer, session, last };
        if era == Era::Legacy {
            let answer = somebody.open();
            assert_eq!(answer.status, 200, "{}", answer.text());
            somebody.session = answer.header("mcp-session-id").unwrap().to_owned();
        }
        somebody
    }

    fn open(&self) -> Answer {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
        self.client.send(&self.client.post(body).with("authorization", &self.bearer))
    }

    fn request(&self, method: &str, name: &str, members: &str) -> Request {
        let meta = match self.era {
            Era::Legacy => "{}",
            Era::Modern => {
                r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#
            }
        };
        self.last.set(self.last.get() + 1);
        let id = self.last.get();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}"_meta":{meta}}}}}"#
        );
        let request = self.client.post(body).with("authorization", &self.bearer);
        match self.era {
            Era::Legacy => {
                request.with("mcp-session-id", &self.session).with("mcp-protocol-version", "2025-11-25")
            }
            Era::Modern => {
                let request = request.with("mcp-protocol-version", "2026-07-28").with("mcp-method", method);
                if name.is_empty() { request } else { request.with("mcp-name", name) }
            }
        }
    }

    pub(crate) fn send(&self, method: &str, name: &str, members: &str) -> Answer {
        self.client.send(&self.request(method, name, members))
    }

    pub(crate) fn ask(&self, method: &str, name: &str, members: &str) -> Value {
        let answer = self.send(method, name, members);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.messages().pop().unwrap()
    }

    pub(crate) fn call(&self, tool: &str, arguments: &str) -> Value {
        self.ask("tools/call", tool, &format!(r#""name":"{tool}","arguments":{arguments},"#))["result"]
            .clone()
    }

    /// The machine-readable part of a result that is an error of ours; null of any other.
    fn refused(&self, tool: &str, arguments: &str) -> Value {
        self.call(tool, arguments)["_meta"]["portcullis/error"].clone()
    }
}

fn calls(daemon: &Daemon, upstream: &str) -> usize {
    daemon.journal(upstream).received("tools/call").len()
}

#[test]
fn a_call_too_many_is_told_its_model_and_reaches_nobody() {
    for era in ERAS {
        let limits = "limits: [{ name: few, per: principal, method: tools/call, rate: 3/h, burst: 3 }]";
        let setup = Setup::one("alpha", Script::tools(&["act"])).tenant(KEYS).tenant(limits);
        let daemon = settled(&setup, &["alpha"]);
        let (ann, bob) = (Somebody::of(&daemon, "ann", era), Somebody::of(&daemon, "bob", era));
        for number in 0..3 {
            assert!(ann.refused("alpha__act", &json!({ "n": number }).to_string()).is_null());
            // Lists cost nothing.
            assert_eq!(ann.ask("tools/list", "", "")["result"]["tools"].as_array().unwrap().len(), 1);
        }
        let refused = ann.call("alpha__act", "{}");
        assert_eq!(refused["isError"], true, "{refused}");
        let said = &refused["_meta"]["portcullis/error"];
        assert_eq!(said["reason"], "rate_limited");
        assert!((1100..=1200).contains(&said["retry_after"].as_u64().unwrap()), "{said}");
        assert!(refused["content"][0]["text"].as_str().unwrap().contains("Try again in"), "{refused}");
        // Who looks for what there is makes attempts as well.
        assert_eq!(ann.refused("alpha__none", "{}")["reason"], "rate_limited");
        assert!(bob.refused("alpha__act", "{}").is_null(), "another principal");
        assert_eq!(calls(&daemon, "alpha"), 4);
        let lines = daemon.entry("the refusal", |line| line["rule"] == "limit:few");
        let last = lines.last().unwrap();
        assert_eq!((&last["decision"], &last["check"]), (&json!("deny"), &json!("limits")));
        assert_eq!((&last["outcome"], &last["reason"]), (&json!("denied"), &json!("rate_limited")));
        let counted = r#"portcullis_limited_total{limit="limit:few",tenant="acme"} 2"#;
        assert!(daemon.get("/metrics").text().contains(counted));
        let shown = &daemon.status()["tenants"][0];
        assert_eq!(shown["limits"][0], json!({ "name": "few", "counted": 2 }));
        assert_eq!(
            (&shown["limits"][1]["name"], &shown["runaway"]),
            (&json!("running-principal"), &json!("off"))
        );
    }
}

#[test]
fn what_is_no_call_is_told_in_an_error_and_the_door_by_http() {
    let limits = "limits:\n  - { per: principal, method: reads, rate: 1/h }\n  - { per: principal, sessions: 1 }\n  \
                  - { per: principal, method: lists, rate: 2/h, burst: 2 }";
    let script = Script::tools(&["act"]).resource("file:///a");
    let daemon = settled(&Setup::one("alpha", script).tenant(KEYS).tenant(limits), &["alpha"]);
    let ann = Somebody::of(&daemon, "ann", Era::Legacy);
    let listed = ann.ask("resources/list", "", "");
    let uri = listed["result"]["resources"][0]["uri"].as_str().unwrap().to_owned();
    let read = || ann.ask("resources/read", &uri, &format!(r#""uri":"{uri}","#));
    read();
    let refused = read();
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    assert_eq!(refused["error"]["data"]["reason"], "rate_limited");
    assert!(refused["error"]["data"]["retry_after"].as_u64().unwrap() > 3500);
    assert!(ann.ask("tools/list", "", "")["result"].is_object());
    assert_eq!(
        ann.ask("tools/list", "", "")["error"]["code"],
        -32603,
        "lists are counted where a rule says so"
    );
    let second = ann.open();
    assert_eq!(second.status, 429, "{}", second.text());
    assert!(second.header("retry-after").is_some());
}

#[test]
fn a_place_is_free_again_however_the_call_ended() {
    for era in ERAS {
        let limits = "limits: [{ per: principal, method: tools/call, concurrent: 1 }]";
        let script = Script::tools(&["wait", "act"])
            .on_call("wait", &[Step::gate("go"), Step::result(r#"{"content":[]}"#)]);
        let daemon = settled(&Setup::one("alpha", script).tenant(KEYS).tenant(limits), &["alpha"]);
        let ann = Somebody::of(&daemon, "ann", era);
        let waits = ann.request("tools/call", "alpha__wait", r#""name":"alpha__wait","arguments":{},"#);
        let running = ann.client.begin(&waits);
        daemon.journal("alpha").waits_at("go");
        assert_eq!(ann.refused("alpha__act", "{}")["reason"], "busy", "{era:?}");
        assert!(Somebody::of(&daemon, "bob", era).refused("alpha__act", r#"{"b":1}"#).is_null());
        if era == Era::Legacy {
            // Its answer comes. The modern one is cancelled.
            daemon.journal("alpha").open("go");
        }
        drop(running);
        until("a free place", || ann.refused("alpha__act", "{}").is_null().then_some(()));
    }
}

#[test]
fn an_agent_that_goes_in_circles_is_told_then_refused() {
    for era in ERAS {
        let runaway = "runaway: { repeats: 3, errors: 4, within: 10m, except: [alpha__poll] }";
        let script = Script::tools(&["act", "poll", "fail"]).on_call("fail", &[Step::result(FAILS)]);
        let daemon = settled(&Setup::one("alpha", script).tenant(KEYS).tenant(runaway), &["alpha"]);
        let ann = Somebody::of(&daemon, "ann", era);
        for _ in 0..3 {
            assert!(ann.refused("alpha__act", r#"{"a":1,"b":2}"#).is_null());
        }
        // The same arguments, spelled otherwise.
        let told = ann.call("alpha__act", r#"{"b": 2, "a": 1}"#);
        assert_eq!(told["_meta"]["portcullis/error"], json!({ "reason": "runaway", "pattern": "repeat" }));
        assert!(told["content"][0]["text"].as_str().unwrap().contains("in circles"), "{told}");
        let refused = ann.refused("alpha__act", r#"{"a":1,"b":2}"#);
        assert!(refused["retry_after"].as_u64().unwrap() > 500, "{refused}");
        assert_eq!(calls(&daemon, "alpha"), 3);
        assert!(Somebody::of(&daemon, "bob", era).refused("alpha__act", r#"{"a":1,"b":2}"#).is_null());
        assert!(ann.refused("alpha__act", r#"{"a":2}"#).is_null(), "something else");
        assert!(ann.refused("alpha__act", r#"{"a":1,"b":2}"#).is_null(), "and then that again");
        (0..9).for_each(|_| assert!(ann.refused("alpha__poll", "{}").is_null()));
        for number in 0..4 {
            assert!(ann.refused("alpha__fail", &format!(r#"{{"n":{number}}}"#)).is_null());
        }
        assert_eq!(ann.refused("alpha__fail", r#"{"n":9}"#)["pattern"], "errors");
        daemon.entry("the record", |line| line["rule"] == "limit:runaway:errors");
    }
}

#[test]
fn what_an_untrusted_server_said_is_kept_from_leaving() {
    for era in ERAS {
        let rules = "rules:\n  - { name: all, effect: allow }\n  - { name: kept, effect: deny, when: 'session.tainted && tool.egress' }\n";
        let setup = Setup::new()
            .upstream_with("web", Script::tools(&["read"]), "trust: untrusted")
            .upstream_with("mail", Script::tools(&["send", "look"]), "egress: [send]")
            .tenant("virtual_servers: { default: { upstreams: [web, mail], mixed_trust: true } }")
            .tenant("policies: [policies/acme.yaml]\ntaint: { for: 1h }")
            .tenant(KEYS)
            .file("policies/acme.yaml", rules);
        let daemon = settled(&setup, &["web", "mail"]);
        let (ann, bob) = (Somebody::of(&daemon, "ann", era), Somebody::of(&daemon, "bob", era));
        assert!(ann.refused("mail__send", "{}").is_null(), "nothing was read yet");
        ann.call("web__read", "{}");
        assert_eq!(ann.refused("mail__send", "{}")["reason"], "denied", "{era:?}");
        assert!(ann.refused("mail__look", "{}").is_null(), "it carries nothing out");
        assert!(bob.refused("mail__send", "{}").is_null(), "another conversation");
        // Sessions of one principal are conversations of their own; without sessions there is one.
        let other = Somebody::of(&daemon, "ann", era);
        assert_eq!(other.refused("mail__send", "{}").is_null(), era == Era::Legacy);
    }
}

#[test]
fn a_stream_too_many_is_refused_counted_and_on_record() {
    let limits = "limits: [{ name: ears, per: principal, streams: 1 }]";
    let setup = Setup::one("alpha", Script::tools(&["act"])).process("legacy_sse: true").tenant(limits);
    let daemon = settled(&setup, &["alpha"]);
    let open = || {
        let stream = Request::new("GET", "/sse").with("accept", "text/event-stream");
        daemon.stranger().begin(&stream).stream()
    };
    let heard = open();
    assert_eq!(heard.head.status, 200);
    assert_eq!(open().head.status, 429);
    let lines = daemon.entry("the refusal", |line| line["rule"] == "limit:ears");
    assert_eq!(lines.last().unwrap()["decision"], "deny");
    let counted = r#"portcullis_limited_total{limit="limit:ears",tenant="acme"} 1"#;
    assert!(daemon.get("/metrics").text().contains(counted), "{}", daemon.get("/metrics").text());
}
