//! Every method of the table × every revision of a client × both eras of a server, over stdio and HTTP × everything that
//! can be decided about a message. What must become of each is derived, not listed: see `matrix/oracle.rs`.

mod cell;
mod decisions;
mod giving_up;
mod oracle;

use std::collections::HashMap;

use serde_json::{Value, json};
use testkit::{Answer, Client, Daemon, Reach, Script, Setup, Step, until};
use wire::{Era, Method, Plan, Revision};

use self::{
    cell::{Cell, Decision},
    oracle::{Expected, Fate, Promises, expected},
};
use crate::settled;

const CAPABILITIES: &str =
    r#"{"tools":{},"resources":{"subscribe":true},"prompts":{},"completions":{},"logging":{}}"#;
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A server that has one of everything, and one more of everything that nobody may see.
fn script(era: Era) -> Script {
    let ack = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["mem://one"]},"_meta":{"io.modelcontextprotocol/subscriptionId":${id}}}}"#;
    let script = Script::tools(&["act", "secret"])
        .resource("mem://one")
        .resource("mem://secret")
        .template("mem://{id}")
        .prompt("ask")
        .prompt("secret")
        .capabilities(CAPABILITIES)
        .on("logging/setLevel", &[Step::result("{}")])
        .on("resources/subscribe", &[Step::result("{}")])
        .on("resources/unsubscribe", &[Step::result("{}")]);
    match era {
        Era::Legacy => script,
        Era::Modern => script.modern().on("subscriptions/listen", &[Step::send(ack)]),
    }
}

fn daemon(era: Era, reach: Reach) -> Daemon {
    let poor = match era {
        Era::Legacy => Script::new(),
        Era::Modern => Script::new().modern(),
    };
    let hidden = "tools: { exclude: [secret] }\nprompts: { exclude: [secret] }\nresources: { exclude: [\"mem://secret\"] }";
    let servers = "virtual_servers:\n  default: { upstreams: [alpha] }\n  poor: { upstreams: [beta] }";
    let setup = Setup::new().upstream_with("alpha", script(era), hidden).upstream("beta", poor);
    settled(&setup.tenant(servers).reached(reach), &["alpha", "beta"])
}

/// One daemon, all that was sent to it, and all that was not as it must be.
struct Run {
    daemon: Daemon,
    era: Era,
    sent: usize,
    /// Cells, and whether the upstream must have heard of them.
    told: HashMap<String, (Cell, Fate)>,
    wrong: Vec<String>,
}

impl Run {
    fn new(era: Era, reach: Reach) -> Run {
        let daemon = daemon(era, reach);
        Run { daemon, era, sent: 0, told: HashMap::new(), wrong: Vec::new() }
    }

    fn client(&mut self, revision: Revision, path: &str) -> Client {
        let mut client = self.daemon.stranger();
        client.path = path.to_owned();
        if revision.era() == Era::Legacy {
            let answer = client.initialize(revision.text());
            assert_eq!(answer.message()["result"]["protocolVersion"], revision.text());
            self.sent += 2;
        }
        client
    }

    /// What is promised at an endpoint.
    fn promises(&mut self, path: &str) -> Promises {
        let stranger = self.daemon.stranger();
        let mut client = self.daemon.stranger();
        client.path = path.to_owned();
        let legacy = client.initialize("2025-11-25").message()["result"]["capabilities"].clone();
        let discovered = stranger.send(&discovery(path)).message();
        self.sent += 3;
        Promises { legacy, modern: discovered["result"]["capabilities"].clone() }
    }

    fn play(&mut self, cell: Cell, client: &Client, promises: &Promises) {
        let expected = expected(&cell, promises);
        let answer = cell.send(client);
        let usable = match cell.revision.era() {
            Era::Legacy => client.request("ping", "{}").status,
            Era::Modern => client.send(&discovery(&client.path)).status,
        };
        self.sent += 2;
        self.told.insert(cell.marker(), (cell, expected.fate));
        let faults = [judged(&cell, &expected, &answer), (usable != 200).then(|| format!("then {usable}"))];
        for fault in faults.into_iter().flatten() {
            self.fault(&cell, &format!("expected {expected:?}, but {fault}: {}", answer.text()));
        }
    }

