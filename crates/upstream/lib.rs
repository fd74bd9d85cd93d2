//! Talking to MCP servers: one process a seat, one exchange a request.
//!
//! Read `connection.rs` for what the gateway uses, `upstream.rs` for how a server is kept running, `stdio.rs` for the process
//! itself and `supervisor.rs` for the other side of it.

pub mod supervisor;

mod backoff;
mod burst;
mod connection;
mod counters;
mod error;
mod exchange;
mod keeper;
mod lines;
mod link;
mod notice;
mod pool;
mod probe;
mod spec;
mod stderr;
mod stdio;
mod upstream;

pub use connection::{Connection, Facts, Wait};
pub use counters::{Counters, counters};
pub use error::UpstreamError;
pub use exchange::{Exchange, Incoming};
pub use notice::{Notice, What};
pub use pool::Pool;
pub use spec::{EraFound, EraMemory, Launch, Patience, Seat, Spec};
pub use upstream::{State, Upstream};

#[cfg(test)]
mod scripted;
