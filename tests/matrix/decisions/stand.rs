//! Two tenants of which the first has a thing of every sort for everything that can be decided.

use serde_json::{Value, json};
use testkit::{Asker, Daemon, Script, Setup, Step, until};
use wire::{Era, Kind};

use super::Row;
use crate::settled;

pub(super) fn exposed(kind: Kind, upstream: &str, word: &str) -> String {
    match kind {
        Kind::Tools | Kind::Prompts => format!("{upstream}__{word}"),
        Kind::Resources => format!("{upstream}+mem://{word}"),
        Kind::Templates => format!("{upstream}+mem://{word}/{{id}}"),
    }
}

/// Params of a method that speak of a thing of this name.
pub(super) fn params(row: Row, kind: Kind, name: &str, marker: &str) -> Value {
    let mut params = match (row, kind) {
        (Row::Refers(_), Kind::Prompts) => json!({ "ref": { "type": "ref/prompt", "name": name } }),
        (Row::Refers(_), _) => json!({ "ref": { "type": "ref/resource", "uri": name } }),
        (Row::Listens, _) => json!({ "notifications": { "resourceSubscriptions": [name] } }),
        (Row::Task, _) => json!({ "taskId": name, "inputResponses": {} }),
        (_, Kind::Tools | Kind::Prompts) => json!({ "name": name, "arguments": { "n": "bad" } }),
        (_, Kind::Resources | Kind::Templates) => json!({ "uri": name }),
    };
    if let Row::Refers(_) = row {
        params["argument"] = json!({ "name": "id", "value": "" });
    }
    params["_meta"] = json!({ "com.example/cell": marker });
    params
}

fn server(era: Era, words: &[&str]) -> Script {
    let capabilities = r#"{"tools":{},"prompts":{},"completions":{},"resources":{"subscribe":true},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let script = Script::new()
        .capabilities(capabilities)
        .on("resources/subscribe", &[Step::result("{}")])
        .on("resources/unsubscribe", &[Step::result("{}")])
        .at_start(&[Step::when("dead", &[], &[Step::exit(1)])])
        .on_cue("die", &[Step::exit(1)]);
    let followed = words.iter().flat_map(|word| [format!("mem://{word}"), format!("mem://{word}/7")]);
    let acknowledged = json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": { "notifications": { "resourceSubscriptions": followed.collect::<Vec<_>>() }, "_meta": "META" },
    });
    let meta = r#"{"io.modelcontextprotocol/subscriptionId":${id}}"#;
    let acknowledged = Step::send(&acknowledged.to_string().replace("\"META\"", meta));
    let script = match era {
        Era::Legacy => script,
        Era::Modern => script.modern().on("subscriptions/listen", &[acknowledged, Step::silence()]),
    };
    words.iter().fold(script, |script, word| {
        let (one, below) = (format!("mem://{word}"), format!("mem://{word}/{{id}}"));
        script.tool(word).prompt(word).resource(&one).template(&below)
    })
}

fn rules() -> String {
    let about = |word: &str| {
        format!(
            r#"tools: ["*__{word}"], prompts: ["*__{word}"], resources: ["mem://{word}", "mem://{word}/*"]"#
        )
    };
    let mut rules = String::from("default: deny\nrules:\n");
    for word in ["open", "later", "picky", "shadowed", "filtered", "absent"] {
        rules += &format!("  - {{ name: {word}, {}, effect: allow }}\n", about(word));
    }
    let private = about("private");
    rules +=
        &format!("  - {{ name: group, {private}, principals: {{ groups: [insiders] }}, effect: allow }}\n");
    rules += &format!("  - {{ name: scope, {private}, principals: {{ scopes: [deep] }}, effect: allow }}\n");
    rules +=
        "  - { name: inside, tools: [alpha__inside], principals: { groups: [insiders] }, effect: allow }\n";
    rules += &format!("  - {{ name: held, {}, effect: approve }}\n", about("held"));
    rules += &format!("  - {{ name: tried, {}, effect: deny, mode: shadow }}\n", about("shadowed"));
    rules
        + r#"  - { name: arguments, tools: ["*__picky"], prompts: ["*__picky"], when: 'args.n == "bad"', effect: deny }"#
}

/// What becomes a task: here, or at its server where that has tasks.
fn lasting(era: Era, id: &str) -> Step {
    match era {
        Era::Legacy => Step::gate("never"),
        Era::Modern => Step::result(&format!(
            r#"{{"resultType":"task","taskId":"{id}","status":"working","createdAt":"2026-07-28T00:00:00Z","lastUpdatedAt":"2026-07-28T00:00:00Z","ttlMs":60000,"pollIntervalMs":50}}"#
        )),
    }
}

/// Two tenants; what matters is in the first.
pub(super) fn daemon(era: Era) -> Daemon {
    let words = ["open", "private", "picky", "held", "shadowed", "unruled", "filtered"];
    let one = ["later", "inside"]
        .into_iter()
        .fold(server(era, &words), |script, tool| script.tool(tool).on_call(tool, &[lasting(era, tool)]));
    let filter = "tools: { exclude: [filtered] }\nprompts: { exclude: [filtered] }\nresources: { exclude: [\"mem://filtered*\"] }";
    let keys = "identity: { keys: true }\nrunaway: off\n";
    let other = Setup::one("beta", server(era, &["open"])).named("other").tenant(keys);
    let setup = Setup::new()
        .upstream_with("alpha", one, filter)
        .upstream("gone", server(era, &["absent"]))
        .tenant(keys)
        .tenant("policies: [policies/acme.yaml]")
        .file("policies/acme.yaml", &rules())
        .beside(other);
    let daemon = settled(&setup, &["alpha", "beta", "gone"]);
    daemon.journal("gone").open("dead");
    daemon.journal("gone").cue("die");
    until("a server to be gone", || (daemon.state_of("gone")["state"] == "down").then_some(()));
    daemon
}

/// Tasks of somebody who may see all: of a tool that all see, and of one that few do.
pub(super) fn tasks(daemon: &Daemon) -> Vec<String> {
    let key = daemon.api_key("acme", "tess", &["insiders"]);
    let tess = Asker::new(daemon, "/t/acme/mcp", &key, Era::Modern, able());
    let begin = |tool: &str| {
        let made = tess.result("tools/call", &json!({ "name": tool, "arguments": {} }));
        made["taskId"].as_str().unwrap().to_owned()
    };
    ["alpha__later", "alpha__inside"].map(begin).to_vec()
}

pub(super) fn able() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}
