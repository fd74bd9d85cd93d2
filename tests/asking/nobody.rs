//! Where nobody is to be asked, or somebody else.

use super::*;

over! {
    whoever_cannot_be_found_or_does_not_listen_is_not_asked
    roots_that_change_are_told_to_the_servers_that_know_of_them
    what_is_asked_outside_of_any_call_is_refused
    of_two_calls_at_once_each_is_asked_on_its_own_stream_or_nobody_is
    a_state_is_worth_nothing_to_anybody_else
}

fn whoever_cannot_be_found_or_does_not_listen_is_not_asked(reach: Reach) {
    let params = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"alpha__ask"}}"#;
    for (share, accept) in
        [("tenant", "application/json, text/event-stream"), ("principal", "application/json")]
    {
        let script = legacy("elicitation/create", FORM);
        let setup = Setup::new().upstream_with("alpha", script, &format!("share: {share}"));
        let daemon = settled(&setup, reach, &["alpha"]);
        let client = able(&daemon, "2025-11-25", ELICITATION);
        let aside = client.listen();
        let told = client.send(&client.post(params).with("accept", accept)).messages();
        assert_eq!(told.len(), 1, "{share}: {told:?}");
        let error = &told[0]["result"]["structuredContent"]["answer"]["error"];
        assert_eq!(error["code"], -32602, "{share}: {told:?}");
        client.delete();
        assert!(!format!("{:?}", aside.all()).contains("elicitation"));
    }
}

fn roots_that_change_are_told_to_the_servers_that_know_of_them(reach: Reach) {
    let allow = format!("allow: [{}]", roots(reach));
    let setup = Setup::one("alpha", Script::tools(&["act"])).tenant(&allow);
    let daemon = settled(&setup, reach, &["alpha"]);
    let (with, without) = (able(&daemon, "2025-11-25", ALL), able(&daemon, "2025-11-25", ELICITATION));
    for client in [&with, &without] {
        client.call("alpha__act", "{}");
        assert_eq!(client.notify("notifications/roots/list_changed", "{}").status, 202);
    }
    daemon.journal("alpha").awaits("notifications/roots/list_changed");
    with.call("alpha__act", "{}");
    without.call("alpha__act", "{}");
    assert_eq!(daemon.journal("alpha").received("notifications/roots/list_changed").len(), 1);
}

fn what_is_asked_outside_of_any_call_is_refused(reach: Reach) {
    let asks = format!(
        r#"{{"jsonrpc":"2.0","id":"out of the blue","method":"elicitation/create","params":{FORM}}}"#
    );
    let script = Script::tools(&["act"]).on_cue("ask", &[Step::send(&asks)]);
    let daemon = settled(&Setup::one("alpha", script), reach, &["alpha"]);
    let client = able(&daemon, "2025-11-25", ELICITATION);
    let aside = client.listen();
    client.call("alpha__act", "{}");
    let journal = daemon.journal("alpha");
    journal.cue("ask");
    let told = until("the refusal", || {
        journal.answers().into_iter().find(|answer| answer["id"] == "out of the blue")
    });
    assert_eq!(told["error"]["code"], -32602, "{told}");
    client.delete();
    assert!(!format!("{:?}", aside.all()).contains("elicitation"));
}

/// Over HTTP a question comes on the stream of its call. What a process asks may be about any of its calls (spec Q-03).
fn of_two_calls_at_once_each_is_asked_on_its_own_stream_or_nobody_is(reach: Reach) {
    let named = r#"{"message":"for ${id}","requestedSchema":{"type":"object","properties":{}}}"#;
    let ask = Step::ask(r#""q${id}""#, "elicitation/create", named);
    let steps = [Step::gate("both"), ask, Step::gate("told"), Step::result(TOLD)];
    let script = Script::tools(&["ask"]).on_call("ask", &steps);
    let daemon = settled(&Setup::one("alpha", script), reach, &["alpha"]);
    let client = able(&daemon, "2025-11-25", ELICITATION);
    let begun = [(); 2].map(|()| client.start("tools/call", r#"{"name":"alpha__ask","arguments":{}}"#));
    let journal = daemon.journal("alpha");
    until("both calls", || (journal.received("tools/call").len() == 2).then_some(()));
    journal.open("both");
    let mut streams = begun.map(testkit::Pending::stream);
    if reach == Reach::Http {
        let asked = streams.each_mut().map(|stream| question(stream, "elicitation/create"));
        assert_ne!(asked[0]["params"]["message"], asked[1]["params"]["message"]);
        asked.iter().for_each(|question| answer(&client, question, ACCEPT));
    }
    until("both answers", || (journal.answers().len() == 2).then_some(()));
    journal.open("told");
    for stream in streams {
        let told = stream.all();
        let answer = &told.last().unwrap()["result"]["structuredContent"]["answer"];
        match reach {
            Reach::Stdio => assert_eq!(answer["error"]["code"], -32602, "{told:?}"),
            Reach::Http => assert_eq!(answer["result"]["content"]["ok"], "yes", "{told:?}"),
        }
    }
}

fn a_state_is_worth_nothing_to_anybody_else(reach: Reach) {
    let setup = Setup::one("alpha", modern(&elicits(r#","requestState":"theirs""#)));
    let daemon = settled(&setup.tenant("identity: { keys: true }"), reach, &["alpha"]);
    let client = daemon.stranger();
    let keys = ["ann", "bob"].map(|principal| {
        let made = token(&daemon, &["key", "--principal", principal, "-o", "json"]);
        format!("Bearer {}", made["key"].as_str().unwrap())
    });
    let ask = |key: &str, more: &str| {
        let request = alone(&client, ELICITATION, "alpha__ask", more).with("authorization", key);
        client.send(&request)
    };
    let states = keys.each_ref().map(|key| {
        let first = ask(key, "").message()["result"].clone();
        assert_eq!(first["resultType"], "input_required");
        first["requestState"].as_str().unwrap().to_owned()
    });
    let retry = |state: &str, said: &str| {
        format!(
            r#","inputResponses":{{"k":{{"action":"accept","content":{{"ok":"{said}"}}}}}},"requestState":"{state}""#
        )
    };
    let before = calls(&daemon).len();
    for (key, state) in [(&keys[1], &states[0]), (&keys[0], &states[1])] {
        assert_eq!(ask(key, &retry(state, "marker-stolen")).verdict(), (200, Some(-32602)));
    }
    assert_eq!(calls(&daemon).len(), before, "what is refused reaches nobody (spec Q-19, X-18)");
    for ((key, state), said) in keys.iter().zip(&states).zip(["marker-ann", "marker-bob"]) {
        let answer = ask(key, &retry(state, said));
        let answered = &answer.message()["result"]["structuredContent"]["params"]["inputResponses"];
        assert_eq!(answered["k"]["content"]["ok"], *said);
        assert_eq!(answer.text().matches("marker-").count(), 1, "{}", answer.text());
    }
    assert!(!daemon.audit_text().contains("marker-") && !daemon.log().contains("marker-"));
}

#[test]
fn roots_of_this_machine_stay_here_unless_the_tenant_sends_them_away() {
    let setup = Setup::one("alpha", legacy("roots/list", "{}")).tenant("allow: [roots]");
    let daemon = settled(&setup, Reach::Http, &["alpha"]);
    let told = able(&daemon, "2025-11-25", ALL).call("alpha__ask", "{}");
    assert_eq!(told["structuredContent"]["answer"]["error"]["code"], -32601);
}
