//! What a hostile body costs.

use testkit::{Script, Setup, processes};

use crate::settled;

const MIB: usize = 1024 * 1024;

/// As many `[0],` as fit into the largest body that is read.
fn nested(before: &str, after: &str) -> String {
    let room = 4 * MIB - before.len() - after.len() - 3;
    format!("{before}{}[0]{after}", "[0],".repeat(room / 4))
}

#[test]
fn a_body_of_many_small_arrays_costs_less_than_eight_times_its_size() {
    let call =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"alpha__act","arguments":{"x":["#;
    for (what, body) in [
        ("an array", nested("[", "]")),
        ("no JSON at all", nested("", "")),
        ("arguments", nested(call, "]}}}")),
        ("an id", nested(r#"{"jsonrpc":"2.0","method":"ping","id":["#, "]}")),
    ] {
        // Each for itself: what one leaves behind would count for the next.
        let daemon = settled(&Setup::one("alpha", Script::tools(&["act"])), &["alpha"]);
        let client = daemon.client();
        // Everything that is set up once is set up.
        client.call("alpha__act", "{}");
        let (before, _) = processes::memory(daemon.pid());
        let size = body.len() as u64;
        let answer = client.say(&body);
        assert_eq!(answer.status, 400, "{what}: {}", answer.text());
        let (_, peak) = processes::memory(daemon.pid());
        let cost = peak.saturating_sub(before);
        eprintln!("{what}: {cost} bytes for {size}, {:.1} times", cost as f64 / size as f64);
        assert!(cost < 8 * size, "{what}: {cost} bytes for {size}");
        assert_eq!(client.request("ping", "{}").status, 200);
    }
}
