//! Servers that die, hang, shout or ask, and who shares which process.

use std::collections::HashSet;

use serde_json::{Value, json};
use testkit::{Client, Daemon, Script, Setup, Step, processes, until};
use wire::Kind;

use crate::{PORTCULLIS, settled};

fn pid(client: &Client, tool: &str) -> u64 {
    client.call(tool, "{}")["structuredContent"]["pid"].as_u64().unwrap()
}

fn runs(pid: u64) -> bool {
    processes::Process::of(u32::try_from(pid).unwrap()).is_some_and(|process| process.is_alive())
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

// ---------------------------------------------------------------- lists and bad neighbours

#[test]
fn the_dead_and_the_silent_hide_nobody() {
    let mut setup = Setup::new();
    for n in 0..10 {
        setup =
            setup.upstream(&format!("good{n}"), Script::tools(&["act"]).resource("mem://a").prompt("ask"));
    }
    for n in 0..5 {
        setup = setup.upstream(&format!("dead{n}"), Script::new().at_start(&[Step::exit(1)]));
        setup = setup.upstream(&format!("mute{n}"), Script::new().at_start(&[Step::silence()]));
    }
    let daemon = setup.start(PORTCULLIS);
    let client = daemon.client();
    for kind in Kind::ALL {
        client.list(kind);
    }
    let good: Vec<String> = (0..10).map(|n| format!("good{n}")).collect();
    for upstream in &good {
        daemon.settled(upstream);
    }
    for n in 0..5 {
        assert_eq!(daemon.state_of(&format!("mute{n}"))["connection"]["state"], "starting");
    }
    // The silent ones are silent still, and lists go on without them.
    let names = |prefix: &str| good.iter().map(|id| format!("{id}{prefix}")).collect::<Vec<_>>();
    assert_eq!(client.names(Kind::Tools), names("__act"));
    assert_eq!(client.names(Kind::Prompts), names("__ask"));
    assert_eq!(client.names(Kind::Resources), names("+mem://a"));
    let page = client.result("tools/list", "{}");
    let absent = page["_meta"]["portcullis/incomplete"].as_array().unwrap().len();
    assert_eq!(absent, 10, "the page says what it lacks");
    for upstream in &good {
        client.call(&format!("{upstream}__act"), "{}");
    }
    assert_eq!(client.error("tools/call", r#"{"name":"dead0__act"}"#)["code"], -32602);
}

#[test]
fn an_upstream_that_comes_late_is_announced() {
    let late = Script::tools(&["act"]).at_start(&[Step::gate("awake")]);
    let setup = Setup::one("late", late).upstream("alpha", Script::new()).process("list_timeout: 0s");
    let daemon = settled(&setup, &["alpha"]);
    let client = daemon.client();
    let mut stream = client.listen();
    assert_eq!(client.names(Kind::Tools), [""; 0]);
    daemon.journal("late").open("awake");
    assert_eq!(stream.next_message().unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(client.names(Kind::Tools), ["late__act"]);
}

#[test]
fn a_list_waits_for_an_upstream_in_its_first_start() {
    let late = Script::tools(&["act"]).at_start(&[Step::gate("awake")]);
    let setup = Setup::one("late", late).process("list_timeout: 30s");
    let daemon = setup.start(PORTCULLIS);
    let client = daemon.client();
    let pending = client.start("tools/list", "{}");
    let call = client.start("tools/call", r#"{"name":"late__act"}"#);
    daemon.journal("late").open("awake");
    assert_eq!(pending.answer().message()["result"]["tools"][0]["name"], "late__act");
    // So does a name that nobody has yet.
    assert_eq!(text(&call.answer().messages().pop().unwrap()["result"]), "act");
}

// ---------------------------------------------------------------- death and delay in the middle of a call

#[test]
fn a_call_in_flight_ends_with_a_result_when_its_server_dies() {
    let script = Script::tools(&["die", "wait", "act"])
        .prompt("ask")
        .on_call("die", &[Step::exit(3)])
        .on_call("wait", &[Step::gate("never")])
        .on("prompts/get", &[Step::gate("never")]);
    let daemon = settled(&Setup::new().upstream_with("alpha", script, "share: tenant"), &["alpha"]);
    let client = daemon.client();
    let before = pid(&client, "alpha__act");
    let wait = client.start("tools/call", r#"{"name":"alpha__wait"}"#);
    daemon.journal("alpha").waits_at("never");
    let prompt = client.start("prompts/get", r#"{"name":"alpha__ask"}"#);
    daemon.journal("alpha").awaits("prompts/get");

    let died = client.call("alpha__die", "{}");
    let waited = wait.answer().messages().pop().unwrap()["result"].clone();
    for result in [died, waited] {
        assert_eq!(result["isError"], true, "{result}");
        assert!(text(&result).contains("alpha"), "{result}");
        let told = &result["_meta"]["portcullis/error"];
        assert_eq!(
            (&told["reason"], &told["upstream"]),
            (&json!("upstream_exited"), &json!("alpha")),
            "{result}"
        );
    }
    let error = prompt.answer().messages().pop().unwrap()["error"].clone();
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("upstream_exited")));

    // It comes back by itself, and what it was asked is not asked again.
    daemon.settled("alpha");
    let after = until("the server to be back", || {
        let result = client.call("alpha__act", "{}");
        result["structuredContent"]["pid"].as_u64()
    });
    assert_ne!(before, after);
    let journal = daemon.journal("alpha");
    let names: Vec<_> =
        journal.received("tools/call").iter().map(|call| call["params"]["name"].clone()).collect();
    assert_eq!(names.iter().filter(|name| **name == "die").count(), 1);
    assert_eq!(names.iter().filter(|name| **name == "wait").count(), 1);
    let lines = daemon.entry("the call", |line| line["tool"] == "alpha__die");
    assert_eq!(lines.last().unwrap()["reason"], "upstream_exited");
}

#[test]
fn a_server_that_dies_at_once_makes_its_calls_results_that_say_so() {
    let script = Script::tools(&["act"]).prompt("ask").on_cue("fall", &[Step::exit(9)]);
    let daemon = settled(&Setup::one("alpha", script), &["alpha"]);
    let client = daemon.client();
    // Every process falls when it finds the cue, so from now on the server dies as often as it is started.
    daemon.journal("alpha").cue("fall");
    until("the list without it", || client.names(Kind::Tools).is_empty().then_some(()));
    // What was promised to the session holds (spec B-24).
    assert_eq!(client.names(Kind::Prompts), [""; 0]);
    let result = client.call("alpha__act", "{}");
    assert_eq!(result["isError"], true, "{result}");
    assert!(text(&result).contains("alpha"), "{result}");
    assert_eq!(result["_meta"]["portcullis/error"]["upstream"], "alpha");
}

#[test]
fn a_call_that_takes_too_long_is_cancelled_and_told() {
    let script = Script::tools(&["wait", "tick", "act"]).on_call("wait", &[Step::gate("never")]).on_call(
        "tick",
        &[
            Step::progress("1"),
            Step::gate("tick"),
            Step::result(r#"{"content":[{"type":"text","text":"ticked"}]}"#),
        ],
    );
    let setup =
        Setup::new().upstream_with("alpha", script, "share: tenant\ntimeouts: { call: 300ms, call_max: 1m }");
    let daemon = settled(&setup, &["alpha"]);
    let client = daemon.client();
    let result = client.call("alpha__wait", "{}");
    assert_eq!(result["isError"], true);
    assert_eq!(result["_meta"]["portcullis/error"]["reason"], "upstream_timed_out");
    let journal = daemon.journal("alpha");
    let told = journal.awaits("notifications/cancelled");
    assert_eq!(told["params"]["requestId"], journal.received("tools/call")[0]["id"]);
    // An answer that comes after all reaches nobody, and disturbs nobody.
    journal.open("never");
    client.call("alpha__act", "{}");
    assert_eq!(daemon.state_of("alpha")["state"], "up");
}

#[test]
fn a_session_that_ends_gives_up_what_it_runs() {
    let script = Script::tools(&["wait", "act"]).on_call("wait", &[Step::gate("never")]);
    let daemon = settled(&Setup::new().upstream_with("alpha", script, "share: tenant"), &["alpha"]);
    let client = daemon.client();
    let pending = client.start("tools/call", r#"{"name":"alpha__wait"}"#);
    let journal = daemon.journal("alpha");
    journal.waits_at("never");
    assert_eq!(client.delete().status, 204);
    let told = journal.awaits("notifications/cancelled");
    assert_eq!(told["params"]["requestId"], journal.received("tools/call")[0]["id"]);
    assert_eq!(pending.answer().messages(), [json!(null); 0]);
    let lines = daemon.entry("the call", |line| line["tool"] == "alpha__wait");
    assert_eq!(lines.last().unwrap()["outcome"], "abandoned");
    daemon.client().call("alpha__act", "{}");
}

#[test]
fn a_session_runs_a_bounded_number_of_calls() {
    let script = Script::tools(&["wait"])
        .on_call("wait", &[Step::gate("go"), Step::result(r#"{"content":[{"type":"text","text":"done"}]}"#)]);
    let daemon = settled(&Setup::new().upstream_with("alpha", script, "share: tenant"), &["alpha"]);
    let client = daemon.client();
    let waiting: Vec<_> = (0..256).map(|_| client.start("tools/call", r#"{"name":"alpha__wait"}"#)).collect();
    until("all of them to wait", || {
        let waits = daemon.journal("alpha").entries().iter().filter(|entry| entry["gate"] == "go").count();
        (waits == 256).then_some(())
    });
    let result = client.call("alpha__wait", "{}");
    assert_eq!(
        (&result["isError"], &result["_meta"]["portcullis/error"]["reason"]),
        (&json!(true), &json!("busy"))
    );
    // Lists cost nothing, and other sessions have their own bound.
    assert_eq!(client.names(Kind::Tools), ["alpha__wait"]);
    let other = daemon.client();
    let theirs = other.start("tools/call", r#"{"name":"alpha__wait"}"#);
    daemon.journal("alpha").open("go");
    for pending in waiting.into_iter().chain([theirs]) {
        assert_eq!(text(&pending.answer().messages().pop().unwrap()["result"]), "done");
    }
}

#[test]
fn what_was_learned_outlives_a_restart() {
    let mut daemon = settled(&Setup::one("alpha", Script::tools(&["b.c", "a"])), &["alpha"]);
    let names = daemon.client().names(Kind::Tools);
    assert_eq!(daemon.journal("alpha").received("server/discover").len(), 1);
    daemon.restart(PORTCULLIS);
    daemon.settled("alpha");
    let client = daemon.client();
    assert_eq!(client.names(Kind::Tools), names);
    client.call(&names[0], "{}");
    let journal = daemon.journal("alpha");
    assert_eq!(journal.received("server/discover").len(), 1, "the era is known");
    assert_eq!(journal.received("initialize").len(), 3);
    // Records go on where they were.
    let hellos = daemon.audit().iter().filter(|line| line["method"] == "initialize").count();
    assert_eq!(hellos, 2);
}

#[test]
fn one_slow_call_holds_up_no_other() {
    let script = Script::tools(&["wait", "act"]).on_call("wait", &[Step::gate("go")]);
    let daemon = settled(&Setup::new().upstream_with("alpha", script, "share: tenant"), &["alpha"]);
    let client = daemon.client();
    let waiting: Vec<_> = (0..20).map(|_| client.start("tools/call", r#"{"name":"alpha__wait"}"#)).collect();
    until("all of them to wait", || {
        let waits = daemon.journal("alpha").entries().iter().filter(|entry| entry["gate"] == "go").count();
        (waits == 20).then_some(())
    });
    client.call("alpha__act", "{}");
    daemon.client().call("alpha__act", "{}");
    drop(waiting);
}

// ---------------------------------------------------------------- who shares a process

fn shared(share: &str) -> Daemon {
    let script = Script::tools(&["act"]);
    settled(&Setup::new().upstream_with("alpha", script, &format!("share: {share}")), &["alpha"])
}

#[test]
fn a_tenants_process_serves_every_session_and_the_lists() {
    let daemon = shared("tenant");
    let (one, two) = (daemon.client(), daemon.client());
    assert_eq!(pid(&one, "alpha__act"), pid(&two, "alpha__act"));
    assert_eq!(daemon.journal("alpha").noted("start").len(), 1);
    one.delete();
    pid(&two, "alpha__act");
}

#[test]
fn anonymous_sessions_are_principals_of_their_own_and_take_their_processes_with_them() {
    for share in ["principal", "session"] {
        let daemon = shared(share);
        let (one, two) = (daemon.client(), daemon.client());
        // A session that calls nothing starts nothing.
        assert_eq!(daemon.journal("alpha").noted("start").len(), 1);
        let (first, second) = (pid(&one, "alpha__act"), pid(&two, "alpha__act"));
        assert_ne!(first, second, "{share}");
        assert_eq!(first, pid(&one, "alpha__act"), "{share}");
        assert_eq!(daemon.journal("alpha").noted("start").len(), 3);
        one.delete();
        until("the process of an ended session to be gone", || (!runs(first)).then_some(()));
        assert!(runs(second), "{share}");
        assert_eq!(second, pid(&two, "alpha__act"), "{share}");
    }
}

#[test]
fn processes_of_principals_are_capped_per_tenant() {
    let setup = Setup::one("alpha", Script::tools(&["act"])).tenant("processes: 2");
    let daemon = settled(&setup, &["alpha"]);
    let clients: Vec<_> = (0..3).map(|_| daemon.client()).collect();
    pid(&clients[0], "alpha__act");
    pid(&clients[1], "alpha__act");
    let result = clients[2].call("alpha__act", "{}");
    assert_eq!(result["_meta"]["portcullis/error"]["reason"], "too_many_processes", "{result}");
    clients[0].delete();
    until("a free place", || clients[2].call("alpha__act", "{}")["structuredContent"]["pid"].as_u64());
}

#[test]
fn idle_sessions_start_no_process() {
    let daemon = shared("principal");
    let before: HashSet<_> = processes::descendants(daemon.pid()).into_iter().collect();
    let clients: Vec<_> = (0..100).map(|_| daemon.client()).collect();
    for client in &clients {
        assert_eq!(client.names(Kind::Tools), ["alpha__act"]);
    }
    let after: HashSet<_> = processes::descendants(daemon.pid()).into_iter().collect();
    assert_eq!(after, before);
    assert_eq!(daemon.status()["sessions"], 100);
}

#[test]
fn the_environment_of_a_server_is_what_the_configuration_says() {
    let code = "import json,os,sys; open(sys.argv[1],'w').write(json.dumps([dict(os.environ), os.getcwd()]))";
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let yaml = format!(
        "command: python3\nargs: {}\nenv: {{ GIVEN: \"a b\" }}\ndir: {}",
        json!(["-c", code, seen]),
        json!(folder.path())
    );
    let daemon = Setup::new().upstream_as("alpha", &yaml).start(PORTCULLIS);
    let (variables, home): (Value, String) =
        until("the server's word", || serde_json::from_str(&std::fs::read_to_string(&seen).ok()?).ok());
    assert_eq!(variables["GIVEN"], "a b");
    assert_eq!(std::path::Path::new(&home), folder.path());
    for foreign in ["CARGO", "CARGO_MANIFEST_DIR", "NEXTEST", "RUST_LOG"] {
        assert!(variables.get(foreign).is_none(), "{foreign} in {variables}");
    }
    drop(daemon);
}

// ---------------------------------------------------------------- questions that begin upstream

#[test]
fn what_an_upstream_asks_of_a_client_is_refused_and_recorded() {
    let questions = ["sampling/createMessage", "roots/list", "elicitation/create"];
    let asks: Vec<Step> = questions
        .iter()
        .map(|method| {
            let params = r#"{"messages":[],"maxTokens":1,"message":"canary-1","requestedSchema":{}}"#;
            Step::send(&format!(
                r#"{{"jsonrpc":"2.0","id":"{method}","method":"{method}","params":{params}}}"#
            ))
        })
        .chain([
            Step::send(r#"{"jsonrpc":"2.0","id":77,"method":"ping"}"#),
            Step::result(r#"{"content":[{"type":"text","text":"asked"}]}"#),
        ])
        .collect();
    let daemon = settled(&Setup::one("alpha", Script::tools(&["ask"]).on_call("ask", &asks)), &["alpha"]);
    let client = daemon.client();
    let stream = client.listen();
    let hello = &daemon.journal("alpha").received("initialize")[0];
    assert_eq!(hello["params"]["capabilities"], json!({}), "nothing is promised in a client's name");

    assert_eq!(text(&client.call("alpha__ask", "{}")), "asked");
    let answers = until("all answers", || {
        let answers = daemon.journal("alpha").answers();
        (answers.len() == 4).then_some(answers)
    });
    for method in questions {
        let answer = answers.iter().find(|answer| answer["id"] == method).unwrap();
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
        let entry = daemon.entry(method, |line| line["method"] == method);
        assert_eq!(entry.len(), 1);
        let line = &entry[0];
        assert_eq!(
            (&line["upstream"], &line["decision"], &line["outcome"]),
            (&json!("alpha"), &json!("deny"), &json!("denied"))
        );
    }
    let pong = answers.iter().find(|answer| answer["id"] == 77).unwrap();
    assert_eq!(pong["result"], json!({}));
    assert!(!daemon.audit_text().contains("canary"));
    // The client hears nothing of it.
    client.delete();
    assert_eq!(stream.all(), [json!(null); 0]);
}

#[test]
fn a_wrapper_and_all_below_it_end_with_their_session() {
    let setup = Setup::new().wrapped("alpha", Script::tools(&["act"]).with_children());
    let daemon = settled(&setup, &["alpha"]);
    let before: HashSet<_> = processes::descendants(daemon.pid()).into_iter().collect();
    let client = daemon.client();
    client.call("alpha__act", "{}");
    let mine: Vec<_> = processes::descendants(daemon.pid())
        .into_iter()
        .filter(|process| !before.contains(process))
        .collect();
    // Supervisor, shell, server, child, and the grandchild in a session of its own.
    assert!(mine.len() >= 5, "{mine:?}");
    client.delete();
    until("all of them to be gone", || mine.iter().all(|process| !process.exists()).then_some(()));
    assert!(before.iter().all(processes::Process::is_alive), "those of others live on");
}
