//! What rules hide from somebody is in nothing that they are told, from the moment on at which the rules are in force
//! (spec T-04): not in what a server says of itself, not among what is missing, not in what goes on for long.

use serde_json::{Value, json};
use testkit::{Asker, Daemon, Script, Setup, Step, Stream};
use wire::Era;

use crate::{govern, settled};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
/// Streams on which nothing is said stay silent, so that a test that waits in vain ends.
const QUIET: &str = "keepalive: 2m";
const ALL: &str = "rules: [{ name: all, effect: allow }]\n";
/// Only ann sees anything of `beta`.
const ANNS: &str = r#"
default: allow
rules: [{ name: anns, upstreams: [beta], when: 'principal.id != "ann"', effect: deny }]
"#;

fn governed(setup: Setup, rules: &str) -> Setup {
    let keys = "identity: { keys: true }\npolicies: [policies/acme.yaml]";
    setup.tenant(keys).process(QUIET).file("policies/acme.yaml", rules)
}

fn somebody(daemon: &Daemon, name: &str, era: Era) -> Asker {
    Asker::new(daemon, "/mcp", &daemon.api_key("acme", name, &[]), era, json!({}))
}

/// What is told unasked: on the session's stream, or to who listens for all of this.
fn told(asker: &Asker, wanted: &Value) -> Stream {
    match asker.era {
        Era::Legacy => asker.client.listen(),
        Era::Modern => {
            let mut stream = asker.begin("subscriptions/listen", &json!({ "notifications": wanted }));
            let first = stream.next_message().unwrap();
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
            stream
        }
    }
}

fn touched(uri: &str) -> Step {
    Step::send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#
    ))
}

#[test]
fn other_rules_are_told_as_the_lists_that_they_change() {
    for era in ERAS {
        let setup = Setup::one("alpha", Script::tools(&["act", "wipe"]).prompt("ask"));
        let daemon = settled(&governed(setup, ALL), &["alpha"]);
        let ann = somebody(&daemon, "ann", era);
        let mut stream = told(&ann, &json!({ "toolsListChanged": true, "promptsListChanged": true }));
        let fewer = "default: allow\nrules: [{ name: less, tools: [alpha__wipe], effect: deny }]\n";
        govern(&daemon, fewer);
        let first = stream.next_message().unwrap();
        assert_eq!(first["method"], "notifications/tools/list_changed", "{era:?}");
        // What changes nothing for its listener is not told.
        govern(&daemon, &fewer.replace("less", "renamed"));
        govern(&daemon, "default: allow\nrules: [{ name: less, prompts: [alpha__ask], effect: deny }]\n");
        let next = [(); 2].map(|()| stream.next_message().unwrap()["method"].clone());
        let both = ["notifications/tools/list_changed", "notifications/prompts/list_changed"];
        assert!(both.iter().all(|method| next.contains(&json!(method))), "{next:?}");
    }
}

#[test]
fn a_followed_resource_that_was_taken_away_is_told_of_no_more() {
    let script = Script::new()
        .resource("mem://one")
        .resource("mem://two")
        .capabilities(r#"{"resources":{"subscribe":true}}"#)
        .on("resources/subscribe", &[Step::result("{}")])
        .on_cue("touch", &[touched("mem://one"), touched("mem://two")]);
    for era in ERAS {
        let setup = Setup::new().upstream_with("alpha", script.clone(), "share: tenant");
        let daemon = settled(&governed(setup, ALL), &["alpha"]);
        let ann = somebody(&daemon, "ann", era);
        let uris = ["alpha+mem://one", "alpha+mem://two"];
        if era == Era::Legacy {
            for uri in uris {
                ann.result("resources/subscribe", &json!({ "uri": uri }));
            }
        }
        let mut stream = told(&ann, &json!({ "resourceSubscriptions": uris }));
        govern(&daemon, "default: allow\nrules: [{ name: one, resources: [\"mem://one\"], effect: deny }]\n");
        daemon.journal("alpha").cue("touch");
        let heard = std::iter::from_fn(|| stream.next_message())
            .find(|message| message["method"] == "notifications/resources/updated");
        assert_eq!(heard.unwrap()["params"]["uri"], "alpha+mem://two", "{era:?}");
    }
}

#[test]
fn who_may_see_nothing_of_a_server_does_not_read_what_it_says_of_itself() {
    let script = |name: &str| Script::tools(&["act"]).instructions(&format!("All about {name}."));
    for reach in [Era::Legacy, Era::Modern] {
        let dressed = |name: &str| if reach == Era::Modern { script(name).modern() } else { script(name) };
        let setup = Setup::one("alpha", dressed("alpha")).upstream("beta", dressed("beta"));
        let daemon = settled(&governed(setup, ANNS), &["alpha", "beta"]);
        let said = |name: &str, era: Era| {
            let asker = Asker::new(&daemon, "/mcp", &daemon.api_key("acme", name, &[]), era, json!({}));
            let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {} });
            let answer = match era {
                Era::Legacy => {
                    let hello = asker.request("initialize", &hello).without("mcp-session-id");
                    asker.client.send(&hello).message()["result"].clone()
                }
                Era::Modern => asker.result("server/discover", &json!({})),
            };
            answer["instructions"].as_str().unwrap_or_default().to_owned()
        };
        for era in ERAS {
            assert_eq!(
                said("ann", era),
                "# alpha\n  All about alpha.\n\n# beta\n  All about beta.",
                "{era:?}"
            );
            assert_eq!(said("bob", era), "# alpha\n  All about alpha.", "{era:?}");
        }
    }
}

