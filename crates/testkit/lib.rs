//! Development only: a daemon to drive, MCP servers that play a script, and a client that shows every byte.
//!
//! Everything here is blocking and panics when it cannot go on: a test that cannot go on has failed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "used by tests only, and a test that cannot go on has failed"
)]

mod asker;
mod client;
mod daemon;
mod http;
pub mod processes;
mod script;
mod served;
mod setup;
mod stdio;
mod wait;

pub use asker::Asker;
pub use client::{Client, Pending};
pub use daemon::{Daemon, Journal};
pub use http::{Answer, Connection, Request, Stream};
pub use script::{Script, Step};
pub use setup::{Folder, Reach, Setup};
pub use stdio::StdioClient;
pub use wait::{LONG, until, within};
