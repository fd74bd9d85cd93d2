//! The life of one message, from arrival to reply. Read `pipeline.rs` first.

mod approval;
mod arrival;
mod audit;
mod authn;
mod catalog;
mod era;
mod error;
mod gateway;
mod limits;
mod pipeline;
mod relay;
mod router;
mod seal;
mod session;
mod snapshot;
mod status;
mod store;
mod telemetry;

pub use arrival::{
    Arrival, BodyError, Endpoint, Head, Listening, Mirrored, Out, Reply, Running, Unread, Verb,
};
pub use gateway::{Gateway, OpenError};
pub use upstream::supervisor;
