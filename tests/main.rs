//! The daemon, driven from outside: real processes, scripted servers, loopback only.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "all of this is tests, and a test that cannot go on has failed"
)]

mod story;

mod matrix;
mod names_and_lists;
mod revisions;

mod batches;
mod front_sse;
mod logging;
mod streams;
mod subscriptions;
mod transports;

mod limits;
mod recorded;
mod refusals;

mod asking;
mod parking;
mod tasks;
mod upstreams;

mod hostile_upstreams;

mod canary;
mod hidden;
mod policy;
mod reload;
mod shutdown;

mod config_cli;
mod connect;
mod demo;
mod rmcp;

mod memory;
mod tidy;

use std::process::Command;

use serde_json::Value;
use testkit::{Daemon, Setup, until};

/// The program under test.
const PORTCULLIS: &str = env!("CARGO_BIN_EXE_portcullis");

/// Which revision a handshake asks for, and which it agrees to.
const HANDSHAKES: [(&str, &str); 6] = [
    ("2024-11-05", "2024-11-05"),
    ("2025-03-26", "2025-03-26"),
    ("2025-06-18", "2025-06-18"),
    ("2025-11-25", "2025-11-25"),
    ("2026-07-28", "2025-11-25"),
    ("1999-01-01", "2025-11-25"),
];

/// A running daemon whose upstreams are all listed.
fn settled(setup: &Setup, upstreams: &[&str]) -> Daemon {
    let daemon = setup.start(PORTCULLIS);
    for upstream in upstreams {
        daemon.settled(upstream);
    }
    daemon
}

/// Has other rules of the tenant `acme` in force.
fn govern(daemon: &Daemon, rules: &str) {
    daemon.rewrite("policies/acme.yaml", |_| rules.to_owned());
    daemon.reload();
    // The files are watched too, and may have been read while they were written.
    until("the rules to be in force", || daemon.status()["reload_refused"].is_null().then_some(()));
}

/// What `portcullis token` says to a running daemon's operator, as JSON; null when that is none.
fn token(daemon: &Daemon, arguments: &[&str]) -> Value {
    let output = Command::new(PORTCULLIS)
        .arg("token")
        .args(arguments)
        .args(["--admin", &daemon.admin(), "--config"])
        .arg(daemon.folder().config())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}
