//! The daemon, driven from outside: real processes, scripted servers, loopback only.

mod story;
mod matrix;
mod names_and_lists;
mod transports;
mod upstreams;
mod shutdown;
mod config_cli;
mod demo;
mod rmcp;
mod memory;

mod tidy;

use testkit::{Daemon, Setup};

/// The program under test.
const PORTCULLIS: &str = env!("CARGO_BIN_EXE_portcullis");

/// A running daemon whose upstreams are all listed.
fn settled(setup: &Setup, upstreams: &[&str]) -> Daemon {
    let daemon = setup.start(PORTCULLIS);
    for upstream in upstreams {
        daemon.settled(upstream);
    }
    daemon
}