    fn fault(&mut self, cell: &Cell, why: &str) {
        let Cell { revision, method, decision, .. } = cell;
        let method = method.name();
        self.wrong.push(format!("{} → {:?}, {method}, {decision:?}: {why}", revision.text(), self.era));
    }

    /// A method that no revision has, in both forms (spec B-06, B-10).
    fn play_unknown(&mut self, revision: Revision, client: &Client) {
        let modern = revision.era() == Era::Modern;
        let mut params = json!({ "name": "alpha__act" });
        if modern {
            params["_meta"] = envelope();
        }
        for (id, expected) in
            [(Some("x"), (if modern { 404 } else { 200 }, Some(-32601))), (None, (202, None))]
        {
            let mut message = json!({ "jsonrpc": "2.0", "method": "tools/none", "params": params });
            if let Some(id) = id {
                message["id"] = json!(id);
            }
            let mut request = client.post(message.to_string());
            if modern {
                request = request.with("mcp-protocol-version", "2026-07-28").with("mcp-method", "tools/none");
            }
            let answer = client.send(&request);
            self.sent += 1;
            if answer.verdict() != expected || id.is_some_and(|id| answer.message()["id"] != id) {
                let why = format!("{} → {:?}, tools/none: {:?}", revision.text(), self.era, answer.verdict());
                self.wrong.push(why);
            }
        }
    }

    /// What the upstream heard: each forwarded message once and under its own names, and nothing of the others.
    fn look_upstream(&mut self) {
        let mut heard: HashMap<String, usize> = HashMap::new();
        let mut faults = Vec::new();
        let journals = ["alpha", "beta"].map(|upstream| self.daemon.journal(upstream).entries());
        for entry in journals.iter().flatten() {
            let Some(text) = entry["got"].as_str() else { continue };
            let message: Value = serde_json::from_str(text).unwrap();
            let probe = message["method"] == "server/discover";
            // Each era hears only what belongs to it (spec E-17).
            match self.era {
                Era::Legacy => assert!(probe || !text.contains(VERSION), "{text}"),
                Era::Modern => assert_ne!(message["method"], "initialize", "{text}"),
            }
            // Not even in a message of ours (spec T-04).
            assert!(!["secret", "none\"", "gamma"].iter().any(|word| text.contains(word)), "{text}");
            let Some(at) = text.find("cell-") else { continue };
            let marker = &text[at..=at + text[at..].find('.').unwrap()];
            *heard.entry(marker.to_owned()).or_default() += 1;
            let (cell, fate) = self.told[marker];
            let method = cell.method.name();
            let exposed = text.contains("alpha__") || text.contains("alpha+");
            if fate != Fate::Forwarded || message["method"] != method || exposed {
                faults.push((cell, format!("the server heard {text}")));
            }
        }
        // What is followed for somebody is followed by us, under the server's own name for it.
        let followed = match self.era {
            Era::Legacy => r#""method":"resources/subscribe","params":{"uri":"mem://one"}"#,
            Era::Modern => r#""resourceSubscriptions":["mem://one"]"#,
        };
        let follows =
            journals[0].iter().any(|entry| entry["got"].to_string().replace('\\', "").contains(followed));
        assert!(follows, "nobody asked for {followed}");
        for (marker, (cell, fate)) in &self.told {
            let times = heard.get(marker).copied().unwrap_or_default();
            if *fate == Fate::Forwarded && times != 1 {
                faults.push((*cell, format!("the server heard it {times} times")));
            }
        }
        for (cell, why) in faults {
            self.fault(&cell, &why);
        }
    }