#[test]
fn a_server_that_is_missing_is_missed_by_those_who_may_see_something_of_it() {
    let dies = Script::tools(&["act"]).on_cue("die", &[Step::exit(1)]);
    let setup = Setup::one("alpha", Script::tools(&["act"])).upstream("beta", dies).upstream_as(
        "gamma",
        // Nothing is ever known of it.
        "command: \"false\"\nenv: {}",
    );
    let rules = ANNS.replace("[beta]", "[beta, gamma]");
    let daemon = settled(&governed(setup, &rules), &["alpha", "beta"]);
    daemon.journal("beta").cue("die");
    testkit::until("beta to be gone", || (daemon.state_of("beta")["state"] == "down").then_some(()));
    testkit::until("gamma to be gone", || (daemon.state_of("gamma")["state"] == "down").then_some(()));
    for era in ERAS {
        for method in ["tools/list", "prompts/list", "resources/list"] {
            let [ann, bob] = ["ann", "bob"].map(|name| {
                let result =
                    somebody(&daemon, name, era).send(method, &json!({})).message()["result"].clone();
                result["_meta"]["portcullis/incomplete"].clone()
            });
            if method == "tools/list" {
                assert_eq!(ann, json!(["beta", "gamma"]), "{era:?}");
            }
            assert_eq!(bob, Value::Null, "{era:?} {method}");
        }
    }
}

#[test]
fn what_a_server_logs_is_not_heard_by_who_may_see_nothing_of_it_any_more() {
    let logged = |word: &str| {
        Step::send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","data":"{word}"}}}}"#
        ))
    };
    let script = Script::tools(&["act"])
        .capabilities(r#"{"tools":{},"logging":{}}"#)
        .on_cue("one", &[logged("one")])
        .on_cue("two", &[logged("two")]);
    let setup = Setup::one("alpha", Script::tools(&["act"])).upstream("beta", script);
    let daemon = settled(&governed(setup, ALL), &["alpha", "beta"]);
    let bob = somebody(&daemon, "bob", Era::Legacy);
    let mut stream = bob.client.listen();
    // He has a process of his own from his first call on.
    bob.result("tools/call", &json!({ "name": "beta__act", "arguments": {} }));
    govern(&daemon, ANNS);
    let journal = daemon.journal("beta");
    journal.cue("one");
    testkit::until("it to be counted as heard by nobody", || {
        daemon.log().contains("\\\"one\\\"").then_some(())
    });
    govern(&daemon, ALL);
    journal.cue("two");
    let heard = std::iter::from_fn(|| stream.next_message())
        .find(|message| message["method"] == "notifications/message");
    assert_eq!(heard.unwrap()["params"]["data"], "two");
}

#[test]
fn what_goes_on_ends_with_the_tenant_it_belongs_to() {
    let other =
        "tenant: other\nidentity: { keys: true }\nupstreams:\n  one: { command: sh, trust: trusted }\n";
    for era in ERAS {
        let setup = Setup::one("alpha", Script::tools(&["act"]))
            .tenant("identity: { keys: true }")
            .process(QUIET)
            .file("tenants/other.yaml", other);
        let daemon = settled(&setup, &["alpha"]);
        let key = daemon.api_key("acme", "ann", &[]);
        let ann = Asker::new(&daemon, "/t/acme/mcp", &key, era, json!({}));
        let stream = told(&ann, &json!({ "toolsListChanged": true }));
        std::fs::remove_file(daemon.folder().path().join("tenants/acme.yaml")).unwrap();
        daemon.reload();
        // It ends at the next look at the credential, if not at once.
        let last = stream.all();
        assert!(last.iter().all(|message| message["method"].is_null()), "{era:?} {last:?}");
    }
}
