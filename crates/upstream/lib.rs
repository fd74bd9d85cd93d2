//! Talking to MCP servers: one process or session a seat, one exchange a request.
//!
//! Read `connection.rs` for what the gateway uses, `upstream.rs` for how a server is kept up, `stdio.rs` for a process and
//! `supervisor.rs` for the other side of it, `remote.rs` for a server over HTTP.

pub mod egress;
pub mod supervisor;

mod backoff;
mod burst;
mod caller;
mod connection;
mod counters;
mod credential;
mod declared;
mod error;
mod exchange;
mod hello;
mod keeper;
mod lines;
mod link;
mod notice;
mod peer;
mod pool;
mod probe;
mod remote;
mod spec;
mod stderr;
mod stdio;
mod tending;
mod upstream;
mod wishes;

pub use caller::Caller;
pub use connection::{Connection, Facts, Outbound, Wait};
pub use counters::{Counters, counters};
pub use credential::{
    ClientKey, ClientProof, Credential, Fact, Grant, Identity, Proof, Signer, Signing, TokenServer,
    metadata_places,
};
pub use declared::Declared;
pub use error::UpstreamError;
pub use exchange::{Exchange, Incoming};
pub use notice::{Notice, What};
pub use pool::Pool;
pub use spec::{Address, EraFound, EraMemory, Launch, LegacySse, Patience, Reach, Seat, Spec};
pub use upstream::{Hold, State, Upstream};
pub use wishes::Watching;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod scripted;