    /// Exactly one entry for each message: one last line, and an intent before it if it may have left us.
    fn look_at_the_record(&self) {
        let lines = until("the last entry", || {
            let lines = self.daemon.audit();
            let last = lines.iter().filter(|line| line["line"] != "intent").count();
            (last >= self.sent).then_some(lines)
        });
        let mut entries: HashMap<&Value, Vec<&str>> = HashMap::new();
        for line in &lines {
            entries.entry(&line["entry"]).or_default().push(line["line"].as_str().unwrap());
        }
        assert_eq!(entries.len(), self.sent);
        for lines in entries.values() {
            assert!(**lines == ["final"] || **lines == ["intent", "outcome"], "{lines:?}");
        }
    }
}

fn envelope() -> Value {
    json!({ VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} })
}

fn discovery(path: &str) -> testkit::Request {
    let params =
        json!({ "_meta": { VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} } });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": params });
    let request = testkit::Request::post(path, body.to_string());
    request.with("mcp-protocol-version", "2026-07-28").with("mcp-method", "server/discover")
}

/// What is wrong with an answer, if anything is.
fn judged(cell: &Cell, expected: &Expected, answer: &Answer) -> Option<String> {
    if answer.verdict() != (expected.status, expected.code) {
        return Some(format!("{:?} came", answer.verdict()));
    }
    if expected.status == 202 {
        return (!answer.body.is_empty()).then(|| "it was answered".to_owned());
    }
    let message = answer.message();
    let listens = cell.method == Method::SubscriptionsListen && expected.code.is_none();
    let meta = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    let id = if listens { meta } else { &message["id"] };
    // A notification that is refused has none (spec Z-02).
    if cell.asks() && *id != cell.id() {
        return Some("the id is another".to_owned());
    }
    let session = answer.header("mcp-session-id").is_some();
    if session != (cell.method == Method::Initialize && expected.code.is_none()) {
        return Some(format!("a session: {session}")); // spec E-01
    }
    if expected.code.is_some() || listens {
        return None;
    }
    let result = &message["result"];
    if !result.is_object() || (result["resultType"] == "complete") != cell.is_modern() {
        return Some("no result of this era".to_owned()); // spec B-30, X-03
    }
    let Plan::List(kind) = cell.method.row().plan else { return None };
    let items = result[kind.member()].as_array().map_or(0, Vec::len);
    let seen = answer.text().contains("secret");
    (items != 1 || seen).then(|| format!("{items} items, hidden ones seen: {seen}"))
}

fn play(era: Era, reach: Reach) {
    let mut run = Run::new(era, reach);
    let (rich, poor) = (run.promises("/mcp"), run.promises("/mcp/poor"));
    for said in [&rich.legacy, &rich.modern] {
        for word in ["tools", "prompts", "resources", "completions", "logging"] {
            assert!(said[word].is_object(), "{word}: {said}");
            assert!(poor.legacy[word].is_null() && poor.modern[word].is_null(), "{word}");
        }
    }
    let mut number = 0;
    for revision in Revision::ALL {
        let clients = [run.client(revision, "/mcp"), run.client(revision, "/mcp/poor")];
        run.play_unknown(revision, &clients[0]);
        for &method in Method::ALL {
            for decision in Decision::ALL {
                number += 1;
                let cell = Cell { number, revision, method, decision };
                if cell.exists() {
                    let at_poor = usize::from(cell.path() == "/mcp/poor");
                    run.play(cell, &clients[at_poor], [&rich, &poor][at_poor]);
                }
            }
        }
    }
    run.look_upstream();
    assert!(
        run.wrong.is_empty(),
        "{} of {} cells:\n{}",
        run.wrong.len(),
        run.told.len(),
        run.wrong.join("\n")
    );
    run.look_at_the_record();
}

#[test]
fn clients_of_every_revision_with_a_legacy_server_over_stdio() {
    play(Era::Legacy, Reach::Stdio);
}

#[test]
fn clients_of_every_revision_with_a_legacy_server_over_http() {
    play(Era::Legacy, Reach::Http);
}

#[test]
fn clients_of_every_revision_with_a_modern_server_over_stdio() {
    play(Era::Modern, Reach::Stdio);
}

#[test]
fn clients_of_every_revision_with_a_modern_server_over_http() {
    play(Era::Modern, Reach::Http);
}
